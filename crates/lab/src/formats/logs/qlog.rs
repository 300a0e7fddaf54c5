//! Events of the servers of connections, as qlog 0.3 (draft-ietf-quic-qlog-main-schema-02, draft-ietf-quic-qlog-quic-events-02).
//!
//! qlog defines events of QUIC. Each transmission of a data segment is shown as a packet with its own number, so that a retransmission
//! has a new number; an ACK is shown as an ACK of all packets whose data it acknowledges for the first time.

use super::failure::Failure;
use super::spill::{Spilled, Text};
use crate::Plan;
use catnip_base::Time;
use catnip_net::{NodeId, Packet};
use catnip_sim::record::SenderView;
use catnip_sim::watch::Created;
use catnip_sim::{CLIENT, Event, SERVER, Watch};
use catnip_tcp::control::Phase;
use serde::Serialize;
use serde::ser::Serializer;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, Read, Seek, Write};

/// Writer of a qlog file with a trace for each connection, in order of opening. Only the latest events of open connections are in memory;
/// all others are in a store, usually a temporary file.
#[derive(Debug)]
pub(super) struct Qlog<S> {
    /// Names of the nodes, by index.
    names: Vec<String>,
    connections: BTreeMap<u64, Trace>,
    spilled: Spilled<S>,
    failure: Failure,
}

/// Returns the metrics of a sender, in the order in which events list metrics that have changed.
fn metrics(view: &SenderView, bytes_in_flight: u64) -> [Metric; METRICS] {
    [
        ("congestion_window", Some(view.cwnd)),
        ("ssthresh", view.ssthresh),
        ("bytes_in_flight", Some(bytes_in_flight)),
        // Metrics of newCWV, for which qlog defines no names. While pipeACK is undefined, no value is logged, and the phase is the
        // validated phase.
        ("pipe_ack", view.validity.and_then(|validity| validity.pipe_ack)),
        ("cwnd_validated", view.validity.map(|validity| validity.is_validated.into())),
    ]
}

const METRICS: usize = 5;

/// Name of a metric, and its value; `None` while the metric has no value.
type Metric = (&'static str, Option<u64>);

/// Trace of one connection, with the state from which its next events are derived.
#[derive(Debug)]
struct Trace {
    client: NodeId,
    server: NodeId,
    /// Number of packets sent, which is also the number of the next packet.
    sent: u64,
    /// Number of ACKs received.
    received: u64,
    /// Sent packets whose data is neither acknowledged nor retransmitted, by their first byte.
    out: BTreeMap<u64, Sent>,
    bytes_in_flight: u64,
    /// End of all data sent (SND.MAX).
    max: u64,
    /// SND.MAX at the last expiry of the retransmission timer. Outside a recovery, retransmissions of earlier bytes are attributed to this
    /// expiry.
    expired_before: u64,
    /// Largest packet number acknowledged so far; `None` before the first acknowledgement.
    acked: Option<u64>,
    metrics: [Metric; METRICS],
    state: Option<&'static str>,
    text: Text,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    /// Offset of the end of the packet's data. A FIN counts as one byte.
    end: u64,
    data_bytes: u32,
    fin: bool,
}

impl<S: Read + Write + Seek + Debug> Qlog<S> {
    /// Starts the log of a run of `plan`, most of which is in the empty `store` until it is written.
    pub(super) fn new(store: S, plan: &Plan) -> Self {
        let topology = plan.topology();
        Self {
            names: (0..topology.node_count() as u32).map(|node| topology.name(NodeId(node)).into()).collect(),
            connections: BTreeMap::new(),
            spilled: Spilled::new(store),
            failure: Failure::default(),
        }
    }

    /// Returns true after an I/O error, after which nothing more is written.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_set()
    }

    /// Writes the whole qlog file to `out`.
    pub(super) fn finish(mut self, mut out: impl Write, title: &str, description: &str) -> io::Result<()> {
        self.failure.take()?;
        let file = FileHead { qlog_version: "0.3", qlog_format: "JSON", title, description };
        open(&mut out, &file, "traces")?;
        let mut separator = "";
        for (number, trace) in self.connections.iter().filter(|(_, trace)| !trace.text.is_empty()) {
            let [client, server] = [trace.client, trace.server].map(|node| &self.names[node.0 as usize]);
            write!(out, "{separator}")?;
            separator = ",\n";
            let head = TraceHead {
                vantage_point: VantagePoint { name: server, of: "server" },
                title: format!("connection {number}: {server} to {client}"),
                common_fields: CommonFields {
                    group_id: number.to_string(),
                    protocol_type: ["QUIC", "TCP"],
                    reference_time: 0.0,
                    time_format: "relative",
                },
            };
            open(&mut out, &head, "events")?;
            self.spilled.copy(&trace.text, &mut out)?;
            write!(out, "]}}")?;
        }
        writeln!(out, "]}}")?;
        out.flush()
    }

    /// Returns the trace of the sender's connection, or `None` if the sender is at the client, whose events are not logged.
    fn of(&mut self, view: &SenderView) -> Option<&mut Trace> {
        self.connections.get_mut(&view.connection).filter(|_| view.end == SERVER)
    }
}

