use catnip_base::keywords;

keywords! {
    /// Tins of CAKE, by DSCP (Linux, net/sched/sch_cake.c).
    #[derive(Default)]
    pub enum Tins {
        /// One tin for all packets.
        BestEffort = ("besteffort", "one tin for all packets"),
        /// Best effort, bulk and voice.
        #[default]
        Diffserv3 = ("diffserv3", "tins for best effort, bulk and voice"),
        /// Best effort, bulk, video and voice.
        Diffserv4 = ("diffserv4", "tins for best effort, bulk, video and voice"),
    }
}

impl Tins {
    /// Returns the share of each tin in the rate, best effort first, as an exponent `n`: the share is 2^-n.
    pub(super) fn halvings(self) -> &'static [u32] {
        match self {
            Self::BestEffort => &[0],
            Self::Diffserv3 => &[0, 4, 2],
            Self::Diffserv4 => &[0, 4, 1, 2],
        }
    }

    /// Returns the index of the tin for packets with this codepoint.
    pub(super) fn of(self, codepoint: u8) -> usize {
        match (self, codepoint) {
            (Self::BestEffort, _) => 0,
            // LE and CS1.
            (_, 1 | 8) => 1,
            // TOS4, EF, VOICE-ADMIT, CS6 and CS7.
            (Self::Diffserv3, 4 | 44 | 46 | 48 | 56) => 2,
            (Self::Diffserv3, _) => 0,
            (Self::Diffserv4, 32 | 40 | 44 | 46 | 48 | 56) => 3,
            // TOS4, CS2, AF2x, CS3, AF3x and AF4x.
            (Self::Diffserv4, 4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38) => 2,
            (Self::Diffserv4, _) => 0,
        }
    }
}
