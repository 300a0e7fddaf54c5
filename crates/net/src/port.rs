mod counters;
mod wire;

pub use counters::PortCounters;

use self::counters::{CountingEvents, DropCounters};
use self::wire::{NOT_KNOWN, Wire};
use crate::arq::{Arq, Attempt};
use crate::hold_queue::{Forwarding, HoldQueue};
use crate::jitter::Jitter;
use crate::queue::QueueDiscipline;
use crate::shape::Shaper;
use crate::stage::{AnyStage, Stage};
use crate::{Approach, Backlog, DropReason, Packet, PacketEvents, Priority, Route};
use catnip_base::{Span, Time};

/// Sending side of a link: a queue, a wire with a transmission time per byte, and a propagation delay.
///
/// Service follows logical time. The transmission of a packet starts when the wire becomes free, even if the host wakes up later, so that
/// the same arrivals cause the same departures, regardless of how late the host wakes up. Packets whose transmission has started are kept
/// in the order of their arrivals at the other end. A port therefore needs a single calendar entry, for the first of these packets,
/// regardless of its queue discipline.
///
/// If the queue is a plain FIFO ([`QueueDiscipline::fifo_limit`]), the departure time of a packet is known at its arrival. The packet is
/// then put on the wire immediately, with its arrival time at the other end, and the queue reduces to a count of the packets whose
/// transmission has not started.
#[derive(Debug)]
#[repr(C)] // Fields that every packet accesses come first.
pub struct Port<Q, S> {
    wire: Wire,
    /// Time at which the wire becomes free.
    free_at: Time,
    delay: Span,
    /// Total queueing delay of all packets whose transmission has started, ns.
    waited_ns: u64,
    shaper: S,
    /// Arrivals by drop precedence.
    arrived: [u64; Priority::COUNT],
    arrived_bytes: u64,
    /// Counters of drops and marks. Most ports never drop a packet.
    drops: Option<Box<DropCounters>>,
    /// Queue, stages and extensions; `None` if departures are known at arrival and no stage precedes the wire.
    queued: Option<Box<Queued<Q>>>,
}

/// Parts of a port whose departures are not known at arrival.
#[derive(Debug)]
#[repr(C, align(64))] // What every packet needs shares a cache line with the first fields of the queue.
struct Queued<Q> {
    /// Extensions with their state; `None` without extensions.
    extended: Option<Box<Extended>>,
    /// Stages before the queue; `None` without stages.
    before: Option<Box<[AnyStage]>>,
    /// True if the wire was free and the queue had no packet to send.
    idle: bool,
    queue: Q,
}

impl<Q: QueueDiscipline> Queued<Q> {
    /// Returns true if no packet waits and no extension can hold a packet back. The wire may still be in use, and the queue may not have been
    /// asked for a packet since: neither matters before the next packet arrives.
    #[inline(always)]
    fn is_drained(&self) -> bool {
        self.extended.is_none() && self.queue.backlog().packets == 0
    }
}

/// Extensions of a port, which few ports have, and the state of packets affected by them.
#[derive(Debug, Default)]
struct Extended {
    extensions: PortExtensions,
    hold_queue: HoldQueue,
    /// Arrival time of the last packet on the wire. Later packets do not arrive before this time, even if the delay becomes shorter.
    last: Time,
}

/// Optional parts of a port in addition to its queue and wire.
#[derive(Debug, Default)]
pub struct PortExtensions {
    /// Stages that packets pass before the queue.
    pub before: Vec<AnyStage>,
    /// Recorded trains that delay packets before the queue.
    pub approach: Option<Approach>,
    /// Link-layer ARQ, which retransmits packets lost on the wire.
    pub arq: Option<Arq>,
    /// Variation of the propagation delay, and processing times of the host at the other end. Packets do not overtake each other.
    pub jitter: Option<Jitter>,
    /// Stages that packets pass after the wire. A packet dropped by such a stage has already occupied the wire.
    pub after: Vec<AnyStage>,
}

