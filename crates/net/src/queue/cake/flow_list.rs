use crate::queue::flow_table::FlowTable;

/// Doubly linked list of flows, which are removed from the middle without a search. A flow is in one list at a time.
#[derive(Debug)]
pub(super) struct FlowList {
    /// Positions of the first and the last flow; [`NO_FLOW`] in an empty list.
    first: u32,
    last: u32,
}

/// Flow that can be in a list.
pub(super) trait Linked {
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// Positions of the neighbours of a flow in its list, or [`NO_FLOW`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    before: u32,
    after: u32,
}

const NO_FLOW: u32 = u32::MAX;

impl FlowList {
    pub(super) const EMPTY: Self = Self { first: NO_FLOW, last: NO_FLOW };

    pub(super) fn is_empty(&self) -> bool {
        self.first == NO_FLOW
    }

    /// Returns the position of the first flow.
    pub(super) fn front(&self) -> Option<u32> {
        Some(self.first).filter(|&first| first != NO_FLOW)
    }

    pub(super) fn push_back<T: Linked>(&mut self, flows: &mut FlowTable<T>, position: u32) {
        *flows[position].links_mut() = Links { before: self.last, after: NO_FLOW };
        match self.last {
            NO_FLOW => self.first = position,
            last => flows[last].links_mut().after = position,
        }
        self.last = position;
    }

    /// Removes a flow, which must be in this list.
    pub(super) fn remove<T: Linked>(&mut self, flows: &mut FlowTable<T>, position: u32) {
        let Links { before, after } = std::mem::replace(flows[position].links_mut(), Links::NONE);
        match before {
            NO_FLOW => self.first = after,
            before => flows[before].links_mut().after = after,
        }
        match after {
            NO_FLOW => self.last = before,
            after => flows[after].links_mut().before = before,
        }
    }

    /// Returns the positions of the flows in order.
    pub(super) fn iter<T: Linked>(&self, flows: &FlowTable<T>) -> impl Iterator<Item = u32> {
        let listed = |position: u32| Some(position).filter(|&position| position != NO_FLOW);
        std::iter::successors(listed(self.first), move |&position| listed(flows[position].links().after))
    }
}

impl Links {
    /// Links of a flow that is in no list.
    pub(super) const NONE: Self = Self { before: NO_FLOW, after: NO_FLOW };
}
