use crate::arq::{Arq, Attempt};
use crate::jitter::Jitter;
use crate::late::{Late, Onward};
use crate::queue::QueueDiscipline;
use crate::shape::Shaper;
use crate::stage::{AnyStage, Stage};
use crate::{Backlog, Colour, DropReason, Fate, Packet, Route};
use catnip_base::{Span, Time};
use std::collections::VecDeque;

/// The sending side of a link: a queue, a wire that takes time per byte, and a propagation delay.
///
/// Service is at logical time. A packet starts when the wire became free, even if the host wakes up later, so the
/// same arrivals give the same departures however late the host is. Packets that have started are kept in the
/// order in which they will arrive at the other end; this is why a port needs one calendar entry, for the first
/// of them, whatever its queue discipline.
///
/// If the queue is a plain FIFO ([`QueueDiscipline::room`]), a packet's departure is known as it arrives. Then
/// it goes on the wire at once with its time of arrival at the other end, and waiting is only a matter of counting:
/// the packets whose turn has not come.
#[derive(Debug)]
#[repr(C)] // What every packet touches comes first.
pub struct Port<Q, S> {
    wire: Wire,
    /// When the wire becomes free.
    free_at: Time,
    delay: Span,
    /// How long all packets together have waited for the wire, those that have started.
    waited_ns: u64,
    /// How many packets may wait, if departures are known at arrival.
    room: Option<u32>,
    /// The wire was free and the queue had nothing to send.
    idle: bool,
    shaper: S,
    /// By colour number; the last, which is no colour's, stays 0 and spares a look at the others.
    arrived: [u64; 4],
    arrived_bytes: u64,
    queue: Q,
    /// Most ports never drop anything.
    drops: Option<Box<Drops>>,
    /// Only where departures are not known at arrival.
    aside: Option<Box<Aside>>,
    /// What packets pass on their way to the queue; only where departures are not known at arrival.
    before: Option<Box<[AnyStage]>>,
}

/// What few ports have, and what became of packets by it.
#[derive(Debug, Default)]
struct Aside {
    extras: Extras,
    late: Late,
    /// When the last packet on the wire arrives: nobody comes before it, even if the delay becomes shorter.
    last: Time,
}

/// What few ports have beside a queue and a wire.
#[derive(Debug, Default)]
pub struct Extras {
    /// What packets pass on their way to the queue.
    pub before: Vec<AnyStage>,
    /// Sends again what is lost on the wire.
    pub arq: Option<Arq>,
    /// Propagation takes longer for some than for others; nobody overtakes.
    pub jitter: Option<Jitter>,
    /// What packets pass that have crossed the wire: whom it takes has had its time in transmission.
    pub behind: Vec<AnyStage>,
}

impl Extras {
    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.arq.is_none() && self.jitter.is_none() && self.behind.is_empty()
    }
}

/// What becomes of a port; `None` leaves things as they are, with all that they remember.
#[derive(Debug)]
pub(crate) struct Change<S> {
    pub(crate) shaper: Option<S>,
    pub(crate) delay: Span,
    pub(crate) before: Option<Vec<AnyStage>>,
    pub(crate) jitter: Option<Option<Jitter>>,
    pub(crate) behind: Option<Vec<AnyStage>>,
}

/// What a port has dropped.
#[derive(Debug, Default)]
struct Drops {
    packets: [[u64; DropReason::COUNT]; Colour::COUNT],
    bytes: u64,
    /// Packets that were not dropped but marked.
    marked: u64,
}

/// What a port has to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// This packet arrives at the other end at this time.
    Deliver(Time, Packet),
    /// Nothing before then.
    Wait(Time),
    /// Nothing until something arrives.
    Idle,
}

/// What has happened at a port. Packets in + copies = delivered + dropped + waiting + on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Arrivals by priority.
    pub arrived: [u64; Colour::COUNT],
    /// Packets that have reached the other end.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Copies of packets that a stage behind the wire has made.
    pub duplicated: u64,
    /// Packets that its queue has given the CE codepoint.
    pub marked: u64,
    /// Packets whose transmission has begun; if departures are known at arrival, those that wait are among them.
    pub started: u64,
    /// How long these have waited for the wire, all together.
    pub waited: Span,
    /// Drops by priority and reason.
    pub dropped: [[u64; DropReason::COUNT]; Colour::COUNT],
}

impl PortCounters {
    /// What has been counted since then.
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

    /// Drops of one priority for any reason.
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

/// Counts drops on their way to the host.
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
    /// A port that is idle.
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

    /// The same port with these.
    pub fn with(self, mut extras: Extras) -> Self {
        let before = std::mem::take(&mut extras.before);
        let before = (!before.is_empty()).then(|| before.into_boxed_slice());
        let aside = (!extras.is_empty()).then(|| Box::new(Aside { extras, ..Aside::default() }));
        let room = self.room.filter(|_| before.is_none() && aside.is_none());
        Self { room, aside, before, ..self }
    }

    /// Lets what it is change later: departures are then not known at arrival.
    pub(crate) fn let_change(&mut self) {
        self.room = None;
        self.aside.get_or_insert_default();
    }

    /// It is like this from now on; all that was due before must have happened. What is in transmission ends as it began, and what is on
    /// its way arrives as it would have.
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

    /// A packet arrives; departures due by then come first. Arrivals must not go back in time.
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

    /// Starts all packets whose turn comes by `now`, each at its own time.
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

    /// The turn of a packet has come that was held back, and then perhaps that of others, up to now.
    #[inline(never)]
    fn wake(&mut self, at: Time, now: Time, fate: &mut dyn Fate) {
        self.serve(at.max(self.free_at), fate);
        while !self.idle && self.free_at <= now {
            self.serve(self.free_at, fate);
        }
    }

    /// Delivers what has arrived at the other end by `now`, one packet a call, or says when to ask again.
    pub fn poll(&mut self, now: Time, fate: &mut dyn Fate) -> Next {
        loop {
            self.advance(now, fate);
            match self.next_at() {
                None => return Next::Idle,
                Some(at) if at > now => return Next::Wait(at),
                Some(at) => {
                    // What is due after advancing has crossed the wire.
                    let packet = self.take(at, fate);
                    if let Some(packet) = packet.and_then(|packet| self.passes(packet, fate)) {
                        return Next::Deliver(at, packet);
                    }
                }
            }
        }
    }

    /// When something happens next: the first arrival at the other end, or a held-back packet's turn.
    #[inline(always)]
    pub fn next_at(&self) -> Option<Time> {
        // Almost all ports have nothing aside, and something on the wire whenever there is something to ask.
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
            // Of what is in transmission nothing may arrive.
            None if !self.idle => Some(self.free_at),
            None => self.wake_at(),
        };
        match &self.aside {
            None => crossing,
            Some(aside) => earlier(crossing, aside.late.next_at()),
        }
    }

    /// When the turn of a packet comes that is held back while the wire is idle.
    #[inline]
    fn wake_at(&self) -> Option<Time> {
        match &self.aside {
            None => self.queue.wake_at(),
            Some(aside) => earlier(self.queue.wake_at(), aside.extras.arq.as_ref().and_then(Arq::wake_at)),
        }
    }

    /// The first packet on the wire if it arrives at the other end now; the wire goes on up to now.
    #[inline]
    pub(crate) fn take(&mut self, now: Time, fate: &mut dyn Fate) -> Option<Packet> {
        if self.room.is_some() {
            return self.wire.pop();
        }
        if self.aside.is_some() {
            return self.take_aside(now, fate);
        }
        // Or the turn has come of one that was held back, while others are on their way.
        let arrives = self.wire.first().is_some_and(|packet| packet.arrived <= now);
        let packet = if arrives { self.wire.pop() } else { None };
        self.advance(now, fate);
        packet
    }

    /// The same where packets may be late, or the link layer may give them up.
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

    /// The packet, which has come to the end of the wire, unless the link layer has given it up.
    fn arrives(&mut self, packet: Packet, fate: &mut dyn Fate) -> Option<Packet> {
        if self.arq().is_some_and(|arq| !arq.arrives()) {
            let (mut counting, _) = self.counting(fate);
            counting.dropped(packet.arrived, packet, DropReason::Loss);
            return None;
        }
        Some(packet)
    }

    /// Are there stages behind the wire?
    pub(crate) fn has_stages_behind(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| !aside.extras.behind.is_empty())
    }

    /// The packet, which has just been taken, if it passes the stages behind the wire, or those that it has not passed yet, and none
    /// holds it back. Ask for the next event again then.
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
                Onward::AtOnce => {}
                Onward::Twice => {
                    if let Some(body) = fate.copied(now, &packet) {
                        late.copy(now, next, Packet { body, ..packet });
                    }
                }
                Onward::Corrupted { bit } => {
                    if !fate.corrupted(now, &packet, bit) {
                        let (mut counting, _) = self.counting(fate);
                        counting.dropped(now, packet, DropReason::Loss);
                        return None;
                    }
                }
                Onward::Later { by, overtakers } => {
                    late.hold(now + by, next, overtakers, packet);
                    return None;
                }
            }
            late.overtake(now, next);
        }
        Some(packet)
    }

    /// What has happened so far.
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

    /// Everything inside: waiting, in transmission and on its way to the other end.
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

    /// Packets and bytes that wait for the wire at `now`, up to which everything has happened.
    pub fn waiting(&self, now: Time) -> Backlog {
        if self.room.is_none() {
            return self.queue.backlog();
        }
        // On the wire stands who waits, too: a packet starts when the one before it has left.
        let behind = self.wire.packets().skip(1);
        let waits = self.wire.packets().zip(behind).filter(|(before, _)| before.arrived > now + self.delay);
        waits.fold(Backlog::default(), |sum, (_, packet)| Backlog {
            packets: sum.packets + 1,
            bytes: sum.bytes + u64::from(packet.len),
        })
    }

    /// What a connection weighs against others in the queue from now on, if that matters there.
    pub fn set_weight(&mut self, flow: u16, weight: u32) {
        self.queue.set_weight(flow, weight);
    }

    /// Between which hosts, by number, packets of this connection go that go this way, if that matters there.
    pub fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
        self.queue.set_hosts(flow, route, hosts);
    }

    /// Puts the next packet on the wire at `start`, or falls idle.
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

    /// The same where propagation varies, or a link layer sends again what was lost, before anything new.
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

    /// When the packet comes to the end of the wire that leaves it at `free_at`.
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

/// Packets with a known time of arrival at the other end (`arrived`), in that order.
///
/// The first one is kept apart: most wires carry one packet most of the time, and then no other memory is touched.
#[derive(Debug, Default)]
struct Wire {
    first: Option<Packet>,
    /// How many of `rest` have started, as far as anybody asked.
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

    /// How many packets have not started at `now`, on a wire that starts each one as the one before it ends, `delay`
    /// before that arrives. Never ask for an earlier time than before.
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
