//! CAKE (Linux, net/sched/sch_cake.c; Høiland-Jørgensen, Täht, Morton, Piece of CAKE, LANMAN 2018): a shaper, tins by
//! DSCP, fairness between hosts, a queue for each connection, and the COBALT algorithm in each queue. ACKs are not
//! filtered.

mod cobalt;
mod flow_list;
mod flows;
mod hosts;
mod tins;

pub use cobalt::{Cobalt, CobaltParameters};
pub use hosts::Isolation;
pub use tins::Tins;

use super::codel::Decision;
use super::limit::Buffer;
use super::pool::Pool;
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits, set_ce};
use crate::{Backlog, DropReason, Ecn, Packet, PacketEvents, Route};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rate, Rng, Span, Time};
use flows::{Tin, byte_time, transmission_time};
use hosts::Hosts;
use std::str::FromStr;

/// Configuration of CAKE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CakeSpec {
    /// Buffer limit, the packet in transmission included.
    pub limit: Capacity,
    /// Shaping rate; `None` for no shaping.
    pub rate: Option<Rate>,
    /// Usual round-trip time of connections; the target queueing delay is a twentieth of it.
    pub rtt: Span,
    /// Tins, by DSCP.
    pub tins: Tins,
    /// Hosts among which the queue shares the rate fairly.
    pub isolation: Isolation,
    /// Link-layer overhead that the shaper adds to the length of each packet, bytes.
    pub overhead: u32,
    /// See [`CobaltParameters::eager`].
    pub eager: bool,
}

/// Reads one of the words of `T`, or the default if the key is absent.
fn read_keyword<T: FromStr + Default>(
    text: &mut Notation<'_>,
    key: &str,
    expected: &str,
) -> Result<T, ParseError> {
    let read = text.take(key).map_or(Ok(T::default()), str::parse);
    read.map_err(|_| text.error(expected))
}

const RTT: Span = Span::from_millis(100);
const MAX_OVERHEAD: u32 = 256;
/// Length of the largest packet, bytes.
const MTU: u32 = 1514;

impl Kind for CakeSpec {
    const USAGE: &'static [Usage] = &[(
        "cake:LIMIT[,rate=RATE,rtt=100ms,tins=diffserv3,isolation=triple-isolate,overhead=0,eager=false]",
        "CAKE: a shaper to RATE, tins by DSCP (besteffort, diffserv3 or diffserv4), fairness between hosts (triple-isolate, dual-srchost, \
         dual-dsthost or flows) and then between their connections, and COBALT for each connection; rtt is the usual round-trip time, \
         overhead that of a packet in bytes; eager gives the first signal of a connection at its second late packet, as Linux does, not an \
         interval after the first one; LIMIT in packets or bytes, including the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] = &[
        "cake:9,rtt=20ms",
        "cake:9000B,rate=2Mbit,rtt=20ms,tins=diffserv4,isolation=flows,overhead=18",
        "cake:9,eager=true",
    ];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read(text)?;
        let read = Self {
            limit,
            rate: text.optional("rate")?,
            rtt: text.option("rtt", RTT)?,
            tins: read_keyword(text, "tins", "tins=besteffort, diffserv3 or diffserv4")?,
            isolation: read_keyword(
                text,
                "isolation",
                "isolation=triple-isolate, dual-srchost, dual-dsthost or flows",
            )?,
            overhead: text.option("overhead", 0)?,
            eager: text.option("eager", false)?,
        };
        if read.rtt < Span::from_micros(20) {
            return Err(text.error("an rtt of 20us or more"));
        }
        if read.overhead > MAX_OVERHEAD {
            return Err(text.error(format!("an overhead of at most {MAX_OVERHEAD} bytes")));
        }
        Ok(read)
    }

    fn write(&self, to: &mut Written) {
        let to = to.name("cake").value(self.limit);
        if let Some(rate) = self.rate {
            to.key("rate", rate);
        }
        to.option("rtt", self.rtt, RTT)
            .option("tins", self.tins, Tins::default())
            .option("isolation", self.isolation, Isolation::default())
            .option("overhead", self.overhead, 0)
            .option("eager", self.eager, false);
    }
}

impl QueueKind for CakeSpec {
    type Queue = Box<Cake>;

