use super::Capacity;
use super::codel::LINUX_MTU_BYTES;
use super::pie::{PieControl, PieParameters, PieSpec};
use crate::Packet;
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Span, Time};
use std::marker::PhantomData;

impl PieParameters {
    /// Defaults of Linux, which drops ECN-capable packets unless it is told to mark them (pie_params_init).
    const OF_LINUX: Self = Self { ecn: false, ..Self::OF_THE_RFC };
}

impl Kind for PieSpec<LinuxPieLaw> {
    const USAGE: &'static [Usage] = &[(
        "linux-pie[:LIMIT,target=15ms,update=15ms,alpha=0.125,beta=1.25,ecn=false]",
        "PIE of Linux: pie with times in units of 64 ns, a timer at 250 Hz that updates the probability every 20 ms if it is told 15 ms, a \
         burst allowance of 150 ms that departures use up, an increase of 2 % more while the delay exceeds 250 ms, and no drop while \
         less than 3028 bytes wait; alpha and beta in steps of 1/16 up to 2; LIMIT as in pie, by default 1000",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["linux-pie:9000B,target=1ms,update=2ms,alpha=2,beta=2,ecn=true"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read_or(text, Capacity::packets(1000))?;
        let parameters = PieParameters::read(text, PieParameters::OF_LINUX)?;
        let is_gain = |hz: f64| sixteenths(hz) as f64 == hz * 16.0 && hz <= 2.0;
        if !(is_gain(parameters.alpha_hz) && is_gain(parameters.beta_hz)) {
            return Err(text.error("alpha and beta in steps of 0.0625 from 0 to 2"));
        }
        Ok(Self { limit, parameters, control: PhantomData })
    }

    fn write(&self, to: &mut Written) {
        self.write_parameters(to.name("linux-pie"), PieParameters::OF_LINUX);
    }
}

/// Returns a gain in the unit of tc and the kernel, 1/16 Hz.
fn sixteenths(hz: f64) -> u64 {
    (hz * 16.0) as u64
}

/// Algorithm of Linux's PIE (include/net/pie.h, net/sched/sch_pie.c) without the estimator of the departure rate, which is off by default:
/// the queueing delay is that of the last departed packet. Times are in ticks of 64 ns (psched time).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinuxPieLaw {
    /// Time of the next update of the probability.
    update_at: Time,
    /// Drop probability, in units of 1 / [`MAX_PROB`]; above one if the delay stays high.
    probability: u64,
    delay: u64,
    /// Queueing delay at the last update of the probability.
    delay_before: u64,
    /// Remaining burst allowance.
    burst: u64,
    /// Time of the last departure; `None` since the last update with a probability of zero and short delays.
    departed: Option<u64>,
    /// Sum of the drop probabilities of the packets since the last drop.
    accumulated: u64,
}

/// Fixed-point value of a probability of one.
const MAX_PROB: u64 = u64::MAX >> 8;
const TICKS_PER_S: u64 = 1_000_000_000 >> TICK_SHIFT;
/// Length of a tick, as a power of two of nanoseconds (PSCHED_SHIFT).
const TICK_SHIFT: u32 = 6;
/// Delay above which the probability rises by another 2 % per update.
const LONG_DELAY: u64 = 250_000_000 >> TICK_SHIFT;
/// Period of the kernel's clock at CONFIG_HZ=250.
const JIFFY: Span = Span::from_millis(4);

impl LinuxPieLaw {
    /// Returns the drop probability of an arriving packet, in units of 2^-56.
    pub fn probability(&self) -> u64 {
        self.probability
    }

    /// Updates the probability while `waiting` bytes are in the queue (pie_calculate_probability).
    fn update(&mut self, p: &PieParameters, waiting: u64) {
        let (delay, before, target) = (self.delay, self.delay_before, ticks(p.target));
        let shift = self.gain_shift();
        let gain = |hz: f64| (sixteenths(hz) * (MAX_PROB / TICKS_PER_S)) >> 4 >> shift;
        let change = |gain: u64, from: u64| gain.wrapping_mul(delay.wrapping_sub(from)) as i64;
        let mut delta = change(gain(p.alpha_hz), target).wrapping_add(change(gain(p.beta_hz), before));
        let two_percent = (MAX_PROB / 50) as i64;
        if delta > two_percent && self.probability >= MAX_PROB / 10 {
            delta = (MAX_PROB / 100 * 2) as i64;
        }
        if delay > LONG_DELAY {
            delta = delta.wrapping_add(two_percent);
        }
        self.probability = self.probability.saturating_add_signed(delta);
        if delay == 0 && before == 0 && waiting == 0 {
            self.probability -= self.probability / 64;
        }
        if delay < target / 2 && before < target / 2 && self.probability == 0 {
            (self.burst, self.departed, self.accumulated) = (ticks(p.burst), None, 0);
        }
        self.delay_before = delay;
    }

