//! A whole scenario in real time: simulated hosts at some nodes, real ones at others. Simulated hosts speak real TCP.

mod fetch;
pub mod http;
mod inbox;
mod slab;
mod socket;
mod world;

pub use socket::{Heard, Identity, Socket, filling, refuse};
pub use world::{Audience, Datagrams, NOBODY, Outside, Reply, World};
