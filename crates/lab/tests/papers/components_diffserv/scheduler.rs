//! Comparison of the scheduler at the source with the rule printed in the DiffServ study.

use super::drive::*;
use crate::kept::Check;
use catnip_base::{Rng, Span, Time};
use catnip_net::queue::QueueDiscipline;
use catnip_net::{Dscp, Packet, Priority};

pub(crate) fn checks(seed: u64) -> Vec<Check> {
    let found = faults(seed);
    let row = |claim, value: u32| Check { id: "IDS-S17", claim, value: value.into(), limit: 0.0 };
    vec![
        row("source scheduler: packets that overtook others of their connection", found.overtook),
        row("source scheduler: HIGH and MED packets sent without tokens", found.without_tokens),
        row(
            "source scheduler: packets sent while one of a higher class waited for tokens of their priority",
            found.blocked,
        ),
        row(
            "source scheduler: packets sent while one of a higher class, or of their class and a higher priority, was eligible",
            found.before_others,
        ),
        row("source scheduler: times the link was idle while an eligible packet waited", found.idle),
        Check {
            id: "IDS-S17",
            claim: "source scheduler under saturation: distance of a connection's share of its class's packets from its weight, percent of the weight, the worst",
            value: worst_share(seed),
            limit: 2.0,
        },
    ]
}

/// Numbers of departures that violate the scheduling rule, by kind of violation.
#[derive(Debug, Default)]
struct Faults {
    overtook: u32,
    without_tokens: u32,
    blocked: u32,
    before_others: u32,
    idle: u32,
}

/// Token bucket as printed in the DiffServ study: tokens = min(B, tokens + r x dt). Tokens are counted in billionths of a bit.
struct Tokens {
    rate: u64,
    depth: u64,
    tokens: u64,
    at: Time,
}

const BYTE: u64 = 8_000_000_000;

impl Tokens {
    fn new(rate: u64, depth_bytes: u64) -> Self {
        Self { rate, depth: depth_bytes * BYTE, tokens: depth_bytes * BYTE, at: Time::ZERO }
    }

    fn take(&mut self, now: Time, len: u32) {
        let arrived = (now - self.at).as_nanos() * self.rate;
        self.tokens = self.depth.min(self.tokens + arrived).saturating_sub(u64::from(len) * BYTE);
        self.at = now;
    }

    /// Returns the time at which there are enough tokens for `len` bytes, provided that no tokens are taken before.
    fn ready(&self, len: u32) -> Time {
        let missing = (u64::from(len) * BYTE).saturating_sub(self.tokens);
        self.at + Span::from_nanos(missing.div_ceil(self.rate))
    }
}

/// First waiting packet of a connection.
#[derive(Clone, Copy)]
struct Head {
    packet: Packet,
    /// Time at which there are tokens for the packet. The packet is eligible from then on, unless its priority is blocked.
    ready: Time,
}

impl Head {
    fn class(&self) -> u8 {
        self.packet.dscp.class().expect("all have one")
    }

    fn priority(&self) -> Priority {
        self.packet.dscp.priority()
    }

    /// Returns true if the packet has a higher class than `other`, and the same priority.
    fn is_above(&self, other: &Self) -> bool {
        self.class() < other.class() && self.priority() == other.priority()
    }

    /// Returns true if the packet precedes `other` in the order of classes or, within a class, of priorities.
    fn precedes(&self, other: &Self) -> bool {
        let rank = |priority| Priority::DROPPED_FIRST.iter().position(|&it| it == priority);
        let same_class = self.class() == other.class();
        self.class() < other.class() || same_class && rank(self.priority()) > rank(other.priority())
    }
}

/// Packets that wait for a link on which a byte takes a microsecond, and the token buckets.
struct Link {
    waiting: Vec<Packet>,
    high: Tokens,
    med: Tokens,
}

impl Link {
    /// Returns the earliest start of the transmission of a packet, which needs its tokens when its last bit leaves.
    fn ready(&self, packet: &Packet) -> Time {
        let tokens = match packet.dscp.priority() {
            HIGH => &self.high,
            MED => &self.med,
            LOW => return Time::ZERO,
        };
        Time::ZERO + tokens.ready(packet.len).since(Time::ZERO + transmission_time(packet.len))
    }

    /// Returns the first packet of each connection, among the packets that arrived before `now`.
    fn heads(&self, now: Time) -> Vec<Head> {
        let mut heads: Vec<Head> = Vec::new();
        for packet in self.waiting.iter().filter(|packet| packet.arrived < now) {
            if heads.iter().all(|head| head.packet.flow != packet.flow) {
                heads.push(Head { packet: *packet, ready: self.ready(packet) });
            }
        }
        heads
    }

    /// Checks the departure of a packet whose transmission started at `start`, after the link had been free since `free_since`.
    fn sends(&mut self, packet: &Packet, start: Time, free_since: Time, faults: &mut Faults) {
        let heads = self.heads(start);
        let is_blocked = |head: &Head, now: Time| {
            let waits = |other: &Head| other.packet.arrived < now && now < other.ready;
            heads.iter().any(|other| other.is_above(head) && waits(other))
        };
        let eligible_at = |head: &Head, now: Time| head.ready <= now && !is_blocked(head, now);
        let sent = Head { packet: *packet, ready: self.ready(packet) };
        let others = || heads.iter().filter(|head| head.packet.body != packet.body);
        faults.overtook += u32::from(others().any(|head| head.packet.flow == packet.flow));
        faults.without_tokens += u32::from(start < sent.ready);
        faults.blocked += u32::from(is_blocked(&sent, start));
        faults.before_others +=
            u32::from(others().any(|head| head.precedes(&sent) && eligible_at(head, start)));
        // Earliest time at which any packet could have been sent. A packet that is blocked at that time waits for another packet.
        let earliest = |head: &Head| free_since.max(head.packet.arrived).max(head.ready);
        let firsts = heads.iter().map(|head| (earliest(head), head));
        let possible = firsts.filter(|(at, head)| eligible_at(head, *at)).map(|(at, _)| at);
        faults.idle += u32::from(possible.min().is_some_and(|at| at < start));
        match packet.dscp.priority() {
            HIGH => self.high.take(start + transmission_time(packet.len), packet.len),
            MED => self.med.take(start + transmission_time(packet.len), packet.len),
            LOW => {}
        }
        self.waiting.retain(|other| other.body != packet.body);
    }
}

fn faults(seed: u64) -> Faults {
    let mut rng = random(seed, 300);
    let mut faults = Faults::default();
    let (mut waited, mut contended) = (0, 0);
    // With much LOW traffic, the link is often busy; with little, packets wait for tokens more often.
    for low in [0.6, 0.1] {
        let load = arrivals(&mut rng, 60_000, Span::from_micros(1800), |rng| {
            let flow = rng.below(12) as u16;
            let priority = if rng.chance(low) { LOW } else { one_of(&[HIGH, MED, MED], rng) };
            // Each connection has one class and varying priorities.
            let dscp = Dscp::assured(1 + (flow % 3) as u8, priority);
            Packet { flow, ..packet(0, any_size(rng), dscp) }
        });
        let text = "scheduler:40,high=1Mbit/3000B,med=2Mbit/4500B";
        let mut port = port(text, MICROSECOND_PER_BYTE, seed);
        (0..12).for_each(|flow| port.set_weight(flow, 1 + rng.below(4)));
        let crossed = cross(&mut port, &load);
        let taken = |(_, packet): &&(Time, Packet)| crossed.dropped[packet.body as usize].is_none();
        let mut arrivals = load.iter().filter(taken).map(|(_, packet)| *packet).peekable();
        let mut link = Link {
            waiting: Vec::new(),
            high: Tokens::new(1_000_000, 3000),
            med: Tokens::new(2_000_000, 4500),
        };
        let mut free_since = Time::ZERO;
        for (at, packet) in &crossed.out {
            let start = Time::ZERO + (*at - (Time::ZERO + transmission_time(packet.len)));
            link.waiting.extend(std::iter::from_fn(|| arrivals.next_if(|packet| packet.arrived <= start)));
            // The link has changed the arrival time of the packet to the arrival time at the other end.
            let packet = &load[packet.body as usize].1;
            waited += u32::from(free_since.max(packet.arrived) < start);
            contended += u32::from(free_since == start);
            link.sends(packet, start, free_since, &mut faults);
            free_since = *at;
        }
    }
    assert!(waited > 2000 && contended > 20_000, "{waited} waited for tokens, {contended} for the link");
    faults
}

/// Returns the largest relative difference between a connection's share of the sent packets and its share of the weights, percent of the
/// latter, for backlogged connections of one class and priority.
fn worst_share(seed: u64) -> f64 {
    let mut rng = random(seed, 310);
    let mut of = |class: u8, priority: Priority| {
        let mut link = queue("scheduler:200,high=4Mbit/3000B,med=4Mbit/3000B", "10Mbit", seed);
        let weights: [u32; 5] = std::array::from_fn(|_| 1 + rng.below(10));
        (0..).zip(weights).for_each(|(flow, weight)| link.set_weight(flow, weight));
        // While packets wait for tokens, a smaller packet may be sent first. All packets that need tokens therefore have the same size.
        let size = |rng: &mut Rng| if priority == LOW { any_size(rng) } else { 1040 };
        let mut offer = |link: &mut dyn QueueDiscipline, now, flow| {
            let dscp = Dscp::assured(class, priority);
            let packet = Packet { flow, ..packet(0, size(&mut rng), dscp) };
            link.enqueue(now, packet, &mut Drops::default());
        };
        (0..5).for_each(|flow| (0..30).for_each(|_| offer(&mut link, Time::ZERO, flow)));
        let (mut now, mut sent, packets) = (Time::ZERO, [0u32; 5], 20_000);
        for _ in 0..packets {
            let packet = loop {
                match link.dequeue(now, &mut Drops::default()) {
                    Some(packet) => break packet,
                    None => now = link.wake_at().expect("something waits"),
                }
            };
            now += Span::from_nanos(u64::from(packet.len) * 800);
            sent[usize::from(packet.flow)] += 1;
            offer(&mut link, now, packet.flow);
        }
        let all: u32 = weights.iter().sum();
        let share =
            |(sent, weight)| f64::from(sent) / f64::from(packets) / (f64::from(weight) / f64::from(all));
        sent.into_iter().zip(weights).map(share).map(|share| 100.0 * (share - 1.0).abs()).fold(0.0, f64::max)
    };
    let classes = (1..=3).flat_map(|class| Priority::DROPPED_FIRST.map(|priority| (class, priority)));
    classes.map(|(class, priority)| of(class, priority)).fold(0.0, f64::max)
}
