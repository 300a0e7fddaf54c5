//! Which recovery a connection uses, and with it which sender: the classic ones are those of ns-2 and of the papers, held to
//! its traces packet by packet; the modern one follows the standards of today.

use catnip_base::words;

/// Duplicate ACKs that mean a loss (RFC 5681, section 3.2; catp23).
pub const DUPACK_THRESHOLD: u32 = 3;

words! {
    /// Which recovery a connection uses.
    pub enum RecoveryKind {
        /// See [`crate::classic::recovery::Tahoe`].
        Tahoe = ("tahoe", "fast retransmit, then slow start from there"),
        /// See [`crate::classic::recovery::Reno`].
        Reno = ("reno", "fast recovery until the first new ACK"),
        /// See [`crate::classic::recovery::NewReno`].
        NewReno = ("newreno", "fast recovery until all that was out is acknowledged (RFC 6582)"),
        /// See [`crate::classic::recovery::Sack`].
        Sack1 = ("sack1", "SACK with a count of the pipe, as ns-2's Sack1 has it"),
        /// See [`crate::modern::Sack`].
        SackRfc6675 = ("sack", "SACK by RFC 6675, of the modern sender"),
        /// See [`crate::modern::rack`].
        Rack = ("rack", "RACK-TLP (RFC 8985) with PRR (RFC 6937), F-RTO (RFC 5682), timestamps and undoing, as Linux has it"),
        /// See [`crate::modern::Sack`].
        NewRenoRfc6582 = ("newreno-rfc6582", "fast recovery by RFC 6582, of the modern sender, as if the other side knew no SACK"),
    }
}

impl RecoveryKind {
    /// Does the receiver report blocks?
    pub fn uses_sack(self) -> bool {
        matches!(self, Self::Sack1 | Self::SackRfc6675 | Self::Rack)
    }

    /// Do ACKs tell of what arrives twice (RFC 2883)?
    pub fn reports_duplicates(self) -> bool {
        self == Self::Rack
    }

    /// What is left of it if the other side knows no SACK.
    pub fn without_sack(self) -> Self {
        match self {
            Self::Sack1 => Self::NewReno,
            Self::SackRfc6675 | Self::Rack => Self::NewRenoRfc6582,
            other => other,
        }
    }

    /// Is it that of the modern sender?
    pub fn is_modern(self) -> bool {
        matches!(self, Self::SackRfc6675 | Self::Rack | Self::NewRenoRfc6582)
    }
}
