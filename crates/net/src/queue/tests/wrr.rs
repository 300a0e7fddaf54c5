use super::*;
use crate::Priority::{High as HIGH, Low as LOW};

fn build(text: &str) -> AnyQueue {
    text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&RateSpec::Unlimited, 1, 0))
}

fn of(class: u8, len: u32, body: u32) -> Packet {
    let dscp = if class == 0 { Dscp::DEFAULT } else { Dscp::assured(class, LOW) };
    Packet { dscp, len, ..packet(body, LOW) }
}

#[test]
fn what_is_wrong_with_several_queues_is_named() {
    for (text, named) in [
        ("wrr", "rest=WEIGHT(QUEUE), the queue of all other packets"),
        ("wrr:af1=20(drop-tail:10)", "the queue of all other packets"),
        ("wrr:rest=0(drop-tail:10)", "a weight from 1"),
        ("wrr:rest=-1(drop-tail:10)", "a weight from 1"),
        ("wrr:rest=1000001(drop-tail:10)", "to 1000000"),
        ("wrr:rest=0.5(drop-tail:10)", "a weight from 1"),
        ("wrr:rest=drop-tail:10", "rest=WEIGHT(QUEUE)"),
        ("wrr:rest=1(drop-tail:10", "rest=WEIGHT(QUEUE)"),
        ("wrr:rest=1(drop-tail:1)", "a queue for rest; \"drop-tail:1\": expected a limit"),
        ("wrr:rest=1()", "a queue for rest"),
        ("wrr:rest=1(line:9)", "one of drop-tail"),
        ("wrr:rest=1(wrr:rest=1(red:9))", "other than wrr"),
        ("wrr:rest=1(drop-tail:20ms)", "a limit in packets or bytes for rest"),
        ("wrr:af1=1(red:9),af1=2(red:9),rest=1(red:9)", "af1 at most once"),
        ("wrr:rest=1(red:9),rest=2(red:9)", "rest at most once"),
        ("wrr:af5=1(red:9),rest=1(red:9)", "unknown parameter \"af5\""),
    ] {
        let error = text.parse::<QueueSpec>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(named), "{error}");
    }
}

#[test]
fn shares_of_a_saturated_wire_are_those_of_the_weights_whatever_the_packets_sizes() {
    let sizes: [fn(&mut Rng) -> u32; 4] =
        [|_| 40, |_| 1500, |rng| 40 + rng.below(1461), |rng| [40, 9000][rng.below(2) as usize]];
    let pairs = || (0..16).map(|n| (n / 4, n % 4));
    for ((one, rest), (a, b)) in [(1, 1), (1, 2), (5, 95), (20, 80), (1, 100)]
        .into_iter()
        .flat_map(|weights| pairs().map(move |pair| (weights, pair)))
    {
        let mut queue = build(&format!("wrr:af1={one}(drop-tail:4),rest={rest}(red:4,min=3,max=4)"));
        let (mut sizes_drawn, mut lost) = (rng(7), Lost::default());
        let (mut bytes, mut body) = ([0u64; 2], 0);
        while bytes[0] < 600_000 {
            // Both classes always have packets to send.
            for (class, size) in [(1, sizes[a]), (0, sizes[b])] {
                queue.enqueue(Time::ZERO, of(class, size(&mut sizes_drawn), body), &mut lost);
                body += 1;
            }
            lost.0.clear();
            let packet = queue.dequeue(Time::ZERO, &mut lost).expect("it is never empty");
            bytes[usize::from(packet.dscp.class() != Some(1))] += u64::from(packet.len);
        }
        let share = bytes[0] as f64 / bytes.iter().sum::<u64>() as f64;
        let expected = f64::from(one) / f64::from(one + rest);
        assert!(
            (share / expected - 1.0).abs() < 0.02,
            "{one} to {rest}, sizes {a} and {b}: {share}, not {expected}"
        );
    }
}

#[test]
fn who_does_not_need_its_share_leaves_it_to_others_and_saves_nothing() {
    let mut queue = build("wrr:af1=1(drop-tail:99),af2=1(drop-tail:99),rest=2(drop-tail:99)");
    let mut lost = Lost::default();
    (0..40).for_each(|body| queue.enqueue(Time::ZERO, of(1, 1000, body), &mut lost));
    (0..20).for_each(|_| {
        assert!(queue.dequeue(Time::ZERO, &mut lost).is_some_and(|p| p.dscp.class() == Some(1)))
    });
    // The other classes start late. From then on they get exactly their shares, in an order in which no class waits for long.
    (0..40).for_each(|body| queue.enqueue(Time::ZERO, of(2, 1000, body), &mut lost));
    (0..40).for_each(|body| queue.enqueue(Time::ZERO, of(4, 1000, body), &mut lost));
    let mut class = |_| queue.dequeue(Time::ZERO, &mut lost).and_then(|packet| packet.dscp.class()).unwrap();
    let classes: Vec<u8> = (0..36).map(&mut class).collect();
    for window in classes.chunks(12) {
        let of_class = |class| window.iter().filter(|other| **other == class).count();
        assert_eq!([1, 2, 4].map(of_class), [3, 3, 6], "{classes:?}");
    }
    assert!(lost.0.is_empty());
}

#[test]
fn who_sends_one_packet_after_the_other_gets_no_more_than_its_share() {
    // A packet of the first class arrives whenever the previous packet of this class has left, so that the queue is empty in between.
    let mut queue = build("wrr:af1=1(drop-tail:9),rest=9(drop-tail:9)");
    let (mut lost, mut sent) = (Lost::default(), [0u32; 2]);
    let mut waits = false;
    for body in 0..20_000 {
        if !waits {
            queue.enqueue(Time::ZERO, of(1, 1500, body), &mut lost);
            waits = true;
        }
        while queue.backlog().packets < 5 {
            queue.enqueue(Time::ZERO, of(0, 500, body), &mut lost);
        }
        let packet = queue.dequeue(Time::ZERO, &mut lost).unwrap();
        waits &= packet.dscp.class() != Some(1);
        sent[usize::from(packet.dscp.class() == Some(1))] += packet.len;
    }
    let share = f64::from(sent[1]) / f64::from(sent[0] + sent[1]);
    assert!((0.09..0.102).contains(&share), "{share}");
}

#[test]
fn each_queue_counts_its_own_and_forgets_what_has_left() {
    let mut lost = Lost::default();
    let mut queue = build("wrr:af1=1(drop-tail:3),af2=1(catnip-good:2000B),rest=1(drop-tail:2000B)");
    // With a limit in packets, two packets can wait even if the packet in transmission is from another queue. A limit of 2000 bytes
    // includes the packet in transmission only if it is from the queue.
    (0..3).for_each(|body| queue.enqueue(Time::ZERO, of(1, 1000, body), &mut lost));
    (3..6).for_each(|body| queue.enqueue(Time::ZERO, of(2, 1000, body), &mut lost));
    (6..9).for_each(|body| queue.enqueue(Time::ZERO, of(0, 1000, body), &mut lost));
    let bodies = |lost: &Lost| lost.0.iter().map(|(packet, _)| packet.body).collect::<Vec<_>>();
    assert_eq!(bodies(&lost), [2, 5, 8]);
    let order: Vec<u32> = (0..6)
        .map(|n| {
            let packet = queue.dequeue(Time::ZERO, &mut Lost::default()).unwrap();
            // The buffer space of a packet becomes free when its last bit has left.
            if n < 2 {
                let before = lost.0.len();
                let again = Packet { body: 10 + n, ..packet };
                queue.enqueue(Time::ZERO, again, &mut lost);
                assert_eq!(lost.0.len(), before + 1, "{packet:?} is in transmission");
            }
            packet.body
        })
        .collect();
    assert_eq!(order, [3, 6, 0, 4, 7, 1]);
    assert_eq!(queue.dequeue(Time::ZERO, &mut lost), None);
    (20..22).for_each(|body| queue.enqueue(Time::ZERO, of(2, 1000, body), &mut lost));
    queue.dequeue(Time::ZERO, &mut lost);
    let before = lost.0.len();
    queue.enqueue(Time::ZERO, of(1, 1000, 22), &mut lost);
    assert_eq!(queue.dequeue(Time::ZERO, &mut Lost::default()).map(|packet| packet.body), Some(22));
    queue.enqueue(Time::ZERO, of(2, 1000, 23), &mut lost);
    assert_eq!(lost.0.len(), before, "another one's packet is in transmission now");
}

