use super::mark_share::MarkShare;
use super::slow_start::SlowStartKind;
use super::{
    Ack, Cause, Congestion, CongestionControl, Control, ControlKind, Halving, Phase, Recovered, Reno, Start,
};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Span, Time};

/// Configuration of [`Prague`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PragueSpec {
    /// Reference RTT: flows with a shorter RTT behave as if they had this RTT.
    pub rtt: Span,
    /// Number of observation windows since slow start from which on the behaviour is independent of the RTT.
    pub after: u32,
    /// Slow start algorithm.
    pub slow_start: SlowStartKind,
}

const REFERENCE_RTT: Span = Span::from_millis(25);
const ROUNDS: u32 = 500;
/// Weight of the last observation window in the estimated share of marked data.
const GAIN: f64 = 1.0 / 16.0;

impl Kind for PragueSpec {
    const USAGE: &'static [Usage] = &[(
        "prague[:rtt=25ms,after=500,slow-start=hystart++]",
        "TCP Prague (draft-briscoe-iccrg-prague-congestion-control): DCTCP whose window also grows during a reduction, by the unmarked \
         data, and that from after rounds after slow start on grows no faster over a short round trip than over one of rtt; needs ecn = \
         \"l4s\"",
    )];
    const EXAMPLES: &'static [&'static str] = &["prague", "prague:rtt=10ms,after=100,slow-start=hystart"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let rtt = text.option("rtt", REFERENCE_RTT)?;
        if rtt == Span::ZERO {
            return Err(text.error("a round-trip time above 0"));
        }
        Ok(Self {
            rtt,
            after: text.option("after", ROUNDS)?,
            slow_start: text.option("slow-start", SlowStartKind::default())?,
        })
    }

    fn write(&self, to: &mut Written) {
        let to = to.name("prague").option("rtt", self.rtt, REFERENCE_RTT).option("after", self.after, ROUNDS);
        to.option("slow-start", self.slow_start, SlowStartKind::default());
    }
}

impl ControlKind for PragueSpec {
    type Control = Box<Prague>;
    fn build(&self, start: &Start) -> Box<Prague> {
        // Prague's windows have fractions, also in Linux.
        let halving = if start.halving == Halving::Cwnd { Halving::Window } else { start.halving };
        Box::new(Prague {
            reno: Reno::new(&Start { halving, ..*start }).with_slow_start(self.slow_start),
            rtt: self.rtt,
            after: self.after,
            marks: MarkShare::default(),
            // The first mark halves the window, as a loss would.
            alpha: 1.0,
            was_marked: false,
            rounds: 0,
            alpha_updated_at: Time::ZERO,
            last_reduction: None,
            in_loss_recovery: false,
        })
    }
}

/// Prague, the scalable congestion control of L4S (RFC 9331, section 4; draft-briscoe-iccrg-prague-congestion-control-03, section 2.4). It
/// reduces the window in proportion to the marks as DCTCP does, continues to increase the window while data is marked, and depends less on
/// the RTT. The response to a loss is Reno's. Pacing is configured separately.
#[derive(Clone, Debug)]
pub struct Prague {
    reno: Reno,
    rtt: Span,
    after: u32,
    marks: MarkShare,
    /// Estimated share of marked data.
    alpha: f64,
    /// True after the first mark. Until then, the path may have no AQM that marks.
    was_marked: bool,
    /// Number of observation windows since slow start.
    rounds: u32,
    /// Time of the last update of `alpha`. `last_reduction` is the time of the last reduction for a mark.
    alpha_updated_at: Time,
    last_reduction: Option<Time>,
    /// True during a loss recovery.
    in_loss_recovery: bool,
}

impl Prague {
    /// Returns the estimated share of marked data.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Returns true if the flow behaves as if its RTT were at least the reference RTT.
    fn is_rtt_independent(&self) -> bool {
        self.rounds >= self.after && !self.reno.is_in_slow_start()
    }

    fn process_ack(&mut self, ack: &Ack) {
        self.was_marked |= ack.marked > 0;
        if !self.in_loss_recovery {
            self.grow(&Ack { bytes: ack.bytes - ack.marked, marked: 0, ..*ack });
        }
        let is_due = !self.is_rtt_independent() || ack.now >= self.alpha_updated_at + self.rtt;
        if let Some(share) = self.marks.on_ack(ack, is_due) {
            if self.was_marked {
                self.alpha += GAIN * (share - self.alpha);
            }
            self.alpha_updated_at = ack.now;
            self.rounds += u32::from(!self.reno.is_in_slow_start());
        }
    }

    /// Increases the window for unmarked data, in slow start or by one segment per round trip. A flow with an RTT below the reference RTT
    /// has more round trips per reference RTT, and one segment per round trip is a larger increase of its rate. The ratio of the RTTs
    /// therefore applies twice.
    fn grow(&mut self, unmarked: &Ack) {
        if unmarked.bytes == 0 {
            return;
        }
        if self.reno.is_in_slow_start() {
            return self.reno.on_ack(unmarked);
        }
        let share = unmarked.srtt.map_or(1.0, |srtt| srtt.as_secs() / self.rtt.as_secs());
        let gain = if self.is_rtt_independent() { (share * share).min(1.0) } else { 1.0 };
        self.reno.cong_avoid(unmarked, gain);
    }

    /// Reduces the window by half of the marked share, once per round trip. If the flow is RTT-independent, reduces the window at most once
    /// per reference RTT.
    fn on_mark(&mut self, event: &Congestion) {
        self.was_marked = true;
        if self.is_rtt_independent() && self.last_reduction.is_some_and(|cut| event.now < cut + self.rtt) {
            return;
        }
        self.last_reduction = Some(event.now);
        self.reno.reduce_by_marks(event, self.alpha);
    }
}

impl CongestionControl for Prague {
    fn control(&self) -> Control {
        self.reno.control()
    }

    fn phase(&self, unsent: u64) -> Phase {
        self.reno.phase(unsent)
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.in_loss_recovery = false;
        self.process_ack(ack);
    }

    fn on_ack_while_reduced(&mut self, ack: &Ack) {
        self.process_ack(ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        match event.cause {
            Cause::Mark => self.on_mark(event),
            Cause::Loss | Cause::Restart => {
                self.in_loss_recovery = true;
                self.reno.on_congestion(event);
            }
        }
    }

    fn on_recovered(&mut self, end: &Recovered) {
        self.in_loss_recovery = false;
        self.reno.on_recovered(end);
    }

    fn on_spurious(&mut self, now: Time) {
        self.reno.on_spurious(now);
    }

    fn set_cwnd(&mut self, cwnd: u64, ssthresh: Option<u64>) {
        self.reno.set_cwnd(cwnd, ssthresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::RecoveryKind;
    use crate::testing::{SEGMENT, rfc};

    fn prague(window: u32, text: &str) -> Box<Prague> {
        let super::super::AnyControl::Prague(control) = text
            .parse::<super::super::ControlSpec>()
            .unwrap()
            .build(&rfc(RecoveryKind::SackRfc6675, window).start())
        else {
            panic!("{text}")
        };
        control
    }

    /// Returns an ACK of one segment at `at_ms` milliseconds, with an SRTT of `rtt_ms` milliseconds and `marked` marked bytes.
    fn ack(at_ms: u64, rtt_ms: u64, snd_una: u64, snd_max: u64, marked: u64) -> Ack {
        Ack {
            now: Time::ZERO + Span::from_millis(at_ms),
            bytes: SEGMENT,
            delivered: SEGMENT,
            marked,
            in_flight: snd_max * SEGMENT,
            snd_una: snd_una * SEGMENT,
            snd_max: snd_max * SEGMENT,
            unsent: 0,
            rtt: None,
            srtt: Some(Span::from_millis(rtt_ms)),
            cwnd_limited: true,
        }
    }

    fn episode(at_ms: u64, cause: Cause) -> Congestion {
        Congestion {
            now: Time::ZERO + Span::from_millis(at_ms),
            cause,
            in_flight: 100 * SEGMENT,
            receive_window: 1 << 30,
            repeated: false,
        }
    }

    #[test]
    fn the_estimate_waits_for_the_first_mark_which_halves_the_window() {
        let mut control = prague(100, "prague");
        (1..50).for_each(|snd_una| control.on_ack(&ack(snd_una, 10, snd_una, snd_una + 10, 0)));
        assert_eq!(control.alpha(), 1.0, "no mark has arrived");
        let before = control.control().cwnd;
        control.on_congestion(&episode(50, Cause::Mark));
        assert_eq!((control.control().cwnd, control.phase(0)), (before / 2, Phase::CongestionAvoidance));
        control.on_ack(&ack(51, 10, 200, 300, 0));
        assert_eq!(control.alpha(), 15.0 / 16.0);
    }

    #[test]
    fn it_grows_by_what_was_not_marked_also_while_it_is_cut_but_not_while_a_loss_is_repaired() {
        let mut control = prague(20, "prague");
        control.on_congestion(&episode(0, Cause::Mark));
        let start = control.control().cwnd;
        assert_eq!(start, 10 * SEGMENT);
        control.on_ack_while_reduced(&ack(1, 100, 1, 20, 0));
        assert_eq!(control.control().cwnd, start + SEGMENT / 10);
        control.on_ack_while_reduced(&ack(2, 100, 2, 20, SEGMENT));
        assert_eq!(control.control().cwnd, start + SEGMENT / 10, "all of it was marked");
        control.on_congestion(&episode(3, Cause::Loss));
        let cut = control.control().cwnd;
        assert!(cut.abs_diff(start / 2) <= SEGMENT / 10, "{cut}");
        control.on_ack_while_reduced(&ack(4, 100, 3, 20, 0));
        assert_eq!(control.control().cwnd, cut);
        control.on_recovered(&Recovered { now: Time::ZERO, deflation: 0, retransmitted: 0 });
        control.on_ack(&ack(5, 100, 4, 20, 0));
        assert!(control.control().cwnd > cut);
    }

    #[test]
    fn over_a_short_round_trip_it_gains_estimates_and_cuts_as_over_the_reference() {
        // Draft, section 2.4: with an RTT of 5 ms, the window grows by (5/25)² segments per round trip.
        let mut control = prague(20, "prague:after=0");
        control.on_congestion(&episode(0, Cause::Mark));
        let start = control.control().cwnd;
        control.on_ack(&ack(1, 5, 1, 20, 0));
        assert_eq!(control.control().cwnd - start, SEGMENT / 10 / 25);
        control.on_ack(&ack(2, 50, 2, 20, 0));
        let gained = control.control().cwnd - start;
        assert!(gained.abs_diff(SEGMENT / 10 / 25 + SEGMENT / 10) <= 1, "a long one is its own: {gained}");
        // After the reduction at 0 ms, the next reduction is possible at 25 ms.
        let grown = control.control().cwnd;
        control.on_congestion(&episode(24, Cause::Mark));
        assert_eq!(control.control().cwnd, grown);
        control.on_congestion(&episode(25, Cause::Mark));
        assert!(control.control().cwnd < grown);
        // After the estimate at 30 ms, the next estimate is possible at 55 ms, regardless of the number of windows.
        control.on_ack(&ack(30, 5, 100, 120, 0));
        let alpha = control.alpha();
        control.on_ack(&ack(54, 5, 200, 220, 0));
        assert_eq!(control.alpha(), alpha);
        control.on_ack(&ack(55, 5, 300, 320, 0));
        assert_eq!(control.alpha(), alpha * 15.0 / 16.0);
    }

    #[test]
    fn a_reference_of_nothing_is_refused() {
        let error = "prague:rtt=0ms".parse::<super::super::ControlSpec>().unwrap_err().to_string();
        assert!(error.contains("a round-trip time above 0"), "{error}");
    }

    #[test]
    fn a_young_connection_is_as_dctcp() {
        let mut control = prague(20, "prague:after=2");
        control.on_congestion(&episode(0, Cause::Mark));
        let grow = |control: &mut Prague, at_ms: u64, snd_una: u64| {
            let before = control.control().cwnd;
            control.on_ack(&ack(at_ms, 5, snd_una, snd_una + 10, 0));
            (control.control().cwnd - before) as f64 / (SEGMENT * SEGMENT) as f64 * before as f64
        };
        assert!((grow(&mut control, 5, 1) - 1.0).abs() < 0.02);
        assert!((grow(&mut control, 10, 20) - 1.0).abs() < 0.02);
        assert!((grow(&mut control, 15, 40) - 0.04).abs() < 0.02);
    }
}
