use super::timeline::grid::Grid;
use super::timeline::recorder::Recorder;
use crate::Table;
use catnip_base::{FlowContext, Rate, Span, Time};
use catnip_net::mark::MarkerSpec;
use catnip_net::queue::QueueSpec;
use catnip_net::stage::{PacketListSpec, StageSpec};
use catnip_net::{Topology, WireSpec};
use catnip_sim::app::{AnyApp, Bulk};
use catnip_sim::{ConnectionSpec, Event, Message, SERVER, Sim, TcpOptions, Watch};
use catnip_tcp::TcpConfig;

/// Request for a trace of a single transfer over one link between two hosts.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// Parameters of the connection.
    pub tcp: TcpConfig,
    /// Marker of the packets; `None` for no marks.
    pub marker: Option<MarkerSpec>,
    /// Number of data segments to transfer.
    pub packets: u64,
    /// Line rate of either direction.
    pub rate: Rate,
    /// Propagation delay of either direction.
    pub delay: Span,
    /// Queue of either direction.
    pub queue: QueueSpec,
    /// Numbers of the server's packets that are lost before they enter the link, counted from 1 and including its SYN.
    pub drop: Vec<u64>,
    /// Phase within a clock tick at which the sender begins; `None` for a phase drawn from the seed.
    pub tick_phase: Option<Span>,
    /// Seed of the run.
    pub seed: u64,
}

/// Row of a trace: an event of the sender, or the drop of one of its packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceRow {
    /// Time of the event.
    pub at: Time,
    /// Kind of the event: `send`, `ack`, `drop`, `rto` or `done`.
    pub event: &'static str,
    /// Number of the packet, from 0. For an ACK, the number of the last packet that the ACK acknowledges, or -1 if no packet is
    /// acknowledged.
    pub seq: i64,
    /// Congestion window, packets.
    pub cwnd: f64,
    /// Slow-start threshold, packets; `None` until a threshold is set.
    pub ssthresh: Option<f64>,
    /// Number of consecutive ACKs without an advance of the acknowledgement number, regardless of the sender's own count of duplicate ACKs.
    pub dupacks: u32,
    /// Size of the packet on the wire, bytes.
    pub wire_bytes: u32,
    /// True if the packet has the priority HIGH.
    pub high: bool,
}

/// Executes the transfer and returns every send, ACK, drop and timeout in order. At equal times, drops come last.
pub fn trace(request: &TraceRequest) -> Vec<TraceRow> {
    trace_with_segments(request).0
}

/// Executes the transfer. Returns its rows as [`trace`] does, and the table of its segments as [`Timeline`](crate::Timeline) has it.
pub fn trace_with_segments(request: &TraceRequest) -> (Vec<TraceRow>, Table) {
    let mut topology = Topology::default();
    let (server, client) = (topology.host("server"), topology.host("client"));
    let back = WireSpec::new(request.rate, request.delay, request.queue.clone());
    let drop = PacketListSpec::new(request.drop.clone()).map(StageSpec::PacketList);
    let forward = WireSpec { before: drop.into_iter().collect(), ..back.clone() };
    topology.link(server, client, forward, back);
    let end = Time::ZERO + Span::from_secs(86_400);
    let segments = Recorder::new(&topology, Grid::new(Time::ZERO, end, 1), &[], Vec::new(), Some(0));
    let mut sim = Sim::new(&topology, request.seed, (Events::default(), segments));
    sim.set_tick_phase(request.tick_phase);
    let tcp = sim.add_tcp(TcpOptions { marker: request.marker.clone(), ..request.tcp.clone().into() });
    let segment = u64::from(request.tcp.segment_bytes);
    let spec = ConnectionSpec { client, server, opener: SERVER, tcp };
    let bytes = request.packets * segment;
    let document = Message { bytes, context: Some(FlowContext::document(bytes)), ..Message::default() };
    sim.add_app(AnyApp::Bulk(Bulk::new(spec, document, Time::ZERO)));
    sim.run(end);
    let (events, segments) = sim.into_watch();
    (rows(&events.0, segment as f64), segments.segments_table())
}

#[derive(Default)]
struct Events(Vec<(Time, Event)>);

impl Watch for Events {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        self.0.push((now, *event));
    }
}

fn rows(events: &[(Time, Event)], segment: f64) -> Vec<TraceRow> {
    let number = |seq: u64| (seq as f64 / segment) as i64;
    let mut last = TraceRow {
        at: Time::ZERO,
        event: "send",
        seq: 0,
        cwnd: 0.0,
        ssthresh: None,
        dupacks: 0,
        wire_bytes: 0,
        high: false,
    };
    let mut highest = -1;
    let mut rows = Vec::with_capacity(events.len());
    for &(mut at, event) in events {
        let (name, seq, view) = match event {
            Event::Sent(view) => ("send", number(view.seq), Some(view)),
            Event::Acked(view) => ("ack", number(view.seq) - 1, Some(view)),
            Event::Timeout(view) => ("rto", number(view.seq), Some(view)),
            Event::Dropped { seq, wire_bytes, .. } => {
                last = TraceRow { wire_bytes, ..last };
                ("drop", number(seq), None)
            }
            Event::Connection(record) => {
                at = record.acked;
                ("done", last.seq, None)
            }
            Event::Datagram { .. } | Event::Reply(_) => continue,
        };
        if name == "ack" {
            last.dupacks = if seq > highest { 0 } else { last.dupacks + 1 };
            highest = highest.max(seq);
        }
        last = TraceRow { at, event: name, seq, ..last };
        if let Some(view) = view {
            last.cwnd = view.cwnd as f64 / segment;
            last.ssthresh = view.ssthresh.map(|bytes| bytes as f64 / segment);
            last.wire_bytes = view.wire_bytes;
            last.high = view.priority == catnip_net::Priority::High;
        }
        rows.push(last);
    }
    rows.sort_by_key(|row| (row.at, row.event == "drop"));
    rows
}
