use super::ack::AckInfo;
use super::timers::LEAST_TIMER;
use super::{FrtoPhase, Sender, State, Timer};
use crate::control::{Ack, Cause, Congestion, CongestionControl, Delivery, Phase, Recovered, Repair};
use crate::modern::rack::prr::Prr;
use catnip_base::{Span, Time};

/// Congestion states and their transitions: Linux's tcp_fastretrans_alert and the functions that it calls.
impl Sender {
    /// Handles an ACK that may end the tail loss probe (TLP_process_ack).
    pub(super) fn end_probe(&mut self, now: Time, ack: u64, heard: &AckInfo) {
        let Some(probe) = self.probe.filter(|probe| ack >= probe.end) else { return };
        if !probe.is_retransmission || heard.duplicate_probe {
            // RFC 8985, section 7.4.2: "TLP of new data delivered", or "ACK has a DSACK option matching TLP.end_seq".
            self.probe = None;
        } else if ack > probe.end {
            // "Repaired the single loss": the window is reduced as after any loss.
            self.reduce(now, Cause::Loss);
            self.state = State::Cwr;
            self.end_reduction(now);
            self.try_keep_open();
        } else if !heard.advances && !heard.reports && !heard.ece {
            // Duplicate ACK: the segment and its probe have both arrived.
            self.probe = None;
        }
    }

    /// Updates the congestion state after an ACK (tcp_fastretrans_alert).
    #[inline]
    pub(super) fn update_state(&mut self, now: Time, mut heard: AckInfo) -> AckInfo {
        let is_quiet =
            self.state == State::Open && heard.advances && !heard.reports && !heard.duplicate && !heard.ece;
        if !is_quiet {
            self.fastretrans_alert(now, &mut heard);
        }
        heard
    }

    #[inline(never)]
    pub(super) fn fastretrans_alert(&mut self, now: Time, heard: &mut AckInfo) {
        let snd_una = self.snd_una();
        if heard.ece {
            self.undo_is_ruled_out();
        }
        if self.state != State::Open && snd_una >= self.high_seq {
            match self.state {
                State::Cwr if snd_una > self.high_seq => {
                    self.end_reduction(now);
                    self.state = State::Open;
                }
                State::Recovery => {
                    self.undo_or_end(now, heard.echo);
                    self.end_reduction(now);
                }
                _ => {}
            }
        }
        match self.state {
            State::Recovery => {
                if heard.advances && self.undo.is_delayed(heard.echo) {
                    // The data that has arrived was sent before the first retransmission.
                    self.rack.on_late_arrival(0);
                    if self.flight.resent() > 0 {
                        return;
                    }
                    self.undo_cwnd_reduction(now, true);
                    self.try_keep_open();
                } else if self.undo.all_were_duplicates() {
                    self.rack.on_recovered(true);
                    self.undo_cwnd_reduction(now, false);
                    self.try_open(now, heard);
                }
                self.find_lost(now, heard);
                if self.state != State::Recovery && self.flight.lost() > 0 {
                    self.enter_recovery(now);
                }
            }
            State::Loss => {
                self.judge_timeout(now, heard);
                self.find_lost(now, heard);
                let is_decided = self.state != State::Loss;
                if (is_decided || heard.lost_again) && self.flight.lost() > 0 {
                    self.enter_recovery(now);
                } else if is_decided {
                    self.try_open(now, heard);
                }
            }
            State::Open | State::Disorder | State::Cwr => {
                if self.state != State::Cwr && self.undo.all_were_duplicates() {
                    self.rack.on_recovered(true);
                    self.undo_cwnd_reduction(now, false);
                }
                self.find_lost(now, heard);
                if self.flight.lost() > 0 {
                    self.enter_recovery(now);
                } else {
                    self.try_open(now, heard);
                }
            }
        }
    }

