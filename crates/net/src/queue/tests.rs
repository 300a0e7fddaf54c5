use super::*;
use crate::{DropReason, Dscp, Ecn, Priority, Route};
use catnip_base::{Rate, Rng, Span, Stream};
use proptest::prelude::*;
use std::num::NonZeroU32;

mod cake;
mod codel;
mod dual_pi2;
mod fq_codel;
mod pie;
mod rio;
mod scheduler;
mod shaper;
mod wrr;

/// Log of dropped packets.
#[derive(Default)]
struct Lost(Vec<(Packet, DropReason)>);

impl PacketEvents for Lost {
    fn dropped(&mut self, _now: Time, packet: Packet, reason: DropReason) {
        self.0.push((packet, reason));
    }
}

/// Log of dropped packets with the reason, and of marked packets, by body.
#[derive(Default)]
struct EventLog(Vec<(u32, DropReason)>, Vec<u32>);

impl PacketEvents for EventLog {
    fn dropped(&mut self, _now: Time, packet: Packet, reason: DropReason) {
        self.0.push((packet.body, reason));
    }
    fn marked(&mut self, _now: Time, packet: &Packet) {
        assert_eq!(packet.ecn, Ecn::CE);
        self.1.push(packet.body);
    }
}

pub(super) fn packet(body: u32, priority: Priority) -> Packet {
    Packet { dscp: priority.into(), ..Packet::new(Time::ZERO, Route::default(), 512, body) }
}

pub(super) fn rng(n: u32) -> Rng {
    Rng::new(42, Stream::Queue(n))
}

fn red_parameters() -> RedParameters {
    RedParameters {
        min_threshold: 2.0,
        max_threshold: 6.0,
        weight: 0.01,
        max_probability: 0.1,
        gentle: false,
        wait: false,
        mean_packet_bytes: 512,
        ecn: false,
        hard: true,
    }
}

fn packets(waiting: u32) -> NonZeroU32 {
    NonZeroU32::new(waiting).unwrap()
}

const RATE: Rate = Rate::from_bits_per_second(1_500_000).unwrap();

fn contents(queue: &mut impl QueueDiscipline) -> Vec<Packet> {
    std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut Lost::default())).collect()
}

#[test]
fn the_papers_red_has_thresholds_of_20_and_60_percent() {
    let QueueSpec::Red(RedSpec { limit, parameters }) = "red:10".parse().unwrap() else { panic!("not RED") };
    assert_eq!(limit, packets(10).into());
    assert_eq!((parameters.min_threshold, parameters.max_threshold), (2.0, 6.0));
}

#[test]
fn what_is_wrong_with_a_queue_is_named() {
    for (text, named) in [
        ("drop-tail", "limit"),
        ("drop-tail:1", "at least 2"),
        ("drop-tail:1000000000000000000", "at most 4294967296"),
        ("red:1000000000000000000", "at most 4294967295"),
        ("codel:1000000000000000000", "at most 4294967296"),
        ("drop-tial:10", "did you mean drop-tail?"),
        ("red:10,gentel=true", "did you mean gentle?"),
        ("drop-tail:-5", "limit"),
        ("drop-tail:1000000000000000000", "expected at most 4294967296 packets"),
        ("drop-tail:99999999999999999999999999", "expected at most 4294967296 packets"),
        ("drop-tail:99999999999999999999KB", "expected at most 18014398509481983KB"),
        ("drop-tail:99999999999999s", "expected at most 18446744073s"),
        ("catnip-good:4294967297", "expected at most 4294967296 packets"),
        ("codel:99999999999", "expected at most 4294967296 packets"),
        ("fq-codel:99999999999", "expected at most 4294967296 packets"),
        ("cake:100,rtt=0ms", "an rtt of 20us or more"),
        ("cake:100,rate=0Mbit", "rate"),
        ("cake:100,overhead=257", "an overhead of at most 256 bytes"),
        ("cake:100,tins=diffserv8", "tins=besteffort, diffserv3 or diffserv4"),
        ("cake:100,isolation=hosts", "isolation=triple-isolate, dual-srchost, dual-dsthost or flows"),
        ("cake:100,quantum=9", "quantum"),
        ("shaper:4294967297,high=1Mbit/6KB", "expected at most 4294967296 packets"),
        ("red:4294967296", "expected at most 4294967295 packets"),
        ("rio:4294967296", "expected at most 4294967295 packets"),
        ("line:10", "one of drop-tail, red, "),
        ("red:0", "at least 1"),
        ("red:10,min=7", "min < max"),
        ("red:10,min=6", "min < max"),
        ("red:10,weight=0", "weight and max_p in (0, 1]"),
        ("red:10,max_p=1.5", "weight and max_p in (0, 1]"),
        ("red:10,mean_packet=0", "mean_packet positive"),
        ("red:10,colour=blue", "colour"),
        ("catnip-good:1", "at least 2"),
        ("catnip-good:10,victim=me", "victim="),
        ("drop-tail:10,20", "20"),
        ("drop-tail:0KB", "above zero"),
        ("drop-tail:0ms", "above zero"),
        ("drop-tail:1.5", "limit"),
        ("drop-tail:15kB", "drop-tail:15KB"),
        ("drop-tail:15KB,victim=random", "victim"),
        ("catnip-good:0KB", "above zero"),
        ("catnip-good:200ms", "15KB"),
        ("catnip-red:0KB", "above zero"),
        ("red:15KB,min=9KB,max=8KB", "min < max"),
        ("red:200ms", "15KB (above zero)"),
    ] {
        let error = text.parse::<QueueSpec>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(named), "{error}");
    }
}

