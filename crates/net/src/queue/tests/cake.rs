use super::*;
use std::collections::BTreeMap;

fn build(text: &str) -> AnyQueue {
    text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&RateSpec::Unlimited, 1, 0))
}

fn of(flow: u16, len: u32, body: u32) -> Packet {
    Packet { flow, len, ..packet(body, Priority::Low) }
}

fn at(ms: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(ms / 1e3)
}

/// Returns the share of each key, such as a connection or a class, in the bytes sent. All senders always have packets to send, until
/// `total` bytes have been sent.
fn shares<K: Ord>(
    queue: &mut AnyQueue,
    senders: &[Packet],
    total: u64,
    key: impl Fn(&Packet) -> K,
) -> BTreeMap<K, f64> {
    let (mut lost, mut now) = (Lost::default(), Time::ZERO);
    for sender in senders {
        (0..20).for_each(|_| queue.enqueue(now, *sender, &mut lost));
    }
    let mut bytes = BTreeMap::new();
    while bytes.values().sum::<f64>() < total as f64 {
        let Some(packet) = queue.dequeue(now, &mut lost) else {
            now = queue.wake_at().unwrap();
            continue;
        };
        *bytes.entry(key(&packet)).or_default() += f64::from(packet.len);
        // A new packet, which has not waited, replaces the packet that left.
        let sender = senders.iter().find(|sender| (sender.flow, sender.dscp) == (packet.flow, packet.dscp));
        queue.enqueue(now, *sender.unwrap(), &mut lost);
    }
    assert!(lost.0.is_empty(), "{:?}", lost.0.len());
    bytes.values_mut().for_each(|sum| *sum /= total as f64);
    bytes
}

fn close(share: f64, expected: f64) {
    assert!((share / expected - 1.0).abs() < 0.03, "{share} is not {expected}");
}

/// Option with which COBALT gives no signal within the runs of these tests.
const PATIENT: &str = "rtt=1000s";

#[test]
fn hosts_have_equal_shares_however_many_connections_they_have_and_then_these() {
    let mut queue = build(&format!("cake:100000,{PATIENT}"));
    for flow in 1..=5 {
        // The first four connections are from one host, and the last one is from another host. Each connection has a different destination
        // host.
        queue.set_hosts(flow, Route::default(), [u32::from(flow > 4), 100 + u32::from(flow)]);
    }
    let senders: Vec<Packet> = (1..=5).map(|flow| of(flow, if flow == 2 { 300 } else { 1500 }, 0)).collect();
    let by_flow = shares(&mut queue, &senders, 20_000_000, |packet| packet.flow);
    (1..=4).for_each(|flow| close(by_flow[&flow], 1.0 / 8.0));
    close(by_flow[&5], 0.5);
}

#[test]
fn who_counts_is_said_by_the_isolation() {
    // Sender 0 has three connections. Two of them are to receiver 7, which has another connection from sender 1.
    let shares_of = |isolation: &str| {
        let mut queue = build(&format!("cake:100000,{PATIENT},isolation={isolation}"));
        for (flow, hosts) in (1..).zip([[0, 7], [0, 7], [0, 8], [1, 7]]) {
            queue.set_hosts(flow, Route::default(), hosts);
        }
        let senders: Vec<Packet> = (1..=4).map(|flow| of(flow, 1000, 0)).collect();
        shares(&mut queue, &senders, 20_000_000, |packet| packet.flow)
    };
    let check = |isolation: &str, turns: [f64; 4]| {
        let found = shares_of(isolation);
        (1..).zip(turns).for_each(|(flow, turn)| close(found[&flow], turn / turns.iter().sum::<f64>()));
    };
    check("flows", [1.0; 4]);
    check("dual-srchost", [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 1.0]);
    check("dual-dsthost", [1.0 / 3.0, 1.0 / 3.0, 1.0, 1.0 / 3.0]);
    check("triple-isolate", [1.0 / 3.0; 4]);
}

