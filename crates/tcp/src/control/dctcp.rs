use super::mark_share::MarkShare;
use super::slow_start::SlowStartKind;
use super::{Ack, Cause, Congestion, CongestionControl, Control, ControlKind, Phase, Recovered, Reno, Start};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Share};

/// Configuration of [`Dctcp`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DctcpSpec {
    /// Weight g of the last observation window in the estimated share of marked data.
    pub gain: Share,
    /// Slow start algorithm.
    pub slow_start: SlowStartKind,
}

/// Default gain (RFC 8257, section 4.2).
const GAIN: Share = Share(1.0 / 16.0);

impl Kind for DctcpSpec {
    const USAGE: &'static [Usage] = &[(
        "dctcp[:gain=6.25%,slow-start=hystart++]",
        "DCTCP (RFC 8257): Reno whose window is reduced by half of the marked share of its data, averaged with the weight gain of the \
         last window; needs ecn = \"exact\" or \"l4s\"",
    )];
    const EXAMPLES: &'static [&'static str] = &["dctcp", "dctcp:gain=5%,slow-start=hystart"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let gain: Share = text.option("gain", GAIN)?;
        if !(gain.0 > 0.0 && gain.0 <= 1.0) {
            return Err(text.error("a gain above 0 and at most 1"));
        }
        Ok(Self { gain, slow_start: text.option("slow-start", SlowStartKind::default())? })
    }

    fn write(&self, to: &mut Written) {
        let to = to.name("dctcp").option("gain", self.gain, GAIN);
        to.option("slow-start", self.slow_start, SlowStartKind::default());
    }
}

impl ControlKind for DctcpSpec {
    type Control = Box<Dctcp>;
    fn build(&self, start: &Start) -> Box<Dctcp> {
        Box::new(Dctcp {
            reno: Reno::new(start).with_slow_start(self.slow_start),
            gain: self.gain.0,
            // Section 3.3: the initial estimate is the most conservative one.
            alpha: 1.0,
            marks: MarkShare::default(),
        })
    }
}

/// DCTCP (RFC 8257): estimates the extent of congestion from the share of marked data, and reduces the window in proportion to the
/// estimate. The rest of its behaviour is Reno's.
#[derive(Clone, Debug)]
pub struct Dctcp {
    reno: Reno,
    gain: f64,
    /// DCTCP.Alpha: estimated share of marked data.
    alpha: f64,
    marks: MarkShare,
}

impl Dctcp {
    /// Returns the estimated share of marked data.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Updates the estimate of the marked share (section 3.3, steps 1 to 8 for each ACK).
    fn update_alpha(&mut self, ack: &Ack) {
        if let Some(share) = self.marks.on_ack(ack, true) {
            self.alpha = self.alpha * (1.0 - self.gain) + self.gain * share;
        }
    }
}

impl CongestionControl for Dctcp {
    fn control(&self) -> Control {
        self.reno.control()
    }

    fn phase(&self, unsent: u64) -> Phase {
        self.reno.phase(unsent)
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.update_alpha(ack);
        self.reno.on_ack(ack);
    }

    fn on_ack_while_reduced(&mut self, ack: &Ack) {
        self.update_alpha(ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        match event.cause {
            // "cwnd = cwnd * (1 - DCTCP.Alpha / 2)".
            Cause::Mark => self.reno.reduce_by_marks(event, self.alpha),
            // The response to a loss is Reno's (section 3.5).
            Cause::Loss | Cause::Restart => self.reno.on_congestion(event),
        }
    }

    fn on_recovered(&mut self, end: &Recovered) {
        self.reno.on_recovered(end);
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
    use catnip_base::Time;

    fn dctcp(window: u32, text: &str) -> Box<Dctcp> {
        let super::super::AnyControl::Dctcp(control) = text
            .parse::<super::super::ControlSpec>()
            .unwrap()
            .build(&rfc(RecoveryKind::SackRfc6675, window).start())
        else {
            panic!("{text}")
        };
        control
    }

    /// Returns an ACK of one segment, up to segment `snd_una`, whose data is marked if `marked` is true. All segments before `snd_max` are
    /// sent.
    fn ack(snd_una: u64, snd_max: u64, marked: bool) -> Ack {
        Ack {
            now: Time::ZERO,
            bytes: SEGMENT,
            delivered: SEGMENT,
            marked: if marked { SEGMENT } else { 0 },
            in_flight: snd_max * SEGMENT,
            snd_una: snd_una * SEGMENT,
            snd_max: snd_max * SEGMENT,
            unsent: 0,
            rtt: None,
            srtt: None,
            cwnd_limited: true,
        }
    }

    fn mark() -> Congestion {
        let cause = Cause::Mark;
        Congestion {
            now: Time::ZERO,
            cause,
            in_flight: 100 * SEGMENT,
            receive_window: 1 << 30,
            repeated: false,
        }
    }

    #[test]
    fn the_estimate_moves_by_a_sixteenth_per_window_towards_the_share_that_was_marked() {
        let mut control = dctcp(100, "dctcp");
        assert_eq!(control.alpha(), 1.0);
        // RFC 8257, section 3.3: "DCTCP.Alpha = DCTCP.Alpha * (1 - g) + g * M". The first ACK alone is the first observation window.
        control.on_ack(&ack(1, 11, false));
        assert_eq!(control.alpha(), 15.0 / 16.0);
        // Three of ten segments are marked.
        (2..=11).for_each(|snd_una| control.on_ack(&ack(snd_una, 30, snd_una <= 4)));
        assert_eq!(control.alpha(), 15.0 / 16.0, "the window ends with the first ACK beyond it");
        control.on_ack(&ack(12, 40, false));
        let expected = 15.0 / 16.0 * 15.0 / 16.0 + 3.0 / 11.0 / 16.0;
        assert!((control.alpha() - expected).abs() < 1e-12, "{} {expected}", control.alpha());
    }

    #[test]
    fn acks_count_for_the_estimate_while_the_window_is_reduced_too() {
        let mut control = dctcp(100, "dctcp");
        control.on_ack(&ack(1, 11, false));
        // RFC 8257, section 3.3 counts on "each acceptable ACK", whatever cwnd does: "DCTCP.BytesAcked += SND.UNA advance". Six of the
        // eleven segments, four of them marked, are acknowledged during the reduction of the window, and none of them raises cwnd.
        let cwnd = control.control().cwnd;
        (2..=7).for_each(|snd_una| control.on_ack_while_reduced(&ack(snd_una, 30, snd_una <= 5)));
        assert_eq!(control.control().cwnd, cwnd);
        (8..=12).for_each(|snd_una| control.on_ack(&ack(snd_una, 40, false)));
        let expected = 15.0 / 16.0 * 15.0 / 16.0 + 4.0 / 11.0 / 16.0;
        assert!((control.alpha() - expected).abs() < 1e-12, "{} {expected}", control.alpha());
        // The end of an observation window counts during the reduction, too.
        (13..=41).for_each(|snd_una| control.on_ack_while_reduced(&ack(snd_una, 60, true)));
        let all_marked = 15.0 / 16.0 * expected + 1.0 / 16.0;
        assert!((control.alpha() - all_marked).abs() < 1e-12, "{} {all_marked}", control.alpha());
    }

    #[test]
    fn a_mark_takes_half_of_the_estimate_and_a_loss_half_of_the_window() {
        let mut control = dctcp(100, "dctcp:gain=100%");
        control.on_ack(&ack(1, 11, false));
        assert_eq!(control.alpha(), 0.0);
        // Two of eleven segments are marked.
        (2..=12).for_each(|snd_una| control.on_ack(&ack(snd_una, 30, snd_una <= 3)));
        let before = control.control().cwnd;
        control.on_congestion(&mark());
        let after = control.control();
        assert!((after.cwnd as f64 / before as f64 - (1.0 - 1.0 / 11.0)).abs() < 1e-3, "{before} {after:?}");
        assert_eq!((after.ssthresh, control.phase(0)), (Some(after.cwnd), Phase::CongestionAvoidance));
        control.on_congestion(&Congestion { cause: Cause::Loss, in_flight: after.cwnd, ..mark() });
        assert!(control.control().cwnd.abs_diff(after.cwnd / 2) <= SEGMENT);
    }

    #[test]
    fn two_segments_are_left_whatever_is_marked() {
        let mut control = dctcp(3, "dctcp");
        (0..5).for_each(|_| control.on_congestion(&mark()));
        assert_eq!(control.control().cwnd, 2 * SEGMENT);
    }
}
