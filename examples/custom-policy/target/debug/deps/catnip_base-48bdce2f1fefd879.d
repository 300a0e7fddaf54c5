/work/main/examples/custom-policy/target/debug/deps/catnip_base-48bdce2f1fefd879.d: /work/main/crates/base/src/lib.rs /work/main/crates/base/src/context.rs /work/main/crates/base/src/distribution.rs /work/main/crates/base/src/notation.rs /work/main/crates/base/src/rng.rs /work/main/crates/base/src/slab.rs /work/main/crates/base/src/time.rs /work/main/crates/base/src/units.rs

/work/main/examples/custom-policy/target/debug/deps/libcatnip_base-48bdce2f1fefd879.rmeta: /work/main/crates/base/src/lib.rs /work/main/crates/base/src/context.rs /work/main/crates/base/src/distribution.rs /work/main/crates/base/src/notation.rs /work/main/crates/base/src/rng.rs /work/main/crates/base/src/slab.rs /work/main/crates/base/src/time.rs /work/main/crates/base/src/units.rs

/work/main/crates/base/src/lib.rs:
/work/main/crates/base/src/context.rs:
/work/main/crates/base/src/distribution.rs:
/work/main/crates/base/src/notation.rs:
/work/main/crates/base/src/rng.rs:
/work/main/crates/base/src/slab.rs:
/work/main/crates/base/src/time.rs:
/work/main/crates/base/src/units.rs:
