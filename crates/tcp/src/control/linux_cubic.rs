use super::slow_start::{SlowStart, SlowStartKind};
use super::{Ack, Cause, Congestion, CongestionControl, Control, ControlKind, Phase, Start, TxStart};
use catnip_base::ParseError;
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{Span, Time};

/// Configuration of [`LinuxCubic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinuxCubicSpec {
    /// Slow start algorithm.
    pub slow_start: SlowStartKind,
}

impl Default for LinuxCubicSpec {
    fn default() -> Self {
        Self { slow_start: SlowStartKind::HyStart }
    }
}

impl Kind for LinuxCubicSpec {
    const USAGE: &'static [Usage] = &[(
        "linux-cubic[:slow-start=standard]",
        "CUBIC as computed by Linux 6, in whole segments and ticks of 4 ms; slow-start as in reno, by default hystart",
    )];
    const EXAMPLES: &'static [&'static str] = &["linux-cubic", "linux-cubic:slow-start=eca"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { slow_start: text.option("slow-start", SlowStartKind::HyStart)? })
    }

    fn write(&self, to: &mut Written) {
        to.name("linux-cubic").option("slow-start", self.slow_start, SlowStartKind::HyStart);
    }
}

impl ControlKind for LinuxCubicSpec {
    type Control = Box<LinuxCubic>;
    fn build(&self, start: &Start) -> Box<LinuxCubic> {
        Box::new(LinuxCubic {
            segment: start.segment_bytes.into(),
            cwnd: start.window.into(),
            ssthresh: start.ssthresh.unwrap_or(u64::MAX),
            cwnd_cnt: 0,
            last_max_cwnd: 0,
            min_rtt: None,
            epoch: None,
            prior: None,
            grow_unused: start.grow_unused,
            slow_start: SlowStart::from(self.slow_start).byte_counting(true),
        })
    }
}

/// CUBIC (RFC 9438) in the integer arithmetic of Linux (net/ipv4/tcp_cubic.c, 6.18). Targets are rounded up to whole segments, which
/// affects small windows: after a loss with a cwnd of fourteen segments, cwnd grows from nine by one segment per round trip instead of the
/// half segment of the RFC's formulas.
#[derive(Clone, Debug)]
pub struct LinuxCubic {
    segment: u64,
    /// Congestion window. All windows are in segments.
    cwnd: u64,
    ssthresh: u64,
    /// Number of acknowledged segments that count towards the next increase of cwnd (snd_cwnd_cnt).
    cwnd_cnt: u64,
    /// Window before the last reduction, or less with fast convergence; 0 after a timeout.
    last_max_cwnd: u64,
    /// Minimum RTT, delay_min.
    min_rtt: Option<Span>,
    epoch: Option<Epoch>,
    /// cwnd and ssthresh before the last reduction, to restore if the reduction proves spurious.
    prior: Option<(u64, u64)>,
    grow_unused: bool,
    slow_start: SlowStart,
}

/// Stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    cubic: CubicFunction,
    /// Number of segments acknowledged in the stage that have not yet increased the Reno-friendly window.
    ack_cnt: u64,
    /// Reno-friendly window (tcp_cwnd).
    tcp_cwnd: u64,
    /// Number of acknowledged segments per segment of growth (cnt). `last_update` has the window and the tick for which it was computed.
    cnt: u64,
    last_update: Option<(u64, u64)>,
}

/// Cubic function of a stage, which gives the window as a function of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CubicFunction {
    /// Window at the plateau, segments.
    origin_point: u64,
    /// Time from the start of the stage to the plateau, 1/1024 s.
    k: u64,
}

/// Decrease factor, 717/1024 (RFC 9438, section 4.6, has 0.7).
const BETA: u64 = 717;
const SCALE: u64 = 1024;
/// C = 0.4 segments per cubic second, as 410/1024.
const C: u64 = 410;
/// Number of fraction bits of the cubic function, which is computed in units of 2^-40 segments: ten bits from C, and three times ten bits
/// from seconds.
const FRACTION_BITS: u32 = 40;
/// beta_scale. It makes the Reno-friendly window grow by 8/15 of a segment per round trip, alpha_cubic of RFC 9438.
const FRIENDLY_SCALE: u64 = 8 * (SCALE + BETA) / 3 / (SCALE - BETA);
/// Tick of a kernel with CONFIG_HZ = 250.
const TICK: Span = Span::from_millis(4);
const TICKS_PER_SECOND: u64 = 250;
/// Minimum ssthresh, segments.
const MIN_SSTHRESH: u64 = 2;

