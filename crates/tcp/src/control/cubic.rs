use super::reno::is_factor;
use super::slow_start::{SlowStart, SlowStartKind};
use super::{Ack, Cause, Congestion, CongestionControl, Control, ControlKind, Halving, Idle, Phase, Start};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Share, Span, Time, math};

/// Configuration of [`Cubic`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CubicSpec {
    /// Decrease factor (RFC 9438, section 4.6: "beta_cubic SHOULD be set to 0.7").
    pub beta: f64,
    /// Scaling factor C, segments per cubic second. RFC 9438, section 5.1: "it is RECOMMENDED to set C = 0.4".
    pub c: f64,
    /// Decrease factor of a mark, which is 0.85 for alternative backoff with ECN (RFC 8511, section 3.1); `None` is that of a loss.
    pub beta_ecn: Option<f64>,
    /// Decrease factor of a loss in slow start, whose window is up to twice what the path can carry; `None` is `beta`.
    pub beta_slow_start: Option<f64>,
    /// Fast convergence (RFC 9438, section 4.7): a flow whose cwnd at a loss is below the last maximum releases more bandwidth.
    pub fast_convergence: bool,
    /// Slow start algorithm.
    pub slow_start: SlowStartKind,
}

impl Default for CubicSpec {
    fn default() -> Self {
        Self {
            beta: BETA,
            c: C,
            beta_ecn: None,
            beta_slow_start: None,
            fast_convergence: true,
            slow_start: SlowStartKind::default(),
        }
    }
}

impl Kind for CubicSpec {
    const USAGE: &'static [Usage] = &[(
        "cubic[:beta=0.7,c=0.4,beta-ecn=0.85,beta-slow-start=0.5,fast-convergence=false,slow-start=hystart++]",
        "CUBIC (RFC 9438): the window grows with the time since the last reduction; beta: what a reduction leaves of the window; c: segments \
         per cubic second; beta-ecn and beta-slow-start as in reno, by default beta; slow-start as in reno",
    )];
    const EXAMPLES: &'static [&'static str] = &[
        "cubic",
        "cubic:beta=0.8,c=1,beta-ecn=0.85,beta-slow-start=0.5,fast-convergence=false,slow-start=hystart",
    ];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let spec = Self {
            beta: text.option("beta", Share(BETA))?.0,
            c: text.option("c", C)?,
            beta_ecn: text.optional("beta-ecn")?.map(|Share(beta)| beta),
            beta_slow_start: text.optional("beta-slow-start")?.map(|Share(beta)| beta),
            fast_convergence: text.option("fast-convergence", true)?,
            slow_start: text.option("slow-start", SlowStartKind::default())?,
        };
        let has_valid_factors =
            [Some(spec.beta), spec.beta_ecn, spec.beta_slow_start].into_iter().flatten().all(is_factor);
        if !(has_valid_factors && spec.c > 0.0 && spec.c <= MAX_C) {
            return Err(text.error(format!(
                "beta, beta-ecn and beta-slow-start between 0 and 1, and c above 0 and at most {MAX_C}"
            )));
        }
        Ok(spec)
    }

    fn write(&self, to: &mut Written) {
        let to = to.name("cubic").option("beta", Share(self.beta), Share(BETA)).option("c", self.c, C);
        if let Some(beta) = self.beta_ecn {
            to.key("beta-ecn", Share(beta));
        }
        if let Some(beta) = self.beta_slow_start {
            to.key("beta-slow-start", Share(beta));
        }
        to.option("fast-convergence", self.fast_convergence, true).option(
            "slow-start",
            self.slow_start,
            SlowStartKind::default(),
        );
    }
}

impl CubicSpec {
    /// Returns the growth of the Reno-friendly window per round trip, segments. RFC 9438, section 4.3: "alpha_cubic = 3 * (1 - beta_cubic) /
    /// (1 + beta_cubic)".
    fn alpha(&self) -> f64 {
        3.0 * (1.0 - self.beta) / (1.0 + self.beta)
    }
}

impl ControlKind for CubicSpec {
    /// Boxed controller, because it is larger than the other controllers.
    type Control = Box<Cubic>;
    fn build(&self, start: &Start) -> Box<Cubic> {
        Box::new(Cubic::new(start, *self))
    }
}

