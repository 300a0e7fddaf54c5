use catnip_base::words;
use catnip_net::Ecn;

words! {
    /// What a connection does about congestion marks.
    #[derive(Default)]
    pub enum EcnKind {
        /// It asks for none.
        #[default]
        None = ("none", "packets cannot be marked"),
        /// RFC 3168.
        Classic = ("classic", "data is ECT(0); marks are echoed until the sender says that it has reacted (RFC 3168)"),
        /// RFC 8257.
        Exact = ("exact", "data is ECT(0); ACKs say of the data that they are for whether it was marked (RFC 8257)"),
        /// RFC 9331.
        L4s = ("l4s", "the same with data that is ECT(1) (RFC 9331)"),
    }
}

impl EcnKind {
    /// Is it asked for at all?
    pub fn is_wanted(self) -> bool {
        self != Self::None
    }

    /// Do ACKs tell which data was marked?
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Exact | Self::L4s)
    }

    /// What new data is sent with.
    pub fn codepoint(self) -> Ecn {
        match self {
            Self::None => Ecn::NOT_ECT,
            Self::Classic | Self::Exact => Ecn::ECT_0,
            Self::L4s => Ecn::ECT_1,
        }
    }
}
