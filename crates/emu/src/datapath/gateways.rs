//! Emulation of a world in real time: packets from devices enter the network and are written to devices at their departure times.

use crate::datapath::classify::{classify, classify_any, host};
use crate::datapath::frames::{Arrival, Delivery, Egress, ExternalHosts, Frames};
use catnip_base::Time;
use catnip_linux::clock::Clock;
use catnip_linux::tun::{PacketIo, Read};
use catnip_net::{NodeId, Packet};
use catnip_sim::watch::{GatewayEvent, Refusal, Watch};
use catnip_sim::{Medium, World};
use std::io;

/// Largest number of packets that are read from one device before the next device is read.
const MAX_BATCH: usize = 128;
/// Largest number of times that due events are executed before devices are read again.
const MAX_ROUNDS: usize = 4;

/// Device of an external host, and the node that represents the host in the network.
#[derive(Debug)]
pub struct Gateway<I> {
    /// Device that exchanges packets with the external host.
    pub io: I,
    /// Node that represents the external host.
    pub node: NodeId,
}

/// Devices at which packets enter and leave a network, and the clock that determines the lateness of packets.
#[derive(Debug)]
pub struct Gateways<C, I> {
    /// Clock of the emulator.
    pub clock: C,
    gateways: Vec<Gateway<I>>,
    /// Index in `gateways` of the device of each node.
    index: Vec<u32>,
    /// Time at which each device was last found empty, and true if the last batch has emptied it.
    empty: Vec<(Time, bool)>,
}

impl<C, I> Gateways<C, I> {
    /// Creates the gateways of a network. `clock` must watch their devices in the same order.
    pub fn new(clock: C, gateways: Vec<Gateway<I>>) -> Self {
        let nodes = gateways.iter().map(|gateway| gateway.node.0 as usize + 1).max().unwrap_or(0);
        let mut index = vec![u32::MAX; nodes];
        (0..).zip(&gateways).for_each(|(number, gateway)| index[gateway.node.0 as usize] = number);
        let empty = vec![(Time::ZERO, false); gateways.len()];
        Self { clock, gateways, index, empty }
    }

    /// Returns the nodes of the devices.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.gateways.iter().map(|gateway| gateway.node).collect()
    }
}

impl<C: Clock, I: PacketIo> Egress for Gateways<C, I> {
    #[inline]
    fn deliver(&mut self, _ideal: Time, node: NodeId, packet: &[u8]) -> Delivery {
        let gateway = &mut self.gateways[self.index[node.0 as usize] as usize];
        let written = gateway.io.send(packet).is_ok();
        // The time is taken after the write: a delay of this thread during the write makes the packet late.
        Delivery { actual: self.clock.now(), written }
    }
}

/// Emulator of a network: a simulated world, devices at its gateways, and a clock.
///
/// Times inside the world are ideal: a late write does not change the times of later packets. Lateness never accumulates, and the same
/// arrivals give the same departures as in the simulator.
#[derive(Debug)]
pub struct Emulator<C: Clock, I: PacketIo, F: ExternalHosts, W> {
    /// Emulated world, which contains the gateways and the clock.
    pub world: World<Frames<Gateways<C, I>, F>, W>,
}

impl<C: Clock, I: PacketIo, F: ExternalHosts, W: Watch> Emulator<C, I, F, W> {
    /// Creates an emulator of `world`, whose medium contains the gateways and the clock.
    pub fn new(world: World<Frames<Gateways<C, I>, F>, W>) -> Self {
        Self { world }
    }

    /// Reads at most a batch of packets from each device and writes all packets that are due. Returns the time at which the next call is
    /// due: the time of the next event, or a time that has passed if a device may contain more packets.
    pub fn poll(&mut self) -> io::Result<Time> {
        let mut is_all_read = true;
        for gateway in 0..self.gateways().len() {
            if self.clock().has_input(gateway) {
                is_all_read &= self.read(gateway)?;
            }
        }
        let next = self.write_due();
        Ok(if is_all_read { next } else { self.world.advanced_to() })
    }

    /// Waits until `deadline` or until a packet arrives.
    pub fn sleep_until(&self, deadline: Time) {
        self.clock().sleep_until(deadline);
    }

