//! A whole scenario in real time: simulated hosts at some nodes, real ones at others. Simulated hosts speak real TCP.

mod audience;
mod connection;
mod documents;
mod fetch;
#[doc(hidden)]
pub mod fuzz;
mod hosts;
pub mod http;
mod inbox;
mod real;
pub mod results;
mod run;
mod simulated;
mod slab;
mod socket;
mod stranger;
mod watch;
mod world;

pub use audience::{Audience, Datagrams, Delivery, Outside, Reply};
pub use connection::NOBODY;
pub use run::{Finished, HostReport, Setup, run};
pub use socket::{Heard, Identity, Socket, filling, refuse};
pub use watch::{LinkWatch, Watch};
pub use world::World;