    /// Returns by how many bits changes of the present probability are scaled down: by one below 0.1, and by two more below each smaller
    /// power of ten down to 10^-6.
    fn gain_shift(&self) -> u32 {
        let is_below = |divisor: &&u64| self.probability < MAX_PROB / **divisor;
        let steps = [10, 100, 1000, 10_000, 100_000, 1_000_000].iter().take_while(is_below).count();
        (2 * steps as u32).saturating_sub(1)
    }
}

/// Returns the interval between updates: the timer is set to `update`, rounded up to jiffies, and fires at the jiffy after that (mod_timer;
/// exact below 64 jiffies).
fn update_interval(p: &PieParameters) -> Span {
    JIFFY * (p.update.as_nanos().div_ceil(JIFFY.as_nanos()) + 1)
}

fn ticks(span: Span) -> u64 {
    span.as_nanos() >> TICK_SHIFT
}

impl PieControl for LinuxPieLaw {
    /// The kernel's timer begins at an unknown time before the run; here the first update is an interval after the beginning.
    fn new(p: &PieParameters) -> Self {
        Self {
            update_at: Time::ZERO + update_interval(p),
            probability: 0,
            delay: 0,
            delay_before: 0,
            burst: ticks(p.burst),
            departed: None,
            accumulated: 0,
        }
    }

    fn advance(&mut self, p: &PieParameters, now: Time, waiting: u64) {
        let interval = update_interval(p);
        while self.update_at <= now {
            let is_quiet = self.probability == 0 && self.delay == 0 && self.delay_before == 0;
            self.update(p, waiting);
            // More updates of a quiet queue change nothing.
            let updates = if is_quiet { (now - self.update_at).in_units_of(interval) + 1 } else { 1 };
            self.update_at += interval * updates;
        }
    }

    fn should_drop(&mut self, p: &PieParameters, waiting: u64, _max_packet: u32, rng: &mut Rng) -> bool {
        let is_short = self.delay < ticks(p.target) / 2 && self.probability < MAX_PROB / 5;
        if self.burst > 0 || is_short || waiting < 2 * u64::from(LINUX_MTU_BYTES) {
            return false;
        }
        self.accumulated = if self.probability == 0 { 0 } else { self.accumulated + self.probability };
        if self.accumulated < MAX_PROB / 100 * 85 {
            return false;
        }
        // A certain drop leaves the sum as it is. The sum of a packet that is then marked makes the next one certain, too.
        if self.accumulated >= MAX_PROB / 2 * 17 {
            return true;
        }
        let random = u64::from(rng.next_u32()) << 24 | u64::from(rng.next_u32()) >> 8;
        let drops = random < self.probability;
        if drops {
            self.accumulated = 0;
        }
        drops
    }

    fn is_marking(&self, p: &PieParameters) -> bool {
        p.ecn && self.probability <= MAX_PROB / 10
    }

    fn on_drop(&mut self) {
        self.accumulated = 0;
    }