    /// Reads the devices until they are empty, and writes all packets that are due. At the end of a run, no packet is then left between the
    /// network and the devices.
    pub fn finish(&mut self) -> io::Result<()> {
        // A device that is never empty must not prevent the end of the run.
        for _ in 0..MAX_BATCH {
            for gateway in 0..self.gateways().len() {
                self.read(gateway)?;
            }
            if self.write_due() > self.clock().now() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the clock of the emulator.
    pub fn clock(&self) -> &C {
        &self.world.medium().egress.clock
    }

    /// Returns the devices and their nodes.
    pub fn gateways(&self) -> &[Gateway<I>] {
        &self.world.medium().egress.gateways
    }

    /// Returns the devices and their nodes mutably.
    pub fn gateways_mut(&mut self) -> &mut [Gateway<I>] {
        &mut self.world.medium_mut().egress.gateways
    }

    /// Reads a batch of packets from the device with the index `gateway`. Returns true if the device was empty after the batch.
    fn read(&mut self, gateway: usize) -> io::Result<bool> {
        let Gateways { clock, empty, .. } = &self.world.medium().egress;
        let (mut empty_at, was_drained) = empty[gateway];
        empty_at = empty_at.max(clock.empty_at(gateway));
        if was_drained {
            empty_at = empty_at.max(clock.wakeup_arrival_at());
        }
        let (mut last, mut is_drained) = (empty_at, false);
        for _ in 0..MAX_BATCH {
            let Some(at) = self.read_one(gateway, empty_at)? else {
                // The device was found empty after the previous packet was read.
                (empty_at, is_drained) = (last, true);
                break;
            };
            last = at;
        }
        self.world.medium_mut().egress.empty[gateway] = (empty_at, is_drained);
        Ok(is_drained)
    }

    /// Reads one packet, which has arrived after `empty_at`, from a device. Returns the time of reading, or `None` if the device is empty.
    fn read_one(&mut self, gateway: usize, empty_at: Time) -> io::Result<Option<Time>> {
        let from = self.gateways()[gateway].node;
        let frames = self.world.medium_mut();
        let Some(body) = frames.allocate() else { return self.refuse_no_buffer(gateway) };
        let mtu = frames.mtu();
        let (buffer, egress) = frames.buffer_and_egress(body);
        let io = &mut egress.gateways[gateway].io;
        let Read { at: read_at, arrived_at, len } = match io.recv(&mut buffer[..mtu + 1]) {
            Ok(Some(read)) => read,
            other => {
                frames.release(body);
                return other.map(|_| None);
            }
        };
        let header = if len > mtu { Some(0) } else { io.ip_at(&buffer[..len]) };
        let at = read_at.max(self.world.advanced_to());
        self.world.advance(at);
        let waited = at.since(arrived_at.map_or(empty_at, |arrived_at| arrived_at.max(empty_at)));
        match header {
            None => self.forward_or_refuse(at, from, body, len),
            Some(header) => admit(&mut self.world, at, from, Arrival { body, header, len, waited }),
        }
        Ok(Some(read_at))
    }

    #[cold]
    fn refuse_no_buffer(&mut self, gateway: usize) -> io::Result<Option<Time>> {
        let gateway = &mut self.gateways_mut()[gateway];
        let from = gateway.node;
        let Some(read) = gateway.io.recv(&mut [0; 64])? else { return Ok(None) };
        let at = read.at.max(self.world.advanced_to());
        self.world.watch_mut().gateway(at, from, GatewayEvent::Refused(read.len as u32, Refusal::NoBuffer));
        Ok(Some(read.at))
    }

    /// Handles a frame that must not enter the network, because it contains no IP packet that may be delayed. A bridge forwards the frame
    /// at once, a router refuses it.
    #[cold]
    fn forward_or_refuse(&mut self, at: Time, from: NodeId, body: u32, len: usize) {
        let (frames, watch) = self.world.parts_mut();
        let bridge_peer = frames.routing().bridge_peer(from);
        let (buffer, egress) = frames.buffer_and_egress(body);
        match bridge_peer {
            Some(to) => {
                let bytes = &buffer[..len];
                let written = egress.deliver(at, to, bytes).written;
                watch.gateway(at, from, GatewayEvent::Bridged { bytes, written });
            }
            None => watch.gateway(at, from, GatewayEvent::Refused(len as u32, Refusal::NotIp)),
        }
        frames.release(body);
    }

    fn write_due(&mut self) -> Time {
        for _ in 0..MAX_ROUNDS {
            let next = self.world.advance(self.clock().now().max(self.world.advanced_to()));
            if next > self.clock().now() {
                return next;
            }
        }
        self.world.advanced_to()
    }
}

/// Lets a packet from the external host `from` enter the network, or refuses it. The caller must have advanced the world to the time `at`.
pub fn admit<O: Egress, F: ExternalHosts, W: Watch>(
    world: &mut World<Frames<O, F>, W>,
    at: Time,
    from: NodeId,
    arrival: Arrival,
) {
    match enter(world, at, from, arrival) {
        Ok(packet) => world.inject_external(at, from, packet),
        Err(reason) => {
            let (frames, watch) = world.parts_mut();
            frames.release(arrival.body);
            watch.gateway(at, from, GatewayEvent::Refused(arrival.len as u32, reason));
        }
    }
}

#[inline]
fn enter<O: Egress, F: ExternalHosts, W: Watch>(
    world: &mut World<Frames<O, F>, W>,
    at: Time,
    from: NodeId,
    arrival: Arrival,
) -> Result<Packet, Refusal> {
    let Arrival { body, header, len, .. } = arrival;
    let frames = world.medium_mut();
    if len > frames.mtu() {
        return Err(Refusal::TooLong);
    }
    let (codec, bridge) = (frames.codec(), frames.routing().bridge.is_some());
    let bytes = &frames.buffer_mut(body)[header..len];
    let class = if bridge { classify_any(bytes, codec) } else { classify(bytes, codec) }?;
    let to = frames.destination(from, &class)?;
    let route = world.fabric().route(from, to).ok_or(Refusal::NoRoute)?;
    if world.fabric().isolates_hosts() {
        world.set_hosts(class.flow, route, [class.source, class.destination].map(host));
    }
    Ok(world.medium_mut().accept(at, from, class, route, arrival))
}
