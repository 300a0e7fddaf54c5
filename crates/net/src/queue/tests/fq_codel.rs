use super::*;

fn build(text: &str) -> AnyQueue {
    text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&RateSpec::Unlimited, 1, 0))
}

fn of(flow: u16, len: u32, body: u32) -> Packet {
    Packet { flow, len, ..packet(body, Priority::Low) }
}

fn bodies(queue: &mut AnyQueue, count: usize) -> Vec<u32> {
    (0..count)
        .filter_map(|_| queue.dequeue(Time::ZERO, &mut Lost::default()))
        .map(|packet| packet.body)
        .collect()
}

#[test]
fn who_sends_little_goes_first_and_others_take_turns() {
    let (mut queue, mut lost) = (build("fq-codel:1000,quantum=1000B"), Lost::default());
    for body in 0..6 {
        queue.enqueue(Time::ZERO, of(1, 1000, body), &mut lost);
        queue.enqueue(Time::ZERO, of(2, 1000, 10 + body), &mut lost);
    }
    // New queues are served first, in order; then all queues take turns.
    assert_eq!(bodies(&mut queue, 4), [0, 10, 1, 11]);
    // A new queue has its turn at once, with a second packet within its quantum.
    queue.enqueue(Time::ZERO, of(3, 400, 20), &mut lost);
    queue.enqueue(Time::ZERO, of(3, 700, 21), &mut lost);
    queue.enqueue(Time::ZERO, of(3, 700, 22), &mut lost);
    assert_eq!(bodies(&mut queue, 3), [20, 21, 2]);
    // The queue is then an old queue, and its negative credit counts.
    assert_eq!(bodies(&mut queue, 4), [22, 12, 3, 13]);
    // The queue was empty at its turn, so that it is new again. It is then emptied, becomes an old queue for a turn, and receives a packet
    // before that turn. A really new queue is served first.
    queue.enqueue(Time::ZERO, of(3, 100, 23), &mut lost);
    assert_eq!(bodies(&mut queue, 2), [23, 4]);
    queue.enqueue(Time::ZERO, of(3, 1000, 24), &mut lost);
    queue.enqueue(Time::ZERO, of(4, 100, 30), &mut lost);
    assert_eq!(bodies(&mut queue, 5), [30, 24, 14, 5, 15]);
    assert_eq!((bodies(&mut queue, 1), queue.backlog(), lost.0.len()), (vec![], Backlog::default(), 0));
}

#[test]
fn connections_have_equal_shares_of_bytes_whatever_their_packets_sizes() {
    let (mut queue, mut lost) = (build("fq-codel:1000,target=1s,interval=1s"), Lost::default());
    let sizes = [40, 500, 1500, 9000];
    let mut bytes = [0u64; 4];
    for (flow, len) in (0..).zip(sizes) {
        (0..5).for_each(|_| queue.enqueue(Time::ZERO, of(flow, len, 0), &mut lost));
    }
    while bytes.iter().sum::<u64>() < 8_000_000 {
        let packet = queue.dequeue(Time::ZERO, &mut lost).unwrap();
        bytes[usize::from(packet.flow)] += u64::from(packet.len);
        queue.enqueue(Time::ZERO, packet, &mut lost);
    }
    assert!(bytes.iter().all(|&bytes| (bytes as f64 / 2e6 - 1.0).abs() < 0.02), "{bytes:?}");
    assert!(lost.0.is_empty());
}

