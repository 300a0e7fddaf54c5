//! Tests of drop tail, RED, three-level RED and weighted round robin.

use super::drive::*;
use crate::kept::Check;
use catnip_base::{Rng, Span, Stream, Time};
use catnip_net::queue::{QueueDiscipline, RioLaw, RioParameters, Verdict};
use catnip_net::{Dscp, Packet, Priority};
use std::collections::VecDeque;
use std::num::NonZeroU32;

pub(crate) fn checks(seed: u64) -> Vec<Check> {
    let red = levels(seed, 500, 15, |_| [0.0, 0.0, 1.0]);
    let three = levels(seed, 200, 10, |rng| {
        let [high, med, low] = [0; 3].map(|_| rng.uniform().powi(3));
        [high, med, low].map(|share| share / (high + med + low))
    });
    vec![
        Check {
            id: "IDS-S8",
            claim: "drop tail of packets, bytes or time: arrivals dropped while there was room, or taken while there was none",
            value: drop_tail(seed),
            limit: 0.0,
        },
        Check {
            id: "IDS-S9",
            claim: "RED, all packets LOW: drops in 15 bins of the average between the thresholds against the law, standard deviations, the worst bin (1 % level of the worst of 15: 3.40)",
            value: worst(&red.bins[LOW as usize]),
            limit: 3.4029,
        },
        Check {
            id: "IDS-S9",
            claim: "RED, all packets LOW: drops below the lower threshold, and packets taken at or above the upper one or into a full buffer",
            value: red.certain,
            limit: 0.0,
        },
        Check {
            id: "IDS-S10",
            claim: "three-level RED, mixed priorities: drops in 10 bins of the average of each level against its law, standard deviations, the worst bin (1 % level of the worst of 30: 3.59)",
            value: worst(three.bins.iter().flatten()),
            limit: 3.5879,
        },
        Check {
            id: "IDS-S10",
            claim: "three-level RED: drops below the lower threshold of their level, and packets taken at or above its upper one or into a full buffer",
            value: three.certain,
            limit: 0.0,
        },
        Check {
            id: "IDS-S10",
            claim: "three-level RED: arrivals after which an average is not that of HIGH, MED and HIGH, or all packets",
            value: red.averages + three.averages,
            limit: 0.0,
        },
        Check {
            id: "IDS-S10",
            claim: "three-level RED: arrivals with which queue and law do not do the same",
            value: red.otherwise + three.otherwise,
            limit: 0.0,
        },
        Check {
            id: "IDS-S11",
            claim: "weighted round robin under saturation: distance of a queue's share of the bytes from its weight of 5, 10, 20 or 30 %, percent of the weight, the worst",
            value: wrr_share(seed),
            limit: 2.0,
        },
        Check {
            id: "IDS-S11",
            claim: "weighted round robin under random load: times the wire was idle while a packet waited",
            value: wrr_idle(seed),
            limit: 0.0,
        },
    ]
}

/// Packets inside a drop-tail buffer, as computed by the test.
#[derive(Default)]
struct Inside {
    /// Departure time and size of each packet.
    packets: VecDeque<(Time, u32)>,
    /// Departure time of the last packet.
    free_at: Time,
}

