use super::Shaper;
use crate::outage::Outages;
use catnip_base::{Span, Time};

/// Wire with outages. A transmission in progress pauses during an outage and then resumes where it stopped. The clock of the wire stops
/// during an outage, so that recorded transmission opportunities are also delayed.
#[derive(Debug)]
pub struct Pausing<S> {
    wire: S,
    outages: Outages,
    /// Total length of the outages before the current one.
    total_pause: Span,
}

impl<S> Pausing<S> {
    /// Creates an idle wire with these outages.
    pub fn new(wire: S, outages: Outages) -> Self {
        Self { wire, outages, total_pause: Span::ZERO }
    }

    fn skip_outage(&mut self) {
        let (from, until) = self.outages.current();
        self.total_pause += until - from;
        self.outages.advance();
    }

    /// Returns the beginning of the current outage, measured on the clock of the wire.
    fn stops_at(&self) -> Time {
        self.on_wire(self.outages.current().0)
    }

    fn on_wire(&self, at: Time) -> Time {
        Time::ZERO + at.since(Time::ZERO + self.total_pause)
    }
}

impl<S: Shaper> Shaper for Pausing<S> {
    fn finish(&mut self, start: Time, len: u32) -> Time {
        let mut start = start;
        while self.outages.current().0 <= start && start < Time::NEVER {
            start = start.max(self.outages.current().1);
            self.skip_outage();
        }
        let end = self.wire.finish(self.on_wire(start), len);
        while self.stops_at() < end && end < Time::NEVER {
            self.skip_outage();
        }
        end + self.total_pause
    }

    fn ends(&self) -> bool {
        self.wire.ends()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{AnyShaper, RateSpec};
    use catnip_base::{Rng, Stream};
    use proptest::prelude::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn wire(rate: &str, outage: &str) -> Pausing<AnyShaper> {
        let rate = RateSpec::read(rate, |_| Ok("3\n3\n5\n10\n".into())).unwrap();
        Pausing::new(rate.build(), Outages::new(outage.parse().unwrap(), Rng::new(1, Stream::Outage(0))))
    }

    #[test]
    fn a_transmission_goes_on_after_an_outage_where_it_was() {
        // 1000 bytes take 1 ms; the link is down from 10 to 15 ms, from 30 to 35 ms and so on.
        let mut wire = wire("8Mbit", "every=20ms,for=5ms,first=10ms");
        assert_eq!(wire.finish(ms(0), 1000), ms(1));
        assert_eq!(wire.finish(ms(9), 1000), ms(10), "it ends as the outage begins");
        assert_eq!(wire.finish(ms(10), 1000), ms(16), "the next one has to wait");
        assert_eq!(wire.finish(ms(28), 4000), ms(37), "2 ms before the outage, 2 ms after it");
        assert_eq!(wire.finish(ms(52), 1000), ms(56), "who comes in an outage leaves after it");
        assert_eq!(wire.finish(ms(56), 40_000), ms(106), "two outages");
        assert_eq!(wire.finish(ms(1_000_000), 1000), ms(1_000_001));
    }

    #[test]
    fn a_wire_without_a_rate_lets_packets_pass_at_once_or_after_the_outage() {
        let finish = |at| wire("unlimited", "every=20ms,for=5ms,first=10ms").finish(ms(at), 1000);
        assert_eq!([9, 10, 14, 15, 30].map(finish), [9, 15, 15, 15, 35].map(ms));
    }

    #[test]
    fn recorded_opportunities_wait_for_the_end_of_an_outage() {
        let mut wire = wire("trace:x", "every=100ms,for=50ms,first=4ms");
        assert_eq!(wire.finish(ms(0), 1504), ms(3));
        assert_eq!(wire.finish(ms(3), 1504), ms(3));
        assert_eq!(wire.finish(ms(3), 1504), ms(55), "5 ms on the clock of the wire");
        assert_eq!(wire.finish(ms(55), 1504), ms(60));
    }

    proptest! {
        #[test]
        fn a_transmission_lasts_as_long_as_without_outages_and_the_outages_in_it(
            arrivals in prop::collection::vec((0u64..40_000_000, 1u32..4000), 1..60),
            every in 2u64..40, share in 0.05..0.95f64, first in 0u64..40, rate in prop::sample::select(vec!["3000001bit", "80Mbit", "unlimited"])
        ) {
            let every = Span::from_millis(every);
            let (length, first) = (Span::from_secs_f64(every.as_secs() * share), Span::from_millis(first));
            let mut wire = wire(rate, &format!("every={every},for={length},first={first}"));
            // Total time before `at` in which the link is up.
            let up = |at: Time| {
                let since = at.since(Time::ZERO + first).as_nanos();
                let (periods, rest) = if at < Time::ZERO + first { (0, 0) } else { (since / every.as_nanos(), since % every.as_nanos()) };
                at.as_nanos() - periods * length.as_nanos() - rest.min(length.as_nanos())
            };
            let bits_per_s = match rate { "3000001bit" => 3_000_001.0, "80Mbit" => 80e6, _ => f64::INFINITY };
            let mut free_at = Time::ZERO;
            for (gap, len) in arrivals {
                let start = free_at + Span::from_nanos(gap * u64::from(gap % 3 == 0));
                free_at = wire.finish(start, len);
                prop_assert!(free_at >= start);
                let duration = (up(free_at) - up(start)) as f64;
                prop_assert!((duration - f64::from(len) * 8e9 / bits_per_s).abs() <= 1.0, "{duration} ns for {len} bytes at {start}");
                let before = Time::from_nanos(free_at.as_nanos().saturating_sub(1));
                prop_assert!(free_at == start || up(before) < up(free_at) || rate == "unlimited", "no later than it must");
            }
        }
    }
}
