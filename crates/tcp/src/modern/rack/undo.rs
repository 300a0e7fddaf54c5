use crate::Stamps;
use catnip_base::Time;

/// What says that a cut was wrong: each retransmission was reported as a duplicate (RFC 3708), or what is acknowledged had been sent
/// before the first of them (RFC 3522, by timestamps).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// A cut can be undone: what was acknowledged when it was made.
    since: Option<u64>,
    /// Retransmissions since then that were not reported as duplicates; `None`: there was none yet.
    unexplained: Option<u32>,
    /// When the first segment left again of those that are out.
    first_resent: Option<Time>,
}

impl Undo {
    /// A cut is made, with so many retransmissions out.
    pub(super) fn begin(&mut self, una: u64, resent: u32) {
        self.since = Some(una);
        self.unexplained = Some(resent).filter(|&resent| resent > 0);
    }

    /// What was cut stays so.
    pub(super) fn forget(&mut self) {
        self.since = None;
    }

    /// Can a cut be undone?
    pub(super) fn is_possible(&self) -> bool {
        self.since.is_some()
    }

    /// A segment leaves again.
    pub(super) fn on_resent(&mut self, now: Time) {
        self.first_resent = self.first_resent.or(Some(now));
        self.unexplained = Some(self.unexplained.unwrap_or(0) + 1);
    }

    /// A duplicate that ends here is reported.
    pub(super) fn on_duplicate(&mut self, end: u64, segments: u32) {
        if self.since.is_some_and(|since| end > since) {
            self.unexplained = self.unexplained.map(|count| count.saturating_sub(segments));
        }
    }

    /// No retransmission is out any more.
    pub(super) fn on_all_arrived(&mut self) {
        self.first_resent = None;
    }

    /// All retransmissions were duplicates.
    pub(super) fn all_were_duplicates(&self) -> bool {
        self.since.is_some() && self.unexplained == Some(0)
    }

    /// An ACK that echoes a time before the first retransmission answers what had been sent before. Timestamps tick in milliseconds.
    pub(super) fn is_delayed(&self, echo: u32) -> bool {
        self.since.is_some()
            && echo != 0
            && self.first_resent.is_some_and(|first| (echo.wrapping_sub(Stamps::tick(first)) as i32) < 0)
    }

    /// Was the cut wrong?
    pub(super) fn applies(&self, echo: u32) -> bool {
        self.all_were_duplicates() || self.is_delayed(echo)
    }
}
