//! What a connection did when it was stepped by a script, and its comparison with the script.

use crate::packet::Packet;
use crate::script::{Event, Script};
use catnip_base::Time;
use catnip_wire::TcpFlags;
use std::fmt;

/// What a connection did.
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
#[derive(Clone, Debug, PartialEq)]
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
    let mut sent = record.sent.iter().peekable();
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
                let mut rest = expected.clone();
                loop {
                    let Some((at, packet)) = sent.next() else {
                        return differs(format!("{rest}: nothing is sent"));
                    };
                    // A line may stand for several segments, as for the large ones that a kernel hands to a device.
                    let is_part = packet.len < rest.len && packet.len > 0;
                    let part = if is_part {
                        Packet { len: packet.len, flags: without(rest.flags, TcpFlags::FIN), ..rest.clone() }
                    } else {
                        rest.clone()
                    };
                    if !agree(&part, packet) {
                        return differs(format!("{rest}: sent is {packet} at {}", secs(*at)));
                    }
                    let (from, until) = (line.from, line.until + script.options.tolerance);
                    if *at + script.options.tolerance < from || *at > until {
                        return differs(format!(
                            "{rest} at {}: it is sent at {}",
                            secs(line.from),
                            secs(*at)
                        ));
                    }
                    if !is_part {
                        break;
                    }
                    rest.seq += u64::from(packet.len);
                    rest.len -= packet.len;
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

/// Returns true if a packet is the expected one. PSH does not matter, nor does the echo of a timestamp by a millisecond or two, because
/// clocks of milliseconds have their own phase.
fn agree(expected: &Packet, packet: &Packet) -> bool {
    const TICKS: u32 = 2;
    const BLOCKS: usize = 3;
    let plain =
        |packet: &Packet| (without(packet.flags, TcpFlags::PSH).0, packet.seq, packet.len, packet.ack);
    let options = expected.options.as_ref().is_none_or(|expected| {
        let found = packet.options.clone().unwrap_or_default();
        let echo = expected
            .timestamps
            .is_none_or(|(_, echo)| found.timestamps.is_some_and(|(_, found)| found.abs_diff(echo) <= TICKS));
        // A simulated segment has three blocks; a fourth one fits without timestamps.
        expected.sack.iter().eq(found.sack.iter().take(BLOCKS)) && (echo || expected.mss.is_some())
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
