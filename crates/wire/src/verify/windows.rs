//! Congestion windows of senders as the kernel's tracepoints report them.
//!
//! `tcp_probe` writes a line for each segment that arrives on an established connection, before TCP processes it: its SND.NXT and windows are
//! those with which the sender sent since the segment before. `tcp_cong_state_set` writes a line when the state of congestion control
//! changes. The lines are those of `trace` in tracefs (Documentation/trace/ftrace.rst of the kernel), with times since 1970.

use crate::FlowKey;
use crate::ip::TCP;
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::net::{IpAddr, SocketAddr};

/// Congestion windows of all senders of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Windows {
    senders: BTreeMap<FlowKey, Sender>,
    /// Times of the first and the last line, nanoseconds since 1970.
    times: Option<[i64; 2]>,
}

/// Intervals of a sender, in order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sender {
    intervals: Vec<Interval>,
    /// Number of intervals before that of the latest new data.
    next: usize,
}

/// State of a sender between two segments that it received.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interval {
    /// SND.NXT at the end of the interval.
    until: u32,
    /// SND.UNA in the interval.
    una: u32,
    /// Number of bytes that the segment at the beginning acknowledged.
    acked: u32,
    /// Number of bytes that were in flight after it, before anything else was sent.
    in_flight: u32,
    /// Congestion window at the beginning and at the end, segments. At the beginning it may still change for the segment that arrived.
    cwnd: [u32; 2],
    /// Initial window, segments. The kernel does not reduce an unused window below it.
    initial_cwnd: u32,
    /// Slow start threshold at the beginning, segments.
    ssthresh: u32,
    /// Receive window of the other side, bytes.
    rwnd: u32,
    /// State of congestion control at the beginning.
    state: u32,
    /// Later states with their times, nanoseconds since 1970.
    changes: Vec<(i64, u32)>,
}

/// States of congestion control (enum tcp_ca_state of the kernel). From CWR on the window is reduced, from Recovery on lost data is repaired.
const OPEN: u32 = 0;
const CWR: u32 = 2;
const RECOVERY: u32 = 3;
const LOSS: u32 = 4;

/// Time of sending, and what the window was used for before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Time, nanoseconds since 1970.
    pub(super) nanos: i64,
    /// Size of a full segment, bytes.
    pub(super) segment: u64,
    /// True if so long a time has passed without data that the kernel may have restarted with a small window.
    pub(super) is_idle: bool,
    /// Largest amount of data in flight since the window was full, segments, if that was so long ago that the kernel may reduce the window
    /// for lack of use; else `None`.
    pub(super) unused: Option<u32>,
    /// True if the window had been full when the latest segment arrived, with no window of data sent since (`is_cwnd_limited` of the
    /// kernel).
    pub(super) was_full: bool,
}

/// State in which a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sending {
    /// Smallest and largest cwnd that the sender may have, segments.
    cwnd: [u32; 2],
    /// Receive window of the other side, segments.
    rwnd: u32,
    state: u32,
}

impl Sending {
    /// Returns true if cwnd is smaller than `segments`; `None` if it is not known.
    pub(super) fn is_small(&self, segments: u32) -> Option<bool> {
        let [low, high] = self.cwnd.map(|cwnd| cwnd < segments);
        (low == high).then_some(low)
    }

    /// Returns the smallest and the largest possible window, segments: the smaller of cwnd and the receive window.
    pub(super) fn window(&self) -> [u32; 2] {
        self.cwnd.map(|cwnd| cwnd.min(self.rwnd))
    }

    /// Returns true if `segments` in flight fill the smallest possible cwnd.
    pub(super) fn is_filled_by(&self, segments: u32) -> bool {
        segments >= self.cwnd[0]
    }

    /// Returns true if lost data is repaired, after a timeout or in a fast recovery.
    pub(super) fn recovers(&self) -> bool {
        self.state >= RECOVERY
    }

