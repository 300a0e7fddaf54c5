//! Wires that change while packets cross them.

use catnip_base::notation::Family;
use catnip_base::{Span, Time};
use catnip_net::queue::QueueSpec;
use catnip_net::{DropReason, Fabric, NetworkEvents, Out, Packet, PortId, Topology, WireSpec};
use proptest::prelude::*;

#[derive(Default)]
struct Lost(Vec<u32>);

impl NetworkEvents for Lost {
    fn dropped(&mut self, _now: Time, _at: PortId, packet: Packet, _reason: DropReason) {
        self.0.push(packet.body);
    }
}

fn wire(rate: &str, delay_us: u64, queue: &str, loss: &str) -> WireSpec {
    let before = if loss == "none" { Vec::new() } else { vec![loss.parse().unwrap()] };
    let rate = catnip_net::shape::RateSpec::read(rate, |_| Err("no file".into())).unwrap();
    WireSpec { before, ..WireSpec::new(rate, Span::from_micros(delay_us), queue.parse().unwrap()) }
}

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_micros(us)
}

/// Sends packets (microseconds, bytes) from one host to another while the wire between them changes. Returns the
/// deliveries (microseconds, packet) in order, and the dropped packets.
fn run(wires: &[(u64, WireSpec)], packets: &[(u64, u32)], changes: bool) -> (Vec<(u64, u32)>, Vec<u32>) {
    let mut topology = Topology::default();
    let (from, to) = (topology.host("from"), topology.host("to"));
    let link = topology.link(from, to, wires[0].1.clone(), wires[0].1.clone());
    let seed = 1;
    let mut fabric = Fabric::new(&topology, seed);
    if changes {
        fabric.allow_changes(&topology, link.forward(), seed);
    }
    let route = fabric.route(from, to).unwrap();
    let (mut lost, mut out) = (Lost::default(), Vec::new());
    let mut take = |fabric: &mut Fabric, lost: &mut Lost, until: Time| {
        while let Out::Deliver(packet) = fabric.poll(until, lost) {
            out.push((packet.arrived.since(Time::ZERO).as_nanos() / 1000, packet.body));
        }
    };
    let mut next = 1;
    let mut change = |fabric: &mut Fabric,
                      lost: &mut Lost,
                      until: u64,
                      take: &mut dyn FnMut(&mut Fabric, &mut Lost, Time)| {
        while let Some((time, to)) = wires.get(next).filter(|(time, _)| *time <= until) {
            take(fabric, lost, at(*time));
            fabric.catch_up(at(*time), lost);
            fabric.change(link.forward(), &wires[next - 1].1, to, next as u64);
            next += 1;
        }
    };
    for (&(time, len), body) in packets.iter().zip(0..) {
        change(&mut fabric, &mut lost, time, &mut take);
        take(&mut fabric, &mut lost, at(time));
        fabric.arrive(at(time), from, Packet::new(at(time), route, len, body), &mut lost);
    }
    change(&mut fabric, &mut lost, u64::MAX, &mut take);
    take(&mut fabric, &mut lost, Time::from_nanos(u64::MAX / 2));
    (out, lost.0)
}

#[test]
fn what_is_in_transmission_ends_as_it_began_and_nobody_overtakes() {
    // 1000 bytes take 1 ms, or 10 ms from time 1.5 ms on. The propagation delay is 10 ms, or 1 ms from time 2.5 ms on.
    let plain = |rate, delay| wire(rate, delay, "drop-tail:10", "none");
    let wires =
        [(0, plain("8Mbit", 10_000)), (1500, plain("800kbit", 10_000)), (2500, plain("800kbit", 1000))];
    let (out, lost) = run(&wires, &[(0, 1000), (0, 1000), (0, 1000), (2200, 1)], true);
    // The third packet leaves at 12 ms. It was in transmission when the delay became shorter, and the fourth packet does not overtake it.
    assert_eq!((out, lost), (vec![(11_000, 0), (12_000, 1), (22_000, 2), (22_000, 3)], vec![]));
    // With a shorter delay, no packet overtakes a packet that was sent earlier.
    let wires = [(0, plain("unlimited", 10_000)), (500, plain("unlimited", 1000))];
    assert_eq!(
        run(&wires, &[(0, 1000), (600, 1000), (9500, 1000)], true).0,
        [(10_000, 0), (10_000, 1), (10_500, 2)]
    );
}

