use super::slow_start::{SlowStart, SlowStartKind};
use super::{
    Ack, Cause, Congestion, CongestionControl, Control, ControlKind, Halving, Phase, Recovered, Start,
};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Share, Time};

/// Configuration of [`Reno`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RenoSpec {
    /// Share of the window that a mark leaves, which is 0.8 for alternative backoff with ECN (RFC 8511, section 3.1); `None` is one half.
    pub beta_ecn: Option<f64>,
    /// Share of the window that a loss in slow start leaves, where the window is up to twice what the path can carry; `None` is one half.
    pub beta_slow_start: Option<f64>,
    /// Slow start algorithm.
    pub slow_start: SlowStartKind,
}

impl Kind for RenoSpec {
    const USAGE: &'static [Usage] = &[(
        "reno[:beta-ecn=0.8,beta-slow-start=0.4,slow-start=hystart++]",
        "slow start and congestion avoidance (RFC 5681); beta-ecn: what a mark leaves of the window (RFC 8511), by default as much as a loss; \
         beta-slow-start: what a loss leaves in slow start, by default as much as later; slow-start: standard, hystart++ (RFC 9406), hystart (Linux), or eca, eca-final-window, eca-one-more-round \
         (CATNIP)",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["reno", "reno:beta-ecn=0.8,beta-slow-start=0.4,slow-start=hystart++"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let spec = Self {
            beta_ecn: text.optional("beta-ecn")?.map(|Share(beta)| beta),
            beta_slow_start: text.optional("beta-slow-start")?.map(|Share(beta)| beta),
            slow_start: text.option("slow-start", SlowStartKind::default())?,
        };
        match [spec.beta_ecn, spec.beta_slow_start].into_iter().flatten().all(is_factor) {
            true => Ok(spec),
            false => Err(text.error("beta-ecn and beta-slow-start between 0 and 1")),
        }
    }
    fn write(&self, to: &mut Written) {
        let to = to.name("reno");
        if let Some(beta) = self.beta_ecn {
            to.key("beta-ecn", Share(beta));
        }
        if let Some(beta) = self.beta_slow_start {
            to.key("beta-slow-start", Share(beta));
        }
        to.option("slow-start", self.slow_start, SlowStartKind::default());
    }
}

impl ControlKind for RenoSpec {
    type Control = Reno;
    fn build(&self, start: &Start) -> Reno {
        let (beta_ecn, beta_slow_start) = (self.beta_ecn, self.beta_slow_start);
        Reno { beta_ecn, beta_slow_start, ..Reno::new(start).with_slow_start(self.slow_start) }
    }
}

/// Returns true if a reduction may leave this share of the window.
pub(super) fn is_factor(beta: f64) -> bool {
    beta > 0.0 && beta < 1.0
}

/// Slow start and congestion avoidance (RFC 5681, section 3.1). Windows are fractional numbers of segments, as in ns-2.
#[derive(Clone, Debug)]
pub struct Reno {
    /// Congestion window, segments.
    cwnd: f64,
    /// Slow-start threshold, segments.
    ssthresh: f64,
    ssthresh_was_set: bool,
    segment: f64,
    halving: Halving,
    /// Share of the window that a mark leaves; `None` is one half.
    beta_ecn: Option<f64>,
    /// Share of the window that a loss in slow start leaves; `None` is one half.
    beta_slow_start: Option<f64>,
    grow_unused: bool,
    byte_counting: bool,
    /// Number of acknowledged segments that count towards the next increase of cwnd (snd_cwnd_cnt), if cwnd is whole.
    cwnd_cnt: f64,
    /// cwnd and ssthresh before the last reduction, to restore if the reduction proves spurious.
    prior: Option<(f64, f64)>,
    slow_start: SlowStart,
}

/// Minimum ssthresh, segments (RFC 5681, equation 4).
const MIN_SSTHRESH: f64 = 2.0;

impl Reno {
    /// Creates the state of a new connection.
    pub fn new(start: &Start) -> Self {
        Self {
            cwnd: f64::from(start.window),
            ssthresh: start.ssthresh.map_or(f64::INFINITY, |segments| segments as f64),
            ssthresh_was_set: false,
            segment: f64::from(start.segment_bytes),
            halving: start.halving,
            beta_ecn: None,
            beta_slow_start: None,
            grow_unused: start.grow_unused,
            byte_counting: start.byte_counting,
            cwnd_cnt: 0.0,
            prior: None,
            slow_start: SlowStart::from(SlowStartKind::Standard).byte_counting(start.byte_counting),
        }
    }

    /// Sets the slow start algorithm.
    pub fn with_slow_start(self, slow_start: SlowStartKind) -> Self {
        Self { slow_start: SlowStart::from(slow_start).byte_counting(self.byte_counting), ..self }
    }

    /// Returns cwnd rounded down to whole segments.
    fn floor_cwnd(&self) -> f64 {
        self.cwnd.floor()
    }

    /// Returns true if cwnd is below ssthresh, even if early congestion avoidance increases it linearly.
    #[inline]
    pub(super) fn is_in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Increases the window for one ACK by the rule of `phase`.
    #[inline]
    fn grow(&mut self, phase: Phase, ack: &Ack) {
        // RFC 3168, section 6.1.2: the window "SHOULD NOT" grow on an ACK with ECN-Echo.
        if !self.grow_unused && !ack.cwnd_limited || ack.marked > 0 {
            return;
        }
        match phase {
            _ if self.halving == Halving::Cwnd => self.grow_whole(phase, ack),
            Phase::SlowStart => {
                let growth = self.slow_start.on_ack(ack, self.cwnd, self.segment);
                self.cwnd += growth.segments;
                if growth.ends {
                    self.end_slow_start();
                }
            }
            // RFC 5681, equation 3: "cwnd += SMSS*SMSS/cwnd".
            Phase::CongestionAvoidance => {
                let counted = if self.byte_counting { self.segments(ack.bytes) } else { 1.0 };
                self.cwnd += counted / self.cwnd.max(1.0);
            }
        }
    }

    /// Increases the window by whole segments for one ACK (tcp_slow_start, tcp_cong_avoid_ai): slow start ends at ssthresh, and what is left
    /// of the acknowledged segments counts for congestion avoidance.
    fn grow_whole(&mut self, phase: Phase, ack: &Ack) {
        let mut acked = ack.bytes.div_ceil(self.segment as u64) as f64;
        if phase == Phase::SlowStart {
            let growth = self.slow_start.on_ack(ack, self.cwnd, self.segment);
            let segments = growth.segments.min(self.ssthresh - self.cwnd);
            self.cwnd += segments;
            acked -= segments;
            if growth.ends {
                self.end_slow_start();
            }
            if self.is_in_slow_start() || acked <= 0.0 {
                return;
            }
        }
        if self.cwnd_cnt >= self.cwnd {
            (self.cwnd_cnt, self.cwnd) = (0.0, self.cwnd + 1.0);
        }
        self.cwnd_cnt += acked;
        let segments = (self.cwnd_cnt / self.cwnd.max(1.0)).floor();
        self.cwnd_cnt -= segments * self.cwnd;
        self.cwnd += segments;
    }

    /// Increases the window as in congestion avoidance, by `gain` segments per window of acknowledged data.
    pub(super) fn cong_avoid(&mut self, ack: &Ack, gain: f64) {
        if self.grow_unused || ack.cwnd_limited {
            self.cwnd += gain * self.segments(ack.bytes) / self.cwnd.max(1.0);
        }
    }

    /// Reduces the window by half of `share`, the marked share of the data, and ends slow start (RFC 8257, section 3.3).
    pub(super) fn reduce_by_marks(&mut self, event: &Congestion, share: f64) {
        let prior = self.cwnd;
        self.on_congestion(event);
        let reduced = prior * (1.0 - share / 2.0);
        self.cwnd = if self.halving == Halving::Cwnd { reduced.floor() } else { reduced }.max(MIN_SSTHRESH);
        self.ssthresh = self.cwnd;
    }

    /// Ends slow start at the current window.
    fn end_slow_start(&mut self) {
        self.ssthresh = self.floor_cwnd();
        self.ssthresh_was_set = true;
    }

    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment
    }
}

impl CongestionControl for Reno {
    #[inline]
    fn control(&self) -> Control {
        let bytes = |segments: f64| (segments * self.segment) as u64;
        Control { cwnd: bytes(self.cwnd), ssthresh: self.ssthresh_was_set.then(|| bytes(self.ssthresh)) }
    }

    #[inline]
    fn cwnd(&self) -> u64 {
        (self.cwnd * self.segment) as u64
    }

