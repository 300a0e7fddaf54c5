use super::{AckPhase, Bbr3, DeliverySignals, MAX_RENO_ROUNDS, Probe, State};
use crate::control::Delivery;
use crate::control::bbr::{UNIT, pseudo_random};
use catnip_base::Span;

/// ProbeBW cycle: down, cruise, refill, up (section 5.3.3).
impl Bbr3 {
    /// Performs BBRUpdateProbeBWCyclePhase.
    pub(super) fn update_cycle(&mut self, ack: &Delivery) {
        if !self.full.full_bw_reached {
            return;
        }
        self.adapt_long_term_model(ack);
        let state = self.state;
        match state {
            State::Down if self.is_time_to_probe(ack) => self.start_refill(ack),
            State::Down if self.is_time_to_cruise(ack) => self.state = State::Cruise,
            State::Cruise if self.is_time_to_probe(ack) => self.start_refill(ack),
            State::Refill if self.rounds.round_start => {
                self.probe.has_bw_probe_samples = true;
                self.start_up(ack);
            }
            State::Up if self.is_time_to_go_down(ack) => self.start_down(ack),
            _ => {}
        }
    }

    /// BBRStartProbeBW_DOWN: draws the wait until the next probe, two to three seconds, and the initial round count, 0 or 1.
    pub(super) fn start_down(&mut self, ack: &Delivery) {
        (self.rounds.loss_in_round, self.latest) = (false, DeliverySignals::default());
        let random = pseudo_random(ack);
        self.probe = Probe {
            ack_phase: AckPhase::ProbeStopping,
            since: ack.now,
            wait: Span::from_secs(2) + Span::from_micros(random % 1_000_000),
            rounds: (random >> 24) as u32 & 1,
            up_count: None,
            ..self.probe
        };
        self.start_round(ack);
        self.state = State::Down;
    }

    fn start_refill(&mut self, ack: &Delivery) {
        (self.bw_shortterm, self.inflight_shortterm) = (None, None);
        self.probe =
            Probe { ack_phase: AckPhase::Refilling, up_rounds: 0, up_acks: 0, since: ack.now, ..self.probe };
        self.start_round(ack);
        self.state = State::Refill;
    }

    pub(super) fn start_up(&mut self, ack: &Delivery) {
        self.probe.ack_phase = AckPhase::ProbeStarting;
        self.probe.since = ack.now;
        self.start_round(ack);
        self.reset_full_bw(self.latest.bw);
        self.state = State::Up;
        self.raise_slope();
    }

    pub(super) fn is_probing_bw(&self) -> bool {
        matches!(self.state, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// Returns true if the drawn wait of two to three seconds is over, or if Reno would have grown by the target inflight by now.
    fn is_time_to_probe(&self, ack: &Delivery) -> bool {
        let reno_rounds = self.target_inflight().min(MAX_RENO_ROUNDS);
        ack.now.since(self.probe.since) > self.probe.wait || self.probe.rounds >= reno_rounds
    }

    fn is_time_to_cruise(&self, ack: &Delivery) -> bool {
        self.inflight_with_headroom().is_none_or(|max_inflight| ack.packets_in_flight <= max_inflight)
            && ack.packets_in_flight <= self.with_quantization_budget(self.bdp(self.max_bandwidth(), UNIT))
    }

    fn is_time_to_go_down(&mut self, ack: &Delivery) -> bool {
        let is_limited = ack.prior_in_flight >= self.cwnd;
        if is_limited && self.inflight_longterm.is_some_and(|longterm| self.cwnd >= longterm) {
            self.reset_full_bw(self.latest.bw);
            return false;
        }
        self.full.full_bw_now
    }
}
