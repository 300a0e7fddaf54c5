//! Tests of networks of ports with results worked out by hand: times and places of arrivals, order of simultaneous events, notifications of
//! the host, and independence of the times at which the host polls.

use catnip_base::{Rate, Rng, Span, Stream, Time};
use catnip_net::stage;
use catnip_net::{
    DropReason, Fabric, NetworkEvents, NodeId, Out, Packet, PortId, Priority, Topology, WireSpec,
};
use proptest::prelude::*;

/// Parses the notation of a kind.
fn read<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// Returns a link on which 1000 bytes take `transmission_ms`, with a propagation delay of `delay_ms`.
fn wire(transmission_ms: u64, delay_ms: u64, limit: u32) -> WireSpec {
    let rate = Rate::from_bits_per_second(8_000_000 / transmission_ms).unwrap();
    WireSpec::new(rate, Span::from_millis(delay_ms), read(&format!("drop-tail:{limit}")))
}

/// Notifications of a network to its host: (milliseconds, event, port, packet).
#[derive(Default)]
struct Log(Vec<(u64, &'static str, u32, u32)>);

impl Log {
    fn add(&mut self, now: Time, kind: &'static str, at: PortId, packet: &Packet) {
        self.0.push((millis(now), kind, at.0, packet.body));
    }

    fn count(&self, kind: &str) -> usize {
        self.0.iter().filter(|entry| entry.1 == kind).count()
    }
}

impl NetworkEvents for Log {
    fn dropped(&mut self, now: Time, at: PortId, packet: Packet, reason: DropReason) {
        self.add(now, DropReason::NAMES[reason as usize].1, at, &packet);
    }
    fn entered(&mut self, now: Time, at: PortId, packet: &Packet) {
        self.add(now, "entered", at, packet);
    }
    fn passed(&mut self, now: Time, at: PortId, packet: &Packet) {
        self.add(now, "passed", at, packet);
    }
}

fn ms(n: u64) -> Time {
    Time::ZERO + Span::from_millis(n)
}

fn millis(at: Time) -> u64 {
    assert_eq!(at.as_nanos() % 1_000_000, 0, "{at} is no whole millisecond");
    at.as_nanos() / 1_000_000
}

/// Network with its notifications and deliveries: (milliseconds, host, packet).
struct Net {
    fabric: Fabric,
    log: Log,
    delivered: Vec<(u64, NodeId, u32)>,
    next_body: u32,
}

impl Net {
    fn new(topology: &Topology) -> Self {
        let fabric = Fabric::new(topology, 1);
        Self { fabric, log: Log::default(), delivered: Vec::new(), next_body: 0 }
    }

    /// Sends 1000 bytes without polling first. Packets are numbered from 0.
    fn send(&mut self, at: u64, from: NodeId, to: NodeId) -> u32 {
        let body = self.next_body;
        self.next_body += 1;
        let route = self.fabric.route(from, to).expect("the test has made a way");
        let packet = Packet::new(Time::ZERO, route, 1000, body);
        self.fabric.arrive(ms(at), from, packet, &mut self.log);
        body
    }

    /// Takes all deliveries up to `until`, and returns the next event that the network reports.
    fn run(&mut self, until: u64) -> Out {
        loop {
            match self.fabric.poll(ms(until), &mut self.log) {
                Out::Deliver(packet) => {
                    self.delivered.push((millis(packet.arrived), packet.route.destination(), packet.body));
                }
                out => return out,
            }
        }
    }

    fn dropped(&self) -> usize {
        self.log.count("overflow") + self.log.count("loss")
    }
}

/// Returns two hosts with a router between them: ports 0 and 1 to and from the first host, 2 and 3 from and to the router.
fn line(first: WireSpec, second: WireSpec) -> (Topology, NodeId, NodeId) {
    let mut topology = Topology::default();
    let (a, b, router) = (topology.host("a"), topology.host("b"), topology.router("r"));
    topology.link(a, router, first.clone(), first);
    topology.link(router, b, second.clone(), second);
    (topology, a, b)
}

/// Returns hosts a, b and c around a router. Ports 0, 2 and 4 lead to the router, ports 1, 3 and 5 to the hosts.
fn star(wire: WireSpec) -> (Topology, [NodeId; 3]) {
    let mut topology = Topology::default();
    let hosts = ["a", "b", "c"].map(|name| topology.host(name));
    let router = topology.router("r");
    topology.links(hosts.map(|host| (host, router)), wire.clone(), wire);
    (topology, hosts)
}

#[test]
fn a_packet_takes_transmission_and_propagation_on_each_link() {
    let (topology, a, b) = line(wire(1, 5, 10), wire(2, 20, 10));
    let mut net = Net::new(&topology);
    assert_eq!(net.run(100), Out::Idle);
    net.send(100, a, b);
    // The packet takes 1 + 5 ms to the router, which then has the whole packet, and 2 + 20 ms to the host.
    assert_eq!(net.run(100), Out::Wait(ms(106)));
    assert_eq!(net.run(127), Out::Wait(ms(128)));
    assert_eq!(net.run(128), Out::Idle);
    assert_eq!(net.delivered, [(128, b, 0)]);
}

#[test]
fn a_host_takes_up_to_its_processing_time_for_each_packet_in_order_and_with_no_further_event() {
    let arrivals = |up_to: Span| {
        let (mut topology, a, b) = line(wire(1, 5, 10), wire(1, 20, 100));
        topology.set_processing(b, up_to);
        let mut fabric = Fabric::new(&topology, 1);
        let route = fabric.route(a, b).unwrap();
        let (mut arrived, mut waits) = (Vec::new(), 0);
        for body in 0..1000 {
            // One packet per millisecond, which is as many as the links carry.
            fabric.arrive(
                ms(body),
                a,
                Packet::new(Time::ZERO, route, 1000, body as u32),
                &mut Drops::default(),
            );
        }
        loop {
            match fabric.poll(Time::from_nanos(waits), &mut Drops::default()) {
                Out::Deliver(packet) => arrived.push((packet.body, packet.arrived)),
                Out::Wait(at) => waits = at.as_nanos(),
                Out::Idle => return arrived,
            }
        }
    };
    let (plain, random) = (arrivals(Span::ZERO), arrivals(Span::from_micros(1500)));
    assert_eq!(plain.len(), 1000);
    assert!(random.is_sorted_by_key(|&(body, _)| body) && random.is_sorted_by_key(|&(_, at)| at));
    let took = |((_, before), (_, after)): (&(u32, Time), &(u32, Time))| *after - *before;
    let times: Vec<Span> = plain.iter().zip(&random).map(took).collect();
    // A packet that would overtake the one before it waits for it: no longer than the longest time.
    assert!(times.iter().all(|&time| time <= Span::from_micros(1500)));
    assert!(times.iter().filter(|&&time| time > Span::from_micros(750)).count() > 400);
    assert_eq!(arrivals(Span::ZERO), plain);
    assert_eq!(arrivals(Span::from_micros(1500)), random, "the same seed, the same times");
}

#[test]
fn packets_wait_their_turn_and_a_slow_link_spaces_them() {
    let (topology, a, b) = line(wire(1, 5, 10), wire(4, 20, 10));
    let mut net = Net::new(&topology);
    (0..3).for_each(|_| _ = net.send(0, a, b));
    net.run(1000);
    // Packets reach the router after 6, 7 and 8 ms, and leave the router 4 ms apart.
    assert_eq!(net.delivered, [(30, b, 0), (34, b, 1), (38, b, 2)]);
}

#[test]
fn a_host_hears_of_every_port_that_a_packet_enters_and_leaves() {
    let (topology, a, b) = line(wire(1, 5, 10), wire(2, 20, 10));
    let mut net = Net::new(&topology);
    net.send(0, a, b);
    net.run(1000);
    let story = [(0, "entered", 0, 0), (6, "passed", 0, 0), (6, "entered", 2, 0), (28, "passed", 2, 0)];
    assert_eq!(net.log.0, story);
}

#[test]
fn what_overflows_is_told_at_once_and_where() {
    // A limit of two includes the packet in transmission.
    let (topology, a, b) = line(wire(1, 5, 10), wire(4, 20, 2));
    let mut net = Net::new(&topology);
    (0..4).for_each(|_| _ = net.send(0, a, b));
    net.run(1000);
    // Packets reach the router after 6, 7, 8 and 9 ms; the first one leaves it at 10 ms.
    assert_eq!(net.delivered, [(30, b, 0), (34, b, 1)]);
    let overflows: Vec<_> = net.log.0.iter().filter(|entry| entry.1 == "overflow").collect();
    assert_eq!(overflows, [&(8, "overflow", 2, 2), &(9, "overflow", 2, 3)]);
    let counters = net.fabric.counters(PortId(2));
    assert_eq!((counters.arrived[Priority::Low as usize], counters.delivered), (4, 2));
    assert_eq!((counters.delivered_bytes, counters.dropped_of(Priority::Low)), (2000, 2));
    assert_eq!(net.fabric.counters(PortId(0)).delivered, 4);
}

#[test]
fn a_place_is_free_when_the_last_bit_has_left() {
    let (topology, a, b) = line(wire(1, 0, 2), wire(1, 0, 10));
    let mut net = Net::new(&topology);
    // One packet is in transmission and one waits. The wire is free at 1 ms, so that a packet that arrives at 1 ms finds space.
    (0..3).for_each(|_| _ = net.send(0, a, b));
    (0..2).for_each(|_| _ = net.send(1, a, b));
    net.run(1000);
    assert_eq!(net.delivered, [(2, b, 0), (3, b, 1), (4, b, 3)]);
    assert!(net.log.0.contains(&(0, "overflow", 0, 2)) && net.log.0.contains(&(1, "overflow", 0, 4)));
}

#[test]
fn ties_at_a_router_go_to_the_packet_that_was_sent_first() {
    for order in [[0, 1], [1, 0]] {
        let (topology, hosts) = star(wire(1, 5, 10));
        let mut net = Net::new(&topology);
        // Both packets reach the router after 6 ms.
        for host in order {
            net.send(0, hosts[host], hosts[2]);
        }
        net.run(1000);
        assert_eq!(net.delivered, [(12, hosts[2], 0), (13, hosts[2], 1)], "{order:?}");
        assert_eq!(net.log.0[0].2, order[0] as u32 * 2, "the port of that host");
    }
}

#[test]
fn ties_between_hosts_come_out_in_the_order_in_which_their_links_were_entered() {
    let (topology, hosts) = star(wire(1, 5, 10));
    let mut net = Net::new(&topology);
    net.send(0, hosts[0], hosts[1]);
    net.send(0, hosts[1], hosts[2]);
    net.run(1000);
    assert_eq!(net.delivered, [(12, hosts[1], 0), (12, hosts[2], 1)]);
}

#[test]
fn what_is_due_when_a_host_sends_happens_first_and_waits_to_be_asked_for() {
    let (topology, a, b) = line(wire(1, 5, 10), wire(2, 20, 10));
    let mut net = Net::new(&topology);
    net.send(0, a, b);
    net.send(10, a, b);
    assert_eq!(net.fabric.packets_inside(), 2);
    // The first packet arrives at 28 ms, but the host has not polled yet.
    net.send(28, a, b);
    assert_eq!(net.fabric.packets_inside(), 3, "also what has arrived and was not asked for");
    assert_eq!(net.log.count("passed"), 3);
    assert_eq!(net.run(28), Out::Wait(ms(34)));
    assert_eq!(net.delivered, [(28, b, 0)]);
    assert_eq!(net.fabric.packets_inside(), 2);
    net.send(100, a, b);
    net.send(200, a, b);
    assert_eq!(net.run(200), Out::Wait(ms(206)));
    assert_eq!(net.delivered[1..], [(38, b, 1), (56, b, 2), (128, b, 3)], "in order");
}

#[test]
fn routes_lead_from_each_host_to_each_other_and_nowhere_else() {
    let (mut topology, hosts) = star(wire(1, 0, 10));
    let (lone, unlinked) = (topology.host("lone"), topology.router("unlinked"));
    let mut net = Net::new(&topology);
    let pairs = hosts.into_iter().flat_map(|from| hosts.map(|to| (from, to)));
    for (n, (from, to)) in (0..).zip(pairs) {
        net.send(10 * n, from, to);
        net.run(10 * n + 5);
        assert_eq!(net.delivered.last(), Some(&(10 * n + 2, to, n as u32)));
    }
    assert_eq!(net.fabric.route(hosts[0], lone), None);
    assert_eq!(net.fabric.route(lone, hosts[0]), None);
    assert_eq!(net.fabric.route(hosts[0], unlinked), None);
}

#[test]
fn a_packet_lost_on_a_wire_never_passes_it() {
    let lossy = WireSpec { after: vec![read("packets:2")], ..wire(1, 5, 10) };
    let (topology, a, b) = line(lossy, wire(2, 20, 10));
    let mut net = Net::new(&topology);
    (0..3).for_each(|_| _ = net.send(0, a, b));
    net.run(6);
    assert_eq!(net.fabric.packets_inside(), 3);
    net.run(1000);
    // The third packet finds the link to the host free again at 8 ms, because the second one was lost.
    assert_eq!(net.delivered, [(28, b, 0), (30, b, 2)]);
    assert!(net.log.0.contains(&(7, "loss", 0, 1)), "{:?}", net.log.0);
    assert_eq!((net.log.count("passed"), net.fabric.packets_inside()), (4, 0));
}

#[test]
fn conditioners_come_last_and_leave_the_random_choices_of_others_as_they_are() {
    let lost = |conditioner: &str| {
        let conditioner = stage::read(conditioner, &Default::default(), &|_| Err(String::new())).unwrap();
        let lossy = WireSpec { after: vec![read("bernoulli:0.3")], conditioner, ..wire(1, 5, 100) };
        let (topology, a, b) = line(lossy, wire(2, 20, 100));
        let mut net = Net::new(&topology);
        (0..80).for_each(|_| _ = net.send(0, a, b));
        net.run(1000);
        let with =
            |kind| net.log.0.iter().filter(|entry| entry.1 == kind).map(|entry| entry.3).collect::<Vec<_>>();
        (with("loss"), with("policed"), net.delivered.len(), net.fabric.packets_inside())
    };
    let (plain, none, delivered, _) = lost("none");
    assert_eq!((plain.len() + delivered, none), (80, vec![]));
    // Of the packets that pass the first loss model, a second loss model drops some, and a policer drops all marked packets.
    let (both, _, fewer, _) = lost("bernoulli:0.3");
    assert!(plain.iter().all(|body| both.contains(body)) && fewer < delivered);
    let (alone, policed, left, inside) =
        lost("tb-marker:high=1bit/100000B | policer:high=1bit/1B,action=drop");
    assert_eq!((alone, policed.len(), left, inside), (plain, delivered, 0, 0));
}

#[test]
fn the_connections_of_a_host_weigh_what_it_says_at_its_own_link_only() {
    let first = WireSpec { queue: read("scheduler:20,high=1Mbit/1500B"), ..wire(1, 5, 10) };
    let (topology, a, b) = line(first.clone(), first);
    let mut net = Net::new(&topology);
    net.fabric.set_weight(a, 1, 2);
    net.fabric.set_weight(b, 1, 5);
    net.fabric.set_weight(NodeId(2), 1, 5);
    let route = net.fabric.route(a, b).unwrap();
    for (body, flow) in (0..).zip([0, 1, 1, 1, 1, 2, 2]) {
        let packet = Packet { flow, ..Packet::new(Time::ZERO, route, 1000, body) };
        net.fabric.arrive(ms(0), a, packet, &mut net.log);
    }
    net.run(1000);
    let bodies: Vec<u32> = net.delivered.iter().map(|delivery| delivery.2).collect();
    assert_eq!(bodies, [0, 1, 2, 5, 3, 4, 6], "a router does not know of it, but keeps up");
}

#[test]
fn the_turn_of_a_packet_that_was_held_back_is_no_arrival_of_one_that_is_on_its_way() {
    // 1000 bytes of tokens arrive in 100 ms.
    let shaper = WireSpec { queue: read("shaper:20,high=80kbit/1000B"), ..wire(1, 20, 10) };
    let (topology, a, b) = line(shaper, wire(1, 0, 10));
    let mut net = Net::new(&topology);
    let route = net.fabric.route(a, b).unwrap();
    for (body, at, priority) in [(0, 0, Priority::High), (1, 0, Priority::High), (2, 90, Priority::Low)] {
        net.run(at);
        let packet = Packet { dscp: priority.into(), ..Packet::new(Time::ZERO, route, 1000, body) };
        net.fabric.arrive(ms(at), a, packet, &mut net.log);
    }
    net.run(1000);
    assert_eq!(net.delivered, [(22, b, 0), (112, b, 2), (122, b, 1)]);
}

#[test]
fn loss_before_a_queue_takes_no_time_on_the_wire() {
    let lossy = WireSpec { before: vec![read("packets:2")], ..wire(1, 5, 10) };
    let (topology, a, b) = line(lossy, wire(1, 20, 10));
    let mut net = Net::new(&topology);
    (0..3).for_each(|_| _ = net.send(0, a, b));
    net.run(1000);
    assert_eq!(net.delivered, [(27, b, 0), (28, b, 2)]);
    assert!(net.log.0.contains(&(0, "loss", 0, 1)), "{:?}", net.log.0);
}

#[test]
fn the_way_back_has_its_own_rate_and_loss() {
    let back = WireSpec { before: vec![read("packets:1")], ..wire(7, 5, 10) };
    let mut topology = Topology::default();
    let (a, b, router) = (topology.host("a"), topology.host("b"), topology.router("r"));
    topology.link(a, router, wire(1, 5, 10), back);
    topology.link(router, b, wire(1, 0, 10), wire(1, 0, 10));
    let mut net = Net::new(&topology);
    net.send(0, a, b);
    net.send(0, b, a);
    net.send(10, b, a);
    net.run(1000);
    assert_eq!(net.delivered, [(7, b, 0), (10 + 1 + 7 + 5, a, 2)]);
}

#[test]
fn hosts_need_no_router_between_them() {
    let mut topology = Topology::default();
    let (a, b) = (topology.host("a"), topology.host("b"));
    topology.link(a, b, wire(1, 5, 10), wire(1, 5, 10));
    let mut net = Net::new(&topology);
    net.send(0, a, b);
    net.send(0, b, a);
    net.run(100);
    assert_eq!(net.delivered, [(6, b, 0), (6, a, 1)]);
}

/// Returns four routers in a ring with a chord and hosts on three of them: r0 - r1 - r2 - r3 - r0, and r0 - r2.
fn ring() -> (Topology, [NodeId; 3]) {
    let mut topology = Topology::default();
    let routers = [0, 1, 2, 3].map(|n| topology.router(format!("r{n}")));
    let hosts = [0, 1, 2].map(|n| topology.host(format!("h{n}")));
    for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)] {
        topology.link(routers[from], routers[to], wire(1, 0, 10), wire(1, 0, 10));
    }
    for (host, router) in [(0, 0), (1, 2), (2, 3)] {
        topology.link(hosts[host], routers[router], wire(1, 0, 10), wire(1, 0, 10));
    }
    (topology, hosts)
}

