//! Emulation of a whole scenario in real time: simulated hosts at some nodes, external hosts at others. Simulated hosts use real TCP
//! packets.

mod external_hosts;
pub mod files;
mod recorder;
pub mod results;
mod run;
mod world;

pub use recorder::{DeviceStats, NamedLink, RunRecorder};
pub use run::{EmulatedWorld, Finished, HostReport, Setup, run};
pub use world::{finish, is_done, world};
