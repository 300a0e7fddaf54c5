//! Invariants of ports and networks of ports: no packet is lost silently or reordered, and the time at which the host
//! wakes up does not matter.

use catnip_base::notation::Family;
use catnip_base::{Rate, Rng, Span, Stream, Time};
use catnip_net::jitter::JitterSpec;
use catnip_net::queue::{AnyQueue, DropTail, PortContext, QueueDiscipline, QueueKind, QueueSpec};
use catnip_net::shape::{AnyShaper, RateSpec, Shaper};
use catnip_net::stage::{StageKind, StageSpec};
use catnip_net::{
    ArqSpec, Backlog, DropReason, Dscp, Fabric, NetworkEvents, Next, NodeId, Out, OutageSpec, Packet,
    PacketEvents, Port, PortCounters, PortExtensions, PortId, Priority, Route, Topology, WireSpec,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::str::FromStr;

#[derive(Default)]
struct Log {
    dropped: Vec<(Time, PortId, u32, DropReason)>,
    /// Body of the original of each copy. The bodies of copies begin at [`COPIES`].
    copies: Vec<u32>,
}

const COPIES: u32 = 1 << 20;

impl Log {
    /// Returns the body of the original if `body` is a copy; otherwise returns `body`.
    fn original(&self, body: u32) -> u32 {
        if body < COPIES { body } else { self.original(self.copies[(body - COPIES) as usize]) }
    }
}

impl NetworkEvents for Log {
    fn dropped(&mut self, now: Time, at: PortId, packet: Packet, reason: DropReason) {
        self.dropped.push((now, at, packet.body, reason));
    }
    fn copied(&mut self, _now: Time, _at: PortId, packet: &Packet) -> Option<u32> {
        self.copies.push(packet.body);
        Some(COPIES + self.copies.len() as u32 - 1)
    }
}

fn read<T: FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

const TRACE: &str = "1\n1\n2\n7\n9\n9\n20\n";

fn rate(text: &str) -> RateSpec {
    RateSpec::read(text, |_| Ok(TRACE.into())).unwrap()
}

/// Returns links of all kinds: every queue on a wire without impairments, and some queues on impaired wires.
fn links() -> Vec<WireSpec> {
    let constant = Rate::from_bits_per_second(3_000_001).unwrap();
    let of = |queue| WireSpec::new(constant, Span::from_micros(11), queue);
    let jitter = || Some(read("exponential:2ms"));
    let after = vec![read("bernoulli:0.2")];
    let worse = |queue: &QueueSpec| {
        [
            WireSpec { rate: rate("trace:x"), ..of(queue.clone()) },
            WireSpec { rate: rate("steps:3Mbit,20ms=500kbit,90ms=9Mbit"), ..of(queue.clone()) },
            WireSpec { rate: rate("trace:x"), jitter: jitter(), after: after.clone(), ..of(queue.clone()) },
            WireSpec { jitter: jitter(), ..of(queue.clone()) },
            WireSpec { after: after.clone(), ..of(queue.clone()) },
            WireSpec { rate: RateSpec::Unlimited, jitter: jitter(), ..of(queue.clone()) },
            WireSpec { rate: RateSpec::Unlimited, ..of(queue.clone()) },
        ]
    };
    let arq = |text| Some(read::<ArqSpec>(text));
    let interrupted = |queue: &QueueSpec| {
        let outage = Some(read::<OutageSpec>("mean_up=9ms,mean_down=3ms"));
        let link_layer =
            arq("arq:loss=0.3,retry=2ms,tries=3,in_order=true").filter(|_| !queue.has_time_limit());
        let lossy = vec![read("outage:every=20ms,for=4ms")];
        [
            WireSpec { outage, ..of(queue.clone()) },
            WireSpec {
                outage,
                rate: rate("trace:x"),
                jitter: jitter(),
                after: lossy.clone(),
                ..of(queue.clone())
            },
            WireSpec { outage, rate: RateSpec::Unlimited, ..of(queue.clone()) },
            WireSpec { link_layer, ..of(queue.clone()) },
            WireSpec {
                link_layer,
                outage,
                jitter: jitter(),
                rate: rate("trace:x"),
                after: lossy,
                ..of(queue.clone())
            },
            WireSpec { link_layer, rate: RateSpec::Unlimited, ..of(queue.clone()) },
        ]
    };
    let queues = QueueSpec::examples();
    let worse: Vec<_> = queues[..4].iter().flat_map(worse).collect();
    let interrupted: Vec<_> = queues.iter().flat_map(interrupted).collect();
    let worse = worse.into_iter().chain(interrupted);
    queues.into_iter().map(of).chain(worse).collect()
}

/// Returns links that reorder or duplicate packets.
fn crooked_links() -> Vec<WireSpec> {
    let constant = Rate::from_bits_per_second(3_000_001).unwrap();
    let of = |queue| WireSpec::new(constant, Span::from_micros(11), queue);
    let jitter = || Some(read("exponential:2ms"));
    let queues = QueueSpec::examples().into_iter().filter(|queue| !queue.has_time_limit());
    let crooked = |queue: QueueSpec| {
        let after = |texts: &[&str]| texts.iter().map(|text| read(text)).collect::<Vec<_>>();
        let link_layer = Some(read("arq:loss=0.3,retry=2ms,tries=3"));
        let both = after(&[
            "duplicate:0.2",
            "reorder:0.3,by=5ms",
            "bernoulli:0.1",
            "duplicate:0.2",
            "reorder:0.2,by=2",
        ]);
        let outage = Some(read("every=20ms,for=4ms"));
        [
            WireSpec { after: after(&["reorder:0.3,by=3ms"]), ..of(queue.clone()) },
            WireSpec { after: after(&["reorder:0.3,by=2,within=20ms"]), ..of(queue.clone()) },
            WireSpec { after: after(&["duplicate:0.3", "corrupt:0.2"]), ..of(queue.clone()) },
            WireSpec { link_layer, ..of(queue.clone()) },
            WireSpec {
                link_layer,
                jitter: jitter(),
                outage,
                rate: rate("trace:x"),
                after: both.clone(),
                ..of(queue.clone())
            },
            WireSpec { rate: RateSpec::Unlimited, jitter: jitter(), after: both, ..of(queue) },
        ]
    };
    queues.flat_map(crooked).collect()
}

/// Returns two sources and a sink behind two routers, with the link under test in the middle.
fn network(bottleneck: WireSpec) -> (Topology, [NodeId; 2], NodeId) {
    let mut topology = Topology::default();
    let sources = [topology.host("a"), topology.host("b")];
    let sink = topology.host("sink");
    let (left, right) = (topology.router("left"), topology.router("right"));
    let link = |rate, delay_us| {
        let rate = Rate::from_bits_per_second(rate).unwrap();
        WireSpec::new(rate, Span::from_micros(delay_us), read("drop-tail:100"))
    };
    topology.link(sources[0], left, link(8_000_000, 3), link(8_000_000, 3));
    topology.link(sources[1], left, link(7_000_000, 0), link(7_000_000, 0));
    topology.link(left, right, bottleneck.clone(), bottleneck);
    topology.link(right, sink, link(5_000_000, 0), link(5_000_000, 0));
    (topology, sources, sink)
}

/// Port from the right router to the sink.
const LAST_PORT: PortId = PortId(6);

#[derive(Clone, Debug)]
struct Arrival {
    at: Time,
    source: usize,
    len: u32,
    dscp: Dscp,
    flow: u16,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    // Packets of three classes, two of which have all priorities, and unmarked packets. The packets of a class and a source are one
    // connection.
    let marks = [10, 12, 14, 18, 20, 22, 26, 0].map(Dscp::new);
    let one = (0u64..3_000_000, 0usize..2, 40u32..1500, prop::sample::select(marks.to_vec()));
    prop::collection::vec(one, 1..150).prop_map(|steps| {
        let mut at = Time::ZERO;
        let index = |(gap, source, len, dscp): (u64, usize, u32, Dscp)| {
            at += Span::from_nanos(gap);
            Arrival { at, source, len, dscp, flow: (source as u16) << 8 | u16::from(dscp.codepoint() >> 3) }
        };
        steps.into_iter().map(index).collect()
    })
}

/// Returns the identifier of the FIFO within a queue that a packet joins. Packets of the same FIFO do not overtake each other.
fn line_of(queue: &QueueSpec, arrival: &Arrival) -> (usize, u16) {
    let number = match queue {
        QueueSpec::Scheduler(_)
        | QueueSpec::FqCodel(_)
        | QueueSpec::LinuxFqCodel(_)
        | QueueSpec::FqPie(_) => arrival.flow,
        // A connection has a queue in each tin.
        QueueSpec::Cake(_) => arrival.dscp.codepoint().into(),
        QueueSpec::Wrr(_) if arrival.dscp.class() == Some(1) => 1 + arrival.dscp.priority() as u16,
        QueueSpec::Wrr(_) if arrival.dscp.class() == Some(3) => 9,
        QueueSpec::Shaper(_) => arrival.dscp.priority() as u16,
        _ => 0,
    };
    (arrival.source, number)
}

type Deliveries = Vec<(Time, NodeId, u32)>;

/// Offers the arrivals to a network on a host that wakes up late by random amounts up to `lateness`.
fn offer(
    bottleneck: &WireSpec,
    arrivals: &[Arrival],
    lateness: Span,
    seed: u64,
) -> (Deliveries, Log, Fabric) {
    let (topology, sources, sink) = network(bottleneck.clone());
    let mut fabric = Fabric::new(&topology, seed);
    let (mut log, mut out) = (Log::default(), Vec::new());
    let mut drowsy = Rng::new(99, Stream::Workload(7));
    let routes: Vec<_> = sources.iter().map(|&source| fabric.route(source, sink).unwrap()).collect();
    let mut drain = |fabric: &mut Fabric, now: Time, log: &mut Log| {
        while let Out::Deliver(packet) = fabric.poll(now, log) {
            assert!(packet.arrived <= now, "a delivery from the future");
            out.push((packet.arrived, packet.route.destination(), packet.body));
        }
    };
    let mut clock = Time::ZERO;
    for (body, arrival) in arrivals.iter().enumerate() {
        if lateness == Span::ZERO || drowsy.chance(0.5) {
            let late = Span::from_nanos((lateness.as_nanos() as f64 * drowsy.uniform()) as u64);
            clock = clock.max(Time::from_nanos(arrival.at.as_nanos().saturating_sub(late.as_nanos())));
            drain(&mut fabric, clock, &mut log);
        }
        clock = arrival.at;
        let packet = Packet {
            dscp: arrival.dscp,
            flow: arrival.flow,
            ..Packet::new(arrival.at, routes[arrival.source], arrival.len, body as u32)
        };
        fabric.arrive(arrival.at, sources[arrival.source], packet, &mut log);
    }
    drain(&mut fabric, arrivals.last().unwrap().at + Span::from_secs(10), &mut log);
    (out, log, fabric)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_comes_out_in_order_or_is_reported_dropped(arrivals in arrivals(), seed in 0u64..1000) {
        for link in links() {
            let loss = "gilbert-elliott:to_bad=0.1,to_good=0.4,loss_good=0.01,loss_bad=0.6";
            let link = WireSpec { before: vec![read(loss)], ..link };
            let (out, log, fabric) = offer(&link, &arrivals, Span::ZERO, seed);
            let mut seen: Vec<u32> = out.iter().map(|d| d.2).chain(log.dropped.iter().map(|d| d.2)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..arrivals.len() as u32).collect::<Vec<_>>(), "each exactly once: {:?}", link);
            let mut last = BTreeMap::new();
            for &(_, _, body) in &out {
                let before = last.insert(line_of(&link.queue, &arrivals[body as usize]), body);
                prop_assert!(before < Some(body), "who stands in the same line keeps its order: {:?}", link);
            }
            prop_assert!(out.is_sorted_by_key(|d| d.0), "time does not go back");
            prop_assert_eq!(fabric.packets_inside(), 0);
            let delivered = fabric.counters(LAST_PORT).delivered;
            prop_assert_eq!(delivered as usize, out.len(), "the counters say the same");
            let dropped: u64 = (0..8).map(|port| fabric.counters(PortId(port)).dropped.iter().flatten().sum::<u64>()).sum();
            prop_assert_eq!(dropped as usize, log.dropped.len());
        }
    }

    #[test]
    fn out_of_order_or_not_every_packet_comes_out_as_often_as_it_was_copied_and_once_more_or_is_reported_dropped(
        arrivals in arrivals(), seed in 0u64..1000
    ) {
        for link in crooked_links() {
            let (out, log, fabric) = offer(&link, &arrivals, Span::ZERO, seed);
            let mut seen: Vec<u32> = out.iter().map(|d| d.2).chain(log.dropped.iter().map(|d| d.2)).collect();
            seen.sort_unstable();
            let copies = COPIES..COPIES + log.copies.len() as u32;
            prop_assert_eq!(seen, (0..arrivals.len() as u32).chain(copies).collect::<Vec<_>>(), "each exactly once: {:?}", link);
            prop_assert!(out.is_sorted_by_key(|d| d.0), "time does not go back");
            prop_assert_eq!(fabric.packets_inside(), 0);
            let ports = (0..8).map(|port| fabric.counters(PortId(port)));
            let all = ports.sum::<PortCounters>();
            prop_assert_eq!(all.dropped.iter().flatten().sum::<u64>() as usize, log.dropped.len());
            prop_assert_eq!(all.duplicated as usize, log.copies.len());
            prop_assert_eq!(all.arrived.iter().sum::<u64>() + all.duplicated, all.delivered + log.dropped.len() as u64);
            let last = fabric.counters(LAST_PORT);
            prop_assert_eq!(last.delivered as usize, out.len(), "the counters say the same");
            let len = |d: &(Time, NodeId, u32)| u64::from(arrivals[log.original(d.2) as usize].len);
            prop_assert_eq!(last.delivered_bytes, out.iter().map(len).sum::<u64>());
        }
    }

    #[test]
    fn departures_do_not_depend_on_when_the_host_wakes_up(arrivals in arrivals(), seed in 0u64..1000, late_us in 1u64..20_000) {
        does_not_depend_on_the_host(links(), &arrivals, seed, late_us)?;
    }

    #[test]
    fn departures_from_crooked_links_do_not_depend_on_when_the_host_wakes_up(arrivals in arrivals(), seed in 0u64..1000, late_us in 1u64..20_000) {
        does_not_depend_on_the_host(crooked_links(), &arrivals, seed, late_us)?;
    }
}

