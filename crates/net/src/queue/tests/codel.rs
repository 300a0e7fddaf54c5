use super::*;
use std::collections::VecDeque;

fn build(text: &str) -> AnyQueue {
    text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&RateSpec::Unlimited, 1, 0))
}

/// CoDel as printed in RFC 8289, section 5, with times and square roots in floating point; names are those of the RFC.
#[derive(Default)]
struct Printed {
    queue: VecDeque<(f64, u32, u32)>,
    target: f64,
    interval: f64,
    maxpacket: u64,
    first_above_time: f64,
    dropping: bool,
    drop_next: f64,
    count: u32,
    lastcount: u32,
    dropped: Vec<u32>,
}

impl Printed {
    fn control_law(&self, t: f64, count: u32) -> f64 {
        // Rounded down to the nanosecond, the resolution of times here.
        t + (self.interval / f64::from(count).sqrt()).floor()
    }

    fn dodequeue(&mut self, now: f64) -> (Option<u32>, bool) {
        let Some((tstamp, _, body)) = self.queue.pop_front() else {
            self.first_above_time = 0.0;
            return (None, false);
        };
        let mut ok_to_drop = false;
        let bytes: u64 = self.queue.iter().map(|(_, len, _)| u64::from(*len)).sum();
        if now - tstamp < self.target || bytes <= self.maxpacket {
            self.first_above_time = 0.0;
        } else if self.first_above_time == 0.0 {
            self.first_above_time = now + self.interval;
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (Some(body), ok_to_drop)
    }

    fn dequeue(&mut self, now: f64) -> Option<u32> {
        let (mut packet, mut ok_to_drop) = self.dodequeue(now);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.dropped.extend(packet);
                self.count += 1;
                (packet, ok_to_drop) = self.dodequeue(now);
                if !ok_to_drop {
                    self.dropping = false;
                } else {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                }
            }
        } else if ok_to_drop {
            self.dropped.extend(packet);
            (packet, _) = self.dodequeue(now);
            self.dropping = true;
            let delta = i64::from(self.count) - i64::from(self.lastcount);
            self.count = 1;
            if delta > 1 && now - self.drop_next < 16.0 * self.interval {
                self.count = delta as u32;
            }
            self.drop_next = self.control_law(now, self.count);
            self.lastcount = self.count;
        }
        packet
    }
}

proptest! {
    #[test]
    fn decisions_are_those_of_the_program_that_the_rfc_prints(
        // Phases of arrivals and departures at different rates: maximum gaps between arrivals and between departures in microseconds, and
        // number of steps.
        phases in prop::collection::vec((1u64..9_000, 1u64..9_000, 1usize..400), 1..12),
        target_us in 100u64..20_000, factor in 1u64..40, seed in 0u32..1000
    ) {
        let (target, interval) = (target_us * 1000, target_us * 1000 * factor);
        let mut queue = build(&format!("codel:100000,target={target}ns,interval={interval}ns"));
        let mut printed = Printed { target: target as f64, interval: interval as f64, ..Printed::default() };
        let (mut random, mut event_log, mut body) = (rng(seed), EventLog::default(), 0);
        // The RFC's code uses time zero for "never", so that times begin above zero.
        let (mut comes, mut goes) = (1, 2);
        for (between_arrivals, between_departures, steps) in phases {
            for _ in 0..steps {
                if comes <= goes {
                    let len = 40 + random.below(1461);
                    let packet = Packet { len, ..packet(body, Priority::Low) };
                    queue.enqueue(Time::from_nanos(comes), packet, &mut event_log);
                    printed.queue.push_back((comes as f64, len, body));
                    printed.maxpacket = printed.maxpacket.max(len.into());
                    body += 1;
                    comes += 1 + u64::from(random.below(between_arrivals as u32 * 1000));
                } else {
                    let packet = queue.dequeue(Time::from_nanos(goes), &mut event_log);
                    prop_assert_eq!(packet.map(|packet| packet.body), printed.dequeue(goes as f64));
                    let dropped: Vec<u32> = event_log.0.iter().map(|(body, _)| *body).collect();
                    prop_assert_eq!(&dropped, &printed.dropped);
                    goes += 1 + u64::from(random.below(between_departures as u32 * 1000));
                }
            }
        }
        prop_assert!(event_log.0.iter().all(|(_, reason)| *reason == DropReason::Delay));
        prop_assert_eq!(queue.backlog().packets as usize, printed.queue.len());
    }
}

/// Returns the bodies of the packets that leave a queue of packets of 1000 bytes, all of which arrived at time zero, at
/// one `dequeue` per millisecond.
fn drained(text: &str, packets: u32, ecn: Ecn, until_ms: u64) -> (Vec<u32>, EventLog) {
    let (mut queue, mut event_log) = (build(text), EventLog::default());
    for body in 0..packets {
        let arrival = Packet { len: 1000, ecn, ..packet(body, Priority::Low) };
        queue.enqueue(Time::ZERO, arrival, &mut event_log);
    }
    let out = (0..until_ms).filter_map(|ms| queue.dequeue(Time::from_nanos(ms * 1_000_000), &mut event_log));
    (out.map(|packet| packet.body).collect(), event_log)
}

