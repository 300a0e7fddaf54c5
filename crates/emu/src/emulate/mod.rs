//! A whole scenario in real time: simulated hosts at some nodes, real ones at others. Simulated hosts speak real TCP.

mod documents;
mod fetch;
pub mod files;
#[doc(hidden)]
pub mod fuzz;
pub mod http;
mod inbox;
mod kept;
mod real;
pub mod results;
mod run;
mod socket;
pub(crate) mod stranger;
mod world;

pub use kept::{Kept, NamedLink, Served};
pub use run::{EmulatedWorld, Finished, HostReport, Setup, run};
pub use socket::{Heard, Identity, Socket, filling, refuse};
pub use world::{finish, is_done, world};