/// Notation of a drop-tail queue, and a function that returns true if it has space for a packet of the given length at the given time.
type Buffer = (&'static str, fn(&Inside, Time, u32) -> bool);

const BUFFERS: [Buffer; 3] = [
    ("drop-tail:11", |inside, _, _| inside.packets.len() < 11),
    ("drop-tail:9000B", |inside, _, len| {
        inside.packets.iter().map(|(_, len)| len).sum::<u32>() + len <= 9000
    }),
    ("drop-tail:8ms", |inside, now, _| inside.free_at.since(now) <= Span::from_millis(8)),
];

fn drop_tail(seed: u64) -> f64 {
    let mut mismatches = 0;
    for (n, (text, has_space)) in (0..).zip(BUFFERS) {
        let load = arrivals(&mut random(seed, 100 + n), 100_000, Span::from_micros(770), |rng| {
            packet(0, any_size(rng), LOW)
        });
        let crossed = cross(&mut port(text, MICROSECOND_PER_BYTE, seed), &load);
        let (mut inside, mut taken) = (Inside::default(), 0);
        for &(now, Packet { len, body, .. }) in &load {
            while inside.packets.front().is_some_and(|(left, _)| *left <= now) {
                inside.packets.pop_front();
            }
            let has_space = has_space(&inside, now, len);
            mismatches += u32::from(has_space == crossed.dropped[body as usize].is_some());
            if has_space {
                inside.free_at = now.max(inside.free_at) + transmission_time(len);
                inside.packets.push_back((inside.free_at, len));
                taken += 1;
            }
        }
        assert!((10_000..90_000).contains(&taken), "{text}: {taken}");
    }
    f64::from(mismatches)
}

/// Measurements of three-level RED.
struct Levels {
    /// Deviation of the number of drops from its expectation, by priority and by the position of the average queue between the two
    /// thresholds.
    bins: [Vec<Deviation>; Priority::COUNT],
    /// Number of packets with a wrong certain outcome: dropped although the average was below the lower threshold and the buffer was not
    /// full, or accepted although the average was at or above the upper threshold or the buffer was full.
    certain: f64,
    /// Number of arrivals after which an average queue length differed from that by the formula printed in the DiffServ study.
    averages: f64,
    /// Number of arrivals that the queue treated differently from `RioLaw` with the same random numbers.
    otherwise: f64,
}

/// Returns the lower and the upper threshold of three-level RED, packets. The DiffServ study gives them as percentages of the buffer.
fn thresholds(priority: Priority, buffer: u32) -> (f64, f64) {
    let (min, max) = match priority {
        LOW => (10.0, 25.0),
        MED => (40.0, 60.0),
        HIGH => (60.0, 95.0),
    };
    (min / 100.0 * f64::from(buffer), max / 100.0 * f64::from(buffer))
}

/// Drives three-level RED with random arrivals and departures, whose mix of priorities and load vary.
fn levels(seed: u64, buffer: u32, bins: usize, mix: impl Fn(&mut Rng) -> [f64; 3]) -> Levels {
    let mut rng = random(seed, 110 + buffer);
    let mut rio = queue(&format!("rio:{buffer}"), "10Mbit", seed);
    let draws = Rng::new(seed, Stream::Queue(0));
    let mut law = RioLaw::new(&RioParameters::default(), NonZeroU32::new(buffer).unwrap(), draws);
    let mut waiting = [0u32; Priority::COUNT];
    let (mut high, mut med, mut low) = (0.0f64, 0.0f64, 0.0f64);
    let mut found = Levels {
        bins: [0; Priority::COUNT].map(|_| vec![Deviation::default(); bins]),
        certain: 0.0,
        averages: 0.0,
        otherwise: 0.0,
    };
    let (mut left, mut load, mut shares) = (0, 0.0, [0.0; 3]);
    for body in 0..6_000_000 {
        if left == 0 {
            (left, load, shares) = (200 + rng.below(2000), 0.3 + 0.45 * rng.uniform(), mix(&mut rng));
        }
        left -= 1;
        if !rng.chance(load) {
            if let Some(packet) = rio.dequeue(Time::ZERO, &mut Drops::default()) {
                waiting[packet.dscp.priority() as usize] -= 1;
            }
            continue;
        }
        let drawn = rng.uniform();
        let priority = match shares {
            [high, _, _] if drawn < high => HIGH,
            [high, med, _] if drawn < high + med => MED,
            _ => LOW,
        };
        // As printed in the paper, an arrival updates the averages of all packet counts that include its priority.
        let [of_high, of_med, of_low] =
            [HIGH, MED, LOW].map(|priority| f64::from(waiting[priority as usize]));
        low = 0.5 * low + 0.5 * (of_high + of_med + of_low);
        if priority != LOW {
            med = 0.5 * med + 0.5 * (of_high + of_med);
        }
        if priority == HIGH {
            high = 0.5 * high + 0.5 * of_high;
        }
        let average = match priority {
            HIGH => high,
            MED => med,
            LOW => low,
        };
        let is_full = waiting.iter().sum::<u32>() == buffer;
        let (min, max) = thresholds(priority, buffer);
        let verdict = law.on_arrival(priority, waiting.map(u64::from));
        found.averages += count([HIGH, MED, LOW].map(|level| law.average(level)) != [high, med, low]);
        let mut drops = Drops::default();
        rio.enqueue(Time::ZERO, packet(body, 1040, priority), &mut drops);
        let dropped = !drops.0.is_empty();
        found.otherwise += count(dropped != (is_full || verdict != Verdict::Accept));
        if is_full || average < min || average >= max {
            found.certain += count(dropped != (is_full || average >= max));
        } else {
            let position = (average - min) / (max - min);
            found.bins[priority as usize][(position * bins as f64) as usize].add(0.1 * position, dropped);
        }
        waiting[priority as usize] += u32::from(!dropped);
    }
    found
}

fn count(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

/// Returns the codepoint of packets of a class with a queue of its own, or of all remaining traffic if `class` is 0.
fn class(class: u8) -> Dscp {
    if class == 0 { Dscp::DEFAULT } else { Dscp::assured(class, LOW) }
}

fn wrr_share(seed: u64) -> f64 {
    let mut rng = random(seed, 120);
    let mut off = |weight: u32| {
        let text = format!("wrr:af1={weight}(drop-tail:9),rest={}(drop-tail:9)", 100 - weight);
        let (mut wrr, mut bytes) = (queue(&text, "10Mbit", seed), [0u64; 2]);
        while bytes.iter().sum::<u64>() < 30_000_000 {
            // Both queues are always backlogged; packets beyond the limits are dropped.
            for of in [0, 1] {
                wrr.enqueue(Time::ZERO, packet(0, any_size(&mut rng), class(of)), &mut Drops::default());
            }
            let sent = wrr.dequeue(Time::ZERO, &mut Drops::default()).expect("something always waits");
            bytes[usize::from(sent.dscp.class() == Some(1))] += u64::from(sent.len);
        }
        let share = 100.0 * bytes[1] as f64 / (bytes[0] + bytes[1]) as f64;
        100.0 * (share / f64::from(weight) - 1.0).abs()
    };
    [5, 10, 20, 30].map(&mut off).into_iter().fold(0.0, f64::max)
}

fn wrr_idle(seed: u64) -> f64 {
    let load = arrivals(&mut random(seed, 121), 200_000, Span::from_micros(800), |rng| {
        let of = one_of(&[0, 1, 1, 2, 4], rng);
        packet(0, any_size(rng), class(of))
    });
    let text = "wrr:af1=20(drop-tail:30),af4=5(drop-tail:20),rest=80(rio:60)";
    let Crossed { out, dropped } = cross(&mut port(text, MICROSECOND_PER_BYTE, seed), &load);
    // True if the packet has left or was dropped, by number of the arrival.
    let mut is_removed: Vec<bool> = dropped.iter().map(Option::is_some).collect();
    let (mut first, mut free_at, mut idle, mut waited) = (0, Time::ZERO, 0, 0);
    for (at, packet) in out {
        while is_removed[first] {
            first += 1;
        }
        let start = Time::ZERO + (at - (Time::ZERO + transmission_time(packet.len)));
        idle += u32::from(start > free_at.max(load[first].0));
        waited += u32::from(start > load[packet.body as usize].0);
        (is_removed[packet.body as usize], free_at) = (true, at);
    }
    assert!(waited > 10_000, "{waited}");
    f64::from(idle)
}
