use crate::linux_acks::INITIAL_RCV_MSS;
use catnip_base::{Span, Time};

/// Receive window with auto-tuning as in Linux (net/ipv4/tcp_input.c, 6.18). The offered window grows by two segments for each segment that
/// arrives, up to a bound. The bound grows with the data that the application reads within a round trip. The window never limits a sender
/// that could double cwnd each round trip. It matters because each segment is acknowledged immediately while the window grows.
#[derive(Clone, Debug)]
pub(crate) struct TunedWindow {
    segment: u64,
    /// Size of the peer's full segments, rcv_mss, bytes. Until data of this size has arrived in order, the window does not grow.
    rcv_mss: u64,
    /// Share of the buffer that data may occupy, scaling_ratio, in 256ths.
    scaling_ratio: u64,
    /// Part of the buffer that a segment occupies, in bytes of window.
    segment_space: u64,
    /// Offered window, rcv_ssthresh, bytes.
    rcv_ssthresh: u64,
    /// Unit of the window field, bytes. The low bits of a window are not transmitted, except in SYNs.
    unit: u64,
    /// Bound of the offered window, window_clamp, bytes.
    window_clamp: u64,
    /// Maximum value of the bound, bytes.
    max_window: u64,
    /// Largest number of bytes that the application has read within a round trip, rcvq_space.
    rcvq_space: u64,
    /// Start of the current measurement of `rcvq_space`: its time and its byte.
    space_start: (Time, u64),
    /// RTT estimate of the receiver, times eight, nanoseconds; zero before the first sample.
    rcv_rtt_8: u64,
    /// Last echoed timestamp; zero before the first one. A later timestamp belongs to another round trip.
    last_tsecr: u32,
    /// Start of the current RTT measurement, and the byte that ends it, one offered window later. Used without timestamps.
    window_round: Option<(Time, u64)>,
}

/// Receive buffer of a new connection, tcp_rmem\[1\], bytes.
const RCVBUF: u64 = 131_072;
/// Scaling ratio before any data, TCP_DEFAULT_SCALING_RATIO.
const DEFAULT_SCALING_RATIO: u64 = 128;
/// Initial window, TCP_INIT_CWND, segments.
const INITIAL_SEGMENTS: u64 = 10;

