//! Rows of connections, of intervals of connections, and of bursts.

use super::row::{CLIENT, GROUP, Row, reply, seconds_from};
use crate::results::bursts::Burst;
use crate::results::column::Columns;
use catnip_base::{Span, Time};
use catnip_sim::record::{ConnectionRecord, Reply};

/// Row of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRow<'a> {
    /// Traffic group of the client.
    pub group: &'a str,
    /// Record of the connection at its end, or at the end of the run.
    pub record: ConnectionRecord,
    /// Response over the connection; `None` if both hosts are simulated.
    pub reply: Option<Reply>,
    /// Number of bytes from the server that have arrived at the client.
    pub delivered: u64,
}

impl Row for ConnectionRow<'_> {
    const NAME: &'static str = "connections";
    const ABOUT: &'static str = "One row per TCP connection: ended connections in the order in which they ended, followed by open ones.";
    fn columns(to: &mut impl Columns<Self>) {
        to.integer("connection", "Number of the connection, in order of opening.", |it| it.record.connection);
        to.text("group", GROUP, |it| it.group.into());
        to.integer("client", CLIENT, |it| it.record.app.into());
        to.integer("bytes", "Size of the documents of the server, as given by the scenario.", |it| {
            it.record.bytes
        });
        to.float("start_s", "Time at which the connection was opened.", |it| it.record.opened.as_secs());
        to.integer("delivered_bytes", "Bytes of the server that have arrived at the client.", |it| {
            it.delivered
        });
        to.float(
            "received_s",
            "Time at which the last byte arrived at the client; NaN if it has not.",
            |it| seconds_from(Time::ZERO, it.record.received),
        );
        to.float(
            "acked_s",
            "Time at which the server had the ACK of the last byte and the connection was over; NaN if it is not.",
            |it| seconds_from(Time::ZERO, it.record.acked),
        );
        to.integer("sent", "Data packets sent by the server, retransmissions included.", |it| {
            it.record.sent.into()
        });
        to.integer("sent_high", "Packets of the server marked HIGH.", |it| it.record.sent_high.into());
        to.integer("retransmitted", "Data packets retransmitted by the server.", |it| {
            it.record.retransmitted.into()
        });
        to.integer("timeouts", "Retransmission timeouts of the server.", |it| it.record.timeouts.into());
        to.integer("fast_retransmits", "Fast retransmits of the server.", |it| {
            it.record.fast_retransmits.into()
        });
        to.integer("probes", "Tail loss probes of the server (RFC 8985).", |it| it.record.probes.into());
        to.integer("dropped", "Data packets of the server dropped by the network.", |it| {
            it.record.dropped.into()
        });
        to.integer("syn_timeouts", "Retransmissions of handshake segments by both ends.", |it| {
            it.record.syn_timeouts.into()
        });
        to.float("rtt_mean_s", "Mean of the round-trip times measured by the server; NaN if none.", |it| {
            it.record.rtt_sum.as_secs() / f64::from(it.record.rtt_samples)
        });
        to.integer("rtt_samples", "Number of round-trip times measured by the server.", |it| {
            it.record.rtt_samples.into()
        });
        reply(to, |it| (it.delivered, it.record.acked < Time::NEVER), |it| it.reply);
    }
}

/// Row of an interval of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionSample<'a> {
    /// Traffic group of the client.
    pub group: &'a str,
    /// End of the interval.
    pub at: Time,
    /// Length of the interval.
    pub interval: Span,
    /// Record of the connection at the end of the interval.
    pub record: ConnectionRecord,
    /// Record of the connection at the start of the interval.
    pub before: ConnectionRecord,
    /// Number of bytes that arrived at the client in the interval.
    pub delivered: u64,
    /// Congestion window and slow-start threshold of the server at the end of the interval, bytes; `None` if the connection has ended.
    pub window: Option<(u64, Option<u64>)>,
}