impl CubicFunction {
    /// Creates the function that starts at `cwnd`. Its plateau is the larger of `cwnd` and `last_max_cwnd`, the window at the last loss.
    fn new(cwnd: u64, last_max_cwnd: u64) -> Self {
        match last_max_cwnd.checked_sub(cwnd) {
            None | Some(0) => Self { origin_point: cwnd, k: 0 },
            Some(delta) => {
                Self { origin_point: last_max_cwnd, k: cube_root(delta * ((1 << FRACTION_BITS) / C)) }
            }
        }
    }

    /// Returns the window `ticks` after the start of the stage.
    fn target(self, ticks: u64) -> u64 {
        let t = (ticks << 10) / TICKS_PER_SECOND;
        let distance = u128::from(t.abs_diff(self.k));
        let segments = ((u128::from(C) * distance.pow(3)) >> FRACTION_BITS).min(u128::from(u32::MAX)) as u64;
        if t < self.k { self.origin_point.saturating_sub(segments) } else { self.origin_point + segments }
    }
}

impl LinuxCubic {
    /// Increases the window in congestion avoidance (bictcp_update, then tcp_cong_avoid_ai with its result).
    fn cong_avoid(&mut self, now: Time, acked: u64) {
        let (cwnd, tick) = (self.cwnd, ticks(now));
        let mut epoch = match self.epoch {
            Some(epoch) => Epoch { ack_cnt: epoch.ack_cnt + acked, ..epoch },
            None => {
                let cubic = CubicFunction::new(cwnd, self.last_max_cwnd);
                Epoch { start: now, cubic, ack_cnt: acked, tcp_cwnd: cwnd, cnt: 1, last_update: None }
            }
        };
        // "The CUBIC function can update ca->cnt at most once per jiffy", and every 32nd of a second while the window is unchanged.
        let is_fresh = epoch
            .last_update
            .is_some_and(|(window, then)| window == cwnd && tick - then <= TICKS_PER_SECOND / 32);
        if !is_fresh {
            if epoch.last_update.is_none_or(|(_, then)| then != tick) {
                epoch.last_update = Some((cwnd, tick));
                let delay = self.min_rtt.map_or(0, |rtt| rtt.as_nanos().div_ceil(TICK.as_nanos()));
                let target = epoch.cubic.target(tick - ticks(epoch.start) + delay);
                epoch.cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
                // "The initial growth of cubic function may be too conservative when the available bandwidth is still unknown."
                if self.last_max_cwnd == 0 {
                    epoch.cnt = epoch.cnt.min(20);
                }
            }
            // RFC 9438, section 4.3: the window grows at least as fast as Reno's.
            let acks_per_segment = (cwnd * FRIENDLY_SCALE) >> 3;
            if let Some(more) = epoch.ack_cnt.checked_sub(1).map(|acked| acked / acks_per_segment.max(1)) {
                epoch.ack_cnt -= more * acks_per_segment;
                epoch.tcp_cwnd += more;
            }
            if let Some(delta) = epoch.tcp_cwnd.checked_sub(cwnd).filter(|&delta| delta > 0) {
                epoch.cnt = epoch.cnt.min(cwnd / delta);
            }
            epoch.cnt = epoch.cnt.max(2);
        }
        self.epoch = Some(epoch);
        self.cong_avoid_ai(epoch.cnt, acked);
    }

    /// Adds one segment to the window per `acks_per_segment` acknowledged segments (tcp_cong_avoid_ai).
    fn cong_avoid_ai(&mut self, acks_per_segment: u64, acked: u64) {
        if self.cwnd_cnt >= acks_per_segment {
            self.cwnd_cnt = 0;
            self.cwnd += 1;
        }
        self.cwnd_cnt += acked;
        self.cwnd += self.cwnd_cnt / acks_per_segment;
        self.cwnd_cnt %= acks_per_segment;
    }

