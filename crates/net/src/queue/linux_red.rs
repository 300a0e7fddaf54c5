use super::red::{Red, RedControl, Verdict};
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits};
use crate::{Backlog, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{Bytes, ParseError, Rate, Rng, Share, Span, Time, math};

/// Configuration of RED as in Linux (net/sched/sch_red.c), with the parameters and defaults of tc.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinuxRedSpec {
    /// Buffer limit in bytes, the packet in transmission included.
    pub limit: Capacity,
    /// Parameters of the algorithm.
    pub parameters: LinuxRedParameters,
}

impl Kind for LinuxRedSpec {
    const USAGE: &'static [Usage] = &[(
        "linux-red:LIMIT[,min=,max=,burst=,max_p=0.02,mean_packet=1000,ecn=false,hard=false]",
        "RED of Linux: the average is in bytes, a packet's size does not change its drop probability, and drops are spaced in packets; LIMIT \
         in bytes, including the packet in transmission; max: by default three times min, or a quarter of LIMIT; min: by default a third \
         of max; burst: packets that an empty queue takes before the average reaches min, by default (2 min + max) / (3 mean_packet), from \
         which the weight 2^-n follows; mean_packet: packet size in bytes by which the average ages while the link is idle; ecn and hard \
         as in red",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["linux-red:9000B,min=1500B,max=3000B,burst=3,max_p=0.5,ecn=true"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read_waiting(text)?;
        if !limit.is_in_bytes() {
            return Err(text.error("a limit in bytes, such as 64KB"));
        }
        let min = text.optional("min")?.map(|Bytes(min)| min);
        let max = text.optional("max")?.map(|Bytes(max)| max);
        let mean_packet_bytes = text.option("mean_packet", MEAN_PACKET_BYTES)?;
        let [min_threshold, max_threshold] = LinuxRedParameters::thresholds(limit, min, max);
        let by_default = LinuxRedParameters::burst(min_threshold, max_threshold, mean_packet_bytes);
        let parameters = LinuxRedParameters {
            min_threshold,
            max_threshold,
            burst: text.option("burst", by_default)?,
            max_probability: text.option("max_p", Share(MAX_PROBABILITY))?.0,
            mean_packet_bytes,
            ecn: text.option("ecn", false)?,
            hard: text.option("hard", false)?,
        };
        let p = &parameters;
        let is_ordered = 0 < p.min_threshold && p.min_threshold < p.max_threshold;
        if !is_ordered || p.mean_packet_bytes == 0 || !(p.max_probability > 0.0 && p.max_probability <= 1.0) {
            return Err(text.error("0 < min < max, max_p in (0, 1], and mean_packet positive"));
        }
        match p.weight_log() {
            // red_check_params: thresholds are 32-bit numbers with as many bits behind the point as the weight has.
            Some(log) if p.max_threshold >> (31 - log) == 0 => Ok(Self { limit, parameters }),
            _ => Err(text.error("min above mean_packet, and a burst from min / mean_packet on")),
        }
    }

    fn write(&self, to: &mut Written) {
        let (p, to) = (&self.parameters, self.limit.write_waiting(to.name("linux-red")));
        let [default_min, default_max] = LinuxRedParameters::thresholds(self.limit, None, None);
        // Each threshold has a default that depends on the other one, so that both are written unless both are defaults.
        if (p.min_threshold, p.max_threshold) != (default_min, default_max) {
            to.option("min", Bytes(p.min_threshold), Bytes(0)).option(
                "max",
                Bytes(p.max_threshold),
                Bytes(0),
            );
        }
        to.option(
            "burst",
            p.burst,
            LinuxRedParameters::burst(p.min_threshold, p.max_threshold, p.mean_packet_bytes),
        )
        .option("max_p", p.max_probability, MAX_PROBABILITY)
        .option("mean_packet", p.mean_packet_bytes, MEAN_PACKET_BYTES)
        .option("ecn", p.ecn, false)
        .option("hard", p.hard, false);
    }
}

