//! Laws of queues, ports and networks of ports, and queues beside those of ns-3.

mod changes;
mod detours;
mod fabric;
mod kinds;
mod ns3;
mod port;
