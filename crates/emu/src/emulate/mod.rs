//! A whole scenario in real time: simulated hosts at some nodes, real ones at others. Simulated hosts speak real TCP.

pub mod files;
mod real;
mod recorder;
pub mod results;
mod run;
mod world;

pub use recorder::{Kept, NamedLink, Served};
pub use run::{EmulatedWorld, Finished, HostReport, Setup, run};
pub use world::{finish, is_done, world};
