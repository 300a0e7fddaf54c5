//! Tests of queues, ports and networks of ports, and comparison of the queues with the queues of ns-3.

mod changes;
mod detours;
mod fabric;
mod kinds;
mod ns3;
mod port;
mod trains;
