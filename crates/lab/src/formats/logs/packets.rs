//! Capture of the packets that hosts send and receive in a simulated run. The data in the packets is zeros.

use super::failure::Failure;
use crate::Plan;
use catnip_base::{Span, Time};
use catnip_net::{DropReason, NodeId, Packet, PortId, PortSpec};
use catnip_sim::watch::{Created, Origin, Step};
use catnip_sim::{Event, SERVER, Watch};
use catnip_wire::pcapng::{InterfaceId, Writer};
use catnip_wire::{Addresses, Announcement, TcpHeader, Translation, udp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{Debug, Write};
use std::io;
use std::net::Ipv4Addr;

/// Points in the network at which packets are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Points {
    /// Servers of connections, and sources of datagrams. Each packet is captured at most once, so that a program that follows
    /// connections does not mistake a packet for a retransmission.
    Servers,
    /// Given nodes: all packets that leave or reach them.
    Nodes(Vec<NodeId>),
}

/// Writer of a capture with an interface for each node at which packets are captured. A packet that the network drops has a comment with
/// the port and the reason.
#[derive(Debug)]
pub(super) struct Packets<W> {
    writer: Writer<W>,
    /// Interface of each node; `None` if packets are not captured there.
    interfaces: Vec<Option<InterfaceId>>,
    at_servers: bool,
    addresses: Vec<Ipv4Addr>,
    /// TCP options that both ends announce, and TCP port of the servers, for each traffic group. The index is the number of the group's TCP
    /// parameters.
    services: Vec<(Announcement, u16)>,
    /// Names of the ports in the network, by index.
    ports: Vec<String>,
    /// Translations of simulated segments into TCP headers for both ends of each open connection, by number of the connection.
    connections: BTreeMap<u64, [Translation; 2]>,
    /// Packets in the network that are captured at one or both of their ends, by [`Packet::body`].
    in_transit: BTreeMap<u32, InTransit>,
    /// Captured packets that are not written yet, because it is unknown whether they, or packets captured earlier, will be dropped.
    pending: VecDeque<CapturedPacket>,
    /// Number of captured packets that were written.
    written: u64,
    zeros: Vec<u8>,
    buffer: Vec<u8>,
    comment: String,
    failure: Failure,
}

/// Packet in the network: its contents, its ends, and the interfaces at which it is captured.
#[derive(Clone, Copy, Debug)]
struct InTransit {
    contents: Contents,
    source: NodeId,
    destination: NodeId,
    /// Interfaces at which the packet is captured as it leaves and as it arrives.
    at: [Option<InterfaceId>; 2],
    /// Number of the packet among all captured packets, if its departure was captured.
    number: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Contents {
    Segment(TcpHeader, u32),
    Datagram,
}

/// Packet that was captured at an interface but is not written yet.
#[derive(Clone, Copy, Debug)]
struct CapturedPacket {
    at: Time,
    interface: InterfaceId,
    contents: Contents,
    addresses: Addresses,
    wire_bytes: u32,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Unknown,
    Delivered,
    Dropped(PortId, DropReason),
}

/// Length of the longest IPv4 packet, bytes.
const LONGEST_PACKET: usize = u16::MAX as usize;
/// Length of the headers of a TCP segment with the maximum of options, bytes.
const LONGEST_HEADERS: usize = 20 + 60;
/// TCP port of the first client. Each connection uses the next port.
const FIRST_PORT: u16 = 1024;
const HOP_LIMIT: u8 = 64;

/// Checks that the longest segment of this plan fits into an IPv4 packet.
pub(super) fn check(plan: &Plan) -> Result<(), String> {
    let (longest, max) = (plan.longest_segment() as usize, LONGEST_PACKET - LONGEST_HEADERS);
    if longest <= max {
        return Ok(());
    }
    Err(format!("segments of {longest} bytes: expected at most {max}, the payload of an IP packet"))
}

impl<W: io::Write + Debug> Packets<W> {
    /// Starts the capture of a run of this plan.
    pub(super) fn new(out: W, plan: &Plan, points: Points) -> io::Result<Self> {
        let topology = plan.topology();
        let mut writer = Writer::new(out, Span::ZERO)?;
        let at_servers = points == Points::Servers;
        let nodes: BTreeSet<NodeId> = match points {
            Points::Servers => plan.groups().flat_map(|it| it.pairs).map(|&(server, _)| server).collect(),
            Points::Nodes(nodes) => nodes.into_iter().collect(),
        };
        let mut interfaces = vec![None; topology.node_count()];
        for node in nodes {
            interfaces[node.0 as usize] = Some(writer.interface(topology.name(node))?);
        }
        let between = |port: &PortSpec| format!("{} to {}", topology.name(port.from), topology.name(port.to));
        let mut ports: Vec<String> = topology.ports().iter().map(between).collect();
        for (named, id) in plan.ports().iter().filter_map(|named| Some((named, named.single()?))) {
            ports[id.0 as usize].clone_from(&named.name);
        }
        let services = plan.traffic().iter().map(|it| (Announcement::of(&it.tcp), it.service.port));
        Ok(Self {
            writer,
            interfaces,
            at_servers,
            addresses: plan.addresses(),
            services: services.collect(),
            ports,
            connections: BTreeMap::new(),
            in_transit: BTreeMap::new(),
            pending: VecDeque::new(),
            written: 0,
            zeros: vec![0; LONGEST_PACKET],
            buffer: vec![0; LONGEST_PACKET],
            comment: String::new(),
            failure: Failure::default(),
        })
    }

