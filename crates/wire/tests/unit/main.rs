//! Real packets against another parser, parsers against arbitrary bytes, and marks against their verifier.

#[path = "../fuzz/mod.rs"]
mod fuzz;
#[path = "../hex/mod.rs"]
mod hex;
mod oracle;
mod robustness;
mod verifier;
