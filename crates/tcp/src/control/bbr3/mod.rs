mod bounds;
mod cycle;
mod round_trip;

use super::bbr::{
    Aggregation, Bandwidth, CwndRecovery, INITIAL_CWND, MIN_CWND, PacingRate, UNIT, bandwidth, bdp,
};
use super::{
    Ack, Cause, Congestion, CongestionControl, Control, ControlKind, Delivery, LossSample, Phase,
    RecoveryState, Start, TxStart,
};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Span, Time};

/// Configuration of [`Bbr3`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bbr3Spec;

impl Kind for Bbr3Spec {
    const USAGE: &'static [Usage] = &[(
        "bbr3",
        "BBRv3 (draft-ietf-ccwg-bbr-05): BBR that also limits its data in flight in response to losses; needs recovery = \"rack\"",
    )];
    const EXAMPLES: &'static [&'static str] = &["bbr3"];

    fn read(_text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self)
    }

    fn write(&self, to: &mut Written) {
        to.name("bbr3");
    }
}

impl ControlKind for Bbr3Spec {
    type Control = Box<Bbr3>;
    fn build(&self, start: &Start) -> Box<Bbr3> {
        Box::new(Bbr3::new(start))
    }
}

/// BBRv3 (draft-ietf-ccwg-bbr-05). Names such as BBR.max_bw and BBRCheckProbeRTT are those of the draft. Inflight is counted in segments.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    segment: u64,
    /// Congestion window, segments.
    cwnd: u32,
    pacing: PacingRate,
    state: State,
    rounds: Rounds,
    /// BBR.max_bw of the current and of the previous ProbeBW cycle.
    max_bw: [Bandwidth; 2],
    /// BBR.bw_shortterm and BBR.inflight_shortterm: bounds set by recent losses.
    bw_shortterm: Option<Bandwidth>,
    inflight_shortterm: Option<u32>,
    /// BBR.inflight_longterm: inflight above which the loss rate was too high.
    inflight_longterm: Option<u32>,
    latest: DeliverySignals,
    full: Full,
    probe: Probe,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    cwnd_recovery: CwndRecovery,
    /// Bounds and state from before a loss, to restore if the loss was spurious.
    undo: Undo,
    idle_restart: bool,
    last: Option<Delivery>,
}

/// BBR.state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// Phase of the current ACKs relative to the bandwidth probe (BBR.ack_phase).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

#[derive(Clone, Copy, Debug)]
struct Rounds {
    /// BBR.round_count.
    count: u32,
    round_start: bool,
    /// BBR.next_round_delivered.
    next_round_delivered: u64,
    /// True if the ACK begins a round for loss accounting. `loss_round_delivered` is the end of this round, BBR.loss_round_delivered.
    loss_round_start: bool,
    loss_round_delivered: u64,
    /// True if a loss occurred in this loss round. `loss_events_in_round` is the number of its ACKs that reported losses.
    loss_in_round: bool,
    loss_events_in_round: u32,
    /// Rounds since a recovery began.
    in_recovery: u32,
    /// BBR.drain_start_round: `count` when Drain began.
    drain_start: u32,
}

/// Delivery signals of the latest round.
#[derive(Clone, Copy, Debug, Default)]
struct DeliverySignals {
    bw: Bandwidth,
    inflight: u32,
}

/// Detection of a full pipe.
#[derive(Clone, Copy, Debug, Default)]
struct Full {
    bw: Bandwidth,
    count: u32,
    /// BBR.full_bw_now: true if the pipe was full since the last probe began. `full_bw_reached` is BBR.full_bw_reached.
    full_bw_now: bool,
    full_bw_reached: bool,
}

/// Probing for bandwidth.
#[derive(Clone, Copy, Debug)]
struct Probe {
    ack_phase: AckPhase,
    since: Time,
    wait: Span,
    /// BBR.rounds_since_bw_probe.
    rounds: u32,
    /// BBR.bw_probe_samples: true if samples reflect the bandwidth probe.
    has_bw_probe_samples: bool,
    up_rounds: u32,
    up_acks: u32,
    /// Number of acknowledged segments per segment of growth of inflight_longterm; `None` if it does not grow.
    up_count: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct MinRtt {
    min: Option<Span>,
    stamp: Time,
    /// Minimum RTT of the last five seconds.
    probe_min: Option<Span>,
    probe_min_stamp: Time,
    is_expired: bool,
    probe_rtt_done_stamp: Option<Time>,
    is_probe_rtt_round_done: bool,
}

/// BBR.undo_bw_shortterm, BBR.undo_inflight_shortterm, BBR.undo_inflight_longterm and BBR.undo_state.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    bw_shortterm: Option<Bandwidth>,
    inflight_shortterm: Option<u32>,
    inflight_longterm: Option<u32>,
    ended_probe: Option<EndedProbe>,
}

/// Probing state that a loss ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndedProbe {
    Startup,
    Up,
}

/// Pacing gain of Startup, 4 ln 2 (section 5.6.1). The window gain of Startup is 2 (section 2.4).
const STARTUP_PACING: u64 = UNIT * 277 / 100;
/// BBR.DrainPacingGain. It was 0.35 up to draft-ietf-ccwg-bbr-04.
const DRAIN_PACING: u64 = UNIT / 2;
/// Number of rounds after which Drain ends, even if the queue is not drained (BBRCheckDrainDone).
const DRAIN_ROUNDS: u32 = 3;
const DOWN_PACING: u64 = UNIT * 90 / 100;
const UP_PACING: u64 = UNIT * 5 / 4;
const UP_WINDOW: u64 = UNIT * 9 / 4;
const FULL_ROUNDS: u32 = 3;
/// BBRStartupFullLossCnt.
const STARTUP_LOSSES: u32 = 6;
/// BBRLossThresh, per cent. The next two constants are BBRBeta, in units of 1/256, and BBRHeadroom, per cent.
const LOSS_PCT: u32 = 2;
const BETA: u64 = UNIT * 7 / 10;
const HEADROOM_PCT: u32 = 15;
const PROBE_RTT_INTERVAL: Span = Span::from_secs(5);
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
/// Maximum number of rounds between probes, for coexistence with Reno (section 5.3.3.5.1).
const MAX_RENO_ROUNDS: u32 = 63;

impl Bbr3 {
    fn new(start: &Start) -> Self {
        let segment = start.segment_bytes.into();
        Self {
            segment,
            cwnd: start.window,
            pacing: PacingRate::new(segment, start.window, (STARTUP_PACING, 100)),
            state: State::Startup,
            rounds: Rounds {
                count: 0,
                round_start: false,
                next_round_delivered: 0,
                loss_round_start: false,
                loss_round_delivered: 0,
                loss_in_round: false,
                loss_events_in_round: 0,
                in_recovery: 0,
                drain_start: 0,
            },
            max_bw: [0; 2],
            bw_shortterm: None,
            inflight_shortterm: None,
            inflight_longterm: None,
            latest: DeliverySignals::default(),
            full: Full::default(),
            probe: Probe {
                ack_phase: AckPhase::Init,
                since: Time::ZERO,
                wait: Span::ZERO,
                rounds: 0,
                has_bw_probe_samples: false,
                up_rounds: 0,
                up_acks: 0,
                up_count: None,
            },
            min_rtt: MinRtt {
                min: None,
                stamp: Time::ZERO,
                probe_min: None,
                probe_min_stamp: Time::ZERO,
                is_expired: false,
                probe_rtt_done_stamp: None,
                is_probe_rtt_round_done: false,
            },
            aggregation: Aggregation::default(),
            cwnd_recovery: CwndRecovery::default(),
            undo: Undo::default(),
            idle_restart: false,
            last: None,
        }
    }

    fn max_bandwidth(&self) -> Bandwidth {
        self.max_bw[0].max(self.max_bw[1])
    }

