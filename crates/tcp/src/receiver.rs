use crate::linux_acks::{Arrival, LinuxAcks, Order};
use crate::receive_window::TunedWindow;
use crate::{DelayedAck, SackBlocks, TcpConfig};
use catnip_base::{Span, Time};

/// Receiving half of a connection: the data received so far and the times of ACKs.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    /// Next byte expected, RCV.NXT.
    rcv_nxt: u64,
    /// Ranges that arrived out of order, the most recently extended range first (the order of RFC 2018 blocks).
    out_of_order: Vec<(u64, u64)>,
    /// Number of ranges at the beginning of `out_of_order` that ACKs report.
    sack_count: usize,
    /// True if a range that did not fit into an ACK is never reported again (ns-2's SackStack).
    forgets_unreported: bool,
    /// True if ACKs report data that had arrived before (DSACK, RFC 2883).
    reports_dsack: bool,
    dsack: Option<(u64, u64)>,
    /// Receive window with auto-tuning; `None` if auto-tuning is off.
    tuned_window: Option<Box<TunedWindow>>,
    /// Number of segments received since the last ACK.
    unacknowledged: u32,
    /// Time at which the delayed ACK is due; `None` if no ACK is delayed.
    ack_due: Option<Time>,
    ack_now: bool,
    /// Arrival time of the last data; `None` before the first data.
    last_data_at: Option<Time>,
    /// Number of ACKs still to be sent immediately, regardless of the rule of delayed ACKs.
    quick_acks: u32,
    /// Delayed ACKs of Linux; `None` if the rule of RFC 5681 applies.
    linux_acks: Option<Box<LinuxAcks>>,
}

impl Receiver {
    /// Creates a receiver without data. With `forgets_unreported`, a range that did not fit into an ACK is never reported again.
    pub fn new(forgets_unreported: bool) -> Self {
        Self { forgets_unreported, ..Self::default() }
    }

    /// Sets whether ACKs report duplicate data (RFC 2883).
    pub fn with_dsack(self, reports_dsack: bool) -> Self {
        Self { reports_dsack, ..self }
    }

    /// Sets the receive window with auto-tuning; `None` turns auto-tuning off.
    pub(crate) fn with_tuned_window(self, tuned_window: Option<TunedWindow>) -> Self {
        Self { tuned_window: tuned_window.map(Box::new), ..self }
    }

    /// Sets the delayed ACKs of Linux; `None` leaves those of RFC 5681.
    pub(crate) fn with_linux_acks(self, linux_acks: Option<LinuxAcks>) -> Self {
        Self { linux_acks: linux_acks.map(Box::new), ..self }
    }

    /// Returns the receive window, bytes: the window with auto-tuning if auto-tuning is on, otherwise `default`.
    #[inline]
    pub(crate) fn window(&self, default: u64) -> u64 {
        self.tuned_window.as_ref().map_or(default, |tuned| tuned.window())
    }

    /// Handles the opening of the connection.
    pub(crate) fn on_open(&mut self, now: Time, config: &TcpConfig) {
        if let Some(tuned_window) = &mut self.tuned_window {
            tuned_window.on_open(now, config.window_scale());
        }
    }

    /// Handles data that echoes the timestamp `tsecr`, which was sent `round_trip` ago.
    pub(crate) fn on_tsecr(&mut self, tsecr: u32, round_trip: Span) {
        if let Some(tuned_window) = &mut self.tuned_window {
            tuned_window.on_tsecr(tsecr, round_trip);
        }
    }

    /// Returns the next byte expected, RCV.NXT.
    pub fn rcv_nxt(&self) -> u64 {
        self.rcv_nxt
    }

