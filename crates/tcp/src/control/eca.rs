use super::slow_start::{EcaRule, SlowStartKind};
use super::{ControlKind, Reno, Start};
use catnip_base::ParseError;
use catnip_base::notation::{Kind, Notation, Usage, Written};

/// Configuration of early congestion avoidance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcaSpec(pub EcaRule);

impl Kind for EcaSpec {
    const USAGE: &'static [Usage] = &[
        ("eca[:last-round]", "early congestion avoidance: linear growth once at most two windows are unsent"),
        (
            "eca:final-window",
            "early congestion avoidance before the doubled window that would complete the document",
        ),
        (
            "eca:one-more-round",
            "early congestion avoidance as soon as it takes at most one additional round trip",
        ),
    ];
    const EXAMPLES: &'static [&'static str] =
        &["eca", "eca:last-round", "eca:final-window", "eca:one-more-round"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let rule = text.next().map_or(Ok(EcaRule::default()), str::parse);
        rule.map(Self).map_err(|_| text.error("eca:last-round, eca:final-window or eca:one-more-round"))
    }

    fn write(&self, to: &mut Written) {
        to.name("eca");
        if self.0 != EcaRule::default() {
            to.value(self.0);
        }
    }
}

/// Early congestion avoidance (CATNIP paper, section III-B): a source that has the size of its document leaves slow start before the burst
/// that would finish the document. This controller is Reno with such a slow start. Other controllers have early congestion avoidance as an
/// option of their slow start.
impl ControlKind for EcaSpec {
    type Control = Reno;
    fn build(&self, start: &Start) -> Reno {
        Reno::new(start).with_slow_start(SlowStartKind::of(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Ack, Congestion, CongestionControl, ControlSpec, Phase, Recovered};
    use crate::recovery::RecoveryKind;
    use crate::testing::{SEGMENT, ns2, rfc};
    use catnip_base::Time;

    /// Returns a controller in slow start with early congestion avoidance and a window of `window` segments.
    fn eca(rule: EcaRule, window: u32) -> Reno {
        EcaSpec(rule).build(&rfc(RecoveryKind::Reno, window).start())
    }

    fn on_ack(control: &mut impl CongestionControl, unsent: u64) {
        control.on_ack(&Ack {
            now: Time::ZERO,
            delivered: 0,
            marked: 0,
            snd_una: 0,
            snd_max: 0,
            srtt: None,
            bytes: SEGMENT,
            in_flight: 0,
            unsent: unsent * SEGMENT,
            rtt: None,
            cwnd_limited: true,
        });
    }

    /// Returns cwnd and ssthresh in bytes after an ACK with `unsent` segments unsent.
    fn after_ack(rule: EcaRule, window: u32, unsent: u64) -> (u64, Option<u64>) {
        let mut control = eca(rule, window);
        on_ack(&mut control, unsent);
        (control.control().cwnd, control.control().ssthresh)
    }

    #[test]
    fn last_round_opens_linearly_while_at_most_two_windows_are_unsent() {
        // With this rule, the paper's page times on an idle network are reproduced. The rule sets no ssthresh and is evaluated again for
        // each ACK.
        assert_eq!(after_ack(EcaRule::LastRound, 4, 9), (5000, None));
        for unsent in [8, 1, 0] {
            assert_eq!(after_ack(EcaRule::LastRound, 4, unsent), (4250, None), "{unsent} unsent");
        }
        assert_eq!(after_ack(EcaRule::LastRound, 1, 2), (2000, None), "1 + 1/1");
    }

    #[test]
    fn last_round_doubles_again_when_there_is_more_to_send() {
        let mut control = eca(EcaRule::LastRound, 4);
        on_ack(&mut control, 8);
        assert_eq!(control.phase(8 * SEGMENT), Phase::CongestionAvoidance);
        assert_eq!(control.phase(100 * SEGMENT), Phase::SlowStart);
        on_ack(&mut control, 100);
        assert_eq!(control.control().cwnd, 5250);
    }

    #[test]
    fn a_short_last_segment_is_a_segment_that_is_left() {
        let control = eca(EcaRule::LastRound, 4);
        assert_eq!(control.phase(8 * SEGMENT), Phase::CongestionAvoidance);
        assert_eq!(control.phase(8 * SEGMENT + 1), Phase::SlowStart);
    }

    #[test]
    fn final_window_ends_slow_start_when_the_next_doubled_window_would_finish_the_document() {
        assert_eq!(after_ack(EcaRule::FinalWindow, 4, 9), (5000, None));
        assert_eq!(after_ack(EcaRule::FinalWindow, 4, 8), (4250, Some(4000)));
        assert_eq!(after_ack(EcaRule::FinalWindow, 4, 1), (4250, Some(4000)));
        assert_eq!(after_ack(EcaRule::FinalWindow, 4, 0), (5000, None), "nothing is left to be gentle with");
    }

    #[test]
    fn final_window_leaves_windows_alone_that_are_too_small_for_a_fast_retransmit() {
        // Three duplicate ACKs (catp23) require a window of four segments.
        assert_eq!(after_ack(EcaRule::FinalWindow, 3, 1), (4000, None));
        assert_eq!(after_ack(EcaRule::FinalWindow, 4, 1), (4250, Some(4000)));
    }

    #[test]
    fn final_window_and_one_more_round_stay_out_of_slow_start_whatever_is_written_later() {
        for rule in [EcaRule::FinalWindow, EcaRule::OneMoreRound] {
            let mut control = eca(rule, 4);
            on_ack(&mut control, 8);
            on_ack(&mut control, 1000);
            // 4 + 1/4 + 1/4.25
            assert_eq!(control.control().cwnd, 4485, "{rule:?}");
        }
    }

    #[test]
    fn one_more_round_ends_slow_start_once_growing_linearly_costs_at_most_one_round() {
        // From a window of 4, rounds with linear growth send 5, 6, 7, 8, 9 segments: 5, 11, 18, 26, 35 in total. Rounds with doubling send
        // 8, 16, 32: 8, 24, 56 in total. Therefore 18 segments take 3 rounds instead of 2, and 19 take 4; 26 take 4 instead of 3, and 27
        // take 5.
        for (unsent, acts) in [(1, true), (11, true), (18, true), (19, false), (24, false), (25, true)] {
            let expected = if acts { (4250, Some(4000)) } else { (5000, None) };
            assert_eq!(after_ack(EcaRule::OneMoreRound, 4, unsent), expected, "{unsent} unsent");
        }
        for (unsent, acts) in [(26, true), (27, false), (0, false)] {
            let expected = if acts { (4250, Some(4000)) } else { (5000, None) };
            assert_eq!(after_ack(EcaRule::OneMoreRound, 4, unsent), expected, "{unsent} unsent");
        }
        // From a window of 1, the totals are 2, 5, 9, 14, 20, 27 with linear growth and 2, 6, 14, 30 with doubling. 20 segments take 5
        // rounds instead of 4, 21 take 6.
        for (unsent, ssthresh) in [(14, Some(1000)), (20, Some(1000)), (21, None), (30, None)] {
            assert_eq!(after_ack(EcaRule::OneMoreRound, 1, unsent), (2000, ssthresh), "{unsent} unsent");
        }
    }

    #[test]
    fn congestion_is_what_it_is_to_reno() {
        let mut control = eca(EcaRule::LastRound, 8);
        let (now, in_flight, receive_window) = (Time::ZERO, 8 * SEGMENT, 100 * SEGMENT);
        let cause = crate::control::Cause::Loss;
        control.on_congestion(&Congestion { now, cause, in_flight, receive_window, repeated: false });
        assert_eq!((control.control().cwnd, control.control().ssthresh), (4000, Some(4000)));
        assert_eq!(control.phase(1000 * SEGMENT), Phase::CongestionAvoidance);
        control.on_recovered(&Recovered { now, deflation: SEGMENT, retransmitted: 0 });
        assert_eq!(control.control().cwnd, 3000);
    }

    #[test]
    fn a_window_of_nothing_counts_as_one_segment() {
        for &rule in EcaRule::ALL {
            let mut control = EcaSpec(rule).build(&ns2(RecoveryKind::Reno, 1).start());
            let (now, in_flight, receive_window) = (Time::ZERO, SEGMENT, 20 * SEGMENT);
            let cause = crate::control::Cause::Loss;
            control.on_congestion(&Congestion { now, cause, in_flight, receive_window, repeated: false });
            assert_eq!(control.control().cwnd, 0);
            on_ack(&mut control, 10);
            assert_eq!(control.control().cwnd, SEGMENT, "{rule:?}");
        }
    }

    #[test]
    fn it_is_a_slow_start_of_every_controller_that_has_one() {
        let start = rfc(RecoveryKind::SackRfc6675, 4).start();
        let start = Start { byte_counting: true, ..start };
        for control in ["reno", "cubic", "linux-cubic", "dctcp", "prague"] {
            let build = |rule: &str| {
                let text = format!("{control}:slow-start={rule}");
                text.parse::<ControlSpec>().unwrap().build(&start)
            };
            // With at most two windows unsent, the ACKs of one window add one segment in total, so each of four ACKs adds about a quarter.
            // Linux counts whole segments.
            let mut gentle = build("eca");
            assert_eq!(gentle.phase(8 * SEGMENT), Phase::CongestionAvoidance, "{control}");
            assert_eq!(gentle.phase(9 * SEGMENT), Phase::SlowStart, "{control}");
            (0..4).for_each(|_| on_ack(&mut gentle, 8));
            let grown = gentle.control().cwnd;
            assert!(
                (4900..=5000).contains(&grown) && gentle.control().ssthresh.is_none(),
                "{control}: {grown}"
            );
            on_ack(&mut gentle, 100);
            assert!(
                gentle.control().cwnd > grown + 900,
                "{control} doubles again when there is more to send"
            );
            for rule in ["eca-final-window", "eca-one-more-round"] {
                let mut final_one = build(rule);
                on_ack(&mut final_one, 8);
                assert_eq!(final_one.control().ssthresh, Some(4000), "{control} {rule}");
                assert_eq!(final_one.phase(100 * SEGMENT), Phase::CongestionAvoidance, "{control} {rule}");
            }
        }
    }
}
