use catnip_base::keywords;
use catnip_net::Ecn;

keywords! {
    /// Use of ECN by a connection.
    #[derive(Default)]
    pub enum EcnKind {
        /// No ECN.
        #[default]
        None = ("none", "packets are not ECN-capable"),
        /// Classic ECN (RFC 3168).
        Classic = ("classic", "data is ECT(0); the receiver echoes a mark until the sender reports its reduction (RFC 3168)"),
        /// ECN with the exact feedback of DCTCP (RFC 8257).
        Exact = ("exact", "data is ECT(0); each ACK reports whether the acknowledged data was marked (RFC 8257)"),
        /// ECN of L4S (RFC 9331).
        L4s = ("l4s", "as exact, with data that is ECT(1) (RFC 9331)"),
    }
}

impl EcnKind {
    /// Returns true if the connection requests ECN.
    pub fn is_enabled(self) -> bool {
        self != Self::None
    }

    /// Returns true if ACKs report which data was marked.
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Exact | Self::L4s)
    }

    /// Returns the ECN codepoint of new data.
    pub fn codepoint(self) -> Ecn {
        match self {
            Self::None => Ecn::NOT_ECT,
            Self::Classic | Self::Exact => Ecn::ECT_0,
            Self::L4s => Ecn::ECT_1,
        }
    }
}
