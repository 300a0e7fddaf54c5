//! The event loop of a network in real time: packets from devices go in, deliveries come out when the clock says so.

use crate::buffers::{Buffers, Entry};
use crate::classify::{Refusal, classify, classify_any};
use crate::clock::{Clock, PacketIo};
use crate::mark::Marker;
use crate::netlink::Network;
use catnip_base::Time;
use catnip_net::{DropReason, Ecn, Fabric, NetworkFate, NodeId, Out, Packet, PortId};
use catnip_wire::{PriorityCodec, ip};
use std::io;
use std::net::IpAddr;

/// Packets read from one device, and written to all, before the others have their turn.
const BATCH: usize = 32;
/// Most packets that can be inside, and most memory for them.
const MOST_PACKETS: u32 = 1 << 18;
const MOST_BYTES: usize = 4 << 30;

/// A device and the place in the network where it stands.
#[derive(Debug)]
pub struct Edge<I> {
    /// The device.
    pub io: I,
    /// What the device's owner sends comes from this host of the network.
    pub sends_as: NodeId,
    /// What arrives at this host is written to the device; the same host, unless each direction is a link of its own.
    pub receives_as: NodeId,
    /// Packets to these addresses go to this edge, unless another one has a more specific network.
    pub networks: Vec<Network>,
}

/// Hears of everything that happens to a packet.
pub trait Observer {
    /// A packet has entered the network.
    fn arrived(&mut self, _entry: &Entry, _packet: &Packet) {}
    /// The same packet as it was read.
    fn seen(&mut self, _entry: &Entry, _packet: &Packet, _bytes: &[u8]) {}
    /// It was dropped at a port.
    fn dropped(&mut self, _at: Time, _entry: &Entry, _packet: &Packet, _port: PortId, _why: DropReason) {}
    /// It left the network at `ideal` and was written at `actual`; the device may have refused it.
    fn delivered(&mut self, _ideal: Time, _actual: Time, _entry: &Entry, _packet: &Packet, _written: bool) {}
    /// A packet of this length was not let in.
    fn refused(&mut self, _at: Time, _from: u32, _len: u32, _why: Refusal) {}
    /// A bridge has handed these bytes over at once; the device may have refused them.
    fn passed(&mut self, _at: Time, _from: u32, _bytes: &[u8], _written: bool) {}
}

impl Observer for () {}

impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn arrived(&mut self, entry: &Entry, packet: &Packet) {
        self.0.arrived(entry, packet);
        self.1.arrived(entry, packet);
    }
    #[inline]
    fn seen(&mut self, entry: &Entry, packet: &Packet, bytes: &[u8]) {
        self.0.seen(entry, packet, bytes);
        self.1.seen(entry, packet, bytes);
    }
    #[inline]
    fn dropped(&mut self, at: Time, entry: &Entry, packet: &Packet, port: PortId, why: DropReason) {
        self.0.dropped(at, entry, packet, port, why);
        self.1.dropped(at, entry, packet, port, why);
    }
    #[inline]
    fn delivered(&mut self, ideal: Time, actual: Time, entry: &Entry, packet: &Packet, written: bool) {
        self.0.delivered(ideal, actual, entry, packet, written);
        self.1.delivered(ideal, actual, entry, packet, written);
    }
    fn refused(&mut self, at: Time, from: u32, len: u32, why: Refusal) {
        self.0.refused(at, from, len, why);
        self.1.refused(at, from, len, why);
    }
    fn passed(&mut self, at: Time, from: u32, bytes: &[u8], written: bool) {
        self.0.passed(at, from, bytes, written);
        self.1.passed(at, from, bytes, written);
    }
}

impl<O: Observer> Observer for Option<O> {
    #[inline]
    fn arrived(&mut self, entry: &Entry, packet: &Packet) {
        self.iter_mut().for_each(|observer| observer.arrived(entry, packet));
    }
    #[inline]
    fn seen(&mut self, entry: &Entry, packet: &Packet, bytes: &[u8]) {
        self.iter_mut().for_each(|observer| observer.seen(entry, packet, bytes));
    }
    #[inline]
    fn dropped(&mut self, at: Time, entry: &Entry, packet: &Packet, port: PortId, why: DropReason) {
        self.iter_mut().for_each(|observer| observer.dropped(at, entry, packet, port, why));
    }
    #[inline]
    fn delivered(&mut self, ideal: Time, actual: Time, entry: &Entry, packet: &Packet, written: bool) {
        self.iter_mut().for_each(|observer| observer.delivered(ideal, actual, entry, packet, written));
    }
    fn refused(&mut self, at: Time, from: u32, len: u32, why: Refusal) {
        self.iter_mut().for_each(|observer| observer.refused(at, from, len, why));
    }
    fn passed(&mut self, at: Time, from: u32, bytes: &[u8], written: bool) {
        self.iter_mut().for_each(|observer| observer.passed(at, from, bytes, written));
    }
}

