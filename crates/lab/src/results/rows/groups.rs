//! Rows of traffic groups, and of the transfers that their users wait for.

use super::Unit;
use super::row::{CLIENT, GROUP, Row, seconds_from};
use crate::results::column::Columns;
use catnip_base::{Span, Time};
use std::ops::Range;

/// Row of a traffic group.
#[derive(Clone, Copy, Debug)]
pub struct GroupRow<'a> {
    /// Name of the group.
    pub group: &'a str,
    /// Kind of transfer that the users wait for.
    pub unit: Unit,
    /// Length of the measurement: the run without its warm-up.
    pub measured: Span,
    /// Number of transfers started after the warm-up.
    pub started: u64,
    /// Number of these transfers that have finished.
    pub finished: u64,
    /// Number of connections that were open after the warm-up.
    pub connections: u64,
    /// Number of bytes that arrived at clients after the warm-up.
    pub delivered_bytes: u64,
    /// Number of data packets sent by servers, retransmissions included.
    pub sent: u64,
    /// Number of data packets retransmitted by servers.
    pub retransmitted: u64,
    /// Number of expiries of the retransmission timers of servers.
    pub timeouts: u64,
    /// Number of data packets of servers that the network dropped.
    pub dropped: u64,
    /// Number of round-trip times measured by servers.
    pub rtt_samples: u64,
    /// Sum of the round-trip times measured by servers.
    pub rtt_sum: Span,
    /// Jain's index of the bytes that users received; NaN if it is undefined.
    pub fairness: f64,
}

impl<'a> GroupRow<'a> {
    /// Returns the row of a group without any activity.
    pub(crate) fn empty(group: &'a str, unit: Unit, measured: Span) -> Self {
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
    const NAME: &'static str = "groups";
    const ABOUT: &'static str = "One row per traffic group: data received by its users, and packets and retransmissions of its connections, from the end of the warm-up to the end of the run.";
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", "Name of the traffic group.", |it| it.group.into());
        to.text(
            "kind",
            "Kind of transfer that its users wait for: `pages`, `keystrokes`, `segments`, `transfers` (connections), or `flows`, which never end.",
            |it| it.unit.name.into(),
        );
        to.float("measured_s", "Length of the measurement: the run without its warm-up.", |it| {
            it.measured.as_secs()
        });
        to.integer("started", "Number of transfers started after the warm-up.", |it| it.started);
        to.integer("finished", "Number of started transfers that were over at the end of the run.", |it| {
            it.finished
        });
        to.integer("connections", "Connections that were open after the warm-up.", |it| it.connections);
        to.integer("delivered_bytes", "Bytes that arrived at clients after the warm-up.", |it| {
            it.delivered_bytes
        });
        to.float(
            "goodput_mbps",
            "Goodput: `delivered_bytes` divided by `measured_s`; NaN if that is 0.",
            |it| 8e-6 * it.delivered_bytes as f64 / it.measured.as_secs(),
        );
        to.integer("sent", "Data packets sent by servers, retransmissions included.", |it| it.sent);
        to.integer("retransmitted", "Data packets retransmitted by servers.", |it| it.retransmitted);
        to.integer("timeouts", "Retransmission timeouts of servers.", |it| it.timeouts);
        to.integer("dropped", "Data packets of servers dropped by the network.", |it| it.dropped);
        to.float("rtt_mean_s", "Mean of the round-trip times measured by servers; NaN if none.", |it| {
            it.rtt_sum.as_secs() / it.rtt_samples as f64
        });
        to.integer("rtt_samples", "Number of round-trip times measured by servers.", |it| it.rtt_samples);
        to.float(
            "fairness",
            "Jain's index of the bytes that users received; NaN for fewer than two users, and if no bytes arrived.",
            |it| it.fairness,
        );
    }
}

/// Row of a page, a keystroke or a connection that a user waits for.
#[derive(Clone, Copy, Debug)]
pub struct TransferRow<'a> {
    /// Traffic group of the user.
    pub group: &'a str,
    /// Kind of the transfer.
    pub unit: Unit,
    /// Number of the user, among all users of the run.
    pub client: u32,
    /// Number of the transfer, as in the table of pages, keystrokes or connections.
    pub number: u64,
    /// Time at which the transfer started.
    pub start: Time,
    /// Time at which the transfer finished, or [`Time::NEVER`] if it has not finished.
    pub end: Time,
    /// Time from the start of the transfer to its end, or to the end of the run if the transfer has not finished.
    pub waited: Span,
}

impl<'a> TransferRow<'a> {
    /// Returns the row of a transfer of a user in a run that ends at `end_of_run`. The end of `period` is [`Time::NEVER`] if the transfer
    /// has not finished.
    pub(crate) fn new(
        unit: Unit,
        group: &'a str,
        client: u32,
        number: u64,
        period: Range<Time>,
        end_of_run: Time,
    ) -> Self {
        let Range { start, end } = period;
        let until = if end == Time::NEVER { end_of_run } else { end };
        Self { group, unit, client, number, start, end, waited: until.since(start) }
    }
}

impl Row for TransferRow<'_> {
    const NAME: &'static str = "transfers";
    const ABOUT: &'static str = "One row per transfer started after the warm-up: a page, a keystroke or a connection, depending on the kind of the traffic group.";
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |it| it.group.into());
        to.integer("client", CLIENT, |it| it.client.into());
        to.integer(
            "number",
            "Number of the page, the keystroke or the connection, as in the table of its kind.",
            |it| it.number,
        );
        to.float("start_s", "Time at which the transfer started.", |it| it.start.as_secs());
        to.float("time_s", "Duration of the transfer; NaN if it is not over.", |it| {
            seconds_from(it.start, it.end)
        });
        to.float("waited_s", "Duration of the transfer, or its age at the end of the run.", |it| {
            it.waited.as_secs()
        });
    }
}
