//! What the links did: counted and measured packet by packet, in fixed memory.

use catnip_base::Histogram;
use catnip_base::{Span, Time};
use catnip_net::{Colour, DropReason, NodeId, Packet, PortId};
use catnip_sim::watch::{Gate, Origin, Refusal, Step};
use catnip_sim::{Event, Watch};
use std::collections::VecDeque;

/// What happened to the packets that came to one port.
#[derive(Debug, Default)]
pub struct Direction {
    delay: Span,
    /// Packets are written to a device at its end, so that they may be late.
    leads_out: bool,
    /// Packets that entered, by priority.
    pub entered: [u64; Colour::COUNT],
    /// Bytes that entered.
    pub entered_bytes: u64,
    /// Packets written to the device.
    pub delivered: u64,
    /// Bytes written.
    pub delivered_bytes: u64,
    /// Packets that came out and that the device did not take.
    pub unwritable: u64,
    /// Copies that were made of packets behind the wire.
    pub duplicated: u64,
    /// Packets that have come out with a bit that is wrong.
    pub corrupted: u64,
    /// Drops by reason.
    pub dropped: [u64; DropReason::COUNT],
    /// Packets that have left the wire, by priority: delivered, or lost at its end.
    pub crossed: [u64; Colour::COUNT],
    /// Packets that a loss model took, by priority.
    pub lost: [u64; Colour::COUNT],
    /// Time from entering to leaving as it should be.
    pub ideal_delay: Histogram,
    /// The same as it was.
    pub actual_delay: Histogram,
    /// How much later than ideal packets were written.
    pub lateness: Histogram,
    /// How long packets had waited before they were read, at most: what nobody counts who counts from then.
    pub waited: Histogram,
    /// Both together: how much longer than it was asked to the link may have kept packets.
    pub excess: Histogram,
    /// Bits of packets that found the wire busy, and the time they took as it should be and as it was.
    pub busy: Busy,
    pub(crate) queue: Occupancy,
    /// When the packet before left: ideal, actual.
    last: Option<(Time, Time)>,
}

/// How a packet has come out.
#[derive(Clone, Copy, Debug)]
struct Out {
    ideal: Time,
    actual: Time,
    /// Before it was read.
    waited: Span,
    /// The device took it.
    written: bool,
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
    fn new(delay: Span, leads_out: bool) -> Self {
        Self { delay, leads_out, ..Self::default() }
    }

    /// The most packets that waited or were in transmission at any time, as far as packets have come out. With jitter
    /// or anything else that hides when packets left the queue, it is an estimate.
    pub fn largest_queue(&self) -> u32 {
        self.queue.largest
    }

    /// Packets that came, and copies of them, that have neither come out nor been dropped.
    pub fn inside(&self) -> u64 {
        let out = self.delivered + self.unwritable + self.dropped.iter().sum::<u64>();
        self.entered.iter().sum::<u64>() + self.duplicated - out
    }