#[test]
fn a_queue_without_room_cannot_be_built() {
    assert_eq!([0, 1].map(DropTailSpec::packets), [None, None]);
    assert_eq!(DropTailSpec::bytes(0).or(DropTailSpec::wait(Span::ZERO)), None);
    assert_eq!(PacketLimit::new(0).or(PacketLimit::new(1)).or(PacketLimit::new(u64::MAX)), None);
    assert_eq!(PacketLimit::new(1 << 32).unwrap().waiting().get(), u32::MAX);
}

#[test]
fn drop_tail_keeps_the_first_and_drops_the_rest() {
    let (mut queue, mut lost) = (DropTail::new(packets(3)), Lost::default());
    for body in 0..5 {
        queue.enqueue(Time::ZERO, packet(body, Priority::Low), &mut lost);
    }
    assert_eq!(queue.backlog(), Backlog { packets: 3, bytes: 3 * 512 });
    assert_eq!(contents(&mut queue).iter().map(|p| p.body).collect::<Vec<_>>(), [0, 1, 2]);
    let outcomes: Vec<_> = lost.0.iter().map(|(p, reason)| (p.body, *reason)).collect();
    assert_eq!(outcomes, [(3, DropReason::Overflow), (4, DropReason::Overflow)]);
}

/// Checks which packets are dropped in a sequence of arrivals at a queue that protects one priority.
fn check_protection(
    queue: &mut AnyQueue,
    protected: Priority,
    arrivals: &[bool],
    limit: usize,
) -> Result<(), TestCaseError> {
    let mut inside: Vec<Packet> = Vec::new();
    for (body, &high) in arrivals.iter().enumerate() {
        let arrival = packet(body as u32, if high { Priority::High } else { Priority::Low });
        let mut lost = Lost::default();
        queue.enqueue(Time::ZERO, arrival, &mut lost);
        let sacrificed_waits = inside.iter().any(|p| p.dscp.priority() != protected);
        inside.push(arrival);
        for (dropped_packet, _) in &lost.0 {
            if dropped_packet.dscp.priority() == protected {
                prop_assert_eq!(
                    inside.len(),
                    limit + 1,
                    "a protected packet is dropped only at a full queue"
                );
                prop_assert!(!sacrificed_waits, "and only if no other waits");
            }
            inside.retain(|p| p.body != dropped_packet.body);
        }
        prop_assert!(lost.0.len() <= 1 && inside.len() <= limit);
    }
    let order: Vec<u32> = contents(queue).iter().map(|p| p.body).collect();
    prop_assert_eq!(order, inside.iter().map(|p| p.body).collect::<Vec<_>>(), "order is kept");
    Ok(())
}

/// Returns the bodies of the packets that wait after these arrivals (bytes, drop precedence), and the bodies of the dropped packets.
fn in_bytes(limit: &str, arrivals: &[(u32, Priority)]) -> (Vec<u32>, Vec<u32>) {
    let spec: QueueSpec = limit.parse().unwrap();
    let rate = RateSpec::Unlimited;
    let mut queue = spec.build(&PortContext::new(&rate, 1, 0));
    let mut lost = Lost::default();
    for (body, &(len, priority)) in (0..).zip(arrivals) {
        queue.enqueue(Time::ZERO, Packet { len, ..packet(body, priority) }, &mut lost);
    }
    (contents(&mut queue).iter().map(|p| p.body).collect(), lost.0.iter().map(|(p, _)| p.body).collect())
}

