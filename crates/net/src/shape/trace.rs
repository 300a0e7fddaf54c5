use super::Shaper;
use crate::schedule::{End, TraceName, data_lines};
use catnip_base::{Rate, Time};
use std::fmt;
use std::sync::Arc;

const NANOS_PER_MS: u64 = 1_000_000;

/// Recorded delivery opportunities of a link whose rate varies, in the format of mahimahi: one line per opportunity with its time in
/// milliseconds since the start, and comments after `#`. The times never decrease. The last time is also the period with which the trace
/// repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Times of the opportunities, ms; not empty, and the last one is positive.
    opportunities_ms: Vec<u32>,
    /// Capacity of one opportunity, bytes.
    bytes: u32,
    /// True if no opportunity follows the last one.
    stops: bool,
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

    /// Reads a trace that repeats, with opportunities of [`Trace::OPPORTUNITY_BYTES`].
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        Self::named(&TraceName::default(), text)
    }

    /// Reads a trace with the opportunities and the end that its name gives.
    pub(super) fn named(name: &TraceName, text: &str) -> Result<Self, TraceError> {
        let mut opportunities_ms: Vec<u32> = Vec::new();
        let mut last_line = 0;
        for (number, line) in data_lines(text) {
            let invalid = |problem: String| TraceError { line: Some(number), problem };
            let at: u32 = line
                .parse()
                .map_err(|_| invalid(format!("{line:?}: expected milliseconds since the start")))?;
            if let Some(before) = opportunities_ms.last().filter(|&&before| at < before) {
                return Err(invalid(format!("{at} comes after {before}: times must not decrease")));
            }
            opportunities_ms.push(at);
            last_line = number;
        }
        let whole = |problem: &str| TraceError { line: None, problem: problem.into() };
        let stops = match name.end {
            None | Some(End::Repeat) => false,
            Some(End::Stop) => true,
            Some(End::Hold) => return Err(whole("end=hold: opportunities can only repeat or stop")),
        };
        match opportunities_ms.last() {
            None => Err(whole("no opportunities")),
            Some(0) => Err(TraceError {
                line: Some(last_line),
                problem: "0: the last time is the period, which must be positive".into(),
            }),
            Some(_) => {
                let bytes = name.bytes.unwrap_or(Self::OPPORTUNITY_BYTES);
                Ok(Self { opportunities_ms, bytes, stops })
            }
        }
    }

    /// Returns the average rate over a period.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.opportunities_ms.len() as u128 * u128::from(self.bytes) * 8;
        let rate = bits * 1000 / u128::from(self.period_ms());
        Rate::from_bits_per_second(rate.max(1) as u64).expect("it is at least 1")
    }

    /// Returns the capacity of the opportunities between two times, bits.
    pub fn capacity_bits(&self, from: Time, to: Time) -> f64 {
        let until = |at: Time| {
            let Opportunity { cycle_starts, index } = self.first_after(at);
            let cycles = cycle_starts.as_nanos() / self.period_ns();
            cycles * self.opportunities_ms.len() as u64 + index as u64
        };
        (until(to) - until(from.min(to))) as f64 * f64::from(self.bytes) * 8.0
    }

    fn period_ms(&self) -> u32 {
        *self.opportunities_ms.last().expect("a trace is not empty")
    }

    fn period_ns(&self) -> u64 {
        u64::from(self.period_ms()) * NANOS_PER_MS
    }

    /// Returns the first opportunity after `at`. After the end of a trace that stops, its index is the number of opportunities.
    fn first_after(&self, at: Time) -> Opportunity {
        let (cycle, phase) = match at.as_nanos() {
            ns if self.stops => (0, ns),
            ns => (ns / self.period_ns(), ns % self.period_ns()),
        };
        let index = self.opportunities_ms.partition_point(|&ms| u64::from(ms) * NANOS_PER_MS <= phase);
        Opportunity { cycle_starts: Time::from_nanos(cycle * self.period_ns()), index }
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
        let Some(&ms) = self.trace.opportunities_ms.get(index) else { return Time::NEVER };
        self.next = if index + 1 < self.trace.opportunities_ms.len() || self.trace.stops {
            Opportunity { cycle_starts, index: index + 1 }
        } else {
            Opportunity { cycle_starts: after(self.trace.period_ms()), index: 0 }
        };
        after(ms)
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
            if end == Time::NEVER {
                return end;
            }
            self.remaining = self.trace.bytes;
        }
        self.remaining -= needed;
        self.last_end = end;
        end
    }

    fn become_idle(&mut self) {
        self.last_end = Time::NEVER;
    }

    fn ends(&self) -> bool {
        self.trace.stops
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
            ("1\n\n3ms # slow\n", "line 3: \"3ms\": expected milliseconds since the start"),
            ("1\n2.5\n", "line 2: \"2.5\": expected milliseconds since the start"),
            ("-1\n", "line 1: \"-1\": expected milliseconds since the start"),
            ("1\n7\n6\n", "line 3: 6 comes after 7: times must not decrease"),
            ("0\n0\n", "line 2: 0: the last time is the period, which must be positive"),
        ] {
            assert_eq!(Trace::parse(text).unwrap_err().to_string(), message);
        }
        for text in ["1\r\n2", "# recorded on a train\n1\n\n2 # tunnel\n"] {
            assert_eq!(Trace::parse(text).unwrap().mean_rate().bits_per_second(), 12_032_000);
        }
    }

    #[test]
    fn opportunities_have_as_many_bytes_as_asked_for_and_stop_if_asked_for() {
        let name = TraceName { bytes: Some(1000), end: Some(End::Stop), ..TraceName::default() };
        let trace = Trace::named(&name, "3\n3\n5\n").unwrap();
        assert_eq!(trace.mean_rate().bits_per_second(), 3 * 8000 * 1000 / 5);
        assert_eq!(trace.capacity_bits(ms(0), ms(3)), 16_000.0);
        assert_eq!(trace.capacity_bits(ms(3), ms(100)), 8000.0);
        let mut wire = TraceDriven::new(Arc::new(trace));
        assert!(wire.ends());
        assert_eq!(wire.finish(ms(0), 1000), ms(3));
        assert_eq!(wire.finish(ms(3), 1001), ms(5));
        assert_eq!(wire.finish(ms(5), 1000), Time::NEVER, "999 bytes are left");
        assert_eq!(wire.finish(Time::NEVER, 40), Time::NEVER);
        let hold = TraceName { end: Some(End::Hold), ..TraceName::default() };
        assert!(Trace::named(&hold, "1\n").unwrap_err().to_string().contains("repeat or stop"));
    }

    #[test]
    fn the_capacity_is_that_of_the_opportunities_that_there_were() {
        let trace = Trace::parse("3\n3\n5\n10\n").unwrap();
        let opportunities = |from, to| trace.capacity_bits(from, to) / (8.0 * 1504.0);
        assert_eq!(opportunities(ms(0), ms(2)), 0.0);
        assert_eq!(opportunities(ms(2), ms(3)), 2.0);
        assert_eq!(opportunities(ms(3), ms(25)), 2.0 + 4.0 + 3.0);
        assert_eq!(opportunities(ms(0), ms(10_000)), 4000.0);
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
            let trace = Trace { opportunities_ms: times, bytes: Trace::OPPORTUNITY_BYTES, stops: false };
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
            let trace = Arc::new(Trace { opportunities_ms: times, bytes: Trace::OPPORTUNITY_BYTES, stops: false });
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