    /// Returns true in a fast recovery.
    pub(super) fn recovers_fast(&self) -> bool {
        self.state == RECOVERY
    }
}

impl Interval {
    /// Returns the state in which the sender sends at a moment of the interval.
    pub(super) fn at(&self, moment: Moment) -> Sending {
        let Moment { nanos, segment, is_idle, unused, was_full } = moment;
        let [first, last] = self.cwnd;
        let state = self.state_at(nanos);
        // A window grows by what is acknowledged. One that was not full before grows in slow start only, and if half of it is in use.
        let grows =
            was_full || unused.is_none_or(|used| first < self.ssthresh && first < used.saturating_mul(2));
        // In the state Open no data is acknowledged selectively, else all may be but the first segment in flight.
        let sacked = if state == OPEN { 0 } else { u64::from(self.in_flight).saturating_sub(segment) };
        let acked = u64::from(self.acked).div_ceil(segment) + sacked.div_ceil(segment);
        let grown = first.saturating_add(if grows { acked as u32 } else { 0 });
        // A window without use becomes the mean of itself and of its use once it has been sent under (tcp_cwnd_application_limited).
        let halved =
            |cwnd: u32| unused.map_or(cwnd, |used| cwnd.min(cwnd.midpoint(used.max(self.initial_cwnd))));
        let has_expired = self.changes.iter().any(|(at, state)| *state == LOSS && *at <= nanos);
        let expires = !has_expired && self.changes.iter().any(|(at, state)| *state >= CWR && *at > nanos);
        let cwnd = if expires {
            // A timer reduces the window later, after which it stays as it is until the next segment arrives.
            [if is_idle || state >= CWR { 1 } else { halved(first) }, grown]
        } else if state == OPEN && grown > last && halved(grown) <= last {
            [first.min(last), grown]
        } else {
            [last; 2]
        };
        Sending { cwnd, rwnd: (u64::from(self.rwnd) / segment) as u32, state }
    }

    fn state_at(&self, nanos: i64) -> u32 {
        self.changes.iter().take_while(|(at, _)| *at <= nanos).last().map_or(self.state, |(_, state)| *state)
    }
}

impl Windows {
    /// Reads the lines of a trace. Lines of other events are skipped.
    pub fn read(trace: impl BufRead) -> io::Result<Self> {
        let mut windows = Self::default();
        let mut known: BTreeMap<FlowKey, Known> = BTreeMap::new();
        for line in trace.lines() {
            let Some((nanos, flow, event)) = parse(&line?) else { continue };
            let [first, _] = windows.times.unwrap_or([nanos; 2]);
            windows.times = Some([first, nanos]);
            let known = known.entry(flow).or_default();
            match event {
                Event::Probe { snd_nxt, snd_una, cwnd, ssthresh, rwnd } => {
                    let changes = std::mem::take(&mut known.changes);
                    let state = known.state;
                    let known_ssthresh = std::mem::replace(&mut known.ssthresh, ssthresh);
                    known.state = changes.last().map_or(state, |(_, state)| *state);
                    let intervals = &mut windows.senders.entry(flow).or_default().intervals;
                    // Where SND.UNA falls, another connection uses the same ports.
                    let before = intervals.last().filter(|before| is_at_or_before(before.una, snd_una));
                    let interval = Interval {
                        until: snd_nxt,
                        una: snd_una,
                        acked: before.map_or(0, |before| snd_una.wrapping_sub(before.una)),
                        in_flight: before.map_or(0, |before| before.until.wrapping_sub(snd_una)),
                        cwnd: [before.map_or(cwnd, |before| before.cwnd[1]), cwnd],
                        initial_cwnd: before.map_or(cwnd, |before| before.initial_cwnd),
                        ssthresh: before.map_or(ssthresh, |_| known_ssthresh),
                        rwnd,
                        state,
                        changes,
                    };
                    intervals.push(interval);
                }
                Event::State(state) => known.changes.push((nanos, state)),
            }
        }
        Ok(windows)
    }

