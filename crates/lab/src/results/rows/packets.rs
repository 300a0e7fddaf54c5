//! Rows of events of TCP connections, and of sources of background traffic.

use super::row::Row;
use crate::results::column::Columns;
use catnip_base::Time;
use catnip_sim::record::SenderView;
use catnip_sim::{DatagramCounters, Event, SERVER};

/// Row of a source of background traffic.
#[derive(Clone, Copy, Debug)]
pub struct DatagramRow<'a> {
    /// Traffic group of the source.
    pub group: &'a str,
    /// Number of the source, counted together with the users.
    pub source: u32,
    /// Counts of the packets of the source.
    pub counters: DatagramCounters,
}

impl Row for DatagramRow<'_> {
    const NAME: &'static str = "datagrams";
    const ABOUT: &'static str = "One row per source of background traffic.";
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", "Traffic group of the source.", |source| source.group.into());
        to.integer("source", "Number of the source, counted with the users.", |source| source.source.into());
        to.integer("sent", "Packets sent by the source.", |source| source.counters.sent);
        to.integer("sent_bytes", "Size of the packets sent.", |source| source.counters.sent_bytes);
        to.integer("duplicated", "Copies of packets of the source made by the network.", |source| {
            source.counters.duplicated
        });
        to.integer("received", "Packets that arrived, copies included.", |source| source.counters.received);
        to.integer("dropped", "Packets dropped by the network.", |source| source.counters.dropped);
        to.float("delay_mean_s", "Mean delay from source to sink; NaN if no packet arrived.", |source| {
            source.counters.delay_s.mean()
        });
        to.float("delay_variance_s2", "Variance of the delay; NaN for fewer than two packets.", |source| {
            source.counters.delay_s.variance()
        });
    }
}

/// Row of an event of a sender, or of a drop of one of the connection's packets.
#[derive(Clone, Copy, Debug)]
pub struct EventRow {
    at: Time,
    kind: &'static str,
    connection: u64,
    seq: u64,
    sender: Option<SenderView>,
}

impl EventRow {
    /// Returns the row of an event, or `None` if the table has no rows for such events.
    pub fn of(at: Time, event: &Event) -> Option<Self> {
        let of_sender = |kind, view: &SenderView| {
            Some(Self { at, kind, connection: view.connection, seq: view.seq, sender: Some(*view) })
        };
        match event {
            Event::Sent(view) => of_sender("send", view),
            Event::Acked(view) => of_sender("ack", view),
            Event::Timeout(view) => of_sender("rto", view),
            &Event::Dropped { connection, seq, .. } => {
                Some(Self { at, kind: "drop", connection, seq, sender: None })
            }
            Event::Connection(_) | Event::Datagram { .. } | Event::Reply(_) => None,
        }
    }
}

impl Row for EventRow {
    const NAME: &'static str = "events";
    const ABOUT: &'static str =
        "One row per data packet sent, ACK received, drop and timeout of a connection.";
    fn columns(to: &mut impl Columns<Self>) {
        let bytes = |value: Option<u64>| value.map_or(f64::NAN, |bytes| bytes as f64);
        let sender = |event: &Self| event.sender;
        to.float("time_s", "Time of the event.", |event| event.at.as_secs());
        to.text(
            "kind",
            "Kind of the event: `send`, `ack`, `drop`, or `rto`, an expiry of the retransmission timer.",
            |event| event.kind.into(),
        );
        to.integer("connection", "Number of the connection, in order of opening.", |event| event.connection);
        to.text("end", "End of the sender, `client` or `server`; empty for drops.", |event| {
            event.sender.map_or("", |sender| if sender.end == SERVER { "server" } else { "client" }).into()
        });
        to.integer(
            "seq_bytes",
            "First byte of the packet's data, acknowledgement number of an ACK, or SND.UNA at a timeout.",
            |event| event.seq,
        );
        to.float("cwnd_bytes", "Congestion window of the sender; NaN for drops.", |event| {
            bytes(sender(event).map(|sender| sender.cwnd))
        });
        to.float(
            "ssthresh_bytes",
            "Slow-start threshold of the sender; NaN for drops and before one is set.",
            |event| bytes(sender(event).and_then(|sender| sender.ssthresh)),
        );
        let validity = |event: &Self| event.sender.and_then(|sender| sender.validity);
        to.float(
            "pipe_ack_bytes",
            "pipeACK of newCWV (RFC 7661); NaN while undefined, and for connections without it.",
            move |event| bytes(validity(event).and_then(|validity| validity.pipe_ack)),
        );
        to.text(
            "phase",
            "Phase of newCWV, `validated` or `non-validated`; empty for connections without it.",
            move |event| match validity(event).map(|validity| validity.is_validated) {
                None => "".into(),
                Some(true) => "validated".into(),
                Some(false) => "non-validated".into(),
            },
        );
        to.integer("dupacks", "Duplicate ACKs in a row received by the sender.", |event| {
            sender(event).map_or(0, |sender| sender.dupacks.into())
        });
        to.integer(
            "wire_bytes",
            "Size of the packet or ACK with its headers; 0 for drops and timeouts.",
            |event| sender(event).map_or(0, |sender| sender.wire_bytes.into()),
        );
    }
}
