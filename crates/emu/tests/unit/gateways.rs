//! Tests of the emulator with a fake clock and fake devices: packets must have the same ideal departure times as in the simulator, however
//! late the clock is.

use crate::fakes::{LateClock, Script, emulator, packet};
use crate::replay::{Memory, replay};
use catnip_base::notation::Family;
use catnip_base::{Rate, Span, Time};
use catnip_emu::datapath::gateways::Emulator;
use catnip_emu::link::LinkTopology;
use catnip_emu::mark::Marker;
use catnip_net::mark::SpmParameters;
use catnip_net::queue::QueueSpec;
use catnip_net::shape::RateSpec;
use catnip_net::{Fabric, Priority, WireSpec};
use catnip_sim::Watch;
use catnip_sim::watch::Refusal;
use proptest::prelude::*;

const MTU: usize = 1500;
const SEED: u64 = 7;

fn queues() -> Vec<String> {
    QueueSpec::examples().iter().map(QueueSpec::to_string).collect()
}

fn wire(queue: &str, loss: bool, jitter: bool) -> WireSpec {
    WireSpec {
        rate: RateSpec::Constant(Rate::from_bits_per_second(1_500_000).unwrap()),
        delay: Span::from_millis(7).into(),
        queue: queue.parse().unwrap(),
        jitter: jitter.then(|| "uniform:3ms".parse().unwrap()),
        before: loss.then(|| "bernoulli:0.1".parse().unwrap()).into_iter().collect(),
        after: vec![],
        conditioner: vec![],
        outage: None,
        link_layer: None,
    }
}

type Emulated<W> = Emulator<LateClock, Script, (), W>;

/// Creates the emulator of a link at which given packets arrive: from inside, to 10.0.0.2, and from outside, to 10.0.0.1.
fn emulated<W: Watch>(
    wire: &WireSpec,
    clock: &LateClock,
    [inside, outside]: [Incoming; 2],
    marker: Option<Marker>,
    watch: impl FnOnce(&LinkTopology) -> W,
) -> Emulated<W> {
    let link = LinkTopology::new(wire, wire);
    let (outside_len, inside_len) = (outside.len(), inside.len());
    let devices = [
        Script::new(clock, inside).with_capacity_for(outside_len),
        Script::new(clock, outside).with_capacity_for(inside_len),
    ];
    emulator(&link, SEED, clock, devices, |frames| frames.with_marker(marker), watch(&link))
}

fn run<W: Watch>(emulator: &mut Emulated<W>) {
    loop {
        let next = emulator.poll().unwrap();
        let remaining: usize = emulator.gateways().iter().map(|gateway| gateway.io.remaining()).sum();
        if next == Time::NEVER && remaining == 0 {
            break;
        }
        emulator.sleep_until(next);
    }
}

fn memory(_link: &LinkTopology) -> Memory {
    Memory::default()
}

/// Generates packets: time since the previous packet in microseconds, length, true if HIGH, true if from outside.
fn arrivals() -> impl Strategy<Value = Vec<(u64, usize, bool, bool)>> {
    prop::collection::vec((0u64..8_000, 40usize..1500, any::<bool>(), any::<bool>()), 1..150)
}

/// Packets from one end of the link, with their arrival times.
type Incoming = Vec<(Time, Vec<u8>)>;

/// Returns the packets from each end of the link, and all arrival times.
fn script(arrivals: &[(u64, usize, bool, bool)]) -> ([Incoming; 2], Vec<Time>) {
    let mut sides = [Vec::new(), Vec::new()];
    let mut at = Time::ZERO;
    for (number, &(gap_us, len, high, side)) in arrivals.iter().enumerate() {
        at += Span::from_micros(gap_us);
        let to = if side { 1 } else { 2 };
        let bytes = packet(to, number as u16, len, if high { 10 } else { 14 });
        sides[usize::from(side)].push((at, bytes));
    }
    let alarms = sides.iter().flatten().map(|(at, _)| *at).collect();
    (sides, alarms)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn recorded_arrivals_replayed_give_identical_departures(
        arrivals in arrivals(),
        lateness_us in prop::collection::vec(0u64..20_000, 1..20),
        loss: bool,
        jitter: bool,
        reorders: bool,
    ) {
        for queue in queues() {
            let mut wire = wire(&queue, loss, jitter);
            if reorders {
                wire.outage = Some("mean_up=40ms,mean_down=9ms".parse().unwrap());
                wire.link_layer = Some("arq:loss=0.2,retry=9ms,tries=2".parse().unwrap());
                wire.after = ["reorder:0.2,by=12ms", "reorder:0.2,by=2", "outage:every=90ms,for=9ms"].map(|text| text.parse().unwrap()).into();
            }
            let (sides, alarms) = script(&arrivals);
            let lateness = lateness_us.iter().map(|&us| Span::from_micros(us)).collect();
            let clock = LateClock::new(alarms, lateness);
            let mut emulator = emulated(&wire, &clock, sides, None, memory);
            run(&mut emulator);
            prop_assert_eq!(emulator.world.packets_out(), 0);
            let written: usize =
                emulator.gateways().iter().map(|gateway| gateway.io.written.len()).sum();
            let live = emulator.world.into_watch();
            prop_assert_eq!(live.arrivals.len(), arrivals.len());
            prop_assert_eq!(live.ends.len(), arrivals.len());
            prop_assert_eq!(live.ends.iter().filter(|end| end.dropped.is_none()).count(), written);
            let link = LinkTopology::new(&wire, &wire);
            let fabric = Fabric::new(&link.topology, SEED);
            let paths = [[link.inside, link.outside], [link.outside, link.inside]];
            let replayed = replay(fabric, &paths, &live.arrivals, Time::NEVER);
            prop_assert_eq!(live.sorted_ends(), replayed);
        }
    }

    #[test]
    fn arbitrary_bytes_are_counted_and_never_crash(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..100),
        good in 0u16..20,
    ) {
        let wire = wire("drop-tail:50", false, false);
        let clock = LateClock::new(vec![Time::ZERO], vec![]);
        let read = packets.len() as u64 + u64::from(good);
        let mut inside: Vec<_> = packets.into_iter().map(|bytes| (Time::ZERO, bytes)).collect();
        inside.extend((0..good).map(|number| (Time::ZERO, packet(2, number, 100, 0))));
        let mut emulator = emulated(&wire, &clock, [inside, vec![]], None, LinkTopology::monitor);
        run(&mut emulator);
        let inside = emulator.world.packets_out() as u64;
        let monitor = emulator.world.into_watch();
        let up = &monitor.directions[0];
        let refused: u64 = monitor.gates[0].refused.iter().sum();
        let entered: u64 = up.entered.iter().sum();
        prop_assert!(entered >= u64::from(good));
        prop_assert_eq!(read, refused + entered);
        prop_assert_eq!(entered, up.delivered + up.dropped.iter().sum::<u64>() + inside);
    }
}