    /// Returns BBR.bw: the maximum bandwidth, limited by the short-term bound.
    fn bandwidth(&self) -> Bandwidth {
        self.bw_shortterm.map_or(self.max_bandwidth(), |bw| bw.min(self.max_bandwidth()))
    }

    fn gains(&self) -> (u64, u64) {
        match self.state {
            State::Startup => (STARTUP_PACING, 2 * UNIT),
            State::Drain => (DRAIN_PACING, 2 * UNIT),
            State::Down => (DOWN_PACING, 2 * UNIT),
            State::Cruise | State::Refill => (UNIT, 2 * UNIT),
            State::Up => (UP_PACING, UP_WINDOW),
            State::ProbeRtt => (UNIT, UNIT / 2),
        }
    }

    /// Updates the delivery signals and the congestion signals (BBRUpdateLatestDeliverySignals and BBRUpdateCongestionSignals).
    fn update_signals(&mut self, ack: &Delivery) {
        self.rounds.round_start = false;
        self.rounds.loss_round_start = false;
        if ack.lost > 0 {
            self.record_loss(ack);
        }
        let Some(sample) = ack.rate else { return };
        let Some(interval) = sample.interval else { return };
        let bw = bandwidth(sample.delivered, interval);
        self.latest.bw = self.latest.bw.max(bw);
        self.latest.inflight = self.latest.inflight.max(sample.delivered);
        if sample.prior_delivered >= self.rounds.loss_round_delivered {
            self.rounds.loss_round_delivered = ack.delivered;
            self.rounds.loss_round_start = true;
        }
        if sample.prior_delivered >= self.rounds.next_round_delivered {
            self.start_round(ack);
            self.rounds.count += 1;
            self.rounds.round_start = true;
            self.probe.rounds += 1;
            self.cwnd_recovery.on_round();
            self.rounds.in_recovery += u32::from(ack.recovery_state != RecoveryState::None);
        }
        if bw >= self.max_bandwidth() || !sample.is_app_limited {
            self.max_bw[0] = self.max_bw[0].max(bw);
        }
        if ack.acked_sacked > 0 {
            let bw = self.bandwidth();
            self.aggregation.on_ack(
                ack.delivered_time,
                ack.acked_sacked,
                self.rounds.round_start,
                bw,
                self.cwnd,
            );
        }
    }

    fn record_loss(&mut self, ack: &Delivery) {
        if !self.rounds.loss_in_round {
            self.rounds.loss_round_delivered = ack.delivered;
        }
        self.rounds.loss_in_round = true;
        self.rounds.loss_events_in_round += 1;
    }

    /// Resets losses and delivery signals if the ACK began a loss round.
    fn end_loss_round(&mut self, ack: &Delivery) {
        if !self.rounds.loss_round_start {
            return;
        }
        (self.rounds.loss_in_round, self.rounds.loss_events_in_round) = (false, 0);
        if let Some(sample) = ack.rate
            && let Some(interval) = sample.interval
        {
            self.latest =
                DeliverySignals { bw: bandwidth(sample.delivered, interval), inflight: sample.delivered };
        }
    }

    fn start_round(&mut self, ack: &Delivery) {
        self.rounds.next_round_delivered = ack.delivered;
    }

    fn check_full_bw(&mut self, ack: &Delivery) {
        let Some(sample) = ack.rate else { return };
        let Some(interval) = sample.interval else { return };
        if self.full.full_bw_now || sample.is_app_limited {
            return;
        }
        let bw = bandwidth(sample.delivered, interval);
        if bw >= self.full.bw * 5 / 4 {
            self.reset_full_bw(bw);
            return;
        }
        if !self.rounds.round_start {
            return;
        }
        self.full.count += 1;
        self.full.full_bw_now = self.full.count >= FULL_ROUNDS;
        self.full.full_bw_reached |= self.full.full_bw_now;
    }

    fn reset_full_bw(&mut self, bw: Bandwidth) {
        self.full = Full { bw, count: 0, full_bw_now: false, ..self.full };
    }