    /// A packet that came to the port at `came` has reached the other end.
    fn came_out(&mut self, came: Time, out: Out, packet: &Packet) {
        let Out { ideal, actual, waited, written } = out;
        if written {
            self.delivered += 1;
            self.delivered_bytes += u64::from(packet.len);
        } else {
            self.unwritable += 1;
        }
        self.crossed[packet.dscp.colour() as usize] += 1;
        self.ideal_delay.record(ideal.since(came));
        self.actual_delay.record(actual.since(came));
        self.lateness.record(actual.since(ideal));
        self.excess.record(actual.since(ideal) + waited);
        if let Some((last_ideal, last_actual)) = self.last {
            // It was there when the packet before it left: the wire was busy from one end to the other.
            if came + self.delay <= last_ideal {
                self.busy.packets += 1;
                self.busy.bits += 8 * u64::from(packet.len);
                self.busy.ideal += ideal.since(last_ideal);
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
pub(crate) struct Occupancy {
    /// Entries and drops not yet counted, in order of time.
    changes: VecDeque<(Time, i32)>,
    now: i32,
    largest: u32,
}

impl Occupancy {
    pub(crate) fn change(&mut self, at: Time, by: i32) {
        self.changes.push_back((at, by));
    }

    /// A packet has left; departures come before arrivals of the same time.
    pub(crate) fn left(&mut self, at: Time) {
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

/// Watches ports of a network, and its gateways.
#[derive(Debug)]
pub struct Monitor {
    /// The ports that are watched, in the order in which they were named.
    pub directions: Vec<Direction>,
    /// What came to each node and never entered the network.
    pub gates: Vec<GateCounts>,
    /// Index in `directions` by port.
    by_port: Vec<u32>,
    /// When the packet in each buffer came to the port where it is.
    came: Vec<Time>,
    /// The packet that is coming to a port now, until it is known whether it got a place in the queue.
    entering: Option<(usize, Time, u32)>,
    /// The direction that a packet has left which is written to a device next.
    leaving: Option<usize>,
}

/// What came to a gateway and never entered the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct GateCounts {
    /// Packets that were not let in, by reason.
    pub refused: [u64; Refusal::COUNT],
    /// What a bridge has handed over at once, and what the device did not take.
    pub passed: [u64; 2],
}

const UNWATCHED: u32 = u32::MAX;

impl Monitor {
    /// Watches these ports, whose wires have such delays and lead to a device or not.
    pub fn new(ports: impl IntoIterator<Item = (PortId, Span, bool)>) -> Self {
        let (mut directions, mut by_port) = (Vec::new(), Vec::new());
        for (PortId(port), delay, leads_out) in ports {
            by_port.resize(by_port.len().max(port as usize + 1), UNWATCHED);
            by_port[port as usize] = directions.len() as u32;
            directions.push(Direction::new(delay, leads_out));
        }
        let (gates, came) = (Vec::new(), Vec::new());
        Self { directions, gates, by_port, came, entering: None, leaving: None }
    }

    /// What came to a node and never entered the network.
    pub fn counts(&self, node: NodeId) -> GateCounts {
        self.gates.get(node.0 as usize).copied().unwrap_or_default()
    }

    /// The two directions of a lone link, with what came to where each begins.
    pub fn directions_and_gates(&self) -> [(&Direction, GateCounts); 2] {
        [0, 1].map(|n| (&self.directions[n], self.counts(NodeId(n as u32))))
    }

    fn index(&self, port: PortId) -> Option<usize> {
        let index = *self.by_port.get(port.0 as usize)?;
        (index != UNWATCHED).then_some(index as usize)
    }

    /// The packet that came last was not dropped at once, so it is in the queue.
    fn settle(&mut self) {
        if let Some((index, at, _)) = self.entering.take() {
            self.directions[index].queue.change(at, 1);
        }
    }

    fn entered(&mut self, now: Time, index: usize, packet: &Packet) {
        let buffer = packet.body as usize;
        if self.came.len() <= buffer {
            self.came.resize(buffer + 1, now);
        }
        self.came[buffer] = now;
        self.entering = Some((index, now, packet.body));
        let direction = &mut self.directions[index];
        direction.entered[packet.dscp.colour() as usize] += 1;
        direction.entered_bytes += u64::from(packet.len);
    }

    fn dropped(&mut self, at: Time, index: usize, packet: &Packet, why: DropReason) {
        let was_entering = self.entering.take_if(|(_, _, body)| *body == packet.body).is_some();
        let direction = &mut self.directions[index];
        direction.dropped[why as usize] += 1;
        if why == DropReason::Loss {
            direction.lost[packet.dscp.colour() as usize] += 1;
        }
        match why {
            _ if was_entering => {}
            // At the end of the wire.
            DropReason::Loss | DropReason::Policed => {
                direction.crossed[packet.dscp.colour() as usize] += 1;
                direction.left(at);
                direction.last = None;
            }
            _ => direction.queue.change(at, -1),
        }
    }

    /// A copy takes no place in the queue, but leaves it like any other packet.
    fn copied(&mut self, now: Time, index: usize, copy: &Packet, original: u32) {
        let buffer = copy.body as usize;
        if self.came.len() <= buffer {
            self.came.resize(buffer + 1, now);
        }
        self.came[buffer] = self.came[original as usize];
        let direction = &mut self.directions[index];
        direction.duplicated += 1;
        direction.queue.change(now, 1);
    }

    fn came_out(&mut self, index: usize, out: Out, packet: &Packet) {
        let came = self.came[packet.body as usize];
        self.directions[index].came_out(came, out, packet);
    }
}

impl Watch for Monitor {
    const PACKETS: bool = false;
    fn record(&mut self, _now: Time, _event: &Event) {}

    #[inline]
    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        match step {
            Step::Entered(port) => {
                self.settle();
                if let Some(index) = self.index(port) {
                    self.entered(now, index, packet);
                    if origin.at == now {
                        self.directions[index].waited.record(origin.waited);
                    }
                }
            }
            Step::Copied(port, original) => {
                self.settle();
                if let Some(index) = self.index(port) {
                    self.copied(now, index, packet, original);
                }
            }
            Step::Corrupted(port) => {
                if let Some(index) = self.index(port) {
                    self.directions[index].corrupted += 1;
                }
            }
            Step::Dropped(port, why) => {
                if let Some(index) = self.index(port) {
                    self.dropped(now, index, packet, why);
                }
            }
            Step::Passed(port) => {
                self.settle();
                if let Some(index) = self.index(port) {
                    if self.directions[index].leads_out {
                        // It has come out when it is written to the device.
                        self.leaving = Some(index);
                    } else {
                        // Between simulated nodes nothing is ever late: the next one acts at the ideal time.
                        let out = Out { ideal: now, actual: now, waited: Span::ZERO, written: true };
                        self.came_out(index, out, packet);
                    }
                }
            }
            Step::Left { actual, written, .. } => {
                if let Some(index) = self.leaving.take() {
                    let out = Out { ideal: now, actual, waited: origin.waited, written };
                    self.came_out(index, out, packet);
                }
            }
            Step::Sent(_) | Step::Delivered(_) => {}
        }
    }

    fn gate(&mut self, _now: Time, at: NodeId, what: Gate<'_>) {
        let node = at.0 as usize;
        self.gates.resize(self.gates.len().max(node + 1), GateCounts::default());
        match what {
            Gate::Refused(_, why) => self.gates[node].refused[why as usize] += 1,
            Gate::Bridged { written, .. } => self.gates[node].passed[usize::from(!written)] += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_net::Route;

    #[test]
    fn what_was_is_kept_apart_from_what_should_have_been() {
        let ms = |n| Time::ZERO + Span::from_millis(n);
        let packet = Packet::new(Time::ZERO, Route::default(), 1000, 0);
        let mut direction = Direction::new(Span::from_millis(10), true);
        // Two packets of one time, of which the second is written 1 and then 3 ms late.
        let out = |ideal, actual| Out { ideal, actual, waited: Span::from_millis(5), written: true };
        direction.came_out(ms(0), out(ms(18), ms(19)), &packet);
        direction.came_out(ms(0), out(ms(26), ms(29)), &packet);
        let ends = |h: &Histogram| (h.min(), h.max());
        assert_eq!(ends(&direction.ideal_delay), (Span::from_millis(18), Span::from_millis(26)));
        assert_eq!(ends(&direction.actual_delay), (Span::from_millis(19), Span::from_millis(29)));
        assert_eq!(ends(&direction.lateness), (Span::from_millis(1), Span::from_millis(3)));
        assert_eq!(ends(&direction.excess), (Span::from_millis(6), Span::from_millis(8)));
        // 8000 bits in 8 ms as it should be, and in 10 as it was.
        assert_eq!((direction.busy.bits, direction.busy.ideal), (8000, Span::from_millis(8)));
        assert_eq!(direction.busy.rate(), Some(800_000.0));
        // A packet that came after the one before had left the queue found the wire idle.
        direction.came_out(ms(17), Out { written: false, ..out(ms(35), ms(35)) }, &packet);
        assert_eq!((direction.busy.packets, direction.delivered, direction.unwritable), (1, 2, 1));
    }
}
