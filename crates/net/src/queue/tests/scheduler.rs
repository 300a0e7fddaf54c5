use super::*;
use crate::Meter;
use crate::Priority::{High as HIGH, Low as LOW, Medium as MED};

const UNLIMITED: RateSpec = RateSpec::Unlimited;

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn build(text: &str) -> AnyQueue {
    text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&UNLIMITED, 1, 0))
}

/// Returns a packet of 1000 bytes of a connection.
fn of(flow: u16, class: u8, priority: Priority, body: u32) -> Packet {
    Packet { flow, dscp: Dscp::assured(class, priority), len: 1000, ..packet(body, priority) }
}

/// Returns the bodies of all packets that can leave at this time.
fn all(queue: &mut AnyQueue, now: Time) -> Vec<u32> {
    std::iter::from_fn(|| queue.dequeue(now, &mut Lost::default())).map(|packet| packet.body).collect()
}

fn offer(queue: &mut AnyQueue, packets: &[(u16, u8, Priority)]) -> Vec<(u32, DropReason)> {
    let mut lost = Lost::default();
    for (body, &(flow, class, priority)) in (0..).zip(packets) {
        queue.enqueue(Time::ZERO, of(flow, class, priority, body), &mut lost);
    }
    lost.0.iter().map(|(packet, reason)| (packet.body, *reason)).collect()
}

#[test]
fn classes_go_before_priorities_and_a_class_that_waits_for_tokens_blocks_them_for_those_below() {
    // 80 kbit/s are 1000 bytes in 100 ms. The buckets allow bursts of two HIGH packets and of one MED packet.
    let contract = "high=80kbit/2000B,med=80kbit/1000B";
    let mut queue = build(&format!("scheduler:20,{contract}"));
    let arrivals = [
        (30, 3, HIGH), // 0
        (30, 3, LOW),
        (20, 2, HIGH), // 2
        (20, 2, MED),
        (20, 2, LOW),
        (10, 1, HIGH), // 5
        (10, 1, HIGH),
        (10, 1, MED),
        (11, 1, LOW), // 8
    ];
    assert_eq!(offer(&mut queue, &arrivals), []);
    // The first class takes the tokens of two HIGH packets and of one MED packet, then sends its LOW packet. The HIGH packet of the second
    // class waits for tokens and holds back the later packets of its connection. Meanwhile the third class may not send HIGH packets
    // either.
    assert_eq!(all(&mut queue, ms(0)), [5, 6, 7, 8]);
    assert_eq!(queue.wake_at(), Some(ms(100)));
    assert_eq!(all(&mut queue, ms(99)), []);
    // The second class has tokens for its HIGH packet, which is followed by its MED and LOW packets. The third class still waits.
    assert_eq!(all(&mut queue, ms(100)), [2, 3, 4]);
    assert_eq!((queue.wake_at(), queue.backlog().packets), (Some(ms(200)), 2));
    // A large packet of the first class needs more tokens than are available. The packet of the third class is small enough, but blocked.
    let mut lost = Lost::default();
    queue.enqueue(ms(150), Packet { len: 1500, ..of(10, 1, HIGH, 9) }, &mut lost);
    queue.enqueue(ms(150), of(21, 2, MED, 10), &mut lost);
    assert_eq!(all(&mut queue, ms(200)), [10], "MED is another bucket");
    assert_eq!(queue.wake_at(), Some(ms(250)));
    assert_eq!(all(&mut queue, ms(250)), [9]);
    assert_eq!(all(&mut queue, ms(349)), []);
    assert_eq!(all(&mut queue, ms(350)), [0, 1]);
    assert_eq!((queue.wake_at(), queue.backlog(), lost.0.len()), (None, Backlog::default(), 0));
}

#[test]
fn within_a_class_a_smaller_packet_may_have_the_tokens_that_are_too_few_for_a_larger_one() {
    let mut queue = build("scheduler:20,high=80kbit/2000B");
    let mut lost = Lost::default();
    assert_eq!(offer(&mut queue, &[(1, 1, HIGH), (1, 1, HIGH), (1, 1, HIGH)]), []);
    queue.enqueue(ms(0), Packet { len: 100, ..of(2, 1, HIGH, 3) }, &mut lost);
    assert_eq!(all(&mut queue, ms(0)), [0, 3], "turns are by packets");
    assert_eq!(queue.wake_at(), Some(ms(10)), "900 tokens are there");
    queue.enqueue(ms(5), Packet { len: 950, ..of(2, 1, HIGH, 4) }, &mut lost);
    assert_eq!(all(&mut queue, ms(5)), [4]);
    assert_eq!(all(&mut queue, ms(105)), [1]);
}