    /// Returns true if the trace has no windows.
    pub fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }

    /// Returns true if the trace has been taken at a time, nanoseconds since 1970, or at most a minute before or after.
    pub(super) fn covers(&self, nanos: i64) -> bool {
        const MINUTE: i64 = 60_000_000_000;
        self.times.is_some_and(|[first, last]| (first - MINUTE..=last + MINUTE).contains(&nanos))
    }

    /// Returns the interval in which the sender sent the data that begins at `sequence` for the first time; `None` if the trace ends before.
    /// `sequence` must not decrease from call to call.
    pub(super) fn at(&mut self, sender: &FlowKey, sequence: u32) -> Option<&Interval> {
        let Sender { intervals, next } = self.senders.get_mut(sender)?;
        *next += intervals[*next..]
            .iter()
            .take_while(|interval| is_at_or_before(interval.until, sequence))
            .count();
        intervals.get(*next)
    }

    /// Returns the interval in which the sender repeats data: after the segment that moved SND.UNA to `una` and `received` more.
    pub(super) fn at_repair(&self, sender: &FlowKey, una: u32, received: usize) -> Option<&Interval> {
        let intervals = &self.senders.get(sender)?.intervals;
        let mut same = intervals.iter().skip_while(|one| one.una != una).take_while(|one| one.una == una);
        // If there is none, the last ACK was captured, and TCP had not processed it yet.
        same.nth(received).or_else(|| intervals.last())
    }
}

/// Returns true if sequence number `a` is not after `b` (RFC 9293, section 3.4).
fn is_at_or_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 <= 0
}

/// State of a sender since the latest segment arrived.
#[derive(Debug, Default)]
struct Known {
    /// Slow start threshold that it found, segments.
    ssthresh: u32,
    /// State of congestion control that it found.
    state: u32,
    /// Later states with their times.
    changes: Vec<(i64, u32)>,
}

enum Event {
    Probe { snd_nxt: u32, snd_una: u32, cwnd: u32, ssthresh: u32, rwnd: u32 },
    State(u32),
}

/// Parses a line, such as `nginx-7 [001] ..s1. 1.500000: tcp_probe: family=AF_INET src=10.0.0.2:80 dest=10.0.0.1:4000 …`, to its time,
/// nanoseconds, sender and event; `None` for another line.
fn parse(line: &str) -> Option<(i64, FlowKey, Event)> {
    if let Some((head, fields)) = line.split_once(": tcp_probe: ") {
        let flow = flow(endpoint(value(fields, "src")?)?, endpoint(value(fields, "dest")?)?);
        let sequence = |key| u32::from_str_radix(value(fields, key)?.strip_prefix("0x")?, 16).ok();
        let (snd_nxt, snd_una) = (sequence("snd_nxt")?, sequence("snd_una")?);
        let number = |key| value(fields, key)?.parse().ok();
        let (cwnd, ssthresh, rwnd) = (number("snd_cwnd")?, number("ssthresh")?, number("snd_wnd")?);
        return Some((time(head)?, flow, Event::Probe { snd_nxt, snd_una, cwnd, ssthresh, rwnd }));
    }
    let (head, fields) = line.split_once(": tcp_cong_state_set: ")?;
    let is_v6 = value(fields, "family")? == "AF_INET6";
    let end = |address, port| {
        let address: IpAddr = value(fields, address)?.parse().ok()?;
        Some(SocketAddr::new(address.to_canonical(), value(fields, port)?.parse().ok()?))
    };
    let (ours, theirs) = if is_v6 { ("saddrv6", "daddrv6") } else { ("saddr", "daddr") };
    let flow = flow(end(ours, "sport")?, end(theirs, "dport")?);
    Some((time(head)?, flow, Event::State(value(fields, "cong_state")?.parse().ok()?)))
}

/// Parses the time at the end of the first part of a line, nanoseconds. The kernel writes seconds and six decimals.
fn time(head: &str) -> Option<i64> {
    let (seconds, micros) = head.rsplit(' ').next()?.split_once('.')?;
    let micros: i64 = if micros.len() == 6 { micros.parse().ok()? } else { return None };
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(1000 * micros)
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

    const DISORDER: u32 = 1;

    fn sender() -> FlowKey {
        flow("10.0.0.2:80".parse().unwrap(), "10.0.0.1:4000".parse().unwrap())
    }

    fn probe(millis: i64, snd_nxt: u32, snd_una: u32, cwnd: u32) -> String {
        format!(
            "nginx-7 [001] ..s1. 7.{millis:03}000: tcp_probe: family=AF_INET src=10.0.0.2:80 dest=10.0.0.1:4000 mark=0x0 \
             data_len=0 snd_nxt={snd_nxt:#x} snd_una={snd_una:#x} snd_cwnd={cwnd} ssthresh=2147483647 snd_wnd=64256 \
             srtt=40000 rcv_wnd=64256 sock_cookie=1 skbaddr=00000000ec1e7f1a skaddr=00000000c0ffee00\n"
        )
    }

    fn state(millis: i64, state: u32) -> String {
        format!(
            "<idle>-0 [000] ..s1. 7.{millis:03}000: tcp_cong_state_set: family=AF_INET sport=80 dport=4000 \
             saddr=10.0.0.2 daddr=10.0.0.1 saddrv6=::ffff:10.0.0.2 daddrv6=::ffff:10.0.0.1 cong_state={state}\n"
        )
    }

    fn read(lines: &[String]) -> Windows {
        Windows::read(lines.concat().as_bytes()).unwrap()
    }

    /// Returns nanoseconds of a time of the lines.
    fn at(millis: i64) -> i64 {
        7_000_000_000 + millis * 1_000_000
    }

    /// Returns a moment at which the window has just been full, with segments of 10 bytes.
    fn moment(millis: i64) -> Moment {
        Moment { nanos: at(millis), segment: 10, is_idle: false, unused: None, was_full: false }
    }

    #[test]
    fn data_is_sent_with_the_window_that_the_next_segment_to_arrive_finds() {
        // The numbers wrap round: SND.NXT is -16, then 100, then 200.
        let lines = [
            probe(1, u32::MAX - 15, 0, 3),
            probe(2, 100, 0, 4),
            "# tracer: nop\n".into(),
            probe(3, 200, 0, 6),
        ];
        let mut windows = read(&lines);
        let mut cwnd = |sequence| windows.at(&sender(), sequence).map(|found| found.cwnd[1]);
        assert_eq!(cwnd(u32::MAX - 16), Some(3));
        assert_eq!(cwnd(u32::MAX - 15), Some(4));
        assert_eq!(cwnd(99), Some(4));
        assert_eq!(cwnd(100), Some(6));
        assert_eq!(cwnd(200), None, "the trace ends before");
        assert_eq!(windows.at(&sender().reversed(), 0), None, "the other side is not traced");
    }

    #[test]
    fn data_belongs_to_a_recovery_from_the_change_of_state_to_the_one_that_ends_it() {
        let lines = [
            probe(1, 100, 0, 9),
            state(5, RECOVERY),
            probe(9, 200, 0, 7),
            probe(12, 300, 0, 5),
            state(13, 0),
            probe(19, 400, 0, 5),
        ];
        let mut windows = read(&lines);
        let mut recovers = |sequence, millis| {
            windows.at(&sender(), sequence).map(|found| found.at(moment(millis)).recovers())
        };
        assert_eq!(recovers(0, 0), Some(false));
        assert_eq!(recovers(100, 4), Some(false));
        assert_eq!(recovers(150, 5), Some(true));
        assert_eq!(recovers(200, 10), Some(true));
        assert_eq!(recovers(300, 12), Some(true));
        assert_eq!(recovers(350, 13), Some(false));
    }

    #[test]
    fn a_window_before_a_timeout_is_known_only_if_it_was_large() {
        let lines = [
            probe(1, 100, 0, 9),
            state(5, LOSS),
            probe(9, 200, 0, 1),
            probe(12, 300, 0, 2),
            probe(15, 400, 0, 3),
        ];
        let mut windows = read(&lines);
        let mut is_small =
            |sequence, millis| windows.at(&sender(), sequence).unwrap().at(moment(millis)).is_small(3);
        assert_eq!(is_small(0, 0), Some(false));
        assert_eq!(is_small(100, 4), Some(false), "nine before the timeout");
        assert_eq!(is_small(100, 5), Some(true), "one after it");
        assert_eq!(is_small(200, 10), Some(true));
        assert_eq!(is_small(300, 13), Some(false));
        let mut windows = read(&[probe(1, 100, 0, 2), state(5, LOSS), probe(9, 200, 10, 1)]);
        assert_eq!(windows.at(&sender(), 100).unwrap().at(moment(4)).is_small(3), None);
        // A second timeout in the same interval finds the window reduced, one after the next segment reduces it again.
        let mut windows = read(&[probe(1, 100, 0, 9), state(5, LOSS), state(8, LOSS), probe(9, 200, 20, 1)]);
        assert_eq!(windows.at(&sender(), 100).unwrap().at(moment(6)).is_small(3), Some(true));
        let mut windows = read(&[state(1, LOSS), probe(2, 100, 0, 1), state(8, LOSS), probe(9, 200, 20, 1)]);
        assert_eq!(windows.at(&sender(), 100).unwrap().at(moment(4)).is_small(3), None);
    }

    #[test]
    fn a_window_reduced_in_a_recovery_is_not_known_before_a_timeout() {
        // The ACK that ends a recovery starts another one, whose repair is lost.
        let lines =
            [probe(1, 100, 60, 20), state(1, OPEN), state(1, RECOVERY), state(8, LOSS), probe(9, 100, 90, 1)];
        let windows = read(&lines);
        let repair = |millis| windows.at_repair(&sender(), 90, 0).unwrap().at(moment(millis)).window();
        assert_eq!(repair(5), [1, 23], "one segment is in flight, which is not acknowledged");
        assert_eq!(repair(8), [1, 1]);
    }

    #[test]
    fn a_window_before_a_timeout_has_grown_by_what_is_acknowledged_selectively_too() {
        // The second segment to arrive acknowledges one segment of ten bytes, and leaves three in flight. The first one is not acknowledged.
        let lines =
            |state_now| [probe(1, 40, 0, 7), state(1, state_now), state(8, RECOVERY), probe(9, 50, 10, 4)];
        let window = |state_now| read(&lines(state_now)).at(&sender(), 45).unwrap().at(moment(4)).window();
        assert_eq!(window(OPEN), [7, 8]);
        assert_eq!(window(DISORDER), [7, 10]);
    }

    #[test]
    fn an_unused_window_is_known_only_if_the_kernel_cannot_have_reduced_it() {
        // The initial window is two segments. The third interval begins with an ACK of one segment of ten bytes, and the window is four
        // before and after it: it did not grow, or grew to five and was then replaced by the mean of five and three.
        let lines = |ssthresh: &str| {
            let lines = [probe(1, 10, 0, 2), probe(2, 60, 30, 4), probe(9, 100, 40, 4)];
            lines.map(|line| line.replace("ssthresh=2147483647", ssthresh))
        };
        let window = |lines: &[String], moment| read(lines).at(&sender(), 60).unwrap().at(moment).window();
        let after = |used| Moment { unused: Some(used), ..moment(8) };
        let slow_start = lines("ssthresh=5");
        assert_eq!(window(&slow_start, moment(8)), [4, 4], "it has just been full");
        assert_eq!(
            window(&slow_start, after(2)),
            [4, 4],
            "less than half of it is in use, so that it does not grow"
        );
        assert_eq!(window(&slow_start, Moment { was_full: true, ..after(2) }), [4, 5], "until that segment");
        assert_eq!(window(&slow_start, after(3)), [4, 5]);
        assert_eq!(window(&slow_start, after(5)), [4, 4], "the mean of five and five is more than four");
        assert_eq!(
            window(&lines("ssthresh=4"), after(3)),
            [4, 4],
            "above the threshold only a full window grows"
        );
        // Nine become four or five only by the mean of themselves and the initial window.
        let falls = |initial| [probe(1, 10, 0, initial), probe(2, 60, 30, 9), probe(9, 100, 30, 5)];
        assert_eq!(window(&falls(2), after(1)), [5, 9]);
        assert_eq!(window(&falls(10), after(1)), [5, 5]);
        // Before a timer expires the window may have grown by what the segment acknowledges, or have been reduced; nothing changes it after.
        for timer in [LOSS, RECOVERY] {
            let lines = [probe(1, 10, 0, 2), probe(2, 60, 30, 4), state(8, timer), probe(9, 100, 50, 1)];
            assert_eq!(window(&lines, moment(7)), [4, 6]);
            assert_eq!(window(&lines, Moment { nanos: at(7), ..after(3) }), [3, 6]);
            assert_eq!(window(&lines, Moment { is_idle: true, ..moment(7) }), [1, 6]);
            assert_eq!(window(&lines, after(3)), [1, 1]);
        }
    }

    #[test]
    fn the_receive_window_limits_the_window_too() {
        let line = probe(1, 100, 0, 9).replace("snd_wnd=64256", "snd_wnd=59");
        assert_eq!(read(&[line]).at(&sender(), 0).unwrap().at(moment(0)).window(), [5, 5]);
    }

    #[test]
    fn the_interval_of_a_repair_follows_from_the_segments_that_have_arrived() {
        let windows =
            read(&[probe(1, 100, 50, 9), probe(2, 200, 60, 5), probe(3, 200, 60, 4), probe(4, 200, 90, 2)]);
        let cwnd = |una, received| windows.at_repair(&sender(), una, received).map(|found| found.cwnd[1]);
        assert_eq!([cwnd(50, 0), cwnd(60, 0), cwnd(60, 1)], [Some(9), Some(5), Some(4)]);
        assert_eq!(cwnd(200, 0), Some(2), "its ACK has not been processed");
        assert_eq!(Windows::default().at_repair(&sender(), 0, 0), None);
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let found = |line: String, ends: [&str; 2]| {
            let [source, destination] = ends.map(|end| end.parse().unwrap());
            read(&[line]).at(&flow(source, destination), 0).is_some()
        };
        let v6 = probe(1, 100, 0, 9).replace("AF_INET", "AF_INET6").replace("10.0.0.2:80", "[fd00::2]:80");
        assert!(found(v6.replace("10.0.0.1:4000", "[fd00::1]:4000"), ["[fd00::2]:80", "[fd00::1]:4000"]));
        let mapped =
            probe(1, 100, 0, 9).replace("AF_INET", "AF_INET6").replace("10.0.0.2:80", "[::ffff:10.0.0.2]:80");
        assert!(found(mapped, ["10.0.0.2:80", "10.0.0.1:4000"]));
        for wrong in
            [state(1, RECOVERY).replace("dport=4000", "dport=x"), probe(1, 2, 3, 4).replace(" 7.", " 7:")]
        {
            assert!(read(&[wrong]).is_empty());
        }
    }

    #[test]
    fn a_trace_of_another_time_does_not_belong_to_a_capture() {
        let windows = read(&[probe(1, 100, 0, 9), probe(900, 200, 0, 9)]);
        assert!(windows.covers(at(500)) && windows.covers(at(60_000)));
        assert!(!windows.covers(at(61_000)) && !Windows::default().covers(at(0)));
    }
}
