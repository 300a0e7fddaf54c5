use super::current_ssthresh;
use crate::control::{CongestionControl, Sent};
use catnip_base::Time;

/// Congestion window validation (RFC 2861, section 3.2), which reduces a window that is not used.
#[derive(Debug)]
pub struct Cwv {
    /// Time of the last data transmission (T_last); `None` before the first transmission.
    last: Option<Time>,
    /// Start of the period in which the window has not limited the sender (T_prev).
    unlimited_since: Time,
    /// Maximum data in flight since `unlimited_since`, bytes (W_used).
    used: u64,
}

impl Cwv {
    pub(super) fn new() -> Self {
        Self { last: None, unlimited_since: Time::ZERO, used: 0 }
    }

    /// Performs the steps "After sending a data segment" of the RFC.
    pub(super) fn on_sent(&mut self, sent: &Sent, control: &mut impl CongestionControl) {
        let Some(last) = self.last.replace(sent.now) else {
            return self.restart_period(sent.now);
        };
        let silence = sent.now.since(last);
        if silence >= sent.rto {
            let prior = control.control();
            // "For i=1 To (tcpnow - T_last)/RTO: win = min(cwnd, receiver's declared max window), cwnd = max(win/2, MSS)"
            let mut cwnd = prior.cwnd;
            for _ in 0..silence.in_units_of(sent.rto).min(64) {
                cwnd = (cwnd.min(sent.receive_window) / 2).max(sent.segment);
            }
            control.set_cwnd(cwnd, current_ssthresh(&prior));
            self.restart_period(sent.now);
        }
        if sent.fills(control.control().cwnd) {
            self.restart_period(sent.now);
        } else if sent.drained {
            self.used = self.used.max(sent.in_flight);
            if sent.now.since(self.unlimited_since) >= sent.rto {
                // "win = min(cwnd, receiver's declared max window), cwnd = (win + W_used)/2"
                let prior = control.control();
                control.set_cwnd(
                    (prior.cwnd.min(sent.receive_window) + self.used) / 2,
                    current_ssthresh(&prior),
                );
                self.restart_period(sent.now);
            }
        }
    }

    fn restart_period(&mut self, now: Time) {
        self.unlimited_since = now;
        self.used = 0;
    }
}
