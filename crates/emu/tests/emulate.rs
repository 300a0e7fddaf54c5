//! Whole scenarios in the emulator's world: without real hosts it is the simulator, whatever the clock does; with real
//! ones, simulated hosts speak to programs of this machine. Those tests need TUN devices and namespaces; where there are
//! none, they say so.

#[path = "emulate/anything.rs"]
mod anything;
#[path = "../../lab/tests/brief/mod.rs"]
mod brief;
mod fuzz;
#[path = "../../wire/tests/hex/mod.rs"]
mod hex;
#[path = "emulate/lab.rs"]
mod lab;
#[path = "emulate/life.rs"]
mod life;
#[path = "emulate/programs.rs"]
mod programs;
#[path = "emulate/rules.rs"]
mod rules;
#[path = "emulate/same.rs"]
mod same;
#[path = "../../lab/tests/scenarios/mod.rs"]
mod scenarios;
mod skip;
