//! Counts and measurements of links, packet by packet, in constant memory.

use catnip_base::Histogram;
use catnip_base::{Span, Time};
use catnip_net::{DropReason, NodeId, Packet, PortId, Priority};
use catnip_sim::watch::{GatewayEvent, Origin, Refusal, Step};
use catnip_sim::{Event, Watch};
use std::collections::VecDeque;

/// Counts and measurements of the packets in one direction of a link.
#[derive(Debug, Default)]
pub struct Direction {
    delay: Span,
    /// True if packets are written to a device at the end of the link, so that they can be late.
    ends_at_device: bool,
    /// Number of packets that entered the direction, by priority.
    pub entered: [u64; Priority::COUNT],
    /// Number of bytes of the packets that entered.
    pub entered_bytes: u64,
    /// Number of packets that left the link; if it ends at a device, packets that the device accepted.
    pub delivered: u64,
    /// Number of bytes of these packets.
    pub delivered_bytes: u64,
    /// Number of packets that reached the end of the link but were not accepted by the device.
    pub unwritable: u64,
    /// Number of copies of packets that the link made at the end of the wire.
    pub duplicated: u64,
    /// Number of packets in which the link inverted a bit.
    pub corrupted: u64,
    /// Number of packets dropped on the link, by reason.
    pub dropped: [u64; DropReason::COUNT],
    /// Number of packets that have reached the end of the wire, by priority. Packets dropped there are included.
    pub crossed: [u64; Priority::COUNT],
    /// Number of packets dropped by a loss model, by priority.
    pub lost: [u64; Priority::COUNT],
    /// Delay from entry to exit in the model.
    pub ideal_delay: Histogram,
    /// Measured delay from entry to exit.
    pub actual_delay: Histogram,
    /// Lateness of the writes of packets to the device, relative to the model.
    pub lateness: Histogram,
    /// Upper bound on the time that packets waited in the device before they were read. Neither delay includes this time.
    pub waited: Histogram,
    /// Excess delay, the sum of waiting time and lateness: upper bound on the delay beyond the requested one.
    pub excess: Histogram,
    /// Totals of the packets that found the wire busy, from which the rate is computed.
    pub busy: Busy,
    pub(crate) queue: Occupancy,
    /// Ideal and actual time at which the previous packet reached the other end.
    last: Option<(Time, Time)>,
}

/// Exit of a packet from a link: its times, and whether the device accepted the packet.
#[derive(Clone, Copy, Debug)]
struct Exit {
    ideal: Time,
    actual: Time,
    /// Upper bound on the time that the packet waited in a device before it entered the network.
    waited: Span,
    /// True if the device accepted the packet.
    written: bool,
}

/// Totals of the packets whose transmission followed another one without a pause.
#[derive(Clone, Copy, Debug, Default)]
pub struct Busy {
    /// Number of these packets.
    pub packets: u64,
    /// Number of bits of these packets.
    pub bits: u64,
    /// Sum of the ideal times between the exits of these packets and of the packets before them.
    pub ideal: Span,
    /// Sum of the actual times between the exits of these packets and of the packets before them, ns. A single one of these times may be
    /// negative.
    pub actual_ns: i64,
}

impl Busy {
    /// Returns the measured rate of the wire in bits per second; `None` if the wire was never busy.
    pub fn rate(&self) -> Option<f64> {
        (self.actual_ns > 0).then(|| self.bits as f64 * 1e9 / self.actual_ns as f64)
    }
}

impl Direction {
    fn new(delay: Span, ends_at_device: bool) -> Self {
        Self { delay, ends_at_device, ..Self::default() }
    }

    /// Returns the largest number of packets that were waiting or in transmission at the same time, up to the last observed departure. The
    /// result is an estimate if jitter or another stage hides when packets left the queue.
    pub fn largest_queue(&self) -> u32 {
        self.queue.largest
    }

    /// Returns the number of packets and copies that have entered or were made, but have neither left nor been dropped.
    pub fn inside(&self) -> u64 {
        let out = self.delivered + self.unwritable + self.dropped.iter().sum::<u64>();
        self.entered.iter().sum::<u64>() + self.duplicated - out
    }

    /// Records that a packet which entered the link at `arrived_at` has reached the other end.
    fn on_exit(&mut self, arrived_at: Time, exit: Exit, packet: &Packet) {
        let Exit { ideal, actual, waited, written } = exit;
        if written {
            self.delivered += 1;
            self.delivered_bytes += u64::from(packet.len);
        } else {
            self.unwritable += 1;
        }
        self.crossed[packet.dscp.priority() as usize] += 1;
        self.ideal_delay.record(ideal.since(arrived_at));
        self.actual_delay.record(actual.since(arrived_at));
        self.lateness.record(actual.since(ideal));
        self.excess.record(actual.since(ideal) + waited);
        if let Some((last_ideal, last_actual)) = self.last {
            // The packet arrived before the previous one left the queue, so the wire was busy all the time between their exits.
            if arrived_at + self.delay <= last_ideal {
                self.busy.packets += 1;
                self.busy.bits += 8 * u64::from(packet.len);
                self.busy.ideal += ideal.since(last_ideal);
                self.busy.actual_ns += actual.as_nanos() as i64 - last_actual.as_nanos() as i64;
            }
        }
        self.last = Some((ideal, actual));
        self.on_departure(ideal);
    }

