use catnip_base::Time;
use std::collections::VecDeque;

/// Calendar of events: a 4-ary heap of (time, serial, id).
///
/// The serial number makes events of equal time come out in order of insertion, so that ties do not depend on the shape of the heap. The
/// serial number wraps after 2^32 events. A wrap can only swap two events of the same nanosecond, and does so in every repetition of a run.
///
/// An entry is one 128-bit number, so that a comparison is one subtraction. The root is beside the list, so that the four children of an
/// entry are one cache line, and the earliest event needs none.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// Root of the heap; [`NONE`] if the heap is empty.
    first: u128,
    /// Children of the root, and then of each other entry in order of its number; unused entries are [`NONE`].
    lines: Vec<Line>,
    /// Number of entries in `lines`.
    len: usize,
    serial: u32,
    lanes: Lanes,
}

/// Entries in FIFOs, each in order of time.
///
/// Most packets reach the end of an idle link after one of a few delays, so that most entries are later than all others of their delay: they
/// need no place in a heap.
#[derive(Clone, Debug)]
struct Lanes {
    /// Entries of each lane, except the first.
    following: [VecDeque<u128>; LANES],
    /// First and last entry of each lane; [`NONE`] and 0 in an empty lane.
    first: [u128; LANES],
    last: [u128; LANES],
    /// Least of all entries and its lane; [`NONE`] if all lanes are empty.
    least: u128,
    lane: usize,
}

/// Children of an entry.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u128; ARITY]);

const ARITY: usize = 4;
const LANES: usize = 4;
/// Value after all entries.
const NONE: u128 = u128::MAX;

impl Default for Calendar {
    fn default() -> Self {
        Self { first: NONE, lines: Vec::new(), len: 0, serial: 0, lanes: Lanes::default() }
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self { following: Default::default(), first: [NONE; LANES], last: [0; LANES], least: NONE, lane: 0 }
    }
}

impl Calendar {
    /// Returns true if no event is planned.
    pub fn is_empty(&self) -> bool {
        self.first == NONE && self.lanes.least == NONE
    }

    /// Returns the number of planned events.
    pub fn len(&self) -> usize {
        self.len + usize::from(self.first != NONE) + self.lanes.len()
    }

    /// Returns the time and the id of the earliest event; `None` if no event is planned.
    #[inline]
    pub fn peek(&self) -> Option<(Time, u32)> {
        let earliest = self.first.min(self.lanes.least);
        (earliest != NONE).then(|| unpack(earliest))
    }

    /// Plans an event.
    #[inline]
    pub fn push(&mut self, at: Time, id: u32) {
        let entry = self.pack(at, id);
        if !self.lanes.append(entry) {
            self.push_on_heap(entry);
        }
    }

    #[inline]
    fn push_on_heap(&mut self, entry: u128) {
        if self.first == NONE {
            self.first = entry;
            return;
        }
        let (line, slot) = (self.len / ARITY, self.len % ARITY);
        if slot == 0 {
            self.lines.push(Line([NONE; ARITY]));
        }
        self.len += 1;
        self.sift_up(line, slot, entry);
    }

