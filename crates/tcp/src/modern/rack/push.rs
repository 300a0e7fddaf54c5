use super::tso;

/// PSH bits of what the application writes (tcp_sendmsg, tcp_mark_push). The send queue consists of units, whose last segment carries the bit
/// if a write ends in the unit, or if more than half of the peer's window has been queued since the last bit (forced_push). Each write fits
/// into the send buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pushes {
    /// First byte of a unit after which the queue has not been empty.
    base: u64,
    /// End of the data that the last bit pushes (pushed_seq).
    pushed: u64,
    /// Peer's receive window at the last write, bytes. It stands for the largest window so far (max_window).
    peer_window: u64,
}

impl Pushes {
    /// Handles a write at byte `start` of the stream. A unit that has not been sent takes more data; `is_queue_empty` is true if there is
    /// none.
    pub(super) fn on_write(&mut self, start: u64, is_queue_empty: bool, peer_window: u64) {
        if is_queue_empty {
            self.base = start;
        }
        self.peer_window = peer_window;
    }

    /// Handles the peer's first window, which is known before the application writes.
    pub(super) fn on_first_window(&mut self, peer_window: u64) {
        self.peer_window = peer_window;
    }

    /// Returns true if a new segment whose data ends at `end` carries PSH. `write_end` is the end of the write to which its first byte
    /// belongs. Units have one segment of `segment` bytes, or more with segmentation offload.
    #[inline]
    pub(super) fn on_sent(&mut self, end: u64, write_end: u64, segment: u64, has_offload: bool) -> bool {
        let ends_write = end >= write_end;
        if !ends_write && end <= self.pushed + self.peer_window / 2 {
            return false;
        }
        let unit = if has_offload { tso::unit_goal(segment, self.peer_window) } else { segment };
        let has_push = ends_write || end.saturating_sub(self.base).is_multiple_of(unit);
        if has_push {
            self.pushed = end;
        }
        has_push
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers, from 1, of the segments with PSH among those of one write of `count` segments of 1448 bytes.
    fn pushed(count: u64, peer_window: u64, has_offload: bool) -> Vec<u64> {
        let mut pushes = Pushes::default();
        pushes.on_write(0, true, 0);
        pushes.on_first_window(peer_window);
        (1..=count).filter(|n| pushes.on_sent(1448 * n, 1448 * count, 1448, has_offload)).collect()
    }

    #[test]
    fn a_bit_is_on_the_last_segment_of_a_write_and_after_each_half_of_the_peer_s_window() {
        // 65160 is the window of a SYN-ACK of Linux: after(write_seq, pushed_seq + 32580), which 22.5 segments are.
        assert_eq!(pushed(10, 65_160, false), [10]);
        assert_eq!(pushed(60, 65_160, false), [23, 46, 60]);
        // A capture of Linux 6.18 with a window of 22 segments begins so.
        assert_eq!(pushed(30, 22 * 1448, false), [12, 24, 30]);
    }

    #[test]
    fn with_offload_a_bit_is_at_the_end_of_a_unit() {
        // Units have 22 segments, half of the window; the first one is not more than half of the window.
        assert_eq!(pushed(100, 65_160, true), [44, 88, 100]);
    }

    #[test]
    fn a_write_begins_a_unit_if_nothing_waits() {
        let mut pushes = Pushes::default();
        pushes.on_write(0, true, 2500);
        assert!(pushes.on_sent(300, 300, 1000, false));
        pushes.on_write(300, true, 2500);
        let bits = [1300, 2300, 3300].map(|end| pushes.on_sent(end, 9300, 1000, false));
        assert_eq!(bits, [false, true, false], "2300 is more than 1250 bytes after 300");
    }
}