#[test]
fn losses_that_stay_go_on_counting_and_new_ones_begin() {
    let with = |rate, loss| wire(rate, 0, "drop-tail:100", loss);
    let packets: Vec<(u64, u32)> = (0..10).map(|n| (n * 1000, 100)).collect();
    let wires = [(0, with("8Mbit", "packets:2,6")), (3500, with("4Mbit", "packets:2,6"))];
    assert_eq!(run(&wires, &packets, true).1, [1, 5]);
    let wires = [(0, with("8Mbit", "packets:2,6")), (3500, with("8Mbit", "packets:1,2"))];
    assert_eq!(run(&wires, &packets, true).1, [1, 4, 5]);
}

#[test]
fn a_queue_cannot_become_another_and_one_in_time_needs_its_rate() {
    let of = |rate, queue| wire(rate, 0, queue, "none");
    let refused = |from: WireSpec, to: WireSpec| from.check_change_to(&to).map_err(|(key, _)| key);
    assert_eq!(refused(of("1Mbit", "drop-tail:9"), of("1Mbit", "drop-tail:8")), Err("queue"));
    assert_eq!(refused(of("1Mbit", "drop-tail:9ms"), of("2Mbit", "drop-tail:9ms")), Err("rate"));
    assert_eq!(refused(of("1Mbit", "drop-tail:9KB"), of("2Mbit", "drop-tail:9KB")), Ok(()));
}

proptest! {
    #[test]
    fn a_wire_that_becomes_what_it_is_does_what_one_does_that_never_changes(
        gaps in prop::collection::vec((0u64..3000, 40u32..1500), 1..80),
        times in prop::collection::vec(0u64..120_000, 0..5), queue in prop::sample::select(QueueSpec::examples())
    ) {
        let same = wire("3Mbit", 700, &queue.to_string(), "gilbert-elliott:to_bad=10%,to_good=30%,loss_bad=50%");
        let mut time = 0;
        let packets: Vec<(u64, u32)> = gaps.iter().map(|(gap, len)| { time += gap; (time, *len) }).collect();
        let mut times = times;
        times.sort_unstable();
        let wires: Vec<_> = std::iter::once(0).chain(times).map(|time| (time, same.clone())).collect();
        prop_assert_eq!(run(&wires, &packets, true), run(&wires[..1], &packets, false));
    }

    #[test]
    fn whatever_changes_all_arrive_in_order_or_are_dropped(
        gaps in prop::collection::vec((0u64..3000, 40u32..1500), 1..80),
        changes in prop::collection::vec((0u64..20_000, 0usize..4, 0u64..20_000, 0usize..2), 0..6)
    ) {
        let rates = ["unlimited", "100kbit", "3Mbit", "steps:1Mbit,30ms=9Mbit"];
        let losses = ["none", "bernoulli:0.3"];
        let (mut time, mut then) = (0, 0);
        let packets: Vec<(u64, u32)> = gaps.iter().map(|(gap, len)| { time += gap; (time, *len) }).collect();
        let others = changes.iter().map(|&(gap, rate, delay_us, loss)| {
            then += gap;
            (then, wire(rates[rate], delay_us, "drop-tail:20", losses[loss]))
        });
        let wires: Vec<_> = std::iter::once((0, wire("1Mbit", 5000, "drop-tail:20", "none"))).chain(others).collect();
        let (out, lost) = run(&wires, &packets, true);
        prop_assert_eq!(out.len() + lost.len(), packets.len());
        prop_assert!(out.is_sorted(), "{:?}", out);
        prop_assert!(out.iter().all(|&(arrived, body)| arrived >= packets[body as usize].0));
        prop_assert!(out.windows(2).all(|pair| pair[0].1 < pair[1].1));
    }
}
