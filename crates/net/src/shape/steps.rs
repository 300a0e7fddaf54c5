use super::Shaper;
use crate::schedule::{Position, Schedule};
use catnip_base::{Rate, Span, Time};

/// Rates over time; `None` while nothing is transmitted.
pub type Steps = Schedule<Option<Rate>>;

impl Steps {
    /// Returns the long-run rate, or the mean rate of a recording after which nothing is transmitted.
    pub fn mean_rate(&self) -> Rate {
        let last = self.last().filter(|_| self.period().is_none() && !self.stops());
        last.unwrap_or_else(|| {
            let mean = self.walk(Time::ZERO, Time::ZERO + self.length()) / self.length().as_secs();
            Rate::from_bits_per_second(mean.max(1.0) as u64).expect("it is at least 1")
        })
    }

    /// Returns the capacity between two times, bits.
    pub fn capacity_bits(&self, from: Time, to: Time) -> f64 {
        let Some(period) = self.period() else { return self.walk(from, to) };
        let whole = to.since(from).in_units_of(period);
        let one = if whole == 0 { 0.0 } else { self.walk(Time::ZERO, Time::ZERO + period) };
        let rest = to.since(from).saturating_sub(period * whole);
        whole as f64 * one + self.walk(from, from + rest)
    }

    /// Returns the sum of [`Steps::capacity_bits`] over all values between two times.
    fn walk(&self, from: Time, to: Time) -> f64 {
        let (mut at, mut bits, mut position) = (from, 0.0, Position::default());
        while at < to {
            self.seek(&mut position, at);
            let until = self.ends_at(position).min(to);
            bits += bits_per_second(self.value(position)) as f64 * until.since(at).as_secs();
            at = until;
        }
        bits
    }

    /// Returns true if nothing is ever transmitted after some time.
    pub(super) fn ends(&self) -> bool {
        self.stops() || (self.period().is_none() && self.last().is_none())
    }

    /// Returns true if nothing is ever transmitted.
    pub(super) fn is_zero(&self) -> bool {
        self.points().iter().all(|(_, rate)| rate.is_none())
    }

    fn last(&self) -> Option<Rate> {
        self.points()[self.points().len() - 1].1
    }
}

/// Wire whose rate changes in steps. A transmission in progress continues at the new rate.
#[derive(Clone, Debug)]
pub struct Stepped {
    steps: Steps,
    position: Position,
    last_end: Time,
    /// Rest of the last packet that leaves in the fraction of a nanosecond after `last_end`, in billionths of a bit.
    carry: u128,
}

const BILLION: u128 = 1_000_000_000;

impl Stepped {
    /// Creates an idle wire.
    pub fn new(steps: Steps) -> Self {
        Self { steps, position: Position::default(), last_end: Time::ZERO, carry: 0 }
    }
}

impl Shaper for Stepped {
    fn finish(&mut self, start: Time, len: u32) -> Time {
        let mut remaining = u128::from(len) * 8 * BILLION;
        if start == self.last_end {
            remaining += self.carry;
        }
        let mut at = start;
        loop {
            self.steps.seek(&mut self.position, at);
            let ends_at = self.steps.ends_at(self.position);
            let rate = u128::from(bits_per_second(self.steps.value(self.position)));
            let capacity = u128::from(ends_at.since(at).as_nanos()) * rate;
            if remaining < capacity {
                self.last_end = at + Span::from_nanos((remaining / rate) as u64);
                self.carry = remaining % rate;
                return self.last_end;
            }
            if ends_at == Time::NEVER {
                return Time::NEVER;
            }
            remaining -= capacity;
            at = ends_at;
        }
    }

    fn ends(&self) -> bool {
        self.steps.ends()
    }
}