/// Offers the same arrivals to each link twice and compares the results. The host wakes up in time in the first run, and late by up to
/// `late_us` microseconds in the second run.
fn does_not_depend_on_the_host(
    links: Vec<WireSpec>,
    arrivals: &[Arrival],
    seed: u64,
    late_us: u64,
) -> Result<(), TestCaseError> {
    for link in links {
        let prompt = offer(&link, arrivals, Span::ZERO, seed);
        let late = offer(&link, arrivals, Span::from_micros(late_us), seed);
        prop_assert_eq!(prompt.0, late.0, "deliveries: {:?}", link);
        prop_assert_eq!(prompt.1.dropped, late.1.dropped, "drops: {:?}", link);
        prop_assert_eq!(prompt.1.copies, late.1.copies, "copies: {:?}", link);
    }
    Ok(())
}

/// Queue without [`QueueDiscipline::fifo_limit`] and [`QueueDiscipline::pass`], so that a port does not compute departures at arrival and
/// enqueues each packet.
#[derive(Debug)]
struct Opaque<Q>(Q);

impl<Q: QueueDiscipline> QueueDiscipline for Opaque<Q> {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        self.0.enqueue(now, packet, events);
    }
    fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        self.0.dequeue(now, events)
    }
    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}

/// Drop-tail that holds all packets back until a given time.
#[derive(Debug)]
struct Gate(DropTail, Time);

impl QueueDiscipline for Gate {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        self.0.enqueue(now, packet, events);
    }
    fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        if now < self.1 { None } else { self.0.dequeue(now, events) }
    }
    fn wake_at(&self) -> Option<Time> {
        (self.0.backlog().packets > 0).then_some(self.1)
    }
    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}

#[derive(Default)]
struct Lost(Vec<(Time, u32)>);

impl PacketEvents for Lost {
    fn dropped(&mut self, now: Time, packet: Packet, _reason: DropReason) {
        self.0.push((now, packet.body));
    }
}

proptest! {
    #[test]
    fn a_port_that_counts_does_what_a_port_with_a_queue_does(
        arrivals in arrivals(), rate in 0usize..4, waiting in 1u32..6, delay_us in 0u64..5000
    ) {
        let wire = || rates()[rate].build();
        let waiting = NonZeroU32::new(waiting).unwrap();
        let counting = Port::new(DropTail::new(waiting), wire(), Span::from_micros(delay_us));
        let queueing = Port::new(Opaque(DropTail::new(waiting)), wire(), Span::from_micros(delay_us));
        behave_alike(counting, queueing, &arrivals)?;
    }

    #[test]
    fn a_packet_that_passes_an_idle_fq_codel_leaves_it_as_one_that_is_enqueued(
        arrivals in arrivals(), rate in 0usize..4, delay_us in 0u64..5000, limit in 0usize..3
    ) {
        let rate = &rates()[rate];
        let limit = ["3", "2KB", "100"][limit];
        let queue = || build(&read(&format!("fq-codel:{limit},flows=2,target=1ms,interval=5ms,quantum=400B")), rate);
        let passing = Port::new(queue(), rate.build(), Span::from_micros(delay_us));
        let queueing = Port::new(Opaque(queue()), rate.build(), Span::from_micros(delay_us));
        behave_alike(passing, queueing, &arrivals)?;
    }
}

