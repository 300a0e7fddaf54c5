use catnip_base::Span;

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Number of data segments sent, including retransmissions.
    pub sent: u32,
    /// Number of retransmitted segments.
    pub retransmitted: u32,
    /// Number of expiries of the retransmission timer.
    pub timeouts: u32,
    /// Number of tail loss probes.
    pub probes: u32,
    /// Number of loss recoveries that duplicate ACKs or SACK have started.
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
