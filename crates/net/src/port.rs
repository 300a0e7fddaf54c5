use crate::arq::{Arq, Attempt};
use crate::hold_queue::{Forwarding, Late};
use crate::jitter::Jitter;
use crate::queue::QueueDiscipline;
use crate::shape::Shaper;
use crate::stage::{AnyStage, Stage};
use crate::{Backlog, Colour, DropReason, Fate, Packet, Route};
use catnip_base::{Span, Time};
use std::collections::VecDeque;

/// Sending side of a link: a queue, a wire with a transmission time per byte, and a propagation delay.
///
/// Service follows logical time. The transmission of a packet starts when the wire becomes free, even if the host wakes up later, so that
/// the same arrivals cause the same departures, regardless of how late the host wakes up. Packets whose transmission has started are kept
/// in the order of their arrivals at the other end. A port therefore needs a single calendar entry, for the first of these packets,
/// regardless of its queue discipline.
///
/// If the queue is a plain FIFO ([`QueueDiscipline::room`]), the departure time of a packet is known at its arrival. The packet is then put
/// on the wire immediately, with its arrival time at the other end, and the queue reduces to a count of the packets whose transmission has
/// not started.
#[derive(Debug)]
#[repr(C)] // Fields that every packet accesses come first.
pub struct Port<Q, S> {
    wire: Wire,
    /// Time at which the wire becomes free.
    free_at: Time,
    delay: Span,
    /// Total queueing delay of all packets whose transmission has started, ns.
    waited_ns: u64,
    /// Maximum number of waiting packets if departures are known at arrival; `None` otherwise.
    room: Option<u32>,
    /// True if the wire was free and the queue had no packet to send.
    idle: bool,
    shaper: S,
    /// Arrivals by the two-bit index of the drop precedence. No drop precedence has the last index, whose count stays 0; with it, every
    /// two-bit index is valid.
    arrived: [u64; 4],
    arrived_bytes: u64,
    queue: Q,
    /// Counters of drops and marks. Most ports never drop a packet.
    drops: Option<Box<Drops>>,
    /// Extensions with their state; `None` if departures are known at arrival.
    aside: Option<Box<Aside>>,
    /// Stages before the queue; `None` if departures are known at arrival.
    before: Option<Box<[AnyStage]>>,
}

/// Extensions of a port, which few ports have, and the state of packets affected by them.
#[derive(Debug, Default)]
struct Aside {
    extras: PortExtensions,
    late: Late,
    /// Arrival time of the last packet on the wire. Later packets do not arrive before this time, even if the delay becomes shorter.
    last: Time,
}

/// Optional parts of a port in addition to its queue and wire.
#[derive(Debug, Default)]
pub struct PortExtensions {
    /// Stages that packets pass before the queue.
    pub before: Vec<AnyStage>,
    /// Link-layer ARQ, which retransmits packets lost on the wire.
    pub arq: Option<Arq>,
    /// Variation of the propagation delay. Packets do not overtake each other on the wire.
    pub jitter: Option<Jitter>,
    /// Stages that packets pass after the wire. A packet dropped by such a stage has already occupied the wire.
    pub behind: Vec<AnyStage>,
}

impl PortExtensions {
    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.arq.is_none() && self.jitter.is_none() && self.behind.is_empty()
    }
}

/// Change of the configuration of a port. A part whose value is `None` stays unchanged and keeps its state.
#[derive(Debug)]
pub(crate) struct Change<S> {
    pub(crate) shaper: Option<S>,
    pub(crate) delay: Span,
    pub(crate) before: Option<Vec<AnyStage>>,
    pub(crate) jitter: Option<Option<Jitter>>,
    pub(crate) behind: Option<Vec<AnyStage>>,
}

/// Counters of drops and marks.
#[derive(Debug, Default)]
struct Drops {
    packets: [[u64; DropReason::COUNT]; Colour::COUNT],
    bytes: u64,
    /// Packets that were marked instead of dropped.
    marked: u64,
}

/// Next event of a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Arrival of a packet at the other end at the given time.
    Deliver(Time, Packet),
    /// Time before which no event is due.
    Wait(Time),
    /// No event until a packet arrives at the port.
    Idle,
}

/// Counters of a port. Arrivals + copies = delivered + dropped + waiting + on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Arrivals by priority.
    pub arrived: [u64; Colour::COUNT],
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
    pub dropped: [[u64; DropReason::COUNT]; Colour::COUNT],
}