/// Offers the same packets, of three flows, to both ports and compares deliveries, drops and counters.
fn behave_alike<A: QueueDiscipline, B: QueueDiscipline>(
    mut one: Port<A, AnyShaper>,
    mut other: Port<B, AnyShaper>,
    arrivals: &[Arrival],
) -> Result<(), TestCaseError> {
    let (mut lost, mut out) = ([Lost::default(), Lost::default()], [Vec::new(), Vec::new()]);
    let end = arrivals.last().unwrap().at + Span::from_secs(10);
    let steps = arrivals.iter().map(Some).chain([None]);
    for (body, arrival) in steps.enumerate() {
        let at = arrival.map_or(end, |arrival| arrival.at);
        while let Next::Deliver(at, packet) = one.poll(at, &mut lost[0]) {
            out[0].push((at, packet.body));
        }
        while let Next::Deliver(at, packet) = other.poll(at, &mut lost[1]) {
            out[1].push((at, packet.body));
        }
        if let Some(arrival) = arrival {
            let packet = Packet::new(at, Route::default(), arrival.len, body as u32);
            let packet = Packet { flow: arrival.flow, ..packet };
            one.arrive(at, packet, &mut lost[0]);
            other.arrive(at, packet, &mut lost[1]);
        }
        // A port that computes departures at arrival counts waiting packets and their queueing delays as started.
        let known = |counters| PortCounters { started: 0, waited: Span::ZERO, ..counters };
        prop_assert_eq!(known(one.counters()), known(other.counters()));
        prop_assert_eq!(one.backlog(), other.backlog());
    }
    prop_assert_eq!(one.counters(), other.counters());
    prop_assert_eq!(&out[0], &out[1]);
    prop_assert_eq!(&lost[0].0, &lost[1].0);
    Ok(())
}

#[test]
fn packets_wait_for_those_before_them_and_not_for_their_own_transmission() {
    // 1000 bytes take a millisecond. The third packet arrives while the second one is in transmission. Of four simultaneous packets, the
    // last one finds the buffer full and does not count.
    let wire = || rate("8Mbit").build();
    let arrivals_us = [0, 0, 1500, 5000, 5000, 5000, 5000];
    let waited_us = 1000 + 500 + (1000 + 2000);
    let run = |port: &mut dyn FnMut(Time, Option<Packet>) -> PortCounters| {
        for (at, body) in arrivals_us.map(|us| Time::ZERO + Span::from_micros(us)).into_iter().zip(0..) {
            port(at, Some(Packet::new(at, Route::default(), 1000, body)));
        }
        port(Time::ZERO + Span::from_secs(1), None)
    };
    let two = NonZeroU32::new(2).unwrap();
    let mut counting = Port::new(DropTail::new(two), wire(), Span::from_millis(5));
    let mut queueing = Port::new(Opaque(DropTail::new(two)), wire(), Span::from_millis(5));
    let counters = [
        run(&mut |at, packet| step(&mut counting, at, packet)),
        run(&mut |at, packet| step(&mut queueing, at, packet)),
    ];
    for counters in counters {
        assert_eq!((counters.started, counters.delivered), (6, 6));
        assert_eq!(counters.waited, Span::from_micros(waited_us));
    }
}