/// A network, the devices at its edges, and a clock.
///
/// Times inside the network are ideal: what is written late leaves the times of all later packets as they are, so
/// lateness never adds up, and the same arrivals give the same departures as in the simulator.
#[derive(Debug)]
pub struct Pump<C, I, O> {
    clock: C,
    fabric: Fabric,
    edges: Vec<Edge<I>>,
    /// All networks with the edge they lead to, the most specific first.
    routes: Vec<(Network, u32)>,
    /// The edge at each node, if there is one.
    edge_of: Vec<u32>,
    inside: Inside<O>,
    mtu: usize,
    codec: PriorityCodec,
    marker: Option<Marker>,
    bridge: bool,
    /// The network has been told of all that happened up to here.
    told: Time,
    arrivals: u64,
}

/// The packets inside, and who is told of their end.
#[derive(Debug)]
struct Inside<O> {
    buffers: Buffers,
    observer: O,
}

impl<O: Observer> NetworkFate for Inside<O> {
    fn dropped(&mut self, now: Time, at: PortId, packet: Packet, why: DropReason) {
        self.observer.dropped(now, &self.buffers.entry(packet.body), &packet, at, why);
        self.buffers.release(packet.body);
    }
}

/// The number under which the network knows what goes from one edge to another.
pub fn flow(edges: usize, from: usize, to: usize) -> u32 {
    (from * edges + to) as u32
}

