//! A simulated TCP endpoint that hears any segments.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    catnip_emu::emulate::fuzz::socket(data);
});