impl PortCounters {
    /// Returns the increases of the counters since the earlier counters `then`.
    pub fn since(&self, then: &Self) -> Self {
        let dropped = |of: usize| std::array::from_fn(|why| self.dropped[of][why] - then.dropped[of][why]);
        Self {
            arrived: std::array::from_fn(|of| self.arrived[of] - then.arrived[of]),
            delivered: self.delivered - then.delivered,
            delivered_bytes: self.delivered_bytes - then.delivered_bytes,
            duplicated: self.duplicated - then.duplicated,
            marked: self.marked - then.marked,
            started: self.started - then.started,
            waited: self.waited.saturating_sub(then.waited),
            dropped: std::array::from_fn(dropped),
        }
    }

    /// Returns the number of drops of one priority for any reason.
    pub fn dropped_of(&self, priority: Colour) -> u64 {
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

/// Wrapper of a [`Fate`] that counts drops and marks.
struct Counting<'a> {
    drops: &'a mut Option<Box<Drops>>,
    fate: &'a mut dyn Fate,
}

impl Fate for Counting<'_> {
    fn dropped(&mut self, now: Time, packet: Packet, why: DropReason) {
        let drops = self.drops.get_or_insert_default();
        drops.packets[packet.dscp.colour() as usize][why as usize] += 1;
        drops.bytes += u64::from(packet.len);
        self.fate.dropped(now, packet, why);
    }
    fn marked(&mut self, now: Time, packet: &Packet) {
        self.drops.get_or_insert_default().marked += 1;
        self.fate.marked(now, packet);
    }
    fn copied(&mut self, now: Time, packet: &Packet) -> Option<u32> {
        self.fate.copied(now, packet)
    }
    fn corrupted(&mut self, now: Time, packet: &Packet, bit: u32) -> bool {
        self.fate.corrupted(now, packet, bit)
    }
}

impl<Q: QueueDiscipline, S: Shaper> Port<Q, S> {
    /// Creates an idle port.
    pub fn new(queue: Q, shaper: S, delay: Span) -> Self {
        Self {
            wire: Wire::default(),
            free_at: Time::ZERO,
            delay,
            waited_ns: 0,
            room: queue.room(),
            idle: true,
            shaper,
            arrived: [0; 4],
            arrived_bytes: 0,
            queue,
            drops: None,
            aside: None,
            before: None,
        }
    }

    /// Adds the given extensions to the port.
    pub fn with(self, mut extras: PortExtensions) -> Self {
        let before = std::mem::take(&mut extras.before);
        let before = (!before.is_empty()).then(|| before.into_boxed_slice());
        let aside = (!extras.is_empty()).then(|| Box::new(Aside { extras, ..Aside::default() }));
        let room = self.room.filter(|_| before.is_none() && aside.is_none());
        Self { room, aside, before, ..self }
    }

    /// Allows later changes of the port. Departures are then not known at arrival.
    pub(crate) fn let_change(&mut self) {
        self.room = None;
        self.aside.get_or_insert_default();
    }

    /// Applies a change. All earlier events must have been handled. The change does not affect a transmission in progress, or the arrival
    /// times of packets on the wire.
    pub(crate) fn change(&mut self, to: Change<S>) {
        let Change { shaper, delay, before, jitter, behind } = to;
        if let Some(shaper) = shaper {
            self.shaper = shaper;
        }
        self.delay = delay;
        if let Some(before) = before {
            self.before = (!before.is_empty()).then(|| before.into_boxed_slice());
        }
        let aside = self.aside.get_or_insert_default();
        if let Some(jitter) = jitter {
            aside.extras.jitter = jitter;
        }
        if let Some(behind) = behind {
            aside.extras.behind = behind;
        }
    }

    /// Handles the arrival of a packet at time `at`, after all departures that are due by `at`. Arrival times must not decrease.
    #[inline]
    pub fn arrive(&mut self, at: Time, mut packet: Packet, fate: &mut dyn Fate) {
        packet.arrived = at;
        self.arrived[packet.dscp.colour_number()] += 1;
        self.arrived_bytes += u64::from(packet.len);
        if let Some(room) = self.room {
            if self.wire.waiting(at, self.delay) >= room {
                let (mut counting, _) = self.counting(fate);
                return counting.dropped(at, packet, DropReason::Overflow);
            }
            let start = at.max(self.free_at);
            self.waited_ns += start.as_nanos() - at.as_nanos();
            return self.start(start, packet);
        }
        self.advance(at, fate);
        if let Some(before) = &mut self.before
            && let Err(why) = pass(before, at, &mut packet)
        {
            let (mut counting, _) = self.counting(fate);
            return counting.dropped(at, packet, why);
        }
        let (mut counting, queue) = self.counting(&mut *fate);
        queue.enqueue(at, packet, &mut counting);
        if self.idle {
            self.serve(at, fate);
        }
    }

