//! Tests of links that hold packets back, copy packets, have outages or retransmit lost packets. The results are compared with results
//! worked out by hand, with a step-by-step model and with formulas.

use catnip_base::{Rng, Span, Stream, Time};
use catnip_net::queue::{PortContext, QueueKind, QueueSpec};
use catnip_net::shape::{RateSpec, Shaper};
use catnip_net::stage::{self, StageKind};
use catnip_net::{
    ArqSpec, DropReason, Next, OutageSpec, Outages, Packet, PacketEvents, Port, PortExtensions, Priority,
    Route,
};
use proptest::prelude::*;
use std::collections::VecDeque;

type AnyPort = Port<catnip_net::queue::AnyQueue, catnip_net::shape::AnyShaper>;

/// Log of drops. The body of a copy is that of its original plus 1000.
#[derive(Default)]
struct Drops(Vec<(Time, u32)>);

impl PacketEvents for Drops {
    fn dropped(&mut self, now: Time, packet: Packet, _reason: DropReason) {
        self.0.push((now, packet.body));
    }
    fn copied(&mut self, _now: Time, packet: &Packet) -> Option<u32> {
        Some(packet.body + 1000)
    }
}

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Returns a link on which 1000 bytes take a millisecond, with a propagation delay of 5 ms.
fn link(queue: &str, outage: Option<&str>, extras: PortExtensions) -> AnyPort {
    let rate = RateSpec::read("8Mbit", |_| Err(String::new())).unwrap();
    let outage = outage.map(|text| text.parse::<OutageSpec>().unwrap());
    let context = PortContext::new(&rate, 1, 0).with_outages(outage);
    let queue = queue.parse::<QueueSpec>().unwrap().build(&context);
    Port::with_extensions(queue, context.wire(), Span::from_millis(5), extras)
}

fn after(stages: &str) -> PortExtensions {
    let stages = stage::read(stages, &Default::default(), &|_| Err(String::new())).unwrap();
    let build =
        |(number, stage): (u32, &stage::StageSpec)| stage.build(Rng::new(1, Stream::After(0, number)));
    PortExtensions { after: (0..).zip(&stages).map(build).collect(), ..PortExtensions::default() }
}

fn arq(text: &str) -> PortExtensions {
    let arq = text.parse::<ArqSpec>().unwrap().build(Rng::new(1, Stream::Arq(0)));
    PortExtensions { arq: Some(arq), ..PortExtensions::default() }
}

/// Passes packets of 1000 bytes through the port, one at each time of `arrivals` and in their order. Returns the deliveries and the drops
/// as (time, number of the packet).
fn run(port: &mut AnyPort, arrivals: impl IntoIterator<Item = Time>) -> [Vec<(Time, u32)>; 2] {
    let (mut drops, mut out) = (Drops::default(), Vec::new());
    let mut drain = |port: &mut AnyPort, until, drops: &mut Drops| {
        while let Next::Deliver(at, packet) = port.poll(until, drops) {
            assert_eq!(packet.arrived, at);
            out.push((at, packet.body));
        }
    };
    for (at, body) in arrivals.into_iter().zip(0..) {
        drain(port, at, &mut drops);
        port.arrive(at, Packet::new(at, Route::default(), 1000, body), &mut drops);
    }
    drain(port, Time::from_nanos(u64::MAX / 2), &mut drops);
    assert_eq!((port.backlog().packets, port.backlog().bytes, port.next_at()), (0, 0, None));
    let counters = port.counters();
    let arrived: u64 = counters.arrived.iter().sum();
    assert_eq!(counters.delivered, out.len() as u64);
    assert_eq!(counters.dropped_of(Priority::Low), drops.0.len() as u64);
    assert_eq!(arrived + counters.duplicated, counters.delivered + counters.dropped_of(Priority::Low));
    [out, drops.0]
}

/// Returns the random decisions of stage `number` behind the wire for its first `packets` packets, each true with probability `p`.
fn chosen(number: u32, p: f64, packets: usize) -> Vec<bool> {
    let mut rng = Rng::new(1, Stream::After(0, number));
    (0..packets).map(|_| rng.chance(p)).collect()
}

