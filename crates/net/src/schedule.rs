//! Values that change over time: written out, as in `steps:20ms,15s=50ms`, or recorded in a file, as in `trace:FILE,step=10ms`.

use catnip_base::{ParseError, Rate, Share, Span, Time, keywords};
use std::fmt;
use std::sync::Arc;

/// Value that may change over time.
pub trait Scheduled: Copy + fmt::Debug + PartialEq {
    /// Noun phrase for one value in a file, with the unit of a plain number.
    const RECORDED: &'static str;
    /// Example of values that are written out.
    const STEPS: &'static str;
    /// Value that applies when a schedule has stopped; `None` if a schedule of such values cannot stop.
    const STOPPED: Option<Self>;

    /// Parses a value that is written out, with its unit.
    fn parse(text: &str) -> Option<Self>;
    /// Converts a plain number of a file into a value.
    fn of_number(number: f64) -> Option<Self>;
    /// Writes the value such that [`Scheduled::parse`] reads it.
    fn write(self) -> String;

    /// Parses a value of a file: a plain number, or a value with its unit.
    fn parse_recorded(text: &str) -> Option<Self> {
        text.parse().map_or_else(
            |_| Self::parse(text),
            |number: f64| Some(number).filter(|n| *n >= 0.0).and_then(Self::of_number),
        )
    }
}

/// Line rate; `None` while nothing is transmitted.
impl Scheduled for Option<Rate> {
    const RECORDED: &'static str = "a rate in Mbit/s";
    const STEPS: &'static str = "steps:10Mbit,10s=1Mbit,20s=5Mbit";
    const STOPPED: Option<Self> = Some(None);

    fn parse(text: &str) -> Option<Self> {
        let is_zero = text
            .strip_suffix("bit")
            .is_some_and(|number| number.trim_end_matches(['k', 'M', 'G']).trim().parse() == Ok(0.0));
        if is_zero { Some(None) } else { text.parse().ok().map(Some) }
    }
    fn of_number(mbit_per_s: f64) -> Option<Self> {
        let bits_per_s = (mbit_per_s * 1e6).round();
        (bits_per_s < 1e18).then(|| Rate::from_bits_per_second(bits_per_s as u64))
    }
    fn write(self) -> String {
        self.map_or_else(|| "0bit".into(), |rate| rate.to_string())
    }
}

/// Propagation delay.
impl Scheduled for Span {
    const RECORDED: &'static str = "a delay in milliseconds";
    const STEPS: &'static str = "steps:20ms,15s=50ms";
    const STOPPED: Option<Self> = None;

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn of_number(ms: f64) -> Option<Self> {
        (ms < 1e12).then(|| Self::from_secs_f64(ms / 1e3))
    }
    fn write(self) -> String {
        self.to_string()
    }
}

/// Loss probability, in [0, 1].
impl Scheduled for Share {
    const RECORDED: &'static str = "a loss probability, such as 0.02 or 2%";
    const STEPS: &'static str = "steps:0%,15s=1%";
    const STOPPED: Option<Self> = Some(Self(1.0));

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|Self(share)| (0.0..=1.0).contains(share))
    }
    fn of_number(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }
    fn write(self) -> String {
        self.0.to_string()
    }
}

keywords! {
    /// Continuation of a recorded schedule after its end.
    pub enum End {
        /// The schedule starts again.
        Repeat = ("repeat", "starts again"),
        /// The last value stays.
        Hold = ("hold", "keeps the last value"),
        /// No packet passes any more.
        Stop = ("stop", "lets no packet pass any more"),
    }
}

/// Values and the times at which they begin to apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule<V> {
    /// Values with their times in ascending order. The first one applies from time zero.
    points: Arc<[(Time, V)]>,
    end: End,
    /// Time from the start to the end of the last value; [`Span`] of the whole recording.
    length: Span,
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    WrittenOut,
    File(TraceName),
}

