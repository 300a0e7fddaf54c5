use super::{Bandwidth, micros, segments_in};
use catnip_base::Time;

/// ACK aggregation: the number of segments acknowledged at once in excess of the bandwidth estimate. BBR adds this excess to the window, so
/// that the pipe stays full between two aggregated ACKs. The excess is the largest one of the last five to ten rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::control) struct Aggregation {
    /// Largest excess of the current period of five rounds, and of the previous period, segments.
    extra_acked: [u32; 2],
    rounds: u32,
    epoch: Time,
    acked: u32,
}

const ROUNDS: u32 = 5;
/// Number of acknowledged segments after which an epoch ends.
const MAX_EPOCH_ACKED: u32 = 1 << 20;
/// Limit of `extra_acked` as time at the estimated bandwidth, microseconds (bbr_extra_acked_max_us).
const MAX_US: u64 = 100_000;

impl Aggregation {
    /// Handles an ACK that newly acknowledges `acked_sacked` segments.
    pub(in crate::control) fn on_ack(
        &mut self,
        now: Time,
        acked_sacked: u32,
        round_start: bool,
        bw: Bandwidth,
        cwnd: u32,
    ) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.extra_acked = [0, self.extra_acked[0]];
            }
        }
        let expected_since = |since: Time| segments_in(bw, micros(now.since(since)));
        let mut expected_acked = expected_since(self.epoch);
        if u64::from(self.acked) <= expected_acked || self.acked + acked_sacked >= MAX_EPOCH_ACKED {
            // There is no excess, or the epoch is too long: a new epoch begins.
            (self.acked, self.epoch, expected_acked) = (0, now, 0);
        }
        self.acked += acked_sacked;
        let extra_acked = u64::from(self.acked).saturating_sub(expected_acked).min(cwnd.into());
        self.extra_acked[0] = self.extra_acked[0].max(extra_acked as u32);
    }

    /// Starts a new epoch after an idle period.
    pub(in crate::control) fn restart(&mut self, now: Time) {
        (self.epoch, self.acked) = (now, 0);
    }

    /// Returns the number of segments to add to the window.
    pub(in crate::control) fn extra_cwnd(&self, bw: Bandwidth) -> u32 {
        let max_extra = segments_in(bw, MAX_US);
        u64::from(self.extra_acked[0].max(self.extra_acked[1])).min(max_extra) as u32
    }
}