impl QueueKind for LinuxRedSpec {
    type Queue = Box<dyn QueueDiscipline>;

    fn build(&self, context: &PortContext<'_>) -> Box<dyn QueueDiscipline> {
        let law = LinuxRedLaw::new(self.parameters, context.line_rate(), context.drop_rng());
        Box::new(Red::new(self.limit, law))
    }

    /// Returns bounds with a lower bound of 0: packets may be dropped long before the buffer is full.
    fn buffer_bounds(&self) -> BufferBounds {
        self.limit.buffer_bounds()
    }

    fn traits(&self) -> QueueTraits {
        QueueTraits { marks_ecn: self.parameters.ecn, is_random: true, ..QueueTraits::default() }
    }
}

/// Default drop probability at the upper threshold, as of tc.
const MAX_PROBABILITY: f64 = 0.02;
/// Default mean packet size, bytes, as tc's manual recommends.
const MEAN_PACKET_BYTES: u32 = 1000;

/// Parameters of Linux's RED as tc takes them. Queue lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinuxRedParameters {
    /// Average queue length below which no packet is dropped early, bytes (min).
    pub min_threshold: u64,
    /// Average queue length at and above which every arriving packet is dropped, bytes (max).
    pub max_threshold: u64,
    /// Packets of the mean size that an empty queue takes before the average reaches `min_threshold` (burst).
    pub burst: u32,
    /// Drop probability when the average reaches `max_threshold` (probability).
    pub max_probability: f64,
    /// Mean packet size, bytes (avpkt).
    pub mean_packet_bytes: u32,
    /// True if ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// True if ECN-capable packets are dropped rather than marked at and above `max_threshold` (harddrop).
    pub hard: bool,
}

impl LinuxRedParameters {
    /// Returns the lower and the upper threshold, bytes, with tc's defaults.
    fn thresholds(limit: Capacity, min: Option<u64>, max: Option<u64>) -> [u64; 2] {
        let quarter = limit.amount() as u64 / 4;
        let max = max.unwrap_or_else(|| min.map_or(quarter, |min| min.saturating_mul(3)));
        [min.unwrap_or(max / 3), max]
    }

    /// Returns tc's default of the burst, packets.
    fn burst(min: u64, max: u64, mean_packet_bytes: u32) -> u32 {
        let bytes = min.saturating_mul(2).saturating_add(max);
        u32::try_from(bytes / (3 * u64::from(mean_packet_bytes.max(1)))).unwrap_or(u32::MAX)
    }

    /// Returns n of the weight 2^-n: the largest weight with which `burst` packets do not raise the average to the lower threshold; `None`
    /// if there is none (tc_red_eval_ewma).
    fn weight_log(&self) -> Option<u32> {
        let room =
            f64::from(self.burst) + 1.0 - self.min_threshold as f64 / f64::from(self.mean_packet_bytes);
        let suits = |&log: &u32| {
            let weight = 1.0 / f64::from(1u32 << log);
            room <= (1.0 - math::powi(1.0 - weight, self.burst)) / weight
        };
        (1..31).find(suits).filter(|_| room >= 1.0)
    }
}

/// Algorithm of Linux's RED (include/net/red.h), separate from the packet buffer. The decay of the average on an idle link is that of
/// [`super::RedLaw`], each packet of the mean size that the link could have sent counts as an arrival at an empty queue: Linux takes it from a
/// table of powers of two that tc computes.
#[derive(Debug)]
pub struct LinuxRedLaw {
    parameters: LinuxRedParameters,
    packet_time: Span,
    /// Number of fractional bits of the average, and of the weight (Wlog).
    log: u32,
    /// Average queue length, in units of 2^-log bytes (qavg).
    average: u64,
    /// Packets since the last random drop; `None` before the first packet between the thresholds (qcount = -1).
    count: Option<u64>,
    /// Random number with which the count times the excess over the lower threshold is compared, bytes (qR).
    random: u64,
    /// Divisor of 32 random bits that gives random numbers up to (max - min) / max_p, bytes (max_P_reciprocal).
    divisor: u32,
    idle_since: Option<Time>,
    rng: Rng,
}

