//! Fuzz target: arbitrary bytes, parsed as a packet and as a capture.
#![no_main]

#[path = "../../crates/wire/tests/fuzz/mod.rs"]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::parsers(data));
