/work/main/examples/custom-policy/target/debug/deps/custom_policy-426f5e46843da194.d: src/main.rs src/drop_head.rs src/every.rs src/gentle.rs src/probe.rs

/work/main/examples/custom-policy/target/debug/deps/libcustom_policy-426f5e46843da194.rmeta: src/main.rs src/drop_head.rs src/every.rs src/gentle.rs src/probe.rs

src/main.rs:
src/drop_head.rs:
src/every.rs:
src/gentle.rs:
src/probe.rs:

# env-dep:CARGO_MANIFEST_DIR=/work/main/examples/custom-policy