/// CUBIC (RFC 9438). Windows are fractional numbers of segments, as in the RFC.
#[derive(Clone, Debug)]
pub struct Cubic {
    spec: CubicSpec,
    segment: f64,
    /// Congestion window. All windows are in segments.
    cwnd: f64,
    ssthresh: f64,
    ssthresh_was_set: bool,
    /// cwnd just before the last reduction, or less with fast convergence.
    w_max: f64,
    /// cwnd just before the last reduction. While the Reno-friendly window is smaller, it grows by alpha_cubic per round trip.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    /// State before the last reduction, to restore if the reduction proves spurious.
    undo: Option<Box<Cubic>>,
    grow_unused: bool,
    byte_counting: bool,
    /// True if a reduction is computed from cwnd instead of the data in flight.
    reduces_from_cwnd: bool,
    slow_start: SlowStart,
}

/// Stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// Time from the start of the stage to the plateau, seconds.
    k: f64,
    /// Plateau of the cubic function, segments.
    plateau: f64,
    /// Reno-friendly window, segments.
    w_est: f64,
}

/// Default of the scaling factor.
const C: f64 = 0.4;
/// Largest scaling factor.
const MAX_C: f64 = 1000.0;
/// Default of the decrease factor.
const BETA: f64 = 0.7;
/// Minimum ssthresh, segments.
const MIN_SSTHRESH: f64 = 2.0;

impl Cubic {
    /// Creates the state of a new connection.
    pub fn new(start: &Start, spec: CubicSpec) -> Self {
        Self {
            spec,
            segment: f64::from(start.segment_bytes),
            cwnd: f64::from(start.window),
            ssthresh: start.ssthresh.map_or(f64::INFINITY, |segments| segments as f64),
            ssthresh_was_set: false,
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            undo: None,
            grow_unused: start.grow_unused,
            byte_counting: start.byte_counting,
            reduces_from_cwnd: start.halving != Halving::Flight,
            slow_start: SlowStart::from(spec.slow_start).byte_counting(start.byte_counting),
        }
    }

    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment
    }

    /// Returns a new stage, which begins with the first ACK of congestion avoidance (section 4.2). After a timeout, or after a slow start
    /// without a loss, there is no earlier maximum: "K is set to 0 and W_max is set to the congestion window size at the beginning of the
    /// current congestion avoidance stage".
    fn begin_epoch(&self, now: Time) -> Epoch {
        let (k, plateau) = match self.w_max > self.cwnd {
            true => (math::cbrt((self.w_max - self.cwnd) / self.spec.c), self.w_max),
            false => (0.0, self.cwnd),
        };
        Epoch { start: now, k, plateau, w_est: self.cwnd }
    }

    fn cong_avoid(&mut self, ack: &Ack) {
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin_epoch(ack.now));
        let acked = self.segments(ack.bytes);
        // Section 4.3: "W_est = W_est + alpha_cubic * segments_acked / cwnd", and once W_est has "reached cwnd_prior ... the sender
        // SHOULD set alpha_cubic to 1".
        let alpha = if epoch.w_est < self.cwnd_prior { self.spec.alpha() } else { 1.0 };
        epoch.w_est += alpha * acked / self.cwnd;
        let w_cubic = |t: f64| self.spec.c * (t - epoch.k).powi(3) + epoch.plateau;
        let t = (ack.now - epoch.start).as_secs();
        if w_cubic(t) < epoch.w_est {
            // "If W_cubic(t) is less than W_est(t), then cwnd SHOULD be set to W_est(t)".
            self.cwnd = self.cwnd.max(epoch.w_est);
        } else {
            // Section 4.2: "target" is W_cubic(t + RTT), at least cwnd, at most 1.5 * cwnd. Sections 4.4 and 4.5: "cwnd MUST be
            // incremented by (target - cwnd) / cwnd for each received new ACK".
            let rtt = ack.srtt.map_or(0.0, Span::as_secs);
            let target = w_cubic(t + rtt).clamp(self.cwnd, 1.5 * self.cwnd);
            self.cwnd +=
                (target - self.cwnd) / self.cwnd * if self.byte_counting { acked } else { acked.min(1.0) };
        }
        self.epoch = Some(epoch);
    }
}

impl CongestionControl for Cubic {
    #[inline]
    fn control(&self) -> Control {
        let bytes = |segments: f64| (segments * self.segment) as u64;
        Control { cwnd: bytes(self.cwnd), ssthresh: self.ssthresh_was_set.then(|| bytes(self.ssthresh)) }
    }