#[test]
fn a_path_has_the_fewest_hops_and_of_equals_the_lowest_ports() {
    let (topology, [at_0, at_2, at_3]) = ring();
    let ports = |from, to| topology.path(from, to).unwrap().iter().map(|port| port.0).collect::<Vec<_>>();
    // Links 5, 6 and 7 connect the hosts. Port 2 n leads from the first node of link n to the second node.
    assert_eq!(ports(at_0, at_2), [10, 8, 13], "over the chord");
    assert_eq!(ports(at_2, at_0), [12, 9, 11]);
    assert_eq!(ports(at_3, at_0), [14, 6, 11]);
    assert_eq!(ports(at_3, at_2), [14, 5, 13]);

    let mut topology = Topology::default();
    let (a, b) = (topology.host("a"), topology.host("b"));
    let (left, right) = (topology.router("left"), topology.router("right"));
    topology.link(a, left, wire(1, 0, 10), wire(1, 0, 10));
    let twice = topology.links([(left, right), (left, right)], wire(1, 0, 10), wire(1, 0, 10));
    topology.link(right, b, wire(1, 0, 10), wire(1, 0, 10));
    assert_eq!(topology.path(a, b).unwrap()[1], twice[0].forward());
    assert_eq!(topology.path(b, a).unwrap()[1], twice[0].back());
}