    /// Updates the minimum RTT, except in the first second of a stage (cubictcp_acked): "Discard delay samples right after fast recovery".
    fn update_min_rtt(&mut self, ack: &Ack) {
        let is_settled = self.epoch.is_none_or(|epoch| ack.now.since(epoch.start) >= Span::from_secs(1));
        if let Some(rtt) = ack.rtt.filter(|_| is_settled) {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min_rtt| min_rtt.min(rtt)));
        }
    }
}

impl CongestionControl for LinuxCubic {
    #[inline]
    fn control(&self) -> Control {
        let bytes = |segments: u64| segments.saturating_mul(self.segment);
        let is_set = self.ssthresh != u64::MAX;
        Control { cwnd: bytes(self.cwnd), ssthresh: is_set.then(|| bytes(self.ssthresh)) }
    }

    #[inline]
    fn phase(&self, unsent: u64) -> Phase {
        let is_linear = || self.slow_start.is_linear(unsent, self.cwnd as f64, self.segment as f64);
        if self.cwnd < self.ssthresh && !is_linear() { Phase::SlowStart } else { Phase::CongestionAvoidance }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.update_min_rtt(ack);
        let mut acked = ack.bytes.div_ceil(self.segment);
        if self.phase(ack.unsent) == Phase::SlowStart
            && self.slow_start.on_ack(ack, self.cwnd as f64, self.segment as f64).ends
        {
            self.ssthresh = self.cwnd;
        }
        if !self.grow_unused && !ack.cwnd_limited || ack.marked > 0 {
            return;
        }
        if self.phase(ack.unsent) == Phase::SlowStart {
            let growth = (self.ssthresh - self.cwnd).min(acked);
            self.cwnd += growth;
            acked -= growth;
        } else if self.cwnd < self.ssthresh {
            if !self.slow_start.ends_when_linear() {
                return self.cong_avoid_ai(self.cwnd, acked);
            }
            self.ssthresh = self.cwnd;
        }
        if acked > 0 {
            self.cong_avoid(ack.now, acked);
        }
    }

    fn on_ack_while_reduced(&mut self, ack: &Ack) {
        self.update_min_rtt(ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let is_timeout = event.cause == Cause::Restart;
        self.slow_start.on_congestion(is_timeout);
        if !event.repeated {
            // tcp_current_ssthresh: ssthresh is at least three quarters of cwnd.
            self.prior = Some((self.cwnd, self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)));
            // RFC 9438, section 4.7: fast convergence.
            let converges = self.cwnd < self.last_max_cwnd;
            self.last_max_cwnd = if converges { self.cwnd * (SCALE + BETA) / (2 * SCALE) } else { self.cwnd };
            self.ssthresh = (self.cwnd * BETA / SCALE).max(MIN_SSTHRESH);
        }
        self.epoch = None;
        self.cwnd_cnt = 0;
        self.cwnd = if is_timeout { 1 } else { self.ssthresh };
        if is_timeout {
            // bictcp_reset.
            (self.last_max_cwnd, self.min_rtt) = (0, None);
        }
    }

    /// Restores cwnd and ssthresh from before the reduction, but keeps a value that is now larger.
    fn on_spurious(&mut self, _now: Time) {
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    /// Excludes the time without transmissions from the duration of the stage (CA_EVENT_TX_START).
    fn on_tx_start(&mut self, start: &TxStart) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + start.since_sent).min(start.now);
        }
    }

    fn set_cwnd(&mut self, cwnd: u64, ssthresh: Option<u64>) {
        self.cwnd = (cwnd / self.segment).max(1);
        self.ssthresh = ssthresh.map_or(self.ssthresh, |bytes| bytes / self.segment);
    }
}

/// Returns the time `at` in jiffies.
fn ticks(at: Time) -> u64 {
    at.since(Time::ZERO).in_units_of(TICK)
}

/// Returns the largest integer whose cube is at most `of`.
fn cube_root(of: u64) -> u64 {
    let mut root = 0u64;
    for bit in (0..22).rev() {
        let larger = root | 1 << bit;
        if larger.pow(3) <= of {
            root = larger;
        }
    }
    root
}

#[cfg(test)]
mod tests;
