//! Tests of packets with another parser, of parsers with arbitrary bytes, and of marks with the verifier.

#[path = "../fuzz/mod.rs"]
mod fuzz;
#[path = "../hex/mod.rs"]
mod hex;
mod oracle;
mod robustness;
mod verifier;