#[test]
fn packets_take_the_path_that_the_topology_says() {
    let (topology, hosts) = ring();
    for from in hosts {
        for to in hosts.into_iter().filter(|&to| to != from) {
            let mut net = Net::new(&topology);
            net.send(0, from, to);
            net.run(1000);
            let entered = net.log.0.iter().filter(|entry| entry.1 == "entered");
            let taken: Vec<PortId> = entered.map(|entry| PortId(entry.2)).collect();
            assert_eq!(Ok(taken), topology.path(from, to));
        }
    }
}

#[test]
fn nobody_forwards_for_others_but_routers() {
    let mut topology = Topology::default();
    let [a, between, b] = ["a", "between", "b"].map(|name| topology.host(name));
    topology.link(a, between, wire(1, 0, 10), wire(1, 0, 10));
    topology.link(between, b, wire(1, 0, 10), wire(1, 0, 10));
    assert_eq!(topology.path(a, b).unwrap_err().to_string(), "no route from a to b");
    assert!(topology.check_routes([(a, between)]).is_ok());
    assert!(topology.check_routes([(a, between), (b, a)]).is_err());
    // Links with loss have the same routes.
    let mut lossy = Topology::default();
    let hosts = ["a", "between", "b"].map(|name| lossy.host(name));
    let wire = WireSpec { after: vec![read("bernoulli:0.1")], ..wire(1, 0, 10) };
    hosts.windows(2).for_each(|pair| _ = lossy.link(pair[0], pair[1], wire.clone(), wire.clone()));
    for topology in [&topology, &lossy] {
        let fabric = Fabric::new(topology, 1);
        assert_eq!(fabric.route(hosts[0], hosts[2]), None);
        // A host sends all packets on its first link.
        assert_eq!(
            (fabric.route(hosts[1], hosts[0]).is_some(), fabric.route(hosts[1], hosts[2])),
            (true, None)
        );
    }
}

