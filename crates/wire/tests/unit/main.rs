//! Comparison of packets with the library etherparse, tests of the parsers with arbitrary bytes, and tests of the capture verifier with
//! packets that the simulator's marker has marked.

#[path = "../fuzz/mod.rs"]
mod fuzz;
#[path = "../hex/mod.rs"]
mod hex;
mod oracle;
mod robustness;
mod verifier;
