use super::{BW_SCALE, Bandwidth, UNIT, bytes_per_second, micros};
use crate::control::Delivery;
use catnip_base::Time;

/// Detection of a token-bucket policer: two consecutive intervals that begin and end with a loss, have a lost fraction of at least a fifth,
/// and have the same delivery rate. The detected rate is kept for [`KEPT_ROUNDS`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    /// Detected rate, or otherwise the rate of the previous interval; zero before the first interval.
    bw: Bandwidth,
    is_policed: bool,
    is_sampling: bool,
    rounds: u32,
    since: Time,
    delivered: u64,
    lost: u64,
}

/// Effect of policer detection on the probing for bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No change.
    None,
    /// New probe, because the detected rate was kept long enough.
    ProbeAgain,
}

/// Minimum length of an interval, rounds. The maximum length is four times this value.
const LEAST_ROUNDS: u32 = 4;
/// Ratio of lost to delivered segments from which a policer is likely: about a fifth, in units of 1/256.
const THRESHOLD: u64 = 50;
/// Tolerance within which two rates are equal: an eighth of the rate. The alternative, `DIFFERENCE`, is absolute, in bytes per second.
const RATIO: u64 = UNIT / 8;
const DIFFERENCE: u64 = 4000 / 8;
/// Number of rounds for which a detected rate is kept.
const KEPT_ROUNDS: u32 = 48;

impl Policer {
    /// Returns the rate of a detected policer; `None` if no policer is detected.
    pub(super) fn rate(&self) -> Option<Bandwidth> {
        self.is_policed.then_some(self.bw)
    }

    /// Resets the detection.
    pub(super) fn reset(&mut self, at: &Delivery) {
        *self =
            Self { since: at.delivered_at, delivered: at.delivered, lost: at.lost_in_all, ..Self::default() };
    }

    /// Handles an ACK or a timeout. `begins_round` is true if it begins a round, `probes` is true in ProbeBW.
    pub(super) fn on_ack(
        &mut self,
        at: &Delivery,
        begins_round: bool,
        is_app_limited: bool,
        probes: bool,
        segment: u64,
    ) -> Verdict {
        if self.is_policed {
            self.rounds += u32::from(probes && begins_round);
            if self.rounds < KEPT_ROUNDS {
                return Verdict::None;
            }
            self.reset(at);
            return Verdict::ProbeAgain;
        }
        if !self.is_sampling {
            // Sampling begins with a loss, which shows that the token bucket is empty.
            if at.lost == 0 {
                return Verdict::None;
            }
            self.begin(at);
            self.is_sampling = true;
        }
        if is_app_limited {
            self.reset(at);
            return Verdict::None;
        }
        self.rounds += u32::from(begins_round);
        if self.rounds < LEAST_ROUNDS {
            return Verdict::None;
        }
        if self.rounds > 4 * LEAST_ROUNDS {
            self.reset(at);
            return Verdict::None;
        }
        let (lost, delivered) = (at.lost_in_all - self.lost, at.delivered - self.delivered);
        let took_us = micros(at.delivered_at.since(self.since)) / 1000 * 1000;
        let tells = at.lost > 0 && delivered > 0 && lost * UNIT >= THRESHOLD * delivered && took_us > 0;
        if tells {
            self.end(at, (delivered << BW_SCALE) / took_us, segment);
        }
        Verdict::None
    }

    /// Ends an interval with the rate `bw`.
    fn end(&mut self, at: &Delivery, bw: Bandwidth, segment: u64) {
        let difference = bw.abs_diff(self.bw);
        let is_same =
            difference * UNIT <= RATIO * self.bw || bytes_per_second(difference, UNIT, segment) <= DIFFERENCE;
        if self.bw > 0 && is_same {
            (self.bw, self.is_policed, self.rounds) = ((bw + self.bw) / 2, true, 0);
        } else {
            self.bw = bw;
            self.begin(at);
        }
    }

    fn begin(&mut self, at: &Delivery) {
        (self.since, self.delivered, self.lost) = (at.delivered_at, at.delivered, at.lost_in_all);
        self.rounds = 0;
    }
}
