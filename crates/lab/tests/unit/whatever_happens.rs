//! Robustness of modern senders: despite arbitrary losses, duplicates, reordering and marks during a transfer, a sender delivers all data,
//! and finishes soon after the last loss.

use catnip_base::{Span, Time};
use catnip_lab::Scenario;
use catnip_net::Packet;
use catnip_sim::record::Event;
use catnip_sim::watch::{Origin, Step, Watch};
use proptest::prelude::*;

const ROUND_TRIP: Span = Span::from_millis(40);
const SEGMENTS: u32 = 120;

/// Watch that records the time of the last loss and the number of segments sent.
#[derive(Default)]
struct Ends {
    lost: Time,
    segments: u32,
}

impl Watch for Ends {
    const PACKETS: bool = true;
    fn record(&mut self, _now: Time, event: &Event) {
        self.segments += u32::from(matches!(event, Event::Sent(_)));
    }
    fn packet(&mut self, now: Time, _packet: &Packet, _origin: Origin, step: Step<'_>) {
        if matches!(step, Step::Dropped(..)) {
            self.lost = now;
        }
    }
}

fn numbers(name: &str, numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    if texts.is_empty() { "none".into() } else { format!("{name}:{}", texts.join(",")) }
}

/// Runs a transfer in which the packets with the numbers `lost` are lost: first the packets of the server, then the packets of the client.
/// Returns the end time of the run, the numbers of completed transfers, open connections and packets in the network, and the observed
/// events.
fn run(lost: [&[u32]; 2], texts: [&str; 4], seed: u64) -> (Time, (u64, u64, u64), Ends) {
    let ([data, acks], [control, wire, other, queue]) = (lost, texts);
    let text = format!(
        r#"
id = "X"
title = "Whatever happens"
[node]
a = {{ kind = "host" }}
b = {{ kind = "host" }}
[link.l]
from = "a"
to = "b"
rate = "20Mbit"
delay = "20ms"
queue = "{queue}"
wire_loss = "{wire}"
there = {{ loss = "{}" }}
back = {{ loss = "{}" }}
[tcp]
profile = "linux-6"
control = "{control}"
{other}
[traffic.t]
kind = "bulk"
from = "a"
to = "b"
packets = {SEGMENTS}
"#,
        numbers("packets", data),
        numbers("packets", acks),
    );
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/x.toml");
    let scenario = Scenario::parse(&file, &text).unwrap_or_else(|error| panic!("{error}"));
    let sim = scenario.plan("default").unwrap().run(seed, Ends::default());
    let tally = (sim.tally().completed, sim.tally().open as u64, sim.packets_out() as u64);
    (sim.now(), tally, sim.into_watch())
}

/// Returns true if the run ended within the retransmission timeout and 64 round-trip times after the last loss. The timeout doubles with
/// each expiry. The timer that runs at the last loss was therefore set to less than twice the time since the start, or to the initial
/// second.
fn is_soon_over(end: Time, ends: &Ends) -> bool {
    let timer = Span::from_secs(1) + ends.lost.since(Time::ZERO) * 2;
    end.since(ends.lost) < timer + ROUND_TRIP * 64
}

const CONTROLS: [&str; 12] = [
    "reno",
    "reno:slow-start=hystart++",
    "cubic",
    "linux-cubic",
    "bbr",
    "bbr3",
    "eca",
    "eca:one-more-round",
    "cubic:slow-start=eca",
    "linux-cubic:slow-start=eca-final-window",
    "dctcp\"\necn = \"exact",
    "prague:after=3\"\necn = \"l4s",
];
const WIRES: [&str; 6] = [
    "none",
    "duplicate:20%",
    "reorder:10%,by=15ms",
    "reorder:10%,by=3",
    "late:3,9,10,30,31,32,60,by=90ms",
    "marks",
];
const OTHERS: [&str; 7] = [
    "",
    "pacing = \"rate:1\"",
    "pacing = \"linux\"",
    "pacing = \"rbplw\"",
    "validation = \"newcwv\"",
    "validation = \"cwv\"",
    "window_segments = 3",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_delivered_and_64_round_trips_after_the_last_loss_all_is_over(
        data in prop::collection::btree_set(1u32..150, 0..14),
        acks in prop::collection::btree_set(1u32..150, 0..14),
        marks in prop::collection::btree_set(1u32..150, 0..9),
        control in prop::sample::select(&CONTROLS[..]),
        wire in prop::sample::select(&WIRES[..]),
        other in prop::sample::select(&OTHERS[..]),
        queue in prop::sample::select(&["drop-tail:30", "fq-codel:100", "cake:100", "pie:100"][..]),
        seed in 1u64..1000,
    ) {
        let [data, acks, marks] = [data, acks, marks].map(|set| set.into_iter().collect::<Vec<u32>>());
        let wire = if wire == "marks" { numbers("marks", &marks) } else { wire.into() };
        let (end, tally, ends) = run([&data, &acks], [control, &wire, other, queue], seed);
        prop_assert_eq!(tally, (1, 0, 0));
        prop_assert!(is_soon_over(end, &ends), "{} s after {} s", end.as_secs(), ends.lost.as_secs());
        prop_assert!(ends.segments < SEGMENTS * 4, "{} segments for {SEGMENTS}", ends.segments);
    }
}

/// Checks that the retransmission timer repairs a lost segment after an undo has removed the segment's loss mark. SACKs of later segments
/// must not postpone the timer.
#[test]
fn a_segment_whose_mark_was_taken_away_is_repaired_in_time() {
    let texts = ["eca", "reorder:10%,by=3", "pacing = \"linux\"", "drop-tail:30"];
    let (end, tally, ends) = run([&[41], &[2, 3]], texts, 483);
    assert_eq!(tally, (1, 0, 0));
    assert!(is_soon_over(end, &ends), "{} s", end.as_secs());
}
