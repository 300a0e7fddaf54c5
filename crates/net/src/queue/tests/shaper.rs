use super::*;
use crate::Priority::{High as HIGH, Low as LOW, Medium as MED};
use crate::shape::AnyShaper;
use crate::stage::{Stage, StageKind, StageSpec};
use crate::{Next, Port};

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn port(queue: &str, rate: &str) -> Port<AnyQueue, AnyShaper> {
    let rate = RateSpec::read(rate, |_| Err(String::new())).unwrap();
    let queue = queue.parse::<QueueSpec>().unwrap().build(&PortContext::new(&rate, 1, 0));
    Port::new(queue, rate.build(), Span::ZERO)
}

/// Arrivals at the other end: (milliseconds, packet).
type Out = Vec<(u64, u32)>;

/// Sends packets (milliseconds, bytes, priority) through a queue and a wire. Returns the deliveries and the drops.
fn shaped(queue: &str, rate: &str, arrivals: &[(u64, u32, Priority)]) -> (Out, Vec<(u32, DropReason)>) {
    let (mut port, mut lost, mut out) = (port(queue, rate), Lost::default(), Vec::new());
    for (body, &(at, len, priority)) in (0..).zip(arrivals) {
        port.arrive(ms(at), Packet { len, ..packet(body, priority) }, &mut lost);
    }
    while let Next::Deliver(at, packet) = port.poll(Time::NEVER, &mut lost) {
        assert_eq!(at.as_nanos() % 1_000_000, 0, "the test has whole milliseconds");
        out.push((at.as_nanos() / 1_000_000, packet.body));
    }
    (out, lost.0.iter().map(|(packet, reason)| (packet.body, *reason)).collect())
}

#[test]
fn high_and_med_wait_for_their_tokens_and_low_for_nobody() {
    // 80 kbit/s are 1000 bytes in 100 ms; the buckets are full at first.
    let shaper = "shaper:9,high=80kbit/2000B,med=40kbit/1000B";
    let arrivals = [
        (0, 1000, HIGH),
        (0, 1000, HIGH),
        (0, 1000, HIGH),
        (0, 1000, HIGH),
        (0, 1000, MED),
        (0, 1000, MED),
        (0, 1000, LOW),
        (150, 1000, LOW),
    ];
    let (out, lost) = shaped(shaper, "unlimited", &arrivals);
    // Two HIGH packets leave at once, then one each 100 ms. A MED packet leaves each 200 ms.
    assert_eq!(out, [(0, 0), (0, 1), (0, 4), (0, 6), (100, 2), (150, 7), (200, 3), (200, 5)]);
    assert_eq!(lost, []);
    // With a transmission time of 1 ms, a packet takes its tokens at the end of its transmission. The third HIGH packet therefore starts
    // 100 ms after the first one.
    let (out, _) = shaped(shaper, "8Mbit", &arrivals);
    assert_eq!(out, [(1, 0), (2, 1), (3, 4), (4, 6), (101, 2), (151, 7), (201, 3), (203, 5)]);
}

#[test]
fn the_priorities_share_the_places_and_what_can_never_conform_is_refused() {
    let policed = DropReason::Policed;
    let arrivals = [
        (0, 1001, HIGH),
        (0, 1001, MED),
        (0, 9000, LOW),
        (0, 1000, HIGH),
        (0, 1000, HIGH),
        (0, 1000, MED),
        (0, 1000, MED),
        (0, 1, LOW),
    ];
    // The limit is four packets. The first LOW packet is in transmission, so three packets can wait.
    let (out, lost) = shaped("shaper:4,high=8kbit/1000B,med=8kbit/1000B", "8Mbit", &arrivals);
    assert_eq!(lost, [(0, policed), (1, policed), (6, DropReason::Overflow), (7, DropReason::Overflow)]);
    assert_eq!(out, [(9, 2), (10, 3), (11, 5), (1010, 4)]);
    // Without a profile for MED, no MED packet may be sent.
    let (_, lost) = shaped("shaper:4,high=8kbit/1000B", "8Mbit", &[(0, 1000, MED), (0, 1000, HIGH)]);
    assert_eq!(lost, [(0, policed)]);
}

proptest! {
    #[test]
    fn shaped_traffic_keeps_its_order_is_conserved_and_loses_nothing_at_the_policer(
        arrivals in prop::collection::vec((0u64..9_000_000, 40u32..1500, 0usize..3), 1..200),
        wire in 0usize..3, kbit in 50u64..2_000
    ) {
        let contract = format!("high={kbit}kbit/3000B,med={}kbit/1500B", kbit * 2);
        let rate = ["unlimited", "3000001bit", "10Mbit"][wire];
        let mut policer = format!("policer:{contract},action=drop").parse::<StageSpec>().unwrap().build(rng(0));
        let (mut port, mut lost) = (port(&format!("shaper:20,{contract}"), rate), Lost::default());
        let (mut now, mut out) = (Time::ZERO, Vec::new());
        let priorities = arrivals.iter().map(|&(_, _, priority)| Priority::DROPPED_FIRST[priority]);
        for (body, (&(gap, len, _), priority)) in (0..).zip(arrivals.iter().zip(priorities)) {
            now += Span::from_nanos(gap);
            while let Next::Deliver(at, packet) = port.poll(now, &mut lost) {
                out.push((at, packet));
            }
            port.arrive(now, Packet { len, ..packet(body, priority) }, &mut lost);
        }
        while let Next::Deliver(at, packet) = port.poll(Time::NEVER, &mut lost) {
            out.push((at, packet));
        }
        prop_assert_eq!(out.len() + lost.0.len(), arrivals.len());
        prop_assert!(lost.0.iter().all(|(_, reason)| *reason == DropReason::Overflow));
        for priority in Priority::DROPPED_FIRST {
            let bodies = out.iter().filter(|(_, p)| p.dscp.priority() == priority).map(|(_, p)| p.body);
            prop_assert!(bodies.is_sorted(), "{:?} keeps its order", priority);
        }
        for (at, packet) in &mut out {
            prop_assert_eq!(policer.pass(*at, packet), Ok(()), "at {}", at);
        }
    }
}

#[test]
fn what_is_wrong_with_a_shaper_is_named() {
    for (text, named) in [
        ("shaper", "a limit such as"),
        ("shaper:1,high=1kbit/9B", "at least 2"),
        ("shaper:0KB,high=1kbit/9B", "above zero"),
        ("shaper:10", "high=RATE/DEPTH"),
        ("shaper:10,high=6000B/1kbit", "high=RATE/DEPTH"),
        ("shaper:10,high=1kbit/9B,low=1kbit/9B", "low"),
    ] {
        let error = text.parse::<QueueSpec>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(named), "{error}");
    }
}
