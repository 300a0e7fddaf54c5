//! Packets without a connection: nobody answers them and nobody sends them again.

use crate::slab::Slab;
use catnip_base::{Span, Time};
use catnip_net::{Ecn, Fabric, NodeId, Packet, Priority};

/// Datagrams from one host to another, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub u32);

/// What has become of the datagrams of a flow. Sent = received + dropped + in the network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DatagramCounters {
    /// How many the source has sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// How many have arrived.
    pub received: u64,
    /// How many the network has dropped.
    pub dropped: u64,
    /// From the source to the sink, seconds.
    pub delay_s: Moments,
}

/// Mean and variance of a sample, in one pass (Welford 1962).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    /// The mean; NaN without a value.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.mean }
    }

    /// The unbiased variance; NaN with fewer than two values.
    pub fn variance(&self) -> f64 {
        if self.count < 2 { f64::NAN } else { self.squares / (self.count - 1) as f64 }
    }
}

/// The flows of a run and their packets in the network.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    flows: Vec<(NodeId, DatagramCounters)>,
    /// When each packet in the network was sent.
    sent_at: Slab<Time>,
}

impl Datagrams {
    /// Is this packet one of them?
    #[inline]
    pub(crate) fn has(packet: &Packet) -> bool {
        packet.flow >= Fabric::SECOND_FLOWS
    }

    pub(crate) fn clear(&mut self) {
        self.flows.clear();
        self.sent_at.clear();
    }

    pub(crate) fn add_flow(&mut self, fabric: &mut Fabric, from: NodeId, to: NodeId) -> FlowId {
        let id = self.flows.len() as u32;
        self.flows.push((from, DatagramCounters::default()));
        fabric.set_destination(Fabric::SECOND_FLOWS | id, to);
        FlowId(id)
    }

    pub(crate) fn counters(&self, flow: FlowId) -> DatagramCounters {
        self.flows[flow.0 as usize].1
    }

    pub(crate) fn in_network(&self) -> usize {
        self.sent_at.in_use()
    }

    /// A packet and where it starts.
    pub(crate) fn send(&mut self, now: Time, flow: FlowId, bytes: u32) -> (NodeId, Packet) {
        let (from, counters) = &mut self.flows[flow.0 as usize];
        counters.sent += 1;
        counters.sent_bytes += u64::from(bytes);
        let packet = Packet {
            arrived: now,
            flow: Fabric::SECOND_FLOWS | flow.0,
            len: bytes,
            body: self.sent_at.insert(now),
            ecn: Ecn::NotEct,
            priority: Priority::Low,
            class: 0,
        };
        (*from, packet)
    }

    pub(crate) fn received(&mut self, now: Time, packet: &Packet) -> (FlowId, Span) {
        let (flow, delay) = self.forget(now, packet);
        let counters = &mut self.flows[flow.0 as usize].1;
        counters.received += 1;
        counters.delay_s.add(delay.as_secs());
        (flow, delay)
    }

    pub(crate) fn dropped(&mut self, now: Time, packet: &Packet) -> FlowId {
        let (flow, _) = self.forget(now, packet);
        self.flows[flow.0 as usize].1.dropped += 1;
        flow
    }

    fn forget(&mut self, now: Time, packet: &Packet) -> (FlowId, Span) {
        let sent = self.sent_at[packet.body];
        self.sent_at.release(packet.body);
        (FlowId(packet.flow - Fabric::SECOND_FLOWS), now - sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_a_few_numbers() {
        let mut moments = Moments::default();
        assert!(moments.mean().is_nan() && moments.variance().is_nan());
        [2.0, 4.0, 9.0].into_iter().for_each(|value| moments.add(value));
        assert_eq!((moments.mean(), moments.variance()), (5.0, 13.0));
    }
}