#[test]
fn tins_share_a_rate_by_their_thresholds_and_what_they_leave() {
    let of_class = |codepoint: u8, flow: u16| Packet { dscp: Dscp::new(codepoint), ..of(flow, 1000, 0) };
    // Best effort, CS1, AF31 and EF.
    let senders = [of_class(0, 1), of_class(8, 2), of_class(26, 3), of_class(46, 4)];
    let codepoint = |packet: &Packet| packet.dscp.codepoint();
    for shape in [",rate=80Mbit", ""] {
        let mut queue = build(&format!("cake:100000,{PATIENT},tins=diffserv4{shape}"));
        let found = shares(&mut queue, &senders, 20_000_000, codepoint);
        // With a rate, voice gets a quarter of the rate, video a half, and bulk a sixteenth, regardless of the traffic in other tins; best
        // effort gets the rest. Without a rate, best effort has a weight of one.
        let rest = if shape.is_empty() { 1.0 } else { 1.0 - 0.25 - 0.5 - 1.0 / 16.0 };
        let all = rest + 0.25 + 0.5 + 1.0 / 16.0;
        for (codepoint, share) in [(0, rest), (8, 1.0 / 16.0), (26, 0.5), (46, 0.25)] {
            close(found[&codepoint], share / all);
        }
    }
    // With three tins, AF31 is best effort. With one tin, all codepoints are best effort.
    let mut queue = build(&format!("cake:100000,{PATIENT},rate=80Mbit"));
    let found = shares(&mut queue, &senders, 20_000_000, codepoint);
    close(found[&0], found[&26]);
    close(found[&46], 0.25);
    let mut queue = build(&format!("cake:100000,{PATIENT},tins=besteffort"));
    assert!(
        shares(&mut queue, &senders, 20_000_000, codepoint).values().all(|share| (share - 0.25).abs() < 0.01)
    );
}

#[test]
fn packets_leave_at_the_rate_with_what_the_line_adds_to_each() {
    let (mut queue, mut lost) = (build("cake:1000,rate=8Mbit,overhead=24"), Lost::default());
    (0..4).for_each(|body| queue.enqueue(Time::ZERO, of(1, 976, body), &mut lost));
    let mut left = Vec::new();
    let mut now = Time::ZERO;
    while queue.backlog().packets > 0 {
        match queue.dequeue(now, &mut lost) {
            Some(packet) => left.push((packet.body, now.as_nanos() / 1000)),
            None => now = queue.wake_at().unwrap(),
        }
    }
    // 1000 bytes take a millisecond.
    assert_eq!(left, [(0, 0), (1, 1000), (2, 2000), (3, 3000)]);
    assert_eq!(queue.wake_at(), None);
    // No credit is saved during an idle period.
    (4..6).for_each(|body| queue.enqueue(at(100.0), of(1, 976, body), &mut lost));
    assert!(queue.dequeue(at(100.0), &mut lost).is_some());
    assert!(queue.dequeue(at(100.0), &mut lost).is_none());
    assert!((queue.wake_at().unwrap().as_secs() - 0.101).abs() < 1e-6);
}

#[test]
fn eight_connections_of_the_same_remainder_have_queues_of_their_own_and_a_ninth_shares() {
    let (mut queue, mut lost) = (build(&format!("cake:1000,{PATIENT}")), Lost::default());
    for flow in 0..9 {
        (0..2).for_each(|n| {
            queue.enqueue(Time::ZERO, of(5 + 1024 * flow, 1000, u32::from(flow) * 10 + n), &mut lost)
        });
    }
    let first: Vec<u32> = (0..9).map(|_| queue.dequeue(Time::ZERO, &mut lost).unwrap().body).collect();
    // Each connection has one turn as a sparse connection. A packet of 1000 bytes does not use up the quantum of 1514 bytes, so that each
    // connection sends two packets.
    assert_eq!(first, [0, 1, 10, 11, 20, 21, 30, 31, 40]);
    let rest: Vec<u32> =
        std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut lost)).map(|packet| packet.body).collect();
    assert_eq!(rest, [41, 50, 51, 60, 61, 70, 71, 80, 81]);
}

#[test]
fn who_sends_little_goes_before_who_does_not() {
    let (mut queue, mut lost) = (build("cake:1000"), Lost::default());
    (0..6).for_each(|body| queue.enqueue(Time::ZERO, of(1, 1500, body), &mut lost));
    let next = |queue: &mut AnyQueue, ms: f64| queue.dequeue(at(ms), &mut Lost::default()).unwrap().body;
    assert_eq!((next(&mut queue, 0.0), next(&mut queue, 0.0)), (0, 1));
    queue.enqueue(at(1.0), of(2, 100, 20), &mut lost);
    queue.enqueue(at(1.0), of(3, 100, 30), &mut lost);
    assert_eq!([(); 3].map(|()| next(&mut queue, 1.0)), [20, 30, 2]);
    // The connection is sparse again once it is decaying or its AQM state has been discarded.
    queue.enqueue(at(2.0), of(2, 100, 21), &mut lost);
    assert_eq!(next(&mut queue, 2.0), 21);
}