    /// Returns true after an I/O error, after which nothing more is written.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_set()
    }

    /// Writes the remaining packets and completes the file.
    pub(super) fn finish(mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            self.write_first();
        }
        self.failure.take()?;
        self.writer.finish().map(|_| ())
    }

    /// Returns the TCP header and the length of the data of the segment `created`, or `None` if `created` is a datagram.
    fn header(&mut self, created: &Created<'_>) -> Option<(TcpHeader, u32)> {
        let &Created::Segment { connection, end, spec, segment } = created else { return None };
        let (announcement, server_port) = self.services[spec.tcp.0 as usize];
        let ends = self.connections.entry(connection).or_insert_with(|| {
            // Arbitrary initial sequence numbers: they differ between connections, and wrap around soon in some of them.
            let [client, server] =
                [0x9e37_79b9, 0x85eb_ca6b].map(|odd: u32| odd.wrapping_mul(connection as u32 + 1));
            [(client, server), (server, client)]
                .map(|(ours, theirs)| Translation::between(ours, theirs, announcement))
        });
        let header = ends[end].outgoing(segment);
        let client_port = FIRST_PORT + (connection % u64::from(u16::MAX - FIRST_PORT)) as u16;
        let (source_port, destination_port) =
            if end == SERVER { (server_port, client_port) } else { (client_port, server_port) };
        Some((TcpHeader { source_port, destination_port, ..header }, segment.len))
    }

    fn capture(
        &mut self,
        at: Time,
        interface: InterfaceId,
        in_transit: &InTransit,
        packet: &Packet,
        fate: Fate,
    ) {
        let address = |node: NodeId| self.addresses[node.0 as usize].into();
        let addresses = Addresses {
            source: address(in_transit.source),
            destination: address(in_transit.destination),
            traffic_class: packet.dscp.codepoint() << 2 | packet.ecn.bits(),
            hop_limit: HOP_LIMIT,
        };
        let contents = in_transit.contents;
        self.pending.push_back(CapturedPacket {
            at,
            interface,
            contents,
            addresses,
            wire_bytes: packet.len,
            fate,
        });
    }

    /// Records the fate of a captured packet that has left the network.
    fn set_fate(&mut self, in_transit: &InTransit, fate: Fate) {
        if let Some(number) = in_transit.number {
            self.pending[(number - self.written) as usize].fate = fate;
        }
    }

    fn write_known(&mut self) {
        while self.pending.front().is_some_and(|first| first.fate != Fate::Unknown) {
            self.write_first();
        }
    }

    fn write_first(&mut self) {
        let Some(captured) = self.pending.pop_front() else { return };
        self.written += 1;
        if !self.failure.is_set() {
            let written = self.write(&captured);
            self.failure.note(written);
        }
    }

    fn write(&mut self, captured: &CapturedPacket) -> io::Result<()> {
        let Self { zeros, buffer, comment, .. } = self;
        let len = match &captured.contents {
            Contents::Segment(header, len) => header
                .write(&captured.addresses, &zeros[..*len as usize], buffer)
                .map_err(io::Error::other)?,
            Contents::Datagram => udp::write_zeros(&captured.addresses, captured.wire_bytes as usize, buffer),
        };
        comment.clear();
        // Writing to a `String` cannot fail.
        let _ = match captured.fate {
            Fate::Delivered => Ok(()),
            Fate::Unknown => write!(comment, "in the network when the run ended"),
            Fate::Dropped(port, reason) => {
                let port = &self.ports[port.0 as usize];
                write!(comment, "dropped at {port}: {}", DropReason::NAMES[reason as usize].1)
            }
        };
        self.writer.packet_of(captured.at, captured.interface, &buffer[..len], captured.wire_bytes, comment)
    }
}

