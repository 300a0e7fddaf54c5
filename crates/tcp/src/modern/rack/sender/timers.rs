use super::{CaState, ForcedTransmit, FrtoPhase, Sender, Timer};
use crate::TcpConfig;
use crate::control::{Cause, CongestionControl};
use catnip_base::{Span, Time};

/// Time that the kernel adds to the PTO (RFC 8985, section 7.2: "PTO = 2 * SRTT") and to the reordering timer (TCP_TIMEOUT_MIN_US).
const MIN_TIMEOUT: Span = Span::from_millis(2);
/// Time that is added for timers that do not expire at the ticks of a wheel, with what the wheel adds on average.
const MIN_TIMEOUT_WITHOUT_WHEEL: Span = Span::from_millis(8);

/// Returns the time that is added to the PTO and to the reordering timer.
pub(super) fn min_timeout(config: &TcpConfig) -> Span {
    if config.timer_wheel { MIN_TIMEOUT } else { MIN_TIMEOUT_WITHOUT_WHEEL }
}

impl Sender {
    pub(super) fn on_reordering_timer(&mut self, now: Time, config: &TcpConfig) {
        let (lost, _) = self.mark_lost(now);
        if lost > 0 {
            if self.ca_state != CaState::Recovery {
                self.enter_recovery(now, false);
            }
            if let Some(prr) = &mut self.prr {
                prr.on_ack(1, self.flight.packets_in_flight(), false);
            }
        }
        self.rearm_rto_for_head(now, config);
    }

    /// Handles the expiry of the probe timer, PTO (TLP_send_probe).
    pub(super) fn on_probe_timer(&mut self, now: Time, config: &TcpConfig) {
        if self.tlp.is_none() {
            if !self.stream.is_sent(self.snd_max) && self.fits_peer_window() {
                self.forced = Some(ForcedTransmit::New);
            } else if let Some(newest) = self.flight.newest() {
                self.forced = Some(ForcedTransmit::Retransmit(newest));
            }
            self.stats.probes += u32::from(self.forced.is_some());
        }
        self.rearm_rto_for_head(now, config);
    }

    pub(super) fn on_retransmission_timer(&mut self, now: Time, config: &TcpConfig) {
        let Some((head, _)) = self.flight.head() else {
            self.timer = None;
            return;
        };
        let prior_state = self.ca_state;
        let sacked_out = self.flight.sacked_out();
        // Linux's tcp_rack_skb_timeout with a window of zero: a segment sent less than the latest round trip ago may still arrive.
        let rtt_plus_reo_wnd = self.rack.rtt_plus_reo_wnd(Span::ZERO);
        let Self { flight, rate, .. } = self;
        flight.mark_all_lost(
            |xmit_ts| xmit_ts + rtt_plus_reo_wnd > now,
            |number| rate.iter_mut().for_each(|rate| rate.on_lost(number)),
        );
        let is_first_in_window = prior_state <= CaState::Disorder
            || self.high_seq <= self.snd_una()
            || prior_state == CaState::Loss && self.consecutive_timeouts == 0;
        self.notify_congestion(now, Cause::Restart, !is_first_in_window);
        if is_first_in_window {
            self.has_prior = true;
            self.undo.init(self.snd_una(), self.flight.retrans_out());
        }
        let packets_in_flight = self.flight.packets_in_flight();
        if packets_in_flight > 0 {
            self.control.set_cwnd(u64::from(packets_in_flight + 1) * self.segment, None);
        }
        if prior_state <= CaState::Disorder {
            self.rack.on_timeout(sacked_out);
        }
        self.prr = None;
        self.tlp = None;
        self.ca_state = CaState::Loss;
        self.notify_timeout(now);
        self.high_seq = self.snd_max;
        self.frto = prior_state < CaState::Recovery || self.consecutive_timeouts > 0;
        self.consecutive_timeouts += 1;
        self.stats.timeouts += 1;
        self.forced = Some(ForcedTransmit::Retransmit(head));
        self.frto_phase = FrtoPhase::No;
        self.rtt.back_off();
        self.restart_rto(now, config);
    }

    #[inline(never)]
    pub(super) fn set_timer(&mut self, timer: Timer, now: Time, delay: Span, config: &TcpConfig) {
        self.timer = Some((timer, config.expiry(now, delay, self.phase)));
    }

    /// Sets the timer after an ACK: the probe timer if a probe may be scheduled, otherwise the retransmission timer.
    pub(super) fn set_xmit_timer(&mut self, now: Time, config: &TcpConfig) {
        let timeout = self.rtt.timeout(&config.rto);
        if !self.schedule_loss_probe(now, timeout, config) {
            self.rearm_rto(now, config);
        }
    }

    pub(super) fn rearm_rto(&mut self, now: Time, config: &TcpConfig) {
        match self.timer {
            _ if self.flight.packets_out() == 0 => self.timer = None,
            Some((Timer::Probe | Timer::Reordering, _)) => self.rearm_rto_for_head(now, config),
            _ => self.restart_rto(now, config),
        }
    }

    pub(super) fn restart_rto(&mut self, now: Time, config: &TcpConfig) {
        self.set_timer(Timer::Retransmission, now, self.rtt.timeout(&config.rto), config);
    }

    /// Sets the retransmission timer as if it had been started at the last transmission of the first segment.
    pub(super) fn rearm_rto_for_head(&mut self, now: Time, config: &TcpConfig) {
        match self.flight.head() {
            Some((_, sent)) => {
                let left = (sent + self.rtt.timeout(&config.rto)).since(now);
                self.set_timer(Timer::Retransmission, now, left, config);
            }
            None => self.timer = None,
        }
    }

    /// Sets the probe timer (RFC 8985, section 7.2). A nonzero `max_delay` limits its duration, so that it does not expire after the
    /// retransmission timer. Returns false if no probe may be scheduled.
    pub(super) fn schedule_loss_probe(&mut self, now: Time, max_delay: Span, config: &TcpConfig) -> bool {
        if self.flight.packets_out() == 0 || !matches!(self.ca_state, CaState::Open | CaState::Cwr) {
            return false;
        }
        let pto = match self.rtt.srtt() {
            // "PTO += TLP.max_ack_delay" for a single segment; Linux uses its minimum timeout.
            Some(srtt) if self.flight.packets_out() == 1 => srtt * 2 + config.rto.min,
            Some(srtt) => srtt * 2 + min_timeout(config),
            None => Span::from_secs(1),
        };
        let pto = if max_delay > Span::ZERO { pto.min(max_delay) } else { pto };
        self.set_timer(Timer::Probe, now, pto, config);
        true
    }
}