#[test]
fn a_full_buffer_takes_from_the_head_of_the_fattest() {
    let (mut queue, mut lost) = (build("cake:11"), Lost::default());
    (0..4).for_each(|body| queue.enqueue(Time::ZERO, of(1, 1500, body), &mut lost));
    (10..16).for_each(|body| queue.enqueue(Time::ZERO, of(2, 100, body), &mut lost));
    queue.enqueue(Time::ZERO, of(3, 40, 30), &mut lost);
    queue.enqueue(Time::ZERO, of(3, 40, 31), &mut lost);
    assert_eq!(
        lost.0.iter().map(|(packet, reason)| (packet.body, *reason)).collect::<Vec<_>>(),
        [(0, DropReason::Overflow), (1, DropReason::Overflow)]
    );
}

const PARAMETERS: CobaltParameters = CobaltParameters {
    target: Span::from_millis(5),
    interval: Span::from_millis(100),
    mtu: Span::from_micros(100),
    eager: false,
};

/// Returns the times, ms, of the signals of COBALT if it is called each millisecond between `from` and `to`, with a packet that has waited
/// for `waited_ms`.
fn signals(law: &mut Cobalt, waited_ms: u64, from: u64, to: u64) -> Vec<u64> {
    let evaluate = |law: &mut Cobalt, ms: u64| {
        let waited = Span::from_millis(waited_ms);
        law.evaluate(&PARAMETERS, at(ms as f64), waited, true, || panic!("nothing is flooded"))
    };
    (from..to).filter(|&ms| evaluate(law, ms) == Decision::Mark).collect()
}

#[test]
fn cobalt_signals_an_interval_after_the_target_is_missed_and_then_faster_by_the_root_of_the_count() {
    let mut law = Cobalt::new(&PARAMETERS);
    assert_eq!(signals(&mut law, 5, 0, 1000), [0; 0], "the target itself is not missed");
    let found = signals(&mut law, 6, 1000, 2000);
    // The n-th signal is due interval / √n after the previous signal, and is given at the next call, at most a millisecond later.
    let (mut due, mut expected) = (1100.0f64, Vec::new());
    let mut count = 1.0f64;
    while due < 2000.0 {
        expected.push(due.ceil() as u64);
        count += 1.0;
        due += 100.0 / count.sqrt();
    }
    assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
    assert!(found.iter().zip(&expected).all(|(a, b)| a.abs_diff(*b) <= 1), "{found:?} {expected:?}");
}

#[test]
fn an_eager_queue_gives_its_first_signal_at_its_second_late_packet_until_it_has_been_late() {
    let mut law = Cobalt::new(&CobaltParameters { eager: true, ..PARAMETERS });
    // The first late packet, at 10 ms, sets the signal to now. The next ones follow 100 / √2 = 70.7 and 100 / √3 = 57.7 ms later.
    assert_eq!(signals(&mut law, 6, 10, 150), [11, 81, 139]);
    // A queue whose count has fallen to zero waits for an interval.
    assert!(signals(&mut law, 1, 150, 4000).is_empty());
    assert_eq!(signals(&mut law, 6, 5000, 5150), [5100]);
}

#[test]
fn cobalts_count_falls_step_by_step_while_the_target_is_kept() {
    let mut law = Cobalt::new(&PARAMETERS);
    let often = signals(&mut law, 6, 0, 1000).len();
    assert!(often > 15);
    // After a short time below the target, signals resume at about the same count; after a long time, they start again from the beginning.
    assert!(signals(&mut law, 1, 1000, 1050).is_empty());
    let soon = signals(&mut law.clone(), 6, 1050, 1150).len();
    assert!(soon >= 3, "{soon}");
    assert!(signals(&mut law, 1, 1050, 4000).is_empty());
    assert!(law.is_at_rest(at(5000.0)));
    assert_eq!(signals(&mut law, 6, 5000, 5150), [5100]);
}

#[test]
fn packets_of_which_four_take_longer_than_the_target_are_never_late() {
    let p = CobaltParameters { mtu: Span::from_millis(10), ..PARAMETERS };
    let mut law = Cobalt::new(&PARAMETERS);
    let verdicts =
        (0..1000).map(|ms| law.evaluate(&p, at(f64::from(ms)), Span::from_millis(40), false, || 0));
    assert!(verdicts.into_iter().all(|verdict| verdict == Decision::Pass));
}

