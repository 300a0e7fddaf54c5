use crate::control::{Delivery, RecoveryState};

/// Effect of losses on the window of both BBR versions (Linux's bbr_set_cwnd_to_recover_or_restore): packet conservation in the first round
/// of a recovery, and the previous window after the recovery.
#[derive(Clone, Debug, Default)]
pub(in crate::control) struct CwndRecovery {
    /// Recovery state at the previous ACK.
    pub(in crate::control) recovery_state: RecoveryState,
    packet_conservation: bool,
    prior_cwnd: u32,
}

impl CwndRecovery {
    /// Ends packet conservation at the beginning of a round.
    pub(in crate::control) fn on_round(&mut self) {
        self.packet_conservation = false;
    }

    /// Returns true if a recovery begins with this ACK.
    pub(in crate::control) fn begin(&self, ack: &Delivery) -> bool {
        ack.recovery_state == RecoveryState::Recovery && self.recovery_state != RecoveryState::Recovery
    }

    /// Updates the window for this ACK. Returns true if packet conservation determines the window.
    pub(in crate::control) fn on_ack(&mut self, ack: &Delivery, cwnd: &mut u32) -> bool {
        let begins = self.begin(ack);
        let prior_state = std::mem::replace(&mut self.recovery_state, ack.recovery_state);
        *cwnd = cwnd.saturating_sub(ack.lost).max(1);
        if begins {
            self.packet_conservation = true;
            *cwnd = ack.packets_in_flight + ack.acked_sacked;
        } else if prior_state != RecoveryState::None && ack.recovery_state == RecoveryState::None {
            *cwnd = self.restored(*cwnd);
            self.packet_conservation = false;
        }
        if self.packet_conservation {
            *cwnd = (*cwnd).max(ack.packets_in_flight + ack.acked_sacked);
        }
        self.packet_conservation
    }

    /// Saves the window to restore. During a recovery, or if `is_reduced` because the window is small on purpose, the larger of this window
    /// and the window saved earlier is kept.
    pub(in crate::control) fn save(&mut self, cwnd: u32, is_reduced: bool) {
        let is_representative = self.recovery_state == RecoveryState::None && !is_reduced;
        self.prior_cwnd = if is_representative { cwnd } else { self.prior_cwnd.max(cwnd) };
    }

    /// Returns the window after the recovery: the larger of `cwnd` and the saved window.
    pub(in crate::control) fn restored(&self, cwnd: u32) -> u32 {
        cwnd.max(self.prior_cwnd)
    }
}
