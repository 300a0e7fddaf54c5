use super::ack::AckInfo;
use super::timers::min_timeout;
use super::{CaState, FrtoPhase, Sender, Timer};
use crate::TcpConfig;
use crate::control::{Ack, Cause, Congestion, CongestionControl, Delivery, Phase, Recovered, RecoveryState};
use crate::modern::rack::prr::Prr;
use catnip_base::{Span, Time};

/// Congestion states and their transitions: Linux's tcp_fastretrans_alert and the functions that it calls.
impl Sender {
    /// Handles an ACK that may end the tail loss probe (TLP_process_ack).
    pub(super) fn process_tlp_ack(&mut self, now: Time, ack: u64, ack_info: &AckInfo) {
        let Some(tlp) = self.tlp.filter(|tlp| ack >= tlp.end_seq) else { return };
        if !tlp.is_retrans || ack_info.dsacks_probe {
            // RFC 8985, section 7.4.2: "TLP of new data delivered", or "ACK has a DSACK option matching TLP.end_seq".
            self.tlp = None;
        } else if ack > tlp.end_seq {
            // "Repaired the single loss": the window is reduced as after any loss.
            self.init_cwnd_reduction(now, Cause::Loss);
            self.ca_state = CaState::Cwr;
            self.end_cwnd_reduction(now);
            self.try_keep_open();
        } else if !ack_info.snd_una_advanced && !ack_info.data_sacked && !ack_info.ece {
            // Duplicate ACK: the segment and its probe have both arrived.
            self.tlp = None;
        }
    }

    /// Updates the congestion state after an ACK (tcp_fastretrans_alert).
    #[inline]
    pub(super) fn update_state(&mut self, now: Time, mut ack_info: AckInfo, config: &TcpConfig) -> AckInfo {
        let is_fast_path = self.ca_state == CaState::Open
            && ack_info.snd_una_advanced
            && !ack_info.data_sacked
            && !ack_info.dsack
            && !ack_info.ece;
        if !is_fast_path {
            self.fastretrans_alert(now, &mut ack_info, config);
        }
        ack_info
    }

    #[inline(never)]
    pub(super) fn fastretrans_alert(&mut self, now: Time, ack_info: &mut AckInfo, config: &TcpConfig) {
        let snd_una = self.snd_una();
        // "if (flag & FLAG_ECE) tp->prior_ssthresh = 0", in any state.
        self.has_prior &= !ack_info.ece;
        if self.ca_state != CaState::Open && snd_una >= self.high_seq {
            match self.ca_state {
                CaState::Cwr if snd_una > self.high_seq => {
                    self.end_cwnd_reduction(now);
                    self.ca_state = CaState::Open;
                }
                CaState::Recovery => {
                    self.try_undo_recovery(now, ack_info.tsecr);
                    self.end_cwnd_reduction(now);
                }
                _ => {}
            }
        }
        match self.ca_state {
            CaState::Recovery => {
                if ack_info.snd_una_advanced && self.undo.is_packet_delayed(ack_info.tsecr) {
                    // The data that has arrived was sent before the first retransmission.
                    self.rack.on_reordering(0);
                    if self.flight.retrans_out() > 0 {
                        return;
                    }
                    self.undo_cwnd_reduction(now, true);
                    self.try_keep_open();
                } else if self.undo.all_dsacked() {
                    self.rack.on_recovered(true);
                    self.undo_cwnd_reduction(now, false);
                    self.try_to_open(now, ack_info);
                }
                self.detect_loss(now, ack_info, config);
                if self.ca_state != CaState::Recovery && self.flight.lost_out() > 0 {
                    self.enter_recovery(now, ack_info.ece);
                }
            }
            CaState::Loss => {
                self.process_loss(now, ack_info);
                self.detect_loss(now, ack_info, config);
                let has_left_loss = self.ca_state != CaState::Loss;
                if (has_left_loss || ack_info.lost_retrans) && self.flight.lost_out() > 0 {
                    self.enter_recovery(now, ack_info.ece);
                } else if has_left_loss {
                    self.try_to_open(now, ack_info);
                }
            }
            CaState::Open | CaState::Disorder | CaState::Cwr => {
                if self.ca_state != CaState::Cwr && self.undo.all_dsacked() {
                    self.rack.on_recovered(true);
                    self.undo_cwnd_reduction(now, false);
                }
                self.detect_loss(now, ack_info, config);
                if self.flight.lost_out() > 0 {
                    self.enter_recovery(now, ack_info.ece);
                } else {
                    self.try_to_open(now, ack_info);
                }
            }
        }
    }

