/work/main/examples/custom-policy/target/debug/deps/serde_spanned-3e6da1cecc4b5303.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_spanned-1.1.3/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_spanned-1.1.3/src/spanned.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_spanned-1.1.3/src/de.rs

/work/main/examples/custom-policy/target/debug/deps/libserde_spanned-3e6da1cecc4b5303.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_spanned-1.1.3/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_spanned-1.1.3/src/spanned.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_spanned-1.1.3/src/de.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_spanned-1.1.3/src/lib.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_spanned-1.1.3/src/spanned.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_spanned-1.1.3/src/de.rs:
