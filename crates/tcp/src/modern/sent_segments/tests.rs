use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn ms(n: u64) -> Time {
    Time::ZERO + Span::from_millis(n)
}

/// Returns a ledger of segments of 1000 bytes that were sent at `times`, in milliseconds.
fn sent(times: &[u64]) -> SentSegments {
    let mut sent_segments = SentSegments::default();
    for (end, &at) in (1000..).step_by(1000).zip(times) {
        sent_segments.push(ms(at), end);
    }
    sent_segments
}

/// Applies an ACK at `at` milliseconds. `sacked` has the ranges that it SACKs for the first time.
fn ack(sent_segments: &mut SentSegments, at: u64, snd_una: u64, sacked: &[(u64, u64)]) -> Sample {
    let mut sample = sent_segments.begin_sample(ms(at));
    for &(start, end) in sacked {
        sent_segments.on_sack(start, end, &mut sample);
    }
    sent_segments.on_cumulative_ack(snd_una, &mut sample);
    sent_segments.finish_sample(sample)
}

#[test]
fn each_ack_measures_the_round_trip_of_the_newest_segment_that_it_reports() {
    let mut sent_segments = sent(&[0, 10, 20, 30]);
    assert_eq!(ack(&mut sent_segments, 105, 1000, &[]).rtt, Some(Span::from_millis(105)));
    // The third segment arrives, but the second one is missing.
    let sample = ack(&mut sent_segments, 122, 1000, &[(2000, 3000)]);
    assert_eq!((sample.rtt, sample.delivered), (Some(Span::from_millis(102)), 1000));
    // The second segment arrives. The third segment was reported before.
    let sample = ack(&mut sent_segments, 150, 3000, &[]);
    assert_eq!((sample.rtt, sample.delivered), (Some(Span::from_millis(140)), 1000));
    assert_eq!(ack(&mut sent_segments, 151, 3000, &[]), Sample::default());
}

#[test]
fn a_segment_that_was_sent_twice_has_no_round_trip() {
    let mut sent_segments = sent(&[0, 10]);
    sent_segments.retransmit(ms(50), 0, 1000, true);
    // RFC 6298, section 3: "RTT samples MUST NOT be made using segments that were retransmitted".
    let sample = ack(&mut sent_segments, 120, 1000, &[]);
    assert_eq!((sample.rtt, sample.delivered), (None, 1000));
    assert_eq!(ack(&mut sent_segments, 130, 2000, &[]).rtt, Some(Span::from_millis(120)));
}

#[test]
fn what_was_retransmitted_in_an_episode_and_has_arrived_counts_once() {
    let mut sent_segments = sent(&[0; 6]);
    sent_segments.retransmit(ms(10), 5000, 6000, true);
    sent_segments.begin_episode();
    sent_segments.retransmit(ms(50), 0, 1000, true);
    sent_segments.retransmit(ms(60), 0, 1000, true);
    sent_segments.retransmit(ms(60), 2000, 3000, true);
    assert_eq!(sent_segments.retransmitted(), 0);
    ack(&mut sent_segments, 100, 0, &[(2000, 3000)]);
    assert_eq!(sent_segments.retransmitted(), 1000);
    ack(&mut sent_segments, 110, 6000, &[]);
    // The last segment was retransmitted before the episode began.
    assert_eq!(sent_segments.retransmitted(), 2000);
    sent_segments.begin_episode();
    assert_eq!(sent_segments.retransmitted(), 0);
}

#[test]
fn small_segments_that_leave_again_as_one_are_one() {
    let mut sent_segments = SentSegments::default();
    for end in [300, 600, 900, 1900] {
        sent_segments.push(ms(0), end);
    }
    sent_segments.begin_episode();
    // The first retransmission has the first 1000 bytes, the last 100 of which belonged to the fourth segment. The second retransmission
    // has the rest and new data.
    sent_segments.retransmit(ms(50), 0, 1000, true);
    sent_segments.retransmit(ms(50), 1000, 2000, true);
    assert_eq!(ack(&mut sent_segments, 100, 1000, &[]).delivered, 1000);
    assert_eq!(ack(&mut sent_segments, 100, 2000, &[]).delivered, 1000);
    assert_eq!(sent_segments.retransmitted(), 2000);
}

proptest! {
    /// Checks segments of any size that are retransmitted in different portions, SACKed and acknowledged in any order.
    #[test]
    fn every_byte_is_delivered_once_and_none_before_it_is_reported(
        steps in prop::collection::vec((0u8..4, 0u64..40, 1u64..12), 1..60)
    ) {
        let (mut sent_segments, mut snd_una, mut max) = (SentSegments::default(), 0, 0);
        let mut known: BTreeMap<u64, ()> = BTreeMap::new();
        let mut delivered = 0;
        for (now, (step, at, len)) in (0..).zip(steps) {
            let start = (snd_una + at).min(max);
            let end = (start + len).min(max);
            match step {
                0 => {
                    max += len;
                    sent_segments.push(ms(now), max);
                }
                1 if start < max => {
                    max = max.max(start + len);
                    sent_segments.retransmit(ms(now), start, start + len, true);
                }
                2 if start < end => {
                    let mut sample = sent_segments.begin_sample(ms(now));
                    let new: Vec<u64> = (start..end).filter(|byte| !known.contains_key(byte)).collect();
                    for range in new.chunk_by(|a, b| a + 1 == *b) {
                        sent_segments.on_sack(range[0], range[range.len() - 1] + 1, &mut sample);
                    }
                    delivered += sent_segments.finish_sample(sample).delivered;
                    known.extend(new.into_iter().map(|byte| (byte, ())));
                    prop_assert!(delivered <= snd_una + known.range(snd_una..).count() as u64);
                }
                _ => {
                    snd_una = end;
                    delivered += ack(&mut sent_segments, now, snd_una, &[]).delivered;
                    prop_assert!(delivered >= snd_una, "{delivered} of {snd_una}");
                    prop_assert!(delivered <= snd_una + known.range(snd_una..).count() as u64);
                }
            }
        }
        delivered += ack(&mut sent_segments, 1000, max, &[]).delivered;
        prop_assert_eq!(delivered, max);
        prop_assert!(sent_segments.retransmitted() <= max);
    }
}