#[test]
fn a_full_buffer_takes_from_the_head_of_the_fattest_and_spares_the_others() {
    let (mut queue, mut lost) = (build("fq-codel:201"), Lost::default());
    (0..4).for_each(|body| queue.enqueue(Time::ZERO, of(1, 1500, body), &mut lost));
    (100..296).for_each(|body| queue.enqueue(Time::ZERO, of(2, 100, body), &mut lost));
    assert_eq!((queue.backlog().packets, lost.0.len()), (200, 0));
    // 19 600 bytes are more than 6000: of 196 packets, 64 are dropped.
    queue.enqueue(Time::ZERO, of(3, 40, 400), &mut lost);
    let dropped_packet: Vec<u32> = lost.0.iter().map(|(packet, _)| packet.body).collect();
    assert_eq!(dropped_packet, (100..164).collect::<Vec<_>>());
    assert!(lost.0.iter().all(|(_, reason)| *reason == DropReason::Overflow));
    // Half of the packets of a smaller queue are dropped. Two connections with the same remainder modulo `flows` share a queue.
    let (mut queue, mut lost) = (build("fq-codel:9,flows=4"), Lost::default());
    (0..8).for_each(|body| queue.enqueue(Time::ZERO, of(1 + 4 * (body as u16 % 2), 100, body), &mut lost));
    queue.enqueue(Time::ZERO, of(2, 300, 8), &mut lost);
    assert_eq!(lost.0.iter().map(|(packet, _)| packet.body).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(bodies(&mut queue, 9), [4, 5, 6, 7, 8]);
    // With a limit in bytes, packets are dropped until the arriving packet fits. A packet that could never fit causes no drop of another
    // packet.
    let (mut queue, mut lost) = (build("fq-codel:3000B"), Lost::default());
    (0..30).for_each(|body| queue.enqueue(Time::ZERO, of(1, 100, body), &mut lost));
    queue.enqueue(Time::ZERO, of(2, 3001, 30), &mut lost);
    assert_eq!(lost.0.iter().map(|(packet, _)| packet.body).collect::<Vec<_>>(), [30]);
    queue.enqueue(Time::ZERO, of(2, 2900, 31), &mut lost);
    assert!(queue.backlog().bytes <= 3000 && queue.backlog().packets > 0, "{:?}", queue.backlog());
}

fn dropped(lost: &Lost) -> Vec<u32> {
    lost.0.iter().map(|(packet, _)| packet.body).collect()
}

#[test]
fn a_full_buffer_of_linux_drops_half_of_the_bytes_of_the_fattest() {
    // Of 1300 bytes in four packets, the first has more than half. The RFC drops half of the packets.
    for (text, expected) in [("linux-fq-codel:5", vec![0]), ("fq-codel:5", vec![0, 1])] {
        let (mut queue, mut lost) = (build(text), Lost::default());
        for (body, len) in [(0, 1000), (1, 100), (2, 100), (3, 100)] {
            queue.enqueue(Time::ZERO, of(1, len, body), &mut lost);
        }
        queue.enqueue(Time::ZERO, of(2, 50, 4), &mut lost);
        assert_eq!(dropped(&lost), expected, "{text}");
    }
    // Half of 700 bytes is 350: three packets of 100 are too few, the fourth one reaches it.
    let (mut queue, mut lost) = (build("linux-fq-codel:8"), Lost::default());
    (0..7).for_each(|body| queue.enqueue(Time::ZERO, of(1, 100, body), &mut lost));
    queue.enqueue(Time::ZERO, of(2, 50, 7), &mut lost);
    assert_eq!(dropped(&lost), [0, 1, 2, 3]);
    // At most 64 packets are dropped at once.
    let (mut queue, mut lost) = (build("linux-fq-codel:201"), Lost::default());
    (0..200).for_each(|body| queue.enqueue(Time::ZERO, of(1, 100, body), &mut lost));
    queue.enqueue(Time::ZERO, of(2, 50, 200), &mut lost);
    assert_eq!(dropped(&lost), (0..64).collect::<Vec<_>>());
    // Of queues with equal numbers of bytes, Linux takes the one with the lowest number, even from the arriving packet's queue.
    for (text, expected) in [("linux-fq-codel:3,flows=4", 0), ("fq-codel:3,flows=4", 1)] {
        let (mut queue, mut lost) = (build(text), Lost::default());
        queue.enqueue(Time::ZERO, of(1, 1000, 0), &mut lost);
        queue.enqueue(Time::ZERO, of(2, 1000, 1), &mut lost);
        queue.enqueue(Time::ZERO, of(3, 40, 2), &mut lost);
        assert_eq!(dropped(&lost), [expected], "{text}");
    }
}

#[test]
fn linux_spares_the_last_packet_of_a_queue_only_if_no_other_queue_waits() {
    for (text, expected) in
        [("linux-fq-codel:100,quantum=1000B", vec![1]), ("fq-codel:100,quantum=1000B", vec![])]
    {
        let (mut queue, mut lost) = (build(text), Lost::default());
        (0..2).for_each(|body| queue.enqueue(Time::ZERO, of(1, 1000, body), &mut lost));
        (10..20).for_each(|body| queue.enqueue(Time::ZERO, of(2, 1000, body), &mut lost));
        let mut at =
            |ms: u64| queue.dequeue(Time::from_nanos(ms * 1_000_000), &mut lost).map(|packet| packet.body);
        // The first packet is late at 10 ms, so that its queue has been late for an interval at 110 ms. The other queue is late for the
        // first time at 120 ms.
        assert_eq!([at(10), at(120)], [Some(0), Some(10)]);
        let next = at(121);
        assert_eq!(
            (next, dropped(&lost)),
            (Some(if expected.is_empty() { 1 } else { 11 }), expected),
            "{text}"
        );
    }
}

#[test]
fn a_queue_of_linux_that_left_late_and_empty_is_late_again_at_once() {
    for (text, expected) in [("linux-fq-codel:100", vec![30]), ("fq-codel:100", vec![])] {
        let (mut queue, mut lost) = (build(text), Lost::default());
        queue.enqueue(Time::ZERO, of(1, 1000, 0), &mut lost);
        (10..30).for_each(|body| queue.enqueue(Time::ZERO, of(2, 1000, body), &mut lost));
        let at = |queue: &mut AnyQueue, ms: u64, lost: &mut Lost| {
            queue.dequeue(Time::from_nanos(ms * 1_000_000), lost).map(|packet| packet.body)
        };
        // The only packet is late at 10 ms, and the queue is empty from then on.
        assert_eq!([10, 11, 12].map(|ms| at(&mut queue, ms, &mut lost)), [Some(0), Some(10), Some(11)]);
        // Another packet arrives at 105 ms and is late at 111 ms, when the interval from 10 ms on is over.
        queue.enqueue(Time::from_nanos(105_000_000), of(1, 1000, 30), &mut lost);
        at(&mut queue, 111, &mut lost);
        assert_eq!(dropped(&lost), expected, "{text}");
    }
}

#[test]
fn an_emptied_queue_of_linux_may_be_new_again_at_once_if_no_queue_is_old() {
    for (text, order) in [("linux-fq-codel:100", [11, 1, 30]), ("fq-codel:100", [11, 30, 1])] {
        let (mut queue, mut lost) = (build(text), Lost::default());
        queue.enqueue(Time::ZERO, of(1, 1000, 0), &mut lost);
        (10..13).for_each(|body| queue.enqueue(Time::ZERO, of(2, 1000, body), &mut lost));
        // The second `dequeue` finds the first queue empty. The RFC makes it an old queue, Linux only if there is one already.
        assert_eq!(bodies(&mut queue, 2), [0, 10]);
        queue.enqueue(Time::ZERO, of(1, 1000, 1), &mut lost);
        queue.enqueue(Time::ZERO, of(3, 1000, 30), &mut lost);
        assert_eq!(bodies(&mut queue, 3), order, "{text}");
    }
}

#[test]
fn each_connection_is_governed_for_itself() {
    // One connection has a standing queue; the other connection sends single packets.
    let (mut queue, mut lost) = (build("fq-codel:1000"), Lost::default());
    (0..500).for_each(|body| {
        queue.enqueue(Time::ZERO, Packet { ecn: Ecn::NOT_ECT, ..of(1, 1000, body) }, &mut lost)
    });
    for ms in 0..450 {
        let now = Time::from_nanos(ms * 1_000_000);
        if ms % 10 == 5 {
            queue.enqueue(now, of(2, 100, 1000), &mut lost);
            assert_eq!(queue.dequeue(now, &mut lost).map(|packet| packet.body), Some(1000), "at {ms} ms");
        }
        queue.dequeue(now, &mut lost);
    }
    assert!(
        lost.0.len() > 3
            && lost.0.iter().all(|(packet, reason)| packet.flow == 1 && *reason == DropReason::Delay)
    );
}

proptest! {
    #[test]
    fn packets_are_conserved_and_connections_keep_their_order(
        steps in prop::collection::vec((0u16..9, 40u32..3000, 0u64..9_000_000, 0usize..3), 1..300)
    ) {
        let mut queue = build("fq-codel:20000B,target=2ms,interval=9ms,flows=5,quantum=700B");
        let (mut now, mut inside, mut lost) = (Time::ZERO, Vec::<Packet>::new(), Lost::default());
        for (body, (flow, len, gap, leave)) in (0..).zip(steps) {
            now += Span::from_nanos(gap);
            queue.enqueue(now, of(flow, len, body), &mut lost);
            inside.push(of(flow, len, body));
            for _ in 0..leave {
                let packet = queue.dequeue(now, &mut lost);
                lost.0.drain(..).for_each(|(dropped_packet, _)| inside.retain(|packet| packet.body != dropped_packet.body));
                prop_assert!(packet.is_some() || inside.is_empty());
                if let Some(packet) = packet {
                    let first = inside.iter().position(|other| other.flow % 5 == packet.flow % 5);
                    prop_assert_eq!(first.map(|first| inside.remove(first).body), Some(packet.body));
                }
            }
            lost.0.drain(..).for_each(|(dropped_packet, _)| inside.retain(|packet| packet.body != dropped_packet.body));
            let bytes = inside.iter().map(|packet| u64::from(packet.len)).sum();
            prop_assert_eq!(queue.backlog(), Backlog { packets: inside.len() as u32, bytes });
        }
    }
}
