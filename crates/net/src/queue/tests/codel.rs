use super::*;
use crate::queue::codel::Decision;
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
fn linux_drops_at_the_ticks_that_its_newton_steps_give() {
    // Ticks of 1024 ns: the target is 4882, the interval 97 656. All packets are late from tick 4882 on (5 ms), so that the first one is
    // dropped after tick 102 538, at 105 ms (102 539). In units of 2^-16 the root is then 65 535, and after one step per drop 32 769,
    // 36 864, 31 968 and 28 935 (exact: 46 341, 37 837, 32 768, 29 309). The interval times the root is 97 654, 48 829, 54 931, 47 635 and
    // 43 116 ticks, so that drops are due at ticks 200 193, 249 022, 303 953, 351 588 and 394 704: 204.998, 254.999, 311.248, 360.026 and
    // 404.177 ms.
    let (out, event_log) = drained("linux-codel", 600, Ecn::NOT_ECT, 406);
    let at_ms = [105, 205, 255, 312, 361, 405];
    let expected: Vec<(u32, DropReason)> =
        (0..).zip(at_ms).map(|(n, ms)| (ms + n, DropReason::Delay)).collect();
    assert_eq!((event_log.0, out.len()), (expected, 406));
    // Marks come at the same times, if Linux is told to mark.
    let (_, event_log) = drained("linux-codel:1000,ecn=true", 600, Ecn::ECT_0, 406);
    assert_eq!((event_log.0, event_log.1), (vec![], at_ms.to_vec()));
    assert_eq!(drained("linux-codel", 600, Ecn::ECT_0, 406).1.1, []);
}

/// Returns the decision of a law about a packet that arrived at time zero and now, in ticks of 1024 ns, is at the head.
fn decided<L: ControlLaw>(law: &mut CodelLaw<L>, ecn: Ecn, tick: u64, behind: [u64; 2]) -> Decision {
    let [queue_bytes, port_bytes] = behind;
    let behind = Behind { queue_bytes, port_bytes, max_packet: 1500 };
    let head = Packet { ecn, ..packet(0, Priority::Low) };
    law.decide(&CodelParameters::default(), Time::from_nanos(tick << 10), &head, behind)
}

const LONG: [u64; 2] = [9000; 2];

fn linux() -> CodelLaw<LinuxControl> {
    CodelLaw::default()
}

#[test]
fn linux_begins_after_the_end_of_the_interval_and_the_rfc_at_its_end() {
    // Ticks are exact multiples of 1024 ns, and 100 ms are not: the RFC's interval ends between ticks 97 656 and 97 657 after the first.
    let (mut linux, mut rfc) = (linux(), CodelLaw::<RfcControl>::default());
    let mut at =
        |tick| [decided(&mut linux, Ecn::NOT_ECT, tick, LONG), decided(&mut rfc, Ecn::NOT_ECT, tick, LONG)];
    assert_eq!(at(4883), [Decision::Pass; 2]);
    assert_eq!(at(4883 + 97_656), [Decision::Pass; 2]);
    assert_eq!(at(4883 + 97_657), [Decision::Drop; 2]);
    // The target is 4882 ticks to Linux, and 4882.8 to the RFC.
    assert_eq!(decided(&mut linux, Ecn::NOT_ECT, 4882, LONG), Decision::Pass);
}

#[test]
fn linux_spares_what_leaves_at_most_1514_bytes_in_the_port_and_the_rfc_a_packet_in_the_queue() {
    let late = |linux: &mut CodelLaw<LinuxControl>, rfc: &mut CodelLaw<RfcControl>, behind| {
        [4883, 102_540].map(|tick| {
            [decided(linux, Ecn::NOT_ECT, tick, behind), decided(rfc, Ecn::NOT_ECT, tick, behind)]
        })[1]
    };
    // Bytes behind the packet in its queue, and in the port; the largest packet so far had 1500.
    for (behind, decisions) in [
        ([1500, 1500], [Decision::Pass, Decision::Pass]),
        ([1501, 1514], [Decision::Pass, Decision::Drop]),
        ([1501, 1515], [Decision::Drop, Decision::Drop]),
        ([0, 1515], [Decision::Drop, Decision::Pass]),
    ] {
        assert_eq!(late(&mut linux(), &mut CodelLaw::default(), behind), decisions, "{behind:?}");
    }
}

