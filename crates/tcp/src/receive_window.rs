use crate::linux_acks::INITIAL_RCV_MSS;
use catnip_base::{Span, Time};

/// Receive window with auto-tuning as in Linux (net/ipv4/tcp_input.c, 6.18). The offered window grows by two segments for each segment that
/// arrives, up to a bound. The bound grows with the data that the application, which reads what is in order at once, reads within a round
/// trip. It matters because each segment is acknowledged immediately while the window grows, and because data above a gap occupies the buffer.
#[derive(Clone, Debug)]
pub(crate) struct TunedWindow {
    segment: u64,
    /// Size of the peer's full segments, rcv_mss, bytes. Until data of this size has arrived in order, the window does not grow.
    rcv_mss: u64,
    /// Share of the buffer that data may occupy, scaling_ratio, in 256ths.
    scaling_ratio: u64,
    /// Size of the receive buffer, sk_rcvbuf, bytes.
    rcvbuf: u64,
    /// Largest window to offer at present, rcv_ssthresh, bytes.
    rcv_ssthresh: u64,
    /// Byte after the last one that has been offered (rcv_wup + rcv_wnd). No later ACK takes it back.
    offered_end: u64,
    /// Unit of the window field, bytes. The low bits of a window are not transmitted, except in SYNs.
    unit: u64,
    /// Bound of the offered window, window_clamp, bytes.
    window_clamp: u64,
    /// Maximum value of the bound, bytes.
    max_window: u64,
    /// Number of segments that were released by one that filled a gap, with it, until its ACK is sent: they are read after that.
    unread: u64,
    /// Largest number of bytes that the application has read within a round trip, rcvq_space.
    rcvq_space: u64,
    /// Start of the current measurement of `rcvq_space`: its time and its byte.
    space_start: (Time, u64),
    /// RTT estimate of the receiver, times eight, nanoseconds; zero before the first sample.
    rcv_rtt_8: u64,
    /// Last echoed timestamp; zero before the first one. A later timestamp belongs to another round trip.
    last_tsecr: u32,
    /// Start of the current RTT measurement, and the byte that ends it, one offered window later.
    window_round: Option<(Time, u64)>,
}

/// Data that arrives at a [`TunedWindow`], not all of which had arrived before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// First byte, and the one after the last.
    pub(crate) bytes: (u64, u64),
    /// Number of full segments that were held above a gap when it arrived.
    pub(crate) held: u64,
    /// Next byte expected, RCV.NXT, after its arrival.
    pub(crate) rcv_nxt: u64,
    /// Number of bytes from `rcv_nxt` to the end of what is held above a gap after its arrival.
    pub(crate) ooo_len: u64,
}

/// Receive buffer of a new connection, tcp_rmem\[1\], bytes.
const RCVBUF: u64 = 131_072;
/// Scaling ratio before any data, TCP_DEFAULT_SCALING_RATIO.
const DEFAULT_SCALING_RATIO: u64 = 128;
/// Initial window, TCP_INIT_CWND, segments.
const INITIAL_SEGMENTS: u64 = 10;
/// Bytes of the timestamp option in each segment.
const TIMESTAMPS: u64 = 12;

impl TunedWindow {
    /// Creates the window of a new connection. Its segments have `segment` bytes, and it never offers more than `max_window` bytes.
    pub(crate) fn new(now: Time, segment: u64, max_window: u64) -> Self {
        // The initial window is half of the buffer, in whole segments with timestamps.
        let full_segment = segment + TIMESTAMPS;
        let rcv_ssthresh = (RCVBUF / 2 / full_segment * full_segment).min(max_window);
        Self {
            segment,
            rcv_mss: INITIAL_RCV_MSS.min(segment - 1),
            scaling_ratio: DEFAULT_SCALING_RATIO,
            rcvbuf: RCVBUF,
            rcv_ssthresh,
            offered_end: 0,
            unread: 0,
            unit: 1,
            window_clamp: rcv_ssthresh,
            max_window,
            rcvq_space: rcv_ssthresh.min(INITIAL_SEGMENTS * segment),
            space_start: (now, 0),
            rcv_rtt_8: 0,
            last_tsecr: 0,
            window_round: None,
        }
    }

    /// Handles the opening of the connection: starts the measurement of the data that the application reads, and scales windows. A server
    /// offers whole segments without timestamps, because it knows that both use them (tcp_openreq_init_rwin).
    pub(crate) fn on_open(&mut self, now: Time, scale: u8, is_server: bool) {
        if is_server {
            self.rcv_ssthresh = (RCVBUF / 2 / self.segment * self.segment).min(self.max_window);
            self.window_clamp = self.rcv_ssthresh;
        }
        self.space_start = (now, 0);
        self.unit = 1 << scale;
    }

