use crate::segment::earlier;
use crate::timer_wheel;
use catnip_base::{Span, Time};

/// Delayed ACKs of Linux (net/ipv4/tcp_input.c, tcp_output.c and tcp_timer.c, 6.18), with an application that reads what has arrived at
/// once. The delay follows the time between arrivals. A host that answers requests is in a conversation: its ACKs wait for the answers.
#[derive(Clone, Debug)]
pub(crate) struct LinuxAcks {
    /// Maximum number of quick ACKs, TCP_MAX_QUICKACKS.
    max_quick: u32,
    /// Maximum number of bytes in a segment (advmss).
    segment: u64,
    /// Receive window of a connection without auto-tuning, bytes.
    pub(crate) fixed_window: u64,
    /// Phase of the timer wheel; `None` if the ACK timer expires on time.
    wheel_phase: Option<Span>,
    /// RTO and SRTT of this host's own data; SRTT is `None` before its first sample.
    pub(crate) estimates: (Span, Option<Span>),
    /// Delay of the next ACK, icsk_ack.ato; `None` before the first data.
    ato: Option<Span>,
    /// Number of ACKs still to be sent at once (icsk_ack.quick).
    quick: u32,
    /// True in a conversation (pingpong mode).
    is_conversation: bool,
    /// True if data has arrived since the last ACK (ICSK_ACK_SCHED).
    is_scheduled: bool,
    /// Number of short segments since the last ACK, up to two (ICSK_ACK_PUSHED and ICSK_ACK_PUSHED2).
    short_segments: u32,
    /// Arrival time of the last data in order (lrcvtime).
    last_data_at: Time,
    /// RCV.NXT when the last ACK was sent (rcv_wup).
    rcv_wup: u64,
    /// Size of the peer's full segments (rcv_mss).
    rcv_mss: u64,
    /// Expiry time of the ACK timer; `None` if it is off.
    due: Option<Time>,
    /// Number of ACKs that SACK compression has held back since the last ACK (compressed_ack).
    compressed: u32,
    /// Expiry time of the timer of SACK compression; `None` if it is off.
    compressed_due: Option<Time>,
    /// RCV.NXT, and the number of ACKs since its last change that SACK compression could hold back (dup_ack_counter).
    dup_ack_counter: (u64, u32),
}

/// Arrival of a segment with data, or with a FIN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) now: Time,
    /// Number of bytes.
    pub(crate) len: u64,
    /// Place of the segment in the data received before.
    pub(crate) order: Order,
    /// RCV.NXT after the arrival.
    pub(crate) rcv_nxt: u64,
    /// True if data waits above a gap after the arrival.
    pub(crate) has_gap: bool,
    /// Receive window, bytes.
    pub(crate) window: u64,
    /// True if the arrival makes the receive window grow.
    pub(crate) window_grows: bool,
    /// RTT estimate of the receiver (rcv_rtt_est); zero before its first sample.
    pub(crate) rcv_rtt: Span,
}

/// Place of a segment in the data received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Next data, without any above it.
    Next,
    /// Next data, which fills a gap or a part of it.
    FillsGap,
    /// Data above a gap.
    AboveGap,
    /// Data that had arrived before.
    Duplicate,
}

/// Minimum delay of an ACK, TCP_DELACK_MIN and TCP_ATO_MIN.
const MIN_DELAY: Span = Span::from_millis(40);
/// Maximum delay in a conversation or after a short segment: one tick below the minimum RTO (tcp_delack_max).
const MAX_DELAY: Span = Span::from_millis(196);
/// Initial estimate of the peer's segment size, TCP_MSS_DEFAULT.
pub(crate) const INITIAL_RCV_MSS: u64 = 536;
/// Maximum number of compressed ACKs, tcp_comp_sack_nr.
const MAX_COMPRESSED_ACKS: u32 = 44;
/// Number of duplicate ACKs that are never compressed, so that any sender can detect a loss.
const UNCOMPRESSED_ACKS: u32 = 3;
/// Slack of the timer of SACK compression (tcp_comp_sack_slack_ns).
const COMPRESSION_SLACK: Span = Span::from_micros(100);

impl LinuxAcks {
    /// Creates the state of a new connection that expects segments of `segment` bytes, and acknowledges the first `max_quick` of them at
    /// once. `fixed_window` is the receive window without auto-tuning, and `rto` is this host's initial RTO. `wheel_phase` is the phase of
    /// the timer wheel; `None` if the ACK timer expires on time.
    pub(crate) fn new(
        max_quick: u32,
        segment: u64,
        fixed_window: u64,
        rto: Span,
        wheel_phase: Option<Span>,
    ) -> Self {
        Self {
            max_quick,
            segment,
            fixed_window,
            wheel_phase,
            estimates: (rto, None),
            ato: None,
            quick: 0,
            is_conversation: false,
            is_scheduled: false,
            short_segments: 0,
            last_data_at: Time::ZERO,
            rcv_wup: 0,
            rcv_mss: INITIAL_RCV_MSS.min(segment),
            due: None,
            compressed: 0,
            compressed_due: None,
            dup_ack_counter: (0, 0),
        }
    }

