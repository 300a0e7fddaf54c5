use catnip_base::Time;

/// A packet as the network sees it. What it carries is the host's business: `body` is a handle that only the
/// host understands, so that the same queues serve simulated segments and real byte buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it arrived at the port that holds it.
    pub arrived: Time,
    /// All that a network looks at to know where it goes.
    pub route: Route,
    /// Bytes on the wire.
    pub len: u32,
    /// The host's handle.
    pub body: u32,
    /// What a fair queue tells apart: the connection; of packets from real hosts, a hash of the five-tuple.
    pub flow: u16,
    /// What it is marked with.
    pub dscp: Dscp,
    /// RFC 3168 codepoint.
    pub ecn: Ecn,
}

impl Packet {
    /// A packet of `len` bytes that nobody has marked and that is not ECN-capable, with the host's handle `body`.
    #[inline]
    pub const fn new(arrived: Time, route: Route, len: u32, body: u32) -> Self {
        Self { arrived, route, len, body, flow: 0, dscp: Dscp::DEFAULT, ecn: Ecn::NOT_ECT }
    }
}

const _: () = assert!(size_of::<Packet>() == 24);

/// Where packets go, as [`crate::Fabric::route`] gives it out. The default is of use only where nothing is routed: at a
/// port or a queue on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route(pub(crate) u32);

/// A DiffServ codepoint (RFC 2474), beside the drop precedence that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(u8);

impl Dscp {
    /// Of packets that nobody has marked.
    pub const DEFAULT: Self = Self::new(0);

    /// A codepoint, of which the low six bits count.
    pub const fn new(codepoint: u8) -> Self {
        // RFC 2597, section 6: AFxy is xxyy0 with class x from 1 to 4 and drop precedence y from 1 to 3.
        let colour = match (codepoint >> 3 & 7, codepoint & 7) {
            (1..=4, 0b010) => Colour::Green,
            (1..=4, 0b100) => Colour::Yellow,
            _ => Colour::Red,
        };
        Self(codepoint << 2 | colour as u8)
    }

    /// A drop precedence of an assured forwarding class, 1 to 4 (RFC 2597).
    pub const fn assured(class: u8, colour: Colour) -> Self {
        assert!(class >= 1 && class <= 4, "there are four classes");
        let precedence = match colour {
            Colour::Green => 1,
            Colour::Yellow => 2,
            Colour::Red => 3,
        };
        Self::new(class << 3 | precedence << 1)
    }

    /// The six bits.
    pub const fn codepoint(self) -> u8 {
        self.0 >> 2
    }

    /// Its assured forwarding class, 1 to 4, if it has one (RFC 2597).
    #[inline]
    pub const fn class(self) -> Option<u8> {
        let (class, precedence) = (self.codepoint() >> 3, self.codepoint() & 7);
        match (class, precedence) {
            (1..=4, 0b010 | 0b100 | 0b110) => Some(class),
            _ => None,
        }
    }

    /// This drop precedence in the same class, or in the first one if it has none.
    pub const fn with_colour(self, colour: Colour) -> Self {
        match self.class() {
            Some(class) => Self::assured(class, colour),
            None => Self::assured(1, colour),
        }
    }

    /// The number of its colour, below 4.
    #[inline]
    pub(crate) const fn colour_number(self) -> usize {
        (self.0 & 3) as usize
    }

    /// Its drop precedence.
    #[inline]
    pub const fn colour(self) -> Colour {
        match self.0 & 3 {
            0 => Colour::Green,
            1 => Colour::Red,
            _ => Colour::Yellow,
        }
    }
}

impl Default for Dscp {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Of the first class, in which CATNIP marks.
impl From<Colour> for Dscp {
    fn from(colour: Colour) -> Self {
        Self::assured(1, colour)
    }
}

/// Drop precedence (RFC 2597, section 2): which packets a router gives up first. It never says which are sent first
/// (CATNIP paper, section III-B). The numbers are those under which results count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Colour {
    /// Dropped last: HIGH, crucial, because losing it would cost a timeout. AFx1.
    Green = 0,
    /// Dropped later: MED. AFx2.
    Yellow = 2,
    /// Dropped first: LOW, anything else, including packets that nobody marked. AFx3.
    #[default]
    Red = 1,
}

