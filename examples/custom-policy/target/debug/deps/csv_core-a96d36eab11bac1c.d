/work/main/examples/custom-policy/target/debug/deps/csv_core-a96d36eab11bac1c.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/csv-core-0.1.13/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/csv-core-0.1.13/src/reader.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/csv-core-0.1.13/src/writer.rs

/work/main/examples/custom-policy/target/debug/deps/libcsv_core-a96d36eab11bac1c.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/csv-core-0.1.13/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/csv-core-0.1.13/src/reader.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/csv-core-0.1.13/src/writer.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/csv-core-0.1.13/src/lib.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/csv-core-0.1.13/src/reader.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/csv-core-0.1.13/src/writer.rs:
