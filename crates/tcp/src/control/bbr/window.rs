use crate::control::{Delivery, Repair};

/// Effect of losses on the window of both BBR versions (Linux's bbr_set_cwnd_to_recover_or_restore): packet conservation in the first round
/// of a recovery, and the previous window after the recovery.
#[derive(Clone, Debug, Default)]
pub(in crate::control) struct Losses {
    /// Recovery state at the previous ACK.
    pub(in crate::control) repair: Repair,
    conserves: bool,
    prior: u32,
}

impl Losses {
    /// Ends packet conservation at the beginning of a round.
    pub(in crate::control) fn on_round(&mut self) {
        self.conserves = false;
    }

    /// Returns true if a recovery begins with this ACK.
    pub(in crate::control) fn begin(&self, ack: &Delivery) -> bool {
        ack.repair == Repair::Recovery && self.repair != Repair::Recovery
    }

    /// Updates the window for this ACK. Returns true if packet conservation determines the window.
    pub(in crate::control) fn on_ack(&mut self, ack: &Delivery, window: &mut u32) -> bool {
        let begins = self.begin(ack);
        let before = std::mem::replace(&mut self.repair, ack.repair);
        *window = window.saturating_sub(ack.lost).max(1);
        if begins {
            self.conserves = true;
            *window = ack.in_network + ack.arrived;
        } else if before != Repair::None && ack.repair == Repair::None {
            *window = self.restored(*window);
            self.conserves = false;
        }
        if self.conserves {
            *window = (*window).max(ack.in_network + ack.arrived);
        }
        self.conserves
    }

    /// Saves the window to restore. During a recovery, or if `is_small` because the window is small on purpose, the larger of this window
    /// and the window saved earlier is kept.
    pub(in crate::control) fn save(&mut self, window: u32, is_small: bool) {
        let is_good = self.repair == Repair::None && !is_small;
        self.prior = if is_good { window } else { self.prior.max(window) };
    }

    /// Returns the window after the recovery: the larger of `window` and the saved window.
    pub(in crate::control) fn restored(&self, window: u32) -> u32 {
        window.max(self.prior)
    }
}