    fn build(&self, context: &PortContext<'_>) -> Box<Cake> {
        let rate = self.rate.map(|rate| (rate.bits_per_second() / 8).max(1));
        let tin = |&halvings: &u32| {
            let rate = rate.map(|rate| (rate >> halvings).max(1));
            let mut tin = Tin::new(rate, self.isolation, self.parameters(rate.map_or(0, byte_time)));
            tin.share = 1024 >> halvings;
            tin
        };
        Box::new(Cake {
            tins: self.tins.halvings().iter().map(tin).collect(),
            spec: *self,
            pool: Pool::default(),
            backlog: Backlog::default(),
            buffer: Buffer::new(self.limit),
            hosts: Hosts::default(),
            current: 0,
            byte_time: rate.map_or(0, byte_time),
            next_at: Time::ZERO,
            failsafe_at: Time::ZERO,
            wake_at: None,
            rng: context.drop_rng(),
        })
    }

    /// Returns bounds with a lower bound of 0: packets may be dropped long before the buffer is full.
    fn buffer_bounds(&self) -> BufferBounds {
        BufferBounds { guaranteed: 0, ..self.limit.buffer_bounds() }
    }

    fn counts_packets(&self) -> bool {
        !self.limit.is_in_bytes()
    }

    fn is_work_conserving(&self) -> bool {
        self.rate.is_none()
    }

    fn isolates_hosts(&self) -> bool {
        self.isolation != Isolation::Flows
    }

    fn traits(&self) -> QueueTraits {
        // Tins follow the class of a codepoint, not its drop precedence.
        QueueTraits { reads_priority: false, marks_ecn: true, is_random: true }
    }
}

impl CakeSpec {
    /// Returns the parameters of a tin with a transmission time of `byte_time` per byte. The target is at least the transmission time of
    /// one and a half packets.
    fn parameters(&self, byte_time: u64) -> CobaltParameters {
        let default_target = Span::from_nanos(self.rtt.as_nanos() / 20);
        let mtu = transmission_time(byte_time, MTU);
        let target = default_target.max(Span::from_nanos(mtu.as_nanos() * 3 / 2));
        let interval = (self.rtt + target).saturating_sub(default_target).max(target * 2);
        CobaltParameters { target, interval, mtu, eager: self.eager }
    }
}

/// CAKE queue.
#[derive(Debug)]
pub struct Cake {
    spec: CakeSpec,
    tins: Vec<Tin>,
    pool: Pool,
    backlog: Backlog,
    buffer: Buffer,
    hosts: Hosts,
    /// Index of the tin that was served last; used without a rate.
    current: usize,
    /// Transmission time of a byte at the shaping rate, in units of 2^-32 ns; 0 without shaping.
    byte_time: u64,
    /// Time at which the next packet may leave by the shaper, unless `failsafe_at` is earlier.
    next_at: Time,
    /// Time at which the next packet may leave by the failsafe of the shaper.
    failsafe_at: Time,
    /// Time at which the next packet may leave; `None` if no packet is held back.
    wake_at: Option<Time>,
    rng: Rng,
}

impl Cake {
    fn is_shaping(&self) -> bool {
        self.byte_time > 0
    }

    /// Returns the index of the tin to serve. With a rate, this is the last tin among those within their share of the rate, or else the tin
    /// that may send first. Without a rate, the tins take turns.
    fn choose_tin(&mut self, now: Time) -> Option<usize> {
        if self.is_shaping() {
            let active = self.tins.iter().enumerate().filter(|(_, tin)| tin.is_active());
            let within_share = active.clone().rfind(|(_, tin)| tin.next_at <= now);
            return within_share
                .or_else(|| active.rev().min_by_key(|(_, tin)| tin.next_at))
                .map(|(at, _)| at);
        }
        if !self.tins.iter().any(Tin::is_active) {
            return None;
        }
        while self.tins[self.current].deficit < 0 || !self.tins[self.current].is_active() {
            let tin = &mut self.tins[self.current];
            if tin.deficit <= 0 {
                tin.deficit += tin.share;
            }
            self.current = (self.current + 1) % self.tins.len();
        }
        Some(self.current)
    }

    fn next(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        let mut is_first = true;
        loop {
            if self.backlog.packets == 0 {
                return None;
            }
            let held_until = self.next_at.min(self.failsafe_at);
            if self.is_shaping() && held_until > now {
                self.wake_at = Some(held_until);
                return None;
            }
            let number = self.choose_tin(now)?;
            let Some(id) = self.tins[number].next_flow(&mut is_first, &mut self.rng) else { continue };
            if let Some(packet) = self.next_of(now, number, id, events) {
                return Some(packet);
            }
            self.tins[number].on_empty(now, id);
        }
    }

