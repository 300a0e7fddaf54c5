//! Record of a connection that was stepped by a script, and its comparison with the script.

use crate::packet::Packet;
use crate::script::{Event, Line, Script};
use catnip_base::{Span, Time};
use catnip_tcp::SackBlocks;
use catnip_wire::TcpFlags;
use serde::Serialize;
use std::fmt;

/// Packets, values and failure of a connection that was stepped by a script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Packets that it sent, in order.
    pub sent: Vec<(Time, Packet)>,
    /// Values of its assertions, in order.
    pub values: Vec<u64>,
    /// System call that failed, after which nothing was done.
    pub failure: Option<String>,
}

/// First line of a script that differs from a record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Number of the line in the script; `None` for a packet after its end.
    pub line: Option<usize>,
    /// Event that is expected, and what happened instead.
    pub text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.text),
            None => write!(f, "after the last line: {}", self.text),
        }
    }
}

/// Returns the first difference between a script and what a connection did.
pub fn first_difference(script: &Script, record: &Record) -> Option<Difference> {
    let mut sent = record.sent.iter();
    let mut values = record.values.iter();
    for line in &script.lines {
        let differs = |text: String| Some(Difference { line: Some(line.number), text });
        match &line.event {
            Event::Assert(_, expected) => {
                let value = values.next();
                if value != Some(expected) {
                    let value = value.map_or("not known".to_owned(), u64::to_string);
                    return differs(format!("{}: it is {value}", line.event));
                }
            }
            Event::Send(expected) => {
                if let Err(text) = take(line, expected, script.options.tolerance, &mut sent) {
                    return differs(text);
                }
            }
            Event::Call(_) | Event::Receive(_) => {}
        }
    }
    if let Some(failure) = &record.failure {
        return Some(Difference { line: None, text: failure.clone() });
    }
    let rest = sent.next().filter(|(at, _)| *at <= script.end());
    rest.map(|(at, packet)| Difference { line: None, text: format!("sent is {packet} at {}", secs(*at)) })
}

/// Takes what was sent for a line, which may stand for several segments, as for the large ones that a kernel hands to a device. An error
/// says what differs.
fn take<'a>(
    line: &Line,
    expected: &Packet,
    tolerance: Span,
    sent: &mut impl Iterator<Item = &'a (Time, Packet)>,
) -> Result<(), String> {
    let mut rest = expected.clone();
    loop {
        let (at, packet) = sent.next().ok_or_else(|| format!("{rest}: nothing is sent"))?;
        let is_part = (1..rest.len).contains(&packet.len);
        let mut part = rest.clone();
        if is_part {
            (part.len, part.flags) = (packet.len, without(rest.flags, TcpFlags::FIN));
        }
        if !agree(&part, packet) {
            return Err(format!("{rest}: sent is {packet} at {}", secs(*at)));
        }
        if *at + tolerance < line.from || *at > line.until + tolerance {
            return Err(format!("{rest} at {}: it is sent at {}", secs(line.from), secs(*at)));
        }
        if !is_part {
            return Ok(());
        }
        rest.seq += u64::from(packet.len);
        rest.len -= packet.len;
    }
}

/// Returns true if a packet is the expected one. PSH does not matter, nor does the echo of a timestamp by a millisecond or two, because
/// clocks of milliseconds have their own phase.
fn agree(expected: &Packet, packet: &Packet) -> bool {
    const TICKS: u32 = 2;
    let plain =
        |packet: &Packet| (without(packet.flags, TcpFlags::PSH).0, packet.seq, packet.len, packet.ack);
    let options = expected.options.as_ref().is_none_or(|expected| {
        let found = packet.options.clone().unwrap_or_default();
        let echo = expected
            .timestamps
            .is_none_or(|(_, echo)| found.timestamps.is_some_and(|(_, found)| found.abs_diff(echo) <= TICKS));
        // A simulated segment has three blocks; a fourth one fits without timestamps.
        expected.sack.iter().eq(found.sack.iter().take(SackBlocks::MAX)) && (echo || expected.mss.is_some())
    });
    plain(expected) == plain(packet)
        && options
        && expected.ecn.is_none_or(|ecn| packet.ecn == Some(ecn))
        && expected.window.is_none_or(|window| packet.window == Some(window))
}

fn without(flags: TcpFlags, bit: TcpFlags) -> TcpFlags {
    TcpFlags(flags.0 & !bit.0)
}

fn secs(at: Time) -> String {
    format!("{:.6} s", at.as_secs())
}
