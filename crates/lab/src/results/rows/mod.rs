//! Declarations of the tables of results. Each table has a type from which its rows are made, and declares the name (which ends in the
//! unit), the description and the value of each column. The simulator and the emulator fill the same tables.

mod connections;
mod groups;
mod links;
mod packets;
mod row;
mod run;
mod unit;
mod users;

pub use connections::{BurstRow, ConnectionRow, ConnectionSample};
pub use groups::{GroupRow, TransferRow};
pub use links::{LinkSample, PortRow};
pub use packets::{DatagramRow, EventRow};
pub(crate) use row::{CLIENT, GROUP};
pub use row::{Row, Run, TableName};
pub use run::{EmulatorStats, RunRow};
pub use unit::Unit;
