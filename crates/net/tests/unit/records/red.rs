//! Linux's RED against records. What follows from the average queue length alone must be the kernel's. Its random numbers are not known, so
//! that the random drops are compared in their number, and with what any random numbers may give.

use super::{Fate, Row, rows};
use catnip_base::notation::{Kind, Notation};
use catnip_base::{Rate, Rng, Stream};
use catnip_net::queue::{LinuxRedLaw, LinuxRedParameters, LinuxRedSpec, Verdict};

const QUEUE: &str = "linux-red:200000B,min=15000B,max=45000B,burst=25,max_p=0.1";
const RECORDS: [(&str, &str); 2] = [
    ("red-mixed", include_str!("../data/linux/red-mixed.csv")),
    ("red-equal", include_str!("../data/linux/red-equal.csv")),
];

fn parameters() -> LinuxRedParameters {
    LinuxRedSpec::read(&mut Notation::parse(QUEUE).expect("a queue")).expect("RED").parameters
}

/// Packet that arrives in a record.
struct Arrival {
    /// Decision of the law.
    verdict: Verdict,
    /// Average queue length, bytes.
    average: f64,
    is_dropped: bool,
}

/// Returns the decisions of a law with the random numbers of `seed` at the queue of a record. HTB never asks an empty queue for a packet,
/// which would begin RED's idle time.
fn arrivals(text: &str, seed: u64) -> Vec<Arrival> {
    let rate: Rate = "10Mbit".parse().expect("a rate");
    let mut law = LinuxRedLaw::new(parameters(), rate, Rng::new(seed, Stream::Queue(0)));
    let rows = rows(text, 0);
    let mut leaving = rows.iter().filter(|row| row.fate != Fate::Dropped).peekable();
    let (mut waiting, mut arrivals) = (0, Vec::new());
    for Row { packet, fate, .. } in &rows {
        while let Some(left) = leaving.next_if(|left| left.end <= packet.arrived) {
            waiting -= u64::from(left.packet.len);
        }
        let verdict = law.on_arrival(packet.arrived, waiting);
        let is_dropped = *fate == Fate::Dropped;
        arrivals.push(Arrival { verdict, average: law.average(), is_dropped });
        waiting += if is_dropped { 0 } else { u64::from(packet.len) };
    }
    arrivals
}

/// Random drops of a record.
struct Spacing {
    drops: f64,
    /// Number of drops that random numbers give on average, and its variance.
    expected: f64,
    variance: f64,
    /// Number of the first packet that the law cannot have treated so, whatever its random numbers.
    impossible: Option<usize>,
}

/// Compares the drops of a record with the rule of the law: nothing below min, everything from max on. Between them packet `n` after the
/// last drop, or after the first packet there, is dropped once `n` times the average's excess over min reaches a random number, which is
/// uniform up to (max - min) / max_p.
fn spacing(arrivals: &[Arrival]) -> Spacing {
    let p = parameters();
    let (min, max) = (p.min_threshold as f64, p.max_threshold as f64);
    // The kernel divides 32 random bits by an integer, which makes them exceed the quotient by less than 1 in 10 000.
    let numbers = ((max - min) / p.max_probability * 1.0001).ceil();
    let mut spacing = Spacing { drops: 0.0, expected: 0.0, variance: 0.0, impossible: None };
    // Packets since the last drop, and how many random numbers they have ruled out.
    let mut since: Option<(u32, f64)> = None;
    for (number, Arrival { average, is_dropped, .. }) in arrivals.iter().enumerate() {
        let chance = if *average < min || *average >= max {
            since = None;
            f64::from(u8::from(*average >= max))
        } else if let Some((count, ruled_out)) = &mut since {
            *count += 1;
            let reached = (f64::from(*count) * (average - min).floor() + 1.0).clamp(*ruled_out, numbers);
            let chance = (reached - *ruled_out) / (numbers - *ruled_out);
            *ruled_out = reached;
            spacing.drops += f64::from(u8::from(*is_dropped));
            spacing.expected += chance;
            spacing.variance += chance * (1.0 - chance);
            chance
        } else {
            since = Some((0, 0.0));
            0.0
        };
        if *is_dropped && since.is_some() {
            since = Some((0, 0.0));
        }
        if chance == if *is_dropped { 0.0 } else { 1.0 } {
            spacing.impossible.get_or_insert(number);
        }
    }
    spacing
}

#[test]
fn linux_red_drops_what_the_average_decides_as_the_records_do() {
    for (name, text) in RECORDS {
        let p = parameters();
        let arrivals = arrivals(text, 1);
        for (number, Arrival { verdict, average, is_dropped }) in arrivals.iter().enumerate() {
            let forced = *average >= p.max_threshold as f64;
            if forced || *average < p.min_threshold as f64 {
                let expected = if forced { Verdict::Forced } else { Verdict::Accept };
                assert_eq!((*verdict, *is_dropped), (expected, forced), "{name}: packet {number}");
            }
        }
    }
}

#[test]
fn random_drops_of_the_records_are_as_far_apart_as_linux_red_may_space_them() {
    for (name, text) in RECORDS {
        let Spacing { drops, expected, variance, impossible } = spacing(&arrivals(text, 1));
        assert_eq!(impossible, None, "{name}");
        assert!(
            (drops - expected).abs() < 3.0 * variance.sqrt(),
            "{name}: {drops} drops, expected {expected}"
        );
    }
}

#[test]
fn linux_red_drops_as_many_packets_at_random_as_the_records_have() {
    for (name, text) in RECORDS {
        let early = |seed| arrivals(text, seed).iter().filter(|it| it.verdict == Verdict::Early).count();
        let counts: Vec<f64> = (1..=200).map(|seed| early(seed) as f64).collect();
        let mean = counts.iter().sum::<f64>() / 200.0;
        let deviation = (counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 199.0).sqrt();
        let recorded = spacing(&arrivals(text, 1)).drops;
        assert!((recorded - mean).abs() < 3.0 * deviation, "{name}: {recorded} drops, {mean} ± {deviation}");
    }
}

#[test]
fn a_drop_below_min_is_told_from_ours() {
    let mut arrivals = arrivals(RECORDS[0].1, 1);
    arrivals[100].is_dropped = true;
    assert_eq!(spacing(&arrivals).impossible, Some(100));
}