    /// Handles an ACK after a timeout, by F-RTO (RFC 5682, section 3.1, with the SACK enhancement).
    pub(super) fn process_loss(&mut self, now: Time, ack_info: &AckInfo) {
        let is_recovered = self.snd_una() >= self.high_seq;
        if ack_info.snd_una_advanced && self.undo.may_undo(ack_info.tsecr) {
            return self.undo_loss(now);
        }
        if self.frto {
            // Step 3b: "(i.e., if it acknowledges data that was not retransmitted after the timeout), declare the timeout spurious"; a SACK
            // of such data has the same effect.
            if ack_info.orig_sack_acked {
                return self.undo_loss(now);
            }
            if self.snd_max > self.high_seq {
                // Step 3a: data above the missing segment is SACKed, so the segment was lost.
                self.frto &= ack_info.snd_una_advanced && !ack_info.data_sacked;
            } else if ack_info.snd_una_advanced && !is_recovered {
                // Step 2b: "transmit up to two new (previously unsent) segments".
                self.high_seq = self.snd_max;
                if !self.stream.is_sent(self.snd_max) && self.fits_peer_window() {
                    self.frto_phase = FrtoPhase::Due;
                    return;
                }
                self.frto = false;
            }
        }
        if is_recovered {
            self.try_undo_recovery(now, ack_info.tsecr);
        }
    }

    pub(super) fn undo_loss(&mut self, now: Time) {
        self.undo_cwnd_reduction(now, true);
        self.consecutive_timeouts = 0;
        self.ca_state = CaState::Open;
    }

    /// Ends a recovery when all data outstanding at its start is acknowledged. Undoes the reduction if it was spurious.
    pub(super) fn try_undo_recovery(&mut self, now: Time, tsecr: u32) {
        if self.undo.may_undo(tsecr) {
            self.undo_cwnd_reduction(now, false);
        } else {
            self.rack.on_recovered(false);
        }
        self.ca_state = CaState::Open;
    }

    /// Restores the window from before the reduction (tcp_undo_cwnd_reduction). With `unmark_loss`, also clears all loss marks.
    pub(super) fn undo_cwnd_reduction(&mut self, now: Time, unmark_loss: bool) {
        if unmark_loss {
            self.flight.clear_lost_marks();
        }
        self.prr = None;
        self.cwr_due = false;
        self.undo.clear();
        self.rack.on_undo();
        if std::mem::take(&mut self.has_prior) {
            self.control.on_spurious(now);
        }
    }

    /// Returns to the open or disorder state, or starts a reduction after ECN-Echo (tcp_try_to_open).
    pub(super) fn try_to_open(&mut self, now: Time, ack_info: &AckInfo) {
        if !self.flight.any_retrans_done() {
            self.undo.clear_retrans_stamp();
        }
        if ack_info.ece && self.ca_state < CaState::Cwr {
            self.undo.clear();
            self.init_cwnd_reduction(now, Cause::Mark);
            self.ca_state = CaState::Cwr;
        }
        if self.ca_state != CaState::Cwr {
            self.try_keep_open();
        }
    }

    pub(super) fn try_keep_open(&mut self) {
        let is_clean =
            self.flight.sacked_out() + self.flight.lost_out() == 0 && !self.flight.any_retrans_done();
        let ca_state = if is_clean { CaState::Open } else { CaState::Disorder };
        if self.ca_state != ca_state {
            self.ca_state = ca_state;
            self.high_seq = self.snd_max;
        }
    }

