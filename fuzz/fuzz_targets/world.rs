//! Fuzz target: a whole world that receives arbitrary packets from its external host.
#![no_main]

use catnip_lab::Scenario;
use std::path::Path;
use std::sync::LazyLock;

#[path = "../../crates/emu/tests/fuzz/mod.rs"]
mod fuzz;

static SCENARIO: LazyLock<Scenario> = LazyLock::new(|| {
    let text = include_str!("../../crates/emu/tests/fuzz/external_host.toml");
    Scenario::parse(Path::new("external_host.toml"), text).expect("it is a scenario")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz::world(SCENARIO.emulation("default").expect("it has an external host"), data);
});
