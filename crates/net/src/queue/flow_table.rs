use catnip_base::Slab;
use std::ops::Range;

/// Flows of a queue by number, created at their first packet. A queue may have a thousand flows, of which most ports see a few: the table
/// takes memory, and cache, only for those.
#[derive(Debug)]
pub(super) struct FlowTable<T> {
    flows: Slab<T>,
    /// Hash table with linear probing, at most half full. The length is zero or a power of two.
    index: Box<[Entry]>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u32,
    /// Position of the flow in `flows`; [`ABSENT`] in a free entry.
    position: u32,
}

const ABSENT: u32 = u32::MAX;
const EMPTY: Entry = Entry { number: 0, position: ABSENT };
/// Smallest length of the index: a cache line.
const MIN_LEN: usize = 8;

impl<T> FlowTable<T> {
    pub(super) fn new() -> Self {
        Self { flows: Slab::default(), index: Box::default(), len: 0 }
    }

    /// Returns the position of a flow, which `create` creates if it does not exist. The position stays valid until the flow is removed.
    #[inline]
    pub(super) fn position(&mut self, number: u32, create: impl FnOnce() -> T) -> u32 {
        match self.find(number) {
            Some(at) => self.index[at].position,
            None => self.insert(number, create()),
        }
    }

    /// Removes a flow, whose position then belongs to the next flow that is created.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(mut hole) = self.find(number) else { return };
        self.flows.release(self.index[hole].position);
        self.len -= 1;
        let mask = self.index.len() - 1;
        // Entries behind the hole that a search would no longer reach move into it.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.index[at];
            if entry.position == ABSENT {
                break;
            }
            let from_home = at.wrapping_sub(entry.number as usize) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.index[hole] = entry;
                hole = at;
            }
        }
        self.index[hole] = EMPTY;
    }

    /// Returns the positions of all flows and of removed ones, in no particular order. Removed ones are as they were then.
    pub(super) fn positions(&self) -> Range<u32> {
        0..self.flows.slots()
    }

    /// Returns the place of a flow in the index.
    #[inline]
    fn find(&self, number: u32) -> Option<usize> {
        let mask = self.index.len().checked_sub(1)?;
        let mut at = number as usize & mask;
        loop {
            let entry = self.index[at];
            if entry.position == ABSENT {
                return None;
            }
            if entry.number == number {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline(never)]
    fn insert(&mut self, number: u32, flow: T) -> u32 {
        self.len += 1;
        if 2 * self.len > self.index.len() {
            let entries = std::mem::take(&mut self.index);
            self.index = vec![EMPTY; (2 * entries.len()).max(MIN_LEN)].into_boxed_slice();
            entries.into_iter().filter(|entry| entry.position != ABSENT).for_each(|entry| self.place(entry));
        }
        let position = self.flows.insert(flow);
        self.place(Entry { number, position });
        position
    }

    /// Stores an entry in the first free place from its home on.
    fn place(&mut self, entry: Entry) {
        let mask = self.index.len() - 1;
        let mut at = entry.number as usize & mask;
        while self.index[at].position != ABSENT {
            at = (at + 1) & mask;
        }
        self.index[at] = entry;
    }
}

impl<T> std::ops::Index<u32> for FlowTable<T> {
    type Output = T;
    #[inline]
    fn index(&self, position: u32) -> &T {
        &self.flows[position]
    }
}

impl<T> std::ops::IndexMut<u32> for FlowTable<T> {
    #[inline]
    fn index_mut(&mut self, position: u32) -> &mut T {
        &mut self.flows[position]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_flow_has_its_own_position_until_it_is_removed(
            steps in prop::collection::vec((0u32..40, prop::bool::weighted(0.4)), 0..400)
        ) {
            let (mut table, mut model) = (FlowTable::new(), BTreeMap::new());
            for (number, removes) in steps {
                if removes {
                    table.remove(number);
                    model.remove(&number);
                } else {
                    let position = table.position(number, || number);
                    prop_assert_eq!(table[position], number);
                    let known = *model.entry(number).or_insert(position);
                    prop_assert_eq!(known, position);
                }
                for (&number, &position) in &model {
                    prop_assert_eq!((table[position], table.position(number, || unreachable!())), (number, position));
                }
            }
        }
    }
}
