//! Watch of a run that keeps what a timeline shows.

use super::{Grid, Timeline};
use crate::{Column, NamedPorts, Table, Texts};
use catnip_base::{Span, Time};
use catnip_net::{DropReason, Ecn, NodeId, Packet, PortId, Priority, Topology};
use catnip_sim::record::ConnectionStats;
use catnip_sim::watch::{Created, Origin, Step};
use catnip_sim::{CLIENT, Event, SERVER, Watch};
use catnip_tcp::Segment;
use std::collections::BTreeMap;

/// Largest numbers of ticks, of segments and of steps that are kept.
const MOST_TICKS: usize = 20_000;
const MOST_SEGMENTS: usize = 200_000;
const MOST_STEPS: usize = 200_000;
const PRIORITIES: usize = 3;

#[derive(Debug)]
pub(in crate::run) struct Recorder {
    grid: Grid,
    /// Number of the shown link of each port, by [`PortId`]; `None` if it is not shown.
    link_of: Vec<Option<usize>>,
    /// Least propagation delay of each port. What a varying delay has above it counts as time in the queue.
    delays: Vec<Span>,
    /// Node at the far end of each port.
    ends: Vec<NodeId>,
    nodes: Vec<String>,
    link_names: Vec<String>,
    links: Vec<Vec<LinkInterval>>,
    connections: Vec<SampledConnection>,
    samples: Vec<Vec<Option<SenderSample>>>,
    /// Index in `connections`, by number.
    rows: BTreeMap<u64, usize>,
    in_transit: Bodies,
    ticks: Vec<Tick>,
    followed: Option<u64>,
    segments: Vec<SegmentEvent>,
    packets: Vec<FollowedPacket>,
    steps: Vec<PacketStep>,
    /// End of the data that the followed connection's ends have sent.
    sent: [u64; 2],
    left_out: u64,
}

/// Counts of a link in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct LinkInterval {
    /// Packets that have come to the queue less those that have left the transmitter, by priority.
    change: [i32; PRIORITIES],
    left: u32,
    left_bytes: u64,
    delays: Span,
}

/// Connection whose sender is sampled.
#[derive(Clone, Debug)]
pub(in crate::run) struct SampledConnection {
    pub(in crate::run) number: u64,
    pub(in crate::run) group: String,
    pub(in crate::run) client: u64,
}

#[derive(Clone, Copy, Debug)]
struct SenderSample {
    cwnd: u64,
    ssthresh: Option<u64>,
    in_flight: u64,
    srtt: Option<Span>,
    delivered: u64,
}

/// Packets in the network, by [`Packet::body`]. Bodies are small numbers, of datagrams with the highest bit set, which the rotation makes
/// the lowest one.
#[derive(Debug, Default)]
struct Bodies(Vec<Option<InTransit>>);

impl Bodies {
    fn insert(&mut self, body: u32, new: InTransit) {
        let index = body.rotate_left(1) as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        self.0[index] = Some(new);
    }

    fn get_mut(&mut self, body: u32) -> Option<&mut InTransit> {
        self.0.get_mut(body.rotate_left(1) as usize)?.as_mut()
    }

    fn remove(&mut self, body: u32) -> Option<InTransit> {
        self.0.get_mut(body.rotate_left(1) as usize)?.take()
    }
}

#[derive(Clone, Copy, Debug)]
struct InTransit {
    connection: Option<u64>,
    /// Number of a packet of the followed connection.
    followed: Option<u32>,
    /// Time at which the packet came to the queue of its present port, and its CE mark then.
    entered: Time,
    was_marked: bool,
    /// Segment of a packet of the followed connection.
    segment: Option<(usize, Segment)>,
}

#[derive(Clone, Copy, Debug)]
struct Tick {
    at: Time,
    kind: &'static str,
    link: Option<usize>,
    connection: Option<usize>,
    priority: Priority,
}

#[derive(Clone, Copy, Debug)]
struct SegmentEvent {
    at: Time,
    kind: &'static str,
    from: u64,
    to: u64,
}

#[derive(Clone, Copy, Debug)]
struct FollowedPacket {
    end: usize,
    kind: &'static str,
    priority: Priority,
    wire_bytes: u32,
    from: u64,
    to: u64,
}

#[derive(Clone, Copy, Debug)]
struct PacketStep {
    packet: u32,
    at: Time,
    kind: &'static str,
    node: NodeId,
}

