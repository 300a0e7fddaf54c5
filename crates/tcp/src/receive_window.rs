use catnip_base::{Span, Time};

/// Receive window with auto-tuning as in Linux (net/ipv4/tcp_input.c, 6.18). The offered window grows by two segments for each segment that
/// arrives, up to a bound. The bound grows with the data that the application reads within a round trip. The window never limits a sender
/// that could double cwnd each round trip. It matters because each segment is acknowledged immediately while the window grows.
#[derive(Clone, Debug)]
pub(crate) struct TunedWindow {
    segment: u64,
    /// Offered window, rcv_ssthresh, bytes.
    offered: u64,
    /// Unit of the window field, bytes. The low bits of a window are not transmitted, except in SYNs.
    unit: u64,
    /// Bound of the offered window, window_clamp, bytes.
    bound: u64,
    /// Maximum value of the bound, bytes.
    most: u64,
    /// Largest number of bytes that the application has read within a round trip, rcvq_space.
    taken: u64,
    /// Start of the current measurement of `taken`: its time and its byte.
    since: (Time, u64),
    /// RTT estimate of the receiver, times eight, nanoseconds; zero before the first sample.
    rtt_8: u64,
    /// Last echoed timestamp; zero before the first one. A later timestamp belongs to another round trip.
    last_echo: u32,
    /// Start of the current RTT measurement, and the byte that ends it, one offered window later. Used without timestamps.
    window_round: Option<(Time, u64)>,
}

/// Receive buffer of a new connection, tcp_rmem\[1\], bytes.
const BUFFER: u64 = 131_072;
/// Buffer space that the segment of an Ethernet packet occupies (skb->truesize), bytes.
const TRUE_SIZE: u64 = 2304;
/// Initial window, TCP_INIT_CWND, segments.
const INITIAL_SEGMENTS: u64 = 10;

impl TunedWindow {
    /// Creates the window of a new connection. Its segments have `segment` bytes, and it never offers more than `most` bytes.
    pub(crate) fn new(now: Time, segment: u64, most: u64) -> Self {
        // The initial window is half of the buffer, in whole segments with timestamps.
        let whole = segment + 12;
        let offered = (BUFFER / 2 / whole * whole).min(most);
        Self {
            segment,
            offered,
            unit: 1,
            bound: (BUFFER * (segment * 256 / TRUE_SIZE).min(255) / 256).clamp(offered, most),
            most,
            taken: offered.min(INITIAL_SEGMENTS * segment),
            since: (now, 0),
            rtt_8: 0,
            last_echo: 0,
            window_round: None,
        }
    }

    /// Handles the opening of the connection: starts the measurement of the data that the application reads, and scales windows.
    pub(crate) fn on_open(&mut self, now: Time, scale: u8) {
        self.since = (now, 0);
        self.unit = 1 << scale;
    }

    /// Returns the RTT estimate, or zero before the first sample.
    pub(crate) fn round_trip(&self) -> Span {
        Span::from_nanos(self.rtt_8 / 8)
    }

    /// Returns the offered window, bytes. It is rounded up as in __tcp_select_window.
    pub(crate) fn offered(&self) -> u64 {
        self.offered.next_multiple_of(self.unit)
    }

    /// Handles data that echoes the timestamp `echo`, which was sent `round_trip` ago (tcp_rcv_rtt_measure_ts).
    pub(crate) fn on_echo(&mut self, echo: u32, round_trip: Span) {
        if echo != 0 && echo != self.last_echo {
            self.last_echo = echo;
            let sample = round_trip.as_nanos();
            self.rtt_8 = match self.rtt_8 {
                0 => 8 * sample,
                old if 8 * sample < old => 8 * sample,
                old => old - old / 8 + sample,
            };
        }
    }

    /// Handles a segment with the bytes from `segment.0` to `segment.1`. All data below `next` has now arrived, and the highest byte
    /// received is `beyond` bytes above `next`. Returns true if the window grows.
    pub(crate) fn on_data(&mut self, now: Time, segment: (u64, u64), next: u64, beyond: u64) -> bool {
        let (bytes, end) = (segment.1 - segment.0, segment.1);
        if self.last_echo == 0 {
            self.measure_by_window(now, next);
        }
        let room = self.bound.saturating_sub(self.offered);
        // tcp_event_data_recv: "if (skb->len >= 128) tcp_grow_window".
        let opens = room > 0 && bytes >= 128;
        if opens {
            self.offered += room.min(2 * self.segment.max(bytes));
        }
        if beyond > 0 {
            self.raise(self.taken, beyond);
        }
        if end <= next {
            self.adjust(now, end, next, beyond);
        }
        opens
    }