impl PortExtensions {
    fn is_empty(&self) -> bool {
        self.before.is_empty()
            && self.approach.is_none()
            && self.arq.is_none()
            && self.jitter.is_none()
            && self.after.is_empty()
    }
}

/// Change of the configuration of a port. A part whose value is `None` stays unchanged and keeps its state.
#[derive(Debug)]
pub(crate) struct Change<S> {
    pub(crate) shaper: Option<S>,
    pub(crate) delay: Span,
    pub(crate) before: Option<Vec<AnyStage>>,
    pub(crate) jitter: Option<Option<Jitter>>,
    pub(crate) after: Option<Vec<AnyStage>>,
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

impl<Q: QueueDiscipline, S: Shaper> Port<Q, S> {
    /// Creates an idle port without extensions.
    pub fn new(queue: Q, shaper: S, delay: Span) -> Self {
        Self::with_extensions(queue, shaper, delay, PortExtensions::default())
    }

    /// Creates an idle port with the given extensions.
    pub fn with_extensions(queue: Q, shaper: S, delay: Span, mut extensions: PortExtensions) -> Self {
        let before = std::mem::take(&mut extensions.before);
        let extended = (!extensions.is_empty()).then(|| Extended { extensions, ..Extended::default() });
        Self::with_parts(queue, shaper, delay, before, extended)
    }

    /// Creates an idle port that allows later changes. Departures are then not known at arrival.
    pub(crate) fn changeable(queue: Q, shaper: S, delay: Span, mut extensions: PortExtensions) -> Self {
        let before = std::mem::take(&mut extensions.before);
        Self::with_parts(queue, shaper, delay, before, Some(Extended { extensions, ..Extended::default() }))
    }

    fn with_parts(
        queue: Q,
        shaper: S,
        delay: Span,
        before: Vec<AnyStage>,
        extended: Option<Extended>,
    ) -> Self {
        // The departure of a packet that never leaves is not known.
        let fifo_limit = if extended.is_some() || shaper.ends() { None } else { queue.fifo_limit() };
        let is_needed = fifo_limit.is_none() || !before.is_empty();
        let queued = is_needed.then(|| {
            let before = (!before.is_empty()).then(|| before.into_boxed_slice());
            Box::new(Queued { idle: true, queue, extended: extended.map(Box::new), before })
        });
        Self {
            wire: Wire::new(fifo_limit.unwrap_or(NOT_KNOWN)),
            free_at: Time::ZERO,
            delay,
            waited_ns: 0,
            shaper,
            arrived: [0; Priority::COUNT],
            arrived_bytes: 0,
            drops: None,
            queued,
        }
    }

    /// Returns true if departures are not known at arrival.
    #[inline(always)]
    fn is_queued(&self) -> bool {
        self.wire.fifo_limit == NOT_KNOWN
    }

    #[inline(always)]
    fn queued(&self) -> &Queued<Q> {
        self.queued.as_ref().expect(HAS_QUEUE)
    }

    #[inline(always)]
    fn queued_mut(&mut self) -> &mut Queued<Q> {
        self.queued.as_mut().expect(HAS_QUEUE)
    }

    /// Applies a change. All earlier events must have been handled. The change does not affect a transmission in progress, or the arrival
    /// times of packets on the wire.
    pub(crate) fn change(&mut self, to: Change<S>) {
        let Change { shaper, delay, before, jitter, after } = to;
        if let Some(shaper) = shaper {
            self.shaper = shaper;
        }
        self.delay = delay;
        let queued = self.queued_mut();
        if let Some(before) = before {
            queued.before = (!before.is_empty()).then(|| before.into_boxed_slice());
        }
        let extended = queued.extended.get_or_insert_default();
        if let Some(jitter) = jitter {
            extended.extensions.jitter = jitter;
        }
        if let Some(after) = after {
            extended.extensions.after = after;
        }
    }

    /// Handles the arrival of a packet at time `at`, after all departures that are due by `at`. Arrival times must not decrease.
    #[inline(always)]
    pub fn arrive(&mut self, at: Time, packet: Packet, events: &mut dyn PacketEvents) {
        self.arrived[packet.dscp.priority() as usize] += 1;
        self.arrived_bytes += u64::from(packet.len);
        if self.queued.is_some() {
            return self.enter(at, packet, events);
        }
        self.enter_wire(at, packet, events);
    }

    /// Puts a packet on the wire of a port whose departures are known at arrival.
    #[inline(always)]
    fn enter_wire(&mut self, at: Time, packet: Packet, events: &mut dyn PacketEvents) {
        if !self.wire.has_space(at, self.delay) {
            return self.overflow(at, packet, events);
        }
        let start = at.max(self.free_at);
        self.waited_ns += start.as_nanos() - at.as_nanos();
        self.start(start, packet);
    }

    #[cold]
    fn overflow(&mut self, at: Time, mut packet: Packet, events: &mut dyn PacketEvents) {
        packet.arrived = at;
        CountingEvents { drops: &mut self.drops, events }.dropped(at, packet, DropReason::Overflow);
    }

    /// Handles the arrival of a packet at a port with a queue or with stages before its wire.
    #[inline(never)]
    fn enter(&mut self, at: Time, mut packet: Packet, events: &mut dyn PacketEvents) {
        if !self.is_drained() {
            self.advance_queued(at, events);
        }
        let is_queued = self.is_queued();
        let Self { queued, drops, .. } = self;
        let Queued { queue, before, extended, .. } = &mut **queued.as_mut().expect(HAS_QUEUE);
        if let Some(before) = before
            && let Err(reason) = pass(before, at, &mut packet)
        {
            packet.arrived = at;
            return CountingEvents { drops, events }.dropped(at, packet, reason);
        }
        if !is_queued {
            return self.enter_wire(at, packet, events);
        }
        if let Some(extended) = extended {
            if let Some(approach) = &mut extended.extensions.approach {
                return approach.push(at, packet);
            }
        } else if queue.backlog().packets == 0 && self.free_at <= at && queue.pass(at, &packet) {
            self.queued_mut().idle = false;
            return self.start(at, packet);
        }
        self.enqueue(at, packet, events);
    }

    /// Gives a packet to the queue, and starts its transmission if the wire is free.
    #[inline]
    fn enqueue(&mut self, at: Time, mut packet: Packet, events: &mut dyn PacketEvents) {
        packet.arrived = at;
        if self.is_drained() {
            self.advance_queued(at, events);
        }
        let Self { queued, drops, .. } = self;
        queued.as_mut().expect(HAS_QUEUE).queue.enqueue(at, packet, &mut CountingEvents { drops, events });
        if self.queued().idle {
            self.serve(at, events);
        }
    }

    /// Starts the transmission of all packets that are due by `now`, each at its own time.
    #[inline]
    pub fn advance(&mut self, now: Time, events: &mut dyn PacketEvents) {
        if self.is_queued() {
            self.advance_queued(now, events);
        }
    }

    #[inline]
    fn advance_queued(&mut self, now: Time, events: &mut dyn PacketEvents) {
        if self.queued().extended.is_some() {
            self.end_approaches(now, events);
        }
        self.serve_until(now, events);
    }

    /// Gives the packets that have been released by `now` to the queue. A packet of a train passes the queue if it is empty.
    #[inline(never)]
    fn end_approaches(&mut self, now: Time, events: &mut dyn PacketEvents) {
        while let Some((packet, is_of_train)) = self.approach().and_then(|approach| approach.pop_due(now)) {
            let at = packet.arrived;
            self.serve_until(at, events);
            if self.free_at <= at && self.queued().queue.backlog().packets == 0 {
                // As in CellReplay, a packet that comes as another one leaves does not pass the queue.
                if is_of_train && (self.free_at < at || at == Time::ZERO) {
                    let arrived = self.arrival(at);
                    self.wire.push(packet, arrived);
                    continue;
                }
                self.shaper.become_idle();
            }
            let Self { queued, drops, .. } = self;
            queued.as_mut().expect(HAS_QUEUE).queue.enqueue(
                at,
                packet,
                &mut CountingEvents { drops, events },
            );
            if self.queued().idle {
                self.serve(at.max(self.free_at), events);
            }
        }
    }

