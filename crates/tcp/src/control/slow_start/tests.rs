use super::*;
use catnip_base::{Span, Time};
use proptest::prelude::*;

const SEGMENT: f64 = 1000.0;

/// Returns an ACK at `now_us` microseconds of all data before `snd_una`. All data before `snd_max` is sent.
fn ack(now_us: u64, snd_una: u64, snd_max: u64, segments: u64, rtt_us: Option<u64>) -> Ack {
    Ack {
        now: Time::ZERO + Span::from_micros(now_us),
        bytes: segments * SEGMENT as u64,
        delivered: segments * SEGMENT as u64,
        marked: 0,
        in_flight: snd_max - snd_una,
        snd_una,
        snd_max,
        unsent: 1,
        rtt: rtt_us.map(Span::from_micros),
        srtt: rtt_us.map(Span::from_micros),
        cwnd_limited: true,
    }
}

/// HyStart++ as printed in RFC 9406, section 4.2, with the names of the RFC and with milliseconds as floating-point numbers.
struct Printed {
    window_end: u64,
    last_round_min_rtt: f64,
    current_round_min_rtt: f64,
    rtt_sample_count: u32,
    css_baseline_min_rtt: f64,
    in_css: bool,
    css_rounds: u32,
}

impl Printed {
    fn new() -> Self {
        Self {
            window_end: 0,
            last_round_min_rtt: f64::INFINITY,
            current_round_min_rtt: f64::INFINITY,
            rtt_sample_count: 0,
            css_baseline_min_rtt: f64::INFINITY,
            in_css: false,
            css_rounds: 0,
        }
    }

    fn on_ack(&mut self, snd_una: u64, snd_nxt: u64, n: f64, curr_rtt: Option<f64>) -> Growth {
        let mut ends = false;
        if snd_una > self.window_end {
            self.window_end = snd_nxt;
            self.last_round_min_rtt = self.current_round_min_rtt;
            self.current_round_min_rtt = f64::INFINITY;
            self.rtt_sample_count = 0;
            if self.in_css {
                // "If CSS_ROUNDS rounds are complete, enter congestion avoidance".
                ends = self.css_rounds == 5;
                self.css_rounds += 1;
            }
        }
        if let Some(rtt) = curr_rtt {
            self.current_round_min_rtt = self.current_round_min_rtt.min(rtt);
            self.rtt_sample_count += 1;
        }
        let segments = if self.in_css { n.min(8.0) / 4.0 } else { n.min(8.0) };
        if self.rtt_sample_count >= 8 && self.current_round_min_rtt.is_finite() {
            if self.in_css {
                if self.current_round_min_rtt < self.css_baseline_min_rtt {
                    self.css_baseline_min_rtt = f64::INFINITY;
                    self.in_css = false;
                }
            } else if self.last_round_min_rtt.is_finite() {
                let rtt_thresh = (self.last_round_min_rtt / 8.0).clamp(4.0, 16.0);
                if self.current_round_min_rtt >= self.last_round_min_rtt + rtt_thresh {
                    self.css_baseline_min_rtt = self.current_round_min_rtt;
                    self.in_css = true;
                    // "that partial round counts towards the limit".
                    self.css_rounds = 1;
                }
            }
        }
        Growth { segments, ends }
    }
}

