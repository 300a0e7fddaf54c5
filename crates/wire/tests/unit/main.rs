//! Real packets against a reader of others, against anything, and marks against their verifier.

#[path = "../fuzz/mod.rs"]
mod fuzz;
#[path = "../hex/mod.rs"]
mod hex;
mod oracle;
mod robustness;
mod verifier;