    #[inline]
    fn serve_until(&mut self, now: Time, events: &mut dyn PacketEvents) {
        loop {
            let Queued { idle, queue, extended, .. } = self.queued();
            if !idle {
                if self.free_at > now {
                    return;
                }
                self.serve(self.free_at, events);
                continue;
            }
            let wake_at = if extended.is_none() { queue.wake_at() } else { self.wake_at() };
            let Some(at) = wake_at.filter(|&at| at <= now) else { return };
            self.wake(at, now, events);
        }
    }

    /// Starts the transmission of a packet that was held back until `at`, and of further packets that are due by `now`.
    #[inline(never)]
    fn wake(&mut self, at: Time, now: Time, events: &mut dyn PacketEvents) {
        self.serve(at.max(self.free_at), events);
        while !self.queued().idle && self.free_at <= now {
            self.serve(self.free_at, events);
        }
    }

    /// Delivers the packets that have arrived at the other end by `now`, one per call. Without such a packet, returns the time of the next
    /// poll.
    pub fn poll(&mut self, now: Time, events: &mut dyn PacketEvents) -> Next {
        loop {
            self.advance(now, events);
            match self.next_at() {
                None => return Next::Idle,
                Some(at) if at > now => return Next::Wait(at),
                Some(at) => {
                    // After `advance`, an event that is due is the arrival of a packet at the other end.
                    let packet = self.take(at, events);
                    if let Some(packet) = packet.and_then(|packet| self.pass_remaining(packet, events)) {
                        return Next::Deliver(at, packet);
                    }
                }
            }
        }
    }

    /// Returns the time of the next event: the first arrival at the other end, or the transmission of a held-back packet.
    #[inline(always)]
    pub fn next_at(&self) -> Option<Time> {
        Some(self.next_event()).filter(|&at| at < Time::NEVER)
    }

    /// Returns the time of the next event, or [`Time::NEVER`].
    #[inline(always)]
    pub(crate) fn next_event(&self) -> Time {
        // Almost all ports have no extensions, and have a packet on the wire whenever they have an event.
        if !self.is_queued() {
            return self.wire.first.arrived;
        }
        self.next_queued_event()
    }

    #[inline]
    fn next_queued_event(&self) -> Time {
        let Queued { idle, queue, extended, .. } = self.queued();
        match extended {
            // Almost all ports have no extensions, and have a packet on the wire whenever they have an event.
            None if !self.wire.is_empty() || self.queued().is_drained() => self.wire.first.arrived,
            None if !idle => self.free_at,
            None => queue.wake_at().unwrap_or(Time::NEVER),
            Some(extended) => self.next_extended_event(extended),
        }
    }

    #[inline(never)]
    fn next_extended_event(&self, extended: &Extended) -> Time {
        let crossing = match self.wire.first() {
            Some(packet) => Some(packet.arrived),
            // An attempt that will be lost is not put on the wire. The next event is then the end of the transmission of this attempt.
            None if !self.queued().idle => Some(self.free_at),
            None => self.wake_at(),
        };
        let released = extended.extensions.approach.as_ref().and_then(Approach::next_at);
        earlier(earlier(crossing, extended.hold_queue.next_at()), released).unwrap_or(Time::NEVER)
    }

    /// Returns the time at which the next held-back packet can be transmitted; `None` if no packet is held back.
    #[inline]
    fn wake_at(&self) -> Option<Time> {
        let Queued { queue, extended, .. } = self.queued();
        let arq = extended.as_ref().and_then(|extended| extended.extensions.arq.as_ref());
        earlier(queue.wake_at(), arq.and_then(Arq::wake_at))
    }

