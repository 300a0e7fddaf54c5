use super::*;

use crate::timing::TimingMode;
use catnip_base::{Rate, Time};
use catnip_net::DropReason;
use catnip_sim::watch::Refusal;

/// Returns a wire of 1 Mbit/s with a delay of 10 ms and a queue of 5 packets.
fn wire() -> WireSpec {
    let rate = Rate::from_bits_per_second(1_000_000).unwrap();
    WireSpec::new(rate, Span::from_millis(10), "drop-tail:5".parse().unwrap())
}

/// Returns the measurements of a direction in which 100 LOW packets of 1000 bytes left back to back, as specified.
fn direction() -> Direction {
    let mut direction = Direction::default();
    direction.delivered = 100;
    direction.entered[2] = 100;
    direction.crossed[2] = 100;
    for _ in 0..100 {
        direction.ideal_delay.record(Span::from_millis(18));
        direction.actual_delay.record(Span::from_millis(18));
        direction.lateness.record(Span::from_micros(40));
        direction.waited.record(Span::from_micros(900));
        direction.excess.record(Span::from_micros(940));
    }
    direction.busy.bits = 100 * 8000;
    direction.busy.actual_ns = 800_000_000;
    direction
}

/// Returns the measurements of [`direction`] after `change` has changed them.
fn with(change: impl FnOnce(&mut Direction)) -> Direction {
    let mut direction = direction();
    change(&mut direction);
    direction
}

fn outcome() -> Outcome {
    Outcome {
        changes: Vec::new(),
        code: 0,
        duration: Span::from_secs(2),
        cpu: CpuUse { own: Span::ZERO, idle_share: Some(0.5) },
        timing_mode: TimingMode { real_time: false, spin: Span::ZERO },
        wakeup_latency: Histogram::default(),
        missed: [0; 2],
        broken: [0; 2],
        held: [0; 2],
        buffers_in_use: 0,
        ended_at: Time::ZERO,
        early_end: None,
        congestion: None,
    }
}

/// Returns the failures in the certificate of a link whose direction up has these properties and measurements. The direction down behaves
/// as specified.
fn failures(wire_up: &WireSpec, up: &Direction, gate: GateCounts, outcome: &Outcome) -> Vec<String> {
    let tolerance = Tolerance { busy_s: 0.5, ..Tolerance::default() };
    let (wire_down, down) = (wire(), direction());
    let directions = [(up, gate), (&down, GateCounts::default())];
    let certificate = Certificate::new([wire_up, &wire_down], 1, [None; 2], outcome, directions, tolerance);
    assert_eq!(certificate.verdict == Verdict::Green, certificate.failures.is_empty());
    certificate.failures
}

fn of(up: &Direction) -> Vec<String> {
    failures(&wire(), up, GateCounts::default(), &outcome())
}

#[test]
fn a_link_that_does_what_was_asked_is_green() {
    assert_eq!(of(&direction()), Vec::<String>::new());
    assert_eq!(Tolerance::default().lateness_p99_ms, 5.0);
    assert_eq!((Tolerance::default().rate, Tolerance::default().loss_sigmas), (0.01, 4.0));
}

#[test]
fn a_certificate_warns_of_busy_cores_and_stays_green() {
    let busy = |idle_share| Outcome { cpu: CpuUse { own: Span::ZERO, idle_share }, ..outcome() };
    let written = |idle_share| {
        let (wires, direction) = (wire(), direction());
        let directions = [(&direction, GateCounts::default()); 2];
        Certificate::new([&wires; 2], 1, [None; 2], &busy(idle_share), directions, Tolerance::default())
    };
    let of = written(Some(0.031));
    assert_eq!(of.verdict, Verdict::Green);
    let warning = "warning: the cores were idle for 3 % of the time: programs waited for them";
    assert!(of.to_string().contains(warning));
    assert!([Some(0.2), None].into_iter().all(|idle| !written(idle).to_string().contains("warning")));
    let json = serde_json::to_value(&of).unwrap();
    assert_eq!((json["idle_share"].as_f64(), json["busy"].as_bool()), (Some(0.031), Some(true)));
}

#[test]
fn packets_that_are_not_accounted_for_make_it_red() {
    assert_eq!(of(&with(|up| up.delivered = 99)), ["up: 100 packets in, 99 accounted for"]);
    // Unwritable, dropped and held packets are accounted for. Unwritable packets are a failure of their own.
    let unwritable = with(|up| (up.delivered, up.unwritable) = (99, 1));
    assert_eq!(of(&unwritable), ["up: the device at the other end did not accept 1 packets"]);
    let dropped = with(|up| {
        up.delivered = 99;
        up.dropped[DropReason::Overflow as usize] = 1;
    });
    assert!(of(&dropped).is_empty());
    let held = Outcome { held: [2, 0], buffers_in_use: 2, ..outcome() };
    let up = with(|up| up.delivered = 98);
    assert!(failures(&wire(), &up, GateCounts::default(), &held).is_empty());
    let lost = Outcome { buffers_in_use: 3, ..held };
    let messages = failures(&wire(), &up, GateCounts::default(), &lost);
    assert_eq!(messages, ["2 packets on the link, 3 in memory"]);
}

