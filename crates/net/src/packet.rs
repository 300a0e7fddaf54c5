use catnip_base::Time;

/// Packet in the network, with the fields that queues, markers and ports use. The contents stay with the host, which finds them by the
/// handle `body`. The same queues therefore serve simulated segments and real byte buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Arrival time at the port that holds the packet; on the wire, arrival time at the other end of the link; at a host, arrival time
    /// there.
    pub arrived: Time,
    /// Route to the destination.
    pub route: Route,
    /// Length on the wire, bytes.
    pub len: u32,
    /// Host's handle for the contents of the packet.
    pub body: u32,
    /// Flow identifier for fair queueing: derived from the number of the connection or datagram flow, or a hash of the five-tuple for
    /// packets of external hosts.
    pub flow: u16,
    /// DSCP with its drop precedence.
    pub dscp: Dscp,
    /// ECN codepoint (RFC 3168).
    pub ecn: Ecn,
}

impl Packet {
    /// Creates an unmarked packet of `len` bytes that is not ECN-capable, with the host's handle `body`.
    #[inline]
    pub const fn new(arrived: Time, route: Route, len: u32, body: u32) -> Self {
        Self { arrived, route, len, body, flow: 0, dscp: Dscp::DEFAULT, ecn: Ecn::NOT_ECT }
    }
}

const _: () = assert!(size_of::<Packet>() == 24);

/// Route of packets to their destination, obtained from [`crate::Fabric::route`]. The default is only useful for a port or a queue outside
/// a [`crate::Fabric`], where packets are not routed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route(pub(crate) u32);

/// DiffServ codepoint (RFC 2474), stored together with its drop precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(u8);

impl Dscp {
    /// DSCP of unmarked packets.
    pub const DEFAULT: Self = Self::new(0);

    /// Creates a DSCP from the low six bits of `codepoint`.
    pub const fn new(codepoint: u8) -> Self {
        // RFC 2597, section 6: AFxy is xxxyy0 with class x from 1 to 4 and drop precedence y from 1 to 3.
        let priority = match (codepoint >> 3 & 7, codepoint & 7) {
            (1..=4, 0b010) => Priority::High,
            (1..=4, 0b100) => Priority::Medium,
            _ => Priority::Low,
        };
        Self(codepoint << 2 | priority as u8)
    }

    /// Returns the DSCP of a drop precedence in an assured forwarding class, 1 to 4 (RFC 2597).
    pub const fn assured(class: u8, priority: Priority) -> Self {
        assert!(class >= 1 && class <= 4, "there are four classes");
        let precedence = match priority {
            Priority::High => 1,
            Priority::Medium => 2,
            Priority::Low => 3,
        };
        Self::new(class << 3 | precedence << 1)
    }

    /// Returns the six-bit codepoint.
    pub const fn codepoint(self) -> u8 {
        self.0 >> 2
    }

    /// Returns the assured forwarding class, 1 to 4, if the codepoint belongs to one (RFC 2597).
    #[inline]
    pub const fn class(self) -> Option<u8> {
        let (class, precedence) = (self.codepoint() >> 3, self.codepoint() & 7);
        match (class, precedence) {
            (1..=4, 0b010 | 0b100 | 0b110) => Some(class),
            _ => None,
        }
    }

    /// Returns the DSCP of the given drop precedence in the same class, or in class 1 if the codepoint has no class.
    pub const fn with_priority(self, priority: Priority) -> Self {
        match self.class() {
            Some(class) => Self::assured(class, priority),
            None => Self::assured(1, priority),
        }
    }

    /// Returns the DSCP with a drop precedence that its codepoint does not have, for use within one queue.
    #[inline]
    pub(crate) const fn treated_as(self, priority: Priority) -> Self {
        Self(self.0 & !3 | priority as u8)
    }

    /// Returns the drop precedence.
    #[inline]
    pub const fn priority(self) -> Priority {
        match self.0 & 3 {
            0 => Priority::High,
            1 => Priority::Low,
            _ => Priority::Medium,
        }
    }
}