    #[inline]
    fn phase(&self, unsent: u64) -> Phase {
        if self.is_in_slow_start() && !self.slow_start.is_linear(unsent, self.cwnd, self.segment) {
            Phase::SlowStart
        } else {
            Phase::CongestionAvoidance
        }
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        let phase = self.phase(ack.unsent);
        if phase == Phase::CongestionAvoidance
            && self.is_in_slow_start()
            && self.slow_start.ends_when_linear()
        {
            self.end_slow_start();
        }
        self.grow(phase, ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.slow_start.on_congestion(event.cause == Cause::Restart);
        if !event.repeated {
            // tcp_current_ssthresh: ssthresh is at least three quarters of cwnd.
            let used = if self.halving == Halving::Cwnd { (self.cwnd * 0.75).floor() } else { 0.0 };
            self.prior = Some((self.cwnd, self.ssthresh.max(used)));
        }
        self.cwnd_cnt = 0.0;
        let limit = self.segments(event.receive_window);
        let beta = match event.cause {
            Cause::Mark => self.beta_ecn,
            Cause::Loss | Cause::Restart => self.beta_slow_start.filter(|_| self.is_in_slow_start()),
        };
        let beta = beta.unwrap_or(0.5);
        let reduced = match self.halving {
            Halving::Cwnd => (self.cwnd.floor() * beta).floor().max(MIN_SSTHRESH),
            Halving::WholeSegments => (self.cwnd.floor().min(limit) * beta).floor(),
            Halving::Window => self.cwnd.min(limit) * beta,
            // RFC 5681, section 3.2: data that limited transmit or a recovery has sent beyond cwnd does not count.
            Halving::Flight => (self.segments(event.in_flight).min(self.cwnd) * beta).max(MIN_SSTHRESH),
        };
        // RFC 5681, section 3.1: a second timeout for the same segment leaves ssthresh unchanged.
        if event.repeated && matches!(self.halving, Halving::Flight | Halving::Cwnd) {
            self.cwnd = 1.0;
            return;
        }
        let rounded = if self.halving == Halving::Flight { reduced } else { reduced.floor() };
        self.ssthresh = rounded.max(MIN_SSTHRESH);
        self.ssthresh_was_set = true;
        self.cwnd = match event.cause {
            Cause::Restart => 1.0,
            Cause::Loss | Cause::Mark => reduced,
        };
    }

    fn on_recovered(&mut self, end: &Recovered) {
        if end.deflation > 0 {
            self.cwnd = (self.cwnd - self.segments(end.deflation)).max(1.0);
        }
    }

    /// Restores cwnd and ssthresh from before the reduction, but keeps a value that is now larger (RFC 5682, section 3.1, and Linux).
    fn on_spurious(&mut self, _now: Time) {
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }
    fn set_cwnd(&mut self, cwnd: u64, ssthresh: Option<u64>) {
        self.cwnd = self.segments(cwnd);
        if let Some(bytes) = ssthresh {
            self.ssthresh = self.segments(bytes);
            self.ssthresh_was_set = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::RecoveryKind;
    use crate::testing::{SEGMENT, ns2, rfc};
    use catnip_base::Time;

    fn reno(initial_window: u32, halving: Halving) -> Reno {
        Reno::new(&Start { halving, ..rfc(RecoveryKind::Reno, initial_window).start() })
    }

    fn ack(bytes: u64) -> Ack {
        Ack {
            now: Time::ZERO,
            bytes,
            delivered: bytes,
            marked: 0,
            in_flight: 0,
            snd_una: bytes,
            snd_max: bytes,
            unsent: 0,
            rtt: None,
            srtt: None,
            cwnd_limited: true,
        }
    }

    /// Returns a congestion event with `in_flight` segments in flight and a receive window of 20 segments.
    fn congestion(cause: Cause, in_flight: u64) -> Congestion {
        let (in_flight, receive_window) = (in_flight * SEGMENT, 20 * SEGMENT);
        Congestion { now: Time::ZERO, cause, in_flight, receive_window, repeated: false }
    }

    /// Returns cwnd and ssthresh in bytes.
    fn state(control: &Reno) -> (u64, Option<u64>) {
        (control.control().cwnd, control.control().ssthresh)
    }

    #[test]
    fn slow_start_adds_what_was_acknowledged_but_one_segment_at_most() {
        let mut control = reno(2, Halving::Flight);
        // RFC 5681, equation 2: "cwnd += min (N, SMSS)".
        control.on_ack(&ack(400));
        assert_eq!(state(&control), (2400, None));
        control.on_ack(&ack(3 * SEGMENT));
        assert_eq!(state(&control), (3400, None));
    }

    #[test]
    fn congestion_avoidance_adds_a_segment_per_window() {
        let mut control = reno(8, Halving::Flight);
        control.on_congestion(&congestion(Cause::Loss, 8));
        assert_eq!(control.phase(0), Phase::CongestionAvoidance);
        // RFC 5681, equation 3: "cwnd += SMSS*SMSS/cwnd", that is 4 + 1/4 and then 4.25 + 1/4.25, for any number of acknowledged bytes.
        control.on_ack(&ack(SEGMENT));
        assert_eq!(control.control().cwnd, 4250);
        control.on_ack(&ack(2 * SEGMENT));
        assert_eq!(control.control().cwnd, 4485);
    }

    #[test]
    fn ssthresh_is_half_of_the_flight_and_two_segments_at_least() {
        // RFC 5681, equation 4: "ssthresh = max (FlightSize / 2, 2*SMSS)".
        for (in_flight, ssthresh) in [(8, 4000), (7, 3500), (5, 2500), (4, 2000), (3, 2000), (1, 2000)] {
            let mut control = reno(8, Halving::Flight);
            control.on_congestion(&congestion(Cause::Loss, in_flight));
            assert_eq!(state(&control), (ssthresh, Some(ssthresh)), "{in_flight} in flight");
            let mut control = reno(8, Halving::Flight);
            // Section 3.1: "upon a timeout ... cwnd MUST be set to no more than the loss window, LW, which equals 1
            // full-sized segment".
            control.on_congestion(&congestion(Cause::Restart, in_flight));
            assert_eq!(state(&control), (1000, Some(ssthresh)), "{in_flight} in flight");
        }
    }

    #[test]
    fn what_was_sent_beyond_cwnd_does_not_count_as_flight() {
        let mut control = reno(8, Halving::Flight);
        // RFC 5681, section 3.2, step 2: limited transmit has sent two more segments.
        control.on_congestion(&congestion(Cause::Loss, 10));
        assert_eq!(state(&control), (4000, Some(4000)));
    }

    #[test]
    fn ns_2_halves_the_window_and_the_receive_window_bounds_it() {
        // In ns-2, halfwin is half of window(), which is min(cwnd, wnd), as an integer with precisionReduce_ off. The data in flight does
        // not count. ssthresh is an integer in both cases.
        for (halving, window, cwnd, ssthresh) in [
            (Halving::WholeSegments, 8, 4000, 4000),
            (Halving::WholeSegments, 7, 3000, 3000),
            (Halving::WholeSegments, 30, 10_000, 10_000),
            (Halving::WholeSegments, 3, 1000, 2000),
            (Halving::Window, 8, 4000, 4000),
            (Halving::Window, 7, 3500, 3000),
            (Halving::Window, 30, 10_000, 10_000),
            (Halving::Window, 3, 1500, 2000),
        ] {
            let mut control = reno(window, halving);
            control.on_congestion(&congestion(Cause::Loss, 2));
            assert_eq!(state(&control), (cwnd, Some(ssthresh)), "{halving:?}, {window} segments");
        }
    }

    #[test]
    fn half_of_a_window_with_a_fraction_is_that_of_its_whole_segments_if_they_count() {
        let mut control = reno(8, Halving::WholeSegments);
        control.on_congestion(&congestion(Cause::Loss, 8));
        (0..8).for_each(|_| control.on_ack(&ack(SEGMENT)));
        assert_eq!(control.control().cwnd / 100, 56, "5.6 segments");
        control.on_congestion(&congestion(Cause::Loss, 8));
        assert_eq!(state(&control), (2000, Some(2000)));
    }

    #[test]
    fn a_second_timeout_for_the_same_data_leaves_ssthresh_alone_by_the_rfc() {
        let repeated_timeout = Congestion { repeated: true, ..congestion(Cause::Restart, 8) };
        let mut control = reno(8, Halving::Flight);
        control.on_congestion(&congestion(Cause::Restart, 8));
        // RFC 5681, section 3.1: "the value of ssthresh is held constant."
        control.on_congestion(&repeated_timeout);
        assert_eq!(state(&control), (1000, Some(4000)));
        // ns-2 halves ssthresh each time that the timer expires.
        let mut control = reno(8, Halving::WholeSegments);
        control.on_congestion(&congestion(Cause::Restart, 8));
        control.on_congestion(&repeated_timeout);
        assert_eq!(state(&control), (1000, Some(2000)));
    }

    #[test]
    fn ns_2_halves_even_a_window_of_one_segment_and_grows_from_there() {
        let (none, half) = (Halving::WholeSegments, Halving::Window);
        for (halving, after) in [(none, 0), (half, 500), (Halving::Flight, 2000)] {
            let mut control = reno(1, halving);
            control.on_congestion(&congestion(Cause::Loss, 4));
            // RFC 5681, equation 4: "max (FlightSize / 2, 2*SMSS)".
            assert_eq!(state(&control), (after, Some(2 * SEGMENT)), "{halving:?}");
        }
        let mut control = reno(1, half);
        control.on_congestion(&congestion(Cause::Loss, 4));
        control.on_ack(&ack(SEGMENT));
        assert_eq!(control.control().cwnd, 1500);
    }

    #[test]
    fn slow_start_ends_where_cwnd_reaches_ssthresh() {
        let mut control = reno(8, Halving::Flight);
        control.on_congestion(&congestion(Cause::Restart, 8));
        let phases: Vec<Phase> = (0..5)
            .map(|_| {
                let phase = control.phase(0);
                control.on_ack(&ack(SEGMENT));
                phase
            })
            .collect();
        // RFC 5681, section 3.1: "When cwnd and ssthresh are equal, the sender may use either slow start or congestion avoidance." This
        // implementation uses congestion avoidance: windows 1, 2, 3, then 4.
        use Phase::{CongestionAvoidance, SlowStart};
        assert_eq!(phases, [SlowStart, SlowStart, SlowStart, CongestionAvoidance, CongestionAvoidance]);
    }

    #[test]
    fn ssthresh_begins_as_high_as_possible_or_at_the_receive_window() {
        // RFC 5681, section 3.1: "The initial value of ssthresh SHOULD be set arbitrarily high".
        assert_eq!(Reno::new(&rfc(RecoveryKind::Reno, 1000).start()).phase(0), Phase::SlowStart);
        // ns-2: ssthresh_ = wnd_, here 20 segments. No congestion event has set ssthresh, so it is not reported.
        let at = |window| Reno::new(&ns2(RecoveryKind::Reno, window).start());
        assert_eq!(at(19).phase(0), Phase::SlowStart);
        assert_eq!(at(20).phase(0), Phase::CongestionAvoidance);
        assert_eq!(state(&at(20)), (20_000, None));
    }

    #[test]
    fn a_window_that_kept_nobody_from_sending_grows_in_ns_2_only() {
        let unused = Ack { cwnd_limited: false, ..ack(SEGMENT) };
        let mut control = Reno::new(&rfc(RecoveryKind::Reno, 2).start());
        control.on_ack(&unused);
        assert_eq!(control.control().cwnd, 2000);
        let mut control = Reno::new(&ns2(RecoveryKind::Reno, 2).start());
        control.on_ack(&unused);
        assert_eq!(control.control().cwnd, 3000);
    }

    #[test]
    fn partial_acks_leave_at_least_one_segment_of_the_window() {
        let mut control = reno(8, Halving::Window);
        for (deflation, expected) in [(5, 3000), (1, 2000), (4, 1000)] {
            let deflation = deflation * SEGMENT;
            control.on_recovered(&Recovered { now: Time::ZERO, deflation, retransmitted: 0 });
            assert_eq!(control.control().cwnd, expected);
        }
    }

    #[test]
    fn a_loss_in_slow_start_leaves_the_share_of_its_own_and_later_ones_a_half() {
        let start = Start { halving: Halving::Flight, ..rfc(RecoveryKind::Reno, 100).start() };
        let spec = RenoSpec { beta_slow_start: Some(0.4), ..RenoSpec::default() };
        let mut control = spec.build(&start);
        control.on_congestion(&congestion(Cause::Loss, 100));
        assert_eq!(state(&control), (40_000, Some(40_000)));
        control.on_congestion(&congestion(Cause::Loss, 40));
        assert_eq!(state(&control), (20_000, Some(20_000)));
    }

    #[test]
    fn a_mark_leaves_the_share_of_rfc_8511_and_a_loss_a_half() {
        // Section 3.1: "ssthresh = max(FlightSize * beta_{ecn}, 2 * SMSS)", with "beta_{ecn} = 0.8" for Reno.
        let spec = RenoSpec { beta_ecn: Some(0.8), ..RenoSpec::default() };
        let after = |cause, window| {
            let mut control =
                spec.build(&Start { halving: Halving::Flight, ..rfc(RecoveryKind::Reno, window).start() });
            control.on_congestion(&congestion(cause, window.into()));
            state(&control)
        };
        assert_eq!(after(Cause::Mark, 100), (80_000, Some(80_000)));
        assert_eq!(after(Cause::Mark, 2), (2000, Some(2000)));
        assert_eq!(after(Cause::Loss, 100), (50_000, Some(50_000)));
        assert_eq!(after(Cause::Restart, 100), (1000, Some(50_000)));
    }
}
