/work/main/examples/custom-policy/target/debug/deps/catnip_sim-365ac79d61c6346b.d: /work/main/crates/sim/src/lib.rs /work/main/crates/sim/src/app/mod.rs /work/main/crates/sim/src/app/background.rs /work/main/crates/sim/src/app/bulk.rs /work/main/crates/sim/src/app/pages.rs /work/main/crates/sim/src/app/web.rs /work/main/crates/sim/src/connection.rs /work/main/crates/sim/src/datagram.rs /work/main/crates/sim/src/medium.rs /work/main/crates/sim/src/medium/numbers.rs /work/main/crates/sim/src/record.rs /work/main/crates/sim/src/transfer.rs /work/main/crates/sim/src/watch.rs /work/main/crates/sim/src/world.rs

/work/main/examples/custom-policy/target/debug/deps/libcatnip_sim-365ac79d61c6346b.rmeta: /work/main/crates/sim/src/lib.rs /work/main/crates/sim/src/app/mod.rs /work/main/crates/sim/src/app/background.rs /work/main/crates/sim/src/app/bulk.rs /work/main/crates/sim/src/app/pages.rs /work/main/crates/sim/src/app/web.rs /work/main/crates/sim/src/connection.rs /work/main/crates/sim/src/datagram.rs /work/main/crates/sim/src/medium.rs /work/main/crates/sim/src/medium/numbers.rs /work/main/crates/sim/src/record.rs /work/main/crates/sim/src/transfer.rs /work/main/crates/sim/src/watch.rs /work/main/crates/sim/src/world.rs

/work/main/crates/sim/src/lib.rs:
/work/main/crates/sim/src/app/mod.rs:
/work/main/crates/sim/src/app/background.rs:
/work/main/crates/sim/src/app/bulk.rs:
/work/main/crates/sim/src/app/pages.rs:
/work/main/crates/sim/src/app/web.rs:
/work/main/crates/sim/src/connection.rs:
/work/main/crates/sim/src/datagram.rs:
/work/main/crates/sim/src/medium.rs:
/work/main/crates/sim/src/medium/numbers.rs:
/work/main/crates/sim/src/record.rs:
/work/main/crates/sim/src/transfer.rs:
/work/main/crates/sim/src/watch.rs:
/work/main/crates/sim/src/world.rs:
