/// Flows of a queue by number, created at their first packet. A queue may have a thousand flows, of which most ports see a few: the table
/// takes memory, and cache, only for those.
#[derive(Debug)]
pub(super) struct FlowTable<T> {
    /// Flows in order of creation.
    flows: Vec<T>,
    /// Position of each flow in `flows`, up to the highest number so far; [`ABSENT`] for flows that do not exist.
    positions: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;

impl<T> FlowTable<T> {
    pub(super) fn new() -> Self {
        Self { flows: Vec::new(), positions: Vec::new() }
    }

    /// Returns the position of a flow, which `create` creates if it does not exist. Positions do not change.
    #[inline]
    pub(super) fn position(&mut self, number: u32, create: impl FnOnce() -> T) -> u32 {
        match self.positions.get(number as usize) {
            Some(&position) if position != ABSENT => position,
            _ => self.insert(number, create()),
        }
    }

    #[cold]
    fn insert(&mut self, number: u32, flow: T) -> u32 {
        let len = self.positions.len().max(number as usize + 1);
        self.positions.resize(len, ABSENT);
        let position = self.flows.len() as u32;
        self.positions[number as usize] = position;
        self.flows.push(flow);
        position
    }

    /// Returns all flows in order of creation.
    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.flows
    }
}

impl<T> std::ops::Index<u32> for FlowTable<T> {
    type Output = T;
    #[inline]
    fn index(&self, position: u32) -> &T {
        &self.flows[position as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for FlowTable<T> {
    #[inline]
    fn index_mut(&mut self, position: u32) -> &mut T {
        &mut self.flows[position as usize]
    }
}
