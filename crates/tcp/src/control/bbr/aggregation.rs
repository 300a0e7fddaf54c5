use super::{Bandwidth, arrives, micros};
use catnip_base::Time;

/// ACK aggregation: the number of segments acknowledged at once in excess of the bandwidth estimate. BBR adds this excess to the window, so
/// that the pipe stays full between two aggregated ACKs. The excess is the largest one of the last five to ten rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::control) struct Aggregation {
    /// Largest excess of the current period of five rounds, and of the previous period, segments.
    extra: [u32; 2],
    rounds: u32,
    epoch: Time,
    acked: u32,
}

const ROUNDS: u32 = 5;
/// Number of acknowledged segments after which an epoch ends.
const LONGEST_EPOCH: u32 = 1 << 20;
/// Limit of the excess, as the time in which the excess would arrive at the estimated bandwidth, microseconds.
const MOST_US: u64 = 100_000;

impl Aggregation {
    /// Handles an ACK that newly acknowledges `arrived` segments.
    pub(in crate::control) fn on_ack(
        &mut self,
        now: Time,
        arrived: u32,
        begins_round: bool,
        bw: Bandwidth,
        window: u32,
    ) {
        if begins_round {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.extra = [0, self.extra[0]];
            }
        }
        let expected = |since: Time| arrives(bw, micros(now.since(since)));
        let mut usual = expected(self.epoch);
        if u64::from(self.acked) <= usual || self.acked + arrived >= LONGEST_EPOCH {
            // There is no excess, or the epoch is too long: a new epoch begins.
            (self.acked, self.epoch, usual) = (0, now, 0);
        }
        self.acked += arrived;
        let extra = u64::from(self.acked).saturating_sub(usual).min(window.into());
        self.extra[0] = self.extra[0].max(extra as u32);
    }

    /// Starts a new epoch after an idle period.
    pub(in crate::control) fn restart(&mut self, now: Time) {
        (self.epoch, self.acked) = (now, 0);
    }

    /// Returns the number of segments to add to the window.
    pub(in crate::control) fn room(&self, bw: Bandwidth) -> u32 {
        let most = arrives(bw, MOST_US);
        u64::from(self.extra[0].max(self.extra[1])).min(most) as u32
    }
}