#[test]
fn drops_come_faster_and_faster_while_packets_wait_too_long() {
    // From 5 ms on, all packets have waited longer than the target. The first packet is dropped an interval later, and the next ones after
    // 100 ms, 70.7 ms, 57.7 ms and so on: at 105, 205, 275.71, 333.45, 383.45 and 428.17 ms.
    let (out, event_log) = drained("codel:1000", 600, Ecn::NOT_ECT, 430);
    let expected: Vec<u32> =
        [105, 205, 276, 334, 384, 429].into_iter().enumerate().map(|(n, ms)| ms + n as u32).collect();
    assert_eq!(event_log.0, expected.iter().map(|&body| (body, DropReason::Delay)).collect::<Vec<_>>());
    assert_eq!(out.len(), 430, "the wire never idles for a drop");
    assert!(out.is_sorted() && event_log.1.is_empty());
    // ECN-capable packets are marked at the same times, and pass.
    for ecn in [Ecn::ECT_0, Ecn::ECT_1] {
        let (out, event_log) = drained("codel:1000", 600, ecn, 430);
        assert_eq!((event_log.0, event_log.1), (vec![], vec![105, 205, 276, 334, 384, 429]));
        assert_eq!(out, (0..430).collect::<Vec<_>>());
    }
    let (_, event_log) = drained("codel:1000,ecn=false", 600, Ecn::ECT_0, 430);
    assert_eq!((event_log.0.len(), event_log.1.len()), (6, 0));
    let (out, event_log) = drained("codel:1000", 600, Ecn::CE, 430);
    assert_eq!((out.len(), event_log.0.len(), event_log.1.len()), (430, 0, 0), "a marked one needs no mark");
}

#[test]
fn what_waits_for_no_longer_than_the_target_or_alone_is_never_dropped() {
    assert!(drained("codel:1000,target=1s,interval=1s", 600, Ecn::NOT_ECT, 600).1.0.is_empty());
    // The queue never holds more than one packet behind the packet at its head, and drops no packet, regardless of the queueing delay.
    let (mut queue, mut event_log) = (build("codel:1000"), EventLog::default());
    for body in 0..100 {
        queue.enqueue(
            Time::from_nanos(body * 1_000_000_000),
            packet(body as u32, Priority::Low),
            &mut event_log,
        );
        if body > 0 {
            queue.dequeue(Time::from_nanos(body * 1_000_000_000), &mut event_log);
        }
    }
    assert!(event_log.0.is_empty());
}

#[test]
fn a_full_buffer_drops_arrivals() {
    let (out, event_log) = drained("codel:10", 20, Ecn::NOT_ECT, 20);
    assert_eq!(out, (0..9).collect::<Vec<_>>());
    assert!(event_log.0.iter().all(|(_, reason)| *reason == DropReason::Overflow) && event_log.0.len() == 11);
    let (out, _) = drained("codel:3500B", 20, Ecn::NOT_ECT, 20);
    assert_eq!(out, [0, 1, 2]);
    // The packet in transmission keeps its buffer space.
    let (mut queue, mut event_log) = (build("codel:1000B"), EventLog::default());
    let mut at = |queue: &mut AnyQueue, body| {
        queue.enqueue(Time::ZERO, Packet { len: 600, ..packet(body, Priority::Low) }, &mut event_log);
        event_log.0.len()
    };
    assert_eq!([at(&mut queue, 0), at(&mut queue, 1)], [0, 1]);
    queue.dequeue(Time::ZERO, &mut EventLog::default());
    assert_eq!(at(&mut queue, 2), 2);
    queue.dequeue(Time::ZERO, &mut EventLog::default());
    assert_eq!(at(&mut queue, 3), 2);
}

#[test]
fn what_is_wrong_with_codel_is_named() {
    for (text, named) in [
        ("codel", "a limit"),
        ("codel:1", "at least 2"),
        ("codel:10,target=5", "target"),
        ("codel:10,target=0ms", "0 < target <= interval"),
        ("codel:10,interval=4ms", "0 < target <= interval"),
        ("codel:10,ecn=maybe", "ecn"),
        ("codel:10,flows=3", "flows"),
        ("fq-codel:1", "at least 2"),
        ("fq-codel:10,flows=0", "flows"),
        ("fq-codel:10,flows=65537", "1 to 65536 flows"),
        ("fq-codel:10,quantum=0B", "a quantum from 1B"),
        ("fq-codel:10,quantum=2MB", "to 1MB"),
        ("fq-codel:10,target=0ms", "0 < target <= interval"),
    ] {
        let error = text.parse::<QueueSpec>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(named), "{error}");
    }
}