impl<W: io::Write + Debug> Watch for Packets<W> {
    const PACKETS: bool = false;

    fn record(&mut self, _now: Time, event: &Event) {
        if let Event::Connection(connection) = event {
            self.connections.remove(&connection.connection);
        }
    }

    fn created(&mut self, _now: Time, packet: &Packet, created: Created<'_>) {
        let contents =
            self.header(&created).map_or(Contents::Datagram, |(it, len)| Contents::Segment(it, len));
        let (source, destination, from_server) = match created {
            Created::Segment { spec, end, .. } => (spec.node(end), spec.node(1 - end), end == SERVER),
            Created::Datagram { from, to } => (from, to, true),
        };
        let interface_at = |node: NodeId, at_server: bool| {
            self.interfaces[node.0 as usize].filter(|_| at_server || !self.at_servers)
        };
        let at = [interface_at(source, from_server), interface_at(destination, !from_server)];
        if at != [None; 2] {
            let in_transit = InTransit { contents, source, destination, at, number: None };
            self.in_transit.insert(packet.body, in_transit);
        }
    }

    fn packet(&mut self, now: Time, packet: &Packet, _origin: Origin, step: Step<'_>) {
        match step {
            Step::Sent(_) => {
                let number = self.written + self.pending.len() as u64;
                let Some(in_transit) = self.in_transit.get_mut(&packet.body) else { return };
                if let Some(interface) = in_transit.at[0] {
                    in_transit.number = Some(number);
                    let in_transit = *in_transit;
                    self.capture(now, interface, &in_transit, packet, Fate::Unknown);
                }
            }
            Step::Dropped(port, reason) => {
                let Some(in_transit) = self.in_transit.remove(&packet.body) else { return };
                self.set_fate(&in_transit, Fate::Dropped(port, reason));
                self.write_known();
            }
            Step::Delivered(_) => {
                let Some(in_transit) = self.in_transit.remove(&packet.body) else { return };
                self.set_fate(&in_transit, Fate::Delivered);
                if let Some(interface) = in_transit.at[1] {
                    self.capture(now, interface, &in_transit, packet, Fate::Delivered);
                }
                self.write_known();
            }
            Step::Copied(_, original) => {
                // A copy is made inside the network and does not leave a source. Only its arrival can be captured.
                if let Some(&in_transit) = self.in_transit.get(&original) {
                    self.in_transit.insert(packet.body, InTransit { number: None, ..in_transit });
                }
            }
            Step::Entered(_) | Step::Passed(_) | Step::Corrupted(_) | Step::Egress { .. } => {}
        }
    }
}