    /// Handles a segment with the sequence numbers from `seq` to `end`. `phase` is the time from the last beat of this host's ACK timer
    /// before the start of the run to the start of the run; it is used only if that timer is periodic.
    #[inline]
    pub fn on_data(&mut self, now: Time, seq: u64, end: u64, delayed: Option<&DelayedAck>, phase: Span) {
        let in_order = seq <= self.rcv_nxt && end > self.rcv_nxt;
        if self.reports_dsack {
            self.record_dsack(seq, end);
        }
        let mut filled_gap = false;
        if in_order {
            self.rcv_nxt = end;
            filled_gap = !self.out_of_order.is_empty();
            while let Some(i) = self.out_of_order.iter().position(|r| r.0 <= self.rcv_nxt) {
                self.rcv_nxt = self.rcv_nxt.max(self.remove_range(i).1);
            }
        } else if end > self.rcv_nxt {
            self.insert_range(seq, end);
        }
        self.unacknowledged += 1;
        let order = match (in_order, filled_gap) {
            (true, false) => Order::Next,
            (true, true) => Order::FillsGap,
            (false, _) if self.dsack.is_some() || end <= self.rcv_nxt => Order::Duplicate,
            (false, _) => Order::AboveGap,
        };
        let window_grows =
            order != Order::Duplicate && self.tuned_window.is_some() && self.update_window(now, seq, end);
        if self.linux_acks.is_some() {
            return self.schedule_linux_ack(now, end - seq, order, window_grows, delayed);
        }
        let nothing_missing = self.out_of_order.is_empty() && !filled_gap;
        let prev_data_at = self.last_data_at.replace(now);
        if let Some(d) = delayed
            && d.quick > 0
            && prev_data_at.is_none_or(|prev_data_at| now.since(prev_data_at) > d.quick_after)
        {
            self.quick_acks = d.quick;
        }
        let can_delay = |d: &&DelayedAck| {
            nothing_missing
                && self.quick_acks == 0
                && (in_order || d.delays_duplicates && end == self.rcv_nxt)
                && !(d.first_at_once && seq == 0)
        };
        match delayed.filter(can_delay) {
            Some(d) if self.unacknowledged < d.every => self.ack_due = Some(d.due(now, phase)),
            _ => self.ack_now = true,
        }
    }

    /// Handles data from `seq` to `end` that is not accepted (tcp_send_dupack): requests an immediate ACK, which reports it if it had arrived
    /// before.
    pub(crate) fn on_unacceptable(&mut self, seq: u64, end: u64) {
        if seq < self.rcv_nxt {
            self.dsack = Some((seq, end.min(self.rcv_nxt))).filter(|_| self.reports_dsack);
            self.enter_quick_acks(u32::MAX);
        }
        self.ack_now = true;
    }

    /// Requests an immediate ACK, regardless of the received data.
    pub fn request_ack(&mut self) {
        self.ack_now = true;
    }

    /// Requests an immediate ACK. At least `acks` ACKs, including this one, are sent without delay.
    pub(crate) fn enter_quick_acks(&mut self, acks: u32) {
        let window = self.linux_window();
        match &mut self.linux_acks {
            Some(linux_acks) => linux_acks.enter_quick_acks(acks, window),
            None => self.quick_acks = self.quick_acks.max(acks),
        }
        self.ack_now = true;
    }

    /// Returns true if an ACK must be sent at `now`.
    #[inline]
    pub fn needs_ack(&self, now: Time) -> bool {
        self.ack_now || self.ack_due.is_some_and(|due| due <= now)
    }

    /// Returns the time at which a delayed ACK is due; `None` if no ACK is delayed.
    pub fn deadline(&self) -> Option<Time> {
        self.ack_due
    }

    /// Handles the transmission of an ACK, with or without data.
    #[inline]
    pub fn on_ack_sent(&mut self) {
        self.unacknowledged = 0;
        self.quick_acks = self.quick_acks.saturating_sub(1);
        self.ack_due = None;
        self.ack_now = false;
        self.dsack = None;
    }

    /// Handles the transmission of an ACK by the rules of Linux, after [`Self::on_ack_sent`]. `with_data` is true if data carries it.
    pub(crate) fn on_linux_ack_sent(&mut self, now: Time, with_data: bool) {
        if let Some(linux_acks) = &mut self.linux_acks {
            linux_acks.on_ack_sent(self.rcv_nxt);
            if with_data {
                linux_acks.on_data_sent(now);
            }
        }
    }

    /// Handles the expiry of the ACK timer, if nothing else makes an ACK due at `now`.
    #[inline]
    pub(crate) fn on_ack_timer(&mut self, now: Time) {
        if let Some(linux_acks) = &mut self.linux_acks
            && !self.ack_now
        {
            linux_acks.on_timer(now);
        }
    }

