//! Any bytes as a packet and as a capture.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| catnip_wire::fuzz::parsers(data));