impl TunedWindow {
    /// Creates the window of a new connection. Its segments have `segment` bytes, and it never offers more than `max_window` bytes.
    pub(crate) fn new(now: Time, segment: u64, max_window: u64) -> Self {
        // The initial window is half of the buffer, in whole segments with timestamps.
        let full_segment = segment + 12;
        let rcv_ssthresh = (RCVBUF / 2 / full_segment * full_segment).min(max_window);
        Self {
            segment,
            rcv_mss: INITIAL_RCV_MSS.min(segment - 1),
            scaling_ratio: DEFAULT_SCALING_RATIO,
            segment_space: 0,
            rcv_ssthresh,
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

    /// Handles the opening of the connection: starts the measurement of the data that the application reads, and scales windows.
    pub(crate) fn on_open(&mut self, now: Time, scale: u8) {
        self.space_start = (now, 0);
        self.unit = 1 << scale;
    }

    /// Returns the RTT estimate, or zero before the first sample.
    pub(crate) fn round_trip(&self) -> Span {
        Span::from_nanos(self.rcv_rtt_8 / 8)
    }

    /// Returns the offered window, bytes. It is rounded up as in __tcp_select_window.
    pub(crate) fn window(&self) -> u64 {
        self.rcv_ssthresh.next_multiple_of(self.unit)
    }

    /// Handles data that echoes the timestamp `tsecr`, which was sent `round_trip` ago (tcp_rcv_rtt_measure_ts).
    pub(crate) fn on_tsecr(&mut self, tsecr: u32, round_trip: Span) {
        if tsecr != 0 && tsecr != self.last_tsecr {
            self.last_tsecr = tsecr;
            let sample = round_trip.as_nanos();
            self.rcv_rtt_8 = match self.rcv_rtt_8 {
                0 => 8 * sample,
                old if 8 * sample < old => 8 * sample,
                old => old - old / 8 + sample,
            };
        }
    }

    /// Handles a segment with the bytes from `segment.0` to `segment.1`, not all of which had arrived before. All data below `rcv_nxt` has
    /// now arrived, and the highest byte received is `ooo_len` bytes above `rcv_nxt`. Returns true if the window grows.
    pub(crate) fn on_data(&mut self, now: Time, segment: (u64, u64), rcv_nxt: u64, ooo_len: u64) -> bool {
        let (bytes, end) = (segment.1 - segment.0, segment.1);
        if self.last_tsecr == 0 {
            self.measure_rtt_by_window(now, rcv_nxt);
        }
        if end <= rcv_nxt && bytes > self.rcv_mss {
            self.measure_segment(bytes);
        }
        // tcp_space: the segment itself is still in the buffer, and so is the data above a gap.
        let held = self.segment_space + ooo_len;
        let headroom = self.window_clamp.saturating_sub(held).saturating_sub(self.rcv_ssthresh);
        // tcp_event_data_recv: "if (skb->len >= 128) tcp_grow_window".
        let grows = headroom > 0 && bytes >= 128;
        if grows {
            self.rcv_ssthresh += headroom.min(2 * self.segment.max(bytes));
        }
        if ooo_len > 0 {
            self.grow_clamp(self.rcvq_space, ooo_len);
        }
        if end <= rcv_nxt {
            self.adjust_space(now, end, rcv_nxt, ooo_len);
        }
        grows
    }

    /// Takes the share of the buffer that data of this size may occupy, and scales the bound of the window (tcp_measure_rcv_mss).
    fn measure_segment(&mut self, bytes: u64) {
        let truesize = truesize(bytes);
        let before = std::mem::replace(&mut self.scaling_ratio, (bytes * 256 / truesize).clamp(1, 255));
        let is_first = self.segment_space == 0;
        self.rcv_mss = bytes.min(self.segment);
        self.segment_space = truesize * self.scaling_ratio / 256;
        let buffer = if is_first { RCVBUF } else { self.window_clamp * 256 / before };
        self.window_clamp = (buffer * self.scaling_ratio / 256).min(self.max_window).max(self.rcv_ssthresh);
    }

    /// Handles the reading of data up to `end` by the application (tcp_rcv_space_adjust). Data above `end` had arrived earlier, above a gap
    /// that the segment has filled, and counts only for the next round trip.
    fn adjust_space(&mut self, now: Time, end: u64, rcv_nxt: u64, ooo_len: u64) {
        let (started, from) = self.space_start;
        if self.rcv_rtt_8 == 0 || now.since(started).as_nanos() < self.rcv_rtt_8 / 8 {
            return;
        }
        let copied = end.saturating_sub(from).saturating_sub(rcv_nxt - end);
        if copied > self.rcvq_space {
            self.grow_clamp(copied, ooo_len);
        }
        self.space_start = (now, end);
    }

    /// Raises the bound to twice the data read in a round trip, or more if this amount has grown (tcp_rcvbuf_grow).
    fn grow_clamp(&mut self, copied: u64, ooo_len: u64) {
        let before = std::mem::replace(&mut self.rcvq_space, copied).max(1);
        let twice = 2 * copied;
        let growth = twice * copied.saturating_sub(before) / before;
        self.window_clamp = self.window_clamp.max((twice + 2 * growth + ooo_len).min(self.max_window));
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

    #[test]
    fn a_new_connection_offers_64240_bytes_and_opens_for_six_segments() {
        // Values observed with Linux 6.18: "win 64240", and a bound of 131072 * 160 / 256, of which the newest segment occupies
        // 2304 * 160 / 256.
        let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
        assert_eq!(window.window(), 64_240);
        let grows =
            (1..=20).filter(|&n| window.on_data(ms(n), ((n - 1) * 1448, n * 1448), n * 1448, 0)).count();
        assert_eq!((grows, window.window(), window.window_clamp), (6, 81_920 - 1440, 81_920));
    }

    #[test]
    fn a_window_does_not_grow_before_a_full_segment_has_arrived_in_order() {
        // tcp_measure_rcv_mss is called for data in order, and 536 bytes is the first estimate. Without it the window is its bound already.
        let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
        assert!(!window.on_data(ms(1), (0, 500), 500, 0), "a short one");
        assert!(!window.on_data(ms(2), (1948, 3396), 500, 2896), "one above a gap");
        assert!(window.on_data(ms(3), (500, 1948), 3396, 0));
        assert_eq!((window.window(), window.window_clamp), (64_240 + 2896, 81_920));
    }

    #[test]
    fn a_packet_occupies_a_block_of_a_power_of_two_and_its_description() {
        // Observed with Linux 6.18: 2304 bytes for a full Ethernet packet; 1280 for what fits into a block of 1024.
        assert_eq!([1448, 1000, 588].map(truesize), [2304, 2304, 1280]);
    }

    #[test]
    fn the_bound_follows_what_is_taken_in_within_a_round_trip() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        window.on_tsecr(1, Span::from_millis(100));
        // A measurement lasts for at least a round trip.
        window.on_data(ms(50), (29_000, 30_000), 30_000, 0);
        assert_eq!(window.rcvq_space, 10_000);
        window.on_data(ms(100), (39_000, 40_000), 40_000, 0);
        // 2 * 40 + 2 * (2 * 40 * (40 - 10) / 10).
        assert_eq!((window.rcvq_space, window.window_clamp), (40_000, 560_000));
        // A smaller amount than before has no effect.
        window.on_data(ms(200), (59_000, 60_000), 60_000, 0);
        assert_eq!((window.rcvq_space, window.window_clamp), (40_000, 560_000));
    }

    #[test]
    fn what_was_behind_a_gap_counts_for_the_next_round_trip() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        window.on_tsecr(1, Span::from_millis(100));
        // One segment arrives. The 29 segments above it had arrived before.
        window.on_data(ms(100), (0, 1000), 30_000, 0);
        assert_eq!(window.rcvq_space, 10_000);
        window.on_data(ms(200), (30_000, 31_000), 31_000, 0);
        assert_eq!(window.rcvq_space, 30_000);
    }

    #[test]
    fn a_window_ends_where_the_configuration_says() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 100_000);
        window.on_tsecr(1, Span::from_millis(10));
        (1..=200)
            .for_each(|n| _ = window.on_data(ms(20 * n), (50_000 * n - 1000, 50_000 * n), 50_000 * n, 0));
        assert_eq!(window.window(), 100_000 - 999, "the newest segment occupies 2304 * 111 / 256 bytes");
    }

    #[test]
    fn an_open_connection_is_told_windows_in_units_of_the_scale_rounded_up() {
        let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
        assert_eq!(window.window(), 64_240, "a SYN is not scaled");
        window.on_open(Time::ZERO, 9);
        assert_eq!(window.window(), 64_512, "126 units of 512 bytes: 64240 is 125.47 of them");
    }

    #[test]
    fn the_least_round_trip_counts_at_once_and_a_longer_one_by_an_eighth() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        for (tsecr, sample_ms, expected_ms) in [(1, 100, 100), (1, 50, 100), (2, 60, 60), (3, 100, 65)] {
            window.on_tsecr(tsecr, Span::from_millis(sample_ms));
            assert_eq!(window.rcv_rtt_8 / 8 / 1_000_000, expected_ms, "{tsecr} {sample_ms}");
        }
    }

    #[test]
    fn without_timestamps_the_time_that_a_window_takes_stands_for_the_round_trip() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        let rcv_ssthresh = window.window();
        window.on_data(ms(0), (0, 1000), 1000, 0);
        window.on_data(ms(80), (rcv_ssthresh, rcv_ssthresh + 1000), rcv_ssthresh + 1000, 0);
        assert_eq!(window.rcv_rtt_8, 8 * 80_000_000);
    }
}