impl Recorder {
    /// Creates a recorder of a run in this network, of whose connections `followed` is recorded packet by packet.
    pub(in crate::run) fn new(
        topology: &Topology,
        grid: Grid,
        links: &[&NamedPorts],
        connections: Vec<SampledConnection>,
        followed: Option<u64>,
    ) -> Self {
        let ports = topology.ports();
        let mut link_of = vec![None; ports.len()];
        for (number, link) in links.iter().enumerate() {
            link.ids.iter().for_each(|id| link_of[id.0 as usize] = Some(number));
        }
        let intervals = grid.intervals() as usize + 1;
        Self {
            grid,
            link_of,
            delays: ports.iter().map(|port| port.wire.delay.min()).collect(),
            ends: ports.iter().map(|port| port.to).collect(),
            nodes: (0..topology.node_count() as u32)
                .map(|node| topology.name(NodeId(node)).to_string())
                .collect(),
            link_names: links.iter().map(|link| link.name.clone()).collect(),
            links: vec![vec![LinkInterval::default(); intervals]; links.len()],
            samples: vec![vec![None; intervals]; connections.len()],
            rows: connections.iter().enumerate().map(|(row, it)| (it.number, row)).collect(),
            connections,
            in_transit: Bodies::default(),
            ticks: Vec::new(),
            followed,
            segments: Vec::new(),
            packets: Vec::new(),
            steps: Vec::new(),
            sent: [0; 2],
            left_out: 0,
        }
    }

    /// Records the state of the open connections at the end of an interval.
    pub(super) fn sample(&mut self, interval: u32, open: &[ConnectionStats]) {
        for stats in open {
            let Some(&row) = self.rows.get(&stats.record.connection) else { continue };
            let Some(cwnd) = stats.cwnd else { continue };
            self.samples[row][interval as usize] = Some(SenderSample {
                cwnd,
                ssthresh: stats.ssthresh,
                in_flight: stats.in_flight,
                srtt: stats.srtt,
                delivered: stats.delivered,
            });
        }
    }

    /// Records that a packet has left the queue and the transmitter of a port, or was dropped there.
    fn leaves(&mut self, port: PortId, at: Time, packet: &Packet, entered: Time, is_sent: bool) {
        let Some(link) = self.link_of[port.0 as usize] else { return };
        let at = at.max(entered);
        let priority = packet.dscp.priority() as usize;
        if let Some(came) = self.grid.interval_of(entered) {
            self.links[link][came as usize].change[priority] += 1;
        }
        let Some(left) = self.grid.interval_of(at) else { return };
        let interval = &mut self.links[link][left as usize];
        interval.change[priority] -= 1;
        if is_sent {
            interval.left += 1;
            interval.left_bytes += u64::from(packet.len);
            interval.delays += at.since(entered);
        }
    }

    fn tick(
        &mut self,
        at: Time,
        kind: &'static str,
        link: Option<usize>,
        connection: Option<u64>,
        priority: Priority,
    ) {
        let connection = connection.and_then(|number| self.rows.get(&number).copied());
        if self.grid.contains(at) && (link.is_some() || connection.is_some()) {
            keep(
                &mut self.ticks,
                MOST_TICKS,
                &mut self.left_out,
                Tick { at, kind, link, connection, priority },
            );
        }
    }

    fn segment(&mut self, at: Time, kind: &'static str, from: u64, to: u64) {
        if self.grid.contains(at) {
            keep(&mut self.segments, MOST_SEGMENTS, &mut self.left_out, SegmentEvent { at, kind, from, to });
        }
    }

    fn step(&mut self, packet: u32, at: Time, kind: &'static str, node: NodeId) {
        if self.grid.contains(at) {
            keep(&mut self.steps, MOST_STEPS, &mut self.left_out, PacketStep { packet, at, kind, node });
        }
    }

    /// Records a new packet of the followed connection; returns its number.
    fn follow(&mut self, now: Time, packet: &Packet, end: usize, segment: &Segment) -> u32 {
        let to = segment.seq + segment.seq_len();
        let kind = match segment {
            _ if segment.flags.syn => "syn",
            _ if segment.seq_len() == 0 => "ack",
            _ if segment.seq < self.sent[end] => "retransmission",
            _ => "data",
        };
        self.sent[end] = self.sent[end].max(to);
        if end == SERVER && segment.seq_len() > 0 {
            let kind = if segment.len == 0 && kind == "data" { "fin" } else { kind };
            self.segment(now, kind, segment.seq, to);
        }
        let number = self.packets.len() as u32;
        let priority = packet.dscp.priority();
        self.packets.push(FollowedPacket {
            end,
            kind,
            priority,
            wire_bytes: packet.len,
            from: segment.seq,
            to,
        });
        number
    }

    fn delivered(&mut self, now: Time, (end, segment): (usize, Segment)) {
        if end == CLIENT && segment.flags.ack && !segment.flags.syn {
            self.segment(now, "ack", segment.ack, segment.ack + u64::from(segment.window));
            for (from, to) in segment.sack.ranges(segment.ack) {
                self.segment(now, "sack", from, to);
            }
        }
    }