proptest! {
    #[test]
    fn hystart_plus_does_what_the_rfc_prints(
        // Rounds: number of ACKs, RTT in units of 8 ms, RTT variation in milliseconds, segments per ACK.
        rounds in prop::collection::vec((1u64..30, 1u64..400, 0u64..60, 1u64..12), 1..30), seed in 0u64..1000
    ) {
        let (mut ours, mut printed) = (SlowStart::from(SlowStartKind::HyStartPlus), Printed::new());
        let (mut snd_una, mut random) = (0, seed);
        for (acks, rtt_ms, spread_ms, segments) in rounds {
            let snd_max = snd_una + acks * segments * 1000;
            for _ in 0..acks {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                snd_una += segments * 1000;
                let rtt_ms = (random >> 33).is_multiple_of(8).then_some(()).map_or(
                    Some(8 * rtt_ms + (random >> 40) % (spread_ms + 1)), |()| None);
                let ours = ours.on_ack(&ack(0, snd_una, snd_max, segments, rtt_ms.map(|ms| ms * 1000)), 10.0, SEGMENT);
                prop_assert_eq!(ours, printed.on_ack(snd_una, snd_max, segments as f64, rtt_ms.map(|ms| ms as f64)));
                if ours.ends {
                    return Ok(());
                }
            }
        }
    }
}

/// Runs slow start from a window of ten segments, with one round for each RTT, in milliseconds. In each round, the whole window is
/// acknowledged segment by segment. Returns the window at the end of each round, and the round in which slow start ended.
fn rounds(kind: SlowStartKind, round_trips_ms: &[u64]) -> (Vec<u64>, Option<usize>) {
    let (mut slow_start, mut cwnd, mut snd_una, mut now_us) = (SlowStart::from(kind), 10.0, 0, 0);
    let mut windows = Vec::new();
    for (round, rtt_ms) in round_trips_ms.iter().enumerate() {
        now_us += rtt_ms * 1000;
        let window = cwnd as u64;
        // SND.NXT when the first ACK of the round arrives: the end of the window in flight.
        let snd_max = snd_una + window * 1000;
        for nth in 0..window {
            snd_una += 1000;
            // The link sends a segment every 3 ms, so the ACKs do not form a train.
            let growth = slow_start.on_ack(
                &ack(now_us + 3000 * nth, snd_una, snd_max, 1, Some(rtt_ms * 1000)),
                cwnd,
                SEGMENT,
            );
            cwnd += growth.segments;
            if growth.ends {
                return (windows, Some(round));
            }
        }
        windows.push(cwnd as u64);
    }
    (windows, None)
}

#[test]
fn hystart_plus_grows_by_a_quarter_per_round_for_five_rounds_once_round_trips_grow() {
    // 113 ms exceed 100 ms by more than an eighth. The round that detects the increase is the first of the five rounds.
    let (windows, ended) = rounds(SlowStartKind::HyStartPlus, &[100, 100, 113, 113, 113, 113, 113, 113]);
    assert_eq!(windows[..2], [20, 40]);
    assert_eq!(ended, Some(7), "{windows:?}");
    for pair in windows[2..].windows(2) {
        let growth = pair[1] as f64 / pair[0] as f64;
        assert!((growth - 1.25).abs() < 0.03, "{windows:?}");
    }
}

#[test]
fn hystart_plus_doubles_on_if_round_trips_get_shorter_again() {
    let (windows, ended) = rounds(SlowStartKind::HyStartPlus, &[100, 100, 113, 112, 112]);
    assert_eq!(ended, None);
    assert!(windows[4] as f64 / windows[3] as f64 > 1.9, "{windows:?}");
}

#[test]
fn round_trips_that_grow_by_less_than_an_eighth_or_4_ms_change_nothing() {
    for (kind, round_trips) in [
        (SlowStartKind::HyStartPlus, [100, 112, 125, 140]),
        (SlowStartKind::HyStartPlus, [8, 11, 14, 17]),
        (SlowStartKind::HyStart, [100, 112, 112, 112]),
        (SlowStartKind::HyStart, [8, 12, 12, 12]),
    ] {
        assert_eq!(rounds(kind, &round_trips), (vec![20, 40, 80, 160], None), "{kind} {round_trips:?}");
    }
}

#[test]
fn hystart_ends_slow_start_in_the_round_that_is_longer_than_the_shortest_by_an_eighth() {
    let (windows, ended) = rounds(SlowStartKind::HyStart, &[100, 100, 106, 113]);
    assert_eq!((windows, ended), (vec![20, 40, 80], Some(3)));
}

