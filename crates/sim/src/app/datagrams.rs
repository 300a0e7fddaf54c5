use super::{AppEvent, Application, Interest};
use crate::FlowId;
use crate::host::Host;
use catnip_base::{Span, Time};
use catnip_net::schedule::data_lines;
use std::sync::Arc;

/// Recorded datagrams, sent again at their times, without feedback from the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDatagrams {
    /// Times and lengths in bytes, in the order of the times; not empty.
    datagrams: Box<[(Time, u32)]>,
    /// Time after which the recording repeats; `None` if it does not.
    period: Option<Span>,
}

impl RecordedDatagrams {
    /// Largest number of datagrams of a recording.
    pub const MAX_COUNT: usize = 10_000_000;

    /// Reads a recording: lines with a time in seconds and a length in bytes, with comments after `#`. Times must not decrease. A recording
    /// that repeats has its last time as its period, which must be above zero. An error names the line.
    pub fn parse(text: &str, repeats: bool) -> Result<Self, String> {
        let mut datagrams: Vec<(Time, u32)> = Vec::new();
        for (number, line) in data_lines(text) {
            let (at, bytes) = line.split_once(|c: char| c.is_whitespace() || c == ',').unwrap_or((line, ""));
            let at = at.parse().ok().filter(|at: &f64| (0.0..1e9).contains(at));
            let bytes = bytes.trim().parse().ok().filter(|bytes| (1..=65_535).contains(bytes));
            let (at, bytes) = at.zip(bytes).ok_or_else(|| {
                format!("line {number}: {line:?}: expected a time in seconds and 1 to 65535 bytes")
            })?;
            let at = Time::ZERO + Span::from_secs_f64(at);
            if datagrams.last().is_some_and(|(before, _)| *before > at) {
                return Err(format!("line {number}: {line:?}: times must not decrease"));
            }
            if datagrams.len() == Self::MAX_COUNT {
                return Err(format!("line {number}: more than {} datagrams", Self::MAX_COUNT));
            }
            datagrams.push((at, bytes));
        }
        let Some((last, _)) = datagrams.last() else { return Err("no datagrams".into()) };
        let period = repeats.then(|| last.since(Time::ZERO));
        if period == Some(Span::ZERO) {
            return Err("a recording that repeats needs a last time above zero".into());
        }
        Ok(Self { datagrams: datagrams.into(), period })
    }
}

/// Source of recorded datagrams.
#[derive(Debug)]
pub struct Datagrams {
    recorded: Arc<RecordedDatagrams>,
    flow: FlowId,
    next: usize,
    cycle_starts: Time,
}

impl Datagrams {
    /// Creates the source, which sends from time zero on.
    pub fn new(recorded: Arc<RecordedDatagrams>, flow: FlowId) -> Self {
        Self { recorded, flow, next: 0, cycle_starts: Time::ZERO }
    }

    /// Returns the time and the length of the next datagram, bytes; `None` after the last one.
    fn peek(&self) -> Option<(Time, u32)> {
        let (at, bytes) = *self.recorded.datagrams.get(self.next)?;
        Some((self.cycle_starts + at.since(Time::ZERO), bytes))
    }

    fn advance(&mut self) {
        self.next += 1;
        if let Some(period) = self.recorded.period.filter(|_| self.next == self.recorded.datagrams.len()) {
            self.cycle_starts += period;
            self.next = 0;
        }
    }
}

impl Application for Datagrams {
    fn interest(&self) -> Interest {
        Interest::MESSAGES
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        if !matches!(event, AppEvent::Start | AppEvent::Timer(_)) {
            return;
        }
        while let Some((at, bytes)) = self.peek() {
            if at > host.now() {
                return host.timer(at, 0);
            }
            host.datagram(self.flow, bytes);
            self.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_repeats_after_its_last_time() {
        let recorded = RecordedDatagrams::parse("# cross traffic\n0 100\n0.5,1500\n\n2 40\n", true).unwrap();
        let mut source = Datagrams::new(Arc::new(recorded), FlowId(0));
        let mut seen = Vec::new();
        for _ in 0..7 {
            let (at, bytes) = source.peek().unwrap();
            seen.push((at.as_secs(), bytes));
            source.advance();
        }
        let expected = [(0.0, 100), (0.5, 1500), (2.0, 40), (2.0, 100), (2.5, 1500), (4.0, 40), (4.0, 100)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_no_recording_is_refused_with_the_line() {
        for (text, problem) in [
            ("", "no datagrams"),
            ("1\n", "line 1: \"1\": expected a time in seconds"),
            ("1 0\n", "1 to 65535 bytes"),
            ("1 70000\n", "1 to 65535 bytes"),
            ("-1 5\n", "expected a time in seconds"),
            ("1 5\n\n0.5 5\n", "line 3: \"0.5 5\": times must not decrease"),
            ("0 5\n", "last time above zero"),
        ] {
            let error = RecordedDatagrams::parse(text, true).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
