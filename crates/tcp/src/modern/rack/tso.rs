use catnip_base::Span;

/// Decision of Linux whether to wait until more segments can leave together (net/ipv4/tcp_output.c, `tcp_tso_should_defer`), for senders
/// whose controller does not set the rate. Segments of one unit of segmentation offload leave at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TsoInput {
    /// Data bytes in a full segment.
    pub(super) segment: u64,
    /// Unsent bytes.
    pub(super) unsent: u64,
    /// True if a FIN follows the unsent bytes.
    pub(super) has_fin: bool,
    /// Window, and data in flight, segments.
    pub(super) cwnd: u32,
    pub(super) packets_in_flight: u32,
    /// Peer's window, and the part of it that is left, bytes.
    pub(super) peer_window: u64,
    pub(super) send_window: u64,
    /// True in the first half of slow start, in which the pacing rate is higher.
    pub(super) in_slow_start: bool,
    /// Number of unacknowledged segments.
    pub(super) packets_out: u32,
    /// Time since the last transmission of data.
    pub(super) since_sent: Span,
    /// Time since the first segment in flight was sent; `None` if there is none.
    pub(super) head_age: Option<Span>,
    /// SRTT; zero before the first sample.
    pub(super) srtt: Span,
    /// Minimum RTT; `None` before the first sample.
    pub(super) min_rtt: Option<Span>,
}

/// Reason for waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deferral {
    /// More of cwnd is about to open.
    CwndLimited,
    /// More of the peer's window, or more data, is expected.
    Other,
}

/// Buffer space of one unit of segmentation offload (sk_gso_max_size), bytes.
const GSO_MAX_BYTES: u64 = 65_536;
/// Minimum number of segments that leave together, tcp_min_tso_segs.
const MIN_SEGMENTS: u64 = 2;
/// Share of a window that is worth sending at once, tcp_tso_win_divisor.
const WINDOW_DIVISOR: u64 = 3;
/// Longest time for which a sender waits.
pub(super) const MAX_WAIT: Span = Span::from_millis(1);

impl TsoInput {
    /// Returns the reason for sending nothing yet; `None` if segments may leave.
    pub(super) fn deferral(&self) -> Option<Deferral> {
        let Self { segment, unsent, peer_window, send_window, .. } = *self;
        // A burst may only be delayed while the sender is active.
        if self.since_sent > MAX_WAIT {
            return None;
        }
        let cong_window = u64::from(self.room()) * segment;
        let limit = send_window.min(cong_window);
        let worthwhile = peer_window.min(u64::from(self.cwnd) * segment) / WINDOW_DIVISOR;
        let is_in_middle = unsent > GSO_MAX_BYTES && limit >= GSO_MAX_BYTES;
        if limit >= worthwhile || is_in_middle {
            return None;
        }
        // The next ACK is expected when the first segment in flight is as old as a round trip.
        let next_ack_in = self.srtt.saturating_sub(self.head_age?);
        if next_ack_in > (self.srtt / 2).min(MAX_WAIT) || limit >= u64::from(self.max_segments()) * segment {
            return None;
        }
        if cong_window < send_window {
            if cong_window <= unsent {
                return Some(Deferral::CwndLimited);
            }
        } else if send_window <= unsent {
            return Some(Deferral::Other);
        }
        (!self.has_fin).then_some(Deferral::Other)
    }

    /// Returns the number of unsent bytes that leave together (tcp_mss_split_point). `delays_short` is true if Nagle's algorithm delays a
    /// short segment.
    pub(super) fn bytes(&self, delays_short: bool) -> u64 {
        let max_bytes = u64::from(self.room().min(self.max_segments())) * self.segment;
        let needed = self.unsent.min(self.send_window);
        if max_bytes <= needed {
            return max_bytes;
        }
        if delays_short { needed - needed % self.segment } else { needed }
    }

    /// Returns the maximum number of segments that leave together: a millisecond of the pacing rate, more on short paths
    /// (tcp_tso_autosize).
    fn max_segments(&self) -> u32 {
        let room = self.room();
        if u64::from(room) < MIN_SEGMENTS {
            return MIN_SEGMENTS as u32;
        }
        let window = u64::from(self.cwnd.max(self.packets_out)) * self.segment;
        let percent = if self.in_slow_start { 200 } else { 120 };
        let per_ms = match self.srtt {
            Span::ZERO => GSO_MAX_BYTES,
            // sk_pacing_rate >> 10.
            srtt => (((window * percent / 100).saturating_mul(1_000_000_000) / srtt.as_nanos()) >> 10)
                .min(GSO_MAX_BYTES),
        };
        // tcp_tso_rtt_log: half of the space at 512 us, a quarter at 1024 us, ...
        let halvings = self.min_rtt.map_or(u64::MAX, |rtt| rtt.as_nanos() / 512_000);
        let for_short_path = if halvings < 32 { GSO_MAX_BYTES >> halvings } else { 0 };
        ((per_ms + for_short_path).min(GSO_MAX_BYTES) / self.segment).max(MIN_SEGMENTS) as u32
    }

