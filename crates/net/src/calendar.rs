use catnip_base::Time;

/// Calendar of events: a 4-ary heap of (time, serial, id).
///
/// The serial number makes events of equal time come out in order of insertion, so that ties do not depend on the shape of the heap. The
/// serial number wraps after 2^32 events. A wrap can only swap two events of the same nanosecond, and does so in every repetition of a run.
///
/// An entry is one 128-bit number, so that a comparison is one subtraction. The root is the last entry of the first line, so that the four
/// children of an entry are one cache line.
#[derive(Clone, Debug, Default)]
pub struct Calendar {
    lines: Vec<Line>,
    len: usize,
    serial: u32,
}

/// Four entries, of which the unused ones are [`NONE`].
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u128; ARITY]);

const ARITY: usize = 4;
/// Value after all entries.
const NONE: u128 = u128::MAX;

impl Calendar {
    /// Returns true if no event is planned.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of planned events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the time and the id of the earliest event; `None` if no event is planned.
    #[inline]
    pub fn peek(&self) -> Option<(Time, u32)> {
        let first = self.lines.first()?.0[ARITY - 1];
        (first != NONE).then(|| unpack(first))
    }

    /// Plans an event.
    #[inline]
    pub fn push(&mut self, at: Time, id: u32) {
        let entry = self.pack(at, id);
        let (line, _) = position(self.len);
        if line == self.lines.len() {
            self.lines.push(Line([NONE; ARITY]));
        }
        self.len += 1;
        self.sift_up(self.len - 1, entry);
    }

    /// Removes and returns the earliest event; `None` if no event is planned.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        let first = self.peek()?;
        self.len -= 1;
        let (line, slot) = position(self.len);
        let last = std::mem::replace(&mut self.lines[line].0[slot], NONE);
        if slot == 0 {
            self.lines.pop();
        }
        if self.len > 0 {
            self.sift_down(last);
        }
        Some(first)
    }

    /// Replaces the earliest event with an event `id` at time `at`. The calendar must not be empty.
    #[inline]
    pub fn replace_first(&mut self, at: Time, id: u32) {
        let entry = self.pack(at, id);
        self.sift_down(entry);
    }

    /// Removes all events and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.len = 0;
        self.serial = 0;
    }

    #[inline]
    fn pack(&mut self, at: Time, id: u32) -> u128 {
        self.serial = self.serial.wrapping_add(1);
        u128::from(at.as_nanos()) << 64 | u128::from(self.serial) << 32 | u128::from(id)
    }

    /// Moves the free place at `child` towards the root until `entry` fits there.
    #[inline]
    fn sift_up(&mut self, mut child: usize, entry: u128) {
        while child > 0 {
            let parent = (child - 1) / ARITY;
            let (line, slot) = position(parent);
            let above = self.lines[line].0[slot];
            if above <= entry {
                break;
            }
            self.set(position(child), above);
            child = parent;
        }
        self.set(position(child), entry);
    }

    /// Moves the free place at the root towards the leaves until `entry` fits there.
    fn sift_down(&mut self, entry: u128) {
        let lines = &mut self.lines[..];
        let (mut parent, mut line, mut slot) = (0, 0, ARITY - 1);
        while let Some(Line(c)) = lines.get(parent + 1) {
            // Without a branch that the processor would have to predict.
            let left = if c[1] < c[0] { (c[1], 1) } else { (c[0], 0) };
            let right = if c[3] < c[2] { (c[3], 3) } else { (c[2], 2) };
            let (least, child) = if right.0 < left.0 { right } else { left };
            if entry <= least {
                break;
            }
            lines[line].0[slot] = least;
            (line, slot) = (parent + 1, child);
            parent = parent * ARITY + 1 + child;
        }
        lines[line].0[slot] = entry;
    }

    #[inline(always)]
    fn set(&mut self, (line, slot): (usize, usize), entry: u128) {
        self.lines[line].0[slot] = entry;
    }
}

/// Returns the line and the slot in it of an entry, by its number in the heap.
#[inline(always)]
fn position(number: usize) -> (usize, usize) {
    let place = number + ARITY - 1;
    (place / ARITY, place % ARITY)
}

#[inline]
fn unpack(entry: u128) -> (Time, u32) {
    (Time::from_nanos((entry >> 64) as u64), entry as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_calendar_knows_how_much_is_planned_and_can_forget_it() {
        let mut calendar = Calendar::default();
        assert_eq!((calendar.is_empty(), calendar.len()), (true, 0));
        (0..3).for_each(|id| calendar.push(Time::ZERO, id));
        assert_eq!((calendar.is_empty(), calendar.len()), (false, 3));
        calendar.clear();
        assert_eq!((calendar.is_empty(), calendar.len(), calendar.peek()), (true, 0, None));
    }

    proptest! {
        #[test]
        fn events_come_out_by_time_and_ties_in_order_of_planning(
            plan in prop::collection::vec((0u64..20, prop::bool::weighted(0.3)), 0..400)
        ) {
            let mut calendar = Calendar::default();
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (id, &(at, pop)) in plan.iter().enumerate() {
                let id = id as u32;
                if pop && !model.is_empty() {
                    let min_child = *model.iter().min().unwrap();
                    model.retain(|e| *e != min_child);
                    model.push((at + 20, id));
                    prop_assert_eq!(calendar.peek(), Some((Time::from_nanos(min_child.0), min_child.1)));
                    calendar.replace_first(Time::from_nanos(at + 20), id);
                } else {
                    model.push((at, id));
                    calendar.push(Time::from_nanos(at), id);
                }
            }
            model.sort_unstable();
            let out: Vec<_> = std::iter::from_fn(|| calendar.pop()).map(|(t, id)| (t.as_nanos(), id)).collect();
            prop_assert_eq!(out, model);
        }
    }
}