    /// Returns the RTT estimate, or zero before the first sample.
    pub(crate) fn round_trip(&self) -> Span {
        Span::from_nanos(self.rcv_rtt_8 / 8)
    }

    /// Returns the window to offer from `rcv_nxt` on while `held` full segments are held above a gap, bytes (tcp_select_window).
    pub(crate) fn window(&self, rcv_nxt: u64, held: u64) -> u64 {
        let held = held + self.unread;
        let free = self.free(held * truesize(self.segment));
        let window = match self.is_half_full(held) {
            true if free < self.window_in(self.rcvbuf) / 16 || free < self.rcv_mss => 0,
            true => free / self.unit * self.unit,
            false => free,
        };
        // "Never shrink the offered window."
        let offered = self.offered_end.saturating_sub(rcv_nxt);
        window.min(self.rcv_ssthresh).max(offered).next_multiple_of(self.unit)
    }

    /// Returns true if `held` segments above a gap leave less than half of the window free.
    pub(crate) fn is_half_full(&self, held: u64) -> bool {
        held > 0 && self.free(held * truesize(self.segment)) < self.window_clamp / 2
    }

    /// Handles the release of `segments` segments by one that is acknowledged before they are read.
    pub(crate) fn on_released(&mut self, segments: u64) {
        self.unread = segments;
    }

    /// Handles an ACK that has offered [`window`](Self::window). Returns true if another one must offer what reading has freed since
    /// (tcp_cleanup_rbuf: "Send ACK now, if this read freed lots of space in our buffer").
    pub(crate) fn on_offered(&mut self, rcv_nxt: u64, held: u64) -> bool {
        let offered = self.window(rcv_nxt, held);
        self.offered_end = rcv_nxt + offered;
        let was_unread = std::mem::take(&mut self.unread) > 0;
        was_unread && 2 * offered <= self.window_clamp && self.window(rcv_nxt, held) >= 2 * offered
    }

    /// Handles `bytes` bytes that echo the timestamp `tsecr`, which was sent `round_trip` ago (tcp_rcv_rtt_measure_ts). A short segment may
    /// have waited for the application.
    pub(crate) fn on_tsecr(&mut self, tsecr: u32, round_trip: Span, bytes: u64) {
        let is_new = tsecr != 0 && std::mem::replace(&mut self.last_tsecr, tsecr) != tsecr;
        if is_new && bytes >= self.rcv_mss {
            let sample = round_trip.as_nanos();
            self.rcv_rtt_8 = match self.rcv_rtt_8 {
                0 => 8 * sample,
                old if 8 * sample < old => 8 * sample,
                old => old - old / 8 + sample,
            };
        }
    }

    /// Returns the number of segments that these ranges of bytes were received in, if all but the last of each were full.
    pub(crate) fn segments_in(&self, ranges: &[(u64, u64)]) -> u64 {
        ranges.iter().map(|(start, end)| (end - start).div_ceil(self.segment)).sum()
    }

    /// Handles the arrival of data. Returns true if the window grows.
    pub(crate) fn on_data(&mut self, now: Time, segment: &Segment) -> bool {
        let (start, end) = segment.bytes;
        let is_in_order = end <= segment.rcv_nxt;
        if is_in_order {
            self.measure_segment(end - start);
            self.measure_rtt_by_window(now, end);
        }
        // The segment itself is in the buffer if it is in order. What is above the gap that it may fill has not been read.
        let own = if is_in_order { truesize(end - start) } else { 0 };
        let grows = self.grow(end - start, segment.held * truesize(self.segment) + own);
        if is_in_order {
            self.adjust_space(now, end, segment);
        } else {
            // A hole delays reading: the bound rises by what is above it (tcp_data_queue_ofo).
            self.grow_buffer(self.rcvq_space, segment.ooo_len);
        }
        grows
    }

    /// Raises the window by two segments, as far as a buffer with `occupied` bytes has room (tcp_grow_window). Returns true if it grows.
    fn grow(&mut self, bytes: u64, occupied: u64) -> bool {
        let room = self.free(occupied).min(self.window_clamp).saturating_sub(self.rcv_ssthresh);
        // tcp_event_data_recv: "if (skb->len >= 128) tcp_grow_window".
        let grows = room > 0 && bytes >= 128;
        if grows {
            self.rcv_ssthresh += room.min(2 * self.segment.max(bytes));
        }
        grows
    }

