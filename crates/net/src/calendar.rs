use catnip_base::Time;

/// Calendar of events: a 4-ary heap of (time, serial, id).
///
/// The serial number makes events of equal time come out in order of insertion, so that ties do not depend on the shape of the heap. The
/// serial number wraps after 2^32 events. A wrap can only swap two events of the same nanosecond, and does so in every repetition of a run.
///
/// An entry is one 128-bit number: a comparison is one subtraction, and four children share a cache line.
#[derive(Clone, Debug, Default)]
pub struct Calendar {
    heap: Vec<u128>,
    serial: u32,
}

const ARITY: usize = 4;

impl Calendar {
    /// Returns true if no event is planned.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Returns the number of planned events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns the time and the id of the earliest event; `None` if no event is planned.
    #[inline]
    pub fn peek(&self) -> Option<(Time, u32)> {
        self.heap.first().map(|&entry| unpack(entry))
    }

    /// Plans an event.
    #[inline]
    pub fn push(&mut self, at: Time, id: u32) {
        let entry = self.pack(at, id);
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1);
    }

    /// Removes and returns the earliest event; `None` if no event is planned.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        let first = *self.heap.first()?;
        let last = self.heap.pop().expect("the heap has a first entry");
        if !self.heap.is_empty() {
            self.heap[0] = last;
            self.sift_down();
        }
        Some(unpack(first))
    }

    /// Replaces the earliest event with an event `id` at time `at`. The calendar must not be empty.
    #[inline]
    pub fn replace_first(&mut self, at: Time, id: u32) {
        self.heap[0] = self.pack(at, id);
        self.sift_down();
    }

    /// Removes all events and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.heap.clear();
        self.serial = 0;
    }

    #[inline]
    fn pack(&mut self, at: Time, id: u32) -> u128 {
        self.serial = self.serial.wrapping_add(1);
        u128::from(at.as_nanos()) << 64 | u128::from(self.serial) << 32 | u128::from(id)
    }

    #[inline]
    fn sift_up(&mut self, mut child: usize) {
        let entry = self.heap[child];
        while child > 0 {
            let parent = (child - 1) / ARITY;
            if self.heap[parent] <= entry {
                break;
            }
            self.heap[child] = self.heap[parent];
            child = parent;
        }
        self.heap[child] = entry;
    }

    #[inline]
    fn sift_down(&mut self) {
        let heap = &mut self.heap[..];
        let entry = heap[0];
        let mut parent = 0;
        loop {
            let first = parent * ARITY + 1;
            let min_child = match heap.get(first..).and_then(|rest| rest.first_chunk::<ARITY>()) {
                // Usual case, without a branch that the processor would have to predict.
                Some(c) => {
                    let (left, right) = (usize::from(c[1] < c[0]), 2 + usize::from(c[3] < c[2]));
                    first + if c[right] < c[left] { right } else { left }
                }
                None => match (first..heap.len()).min_by_key(|&child| heap[child]) {
                    Some(child) => child,
                    None => break,
                },
            };
            if entry <= heap[min_child] {
                break;
            }
            heap[parent] = heap[min_child];
            parent = min_child;
        }
        heap[parent] = entry;
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
