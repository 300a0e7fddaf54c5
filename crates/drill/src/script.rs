//! Scripts: a useful part of packetdrill's language.
//!
//! A line is a time and an event. A time is absolute (`0.5`), or relative to that of the line before (`+.1`), or a range (`+.2~+.24`).
//! Events are system calls, packets that the connection receives (`<`) and sends (`>`), and assertions about its state (`%{ }%`).

use crate::packet::Packet;
use catnip_base::{Span, Time};
use catnip_wire::TcpFlags;
use std::fmt;

/// Script of one connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// Options of the first lines, such as `--ecn=1`.
    pub options: Options,
    /// Lines in the order of their time.
    pub lines: Vec<Line>,
}

/// Options of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whether the host uses ECN (net.ipv4.tcp_ecn).
    pub ecn: bool,
    /// Longest distance between the time of a packet and that of its line.
    pub tolerance: Span,
    /// Name of the TCP profile of the simulated host.
    pub profile: String,
}

/// Line of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Number of the line in its file, from 1.
    pub number: usize,
    /// Earliest time of the event.
    pub from: Time,
    /// Latest time of the event; that of `from` except for a range.
    pub until: Time,
    /// Event of the line.
    pub event: Event,
}

/// Event of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// System call, which succeeds.
    Call(Call),
    /// Packet that arrives.
    Receive(Packet),
    /// Packet that is expected.
    Send(Packet),
    /// Value that is expected.
    Assert(Field, u64),
}

/// System call, or a part of those that open a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Creates the socket.
    Socket,
    /// Call without effect, because `listen` and `connect` stand for it: bind, SO_REUSEADDR.
    Nothing(String),
    /// Waits for a connection.
    Listen,
    /// Accepts the connection.
    Accept,
    /// Opens a connection.
    Connect,
    /// Writes a number of bytes.
    Write(u64),
    /// Ends the data.
    Close,
    /// Sets the congestion control.
    Congestion(String),
    /// Turns Nagle's algorithm off.
    NoDelay,
}

/// Field of the state of a connection, of tcp_info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// cwnd, segments.
    Cwnd,
    /// ssthresh, segments.
    Ssthresh,
}

/// Largest number of bytes that a call writes, which a send buffer holds.
pub const MAX_WRITE: u64 = 4 << 20;
/// Largest tolerance, microseconds.
const MAX_TOLERANCE_US: u64 = 60_000_000;
/// Words for fields.
const FIELDS: [(&str, Field); 2] = [("tcpi_snd_cwnd", Field::Cwnd), ("tcpi_snd_ssthresh", Field::Ssthresh)];

impl Default for Options {
    fn default() -> Self {
        Self { ecn: false, tolerance: Span::from_millis(10), profile: "linux-6".into() }
    }
}

impl Script {
    /// Parses a script. An error begins with the number of its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut script = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default().trim();
            let wrong = |error: String| format!("line {}: {error}", at + 1);
            if let Some(option) = line.strip_prefix("--") {
                script.options.set(option).map_err(wrong)?;
            } else if !line.is_empty() && !line.starts_with('`') {
                let last = script.lines.last().map_or(Time::ZERO, |line| line.from);
                script.lines.push(Line::parse(at + 1, last, line).map_err(wrong)?);
            }
        }
        Ok(script)
    }

    /// Returns the first SYN or SYN-ACK of the peer; `None` without one.
    pub fn peer_syn(&self) -> Option<&Packet> {
        self.lines.iter().find_map(|line| match &line.event {
            Event::Receive(packet) if packet.has(TcpFlags::SYN) => Some(packet),
            _ => None,
        })
    }

    /// Returns the packets that are expected, in order.
    pub fn expected(&self) -> impl Iterator<Item = &Packet> {
        self.lines.iter().filter_map(|line| match &line.event {
            Event::Send(packet) => Some(packet),
            _ => None,
        })
    }

    /// Returns the lines by which a host is stepped: all but the packets that are expected.
    pub fn steps(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| !matches!(line.event, Event::Send(_)))
    }

    /// Returns the time at which the script ends: that of its last line, and the tolerance.
    pub fn end(&self) -> Time {
        self.lines.iter().map(|line| line.until).max().unwrap_or(Time::ZERO) + self.options.tolerance
    }
}

impl Options {
    fn set(&mut self, option: &str) -> Result<(), String> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match (key, value) {
            ("ecn", "0" | "1") => self.ecn = value == "1",
            ("tolerance_usecs", _) => {
                let micros = value.parse().ok().filter(|micros| *micros <= MAX_TOLERANCE_US);
                self.tolerance = Span::from_micros(micros.ok_or_else(|| {
                    format!("tolerance_usecs = {value:?}: expected 0 to {MAX_TOLERANCE_US}")
                })?);
            }
            ("profile", _) => self.profile = value.to_owned(),
            _ => return Err(format!("unknown option --{option}")),
        }
        Ok(())
    }
}

impl Line {
    fn parse(number: usize, last: Time, line: &str) -> Result<Self, String> {
        let (time, event) = line.split_once(char::is_whitespace).ok_or("a time without an event")?;
        let (from, until) = match time.split_once('~') {
            Some((from, until)) => (time_of(from, last)?, time_of(until, last)?),
            None => (time_of(time, last)?, time_of(time, last)?),
        };
        if from < last || until < from {
            return Err(format!("the time {time}, which is before that of the line before"));
        }
        Ok(Self { number, from, until, event: Event::parse(event.trim())? })
    }
}

