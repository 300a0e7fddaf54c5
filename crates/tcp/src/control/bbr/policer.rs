use super::{BW_SCALE, Bandwidth, UNIT, bytes_per_second, micros};
use crate::control::Delivery;
use catnip_base::Time;

/// Detection of a token-bucket policer: two consecutive intervals that begin and end with a loss, have a lost fraction of at least a fifth,
/// and have the same delivery rate. The detected rate is kept for [`MAX_RATE_ROUNDS`].
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
pub(super) enum PolicerAction {
    /// No change.
    None,
    /// New probe, because the detected rate was kept long enough.
    Reprobe,
}

/// Minimum length of an interval, rounds. The maximum length is four times this value.
const MIN_INTERVAL_ROUNDS: u32 = 4;
/// Ratio of lost to delivered segments from which a policer is likely: about a fifth, in units of 1/256.
const LOSS_THRESHOLD: u64 = 50;
/// Tolerance within which two rates are equal: an eighth of the rate. The alternative, `BW_DIFFERENCE`, is absolute, in bytes per second.
const BW_RATIO: u64 = UNIT / 8;
const BW_DIFFERENCE: u64 = 4000 / 8;
/// Number of rounds for which a detected rate is kept.
const MAX_RATE_ROUNDS: u32 = 48;

impl Policer {
    /// Returns the rate of a detected policer; `None` if no policer is detected.
    pub(super) fn rate(&self) -> Option<Bandwidth> {
        self.is_policed.then_some(self.bw)
    }

    /// Resets the detection.
    pub(super) fn reset(&mut self, ack: &Delivery) {
        *self = Self {
            since: ack.delivered_time,
            delivered: ack.delivered,
            lost: ack.total_lost,
            ..Self::default()
        };
    }

    /// Handles an ACK or a timeout. `round_start` is true if it begins a round, `is_probing` is true in ProbeBW.
    pub(super) fn on_ack(
        &mut self,
        ack: &Delivery,
        round_start: bool,
        is_app_limited: bool,
        is_probing: bool,
        segment: u64,
    ) -> PolicerAction {
        if self.is_policed {
            self.rounds += u32::from(is_probing && round_start);
            if self.rounds < MAX_RATE_ROUNDS {
                return PolicerAction::None;
            }
            self.reset(ack);
            return PolicerAction::Reprobe;
        }
        if !self.is_sampling {
            // Sampling begins with a loss, which shows that the token bucket is empty.
            if ack.lost == 0 {
                return PolicerAction::None;
            }
            self.begin(ack);
            self.is_sampling = true;
        }
        if is_app_limited {
            self.reset(ack);
            return PolicerAction::None;
        }
        self.rounds += u32::from(round_start);
        if self.rounds < MIN_INTERVAL_ROUNDS {
            return PolicerAction::None;
        }
        if self.rounds > 4 * MIN_INTERVAL_ROUNDS {
            self.reset(ack);
            return PolicerAction::None;
        }
        let (lost, delivered) = (ack.total_lost - self.lost, ack.delivered - self.delivered);
        let interval_us = micros(ack.delivered_time.since(self.since)) / 1000 * 1000;
        let is_lossy =
            ack.lost > 0 && delivered > 0 && lost * UNIT >= LOSS_THRESHOLD * delivered && interval_us > 0;
        if is_lossy {
            self.end(ack, (delivered << BW_SCALE) / interval_us, segment);
        }
        PolicerAction::None
    }

    /// Ends an interval with the rate `bw`.
    fn end(&mut self, ack: &Delivery, bw: Bandwidth, segment: u64) {
        let difference = bw.abs_diff(self.bw);
        let is_same = difference * UNIT <= BW_RATIO * self.bw
            || bytes_per_second(difference, UNIT, segment) <= BW_DIFFERENCE;
        if self.bw > 0 && is_same {
            (self.bw, self.is_policed, self.rounds) = ((bw + self.bw) / 2, true, 0);
        } else {
            self.bw = bw;
            self.begin(ack);
        }
    }

    fn begin(&mut self, ack: &Delivery) {
        (self.since, self.delivered, self.lost) = (ack.delivered_time, ack.delivered, ack.total_lost);
        self.rounds = 0;
    }
}