    /// Takes the queueing delay from the packet, and the time since the last departure from the burst allowance (pie_process_dequeue).
    fn on_departure(&mut self, now: Time, packet: &Packet, was_last: bool) {
        let tick = |time: Time| time.as_nanos() >> TICK_SHIFT;
        let now = tick(now);
        self.delay = if was_last { 0 } else { now - tick(packet.arrived) };
        let since_last = self.departed.replace(now).map_or(0, |departed| now - departed);
        self.burst = self.burst.saturating_sub(since_last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::{packet, rng};
    use crate::{Priority, Route};

    fn parameters(text: &str) -> PieParameters {
        PieSpec::<LinuxPieLaw>::read(&mut Notation::parse(text).unwrap()).unwrap().parameters
    }

    fn after_ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// Returns a law behind which a packet has left that waited for this time, and others wait.
    fn late(p: &PieParameters, waited_ms: u64) -> LinuxPieLaw {
        let mut law = LinuxPieLaw::new(p);
        law.on_departure(after_ms(waited_ms), &Packet::new(Time::ZERO, Route::default(), 1500, 0), false);
        law
    }

    #[test]
    fn the_timer_told_15_ms_fires_every_20_ms() {
        // 15 ms are 3.75 jiffies of 4 ms, rounded up to 4; the timer fires at the fifth.
        for (text, interval_ms) in [("linux-pie", 20), ("linux-pie:9,update=16ms", 20)] {
            assert_eq!(update_interval(&parameters(text)), Span::from_millis(interval_ms), "{text}");
        }
        assert_eq!(update_interval(&parameters("linux-pie:9,update=17ms")), Span::from_millis(24));
        let p = parameters("linux-pie");
        let mut law = late(&p, 100);
        let mut at = |ms| {
            law.advance(&p, after_ms(ms), 3000);
            law.probability()
        };
        let steps: Vec<u64> =
            [19, 20, 39, 40, 59, 60].map(&mut at).windows(2).map(|two| two[1] - two[0]).collect();
        assert!(steps[0] > 0 && steps[1] == 0 && steps[2] > 0 && steps[3] == 0 && steps[4] > 0, "{steps:?}");
    }

    #[test]
    fn the_probability_grows_by_the_kernels_fixed_point_steps() {
        // Ticks of 64 ns: the target is 234 375, and a delay of 100 ms 1 562 500. One is 2^56 - 1; divided by the 15 625 000 ticks of a
        // second it is 4 611 686 018. Times 2/16 and 20/16, alpha is 576 460 752 and beta 5 764 607 522.
        let p = parameters("linux-pie");
        let mut law = late(&p, 100);
        let expected = [
            // Below 10^-6 both lose 11 bits: 281 474 (1 562 500 - 234 375) + 2 814 749 · 1 562 500.
            4_771_877_968_750,
            // Below 10^-4 (7.2 · 10^12) 7 bits: the delay is what it was, so that 4 503 599 · 1 328 125 is added.
            10_753_220_390_625,
            // Below 10^-3 5 bits: 18 014 398 · 1 328 125.
            34_678_592_734_375,
            58_603_965_078_125,
        ];
        for (n, expected) in (1..).zip(expected) {
            law.advance(&p, after_ms(20 * n), 3000);
            assert_eq!(law.probability(), expected, "after {n} updates");
        }
    }

    #[test]
    fn above_a_tenth_the_probability_grows_by_two_percent_and_by_four_above_250_ms() {
        let percent = |law: LinuxPieLaw| (law.probability as f64 / MAX_PROB as f64 * 1000.0).round() / 10.0;
        let p = parameters("linux-pie:1000,beta=0");
        for (waited_ms, grown) in [(240, 22.0), (251, 24.0)] {
            // Alpha alone gives 0.125 · (240 - 15) ms, 2.8 %.
            let mut law = LinuxPieLaw { probability: MAX_PROB / 5, ..late(&p, waited_ms) };
            law.update(&p, 3000);
            assert_eq!(percent(law), grown);
        }
        // Without an upper bound, the probability exceeds one.
        let mut law = LinuxPieLaw { probability: MAX_PROB, ..late(&p, 251) };
        law.update(&p, 3000);
        assert_eq!(percent(law), 104.0);
        // An empty queue without delay loses 1/64 besides alpha's 0.125 · 15 ms, half of it below a tenth; a short one does not.
        for (waiting, fallen) in [(0, 20.0 - 0.1875 - (20.0 - 0.1875) / 64.0), (100, 20.0 - 0.1875)] {
            let mut law = LinuxPieLaw { probability: MAX_PROB / 5, ..LinuxPieLaw::new(&p) };
            law.update(&p, waiting);
            assert_eq!(percent(law), (fallen * 10.0f64).round() / 10.0);
        }
    }

    #[test]
    fn departures_use_up_the_burst_allowance_and_a_quiet_queue_restores_it() {
        let p = parameters("linux-pie");
        let mut law = LinuxPieLaw::new(&p);
        // 150 ms are 2 343 750 ticks. The first departure only begins the measurement.
        let mut left = |ms: u64| {
            law.on_departure(after_ms(ms), &packet(0, Priority::Low), false);
            law.burst
        };
        assert_eq!([left(100), left(101), left(151), left(250)], [2_343_750, 2_328_125, 1_546_875, 0]);
        law.on_departure(after_ms(251), &Packet { arrived: after_ms(250), ..packet(0, Priority::Low) }, true);
        law.update(&p, 0);
        assert_eq!((law.burst, law.departed, law.probability()), (2_343_750, None, 0));
    }

    #[test]
    fn drops_need_a_sum_of_085_and_are_certain_from_85_on() {
        let p = parameters("linux-pie:1000,ecn=true");
        let ready = LinuxPieLaw { burst: 0, ..late(&p, 100) };
        let mut random = rng(1);
        // A probability of 1/1000: the first 849 packets leave the sum below 0.85.
        let mut law = LinuxPieLaw { probability: MAX_PROB / 1000, ..ready };
        assert!((0..849).all(|_| !law.should_drop(&p, 9000, 1500, &mut random)));
        let near = MAX_PROB / 2 * 17 - MAX_PROB / 1000;
        let mut law = LinuxPieLaw { probability: MAX_PROB / 1000 + 1, accumulated: near, ..ready };
        // The sum stays after a certain mark, so that the next packet is marked, too; a drop resets it.
        assert!(law.should_drop(&p, 9000, 1500, &mut random) && law.should_drop(&p, 9000, 1500, &mut random));
        law.on_drop();
        assert!(!law.should_drop(&p, 9000, 1500, &mut random));
        // Two full frames must wait.
        let certain = LinuxPieLaw { probability: MAX_PROB, accumulated: MAX_PROB / 2 * 17, ..ready };
        assert_eq!(
            [3027, 3028].map(|waiting| { certain }.should_drop(&p, waiting, 1500, &mut random)),
            [false, true]
        );
        // Marks end above a probability of a tenth.
        let marking = |probability| LinuxPieLaw { probability, ..ready }.is_marking(&p);
        assert_eq!([marking(MAX_PROB / 10), marking(MAX_PROB / 10 + 1)], [true, false]);
    }
}