/// Reference to a recorded schedule: `trace:FILE[,step=10ms][,bytes=1500][,end=hold]`. A file name may contain commas and `=`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceName {
    /// Name of the file.
    pub file: String,
    /// Time between two values of a file that has only values.
    pub step: Option<Span>,
    /// Bytes of an opportunity of a file that has only opportunities.
    pub bytes: Option<u32>,
    /// Continuation after the end; `None` for the usual one.
    pub end: Option<End>,
}

impl TraceName {
    /// Parses the text after `trace:`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut name = Self::default();
        let mut rest = text.trim();
        while let Some((before, last)) = rest.rsplit_once(',') {
            let Some((key, value)) = last.split_once('=') else { break };
            let invalid = |expected: &str| {
                ParseError::new(text, format!("{expected} as {}, not {value:?}", key.trim()))
            };
            let value = value.trim();
            match key.trim() {
                "step" => {
                    let step = value.parse().ok().filter(|step| *step > Span::ZERO);
                    name.step = Some(step.ok_or_else(|| invalid("a time above zero, such as 10ms,"))?);
                }
                "bytes" => {
                    let bytes = value.parse().ok().filter(|bytes| *bytes > 0);
                    name.bytes = Some(bytes.ok_or_else(|| invalid("a number of bytes, such as 1500,"))?);
                }
                "end" => name.end = Some(value.parse().map_err(|_| invalid("repeat, hold or stop"))?),
                _ => break,
            }
            rest = before.trim_end();
        }
        if rest.is_empty() {
            return Err(ParseError::new(text, "the name of a file"));
        }
        Ok(Self { file: rest.into(), ..name })
    }
}

impl fmt::Display for TraceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, step, bytes, end } = self;
        write!(f, "trace:{file}")?;
        step.map_or(Ok(()), |step| write!(f, ",step={step}"))?;
        bytes.map_or(Ok(()), |bytes| write!(f, ",bytes={bytes}"))?;
        end.map_or(Ok(()), |end| write!(f, ",end={end}"))
    }
}

/// Position in a schedule, from which the next one is found quickly.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    cycle_starts: Time,
    index: usize,
}

impl<V: Scheduled> Schedule<V> {
    /// Parses a schedule after its name: what follows `steps:` or `trace:`. `open` returns the text of a file, or the reason why the file
    /// cannot be read. Returns `None` for any other text.
    pub fn read(
        text: &str,
        open: impl FnOnce(&str) -> Result<String, String>,
    ) -> Option<Result<Self, ParseError>> {
        match text.split_once(':')? {
            ("steps", steps) => Some(Self::parse_steps(steps)),
            ("trace", name) => Some(Self::parse_name(text, name, open)),
            _ => None,
        }
    }