/// Processes all events up to `at`. A packet then arrives at `at`.
fn step<Q: QueueDiscipline, S: Shaper>(
    port: &mut Port<Q, S>,
    at: Time,
    packet: Option<Packet>,
) -> PortCounters {
    while let Next::Deliver(..) = port.poll(at, &mut Lost::default()) {}
    packet.into_iter().for_each(|packet| port.arrive(at, packet, &mut Lost::default()));
    port.counters()
}

/// Returns a rate of each kind.
fn rates() -> [RateSpec; 4] {
    ["3000001bit", "steps:3Mbit,20ms=500kbit,90ms=9Mbit", "trace:x", "unlimited"].map(rate)
}

/// Builds the queue of port 0 with this line rate, in a run with seed 1.
fn build(queue: &QueueSpec, rate: &RateSpec) -> AnyQueue {
    queue.build(&PortContext::new(rate, 1, 0))
}

/// Buffer limit that is not in packets.
#[derive(Clone, Copy, Debug)]
enum Buffer {
    Bytes(u64),
    Wait(Span),
}

/// Returns true if an arriving packet fits into the buffer, given all packets accepted so far: (end of transmission, bytes).
fn fits(buffer: Buffer, at: Time, len: u32, accepted: &[(Time, u32)]) -> bool {
    match buffer {
        Buffer::Bytes(limit) => {
            let inside: u64 =
                accepted.iter().filter(|(end, _)| *end > at).map(|(_, len)| u64::from(*len)).sum();
            inside + u64::from(len) <= limit
        }
        Buffer::Wait(limit) => accepted.last().is_none_or(|(end, _)| end.since(at) <= limit),
    }
}

proptest! {
    #[test]
    fn buffers_measured_in_bytes_or_time_drop_exactly_what_does_not_fit(
        arrivals in arrivals(), rate in 0usize..4, bytes in 1u64..6000, wait_us in 1u64..20_000
    ) {
        let rate = &rates()[rate];
        let wait = Span::from_micros(wait_us);
        // With packets of one priority and AQM algorithms that never act, every discipline is a FIFO.
        let never = "min=1MB,max=2MB";
        let fifos = [
            format!("drop-tail:{bytes}B"), format!("catnip-good:{bytes}B"), format!("catnip-bad:{bytes}B"),
            format!("red:{bytes}B,{never}"), format!("catnip-red:{bytes}B,{never}"),
            format!("codel:{bytes}B,target=10000s,interval=10000s"), format!("shaper:{bytes}B,high=1bit/1B"),
            format!("scheduler:{bytes}B,high=1bit/1B"), format!("wrr:rest=1(catnip-good:{bytes}B)"),
        ];
        let fifos = fifos.into_iter().map(|queue| (Buffer::Bytes(bytes), queue));
        for (buffer, queue) in fifos.chain([(Buffer::Wait(wait), format!("drop-tail:{wait}"))]) {
            let mut port = Port::new(build(&read(&queue), rate), rate.build(), Span::ZERO);
            let mut wire = rate.build();
            let (mut lost, mut accepted, mut dropped) = (Lost::default(), Vec::new(), Vec::new());
            let mut out = Vec::new();
            for (body, arrival) in arrivals.iter().enumerate() {
                let (at, body) = (arrival.at, body as u32);
                if fits(buffer, at, arrival.len, &accepted) {
                    let free_at = accepted.last().map_or(Time::ZERO, |last: &(Time, u32)| last.0);
                    accepted.push((wire.finish(at.max(free_at), arrival.len), arrival.len));
                } else {
                    dropped.push((at, body));
                }
                let packet = Packet::new(at, Route::default(), arrival.len, body);
                port.arrive(at, packet, &mut lost);
                while let Next::Deliver(at, packet) = port.poll(at, &mut lost) {
                    out.push((at, packet.len));
                }
            }
            while let Next::Deliver(at, packet) = port.poll(Time::from_nanos(u64::MAX / 2), &mut lost) {
                out.push((at, packet.len));
            }
            prop_assert_eq!(&lost.0, &dropped, "{:?}", queue);
            prop_assert_eq!(&out, &accepted, "{:?}", queue);
        }
    }
}