    /// Starts the transmission of all packets that are due by `now`, each at its own time.
    #[inline]
    pub fn advance(&mut self, now: Time, fate: &mut dyn Fate) {
        while !self.idle && self.free_at <= now {
            self.serve(self.free_at, fate);
        }
        while self.idle
            && let Some(at) = self.wake_at().filter(|&at| at <= now)
        {
            self.wake(at, now, fate);
        }
    }

    /// Starts the transmission of a packet that was held back until `at`, and of further packets that are due by `now`.
    #[inline(never)]
    fn wake(&mut self, at: Time, now: Time, fate: &mut dyn Fate) {
        self.serve(at.max(self.free_at), fate);
        while !self.idle && self.free_at <= now {
            self.serve(self.free_at, fate);
        }
    }

    /// Delivers the packets that have arrived at the other end by `now`, one per call. Without such a packet, returns the time of the next
    /// poll.
    pub fn poll(&mut self, now: Time, fate: &mut dyn Fate) -> Next {
        loop {
            self.advance(now, fate);
            match self.next_at() {
                None => return Next::Idle,
                Some(at) if at > now => return Next::Wait(at),
                Some(at) => {
                    // After `advance`, an event that is due is the arrival of a packet at the other end.
                    let packet = self.take(at, fate);
                    if let Some(packet) = packet.and_then(|packet| self.passes(packet, fate)) {
                        return Next::Deliver(at, packet);
                    }
                }
            }
        }
    }

    /// Returns the time of the next event: the first arrival at the other end, or the transmission of a held-back packet.
    #[inline(always)]
    pub fn next_at(&self) -> Option<Time> {
        // Almost all ports have no extensions, and have a packet on the wire whenever they have an event.
        match self.wire.first() {
            Some(packet) if self.aside.is_none() => Some(packet.arrived),
            None if self.room.is_some() => None,
            _ => self.next_at_aside(),
        }
    }

    #[inline(never)]
    fn next_at_aside(&self) -> Option<Time> {
        let crossing = match self.wire.first() {
            Some(packet) => Some(packet.arrived),
            // An attempt that will be lost is not put on the wire. The next event is then the end of the transmission of this attempt.
            None if !self.idle => Some(self.free_at),
            None => self.wake_at(),
        };
        match &self.aside {
            None => crossing,
            Some(aside) => earlier(crossing, aside.late.next_at()),
        }
    }

    /// Returns the time at which the next held-back packet can be transmitted; `None` if no packet is held back.
    #[inline]
    fn wake_at(&self) -> Option<Time> {
        match &self.aside {
            None => self.queue.wake_at(),
            Some(aside) => earlier(self.queue.wake_at(), aside.extras.arq.as_ref().and_then(Arq::wake_at)),
        }
    }

    /// Removes and returns the first packet on the wire if it arrives at the other end by `now`. Serves the queue up to `now`.
    #[inline]
    pub(crate) fn take(&mut self, now: Time, fate: &mut dyn Fate) -> Option<Packet> {
        if self.room.is_some() {
            return self.wire.pop();
        }
        if self.aside.is_some() {
            return self.take_aside(now, fate);
        }
        // If no packet has arrived, the event is the transmission of a held-back packet.
        let arrives = self.wire.first().is_some_and(|packet| packet.arrived <= now);
        let packet = if arrives { self.wire.pop() } else { None };
        self.advance(now, fate);
        packet
    }

    /// Variant of [`Port::take`] for ports with extensions: packets may be held back, or given up by the link layer.
    #[inline(never)]
    fn take_aside(&mut self, now: Time, fate: &mut dyn Fate) -> Option<Packet> {
        if let Some(aside) = &mut self.aside
            && let Some(packet) = aside.late.take(now)
        {
            self.advance(now, fate);
            return Some(packet);
        }
        let arrives = self.wire.first().is_some_and(|packet| packet.arrived <= now);
        let packet = if arrives { self.wire.pop() } else { None };
        self.advance(now, fate);
        self.arrives(packet?, fate)
    }

    /// Returns a packet that has reached the end of the wire. If the link layer has given the packet up, drops it and returns `None`.
    fn arrives(&mut self, packet: Packet, fate: &mut dyn Fate) -> Option<Packet> {
        if self.arq().is_some_and(|arq| !arq.arrives()) {
            let (mut counting, _) = self.counting(fate);
            counting.dropped(packet.arrived, packet, DropReason::Loss);
            return None;
        }
        Some(packet)
    }

    /// Returns true if the port has stages behind the wire.
    pub(crate) fn has_stages_behind(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| !aside.extras.behind.is_empty())
    }

    /// Passes a packet that was just taken with [`Port::take`] through the remaining stages behind the wire. Returns the packet if no stage
    /// drops it or holds it back. The time of the next event may change.
    pub(crate) fn passes(&mut self, mut packet: Packet, fate: &mut dyn Fate) -> Option<Packet> {
        let Some(aside) = &mut self.aside else { return Some(packet) };
        let Aside { extras, late, .. } = &mut **aside;
        let now = packet.arrived;
        let first = late.resume();
        for (stage, next) in extras.behind.iter_mut().zip(1..).skip(first as usize) {
            if let Err(why) = stage.pass(now, &mut packet) {
                let (mut counting, _) = self.counting(fate);
                counting.dropped(now, packet, why);
                return None;
            }
            match stage.onward(&packet) {
                Forwarding::Immediate => {}
                Forwarding::Duplicated => {
                    if let Some(body) = fate.copied(now, &packet) {
                        late.copy(now, next, Packet { body, ..packet });
                    }
                }
                Forwarding::Corrupted { bit } => {
                    if !fate.corrupted(now, &packet, bit) {
                        let (mut counting, _) = self.counting(fate);
                        counting.dropped(now, packet, DropReason::Loss);
                        return None;
                    }
                }
                Forwarding::Delayed { by, overtakers } => {
                    late.hold(now + by, next, overtakers, packet);
                    return None;
                }
            }
            late.overtake(now, next);
        }
        Some(packet)
    }

    /// Returns the counters.
    pub fn counters(&self) -> PortCounters {
        let (dropped, dropped_bytes, marked) =
            self.drops.as_ref().map_or_else(Default::default, |d| (d.packets, d.bytes, d.marked));
        let gone: u64 = dropped.iter().flatten().sum();
        let inside = self.backlog();
        let begun = u64::from(inside.packets - self.queue.backlog().packets);
        let (copies, copied_bytes) =
            self.aside.as_ref().map_or((0, 0), |aside| (aside.late.copies, aside.late.copied_bytes));
        let delivered = self.arrived.iter().sum::<u64>() + copies - gone - u64::from(inside.packets);
        PortCounters {
            arrived: [self.arrived[0], self.arrived[1], self.arrived[2]],
            delivered,
            duplicated: copies,
            marked,
            started: (delivered + begun).saturating_sub(copies),
            waited: Span::from_nanos(self.waited_ns),
            delivered_bytes: self.arrived_bytes + copied_bytes - dropped_bytes - inside.bytes,
            dropped,
        }
    }

    /// Returns the packets inside the port: waiting, in transmission, and on the way to the other end.
    pub fn backlog(&self) -> Backlog {
        let mut inside = self.queue.backlog();
        self.wire.packets().for_each(|packet| inside.add(packet));
        if let Some(Aside { extras, late, .. }) = self.aside.as_deref() {
            let of_arq = extras.arq.as_ref().map_or_else(Backlog::default, Arq::backlog);
            for part in [late.backlog(), of_arq] {
                inside.packets += part.packets;
                inside.bytes += part.bytes;
            }
        }
        inside
    }

    /// Returns the packets and bytes that wait for the wire at `now`. All events up to `now` must have been handled.
    pub fn waiting(&self, now: Time) -> Backlog {
        if self.room.is_none() {
            return self.queue.backlog();
        }
        // The wire also stores the waiting packets. The transmission of each starts when the previous packet has left.
        let behind = self.wire.packets().skip(1);
        let waits = self.wire.packets().zip(behind).filter(|(before, _)| before.arrived > now + self.delay);
        waits.fold(Backlog::default(), |sum, (_, packet)| Backlog {
            packets: sum.packets + 1,
            bytes: sum.bytes + u64::from(packet.len),
        })
    }

    /// Sets the weight of a connection relative to the other connections in the queue. No effect if the queue does not use weights.
    pub fn set_weight(&mut self, flow: u16, weight: u32) {
        self.queue.set_weight(flow, weight);
    }

    /// Sets the ids of the source and destination hosts of a connection's packets on a route. No effect if the queue does not use hosts.
    pub fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
        self.queue.set_hosts(flow, route, hosts);
    }

    /// Starts the transmission of the next packet at `start`, or makes the port idle.
    #[inline]
    fn serve(&mut self, start: Time, fate: &mut dyn Fate) {
        if self.aside.is_some() {
            return self.serve_aside(start, fate);
        }
        let (mut counting, queue) = self.counting(fate);
        let next = queue.dequeue(start, &mut counting);
        self.idle = next.is_none();
        if let Some(packet) = next {
            self.waited_ns += start.as_nanos() - packet.arrived.as_nanos();
            self.start(start, packet);
        }
    }

    /// Variant of [`Port::serve`] for ports with extensions: propagation may vary, and the link layer retransmits lost packets before it
    /// sends new ones.
    #[inline(never)]
    fn serve_aside(&mut self, start: Time, fate: &mut dyn Fate) {
        let again = self.arq().and_then(|arq| arq.again(start));
        if again.is_some() {
            self.queue.released();
        }
        let attempt = again.or_else(|| self.first_attempt(start, fate));
        self.idle = attempt.is_none();
        let Some(mut attempt) = attempt else { return };
        self.free_at = self.shaper.finish(start, attempt.packet.len);
        attempt.packet.arrived = self.arrival();
        let Self { aside, wire, .. } = self;
        match aside.as_mut().and_then(|aside| aside.extras.arq.as_mut()) {
            Some(arq) => arq.attempt(start, attempt, |packet| wire.push(packet)),
            None => wire.push(attempt.packet),
        }
    }

    fn first_attempt(&mut self, start: Time, fate: &mut dyn Fate) -> Option<Attempt> {
        let (mut counting, queue) = self.counting(fate);
        let packet = queue.dequeue(start, &mut counting)?;
        self.waited_ns += start.as_nanos() - packet.arrived.as_nanos();
        Some(self.arq().map_or_else(|| Attempt::only(packet), |arq| arq.first(packet)))
    }

    #[inline]
    fn start(&mut self, start: Time, mut packet: Packet) {
        self.free_at = self.shaper.finish(start, packet.len);
        packet.arrived = self.free_at + self.delay;
        self.wire.push(packet);
    }

    /// Returns the arrival time at the other end for a packet that leaves at `free_at`.
    fn arrival(&mut self) -> Time {
        let (departure, delay) = (self.free_at, self.delay);
        let Some(aside) = &mut self.aside else { return departure + delay };
        let jitter = aside.extras.jitter.as_mut();
        let own = jitter.map_or(departure + delay, |jitter| jitter.arrival(departure, delay));
        aside.last = aside.last.max(own);
        aside.last
    }

    fn arq(&mut self) -> Option<&mut Arq> {
        self.aside.as_mut().and_then(|aside| aside.extras.arq.as_mut())
    }

    #[inline]
    fn counting<'a>(&'a mut self, fate: &'a mut dyn Fate) -> (Counting<'a>, &'a mut Q) {
        (Counting { drops: &mut self.drops, fate }, &mut self.queue)
    }
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}

