//! Congestion windows of senders as the kernel's tracepoints report them.
//!
//! `tcp_probe` writes a line for each segment that arrives on an established connection, before TCP processes it: its SND.NXT and cwnd are
//! those with which the sender sent since the segment before. `tcp_cong_state_set` writes a line when the state of congestion control
//! changes. The lines are those of `trace` in tracefs (Documentation/trace/ftrace.rst of the kernel).

use crate::FlowKey;
use crate::ip::TCP;
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::net::{IpAddr, SocketAddr};

/// Congestion windows of all senders of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Windows {
    senders: BTreeMap<FlowKey, Sender>,
}

/// Intervals of a sender, in order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sender {
    intervals: Vec<Interval>,
    /// Number of intervals before that of the latest new data.
    next: usize,
}

/// State of a sender between two segments that it received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    /// SND.NXT at the end of the interval.
    until: u32,
    /// SND.UNA in the interval.
    una: u32,
    /// Congestion window at the beginning and at the end, segments. At the beginning it may still grow for the segment that arrived.
    cwnd: [u32; 2],
    /// States of congestion control at the beginning and at the end.
    states: [u32; 2],
}

/// States of congestion control (enum tcp_ca_state of the kernel), from the first in which lost data is repaired.
const RECOVERY: u32 = 3;
const LOSS: u32 = 4;

impl Interval {
    /// Returns true if the window is smaller than `segments`; `None` if it was reduced in this interval by a timeout, so that it may have
    /// been either.
    pub(super) fn is_small(&self, segments: u32) -> Option<bool> {
        let [first, last] = self.cwnd;
        if self.has_expired() { (first >= segments).then_some(false) } else { Some(last < segments) }
    }

    /// Returns true if a timeout reduced the window in this interval.
    fn has_expired(&self) -> bool {
        self.states[0] != LOSS && self.states[1] == LOSS
    }

    /// Returns true if new data is sent while lost data is repaired. A recovery that begins in the interval begins with a retransmission.
    pub(super) fn recovers(&self, has_retransmitted: bool) -> bool {
        let [first, last] = self.states;
        last >= RECOVERY && (first >= RECOVERY || has_retransmitted)
    }
}

impl Windows {
    /// Reads the lines of a trace. Lines of other events are skipped.
    pub fn read(trace: impl BufRead) -> io::Result<Self> {
        let mut windows = Self::default();
        let mut known: BTreeMap<FlowKey, Known> = BTreeMap::new();
        for line in trace.lines() {
            match Event::parse(&line?) {
                Some(Event::Probe { flow, snd_nxt, snd_una, cwnd }) => {
                    let known = known.entry(flow).or_default();
                    let before = known.cwnd.replace(cwnd).unwrap_or(0);
                    let states = [known.state_before, known.state];
                    known.state_before = known.state;
                    let interval = Interval { until: snd_nxt, una: snd_una, cwnd: [before, cwnd], states };
                    windows.senders.entry(flow).or_default().intervals.push(interval);
                }
                Some(Event::State { flow, state }) => known.entry(flow).or_default().state = state,
                None => {}
            }
        }
        Ok(windows)
    }

    /// Returns true if the trace has no windows.
    pub fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }

    /// Returns the interval in which the sender sent the data that begins at `sequence` for the first time; `None` if the trace ends before.
    /// `sequence` must not decrease from call to call.
    pub(super) fn at(&mut self, sender: &FlowKey, sequence: u32) -> Option<Interval> {
        let Sender { intervals, next } = self.senders.get_mut(sender)?;
        *next += intervals[*next..]
            .iter()
            .take_while(|interval| is_at_or_before(interval.until, sequence))
            .count();
        intervals.get(*next).copied()
    }

    /// Returns true if the window is smaller than `segments` when the sender repeats data; `None` if the trace ends before.
    pub(super) fn is_small_at(&self, repair: &Repair<'_>, segments: u32) -> Option<bool> {
        let intervals = &self.senders.get(repair.sender)?.intervals;
        let mut same =
            intervals.iter().skip_while(|one| one.una != repair.una).take_while(|one| one.una == repair.una);
        // If there is none, the last ACK was captured, and TCP had not processed it yet.
        let interval = same.nth(repair.received).or_else(|| intervals.last())?;
        let [first, last] = interval.cwnd;
        let is_probe = interval.has_expired() && !repair.is_first;
        Some(if is_probe { first } else { last } < segments)
    }
}

