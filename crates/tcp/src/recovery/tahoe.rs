use super::{DUPACK_THRESHOLD, Facts, Gate, OnDuplicate};
use catnip_base::notation::Usage;

pub(super) const USAGE: Usage = ("tahoe", "fast retransmit, then slow start from there");

/// 4.3BSD Tahoe (1988): a third duplicate ACK starts over with a window of one segment.
#[derive(Debug)]
pub struct Tahoe {
    gate: Gate,
}

impl Tahoe {
    pub(super) fn new(gate: Gate) -> Self {
        Self { gate }
    }

    pub(super) fn on_duplicate(&mut self, facts: &Facts) -> OnDuplicate {
        if facts.dupacks != DUPACK_THRESHOLD || !self.gate.is_open(facts) {
            return OnDuplicate::Count;
        }
        self.gate.close(facts.max);
        OnDuplicate::SlowStart
    }

    pub(super) fn on_timeout(&mut self, max: u64) {
        self.gate.close(max);
    }
}
