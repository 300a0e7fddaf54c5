/// Collection of values with small stable indices. The most recently released index is reused first, because its memory is likely to be in
/// the cache.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its index.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = value;
                id
            }
            None => {
                self.slots.push(value);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Releases an index for reuse. The old value is dropped only when the index is reused.
    #[inline]
    pub fn release(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Removes all values and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }

    /// Returns the values in use with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let mut free = self.free.clone();
        free.sort_unstable();
        let is_used = move |id: &u32| free.binary_search(id).is_err();
        (0..self.slots.len() as u32).filter(is_used).map(|id| (id, &self[id]))
    }

    /// Returns the number of indices, released ones included.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the number of values in use.
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.slots[id as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.slots[id as usize]
    }
}
