//! A whole scenario in real time: simulated hosts at some nodes, real ones at others. Simulated hosts speak real TCP.

mod fetch;
#[doc(hidden)]
pub mod fuzz;
pub mod http;
mod inbox;
mod real;
pub mod results;
mod run;
mod slab;
mod socket;
mod watch;
mod world;

pub use run::{Finished, HostReport, Setup, run};
pub use socket::{Heard, Identity, Socket, filling, refuse};
pub use watch::{LinkWatch, Watch};
pub use world::{Audience, Datagrams, Delivery, NOBODY, Outside, Reply, World};