    #[inline]
    fn phase(&self, unsent: u64) -> Phase {
        if self.cwnd < self.ssthresh && !self.slow_start.is_linear(unsent, self.cwnd, self.segment) {
            Phase::SlowStart
        } else {
            Phase::CongestionAvoidance
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        if !self.grow_unused && !ack.cwnd_limited || ack.marked > 0 {
            return;
        }
        match self.phase(ack.unsent) {
            // Section 4.10: "CUBIC MUST employ a slow start algorithm when cwnd is no more than ssthresh".
            Phase::SlowStart => {
                let growth = self.slow_start.on_ack(ack, self.cwnd, self.segment);
                self.cwnd += growth.segments;
                if growth.ends {
                    self.ssthresh = self.cwnd;
                    self.ssthresh_was_set = true;
                }
            }
            Phase::CongestionAvoidance
                if self.cwnd < self.ssthresh && !self.slow_start.ends_when_linear() =>
            {
                self.cwnd += self.segments(ack.bytes) / self.cwnd;
            }
            Phase::CongestionAvoidance => {
                if self.cwnd < self.ssthresh {
                    self.ssthresh = self.cwnd;
                    self.ssthresh_was_set = true;
                }
                self.cong_avoid(ack);
            }
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if !event.repeated {
            self.undo = None;
            self.undo = Some(Box::new(self.clone()));
        }
        self.slow_start.on_congestion(event.cause == Cause::Restart);
        let mut reduced = self.ssthresh;
        // RFC 5681, section 3.1: a second timeout for the same segment leaves ssthresh unchanged.
        if !event.repeated {
            // Section 4.6: "ssthresh = flight_size * beta_cubic". Data sent beyond cwnd does not count.
            let flight = if self.reduces_from_cwnd {
                self.cwnd
            } else {
                self.segments(event.in_flight).min(self.cwnd)
            };
            let beta = match event.cause {
                Cause::Mark => self.spec.beta_ecn.unwrap_or(self.spec.beta),
                Cause::Loss | Cause::Restart if self.cwnd < self.ssthresh => {
                    self.spec.beta_slow_start.unwrap_or(self.spec.beta)
                }
                Cause::Loss | Cause::Restart => self.spec.beta,
            };
            reduced = flight * beta;
            self.ssthresh = reduced.max(MIN_SSTHRESH);
            self.ssthresh_was_set = true;
            self.cwnd_prior = self.cwnd;
            // Section 4.7: "if (cwnd < W_max and fast convergence is enabled), further reduce W_max".
            let converges = self.spec.fast_convergence && self.cwnd < self.w_max;
            self.w_max = if converges { self.cwnd * (1.0 + self.spec.beta) / 2.0 } else { self.cwnd };
        }
        self.epoch = None;
        match event.cause {
            // Section 4.6: "cwnd = max(ssthresh, 2)" for a loss, "cwnd = max(ssthresh, 1)" for a mark, then "ssthresh = max(ssthresh, 2)".
            Cause::Loss => self.cwnd = self.ssthresh,
            Cause::Mark => self.cwnd = reduced.max(1.0),
            Cause::Restart => {
                self.cwnd = 1.0;
                // Section 4.8: after a timeout, the plateau of the next stage is the initial window of that stage.
                self.w_max = 0.0;
            }
        }
    }

    /// Restores the state from before the reduction (section 4.9), but keeps the present cwnd if it is larger.
    fn on_spurious(&mut self, _now: Time) {
        if let Some(prior) = self.undo.take() {
            let cwnd = prior.cwnd.max(self.cwnd);
            *self = Self { cwnd, ..*prior };
        }
    }

    /// Excludes the idle period from the duration of the stage. Section 4.2: this duration does not include periods in which cwnd was "not
    /// updated due to application-limited behavior".
    fn on_idle(&mut self, idle: &Idle) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + idle.idle_time).min(idle.now);
        }
    }

    fn set_cwnd(&mut self, cwnd: u64, ssthresh: Option<u64>) {
        self.cwnd = self.segments(cwnd);
        if let Some(bytes) = ssthresh {
            self.ssthresh = self.segments(bytes);
            self.ssthresh_was_set = true;
        }
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests;