#[test]
fn a_packet_that_is_held_back_arrives_exactly_so_much_later_and_all_others_as_ever() {
    let packets = 20_000;
    let every = |ms: u64| (0..packets).map(move |n| Time::ZERO + Span::from_millis(ms) * n);
    let [plain, _] = run(&mut link("drop-tail:9", None, PortExtensions::default()), every(2));
    let [out, dropped] = run(&mut link("drop-tail:9", None, after("reorder:0.1,by=7ms")), every(2));
    assert_eq!((out.len(), dropped), (plain.len(), vec![]));
    let mut held = 0;
    for (at, body) in out {
        let regular = plain[body as usize].0;
        assert!(at == regular || at == regular + Span::from_millis(7), "{at} instead of {regular}");
        held += u32::from(at > regular);
    }
    let (n, p) = (packets as f64, 0.1);
    assert!((f64::from(held) - n * p).abs() < 4.0 * (n * p * (1.0 - p)).sqrt(), "{held}");
}

#[test]
fn packets_are_overtaken_by_as_many_as_were_asked_for() {
    let arrivals = || (0..200).map(|n| ms(2 * n));
    let held = chosen(0, 0.1, 200);
    let [out, _] = run(&mut link("drop-tail:9", None, after("reorder:0.1,by=3,within=1s")), arrivals());
    let index_of = |body: u32| out.iter().position(|&(_, other)| other == body).unwrap();
    let mut seen = 0;
    for (body, _) in (0..).zip(&held).filter(|(_, held)| **held) {
        // The overtaking packets are the next three packets that are not held back themselves. The last one of them releases the held-back
        // packet.
        let overtakers = (body + 1..200).filter(|&other| !held[other as usize]).take(3).collect::<Vec<_>>();
        let &[_, _, last] = &overtakers[..] else { continue };
        let between = out
            .iter()
            .filter(|(at, _)| *at == out[index_of(last)].0)
            .map(|(_, body)| *body)
            .collect::<Vec<_>>();
        assert!(between[0] == last && between.contains(&body), "{body} with {last}: {between:?}");
        seen += 1;
    }
    assert!(seen > 5);
    // Without enough following packets, the packet continues after the maximum time.
    let first = held.iter().position(|held| *held).unwrap() as u64;
    let [out, _] = run(
        &mut link("drop-tail:9", None, after("reorder:0.1,by=3,within=30ms")),
        (0..=first).map(|n| ms(2 * n)),
    );
    assert_eq!(out.last(), Some(&(ms(2 * first + 6 + 30), first as u32)));
}

#[test]
fn a_copy_arrives_right_behind_its_original_and_both_are_counted() {
    let copied = chosen(0, 0.25, 4000);
    let [out, _] = run(&mut link("drop-tail:9", None, after("duplicate:0.25")), (0..4000).map(|n| ms(2 * n)));
    let expected = (0..4000u32).flat_map(|body| {
        let copy = copied[body as usize].then_some((ms(2 * u64::from(body) + 6), body + 1000));
        [(ms(2 * u64::from(body) + 6), body)].into_iter().chain(copy)
    });
    assert_eq!(out, expected.collect::<Vec<_>>());
    let (n, p, copies) = (4000.0, 0.25, (out.len() - 4000) as f64);
    assert!((copies - n * p).abs() < 4.0 * f64::sqrt(n * p * (1.0 - p)), "{copies}");
}

