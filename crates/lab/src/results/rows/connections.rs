//! A row per connection, per interval of one, and per burst.

use super::row::{CLIENT, GROUP, Row, TableName, reply, seconds_from};
use crate::results::bursts::Burst;
use crate::results::column::Columns;
use catnip_base::{Span, Time};
use catnip_sim::record::{ConnectionRecord, Reply};

/// A connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRow<'a> {
    /// Traffic group of its client.
    pub group: &'a str,
    /// What is to be said of it at its end.
    pub record: ConnectionRecord,
    /// What went over it, if one of its hosts is real.
    pub reply: Option<Reply>,
    /// Bytes of the server that have arrived.
    pub delivered: u64,
}

impl Row for ConnectionRow<'_> {
    const TABLE: TableName = TableName::Connections;
    fn columns(to: &mut impl Columns<Self>) {
        to.integer("connection", "Number of the connection, in order of opening.", |it| it.record.connection);
        to.text("group", GROUP, |it| it.group.into());
        to.integer("client", CLIENT, |it| it.record.app.into());
        to.integer("bytes", "Size of what it carried, as the scenario says.", |it| it.record.bytes);
        to.float("start_s", "When it was opened.", |it| it.record.opened.as_secs());
        to.integer("delivered_bytes", "Of these, how many the client has got.", |it| it.delivered);
        to.float("received_s", "When the client had the last byte; NaN if it has not.", |it| {
            seconds_from(Time::ZERO, it.record.received)
        });
        to.float(
            "acked_s",
            "When the server had the ACK of the last byte and all was over; NaN if it is not.",
            |it| seconds_from(Time::ZERO, it.record.acked),
        );
        to.integer("sent", "Data packets that the server sent, retransmissions included.", |it| {
            it.record.sent.into()
        });
        to.integer("sent_high", "Of these, marked HIGH.", |it| it.record.sent_high.into());
        to.integer("retransmitted", "Of these, retransmissions.", |it| it.record.retransmitted.into());
        to.integer("timeouts", "Retransmission timeouts of the server.", |it| it.record.timeouts.into());
        to.integer("fast_retransmits", "Fast retransmits of the server.", |it| {
            it.record.fast_retransmits.into()
        });
        to.integer("probes", "Tail loss probes of the server (RFC 8985).", |it| it.record.probes.into());
        to.integer("dropped", "Data packets of the server that the network dropped.", |it| {
            it.record.dropped.into()
        });
        to.integer(
            "syn_timeouts",
            "Segments of the handshake that had to be sent again, of both ends.",
            |it| it.record.syn_timeouts.into(),
        );
        to.float("rtt_mean_s", "Mean of the round trips that the server has measured; NaN if none.", |it| {
            it.record.rtt_sum.as_secs() / f64::from(it.record.rtt_samples)
        });
        to.integer("rtt_samples", "How many these are.", |it| it.record.rtt_samples.into());
        reply(to, |it| (it.delivered, it.record.acked < Time::NEVER), |it| it.reply);
    }
}

/// What a connection did in an interval.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionSample<'a> {
    /// Traffic group of its client.
    pub group: &'a str,
    /// The end of the interval, and so long before it began.
    pub at: Time,
    /// How long it lasted.
    pub interval: Span,
    /// What is to be said of it at the end.
    pub record: ConnectionRecord,
    /// What would have been said at the beginning.
    pub before: ConnectionRecord,
    /// Bytes that came to the client in it.
    pub delivered: u64,
    /// The server's congestion window and slow-start threshold at the end, if it is open.
    pub window: Option<(u64, Option<u64>)>,
}

impl Row for ConnectionSample<'_> {
    const TABLE: TableName = TableName::ConnectionSeries;
    fn columns(to: &mut impl Columns<Self>) {
        to.float("time_s", "When the interval ended.", |it| it.at.as_secs());
        to.integer("connection", "Number of the connection, in order of opening.", |it| it.record.connection);
        to.text("group", GROUP, |it| it.group.into());
        to.integer("client", CLIENT, |it| it.record.app.into());
        to.float("cwnd_bytes", "The server's congestion window then; NaN if the connection is over.", |it| {
            it.window.map_or(f64::NAN, |(cwnd, _)| cwnd as f64)
        });
        to.float("ssthresh_bytes", "Its slow-start threshold; NaN before there is one.", |it| {
            it.window.and_then(|(_, ssthresh)| ssthresh).map_or(f64::NAN, |bytes| bytes as f64)
        });
        to.integer("delivered_bytes", "What came to the client in the interval.", |it| it.delivered);
        to.float("goodput_mbps", "The same by time.", |it| {
            8e-6 * it.delivered as f64 / it.interval.as_secs()
        });
        to.integer("sent", "Data packets that the server sent in the interval.", |it| {
            (it.record.sent - it.before.sent).into()
        });
        to.integer("retransmitted", "Of these, retransmissions.", |it| {
            (it.record.retransmitted - it.before.retransmitted).into()
        });
        to.float(
            "rtt_mean_s",
            "Mean of the round trips that it has measured in the interval; NaN if none.",
            |it| {
                let samples = it.record.rtt_samples - it.before.rtt_samples;
                it.record.rtt_sum.saturating_sub(it.before.rtt_sum).as_secs() / f64::from(samples)
            },
        );
    }
}

/// A burst.
#[derive(Clone, Copy, Debug)]
pub struct BurstRow<'a> {
    /// Traffic group of its connection.
    pub group: &'a str,
    /// What was seen of it.
    pub burst: &'a Burst,
}

impl Row for BurstRow<'_> {
    const TABLE: TableName = TableName::Bursts;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |it| it.group.into());
        to.integer("connection", "Number of the connection, in order of opening.", |it| it.burst.connection);
        to.integer("number", "Number of the burst on its connection, from 0.", |it| it.burst.number.into());
        to.integer(
            "first_byte",
            "Its first byte, counted from the first that the server sends over the connection; with the connection, the name of \
             the same burst under another algorithm.",
            |it| it.burst.first_byte,
        );
        to.integer("bytes", "Its size.", |it| it.burst.bytes);
        to.integer("delivered_bytes", "Of these, how many are acknowledged.", |it| it.burst.delivered);
        to.float(
            "idle_s",
            "From the last ACK of the burst before, or from the opening of the connection, to its first segment.",
            |it| it.burst.idle.as_secs(),
        );
        to.float("start_s", "When its first segment left.", |it| it.burst.start.as_secs());
        to.float("time_s", "From then to its last ACK; NaN if that has not come.", |it| {
            seconds_from(it.burst.start, it.burst.end)
        });
        to.integer("sent", "Data packets sent, retransmissions included.", |it| it.burst.sent.into());
        to.integer("retransmitted", "Of these, retransmissions.", |it| it.burst.retransmitted.into());
        to.integer("dropped", "Of these, dropped by the network.", |it| it.burst.dropped.into());
        to.integer("timeouts", "Retransmission timeouts of the server.", |it| it.burst.timeouts.into());
    }
}
