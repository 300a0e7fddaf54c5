//! Linux's PIE against records, which have the state of the queue at each update of the probability. The random numbers of the kernel are
//! not known, so that its drops are compared with what the law may do.

use super::{Fate, Row, rows};
use catnip_base::notation::{Kind, Notation};
use catnip_base::{Rng, Span, Stream, Time};
use catnip_net::queue::{LinuxPieLaw, PieControl, PieParameters, PieSpec};
use catnip_net::{Ecn, Packet, Route};

/// Queues with their records and those of the updates.
const RECORDS: [(&str, &str, &str); 2] = [
    (
        "linux-pie:1001",
        include_str!("../data/linux/pie-mild.csv"),
        include_str!("../data/linux/pie-mild.updates.csv"),
    ),
    (
        "linux-pie:1001,ecn=true",
        include_str!("../data/linux/pie-slight-ecn.csv"),
        include_str!("../data/linux/pie-slight-ecn.updates.csv"),
    ),
];

/// Update of the probability by the kernel.
struct Update {
    at: Time,
    /// Queueing delay of the packet that left last, and 0 if no packet waits.
    delay: Span,
    backlog_bytes: u64,
    /// Probability until then, in units of 2^-56.
    before: u64,
}

fn updates(text: &str) -> Vec<Update> {
    let rows = super::lines(text).map(|(_, line)| {
        let values: Vec<u64> = line.split(',').map(|value| value.parse().expect("a number")).collect();
        let [at, delay, backlog_bytes, before] = values[..] else { panic!("four columns, not {line}") };
        Update { at: Time::from_nanos(at), delay: Span::from_nanos(delay), backlog_bytes, before }
    });
    rows.collect()
}

fn parameters(queue: &str) -> PieParameters {
    let mut text = Notation::parse(queue).expect("a queue");
    PieSpec::<LinuxPieLaw>::read(&mut text).expect("PIE").parameters
}

/// Returns the time of the `n`-th update by the clock of the law, which updates the probability every 20 ms. The kernel's first one comes
/// half a second after the queue is set up.
fn time_of_update(n: u64) -> Time {
    Time::ZERO + Span::from_millis(20 * n)
}

#[test]
fn the_probability_of_linux_pie_is_the_kernels_to_the_bit_after_each_update() {
    for (queue, _, text) in RECORDS {
        let p = parameters(queue);
        let mut law = LinuxPieLaw::new(&p);
        for (n, update) in (1..).zip(updates(text)) {
            assert_eq!(law.probability(), update.before, "{queue}: before update {n}");
            let head = Packet::new(time_of_update(50 * n), Route::default(), 1514, 0);
            law.on_departure(head.arrived + update.delay, &head, false);
            law.advance(&p, time_of_update(n), update.backlog_bytes);
        }
    }
}

/// Event in the order of a record. At the same time a packet leaves before another one arrives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Departure(usize),
    Arrival(usize),
    Update(usize),
}

/// Returns the events in a record by time.
fn events(rows: &[Row], updates: &[Update]) -> Vec<(Time, Event)> {
    let of_packets = (0..).zip(rows).flat_map(|(number, row)| {
        let left = matches!(row.fate, Fate::Left { .. }).then_some((row.end, Event::Departure(number)));
        [Some((row.packet.arrived, Event::Arrival(number))), left].into_iter().flatten()
    });
    let of_updates = (0..).zip(updates).map(|(number, update)| (update.at, Event::Update(number)));
    let mut events: Vec<(Time, Event)> = of_packets.chain(of_updates).collect();
    events.sort_unstable();
    events
}

/// Drops and marks of a record.
#[derive(Default)]
struct Hits {
    recorded: f64,
    /// Sum of the probabilities with which the law drops or marks each packet, and the variance of this number.
    expected: f64,
    variance: f64,
}

/// Random numbers with which each decision is tried. A decision that none of them gives is tried a hundred times as often.
const DRAWS: u32 = 2000;