#[test]
fn who_overflows_the_buffer_again_and_again_is_dropped_at_random_marked_or_not() {
    let p = CobaltParameters { mtu: Span::ZERO, ..PARAMETERS };
    let mut law = Cobalt::new(&PARAMETERS);
    // The probability increases by 1/256 at each overflow that is more than the target after the previous increase.
    for n in 1..=64 {
        law.on_overflow(&p, at(f64::from(n) * 6.0));
        law.on_overflow(&p, at(f64::from(n) * 6.0));
    }
    let mut draw = rng(1);
    let mut dropped = 0;
    for n in 0..10_000 {
        let verdict = law.evaluate(&p, at(400.0 + f64::from(n) / 1e3), Span::ZERO, true, || draw.next_u32());
        dropped += u32::from(verdict == Decision::Drop);
    }
    assert!((2300..2700).contains(&dropped), "64 / 256: {dropped}");
    // An empty queue decreases the probability by 1/4096.
    (0..1024).for_each(|n| law.on_empty(&p, at(1000.0 + f64::from(n) * 6.0)));
    assert!(law.is_at_rest(at(20_000.0)));
}

#[test]
fn who_can_be_marked_is_and_the_last_packet_is_never_dropped() {
    for (ecn, marked) in [(Ecn::ECT_0, true), (Ecn::NOT_ECT, false)] {
        let (mut queue, mut event_log) = (build("cake:1000"), EventLog::default());
        (0..500)
            .for_each(|body| queue.enqueue(Time::ZERO, Packet { ecn, ..of(1, 1000, body) }, &mut event_log));
        (0..400).for_each(|ms| _ = queue.dequeue(at(f64::from(ms)), &mut event_log));
        let (dropped, of_these) = (event_log.0.len(), event_log.1.len());
        assert!(if marked { of_these > 5 && dropped == 0 } else { dropped > 5 && of_these == 0 }, "{ecn:?}");
    }
    let (mut queue, mut lost) = (build("cake:1000"), Lost::default());
    for ms in (0..3000).step_by(50) {
        queue.enqueue(at(f64::from(ms)), of(1, 1000, 0), &mut lost);
        assert!(queue.dequeue(at(f64::from(ms) + 40.0), &mut lost).is_some());
    }
}

proptest! {
    #[test]
    fn packets_are_conserved_and_connections_keep_their_order(
        steps in prop::collection::vec((0u16..9, 40u32..3000, 0u64..9_000_000, 0usize..3, 0u8..64), 1..300),
        rate in prop::sample::select(vec!["", ",rate=3Mbit", ",rate=80Mbit,tins=diffserv4"]),
    ) {
        let mut queue = build(&format!("cake:20000B,rtt=20ms{rate}"));
        let (mut now, mut inside, mut lost) = (Time::ZERO, Vec::<Packet>::new(), Lost::default());
        for (body, (flow, len, gap, leave, codepoint)) in (0..).zip(steps) {
            now += Span::from_nanos(gap);
            // Codepoints of several tins.
            let arrival = Packet { dscp: Dscp::new(codepoint & 8 | (u8::from(flow > 4) * 46)), ..of(flow, len, body) };
            queue.enqueue(now, arrival, &mut lost);
            inside.push(arrival);
            for _ in 0..leave {
                let packet = queue.dequeue(now, &mut lost);
                lost.0.drain(..).for_each(|(dropped_packet, _)| inside.retain(|packet| packet.body != dropped_packet.body));
                prop_assert!(packet.is_some() || inside.is_empty() || queue.wake_at().is_some_and(|at| at > now));
                if let Some(packet) = packet {
                    let first = inside.iter().position(|other| (other.flow, other.dscp) == (packet.flow, packet.dscp));
                    prop_assert_eq!(first.map(|first| inside.remove(first).body), Some(packet.body));
                }
            }
            lost.0.drain(..).for_each(|(dropped_packet, _)| inside.retain(|packet| packet.body != dropped_packet.body));
            let bytes = inside.iter().map(|packet| u64::from(packet.len)).sum();
            prop_assert_eq!(queue.backlog(), Backlog { packets: inside.len() as u32, bytes });
        }
    }
}