    /// Returns the number of segments that cwnd permits.
    fn room(&self) -> u32 {
        self.cwnd - self.packets_in_flight
    }
}

/// Returns the size of a full unit of the send queue (tcp_xmit_size_goal): whole segments, half of the peer's window at most. `peer_window`
/// stands for the largest window so far.
pub(super) fn unit_goal(segment: u64, peer_window: u64) -> u64 {
    (GSO_MAX_BYTES.min(peer_window / 2) / segment).max(1) * segment
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the state of a sender with a cwnd of 30 and one segment of it free, 500 us before the next ACK.
    fn one_of_thirty() -> TsoInput {
        TsoInput {
            segment: 1000,
            unsent: 50_000,
            has_fin: false,
            cwnd: 30,
            packets_in_flight: 29,
            peer_window: 200_000,
            send_window: 171_000,
            in_slow_start: false,
            packets_out: 29,
            since_sent: Span::from_micros(200),
            head_age: Some(Span::from_micros(49_500)),
            srtt: Span::from_millis(50),
            min_rtt: None,
        }
    }

    #[test]
    fn one_segment_waits_for_a_second_one_if_the_next_ack_is_near() {
        let one = one_of_thirty();
        assert_eq!(one.deferral(), Some(Deferral::CwndLimited));
        assert_eq!(TsoInput { packets_in_flight: 28, ..one }.deferral(), None, "two may leave");
        // "If next ACK is likely to come too late, ie in more than min(1ms, half srtt), do not defer."
        let age = |us| TsoInput { head_age: Some(Span::from_micros(us)), ..one }.deferral().is_some();
        assert_eq!([48_999, 49_000].map(age), [false, true]);
        assert_eq!(TsoInput { head_age: None, ..one }.deferral(), None);
    }

    #[test]
    fn a_third_of_a_window_leaves_at_once_and_so_does_what_follows_a_pause() {
        let five = TsoInput {
            cwnd: 5,
            packets_in_flight: 3,
            min_rtt: Some(Span::from_millis(1)),
            ..one_of_thirty()
        };
        assert_eq!(five.deferral(), None);
        assert!(TsoInput { cwnd: 7, packets_in_flight: 5, ..five }.deferral().is_some());
        let since =
            |us| TsoInput { since_sent: Span::from_micros(us), ..one_of_thirty() }.deferral().is_some();
        assert_eq!([1000, 1001].map(since), [true, false]);
    }

    #[test]
    fn the_last_data_waits_only_without_a_fin() {
        let min_rtt = Some(Span::from_millis(1));
        let last = TsoInput { unsent: 1500, packets_in_flight: 28, min_rtt, ..one_of_thirty() };
        assert_eq!(last.deferral(), Some(Deferral::Other));
        assert_eq!(TsoInput { has_fin: true, ..last }.deferral(), None);
        assert_eq!(last.bytes(false), 1500);
    }

    #[test]
    fn what_leaves_ends_at_the_window_and_without_a_short_segment_that_nagle_delays() {
        let min_rtt = Some(Span::from_millis(1));
        let input = TsoInput { packets_in_flight: 20, min_rtt, send_window: 3500, ..one_of_thirty() };
        assert_eq!((input.bytes(false), input.bytes(true)), (3500, 3000));
        assert_eq!(TsoInput { min_rtt: None, ..input }.bytes(false), 2000);
    }

    #[test]
    fn a_unit_of_the_send_queue_is_half_of_the_peer_s_window_in_whole_segments_and_64_kib_at_most() {
        assert_eq!(
            [65_535, 200_000, 1000].map(|window| unit_goal(1448, window)),
            [22 * 1448, 45 * 1448, 1448]
        );
    }

    #[test]
    fn two_segments_leave_together_at_least_and_more_at_high_rates_and_on_short_paths() {
        let segments = |cwnd, in_slow_start, rtt_ms: Option<u64>| {
            let rtt = rtt_ms.map(Span::from_millis);
            let srtt = rtt.unwrap_or(Span::ZERO);
            let input = TsoInput {
                segment: 1448,
                cwnd,
                packets_in_flight: 0,
                in_slow_start,
                srtt,
                ..one_of_thirty()
            };
            TsoInput { packets_out: 0, min_rtt: rtt, ..input }.max_segments()
        };
        // 10 * 1448 * 2 bytes in 50 ms are 565 bytes in 1/1024 s.
        assert_eq!(segments(10, true, Some(50)), 2);
        // 1000 * 1448 * 1.2 bytes in 50 ms are 33 937 bytes in 1/1024 s.
        assert_eq!(segments(1000, false, Some(50)), 23);
        // A millisecond is one halving of 65 536 bytes, and 10 * 1448 * 2 bytes in it are 28 281 in 1/1024 s.
        assert_eq!(segments(10, true, Some(1)), 42);
        assert_eq!(segments(10, true, None), 45);
    }
}
