/work/main/examples/custom-policy/target/debug/deps/catnip_lab-b5dffa41fa4573eb.d: /work/main/crates/lab/src/lib.rs /work/main/crates/lab/src/column.rs /work/main/crates/lab/src/error.rs /work/main/crates/lab/src/fingerprint.rs /work/main/crates/lab/src/kinds.rs /work/main/crates/lab/src/network.rs /work/main/crates/lab/src/plan.rs /work/main/crates/lab/src/real.rs /work/main/crates/lab/src/records.rs /work/main/crates/lab/src/rows.rs /work/main/crates/lab/src/run.rs /work/main/crates/lab/src/scenario.rs /work/main/crates/lab/src/single_flow.rs /work/main/crates/lab/src/table.rs /work/main/crates/lab/src/tcp.rs /work/main/crates/lab/src/text.rs /work/main/crates/lab/src/trace.rs /work/main/crates/lab/src/traffic/mod.rs /work/main/crates/lab/src/traffic/background.rs /work/main/crates/lab/src/traffic/bulk.rs /work/main/crates/lab/src/traffic/web.rs

/work/main/examples/custom-policy/target/debug/deps/libcatnip_lab-b5dffa41fa4573eb.rmeta: /work/main/crates/lab/src/lib.rs /work/main/crates/lab/src/column.rs /work/main/crates/lab/src/error.rs /work/main/crates/lab/src/fingerprint.rs /work/main/crates/lab/src/kinds.rs /work/main/crates/lab/src/network.rs /work/main/crates/lab/src/plan.rs /work/main/crates/lab/src/real.rs /work/main/crates/lab/src/records.rs /work/main/crates/lab/src/rows.rs /work/main/crates/lab/src/run.rs /work/main/crates/lab/src/scenario.rs /work/main/crates/lab/src/single_flow.rs /work/main/crates/lab/src/table.rs /work/main/crates/lab/src/tcp.rs /work/main/crates/lab/src/text.rs /work/main/crates/lab/src/trace.rs /work/main/crates/lab/src/traffic/mod.rs /work/main/crates/lab/src/traffic/background.rs /work/main/crates/lab/src/traffic/bulk.rs /work/main/crates/lab/src/traffic/web.rs

/work/main/crates/lab/src/lib.rs:
/work/main/crates/lab/src/column.rs:
/work/main/crates/lab/src/error.rs:
/work/main/crates/lab/src/fingerprint.rs:
/work/main/crates/lab/src/kinds.rs:
/work/main/crates/lab/src/network.rs:
/work/main/crates/lab/src/plan.rs:
/work/main/crates/lab/src/real.rs:
/work/main/crates/lab/src/records.rs:
/work/main/crates/lab/src/rows.rs:
/work/main/crates/lab/src/run.rs:
/work/main/crates/lab/src/scenario.rs:
/work/main/crates/lab/src/single_flow.rs:
/work/main/crates/lab/src/table.rs:
/work/main/crates/lab/src/tcp.rs:
/work/main/crates/lab/src/text.rs:
/work/main/crates/lab/src/trace.rs:
/work/main/crates/lab/src/traffic/mod.rs:
/work/main/crates/lab/src/traffic/background.rs:
/work/main/crates/lab/src/traffic/bulk.rs:
/work/main/crates/lab/src/traffic/web.rs:
