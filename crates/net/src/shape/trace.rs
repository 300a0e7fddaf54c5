use super::Shaper;
use catnip_base::{Rate, Time};
use std::fmt;
use std::sync::Arc;

const NANOS_PER_MS: u64 = 1_000_000;

/// Recorded delivery opportunities of a link whose rate varies, in the format of mahimahi: one line per opportunity with its time in
/// milliseconds since the start. The times never decrease. The last time is also the period with which the trace repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Times of the opportunities, ms; not empty, and the last one is positive.
    opportunities_ms: Vec<u32>,
}

/// Reason why a text is not a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// Number of the invalid line, from 1; `None` if the error concerns the whole text.
    pub line: Option<usize>,
    /// Description of the error.
    pub problem: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl std::error::Error for TraceError {}

impl Trace {
    /// Capacity of one opportunity, bytes: mahimahi's largest packet.
    pub const OPPORTUNITY_BYTES: u32 = 1504;

    /// Reads a trace.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut opportunities_ms: Vec<u32> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let invalid = |problem: String| TraceError { line: Some(index + 1), problem };
            let at: u32 = line
                .parse()
                .map_err(|_| invalid(format!("{line:?}: expected milliseconds since the start")))?;
            if let Some(before) = opportunities_ms.last().filter(|&&before| at < before) {
                return Err(invalid(format!("{at} comes after {before}: times must not decrease")));
            }
            opportunities_ms.push(at);
        }
        match opportunities_ms.last() {
            None => Err(TraceError { line: None, problem: "no opportunities".into() }),
            Some(0) => Err(TraceError {
                line: Some(opportunities_ms.len()),
                problem: "0: the last time is the period, which must be positive".into(),
            }),
            Some(_) => Ok(Self { opportunities_ms }),
        }
    }

    /// Returns the average rate over a period.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.opportunities_ms.len() as u128 * u128::from(Self::OPPORTUNITY_BYTES) * 8;
        let rate = bits * 1000 / u128::from(self.period_ms());
        Rate::from_bits_per_second(rate.max(1) as u64).expect("it is at least 1")
    }

    fn period_ms(&self) -> u32 {
        *self.opportunities_ms.last().expect("a trace is not empty")
    }

    /// Returns the first opportunity after `at`.
    fn first_after(&self, at: Time) -> Opportunity {
        let period = u64::from(self.period_ms()) * NANOS_PER_MS;
        let (cycle, phase) = (at.as_nanos() / period, at.as_nanos() % period);
        let index = self.opportunities_ms.partition_point(|&ms| u64::from(ms) * NANOS_PER_MS <= phase);
        Opportunity { cycle_starts: Time::from_nanos(cycle * period), index }
    }
}

/// Position of an opportunity in a repeating trace.
#[derive(Clone, Copy, Debug)]
struct Opportunity {
    cycle_starts: Time,
    index: usize,
}

/// Wire that sends only at the opportunities of a trace.
///
/// At an opportunity, packets leave in order until the bytes of the opportunity are used up. Several small packets share an opportunity,
/// and a packet that does not fit begins in one opportunity and ends in a later one. The unused bytes of an opportunity are only available
/// to a packet whose transmission starts when the previous transmission ends, not to a packet that finds the wire idle at the same time.
#[derive(Clone, Debug)]
pub struct TraceDriven {
    trace: Arc<Trace>,
    next: Opportunity,
    /// Unused bytes of the opportunity at `last_end`.
    remaining: u32,
    last_end: Time,
}

impl TraceDriven {
    /// Creates an idle wire whose trace begins at time zero.
    pub fn new(trace: Arc<Trace>) -> Self {
        let next = Opportunity { cycle_starts: Time::ZERO, index: 0 };
        Self { trace, next, remaining: 0, last_end: Time::NEVER }
    }

    fn use_opportunity(&mut self) -> Time {
        let Opportunity { cycle_starts, index } = self.next;
        let after = |ms: u32| Time::from_nanos(cycle_starts.as_nanos() + u64::from(ms) * NANOS_PER_MS);
        let at = after(self.trace.opportunities_ms[index]);
        self.next = if index + 1 < self.trace.opportunities_ms.len() {
            Opportunity { cycle_starts, index: index + 1 }
        } else {
            Opportunity { cycle_starts: after(self.trace.period_ms()), index: 0 }
        };
        at
    }
}

impl Shaper for TraceDriven {
    fn finish(&mut self, start: Time, len: u32) -> Time {
        if start != self.last_end {
            self.next = self.trace.first_after(start);
            self.remaining = 0;
        }
        let mut end = start;
        let mut needed = len;
        while needed > self.remaining {
            needed -= self.remaining;
            end = self.use_opportunity();
            self.remaining = Trace::OPPORTUNITY_BYTES;
        }
        self.remaining -= needed;
        self.last_end = end;
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Time {
        Time::from_nanos(ms * NANOS_PER_MS)
    }

    fn wire(text: &str) -> TraceDriven {
        TraceDriven::new(Arc::new(Trace::parse(text).unwrap()))
    }

    #[test]
    fn small_packets_share_an_opportunity_and_a_large_one_takes_several() {
        let mut wire = wire("3\n3\n5\n10\n");
        // The first opportunity takes 700, 700 and 104 bytes of the third packet, and the second opportunity at 3 ms takes the rest of the
        // third packet.
        assert_eq!(wire.finish(ms(1), 700), ms(3));
        assert_eq!(wire.finish(ms(3), 700), ms(3));
        assert_eq!(wire.finish(ms(3), 700), ms(3));
        // 908 bytes are left at 3 ms. A packet of 3000 bytes takes these, all bytes at 5 ms, and 588 bytes at 10 ms.
        assert_eq!(wire.finish(ms(3), 3000), ms(10));
        assert_eq!(wire.finish(ms(10), 916), ms(10));
        // The period is 10 ms: the next opportunities are at 13, 13, 15 and 20 ms.
        assert_eq!(wire.finish(ms(10), 1), ms(13));
    }

    #[test]
    fn what_nobody_waited_for_is_lost() {
        let mut wire = wire("3\n3\n5\n10\n");
        assert_eq!(wire.finish(ms(0), 100), ms(3));
        // Half a millisecond later, both opportunities at 3 ms have passed. At exactly 5 ms, the opportunity at 5 ms has passed, too.
        let mut later = wire.clone();
        assert_eq!(later.finish(Time::from_nanos(3_500_000), 100), ms(5));
        assert_eq!(wire.finish(ms(5), 100), ms(10));
        // A long idle period may end anywhere in any period of the trace.
        assert_eq!(wire.finish(ms(1_000_004), 1504), ms(1_000_005));
        assert_eq!(wire.finish(ms(2_000_010), 1504), ms(2_000_013));
    }

    #[test]
    fn an_opportunity_at_zero_comes_once_a_period_together_with_the_last_one() {
        let mut wire = wire("0\n4\n");
        assert_eq!(
            wire.finish(ms(0), 1504),
            ms(4),
            "a packet that arrives at time zero misses the opportunity at time zero"
        );
        assert_eq!(wire.finish(ms(4), 1504), ms(4), "the second period begins as the first one ends");
        assert_eq!(wire.finish(ms(4), 1504), ms(8));
    }

    #[test]
    fn a_bad_trace_is_refused_with_the_line() {
        for (text, message) in [
            ("", "no opportunities"),
            ("1\n\n3\n", "line 2: \"\": expected milliseconds since the start"),
            ("1\n2.5\n", "line 2: \"2.5\": expected milliseconds since the start"),
            ("-1\n", "line 1: \"-1\": expected milliseconds since the start"),
            ("1\n7\n6\n", "line 3: 6 comes after 7: times must not decrease"),
            ("0\n0\n", "line 2: 0: the last time is the period, which must be positive"),
        ] {
            assert_eq!(Trace::parse(text).unwrap_err().to_string(), message);
        }
        assert_eq!(Trace::parse("1\r\n2").unwrap().mean_rate().bits_per_second(), 12_032_000);
    }

    /// Reference model: serves the whole queue byte by byte, opportunity by opportunity.
    fn by_hand(trace: &Trace, packets: &[(u64, u32)]) -> Vec<Time> {
        let period = u64::from(trace.period_ms());
        let mut ends = Vec::new();
        let mut sent = 0;
        for opportunity in 0.. {
            if ends.len() == packets.len() {
                break;
            }
            let (cycle, index) =
                (opportunity / trace.opportunities_ms.len(), opportunity % trace.opportunities_ms.len());
            let now = cycle as u64 * period + u64::from(trace.opportunities_ms[index]);
            for _ in 0..Trace::OPPORTUNITY_BYTES {
                let waiting = packets.get(ends.len()).filter(|p| p.0 < ms(now).as_nanos());
                let Some(&(_, len)) = waiting else { break };
                sent += 1;
                if sent == len {
                    ends.push(ms(now));
                    sent = 0;
                }
            }
        }
        ends
    }

    proptest! {
        #[test]
        fn packets_leave_when_their_bytes_have_found_opportunities(
            gaps in prop::collection::vec(0u32..4, 1..20),
            // Arrivals are never at a whole millisecond, since an arrival and an opportunity would then coincide.
            arrivals in prop::collection::vec((1u64..40, 1u32..4000), 1..60),
        ) {
            let mut at = 0;
            let mut times: Vec<u32> = gaps.iter().map(|gap| { at += gap; at }).collect();
            *times.last_mut().unwrap() += 1;
            let trace = Trace { opportunities_ms: times };
            let mut clock = 0;
            let packets: Vec<(u64, u32)> = arrivals.iter().map(|&(tenths, len)| {
                clock += tenths * 100_000;
                (clock + 50_000, len)
            }).collect();
            let mut wire = TraceDriven::new(Arc::new(trace.clone()));
            let mut free_at = Time::ZERO;
            for (&(arrived, len), end) in packets.iter().zip(by_hand(&trace, &packets)) {
                free_at = wire.finish(Time::from_nanos(arrived).max(free_at), len);
                prop_assert_eq!(free_at, end);
            }
        }

        #[test]
        fn a_busy_wire_carries_the_mean_rate(times in prop::collection::vec(0u32..50, 1..30), len in 40u32..3000) {
            let mut times = times;
            times.sort_unstable();
            *times.last_mut().unwrap() += 1;
            let trace = Arc::new(Trace { opportunities_ms: times });
            let mut wire = TraceDriven::new(trace.clone());
            let mut end = Time::from_nanos(1);
            let mut bytes = 0;
            while end < ms(60_000) {
                end = wire.finish(end, len);
                bytes += u64::from(len);
            }
            let rate = bytes as f64 * 8.0 / end.as_secs();
            let mean = trace.mean_rate().bits_per_second() as f64;
            prop_assert!((rate / mean - 1.0).abs() < 0.01, "{} instead of {}", rate, mean);
        }
    }
}
