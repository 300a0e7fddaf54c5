//! Emulation of a whole scenario in real time: simulated hosts at some nodes, external hosts at others. Simulated hosts use real TCP
//! packets.

pub mod files;
mod real;
mod recorder;
pub mod results;
mod run;
mod world;

pub use recorder::{NamedLink, RunRecorder, Served};
pub use run::{EmulatedWorld, Finished, HostReport, Setup, run};
pub use world::{finish, is_done, world};