impl<C: Clock, I: PacketIo, O: Observer> Pump<C, I, O> {
    /// A network at time zero. Packets longer than `mtu` bytes are refused. Every edge must have a route to every other
    /// one.
    pub fn new(mut fabric: Fabric, edges: Vec<Edge<I>>, mtu: usize, clock: C, observer: O) -> Self {
        let mut routes: Vec<(Network, u32)> = Vec::new();
        let nodes = edges.iter().map(|edge| edge.receives_as.0 as usize + 1).max().unwrap_or(0);
        let mut edge_of = vec![u32::MAX; nodes];
        for (to, edge) in edges.iter().enumerate() {
            routes.extend(edge.networks.iter().map(|&network| (network, to as u32)));
            edge_of[edge.receives_as.0 as usize] = to as u32;
            (0..edges.len())
                .for_each(|from| fabric.set_destination(flow(edges.len(), from, to), edge.receives_as));
        }
        routes.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix));
        // One byte more than the MTU shows that a packet is longer.
        let slot = (mtu + 1).next_multiple_of(64);
        let most = MOST_PACKETS.min((MOST_BYTES / slot) as u32);
        let inside = Inside { buffers: Buffers::new(slot, most), observer };
        let codec = PriorityCodec::default();
        Self {
            clock,
            fabric,
            edges,
            routes,
            edge_of,
            inside,
            mtu,
            codec,
            marker: None,
            bridge: false,
            told: Time::ZERO,
            arrivals: 0,
        }
    }

    /// Reads the loss priorities of packets by this codec.
    pub fn with_codec(self, codec: PriorityCodec) -> Self {
        Self { codec, ..self }
    }

    /// Marks what enters, whatever its own mark says.
    pub fn with_marker(self, marker: Option<Marker>) -> Self {
        Self { marker, ..self }
    }

    /// Takes everything from either of two edges to the other one, whatever its address; what has no IP packet that
    /// may wait is handed over at once.
    pub fn bridging(self) -> Self {
        assert_eq!(self.edges.len(), 2, "a bridge has two ends");
        Self { bridge: true, ..self }
    }

    /// Moves what can be moved now, at most a batch per device. Gives the time of the next event; something may be
    /// left to read or to write at once.
    pub fn turn(&mut self) -> io::Result<Time> {
        for edge in 0..self.edges.len() {
            if self.clock.has_come(edge) {
                self.read(edge)?;
            }
        }
        Ok(self.write_due())
    }

    /// Waits until `deadline` or until something has come.
    pub fn sleep_until(&self, deadline: Time) {
        self.clock.sleep_until(deadline);
    }

    /// Reads until nothing is left, then writes what is due. At the end of a run, so that no packet is between the
    /// network and the devices.
    pub fn finish(&mut self) -> io::Result<()> {
        // A device that is never empty must not keep the run from ending.
        for _ in 0..BATCH {
            for edge in 0..self.edges.len() {
                self.read(edge)?;
            }
            if self.write_due() > self.clock.now() {
                break;
            }
        }
        Ok(())
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The clock, to set up.
    pub fn clock_mut(&mut self) -> &mut C {
        &mut self.clock
    }

    /// The network.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The devices and their places.
    pub fn edges_mut(&mut self) -> &mut [Edge<I>] {
        &mut self.edges
    }

    /// Who was told of everything.
    pub fn observer(&self) -> &O {
        &self.inside.observer
    }

    /// The same, at the end.
    pub fn into_observer(self) -> O {
        self.inside.observer
    }

    /// Up to when the network knows what happened.
    pub fn told(&self) -> Time {
        self.told
    }

    /// Packets inside, counted by their memory. The fabric counts by itself; if the two differ, a packet was lost
    /// silently.
    pub fn packets_inside(&self) -> usize {
        self.inside.buffers.in_use()
    }

    /// Reads a batch from one device.
    fn read(&mut self, edge: usize) -> io::Result<()> {
        for _ in 0..BATCH {
            if !self.read_one(edge)? {
                break;
            }
        }
        Ok(())
    }

    /// False if there was nothing to read.
    #[inline]
    fn read_one(&mut self, from: usize) -> io::Result<bool> {
        let Some(slot) = self.inside.buffers.take() else { return self.refuse_for_want_of_memory(from) };
        let bytes = &mut self.inside.buffers.bytes_mut(slot)[..self.mtu + 1];
        let (at, len) = match self.edges[from].io.recv(bytes) {
            Ok(Some(read)) => read,
            nothing => {
                self.inside.buffers.release(slot);
                return nothing.map(|_| false);
            }
        };
        let header = if len > self.mtu { Some(0) } else { self.edges[from].io.ip_at(&bytes[..len]) };
        let Some(header) = header else { return Ok(self.pass(from, slot, at, len)) };
        let class = match &bytes[header..len.min(self.mtu)] {
            _ if len > self.mtu => Err(Refusal::TooLong),
            packet if self.bridge => classify_any(packet, self.codec),
            packet => classify(packet, self.codec),
        };
        let at = at.max(self.told);
        self.told = at;
        let class = class.and_then(|class| match self.edge_to(from, class.destination) {
            Some(to) if to != from => Ok((class, to)),
            _ => Err(Refusal::NoRoute),
        });
        let (mut class, to) = match class {
            Ok(accepted) => accepted,
            Err(why) => {
                self.inside.buffers.release(slot);
                self.inside.observer.refused(at, from as u32, len as u32, why);
                return Ok(true);
            }
        };
        if let Some(marker) = &mut self.marker {
            let packet = &mut self.inside.buffers.bytes_mut(slot)[header..len];
            if let Some(priority) = marker.mark(from, packet) {
                class.priority = priority;
                if marker.writes() {
                    // What cannot carry a mark is known to the network alone.
                    let _ = self.codec.write(packet, priority);
                }
            }
        }
        let (from_edge, len, header) = (from as u32, len as u32, header as u32);
        let entry = Entry { number: self.arrivals, arrived: at, len, header, from: from_edge };
        self.arrivals += 1;
        self.inside.buffers.set_entry(slot, entry);
        let packet = Packet {
            arrived: at,
            flow: flow(self.edges.len(), from, to),
            len: class.len,
            body: slot,
            ecn: class.ecn,
            priority: class.priority,
            class: 0,
        };
        self.inside.observer.arrived(&entry, &packet);
        self.inside.observer.seen(&entry, &packet, self.inside.buffers.packet_mut(slot));
        self.fabric.arrive(at, self.edges[from].sends_as, packet, &mut self.inside);
        Ok(true)
    }

    #[cold]
    fn refuse_for_want_of_memory(&mut self, from: usize) -> io::Result<bool> {
        let Some((at, len)) = self.edges[from].io.recv(&mut [0; 64])? else { return Ok(false) };
        self.told = self.told.max(at);
        self.inside.observer.refused(self.told, from as u32, len as u32, Refusal::NoBuffer);
        Ok(true)
    }

    /// What is no packet for the network crosses a bridge at once; a router has no use for it.
    #[cold]
    fn pass(&mut self, from: usize, slot: u32, at: Time, len: usize) -> bool {
        let at = at.max(self.told);
        self.told = at;
        let Inside { buffers, observer } = &mut self.inside;
        if self.bridge {
            let bytes = &buffers.bytes_mut(slot)[..len];
            let written = self.edges[1 - from].io.send(bytes).is_ok();
            observer.passed(at, from as u32, bytes, written);
        } else {
            observer.refused(at, from as u32, len as u32, Refusal::NotIp);
        }
        buffers.release(slot);
        true
    }

    #[inline]
    fn edge_to(&self, from: usize, destination: IpAddr) -> Option<usize> {
        if self.bridge {
            return Some(1 - from);
        }
        let (_, edge) = self.routes.iter().find(|(network, _)| network.contains(destination))?;
        Some(*edge as usize)
    }

    fn write_due(&mut self) -> Time {
        let mut now = self.clock.now().max(self.told);
        self.told = now;
        for _ in 0..2 * BATCH {
            match self.fabric.poll(now, &mut self.inside) {
                Out::Deliver(ideal, node, packet) => {
                    let to = self.edge_of[node.0 as usize] as usize;
                    let entry = self.inside.buffers.entry(packet.body);
                    let bytes = self.inside.buffers.packet_mut(packet.body);
                    if packet.ecn == Ecn::Ce {
                        // It was read as an IP packet when it came.
                        let _ = ip::set_ecn(&mut bytes[entry.header as usize..], Ecn::Ce);
                    }
                    let actual = self.clock.now();
                    let written = self.edges[to].io.send(bytes).is_ok();
                    self.inside.observer.delivered(ideal, actual, &entry, &packet, written);
                    self.inside.buffers.release(packet.body);
                }
                Out::Wait(next) => {
                    now = self.clock.now().max(self.told);
                    if next > now {
                        return next;
                    }
                    self.told = now;
                }
                Out::Idle => return Time::NEVER,
            }
        }
        now
    }
}
