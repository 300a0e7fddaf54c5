//! What the links did: counted and measured packet by packet, in fixed memory.

use crate::buffers::Entry;
use crate::classify::Refusal;
use crate::histogram::Histogram;
use crate::pump::Observer;
use catnip_base::{Span, Time};
use catnip_net::{DropReason, Packet, PortId, Priority};
use std::collections::VecDeque;

/// What happened to the packets of one flow, which passes one port.
#[derive(Debug)]
pub struct Direction {
    /// Number of the flow in the pump.
    pub flow: u32,
    delay: Span,
    /// Packets that entered, by priority.
    pub entered: [u64; Priority::COUNT],
    /// Bytes that entered.
    pub entered_bytes: u64,
    /// Packets written to the device.
    pub delivered: u64,
    /// Bytes written.
    pub delivered_bytes: u64,
    /// Packets that came out and that the device did not take.
    pub unwritable: u64,
    /// Drops by reason.
    pub dropped: [u64; DropReason::COUNT],
    /// Packets that have left the wire, by priority: delivered, or lost at its end.
    pub crossed: [u64; Priority::COUNT],
    /// Packets that a loss model took, by priority.
    pub lost: [u64; Priority::COUNT],
    /// Time from entering to leaving as it should be.
    pub ideal_delay: Histogram,
    /// The same as it was.
    pub actual_delay: Histogram,
    /// How much later than ideal packets were written.
    pub lateness: Histogram,
    /// Bits of packets that found the wire busy, and the time they took as it should be and as it was.
    pub busy: Busy,
    queue: Occupancy,
    /// When the packet before left: ideal, actual.
    last: Option<(Time, Time)>,
}

/// Times at which the link was never idle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Busy {
    /// Packets.
    pub packets: u64,
    /// Their bits.
    pub bits: u64,
    /// Time between their ideal departures.
    pub ideal: Span,
    /// Time between the writes; the difference of two writes may be negative.
    pub actual_ns: i64,
}

impl Busy {
    /// Bits per second as it was; none if the link was never busy.
    pub fn rate(&self) -> Option<f64> {
        (self.actual_ns > 0).then(|| self.bits as f64 * 1e9 / self.actual_ns as f64)
    }
}

impl Direction {
    /// Watches a flow over a link with this propagation delay.
    pub fn new(flow: u32, delay: Span) -> Self {
        Self {
            flow,
            delay,
            entered: [0; Priority::COUNT],
            entered_bytes: 0,
            delivered: 0,
            delivered_bytes: 0,
            unwritable: 0,
            dropped: [0; DropReason::COUNT],
            crossed: [0; Priority::COUNT],
            lost: [0; Priority::COUNT],
            ideal_delay: Histogram::default(),
            actual_delay: Histogram::default(),
            lateness: Histogram::default(),
            busy: Busy::default(),
            queue: Occupancy::default(),
            last: None,
        }
    }

    /// The most packets that waited or were in transmission at any time, as far as packets have come out. With jitter,
    /// which hides when packets left the queue, it is an estimate.
    pub fn largest_queue(&self) -> u32 {
        self.queue.largest
    }

    fn delivered(&mut self, ideal: Time, actual: Time, entry: &Entry, packet: &Packet, written: bool) {
        if written {
            self.delivered += 1;
            self.delivered_bytes += u64::from(packet.len);
        } else {
            self.unwritable += 1;
        }
        self.crossed[packet.priority as usize] += 1;
        self.ideal_delay.record(ideal.since(entry.arrived));
        self.actual_delay.record(actual.since(entry.arrived));
        self.lateness.record(actual.since(ideal));
        if let Some((last_ideal, last_actual)) = self.last {
            // It was there when the packet before it left: the wire was busy from one end to the other.
            if entry.arrived + self.delay <= last_ideal {
                self.busy.packets += 1;
                self.busy.bits += 8 * u64::from(packet.len);
                self.busy.ideal = self.busy.ideal + ideal.since(last_ideal);
                self.busy.actual_ns += actual.as_nanos() as i64 - last_actual.as_nanos() as i64;
            }
        }
        self.last = Some((ideal, actual));
        self.left(ideal);
    }

    /// A packet that reaches the other end now has left the queue before.
    fn left(&mut self, arrives: Time) {
        self.queue.left(Time::from_nanos(arrives.as_nanos().saturating_sub(self.delay.as_nanos())));
    }
}