#[test]
fn stages_behind_a_wire_come_in_the_order_in_which_they_are_written() {
    let arrivals = || (0..400).map(|n| ms(2 * n));
    // Reordering before losses: the loss model counts packets in the order in which they leave the reordering stage.
    let [_, dropped] =
        run(&mut link("drop-tail:9", None, after("reorder:0.1,by=7ms | packets:20,40")), arrivals());
    let [plain, _] = run(&mut link("drop-tail:9", None, after("reorder:0.1,by=7ms")), arrivals());
    assert_eq!(dropped, [plain[19], plain[39]]);
    // Losses before reordering: lost packets never reach the reordering stage.
    let [out, dropped] =
        run(&mut link("drop-tail:9", None, after("packets:20,40 | reorder:0.1,by=7ms")), arrivals());
    assert_eq!(dropped, [(ms(44), 19), (ms(84), 39)]);
    let (held, mut draws) = (chosen(1, 0.1, 398), 0);
    for body in (0..400).filter(|body| ![19, 39].contains(body)) {
        let late = 7 * u64::from(held[draws]);
        draws += 1;
        assert!(out.contains(&(ms(2 * u64::from(body) + 6 + late), body)), "{body}");
    }
    // A copy made before the reordering stage may be held back like any other packet. A copy made after the reordering stage stays directly
    // behind its original.
    let [out, _] =
        run(&mut link("drop-tail:9", None, after("duplicate:0.3 | reorder:0.3,by=7ms")), arrivals());
    let apart = |(at, body): &(Time, u32)| *body >= 1000 && !out.contains(&(*at, body - 1000));
    assert!(out.iter().any(apart));
    let [out, _] =
        run(&mut link("drop-tail:9", None, after("reorder:0.3,by=7ms | duplicate:0.3")), arrivals());
    for pair in out.windows(2).filter(|pair| pair[1].1 >= 1000) {
        assert_eq!(pair[0], (pair[1].0, pair[1].1 - 1000), "right behind its original, whenever that comes");
    }
}

#[test]
fn a_wire_that_stands_still_keeps_packets_and_an_outage_as_loss_takes_them() {
    // The link is down from 10 to 15 ms, from 30 to 35 ms and so on.
    let (outage, arrivals) = ("every=20ms,for=5ms,first=10ms", [0, 9, 9, 11, 16, 28, 28, 28].map(ms));
    let [out, dropped] = run(&mut link("drop-tail:9", Some(outage), PortExtensions::default()), arrivals);
    let at: Vec<u64> = out.iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
    assert_eq!((at, dropped), (vec![6, 15, 21, 22, 23, 34, 35, 41], vec![]));
    // A buffer limited in time takes outages into account, too: a fourth packet at 28 ms would wait until 36 ms.
    for (limit, lost) in [("8ms", vec![]), ("7999us", vec![(ms(28), 8)])] {
        let arrivals = arrivals.into_iter().chain([ms(28)]);
        let [_, dropped] =
            run(&mut link(&format!("drop-tail:{limit}"), Some(outage), PortExtensions::default()), arrivals);
        assert_eq!(dropped, lost, "{limit}");
    }
    // As a loss model, the outage applies at the end of the wire, for example to packets that arrive there from 10 ms on and before 15 ms.
    let [out, dropped] = run(&mut link("drop-tail:9", None, after(&format!("outage:{outage}"))), arrivals);
    assert_eq!(
        dropped.iter().map(|(at, body)| (at.as_nanos() / 1_000_000, *body)).collect::<Vec<_>>(),
        [(34, 5)]
    );
    assert_eq!(out.len(), 7);
}

#[test]
fn outages_take_the_share_of_packets_that_they_last() {
    for text in ["every=300ms,for=60ms", "mean_up=300ms,mean_down=60ms"] {
        let outage = text.parse::<OutageSpec>().unwrap();
        // The interval between arrivals is no divisor of the period.
        let arrivals = (0..300_000u64).map(|n| Time::from_nanos(n * 1_111_111));
        let [_, dropped] = run(&mut link("drop-tail:9", None, after(&format!("outage:{text}"))), arrivals);
        // There are about n = 1000 outages. With random outages, the share has a relative error of sqrt(2 / n) times the share of uptime.
        let share = dropped.len() as f64 / 300_000.0;
        assert!(
            (share / outage.down_fraction() - 1.0).abs() < 4.0 * (2f64 / 900.0).sqrt(),
            "{text}: {share}"
        );
    }
    // Exactly the packets that arrive while the link is down are lost.
    let mut outages =
        Outages::new("mean_up=300ms,mean_down=60ms".parse().unwrap(), Rng::new(1, Stream::After(0, 0)));
    let [out, dropped] = run(
        &mut link("drop-tail:9", None, after("outage:mean_up=300ms,mean_down=60ms")),
        (0..20_000).map(|n| ms(2 * n)),
    );
    let mut all: Vec<_> =
        out.into_iter().map(|it| (it, false)).chain(dropped.into_iter().map(|it| (it, true))).collect();
    all.sort_unstable();
    assert!(all.iter().all(|&((at, _), lost)| outages.is_down(at) == lost));
}

/// Returns true or false for each of the first `count` attempts of a link layer: true if the attempt is lost.
fn attempts(loss: f64, count: usize) -> Vec<bool> {
    let mut rng = Rng::new(1, Stream::Arq(0));
    (0..count).map(|_| rng.chance(loss)).collect()
}

#[test]
fn a_lone_packet_comes_a_retry_later_for_each_lost_attempt_or_is_given_up() {
    let (loss, retry_ms, tries, packets) = (0.4_f64, 8, 3, 60_000u64);
    for in_order in [false, true] {
        let text = format!("arq:loss={loss},retry={retry_ms}ms,tries={tries},in_order={in_order}");
        let arrivals = (0..packets).map(|n| ms(100 * n));
        let [out, dropped] = run(&mut link("drop-tail:9", None, arq(&text)), arrivals);
        let mut lost = attempts(loss, 200_000).into_iter();
        let (mut expected, mut given_up) = (Vec::new(), Vec::new());
        for body in 0..packets as u32 {
            let before = lost.by_ref().take(tries).take_while(|lost| *lost).count() as u64;
            let at = |before| ms(100 * u64::from(body) + 6 + retry_ms * before);
            match before {
                3 => given_up.push((at(2), body)),
                before => expected.push((at(before), body)),
            }
        }
        assert_eq!((&out, &dropped), (&expected, &given_up), "one after the other");
        // Formula: the probability that k attempts were lost is p^k (1 - p) / (1 - p^tries) for a packet that arrives.
        let spec: ArqSpec = text.parse().unwrap();
        let (n, residual) = (packets as f64, loss.powi(tries as i32));
        assert!((spec.residual_loss() - residual).abs() < 1e-12);
        let share = dropped.len() as f64 / n;
        assert!(
            (share - residual).abs() < 4.0 * (residual * (1.0 - residual) / n).sqrt(),
            "{share} instead of {residual}"
        );
        let moment = |power: i32| -> f64 {
            let of = |k: i32| f64::from(k).powi(power) * loss.powi(k) * (1.0 - loss) / (1.0 - residual);
            (0..tries as i32).map(of).sum()
        };
        let (mean, variance) = (moment(1), moment(2) - moment(1).powi(2));
        let extra =
            out.iter().map(|&(at, body)| (at - ms(100 * u64::from(body) + 6)).as_secs() * 1e3).sum::<f64>();
        let (measured, retry) = (extra / out.len() as f64, retry_ms as f64);
        assert!(
            (measured - retry * mean).abs() < 4.0 * retry * (variance / out.len() as f64).sqrt(),
            "{measured} ms"
        );
    }
}

#[test]
fn without_end_a_link_layer_makes_delay_of_all_loss() {
    // The mean extra delay is retry p / (1 - p); the variance of the number of lost attempts is p / (1 - p)^2.
    let (loss, packets) = (0.3_f64, 50_000u64);
    let arrivals = (0..packets).map(|n| ms(300 * n));
    let [out, dropped] =
        run(&mut link("drop-tail:9", None, arq("arq:loss=0.3,retry=10ms,tries=1000")), arrivals);
    assert_eq!(dropped, []);
    let extra = out.iter().map(|&(at, body)| (at - ms(300 * u64::from(body) + 6)).as_secs()).sum::<f64>()
        / packets as f64;
    let (expected, deviation) = (0.010 * loss / (1.0 - loss), 0.010 * loss.sqrt() / (1.0 - loss));
    assert!(
        (extra - expected).abs() < 4.0 * deviation / (packets as f64).sqrt(),
        "{extra} instead of {expected}"
    );
}

#[test]
fn a_busy_wire_spends_its_time_on_attempts() {
    // Each packet takes 1 / (1 - p) attempts on average, so that goodput is the rate times 1 - p.
    let [out, _] = run(
        &mut link("drop-tail:100000", None, arq("arq:loss=0.2,retry=3ms,tries=1000")),
        (0..50_000).map(|_| ms(0)),
    );
    let attempts = out.iter().map(|it| it.0).max().unwrap().as_secs() / 0.001;
    // The number of attempts until n have succeeded has a standard deviation of sqrt(n p) / (1 - p).
    let (n, p) = (50_000.0, 0.2);
    assert!((attempts - n / (1.0 - p)).abs() < 4.0 * f64::sqrt(n * p) / (1.0 - p) + 20.0, "{attempts}");
}

