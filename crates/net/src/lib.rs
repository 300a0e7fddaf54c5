//! Data path shared by the simulator and the emulator: packets, queues, markers, shapers, loss, jitter, ports, and networks of ports. Time
//! is an argument of every operation, and no operation allocates memory per packet once buffers have grown.

#![forbid(unsafe_code)]

mod arq;
mod bucket;
mod calendar;
mod delay;
mod fabric;
mod hold_queue;
pub mod jitter;
pub mod mark;
mod outage;
mod packet;
mod place;
mod port;
pub mod processing;
pub mod queue;
pub mod schedule;
pub mod shape;
pub mod stage;
mod topology;
mod trains;
mod wire;

pub use arq::{Arq, ArqSpec};
pub use bucket::{Bucket, Meter, Profile, Sla};
pub use calendar::Calendar;
pub use delay::DelaySpec;
pub use fabric::{Fabric, NetworkEvents, Out};
pub use hold_queue::Forwarding;
pub use outage::{OutageSpec, Outages};
pub use packet::{Backlog, DropReason, Dscp, Ecn, Packet, PacketEvents, Priority, Route};
pub use place::Place;
pub use port::{Next, Port, PortCounters, PortExtensions};
pub use topology::{LinkId, NodeId, PortId, PortSpec, Topology, TopologyError};
pub use trains::{Approach, CellLink, CellTrains};
pub use wire::{Key, References, WireSpec};