/// How many packets are in a queue. When one left is known only when it has arrived at the other end, so what came in
/// since is kept until then.
#[derive(Debug, Default)]
struct Occupancy {
    /// Entries and drops not yet counted, in order of time.
    changes: VecDeque<(Time, i32)>,
    now: i32,
    largest: u32,
}

impl Occupancy {
    fn change(&mut self, at: Time, by: i32) {
        self.changes.push_back((at, by));
    }

    /// A packet has left; departures come before arrivals of the same time.
    fn left(&mut self, at: Time) {
        while let Some(&(_, by)) = self.changes.front().filter(|(changed, _)| *changed < at) {
            self.changes.pop_front();
            self.add(by);
        }
        self.now -= 1;
    }

    fn add(&mut self, by: i32) {
        self.now += by;
        self.largest = self.largest.max(self.now.max(0) as u32);
    }
}

/// Watches all flows of a network.
#[derive(Debug)]
pub struct Monitor {
    /// The flows that are watched.
    pub directions: Vec<Direction>,
    /// Index in `directions` by flow.
    by_flow: Vec<u32>,
    /// The packet that is entering now, until it is known whether it got a place in the queue.
    entering: Option<(u32, Time, u64)>,
    /// Packets that were not let in, by edge and reason.
    pub refused: Vec<[u64; Refusal::COUNT]>,
    /// What a bridge has handed over at once, and what the device did not take, by edge.
    pub passed: Vec<[u64; 2]>,
}

const UNWATCHED: u32 = u32::MAX;

impl Monitor {
    /// Watches these flows of a network with so many edges.
    pub fn new(edges: usize, directions: Vec<Direction>) -> Self {
        let mut by_flow = vec![UNWATCHED; edges * edges];
        for (index, direction) in directions.iter().enumerate() {
            by_flow[direction.flow as usize] = index as u32;
        }
        let (refused, passed) = (vec![[0; Refusal::COUNT]; edges], vec![[0; 2]; edges]);
        Self { directions, by_flow, entering: None, refused, passed }
    }

    fn direction(&mut self, packet: &Packet) -> Option<&mut Direction> {
        let index = *self.by_flow.get(packet.flow as usize)?;
        self.directions.get_mut(index as usize)
    }

    /// The packet that entered last was not dropped at once, so it is in the queue.
    fn settle(&mut self) {
        if let Some((flow, at, _)) = self.entering.take() {
            let index = self.by_flow[flow as usize];
            if let Some(direction) = self.directions.get_mut(index as usize) {
                direction.queue.change(at, 1);
            }
        }
    }
}

impl Observer for Monitor {
    fn arrived(&mut self, entry: &Entry, packet: &Packet) {
        self.settle();
        let number = entry.number;
        self.entering = Some((packet.flow, entry.arrived, number));
        if let Some(direction) = self.direction(packet) {
            direction.entered[packet.priority as usize] += 1;
            direction.entered_bytes += u64::from(packet.len);
        }
    }

    fn dropped(&mut self, at: Time, entry: &Entry, packet: &Packet, _port: PortId, why: DropReason) {
        let was_entering = self.entering.take_if(|(_, _, number)| *number == entry.number).is_some();
        let Some(direction) = self.direction(packet) else { return };
        direction.dropped[why as usize] += 1;
        if why == DropReason::Loss {
            direction.lost[packet.priority as usize] += 1;
        }
        match why {
            _ if was_entering => {}
            // At the end of the wire.
            DropReason::Loss => {
                direction.crossed[packet.priority as usize] += 1;
                direction.left(at);
                direction.last = None;
            }
            _ => direction.queue.change(at, -1),
        }
    }

    fn delivered(&mut self, ideal: Time, actual: Time, entry: &Entry, packet: &Packet, written: bool) {
        self.settle();
        if let Some(direction) = self.direction(packet) {
            direction.delivered(ideal, actual, entry, packet, written);
        }
    }

    fn refused(&mut self, _at: Time, from: u32, _len: u32, why: Refusal) {
        self.refused[from as usize][why as usize] += 1;
    }
    fn passed(&mut self, _at: Time, from: u32, _bytes: &[u8], written: bool) {
        self.passed[from as usize][usize::from(!written)] += 1;
    }
}