#[test]
fn a_queue_that_holds_back_keeps_nobody_else_and_says_when_it_wants_to_be_asked() {
    let mut queue = build("wrr:af1=9(shaper:9,high=80kbit/1000B),rest=1(drop-tail:9)");
    let mut lost = Lost::default();
    let high = |body| Packet { dscp: Dscp::assured(1, HIGH), ..of(1, 1000, body) };
    (0..2).for_each(|body| queue.enqueue(Time::ZERO, high(body), &mut lost));
    (2..4).for_each(|body| queue.enqueue(Time::ZERO, of(3, 1000, body), &mut lost));
    let sent: Vec<u32> = contents(&mut queue).iter().map(|packet| packet.body).collect();
    assert_eq!((sent.len(), sent.contains(&1)), (3, false), "{sent:?}");
    assert_eq!(queue.wake_at(), Some(Time::from_nanos(100_000_000)));
    assert_eq!(queue.dequeue(Time::from_nanos(99_999_999), &mut lost), None);
    assert_eq!(queue.dequeue(Time::from_nanos(100_000_000), &mut lost).map(|packet| packet.body), Some(1));
    assert_eq!((queue.dequeue(Time::from_nanos(100_000_000), &mut lost), queue.wake_at()), (None, None));
}

#[test]
fn queues_of_one_port_draw_random_numbers_of_their_own() {
    let drops = |text: &str, class| {
        let (mut queue, mut lost) = (build(text), Lost::default());
        (0..2000).for_each(|body| queue.enqueue(Time::ZERO, of(class, 100, body), &mut lost));
        lost.0.iter().map(|(packet, _)| packet.body).collect::<Vec<_>>()
    };
    let red = "red:3000,min=1,max=2999,weight=1,max_p=0.1,wait=false";
    let both = format!("wrr:af1=1({red}),rest=1({red})");
    assert_ne!(drops(&both, 1), drops(&both, 0));
    assert_ne!(drops(&both, 0), drops(red, 0));
    assert_eq!(drops(&both, 0), drops(&format!("wrr:rest=7({red})"), 0), "whatever else there is");
}

proptest! {
    #[test]
    fn a_wire_never_idles_while_something_waits_and_classes_keep_their_order(
        steps in prop::collection::vec((0u8..5, 40u32..9001, any::<bool>()), 1..400)
    ) {
        let mut queue = build("wrr:af1=1(drop-tail:6),af2=20(catnip-good:6),af4=3(red:20,min=19,max=20),rest=1000(rio:30)");
        let (mut inside, mut lost) = (Vec::<Packet>::new(), Lost::default());
        for (body, (class, len, leaves)) in (0..).zip(steps) {
            queue.enqueue(Time::ZERO, of(class, len, body), &mut lost);
            inside.push(of(class, len, body));
            lost.0.drain(..).for_each(|(dropped_packet, _)| inside.retain(|packet| packet.body != dropped_packet.body));
            if leaves {
                let packet = queue.dequeue(Time::ZERO, &mut lost);
                prop_assert!(packet.is_some() || inside.is_empty());
                let line = |packet: &Packet| packet.dscp.class().filter(|class| *class != 3);
                if let Some(packet) = packet {
                    let first = inside.iter().position(|other| line(other) == line(&packet));
                    prop_assert_eq!(first.map(|first| inside.remove(first).body), Some(packet.body));
                }
            }
            let bytes = inside.iter().map(|packet| u64::from(packet.len)).sum();
            prop_assert_eq!(queue.backlog(), Backlog { packets: inside.len() as u32, bytes });
        }
    }
}
