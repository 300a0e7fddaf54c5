//! Fuzz target: a simulated TCP endpoint that receives arbitrary segments.
#![no_main]

#[path = "../../crates/emu/tests/fuzz/mod.rs"]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz::socket(data);
});