    /// Removes and returns the earliest event; `None` if no event is planned.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        let first = self.peek()?;
        if self.lanes.least < self.first {
            self.lanes.pop();
        } else {
            self.pop_from_heap();
        }
        Some(first)
    }

    /// Replaces the earliest event with an event `id` at time `at`. The calendar must not be empty.
    #[inline(always)]
    pub fn replace_first(&mut self, at: Time, id: u32) {
        let entry = self.pack(at, id);
        if self.lanes.least < self.first {
            return self.replace_in_lane(entry);
        }
        self.sift_down(entry);
    }

    #[inline(never)]
    fn replace_in_lane(&mut self, entry: u128) {
        self.lanes.pop();
        self.push_on_heap(entry);
    }

    #[inline(never)]
    fn pop_from_heap(&mut self) {
        if self.len == 0 {
            self.first = NONE;
            return;
        }
        self.len -= 1;
        let (line, slot) = (self.len / ARITY, self.len % ARITY);
        let last = std::mem::replace(&mut self.lines[line].0[slot], NONE);
        if slot == 0 {
            self.lines.pop();
        }
        self.sift_down(last);
    }

    /// Removes all events and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.lines.clear();
        (self.first, self.len, self.serial) = (NONE, 0, 0);
        self.lanes.clear();
    }

    #[inline]
    fn pack(&mut self, at: Time, id: u32) -> u128 {
        self.serial = self.serial.wrapping_add(1);
        u128::from(at.as_nanos()) << 64 | u128::from(self.serial) << 32 | u128::from(id)
    }

    /// Moves the free place at this line and slot towards the root until `entry` fits there.
    #[inline]
    fn sift_up(&mut self, mut line: usize, mut slot: usize, entry: u128) {
        // The line of an entry's children has the number of the entry, and 0 is the root.
        while line > 0 {
            let parent = line - 1;
            let above = self.lines[parent / ARITY].0[parent % ARITY];
            if above <= entry {
                self.lines[line].0[slot] = entry;
                return;
            }
            self.lines[line].0[slot] = above;
            (line, slot) = (parent / ARITY, parent % ARITY);
        }
        self.lines[0].0[slot] = self.first.max(entry);
        self.first = self.first.min(entry);
    }

    /// Moves the free place at the root towards the leaves until `entry` fits there.
    #[inline(always)]
    fn sift_down(&mut self, entry: u128) {
        let lines = &mut self.lines[..];
        let (least, mut slot) = lines.first().map_or((NONE, 0), Line::least);
        if entry <= least {
            self.first = entry;
            return;
        }
        self.first = least;
        let mut line = 0;
        loop {
            let children = line * ARITY + slot + 1;
            let (least, child) = lines.get(children).map_or((NONE, 0), Line::least);
            if entry <= least {
                lines[line].0[slot] = entry;
                return;
            }
            lines[line].0[slot] = least;
            (line, slot) = (children, child);
        }
    }
}

impl Lanes {
    fn len(&self) -> usize {
        let filled = self.first.iter().filter(|first| **first != NONE).count();
        filled + self.following.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Appends an entry to the first lane all of whose entries are earlier. Returns false if there is none.
    #[inline(always)]
    fn append(&mut self, entry: u128) -> bool {
        let Some(lane) = (0..LANES).find(|&lane| self.last[lane] < entry) else { return false };
        self.last[lane] = entry;
        if self.first[lane] == NONE {
            self.first[lane] = entry;
            if entry < self.least {
                (self.least, self.lane) = (entry, lane);
            }
        } else {
            self.following[lane].push_back(entry);
        }
        true
    }

    /// Removes the least entry. There must be one.
    #[inline]
    fn pop(&mut self) {
        let lane = self.lane;
        self.first[lane] = self.following[lane].pop_front().unwrap_or(NONE);
        if self.first[lane] == NONE {
            self.last[lane] = 0;
        }
        (self.least, self.lane) = (self.first[0], 0);
        for other in 1..LANES {
            if self.first[other] < self.least {
                (self.least, self.lane) = (self.first[other], other);
            }
        }
    }

    fn clear(&mut self) {
        self.following.iter_mut().for_each(VecDeque::clear);
        (self.first, self.last, self.least) = ([NONE; LANES], [0; LANES], NONE);
    }
}

impl Line {
    /// Returns the least entry and its slot, without a branch that the processor would have to predict.
    #[inline(always)]
    fn least(&self) -> (u128, usize) {
        let c = &self.0;
        let left = if c[1] < c[0] { (c[1], 1) } else { (c[0], 0) };
        let right = if c[3] < c[2] { (c[3], 3) } else { (c[2], 2) };
        if right.0 < left.0 { right } else { left }
    }
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