    /// Handles an ACK after a timeout, by F-RTO (RFC 5682, section 3.1, with the SACK enhancement).
    pub(super) fn judge_timeout(&mut self, now: Time, heard: &AckInfo) {
        let is_over = self.snd_una() >= self.high_seq;
        if heard.advances && self.undo.applies(heard.echo) {
            return self.undo_timeout(now);
        }
        if self.frto {
            // Step 3b: "(i.e., if it acknowledges data that was not retransmitted after the timeout), declare the timeout spurious"; a SACK
            // of such data has the same effect.
            if heard.original {
                return self.undo_timeout(now);
            }
            if self.snd_max > self.high_seq {
                // Step 3a: data above the missing segment is SACKed, so the segment was lost.
                self.frto &= heard.advances && !heard.reports;
            } else if heard.advances && !is_over {
                // Step 2b: "transmit up to two new (previously unsent) segments".
                self.high_seq = self.snd_max;
                let fits = self.snd_max + self.segment <= self.snd_una() + self.peer_window;
                if !self.stream.is_sent(self.snd_max) && fits {
                    self.new_first = FrtoPhase::Due;
                    return;
                }
                self.frto = false;
            }
        }
        if is_over {
            self.undo_or_end(now, heard.echo);
        }
    }

    pub(super) fn undo_timeout(&mut self, now: Time) {
        self.undo_cwnd_reduction(now, true);
        self.timeouts_in_a_row = 0;
        self.state = State::Open;
    }

    /// Ends a recovery when all data outstanding at its start is acknowledged. Undoes the reduction if it was spurious.
    pub(super) fn undo_or_end(&mut self, now: Time, echo: u32) {
        if self.undo.applies(echo) {
            self.undo_cwnd_reduction(now, false);
        } else {
            self.rack.on_recovered(false);
        }
        self.state = State::Open;
    }

    /// Restores the window from before the reduction (tcp_undo_cwnd_reduction). With `nothing_was_lost`, also clears all loss marks.
    pub(super) fn undo_cwnd_reduction(&mut self, now: Time, nothing_was_lost: bool) {
        if nothing_was_lost {
            self.flight.unmark();
        }
        self.reduction = None;
        self.cwr_due = false;
        self.undo.forget();
        self.rack.on_undone();
        self.control.on_spurious(now);
    }

    pub(super) fn undo_is_ruled_out(&mut self) {
        if self.state < State::Cwr {
            self.undo.forget();
        }
    }

    /// Returns to the open or disorder state, or starts a reduction after ECN-Echo (tcp_try_to_open).
    pub(super) fn try_open(&mut self, now: Time, heard: &AckInfo) {
        if !self.flight.has_resent() {
            self.undo.on_all_arrived();
        }
        if heard.ece && self.state < State::Cwr {
            self.undo.forget();
            self.reduce(now, Cause::Mark);
            self.state = State::Cwr;
        }
        if self.state != State::Cwr {
            self.try_keep_open();
        }
    }

    pub(super) fn try_keep_open(&mut self) {
        let is_clean = self.flight.sacked() + self.flight.lost() == 0 && !self.flight.has_resent();
        let state = if is_clean { State::Open } else { State::Disorder };
        if self.state != state {
            self.state = state;
            self.high_seq = self.snd_max;
        }
    }

    /// Detects losses (RACK_detect_loss) if data has arrived since the last detection.
    pub(super) fn find_lost(&mut self, now: Time, heard: &mut AckInfo) {
        if !self.rack.take_new_delivery() {
            return;
        }
        let resent = self.flight.resent();
        let (lost, wait) = self.mark_lost(now);
        heard.lost += lost;
        heard.lost_again |= self.flight.resent() < resent;
        if let Some(wait) = wait {
            self.timer = Some((Timer::Reordering, now + wait + LEAST_TIMER));
            heard.rearms = false;
        }
    }

    /// Marks lost segments. Returns their number, and the time to wait for other segments that may still arrive.
    pub(super) fn mark_lost(&mut self, now: Time) -> (u32, Option<Span>) {
        let Self { flight, rack, round_trip, state, rate, .. } = self;
        let zero = Span::ZERO;
        let (least, srtt) = (round_trip.least().unwrap_or(zero), round_trip.srtt().unwrap_or(zero));
        let window = rack.window(flight.sacked(), *state >= State::Recovery, least, srtt);
        let patience = rack.patience(window);
        let in_network = flight.in_network();
        let wait = flight.find_lost(
            |sent, end| rack.is_after(sent, end),
            |sent| (sent + patience > now).then(|| (sent + patience) - now),
            |number| rate.iter_mut().for_each(|rate| rate.on_lost(number)),
        );
        (in_network - flight.in_network(), wait)
    }