#[test]
fn a_topology_knows_its_nodes_and_ports() {
    let (topology, hosts) = star(wire(1, 5, 10));
    assert_eq!((topology.node_count(), topology.name(hosts[1])), (4, "b"));
    let fabric = Fabric::new(&topology, 1);
    assert_eq!(Some(fabric.checked_route(hosts[0], hosts[2])), fabric.route(hosts[0], hosts[2]));
    let ends: Vec<_> = topology.ports().iter().map(|port| (port.from.0, port.to.0)).collect();
    assert_eq!(ends, [(0, 3), (3, 0), (1, 3), (3, 1), (2, 3), (3, 2)]);
}

/// Returns random traffic between the hosts of the ring: (gap in microseconds, source, offset of the destination, bytes).
fn traffic() -> impl Strategy<Value = Vec<(u64, usize, usize, u32)>> {
    prop::collection::vec((0u64..4000, 0usize..3, 1usize..3, 40u32..1500), 1..120)
}

/// Returns a ring with slow links, jitter, loss and short queues.
fn bad_ring() -> (Topology, [NodeId; 3]) {
    let (good, hosts) = ring();
    let mut bad = Topology::default();
    (0..4).for_each(|n| _ = bad.router(format!("r{n}")));
    (0..3).for_each(|n| _ = bad.host(format!("h{n}")));
    for (n, pair) in good.ports().chunks(2).enumerate() {
        let plain = wire(1 + n as u64 % 3, n as u64 % 4, 2 + n as u32 % 4);
        let loss = vec![read("bernoulli:0.1")];
        let jitter = Some(read("exponential:1ms"));
        let spec = match n % 4 {
            0 => plain,
            1 => WireSpec { before: loss, ..plain },
            2 => WireSpec { after: loss, ..plain },
            _ => WireSpec { jitter, ..plain },
        };
        bad.link(pair[0].from, pair[0].to, spec.clone(), spec);
    }
    (bad, hosts)
}

