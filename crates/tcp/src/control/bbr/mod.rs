mod aggregation;
mod cwnd_recovery;
mod max_filter;
mod pacing_rate;
mod policer;

use super::{
    Ack, Cause, Congestion, CongestionControl, Control, ControlKind, Delivery, Phase, RecoveryState, Start,
    TxStart,
};
pub(super) use aggregation::Aggregation;
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Span, Time};
pub(super) use cwnd_recovery::CwndRecovery;
use max_filter::MaxFilter;
pub(super) use pacing_rate::PacingRate;
use policer::{Policer, PolicerAction};

/// Configuration of [`Bbr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BbrSpec;

impl Kind for BbrSpec {
    const USAGE: &'static [Usage] = &[(
        "bbr",
        "BBR, version 1, as in Linux 6: paces at the measured delivery rate, probes for more bandwidth and drains the resulting queue; \
         needs recovery = \"rack\"",
    )];
    const EXAMPLES: &'static [&'static str] = &["bbr"];

    fn read(_text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self)
    }

    fn write(&self, to: &mut Written) {
        to.name("bbr");
    }
}

impl ControlKind for BbrSpec {
    type Control = Box<Bbr>;
    fn build(&self, start: &Start) -> Box<Bbr> {
        Box::new(Bbr::new(start))
    }
}

/// Bandwidth, segments per microsecond times 2^24.
pub(super) type Bandwidth = u64;

const BW_SCALE: u32 = 24;
/// Gain of 1. Gains are in units of 1/256.
pub(super) const UNIT: u64 = 256;
/// Gain of 2/ln 2, the smallest that doubles the delivery rate in each round.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
/// Ratio of the window to the bandwidth-delay product in ProbeBW. It leaves space for delayed and aggregated ACKs.
const CWND_GAIN: u64 = UNIT * 2;
/// Pacing gains of the ProbeBW cycle. The first phase probes for bandwidth, the second one drains the queue that the probe may have built,
/// and the others keep the estimated bandwidth.
const PACING_GAIN_CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Length of the window of the bandwidth filter, rounds.
const BW_ROUNDS: u32 = PACING_GAIN_CYCLE.len() as u32 + 2;
/// Growth of the bandwidth by a quarter. The pipe is full after three consecutive rounds without such growth.
const FULL_BW_THRESH: u64 = UNIT * 5 / 4;
const FULL_BW_COUNT: u32 = 3;
pub(super) const MIN_CWND: u32 = 4;
pub(super) const INITIAL_CWND: u32 = 10;
/// Maximum age of the minimum RTT. After this time, ProbeRTT measures it again with the minimum window for [`PROBE_RTT`].
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
pub(super) const PROBE_RTT: Span = Span::from_millis(200);
/// Margin of the pacing rate below the bandwidth, per cent.
const MARGIN_PCT: u64 = 1;

/// BBR, version 1 (Cardwell et al., ACM Queue 2016; draft-cardwell-iccrg-bbr-congestion-control-00), with the integer arithmetic of Linux's
/// tcp_bbr.c. Its model of the path is the largest delivery rate of the last ten rounds and the minimum RTT of the last ten seconds. The
/// pacing rate and the window are this model times a gain.
#[derive(Clone, Debug)]
pub struct Bbr {
    segment: u64,
    /// Congestion window, segments.
    cwnd: u32,
    ssthresh: Option<u32>,
    pacing: PacingRate,
    mode: Mode,
    bw: MaxFilter,
    rtt_cnt: u32,
    round_start: bool,
    /// Delivery count that ends the round: the next round begins with the ACK of a segment sent at or after this count.
    next_rtt_delivered: u64,
    cwnd_recovery: CwndRecovery,
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    probe_rtt_done_at: Option<Time>,
    is_probe_rtt_round_done: bool,
    idle_restart: bool,
    full_bw: Bandwidth,
    full_bw_cnt: u32,
    full_bw_reached: bool,
    cycle_idx: usize,
    cycle_started_at: Time,
    policer: Policer,
    aggregation: Aggregation,
    /// Last ACK, used to handle events without an ACK.
    last: Option<Delivery>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

impl Bbr {
    fn new(start: &Start) -> Self {
        let segment = u64::from(start.segment_bytes);
        Self {
            segment,
            cwnd: start.window,
            ssthresh: None,
            pacing: PacingRate::new(segment, start.window, (HIGH_GAIN, 100 - MARGIN_PCT)),
            mode: Mode::Startup,
            bw: MaxFilter::new(BW_ROUNDS),
            rtt_cnt: 0,
            round_start: false,
            next_rtt_delivered: 0,
            cwnd_recovery: CwndRecovery::default(),
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_done_at: None,
            is_probe_rtt_round_done: false,
            idle_restart: false,
            full_bw: 0,
            full_bw_cnt: 0,
            full_bw_reached: false,
            cycle_idx: 0,
            cycle_started_at: Time::ZERO,
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            last: None,
        }
    }

