//! Components driven in isolation by many random arrivals. The measurements are stored in python/catnip/measured/components.csv, from which
//! the reproduction of the CATNIP paper reads them.

use crate::kept::{self, Check};
use catnip_base::{Distribution, Rate, Rng, Stream, Time};
use catnip_net::queue::{CatnipQueue, QueueDiscipline, Red, RedLaw, RedParameters, Verdict, VictimRule};
use catnip_net::{DropReason, Packet, PacketEvents, Priority, Route};
use std::num::NonZeroU32;

#[test]
fn components_stay_within_their_limits_and_measure_what_the_reproduction_reports() {
    kept::keep("components.csv", checks);
}

fn checks(seed: u64) -> Vec<Check> {
    let victims = Rng::new(seed, Stream::Victim(0));
    let good = CatnipQueue::good(NINE, VictimRule::Random, victims.clone());
    let bad = CatnipQueue::bad(NINE, VictimRule::Random, victims.clone());
    let law = RedLaw::new(red_parameters(0.2), RATE, Rng::new(seed, Stream::Queue(0)));
    let red = Red::new(NINE, law).with_victims(VictimRule::Random, victims);
    vec![
        Check {
            id: "CAT-S8",
            claim: "RED: chi-square of 19 gap lengths between early drops against the formula (1 % level 36.2)",
            value: red_gap_chi_square(seed),
            limit: 36.19,
        },
        Check {
            id: "CAT-S9",
            claim: "HIGH drops while a LOW packet waited or there was room",
            value: violations(good, Priority::High, Early::Never, seed),
            limit: 0.0,
        },
        Check {
            id: "CAT-S9",
            claim: "victim uniform among 5 LOW packets: chi-square (1 % level 13.3)",
            value: victim_chi_square(seed),
            limit: 13.28,
        },
        Check {
            id: "CAT-S10",
            claim: "LOW drops while a HIGH packet waited or there was room",
            value: violations(bad, Priority::Low, Early::Never, seed),
            limit: 0.0,
        },
        Check {
            id: "CAT-S11",
            claim: "arrivals before the first substitution at which RED and CATNIP-RED differ",
            value: red_differences(seed),
            limit: 0.0,
        },
        Check {
            id: "CAT-S11",
            claim: "HIGH drops by CATNIP-RED while a LOW packet waited",
            value: violations(red, Priority::High, Early::Allowed, seed),
            limit: 0.0,
        },
        Check {
            id: "CAT-S14",
            claim: "largest Kolmogorov-Smirnov distance of 20 000 drawn sizes, over its 1 % critical value",
            value: worst_ks(seed),
            limit: 1.0,
        },
    ]
}

#[derive(Default)]
struct Lost(Option<Packet>);

impl PacketEvents for Lost {
    fn dropped(&mut self, _now: Time, packet: Packet, _why: DropReason) {
        self.0 = Some(packet);
    }
}

fn packet(body: u32, high: bool) -> Packet {
    let priority = if high { Priority::High } else { Priority::Low };
    Packet { dscp: priority.into(), ..Packet::new(Time::ZERO, Route::default(), 512, body) }
}

/// Whether a queue drops packets although there is room.
#[derive(Clone, Copy, PartialEq)]
enum Early {
    Never,
    Allowed,
}

/// Returns the number of violations by a queue of nine packets under random arrivals and departures. A violation is a departure out of order,
/// or the drop of a protected packet although there was another packet to drop, or free space and no `early` drops.
fn violations(mut queue: impl QueueDiscipline, protected: Priority, early: Early, seed: u64) -> f64 {
    let mut random = Rng::new(seed, Stream::Workload(1));
    let mut waiting: Vec<Packet> = Vec::new();
    let mut violations = 0;
    for body in 0..100_000 {
        let arrival = packet(body, random.chance(0.4));
        let mut lost = Lost::default();
        queue.enqueue(Time::ZERO, arrival, &mut lost);
        let other_waits = waiting.iter().any(|p| p.dscp.priority() != protected);
        let had_room = waiting.len() < NINE.get() as usize && early == Early::Never;
        waiting.push(arrival);
        if let Some(gone) = lost.0 {
            violations += u32::from(gone.dscp.priority() == protected && (other_waits || had_room));
            waiting.retain(|p| p.body != gone.body);
        }
        if random.chance(0.8) {
            let dequeued = queue.dequeue(Time::ZERO, &mut Lost::default());
            violations += u32::from(dequeued.map(|p| p.body) != waiting.first().map(|p| p.body));
            waiting.drain(..waiting.len().min(1));
        }
    }
    f64::from(violations)
}

