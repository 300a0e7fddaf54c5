//! Counts of what an external host sends over a connection.

use catnip_tcp::SenderStats;
use catnip_wire::{Tcp, TcpFlags, unwrap_sequence};

/// Counts of the data segments that an external host has sent over a connection, observed as they enter the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObservedSender {
    initial: Option<u32>,
    /// End of the data sent so far, counted from the first data byte.
    end: u64,
    /// Number of data segments sent, retransmissions included.
    sent: u32,
    retransmitted: u32,
}

impl ObservedSender {
    /// Returns the counts as statistics of a sender.
    pub(crate) fn stats(&self) -> SenderStats {
        SenderStats { sent: self.sent, retransmitted: self.retransmitted, ..SenderStats::default() }
    }

    /// Counts a packet that the external host has sent.
    pub(crate) fn observe(&mut self, tcp: &Tcp<'_>) {
        if tcp.flags().contains(TcpFlags::SYN) {
            self.initial = Some(tcp.sequence());
        }
        let len = tcp.payload().len() as u64;
        let Some(initial) = self.initial.filter(|_| len > 0) else { return };
        let number = tcp.sequence().wrapping_sub(initial).wrapping_sub(1);
        let Some(offset) = unwrap_sequence(self.end, number) else { return };
        self.sent += 1;
        self.retransmitted += u32::from(offset < self.end);
        self.end = self.end.max(offset + len);
    }
}
