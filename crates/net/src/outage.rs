use catnip_base::notation::{Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Span, Time};
use std::fmt;
use std::str::FromStr;

/// Configuration of the outages of a link: `every=30s,for=2s,first=10s` or `mean_up=30s,mean_down=2s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutageSpec(Schedule);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schedule {
    /// Periodic outages; `length` is below `every`.
    Periodic { every: Span, length: Span, first: Span },
    /// Exponentially distributed durations of uptime and downtime.
    Random { mean_up: Span, mean_down: Span },
}

/// Shortest periodic outage, and shortest mean of random uptimes and downtimes. Shorter outages would dominate the cost of a run.
const MIN_DURATION: Span = Span::from_micros(1);

const EXPECTED: &str = "every=30s,for=2s[,first=10s] (for less than every) or mean_up=30s,mean_down=2s, with times of at least 1us";

impl OutageSpec {
    /// Notations of outages, each with its description.
    pub const USAGE: &[Usage] = &[
        (
            "every=30s,for=2s[,first=10s]",
            "periodic outages, during which packets wait: 2 s every 30 s, the first one after 10 s",
        ),
        (
            "mean_up=30s,mean_down=2s",
            "random outages, during which packets wait: exponentially distributed times up and down with these means",
        ),
    ];

    /// Reads outages from their keys in `text`, which may also contain other keys.
    pub fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let [every, length, first, mean_up, mean_down] =
            ["every", "for", "first", "mean_up", "mean_down"].map(|key| text.take(key));
        let span = |value: &str| value.parse().map_err(|_| text.error(EXPECTED));
        let schedule = match (every, length, first, mean_up, mean_down) {
            (Some(every), Some(length), first, None, None) => {
                let (every, length) = (span(every)?, span(length)?);
                Schedule::Periodic { every, length, first: first.map_or(Ok(every), span)? }
            }
            (None, None, None, Some(mean_up), Some(mean_down)) => {
                Schedule::Random { mean_up: span(mean_up)?, mean_down: span(mean_down)? }
            }
            _ => return Err(text.error(EXPECTED)),
        };
        let is_valid = match schedule {
            Schedule::Periodic { every, length, .. } => length >= MIN_DURATION && length < every,
            Schedule::Random { mean_up, mean_down } => mean_up.min(mean_down) >= MIN_DURATION,
        };
        if is_valid { Ok(Self(schedule)) } else { Err(text.error(EXPECTED)) }
    }

    /// Writes the keys from which [`OutageSpec::read`] reads the same outages.
    pub fn write(&self, to: &mut Written) {
        match self.0 {
            Schedule::Periodic { every, length, first } => {
                to.key("every", every).key("for", length).option("first", first, every)
            }
            Schedule::Random { mean_up, mean_down } => to.key("mean_up", mean_up).key("mean_down", mean_down),
        };
    }

    /// Returns the long-run fraction of time in which the link is down.
    pub fn down_fraction(&self) -> f64 {
        match self.0 {
            Schedule::Periodic { every, length, .. } => length.as_secs() / every.as_secs(),
            Schedule::Random { mean_up, mean_down } => mean_down.as_secs() / (mean_up + mean_down).as_secs(),
        }
    }
}

impl FromStr for OutageSpec {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut text = Notation::nameless(text);
        let outage = Self::read(&mut text)?;
        text.finish()?;
        Ok(outage)
    }
}

impl fmt::Display for OutageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Written::default();
        self.write(&mut written);
        f.write_str(written.to_string().trim_start_matches(':'))
    }
}

/// Sequence of the outages of one link. The link is up at first, unless the first outage begins at time zero.
#[derive(Clone, Debug)]
pub struct Outages {
    spec: OutageSpec,
    rng: Rng,
    from: Time,
    until: Time,
}

impl Outages {
    /// Creates the sequence, with the first outage as the current one.
    pub fn new(spec: OutageSpec, rng: Rng) -> Self {
        let mut outages = Self { spec, rng, from: Time::ZERO, until: Time::ZERO };
        match spec.0 {
            Schedule::Periodic { length, first, .. } => {
                outages.from = Time::ZERO + first;
                outages.until = outages.from + length;
            }
            Schedule::Random { .. } => outages.advance(),
        }
        outages
    }