#[test]
fn in_bytes_an_arrival_pushes_out_as_many_as_it_needs_and_none_in_vain() {
    use Priority::{High as HIGH, Low as LOW};
    let three = [(1000, LOW), (1000, LOW), (1000, LOW)];
    let and = |more: &[(u32, Priority)]| [&three[..], more].concat();
    // A packet of 1500 bytes needs the space of two packets of 1000 bytes, a packet of 1000 bytes the space of one.
    assert_eq!(in_bytes("catnip-good:3000B,victim=oldest", &and(&[(1500, HIGH)])), (vec![2, 3], vec![0, 1]));
    assert_eq!(in_bytes("catnip-good:3000B,victim=newest", &and(&[(1000, HIGH)])), (vec![0, 1, 3], vec![2]));
    // An arriving packet pushes out no packet if the freed space would not be enough: because it is larger than the buffer, or because all
    // queued packets have the same priority.
    assert_eq!(in_bytes("catnip-good:3000B", &and(&[(3001, HIGH)])), (vec![0, 1, 2], vec![3]));
    assert_eq!(in_bytes("catnip-good:3000B", &and(&[(40, LOW)])), (vec![0, 1, 2], vec![3]));
    let mixed = [(1000, LOW), (1000, HIGH), (1000, HIGH), (1500, HIGH)];
    assert_eq!(in_bytes("catnip-good:3000B", &mixed), (vec![0, 1, 2], vec![3]));
    // A small packet fits into a buffer that is full for a large packet, as in drop-tail:3000B.
    assert_eq!(in_bytes("catnip-good:3040B", &and(&[(40, LOW)])), (vec![0, 1, 2, 3], vec![]));
    assert_eq!(in_bytes("drop-tail:3040B", &and(&[(40, LOW)])), (vec![0, 1, 2, 3], vec![]));
    let bad = [(1000, HIGH), (1000, HIGH), (1000, HIGH), (1000, LOW)];
    assert_eq!(in_bytes("catnip-bad:3000B,victim=oldest", &bad), (vec![1, 2, 3], vec![0]));
}

#[test]
fn in_bytes_the_packet_in_transmission_keeps_its_place() {
    let spec: QueueSpec = "catnip-good:2000B".parse().unwrap();
    let mut queue = spec.build(&PortContext::new(&RateSpec::Unlimited, 1, 0));
    let mut lost = Lost::default();
    let mut arrives = |queue: &mut AnyQueue, body| {
        queue.enqueue(Time::ZERO, Packet { len: 1000, ..packet(body, Priority::Low) }, &mut lost);
        lost.0.len()
    };
    arrives(&mut queue, 0);
    queue.dequeue(Time::ZERO, &mut Lost::default());
    assert_eq!([arrives(&mut queue, 1), arrives(&mut queue, 2)], [0, 1], "1000 of 2000 are in transmission");
    queue.dequeue(Time::ZERO, &mut Lost::default());
    queue.dequeue(Time::ZERO, &mut Lost::default());
    assert_eq!([arrives(&mut queue, 3), arrives(&mut queue, 4)], [1, 1], "the wire is idle");
    assert!(!spec.counts_packets() && spec.buffer_bounds() == BufferBounds::default());
}

proptest! {
    #[test]
    fn catnip_good_gives_up_high_packets_only_if_no_low_one_waits(
        arrivals in prop::collection::vec(any::<bool>(), 0..60), limit in 1u32..12, rule in 0usize..3
    ) {
        let victim = [VictimRule::Random, VictimRule::Newest, VictimRule::Oldest][rule];
        let mut queue = AnyQueue::Catnip(CatnipQueue::good(packets(limit), victim, rng(1)));
        check_protection(&mut queue, Priority::High, &arrivals, limit as usize)?;
    }

    #[test]
    fn catnip_bad_is_its_mirror_image(arrivals in prop::collection::vec(any::<bool>(), 0..60), limit in 1u32..12) {
        let mirrored: Vec<bool> = arrivals.iter().map(|high| !high).collect();
        let mut bad = AnyQueue::Catnip(CatnipQueue::bad(packets(limit), VictimRule::Random, rng(1)));
        let mut good = AnyQueue::Catnip(CatnipQueue::good(packets(limit), VictimRule::Random, rng(1)));
        check_protection(&mut bad, Priority::Low, &arrivals, limit as usize)?;
        check_protection(&mut good, Priority::High, &mirrored, limit as usize)?;
    }
}

