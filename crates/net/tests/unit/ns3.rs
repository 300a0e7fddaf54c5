//! Comparison with ns-3, packet by packet. CATNIP's queues get the arrivals and `dequeue` calls of ns-3's queues, and departures, drops and
//! marks are compared.
//!
//! The step queue marks the same packets as ns-3's step queue. CoDel and FQ-CoDel differ from ns-3's in three details, each of which is an
//! option of [`Law`]. With ns-3's options, the model of this file drops the packets that ns-3 drops; with the options of RFC 8289, it drops
//! the packets that CATNIP's queues drop.
//!
//! The logs are the first rows of the output of `validation/ns3/dumbbell.cc --log=FILE` with seed 1. The senders use `reno`, or `dctcp`
//! with the step queue.

use catnip_base::{Rate, Span, Time};
use catnip_net::queue::{PortContext, QueueDiscipline, QueueKind, QueueSpec};
use catnip_net::shape::RateSpec;
use catnip_net::{DropReason, Ecn, Packet, PacketEvents, Route};
use std::collections::VecDeque;

const STEP: &str = include_str!("data/ns3-step.csv");
const CODEL: &str = include_str!("data/ns3-codel.csv");
const FQ_CODEL: &str = include_str!("data/ns3-fq-codel.csv");

/// Event at a queue. Packets are numbered by arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Marked(u32),
    Departed(Time, u32),
    Dropped(Time, u32),
}

/// Queue that is driven by the log of an ns-3 queue.
trait Driven {
    fn arrives(&mut self, now: Time, packet: Packet);
    fn poll(&mut self, now: Time);
    fn events(self) -> Vec<Event>;
}

/// Passes the arrivals and `dequeue` calls of ns-3's queue to `queue`. Returns the events of ns-3's queue.
fn drive(log: &str, ecn: Ecn, queue: &mut impl Driven) -> Vec<Event> {
    let (mut events, mut now, mut arrivals) = (Vec::new(), Time::ZERO, 0);
    let mut waiting: Vec<VecDeque<u32>> = vec![VecDeque::new(); 8];
    // After a drop, the next packet left at once, in the same `dequeue` call.
    let mut is_answered = true;
    for row in log.lines().skip(1) {
        let [kind, gap, flow, bytes] = row.split(',').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let gap = Span::from_nanos(gap.parse().unwrap());
        now += gap;
        if kind == "e" {
            // A drop may have emptied the queue.
            if is_answered {
                queue.poll(now);
            }
            is_answered = true;
            continue;
        }
        let flow: u16 = flow.parse().unwrap();
        let of_flow = &mut waiting[usize::from(flow)];
        if kind == "o" || kind == "x" {
            let number = of_flow.pop_front().expect("it has arrived");
            if is_answered {
                queue.poll(now);
            }
            is_answered = kind == "o";
            events.push(if is_answered { Event::Departed(now, number) } else { Event::Dropped(now, number) });
            continue;
        }
        is_answered = true;
        let len = if bytes.is_empty() { 1500 } else { bytes.parse().unwrap() };
        queue.arrives(now, Packet { flow, ecn, ..Packet::new(now, Route::default(), len, arrivals) });
        if kind == "m" {
            events.push(Event::Marked(arrivals));
        }
        of_flow.push_back(arrivals);
        arrivals += 1;
    }
    events
}

/// Queue of CATNIP with a log of its events.
struct Ours<Q> {
    queue: Q,
    event_log: EventLog,
}

#[derive(Default)]
struct EventLog(Vec<Event>);

impl PacketEvents for EventLog {
    fn dropped(&mut self, now: Time, packet: Packet, _reason: DropReason) {
        self.0.push(Event::Dropped(now, packet.body));
    }
    fn marked(&mut self, _now: Time, packet: &Packet) {
        self.0.push(Event::Marked(packet.body));
    }
}

fn ours(text: &str) -> Ours<impl QueueDiscipline> {
    let rate = RateSpec::Constant(Rate::from_bits_per_second(20_000_000).unwrap());
    let queue = text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&rate, 1, 0));
    Ours { queue, event_log: EventLog::default() }
}

impl<Q: QueueDiscipline> Driven for Ours<Q> {
    fn arrives(&mut self, now: Time, packet: Packet) {
        self.queue.enqueue(now, packet, &mut self.event_log);
    }
    fn poll(&mut self, now: Time) {
        let packet = self.queue.dequeue(now, &mut self.event_log);
        self.event_log.0.extend(packet.map(|packet| Event::Departed(now, packet.body)));
    }
    fn events(self) -> Vec<Event> {
        self.event_log.0
    }
}