impl LinuxRedLaw {
    /// Creates the state for an empty queue on a link of this rate.
    ///
    /// # Panics
    ///
    /// Panics if no weight suits the parameters.
    pub fn new(parameters: LinuxRedParameters, rate: Rate, rng: Rng) -> Self {
        let p = &parameters;
        let max_probability = (p.max_probability * 2f64.powi(32)) as u32;
        Self {
            parameters,
            packet_time: rate.time_of(u64::from(p.mean_packet_bytes)).max(Span::from_nanos(1)),
            log: p.weight_log().expect("the burst suits the thresholds"),
            average: 0,
            count: None,
            random: 0,
            divisor: (u64::from(max_probability) / (p.max_threshold - p.min_threshold)).max(1) as u32,
            idle_since: Some(Time::ZERO),
            rng,
        }
    }

    /// Returns the average queue length, bytes.
    pub fn average(&self) -> f64 {
        self.average as f64 / f64::from(1u32 << self.log)
    }

    /// Returns the decision about a packet that arrives at `now` and finds `waiting` bytes in the queue (red_action).
    pub fn on_arrival(&mut self, now: Time, waiting: u64) -> Verdict {
        self.update_average(now, waiting);
        let (min, max) =
            (self.parameters.min_threshold << self.log, self.parameters.max_threshold << self.log);
        if self.average < min || self.average >= max {
            self.count = None;
            return if self.average < min { Verdict::Accept } else { Verdict::Forced };
        }
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        let excess = (self.average - min) >> self.log;
        let drops = count > 0 && excess * count >= self.random;
        if drops {
            self.count = Some(0);
        }
        if drops || count == 0 {
            self.random = u64::from(self.rng.next_u32() / self.divisor);
        }
        if drops { Verdict::Early } else { Verdict::Accept }
    }

    fn update_average(&mut self, now: Time, waiting: u64) {
        if let Some(since) = self.idle_since.take() {
            let missed = (now - since).in_units_of(self.packet_time).min(i32::MAX as u64) as u32;
            let keep = 1.0 - 1.0 / f64::from(1u32 << self.log);
            self.average = (self.average as f64 * math::powi(keep, missed)) as u64;
        } else {
            self.average = self.average - (self.average >> self.log) + waiting;
        }
    }
}