#[test]
fn hystart_does_not_look_below_a_window_of_16_segments() {
    let mut slow_start = SlowStart::from(SlowStartKind::HyStart);
    let mut ends = |snd_una, rtt_ms: u64, cwnd| {
        slow_start.on_ack(&ack(0, snd_una, 1 << 40, 1, Some(rtt_ms * 1000)), cwnd, SEGMENT).ends
    };
    assert!(!ends(1000, 100, 15.0));
    assert!((2..30).all(|nth| !ends(1000 * nth, 200, 15.9)));
    // Slow start ends after eight samples, with the next one.
    assert!((30..38).all(|nth| !ends(1000 * nth, 200, 16.0)));
    assert!(ends(38_000, 200, 16.0));
    assert!(!ends(39_000, 200, 16.0), "once");
}

#[test]
fn a_train_of_acks_as_long_as_half_the_shortest_round_trip_ends_slow_start() {
    let mut slow_start = SlowStart::from(SlowStartKind::HyStart);
    let mut ends =
        |now_us| slow_start.on_ack(&ack(now_us, 1000, 1 << 40, 1, Some(100_000)), 100.0, SEGMENT).ends;
    // ACKs arrive every 2 ms. After 26 ACKs, the train is longer than 50 ms plus half of the hystart_ack_delay of 1 ms.
    let after = (0..).find(|nth| ends(2000 * nth)).unwrap();
    assert_eq!(after, 26);
    // A gap of more than 2 ms ends the train, not the round.
    let mut slow_start = SlowStart::from(SlowStartKind::HyStart);
    let mut ends =
        |now_us| slow_start.on_ack(&ack(now_us, 1000, 1 << 40, 1, Some(100_000)), 100.0, SEGMENT).ends;
    assert!((0..1000).all(|nth| !ends(2001 * nth)));
}

#[test]
fn hystart_lets_the_window_grow_by_all_that_is_acknowledged_and_hystart_plus_by_8_segments_at_most() {
    let grown = |kind: SlowStartKind| {
        SlowStart::from(kind).on_ack(&ack(0, 1000, 2000, 20, None), 10.0, SEGMENT).segments
    };
    assert_eq!(
        [SlowStartKind::Standard, SlowStartKind::HyStartPlus, SlowStartKind::HyStart].map(grown),
        [1.0, 8.0, 20.0]
    );
}

#[test]
fn hystart_plus_is_for_the_first_slow_start_only_and_hystart_begins_anew_after_a_timeout() {
    let kind = |slow_start: &SlowStart| std::mem::discriminant(&slow_start.rule);
    let mut plus = SlowStart::from(SlowStartKind::HyStartPlus);
    plus.on_congestion(false);
    assert_eq!(kind(&plus), kind(&SlowStartKind::Standard.into()));
    let mut linux = SlowStart::from(SlowStartKind::HyStart);
    let ends = |slow_start: &mut SlowStart, snd_una, rtt_ms: u64| {
        // The ACKs of 1000 and 40 000 each end a round.
        let snd_max = if [1000, 40_000].contains(&snd_una) { snd_una } else { 1 << 40 };
        slow_start.on_ack(&ack(0, snd_una, snd_max, 1, Some(rtt_ms * 1000)), 50.0, SEGMENT).ends
    };
    ends(&mut linux, 1000, 100);
    assert!((2..12).any(|nth| ends(&mut linux, 1000 * nth, 200)));
    linux.on_congestion(false);
    assert!((12..40).all(|nth| !ends(&mut linux, 1000 * nth, 400)));
    linux.on_congestion(true);
    // The minimum RTT is reset, too.
    assert!(!ends(&mut linux, 40_000, 300));
    assert!((41..60).any(|nth| ends(&mut linux, 1000 * nth, 400)));
}
