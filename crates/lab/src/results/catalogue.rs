//! All tables of results, and all kinds of transfers in them.

use crate::results::activities::{ActivityKind, ActivityRow};
use crate::results::rows::{
    BurstRow, ConnectionRow, ConnectionSample, DatagramRow, EventRow, GroupRow, LinkSample, PortRow, Row,
    RunRow, TableName, TransferRow, Unit,
};
use crate::traffic::activity_kinds;
use catnip_base::ParseError;
use catnip_base::notation::did_you_mean;
use catnip_sim::app::{EchoRecord, FetchRecord, LoadRecord, ObjectRecord, PageRecord};
use std::str::FromStr;

impl TableName {
    /// Table with one row per run.
    pub const RUNS: Self = RunRow::TABLE;
    /// Table with one row per traffic group.
    pub const GROUPS: Self = GroupRow::TABLE;
    /// Table with one row per page, keystroke or connection that a user waits for.
    pub const TRANSFERS: Self = TransferRow::TABLE;
    /// Table with one row per page.
    pub const PAGES: Self = ActivityRow::<PageRecord>::TABLE;
    /// Table with one row per object of a page.
    pub const OBJECTS: Self = ActivityRow::<ObjectRecord>::TABLE;
    /// Table with one row per load of a page of a recorded site.
    pub const LOADS: Self = ActivityRow::<LoadRecord>::TABLE;
    /// Table with one row per object of a recorded site.
    pub const FETCHES: Self = ActivityRow::<FetchRecord>::TABLE;
    /// Table with one row per keystroke.
    pub const ECHOES: Self = ActivityRow::<EchoRecord>::TABLE;
    /// Table with one row per TCP connection.
    pub const CONNECTIONS: Self = ConnectionRow::TABLE;
    /// Table with one row per direction of a link.
    pub const PORTS: Self = PortRow::TABLE;
    /// Table with one row per direction of a link and interval.
    pub const LINK_SERIES: Self = LinkSample::TABLE;
    /// Table with one row per open connection and interval.
    pub const CONNECTION_SERIES: Self = ConnectionSample::TABLE;
    /// Table with one row per source of background traffic.
    pub const DATAGRAMS: Self = DatagramRow::TABLE;
    /// Table with one row per burst of a server.
    pub const BURSTS: Self = BurstRow::TABLE;
    /// Table with one row per data packet sent, ACK received, drop and timeout of a connection.
    pub const EVENTS: Self = EventRow::TABLE;

    /// Returns all tables, including the tables of activities that the kinds of traffic declare.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::RUNS, Self::GROUPS, Self::TRANSFERS];
        all.extend(activity_kinds().map(ActivityKind::table));
        all.extend([Self::CONNECTIONS, Self::PORTS, Self::LINK_SERIES, Self::CONNECTION_SERIES]);
        all.extend([Self::DATAGRAMS, Self::BURSTS, Self::EVENTS]);
        all
    }

    /// Returns the tables that are filled by default: all tables except those that must be requested, because they are large or need an
    /// interval.
    pub fn usual() -> Vec<Self> {
        let on_request = [Self::LINK_SERIES, Self::CONNECTION_SERIES, Self::BURSTS, Self::EVENTS];
        Self::all().into_iter().filter(|table| !on_request.contains(table)).collect()
    }
}

impl FromStr for TableName {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let all = Self::all();
        let names = || all.iter().map(|table| table.name());
        all.iter().find(|table| table.name() == text).copied().ok_or_else(|| {
            let (expected, hint) = (names().collect::<Vec<_>>().join(", "), did_you_mean(text, names()));
            ParseError::new(text, format!("one of {expected}{hint}"))
        })
    }
}

impl Unit {
    /// Returns all kinds of transfers: activities whose tables declare them as transfers, and connections.
    pub fn all() -> impl Iterator<Item = Self> {
        TableName::all().into_iter().filter_map(TableName::unit).chain([Self::TRANSFER, Self::FLOW])
    }

    /// Returns the kind of transfer with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|unit| unit.name == name)
    }
}
