use super::current_ssthresh;
use crate::control::{CongestionControl, Idle, Sent};
use catnip_base::Time;

/// Congestion window validation of Linux (net/ipv4/tcp_output.c, `tcp_slow_start_after_idle` on). It is RFC 2861 with four differences: an
/// idle period never reduces the window below the restart window; a used window below the initial window counts as the initial window;
/// windows are whole segments; the peer's receive window does not matter.
#[derive(Debug)]
pub struct LinuxRestart {
    initial_window: u64,
    segment: u64,
    /// Start of the period in which the window has not limited the sender.
    unlimited_since: Time,
    /// Maximum data in flight since `unlimited_since`, bytes.
    used: u64,
}

impl LinuxRestart {
    pub(super) fn new(initial_window: u64, segment: u64) -> Self {
        Self { initial_window, segment, unlimited_since: Time::ZERO, used: 0 }
    }

    /// `tcp_cwnd_restart`: halves the window once per RTO of an idle period.
    pub(super) fn on_idle(&mut self, idle: &Idle, control: &mut impl CongestionControl) {
        if idle.idle_time <= idle.rto {
            return;
        }
        let prior = control.control();
        let restart_cwnd = idle.restart_window.min(prior.cwnd);
        // An idle period slightly longer than one RTO halves the window once.
        let halvings = (idle.idle_time.as_nanos() - 1) / idle.rto.as_nanos().max(1);
        let cwnd = (prior.cwnd / self.segment) >> halvings.min(63);
        control.set_cwnd((cwnd * self.segment).max(restart_cwnd), current_ssthresh(&prior));
        self.unlimited_since = idle.now;
        self.used = 0;
    }

    /// `tcp_cwnd_validate` and `tcp_cwnd_application_limited`: reduce a window that has not limited the sender for an RTO.
    pub(super) fn on_sent(&mut self, sent: &Sent, control: &mut impl CongestionControl) {
        if sent.fills(control.control().cwnd) {
            self.used = 0;
            self.unlimited_since = sent.now;
            return;
        }
        self.used = self.used.max(sent.in_flight);
        if sent.now.since(self.unlimited_since) >= sent.rto {
            let prior = control.control();
            let used = self.used.max(self.initial_window);
            if used < prior.cwnd {
                let halfway = (prior.cwnd + used) / 2 / self.segment * self.segment;
                control.set_cwnd(halfway, current_ssthresh(&prior));
            }
            self.used = 0;
            self.unlimited_since = sent.now;
        }
    }
}