    /// Detects losses (RACK_detect_loss) if data has arrived since the last detection.
    pub(super) fn detect_loss(&mut self, now: Time, ack_info: &mut AckInfo, config: &TcpConfig) {
        if !self.rack.take_advanced() {
            return;
        }
        let retrans_out = self.flight.retrans_out();
        let (lost, wait) = self.mark_lost(now);
        ack_info.newly_lost += lost;
        ack_info.lost_retrans |= self.flight.retrans_out() < retrans_out;
        if let Some(wait) = wait {
            self.set_timer(Timer::Reordering, now, wait + min_timeout(config), config);
            ack_info.set_timer = false;
        }
    }

    /// Marks lost segments. Returns their number, and the time to wait for other segments that may still arrive.
    pub(super) fn mark_lost(&mut self, now: Time) -> (u32, Option<Span>) {
        let Self { flight, rack, rtt, ca_state, rate, .. } = self;
        let zero = Span::ZERO;
        let (min_rtt, srtt) = (rtt.min_rtt().unwrap_or(zero), rtt.srtt().unwrap_or(zero));
        let reo_wnd = rack.reo_wnd(flight.sacked_out(), *ca_state >= CaState::Recovery, min_rtt, srtt);
        let rtt_plus_reo_wnd = rack.rtt_plus_reo_wnd(reo_wnd);
        let packets_in_flight = flight.packets_in_flight();
        let wait = flight.detect_loss(
            |xmit_ts, end_seq| rack.sent_after(xmit_ts, end_seq),
            |xmit_ts| (xmit_ts + rtt_plus_reo_wnd > now).then(|| (xmit_ts + rtt_plus_reo_wnd) - now),
            |number| rate.iter_mut().for_each(|rate| rate.on_lost(number)),
        );
        (packets_in_flight - flight.packets_in_flight(), wait)
    }

    /// Starts a reduction of the window. The state lasts until all data sent so far is acknowledged, so that cwnd is reduced once per
    /// window of data.
    pub(super) fn init_cwnd_reduction(&mut self, now: Time, cause: Cause) {
        let prior_cwnd = self.cwnd();
        self.high_seq = self.snd_max;
        self.tlp = None;
        self.retransmitted = 0;
        self.notify_congestion(now, cause, false);
        if !self.control.uses_cong_control() {
            let ssthresh = (self.control.cwnd() / self.segment) as u32;
            self.prr = Some(Prr::new(prior_cwnd, ssthresh));
        }
    }

    /// Starts a recovery. `has_ece` is true if the ACK that shows the loss has ECN-Echo.
    pub(super) fn enter_recovery(&mut self, now: Time, has_ece: bool) {
        self.undo.init(self.snd_una(), self.flight.retrans_out());
        // tcp_enter_recovery: nothing is restored after a loss during a reduction for a mark, or that an ACK with ECN-Echo reports.
        self.has_prior = self.ca_state != CaState::Cwr && !has_ece;
        if self.prr.is_none() {
            self.init_cwnd_reduction(now, Cause::Loss);
        }
        self.stats.fast_retransmits += 1;
        self.ca_state = CaState::Recovery;
    }

    /// Ends a reduction of the window.
    pub(super) fn end_cwnd_reduction(&mut self, now: Time) {
        if self.prr.take().is_some() {
            self.control.on_recovered(&Recovered { now, deflation: 0, retransmitted: self.retransmitted });
        }
    }

    pub(super) fn notify_congestion(&mut self, now: Time, cause: Cause, repeated: bool) {
        self.cwr_due = true;
        self.control.on_congestion(&Congestion {
            now,
            cause,
            in_flight: u64::from(self.flight.packets_out()) * self.segment,
            receive_window: self.peer_window,
            repeated,
        });
    }