impl<S: Read + Write + Seek + Debug> Watch for Qlog<S> {
    const PACKETS: bool = true;

    fn created(&mut self, _now: Time, _packet: &Packet, created: Created<'_>) {
        if let Created::Segment { connection, spec, .. } = created {
            let [client, server] = [CLIENT, SERVER].map(|end| spec.node(end));
            self.connections.entry(connection).or_insert_with(|| Trace::new(client, server));
        }
    }

    fn record(&mut self, now: Time, event: &Event) {
        let (connection, ended) = match event {
            Event::Sent(view) | Event::Acked(view) | Event::Timeout(view) => (view.connection, false),
            Event::Connection(record) => (record.connection, true),
            _ => return,
        };
        let written = match event {
            Event::Sent(view) => self.of(view).map(|trace| trace.sent(now, view)),
            Event::Acked(view) => self.of(view).map(|trace| trace.acked(now, view)),
            Event::Timeout(view) => self.of(view).map(|trace| trace.expired(now, view)),
            _ => None,
        };
        self.failure.note(written.unwrap_or(Ok(())));
        if let Some(trace) = self.connections.get_mut(&connection)
            && !self.failure.is_set()
        {
            let text = &mut trace.text;
            let spilled = if ended { self.spilled.spill(text) } else { self.spilled.spill_if_full(text) };
            self.failure.note(spilled);
        }
    }
}

impl Trace {
    fn new(client: NodeId, server: NodeId) -> Self {
        Self {
            client,
            server,
            sent: 0,
            received: 0,
            out: BTreeMap::new(),
            bytes_in_flight: 0,
            max: 0,
            expired_before: 0,
            acked: None,
            metrics: [("", None); METRICS],
            state: None,
            text: Text::default(),
        }
    }

    fn sent(&mut self, now: Time, view: &SenderView) -> io::Result<()> {
        let &SenderView { seq, data_bytes, fin, retransmission, .. } = view;
        let end = seq + u64::from(data_bytes) + u64::from(fin);
        let expired = seq < self.expired_before && !view.in_recovery;
        // A packet that begins before `seq` may extend beyond it.
        let before = self.out.range(..seq).next_back().filter(|(_, sent)| sent.end > seq);
        let first = before.map_or(seq, |(&start, _)| start);
        while let Some((&start, &lost)) = self.out.range(first..end).next() {
            self.out.remove(&start);
            self.bytes_in_flight -= u64::from(lost.data_bytes);
            let trigger = if expired { "pto_expired" } else { "reordering_threshold" };
            let (header, frames) = (Header::of(lost.number), [Frame::stream(start, &lost)]);
            self.log(now, "recovery:packet_lost", LostEvent { header, frames, trigger })?;
        }
        let sent = Sent { number: self.sent, end, data_bytes, fin };
        self.sent += 1;
        self.max = self.max.max(end);
        self.out.insert(seq, sent);
        self.bytes_in_flight += u64::from(data_bytes);
        let trigger = if expired { "retransmit_timeout" } else { "retransmit_reordered" };
        let event = PacketEvent {
            header: Header::of(sent.number),
            raw: Raw { length: view.wire_bytes, payload_length: Some(data_bytes) },
            trigger: retransmission.then_some(trigger),
            frames: [Frame::stream(seq, &sent)],
        };
        self.log(now, "transport:packet_sent", event)?;
        self.update(now, view)
    }

    fn acked(&mut self, now: Time, view: &SenderView) -> io::Result<()> {
        let mut numbers = Vec::new();
        while let Some(first) = self.out.first_entry().filter(|first| first.get().end <= view.seq) {
            let sent = first.remove();
            self.bytes_in_flight -= u64::from(sent.data_bytes);
            numbers.push(sent.number);
        }
        numbers.sort_unstable();
        self.acked = self.acked.max(numbers.last().copied());
        if numbers.is_empty() {
            // The ACK repeats the previous acknowledgement.
            numbers.extend(self.acked);
        }
        let ranges = numbers.chunk_by(|a, b| a + 1 == *b).map(|range| [range[0], range[range.len() - 1]]);
        let event = PacketEvent {
            header: Header::of(self.received),
            raw: Raw { length: view.wire_bytes, payload_length: None },
            trigger: None,
            frames: [Frame::Ack { acked_ranges: ranges.collect() }],
        };
        self.received += 1;
        self.log(now, "transport:packet_received", event)?;
        self.update(now, view)
    }