    /// Ends Startup if the pipe is full or losses persist.
    fn end_startup(&mut self, ack: &Delivery) {
        if self.state != State::Startup {
            return;
        }
        let is_loss_too_high = ack.loss.is_some_and(|loss| is_inflight_too_high(&loss))
            || ack.rate.is_some_and(|sample| sample.lost * 100 > sample.tx_in_flight * LOSS_PCT);
        if self.rounds.in_recovery > 0
            && self.rounds.loss_events_in_round >= STARTUP_LOSSES
            && is_loss_too_high
        {
            self.full.full_bw_reached = true;
            self.inflight_longterm = Some(self.bdp(self.max_bandwidth(), UNIT).max(self.latest.inflight));
        }
        if self.full.full_bw_reached {
            self.state = State::Drain;
            self.rounds.drain_start = self.rounds.count;
        }
    }

    /// Ends Drain if the queue is drained. If it takes long, the bandwidth was overestimated.
    fn end_drain(&mut self, ack: &Delivery) {
        let is_drained = ack.packets_in_flight <= self.inflight(UNIT);
        let is_overdue = self.rounds.count > self.rounds.drain_start + DRAIN_ROUNDS;
        if self.state == State::Drain && (is_drained || is_overdue) {
            self.start_down(ack);
        }
    }

    fn set_pacing_rate(&mut self, srtt: Option<Span>, gain: u64) {
        self.pacing.update((self.bandwidth(), gain), self.full.full_bw_reached, self.cwnd, srtt);
    }

    fn update_cwnd(&mut self, ack: &Delivery, gain: u64) {
        if ack.acked_sacked > 0 && !self.recover_or_restore_cwnd(ack) {
            let bw = self.bandwidth();
            let target = self.with_quantization_budget(self.bdp(bw, gain) + self.aggregation.extra_cwnd(bw));
            if self.full.full_bw_reached {
                self.cwnd = (self.cwnd + ack.acked_sacked).min(target);
            } else if self.cwnd < target || ack.delivered < u64::from(INITIAL_CWND) {
                self.cwnd += ack.acked_sacked;
            }
            self.cwnd = self.cwnd.max(MIN_CWND);
        }
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model();
    }

    fn recover_or_restore_cwnd(&mut self, ack: &Delivery) -> bool {
        if self.cwnd_recovery.begin(ack) {
            self.rounds.in_recovery = 0;
        }
        self.cwnd_recovery.on_ack(ack, &mut self.cwnd)
    }

    fn bdp(&self, bw: Bandwidth, gain: u64) -> u32 {
        self.min_rtt.min.map_or(INITIAL_CWND, |rtt| bdp(bw, rtt, gain))
    }

    fn inflight(&self, gain: u64) -> u32 {
        self.with_quantization_budget(self.bdp(self.bandwidth(), gain))
    }

    /// BBRQuantizationBudget: returns `inflight` with a budget for segments held by the hosts.
    fn with_quantization_budget(&self, inflight: u32) -> u32 {
        let min_inflight = (3 * self.pacing.burst()).max(MIN_CWND);
        inflight.max(min_inflight) + if self.state == State::Up { 2 } else { 0 }
    }

    fn target_inflight(&self) -> u32 {
        self.bdp(self.bandwidth(), UNIT).min(self.cwnd)
    }
}

/// Returns the larger of two bounds. `None` means no bound and is larger than any bound.
fn max_bound<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    Some(a?.max(b?))
}

/// IsInflightTooHigh: returns true if the losses since a segment was sent exceed the threshold share of the inflight at the time of
/// sending.
fn is_inflight_too_high(loss: &LossSample) -> bool {
    loss.lost * 100 > loss.tx_in_flight * LOSS_PCT
}

/// BBRInflightAtLoss: returns the inflight at which the losses reached the threshold. It is at most the inflight when the lost segment was
/// sent.
fn inflight_at_loss(loss: &LossSample) -> u32 {
    let (inflight, lost) = (f64::from(loss.tx_in_flight.max(1) - 1), f64::from(loss.lost.max(1) - 1));
    let threshold = f64::from(LOSS_PCT) / 100.0;
    let prefix = (threshold * inflight - lost) / (1.0 - threshold);
    (inflight + prefix).max(0.0) as u32
}