#[test]
fn connections_without_a_class_are_of_the_last_one_and_weigh_what_they_are_told() {
    let mut queue = build("scheduler:100,high=80kbit/2000B");
    queue.set_weight(2, 3);
    queue.set_weight(4, 0);
    let default = Packet { dscp: Dscp::DEFAULT, ..of(1, 4, LOW, 100) };
    let mut lost = Lost::default();
    (0..3).for_each(|_| queue.enqueue(ms(0), default, &mut lost));
    offer(
        &mut queue,
        &[
            (2, 3, LOW),
            (2, 3, LOW),
            (2, 3, LOW),
            (2, 3, LOW),
            (2, 3, LOW),
            (3, 4, LOW),
            (4, 4, LOW),
            (3, 4, LOW),
        ],
    );
    assert_eq!(all(&mut queue, ms(0)), [100, 0, 1, 2, 5, 6, 100, 3, 4, 7, 100]);
    // A weight persists while the connection has no waiting packets, and can be changed while it has some.
    offer(&mut queue, &[(2, 3, LOW), (2, 3, LOW), (2, 3, LOW), (3, 3, LOW), (3, 3, LOW)]);
    queue.set_weight(2, 2);
    queue.set_weight(3, 1);
    assert_eq!(all(&mut queue, ms(0)), [0, 1, 3, 2, 4]);
    // Packets of a connection do not overtake each other, regardless of their priority. The connection is in the class of its first packet.
    offer(&mut queue, &[(5, 3, LOW), (5, 1, LOW), (6, 2, LOW), (6, 3, HIGH)]);
    assert_eq!(all(&mut queue, ms(0)), [2, 3, 0, 1]);
}

#[test]
fn places_are_shared_and_memory_is_used_again() {
    let spec: SchedulerSpec = match "scheduler:4,high=80kbit/1000B".parse::<QueueSpec>().unwrap() {
        QueueSpec::Scheduler(spec) => spec,
        other => panic!("{other}"),
    };
    let mut queue = spec.build(&PortContext::new(&UNLIMITED, 1, 0));
    let mut lost = Lost::default();
    for round in 0..1000u16 {
        for (body, flow) in [(0, round), (1, round + 1), (2, round), (3, round)] {
            queue.enqueue(ms(0), of(flow, 3, LOW, body), &mut lost);
        }
        while queue.dequeue(ms(0), &mut lost).is_some() {}
        assert_eq!(queue.memory(), [0, 0, 0], "round {round}");
    }
    assert_eq!(lost.0.len(), 1000, "one of four finds no place beside the one in transmission");
    let mut bodies = lost.0.iter().map(|(packet, reason)| (packet.body, *reason));
    assert!(bodies.all(|lost| lost == (3, DropReason::Overflow)));
    queue.enqueue(ms(0), Packet { len: 1001, ..of(1, 1, HIGH, 7) }, &mut lost);
    queue.enqueue(ms(0), of(1, 1, MED, 8), &mut lost);
    let last: Vec<_> = lost.0[1000..].iter().map(|(packet, reason)| (packet.body, *reason)).collect();
    assert_eq!(last, [(7, DropReason::Policed), (8, DropReason::Policed)]);
}

#[test]
fn under_saturation_connections_of_a_class_have_shares_by_weight() {
    for priority in [HIGH, LOW] {
        let mut queue = build("scheduler:100,high=8Mbit/3000B");
        let weights = [1u32, 2, 5];
        (0..).zip(weights).for_each(|(flow, weight)| queue.set_weight(flow, weight));
        let (mut sent, mut now, mut body) = ([0u32; 3], ms(0), 0);
        for flow in (0..3).flat_map(|flow| [flow; 20]) {
            queue.enqueue(now, of(flow, 2, priority, body), &mut Lost::default());
        }
        while sent.iter().sum::<u32>() < 8000 {
            let Some(packet) = queue.dequeue(now, &mut Lost::default()) else {
                now = queue.wake_at().unwrap();
                continue;
            };
            sent[usize::from(packet.flow)] += 1;
            body += 1;
            queue.enqueue(now, of(packet.flow, 2, priority, body), &mut Lost::default());
        }
        for (sent, weight) in sent.into_iter().zip(weights) {
            let share = f64::from(sent) / 8000.0;
            assert!(
                (share / (f64::from(weight) / 8.0) - 1.0).abs() < 0.02,
                "{priority:?}: {share} for {weight}"
            );
        }
    }
}

