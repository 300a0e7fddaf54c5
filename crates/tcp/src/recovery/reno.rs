use super::{DUPACK_THRESHOLD, Facts, Gate, OnAdvance, OnDuplicate};
use catnip_base::notation::Usage;

pub(super) const USAGE: Usage = ("reno", "fast recovery until the first new ACK");

/// 4.3BSD Reno (1990; RFC 5681, section 3.2): fast recovery inflates the window by each duplicate ACK and ends with
/// the first new one, whatever else is missing.
#[derive(Debug)]
pub struct Reno {
    gate: Gate,
    recovering: bool,
    /// Bytes.
    inflation: u64,
}

impl Reno {
    pub(super) fn new(gate: Gate) -> Self {
        Self { gate, recovering: false, inflation: 0 }
    }

    pub(super) fn on_duplicate(&mut self, facts: &Facts) -> OnDuplicate {
        if self.inflation > 0 {
            self.inflation += facts.segment;
            return OnDuplicate::Count;
        }
        let opens = self.gate.is_open(facts);
        if facts.dupacks != DUPACK_THRESHOLD || !(opens || facts.inflate_without_retransmit) {
            return OnDuplicate::Count;
        }
        self.inflation = u64::from(DUPACK_THRESHOLD) * facts.segment;
        if !opens {
            return OnDuplicate::Count;
        }
        self.recovering = true;
        self.gate.close(facts.max);
        OnDuplicate::FastRetransmit
    }

    #[inline]
    pub(super) fn on_advance(&mut self) -> OnAdvance {
        self.inflation = 0;
        match std::mem::take(&mut self.recovering) {
            true => OnAdvance::Recovered { limit: u64::MAX, grows: true },
            false => OnAdvance::Normal,
        }
    }

    pub(super) fn on_timeout(&mut self, max: u64) {
        self.gate.close(max);
        self.recovering = false;
        self.inflation = 0;
    }

    pub(super) fn in_recovery(&self) -> bool {
        self.recovering
    }

    pub(super) fn inflation(&self) -> u64 {
        self.inflation
    }
}
