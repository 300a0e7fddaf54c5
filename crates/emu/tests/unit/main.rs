//! Tests of the emulator with fake clocks and fake devices.

mod anything;
mod damage;
#[path = "../fakes/mod.rs"]
mod fakes;
#[path = "../fuzz/mod.rs"]
mod fuzz;
mod gateways;
#[path = "../../../wire/tests/hex/mod.rs"]
mod hex;
mod mark;
#[path = "../replay/mod.rs"]
mod replay;
mod rules;
