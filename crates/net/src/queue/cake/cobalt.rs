use catnip_base::{Span, Time};

/// COBALT's numbers.
#[derive(Clone, Copy, Debug)]
pub struct CobaltParameters {
    /// How long packets may wait.
    pub target: Span,
    /// How long all of them may wait longer.
    pub interval: Span,
    /// How long the largest packet takes to be sent.
    pub mtu: Span,
}

/// The law that governs a queue of CAKE (Linux, net/sched/sch_cake.c): CoDel without its special cases, whose count also falls step by
/// step, and beside it BLUE for who does not listen. It holds numbers, never packets.
#[derive(Clone, Debug)]
pub struct Cobalt {
    count: u32,
    /// 1 / √count, in units of 2^-32.
    root: u32,
    dropping: bool,
    /// When the next signal is due; without a count, until when the queue was active.
    next_signal: Time,
    /// BLUE's probability, in units of 2^-32, and when it changed last.
    flood: u32,
    flood_changed: Time,
}

/// What becomes of the packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sentence {
    /// It goes as it is.
    Pass,
    /// It is marked.
    Mark,
    /// It is dropped.
    Drop,
}

const FLOOD_UP: u32 = 1 << 24;
const FLOOD_DOWN: u32 = 1 << 20;

impl Default for Cobalt {
    /// One that has seen nothing. The first signal comes an interval after the target was missed, as the comments in Linux have it
    /// (there, a queue that was never used has a root of zero, and is signalled to at once).
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
    /// A packet of this queue was dropped because the buffer is full.
    pub fn on_overflow(&mut self, p: &CobaltParameters, now: Time) {
        if now.since(self.flood_changed) > p.target {
            self.flood = self.flood.saturating_add(FLOOD_UP);
            self.flood_changed = now;
        }
        self.dropping = true;
        self.next_signal = now;
        self.count = self.count.max(1);
    }

    /// There is nothing at the head.
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

    /// May its numbers be forgotten?
    pub fn is_at_rest(&self, now: Time) -> bool {
        self.flood == 0 && self.count == 0 && now >= self.next_signal
    }

    /// What has waited for so long is at the head; `draws` gives 32 random bits, if they are needed.
    pub fn judge(
        &mut self,
        p: &CobaltParameters,
        now: Time,
        waited: Span,
        can_mark: bool,
        draws: impl FnOnce() -> u32,
    ) -> Sentence {
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
        let mut sentence = Sentence::Pass;
        if is_due && self.dropping {
            sentence = if can_mark { Sentence::Mark } else { Sentence::Drop };
            self.set_count(self.count.saturating_add(1));
            self.next_signal = self.after(p, self.next_signal);
        } else if is_due {
            while self.is_due(now) {
                self.step_down(p);
            }
        }
        if self.flood > 0 && sentence != Sentence::Drop && draws() < self.flood {
            sentence = Sentence::Drop;
        }
        if self.count == 0 {
            self.next_signal = now + p.interval;
        } else if now > self.next_signal && sentence != Sentence::Drop {
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

    /// When, from a signal on, the next one is due: interval / √count.
    fn after(&self, p: &CobaltParameters, time: Time) -> Time {
        let nanos = (u128::from(p.interval.as_nanos()) * u128::from(self.root)) >> 32;
        time + Span::from_nanos(nanos as u64)
    }

    /// Small counts are looked up, of others the root follows by a step of Newton's: root ← root / 2 · (3 − count · root²).
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

/// 2^32 / √count, rounded; as much as there is room for up to one.
const ROOTS: [u32; 16] = {
    let mut roots = [u32::MAX; 16];
    let mut count = 2;
    while count < roots.len() {
        // (2^33 / √count + 1) / 2, of which the root is a whole number.
        roots[count] = (((1u128 << 66) / count as u128).isqrt() as u64).div_ceil(2) as u32;
        count += 1;
    }
    roots
};