#[test]
fn the_random_victim_is_uniform_among_low_packets() {
    let mut counts = [0u32; 5];
    let trials = 10_000;
    for trial in 0..trials {
        let mut queue = CatnipQueue::good(packets(8), VictimRule::Random, rng(trial));
        let mut lost = Lost::default();
        for body in 0..8 {
            // LOW packets at indices 0, 2, 3, 5 and 7.
            let priority = if [0, 2, 3, 5, 7].contains(&body) { Priority::Low } else { Priority::High };
            queue.enqueue(Time::ZERO, packet(body, priority), &mut lost);
        }
        queue.enqueue(Time::ZERO, packet(8, Priority::High), &mut lost);
        let index = [0, 2, 3, 5, 7].iter().position(|&b| b == lost.0[0].0.body).unwrap();
        counts[index] += 1;
    }
    let expected = f64::from(trials) / 5.0;
    let chi_square: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
    assert!(chi_square < 13.28, "4 degrees of freedom, p > 0.01: {chi_square}, {counts:?}");
}

#[test]
fn a_probe_drops_the_arrival_as_often_as_it_finds_a_high_packet() {
    let trials = 4000;
    let arrival_dropped = (0..trials)
        .filter(|&trial| {
            let mut queue = CatnipQueue::good(packets(4), VictimRule::Probe, rng(trial));
            let mut lost = Lost::default();
            for body in 0..4 {
                queue.enqueue(
                    Time::ZERO,
                    packet(body, if body == 0 { Priority::Low } else { Priority::High }),
                    &mut lost,
                );
            }
            queue.enqueue(Time::ZERO, packet(4, Priority::High), &mut lost);
            lost.0[0].0.body == 4
        })
        .count();
    let share = arrival_dropped as f64 / f64::from(trials);
    assert!((share - 0.75).abs() < 4.0 * (0.75 * 0.25 / f64::from(trials)).sqrt(), "{share}");
}

#[test]
fn reds_average_follows_the_formula_of_1993() {
    let mut law = RedLaw::new(red_parameters(), RATE, rng(0));
    let mut average = 0.0;
    for (step, waiting) in [5, 7, 9, 3, 0, 2].into_iter().enumerate() {
        law.on_arrival(Time::ZERO, waiting);
        average = (1.0 - 0.01) * average + 0.01 * f64::from(waiting);
        assert!((law.average() - average).abs() < 1e-12, "step {step}");
    }
    // A packet of 512 B takes 2.7306 ms, so an idle period of one second counts as 366 packets.
    law.on_idle(Time::ZERO);
    law.on_arrival(Time::from_nanos(1_000_000_000), 0);
    average *= 0.99f64.powi(366) * 0.99;
    assert!((law.average() - average).abs() < 1e-12);
}

#[test]
fn an_idle_wire_that_is_told_so_again_has_been_idle_all_along() {
    // A loss model before the queue makes the port call `dequeue` again without an arrival at the queue.
    let (mut once, mut twice) =
        (RedLaw::new(red_parameters(), RATE, rng(0)), RedLaw::new(red_parameters(), RATE, rng(0)));
    for law in [&mut once, &mut twice] {
        (0..50).for_each(|_| _ = law.on_arrival(Time::ZERO, 9));
        law.on_idle(Time::ZERO);
    }
    twice.on_idle(Time::from_nanos(500_000_000));
    for law in [&mut once, &mut twice] {
        law.on_arrival(Time::from_nanos(500_000_001), 0);
    }
    assert_eq!(once.average(), twice.average());
}

#[test]
fn a_wire_faster_than_a_packet_per_nanosecond_is_no_division_by_zero() {
    let fast = Rate::from_bits_per_second(5_000_000_000_000).unwrap();
    let mut law = RedLaw::new(red_parameters(), fast, rng(0));
    assert_eq!(law.on_arrival(Time::from_nanos(1_000), 0), Verdict::Accept);
}

#[test]
fn reds_drop_gaps_have_the_distribution_that_the_formula_gives() {
    // With a constant average of 4 packets, p_b is 0.05. Without `wait`, the gap between drops is uniform on 1..=20.
    let parameters = RedParameters { weight: 1e-12, ..red_parameters() };
    let p_b = red::base_probability(&parameters, 4.0);
    assert!((p_b - 0.05).abs() < 1e-12);
    let mut rng = rng(3);
    let mut counts = [0u32; 20];
    let drops = 20_000;
    for _ in 0..drops {
        let mut count = 1.0;
        while rng.uniform() > red::spaced(p_b, count, false) {
            count += 1.0;
        }
        counts[count as usize - 1] += 1;
    }
    // p_a(n) = p_b / (1 - n p_b): the probability of a gap of n follows by multiplication.
    let mut survive = 1.0;
    let mut chi_square = 0.0;
    for (i, &seen) in counts.iter().enumerate() {
        let p_a = red::spaced(p_b, i as f64 + 1.0, false);
        let expected = f64::from(drops) * survive * p_a;
        survive *= 1.0 - p_a;
        if expected > 0.0 {
            chi_square += (f64::from(seen) - expected).powi(2) / expected;
        }
    }
    assert!(chi_square < 36.19, "19 degrees of freedom, p > 0.01: {chi_square}");
    let uniform =
        counts[..19].iter().map(|&c| f64::from(c)).fold((f64::MAX, 0.0f64), |(l, h), c| (l.min(c), h.max(c)));
    assert!(uniform.0 > 0.8 * uniform.1, "gaps 1 to 19 are equally likely: {counts:?}");
}