    /// Returns the bandwidth estimate: the rate of a detected policer, otherwise the maximum of the filter.
    fn bandwidth(&self) -> Bandwidth {
        self.policer.rate().unwrap_or(self.bw.get())
    }

    fn gains(&self) -> Gains {
        let (pacing, window) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBw => (PACING_GAIN_CYCLE[self.cycle_idx], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
        Gains { pacing, window }
    }

    /// Updates the round and the bandwidth. A round begins with the ACK of a segment that was sent after the end of the previous round.
    fn update_bandwidth(&mut self, ack: &Delivery) {
        self.round_start = false;
        let Some(sample) = ack.rate else { return };
        let Some(interval) = sample.interval else { return };
        if sample.prior_delivered >= self.next_rtt_delivered {
            self.next_rtt_delivered = ack.delivered;
            self.rtt_cnt += 1;
            self.round_start = true;
            self.cwnd_recovery.on_round();
        }
        self.update_policer(ack, sample.is_app_limited);
        let bw = bandwidth(sample.delivered, interval);
        // An application-limited sample counts only if it raises the estimate.
        if !sample.is_app_limited || bw >= self.bw.get() {
            self.bw.add(self.rtt_cnt, bw);
        }
        let (now, bw) = (ack.delivered_time, self.bandwidth());
        if ack.acked_sacked > 0 {
            self.aggregation.on_ack(now, ack.acked_sacked, self.round_start, bw, self.cwnd);
        }
    }

    fn update_policer(&mut self, ack: &Delivery, is_app_limited: bool) {
        let is_probing = self.mode == Mode::ProbeBw;
        let action = self.policer.on_ack(ack, self.round_start, is_app_limited, is_probing, self.segment);
        if action == PolicerAction::Reprobe {
            self.probe_bandwidth(ack);
        }
    }

    /// Enters ProbeBW in a random phase. The draining phase is excluded, because no probe has built a queue yet.
    fn probe_bandwidth(&mut self, at: &Delivery) {
        let random = pseudo_random(at);
        self.mode = Mode::ProbeBw;
        self.cycle_idx =
            PACING_GAIN_CYCLE.len() - 1 - (random % (PACING_GAIN_CYCLE.len() as u64 - 1)) as usize;
        self.advance_cycle(at.delivered_time);
    }

    fn advance_cycle(&mut self, now: Time) {
        self.cycle_idx = (self.cycle_idx + 1) % PACING_GAIN_CYCLE.len();
        self.cycle_started_at = now;
    }

    fn update_cycle(&mut self, ack: &Delivery) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let is_full_length =
            self.min_rtt.is_some_and(|min_rtt| ack.delivered_time.since(self.cycle_started_at) > min_rtt);
        let gain = self.gains().pacing;
        let is_done = if gain == UNIT {
            is_full_length
        } else if gain > UNIT {
            // A probe ends when inflight has reached its target, which may take longer than a short minimum RTT, or when a loss shows that
            // the capacity of the path is exceeded.
            let inflight = self.inflight_at_departure(ack, ack.prior_in_flight);
            is_full_length
                && (ack.lost > 0 || inflight >= self.with_quantization_budget(self.bdp(self.bw.get(), gain)))
        } else {
            let inflight = self.inflight_at_departure(ack, ack.prior_in_flight);
            is_full_length || inflight <= self.with_quantization_budget(self.bdp(self.bw.get(), UNIT))
        };
        if is_done {
            self.advance_cycle(ack.delivered_time);
        }
    }

    fn check_full_bw(&mut self, ack: &Delivery) {
        let is_app_limited = ack.rate.is_some_and(|sample| sample.is_app_limited);
        if self.full_bw_reached || !self.round_start || is_app_limited {
            return;
        }
        if self.bw.get() >= self.full_bw * FULL_BW_THRESH / UNIT {
            (self.full_bw, self.full_bw_cnt) = (self.bw.get(), 0);
            return;
        }
        self.full_bw_cnt += 1;
        self.full_bw_reached = self.full_bw_cnt >= FULL_BW_COUNT;
    }

    fn check_drain(&mut self, ack: &Delivery) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.ssthresh = Some(self.with_quantization_budget(self.bdp(self.bw.get(), UNIT)));
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain
            && self.inflight_at_departure(ack, ack.packets_in_flight)
                <= self.with_quantization_budget(self.bdp(self.bw.get(), UNIT))
        {
            self.probe_bandwidth(ack);
        }
    }