    fn parse_name(
        text: &str,
        name: &str,
        open: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, ParseError> {
        let name = TraceName::parse(name)?;
        let invalid = |problem: String| ParseError::new(text, format!("a valid trace: {problem}"));
        if name.bytes.is_some() {
            return Err(invalid("bytes= belongs to a file of transmission opportunities".into()));
        }
        let lines = open(&name.file).map_err(invalid)?;
        Self::recorded(name.clone(), &lines).map_err(|problem| invalid(format!("{}: {problem}", name.file)))
    }

    /// Parses values that are written out: the first value, then pairs of a time and the value from this time on.
    pub fn parse_steps(text: &str) -> Result<Self, ParseError> {
        let invalid = || {
            let expected =
                format!("a value and then times and values, as in {}, with times that increase", V::STEPS);
            ParseError::new(text, expected)
        };
        let mut parts = text.split(',').map(str::trim);
        let first = parts.next().and_then(V::parse).ok_or_else(invalid)?;
        let mut points = vec![(Time::ZERO, first)];
        for part in parts {
            let (at, value) = part.split_once('=').ok_or_else(invalid)?;
            let at = Time::ZERO + at.trim().parse::<Span>().map_err(|_| invalid())?;
            let is_later = points.last().is_some_and(|(before, _)| *before < at);
            points.push((at, V::parse(value.trim()).ok_or_else(invalid)?));
            if !is_later {
                return Err(invalid());
            }
        }
        let length = points[points.len() - 1].0.since(Time::ZERO);
        Ok(Self { points: points.into(), end: End::Hold, length, source: Source::WrittenOut })
    }

    /// Reads the lines of a file: one value per `step`, or a time in seconds and a value each. Comments begin with `#`. An error names the
    /// line.
    pub fn recorded(name: TraceName, text: &str) -> Result<Self, String> {
        let mut points: Vec<(Time, V)> = Vec::new();
        for (number, line) in data_lines(text) {
            let fields = fields(line);
            let point = match (name.step, fields) {
                (Some(step), [value, ""]) => {
                    let at = Time::ZERO + step * points.len() as u64;
                    V::parse_recorded(value).map(|value| (at, value))
                }
                (None, [at, value]) => seconds(at).zip(V::parse_recorded(value)),
                _ => None,
            };
            let (at, value) = point.ok_or_else(|| {
                let (form, recorded) =
                    (if name.step.is_some() { "" } else { "a time in seconds and " }, V::RECORDED);
                let hint = if name.step.is_none() && fields[1].is_empty() {
                    "; a file of values only needs step="
                } else {
                    ""
                };
                format!("line {number}: {line:?}: expected {form}{recorded}{hint}")
            })?;
            match points.last() {
                Some((before, _)) if *before >= at => {
                    return Err(format!("line {number}: {line:?}: times must increase"));
                }
                None if at > Time::ZERO => points.push((Time::ZERO, value)),
                _ => {}
            }
            points.push((at, value));
        }
        let end = name.end.unwrap_or(End::Repeat);
        if end == End::Stop && V::STOPPED.is_none() {
            return Err("end=stop: expected repeat or hold".into());
        }
        // The last value applies as long as the one before it.
        let last = match (name.step, &points[..]) {
            (_, []) => return Err("no values".into()),
            (Some(step), _) => step,
            (None, [.., (before, _), (last, _)]) => last.since(*before),
            (None, [_]) if end == End::Hold => Span::ZERO,
            (None, [_]) => return Err("one value: expected two, or end=hold".into()),
        };
        let length = points[points.len() - 1].0.since(Time::ZERO) + last;
        Ok(Self { points: points.into(), end, length, source: Source::File(name) })
    }

    /// Returns the values with the times at which they begin to apply.
    pub fn points(&self) -> &[(Time, V)] {
        &self.points
    }

    /// Returns the time after which the schedule repeats; `None` if it does not.
    pub fn period(&self) -> Option<Span> {
        (self.end == End::Repeat).then_some(self.length)
    }

    /// Returns true if no packet passes after the end of the schedule.
    pub fn stops(&self) -> bool {
        self.end == End::Stop
    }

    /// Returns the length of the recording.
    pub fn length(&self) -> Span {
        self.length
    }

    /// Moves a position to the value that applies at `at`.
    #[inline]
    pub fn seek(&self, position: &mut Position, at: Time) {
        if position.cycle_starts <= at && self.starts_at(*position) <= at {
            if at < self.ends_at(*position) {
                return;
            }
            let next = self.after(*position);
            if at < self.ends_at(next) {
                *position = next;
                return;
            }
        }
        *position = self.find(at);
    }

    fn find(&self, at: Time) -> Position {
        let period = self.period().map_or(u64::MAX, Span::as_nanos);
        let phase = Time::from_nanos(at.as_nanos() % period);
        let cycle_starts = Time::from_nanos(at.as_nanos() - phase.as_nanos());
        let stopped = self.end == End::Stop && phase >= Time::ZERO + self.length;
        let index = self.points.partition_point(|(starts, _)| *starts <= phase);
        Position { cycle_starts, index: if stopped { index } else { index - 1 } }
    }

    fn after(&self, position: Position) -> Position {
        let index = position.index + 1;
        match self.end {
            End::Repeat if index == self.points.len() => {
                Position { cycle_starts: position.cycle_starts + self.length, index: 0 }
            }
            _ => Position { index: index.min(self.points.len()), ..position },
        }
    }

    /// Returns the value at a position.
    #[inline]
    pub fn value(&self, position: Position) -> V {
        let value = self.points.get(position.index).map(|(_, value)| *value);
        value.or(V::STOPPED).unwrap_or(self.points[self.points.len() - 1].1)
    }

    /// Returns the time at which the value at a position begins to apply.
    #[inline]
    pub fn starts_at(&self, position: Position) -> Time {
        let within = self.points.get(position.index).map_or(self.length, |(at, _)| at.since(Time::ZERO));
        position.cycle_starts + within
    }

    /// Returns the time at which the value at a position ceases to apply, or [`Time::NEVER`].
    #[inline]
    pub fn ends_at(&self, position: Position) -> Time {
        match self.points.get(position.index + 1) {
            Some((at, _)) => position.cycle_starts + at.since(Time::ZERO),
            None if self.end == End::Hold || position.index >= self.points.len() => Time::NEVER,
            None => position.cycle_starts + self.length,
        }
    }

    /// Returns the value after the one at a position.
    pub fn next_value(&self, position: Position) -> V {
        let next = self.after(position);
        if next.index < self.points.len() { self.value(next) } else { self.value(position) }
    }

    /// Returns true if the values come from a file.
    pub fn is_recorded(&self) -> bool {
        matches!(self.source, Source::File(_))
    }
}

impl<V: Scheduled> fmt::Display for Schedule<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::File(name) => write!(f, "{name}"),
            Source::WrittenOut => {
                write!(f, "steps:{}", self.points[0].1.write())?;
                let mut others = self.points[1..].iter();
                others.try_for_each(|(at, value)| write!(f, ",{}={}", at.since(Time::ZERO), value.write()))
            }
        }
    }
}