/// Deliveries (time, host, packet) and drops (time, port, packet).
type Ends = (Vec<(Time, NodeId, u32)>, Vec<(Time, PortId, u32)>);

#[derive(Default)]
struct Drops(Vec<(Time, PortId, u32)>);

impl NetworkEvents for Drops {
    fn dropped(&mut self, now: Time, at: PortId, packet: Packet, _reason: DropReason) {
        self.0.push((now, at, packet.body));
    }
}

/// Offers the traffic. Before each packet, the host polls with probability `attention`. If `attention` is below 1, the host polls only up
/// to a random earlier time.
fn offer(traffic: &[(u64, usize, usize, u32)], seed: u64, attention: f64) -> Ends {
    let (topology, hosts) = bad_ring();
    let mut fabric = Fabric::new(&topology, seed);
    let (mut drops, mut out) = (Drops::default(), Vec::new());
    let mut rng = Rng::new(seed, Stream::Workload(3));
    let (mut now, mut polled) = (Time::ZERO, Time::ZERO);
    let mut take = |fabric: &mut Fabric, until: Time, drops: &mut Drops| {
        while let Out::Deliver(packet) = fabric.poll(until, drops) {
            out.push((packet.arrived, packet.route.destination(), packet.body));
        }
        out.len()
    };
    for (body, &(gap_us, from, turn, len)) in traffic.iter().enumerate() {
        now += Span::from_micros(gap_us);
        if rng.chance(attention) {
            let share = if attention < 1.0 { rng.uniform() } else { 1.0 };
            polled += Span::from_nanos((now.since(polled).as_nanos() as f64 * share) as u64);
            let delivered = take(&mut fabric, polled, &mut drops);
            let accounted = delivered + drops.0.len();
            assert_eq!(fabric.packets_inside() as usize + accounted, body, "nothing is lost silently");
        }
        // Each host sends to the other two hosts.
        let to = hosts[(from + turn) % hosts.len()];
        let route = fabric.route(hosts[from], to).expect("the ring connects all");
        let packet = Packet::new(now, route, len, body as u32);
        fabric.arrive(now, hosts[from], packet, &mut drops);
    }
    take(&mut fabric, now + Span::from_secs(10), &mut drops);
    assert_eq!(fabric.packets_inside(), 0);
    (out, drops.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_in_a_network_are_delivered_dropped_or_inside_whenever_somebody_asks(
        traffic in traffic(), seed in 0u64..1000
    ) {
        let prompt = offer(&traffic, seed, 1.0);
        let mut seen: Vec<u32> = prompt.0.iter().map(|d| d.2).chain(prompt.1.iter().map(|d| d.2)).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..traffic.len() as u32).collect::<Vec<_>>());
        prop_assert!(prompt.0.is_sorted_by_key(|delivery| delivery.0), "time does not go back");
        for attention in [0.0, 0.5] {
            prop_assert_eq!(&offer(&traffic, seed, attention), &prompt, "asked with probability {}", attention);
        }
    }
}

