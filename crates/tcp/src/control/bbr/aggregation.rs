use super::{Bandwidth, arrives, micros};
use catnip_base::Time;

/// How many segments are acknowledged at once beyond what the bandwidth explains: so many more may be out, so that the silence between
/// two such ACKs is filled. The largest excess of the last five to ten rounds counts.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::control) struct Aggregation {
    /// Of these rounds, and of those before.
    extra: [u32; 2],
    rounds: u32,
    epoch: Time,
    acked: u32,
}

const ROUNDS: u32 = 5;
/// An epoch that has seen so many segments ends.
const LONGEST_EPOCH: u32 = 1 << 20;
/// The excess is at most what arrives in this time, microseconds.
const MOST_US: u64 = 100_000;

impl Aggregation {
    /// An ACK tells of so many segments more.
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
            // What came was no more than that: the epoch begins anew.
            (self.acked, self.epoch, usual) = (0, now, 0);
        }
        self.acked += arrived;
        let extra = u64::from(self.acked).saturating_sub(usual).min(window.into());
        self.extra[0] = self.extra[0].max(extra as u32);
    }

    /// Another epoch, after a silence.
    pub(in crate::control) fn restart(&mut self, now: Time) {
        (self.epoch, self.acked) = (now, 0);
    }

    /// Segments that the window has room for besides.
    pub(in crate::control) fn room(&self, bw: Bandwidth) -> u32 {
        let most = arrives(bw, MOST_US);
        u64::from(self.extra[0].max(self.extra[1])).min(most) as u32
    }
}