    /// Returns true if the next event is the arrival of the first packet on the wire at the other end, and the queue has nothing to do before
    /// the next packet: departures are known at arrival, or no packet waits.
    #[inline(always)]
    pub(crate) fn is_drained(&self) -> bool {
        !self.is_queued() || self.queued().is_drained()
    }

    /// Removes and returns the first packet on the wire of a port with [`Port::is_drained`]. The wire must not be empty.
    #[inline(always)]
    pub(crate) fn take_departed(&mut self) -> Packet {
        self.wire.pop()
    }

    /// Returns the time at which the first packet on the wire arrives at the other end, or [`Time::NEVER`].
    #[inline(always)]
    pub(crate) fn next_arrival(&self) -> Time {
        self.wire.first.arrived
    }

    /// Removes and returns the first packet on the wire if it arrives at the other end by `now`, which is the time of the next event.
    /// Serves the queue up to `now`.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        if !self.is_queued() {
            return Some(self.wire.pop());
        }
        self.take_queued(now, events)
    }

    /// Variant of [`Port::take`] for ports whose departures are not known at arrival.
    #[inline(never)]
    fn take_queued(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        if self.queued().extended.is_some() {
            return self.take_extended(now, events);
        }
        // If no packet has arrived, the event is the transmission of a held-back packet.
        let arrives = self.wire.first.arrived <= now;
        let packet = arrives.then(|| self.wire.pop());
        self.advance_queued(now, events);
        packet
    }

    /// Variant of [`Port::take`] for ports with extensions: packets may be held back, or given up by the link layer.
    #[inline(never)]
    fn take_extended(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        if let Some(extended) = &mut self.queued_mut().extended
            && let Some(packet) = extended.hold_queue.pop_due(now)
        {
            self.advance(now, events);
            return Some(packet);
        }
        let arrives = self.wire.first.arrived <= now;
        let packet = arrives.then(|| self.wire.pop());
        self.advance(now, events);
        self.leave_wire(packet?, events)
    }

    /// Returns a packet that has reached the end of the wire. If the link layer has given the packet up, drops it and returns `None`.
    fn leave_wire(&mut self, packet: Packet, events: &mut dyn PacketEvents) -> Option<Packet> {
        if self.arq().is_some_and(|arq| !arq.on_arrival()) {
            let mut counting = CountingEvents { drops: &mut self.drops, events };
            counting.dropped(packet.arrived, packet, DropReason::Loss);
            return None;
        }
        Some(packet)
    }

    /// Returns true if the port has stages behind the wire.
    pub(crate) fn has_stages_after_wire(&self) -> bool {
        let extended = self.queued.as_ref().and_then(|queued| queued.extended.as_ref());
        extended.is_some_and(|extended| !extended.extensions.after.is_empty())
    }

    /// Passes a packet that was just taken with [`Port::take`] through the remaining stages behind the wire. Returns the packet if no stage
    /// drops it or holds it back. The time of the next event may change.
    pub(crate) fn pass_remaining(
        &mut self,
        mut packet: Packet,
        events: &mut dyn PacketEvents,
    ) -> Option<Packet> {
        let Self { drops, queued, .. } = self;
        let extended = queued.as_mut().and_then(|queued| queued.extended.as_mut());
        let Some(extended) = extended else { return Some(packet) };
        let Extended { extensions, hold_queue, .. } = &mut **extended;
        let now = packet.arrived;
        let first = hold_queue.resume();
        for (stage, next) in extensions.after.iter_mut().zip(1..).skip(first as usize) {
            if let Err(reason) = stage.pass(now, &mut packet) {
                CountingEvents { drops, events }.dropped(now, packet, reason);
                return None;
            }
            match stage.forwarding(&packet) {
                Forwarding::Immediate => {}
                Forwarding::Duplicated => {
                    if let Some(body) = events.copied(now, &packet) {
                        hold_queue.copy(now, next, Packet { body, ..packet });
                    }
                }
                Forwarding::Corrupted { bit } => {
                    if !events.corrupted(now, &packet, bit) {
                        CountingEvents { drops, events }.dropped(now, packet, DropReason::Loss);
                        return None;
                    }
                }
                Forwarding::Delayed { by, overtakers } => {
                    hold_queue.hold(now + by, next, overtakers, packet);
                    return None;
                }
            }
            hold_queue.overtake(now, next);
        }
        Some(packet)
    }

    /// Returns the counters.
    pub fn counters(&self) -> PortCounters {
        let (dropped, dropped_bytes, marked) =
            self.drops.as_ref().map_or_else(Default::default, |d| (d.packets, d.bytes, d.marked));
        let dropped_total: u64 = dropped.iter().flatten().sum();
        let inside = self.backlog();
        let waiting = self.queued.as_ref().map_or(0, |queued| queued.queue.backlog().packets);
        let approaching = self.extended().and_then(|it| it.extensions.approach.as_ref());
        let approaching = approaching.map_or(0, |approach| approach.packets().count() as u32);
        let started = u64::from(inside.packets - waiting - approaching);
        let (copies, copied_bytes) = self
            .extended()
            .map_or((0, 0), |Extended { hold_queue, .. }| (hold_queue.copies, hold_queue.copied_bytes));
        let delivered = self.arrived.iter().sum::<u64>() + copies - dropped_total - u64::from(inside.packets);
        PortCounters {
            arrived: self.arrived,
            delivered,
            duplicated: copies,
            marked,
            started: (delivered + started).saturating_sub(copies),
            waited: Span::from_nanos(self.waited_ns),
            delivered_bytes: self.arrived_bytes + copied_bytes - dropped_bytes - inside.bytes,
            dropped,
        }
    }

    /// Returns the packets inside the port: waiting, in transmission, and on the way to the other end.
    pub fn backlog(&self) -> Backlog {
        let mut inside = self.queued.as_ref().map_or_else(Backlog::default, |queued| queued.queue.backlog());
        self.wire.packets().for_each(|packet| inside.add(packet));
        if let Some(Extended { extensions, hold_queue, .. }) = self.extended() {
            let approach = extensions.approach.iter().flat_map(Approach::packets);
            approach.for_each(|packet| inside.add(packet));
            let arq_backlog = extensions.arq.as_ref().map_or_else(Backlog::default, Arq::backlog);
            for part in [hold_queue.backlog(), arq_backlog] {
                inside.packets += part.packets;
                inside.bytes += part.bytes;
            }
        }
        inside
    }

    /// Returns the packets and bytes that wait for the wire at `now`. All events up to `now` must have been handled.
    pub fn waiting(&self, now: Time) -> Backlog {
        if self.is_queued() {
            return self.queued().queue.backlog();
        }
        // The wire also stores the waiting packets. The transmission of each starts when the previous packet has left.
        let following = self.wire.packets().skip(1);
        let waits =
            self.wire.packets().zip(following).filter(|(before, _)| before.arrived > now + self.delay);
        waits.fold(Backlog::default(), |sum, (_, packet)| Backlog {
            packets: sum.packets + 1,
            bytes: sum.bytes + u64::from(packet.len),
        })
    }

    /// Sets the weight of a connection relative to the other connections in the queue. No effect if the queue does not use weights.
    pub fn set_weight(&mut self, flow: u16, weight: u32) {
        if let Some(queued) = &mut self.queued {
            queued.queue.set_weight(flow, weight);
        }
    }

    /// Sets the ids of the source and destination hosts of a connection's packets on a route. No effect if the queue does not use hosts.
    pub fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
        if let Some(queued) = &mut self.queued {
            queued.queue.set_hosts(flow, route, hosts);
        }
    }

    /// Starts the transmission of the next packet at `start`, or makes the port idle.
    #[inline]
    fn serve(&mut self, start: Time, events: &mut dyn PacketEvents) {
        let Self { queued, drops, .. } = self;
        let Queued { idle, queue, extended, .. } = &mut **queued.as_mut().expect(HAS_QUEUE);
        if extended.is_some() {
            return self.serve_extended(start, events);
        }
        let next = queue.dequeue(start, &mut CountingEvents { drops, events });
        *idle = next.is_none();
        if let Some(packet) = next {
            self.waited_ns += start.as_nanos() - packet.arrived.as_nanos();
            self.start(start, packet);
        }
    }

    /// Variant of [`Port::serve`] for ports with extensions: propagation may vary, and the link layer retransmits lost packets before it
    /// sends new ones.
    #[inline(never)]
    fn serve_extended(&mut self, start: Time, events: &mut dyn PacketEvents) {
        let retransmission = self.arq().and_then(|arq| arq.next_retransmission(start));
        if retransmission.is_some() {
            self.queued_mut().queue.released();
        }
        let attempt = retransmission.or_else(|| self.first_attempt(start, events));
        self.queued_mut().idle = attempt.is_none();
        let Some(mut attempt) = attempt else { return };
        self.free_at = self.shaper.finish(start, attempt.packet.len);
        let arrival = self.arrival(self.free_at);
        attempt.packet.arrived = arrival;
        let Self { queued, wire, .. } = self;
        let extended = queued.as_mut().and_then(|queued| queued.extended.as_mut());
        match extended.and_then(|extended| extended.extensions.arq.as_mut()) {
            Some(arq) => arq.attempt(start, attempt, |packet| wire.push(packet, packet.arrived)),
            None => wire.push(attempt.packet, arrival),
        }
    }

    fn first_attempt(&mut self, start: Time, events: &mut dyn PacketEvents) -> Option<Attempt> {
        let Self { queued, drops, .. } = self;
        let queue = &mut queued.as_mut().expect(HAS_QUEUE).queue;
        let packet = queue.dequeue(start, &mut CountingEvents { drops, events })?;
        self.waited_ns += start.as_nanos() - packet.arrived.as_nanos();
        Some(self.arq().map_or_else(|| Attempt::single(packet), |arq| arq.first(packet)))
    }

    #[inline]
    fn start(&mut self, start: Time, packet: Packet) {
        self.free_at = self.shaper.finish(start, packet.len);
        self.wire.push(packet, self.free_at + self.delay);
    }

    /// Returns the arrival time at the other end for a packet that leaves at `departure`.
    fn arrival(&mut self, departure: Time) -> Time {
        let delay = self.delay;
        let Some(extended) = &mut self.queued_mut().extended else { return departure + delay };
        let jitter = extended.extensions.jitter.as_mut();
        let own = jitter.map_or(departure + delay, |jitter| jitter.arrival(departure, delay));
        extended.last = extended.last.max(own);
        extended.last
    }

    fn approach(&mut self) -> Option<&mut Approach> {
        let extended = self.queued.as_mut().and_then(|queued| queued.extended.as_mut());
        extended.and_then(|extended| extended.extensions.approach.as_mut())
    }

    fn arq(&mut self) -> Option<&mut Arq> {
        let extended = self.queued.as_mut().and_then(|queued| queued.extended.as_mut());
        extended.and_then(|extended| extended.extensions.arq.as_mut())
    }

    fn extended(&self) -> Option<&Extended> {
        self.queued.as_ref().and_then(|queued| queued.extended.as_deref())
    }
}

/// Reason for which a port whose departures are not known at arrival has a queue.
const HAS_QUEUE: &str = "only ports with known departures have no queue";

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}

fn pass(stages: &mut [AnyStage], now: Time, packet: &mut Packet) -> Result<(), DropReason> {
    stages.iter_mut().try_for_each(|stage| stage.pass(now, packet))
}