fn send(port: &mut Port<AnyQueue, AnyShaper>, at_us: u64, len: u32, body: u32, events: &mut Lost) {
    let arrived = Time::from_nanos(at_us * 1000);
    port.arrive(arrived, Packet::new(arrived, Route::default(), len, body), events);
}

#[test]
fn limits_in_bytes_and_in_time_by_hand() {
    // 1000 bytes take 1 ms.
    let rate: RateSpec = Rate::from_bits_per_second(8_000_000).unwrap().into();
    let port = |queue: &str| Port::new(build(&read(queue), &rate), rate.build(), Span::ZERO);
    let (mut by_bytes, mut lost) = (port("drop-tail:2500B"), Lost::default());
    for (body, (at_us, len)) in
        [(0, 1000), (0, 1000), (0, 501), (0, 500), (999, 1), (1000, 1000)].into_iter().enumerate()
    {
        send(&mut by_bytes, at_us, len, body as u32, &mut lost);
    }
    let bodies = |lost: &Lost| lost.0.iter().map(|lost| lost.1).collect::<Vec<_>>();
    assert_eq!(bodies(&lost), [2, 4], "the first packet keeps its place until its last bit has left");

    let (mut by_wait, mut lost) = (port("drop-tail:2ms"), Lost::default());
    for (body, (at_us, len)) in
        [(0, 1000), (0, 1000), (0, 1), (0, 1), (1, 1), (1, 1), (2, 1)].into_iter().enumerate()
    {
        send(&mut by_wait, at_us, len, body as u32, &mut lost);
    }
    assert_eq!(bodies(&lost), [3, 5], "2 ms are no longer than 2 ms, 2.001 ms are");
}

#[test]
fn a_queue_that_holds_packets_back_is_asked_again_when_it_wants_to_be() {
    let rate: RateSpec = Rate::from_bits_per_second(8_000_000).unwrap().into();
    let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
    let mut port =
        Port::new(Gate(DropTail::new(10.try_into().unwrap()), ms(50)), rate.build(), Span::from_millis(5));
    let mut lost = Lost::default();
    assert_eq!(port.next_at(), None);
    (0..2).for_each(|body| port.arrive(ms(0), Packet::new(ms(0), Route::default(), 1000, body), &mut lost));
    assert_eq!(port.poll(ms(49), &mut lost), Next::Wait(ms(50)));
    assert_eq!(
        port.poll(ms(50), &mut lost),
        Next::Wait(ms(56)),
        "it leaves then, and arrives after 1 ms and 5 ms"
    );
    for (at, body) in [(56, 0), (57, 1)] {
        let Next::Deliver(arrives, packet) = port.poll(ms(at), &mut lost) else { panic!("due at {at} ms") };
        assert_eq!((arrives, packet.body), (ms(at), body));
    }
    assert_eq!(port.poll(ms(57), &mut lost), Next::Idle);
}

#[test]
fn a_port_with_jitter_delays_each_packet_as_long_as_chance_wants() {
    let rate = RateSpec::Unlimited;
    let jitter = read::<JitterSpec>("uniform:5ms").build(Rng::new(1, Stream::Jitter(0)));
    let extras = PortExtensions { jitter: Some(jitter), ..PortExtensions::default() };
    let queue = build(&read("drop-tail:10"), &rate);
    let mut port = Port::with_extensions(queue, rate.build(), Span::from_millis(20), extras);
    let mut lost = Lost::default();
    let delays = (0..100).map(|n| {
        let sent = n * 1_000_000;
        send(&mut port, sent, 1000, 0, &mut lost);
        let Next::Deliver(at, _) = port.poll(Time::NEVER, &mut lost) else { panic!("all arrive") };
        (at.as_nanos() - sent * 1000) / 1_000_000
    });
    let delays: std::collections::BTreeSet<u64> = delays.collect();
    assert_eq!(
        delays.into_iter().collect::<Vec<_>>(),
        (15..25).collect::<Vec<_>>(),
        "milliseconds, rounded down"
    );
}