    /// Takes the share of the buffer that data of a new size may occupy, and the bound of the window from it (tcp_measure_rcv_mss).
    fn measure_segment(&mut self, bytes: u64) {
        if bytes <= self.rcv_mss {
            return;
        }
        self.rcv_mss = bytes.min(self.segment);
        self.scaling_ratio = (bytes * 256 / truesize(bytes)).clamp(1, 255);
        self.window_clamp = self.window_in(self.rcvbuf);
        self.rcv_ssthresh = self.rcv_ssthresh.min(self.window_clamp);
    }

    /// Handles the reading of data up to `end` by the application (tcp_rcv_space_adjust). Data above `end` had arrived earlier, above a gap
    /// that the segment has filled, and counts only for the next round trip.
    fn adjust_space(&mut self, now: Time, end: u64, segment: &Segment) {
        let (started, from) = self.space_start;
        if self.rcv_rtt_8 == 0 || now.since(started).as_nanos() < self.rcv_rtt_8 / 8 {
            return;
        }
        let copied = end.saturating_sub(from).saturating_sub(segment.rcv_nxt - end);
        if copied > self.rcvq_space {
            self.grow_buffer(copied, segment.ooo_len);
        }
        self.space_start = (now, end);
    }

    /// Enlarges the buffer for twice the data read in a round trip, or more if this amount has grown (tcp_rcvbuf_grow).
    fn grow_buffer(&mut self, copied: u64, ooo_len: u64) {
        let before = std::mem::replace(&mut self.rcvq_space, copied).max(1);
        let twice = 2 * copied;
        let growth = twice * copied.saturating_sub(before) / before;
        let window = (twice + 2 * growth + ooo_len).min(self.max_window);
        // tcp_space_from_win.
        let rcvbuf = window * 256 / self.scaling_ratio;
        if rcvbuf > self.rcvbuf {
            self.rcvbuf = rcvbuf;
            self.window_clamp = self.window_in(rcvbuf);
        }
    }

    /// Returns the window for which a buffer with `occupied` bytes has room (tcp_space).
    fn free(&self, occupied: u64) -> u64 {
        self.window_in(self.rcvbuf.saturating_sub(occupied))
    }

    /// Returns the window that a buffer of `space` bytes can hold (tcp_win_from_space).
    fn window_in(&self, space: u64) -> u64 {
        (space * self.scaling_ratio / 256).min(self.max_window)
    }

    /// Measures how long one window of data takes to arrive, which is a round trip or longer (tcp_rcv_rtt_measure).
    fn measure_rtt_by_window(&mut self, now: Time, rcv_nxt: u64) {
        let (started, end) = *self.window_round.get_or_insert((now, rcv_nxt + self.rcv_ssthresh));
        if rcv_nxt >= end {
            let sample = 8 * now.since(started).as_nanos().max(1);
            self.rcv_rtt_8 = if self.rcv_rtt_8 == 0 { sample } else { self.rcv_rtt_8.min(sample) };
            self.window_round = Some((now, rcv_nxt + self.rcv_ssthresh));
        }
    }
}

