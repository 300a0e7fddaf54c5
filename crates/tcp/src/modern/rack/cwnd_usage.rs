/// Detection of a cwnd-limited sender, as in Linux. The sender is cwnd-limited if cwnd prevented a transmission in the current round trip,
/// or, in slow start, if more than half of cwnd was in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CwndUsage {
    is_cwnd_limited: bool,
    /// Maximum number of segments in flight in this round trip (max_packets_out).
    max_packets_out: u32,
    /// Byte whose acknowledgement ends the round trip (cwnd_usage_seq).
    cwnd_usage_seq: u64,
}

impl CwndUsage {
    /// Records that `packets_out` segments are in flight (tcp_cwnd_validate). `is_cwnd_limited` is true if cwnd permits no further segment.
    pub(super) fn on_sent(&mut self, is_cwnd_limited: bool, packets_out: u32, snd_una: u64, snd_nxt: u64) {
        if snd_una >= self.cwnd_usage_seq
            || is_cwnd_limited
            || !self.is_cwnd_limited && packets_out > self.max_packets_out
        {
            *self = Self { is_cwnd_limited, max_packets_out: packets_out, cwnd_usage_seq: snd_nxt };
        }
    }

    /// Returns true if cwnd limits the sender (tcp_is_cwnd_limited).
    pub(super) fn is_cwnd_limited(&self, cwnd: u32, in_slow_start: impl FnOnce() -> bool) -> bool {
        self.is_cwnd_limited || cwnd < 2 * self.max_packets_out && in_slow_start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_slow_start_more_than_half_of_cwnd_must_have_been_out_and_all_of_it_later() {
        // tcp_is_cwnd_limited: "if (tcp_in_slow_start(tp)) return tcp_snd_cwnd(tp) < 2 * tp->max_packets_out".
        let mut usage = CwndUsage::default();
        usage.on_sent(false, 6, 0, 100);
        assert_eq!([11, 12].map(|cwnd| usage.is_cwnd_limited(cwnd, || true)), [true, false]);
        assert!(!usage.is_cwnd_limited(11, || false));
        usage.on_sent(true, 9, 0, 100);
        assert!(usage.is_cwnd_limited(9, || false) && usage.is_cwnd_limited(1000, || true));
    }

    #[test]
    fn the_use_of_cwnd_is_that_of_a_round_trip() {
        // tcp_cwnd_validate: the state is that of the largest use until the data sent at that time is acknowledged.
        let mut usage = CwndUsage::default();
        usage.on_sent(true, 10, 0, 100);
        usage.on_sent(false, 20, 99, 200);
        assert!(usage.is_cwnd_limited(10, || false), "cwnd was full in this round");
        usage.on_sent(false, 2, 100, 300);
        assert!(!usage.is_cwnd_limited(10, || false));
        assert_eq!([3, 4].map(|cwnd| usage.is_cwnd_limited(cwnd, || true)), [true, false]);
        usage.on_sent(false, 1, 200, 400);
        assert!(usage.is_cwnd_limited(3, || true), "fewer segments are no larger use");
    }
}
