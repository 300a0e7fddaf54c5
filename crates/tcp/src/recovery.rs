//! Algorithms of loss recovery. The choice of the algorithm also selects the sender. The classic senders are those of ns-2 and of the
//! papers, and match the traces of ns-2 packet by packet. The modern senders follow current standards and Linux.

use catnip_base::keywords;

/// Number of duplicate ACKs that indicate a loss (RFC 5681, section 3.2; catp23).
pub const DUPACK_THRESHOLD: u32 = 3;

keywords! {
    /// Loss recovery algorithm of a connection.
    pub enum RecoveryKind {
        /// Tahoe of the classic sender, see [`crate::classic::recovery::Tahoe`].
        Tahoe = ("tahoe", "fast retransmit, followed by slow start"),
        /// Reno of the classic sender, see [`crate::classic::recovery::Reno`].
        Reno = ("reno", "fast recovery until the first ACK of new data"),
        /// NewReno of the classic sender, see [`crate::classic::recovery::NewReno`].
        NewReno = ("newreno", "fast recovery until all data in flight at its start is acknowledged (RFC 6582)"),
        /// SACK of the classic sender, see [`crate::classic::recovery::Sack`].
        Sack1 = ("sack1", "SACK with a count of the pipe, as in Sack1 of ns-2"),
        /// SACK of the modern sender, see [`crate::modern::Sack`].
        SackRfc6675 = ("sack", "SACK of RFC 6675, modern sender"),
        /// RACK-TLP of the modern sender, see [`crate::modern::rack`].
        Rack = ("rack", "RACK-TLP (RFC 8985) with PRR (RFC 6937), F-RTO (RFC 5682), timestamps and undo, as in Linux"),
        /// NewReno of the modern sender, see [`crate::modern::Sack`].
        NewRenoRfc6582 = ("newreno-rfc6582", "fast recovery of RFC 6582, modern sender, as with a peer without SACK"),
    }
}

impl RecoveryKind {
    /// Returns true if the receiver reports SACK blocks.
    pub fn uses_sack(self) -> bool {
        matches!(self, Self::Sack1 | Self::SackRfc6675 | Self::Rack)
    }

    /// Returns true if ACKs report duplicate segments (DSACK, RFC 2883).
    pub fn uses_dsack(self) -> bool {
        self == Self::Rack
    }

    /// Returns the loss recovery to use with a peer that does not support SACK.
    pub fn without_sack(self) -> Self {
        match self {
            Self::Sack1 => Self::NewReno,
            Self::SackRfc6675 | Self::Rack => Self::NewRenoRfc6582,
            other => other,
        }
    }

    /// Returns true if a modern sender implements this recovery.
    pub fn is_modern(self) -> bool {
        matches!(self, Self::SackRfc6675 | Self::Rack | Self::NewRenoRfc6582)
    }
}