impl RedControl for LinuxRedLaw {
    fn verdict(&mut self, now: Time, waiting: Backlog, _packet: &Packet, _in_bytes: bool) -> Verdict {
        self.on_arrival(now, waiting.bytes)
    }
    fn is_marking(&self, verdict: Verdict) -> bool {
        let p = &self.parameters;
        p.ecn && (verdict == Verdict::Early || verdict == Verdict::Forced && !p.hard)
    }
    fn on_overflow(&mut self) {}
    fn on_idle(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::rng;

    fn law(text: &str) -> LinuxRedLaw {
        let spec = LinuxRedSpec::read(&mut Notation::parse(text).unwrap()).unwrap();
        // A packet of 1000 bytes takes a millisecond.
        LinuxRedLaw::new(spec.parameters, Rate::from_bits_per_second(8_000_000).unwrap(), rng(1))
    }

    fn at_us(us: u64) -> Time {
        Time::ZERO + Span::from_micros(us)
    }

    #[test]
    fn defaults_are_those_of_tc() {
        let p = law("linux-red:120000B").parameters;
        // A quarter of the limit, a third of that, and (2 · 10 000 + 30 000) / 3000 packets.
        assert_eq!((p.min_threshold, p.max_threshold, p.burst), (10_000, 30_000, 16));
        // 16 + 1 - 10 = 7 packets: with 2^-2, (1 - 0.75^16) / 0.25 is 3.96; with 2^-3, (1 - 0.875^16) / 0.125 is 7.06.
        assert_eq!(p.weight_log(), Some(3));
        let p = law("linux-red:120000B,min=5000B").parameters;
        assert_eq!((p.min_threshold, p.max_threshold), (5000, 15_000));
    }

    #[test]
    fn the_average_is_in_eighths_of_bytes_and_ages_while_idle() {
        let mut law = law("linux-red:120000B");
        // The first arrival ends the idle time and takes no sample. Then avg <- avg - avg / 8 + backlog / 8, in units of 1/8 byte.
        let averages = [0, 1000, 2000, 3001].map(|waiting| {
            law.on_arrival(at_us(0), waiting);
            law.average
        });
        assert_eq!(averages, [0, 1000, 1000 - 125 + 2000, 2875 - 359 + 3001]);
        // In two milliseconds the link could have sent two packets: 5517 · (7/8)².
        law.on_idle(at_us(10));
        law.on_arrival(at_us(2010), 0);
        assert_eq!(law.average, 4223);
    }

    #[test]
    fn drops_between_the_thresholds_come_when_count_times_excess_reaches_the_random_number() {
        let mut law = law("linux-red:120000B");
        // 0.02 · 2^32 = 85 899 345, divided by 20 000 bytes: random numbers are 32 bits divided by 4294, up to a million bytes.
        assert_eq!(law.divisor, 4294);
        law.on_arrival(at_us(0), 0);
        // An average of 20 000 bytes, 10 000 above min, and a backlog that keeps it.
        law.average = 20_000 << 3;
        assert_eq!((law.on_arrival(at_us(0), 20_000), law.count), (Verdict::Accept, Some(0)));
        law.random = 30_000;
        let mut next = || law.on_arrival(at_us(0), 20_000);
        assert_eq!([next(), next(), next()], [Verdict::Accept, Verdict::Accept, Verdict::Early]);
        assert_eq!(law.count, Some(0));
        // The size of a packet has no part in the decision, and a drop from a full buffer does not change the count.
        law.on_overflow();
        assert_eq!(law.count, Some(0));
        law.average = 30_000 << 3;
        assert_eq!((law.on_arrival(at_us(0), 30_000), law.count), (Verdict::Forced, None));
        law.average = 0;
        assert_eq!(law.on_arrival(at_us(0), 0), Verdict::Accept);
    }

    #[test]
    fn gaps_between_drops_are_uniform_up_to_the_inverse_of_the_probability() {
        let mut law = law("linux-red:120000B");
        law.on_arrival(at_us(0), 0);
        law.average = 20_000 << 3;
        // Halfway between the thresholds the probability is 0.01, so that gaps are uniform from 1 to 100 packets.
        let (mut gaps, mut gap) = (Vec::new(), 0);
        for _ in 0..200_000 {
            gap += 1;
            if law.on_arrival(at_us(0), 20_000) == Verdict::Early {
                gaps.push(gap);
                gap = 0;
            }
        }
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        assert!((mean - 50.5).abs() < 1.5 && gaps.iter().all(|&gap| gap <= 101), "{mean}");
    }

    #[test]
    fn marks_above_max_depend_on_hard() {
        for (text, marks) in [
            ("linux-red:120000B", [false, false]),
            ("linux-red:120000B,ecn=true", [true, true]),
            ("linux-red:120000B,ecn=true,hard=true", [true, false]),
        ] {
            let law = law(text);
            assert_eq!(
                [Verdict::Early, Verdict::Forced].map(|verdict| law.is_marking(verdict)),
                marks,
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("linux-red:100", "a limit in bytes"),
            ("linux-red:100KB,min=9KB,max=8KB", "0 < min < max"),
            ("linux-red:100KB,max_p=0", "max_p in (0, 1]"),
            ("linux-red:100KB,min=20KB,max=40KB,burst=3", "a burst from min / mean_packet on"),
            ("linux-red:100KB,burst=4000000000", "a burst"),
            ("linux-red:100KB,weight=0.1", "weight"),
        ] {
            let error = text.parse::<crate::queue::QueueSpec>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(named), "{error}");
        }
    }
}
