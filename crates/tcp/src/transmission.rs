use catnip_base::Span;

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Data segments sent, retransmissions included.
    pub sent: u32,
    /// Retransmissions.
    pub retransmitted: u32,
    /// Expired retransmission timers.
    pub timeouts: u32,
    /// Tail loss probes.
    pub probes: u32,
    /// Recoveries begun by duplicate ACKs or SACK.
    pub fast_retransmits: u32,
    /// Number of RTT samples.
    pub rtt_samples: u32,
    /// Sum of the RTT samples.
    pub rtt_sum: Span,
}

/// Data segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transmission {
    pub(crate) seq: u64,
    pub(crate) len: u32,
    pub(crate) fin: bool,
    pub(crate) retransmission: bool,
    /// True if the segment carries CWR (congestion window reduced).
    pub(crate) cwr: bool,
}

impl Transmission {
    pub(crate) fn end(&self) -> u64 {
        self.seq + u64::from(self.len) + u64::from(self.fin)
    }
}