    /// Sets this host's own RTO and SRTT, on which Linux's delayed ACKs depend. `estimates` is called only if they are needed.
    #[inline]
    pub(crate) fn set_estimates(&mut self, estimates: impl FnOnce() -> (Span, Option<Span>)) {
        if let Some(linux_acks) = &mut self.linux_acks {
            linux_acks.estimates = estimates();
        }
    }

    /// Returns the SACK blocks to report, the most recent block first.
    #[inline]
    pub fn sack(&self) -> SackBlocks {
        if self.dsack.is_some() {
            return self.sack_with_dsack();
        }
        if self.sack_count == 0 {
            return SackBlocks::default();
        }
        SackBlocks::new(self.rcv_nxt, self.out_of_order[..self.sack_count].iter().copied())
    }

    #[inline(never)]
    fn sack_with_dsack(&self) -> SackBlocks {
        SackBlocks::new(
            self.rcv_nxt,
            self.dsack.into_iter().chain(self.out_of_order[..self.sack_count].iter().copied()),
        )
    }

    /// Records a duplicate for the DSACK block. RFC 2883, section 4: "the first block of the SACK option ... reports the first duplicate
    /// contiguous sequence".
    #[inline(never)]
    fn record_dsack(&mut self, seq: u64, end: u64) {
        if seq < self.rcv_nxt {
            self.dsack = Some((seq, end.min(self.rcv_nxt)));
        } else if self.out_of_order.iter().any(|range| range.0 <= seq && end <= range.1) {
            self.dsack = Some((seq, end));
        }
    }

    /// Schedules the ACK of a segment of `len` bytes by the rules of Linux.
    #[inline(never)]
    fn schedule_linux_ack(
        &mut self,
        now: Time,
        len: u64,
        order: Order,
        window_grows: bool,
        delayed: Option<&DelayedAck>,
    ) {
        let window = self.linux_window();
        let Some(linux_acks) = &mut self.linux_acks else { return };
        let tuned = self.tuned_window.as_ref();
        let arrival = Arrival {
            now,
            len,
            order,
            rcv_nxt: self.rcv_nxt,
            has_gap: !self.out_of_order.is_empty(),
            window,
            window_grows,
            rcv_rtt: tuned.map_or(Span::ZERO, |tuned| tuned.round_trip()),
        };
        let sack_delay = delayed.map_or(Span::ZERO, |delayed| delayed.sack_delay);
        self.ack_now |= linux_acks.on_data(&arrival, sack_delay);
        self.ack_due = linux_acks.deadline();
    }

    /// Returns the receive window on which Linux's ACKs depend, bytes; zero without these rules.
    fn linux_window(&self) -> u64 {
        self.linux_acks.as_ref().map_or(0, |acks| self.window(acks.fixed_window))
    }

    /// Updates the receive window after the arrival of new data. Returns true if the window grows.
    #[inline(never)]
    fn update_window(&mut self, now: Time, seq: u64, end: u64) -> bool {
        let highest = self.out_of_order.iter().map(|range| range.1).max();
        let ooo_len = highest.map_or(0, |end| end - self.rcv_nxt);
        self.tuned_window.as_mut().is_some_and(|tuned| tuned.on_data(now, (seq, end), self.rcv_nxt, ooo_len))
    }

    fn insert_range(&mut self, seq: u64, end: u64) {
        let mut range = (seq, end);
        while let Some(i) = self.out_of_order.iter().position(|r| r.0 <= range.1 && r.1 >= range.0) {
            let r = self.remove_range(i);
            range = (range.0.min(r.0), range.1.max(r.1));
        }
        self.out_of_order.insert(0, range);
        self.sack_count = if self.forgets_unreported {
            SackBlocks::MAX.min(self.sack_count + 1)
        } else {
            self.out_of_order.len()
        };
    }

