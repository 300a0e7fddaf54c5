use super::{ForcedTransmit, FrtoPhase, Sender, State, Timer};
use crate::TcpConfig;
use crate::control::{Cause, CongestionControl};
use catnip_base::{Span, Time};

/// Minimum duration of a timer: two ticks of the kernel's clock (TCP_TIMEOUT_MIN). It is added to the PTO (RFC 8985, section 7.2: "PTO = 2
/// * SRTT") and to the reordering timer.
pub(super) const LEAST_TIMER: Span = Span::from_millis(8);

impl Sender {
    pub(super) fn on_reordering_timer(&mut self, now: Time, config: &TcpConfig) {
        let (lost, _) = self.mark_lost(now);
        if lost > 0 {
            if self.state != State::Recovery {
                self.enter_recovery(now);
            }
            if let Some(prr) = &mut self.reduction {
                prr.on_ack(1, self.flight.in_network(), false);
            }
        }
        self.rearm_for_head(now, config);
    }

    /// Handles the expiry of the probe timer, PTO (TLP_send_probe).
    pub(super) fn on_probe_timer(&mut self, now: Time, config: &TcpConfig) {
        if self.probe.is_none() {
            let fits = self.snd_max + self.segment <= self.snd_una() + self.peer_window;
            if !self.stream.is_sent(self.snd_max) && fits {
                self.must = Some(ForcedTransmit::New);
            } else if let Some(newest) = self.flight.newest() {
                self.must = Some(ForcedTransmit::Retransmit(newest));
            }
            self.stats.probes += u32::from(self.must.is_some());
        }
        self.rearm_for_head(now, config);
    }

    pub(super) fn on_retransmission_timer(&mut self, now: Time, config: &TcpConfig) {
        let Some((head, _)) = self.flight.head() else {
            self.timer = None;
            return;
        };
        let was = self.state;
        let sacked = self.flight.sacked();
        // Linux's tcp_rack_skb_timeout with a window of zero: a segment sent less than the latest round trip ago may still arrive.
        let patience = self.rack.patience(Span::ZERO);
        let Self { flight, rate, .. } = self;
        flight.lose_all(
            |sent| sent + patience > now,
            |number| rate.iter_mut().for_each(|rate| rate.on_lost(number)),
        );
        let is_first_here = was <= State::Disorder
            || self.high_seq <= self.snd_una()
            || was == State::Loss && self.timeouts_in_a_row == 0;
        self.notify_congestion(now, Cause::Restart, !is_first_here);
        if is_first_here {
            self.undo.begin(self.snd_una(), self.flight.resent());
        }
        let in_network = self.flight.in_network();
        if in_network > 0 {
            self.control.set_cwnd(u64::from(in_network + 1) * self.segment, None);
        }
        if was <= State::Disorder {
            self.rack.on_timeout(sacked);
        }
        self.reduction = None;
        self.probe = None;
        self.state = State::Loss;
        self.high_seq = self.snd_max;
        self.frto = was < State::Recovery || self.timeouts_in_a_row > 0;
        self.timeouts_in_a_row += 1;
        self.stats.timeouts += 1;
        self.must = Some(ForcedTransmit::Retransmit(head));
        self.new_first = FrtoPhase::No;
        self.round_trip.back_off();
        self.restart_retransmission(now, config);
    }

    /// Sets the timer after an ACK: the probe timer if a probe may be scheduled, otherwise the retransmission timer.
    pub(super) fn rearm(&mut self, now: Time, config: &TcpConfig) {
        let timeout = self.round_trip.timeout(&config.rto);
        if !self.schedule_probe(now, timeout, config) {
            self.rearm_retransmission(now, config);
        }
    }

    pub(super) fn rearm_retransmission(&mut self, now: Time, config: &TcpConfig) {
        match self.timer {
            _ if self.flight.len() == 0 => self.timer = None,
            Some((Timer::Probe | Timer::Reordering, _)) => self.rearm_for_head(now, config),
            _ => self.restart_retransmission(now, config),
        }
    }

    pub(super) fn restart_retransmission(&mut self, now: Time, config: &TcpConfig) {
        self.timer = Some((Timer::Retransmission, now + self.round_trip.timeout(&config.rto)));
    }

    /// Sets the retransmission timer as if it had been started at the last transmission of the first segment.
    pub(super) fn rearm_for_head(&mut self, now: Time, config: &TcpConfig) {
        let due = |(_, sent): (u64, Time)| (sent + self.round_trip.timeout(&config.rto)).max(now);
        self.timer = self.flight.head().map(due).map(|at| (Timer::Retransmission, at));
    }

    /// Sets the probe timer (RFC 8985, section 7.2). A nonzero `at_most` limits its duration, so that it does not expire after the
    /// retransmission timer. Returns false if no probe may be scheduled.
    pub(super) fn schedule_probe(&mut self, now: Time, at_most: Span, config: &TcpConfig) -> bool {
        if self.flight.len() == 0 || !matches!(self.state, State::Open | State::Cwr) {
            return false;
        }
        let pto = match self.round_trip.srtt() {
            // "PTO += TLP.max_ack_delay" for a single segment; Linux uses its minimum timeout.
            Some(srtt) if self.flight.len() == 1 => srtt * 2 + config.rto.min,
            Some(srtt) => srtt * 2 + LEAST_TIMER,
            None => Span::from_secs(1),
        };
        let pto = if at_most > Span::ZERO { pto.min(at_most) } else { pto };
        self.timer = Some((Timer::Probe, now + pto));
        true
    }
}