    /// Starts a reduction of the window. The state lasts until all data sent so far is acknowledged, so that cwnd is reduced once per
    /// window of data.
    pub(super) fn reduce(&mut self, now: Time, cause: Cause) {
        let before = self.cwnd();
        self.high_seq = self.snd_max;
        self.probe = None;
        self.repaired = 0;
        self.notify_congestion(now, cause, false);
        if !self.control.uses_cong_control() {
            let ssthresh = (self.control.cwnd() / self.segment) as u32;
            self.reduction = Some(Prr::new(before, ssthresh));
        }
    }

    pub(super) fn enter_recovery(&mut self, now: Time) {
        self.undo.begin(self.snd_una(), self.flight.resent());
        if self.reduction.is_none() {
            self.reduce(now, Cause::Loss);
        }
        self.stats.fast_retransmits += 1;
        self.state = State::Recovery;
    }

    /// Ends a reduction of the window.
    pub(super) fn end_reduction(&mut self, now: Time) {
        if self.reduction.take().is_some() {
            self.control.on_recovered(&Recovered { now, taken: 0, retransmitted: self.repaired });
        }
    }

    pub(super) fn notify_congestion(&mut self, now: Time, cause: Cause, repeated: bool) {
        self.cwr_due = true;
        self.control.on_congestion(&Congestion {
            now,
            cause,
            in_flight: u64::from(self.flight.len()) * self.segment,
            receive_window: self.peer_window,
            repeated,
        });
    }

    /// Updates the window after an ACK (tcp_cong_control). PRR computes the window during a reduction, and the controller at other times.
    pub(super) fn steer(&mut self, now: Time, heard: &AckInfo) {
        if self.rate.is_some() {
            return self.notify_delivery(now, heard);
        }
        if let Some(prr) = &mut self.reduction {
            prr.on_ack(heard.arrived, self.flight.in_network(), heard.advances && heard.lost == 0);
        }
        let cwnd = self.cwnd();
        let unsent = self.stream.unsent(self.snd_max);
        let in_slow_start = self.control.phase(unsent) == Phase::SlowStart;
        let bytes = u64::from(heard.arrived) * self.segment;
        let ack = Ack {
            now,
            bytes,
            delivered: heard.bytes,
            marked: if heard.ece { bytes } else { 0 },
            in_flight: u64::from(heard.before) * self.segment,
            snd_una: self.snd_una(),
            next: self.snd_max,
            unsent,
            rtt: heard.rtt,
            srtt: self.round_trip.srtt(),
            cwnd_limited: self.usage.is_limited(cwnd, in_slow_start),
        };
        if self.reduction.is_some() {
            self.control.on_ack_while_reduced(&ack);
        } else if heard.advances {
            self.control.on_ack(&ack);
        }
    }

    /// Notifies a controller that sets cwnd and the pacing rate itself of an ACK, in any state.
    #[inline(never)]
    fn notify_delivery(&mut self, now: Time, heard: &AckInfo) {
        let Some(rate) = &mut self.rate else { return };
        let sample = rate.sample(now, self.round_trip.least());
        let (delivered, delivered_at) = rate.delivered();
        let is_alone = heard.arrived == 1 && heard.advances && heard.bytes < self.segment;
        self.control.on_delivery(&Delivery {
            now,
            arrived: heard.arrived,
            lost: heard.lost,
            rate: sample,
            rtt: heard.rtt,
            may_be_delayed: is_alone && sample.is_some_and(|sample| sample.delivered == 1),
            srtt: self.round_trip.srtt(),
            before: heard.before,
            in_network: self.flight.in_network(),
            delivered,
            delivered_at,
            loss: rate.take_loss(),
            lost_in_all: rate.lost(),
            repair: match self.state {
                State::Open | State::Disorder | State::Cwr => Repair::None,
                State::Recovery => Repair::Recovery,
                State::Loss => Repair::Loss,
            },
            next_departure: self.steered.release_at(),
        });
        if self.control.is_cwnd_reduced_for_probe() {
            rate.limit(self.flight.in_network());
        }
    }
}
