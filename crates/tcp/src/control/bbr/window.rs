use crate::control::{Delivery, Repair};

/// What losses do to the window of BBR, whatever its version (Linux's bbr_set_cwnd_to_recover_or_restore): in the first round of a recovery
/// no more leaves than arrives, and behind it the window is what it was.
#[derive(Clone, Debug, Default)]
pub(in crate::control) struct Losses {
    /// What the repair was at the ACK before.
    pub(in crate::control) repair: Repair,
    conserves: bool,
    prior: u32,
}

impl Losses {
    /// The first round of a recovery is over, if there is one.
    pub(in crate::control) fn on_round(&mut self) {
        self.conserves = false;
    }

    /// A recovery begins with this ACK.
    pub(in crate::control) fn begin(&self, ack: &Delivery) -> bool {
        ack.repair == Repair::Recovery && self.repair != Repair::Recovery
    }

    /// The window after this ACK, if it is a recovery that decides.
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

    /// This window is to come back, unless it is small for reasons of its own: then no less than it.
    pub(in crate::control) fn save(&mut self, window: u32, is_small: bool) {
        let is_good = self.repair == Repair::None && !is_small;
        self.prior = if is_good { window } else { self.prior.max(window) };
    }

    /// What comes back.
    pub(in crate::control) fn restored(&self, window: u32) -> u32 {
        window.max(self.prior)
    }
}