    fn remove_range(&mut self, i: usize) -> (u64, u64) {
        self.sack_count -= usize::from(i < self.sack_count);
        self.out_of_order.remove(i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DELAYED: DelayedAck = DelayedAck {
        every: 2,
        max_delay: Span::from_millis(200),
        first_at_once: false,
        delays_duplicates: false,
        heartbeat: false,
        quick: 0,
        quick_after: Span::ZERO,
        linux: false,
        sack_delay: Span::ZERO,
    };

    #[test]
    fn every_second_segment_in_order_is_acknowledged_and_the_last_one_after_200_ms() {
        let mut r = Receiver::default();
        r.on_data(Time::ZERO, 0, 10, Some(&DELAYED), Span::ZERO);
        assert!(!r.needs_ack(Time::ZERO));
        assert_eq!(r.deadline(), Some(Time::from_nanos(200_000_000)));
        assert!(r.needs_ack(Time::from_nanos(200_000_000)));
        r.on_data(Time::ZERO, 10, 20, Some(&DELAYED), Span::ZERO);
        assert!(r.needs_ack(Time::ZERO));
    }

    #[test]
    fn a_fixed_window_bounds_the_quick_acks_of_linux_by_half_of_what_it_holds() {
        // tcp_incr_quickack: rcv_wnd / (2 * rcv_mss), 13 / 2.
        let linux = DelayedAck { every: 2, quick: 16, linux: true, ..DELAYED };
        let acks = LinuxAcks::new(16, 1000, 13_000, Span::from_secs(1), None);
        let mut receiver = Receiver::default().with_linux_acks(Some(acks));
        let mut at_once = Vec::new();
        for n in 0..10 {
            receiver.on_data(ms(n), 1000 * n, 1000 * (n + 1), Some(&linux), Span::ZERO);
            at_once.push(receiver.needs_ack(ms(n)));
            if receiver.needs_ack(ms(n)) {
                receiver.on_ack_sent();
                receiver.on_linux_ack_sent(ms(n), false);
            }
        }
        assert_eq!(at_once, [true, true, true, true, true, true, false, true, false, true]);
    }

    #[test]
    fn quick_acks_answer_the_first_segments_at_once_and_the_first_ones_after_a_silence() {
        let quick = DelayedAck { quick: 3, quick_after: Span::from_millis(400), ..DELAYED };
        let mut r = Receiver::default();
        let mut on_data = |at, seq: u64| {
            r.on_data(ms(at), seq, seq + 10, Some(&quick), Span::ZERO);
            let at_once = r.needs_ack(ms(at));
            if at_once {
                r.on_ack_sent();
            }
            at_once
        };
        assert_eq!([0, 10, 20, 30, 40].map(|seq| on_data(10, seq)), [true, true, true, false, true]);
        // tcp_event_data_recv: "else if (m > icsk->icsk_rto) tcp_incr_quickack(sk)".
        assert_eq!([50, 60].map(|seq| on_data(410, seq)), [false, true], "400 ms are no such silence");
        assert_eq!([70, 80, 90, 100].map(|seq| on_data(811, seq)), [true, true, true, false]);
    }

    #[test]
    fn a_heartbeat_acknowledges_at_its_next_beat_whenever_the_segment_came() {
        let heartbeat = DelayedAck { heartbeat: true, ..DELAYED };
        let due = |now_ms, phase_ms| {
            let mut r = Receiver::default();
            r.on_data(ms(now_ms), 0, 10, Some(&heartbeat), Span::from_millis(phase_ms));
            r.deadline()
        };
        // With a phase of 50 ms, the beats are at 150, 350 and 550 ms.
        assert_eq!(due(0, 50), Some(ms(150)));
        assert_eq!(due(149, 50), Some(ms(150)));
        assert_eq!(due(150, 50), Some(ms(350)), "a beat that is now has passed");
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    #[test]
    fn segments_out_of_order_and_those_that_fill_a_gap_are_acknowledged_at_once() {
        let mut r = Receiver::default();
        r.on_data(Time::ZERO, 10, 20, Some(&DELAYED), Span::ZERO);
        assert!(r.needs_ack(Time::ZERO), "out of order");
        r.on_ack_sent();
        r.on_data(Time::ZERO, 0, 10, Some(&DELAYED), Span::ZERO);
        assert!(r.needs_ack(Time::ZERO), "fills the gap (RFC 5681, section 4.2)");
        assert_eq!(r.rcv_nxt(), 20);
    }

    #[test]
    fn the_first_block_holds_the_most_recent_segment() {
        let mut r = Receiver::default();
        for (seq, end) in [(20, 30), (60, 70), (40, 50), (30, 35)] {
            r.on_data(Time::ZERO, seq, end, None, Span::ZERO);
        }
        assert_eq!(r.sack().ranges(r.rcv_nxt()).collect::<Vec<_>>(), [(20, 35), (40, 50), (60, 70)]);
    }

    /// Returns a receiver with delayed ACKs that has received `ranges` and has sent an ACK.
    fn holding(ranges: &[(u64, u64)]) -> Receiver {
        let mut r = Receiver::default();
        for &(seq, end) in ranges {
            r.on_data(Time::ZERO, seq, end, Some(&DELAYED), Span::ZERO);
        }
        r.on_ack_sent();
        r
    }

    #[test]
    fn a_segment_that_fills_a_part_of_a_gap_is_acknowledged_at_once() {
        let mut r = holding(&[(20, 30)]);
        // RFC 5681, section 4.2: "A TCP receiver SHOULD send an immediate ACK when the incoming segment fills in all or part
        // of a gap in the sequence space."
        r.on_data(Time::ZERO, 0, 10, Some(&DELAYED), Span::ZERO);
        assert!(r.needs_ack(Time::ZERO));
        assert_eq!((r.rcv_nxt(), r.sack().len()), (10, 1));
    }

    #[test]
    fn what_had_arrived_before_is_acknowledged_at_once_and_changes_nothing() {
        // The repetition of the last segment, and of the segment before it.
        for (seq, end) in [(10, 20), (0, 10)] {
            let mut r = holding(&[(0, 10), (10, 20)]);
            // RFC 9293, section 3.10.7.4: "If an incoming segment is not acceptable, an acknowledgment should be sent in
            // reply".
            r.on_data(Time::ZERO, seq, end, Some(&DELAYED), Span::ZERO);
            assert!(r.needs_ack(Time::ZERO));
            assert_eq!((r.rcv_nxt(), r.sack().len(), r.deadline()), (20, 0, None));
        }
    }

    #[test]
    fn a_repetition_of_the_newest_segment_waits_in_ns_2_where_nothing_is_missing() {
        let patient = DelayedAck { delays_duplicates: true, ..DELAYED };
        // The newest segment, an older segment, and the newest segment in order while a gap exists above it.
        for (ranges, seq, waits) in [(2, 10, true), (2, 0, false), (3, 10, false)] {
            let mut r = holding(&[(0, 10), (10, 20), (30, 40)][..ranges]);
            r.on_data(Time::ZERO, seq, seq + 10, Some(&patient), Span::ZERO);
            assert_eq!(r.needs_ack(Time::ZERO), !waits, "{ranges} {seq}");
            assert_eq!(r.deadline().is_some(), waits);
        }
        // The repetition counts as one segment, so the next segment is the second one.
        let mut r = holding(&[(0, 10)]);
        r.on_data(Time::ZERO, 0, 10, Some(&patient), Span::ZERO);
        r.on_data(Time::ZERO, 10, 20, Some(&patient), Span::ZERO);
        assert!(r.needs_ack(Time::ZERO));
    }

    #[test]
    fn a_segment_of_which_a_part_had_arrived_counts_from_where_it_is_new() {
        let mut r = holding(&[(0, 10), (30, 40)]);
        r.on_data(Time::ZERO, 5, 25, None, Span::ZERO);
        assert_eq!((r.rcv_nxt(), r.sack().ranges(25).next()), (25, Some((30, 40))));
        r.on_data(Time::ZERO, 20, 35, None, Span::ZERO);
        assert_eq!((r.rcv_nxt(), r.sack().len()), (40, 0), "up to the end of what was there");
    }

    #[test]
    fn without_delayed_acks_every_segment_is_acknowledged_at_once() {
        let mut r = Receiver::default();
        r.on_data(Time::ZERO, 0, 10, None, Span::ZERO);
        assert!(r.needs_ack(Time::ZERO));
        assert_eq!(r.deadline(), None);
    }

    #[test]
    fn ns_2_acknowledges_the_first_segment_of_a_connection_at_once_and_delays_from_the_second_one_on() {
        let first_at_once = DelayedAck { first_at_once: true, ..DELAYED };
        let mut r = Receiver::default();
        r.on_data(Time::ZERO, 0, 10, Some(&first_at_once), Span::ZERO);
        assert!(r.needs_ack(Time::ZERO));
        r.on_ack_sent();
        r.on_data(Time::ZERO, 10, 20, Some(&first_at_once), Span::ZERO);
        assert!(!r.needs_ack(Time::ZERO));
    }

    #[test]
    fn an_ack_that_was_sent_ends_the_delay_and_the_count_begins_anew() {
        let mut r = Receiver::default();
        r.on_data(Time::ZERO, 0, 10, Some(&DELAYED), Span::ZERO);
        r.on_ack_sent();
        assert_eq!(r.deadline(), None);
        assert!(!r.needs_ack(ms(1000)));
        // RFC 5681, section 4.2: "an ACK SHOULD be generated for at least every second full-sized segment".
        r.on_data(Time::ZERO, 10, 20, Some(&DELAYED), Span::ZERO);
        assert!(!r.needs_ack(Time::ZERO), "the first one since the ACK");
        r.on_data(ms(5), 20, 30, Some(&DELAYED), Span::ZERO);
        assert!(r.needs_ack(ms(5)), "the second one");
    }

    #[test]
    fn an_ack_can_be_asked_for() {
        let mut r = Receiver::default();
        assert!(!r.needs_ack(ms(1000)));
        r.request_ack();
        assert!(r.needs_ack(Time::ZERO));
    }

    #[test]
    fn three_blocks_are_reported_at_most_the_most_recent_ones_first() {
        let mut r = Receiver::default();
        // RFC 2018, section 4: "The first SACK block ... MUST specify the contiguous block of data containing the segment
        // which triggered this ACK". Three fit beside a timestamp (section 3).
        for (seq, end) in [(10, 20), (30, 40), (50, 60), (70, 80)] {
            r.on_data(Time::ZERO, seq, end, None, Span::ZERO);
        }
        assert_eq!(r.sack().ranges(0).collect::<Vec<_>>(), [(70, 80), (50, 60), (30, 40)]);
        // The range of a repeated segment counts as the most recent one, too.
        r.on_data(Time::ZERO, 52, 55, None, Span::ZERO);
        assert_eq!(r.sack().ranges(0).collect::<Vec<_>>(), [(50, 60), (70, 80), (30, 40)]);
    }

    #[test]
    fn a_block_that_did_not_fit_comes_back_when_another_one_is_filled_but_not_in_ns_2() {
        for (forgets_unreported, after) in [(false, &[(70, 80), (10, 20)][..]), (true, &[(70, 80)])] {
            let mut r = Receiver::new(forgets_unreported);
            for (seq, end) in [(10, 20), (30, 40), (50, 60), (70, 80)] {
                r.on_data(Time::ZERO, seq, end, None, Span::ZERO);
            }
            assert_eq!(r.sack().ranges(0).collect::<Vec<_>>(), [(70, 80), (50, 60), (30, 40)]);
            // The range from 30 to 40 merges with the range from 50 to 60.
            r.on_data(Time::ZERO, 40, 50, None, Span::ZERO);
            let mut blocks = r.sack().ranges(0).collect::<Vec<_>>();
            assert_eq!(blocks.remove(0), (30, 60));
            assert_eq!(blocks, after);
        }
    }

    #[test]
    fn ranges_that_touch_become_one() {
        for middle in [(20, 30), (15, 35), (10, 40)] {
            let mut r = holding(&[(10, 20), (30, 40)]);
            r.on_data(Time::ZERO, middle.0, middle.1, None, Span::ZERO);
            assert_eq!(r.sack().ranges(0).collect::<Vec<_>>(), [(10, 40)], "{middle:?}");
        }
        let mut r = holding(&[(10, 20), (30, 40)]);
        r.on_data(Time::ZERO, 21, 29, None, Span::ZERO);
        assert_eq!(r.sack().len(), 3);
    }

    proptest! {
        #[test]
        fn any_order_of_arrival_ends_complete(order in Just((0u64..24).collect::<Vec<_>>()).prop_shuffle()) {
            let mut r = Receiver::default();
            for i in order {
                r.on_data(Time::ZERO, i * 7, i * 7 + 7, None, Span::ZERO);
                r.on_data(Time::ZERO, i * 7, i * 7 + 7, None, Span::ZERO);
            }
            prop_assert_eq!((r.rcv_nxt(), r.sack().len()), (24 * 7, 0));
        }
    }
}
