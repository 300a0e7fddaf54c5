use super::{AckPhase, BETA, Bbr3, HEADROOM_PCT, State, inflight_at_loss, is_inflight_too_high};
use crate::control::bbr::{MIN_CWND, UNIT};
use crate::control::{Delivery, LossSample};

/// Short-term and long-term bounds on inflight, which losses set (sections 5.5.10 and 5.3.3.6).
impl Bbr3 {
    /// BBRAdaptLowerBoundsFromCongestion: after a round with a loss, sets the short-term bounds from the data delivered in that round.
    pub(super) fn adapt_lower_bounds(&mut self) {
        if !self.rounds.loss_round_start {
            return;
        }
        let is_probing = matches!(self.state, State::Startup | State::Refill | State::Up);
        if self.rounds.loss_in_round && !is_probing {
            let bw = self.bw_shortterm.unwrap_or(self.max_bandwidth());
            let inflight = u64::from(self.inflight_shortterm.unwrap_or(self.cwnd));
            self.bw_shortterm = Some(self.latest.bw.max(bw * BETA / UNIT));
            self.inflight_shortterm = Some(self.latest.inflight.max((inflight * BETA / UNIT) as u32));
        }
    }

    /// Performs BBRAdaptLongTermModel.
    pub(super) fn adapt_long_term_model(&mut self, ack: &Delivery) {
        if self.rounds.round_start {
            match self.probe.ack_phase {
                AckPhase::ProbeStarting => self.probe.ack_phase = AckPhase::ProbeFeedback,
                AckPhase::ProbeStopping => {
                    self.probe.has_bw_probe_samples = false;
                    self.probe.ack_phase = AckPhase::Init;
                    let is_limited = ack.rate.is_some_and(|sample| sample.is_app_limited);
                    if self.is_probing_bw() && !is_limited {
                        self.max_bw = [0, self.max_bw[0]];
                    }
                }
                AckPhase::Init | AckPhase::Refilling | AckPhase::ProbeFeedback => {}
            }
        }
        if let Some(loss) = ack.loss.filter(is_inflight_too_high) {
            if self.probe.has_bw_probe_samples {
                self.on_inflight_too_high(ack, &loss);
            }
            return;
        }
        let Some(longterm) = self.inflight_longterm else { return };
        if let Some(sample) = ack.rate
            && sample.tx_in_flight > longterm
        {
            self.inflight_longterm = Some(sample.tx_in_flight);
        }
        if self.state == State::Up {
            self.probe_inflight_upward(ack);
        }
    }

    /// BBRHandleInflightTooHigh: handles the segment whose loss exceeded the threshold.
    fn on_inflight_too_high(&mut self, ack: &Delivery, loss: &LossSample) {
        self.probe.has_bw_probe_samples = false;
        if !loss.is_app_limited {
            let target = u64::from(self.target_inflight()) * BETA / UNIT;
            self.inflight_longterm = Some(inflight_at_loss(loss).max(target as u32));
        }
        if self.state == State::Up {
            self.start_down(ack);
        }
    }

    /// BBRProbeInflightLongtermUpward: raises the long-term bound while the window is full, slowly at first.
    fn probe_inflight_upward(&mut self, ack: &Delivery) {
        let (Some(longterm), Some(count)) = (self.inflight_longterm, self.probe.up_count) else { return };
        if ack.prior_in_flight < self.cwnd || self.cwnd < longterm {
            return;
        }
        self.probe.up_acks += ack.acked_sacked;
        self.inflight_longterm = Some(longterm + self.probe.up_acks / count);
        self.probe.up_acks %= count;
        if self.rounds.round_start {
            self.raise_slope();
        }
    }

    /// BBRRaiseInflightLongtermSlope: doubles the growth per round.
    pub(super) fn raise_slope(&mut self) {
        let growth = 1 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.up_count = Some((self.cwnd / growth).max(1));
    }

    /// Performs BBRBoundCwndForModel.
    pub(super) fn bound_cwnd_for_model(&mut self) {
        let long = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain => None,
        };
        if let Some(max_inflight) = [long, self.inflight_shortterm].into_iter().flatten().min() {
            self.cwnd = self.cwnd.min(max_inflight.max(MIN_CWND));
        }
    }

    /// BBRInflightWithHeadroom: returns the long-term bound less the headroom for new flows.
    pub(super) fn inflight_with_headroom(&self) -> Option<u32> {
        let longterm = self.inflight_longterm?;
        let headroom = (longterm * HEADROOM_PCT / 100).max(1);
        Some(longterm.saturating_sub(headroom).max(MIN_CWND))
    }
}
