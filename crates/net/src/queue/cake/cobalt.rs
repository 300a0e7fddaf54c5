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
}

/// COBALT, the AQM algorithm of a CAKE queue (Linux, net/sched/sch_cake.c), separate from the packet buffer: CoDel without its special
/// cases and with a count that also decreases step by step, combined with BLUE for unresponsive flows.
#[derive(Clone, Debug)]
pub struct Cobalt {
    count: u32,
    /// Reciprocal root 1 / √count, in units of 2^-32.
    root: u32,
    dropping: bool,
    /// Time of the next signal; with a count of zero, time until which the queue counts as active.
    next_signal: Time,
    /// Drop probability of BLUE, in units of 2^-32.
    flood: u32,
    /// Time of the last change of `flood`.
    flood_changed: Time,
}

/// Decision about the packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No signal.
    Pass,
    /// CE mark.
    Mark,
    /// Drop.
    Drop,
}

const FLOOD_UP: u32 = 1 << 24;
const FLOOD_DOWN: u32 = 1 << 20;

impl Default for Cobalt {
    /// Creates the state of an unused queue. The first signal is given one interval after the queueing delay exceeds the target, as the
    /// comments in Linux specify. In Linux itself, a queue that was never used has a root of zero and gives its first signal at once.
    fn default() -> Self {
        Self {
            count: 0,
            root: u32::MAX,
            dropping: false,
            next_signal: Time::ZERO,
            flood: 0,
            flood_changed: Time::ZERO,
        }
    }
}

impl Cobalt {
    /// Records that a packet of this queue was dropped because the buffer is full.
    pub fn on_overflow(&mut self, p: &CobaltParameters, now: Time) {
        if now.since(self.flood_changed) > p.target {
            self.flood = self.flood.saturating_add(FLOOD_UP);
            self.flood_changed = now;
        }
        self.dropping = true;
        self.next_signal = now;
        self.count = self.count.max(1);
    }

    /// Records that the queue is empty.
    pub fn on_empty(&mut self, p: &CobaltParameters, now: Time) {
        if self.flood > 0 && now.since(self.flood_changed) > p.target {
            self.flood = self.flood.saturating_sub(FLOOD_DOWN);
            self.flood_changed = now;
        }
        self.dropping = false;
        if self.is_due(now) {
            self.step_down(p);
        }
    }

    /// Returns true if the state no longer affects later packets and can be discarded.
    pub fn is_at_rest(&self, now: Time) -> bool {
        self.flood == 0 && self.count == 0 && now >= self.next_signal
    }

    /// Returns the decision about the packet at the head, which has waited for `waited`. `draws` returns 32 random bits and is called only
    /// if they are needed.
    pub fn judge(
        &mut self,
        p: &CobaltParameters,
        now: Time,
        waited: Span,
        can_mark: bool,
        draws: impl FnOnce() -> u32,
    ) -> Decision {
        let is_late = waited > p.target && waited > p.mtu * 4;
        let is_due = self.is_due(now);
        if is_late {
            if !self.dropping {
                self.dropping = true;
                self.next_signal = self.after(p, now);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut sentence = Decision::Pass;
        if is_due && self.dropping {
            sentence = if can_mark { Decision::Mark } else { Decision::Drop };
            self.set_count(self.count.saturating_add(1));
            self.next_signal = self.after(p, self.next_signal);
        } else if is_due {
            while self.is_due(now) {
                self.step_down(p);
            }
        }
        if self.flood > 0 && sentence != Decision::Drop && draws() < self.flood {
            sentence = Decision::Drop;
        }
        if self.count == 0 {
            self.next_signal = now + p.interval;
        } else if now > self.next_signal && sentence != Decision::Drop {
            self.next_signal = now;
        }
        sentence
    }

    fn is_due(&self, now: Time) -> bool {
        self.count > 0 && now >= self.next_signal
    }

    fn step_down(&mut self, p: &CobaltParameters) {
        self.set_count(self.count - 1);
        self.next_signal = self.after(p, self.next_signal);
    }

    /// Returns the time of the signal that follows a signal at `time`: interval / √count later.
    fn after(&self, p: &CobaltParameters, time: Time) -> Time {
        let nanos = (u128::from(p.interval.as_nanos()) * u128::from(self.root)) >> 32;
        time + Span::from_nanos(nanos as u64)
    }

    /// Sets `count` and `root`. The root is taken from a table or computed by a step of Newton's method: root ← root / 2 · (3 − count ·
    /// root²).
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.root = match ROOTS.get(count as usize) {
            Some(&root) => root,
            None => {
                let root = u64::from(self.root);
                let term = (3 << 32) - u64::from(count) * ((root * root) >> 32);
                (((term >> 2) * root) >> 31) as u32
            }
        };
    }
}

/// Table of 2^32 / √count, rounded, by count. The entries for counts of 0 and 1 are the largest value that fits.
const ROOTS: [u32; 16] = {
    let mut roots = [u32::MAX; 16];
    let mut count = 2;
    while count < roots.len() {
        // The integer square root of 2^66 / count is 2^33 / √count, rounded down. Half of it, rounded up, is the table entry.
        roots[count] = (((1u128 << 66) / count as u128).isqrt() as u64).div_ceil(2) as u32;
        count += 1;
    }
    roots
};
