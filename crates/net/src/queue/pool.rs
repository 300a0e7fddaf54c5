use crate::{Backlog, Packet};
use catnip_base::Slab;

/// Memory for the packets of many FIFOs. A FIFO that is often created and removed allocates no memory of its own.
#[derive(Debug, Default)]
pub(super) struct Pool(Slab<Link>);

#[derive(Debug)]
struct Link {
    packet: Packet,
    /// Index of the next link; unused in the last link.
    next: u32,
}

/// FIFO in a [`Pool`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    backlog: Backlog,
}

impl Chain {
    pub(super) fn is_empty(&self) -> bool {
        self.backlog.packets == 0
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl Pool {
    pub(super) fn push(&mut self, chain: &mut Chain, packet: Packet) {
        let link = self.0.insert(Link { packet, next: 0 });
        if chain.is_empty() {
            chain.first = link;
        } else {
            self.0[chain.last].next = link;
        }
        chain.last = link;
        chain.backlog.add(&packet);
    }

    pub(super) fn first(&self, chain: &Chain) -> Option<&Packet> {
        (!chain.is_empty()).then(|| &self.0[chain.first].packet)
    }

    /// Inlined, because a packet that is returned through memory costs more than the rest.
    #[inline(always)]
    pub(super) fn pop(&mut self, chain: &mut Chain) -> Option<Packet> {
        let packet = *self.first(chain)?;
        self.0.release(chain.first);
        chain.first = self.0[chain.first].next;
        chain.backlog.remove(&packet);
        Some(packet)
    }

    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.0.in_use()
    }
}
