use super::Shaper;
use catnip_base::{ParseError, Rate, Span, Time};
use std::fmt;
use std::sync::Arc;

/// Rates and the times at which they begin to apply. The first rate applies from time zero, the last one indefinitely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps(Arc<[(Time, Rate)]>);

impl Steps {
    /// Parses a text such as `10Mbit,10s=1Mbit,20s=5Mbit`: the first rate, then pairs of a time and the rate from this time on.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let invalid = || {
            let expected = "a rate and then times and rates, as in steps:10Mbit,10s=1Mbit,20s=5Mbit, with times that increase";
            ParseError::new(text, expected)
        };
        let mut parts = text.split(',').map(str::trim);
        let first: Rate = parts.next().unwrap_or_default().parse().map_err(|_| invalid())?;
        let mut steps = vec![(Time::ZERO, first)];
        for part in parts {
            let (at, rate) = part.split_once('=').ok_or_else(invalid)?;
            let at = Time::ZERO + at.trim().parse::<Span>().map_err(|_| invalid())?;
            let is_later = steps.last().is_some_and(|(before, _)| *before < at);
            steps.push((at, rate.trim().parse().map_err(|_| invalid())?));
            if !is_later {
                return Err(invalid());
            }
        }
        Ok(Self(steps.into()))
    }

    /// Returns the last rate.
    pub fn last(&self) -> Rate {
        self.0[self.0.len() - 1].1
    }

    /// Returns the capacity between two times, bits.
    pub fn capacity_bits(&self, from: Time, to: Time) -> f64 {
        let ends = self.0.iter().skip(1).map(|(at, _)| *at).chain([Time::NEVER]);
        let parts = self.0.iter().zip(ends).map(|(&(at, rate), end)| {
            let within = to.min(end).since(from.max(at));
            rate.bits_per_second() as f64 * within.as_secs()
        });
        parts.sum()
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "steps:{}", self.0[0].1)?;
        self.0[1..].iter().try_for_each(|(at, rate)| write!(f, ",{}={rate}", at.since(Time::ZERO)))
    }
}

/// Wire whose rate changes in steps. A transmission in progress continues at the new rate.
#[derive(Clone, Debug)]
pub struct Stepped {
    steps: Steps,
    /// Index of the current step.
    current: usize,
    last_end: Time,
    /// Rest of the last packet that leaves in the fraction of a nanosecond after `last_end`, in billionths of a bit.
    carry: u128,
}

const BILLION: u128 = 1_000_000_000;

impl Stepped {
    /// Creates an idle wire.
    pub fn new(steps: Steps) -> Self {
        Self { steps, current: 0, last_end: Time::ZERO, carry: 0 }
    }

    fn ends_at(&self) -> Time {
        self.steps.0.get(self.current + 1).map_or(Time::NEVER, |(at, _)| *at)
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
            while at >= self.ends_at() {
                self.current += 1;
            }
            let rate = u128::from(self.steps.0[self.current].1.bits_per_second());
            let capacity = u128::from(self.ends_at().since(at).as_nanos()) * rate;
            if remaining < capacity {
                self.last_end = at + Span::from_nanos((remaining / rate) as u64);
                self.carry = remaining % rate;
                return self.last_end;
            }
            remaining -= capacity;
            at = self.ends_at();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Constant;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_packet_in_transmission_goes_on_at_the_new_rate() {
        let steps = Steps::parse("8Mbit, 10ms = 1Mbit, 20ms=80Mbit").unwrap();
        assert_eq!(steps.to_string(), "steps:8Mbit,10ms=1Mbit,20ms=80Mbit");
        let mut wire = Stepped::new(steps.clone());
        // 8000 bits take 1 ms at first. Of the next packet, one half leaves in 0.5 ms at this rate, and the other half takes 4 ms.
        assert_eq!(wire.finish(at(0), 1000), at(1));
        assert_eq!(wire.finish(Time::from_nanos(9_500_000), 1000), at(14));
        // 6000 bits until 20 ms, and 2000 in 25 us.
        assert_eq!(wire.finish(at(14), 1000), Time::from_nanos(20_025_000));
        assert_eq!(wire.finish(at(30), 1000), Time::from_nanos(30_100_000));
        assert_eq!(steps.capacity_bits(at(5), at(21)), 40_000.0 + 10_000.0 + 80_000.0);
        assert_eq!(steps.last(), Rate::from_bits_per_second(80_000_000).unwrap());
    }

    #[test]
    fn what_is_no_rate_in_steps_is_refused() {
        for text in [
            "",
            "fast",
            "1Mbit,2Mbit",
            "1Mbit,5s=2Mbit,5s=3Mbit",
            "1Mbit,0s=2Mbit",
            "1Mbit,5s=0bit",
            "1Mbit,",
        ] {
            let error = Steps::parse(text).unwrap_err().to_string();
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
            let all = std::iter::once(Time::ZERO).chain(times).map(|at| (at, rate));
            let mut stepped = Stepped::new(Steps(all.collect()));
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