#[test]
fn a_packet_lost_on_the_wire_took_its_time_on_it() {
    let rate: RateSpec = Rate::from_bits_per_second(8_000_000).unwrap().into();
    let loss = read::<StageSpec>("packets:1,3").build(Rng::new(1, Stream::After(0, 0)));
    let extras = PortExtensions { after: vec![loss], ..PortExtensions::default() };
    let queue = build(&read("drop-tail:10"), &rate);
    let mut port = Port::with_extensions(queue, rate.build(), Span::from_millis(5), extras);
    let mut lost = Lost::default();
    (0..3).for_each(|body| send(&mut port, 0, 1000, body, &mut lost));
    let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
    assert_eq!(port.poll(ms(0), &mut lost), Next::Wait(ms(6)), "also a loss is an event");
    let Next::Deliver(at, packet) = port.poll(ms(100), &mut lost) else { panic!("the second one arrives") };
    assert_eq!((at, packet.body), (ms(7), 1));
    assert_eq!(port.poll(ms(100), &mut lost), Next::Idle);
    assert_eq!(lost.0, [(ms(6), 0), (ms(8), 2)]);
    let counters = port.counters();
    assert_eq!((counters.delivered, counters.dropped_of(Priority::Low)), (1, 2));
}

#[test]
fn a_link_of_pure_delay_delays_and_does_nothing_else() {
    let rate = RateSpec::Unlimited;
    for queue in ["drop-tail:2", "drop-tail:1000B"] {
        let mut port = Port::new(build(&read(queue), &rate), rate.build(), Span::from_millis(5));
        let mut lost = Lost::default();
        (0..100).for_each(|body| send(&mut port, u64::from(body / 10), 1000, body, &mut lost));
        for body in 0..100 {
            let Next::Deliver(at, packet) = port.poll(Time::NEVER, &mut lost) else { panic!("all arrive") };
            assert_eq!((at, packet.body), (Time::from_nanos(5_000_000 + u64::from(body / 10) * 1000), body));
        }
        assert_eq!(lost.0, []);
    }
}

#[test]
fn an_m_d_1_queue_waits_as_long_as_theory_says() {
    // Poisson arrivals of 512-byte packets at 1 Mbit/s: mean wait = rho s / (2 (1 - rho)).
    for rho in [0.3, 0.6, 0.8] {
        let service_s = 512.0 * 8.0 / 1e6;
        let mut topology = Topology::default();
        let (a, b) = (topology.host("a"), topology.host("b"));
        let rate = Rate::from_bits_per_second(1_000_000).unwrap();
        let wire = WireSpec::new(rate, Span::ZERO, read("drop-tail:1000000"));
        topology.link(a, b, wire.clone(), wire);
        let mut fabric = Fabric::new(&topology, 1);
        let route = fabric.route(a, b).unwrap();
        let mut rng = Rng::new(5, Stream::Workload((rho * 10.0) as u32));
        let (mut log, mut at, mut sent) = (Log::default(), Time::ZERO, Vec::new());
        let (batches, per_batch) = (50, 20_000);
        let mut waits = Vec::new();
        let take = |fabric: &mut Fabric, now: Time, sent: &[Time], waits: &mut Vec<f64>, log: &mut Log| {
            while let Out::Deliver(packet) = fabric.poll(now, log) {
                waits.push((packet.arrived - sent[packet.body as usize]).as_secs() - service_s);
            }
        };
        for body in 0..batches * per_batch {
            at += Span::from_secs_f64(rng.exponential(service_s / rho));
            take(&mut fabric, at, &sent, &mut waits, &mut log);
            sent.push(at);
            let packet = Packet::new(at, route, 512, body);
            fabric.arrive(at, a, packet, &mut log);
        }
        take(&mut fabric, at + Span::from_secs(1000), &sent, &mut waits, &mut log);
        let means: Vec<f64> = waits
            .chunks(per_batch as usize)
            .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
            .collect();
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (means.len() - 1) as f64;
        let error = (variance / means.len() as f64).sqrt();
        let theory = rho * service_s / (2.0 * (1.0 - rho));
        assert!((mean - theory).abs() < 4.0 * error, "rho {rho}: {mean} +- {error}, theory {theory}");
        let busy = 512.0 * 8.0 * waits.len() as f64 / 1e6 / at.as_secs();
        assert!((busy - rho).abs() < 0.01, "utilization {busy}, offered {rho}");
    }
}