    /// Updates the window after an ACK (tcp_cong_control). PRR computes the window during a reduction, and the controller at other times.
    pub(super) fn cong_control(&mut self, now: Time, ack_info: &AckInfo) {
        if self.rate.is_some() {
            return self.notify_delivery(now, ack_info);
        }
        if let Some(prr) = &mut self.prr {
            prr.on_ack(
                ack_info.delivered,
                self.flight.packets_in_flight(),
                ack_info.snd_una_advanced && ack_info.newly_lost == 0,
            );
        }
        let cwnd = self.cwnd();
        let unsent = self.stream.unsent(self.snd_max);
        let in_slow_start = || self.control.phase(unsent) == Phase::SlowStart;
        let bytes = u64::from(ack_info.delivered) * self.segment;
        let ack = Ack {
            now,
            bytes,
            delivered: ack_info.delivered_bytes,
            marked: if ack_info.ece { bytes } else { 0 },
            in_flight: u64::from(ack_info.prior_in_flight) * self.segment,
            snd_una: self.snd_una(),
            snd_max: self.snd_max,
            unsent,
            rtt: ack_info.rtt,
            srtt: self.rtt.srtt(),
            cwnd_limited: self.cwnd_usage.is_cwnd_limited(cwnd, in_slow_start),
        };
        if self.prr.is_some() {
            self.control.on_ack_while_reduced(&ack);
        // tcp_may_raise_cwnd: "If reordering is high then always grow cwnd whenever data is delivered regardless of its ordering".
        } else if ack_info.snd_una_advanced || ack_info.data_sacked && self.rack.is_reordering_high() {
            self.control.on_ack(&ack);
        }
    }

    /// Notifies a controller that sets cwnd and the pacing rate itself of an ACK, in any state.
    #[inline(never)]
    fn notify_delivery(&mut self, now: Time, ack_info: &AckInfo) {
        let Some(rate) = &mut self.rate else { return };
        let sample = rate.sample(now, self.rtt.min_rtt());
        let is_single_short =
            ack_info.delivered == 1 && ack_info.snd_una_advanced && ack_info.delivered_bytes < self.segment;
        let delivery = Delivery {
            acked_sacked: ack_info.delivered,
            lost: ack_info.newly_lost,
            rate: sample,
            rtt: ack_info.rtt,
            is_ack_delayed: is_single_short && sample.is_some_and(|sample| sample.delivered == 1),
            prior_in_flight: ack_info.prior_in_flight,
            loss: rate.take_loss(),
            ..self.delivery(now)
        };
        self.control.on_delivery(&delivery);
        if self.control.is_cwnd_reduced_for_probe()
            && let Some(rate) = &mut self.rate
        {
            rate.mark_app_limited(self.flight.packets_in_flight());
        }
    }

    /// Notifies a controller that sets cwnd and the pacing rate itself of a timeout.
    #[inline(never)]
    pub(super) fn notify_timeout(&mut self, now: Time) {
        if self.rate.is_some() {
            let delivery = self.delivery(now);
            self.control.on_timeout(&delivery);
        }
    }

    /// Returns the state of the connection at `now`, as the delivery information of nothing.
    fn delivery(&self, now: Time) -> Delivery {
        let (delivered, delivered_time) = self.rate.as_ref().map_or((0, now), |rate| rate.delivered());
        let packets_in_flight = self.flight.packets_in_flight();
        Delivery {
            now,
            acked_sacked: 0,
            lost: 0,
            rate: None,
            rtt: None,
            is_ack_delayed: false,
            srtt: self.rtt.srtt(),
            prior_in_flight: packets_in_flight,
            packets_in_flight,
            delivered,
            delivered_time,
            loss: None,
            total_lost: self.rate.as_ref().map_or(0, |rate| rate.lost()),
            recovery_state: match self.ca_state {
                CaState::Open | CaState::Disorder | CaState::Cwr => RecoveryState::None,
                CaState::Recovery => RecoveryState::Recovery,
                CaState::Loss => RecoveryState::Loss,
            },
            next_departure: self.controller_pacing.release_at(),
        }
    }
}
