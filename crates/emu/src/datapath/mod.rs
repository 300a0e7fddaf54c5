//! Path of a packet: from a device through classification into the network, and out again.

pub mod buffers;
pub mod classify;
pub mod ethernet;
pub mod frame_end;
pub mod frames;
pub mod gateways;
pub mod segment;
