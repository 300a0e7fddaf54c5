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
    pub(super) fn is_cwnd_limited(&self, cwnd: u32, in_slow_start: bool) -> bool {
        self.is_cwnd_limited || in_slow_start && cwnd < 2 * self.max_packets_out
    }
}