impl Colour {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// What each is called in results: the paper's HIGH and LOW, and MED between them.
    pub const NAMES: [(Self, &'static str); Self::COUNT] =
        [(Self::Green, "high"), (Self::Yellow, "med"), (Self::Red, "low")];
    /// All of them, the one that is dropped first at the front.
    pub const DROPPED_FIRST: [Self; Self::COUNT] = [Self::Red, Self::Yellow, Self::Green];

    /// The colour of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(colour, _)| *colour)
    }

    /// What it is called in results.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(colour, _)| *colour == self);
        named.map_or("", |(_, name)| name)
    }
}

/// ECN codepoint (RFC 3168, section 5), in its two bits.
///
/// A byte and not an enum: as the last field of a [`Packet`] an enum has the compiler keep the tag of `Option<Packet>` in it, and
/// each copy is then read back across two stores that have not reached the cache. That costs 5 to 16 % of a run's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ecn(u8);

impl Ecn {
    /// Not ECN-capable.
    pub const NOT_ECT: Self = Self(0);
    /// ECN-capable, ECT(1).
    pub const ECT_1: Self = Self(1);
    /// ECN-capable, ECT(0).
    pub const ECT_0: Self = Self(2);
    /// Congestion experienced.
    pub const CE: Self = Self(3);

    /// The codepoint in the low two bits of a traffic class.
    #[inline]
    pub const fn of_traffic_class(class: u8) -> Self {
        Self(class & 3)
    }

    /// The two bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// Why a packet will not come out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// It arrived at a full buffer.
    Overflow,
    /// It was queued and gave its place to an arrival: a more important one, or any at the head of a queue that drops there.
    PushedOut,
    /// Dropped at random, before the buffer is full: by RED while the average is between its thresholds, by PIE.
    Early,
    /// RED: dropped because the average is at or above its upper threshold.
    Forced,
    /// A loss model took it.
    Loss,
    /// A policer took it, or it could never conform to the profile by which it is shaped.
    Policed,
    /// It was at the head of a queue in which packets wait too long: CoDel, DualPI2.
    Delay,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 7;
    /// Every reason with its name in results.
    pub const NAMES: [(Self, &'static str); Self::COUNT] = [
        (Self::Overflow, "overflow"),
        (Self::PushedOut, "pushed_out"),
        (Self::Early, "early"),
        (Self::Forced, "forced"),
        (Self::Loss, "loss"),
        (Self::Policed, "policed"),
        (Self::Delay, "delay"),
    ];
}

/// Hears about each packet that will not come out again, and each one marked. There is no silent drop: this is
/// how a host frees the packet's body.
pub trait Fate {
    /// `packet` is gone.
    fn dropped(&mut self, now: Time, packet: Packet, why: DropReason);
    /// `packet` was given the CE codepoint.
    fn marked(&mut self, _now: Time, _packet: &Packet) {}
    /// `packet` arrives twice: gives the body of the copy, which is like it otherwise and has a fate of its own. `None`: there is
    /// no copy, because the host has no memory for it or makes none.
    fn copied(&mut self, _now: Time, _packet: &Packet) -> Option<u32> {
        None
    }
    /// This bit of `packet` is wrong from now on. False: nobody would take it then, so that it is lost.
    fn corrupted(&mut self, _now: Time, _packet: &Packet, _bit: u32) -> bool {
        false
    }
}

/// What a queue holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets waiting; the one in transmission has left the queue.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
}

impl Backlog {
    #[inline]
    pub(crate) fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.len);
    }

    #[inline]
    pub(crate) fn remove(&mut self, packet: &Packet) {
        self.packets -= 1;
        self.bytes -= u64::from(packet.len);
    }
}