    /// Handles the reading of data up to `end` by the application (tcp_rcv_space_adjust). Data above `end` had arrived earlier, above a gap
    /// that the segment has filled, and counts only for the next round trip.
    fn adjust(&mut self, now: Time, end: u64, next: u64, beyond: u64) {
        let (then, from) = self.since;
        if self.rtt_8 == 0 || now.since(then).as_nanos() < self.rtt_8 / 8 {
            return;
        }
        let taken = end.saturating_sub(from).saturating_sub(next - end);
        if taken > self.taken {
            self.raise(taken, beyond);
        }
        self.since = (now, end);
    }

    /// Raises the bound to twice the data read in a round trip, or more if this amount has grown (tcp_rcvbuf_grow).
    fn raise(&mut self, taken: u64, beyond: u64) {
        let before = std::mem::replace(&mut self.taken, taken).max(1);
        let twice = 2 * taken;
        let growth = twice * taken.saturating_sub(before) / before;
        self.bound = self.bound.max((twice + 2 * growth + beyond).min(self.most));
    }

    /// Measures how long one window of data takes to arrive, which is a round trip or longer (tcp_rcv_rtt_measure).
    fn measure_by_window(&mut self, now: Time, next: u64) {
        let (then, end) = *self.window_round.get_or_insert((now, next + self.offered));
        if next >= end {
            let sample = 8 * now.since(then).as_nanos().max(1);
            self.rtt_8 = if self.rtt_8 == 0 { sample } else { self.rtt_8.min(sample) };
            self.window_round = Some((now, next + self.offered));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    #[test]
    fn a_new_connection_offers_64240_bytes_and_opens_for_seven_segments() {
        // Values observed with Linux 6.18: "win 64240", and a bound of 131072 * 160 / 256.
        let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
        assert_eq!((window.offered(), window.bound), (64_240, 81_920));
        let opens =
            (1..=20).filter(|&n| window.on_data(ms(n), ((n - 1) * 1448, n * 1448), n * 1448, 0)).count();
        assert_eq!((opens, window.offered()), (7, 81_920));
    }

    #[test]
    fn the_bound_follows_what_is_taken_in_within_a_round_trip() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        window.on_echo(1, Span::from_millis(100));
        // A measurement lasts for at least a round trip.
        window.on_data(ms(50), (29_000, 30_000), 30_000, 0);
        assert_eq!(window.taken, 10_000);
        window.on_data(ms(100), (39_000, 40_000), 40_000, 0);
        // 2 * 40 + 2 * (2 * 40 * (40 - 10) / 10).
        assert_eq!((window.taken, window.bound), (40_000, 560_000));
        // A smaller amount than before has no effect.
        window.on_data(ms(200), (59_000, 60_000), 60_000, 0);
        assert_eq!((window.taken, window.bound), (40_000, 560_000));
    }

    #[test]
    fn what_was_behind_a_gap_counts_for_the_next_round_trip() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        window.on_echo(1, Span::from_millis(100));
        // One segment arrives. The 29 segments above it had arrived before.
        window.on_data(ms(100), (0, 1000), 30_000, 0);
        assert_eq!(window.taken, 10_000);
        window.on_data(ms(200), (30_000, 31_000), 31_000, 0);
        assert_eq!(window.taken, 30_000);
    }

    #[test]
    fn a_window_ends_where_the_configuration_says() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 100_000);
        window.on_echo(1, Span::from_millis(10));
        (1..=200)
            .for_each(|n| _ = window.on_data(ms(20 * n), (50_000 * n - 1000, 50_000 * n), 50_000 * n, 0));
        assert_eq!(window.offered(), 100_000);
    }

    #[test]
    fn an_open_connection_is_told_windows_in_units_of_the_scale_rounded_up() {
        let mut window = TunedWindow::new(Time::ZERO, 1448, 1 << 24);
        assert_eq!(window.offered(), 64_240, "a SYN is not scaled");
        window.on_open(Time::ZERO, 9);
        assert_eq!(window.offered(), 64_512, "126 units of 512 bytes: 64240 is 125.47 of them");
    }

    #[test]
    fn the_least_round_trip_counts_at_once_and_a_longer_one_by_an_eighth() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        for (echo, sample_ms, expected_ms) in [(1, 100, 100), (1, 50, 100), (2, 60, 60), (3, 100, 65)] {
            window.on_echo(echo, Span::from_millis(sample_ms));
            assert_eq!(window.rtt_8 / 8 / 1_000_000, expected_ms, "{echo} {sample_ms}");
        }
    }

    #[test]
    fn without_timestamps_the_time_that_a_window_takes_stands_for_the_round_trip() {
        let mut window = TunedWindow::new(Time::ZERO, 1000, 1 << 24);
        let offered = window.offered();
        window.on_data(ms(0), (0, 1000), 1000, 0);
        window.on_data(ms(80), (offered, offered + 1000), offered + 1000, 0);
        assert_eq!(window.rtt_8, 8 * 80_000_000);
    }
}
