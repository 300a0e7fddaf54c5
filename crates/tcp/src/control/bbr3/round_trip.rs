use super::{AckPhase, Bbr3, MIN_RTT_AGE, PROBE_RTT_INTERVAL, State};
use crate::control::Delivery;
use crate::control::bbr::{MIN_WINDOW, PROBE_RTT, UNIT};

/// Minimum RTT and its repeated measurement in ProbeRTT (section 5.3.4).
impl Bbr3 {
    pub(super) fn update_min_rtt(&mut self, ack: &Delivery) {
        let it = &mut self.min_rtt;
        it.is_old = ack.now > it.recent_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt
            && (it.recent.is_none_or(|least| rtt < least) || it.is_old)
        {
            (it.recent, it.recent_at) = (Some(rtt), ack.now);
        }
        let has_expired = ack.now > it.at + MIN_RTT_AGE;
        if let Some(recent) = it.recent
            && (it.least.is_none_or(|least| recent < least) || has_expired)
        {
            (it.least, it.at) = (Some(recent), it.recent_at);
        }
    }

    /// Performs BBRCheckProbeRTT.
    pub(super) fn probe_rtt(&mut self, ack: &Delivery) {
        if self.state != State::ProbeRtt && self.min_rtt.is_old && !self.restarts {
            self.losses.save(self.window, false);
            self.state = State::ProbeRtt;
            self.min_rtt.done_at = None;
            self.probe.ack_phase = AckPhase::ProbeStopping;
            self.start_round(ack);
        }
        if self.state == State::ProbeRtt {
            match self.min_rtt.done_at {
                None if ack.in_network <= self.probe_rtt_window() => {
                    self.min_rtt.done_at = Some(ack.now + PROBE_RTT);
                    self.min_rtt.is_round_over = false;
                    self.start_round(ack);
                }
                None => {}
                Some(_) => {
                    self.min_rtt.is_round_over |= self.rounds.begins;
                    if self.min_rtt.is_round_over {
                        self.end_probe_rtt(ack);
                    }
                }
            }
        }
        if ack.rate.is_some_and(|sample| sample.delivered > 0) {
            self.restarts = false;
        }
    }

    /// Performs BBRCheckProbeRTTDone and BBRExitProbeRTT.
    pub(super) fn end_probe_rtt(&mut self, ack: &Delivery) {
        if self.min_rtt.done_at.is_none_or(|done| ack.now <= done) {
            return;
        }
        self.min_rtt.recent_at = ack.now;
        self.window = self.losses.restored(self.window);
        (self.bw_shortterm, self.inflight_shortterm) = (None, None);
        if self.full.is_reached {
            self.start_down(ack);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    pub(super) fn probe_rtt_window(&self) -> u32 {
        self.product(self.bandwidth(), UNIT / 2).max(MIN_WINDOW)
    }
}