/// Step-by-step model of the link layer. Whenever the wire is free, it sends a packet that is due for retransmission, or else the first
/// waiting packet.
fn slowly(
    spec: &ArqSpec,
    arrivals: &[(Time, u32)],
    wire: &mut dyn Shaper,
    delay: Span,
) -> [Vec<(Time, u32)>; 2] {
    let mut rng = Rng::new(1, Stream::Arq(0));
    let mut waiting: VecDeque<(u32, Time, u32)> =
        (0..).zip(arrivals).map(|(body, &(at, len))| (body, at, len)).collect();
    let mut again: Vec<(Time, u32, u32, u32)> = Vec::new();
    // Time at which each packet reaches the end of the wire, and true if it was not given up, in the order of the first attempts.
    let mut ends: Vec<Option<(Time, bool)>> = vec![None; arrivals.len()];
    let mut now = Time::ZERO;
    while !waiting.is_empty() || !again.is_empty() {
        again.sort_by_key(|it| it.0);
        let retry_at = again.first().map_or(Time::NEVER, |it| it.0);
        let new_at = waiting.front().map_or(Time::NEVER, |it| it.1);
        now = now.max(retry_at.min(new_at));
        let (body, len, lost) = if retry_at <= now {
            let (_, body, len, lost) = again.remove(0);
            (body, len, lost)
        } else {
            let (body, _, len) = waiting.pop_front().unwrap();
            (body, len, 0)
        };
        let start = now;
        now = wire.finish(start, len);
        let is_lost = rng.chance(spec.loss);
        if is_lost && lost + 1 < spec.tries.get() {
            again.push((start + spec.retry, body, len, lost + 1));
        } else {
            ends[body as usize] = Some((now + delay, !is_lost));
        }
    }
    let mut last = Time::ZERO;
    let (mut out, mut dropped) = (Vec::new(), Vec::new());
    for (end, body) in ends.into_iter().zip(0..) {
        let (mut at, arrives) = end.unwrap();
        if spec.in_order {
            last = last.max(at);
            at = last;
        }
        [&mut dropped, &mut out][usize::from(arrives)].push((at, body));
    }
    [out, dropped]
}

proptest! {
    #[test]
    fn a_link_layer_does_what_it_does_one_step_after_the_other(
        arrivals in prop::collection::vec((0u64..3_000_000, 40u32..1500), 1..120), loss in 0.0..0.7f64, retry_us in 0u64..9_000,
        tries in 1u32..5, in_order: bool, rate in prop::sample::select(vec!["3000001bit", "unlimited"]), outage: bool
    ) {
        let text = format!("arq:loss={loss},retry={retry_us}us,tries={tries},in_order={in_order}");
        let rate = RateSpec::read(rate, |_| Err(String::new())).unwrap();
        let outage = outage.then(|| "every=9ms,for=3ms".parse().unwrap());
        let context = PortContext::new(&rate, 1, 0).with_outages(outage);
        let queue = "drop-tail:1000".parse::<QueueSpec>().unwrap().build(&context);
        let delay = Span::from_millis(2);
        let mut port = Port::with_extensions(queue, context.wire(), delay, arq(&text));
        let mut at = Time::ZERO;
        let arrivals: Vec<_> = arrivals.into_iter().map(|(gap, len)| { at += Span::from_nanos(gap); (at, len) }).collect();
        let mut drops = Drops::default();
        for (&(at, len), body) in arrivals.iter().zip(0..) {
            port.arrive(at, Packet::new(at, Route::default(), len, body), &mut drops);
        }
        let mut out = Vec::new();
        while let Next::Deliver(at, packet) = port.poll(Time::from_nanos(u64::MAX / 2), &mut drops) {
            out.push((at, packet.body));
        }
        let is_sorted = out.is_sorted_by_key(|it| it.1);
        prop_assert!(out.is_sorted_by_key(|it| it.0) && (is_sorted || !in_order));
        // The model returns packets in the order of their numbers.
        out.sort_by_key(|it| it.1);
        drops.0.sort_by_key(|it| it.1);
        prop_assert_eq!([out, drops.0], slowly(&text.parse().unwrap(), &arrivals, &mut context.wire(), delay));
    }
}