#[test]
fn a_port_counts_what_arrives_by_colour() {
    let (topology, a, b) = line(wire(1, 5, 10), wire(1, 5, 10));
    let mut net = Net::new(&topology);
    let route = net.fabric.checked_route(a, b);
    for (body, (priority, _)) in
        [0, 1, 1, 2, 2, 2].into_iter().map(|number| Priority::NAMES[number]).enumerate()
    {
        let packet = Packet { dscp: priority.into(), ..Packet::new(Time::ZERO, route, 1000, body as u32) };
        net.fabric.arrive(ms(0), a, packet, &mut net.log);
    }
    let arrived = net.fabric.counters(PortId(0)).arrived;
    assert_eq!(Priority::NAMES.map(|(priority, _)| arrived[priority as usize]), [1, 2, 3]);
}

#[test]
fn a_port_counts_as_delivered_what_has_reached_its_end() {
    let (topology, a, b) = line(wire(1, 5, 10), wire(1, 5, 10));
    let mut net = Net::new(&topology);
    (0..3).for_each(|_| _ = net.send(0, a, b));
    for (at, delivered) in [(5, 0), (6, 1), (7, 2), (8, 3)] {
        net.run(at);
        let counters = net.fabric.counters(PortId(0));
        assert_eq!(
            (counters.delivered, counters.delivered_bytes),
            (delivered, 1000 * delivered),
            "at {at} ms"
        );
    }
}

#[test]
fn a_network_counts_its_drops_like_its_host() {
    let (topology, a, b) = line(wire(1, 5, 10), wire(4, 20, 2));
    let mut net = Net::new(&topology);
    (0..20).for_each(|n| _ = net.send(n, a, b));
    net.run(1000);
    let counted: u64 = (0..4).map(|port| net.fabric.counters(PortId(port)).dropped_of(Priority::Low)).sum();
    assert_eq!((counted as usize, net.delivered.len()), (net.dropped(), 20 - net.dropped()));
    assert!(net.dropped() > 0);
}