    /// Returns the beginning and the end of the current outage, which may lie in the future. The link is up again at the end.
    pub fn current(&self) -> (Time, Time) {
        (self.from, self.until)
    }

    /// Advances to the next outage.
    pub fn advance(&mut self) {
        match self.spec.0 {
            Schedule::Periodic { every, length, .. } => {
                self.from += every;
                self.until = self.from + length;
            }
            Schedule::Random { mean_up, mean_down } => {
                let mut draw = |mean: Span| Span::from_secs_f64(self.rng.exponential(mean.as_secs()));
                self.from = self.until + draw(mean_up);
                self.until = self.from + draw(mean_down);
            }
        }
    }

    /// Returns true if the link is down at `now`. Times must not decrease between calls.
    pub fn is_down(&mut self, now: Time) -> bool {
        while self.until <= now && self.until < Time::NEVER {
            self.advance();
        }
        self.from <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Stream;

    fn outages(text: &str) -> Outages {
        Outages::new(text.parse().unwrap(), Rng::new(2, Stream::Outage(0)))
    }

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn periodic_outages_by_hand() {
        let down = |text: &str| {
            let mut outages = outages(text);
            (0..100).filter(|&now| outages.is_down(ms(now))).collect::<Vec<_>>()
        };
        assert_eq!(down("every=30ms,for=2ms"), [30, 31, 60, 61, 90, 91]);
        assert_eq!(down("every=30ms,for=2ms,first=0ms"), [0, 1, 30, 31, 60, 61, 90, 91]);
        assert_eq!(down("every=30ms,for=3ms,first=95ms"), [95, 96, 97]);
        // The result does not depend on earlier queries.
        assert!(
            outages("every=30ms,for=2ms").is_down(ms(30_031))
                && !outages("every=30ms,for=2ms").is_down(ms(30_032))
        );
    }

    #[test]
    fn random_outages_last_and_come_as_long_as_their_means_say() {
        let mut outages = outages("mean_up=300ms,mean_down=20ms");
        let n = 40_000;
        let (mut down, mut up, mut before) = (0.0, 0.0, Time::ZERO);
        for _ in 0..n {
            let (from, until) = outages.current();
            up += (from - before).as_secs();
            down += (until - from).as_secs();
            before = until;
            outages.advance();
        }
        // Means of exponential distributions: the standard error is mean / sqrt(n).
        let near = |sum: f64, mean: f64| (sum / f64::from(n) / mean - 1.0).abs() < 4.0 / f64::from(n).sqrt();
        assert!(near(up, 0.300) && near(down, 0.020), "{up} {down}");
        let down_fraction = "mean_up=300ms,mean_down=20ms".parse::<OutageSpec>().unwrap().down_fraction();
        assert!((down_fraction - 0.0625).abs() < 1e-12, "{down_fraction}");
        // The relative error of down / (down + up) is sqrt(2 / n) times the share of uptime.
        assert!((down / (down + up) / down_fraction - 1.0).abs() < 4.0 * (2.0 / f64::from(n)).sqrt());
    }

    #[test]
    fn what_is_wrong_with_outages_is_named_and_what_is_right_is_written_as_it_was() {
        for text in ["every=30s,for=2s", "every=30s,for=2s,first=10s", "mean_up=30s,mean_down=200ms"] {
            assert_eq!(text.parse::<OutageSpec>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "every=30s",
            "for=2s",
            "every=2s,for=2s",
            "every=2s,for=0s",
            "every=2s,for=1",
            "mean_up=1s",
            "mean_up=0s,mean_down=1s",
            "mean_up=1s,mean_down=1s,first=1s",
            "every=2s,for=1s,mean_up=1s",
            "every=100ns,for=50ns",
        ] {
            let error = text.parse::<OutageSpec>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("mean_up=30s"), "{error}");
        }
        let error = "every=2s,for=1s,x=1".parse::<OutageSpec>().unwrap_err().to_string();
        assert!(error.contains("unknown parameter \"x\""), "{error}");
    }
}