#[test]
fn the_law_drops_as_often_as_its_probabilities_say() {
    let parameters = RedParameters { weight: 1.0, ..red_parameters() };
    let mut law = RedLaw::new(parameters, RATE, rng(5));
    law.on_arrival(Time::ZERO, 4);
    let arrivals = 200_000;
    let drops = (0..arrivals).filter(|_| law.on_arrival(Time::ZERO, 4) == Verdict::Early).count() as f64;
    // Gaps are uniform on 1..=19, because the drop is certain at n p_b >= 1. The mean gap is slightly above 10.
    let mean_gap = f64::from(arrivals) / drops;
    assert!((9.5..11.0).contains(&mean_gap), "{mean_gap}");
    assert_eq!(law.on_arrival(Time::ZERO, 6), Verdict::Forced, "at the upper threshold everything goes");
    assert_eq!(law.on_arrival(Time::ZERO, 1), Verdict::Accept, "one waiting packet is never too many");
}

#[test]
fn red_with_ecn_marks_what_can_be_marked_where_it_would_drop_early_and_drops_all_else() {
    // The average equals the queue length. Early drops occur with fewer than 6 waiting packets, and every arriving packet is dropped with 6
    // or more.
    let spec = |ecn: bool| format!("red:8,min=1,max=6,weight=1,max_p=1,wait=false,ecn={ecn}");
    let run = |text: &str, ecn: Ecn| {
        let mut queue =
            text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&RateSpec::Unlimited, 1, 0));
        let mut event_log = EventLog::default();
        for body in 0..40 {
            queue.enqueue(Time::ZERO, Packet { ecn, ..packet(body, Priority::Low) }, &mut event_log);
        }
        let marked = contents(&mut queue).iter().filter(|packet| packet.ecn == Ecn::CE).count();
        let count = |counted| event_log.0.iter().filter(|(_, reason)| *reason == counted).count();
        (
            count(DropReason::Early),
            count(DropReason::Forced) + count(DropReason::Overflow),
            event_log.1.len(),
            marked,
        )
    };
    let (early, late, event_log, marked) = run(&spec(true), Ecn::ECT_0);
    // Above the upper threshold and with a full buffer, ECN-capable packets are dropped, too.
    assert!(
        early == 0 && late > 20 && marked > 0 && event_log == marked,
        "{early} {late} {event_log} {marked}"
    );
    for (text, ecn) in [(spec(true), Ecn::NOT_ECT), (spec(false), Ecn::ECT_0)] {
        let (early, _, event_log, _) = run(&text, ecn);
        assert!(early > 0 && event_log == 0, "{text} {ecn:?}: {early} {event_log}");
    }
    // A packet that arrives with a mark stays marked and is not reported.
    assert_eq!(run(&spec(true), Ecn::CE).2, 0);
}