/// Returns the law after a decision that the record has taken, and the probability of a drop or mark. Panics if the law cannot decide so.
fn decided(
    law: LinuxPieLaw,
    p: &PieParameters,
    waiting: u64,
    is_hit: bool,
    rng: &mut Rng,
) -> (LinuxPieLaw, f64) {
    let mut tried = || {
        let mut law = law;
        (law.should_drop(p, waiting, 1514, rng), law)
    };
    let draws: Vec<(bool, LinuxPieLaw)> = (0..DRAWS).map(|_| tried()).collect();
    let hits = draws.iter().filter(|(hit, _)| *hit).count();
    let rare = std::iter::repeat_with(tried).take(100 * DRAWS as usize);
    let found = draws.into_iter().chain(rare).find(|(hit, _)| *hit == is_hit);
    let (_, law) = found.unwrap_or_else(|| panic!("the law cannot decide so: {is_hit}"));
    (law, hits as f64 / f64::from(DRAWS))
}

/// Follows a record with the law, whose delays and probabilities are its own. After each arrival the law has the state in which it has
/// decided as the record did. Panics where it cannot.
fn follow(queue: &str, packets: &str, text: &str) -> Hits {
    let p = parameters(queue);
    let (rows, updates) = (rows(packets, 0), updates(text));
    let (mut law, mut rng) = (LinuxPieLaw::new(&p), Rng::new(1, Stream::Queue(0)));
    let (mut waiting, mut hits) = (0, Hits::default());
    for (at, event) in events(&rows, &updates) {
        match event {
            Event::Update(number) => {
                let update = &updates[number];
                assert_eq!(waiting, update.backlog_bytes, "{queue}: {at}");
                let [ours, theirs] = [law.probability(), update.before].map(|it| it as f64 / ONE);
                assert!((ours - theirs).abs() <= 1e-5 + 0.01 * theirs, "{queue}: {at}: {ours}, not {theirs}");
                law.advance(&p, time_of_update(number as u64 + 1), waiting);
            }
            Event::Departure(number) => {
                let Row { packet, end, .. } = rows[number];
                waiting -= u64::from(packet.len);
                law.on_departure(end, &packet, waiting == 0);
            }
            Event::Arrival(number) => {
                let Row { packet, fate, .. } = rows[number];
                let is_hit = fate != Fate::Left { marked: false };
                let (next, probability) = decided(law, &p, waiting, is_hit, &mut rng);
                law = next;
                hits.recorded += f64::from(u8::from(is_hit));
                hits.expected += probability;
                hits.variance += probability * (1.0 - probability);
                if is_hit {
                    let marked = law.is_marking(&p) && packet.ecn != Ecn::NOT_ECT;
                    assert_eq!(fate == Fate::Left { marked: true }, marked, "{queue}: {at}");
                }
                if fate == Fate::Dropped {
                    law.on_drop();
                } else {
                    waiting += u64::from(packet.len);
                }
            }
        }
    }
    hits
}

/// Probability of one in the records.
const ONE: f64 = (1u64 << 56) as f64;

#[test]
fn linux_pie_with_some_random_numbers_drops_and_marks_what_the_records_say() {
    for (queue, packets, text) in RECORDS {
        let Hits { recorded, expected, variance } = follow(queue, packets, text);
        let is_near = (recorded - expected).abs() < 3.0 * variance.sqrt();
        assert!(is_near, "{queue}: {recorded} drops and marks, {expected} expected");
    }
}

#[test]
#[should_panic(expected = "the law cannot decide so")]
fn a_drop_before_the_sum_of_the_probabilities_allows_one_is_told_from_ours() {
    let (queue, packets, text) = RECORDS[0];
    let [row, other] = ["309127644,5,1514,0,313257371,o", "309127644,5,1514,0,309127644,e"];
    assert!(packets.contains(row), "{row}");
    follow(queue, &packets.replacen(row, other, 1), text);
}