fn pass(stages: &mut [AnyStage], now: Time, packet: &mut Packet) -> Result<(), DropReason> {
    stages.iter_mut().try_for_each(|stage| stage.pass(now, packet))
}

/// Packets whose arrival time at the other end (`arrived`) is known, in order of arrival.
///
/// The first packet is stored separately: most wires carry at most one packet most of the time, so that no other memory is accessed.
#[derive(Debug, Default)]
struct Wire {
    first: Option<Packet>,
    /// Number of packets in `rest` whose transmission had started at the last call of [`Wire::waiting`].
    started: u32,
    rest: VecDeque<Packet>,
}

impl Wire {
    #[inline]
    fn first(&self) -> Option<&Packet> {
        self.first.as_ref()
    }

    #[inline]
    fn push(&mut self, packet: Packet) {
        match &self.first {
            None => self.first = Some(packet),
            Some(first) => {
                let last = self.rest.back().unwrap_or(first);
                debug_assert!(last.arrived <= packet.arrived, "a wire keeps order");
                self.rest.push_back(packet);
            }
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Packet> {
        let packet = self.first.take()?;
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
            self.started = self.started.saturating_sub(1);
        }
        Some(packet)
    }

    /// Returns the number of packets whose transmission has not started at `now`. A transmission starts when the previous transmission
    /// ends, which is `delay` before the previous packet's arrival. `now` must not decrease between calls.
    #[inline]
    fn waiting(&mut self, now: Time, delay: Span) -> u32 {
        let Some(first) = &self.first else { return 0 };
        let mut before = match self.started {
            0 => first.arrived,
            started => self.rest[started as usize - 1].arrived,
        };
        while let Some(next) = self.rest.get(self.started as usize)
            && before <= now + delay
        {
            self.started += 1;
            before = next.arrived;
        }
        self.rest.len() as u32 - self.started
    }

    fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.first.iter().chain(&self.rest)
    }
}