#[test]
fn a_mark_of_linux_sets_the_time_of_the_next_one_and_a_drop_leaves_that_to_the_next_packet() {
    for (ecn, signal, at_rest_from) in [
        // The second mark, at tick 200 194, moves the next one from 200 193 to 249 022 at once. 16 intervals are 1 562 496 ticks.
        (Ecn::ECT_0, Decision::Mark, 249_022 + 1_562_496),
        // After a drop the next packet, which is not late, ends dropping; the time stays at 200 193.
        (Ecn::NOT_ECT, Decision::Drop, 200_193 + 1_562_496),
    ] {
        let mut law = linux();
        assert_eq!(decided(&mut law, ecn, 4882, LONG), Decision::Pass);
        assert_eq!(decided(&mut law, ecn, 102_539, LONG), signal);
        if signal == Decision::Drop {
            assert_eq!(
                decided(&mut law, ecn, 102_539, LONG),
                Decision::Pass,
                "a first drop lets the next pass"
            );
        }
        assert_eq!(decided(&mut law, ecn, 200_192, LONG), Decision::Pass);
        assert_eq!(decided(&mut law, ecn, 200_194, LONG), signal);
        assert_eq!(decided(&mut law, ecn, 200_194, [0; 2]), Decision::Pass);
        let is_at_rest =
            |tick: u64| law.is_at_rest(&CodelParameters::default(), Time::from_nanos(tick << 10));
        assert_eq!([at_rest_from - 1, at_rest_from].map(is_at_rest), [false, true], "{signal:?}");
    }
}

#[test]
fn linux_begins_anew_at_the_last_rate_for_16_intervals() {
    // Drops at ticks 102 539, 200 194 and 249 023 make a count of 3 with a root of 36 864 / 2^16, and set the next drop to 303 953.
    let dropped_thrice = || {
        let mut law = linux();
        decided(&mut law, Ecn::NOT_ECT, 4882, LONG);
        for tick in [102_539, 200_194, 249_023] {
            assert_eq!(decided(&mut law, Ecn::NOT_ECT, tick, LONG), Decision::Drop);
            assert_eq!(decided(&mut law, Ecn::NOT_ECT, tick, LONG), Decision::Pass);
        }
        decided(&mut law, Ecn::NOT_ECT, 250_000, [0; 2]);
        law
    };
    // The count begins with 3 - 1 = 2 and one step from 36 864: root 43 632, a gap of 65 016 ticks (exact: 69 053).
    let restarts = |since: u64, gap: u64| {
        let mut law = dropped_thrice();
        decided(&mut law, Ecn::NOT_ECT, since - 97_657, LONG);
        assert_eq!(decided(&mut law, Ecn::NOT_ECT, since, LONG), Decision::Drop);
        decided(&mut law, Ecn::NOT_ECT, since, LONG);
        let at = |law: &mut CodelLaw<LinuxControl>, tick| decided(law, Ecn::NOT_ECT, tick, LONG);
        assert_eq!(
            [at(&mut law, since + gap - 1), at(&mut law, since + gap)],
            [Decision::Pass, Decision::Drop]
        );
    };
    restarts(303_953 + 1_562_495, 65_016);
    restarts(303_953 + 1_562_496, 97_654);
}

#[test]
fn packets_that_an_overflow_drops_count_for_linux_and_spoil_its_root() {
    // 64 packets dropped at once make the count 65, and the next drop 66. The step from a root of 65 535 with a count of 66 does not
    // converge: 3 - 66 is negative, and modulo 2^64 the root becomes 32 865, as for a count of 4. The gap is 48 972 ticks, not 48 829.
    let mut law = linux();
    decided(&mut law, Ecn::NOT_ECT, 4882, LONG);
    decided(&mut law, Ecn::NOT_ECT, 102_539, LONG);
    decided(&mut law, Ecn::NOT_ECT, 102_539, LONG);
    law.on_overflow(64);
    let mut at = |tick| decided(&mut law, Ecn::NOT_ECT, tick, LONG);
    assert_eq!([at(200_193), at(200_193)], [Decision::Drop, Decision::Pass]);
    assert_eq!([at(200_193 + 48_971), at(200_193 + 48_972)], [Decision::Pass, Decision::Drop]);
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
        ("linux-codel:1", "at least 2"),
        ("linux-codel:9,interval=4ms", "0 < target <= interval"),
        ("linux-fq-codel:10,quantum=0B", "a quantum from 1B"),
        ("linux-pie:9,alpha=0.1", "steps of 0.0625 from 0 to 2"),
        ("linux-pie:9,beta=2.5", "steps of 0.0625 from 0 to 2"),
        ("linux-pie:9,burst=0s", "burst"),
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
