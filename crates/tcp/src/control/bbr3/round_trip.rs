use super::{AckPhase, Bbr3, MIN_RTT_WINDOW, PROBE_RTT_INTERVAL, State};
use crate::control::Delivery;
use crate::control::bbr::{MIN_CWND, PROBE_RTT, UNIT};

/// Minimum RTT and its repeated measurement in ProbeRTT (section 5.3.4).
impl Bbr3 {
    pub(super) fn update_min_rtt(&mut self, ack: &Delivery) {
        let it = &mut self.min_rtt;
        it.is_expired = ack.now > it.probe_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt
            && (it.probe_min.is_none_or(|min| rtt < min) || it.is_expired)
        {
            (it.probe_min, it.probe_min_stamp) = (Some(rtt), ack.now);
        }
        let has_expired = ack.now > it.stamp + MIN_RTT_WINDOW;
        if let Some(probe_min) = it.probe_min
            && (it.min.is_none_or(|min| probe_min < min) || has_expired)
        {
            (it.min, it.stamp) = (Some(probe_min), it.probe_min_stamp);
        }
    }

    /// Performs BBRCheckProbeRTT.
    pub(super) fn check_probe_rtt(&mut self, ack: &Delivery) {
        if self.state != State::ProbeRtt && self.min_rtt.is_expired && !self.idle_restart {
            self.cwnd_recovery.save(self.cwnd, false);
            self.state = State::ProbeRtt;
            self.min_rtt.probe_rtt_done_stamp = None;
            self.probe.ack_phase = AckPhase::ProbeStopping;
            self.start_round(ack);
        }
        if self.state == State::ProbeRtt {
            match self.min_rtt.probe_rtt_done_stamp {
                None if ack.packets_in_flight <= self.probe_rtt_cwnd() => {
                    self.min_rtt.probe_rtt_done_stamp = Some(ack.now + PROBE_RTT);
                    self.min_rtt.is_probe_rtt_round_done = false;
                    self.start_round(ack);
                }
                None => {}
                Some(_) => {
                    self.min_rtt.is_probe_rtt_round_done |= self.rounds.round_start;
                    if self.min_rtt.is_probe_rtt_round_done {
                        self.end_probe_rtt(ack);
                    }
                }
            }
        }
        if ack.rate.is_some_and(|sample| sample.delivered > 0) {
            self.idle_restart = false;
        }
    }

    /// Performs BBRCheckProbeRTTDone and BBRExitProbeRTT.
    pub(super) fn end_probe_rtt(&mut self, ack: &Delivery) {
        if self.min_rtt.probe_rtt_done_stamp.is_none_or(|done| ack.now <= done) {
            return;
        }
        self.min_rtt.probe_min_stamp = ack.now;
        self.cwnd = self.cwnd_recovery.restored(self.cwnd);
        (self.bw_shortterm, self.inflight_shortterm) = (None, None);
        if self.full.full_bw_reached {
            self.start_down(ack);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(self.bandwidth(), UNIT / 2).max(MIN_CWND)
    }
}