/// Returns the packets that may leave now by the rule of the paper: the packets of the first class and priority with a conforming packet. A
/// priority is excluded if a higher class has a packet of this priority that waits for tokens.
fn eligible(waiting: &[Packet], meter: &Meter, now: Time) -> Vec<u32> {
    let class = |packet: &Packet| packet.dscp.class().unwrap_or(3).min(3);
    let is_head = |index: usize| waiting[..index].iter().all(|other| other.flow != waiting[index].flow);
    let heads: Vec<&Packet> =
        (0..waiting.len()).filter(|&index| is_head(index)).map(|index| &waiting[index]).collect();
    for of_class in 1..=3 {
        for priority in [HIGH, MED, LOW] {
            let blocks = |head: &&&Packet| {
                class(head) < of_class
                    && head.dscp.priority() == priority
                    && !meter.conforms(now, priority, head.len)
            };
            if heads.iter().any(|head| blocks(&head)) {
                continue;
            }
            let eligible =
                heads.iter().filter(|head| class(head) == of_class && head.dscp.priority() == priority);
            let conform: Vec<u32> = eligible
                .filter(|head| meter.conforms(now, priority, head.len))
                .map(|head| head.body)
                .collect();
            if !conform.is_empty() {
                return conform;
            }
        }
    }
    Vec::new()
}

/// Link that calls `dequeue` when it is free, and checks each result with [`eligible`].
struct Wire {
    queue: AnyQueue,
    waiting: Vec<Packet>,
    meter: Meter,
    /// True if the queue had no packet to send at the last call.
    idle: bool,
}

impl Wire {
    fn request(&mut self, now: Time) -> Result<(), TestCaseError> {
        let eligible_bodies = eligible(&self.waiting, &self.meter, now);
        let answer = self.queue.dequeue(now, &mut Lost::default());
        self.idle = answer.is_none();
        if let Some(packet) = answer {
            prop_assert!(
                eligible_bodies.contains(&packet.body),
                "{:?}, not one of {:?}",
                packet,
                eligible_bodies
            );
            prop_assert!(
                self.meter.admits(now, packet.dscp.priority(), packet.len),
                "tokens are never exceeded"
            );
            self.waiting.retain(|other| other.body != packet.body);
        } else {
            prop_assert!(eligible_bodies.is_empty(), "{:?} could have gone", eligible_bodies);
            let ready_at = |nanos| !eligible(&self.waiting, &self.meter, Time::from_nanos(nanos)).is_empty();
            match self.queue.wake_at().map(Time::as_nanos) {
                None => prop_assert!(self.waiting.is_empty()),
                Some(at) => {
                    prop_assert!(ready_at(at) && !ready_at(at - 1), "not a nanosecond early or late")
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn what_goes_is_what_the_rule_allows_and_the_wire_never_idles_while_something_may_go(
        steps in prop::collection::vec(
            (0u64..6_000_000, 0u16..7, 1u8..5, 0usize..3, 40u32..1501, any::<bool>()), 1..250
        )
    ) {
        let contract = "high=500kbit/3000B,med=1Mbit/1500B";
        let meter = Meter::new(&contract.parse().unwrap());
        let queue = build(&format!("scheduler:12,{contract}"));
        let mut wire = Wire { queue, waiting: Vec::new(), meter, idle: true };
        let (mut now, mut lost) = (ms(0), Lost::default());
        for (body, (gap, flow, class, priority, len, becomes_free)) in (0..).zip(steps) {
            now += Span::from_nanos(gap);
            while wire.idle && let Some(at) = wire.queue.wake_at().filter(|&at| at <= now) {
                wire.request(at)?;
            }
            let packet = Packet { len, ..of(flow, class, Priority::DROPPED_FIRST[priority], body) };
            wire.queue.enqueue(now, packet, &mut lost);
            if lost.0.last().is_none_or(|(dropped_packet, _)| dropped_packet.body != body) {
                wire.waiting.push(packet);
            }
            if wire.idle || becomes_free {
                wire.request(now)?;
            }
            prop_assert_eq!(wire.queue.backlog().packets as usize, wire.waiting.len());
        }
    }
}

#[test]
fn what_is_wrong_with_a_scheduler_is_named() {
    for (text, named) in [
        ("scheduler", "a limit such as"),
        ("scheduler:1,high=1kbit/9B", "at least 2"),
        ("scheduler:10", "high=RATE/DEPTH"),
        ("scheduler:10,high=1kbit/9B,weight=3", "weight"),
    ] {
        let error = text.parse::<QueueSpec>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(named), "{error}");
    }
}