/// Data that is sent once more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair<'a> {
    pub(super) sender: &'a FlowKey,
    /// SND.UNA.
    pub(super) una: u32,
    /// Number of segments that have arrived since the one that moved SND.UNA.
    pub(super) received: usize,
    /// True if the data begins at SND.UNA, as after a timeout. A tail loss probe, before the timeout, repeats the end of the data.
    pub(super) is_first: bool,
}

/// Returns true if sequence number `a` is not after `b` (RFC 9293, section 3.4).
fn is_at_or_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 <= 0
}

/// Latest state of a sender.
#[derive(Debug, Default)]
struct Known {
    cwnd: Option<u32>,
    state: u32,
    /// State when the latest segment arrived.
    state_before: u32,
}

enum Event {
    Probe { flow: FlowKey, snd_nxt: u32, snd_una: u32, cwnd: u32 },
    State { flow: FlowKey, state: u32 },
}

impl Event {
    /// Parses a line, such as `nginx-7 [001] ..s1. 1.5: tcp_probe: family=AF_INET src=10.0.0.2:80 dest=10.0.0.1:4000 …`; `None` for another
    /// line.
    fn parse(line: &str) -> Option<Self> {
        if let Some((_, fields)) = line.split_once(" tcp_probe: ") {
            let flow = flow(endpoint(value(fields, "src")?)?, endpoint(value(fields, "dest")?)?);
            let sequence = |key| u32::from_str_radix(value(fields, key)?.strip_prefix("0x")?, 16).ok();
            let (snd_nxt, snd_una) = (sequence("snd_nxt")?, sequence("snd_una")?);
            return Some(Self::Probe {
                flow,
                snd_nxt,
                snd_una,
                cwnd: value(fields, "snd_cwnd")?.parse().ok()?,
            });
        }
        let (_, fields) = line.split_once(" tcp_cong_state_set: ")?;
        let is_v6 = value(fields, "family")? == "AF_INET6";
        let end = |address, port| {
            let address: IpAddr = value(fields, address)?.parse().ok()?;
            Some(SocketAddr::new(address.to_canonical(), value(fields, port)?.parse().ok()?))
        };
        let (ours, theirs) = if is_v6 { ("saddrv6", "daddrv6") } else { ("saddr", "daddr") };
        let flow = flow(end(ours, "sport")?, end(theirs, "dport")?);
        Some(Self::State { flow, state: value(fields, "cong_state")?.parse().ok()? })
    }
}

fn flow(source: SocketAddr, destination: SocketAddr) -> FlowKey {
    FlowKey { protocol: TCP, source, destination }
}

/// Parses an address with a port. The kernel writes an address that is no IPv4 address in brackets.
fn endpoint(text: &str) -> Option<SocketAddr> {
    let end: SocketAddr = text.parse().ok()?;
    Some(SocketAddr::new(end.ip().to_canonical(), end.port()))
}

