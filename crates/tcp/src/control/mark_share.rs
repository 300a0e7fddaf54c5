use super::Ack;

/// The share of the data that was marked, observed window by window (RFC 8257, section 3.3, steps 1 to 5).
#[derive(Clone, Debug, Default)]
pub(super) struct MarkShare {
    /// The window that is observed ends here.
    window_end: u64,
    /// Bytes acknowledged in it, and of these, marked.
    acked: u64,
    marked: u64,
}

impl MarkShare {
    /// Counts what an ACK says: the share once it ends the window, which then has to be due to end.
    pub(super) fn on_ack(&mut self, ack: &Ack, is_due: bool) -> Option<f64> {
        self.acked += ack.bytes;
        self.marked += ack.marked;
        if ack.una <= self.window_end || !is_due {
            return None;
        }
        let share = self.marked as f64 / self.acked.max(1) as f64;
        *self = Self { window_end: ack.next, acked: 0, marked: 0 };
        Some(share)
    }
}