#[test]
fn the_law_s_thresholds_by_hand() {
    // The average equals the queue length, or half of it. Above the lower threshold, at least every second arriving packet is dropped.
    let certain = RedParameters { weight: 1.0, max_probability: 1.0, wait: false, ..red_parameters() };
    let law = |parameters| RedLaw::new(parameters, RATE, rng(1));
    let verdicts = |parameters, waiting: &[u32]| {
        let mut law = law(parameters);
        waiting.iter().map(|&waiting| law.on_arrival(Time::ZERO, waiting)).collect::<Vec<_>>()
    };
    use Verdict::{Accept, Early, Forced};
    assert_eq!(
        verdicts(certain, &[5, 5]),
        [Accept, Early],
        "the first arrival above the threshold starts the count"
    );
    assert_eq!(verdicts(certain, &[2, 5]), [Accept, Early], "at the threshold is above it");
    let slow = RedParameters { weight: 0.5, ..certain };
    assert_eq!(verdicts(slow, &[2, 9]), [Accept, Accept], "an average of 1 is below it");
    assert_eq!(verdicts(slow, &[9, 1, 9]), [Accept, Accept, Accept], "one that waits is never too many");
    let gentle = RedParameters { gentle: true, ..certain };
    assert_eq!(
        verdicts(gentle, &[9, 9, 12]),
        [Accept, Early, Forced],
        "gentle RED forces at twice the threshold"
    );
    assert_eq!(red::base_probability(&certain, 6.0), 1.0);
    // With `wait`, no packet is dropped before 1/p_b packets have arrived; the drop is then uniformly distributed over the next 1/p_b
    // packets.
    let spaced = |count, wait| red::spaced(0.25, count, wait);
    assert_eq!([3.0, 4.0, 7.0, 8.0].map(|count| spaced(count, true)), [0.0, 0.25, 1.0, 1.0]);
    assert_eq!([1.0, 3.0, 4.0].map(|count| spaced(count, false)), [0.25 / 0.75, 1.0, 1.0]);
    // An overflow restarts the count, too: with `wait` and p_b = 1/2 the next arrival is accepted.
    for seed in 0..20 {
        let mut law = RedLaw::new(RedParameters { wait: true, ..certain }, RATE, rng(seed));
        law.on_arrival(Time::ZERO, 4);
        law.on_overflow();
        assert_eq!(law.on_arrival(Time::ZERO, 4), Accept, "seed {seed}");
    }
}

#[test]
fn whoever_has_left_gives_its_place_no_more() {
    let mut queue = CatnipQueue::good(packets(2), VictimRule::Random, rng(1));
    let mut lost = Lost::default();
    queue.enqueue(Time::ZERO, packet(0, Priority::Low), &mut lost);
    queue.enqueue(Time::ZERO, packet(1, Priority::High), &mut lost);
    assert_eq!(queue.backlog(), Backlog { packets: 2, bytes: 2 * 512 });
    assert_eq!(queue.dequeue(Time::ZERO, &mut lost).map(|packet| packet.body), Some(0));
    assert_eq!(queue.backlog(), Backlog { packets: 1, bytes: 512 });
    queue.enqueue(Time::ZERO, packet(2, Priority::High), &mut lost);
    queue.enqueue(Time::ZERO, packet(3, Priority::High), &mut lost);
    assert_eq!(lost.0.iter().map(|(packet, _)| packet.body).collect::<Vec<_>>(), [3]);
    let mut red = Red::new(packets(3), RedLaw::new(red_parameters(), RATE, rng(0)));
    red.enqueue(Time::ZERO, packet(0, Priority::Low), &mut lost);
    assert_eq!(red.backlog(), Backlog { packets: 1, bytes: 512 });
}

#[test]
fn red_in_bytes_follows_the_words_of_its_paper() {
    // Section VI of the 1993 paper: the average is in bytes; counts and probabilities are per mean packet size.
    let p = RedParameters {
        min_threshold: 2000.0,
        max_threshold: 9000.0,
        weight: 0.05,
        max_probability: 0.2,
        mean_packet_bytes: 500,
        ..red_parameters()
    };
    let (mut law, mut drawn, mut arrivals) = (RedLaw::new(p, RATE, rng(3)), rng(3), rng(4));
    let (mut average, mut since_drop, mut above) = (0.0, 0.0, false);
    let mut seen = [0; 3];
    for step in 0..20_000 {
        let len = 40 + arrivals.below(1460);
        let waiting = u64::from(arrivals.below(if step / 2000 % 2 == 0 { 9000 } else { 20_000 }));
        average += 0.05 * (waiting as f64 - average);
        let mut expected = Verdict::Accept;
        since_drop += f64::from(len);
        if average < 2000.0 || waiting <= 1 {
            above = false;
        } else if average >= 9000.0 {
            (expected, since_drop) = (Verdict::Forced, 0.0);
        } else if !above {
            (above, since_drop) = (true, f64::from(len));
        } else {
            let p_b = 0.2 * (average - 2000.0) / 7000.0;
            let (count, share) = (since_drop / 500.0, f64::from(len) / 500.0);
            let p_a = if count * p_b < 1.0 { p_b / (1.0 - count * p_b) } else { 1.0 };
            if drawn.uniform() <= if p_a < 1.0 { p_a * share } else { 1.0 } {
                (expected, since_drop) = (Verdict::Early, 0.0);
            }
        }
        seen[expected as usize] += 1;
        // The link is never idle, so that the average does not decay.
        if step == 0 {
            law.on_arrival_in_bytes(Time::ZERO, waiting, len);
        } else {
            assert_eq!(law.on_arrival_in_bytes(Time::ZERO, waiting, len), expected, "step {step}");
        }
    }
    assert!(seen.iter().all(|&often| often > 300), "{seen:?}");
}

