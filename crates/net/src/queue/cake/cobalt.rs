use crate::queue::codel::Decision;
use catnip_base::{Span, Time};

/// Parameters of COBALT.
#[derive(Clone, Copy, Debug)]
pub struct CobaltParameters {
    /// Target queueing delay.
    pub target: Span,
    /// Time for which the queueing delay may exceed the target before the first signal.
    pub interval: Span,
    /// Transmission time of the largest packet.
    pub mtu: Span,
    /// True if a queue that has never been late gives its first signal at its second late packet, as in Linux. Otherwise the first signal
    /// follows an interval after the first late packet, as the comments in Linux specify.
    pub eager: bool,
}

/// COBALT, the AQM algorithm of a CAKE queue (Linux, net/sched/sch_cake.c), separate from the packet buffer: CoDel without its special
/// cases and with a count that also decreases step by step, combined with BLUE for unresponsive flows.
#[derive(Clone, Debug)]
pub struct Cobalt {
    count: u32,
    /// Reciprocal root 1 / √count, in units of 2^-32.
    rec_inv_sqrt: u32,
    dropping: bool,
    /// Time of the next signal; with a count of zero, time until which the queue counts as active.
    drop_next: Time,
    /// Drop probability of BLUE, in units of 2^-32.
    p_drop: u32,
    /// Time of the last change of `p_drop`.
    blue_changed: Time,
}

const BLUE_INCREASE: u32 = 1 << 24;
const BLUE_DECREASE: u32 = 1 << 20;

impl Cobalt {
    /// Creates the state of an unused queue. In Linux its root is zero, so that there is no time from the first late packet to the first
    /// signal.
    pub fn new(p: &CobaltParameters) -> Self {
        Self {
            count: 0,
            rec_inv_sqrt: if p.eager { 0 } else { u32::MAX },
            dropping: false,
            drop_next: Time::ZERO,
            p_drop: 0,
            blue_changed: Time::ZERO,
        }
    }

    /// Records that a packet of this queue was dropped because the buffer is full.
    pub fn on_overflow(&mut self, p: &CobaltParameters, now: Time) {
        if now.since(self.blue_changed) > p.target {
            self.p_drop = self.p_drop.saturating_add(BLUE_INCREASE);
            self.blue_changed = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// Records that the queue is empty.
    pub fn on_empty(&mut self, p: &CobaltParameters, now: Time) {
        if self.p_drop > 0 && now.since(self.blue_changed) > p.target {
            self.p_drop = self.p_drop.saturating_sub(BLUE_DECREASE);
            self.blue_changed = now;
        }
        self.dropping = false;
        if self.is_due(now) {
            self.step_down(p);
        }
    }

    /// Returns true if the state no longer affects later packets and can be discarded.
    pub fn is_at_rest(&self, now: Time) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }

    /// Returns the decision about the packet at the head, which has waited for `waited`. `draws` returns 32 random bits and is called only
    /// if they are needed.
    pub fn evaluate(
        &mut self,
        p: &CobaltParameters,
        now: Time,
        waited: Span,
        can_mark: bool,
        draws: impl FnOnce() -> u32,
    ) -> Decision {
        let is_over_target = waited > p.target && waited > p.mtu * 4;
        let is_due = self.is_due(now);
        if is_over_target {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.control_law(p, now);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut decision = Decision::Pass;
        if is_due && self.dropping {
            decision = if can_mark { Decision::Mark } else { Decision::Drop };
            self.set_count(self.count.saturating_add(1));
            self.drop_next = self.control_law(p, self.drop_next);
        } else if is_due {
            while self.is_due(now) {
                self.step_down(p);
            }
        }
        if self.p_drop > 0 && decision != Decision::Drop && draws() < self.p_drop {
            decision = Decision::Drop;
        }
        if self.count == 0 {
            self.drop_next = now + p.interval;
        } else if now > self.drop_next && decision != Decision::Drop {
            self.drop_next = now;
        }
        decision
    }

    fn is_due(&self, now: Time) -> bool {
        self.count > 0 && now >= self.drop_next
    }

    fn step_down(&mut self, p: &CobaltParameters) {
        self.set_count(self.count - 1);
        self.drop_next = self.control_law(p, self.drop_next);
    }

    /// Returns the time of the signal that follows a signal at `time`: interval / √count later.
    fn control_law(&self, p: &CobaltParameters, time: Time) -> Time {
        let nanos = (u128::from(p.interval.as_nanos()) * u128::from(self.rec_inv_sqrt)) >> 32;
        time + Span::from_nanos(nanos as u64)
    }

    /// Sets `count` and `rec_inv_sqrt`. The root is taken from a table or computed by a step of Newton's method: root ← root / 2 · (3 −
    /// count · root²).
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.rec_inv_sqrt = match REC_INV_SQRT.get(count as usize) {
            Some(&rec_inv_sqrt) => rec_inv_sqrt,
            None => {
                let rec_inv_sqrt = u64::from(self.rec_inv_sqrt);
                let term = (3 << 32) - u64::from(count) * ((rec_inv_sqrt * rec_inv_sqrt) >> 32);
                (((term >> 2) * rec_inv_sqrt) >> 31) as u32
            }
        };
    }
}

/// Table of 2^32 / √count, rounded, by count. The entries for counts of 0 and 1 are the largest value that fits.
const REC_INV_SQRT: [u32; 16] = {
    let mut table = [u32::MAX; 16];
    let mut count = 2;
    while count < table.len() {
        // The integer square root of 2^66 / count is 2^33 / √count, rounded down. Half of it, rounded up, is the table entry.
        table[count] = (((1u128 << 66) / count as u128).isqrt() as u64).div_ceil(2) as u32;
        count += 1;
    }
    table
};