    fn expired(&mut self, now: Time, view: &SenderView) -> io::Result<()> {
        self.expired_before = self.max;
        let timer = TimerEvent { timer_type: "pto", event_type: "expired" };
        self.log(now, "recovery:loss_timer_updated", timer)?;
        self.update(now, view)
    }

    /// Logs the metrics and the congestion state that have changed.
    fn update(&mut self, now: Time, view: &SenderView) -> io::Result<()> {
        let metrics = metrics(view, self.bytes_in_flight);
        let before = std::mem::replace(&mut self.metrics, metrics);
        if metrics != before {
            self.log(now, "recovery:metrics_updated", Changed { metrics, before })?;
        }
        let new = match view.phase {
            _ if view.in_recovery => "recovery",
            Phase::SlowStart => "slow_start",
            Phase::CongestionAvoidance => "congestion_avoidance",
        };
        let old = self.state.replace(new);
        if old != Some(new) {
            self.log(now, "recovery:congestion_state_updated", StateUpdated { old, new })?;
        }
        Ok(())
    }

    fn log(&mut self, now: Time, name: &'static str, data: impl Serialize) -> io::Result<()> {
        let separated = !self.text.is_empty();
        let end = self.text.end();
        if separated {
            end.extend_from_slice(b",\n");
        }
        let time = now.as_nanos() as f64 / 1e6;
        Ok(serde_json::to_writer(end, &LogEvent { time, name, data })?)
    }
}

/// Writes a JSON object without its last brace, followed by the name and the opening bracket of a list in it.
fn open(out: &mut impl Write, head: &impl Serialize, list: &str) -> io::Result<()> {
    let head = serde_json::to_string(head)?;
    let head = head.strip_suffix('}').unwrap_or(&head);
    writeln!(out, "{head},\"{list}\":[")
}

#[derive(Serialize)]
struct FileHead<'a> {
    qlog_version: &'static str,
    qlog_format: &'static str,
    title: &'a str,
    description: &'a str,
}

#[derive(Serialize)]
struct TraceHead<'a> {
    vantage_point: VantagePoint<'a>,
    title: String,
    common_fields: CommonFields,
}

#[derive(Serialize)]
struct VantagePoint<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    of: &'static str,
}

#[derive(Serialize)]
struct CommonFields {
    group_id: String,
    protocol_type: [&'static str; 2],
    reference_time: f64,
    time_format: &'static str,
}

/// Event of a trace, with `time` in milliseconds.
#[derive(Serialize)]
struct LogEvent<D> {
    time: f64,
    name: &'static str,
    data: D,
}

#[derive(Serialize)]
struct PacketEvent {
    header: Header,
    raw: Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<&'static str>,
    frames: [Frame; 1],
}

#[derive(Serialize)]
struct LostEvent {
    header: Header,
    frames: [Frame; 1],
    trigger: &'static str,
}

#[derive(Serialize)]
struct Header {
    packet_type: &'static str,
    packet_number: u64,
}

impl Header {
    fn of(packet_number: u64) -> Self {
        Self { packet_type: "1RTT", packet_number }
    }
}

#[derive(Serialize)]
struct Raw {
    length: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_length: Option<u32>,
}

#[derive(Serialize)]
#[serde(tag = "frame_type", rename_all = "snake_case")]
enum Frame {
    Stream {
        stream_id: u64,
        offset: u64,
        length: u32,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        fin: bool,
    },
    Ack {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        acked_ranges: Vec<[u64; 2]>,
    },
}

impl Frame {
    fn stream(offset: u64, &Sent { data_bytes: length, fin, .. }: &Sent) -> Self {
        Self::Stream { stream_id: 0, offset, length, fin }
    }
}

#[derive(Serialize)]
struct TimerEvent {
    timer_type: &'static str,
    event_type: &'static str,
}

#[derive(Serialize)]
struct StateUpdated {
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<&'static str>,
    new: &'static str,
}

/// Metrics whose values differ from those of the previous event.
struct Changed {
    metrics: [Metric; METRICS],
    before: [Metric; METRICS],
}

impl Serialize for Changed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let changed = self.metrics.iter().zip(&self.before).filter(|(now, before)| now != before);
        to.collect_map(changed.filter_map(|(&(name, value), _)| Some((name, value?))))
    }
}