fn victim_chi_square(seed: u64) -> f64 {
    const LOW: [u32; 5] = [0, 2, 3, 5, 7];
    let mut counts = [0u32; LOW.len()];
    let trials = 10_000;
    for trial in 0..trials {
        let mut queue = CatnipQueue::good(EIGHT, VictimRule::Random, Rng::new(seed, Stream::Victim(trial)));
        let mut lost = Lost::default();
        for body in 0..9 {
            queue.enqueue(Time::ZERO, packet(body, !LOW.contains(&body)), &mut lost);
        }
        let victim = lost.0.expect("nine do not fit into eight").body;
        counts[LOW.iter().position(|&body| body == victim).expect("the victim is LOW")] += 1;
    }
    chi_square(&counts, &[f64::from(trials) / LOW.len() as f64; LOW.len()])
}

fn red_parameters(weight: f64) -> RedParameters {
    RedParameters {
        min_threshold: 2.0,
        max_threshold: 6.0,
        weight,
        max_probability: 0.1,
        gentle: false,
        wait: false,
        mean_packet_bytes: 512,
        ecn: false,
        hard: true,
    }
}

const EIGHT: NonZeroU32 = NonZeroU32::new(8).unwrap();
const NINE: NonZeroU32 = NonZeroU32::new(9).unwrap();
const TEN: NonZeroU32 = NonZeroU32::new(10).unwrap();
const RATE: Rate = Rate::from_bits_per_second(1_500_000).unwrap();

/// Returns the chi-square statistic of the gaps between drops of RED, counted in arrivals, against the uniform distribution on 1 to 19 that
/// results from a constant queue of four packets, for which p_b is 0.05.
fn red_gap_chi_square(seed: u64) -> f64 {
    let mut law = RedLaw::new(red_parameters(1.0), RATE, Rng::new(seed, Stream::Queue(0)));
    law.on_arrival(Time::ZERO, 4);
    let mut counts = [0u32; 19];
    let mut gap = 1;
    let drops = 20_000;
    let mut seen = 0;
    while seen < drops {
        gap += 1;
        if law.on_arrival(Time::ZERO, 4) == Verdict::Early {
            if seen > 0 {
                counts[gap.min(counts.len()) - 1] += 1;
            }
            seen += 1;
            gap = 0;
        }
    }
    // The n-th arrival after a drop is dropped with probability p_a(n) = p_b / (1 - n p_b), so each gap from 1 to 19 has probability 1/19,
    // and p_a(19) is 1.
    let expected = [f64::from(drops - 1) / counts.len() as f64; 19];
    chi_square(&counts, &expected)
}

fn red_differences(seed: u64) -> f64 {
    let mut differences = 0;
    for run in 0..50 {
        let law = || RedLaw::new(red_parameters(0.2), RATE, Rng::new(seed, Stream::Queue(run)));
        let mut red = Red::new(TEN, law());
        let mut catnip =
            Red::new(TEN, law()).with_victims(VictimRule::Random, Rng::new(seed, Stream::Victim(run)));
        let mut random = Rng::new(seed, Stream::Workload(run));
        for step in 0..400 {
            let now = Time::from_nanos(u64::from(step) * 1_000_000);
            let arrival = packet(step, random.chance(0.4));
            let (mut by_red, mut by_catnip) = (Lost::default(), Lost::default());
            red.enqueue(now, arrival, &mut by_red);
            catnip.enqueue(now, arrival, &mut by_catnip);
            differences += u32::from(by_red.0.is_some() != by_catnip.0.is_some());
            if by_catnip.0.is_some_and(|dropped| dropped.body != step) {
                break;
            }
            if random.chance(0.6) {
                red.dequeue(now, &mut Lost::default());
                catnip.dequeue(now, &mut Lost::default());
            }
        }
    }
    f64::from(differences)
}

fn worst_ks(seed: u64) -> f64 {
    let distributions = [
        Distribution::Lognormal { mu: 7.630, sigma: 1.001, maximum: f64::INFINITY },
        Distribution::Pareto { shape: 2.43, minimum: 1.0, maximum: f64::INFINITY },
        Distribution::Exponential { mean: 40.0 },
        Distribution::Empirical { points: vec![(0.0, 0.0), (1.0, 0.25), (10.0, 1.0)] },
    ];
    let distance = |(n, distribution): (usize, &Distribution)| {
        let mut rng = Rng::new(seed, Stream::Workload(100 + n as u32));
        let mut sample: Vec<f64> = (0..20_000).map(|_| distribution.draw(&mut rng)).collect();
        sample.sort_by(f64::total_cmp);
        let count = sample.len() as f64;
        let distance = sample.iter().enumerate().fold(0.0f64, |worst, (i, &x)| {
            let expected = distribution.cdf(x);
            worst.max(expected - i as f64 / count).max((i + 1) as f64 / count - expected)
        });
        distance / (1.628 / count.sqrt())
    };
    distributions.iter().enumerate().map(distance).fold(0.0, f64::max)
}

fn chi_square(counts: &[u32], expected: &[f64]) -> f64 {
    counts.iter().zip(expected).map(|(&count, e)| (f64::from(count) - e).powi(2) / e).sum()
}