impl Event {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(packet) = text.strip_prefix('<') {
            return Packet::parse(packet.trim()).map(Self::Receive);
        }
        if let Some(packet) = text.strip_prefix('>') {
            return Packet::parse(packet.trim()).map(Self::Send);
        }
        if let Some(code) = text.strip_prefix("%{") {
            let code = code.trim_end().trim_end_matches("}%").trim();
            let claim = code.strip_prefix("assert ").unwrap_or(code).split(',').next().unwrap_or_default();
            let (field, value) =
                claim.split_once("==").ok_or_else(|| format!("{code:?}, which compares nothing"))?;
            let found = FIELDS.iter().find(|(word, _)| *word == field.trim());
            let (_, field) = found.ok_or_else(|| format!("the unknown field {:?}", field.trim()))?;
            let value = value.trim().parse().map_err(|_| format!("the number {:?}", value.trim()))?;
            return Ok(Self::Assert(*field, value));
        }
        Call::parse(text).map(Self::Call)
    }
}

impl Call {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('(').ok_or_else(|| format!("{text:?}, which is no event"))?;
        let arguments: Vec<&str> =
            rest.rsplit_once(')').map_or("", |(inner, _)| inner).split(',').map(str::trim).collect();
        match (name, &arguments[..]) {
            ("socket", _) => Ok(Self::Socket),
            ("bind", _) => Ok(Self::Nothing(text.to_owned())),
            ("setsockopt", [_, _, "SO_REUSEADDR", ..]) => Ok(Self::Nothing(text.to_owned())),
            ("listen", _) => Ok(Self::Listen),
            ("accept", _) => Ok(Self::Accept),
            ("connect", _) => Ok(Self::Connect),
            ("close" | "shutdown", _) => Ok(Self::Close),
            ("setsockopt", [_, _, "TCP_CONGESTION", control, ..]) => {
                Ok(Self::Congestion(control.trim_matches('"').to_owned()))
            }
            ("setsockopt", [_, _, "TCP_NODELAY", ..]) => Ok(Self::NoDelay),
            ("write" | "send" | "sendto", [_, _, bytes, ..]) => {
                let written = bytes.parse().ok().filter(|written| *written <= MAX_WRITE);
                written
                    .map(Self::Write)
                    .ok_or_else(|| format!("the number {bytes:?}: expected 0 to {MAX_WRITE}"))
            }
            _ => Err(format!("the unknown call {text:?}")),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.options.ecn {
            writeln!(f, "--ecn=1")?;
        }
        let (default, mut last) = (Options::default(), Time::ZERO);
        if self.options.tolerance != default.tolerance {
            writeln!(f, "--tolerance_usecs={}", self.options.tolerance.as_nanos() / 1000)?;
        }
        if self.options.profile != default.profile {
            writeln!(f, "--profile={}", self.options.profile)?;
        }
        for line in &self.lines {
            let after = |time: Time| seconds(time.since(last));
            match line.until == line.from {
                true => write!(f, "+{} ", after(line.from))?,
                false => write!(f, "+{}~+{} ", after(line.from), after(line.until))?,
            }
            writeln!(f, "{}", line.event)?;
            last = line.from;
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => write!(f, "{call}"),
            Self::Receive(packet) => write!(f, "< {packet}"),
            Self::Send(packet) => write!(f, "> {packet}"),
            Self::Assert(field, value) => {
                let word = FIELDS.iter().find(|(_, one)| one == field).map_or("", |(word, _)| word);
                write!(f, "%{{ assert {word} == {value}, {word} }}%")
            }
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket => write!(f, "socket(..., SOCK_STREAM, IPPROTO_TCP) = 3"),
            Self::Nothing(text) => write!(f, "{text}"),
            Self::Listen => write!(f, "listen(3, 1) = 0"),
            Self::Accept => write!(f, "accept(3, ..., ...) = 4"),
            Self::Connect => write!(f, "connect(4, ..., ...) = -1 EINPROGRESS (Operation now in progress)"),
            Self::Write(bytes) => write!(f, "write(4, ..., {bytes}) = {bytes}"),
            Self::Close => write!(f, "close(4) = 0"),
            Self::Congestion(name) => {
                write!(f, "setsockopt(3, SOL_TCP, TCP_CONGESTION, \"{name}\", {}) = 0", name.len())
            }
            Self::NoDelay => write!(f, "setsockopt(4, SOL_TCP, TCP_NODELAY, [1], 4) = 0"),
        }
    }
}

/// Returns a duration as seconds, without zeros at its end.
fn seconds(span: Span) -> String {
    let nanos = span.as_nanos();
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Parses `+.1` or `0.25`, seconds.
fn time_of(word: &str, last: Time) -> Result<Time, String> {
    let (base, digits) = word.strip_prefix('+').map_or((Time::ZERO, word), |digits| (last, digits));
    let secs: f64 = digits.parse().map_err(|_| format!("the time {word:?}"))?;
    if !(0.0..1e6).contains(&secs) {
        return Err(format!("the time {word:?}, which is out of range"));
    }
    // Times of scripts have at most a resolution of a microsecond.
    Ok(base + Span::from_micros((secs * 1e6).round() as u64))
}