/// Returns the value of `key` among fields such as `key=value`.
fn value<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    fields.split_whitespace().find_map(|field| field.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: &str = "nginx-7 [001] ..s1. 1.5: tcp_probe: family=AF_INET src=10.0.0.2:80 dest=10.0.0.1:4000 mark=0 \
        data_len=0 snd_nxt=0xfffffff0 snd_una=0xffffff00 snd_cwnd=10 ssthresh=2147483647 snd_wnd=64256 srtt=40000 \
        rcv_wnd=64256 sock_cookie=1 skbaddr=00000000ec1e7f1a skaddr=00000000c0ffee00";

    fn sender() -> FlowKey {
        flow("10.0.0.2:80".parse().unwrap(), "10.0.0.1:4000".parse().unwrap())
    }

    fn probe(snd_nxt: u32, cwnd: u32) -> String {
        PROBE.replace("fffffff0", &format!("{snd_nxt:x}")).replace("cwnd=10", &format!("cwnd={cwnd}")) + "\n"
    }

    fn state(state: u32) -> String {
        format!(
            "<idle>-0 [000] ..s1. 1.6: tcp_cong_state_set: family=AF_INET sport=80 dport=4000 saddr=10.0.0.2 \
             daddr=10.0.0.1 saddrv6=::ffff:10.0.0.2 daddrv6=::ffff:10.0.0.1 cong_state={state}\n"
        )
    }

    fn read(lines: &[String]) -> Windows {
        Windows::read(lines.concat().as_bytes()).unwrap()
    }

    #[test]
    fn data_is_sent_with_the_window_that_the_next_segment_to_arrive_finds() {
        // The numbers wrap round: SND.NXT is -16, then 100, then 200.
        let mut windows =
            read(&[probe(u32::MAX - 15, 3), probe(100, 4), probe(200, 6), "# tracer: nop\n".into()]);
        let cwnd =
            |windows: &mut Windows, sequence| windows.at(&sender(), sequence).map(|found| found.cwnd[1]);
        assert_eq!(cwnd(&mut windows, u32::MAX - 16), Some(3));
        assert_eq!(cwnd(&mut windows, u32::MAX - 15), Some(4));
        assert_eq!(cwnd(&mut windows, 99), Some(4));
        assert_eq!(cwnd(&mut windows, 100), Some(6));
        assert_eq!(cwnd(&mut windows, 200), None, "the trace ends before");
        assert_eq!(windows.at(&sender().reversed(), 0), None, "the other side is not traced");
    }

    #[test]
    fn new_data_belongs_to_a_recovery_from_its_first_retransmission_to_the_segment_that_ends_it() {
        let lines = [probe(100, 9), state(RECOVERY), probe(200, 7), probe(300, 5), state(0), probe(400, 5)];
        let mut windows = read(&lines);
        let mut recovers = |sequence, has_retransmitted| {
            windows.at(&sender(), sequence).map(|found| found.recovers(has_retransmitted))
        };
        assert_eq!(recovers(0, true), Some(false));
        assert_eq!(recovers(100, false), Some(false), "sent before the retransmission");
        assert_eq!(recovers(100, true), Some(true));
        assert_eq!(recovers(200, false), Some(true));
        assert_eq!(recovers(300, true), Some(false), "it ended with the segment before");
    }

    #[test]
    fn a_window_that_a_timeout_reduced_is_known_only_if_it_was_large_before() {
        let mut windows =
            read(&[probe(100, 9), state(LOSS), probe(200, 1), probe(300, 2), state(0), probe(400, 3)]);
        let mut is_small = |sequence| windows.at(&sender(), sequence).unwrap().is_small(3);
        assert_eq!(is_small(0), Some(false));
        assert_eq!(is_small(100), Some(false), "nine before the timeout");
        assert_eq!(is_small(200), Some(true));
        assert_eq!(is_small(300), Some(false));
        let mut windows = read(&[probe(100, 2), state(LOSS), probe(200, 1)]);
        assert_eq!(windows.at(&sender(), 100).unwrap().is_small(3), None);
    }

    #[test]
    fn the_window_at_a_repair_follows_from_the_number_of_segments_that_have_arrived() {
        let probe = |nxt, una: u32, cwnd| probe(nxt, cwnd).replace("ffffff00", &format!("{una:x}"));
        let lines = [
            probe(100, 50, 9),
            probe(200, 60, 5),
            probe(200, 60, 4),
            state(LOSS),
            probe(200, 60, 1),
            probe(200, 90, 2),
        ];
        let windows = read(&lines);
        let sender = sender();
        let is_small = |una, received, is_first| {
            windows.is_small_at(&Repair { sender: &sender, una, received, is_first }, 4)
        };
        assert_eq!(
            [0, 1].map(|received| is_small(60, received, true)),
            [Some(false), Some(false)],
            "five and four"
        );
        assert_eq!(is_small(60, 2, true), Some(true), "after the timeout");
        assert_eq!(is_small(60, 2, false), Some(false), "a probe, before the timeout");
        assert_eq!(is_small(90, 0, true), Some(true));
        assert_eq!(is_small(200, 0, true), Some(true), "its ACK finds a window of two");
        assert_eq!(
            Windows::default()
                .is_small_at(&Repair { sender: &sender, una: 0, received: 0, is_first: true }, 4),
            None
        );
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let v6 = PROBE.replace("AF_INET", "AF_INET6").replace("10.0.0.2:80", "[fd00::2]:80");
        let v6 = v6.replace("10.0.0.1:4000", "[fd00::1]:4000") + "\n";
        let ends = ["[fd00::2]:80", "[fd00::1]:4000"].map(|end| end.parse().unwrap());
        assert!(read(&[v6]).at(&flow(ends[0], ends[1]), 1 << 31).is_some());
        let mapped =
            PROBE.replace("AF_INET", "AF_INET6").replace("10.0.0.2:80", "[::ffff:10.0.0.2]:80") + "\n";
        assert!(read(&[mapped]).at(&sender(), 1 << 31).is_some());
        assert_eq!(read(&[state(RECOVERY).replace("dport=4000", "dport=x")]), Windows::default());
    }
}