#[test]
fn lateness_beyond_the_tolerance_makes_it_red() {
    let mut late = direction();
    late.excess = Histogram::default();
    (0..98).for_each(|_| late.excess.record(Span::from_micros(940)));
    late.excess.record(Span::from_millis(6));
    late.excess.record(Span::from_millis(6));
    assert_eq!(of(&late).len(), 1, "the 99th of 100 is 6 ms late");
    let mut rare = direction();
    rare.excess.record(Span::from_millis(6));
    assert!(of(&rare).is_empty(), "one of 101 is not the 99th percentile");
}

#[test]
fn what_nobody_reads_is_late_too() {
    let mut unread = direction();
    for _ in 0..2 {
        unread.waited.record(Span::from_millis(8));
        unread.excess.record(Span::from_millis(8));
    }
    let message = "up: excess delay of 8.00 ms (p99 > 5 ms: 8.00 ms waiting, 0.04 ms lateness)";
    assert_eq!(of(&unread), [message]);
}

#[test]
fn a_link_that_stood_still_is_red_however_few_packets_noticed_it() {
    let mut still = direction();
    (0..100_000).for_each(|_| still.excess.record(Span::from_micros(940)));
    still.excess.record(Span::from_millis(400));
    assert!(of(&still).is_empty(), "{:?}", of(&still));
    still.excess.record(Span::from_secs(2));
    assert_eq!(of(&still).len(), 1);
    assert!(of(&still)[0].contains("excess delay of 2000.00 ms (max > 500 ms"), "{:?}", of(&still));
}

#[test]
fn a_link_to_which_nothing_came_is_grey() {
    let (wire, nothing) = (wire(), Direction::default());
    let directions = [(&nothing, GateCounts::default()); 2];
    let certificate = |outcome: &Outcome| {
        Certificate::new([&wire, &wire], 1, [None; 2], outcome, directions, Tolerance::default())
    };
    let grey = certificate(&outcome());
    assert_eq!((grey.verdict, grey.failures.len()), (Verdict::Grey, 0));
    assert!(grey.to_string().contains("no packets"), "{grey}");
    assert_eq!(certificate(&Outcome { missed: [1, 0], ..outcome() }).verdict, Verdict::Red, "it missed some");
}

#[test]
fn another_rate_makes_it_red_where_the_link_was_busy_for_long_enough() {
    let mut fast = direction();
    fast.busy.actual_ns = 780_000_000;
    assert_eq!(of(&fast), ["up: rate 1.0256 Mbit/s instead of 1.0000 Mbit/s"]);
    fast.busy.actual_ns = 820_000_000;
    assert_eq!(of(&fast).len(), 1, "too slow");
    fast.lateness.record(Span::from_millis(31));
    fast.busy.actual_ns = 820_000_000;
    assert!(of(&fast).is_empty(), "one packet was late, those behind it were not");
    fast.busy.actual_ns = 840_000_000;
    assert_eq!(of(&fast).len(), 1, "more than one stall can do");
    fast.lateness = direction().lateness;
    fast.busy.actual_ns = 795_000_000;
    assert!(of(&fast).is_empty(), "within a hundredth");
    fast.busy.actual_ns = 400_000_000;
    assert!(of(&fast).is_empty(), "too short to say");
}

#[test]
fn copies_count_as_packets_in_and_links_out_of_step_are_not_held_to_a_rate_or_a_buffer() {
    let mut up = direction();
    up.duplicated = 1;
    assert_eq!(of(&up).len(), 1, "it has not come out");
    up.delivered += 1;
    assert!(of(&up).is_empty());
    let mut slow = direction();
    slow.busy.actual_ns = 900_000_000;
    (1..=7).for_each(|ms| slow.queue.change(Time::from_nanos(ms), 1));
    slow.queue.on_departure(Time::from_nanos(7));
    assert_eq!(of(&slow).len(), 2);
    let layer = WireSpec { link_layer: Some("arq:loss=0.1,retry=1ms".parse().unwrap()), ..wire() };
    let outage = WireSpec { outage: Some("every=2s,for=1s".parse().unwrap()), ..wire() };
    let reorder = WireSpec { after: vec!["reorder:0.1".parse().unwrap()], ..wire() };
    for wire in [layer, outage, reorder] {
        assert!(failures(&wire, &slow, GateCounts::default(), &outcome()).is_empty(), "{wire:?}");
    }
}