proptest! {
    #[test]
    fn no_queue_has_more_bytes_than_its_limit_with_the_packet_in_transmission(
        limit in 1600u64..20_000, steps in prop::collection::vec((0u8..3, 40u32..1500, 0u32..3), 1..200)
    ) {
        for kind in ["drop-tail", "red", "catnip-good", "catnip-bad", "catnip-red", "rio", "shaper", "scheduler", "codel", "fq-codel", "cake"] {
            let rest = if kind.starts_with('s') { ",high=9Mbit/9KB,med=9Mbit/9KB" } else { "" };
            let spec: QueueSpec = format!("{kind}:{limit}B{rest}").parse().unwrap();
            prop_assert!(!spec.counts_packets());
            let mut queue = spec.build(&PortContext::new(&RATE.into(), 1, 0));
            let (mut lost, mut sending, mut inside) = (Lost::default(), 0, 0);
            for (body, &(priority, len, leave)) in steps.iter().enumerate() {
                let now = Time::from_nanos(body as u64 * 3_000_000);
                let priority = Priority::DROPPED_FIRST[usize::from(priority)];
                let arrival = Packet { len, flow: body as u16 % 3, ..packet(body as u32, priority) };
                queue.enqueue(now, arrival, &mut lost);
                inside += u64::from(len);
                if leave == 0 {
                    sending = queue.dequeue(now, &mut lost).map_or(0, |packet| packet.len.into());
                    inside -= sending;
                } else if leave == 1 {
                    queue.released();
                    sending = 0;
                }
                inside -= lost.0.drain(..).map(|(packet, _)| u64::from(packet.len)).sum::<u64>();
                prop_assert_eq!(queue.backlog().bytes, inside, "{}", kind);
                prop_assert!(inside + sending <= limit, "{}: {} and {}", kind, inside, sending);
            }
        }
    }
}

#[test]
fn gentle_red_rises_to_certainty_at_twice_the_upper_threshold() {
    let gentle = RedParameters { gentle: true, ..red_parameters() };
    for (average, expected) in [(2.0, 0.0), (4.0, 0.05), (6.0, 0.1), (9.0, 0.55), (12.0, 1.0)] {
        assert!((red::base_probability(&gentle, average) - expected).abs() < 1e-12, "{average}");
    }
}

#[test]
fn catnip_red_drops_when_red_drops_until_the_first_substitution_and_high_only_without_low() {
    for seed in 0..50 {
        let law = || RedLaw::new(RedParameters { weight: 0.2, ..red_parameters() }, RATE, rng(seed));
        let mut red = Red::new(packets(10), law());
        let mut catnip = Red::new(packets(10), law()).with_victims(VictimRule::Random, rng(seed + 1000));
        let mut arrivals = rng(seed + 2000);
        let mut substituted = false;
        let mut inside: Vec<Packet> = Vec::new();
        for step in 0..400u32 {
            let now = Time::from_nanos(u64::from(step) * 1_000_000);
            let arrival = packet(step, if arrivals.chance(0.4) { Priority::High } else { Priority::Low });
            let (mut by_red, mut by_catnip) = (Lost::default(), Lost::default());
            red.enqueue(now, arrival, &mut by_red);
            catnip.enqueue(now, arrival, &mut by_catnip);
            if !substituted {
                assert_eq!(by_red.0.len(), by_catnip.0.len(), "seed {seed}, step {step}");
                substituted = by_catnip
                    .0
                    .first()
                    .is_some_and(|(dropped_packet, _)| dropped_packet.body != arrival.body);
            }
            inside.push(arrival);
            for (dropped_packet, _) in &by_catnip.0 {
                if dropped_packet.dscp.priority() == Priority::High {
                    assert!(
                        inside.iter().all(|p| p.dscp.priority() == Priority::High),
                        "seed {seed}, step {step}"
                    );
                }
                inside.retain(|p| p.body != dropped_packet.body);
            }
            if arrivals.chance(0.6) {
                red.dequeue(now, &mut Lost::default());
                let dropped_packet = catnip.dequeue(now, &mut Lost::default());
                inside.retain(|p| dropped_packet.is_none_or(|dropped_packet| dropped_packet.body != p.body));
            }
        }
        assert!(substituted, "seed {seed} never came to a substitution");
    }
}

