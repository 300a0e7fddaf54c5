//! Drivers that pass random arrivals through a single component.

use catnip_base::{Rng, Span, Stream, Time};
use catnip_net::queue::{AnyQueue, PortContext, QueueKind, QueueSpec};
use catnip_net::shape::{AnyShaper, RateSpec};
use catnip_net::stage::{AnyStage, StageKind, StageSpec};
use catnip_net::{DropReason, Dscp, Next, Packet, PacketEvents, Port, Priority, Route};

pub(crate) use Priority::{High as HIGH, Low as LOW, Medium as MED};

/// Returns the random number generator for the test with the number `test`.
pub(crate) fn random(seed: u64, test: u32) -> Rng {
    Rng::new(seed, Stream::Workload(test))
}

/// Returns a random element of `all`.
pub(crate) fn one_of<T: Copy>(all: &[T], rng: &mut Rng) -> T {
    all[rng.below(all.len() as u32) as usize]
}

/// Returns a random priority.
pub(crate) fn any_priority(rng: &mut Rng) -> Priority {
    one_of(&Priority::DROPPED_FIRST, rng)
}

/// Returns a random packet size, bytes.
pub(crate) fn any_size(rng: &mut Rng) -> u32 {
    40 + rng.below(1461)
}

pub(crate) fn packet(body: u32, len: u32, dscp: impl Into<Dscp>) -> Packet {
    Packet { dscp: dscp.into(), ..Packet::new(Time::ZERO, Route::default(), len, body) }
}

/// Packets that a component dropped, with the reasons.
#[derive(Debug, Default)]
pub(crate) struct Drops(pub(crate) Vec<(Packet, DropReason)>);

impl PacketEvents for Drops {
    fn dropped(&mut self, _now: Time, packet: Packet, why: DropReason) {
        self.0.push((packet, why));
    }
}

pub(crate) fn queue(text: &str, rate: &str, seed: u64) -> AnyQueue {
    text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&wire(rate), seed, 0))
}

pub(crate) fn stage(text: &str) -> AnyStage {
    text.parse::<StageSpec>().unwrap().build(random(0, 0))
}

fn wire(rate: &str) -> RateSpec {
    RateSpec::read(rate, |_| Err(String::new())).unwrap()
}

/// Returns a port with this queue and a wire without propagation delay.
pub(crate) fn port(queue_text: &str, rate: &str, seed: u64) -> Port<AnyQueue, AnyShaper> {
    Port::new(queue(queue_text, rate, seed), wire(rate).build(), Span::ZERO)
}

/// Rate of a wire on which the transmission of a byte takes a microsecond.
pub(crate) const MICROSECOND_PER_BYTE: &str = "8Mbit";

/// Returns the transmission time of a packet of `len` bytes at [`MICROSECOND_PER_BYTE`].
pub(crate) fn transmission_time(len: u32) -> Span {
    Span::from_micros(len.into())
}

/// Returns arrivals of packets at random times, whose mean gap varies around `mean_gap`. The `body` of a packet is the index of its
/// arrival.
pub(crate) fn arrivals(
    rng: &mut Rng,
    count: u32,
    mean_gap: Span,
    mut one: impl FnMut(&mut Rng) -> Packet,
) -> Vec<(Time, Packet)> {
    let (mut now, mut left, mut longest) = (Time::ZERO, 0, 1.0);
    let arrival = |body| {
        if left == 0 {
            left = 1 + rng.below(300);
            longest = 2.0 * mean_gap.as_nanos() as f64 * (0.2 + 1.6 * rng.uniform());
        }
        left -= 1;
        now += Span::from_nanos(1 + (longest * rng.uniform()) as u64);
        (now, Packet { body, arrived: now, ..one(rng) })
    };
    (0..count).map(arrival).collect()
}

/// Departures and drops of the packets that arrived at a port.
pub(crate) struct Crossed {
    /// Packets in the order of departure, each with the time at which its last bit had left.
    pub(crate) out: Vec<(Time, Packet)>,
    /// Reason for which a packet was dropped, or `None`, by index of its arrival.
    pub(crate) dropped: Vec<Option<DropReason>>,
}

/// Passes all arrivals through a port and returns its departures and drops.
pub(crate) fn cross(port: &mut Port<AnyQueue, AnyShaper>, arrivals: &[(Time, Packet)]) -> Crossed {
    let (mut drops, mut out) = (Drops::default(), Vec::new());
    let ends = arrivals.iter().map(|&(at, packet)| (at, Some(packet))).chain([(Time::NEVER, None)]);
    for (now, packet) in ends {
        while let Next::Deliver(at, packet) = port.poll(now, &mut drops) {
            out.push((at, packet));
        }
        packet.into_iter().for_each(|packet| port.arrive(now, packet, &mut drops));
    }
    let mut dropped = vec![None; arrivals.len()];
    drops.0.iter().for_each(|(packet, why)| dropped[packet.body as usize] = Some(*why));
    let lost = dropped.iter().flatten().count();
    assert_eq!(out.len() + lost, arrivals.len(), "each packet arrives or is dropped");
    Crossed { out, dropped }
}

/// Difference between the number of events and its expectation, in standard deviations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deviation {
    found: f64,
    expected: f64,
    variance: f64,
}

impl Deviation {
    /// Adds a random event that had the probability `probability`, and that happened if `happened` is true.
    pub(crate) fn add(&mut self, probability: f64, happened: bool) {
        self.found += f64::from(u8::from(happened));
        self.expected += probability;
        self.variance += probability * (1.0 - probability);
    }

    /// Returns the absolute difference from the expectation, in standard deviations. The variance must be large enough for the number of
    /// events to be approximately normally distributed.
    pub(crate) fn sigmas(&self) -> f64 {
        assert!(self.variance >= 25.0, "{self:?}");
        (self.found - self.expected).abs() / self.variance.sqrt()
    }
}

/// Returns the greatest absolute deviation of `all`, in standard deviations.
pub(crate) fn worst<'a>(all: impl IntoIterator<Item = &'a Deviation>) -> f64 {
    all.into_iter().map(Deviation::sigmas).fold(0.0, f64::max)
}
