//! Declarations of the tables of results: the source of the rows and, for each column, its name, which ends in its unit, its description
//! and its value. The simulator and the emulator fill the same tables.

mod connections;
mod groups;
mod links;
mod packets;
mod row;
mod run;
mod users;

pub use connections::{BurstRow, ConnectionRow, ConnectionSample};
pub use groups::{GroupRow, TransferRow, Unit};
pub use links::{LinkSample, PortRow};
pub use packets::{DatagramRow, EventRow};
pub use row::{Row, Run, TableName};
pub use run::{RealTime, RunRow};
pub use users::{EchoRow, ObjectRow, PageRow};

use crate::results::column::{Heading, Headings};

impl TableName {
    /// Returns the headings of the columns, in order.
    pub fn headings(self) -> Vec<Heading> {
        match self {
            Self::Runs => headings::<RunRow>(),
            Self::Groups => headings::<GroupRow<'_>>(),
            Self::Transfers => headings::<TransferRow<'_>>(),
            Self::Pages => headings::<PageRow<'_>>(),
            Self::Objects => headings::<ObjectRow<'_>>(),
            Self::Connections => headings::<ConnectionRow<'_>>(),
            Self::Echoes => headings::<EchoRow<'_>>(),
            Self::Ports => headings::<PortRow<'_>>(),
            Self::LinkSeries => headings::<LinkSample<'_>>(),
            Self::ConnectionSeries => headings::<ConnectionSample<'_>>(),
            Self::Datagrams => headings::<DatagramRow<'_>>(),
            Self::Bursts => headings::<BurstRow<'_>>(),
            Self::Events => headings::<EventRow>(),
        }
    }
}

fn headings<R: Row>() -> Vec<Heading> {
    let mut headings = Headings::default();
    Run::columns(&mut headings);
    R::columns(&mut headings);
    headings.0
}