    /// Records that a packet which reaches the other end at `arrives_at` left the queue one wire delay earlier.
    fn on_departure(&mut self, arrives_at: Time) {
        self.queue
            .on_departure(Time::from_nanos(arrives_at.as_nanos().saturating_sub(self.delay.as_nanos())));
    }
}

/// Number of packets in a queue. A departure is observed only when the packet arrives at the other end, so entries and drops are kept until
/// then.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    /// Entries and drops not yet counted, in order of time.
    changes: VecDeque<(Time, i32)>,
    current: i32,
    largest: u32,
}

impl Occupancy {
    pub(crate) fn change(&mut self, at: Time, by: i32) {
        self.changes.push_back((at, by));
    }

    /// Records a departure from the queue at `at`. Departures precede arrivals at the same time.
    pub(crate) fn on_departure(&mut self, at: Time) {
        while let Some(&(_, by)) = self.changes.front().filter(|(changed, _)| *changed < at) {
            self.changes.pop_front();
            self.add(by);
        }
        self.current -= 1;
    }

    fn add(&mut self, by: i32) {
        self.current += by;
        self.largest = self.largest.max(self.current.max(0) as u32);
    }
}

/// Watch that measures links at their ports, and counts packets that did not enter the network at a gateway.
#[derive(Debug)]
pub struct Monitor {
    /// Measurements of the monitored ports, in the order in which the ports were given.
    pub directions: Vec<Direction>,
    /// Counts of packets and frames that reached a node from its device but never entered the network, by node.
    pub gates: Vec<GateCounts>,
    /// Index in `directions` of each port.
    by_port: Vec<u32>,
    /// Arrival time of the packet in each buffer at its current port.
    arrived_at: Vec<Time>,
    /// Packet that is arriving at a port, until the queue has accepted or dropped it: index of its direction, time, and buffer.
    entering: Option<(usize, Time, u32)>,
    /// Index in `directions` of the packet that is about to be written to a device.
    exiting: Option<usize>,
}

/// Counts of packets and frames that reached a gateway but never entered the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct GateCounts {
    /// Refused packets, by reason.
    pub refused: [u64; Refusal::COUNT],
    /// Frames that a bridge forwarded at once: accepted by the device, and not accepted.
    pub passed: [u64; 2],
}

const NOT_MONITORED: u32 = u32::MAX;

impl Monitor {
    /// Creates a monitor of `ports`. Each port comes with the delay of its wire, and with true if its wire leads to a device.
    pub fn new(ports: impl IntoIterator<Item = (PortId, Span, bool)>) -> Self {
        let (mut directions, mut by_port) = (Vec::new(), Vec::new());
        for (PortId(port), delay, ends_at_device) in ports {
            by_port.resize(by_port.len().max(port as usize + 1), NOT_MONITORED);
            by_port[port as usize] = directions.len() as u32;
            directions.push(Direction::new(delay, ends_at_device));
        }
        let (gates, arrived_at) = (Vec::new(), Vec::new());
        Self { directions, gates, by_port, arrived_at, entering: None, exiting: None }
    }

    /// Returns the counts of packets and frames that reached `node` from its device but never entered the network.
    pub fn counts(&self, node: NodeId) -> GateCounts {
        self.gates.get(node.0 as usize).copied().unwrap_or_default()
    }

    /// Returns the two directions of a single link, each with the counts of packets that did not enter the network at its beginning.
    pub fn directions_and_gates(&self) -> [(&Direction, GateCounts); 2] {
        [0, 1].map(|n| (&self.directions[n], self.counts(NodeId(n as u32))))
    }

    fn index(&self, port: PortId) -> Option<usize> {
        let index = *self.by_port.get(port.0 as usize)?;
        (index != NOT_MONITORED).then_some(index as usize)
    }

    /// Counts the last arrival as queued, since it was not dropped at once.
    fn commit_arrival(&mut self) {
        if let Some((index, at, _)) = self.entering.take() {
            self.directions[index].queue.change(at, 1);
        }
    }

    fn on_entry(&mut self, now: Time, index: usize, packet: &Packet) {
        let buffer = packet.body as usize;
        if self.arrived_at.len() <= buffer {
            self.arrived_at.resize(buffer + 1, now);
        }
        self.arrived_at[buffer] = now;
        self.entering = Some((index, now, packet.body));
        let direction = &mut self.directions[index];
        direction.entered[packet.dscp.priority() as usize] += 1;
        direction.entered_bytes += u64::from(packet.len);
    }

