use crate::{DropReason, Packet, PacketEvents, Priority};
use catnip_base::{Span, Time};

/// Counters of a port. Arrivals + copies = delivered + dropped + waiting + on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Arrivals by priority.
    pub arrived: [u64; Priority::COUNT],
    /// Packets that have reached the other end.
    pub delivered: u64,
    /// Bytes of the delivered packets.
    pub delivered_bytes: u64,
    /// Copies of packets made by stages behind the wire.
    pub duplicated: u64,
    /// Packets in which the queue has set the CE codepoint.
    pub marked: u64,
    /// Packets whose transmission has started. If departures are known at arrival, waiting packets count as started, too.
    pub started: u64,
    /// Total queueing delay of the started packets.
    pub waited: Span,
    /// Drops by priority and reason.
    pub dropped: [[u64; DropReason::COUNT]; Priority::COUNT],
}

impl PortCounters {
    /// Returns the increases of the counters since the earlier counters `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let dropped =
            |of: usize| std::array::from_fn(|reason| self.dropped[of][reason] - earlier.dropped[of][reason]);
        Self {
            arrived: std::array::from_fn(|of| self.arrived[of] - earlier.arrived[of]),
            delivered: self.delivered - earlier.delivered,
            delivered_bytes: self.delivered_bytes - earlier.delivered_bytes,
            duplicated: self.duplicated - earlier.duplicated,
            marked: self.marked - earlier.marked,
            started: self.started - earlier.started,
            waited: self.waited.saturating_sub(earlier.waited),
            dropped: std::array::from_fn(dropped),
        }
    }

    /// Returns the number of drops of one priority for any reason.
    pub fn dropped_of(&self, priority: Priority) -> u64 {
        self.dropped[priority as usize].iter().sum()
    }
}

impl std::iter::Sum for PortCounters {
    fn sum<I: Iterator<Item = Self>>(ports: I) -> Self {
        ports.fold(Self::default(), |mut all, port| {
            let Self { arrived, delivered, delivered_bytes, duplicated, marked, started, waited, dropped } =
                port;
            for (of_all, of_port) in all.arrived.iter_mut().zip(arrived) {
                *of_all += of_port;
            }
            for (of_all, of_port) in all.dropped.iter_mut().flatten().zip(dropped.into_iter().flatten()) {
                *of_all += of_port;
            }
            all.delivered += delivered;
            all.delivered_bytes += delivered_bytes;
            all.duplicated += duplicated;
            all.marked += marked;
            all.started += started;
            all.waited += waited;
            all
        })
    }
}

/// Counters of drops and marks.
#[derive(Debug, Default)]
pub(super) struct DropCounters {
    pub(super) packets: [[u64; DropReason::COUNT]; Priority::COUNT],
    pub(super) bytes: u64,
    /// Packets that were marked instead of dropped.
    pub(super) marked: u64,
}

/// Wrapper of a [`PacketEvents`] that counts drops and marks.
pub(super) struct CountingEvents<'a> {
    pub(super) drops: &'a mut Option<Box<DropCounters>>,
    pub(super) events: &'a mut dyn PacketEvents,
}

impl PacketEvents for CountingEvents<'_> {
    fn dropped(&mut self, now: Time, packet: Packet, reason: DropReason) {
        let drops = self.drops.get_or_insert_default();
        drops.packets[packet.dscp.priority() as usize][reason as usize] += 1;
        drops.bytes += u64::from(packet.len);
        self.events.dropped(now, packet, reason);
    }
    fn marked(&mut self, now: Time, packet: &Packet) {
        self.drops.get_or_insert_default().marked += 1;
        self.events.marked(now, packet);
    }
    fn copied(&mut self, now: Time, packet: &Packet) -> Option<u32> {
        self.events.copied(now, packet)
    }
    fn corrupted(&mut self, now: Time, packet: &Packet, bit: u32) -> bool {
        self.events.corrupted(now, packet, bit)
    }
}
