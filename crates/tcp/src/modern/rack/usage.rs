/// Is the window the reason why no more was sent? As Linux has it: a round trip in which it was, was limited; one in which it was not
/// still is in slow start if more than half of the window was out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    is_limited: bool,
    /// Segments that were out at most.
    most: u32,
    /// It ends once this is acknowledged.
    end: u64,
}

impl Usage {
    /// So many are out; nothing more leaves for now, because of the window or not.
    pub(super) fn on_sent(&mut self, is_limited: bool, out: u32, una: u64, next: u64) {
        if una >= self.end || is_limited || !self.is_limited && out > self.most {
            *self = Self { is_limited, most: out, end: next };
        }
    }

    /// See there.
    pub(super) fn is_limited(&self, cwnd: u32, in_slow_start: bool) -> bool {
        self.is_limited || in_slow_start && cwnd < 2 * self.most
    }
}