#[test]
fn drop_tail_holds_its_limit_and_departures_are_spaced_exactly() {
    let wire = wire("drop-tail:5", false, false);
    let clock = LateClock::new(vec![Time::ZERO], vec![Span::from_millis(3)]);
    let inside = (0..20).map(|number| (Time::ZERO, packet(2, number, 1500, 0))).collect();
    let watch = |link: &LinkTopology| (Memory::default(), link.monitor());
    let mut emulator = emulated(&wire, &clock, [inside, vec![]], None, watch);
    run(&mut emulator);
    let (memory, monitor) = emulator.world.into_watch();
    let up = &monitor.directions[0];
    assert_eq!((up.delivered, up.largest_queue()), (5, 5));
    let out: Vec<_> = memory.ends.iter().filter(|end| end.dropped.is_none()).collect();
    let expected = (1..=5).map(|n| Time::from_nanos(7_000_000 + n * 8_000_000)).collect::<Vec<_>>();
    assert_eq!(out.iter().map(|end| end.at).collect::<Vec<_>>(), expected);
    assert_eq!(out.iter().map(|end| end.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    // Four of five packets found the wire busy.
    assert_eq!((up.busy.packets, up.busy.ideal), (4, Span::from_millis(32)));
    assert_eq!(up.lateness.max(), Span::from_millis(3));
}

#[test]
fn time_before_a_packet_is_read_counts_as_time_for_which_it_was_kept_too_long() {
    // Each sleep ends 8 ms late: a packet that arrives at 1 ms is read at 9 ms, due at 16 ms, and written at 24 ms.
    let wire = WireSpec { rate: RateSpec::Unlimited, ..wire("drop-tail:5", false, false) };
    let arrived_at = Time::from_nanos(1_000_000);
    let clock = LateClock::new(vec![arrived_at], vec![Span::from_millis(8)]);
    let inside = vec![(arrived_at, packet(2, 0, 1500, 0))];
    let mut emulator = emulated(&wire, &clock, [inside, vec![]], None, LinkTopology::monitor);
    run(&mut emulator);
    let monitor = emulator.world.into_watch();
    let up = &monitor.directions[0];
    let ms = Span::from_millis;
    assert_eq!((up.waited.max(), up.lateness.max(), up.excess.max()), (ms(8), ms(8), ms(16)));
    assert_eq!(up.actual_delay.max(), ms(15), "counted from when it was read");
}

#[test]
fn what_waits_behind_a_batch_has_waited_since_it_came() {
    // More packets arrive before the device is read than a batch may contain; each sleep ends 8 ms late.
    let wire = WireSpec { rate: RateSpec::Unlimited, ..wire("drop-tail:200", false, false) };
    let clock = LateClock::new(vec![Time::ZERO + Span::from_millis(1)], vec![Span::from_millis(8)]);
    let arrived_at = Time::ZERO + Span::from_millis(1);
    let inside = (0..140).map(|number| (arrived_at, packet(2, number, 100, 0))).collect();
    let mut emulator = emulated(&wire, &clock, [inside, vec![]], None, LinkTopology::monitor);
    run(&mut emulator);
    let monitor = emulator.world.into_watch();
    let up = &monitor.directions[0];
    assert_eq!((up.waited.count(), up.waited.min()), (140, Span::from_millis(8)));
    // Packets after the batch are read in the next round. The sleep before this round has a deadline in the past, but also ends 8 ms late.
    assert_eq!(up.waited.max(), Span::from_millis(16));
}

#[test]
fn copies_are_packets_of_their_own_with_the_same_bytes() {
    let behind = ["duplicate:0.3", "reorder:0.2,by=9ms", "bernoulli:0.2"].map(|text| text.parse().unwrap());
    let wire = WireSpec { after: behind.into(), ..wire("drop-tail:500", false, false) };
    let at = |number: u16| Time::from_nanos(u64::from(number) * 2_000_000);
    let sent: Incoming =
        (0..300).map(|number| (at(number), packet(2, number, 100 + usize::from(number), 0))).collect();
    let clock = LateClock::new(sent.iter().map(|(at, _)| *at).collect(), vec![Span::from_millis(3)]);
    let mut emulator = emulated(&wire, &clock, [sent.clone(), vec![]], None, LinkTopology::monitor);
    run(&mut emulator);
    assert_eq!((emulator.world.packets_out(), emulator.world.fabric().packets_inside()), (0, 0));
    let written = emulator.gateways()[1].io.written.clone();
    let count = |bytes: &Vec<u8>| written.iter().filter(|other| other[..] == bytes[..24]).count();
    let times: Vec<usize> = sent.iter().map(|(_, bytes)| count(bytes)).collect();
    assert_eq!(times.iter().sum::<usize>(), written.len(), "nothing else was written");
    let monitor = emulator.world.into_watch();
    let up = &monitor.directions[0];
    let dropped: u64 = up.dropped.iter().sum();
    assert_eq!((up.delivered, up.inside()), (written.len() as u64, 0));
    assert_eq!(300 + up.duplicated, up.delivered + dropped);
    assert!(up.duplicated > 50 && dropped > 50 && times.iter().all(|&times| times <= 2));
}

#[test]
fn what_cannot_pass_is_refused_with_its_reason() {
    let wire = wire("drop-tail:50", false, false);
    let clock = LateClock::new(vec![Time::ZERO], vec![]);
    let mut fragment = packet(2, 0, 100, 0);
    fragment[6] = 0x20;
    let mut unknown_protocol = packet(2, 0, 100, 0);
    unknown_protocol[9] = 253;
    let mut own = packet(1, 0, 100, 0);
    own[15] = 1;
    let cases = [
        (packet(2, 0, MTU, 0), None),
        (fragment, None),
        (unknown_protocol, None),
        (packet(2, 0, MTU + 1, 0), Some(Refusal::TooLong)),
        (own, Some(Refusal::NoRoute)),
        (packet(1, 0, 100, 0), Some(Refusal::WrongSource)),
        (packet(3, 0, 100, 0), Some(Refusal::NoRoute)),
        (packet(2, 0, 100, 0)[..30].to_vec(), Some(Refusal::Malformed)),
        (vec![0x12; 40], Some(Refusal::NotIp)),
    ];
    let inside = cases.iter().map(|(bytes, _)| (Time::ZERO, bytes.clone())).collect();
    let mut emulator = emulated(&wire, &clock, [inside, vec![]], None, LinkTopology::monitor);
    run(&mut emulator);
    let monitor = emulator.world.into_watch();
    let mut expected = [0; Refusal::COUNT];
    cases.iter().filter_map(|(_, why)| *why).for_each(|why| expected[why as usize] += 1);
    assert_eq!(monitor.gates[0].refused, expected);
    assert_eq!(monitor.directions[0].delivered, 3);
}

#[test]
fn what_a_marker_says_is_what_the_network_hears_and_what_leaves_it() {
    // Data of a server: the first three packets are leading packets, packet 4 already has a mark, and packet 7 is a retransmission of
    // packet 0.
    let data = |number: u16| {
        let mut bytes = packet(1, number, 140, if number == 4 { 10 } else { 0 });
        bytes[9] = 6;
        bytes[24..28].copy_from_slice(&(u32::from(number % 7) * 100).to_be_bytes());
        bytes[32] = 0x50;
        bytes
    };
    for (writes, dscp) in [(false, [0, 0, 0, 0, 10, 0, 0, 0]), (true, [10, 10, 10, 14, 14, 14, 14, 10])] {
        let outside: Incoming = (0..8).map(|n| (Time::from_nanos(1_000_000 * n), data(n as u16))).collect();
        let clock = LateClock::new(outside.iter().map(|(at, _)| *at).collect(), vec![]);
        let wire = wire("drop-tail:20", false, false);
        let spm = SpmParameters { leading: 3, trailing: 0, small_window: 0, ..SpmParameters::FULL };
        let marker = Marker::new(vec![None, Some(spm)], writes);
        let mut emulator = emulated(&wire, &clock, [vec![], outside], Some(marker), memory);
        run(&mut emulator);
        let out: Vec<u8> = emulator.gateways()[0].io.written.iter().map(|bytes| bytes[1] >> 2).collect();
        assert_eq!(out, dscp);
        let arrivals = emulator.world.into_watch().arrivals;
        let high: Vec<u64> =
            arrivals.iter().filter(|a| a.priority == Priority::High).map(|arrival| arrival.number).collect();
        assert_eq!(high, [0, 1, 2, 7]);
    }
}
