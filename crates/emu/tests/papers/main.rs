//! Tests of whole scenarios in the emulator's world.

#[path = "../../../lab/tests/brief/mod.rs"]
mod brief;
#[path = "../results/mod.rs"]
mod results;
mod same;
#[path = "../../../lab/tests/scenarios/mod.rs"]
mod scenarios;
