use super::Ack;

/// Share of marked data, observed per window of data (RFC 8257, section 3.3, steps 1 to 5).
#[derive(Clone, Debug, Default)]
pub(super) struct MarkShare {
    /// End of the observation window.
    window_end: u64,
    /// Number of bytes acknowledged in the observation window. `marked` is the number of these bytes that were marked.
    acked: u64,
    marked: u64,
}

impl MarkShare {
    /// Counts the data of an ACK. Returns the share of marked data if the ACK ends the observation window and `is_due` is true.
    pub(super) fn on_ack(&mut self, ack: &Ack, is_due: bool) -> Option<f64> {
        self.acked += ack.bytes;
        self.marked += ack.marked;
        if ack.snd_una <= self.window_end || !is_due {
            return None;
        }
        let share = self.marked as f64 / self.acked.max(1) as f64;
        *self = Self { window_end: ack.snd_max, acked: 0, marked: 0 };
        Some(share)
    }
}
