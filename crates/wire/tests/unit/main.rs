//! Comparison of packets with another library, tests of the parsers with arbitrary bytes, and tests of the verifier with the simulated
//! marker.

#[path = "../fuzz/mod.rs"]
mod fuzz;
#[path = "../hex/mod.rs"]
mod hex;
mod oracle;
mod robustness;
mod verifier;
