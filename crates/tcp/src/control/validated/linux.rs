use super::current_ssthresh;
use crate::control::{CongestionControl, Idle};
use catnip_base::{Span, Time};

/// Congestion window validation of Linux (net/ipv4/tcp_output.c, `tcp_slow_start_after_idle` on). It is RFC 2861 with four differences: an
/// idle period never reduces the window below the restart window; a used window below the initial window counts as the initial window;
/// windows are whole segments; the peer's receive window does not matter.
#[derive(Debug)]
pub struct LinuxRestart {
    initial_window: u64,
    segment: u64,
    /// Start of the period in which the window has neither limited the sender nor been set anew (snd_cwnd_stamp).
    unlimited_since: Time,
    /// Maximum data in flight since `unlimited_since`, bytes.
    used: u64,
}

/// Burst of new segments, which leave together.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// Time of the burst.
    pub now: Time,
    /// True if cwnd limits the sender.
    pub is_cwnd_limited: bool,
    /// Bytes sent and not yet acknowledged.
    pub in_flight: u64,
    /// RTO.
    pub rto: Span,
    /// True if no data is missing.
    pub is_open: bool,
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
        let cwnd = self.restart(idle, prior.cwnd);
        control.set_cwnd(cwnd, current_ssthresh(&prior));
    }

    /// Returns the window that an idle period longer than the RTO leaves of `cwnd`, bytes.
    pub(super) fn restart(&mut self, idle: &Idle, cwnd: u64) -> u64 {
        let restart_cwnd = idle.restart_window.min(cwnd);
        // An idle period slightly longer than one RTO halves the window once.
        let halvings = (idle.idle_time.as_nanos() - 1) / idle.rto.as_nanos().max(1);
        self.unlimited_since = idle.now;
        self.used = 0;
        (((cwnd / self.segment) >> halvings.min(63)) * self.segment).max(restart_cwnd)
    }

    /// Starts the period of an unused window anew: the window has changed, or an ACK could have changed it.
    pub(super) fn renew(&mut self, now: Time) {
        self.unlimited_since = now;
    }

    /// `tcp_cwnd_validate` and `tcp_cwnd_application_limited`: reduce a window that has not limited the sender for an RTO.
    pub(super) fn on_burst(&mut self, burst: &Burst, control: &mut impl CongestionControl) {
        if burst.is_cwnd_limited {
            self.used = 0;
            self.unlimited_since = burst.now;
            return;
        }
        self.used = self.used.max(burst.in_flight);
        if burst.now.since(self.unlimited_since) < burst.rto {
            return;
        }
        self.unlimited_since = burst.now;
        if !burst.is_open {
            return;
        }
        let prior = control.control();
        let used = std::mem::take(&mut self.used).max(self.initial_window);
        if used < prior.cwnd {
            let halfway = (prior.cwnd + used) / 2 / self.segment * self.segment;
            control.set_cwnd(halfway, current_ssthresh(&prior));
        }
    }
}
