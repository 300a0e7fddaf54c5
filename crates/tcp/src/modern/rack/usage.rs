/// Detection of a cwnd-limited sender, as in Linux. The sender is cwnd-limited if cwnd prevented a transmission in the current round trip,
/// or, in slow start, if more than half of cwnd was in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    is_limited: bool,
    /// Maximum number of segments in flight in this round trip (max_packets_out).
    most: u32,
    /// Byte whose acknowledgement ends the round trip (cwnd_usage_seq).
    end: u64,
}

impl Usage {
    /// Records that `out` segments are in flight (tcp_cwnd_validate). `is_limited` is true if cwnd permits no further segment.
    pub(super) fn on_sent(&mut self, is_limited: bool, out: u32, snd_una: u64, next: u64) {
        if snd_una >= self.end || is_limited || !self.is_limited && out > self.most {
            *self = Self { is_limited, most: out, end: next };
        }
    }

    /// Returns true if cwnd limits the sender (tcp_is_cwnd_limited).
    pub(super) fn is_limited(&self, cwnd: u32, in_slow_start: bool) -> bool {
        self.is_limited || in_slow_start && cwnd < 2 * self.most
    }
}