#[test]
fn a_delay_below_what_was_asked_makes_it_red() {
    let mut early = direction();
    early.ideal_delay.record(Span::from_millis(9));
    assert_eq!(of(&early), ["up: delay 9 ms is less than requested"]);
    let jitter = WireSpec { jitter: Some("uniform:3ms".parse().unwrap()), ..wire() };
    assert!(failures(&jitter, &early, GateCounts::default(), &outcome()).is_empty());
    // The rate is not judged either, because jitter can bunch packets.
    early.busy.actual_ns = 1_700_000_000;
    assert!(failures(&jitter, &early, GateCounts::default(), &outcome()).is_empty());
    assert_eq!(of(&early).len(), 2);
}

#[test]
fn more_packets_than_a_queue_can_hold_make_it_red() {
    let mut long = direction();
    (1..=7).for_each(|ms| long.queue.change(Time::from_nanos(ms), 1));
    long.queue.on_departure(Time::from_nanos(7));
    assert_eq!(long.largest_queue(), 6);
    assert_eq!(of(&long), ["up: 6 packets in a queue of 5"]);
}

#[test]
fn more_or_fewer_losses_than_chance_explains_make_it_red() {
    let wire = WireSpec { before: vec!["bernoulli:0.1".parse().unwrap()], ..wire() };
    // Of 100 packets, 10 are expected to be lost, with a standard deviation of 3. Up to 22 losses are within four standard deviations plus
    // half a packet.
    let of = |lost: u64| {
        let up = with(|up| {
            up.delivered = 100 - lost;
            (up.lost[2], up.dropped[DropReason::Loss as usize]) = (lost, lost);
        });
        failures(&wire, &up, GateCounts::default(), &outcome())
    };
    assert!(of(10).is_empty() && of(22).is_empty() && of(0).is_empty());
    assert_eq!(of(23), ["up: 23 of 100 packets lost, 10.0 expected"]);
    let mut clean = direction();
    (clean.entered[2], clean.delivered) = (1000, 1000);
    let messages = failures(&wire, &clean, GateCounts::default(), &outcome());
    assert_eq!(messages, ["up: 0 of 1000 packets lost, 100.0 expected"]);
}

#[test]
fn packets_that_the_kernel_dropped_or_nobody_could_take_make_it_red() {
    let messages =
        failures(&wire(), &direction(), GateCounts::default(), &Outcome { missed: [3, 0], ..outcome() });
    assert_eq!(messages, ["up: the kernel dropped 3 packets that the emulator was too slow to read"]);
    for (refusal, message) in
        [(Refusal::EcnInUse, "2 packets use ECN"), (Refusal::NoBuffer, "no memory for 2")]
    {
        let mut gate = GateCounts::default();
        gate.refused[refusal as usize] = 2;
        let failures = failures(&wire(), &direction(), gate, &outcome());
        assert!(failures.len() == 1 && failures[0].contains(message), "{failures:?}");
    }
}

#[test]
fn a_certificate_fits_into_a_narrow_terminal_and_no_number_is_cut() {
    let mut gate = GateCounts::default();
    gate.refused[Refusal::NoBuffer as usize] = 2;
    let (wire, up) = (wire(), with(|up| up.unwritable = 1));
    let directions = [(&up, gate), (&up, GateCounts::default())];
    let tolerance = Tolerance::default();
    let certificate = Certificate::new([&wire, &wire], 1, [None; 2], &outcome(), directions, tolerance);
    let wide = certificate.to_string();
    assert_eq!(format!("{certificate:200}"), wide);
    assert!(wide.lines().any(|line| line.chars().count() > 100), "{wide}");
    let words = |text: &str| {
        let mut words: Vec<_> = text.split_whitespace().map(String::from).collect();
        words.sort();
        words
    };
    for width in [40, 60, 80, 100] {
        let narrow = format!("{certificate:width$}");
        assert!(narrow.lines().all(|line| line.chars().count() <= width), "{width}:\n{narrow}");
        let mut numbers = words(&wide);
        let mut narrow_words = words(&narrow);
        for words in [&mut numbers, &mut narrow_words] {
            words.retain(|word| word.contains(|c: char| c.is_ascii_digit()));
        }
        assert_eq!(narrow_words, numbers, "{width}:\n{narrow}");
    }
}

#[test]
fn wilsons_interval_of_known_counts() {
    let [low, high] = wilson(10, 100);
    assert!((low - 0.0552).abs() < 1e-4 && (high - 0.1744).abs() < 1e-4, "{low} {high}");
    assert_eq!(wilson(0, 0), [0.0, 1.0]);
    assert!(wilson(0, 100)[0].abs() < 1e-12);
}