    fn update_min_rtt(&mut self, ack: &Delivery) {
        let has_expired = ack.now > self.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt
            && (self.min_rtt.is_none_or(|min_rtt| rtt <= min_rtt) || has_expired && !ack.is_ack_delayed)
        {
            (self.min_rtt, self.min_rtt_at) = (Some(rtt), ack.now);
        }
        if has_expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            // The argument is `true` as in Linux, which saves cwnd after the mode has changed to ProbeRTT.
            self.cwnd_recovery.save(self.cwnd, true);
            self.probe_rtt_done_at = None;
        }
        if self.mode == Mode::ProbeRtt {
            match self.probe_rtt_done_at {
                None if ack.packets_in_flight <= MIN_CWND => {
                    self.probe_rtt_done_at = Some(ack.now + PROBE_RTT);
                    self.is_probe_rtt_round_done = false;
                    self.next_rtt_delivered = ack.delivered;
                }
                None => {}
                Some(_) => {
                    self.is_probe_rtt_round_done |= self.round_start;
                    if self.is_probe_rtt_round_done {
                        self.end_probe_rtt(ack);
                    }
                }
            }
        }
        if ack.rate.is_some_and(|sample| sample.delivered > 0) {
            self.idle_restart = false;
        }
    }

    fn end_probe_rtt(&mut self, at: &Delivery) {
        if self.probe_rtt_done_at.is_none_or(|until| at.now <= until) {
            return;
        }
        self.min_rtt_at = at.now;
        self.cwnd = self.cwnd_recovery.restored(self.cwnd);
        if self.full_bw_reached {
            self.probe_bandwidth(at);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn set_pacing_rate(&mut self, srtt: Option<Span>, gain: u64) {
        self.pacing.update((self.bandwidth(), gain), self.full_bw_reached, self.cwnd, srtt);
    }

    fn update_cwnd(&mut self, ack: &Delivery, gain: u64) {
        if ack.acked_sacked > 0 && !self.recover_or_restore_cwnd(ack) {
            let bw = self.bandwidth();
            let extra = if self.full_bw_reached { self.aggregation.extra_cwnd(bw) } else { 0 };
            let target = self.with_quantization_budget(self.bdp(bw, gain) + extra);
            if self.full_bw_reached {
                self.cwnd = (self.cwnd + ack.acked_sacked).min(target);
            } else if self.cwnd < target || ack.delivered < u64::from(INITIAL_CWND) {
                self.cwnd += ack.acked_sacked;
            }
            self.cwnd = self.cwnd.max(MIN_CWND);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(MIN_CWND);
        }
    }

    fn recover_or_restore_cwnd(&mut self, ack: &Delivery) -> bool {
        if self.cwnd_recovery.begin(ack) {
            self.next_rtt_delivered = ack.delivered;
        }
        self.cwnd_recovery.on_ack(ack, &mut self.cwnd)
    }

    /// Returns the bandwidth-delay product for the bandwidth `bw`, multiplied by `gain`, segments.
    fn bdp(&self, bw: Bandwidth, gain: u64) -> u32 {
        self.min_rtt.map_or(INITIAL_CWND, |rtt| bdp(bw, rtt, gain))
    }

    /// Returns the inflight target for `inflight` segments (bbr_quantization_budget): adds a budget for segments held by the hosts, rounds
    /// up to an even number because of delayed ACKs, and adds two segments while probing.
    fn with_quantization_budget(&self, inflight: u32) -> u32 {
        let even = (inflight + 3 * self.pacing.burst() + 1) & !1;
        even + if self.mode == Mode::ProbeBw && self.cycle_idx == 0 { 2 } else { 0 }
    }

    /// Returns the number of segments in flight when the next segment departs, if `now` segments are in flight at present.
    fn inflight_at_departure(&self, ack: &Delivery, now: u32) -> u32 {
        let wait_us = micros(ack.next_departure.since(ack.now.min(ack.next_departure)));
        let delivered = segments_in(self.bandwidth(), wait_us);
        let burst = if self.gains().pacing > UNIT { self.pacing.burst() } else { 0 };
        let inflight = u64::from(now + burst);
        inflight.saturating_sub(delivered) as u32
    }
}

#[derive(Clone, Copy, Debug)]
struct Gains {
    pacing: u64,
    window: u64,
}

pub(super) fn micros(span: Span) -> u64 {
    span.as_nanos() / 1000
}

/// Returns the bandwidth at which `segments` segments take `interval`.
pub(super) fn bandwidth(segments: u32, interval: Span) -> Bandwidth {
    (u64::from(segments) << BW_SCALE) / micros(interval).max(1)
}

/// Returns the bandwidth-delay product multiplied by `gain`, segments.
pub(super) fn bdp(bw: Bandwidth, rtt: Span, gain: u64) -> u32 {
    let exact = u128::from(bw) * u128::from(micros(rtt)) * u128::from(gain) / u128::from(UNIT);
    exact.div_ceil(1 << BW_SCALE).min(u128::from(u32::MAX >> 1)) as u32
}

/// Returns a pseudo-random number, computed from the current time and the delivery count, which differ among connections.
pub(super) fn pseudo_random(at: &Delivery) -> u64 {
    (at.now.as_nanos() ^ (at.delivered << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33
}

/// Returns the number of whole segments that arrive in `time_us` microseconds at the bandwidth `bw`.
pub(super) fn segments_in(bw: Bandwidth, time_us: u64) -> u64 {
    ((u128::from(bw) * u128::from(time_us)) >> BW_SCALE) as u64
}

/// Returns the pacing rate for a bandwidth and a gain, in bytes per second, less the margin.
pub(super) fn bytes_per_second(bw: Bandwidth, gain: u64, segment: u64) -> u64 {
    bytes_per_second_of(bw, gain, segment, 100 - MARGIN_PCT)
}

/// Returns `percent` per cent of the pacing rate for a bandwidth and a gain, in bytes per second.
fn bytes_per_second_of(bw: Bandwidth, gain: u64, segment: u64, percent: u64) -> u64 {
    let scaled = u128::from(bw) * u128::from(segment) * u128::from(gain) / u128::from(UNIT);
    ((scaled * u128::from(1_000_000 / 100 * percent)) >> BW_SCALE) as u64
}

impl CongestionControl for Bbr {
    fn control(&self) -> Control {
        let bytes = |segments: u32| u64::from(segments) * self.segment;
        Control { cwnd: bytes(self.cwnd), ssthresh: self.ssthresh.map(bytes) }
    }

    fn phase(&self, _unsent: u64) -> Phase {
        if self.mode == Mode::Startup { Phase::SlowStart } else { Phase::CongestionAvoidance }
    }

    fn on_ack(&mut self, _ack: &Ack) {}

    fn uses_cong_control(&self) -> bool {
        true
    }

    fn on_handshake(&mut self, now: Time, rtt: Span) {
        (self.min_rtt, self.min_rtt_at) = (Some(rtt), now);
        self.pacing.on_handshake(self.cwnd, rtt);
        self.aggregation.restart(now);
    }

    fn on_delivery(&mut self, ack: &Delivery) {
        if self.last.is_none() && self.min_rtt.is_none() {
            self.min_rtt_at = ack.now;
        }
        self.update_bandwidth(ack);
        self.update_cycle(ack);
        self.check_full_bw(ack);
        self.check_drain(ack);
        self.update_min_rtt(ack);
        let gains = self.gains();
        self.set_pacing_rate(ack.srtt, gains.pacing);
        self.update_cwnd(ack, gains.window);
        self.last = Some(*ack);
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing.rate())
    }

    fn is_cwnd_reduced_for_probe(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if !event.repeated {
            self.cwnd_recovery.save(self.cwnd, self.mode == Mode::ProbeRtt);
        }
        if event.cause == Cause::Restart {
            self.cwnd = 1;
            self.cwnd_recovery.recovery_state = RecoveryState::Loss;
        }
    }

    /// A timeout ends a round, and an interval of policer detection if it is long enough (bbr_set_state).
    fn on_timeout(&mut self, delivery: &Delivery) {
        self.full_bw = 0;
        self.round_start = true;
        self.update_policer(&Delivery { lost: 1, ..*delivery }, false);
    }

    fn on_spurious(&mut self, _now: Time) {
        (self.full_bw, self.full_bw_cnt) = (0, 0);
        if let Some(last) = self.last {
            self.policer.reset(&last);
        }
    }

    fn on_tx_start(&mut self, &TxStart { now, is_app_limited, .. }: &TxStart) {
        if !is_app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.mode {
            // Restart at the estimated bandwidth: an idle period is no reason to probe.
            Mode::ProbeBw => self.set_pacing_rate(None, UNIT),
            Mode::ProbeRtt => {
                if let Some(last) = self.last {
                    self.end_probe_rtt(&Delivery { now, ..last });
                }
            }
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn set_cwnd(&mut self, cwnd: u64, ssthresh: Option<u64>) {
        self.cwnd = (cwnd / self.segment) as u32;
        self.ssthresh = ssthresh.map_or(self.ssthresh, |bytes| Some((bytes / self.segment) as u32));
    }
}

#[cfg(test)]
mod tests;
