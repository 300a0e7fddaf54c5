use crate::schedule::{Position, Schedule, between};
use catnip_base::notation::Usage;
use catnip_base::{ParseError, Span, Time};
use std::fmt;

/// Configuration of a propagation delay.
#[derive(Clone, Debug, PartialEq)]
pub enum DelaySpec {
    /// Constant delay.
    Constant(Span),
    /// Delay that changes over time. Recorded delays are interpolated linearly, those that are written out are not. The delay of a packet is
    /// that at the end of its transmission.
    Varying(Schedule<Span>),
}

impl From<Span> for DelaySpec {
    fn from(delay: Span) -> Self {
        Self::Constant(delay)
    }
}

impl DelaySpec {
    /// Notations of a delay, each with its description.
    pub const USAGE: &[Usage] = &[
        ("25ms", "constant delay in ns, us, ms, s or min"),
        ("steps:20ms,15s=50ms", "delay that changes at the given times"),
        (
            "trace:FILE[,step=10ms][,end=hold]",
            "recorded delays in ms, one per line, or after a time in s; they repeat or hold the last one",
        ),
    ];

    /// Reads a delay. `open` returns the text of a file, or the reason why the file cannot be read.
    pub fn read(text: &str, open: impl FnOnce(&str) -> Result<String, String>) -> Result<Self, ParseError> {
        match Schedule::read(text, open) {
            Some(schedule) => schedule.map(Self::Varying),
            None => text.parse().map(Self::Constant),
        }
    }

    /// Returns the shortest delay.
    pub fn min(&self) -> Span {
        match self {
            Self::Constant(delay) => *delay,
            Self::Varying(schedule) => {
                schedule.points().iter().map(|(_, delay)| *delay).min().unwrap_or_default()
            }
        }
    }

    /// Returns the longest delay.
    pub fn max(&self) -> Span {
        match self {
            Self::Constant(delay) => *delay,
            Self::Varying(schedule) => {
                schedule.points().iter().map(|(_, delay)| *delay).max().unwrap_or_default()
            }
        }
    }

    /// Returns the constant delay; `None` if the delay changes.
    pub fn constant(&self) -> Option<Span> {
        match self {
            Self::Constant(delay) => Some(*delay),
            Self::Varying(_) => None,
        }
    }
}

impl fmt::Display for DelaySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(delay) => write!(f, "{delay}"),
            Self::Varying(schedule) => write!(f, "{schedule}"),
        }
    }
}

/// Delay of a port over time.
#[derive(Clone, Debug)]
pub(crate) struct VaryingDelay {
    schedule: Schedule<Span>,
    position: Position,
}

impl VaryingDelay {
    /// Returns the delay of a port over time; `None` if it is constant.
    pub(crate) fn new(spec: &DelaySpec) -> Option<Self> {
        match spec {
            DelaySpec::Constant(_) => None,
            DelaySpec::Varying(schedule) => {
                Some(Self { schedule: schedule.clone(), position: Position::default() })
            }
        }
    }

    /// Returns the delay of a packet that leaves at `departure`.
    pub(crate) fn at(&mut self, departure: Time) -> Span {
        let Self { schedule, position } = self;
        schedule.seek(position, departure);
        let delay = schedule.value(*position);
        let (starts, ends) = (schedule.starts_at(*position), schedule.ends_at(*position));
        if !schedule.is_recorded() || ends == Time::NEVER {
            return delay;
        }
        let [past, whole] = [departure, ends].map(|at| at.since(starts).as_nanos());
        between(delay, schedule.next_value(*position), past, whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(text: &str, lines: &str, times_ms: &[u64]) -> Vec<u64> {
        let spec = DelaySpec::read(text, |_| Ok(lines.into())).unwrap();
        assert_eq!(spec.to_string(), text);
        let mut varying = VaryingDelay::new(&spec).unwrap();
        times_ms.iter().map(|&ms| varying.at(Time::from_nanos(ms * 1_000_000)).as_nanos() / 1000).collect()
    }

    #[test]
    fn recorded_delays_are_interpolated_and_written_ones_are_not() {
        let lines = "20\n30\n10\n";
        assert_eq!(
            delays("trace:f,step=10ms", lines, &[0, 5, 10, 12, 19, 20, 25, 30]),
            [20_000, 25_000, 30_000, 26_000, 12_000, 10_000, 15_000, 20_000],
            "from the last value to the first one of the next period, too"
        );
        assert_eq!(delays("trace:f,step=10ms,end=hold", lines, &[15, 25, 900]), [20_000, 10_000, 10_000]);
        assert_eq!(delays("steps:20ms,10ms=30ms", "", &[0, 9, 10, 900]), [20_000, 20_000, 30_000, 30_000]);
    }

    #[test]
    fn the_shortest_and_the_longest_delay_are_known() {
        let spec = DelaySpec::read("trace:f,step=10ms", |_| Ok("20\n5\n30\n".into())).unwrap();
        assert_eq!((spec.min(), spec.max()), (Span::from_millis(5), Span::from_millis(30)));
        assert_eq!(DelaySpec::from(Span::from_millis(7)).min(), Span::from_millis(7));
    }

    #[test]
    fn what_is_no_delay_is_refused() {
        for (text, named) in [
            ("soon", "soon"),
            ("steps:20ms,5ms", "steps:20ms,15s=50ms"),
            ("trace:f,bytes=1500", "bytes="),
            ("trace:f,step=10ms,end=stop", "repeat or hold"),
            ("trace:f", "needs step="),
        ] {
            let error = DelaySpec::read(text, |_| Ok("1\n2\n".into())).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
