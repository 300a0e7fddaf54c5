//! Memory for the packets inside a network: slots of equal size, identified by numbers.

/// Slots for packets of up to a given length. Freed slots are reused, the last freed first, while they are hot in the cache. Memory grows
/// by a whole block of slots and is never released.
#[derive(Debug)]
pub struct Buffers {
    blocks: Vec<Box<[u8]>>,
    slots: u32,
    free: Vec<u32>,
    slot_bytes: usize,
    max_slots: u32,
}

/// Number of slots in a block: a power of two, so that a number splits into block and slot by a shift.
const BLOCK: u32 = 1024;

impl Buffers {
    /// Creates a pool of at most `max_slots` slots of `slot_bytes` bytes each.
    pub fn new(slot_bytes: usize, max_slots: u32) -> Self {
        let mut buffers = Self { blocks: Vec::new(), slots: 0, free: Vec::new(), slot_bytes, max_slots };
        buffers.grow();
        buffers
    }

    /// Allocates a slot; `None` if all are in use.
    #[inline]
    pub fn allocate(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            self.grow();
        }
        self.free.pop()
    }

    /// Releases a slot.
    #[inline]
    pub fn release(&mut self, slot: u32) {
        debug_assert!(self.in_use() > 0, "slot {slot} is released, none is in use");
        self.free.push(slot);
    }

    /// Copies the first `bytes` bytes of the slot `from` to the slot `to`.
    pub fn copy(&mut self, from: u32, to: u32, bytes: usize) {
        let start = |slot: u32| (slot % BLOCK) as usize * self.slot_bytes;
        let (source, target) = (start(from), start(to));
        let [source_block, target_block] = [from, to].map(|slot| (slot / BLOCK) as usize);
        if source_block == target_block {
            return self.blocks[source_block].copy_within(source..source + bytes, target);
        }
        let blocks = self.blocks.get_disjoint_mut([source_block, target_block]);
        let [source_block, target_block] = blocks.expect("two blocks that are there");
        target_block[target..target + bytes].copy_from_slice(&source_block[source..source + bytes]);
    }

    /// Returns all bytes of a slot mutably, including those after the end of the packet.
    #[inline]
    pub fn bytes_mut(&mut self, slot: u32) -> &mut [u8] {
        let start = (slot % BLOCK) as usize * self.slot_bytes;
        &mut self.blocks[(slot / BLOCK) as usize][start..start + self.slot_bytes]
    }

    /// Returns all bytes of a slot, including those after the end of the packet.
    #[inline]
    pub fn bytes(&self, slot: u32) -> &[u8] {
        let start = (slot % BLOCK) as usize * self.slot_bytes;
        &self.blocks[(slot / BLOCK) as usize][start..start + self.slot_bytes]
    }

    /// Returns the number of slots in use.
    pub fn in_use(&self) -> usize {
        self.slots as usize - self.free.len()
    }

    #[cold]
    fn grow(&mut self) {
        let slots = self.slots;
        let new = BLOCK.min(self.max_slots.saturating_sub(slots));
        if new == 0 {
            return;
        }
        self.blocks.push(vec![0; BLOCK as usize * self.slot_bytes].into_boxed_slice());
        self.slots += new;
        self.free.reserve(self.slots as usize);
        self.free.extend((slots..slots + new).rev());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_apart_and_there_is_an_end_of_them() {
        let mut buffers = Buffers::new(100, 1030);
        let slots: Vec<u32> = std::iter::from_fn(|| buffers.allocate()).collect();
        assert_eq!((slots.len(), buffers.in_use()), (1030, 1030));
        for &slot in &slots {
            buffers.bytes_mut(slot).fill(slot as u8);
        }
        assert!(slots.iter().all(|&slot| buffers.bytes_mut(slot).iter().all(|&byte| byte == slot as u8)));
        buffers.release(slots[7]);
        assert_eq!(buffers.allocate(), Some(slots[7]));
        assert_eq!(buffers.allocate(), None);
        // Slots of the same block, and of different blocks.
        for (from, to) in [(slots[3], slots[9]), (slots[5], slots[1029])] {
            buffers.copy(from, to, 60);
            assert!(buffers.bytes(to)[..60].iter().all(|&byte| byte == from as u8));
            assert!(buffers.bytes(to)[60..].iter().all(|&byte| byte == to as u8));
        }
    }
}