/// Returns the drop precedence of the packet that an arriving packet pushes out of a full CATNIP queue; `None` if the arriving packet
/// itself is dropped.
fn pushes_out(text: &str, waiting: [Priority; 3], arrival: Priority) -> Option<Priority> {
    let mut queue = text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&RATE.into(), 1, 0));
    for (body, priority) in (0..).zip(waiting) {
        queue.enqueue(Time::ZERO, packet(body, priority), &mut Lost::default());
    }
    let mut lost = Lost::default();
    queue.enqueue(Time::ZERO, packet(3, arrival), &mut lost);
    let [(dropped_packet, _)] = lost.0[..] else { panic!("one of four does not fit") };
    (dropped_packet.body < 3).then(|| dropped_packet.dscp.priority())
}

#[test]
fn of_three_colours_the_one_that_is_dropped_first_goes_first() {
    use Priority::{High, Low, Medium};
    for victim in ["random", "newest", "oldest"] {
        let good = |waiting, arrival| pushes_out(&format!("catnip-good:4,victim={victim}"), waiting, arrival);
        assert_eq!(good([High, Medium, Low], High), Some(Low));
        assert_eq!(good([High, Medium, Low], Medium), Some(Low));
        assert_eq!(good([High, Medium, Low], Low), None);
        assert_eq!(good([High, Medium, High], High), Some(Medium));
        assert_eq!(good([High, Medium, Medium], Medium), None);
        let bad = |waiting, arrival| pushes_out(&format!("catnip-bad:4,victim={victim}"), waiting, arrival);
        assert_eq!(bad([High, Medium, Low], Low), Some(High));
        assert_eq!(bad([Low, Medium, Low], Low), Some(Medium));
        assert_eq!(bad([High, Medium, Low], High), None);
    }
}

#[test]
fn colours_are_the_drop_precedences_of_rfc_2597_and_whatever_else_is_red() {
    for codepoint in 0..64 {
        // Section 6: AF11 = 001010, AF12 = 001100, AF13 = 001110, and so on up to AF43 = 100110.
        let priority = match codepoint {
            0b001010 | 0b010010 | 0b011010 | 0b100010 => Priority::High,
            0b001100 | 0b010100 | 0b011100 | 0b100100 => Priority::Medium,
            _ => Priority::Low,
        };
        let dscp = Dscp::new(codepoint);
        assert_eq!((dscp.priority(), dscp.codepoint()), (priority, codepoint));
        let assured = matches!(codepoint >> 3, 1..=4) && matches!(codepoint & 7, 2 | 4 | 6);
        assert_eq!(dscp.class(), assured.then_some(codepoint >> 3));
        for priority in Priority::DROPPED_FIRST {
            assert_eq!(dscp.with_priority(priority), Dscp::assured(dscp.class().unwrap_or(1), priority));
        }
    }
    assert_eq!(Priority::NAMES.map(|(priority, _)| Dscp::from(priority).codepoint()), [10, 12, 14]);
    assert_eq!(Priority::NAMES.map(|(priority, _)| priority.name()), ["high", "med", "low"]);
}

#[test]
fn a_full_queue_that_drops_at_its_head_gives_up_what_came_first_and_takes_in_all_that_fits_at_all() {
    let mut queue = "drop-head:4".parse::<QueueSpec>().unwrap().build(&PortContext::new(&RATE.into(), 1, 0));
    let mut lost = Lost::default();
    (1..=5).for_each(|body| queue.enqueue(Time::ZERO, packet(body, Priority::Low), &mut lost));
    let given_up =
        |lost: &Lost| lost.0.iter().map(|(packet, reason)| (packet.body, *reason)).collect::<Vec<_>>();
    assert_eq!(given_up(&lost), [1, 2].map(|body| (body, DropReason::PushedOut)));
    assert_eq!(contents(&mut queue).iter().map(|packet| packet.body).collect::<Vec<_>>(), [3, 4, 5]);

    let mut queue =
        "drop-head:1100B".parse::<QueueSpec>().unwrap().build(&PortContext::new(&RATE.into(), 1, 0));
    let mut lost = Lost::default();
    for (body, len) in [(1, 300), (2, 300), (3, 500), (4, 900), (5, 1101)] {
        queue.enqueue(Time::ZERO, Packet { len, ..packet(body, Priority::Low) }, &mut lost);
    }
    let pushed_out = [1, 2, 3].map(|body| (body, DropReason::PushedOut));
    assert_eq!(given_up(&lost), [&pushed_out[..], &[(5, DropReason::Overflow)]].concat());
    assert_eq!(contents(&mut queue).iter().map(|packet| packet.body).collect::<Vec<_>>(), [4]);
}