/// Returns the lines of a recording with their numbers, from 1, without comments, which begin with `#`, and surrounding blanks. Lines without
/// anything else are left out.
pub fn data_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    (1..).zip(lines).filter(|(_, line)| !line.is_empty())
}

/// Returns the value at a part of the way from one value to another, by a straight line.
pub(crate) fn between(from: Span, to: Span, part: u64, whole: u64) -> Span {
    let [from, to, part, whole] = [from.as_nanos(), to.as_nanos(), part, whole].map(i128::from);
    Span::from_nanos((from + (to - from) * part / whole) as u64)
}

/// Returns the one or two fields of a line, separated by blanks, a comma or a semicolon; the second is empty if there is only one.
pub(crate) fn fields(line: &str) -> [&str; 2] {
    let separator = |c: char| c.is_whitespace() || c == ',' || c == ';';
    let (first, rest) = line.split_once(separator).unwrap_or((line, ""));
    [first, rest.trim_matches(separator)]
}

/// Parses a time since the start: a number of seconds, or a time with its unit.
fn seconds(text: &str) -> Option<Time> {
    let plain = text.parse().ok().filter(|s: &f64| (0.0..1e9).contains(s)).map(Span::from_secs_f64);
    plain.or_else(|| text.parse().ok()).map(|span| Time::ZERO + span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Delays = Schedule<Span>;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn read(name: &str, lines: &str) -> Result<Delays, String> {
        Delays::recorded(TraceName::parse(name).map_err(|error| error.to_string())?, lines)
    }

    fn values(schedule: &Delays, times_ms: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut position = Position::default();
        let value = |ms| {
            schedule.seek(&mut position, at(ms));
            schedule.value(position).as_nanos() / 1_000_000
        };
        times_ms.into_iter().map(value).collect()
    }

    #[test]
    fn a_recording_repeats_or_holds_its_last_value() {
        let repeated = read("f,step=10ms", "20\n30ms # a handover\n\n# later\n50\n").unwrap();
        assert_eq!(values(&repeated, [0, 9, 10, 29, 30, 40, 3_000_020]), [20, 20, 30, 50, 20, 30, 50]);
        assert_eq!(repeated.period(), Some(Span::from_millis(30)));
        let held = read("f,step=10ms,end=hold", "20\n30\n50\n").unwrap();
        assert_eq!(values(&held, [0, 29, 30, 3_000_000]), [20, 50, 50, 50]);
    }

    #[test]
    fn lines_with_times_are_in_seconds_and_the_last_value_lasts_as_long_as_the_one_before_it() {
        let schedule = read("f", "0.5, 20\n1\t30\n1500ms;40\n").unwrap();
        assert_eq!(schedule.length(), Span::from_secs(2));
        assert_eq!(values(&schedule, [0, 999, 1000, 1999, 2000, 2600]), [20, 20, 30, 40, 20, 20]);
    }

    #[test]
    fn a_stopped_schedule_lets_nothing_pass() {
        let name = TraceName::parse("f,step=1s,end=stop").unwrap();
        let loss = Schedule::<Share>::recorded(name.clone(), "0\n2%\n").unwrap();
        let mut position = Position::default();
        let mut value = |s| {
            loss.seek(&mut position, Time::ZERO + Span::from_secs(s));
            loss.value(position).0
        };
        assert_eq!([value(0), value(1), value(2), value(1000)], [0.0, 0.02, 1.0, 1.0]);
        assert_eq!(Delays::recorded(name, "1\n").unwrap_err(), "end=stop: expected repeat or hold");
    }

    #[test]
    fn what_is_no_recording_is_refused_with_the_line() {
        for (name, lines, problem) in [
            ("f,step=1ms", "", "no values"),
            ("f,step=1ms", "1\nfast\n", "line 2: \"fast\": expected a delay in milliseconds"),
            ("f,step=1ms", "1\n-1\n", "line 2: \"-1\": expected a delay in milliseconds"),
            ("f,step=1ms", "1\n\n1 2\n", "line 3: \"1 2\": expected a delay in milliseconds"),
            ("f,step=1ms", "NaN\n", "line 1: \"NaN\": expected a delay in milliseconds"),
            (
                "f",
                "5\n",
                "line 1: \"5\": expected a time in seconds and a delay in milliseconds; a file of values only needs step=",
            ),
            ("f", "1 5\n1 6\n", "line 2: \"1 6\": times must increase"),
            ("f", "0 5\n", "one value: expected two, or end=hold"),
            ("f,step=0s", "1\n", "a time above zero"),
            ("f,end=never", "0 1\n", "repeat, hold or stop"),
            (",step=1s", "1\n", "the name of a file"),
        ] {
            let error = read(name, lines).unwrap_err();
            assert!(error.contains(problem), "{name}, {lines:?}: {error}");
        }
    }

    #[test]
    fn a_file_name_may_contain_commas_and_equals_signs() {
        let name = TraceName::parse("a,b=5.txt,bytes=1400,step=10ms").unwrap();
        assert_eq!(
            (name.file.as_str(), name.bytes, name.step),
            ("a,b=5.txt", Some(1400), Some(Span::from_millis(10)))
        );
        assert_eq!(TraceName::parse(name.to_string().strip_prefix("trace:").unwrap()), Ok(name));
    }

    proptest! {
        /// The value at a time does not depend on the way to it.
        #[test]
        fn each_time_has_one_value(
            gaps in prop::collection::vec(1u64..30, 2..20),
            times in prop::collection::vec(0u64..1000, 1..50),
            hold in any::<bool>(),
        ) {
            let (mut lines, mut now) = (String::new(), 0);
            for (value, gap) in gaps.iter().enumerate() {
                lines += &format!("{now}ms {value}\n");
                now += gap;
            }
            let schedule = read(if hold { "f,end=hold" } else { "f" }, &lines).unwrap();
            let alone: Vec<u64> = times.iter().flat_map(|&ms| values(&schedule, [ms])).collect();
            prop_assert_eq!(values(&schedule, times), alone);
        }
    }
}