    /// Handles the arrival of data. `sack_delay` is the maximum delay of SACK compression; zero turns it off. Returns true if an ACK must be
    /// sent at once.
    pub(crate) fn on_data(&mut self, arrival: &Arrival, sack_delay: Span) -> bool {
        self.is_scheduled = true;
        match arrival.order {
            Order::Next | Order::FillsGap => self.on_new_data(arrival),
            Order::Duplicate => self.enter_quick_acks(self.max_quick, arrival.window),
            Order::AboveGap => {}
        }
        // tcp_grow_window: "quick |= 1".
        self.quick |= u32::from(arrival.window_grows);
        // RFC 5681, section 4.2: the ACK of the segment that fills the last gap.
        let fills_last_gap = arrival.order == Order::FillsGap && !arrival.has_gap;
        if self.is_more_than_a_segment(arrival.rcv_nxt) || self.is_quick() || fills_last_gap {
            return true;
        }
        if !arrival.has_gap {
            return self.is_hastened_by_short_segments() || self.delay(arrival);
        }
        if sack_delay == Span::ZERO || self.compressed >= MAX_COMPRESSED_ACKS {
            return true;
        }
        self.compress(arrival, sack_delay)
    }

    /// Requests ACKs at once for the next `count` segments, and ends the conversation (tcp_enter_quickack_mode). `window` is the receive
    /// window.
    pub(crate) fn enter_quick_acks(&mut self, count: u32, window: u64) {
        self.raise_quick(count.min(self.max_quick), window);
        self.is_conversation = false;
        self.ato = Some(MIN_DELAY);
    }

    /// Returns the time at which an ACK is due; `None` if no ACK waits.
    pub(crate) fn deadline(&self) -> Option<Time> {
        earlier(self.due, self.compressed_due)
    }

