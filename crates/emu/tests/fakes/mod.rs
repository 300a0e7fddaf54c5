//! Fake clock that is late, and fake devices with scripted packets.

#![allow(dead_code, reason = "each test file uses what it needs")]

use catnip_base::{Span, Time};
use catnip_emu::datapath::frames::{Frames, Routing};
use catnip_emu::datapath::gateways::{Emulator, Gateway, Gateways};
use catnip_emu::link::LinkTopology;
use catnip_linux::clock::Clock;
use catnip_linux::tun::{PacketIo, Read};
use catnip_sim::{Watch, World};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;

/// Clock that advances only during a sleep, by a little more than requested.
#[derive(Clone, Debug)]
pub(crate) struct LateClock {
    now: Rc<Cell<Time>>,
    /// Arrival times of packets, at which a sleep ends early.
    alarms: Rc<RefCell<Vec<Time>>>,
    lateness: Rc<RefCell<Vec<Span>>>,
    sleeps: Rc<Cell<usize>>,
    /// Time at which the last sleep was due to end.
    ended: Rc<Cell<Time>>,
}

impl LateClock {
    /// Creates a clock at time zero. The `n`-th sleep ends late by the `n`-th element of `lateness`, which repeats. Sleeps end at the times
    /// in `alarms`.
    pub(crate) fn new(mut alarms: Vec<Time>, lateness: Vec<Span>) -> Self {
        alarms.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            now: Rc::default(),
            alarms: Rc::new(RefCell::new(alarms)),
            lateness: Rc::new(RefCell::new(lateness)),
            sleeps: Rc::default(),
            ended: Rc::default(),
        }
    }
}

impl Clock for LateClock {
    fn now(&self) -> Time {
        self.now.get()
    }
    fn wakeup_arrival_at(&self) -> Time {
        self.ended.get()
    }
    fn sleep_until(&self, deadline: Time) {
        let mut alarms = self.alarms.borrow_mut();
        while alarms.last().is_some_and(|&alarm| alarm <= self.now.get()) {
            alarms.pop();
        }
        let wake = deadline.min(alarms.last().copied().unwrap_or(Time::NEVER));
        if wake == Time::NEVER {
            return;
        }
        self.ended.set(wake);
        let lateness = self.lateness.borrow();
        let late = lateness.get(self.sleeps.get() % lateness.len().max(1)).copied().unwrap_or(Span::ZERO);
        self.sleeps.set(self.sleeps.get() + 1);
        self.now.set(wake.max(self.now.get()) + late);
    }
}

/// Device at which packets arrive at given times.
#[derive(Debug)]
pub(crate) struct Script {
    clock: LateClock,
    /// Packets still to arrive with their arrival times, last one first.
    incoming: Vec<(Time, Vec<u8>)>,
    /// First bytes of each packet written.
    pub(crate) written: Vec<[u8; 24]>,
}

impl Script {
    pub(crate) fn new(clock: &LateClock, mut incoming: Vec<(Time, Vec<u8>)>) -> Self {
        incoming.reverse();
        let written = Vec::with_capacity(incoming.len() + 1);
        Self { clock: clock.clone(), incoming, written }
    }

    /// Reserves space for the record of `packets` written packets.
    pub(crate) fn with_capacity_for(mut self, packets: usize) -> Self {
        self.written.reserve(packets);
        self
    }

    pub(crate) fn remaining(&self) -> usize {
        self.incoming.len()
    }
}

impl PacketIo for Script {
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<Read>> {
        let now = self.clock.now();
        let Some((arrived_at, packet)) = self.incoming.pop_if(|(at, _)| *at <= now) else { return Ok(None) };
        let len = packet.len().min(buffer.len());
        buffer[..len].copy_from_slice(&packet[..len]);
        Ok(Some(Read { at: now, arrived_at: Some(arrived_at), len }))
    }
    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let mut first = [0; 24];
        let len = packet.len().min(24);
        first[..len].copy_from_slice(&packet[..len]);
        self.written.push(first);
        Ok(())
    }
}

/// Returns an IPv4 packet to 10.0.0.`to` from the host at the other end of the link, with `number` in its identification field.
pub(crate) fn packet(to: u8, number: u16, len: usize, dscp: u8) -> Vec<u8> {
    let mut bytes = vec![0; len.max(24)];
    bytes[0] = 0x45;
    bytes[1] = dscp << 2;
    let total = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes[4..6].copy_from_slice(&number.to_be_bytes());
    bytes[12..16].copy_from_slice(&[10, 0, 0, if to == 1 { 2 } else { 1 }]);
    bytes[16..20].copy_from_slice(&[10, 0, 0, to]);
    bytes
}

/// Creates the emulator of a link with these devices, between the inside host 10.0.0.1 and the outside host 10.0.0.2.
pub(crate) fn emulator<I: PacketIo, W: Watch>(
    link: &LinkTopology,
    seed: u64,
    clock: &LateClock,
    [inside, outside]: [I; 2],
    with: impl FnOnce(Frames<Gateways<LateClock, I>>) -> Frames<Gateways<LateClock, I>>,
    watch: W,
) -> Emulator<LateClock, I, (), W> {
    let network = |number, node| (IpAddr::from([10, 0, 0, number]).into(), node);
    let networks = vec![network(1, link.inside), network(2, link.outside)];
    let routing = Routing { networks, ..Routing::default() };
    bridge_or_router(link, seed, clock, [inside, outside], routing, 1500, with, watch)
}

/// Creates the emulator of a link with the routing `routing` and packets of up to `mtu` bytes.
#[expect(clippy::too_many_arguments, reason = "all that an emulator is made of")]
pub(crate) fn bridge_or_router<I: PacketIo, W: Watch>(
    link: &LinkTopology,
    seed: u64,
    clock: &LateClock,
    [inside, outside]: [I; 2],
    routing: Routing,
    mtu: usize,
    with: impl FnOnce(Frames<Gateways<LateClock, I>>) -> Frames<Gateways<LateClock, I>>,
    watch: W,
) -> Emulator<LateClock, I, (), W> {
    let gateways =
        vec![Gateway { io: inside, node: link.inside }, Gateway { io: outside, node: link.outside }];
    let gateways = Gateways::new(clock.clone(), gateways);
    let nodes = gateways.nodes();
    let frames = with(Frames::new(gateways, nodes, routing, mtu, 0));
    Emulator::new(World::over(&link.topology, seed, frames, watch))
}
