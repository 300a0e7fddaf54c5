//! Connections between a simulated and an external host. The engine has the connections; this module has their addresses, their application
//! protocols, and the listeners of simulated servers.

pub mod documents;
mod echo;
pub mod fetch;
mod hosts;
pub mod http;
mod listener;
pub mod observed_sender;
mod peers;
mod services;
pub mod session;

pub use peers::ExternalPeers;