/// Control law of CoDel: RFC 8289's, ns-3's, or a mixture.
#[derive(Clone, Copy)]
struct Law {
    /// True if 1/sqrt(count) is a fraction of 16 bits that is updated by one step of Newton's method at each drop, as in Linux. The second
    /// drop changes it from 1 to 0.5, not to 0.71.
    newton: bool,
    /// True if times are whole units of 1024 ns, and dropping begins later than the end of the interval, not exactly at the end.
    ticks: bool,
    /// True if a backlog of one full packet can count as above the target.
    one_is_long: bool,
}

const RFC: Law = Law { newton: false, ticks: false, one_is_long: false };
const NS3: Law = Law { newton: true, ticks: true, one_is_long: true };

/// Queue of a flow and state of its control law. Names are those of RFC 8289.
#[derive(Clone, Default)]
struct Flow {
    packets: VecDeque<Packet>,
    first_above_time: Option<u64>,
    dropping: bool,
    drop_next: u64,
    count: u32,
    last_count: u32,
    inverse_root: u16,
    deficit: i64,
    active: bool,
}

/// Model of FQ-CoDel with a quantum of 1500 bytes, or of CoDel if there is only a single flow.
struct Model {
    law: Law,
    flows: Vec<Flow>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    event_log: Vec<Event>,
}

impl Model {
    fn new(law: Law, flows: usize) -> Self {
        let flows = vec![Flow::default(); flows];
        Self { law, flows, new: VecDeque::new(), old: VecDeque::new(), event_log: Vec::new() }
    }
}

impl Law {
    fn units(self, nanos: u64) -> u64 {
        if self.ticks { nanos >> 10 } else { nanos }
    }

    fn interval(self) -> u64 {
        self.units(100_000_000)
    }

    /// Performs a step of Newton's method for r = 1/sqrt(count): r ← r (3 - count r²) / 2.
    fn step(self, flow: &mut Flow) {
        let inverse = u64::from(flow.inverse_root);
        let twice = (3 << 32) - u64::from(flow.count) * inverse * inverse;
        flow.inverse_root = ((inverse * twice) >> 33) as u16;
    }

    fn gap(self, flow: &Flow) -> u64 {
        if self.newton {
            return (self.interval() * u64::from(flow.inverse_root)) >> 16;
        }
        (u128::from(self.interval()).pow(2) / u128::from(flow.count)).isqrt() as u64
    }

    fn ok_to_drop(self, flow: &mut Flow, now: u64, packet: Option<&Packet>) -> bool {
        let bytes: u64 = flow.packets.iter().map(|packet| u64::from(packet.len)).sum();
        let is_short = if self.one_is_long { bytes < 1500 } else { bytes <= 1500 };
        let waited = packet.map(|packet| now - packet.arrived.as_nanos());
        let now = self.units(now);
        if is_short || waited.is_none_or(|waited| self.units(waited) < self.units(5_000_000)) {
            flow.first_above_time = None;
            return false;
        }
        let at = *flow.first_above_time.get_or_insert(now + self.interval());
        if self.ticks { now > at } else { now >= at }
    }

    fn dequeue(self, flow: &mut Flow, at: Time, event_log: &mut Vec<Event>) -> Option<Packet> {
        let (nanos, now) = (at.as_nanos(), self.units(at.as_nanos()));
        let mut packet = flow.packets.pop_front();
        let Some(first) = packet else {
            flow.dropping = false;
            return None;
        };
        let ok = self.ok_to_drop(flow, nanos, packet.as_ref());
        if flow.dropping {
            flow.dropping = ok;
            while flow.dropping && now >= flow.drop_next {
                flow.count += 1;
                self.step(flow);
                event_log.extend(packet.map(|packet| Event::Dropped(at, packet.body)));
                packet = flow.packets.pop_front();
                flow.dropping = self.ok_to_drop(flow, nanos, packet.as_ref());
                if flow.dropping {
                    flow.drop_next += self.gap(flow);
                }
            }
        } else if ok {
            event_log.push(Event::Dropped(at, first.body));
            packet = flow.packets.pop_front();
            self.ok_to_drop(flow, nanos, packet.as_ref());
            flow.dropping = true;
            let delta = flow.count.wrapping_sub(flow.last_count);
            if delta > 1 && now < flow.drop_next + 16 * self.interval() {
                flow.count = delta;
                self.step(flow);
            } else {
                (flow.count, flow.inverse_root) = (1, u16::MAX);
            }
            flow.last_count = flow.count;
            flow.drop_next = now + self.gap(flow);
        }
        packet
    }
}

impl Driven for Model {
    fn arrives(&mut self, _now: Time, packet: Packet) {
        let number = usize::from(packet.flow) % self.flows.len();
        let flow = &mut self.flows[number];
        flow.packets.push_back(packet);
        if !std::mem::replace(&mut flow.active, true) {
            flow.deficit = 1500;
            self.new.push_back(number);
        }
    }

    fn poll(&mut self, now: Time) {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let Some(number) = list.pop_front() else { return };
            let flow = &mut self.flows[number];
            if flow.deficit <= 0 {
                flow.deficit += 1500;
                self.old.push_back(number);
            } else if let Some(packet) = self.law.dequeue(flow, now, &mut self.event_log) {
                flow.deficit -= i64::from(packet.len);
                self.event_log.push(Event::Departed(now, packet.body));
                return (if is_new { &mut self.new } else { &mut self.old }).push_front(number);
            } else if is_new {
                self.old.push_back(number);
            } else {
                flow.active = false;
            }
        }
    }

    fn events(self) -> Vec<Event> {
        self.event_log
    }
}

/// Returns the events of ns-3's queue, and the same number of events of `queue`.
fn both(log: &str, ecn: Ecn, mut queue: impl Driven) -> [Vec<Event>; 2] {
    let theirs = drive(log, ecn, &mut queue);
    let mut events = queue.events();
    events.truncate(theirs.len());
    [theirs, events]
}

fn same(log: &str, ecn: Ecn, queue: impl Driven) {
    let [theirs, events] = both(log, ecn, queue);
    let differs = theirs.iter().zip(&events).position(|(one, other)| one != other);
    assert_eq!((differs, events.len()), (None, theirs.len()));
}

fn drops(events: &[Event]) -> Vec<(Time, u32)> {
    events
        .iter()
        .filter_map(|event| if let Event::Dropped(at, it) = event { Some((*at, *it)) } else { None })
        .collect()
}

#[test]
fn the_step_marks_what_ns3_marks() {
    same(
        STEP,
        Ecn::ECT_0,
        ours("red:1000,min=20,max=21,weight=1,max_p=1,mean_packet=1500,wait=false,hard=false,ecn=true"),
    );
}

#[test]
fn codel_and_fq_codel_drop_what_ns3_drops_with_its_arithmetic() {
    same(CODEL, Ecn::NOT_ECT, Model::new(NS3, 1));
    same(FQ_CODEL, Ecn::NOT_ECT, Model::new(NS3, 8));
}

#[test]
fn without_any_one_of_the_three_fq_codel_does_not() {
    for law in [Law { newton: false, ..NS3 }, Law { ticks: false, ..NS3 }, Law { one_is_long: false, ..NS3 }]
    {
        let [theirs, events] = both(FQ_CODEL, Ecn::NOT_ECT, Model::new(law, 8));
        assert_ne!(drops(&theirs), drops(&events));
    }
}

#[test]
fn ours_drop_what_the_model_drops_with_the_arithmetic_of_the_rfc() {
    for (log, text, flows) in
        [(CODEL, "codel:1000,ecn=false", 1), (FQ_CODEL, "fq-codel:1000,ecn=false,quantum=1500B", 8)]
    {
        let [_, model] = both(log, Ecn::NOT_ECT, Model::new(RFC, flows));
        let [_, ours] = both(log, Ecn::NOT_ECT, ours(text));
        assert!(drops(&ours).len() > 20);
        assert_eq!(model, ours, "{text}");
    }
}

#[test]
fn linux_codel_drops_what_the_model_drops_with_the_arithmetic_of_linux() {
    let law = Law { one_is_long: false, ..NS3 };
    let [_, model] = both(CODEL, Ecn::NOT_ECT, Model::new(law, 1));
    let [_, ours] = both(CODEL, Ecn::NOT_ECT, ours("linux-codel:1001"));
    assert!(drops(&ours).len() > 20);
    assert_eq!(model, ours);
}