impl Default for Dscp {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Conversion to the DSCP in class 1, the class in which CATNIP marks.
impl From<Priority> for Dscp {
    fn from(priority: Priority) -> Self {
        Self::assured(1, priority)
    }
}

/// Drop precedence (RFC 2597, section 2): the order in which a router drops packets. The drop precedence does not determine the order of
/// transmission (CATNIP paper, section III-B). The discriminants are the indices of counters in results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Priority {
    /// HIGH, AFx1: dropped last. Crucial packets, whose loss would cost a timeout.
    High = 0,
    /// MED, AFx2: dropped after LOW and before HIGH.
    Medium = 2,
    /// LOW, AFx3: dropped first. All other packets, including unmarked ones.
    #[default]
    Low = 1,
}

impl Priority {
    /// Number of drop precedences.
    pub const COUNT: usize = 3;
    /// Names in results: HIGH and LOW as in the paper, and MED between them.
    pub const NAMES: [(Self, &'static str); Self::COUNT] =
        [(Self::High, "high"), (Self::Medium, "med"), (Self::Low, "low")];
    /// All drop precedences in drop order, LOW first.
    pub const DROPPED_FIRST: [Self; Self::COUNT] = [Self::Low, Self::Medium, Self::High];

    /// Returns the drop precedence with the given name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(priority, _)| *priority)
    }

    /// Returns the name in results.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(priority, _)| *priority == self);
        named.map_or("", |(_, name)| name)
    }
}

/// ECN codepoint (RFC 3168, section 5), in its two bits.
///
/// The type is a byte rather than an enum: with an enum as the last field of [`Packet`], the compiler keeps the tag of `Option<Packet>` in
/// that field, and each copy is then read back across two stores that have not reached the cache. That costs 5 to 16 % of a run's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ecn(u8);

impl Ecn {
    /// Codepoint of packets that are not ECN-capable.
    pub const NOT_ECT: Self = Self(0);
    /// ECT(1), ECN-capable transport.
    pub const ECT_1: Self = Self(1);
    /// ECT(0), ECN-capable transport.
    pub const ECT_0: Self = Self(2);
    /// CE, congestion experienced.
    pub const CE: Self = Self(3);

    /// Returns the codepoint in the low two bits of a traffic class byte.
    #[inline]
    pub const fn of_traffic_class(class: u8) -> Self {
        Self(class & 3)
    }

    /// Returns the two bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// Reason for which a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// Drop because the buffer is full.
    Overflow,
    /// Push-out: drop of a queued packet to make space for an arriving packet of higher priority, or, at the head of a drop-head queue, for
    /// any arriving packet.
    PushedOut,
    /// Random drop before the buffer is full: by RED if the average queue length is between the thresholds, or by PIE.
    Early,
    /// RED: drop because the average queue length is at or above the upper threshold.
    Forced,
    /// Loss on the link: by a loss model, by link-layer ARQ after its last attempt, or by corruption.
    Loss,
    /// Drop by a policer, or drop of a packet that can never conform to the profile of its shaper.
    Policed,
    /// Drop by CoDel, COBALT or DualPI2 at the head of a queue, because of a long queueing delay.
    Delay,
}

impl DropReason {
    /// Number of drop reasons.
    pub const COUNT: usize = 7;
    /// All drop reasons with their names in results.
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

/// Receiver of packet events: drops, marks, copies and corruption. Every drop is reported, because the host then frees the body of the
/// packet.
pub trait PacketEvents {
    /// Handles the drop of `packet`.
    fn dropped(&mut self, now: Time, packet: Packet, reason: DropReason);
    /// Handles the setting of the CE codepoint in `packet`.
    fn marked(&mut self, _now: Time, _packet: &Packet) {}
    /// Returns the body for a copy of `packet`. The copy has the other fields of `packet`, and its later events are reported separately.
    /// `None` prevents the copy, if the host has no memory for it or does not support copies.
    fn copied(&mut self, _now: Time, _packet: &Packet) -> Option<u32> {
        None
    }
    /// Handles the corruption of one bit of `packet`. Returns false if no receiver would accept the corrupted packet, which is then lost.
    fn corrupted(&mut self, _now: Time, _packet: &Packet, _bit: u32) -> bool {
        false
    }
}

/// Packets and bytes that a queue holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of waiting packets. The packet in transmission has left the queue.
    pub packets: u32,
    /// Number of bytes in these packets.
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
