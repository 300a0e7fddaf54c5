//! The network emulator: the data path of the simulator, driven by the wall clock, with devices of the kernel at its
//! edges.

pub mod address;
pub mod buffers;
pub mod capture;
pub mod certificate;
mod chunks;
pub mod classify;
pub mod clock;
pub mod control;
pub mod counts;
pub mod emulate;
pub mod ethernet;
pub mod frames;
pub mod gateways;
pub mod histogram;
mod layout;
pub mod link;
pub mod log;
pub mod mark;
pub mod monitor;
mod names;
mod namespace;
mod processes;
pub mod report;
pub mod router;
pub mod segment;
pub mod socket;
pub mod sys;
pub mod timing;
pub mod user;
mod way_out;