/// Returns the buffer space that a packet with `bytes` bytes of data occupies (skb->truesize): a block of a power of two with 52 bytes of
/// headers, 64 before them and the 320 of skb_shared_info, in lines of 64 bytes, and the 256 of sk_buff.
fn truesize(bytes: u64) -> u64 {
    const SHARED_INFO: u64 = 320;
    let block = (bytes + 52 + 64).next_multiple_of(64) + SHARED_INFO;
    block.next_power_of_two() + 256
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    /// Returns the bytes of a segment that arrives while nothing is missing, or fills the only gap below `rcv_nxt`.
    fn data(start: u64, end: u64, rcv_nxt: u64) -> Segment {
        Segment { bytes: (start, end), held: (rcv_nxt - end).div_ceil(end - start), rcv_nxt, ooo_len: 0 }
    }

    #[test]
    fn a_new_connection_offers_64240_bytes_and_opens_for_six_segments() {
        // Values observed with Linux 6.18: "win 64240", and a bound of 131072 * 160 / 256, of which the newest segment occupies
        // 2304 * 160 / 256.
        let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
        assert_eq!(window.window(0, 0), 64_240);
        let grows =
            (1..=20).filter(|&n| window.on_data(ms(n), &data((n - 1) * 1448, n * 1448, n * 1448))).count();
        assert_eq!((grows, window.window(0, 0), window.window_clamp), (6, 81_920 - 1440, 81_920));
    }

    #[test]
    fn a_window_does_not_grow_before_a_full_segment_has_arrived_in_order() {
        // tcp_measure_rcv_mss is called for data in order, and 536 bytes is the first estimate. Without it the window is its bound already.
        let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
        assert!(!window.on_data(ms(1), &data(0, 500, 500)), "a short one");
        let above_gap = Segment { bytes: (1948, 3396), held: 0, rcv_nxt: 500, ooo_len: 2896 };
        assert!(!window.on_data(ms(2), &above_gap), "one above a gap");
        assert!(window.on_data(ms(3), &data(500, 1948, 3396)));
        assert_eq!((window.window(0, 0), window.window_clamp), (64_240 + 2896, 81_920));
    }

    #[test]
    fn a_packet_occupies_a_block_of_a_power_of_two_and_its_description() {
        // Observed with Linux 6.18: 2304 bytes for a full Ethernet packet; 1280 for what fits into a block of 1024.
        assert_eq!([1448, 1000, 588].map(truesize), [2304, 2304, 1280]);
    }

    #[test]
    fn the_bound_follows_what_is_taken_in_within_a_round_trip() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        window.on_tsecr(1, Span::from_millis(100), 1000);
        // A measurement lasts for at least a round trip.
        window.on_data(ms(50), &data(29_000, 30_000, 30_000));
        assert_eq!(window.rcvq_space, 10_000);
        window.on_data(ms(100), &data(39_000, 40_000, 40_000));
        // 2 * 40 + 2 * (2 * 40 * (40 - 10) / 10), in a buffer of whole bytes: 560000 * 256 / 111.
        assert_eq!((window.rcvq_space, window.rcvbuf, window.window_clamp), (40_000, 1_291_531, 559_999));
        // A smaller amount than before has no effect.
        window.on_data(ms(200), &data(59_000, 60_000, 60_000));
        assert_eq!((window.rcvq_space, window.rcvbuf), (40_000, 1_291_531));
    }

    #[test]
    fn what_was_behind_a_gap_counts_for_the_next_round_trip() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        window.on_tsecr(1, Span::from_millis(100), 1000);
        // One segment arrives. The 29 segments above it had arrived before.
        window.on_data(ms(100), &data(0, 1000, 30_000));
        assert_eq!(window.rcvq_space, 10_000);
        window.on_data(ms(200), &data(30_000, 31_000, 31_000));
        assert_eq!(window.rcvq_space, 30_000);
    }

    #[test]
    fn a_buffer_holds_what_has_arrived_above_a_gap_and_not_the_gap() {
        // tcp_space: sk_rcvbuf less sk_rmem_alloc. Of 81920 bytes, 64240 are offered: five times 2896 fit above them, and 3200 are left.
        let opened = || {
            let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
            (1..=5).for_each(|n| _ = window.on_data(ms(n), &data((n - 1) * 1448, n * 1448, n * 1448)));
            assert_eq!(window.window(0, 0), 64_240 + 5 * 2896);
            window
        };
        let after = |bytes: (u64, u64), held: u64, rcv_nxt: u64| {
            let mut window = opened();
            window
                .on_data(ms(6), &Segment { bytes, held, rcv_nxt, ooo_len: bytes.1.saturating_sub(rcv_nxt) });
            window.window(0, 0) - 64_240 - 5 * 2896
        };
        assert_eq!(after((5 * 1448, 6 * 1448), 0, 6 * 1448), 3200 - 1440, "the segment itself");
        assert_eq!(
            after((60 * 1448, 61 * 1448), 0, 5 * 1448),
            2896,
            "not itself, which is charged later, nor the gap"
        );
        assert_eq!(after((60 * 1448, 61 * 1448), 2, 5 * 1448), 3200 - 2880, "two others above it");
        assert_eq!(
            after((5 * 1448, 6 * 1448), 1, 7 * 1448),
            3200 - 2880,
            "itself, and another that it releases"
        );
    }

    #[test]
    fn what_is_held_above_a_gap_is_not_offered_again_and_what_was_offered_is_not_taken_back() {
        // A capture of Linux 6.18: of 28 + 55.6 segments that were offered, the sender used all; the ACK of 38, with 45 held, freed nothing.
        let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
        window.on_open(Time::ZERO, 7, true);
        (1..=28).for_each(|n| _ = window.on_data(ms(n), &data((n - 1) * 1448, n * 1448, n * 1448)));
        assert_eq!(window.window(28 * 1448, 0), 80_512);
        window.on_offered(28 * 1448, 0);
        let end = 28 * 1448 + 80_512;
        // 131072 - 45 * 2304 bytes are free, 17120 of the window, which is less than the rest of what was offered.
        assert_eq!(window.window(38 * 1448, 45), (end - 38 * 1448_u64).next_multiple_of(128));
        assert_eq!(window.window(83 * 1448, 45), 17_024, "rounded down where less than half is free");
        assert_eq!([window.is_half_full(28), window.is_half_full(29)], [false, true]);
    }

    #[test]
    fn what_a_filled_gap_releases_is_read_after_its_ack_and_offered_by_another_one() {
        let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
        window.on_open(Time::ZERO, 7, true);
        (1..=28).for_each(|n| _ = window.on_data(ms(n), &data((n - 1) * 1448, n * 1448, n * 1448)));
        window.on_offered(28 * 1448, 0);
        // 45 segments are released. The ACK offers what was left of the 80512 bytes, the next one everything: "at least twice".
        window.on_released(46);
        let left = 80_512 - 46 * 1448_u64;
        assert_eq!(window.window(74 * 1448, 0), 15_616, "more than the {left} that were left");
        assert!(window.on_offered(74 * 1448, 0));
        assert_eq!(window.window(74 * 1448, 0), 80_512);
        assert!(!window.on_offered(74 * 1448, 0));
        // Of few segments the ACK itself offers more than a half.
        window.on_released(5);
        assert!(!window.on_offered(79 * 1448, 0));
    }

    #[test]
    fn a_short_segment_gives_no_round_trip_and_uses_up_its_timestamp() {
        // "if (TCP_SKB_CB(skb)->end_seq - TCP_SKB_CB(skb)->seq >= inet_csk(sk)->icsk_ack.rcv_mss)", after rcv_rtt_last_tsecr is set.
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        window.on_tsecr(1, Span::from_millis(100), 535);
        window.on_tsecr(1, Span::from_millis(100), 1000);
        assert_eq!(window.rcv_rtt_8, 0);
        window.on_tsecr(2, Span::from_millis(100), 536);
        assert_eq!(window.rcv_rtt_8, 800_000_000);
    }

    #[test]
    fn a_server_offers_whole_segments_without_their_timestamps() {
        // Observed with Linux 6.18: 64240 bytes in a SYN, 65160 in a SYN-ACK, and rcv_space 14480 at both ends.
        for (is_server, expected) in [(false, 64_256), (true, 65_280)] {
            let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
            window.on_open(Time::ZERO, 7, is_server);
            assert_eq!((window.window(0, 0), window.rcvq_space), (expected, 14_480));
        }
    }

    #[test]
    fn a_window_ends_where_the_configuration_says() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 100_000);
        window.on_tsecr(1, Span::from_millis(10), 1000);
        (1..=200)
            .for_each(|n| _ = window.on_data(ms(20 * n), &data(50_000 * n - 1000, 50_000 * n, 50_000 * n)));
        assert_eq!(window.window(0, 0), 100_000 - 1000, "the newest segment occupies 2304 * 111 / 256 bytes");
    }

    #[test]
    fn an_open_connection_is_told_windows_in_units_of_the_scale_rounded_up() {
        let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
        assert_eq!(window.window(0, 0), 64_240, "a SYN is not scaled");
        window.on_open(Time::ZERO, 9, false);
        assert_eq!(window.window(0, 0), 64_512, "126 units of 512 bytes: 64240 is 125.47 of them");
    }

    #[test]
    fn the_least_round_trip_counts_at_once_and_a_longer_one_by_an_eighth() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        for (tsecr, sample_ms, expected_ms) in [(1, 100, 100), (1, 50, 100), (2, 60, 60), (3, 100, 65)] {
            window.on_tsecr(tsecr, Span::from_millis(sample_ms), 1000);
            assert_eq!(window.rcv_rtt_8 / 8 / 1_000_000, expected_ms, "{tsecr} {sample_ms}");
        }
    }

    #[test]
    fn without_timestamps_the_time_that_a_window_takes_stands_for_the_round_trip() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        let rcv_ssthresh = window.rcv_ssthresh;
        window.on_data(ms(0), &data(0, 1000, 1000));
        window.on_data(ms(80), &data(rcv_ssthresh, rcv_ssthresh + 1000, rcv_ssthresh + 1000));
        assert_eq!(window.rcv_rtt_8, 8 * 80_000_000);
    }
}
