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
    /// RFC 3168 codepoint.
    pub ecn: Ecn,
    /// Loss priority, never scheduling priority (CATNIP paper, section III-B).
    pub priority: Priority,
}

impl Packet {
    /// A packet of `len` bytes that nobody has marked and that is not ECN-capable, with the host's handle `body`.
    #[inline]
    pub const fn new(arrived: Time, route: Route, len: u32, body: u32) -> Self {
        Self { arrived, route, len, body, flow: 0, ecn: Ecn::NotEct, priority: Priority::Low }
    }
}

const _: () = assert!(size_of::<Packet>() == 24);

/// Where packets go, as [`crate::Fabric::route`] gives it out. The default is of use only where nothing is routed: at a
/// port or a queue on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route(pub(crate) u32);

/// Loss priority: which packets a router gives up last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Crucial: losing it would cost a timeout. AF11, the lowest drop precedence of RFC 2597.
    High,
    /// Anything else, including packets nobody marked. AF13.
    #[default]
    Low,
}

impl Priority {
    /// How many priorities there are.
    pub const COUNT: usize = 2;
}

/// RFC 3168, section 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable, ECT(1).
    Ect1,
    /// ECN-capable, ECT(0).
    Ect0,
    /// Congestion experienced.
    Ce,
}

/// Why a packet will not come out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// It arrived at a full buffer.
    Overflow,
    /// It was queued and gave its place to a more important arrival.
    PushedOut,
    /// RED: dropped at random while the average is between its thresholds.
    Early,
    /// RED: dropped because the average is at or above its upper threshold.
    Forced,
    /// A loss model took it.
    Loss,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 5;
    /// Every reason with its name in results.
    pub const NAMES: [(Self, &'static str); Self::COUNT] = [
        (Self::Overflow, "overflow"),
        (Self::PushedOut, "pushed_out"),
        (Self::Early, "early"),
        (Self::Forced, "forced"),
        (Self::Loss, "loss"),
    ];
}

/// Hears about each packet that will not come out again, and each one marked. There is no silent drop: this is
/// how a host frees the packet's body.
pub trait Fate {
    /// `packet` is gone.
    fn dropped(&mut self, now: Time, packet: Packet, why: DropReason);
    /// `packet` was given the CE codepoint.
    fn marked(&mut self, _now: Time, _packet: &Packet) {}
}

/// What a queue holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets waiting; the one in transmission has left the queue.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
}
