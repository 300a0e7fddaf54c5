//! Tests of queues, ports and networks of ports, and comparison of the queues with the queues of ns-3 and of Linux, and of differentiated
//! services with a model.

mod changes;
mod detours;
mod diffserv;
mod fabric;
mod kinds;
mod ns3;
mod port;
mod records;
mod trains;