fn bits_per_second(rate: Option<Rate>) -> u64 {
    rate.map_or(0, Rate::bits_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::TraceName;
    use crate::shape::Constant;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_packet_in_transmission_goes_on_at_the_new_rate() {
        let steps = Steps::parse_steps("8Mbit, 10ms = 1Mbit, 20ms=80Mbit").unwrap();
        assert_eq!(steps.to_string(), "steps:8Mbit,10ms=1Mbit,20ms=80Mbit");
        let mut wire = Stepped::new(steps.clone());
        // 8000 bits take 1 ms at first. Of the next packet, one half leaves in 0.5 ms at this rate, and the other half takes 4 ms.
        assert_eq!(wire.finish(at(0), 1000), at(1));
        assert_eq!(wire.finish(Time::from_nanos(9_500_000), 1000), at(14));
        // 6000 bits until 20 ms, and 2000 in 25 us.
        assert_eq!(wire.finish(at(14), 1000), Time::from_nanos(20_025_000));
        assert_eq!(wire.finish(at(30), 1000), Time::from_nanos(30_100_000));
        assert_eq!(steps.capacity_bits(at(5), at(21)), 40_000.0 + 10_000.0 + 80_000.0);
        assert_eq!(steps.mean_rate(), Rate::from_bits_per_second(80_000_000).unwrap());
    }

    #[test]
    fn a_recorded_rate_repeats_and_a_packet_waits_while_it_is_zero() {
        let name = TraceName::parse("f,step=10ms").unwrap();
        let steps = Steps::recorded(name, "8\n0\n").unwrap();
        assert_eq!(steps.mean_rate().bits_per_second(), 4_000_000);
        let mut wire = Stepped::new(steps.clone());
        // 8000 bits take 1 ms, half of them now and the other half when the recording starts again.
        assert_eq!(wire.finish(Time::from_nanos(9_500_000), 1000), Time::from_nanos(20_500_000));
        assert_eq!(wire.finish(at(1015), 1000), at(1021));
        assert_eq!(steps.capacity_bits(at(5), at(1025)), 80_000.0 * 51.0);
        assert_eq!(steps.capacity_bits(at(10), at(20)), 0.0);
    }

    #[test]
    fn nothing_leaves_after_a_recording_that_stops() {
        let name = TraceName::parse("f,step=10ms,end=stop").unwrap();
        let mut wire = Stepped::new(Steps::recorded(name, "8\n").unwrap());
        assert_eq!(wire.finish(at(0), 9000), at(9));
        assert_eq!(wire.finish(at(9), 2000), Time::NEVER);
        assert!(wire.ends());
    }

    #[test]
    fn what_is_no_rate_in_steps_is_refused() {
        for text in ["", "fast", "1Mbit,2Mbit", "1Mbit,5s=2Mbit,5s=3Mbit", "1Mbit,0s=2Mbit", "1Mbit,"] {
            let error = Steps::parse_steps(text).unwrap_err().to_string();
            assert!(error.contains("steps:10Mbit,10s=1Mbit"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn steps_that_change_nothing_are_a_constant_rate(
            packets in prop::collection::vec((0u64..3_000_000, 1u32..2000), 1..50),
            rate in 1u64..200_000_000,
            steps in prop::collection::vec(1u64..30_000_000, 0..5),
        ) {
            let mut times: Vec<Time> = steps.into_iter().map(Time::from_nanos).collect();
            times.sort_unstable();
            times.dedup();
            let rate = Rate::from_bits_per_second(rate).unwrap();
            let text = times.iter().filter(|at| **at > Time::ZERO).map(|at| format!(",{}ns={rate}", at.as_nanos()));
            let steps = Steps::parse_steps(&format!("{rate}{}", text.collect::<String>())).unwrap();
            let mut stepped = Stepped::new(steps);
            let mut constant = Constant::new(rate);
            let mut free = Time::ZERO;
            for (gap, len) in packets {
                let start = if gap < 1_000_000 { free } else { free + Span::from_nanos(gap) };
                free = constant.finish(start, len);
                prop_assert_eq!(stepped.finish(start, len), free);
            }
        }
    }
}