    pub(super) fn into_timeline(self) -> Timeline {
        let tables = [
            ("links", self.links_table()),
            ("link_samples", self.link_samples()),
            ("connections", self.connections_table()),
            ("sender_samples", self.sender_samples()),
            ("ticks", self.ticks_table()),
            ("segments", self.segments_table()),
            ("packets", self.packets_table()),
            ("steps", self.steps_table()),
        ];
        Timeline {
            tables: tables.into_iter().collect(),
            nodes: self.nodes,
            range: self.grid.range(),
            left_out: self.left_out,
        }
    }

    fn links_table(&self) -> Table {
        Table::of(vec![("name", texts(&self.link_names, |name| name))])
    }

    fn link_samples(&self) -> Table {
        let mut rows = Vec::new();
        for (link, intervals) in self.links.iter().enumerate() {
            let mut packets = [0; PRIORITIES];
            for (number, interval) in intervals.iter().enumerate() {
                packets.iter_mut().zip(interval.change).for_each(|(now, change)| *now += change);
                rows.push((link, number as u32, packets, *interval));
            }
        }
        let interval_s = self.grid.interval_s();
        let count = |priority: Priority| integers(&rows, |it| it.2[priority as usize] as u64);
        Table::of(vec![
            ("link", integers(&rows, |it| it.0 as u64)),
            ("at_s", floats(&rows, |it| self.grid.end_of(it.1).as_secs())),
            ("high_packets", count(Priority::High)),
            ("med_packets", count(Priority::Medium)),
            ("low_packets", count(Priority::Low)),
            (
                "delay_s",
                floats(&rows, |it| match it.3.left {
                    0 => f64::NAN,
                    left => it.3.delays.as_secs() / f64::from(left),
                }),
            ),
            (
                "rate_mbps",
                floats(&rows, |it| match it.1 {
                    0 => f64::NAN,
                    _ => it.3.left_bytes as f64 * 8e-6 / interval_s,
                }),
            ),
        ])
    }

    fn connections_table(&self) -> Table {
        Table::of(vec![
            ("connection", integers(&self.connections, |it| it.number)),
            ("group", texts(&self.connections, |it| &it.group)),
            ("client", integers(&self.connections, |it| it.client)),
        ])
    }

    fn sender_samples(&self) -> Table {
        let mut rows = Vec::new();
        for (row, samples) in self.samples.iter().enumerate() {
            let mut before = None;
            for (number, sample) in samples.iter().enumerate() {
                if let Some(sample) = sample {
                    rows.push((row, number as u32, *sample, before));
                }
                before = sample.map(|sample| sample.delivered);
            }
        }
        let interval_s = self.grid.interval_s();
        Table::of(vec![
            ("connection", integers(&rows, |it| it.0 as u64)),
            ("at_s", floats(&rows, |it| self.grid.end_of(it.1).as_secs())),
            ("cwnd_bytes", integers(&rows, |it| it.2.cwnd)),
            ("ssthresh_bytes", floats(&rows, |it| it.2.ssthresh.map_or(f64::NAN, |bytes| bytes as f64))),
            ("in_flight_bytes", integers(&rows, |it| it.2.in_flight)),
            ("srtt_s", floats(&rows, |it| it.2.srtt.map_or(f64::NAN, Span::as_secs))),
            (
                "goodput_mbps",
                floats(&rows, |it| match it.3 {
                    // A connection that was opened in the interval has delivered nothing before.
                    None if it.1 == 0 => f64::NAN,
                    before => (it.2.delivered - before.unwrap_or(0)) as f64 * 8e-6 / interval_s,
                }),
            ),
        ])
    }

    fn ticks_table(&self) -> Table {
        let row = |row: Option<usize>| row.map_or(f64::NAN, |row| row as f64);
        Table::of(vec![
            ("at_s", floats(&self.ticks, |it| it.at.as_secs())),
            ("kind", texts(&self.ticks, |it| it.kind)),
            ("link", floats(&self.ticks, |it| row(it.link))),
            ("connection", floats(&self.ticks, |it| row(it.connection))),
            ("priority", texts(&self.ticks, |it| name_of(it.priority))),
        ])
    }

    /// Returns the table of the segments of the followed connection.
    pub(in crate::run) fn segments_table(&self) -> Table {
        Table::of(vec![
            ("at_s", floats(&self.segments, |it| it.at.as_secs())),
            ("kind", texts(&self.segments, |it| it.kind)),
            ("from_bytes", integers(&self.segments, |it| it.from)),
            ("to_bytes", integers(&self.segments, |it| it.to)),
        ])
    }

    fn packets_table(&self) -> Table {
        let packets: Vec<(usize, &FollowedPacket)> = self.packets.iter().enumerate().collect();
        Table::of(vec![
            ("packet", integers(&packets, |it| it.0 as u64)),
            ("end", texts(&packets, |it| if it.1.end == SERVER { "server" } else { "client" })),
            ("kind", texts(&packets, |it| it.1.kind)),
            ("priority", texts(&packets, |it| name_of(it.1.priority))),
            ("wire_bytes", integers(&packets, |it| it.1.wire_bytes.into())),
            ("from_bytes", integers(&packets, |it| it.1.from)),
            ("to_bytes", integers(&packets, |it| it.1.to)),
        ])
    }