impl CongestionControl for Bbr3 {
    fn control(&self) -> Control {
        Control { cwnd: u64::from(self.cwnd) * self.segment, ssthresh: None }
    }

    fn phase(&self, _unsent: u64) -> Phase {
        if self.state == State::Startup { Phase::SlowStart } else { Phase::CongestionAvoidance }
    }

    fn on_ack(&mut self, _ack: &Ack) {}

    fn uses_cong_control(&self) -> bool {
        true
    }

    fn on_handshake(&mut self, now: Time, rtt: Span) {
        let it = &mut self.min_rtt;
        (it.min, it.stamp, it.probe_min, it.probe_min_stamp) = (Some(rtt), now, Some(rtt), now);
        self.pacing.on_handshake(self.cwnd, rtt);
        self.aggregation.restart(now);
    }

    fn on_delivery(&mut self, ack: &Delivery) {
        if self.last.is_none() && self.min_rtt.min.is_none() {
            (self.min_rtt.stamp, self.min_rtt.probe_min_stamp) = (ack.now, ack.now);
        }
        self.update_signals(ack);
        self.adapt_lower_bounds();
        self.check_full_bw(ack);
        self.end_startup(ack);
        self.end_drain(ack);
        self.update_cycle(ack);
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack);
        self.end_loss_round(ack);
        let (pacing, window) = self.gains();
        self.set_pacing_rate(ack.srtt, pacing);
        self.update_cwnd(ack, window);
        self.last = Some(*ack);
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing.rate())
    }

    fn paces_first_segments(&self) -> bool {
        true
    }

    fn is_cwnd_reduced_for_probe(&self) -> bool {
        self.state == State::ProbeRtt
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if !event.repeated {
            self.cwnd_recovery.save(self.cwnd, self.state == State::ProbeRtt);
            self.undo = Undo {
                bw_shortterm: self.bw_shortterm,
                inflight_shortterm: self.inflight_shortterm,
                inflight_longterm: self.inflight_longterm,
                ended_probe: match self.state {
                    State::Startup => Some(EndedProbe::Startup),
                    State::Up => Some(EndedProbe::Up),
                    _ => None,
                },
            };
        }
        if event.cause == Cause::Restart {
            self.cwnd = 1;
            self.cwnd_recovery.recovery_state = RecoveryState::Loss;
        }
    }

    /// BBRHandleSpuriousLossDetection: restores the bounds that the loss has lowered, and resumes the probe that the loss has ended.
    fn on_spurious(&mut self, _now: Time) {
        let undo = self.undo;
        self.rounds.loss_in_round = false;
        self.reset_full_bw(0);
        self.bw_shortterm = max_bound(self.bw_shortterm, undo.bw_shortterm);
        self.inflight_shortterm = max_bound(self.inflight_shortterm, undo.inflight_shortterm);
        self.inflight_longterm = max_bound(self.inflight_longterm, undo.inflight_longterm);
        match undo.ended_probe {
            Some(EndedProbe::Startup) if self.state != State::Startup => {
                self.full.full_bw_reached = false;
                self.state = State::Startup;
            }
            Some(EndedProbe::Up) if self.state != State::Up => {
                if let Some(last) = self.last {
                    self.start_up(&last);
                }
            }
            _ => {}
        }
    }

    fn on_tx_start(&mut self, &TxStart { now, is_app_limited, .. }: &TxStart) {
        if !is_app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.is_probing_bw() {
            self.set_pacing_rate(None, UNIT);
        } else if self.state == State::ProbeRtt
            && let Some(last) = self.last
        {
            self.end_probe_rtt(&Delivery { now, ..last });
        }
    }

    fn set_cwnd(&mut self, cwnd: u64, _ssthresh: Option<u64>) {
        self.cwnd = (cwnd / self.segment) as u32;
    }
}

#[cfg(test)]
mod tests;
