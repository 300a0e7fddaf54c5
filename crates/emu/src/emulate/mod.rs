//! A whole scenario in real time: simulated hosts at some nodes, real ones at others. Simulated hosts speak real TCP.

mod documents;
mod echo;
mod fetch;
pub mod files;
pub mod http;
mod kept;
mod real;
pub mod results;
mod run;
mod services;
pub mod stranger;
mod talk;
mod world;

pub use kept::{Kept, NamedLink, Served};
pub use run::{EmulatedWorld, Finished, HostReport, Setup, run};
pub use world::{finish, is_done, world};