impl Row for ConnectionSample<'_> {
    const NAME: &'static str = "connection_series";
    const ABOUT: &'static str =
        "One row per interval of `--series` and connection that was open in the interval.";
    fn columns(to: &mut impl Columns<Self>) {
        to.float("time_s", "Time at which the interval ended.", |it| it.at.as_secs());
        to.integer("connection", "Number of the connection, in order of opening.", |it| it.record.connection);
        to.text("group", GROUP, |it| it.group.into());
        to.integer("client", CLIENT, |it| it.record.app.into());
        to.float(
            "cwnd_bytes",
            "Congestion window of the server at the end of the interval; NaN if the connection is over.",
            |it| it.window.map_or(f64::NAN, |(cwnd, _)| cwnd as f64),
        );
        to.float(
            "ssthresh_bytes",
            "Slow-start threshold of the server; NaN if none is set or the connection is over.",
            |it| it.window.and_then(|(_, ssthresh)| ssthresh).map_or(f64::NAN, |bytes| bytes as f64),
        );
        to.integer("delivered_bytes", "Bytes that arrived at the client in the interval.", |it| it.delivered);
        to.float("goodput_mbps", "Goodput: `delivered_bytes` divided by the length of the interval.", |it| {
            8e-6 * it.delivered as f64 / it.interval.as_secs()
        });
        to.integer(
            "sent",
            "Data packets sent by the server in the interval, retransmissions included.",
            |it| (it.record.sent - it.before.sent).into(),
        );
        to.integer("retransmitted", "Data packets retransmitted by the server in the interval.", |it| {
            (it.record.retransmitted - it.before.retransmitted).into()
        });
        to.float(
            "rtt_mean_s",
            "Mean of the round-trip times measured by the server in the interval; NaN if none.",
            |it| {
                let samples = it.record.rtt_samples - it.before.rtt_samples;
                it.record.rtt_sum.saturating_sub(it.before.rtt_sum).as_secs() / f64::from(samples)
            },
        );
    }
}

/// Row of a burst.
#[derive(Clone, Copy, Debug)]
pub struct BurstRow<'a> {
    /// Traffic group of the connection.
    pub group: &'a str,
    /// Observed burst.
    pub burst: &'a Burst,
}

impl Row for BurstRow<'_> {
    const NAME: &'static str = "bursts";
    const ABOUT: &'static str = "One row per burst of a server, a maximal period during which data passed to TCP by the application is unacknowledged: ended bursts in the order in which they ended, followed by the others.";
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |it| it.group.into());
        to.integer("connection", "Number of the connection, in order of opening.", |it| it.burst.connection);
        to.integer("number", "Number of the burst in its connection, from 0.", |it| it.burst.number.into());
        to.integer(
            "first_byte",
            "First byte of the burst, counted from the first byte that the server sends over the connection; with the number of the \
             connection, it identifies the same burst under another algorithm.",
            |it| it.burst.first_byte,
        );
        to.integer("bytes", "Size of the burst.", |it| it.burst.bytes);
        to.integer("delivered_bytes", "Acknowledged bytes of the burst.", |it| it.burst.delivered);
        to.float(
            "idle_s",
            "Idle period from the last ACK of the previous burst, or from the opening of the connection, to the first segment.",
            |it| it.burst.idle.as_secs(),
        );
        to.float("start_s", "Time at which the first segment was sent.", |it| it.burst.start.as_secs());
        to.float(
            "time_s",
            "Duration from the first segment to the last ACK; NaN if that has not arrived.",
            |it| seconds_from(it.burst.start, it.burst.end),
        );
        to.integer("sent", "Data packets sent, retransmissions included.", |it| it.burst.sent.into());
        to.integer("retransmitted", "Data packets retransmitted.", |it| it.burst.retransmitted.into());
        to.integer("dropped", "Data packets dropped by the network.", |it| it.burst.dropped.into());
        to.integer("timeouts", "Retransmission timeouts of the server.", |it| it.burst.timeouts.into());
    }
}