    /// Drops packets of a connection as COBALT decides, and returns the first packet that is not dropped. The last packet of a connection
    /// is never dropped.
    fn next_of(
        &mut self,
        now: Time,
        number: usize,
        id: u32,
        events: &mut dyn PacketEvents,
    ) -> Option<Packet> {
        let tin = &mut self.tins[number];
        let parameters = tin.parameters;
        loop {
            let (mut packet, law, is_last) = tin.pop(&mut self.pool, id)?;
            self.backlog.remove(&packet);
            let can_mark = packet.ecn != Ecn::NOT_ECT;
            let waited = now.since(packet.arrived);
            match law.evaluate(&parameters, now, waited, can_mark, || self.rng.next_u32()) {
                Decision::Drop if !is_last => {
                    events.dropped(now, packet, DropReason::Delay);
                    continue;
                }
                Decision::Mark => set_ce(now, &mut packet, events),
                Decision::Drop | Decision::Pass => {}
            }
            let bytes = packet.len + self.spec.overhead;
            tin.on_sent(now, id, bytes);
            let transmission_time = transmission_time(self.byte_time, bytes);
            self.next_at += transmission_time;
            self.failsafe_at += transmission_time + Span::from_nanos(transmission_time.as_nanos() / 2);
            return Some(packet);
        }
    }

    /// Drops the first packet of the connection with the most bytes.
    #[inline(never)]
    fn drop_from_longest(&mut self, now: Time, events: &mut dyn PacketEvents) {
        let longest = self.tins.iter().enumerate().filter_map(|(number, tin)| {
            let (bytes, entry, id) = tin.longest()?;
            Some((bytes, entry, number, id))
        });
        let Some((.., number, id)) = longest.max() else { return };
        let Some(packet) = self.tins[number].drop_head(&mut self.pool, now, id) else { return };
        self.backlog.remove(&packet);
        events.dropped(now, packet, DropReason::Overflow);
    }
}

impl QueueDiscipline for Cake {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        if !self.buffer.fits(&packet) {
            return events.dropped(now, packet, DropReason::Overflow);
        }
        let tin = &mut self.tins[self.spec.tins.of(packet.dscp.codepoint())];
        // Neither a tin nor the shaper saves credit while idle.
        if tin.packets == 0 {
            tin.next_at = tin.next_at.max(now);
        }
        if self.backlog.packets == 0 && self.next_at < now {
            (self.next_at, self.failsafe_at) = (now, now);
        }
        self.backlog.add(&packet);
        tin.push(&mut self.pool, Packet { arrived: now, ..packet }, &self.hosts, &mut self.rng);
        while !self.buffer.holds(self.backlog) && self.backlog.packets > 0 {
            self.drop_from_longest(now, events);
        }
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        self.wake_at = None;
        let packet = self.next(now, events);
        self.buffer.set_in_transmission(packet.as_ref());
        packet
    }

    fn wake_at(&self) -> Option<Time> {
        self.wake_at
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
        self.hosts.set(flow, route, hosts);
    }

    fn released(&mut self) {
        self.buffer.set_in_transmission(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::QueueSpec;

    /// Returns target, interval and time of the largest packet at a rate, microseconds.
    fn parameters_us(bits_per_second: u64, rtt_ms: u64) -> [u64; 3] {
        let QueueSpec::Cake(spec) = format!("cake:9,rtt={rtt_ms}ms").parse().unwrap() else {
            panic!("cake is CAKE")
        };
        let byte_time = if bits_per_second == 0 { 0 } else { byte_time(bits_per_second / 8) };
        let p = spec.parameters(byte_time);
        [p.target, p.interval, p.mtu].map(|time| (time.as_nanos() + 500) / 1000)
    }

    #[test]
    fn a_tin_s_target_is_a_twentieth_of_the_round_trip_but_at_least_one_and_a_half_packets() {
        // cake_set_rate: "target = max((byte_target_ns * 3) / 2, target_ns)" and "interval = max(rtt_est_ns + target - target_ns, target *
        // 2)", where byte_target_ns is the time of an MTU. 1514 bytes take 121.12 ms at 100 kbit/s, 12.112 ms at 1 Mbit/s and 1.211 ms at
        // 10 Mbit/s.
        assert_eq!(parameters_us(0, 100), [5_000, 100_000, 0]);
        assert_eq!(parameters_us(10_000_000, 100), [5_000, 100_000, 1_211]);
        assert_eq!(parameters_us(1_000_000, 100), [18_168, 113_168, 12_112]);
        assert_eq!(parameters_us(100_000, 100), [181_680, 363_360, 121_120]);
        // A longer round trip has a longer target of its own.
        assert_eq!(parameters_us(1_000_000, 1000), [50_000, 1_000_000, 12_112]);
    }
}
