//! A row per group of traffic, and per transfer that its users wait for.

use super::row::{CLIENT, GROUP, Row, TableName, seconds_from};
use crate::results::column::Columns;
use catnip_base::{Span, Time};

/// What users wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A page is complete.
    Page,
    /// What was typed has come back.
    Keystroke,
    /// A connection is over.
    Transfer,
    /// Nothing: their connections last as long as the run.
    Flow,
}

impl Unit {
    /// What several of them are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Page => "pages",
            Self::Keystroke => "keystrokes",
            Self::Transfer => "transfers",
            Self::Flow => "flows",
        }
    }
}

/// A group of traffic.
#[derive(Clone, Copy, Debug)]
pub struct GroupRow<'a> {
    /// Its name.
    pub group: &'a str,
    /// What its users wait for.
    pub unit: Unit,
    /// How long it was looked at.
    pub measured: Span,
    /// How many of these were begun in that time.
    pub started: u64,
    /// Of these, how many are over.
    pub finished: u64,
    /// Connections that were open in that time.
    pub connections: u64,
    /// Bytes that clients have got.
    pub delivered_bytes: u64,
    /// Data packets of servers, retransmissions included.
    pub sent: u64,
    /// Of these, retransmissions.
    pub retransmitted: u64,
    /// Expired timers of servers.
    pub timeouts: u64,
    /// Data packets of servers that the network dropped.
    pub dropped: u64,
    /// Round trips that servers have measured.
    pub rtt_samples: u64,
    /// All of these, added up.
    pub rtt_sum: Span,
    /// See the column.
    pub fairness: f64,
}

impl<'a> GroupRow<'a> {
    /// A group that has done nothing yet.
    pub(crate) fn nothing(group: &'a str, unit: Unit, measured: Span) -> Self {
        Self {
            group,
            unit,
            measured,
            started: 0,
            finished: 0,
            connections: 0,
            delivered_bytes: 0,
            sent: 0,
            retransmitted: 0,
            timeouts: 0,
            dropped: 0,
            rtt_samples: 0,
            rtt_sum: Span::ZERO,
            fairness: f64::NAN,
        }
    }
}

impl Row for GroupRow<'_> {
    const TABLE: TableName = TableName::Groups;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", "The traffic group.", |it| it.group.into());
        to.text(
            "kind",
            "What its users wait for: `pages`, `keystrokes`, `transfers`, which are connections, or nothing: `flows` never end.",
            |it| it.unit.name().into(),
        );
        to.float("measured_s", "How long it was looked at: the run without its warm-up.", |it| {
            it.measured.as_secs()
        });
        to.integer("started", "How many of these were begun in that time.", |it| it.started);
        to.integer("finished", "Of these, how many were over at the end of the run.", |it| it.finished);
        to.integer("connections", "Connections that were open in that time.", |it| it.connections);
        to.integer("delivered_bytes", "What clients got over them in that time.", |it| it.delivered_bytes);
        to.float("goodput_mbps", "The same by time; NaN without any.", |it| {
            8e-6 * it.delivered_bytes as f64 / it.measured.as_secs()
        });
        to.integer("sent", "Data packets that servers sent, retransmissions included.", |it| it.sent);
        to.integer("retransmitted", "Of these, retransmissions.", |it| it.retransmitted);
        to.integer("timeouts", "Retransmission timeouts of servers.", |it| it.timeouts);
        to.integer("dropped", "Data packets of servers that the network dropped.", |it| it.dropped);
        to.float("rtt_mean_s", "Mean of the round trips that servers have measured; NaN if none.", |it| {
            it.rtt_sum.as_secs() / it.rtt_samples as f64
        });
        to.integer("rtt_samples", "How many these are.", |it| it.rtt_samples);
        to.float(
            "fairness",
            "Jain's index of the bytes that users got; NaN of fewer than two, and if nobody got any.",
            |it| it.fairness,
        );
    }
}

/// A page, a keystroke or a connection for which somebody waits.
#[derive(Clone, Copy, Debug)]
pub struct TransferRow<'a> {
    /// Traffic group of the user.
    pub group: &'a str,
    /// What it is.
    pub unit: Unit,
    /// The user.
    pub client: u32,
    /// Its number, as in the table of its kind.
    pub number: u64,
    /// When it was begun.
    pub start: Time,
    /// When it was over; [`Time::NEVER`]: it is not.
    pub end: Time,
    /// From its start to its end, or to that of the run.
    pub waited: Span,
}

impl Row for TransferRow<'_> {
    const TABLE: TableName = TableName::Transfers;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |it| it.group.into());
        to.integer("client", CLIENT, |it| it.client.into());
        to.integer(
            "number",
            "Number of the page, the keystroke or the connection, as in the table of its kind.",
            |it| it.number,
        );
        to.float("start_s", "When it was begun.", |it| it.start.as_secs());
        to.float("time_s", "From then until it was over; NaN if it is not.", |it| {
            seconds_from(it.start, it.end)
        });
        to.float("waited_s", "The same, or how long it had lasted at the end of the run.", |it| {
            it.waited.as_secs()
        });
    }
}