    fn on_drop(&mut self, at: Time, index: usize, packet: &Packet, reason: DropReason) {
        let was_entering = self.entering.take_if(|(_, _, body)| *body == packet.body).is_some();
        let direction = &mut self.directions[index];
        direction.dropped[reason as usize] += 1;
        if reason == DropReason::Loss {
            direction.lost[packet.dscp.priority() as usize] += 1;
        }
        match reason {
            _ if was_entering => {}
            // Drops for these reasons happen at the end of the wire, after the packet has left the queue.
            DropReason::Loss | DropReason::Policed => {
                direction.crossed[packet.dscp.priority() as usize] += 1;
                direction.on_departure(at);
                direction.last = None;
            }
            _ => direction.queue.change(at, -1),
        }
    }

    /// Records a copy of a packet. The copy takes no buffer space in the queue, but is counted there because its exit is recorded like that
    /// of any other packet.
    fn on_copy(&mut self, now: Time, index: usize, copy: &Packet, original: u32) {
        let buffer = copy.body as usize;
        if self.arrived_at.len() <= buffer {
            self.arrived_at.resize(buffer + 1, now);
        }
        self.arrived_at[buffer] = self.arrived_at[original as usize];
        let direction = &mut self.directions[index];
        direction.duplicated += 1;
        direction.queue.change(now, 1);
    }

    fn on_exit(&mut self, index: usize, exit: Exit, packet: &Packet) {
        let arrived_at = self.arrived_at[packet.body as usize];
        self.directions[index].on_exit(arrived_at, exit, packet);
    }
}

impl Watch for Monitor {
    const PACKETS: bool = false;
    fn record(&mut self, _now: Time, _event: &Event) {}

    #[inline]
    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        match step {
            Step::Entered(port) => {
                self.commit_arrival();
                if let Some(index) = self.index(port) {
                    self.on_entry(now, index, packet);
                    if origin.at == now {
                        self.directions[index].waited.record(origin.waited);
                    }
                }
            }
            Step::Copied(port, original) => {
                self.commit_arrival();
                if let Some(index) = self.index(port) {
                    self.on_copy(now, index, packet, original);
                }
            }
            Step::Corrupted(port) => {
                if let Some(index) = self.index(port) {
                    self.directions[index].corrupted += 1;
                }
            }
            Step::Dropped(port, reason) => {
                if let Some(index) = self.index(port) {
                    self.on_drop(now, index, packet, reason);
                }
            }
            Step::Passed(port) => {
                self.commit_arrival();
                if let Some(index) = self.index(port) {
                    if self.directions[index].ends_at_device {
                        // The exit is recorded when the packet is written to the device.
                        self.exiting = Some(index);
                    } else {
                        // Between simulated nodes no packet is late: the next node acts at the ideal time.
                        let exit = Exit { ideal: now, actual: now, waited: Span::ZERO, written: true };
                        self.on_exit(index, exit, packet);
                    }
                }
            }
            Step::Egress { actual, written, .. } => {
                if let Some(index) = self.exiting.take() {
                    let exit = Exit { ideal: now, actual, waited: origin.waited, written };
                    self.on_exit(index, exit, packet);
                }
            }
            Step::Sent(_) | Step::Delivered(_) => {}
        }
    }

    fn gateway(&mut self, _now: Time, at: NodeId, event: GatewayEvent<'_>) {
        let node = at.0 as usize;
        self.gates.resize(self.gates.len().max(node + 1), GateCounts::default());
        match event {
            GatewayEvent::Refused(_, reason) => self.gates[node].refused[reason as usize] += 1,
            GatewayEvent::Bridged { written, .. } => self.gates[node].passed[usize::from(!written)] += 1,
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
        // Two packets arrive at the same time and are written 1 and 3 ms late.
        let out = |ideal, actual| Exit { ideal, actual, waited: Span::from_millis(5), written: true };
        direction.on_exit(ms(0), out(ms(18), ms(19)), &packet);
        direction.on_exit(ms(0), out(ms(26), ms(29)), &packet);
        let ends = |h: &Histogram| (h.min(), h.max());
        assert_eq!(ends(&direction.ideal_delay), (Span::from_millis(18), Span::from_millis(26)));
        assert_eq!(ends(&direction.actual_delay), (Span::from_millis(19), Span::from_millis(29)));
        assert_eq!(ends(&direction.lateness), (Span::from_millis(1), Span::from_millis(3)));
        assert_eq!(ends(&direction.excess), (Span::from_millis(6), Span::from_millis(8)));
        // 8000 bits take 8 ms in the ideal case, and 10 ms in fact.
        assert_eq!((direction.busy.bits, direction.busy.ideal), (8000, Span::from_millis(8)));
        assert_eq!(direction.busy.rate(), Some(800_000.0));
        // A packet that arrived after the previous one had left the queue found the wire idle.
        direction.on_exit(ms(17), Exit { written: false, ..out(ms(35), ms(35)) }, &packet);
        assert_eq!((direction.busy.packets, direction.delivered, direction.unwritable), (1, 2, 1));
    }
}