    fn steps_table(&self) -> Table {
        Table::of(vec![
            ("packet", integers(&self.steps, |it| it.packet.into())),
            ("at_s", floats(&self.steps, |it| it.at.as_secs())),
            ("kind", texts(&self.steps, |it| it.kind)),
            ("node", integers(&self.steps, |it| it.node.0.into())),
        ])
    }
}

impl Watch for Recorder {
    const PACKETS: bool = true;

    fn record(&mut self, now: Time, event: &Event) {
        if let Event::Timeout(view) = event
            && view.end == SERVER
        {
            self.tick(now, "timeout", None, Some(view.connection), view.priority);
            if self.followed == Some(view.connection) {
                self.segment(now, "timeout", view.seq, view.seq);
            }
        }
    }

    fn created(&mut self, now: Time, packet: &Packet, created: Created<'_>) {
        let mut new =
            InTransit { connection: None, followed: None, entered: now, was_marked: false, segment: None };
        if let Created::Segment { connection, end, segment, .. } = created {
            new.connection = Some(connection);
            if self.followed == Some(connection) {
                new.followed = Some(self.follow(now, packet, end, segment));
                new.segment = Some((end, *segment));
            }
        }
        self.in_transit.insert(packet.body, new);
    }

    fn packet(&mut self, now: Time, packet: &Packet, _origin: Origin, step: Step<'_>) {
        match step {
            Step::Entered(port) => {
                let Some(it) = self.in_transit.get_mut(packet.body) else { return };
                (it.entered, it.was_marked) = (now, packet.ecn == Ecn::CE);
                if let Some(number) = it.followed {
                    self.step(number, now, "enters", self.ends[port.0 as usize]);
                }
            }
            Step::Passed(port) => {
                let Some(&mut it) = self.in_transit.get_mut(packet.body) else { return };
                let left = Time::ZERO + now.since(Time::ZERO).saturating_sub(self.delays[port.0 as usize]);
                self.leaves(port, left, packet, it.entered, true);
                if packet.ecn == Ecn::CE && !it.was_marked {
                    let link = self.link_of[port.0 as usize];
                    self.tick(left.max(it.entered), "mark", link, it.connection, packet.dscp.priority());
                }
                if let Some(number) = it.followed {
                    self.step(number, now, "passes", self.ends[port.0 as usize]);
                }
            }
            Step::Dropped(port, reason) => {
                let Some(it) = self.in_transit.remove(packet.body) else { return };
                let passed = Time::ZERO + now.since(Time::ZERO).saturating_sub(self.delays[port.0 as usize]);
                // A loss happens at the end of the wire, or as the packet comes.
                let left = if reason == DropReason::Loss { passed } else { now };
                self.leaves(port, left, packet, it.entered, false);
                self.tick(now, "drop", self.link_of[port.0 as usize], it.connection, packet.dscp.priority());
                if let Some(number) = it.followed {
                    self.step(number, now, "dropped", self.ends[port.0 as usize]);
                    let lost = self.packets[number as usize];
                    if lost.end == SERVER && lost.to > lost.from {
                        self.segment(now, "drop", lost.from, lost.to);
                    }
                }
            }
            Step::Sent(_) => {}
            Step::Delivered(node) => {
                let Some(it) = self.in_transit.remove(packet.body) else { return };
                if let (Some(number), Some(segment)) = (it.followed, it.segment) {
                    self.step(number, now, "delivered", node);
                    self.delivered(now, segment);
                }
            }
            Step::Copied(..) | Step::Corrupted(_) | Step::Egress { .. } => {}
        }
    }
}

/// Keeps a row, unless there are too many.
fn keep<T>(rows: &mut Vec<T>, most: usize, left_out: &mut u64, row: T) {
    if rows.len() < most {
        rows.push(row);
    } else {
        *left_out += 1;
    }
}

fn name_of(priority: Priority) -> &'static str {
    match priority {
        Priority::High => "high",
        Priority::Medium => "medium",
        Priority::Low => "low",
    }
}

fn floats<T>(rows: &[T], value: impl Fn(&T) -> f64) -> Column {
    Column::Float(rows.iter().map(value).collect())
}

fn integers<T>(rows: &[T], value: impl Fn(&T) -> u64) -> Column {
    Column::Integer(rows.iter().map(value).collect())
}

fn texts<'a, T>(rows: &'a [T], value: impl Fn(&'a T) -> &'a str) -> Column {
    Column::Text(rows.iter().map(value).collect::<Texts>())
}
