/work/main/examples/custom-policy/target/debug/deps/catnip_tcp-7ec7271696499583.d: /work/main/crates/tcp/src/lib.rs /work/main/crates/tcp/src/config.rs /work/main/crates/tcp/src/control/mod.rs /work/main/crates/tcp/src/control/eca.rs /work/main/crates/tcp/src/control/reno.rs /work/main/crates/tcp/src/endpoint.rs /work/main/crates/tcp/src/pacing/mod.rs /work/main/crates/tcp/src/pacing/rbplw.rs /work/main/crates/tcp/src/profile.rs /work/main/crates/tcp/src/receiver.rs /work/main/crates/tcp/src/recovery/mod.rs /work/main/crates/tcp/src/recovery/newreno.rs /work/main/crates/tcp/src/recovery/reno.rs /work/main/crates/tcp/src/recovery/sack.rs /work/main/crates/tcp/src/recovery/tahoe.rs /work/main/crates/tcp/src/rto.rs /work/main/crates/tcp/src/scoreboard.rs /work/main/crates/tcp/src/segment.rs /work/main/crates/tcp/src/sender.rs

/work/main/examples/custom-policy/target/debug/deps/libcatnip_tcp-7ec7271696499583.rmeta: /work/main/crates/tcp/src/lib.rs /work/main/crates/tcp/src/config.rs /work/main/crates/tcp/src/control/mod.rs /work/main/crates/tcp/src/control/eca.rs /work/main/crates/tcp/src/control/reno.rs /work/main/crates/tcp/src/endpoint.rs /work/main/crates/tcp/src/pacing/mod.rs /work/main/crates/tcp/src/pacing/rbplw.rs /work/main/crates/tcp/src/profile.rs /work/main/crates/tcp/src/receiver.rs /work/main/crates/tcp/src/recovery/mod.rs /work/main/crates/tcp/src/recovery/newreno.rs /work/main/crates/tcp/src/recovery/reno.rs /work/main/crates/tcp/src/recovery/sack.rs /work/main/crates/tcp/src/recovery/tahoe.rs /work/main/crates/tcp/src/rto.rs /work/main/crates/tcp/src/scoreboard.rs /work/main/crates/tcp/src/segment.rs /work/main/crates/tcp/src/sender.rs

/work/main/crates/tcp/src/lib.rs:
/work/main/crates/tcp/src/config.rs:
/work/main/crates/tcp/src/control/mod.rs:
/work/main/crates/tcp/src/control/eca.rs:
/work/main/crates/tcp/src/control/reno.rs:
/work/main/crates/tcp/src/endpoint.rs:
/work/main/crates/tcp/src/pacing/mod.rs:
/work/main/crates/tcp/src/pacing/rbplw.rs:
/work/main/crates/tcp/src/profile.rs:
/work/main/crates/tcp/src/receiver.rs:
/work/main/crates/tcp/src/recovery/mod.rs:
/work/main/crates/tcp/src/recovery/newreno.rs:
/work/main/crates/tcp/src/recovery/reno.rs:
/work/main/crates/tcp/src/recovery/sack.rs:
/work/main/crates/tcp/src/recovery/tahoe.rs:
/work/main/crates/tcp/src/rto.rs:
/work/main/crates/tcp/src/scoreboard.rs:
/work/main/crates/tcp/src/segment.rs:
/work/main/crates/tcp/src/sender.rs:
