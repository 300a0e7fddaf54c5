//! Datagrams: packets without a connection, acknowledgements or retransmissions.

use catnip_base::Span;
use catnip_net::{NodeId, Route};

/// Identifier of a flow of datagrams from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Returns the flow hash for fair queues. The hash differs from the hashes of connections as long as 16 bits suffice for all flows.
    pub(crate) fn hash(self) -> u16 {
        !(self.0 as u16)
    }
}

/// Counters of the datagrams of a flow. Sent + duplicated = received + dropped + in the network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DatagramCounters {
    /// Datagrams sent by the source.
    pub sent: u64,
    /// Bytes sent by the source.
    pub sent_bytes: u64,
    /// Copies of datagrams made by the network.
    pub duplicated: u64,
    /// Datagrams and copies received by the sink.
    pub received: u64,
    /// Datagrams and copies dropped by the network.
    pub dropped: u64,
    /// Delay from the source to the sink, seconds.
    pub delay_s: Moments,
}

/// Mean and variance of a sample, computed in one pass (Welford 1962).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    /// Returns the mean; NaN if the sample is empty.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.mean }
    }

    /// Returns the unbiased variance; NaN with fewer than two values.
    pub fn variance(&self) -> f64 {
        if self.count < 2 { f64::NAN } else { self.squares / (self.count - 1) as f64 }
    }
}

/// Datagram flows of a run.
#[derive(Debug, Default)]
pub(crate) struct Datagrams(Vec<Flow>);

#[derive(Debug)]
struct Flow {
    from: NodeId,
    to: NodeId,
    route: Route,
    /// Application to which arrivals are delivered, if any.
    receiver: Option<u32>,
    counters: DatagramCounters,
}

impl Datagrams {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn add_flow(&mut self, from: NodeId, to: NodeId, route: Route) -> FlowId {
        self.0.push(Flow { from, to, route, receiver: None, counters: DatagramCounters::default() });
        FlowId(self.0.len() as u32 - 1)
    }

    pub(crate) fn counters(&self, flow: FlowId) -> DatagramCounters {
        self.0[flow.0 as usize].counters
    }

    /// Returns the source, destination and route of a flow.
    pub(crate) fn ends(&self, flow: FlowId) -> (NodeId, NodeId, Route) {
        let Flow { from, to, route, .. } = self.0[flow.0 as usize];
        (from, to, route)
    }

    pub(crate) fn set_receiver(&mut self, flow: FlowId, program: u32) {
        self.0[flow.0 as usize].receiver = Some(program);
    }

    /// Returns the application to which arrivals are delivered, if any.
    pub(crate) fn receiver(&self, flow: FlowId) -> Option<u32> {
        self.0[flow.0 as usize].receiver
    }

    pub(crate) fn sent(&mut self, flow: FlowId, bytes: u32) {
        let counters = &mut self.0[flow.0 as usize].counters;
        counters.sent += 1;
        counters.sent_bytes += u64::from(bytes);
    }

    pub(crate) fn copied(&mut self, flow: FlowId) {
        self.0[flow.0 as usize].counters.duplicated += 1;
    }

    pub(crate) fn received(&mut self, flow: FlowId, delay: Span) {
        let counters = &mut self.0[flow.0 as usize].counters;
        counters.received += 1;
        counters.delay_s.add(delay.as_secs());
    }

    pub(crate) fn dropped(&mut self, flow: FlowId) {
        self.0[flow.0 as usize].counters.dropped += 1;
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