    /// Handles the expiry of the ACK timer (tcp_delack_timer_handler), if it has expired by `now`.
    #[inline(never)]
    pub(crate) fn on_timer(&mut self, now: Time) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        self.ato = match std::mem::take(&mut self.is_conversation) {
            // "Delayed ACK missed: leave pingpong mode and deflate ATO."
            true => Some(MIN_DELAY),
            // "Delayed ACK missed: inflate ATO."
            false => self.ato.map(|ato| (ato * 2).min(self.estimates.0)),
        };
    }

    /// Handles the transmission of an ACK, with or without data (tcp_event_ack_sent).
    #[inline]
    pub(crate) fn on_ack_sent(&mut self, rcv_nxt: u64) {
        if self.quick > 0 && self.is_scheduled {
            self.quick -= 1;
            if self.quick == 0 {
                // "Leaving quickack mode we deflate ATO."
                self.ato = Some(MIN_DELAY);
            }
        }
        self.rcv_wup = rcv_nxt;
        (self.is_scheduled, self.short_segments) = (false, 0);
        (self.due, self.compressed, self.compressed_due) = (None, 0, None);
    }

    /// Handles the transmission of data at `now`: an answer within the delay begins a conversation (tcp_event_data_sent).
    #[inline]
    pub(crate) fn on_data_sent(&mut self, now: Time) {
        self.is_conversation |= self.ato.is_some_and(|ato| now.since(self.last_data_at) < ato);
    }

    /// Updates the delay and the quick ACKs (tcp_event_data_recv).
    fn on_new_data(&mut self, arrival: &Arrival) {
        if arrival.len >= self.rcv_mss {
            self.rcv_mss = arrival.len.min(self.segment);
        } else {
            self.short_segments = (self.short_segments + 1).min(2);
        }
        let gap = arrival.now.since(self.last_data_at);
        self.ato = Some(match self.ato {
            None => {
                self.raise_quick(self.max_quick, arrival.window);
                MIN_DELAY
            }
            Some(ato) if gap <= MIN_DELAY / 2 => ato / 2 + MIN_DELAY / 2,
            Some(ato) if gap < ato => (ato / 2 + gap).min(self.estimates.0),
            Some(ato) => {
                if gap > self.estimates.0 {
                    self.raise_quick(self.max_quick, arrival.window);
                }
                ato
            }
        });
        self.last_data_at = arrival.now;
    }

    /// Raises the number of quick ACKs to `count`, or to what half of the window holds (tcp_incr_quickack).
    fn raise_quick(&mut self, count: u32, window: u64) {
        let held = (window / (2 * self.rcv_mss)).min(u64::from(count)) as u32;
        self.quick = self.quick.max(if held == 0 { count.min(2) } else { held });
    }

    fn is_quick(&self) -> bool {
        self.quick > 0 && !self.is_conversation
    }

    fn is_more_than_a_segment(&self, rcv_nxt: u64) -> bool {
        rcv_nxt - self.rcv_wup > self.rcv_mss
    }

    /// Returns true if the application has read all that a short segment ended (tcp_cleanup_rbuf).
    fn is_hastened_by_short_segments(&self) -> bool {
        self.short_segments >= 2 || self.short_segments == 1 && !self.is_conversation
    }

    /// Starts the ACK timer (tcp_send_delayed_ack). Returns true if the timer that runs is about to expire, so that the ACK is sent at once.
    fn delay(&mut self, arrival: &Arrival) -> bool {
        let mut ato = self.ato.unwrap_or(MIN_DELAY);
        if ato > MIN_DELAY {
            let is_interactive = self.is_conversation || self.short_segments > 0;
            let longest = if is_interactive { Span::from_millis(200) } else { Span::from_millis(500) };
            ato = ato.min(self.estimates.1.map_or(longest, |srtt| srtt.max(MIN_DELAY).min(longest)));
        }
        ato = ato.min(MAX_DELAY);
        let due = match self.wheel_phase {
            Some(phase) => timer_wheel::expiry(arrival.now, ato, phase),
            None => arrival.now + ato,
        };
        if let Some(running) = self.due {
            if running <= arrival.now + ato / 4 {
                return true;
            }
            self.due = Some(due.min(running));
        } else {
            self.due = Some(due);
        }
        false
    }

    /// Holds back the ACK of data above a gap (__tcp_ack_snd_check). Returns true if it must be sent at once.
    fn compress(&mut self, arrival: &Arrival, sack_delay: Span) -> bool {
        if self.dup_ack_counter.0 != arrival.rcv_nxt {
            self.dup_ack_counter = (arrival.rcv_nxt, 0);
        }
        if self.dup_ack_counter.1 < UNCOMPRESSED_ACKS {
            self.dup_ack_counter.1 += 1;
            return true;
        }
        self.compressed += 1;
        if self.compressed_due.is_none() {
            let rtt = self.estimates.1.map_or(arrival.rcv_rtt, |srtt| srtt.min(arrival.rcv_rtt));
            self.compressed_due = Some(arrival.now + sack_delay.min(rtt / 20) + COMPRESSION_SLACK);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    const MS: fn(u64) -> Span = Span::from_millis;

    /// Host that receives segments of 1000 bytes, and sends each ACK when it is due.
    struct Host {
        acks: LinuxAcks,
        rcv_nxt: u64,
    }

    impl Host {
        /// Creates a host with an RTO of 300 ms that sends at most `quick` quick ACKs.
        fn new(quick: u32) -> Self {
            Self { acks: LinuxAcks::new(quick, 1000, 1 << 16, MS(300), None), rcv_nxt: 0 }
        }

        /// Receives `len` bytes in order. Returns the delay of their ACK in milliseconds.
        fn receive(&mut self, at_ms: u64, len: u64) -> u64 {
            self.rcv_nxt += len;
            self.arrive(at_ms, len, Order::Next)
        }

        fn arrive(&mut self, at_ms: u64, len: u64, order: Order) -> u64 {
            let arrival = Arrival {
                now: ms(at_ms),
                len,
                order,
                rcv_nxt: self.rcv_nxt,
                has_gap: order == Order::AboveGap,
                window: 1 << 16,
                window_grows: false,
                rcv_rtt: MS(10),
            };
            if self.acks.on_data(&arrival, MS(1)) {
                self.acks.on_ack_sent(self.rcv_nxt);
                return 0;
            }
            let due = self.acks.deadline().expect("an ACK that is not sent waits");
            (due - ms(at_ms)).in_units_of(MS(1))
        }

        /// Lets the ACK timer expire.
        fn expire(&mut self) {
            let due = self.acks.deadline().unwrap();
            self.acks.on_timer(due);
            self.acks.on_ack_sent(self.rcv_nxt);
        }

        fn answer(&mut self, at_ms: u64) {
            self.acks.on_ack_sent(self.rcv_nxt);
            self.acks.on_data_sent(ms(at_ms));
        }
    }

    #[test]
    fn the_first_segments_are_acknowledged_at_once_and_then_every_second_one() {
        let mut host = Host::new(3);
        let delays: Vec<u64> = (0..6).map(|n| host.receive(10 + n, 1000)).collect();
        assert_eq!(delays, [0, 0, 0, 40, 0, 40]);
    }

    #[test]
    fn quick_acks_are_as_many_as_half_of_the_window_holds_and_two_at_least() {
        // tcp_incr_quickack: rcv_wnd / (2 * rcv_mss), "if (quickacks == 0) quickacks = 2".
        for (window, expected) in [(1 << 16, 16), (10_000, 5), (1000, 2)] {
            let mut acks = LinuxAcks { rcv_mss: 1000, ..LinuxAcks::new(16, 1000, 1 << 16, MS(300), None) };
            acks.raise_quick(16, window);
            assert_eq!(acks.quick, expected);
        }
    }

    #[test]
    fn acks_are_quick_again_after_a_silence_longer_than_the_host_s_own_rto() {
        let mut host = Host::new(1);
        assert_eq!([host.receive(0, 1000), host.receive(1, 1000), host.receive(2, 1000)], [0, 40, 0]);
        // tcp_event_data_recv: "else if (m > icsk->icsk_rto) tcp_incr_quickack(sk)".
        assert_eq!([host.receive(302, 1000), host.receive(303, 1000)], [40, 0], "300 ms are no such silence");
        assert_eq!([host.receive(604, 1000), host.receive(605, 1000)], [0, 40]);
    }

    #[test]
    fn the_delay_follows_the_time_between_segments_and_falls_to_forty_milliseconds() {
        let mut host = Host::new(1);
        host.receive(0, 1000);
        // The timer expires twice: 40 ms become 80, and 160.
        assert_eq!(host.receive(100, 1000), 40);
        host.expire();
        assert_eq!(host.receive(200, 1000), 80);
        host.expire();
        // tcp_event_data_recv: half of it and the time since the last segment, 160 / 2 + 100.
        assert_eq!(host.receive(300, 1000), 180);
        // Half of it and 20 ms for what follows closely; a second full segment is acknowledged at once.
        assert_eq!(host.receive(310, 1000), 0);
        assert_eq!(host.receive(315, 1000), 75, "180, 110, and 75");
    }

    #[test]
    fn a_delay_is_at_most_the_round_trip_but_forty_milliseconds_at_least() {
        // tcp_send_delayed_ack: srtt, or 500 ms without one, and never more than one tick below the minimum RTO.
        for (srtt, expected) in [(Some(100), 100), (Some(10), 40), (None, 196)] {
            let mut host = Host::new(1);
            host.receive(0, 1000);
            host.acks.ato = Some(MS(250));
            host.acks.estimates.1 = srtt.map(MS);
            assert_eq!(host.receive(250, 1000), expected);
        }
    }

    #[test]
    fn a_short_segment_that_the_application_has_read_is_acknowledged_at_once_outside_of_a_conversation() {
        let mut host = Host::new(1);
        host.receive(0, 1000);
        assert_eq!(host.receive(100, 300), 0);
        assert_eq!(host.receive(200, 1000), 40, "a full one");
        host.answer(210);
        // tcp_cleanup_rbuf: ICSK_ACK_PUSHED does not suffice in a conversation, ICSK_ACK_PUSHED2 does.
        assert_eq!([host.receive(300, 300), host.receive(305, 300)], [40, 0]);
    }

    #[test]
    fn an_answer_within_the_delay_begins_a_conversation_and_a_late_ack_ends_it() {
        let mut host = Host::new(16);
        assert_eq!(host.receive(0, 1000), 0);
        host.answer(39);
        assert_eq!(host.receive(100, 1000), 40, "quick ACKs are over");
        host.expire();
        assert_eq!(host.receive(200, 1000), 0);
        host.answer(240);
        assert_eq!(host.receive(300, 1000), 0, "40 ms are no answer within the delay");
    }

    #[test]
    fn a_duplicate_ends_a_conversation_and_makes_acks_quick() {
        let mut host = Host::new(16);
        host.receive(0, 1000);
        host.answer(10);
        assert_eq!(host.arrive(50, 1000, Order::Duplicate), 0);
        assert_eq!([host.receive(60, 1000), host.receive(61, 1000)], [0, 0]);
    }

    #[test]
    fn reports_after_the_third_wait_for_a_twentieth_of_the_round_trip_and_the_slack_of_the_timer() {
        let mut host = Host::new(1);
        host.receive(0, 1000);
        let mut report = |at_ms| host.arrive(at_ms, 1000, Order::AboveGap);
        assert_eq!([5, 5, 5].map(&mut report), [0; 3]);
        report(5);
        assert_eq!(host.acks.deadline(), Some(ms(5) + Span::from_micros(500 + 100)));
        assert_eq!(host.acks.compressed, 1);
        host.arrive(5, 1000, Order::AboveGap);
        assert_eq!(host.acks.deadline(), Some(ms(5) + Span::from_micros(600)), "the first one's time counts");
    }
}
