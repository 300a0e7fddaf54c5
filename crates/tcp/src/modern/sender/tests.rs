use crate::TcpConfig;
use crate::control::validated::{Filter, ValidationSpec};
use crate::pacing::PacingKind;
use crate::recovery::RecoveryKind::SackRfc6675;
use crate::testing::{SEGMENT, Scene, rfc};
use proptest::prelude::*;

/// Returns parameters with a pacing rate of one window per round trip. An idle period does not reduce cwnd.
fn paced(initial_window: u32) -> TcpConfig {
    let validation = ValidationSpec::NewCwv(Filter::Max);
    TcpConfig { pacing: PacingKind::Rate(1.0, 1), validation, ..rfc(SackRfc6675, initial_window) }
}

/// Returns a sender with a window of eight segments, an SRTT of 200 ms and no data in flight at 1000 ms.
fn with_a_window_of_eight() -> Scene {
    let mut tcp = Scene::new(paced(8), 3);
    // Without an RTT sample, no segment is paced. Less than half of the window was used, so the window does not grow.
    tcp.sends(&[1, 2, 3]).at(200).ack(3).cwnd(8.0).at(1000);
    tcp
}

#[test]
fn a_burst_after_a_silence_is_spread_over_a_round_trip() {
    let mut tcp = with_a_window_of_eight();
    // Eight segments are sent in 200 ms, 25 ms apart.
    tcp.writes(8 * SEGMENT).sends(&[4]).timer(1025);
    for n in 1..8 {
        tcp.at(1000 + 25 * n).wakes().sends(&[4 + n]);
    }
}

#[test]
fn retransmissions_take_their_turn_too() {
    let mut tcp = with_a_window_of_eight();
    tcp.writes(30 * SEGMENT).sends(&[4]);
    (1..8).for_each(|n| _ = tcp.at(1000 + 25 * n).wakes().sends(&[4 + n]));
    // 4 and 6 are lost. The release time after the eighth segment is 1200 ms, and the fast retransmission waits until then.
    tcp.at(1190).sack(3, &[5..=5]).sack(3, &[7..=8, 5..=5]).sends(&[]);
    // Eight segments were in flight, so the window is four. From now on, release times are 50 ms apart.
    tcp.sack(3, &[7..=9, 5..=5]).cwnd(4.0).sends(&[]);
    tcp.at(1200).wakes().sends(&[4]).at(1250).wakes().sends(&[6]);
}

#[test]
fn a_window_grows_while_its_segments_wait_for_their_turns() {
    let mut tcp = Scene::new(TcpConfig { validation: ValidationSpec::None, ..paced(4) }, 100);
    tcp.sends(&[1, 2, 3, 4]).at(200).ack(1).cwnd(5.0).sends(&[5]).timer(240);
    // Because of pacing, one segment less is in flight than the window allows. The sender is nevertheless not application-limited.
    tcp.ack(2).cwnd(6.0).ack(3).cwnd(7.0).sends(&[]);
    // At 240 ms, one segment of a window of seven is sent. The next segment follows 28 ms later.
    tcp.at(240).wakes().sends(&[6]);
}

#[test]
fn the_controller_hears_of_each_segment_that_leaves_and_of_silence() {
    // The validation rule of Linux halves the distance to the used window once per timeout, and depends only on transmissions.
    let linux = TcpConfig { validation: ValidationSpec::Linux, ..rfc(SackRfc6675, 10) };
    let mut tcp = Scene::new(linux, 2);
    tcp.sends(&[1, 2]).at(100).ack(2);
    for (at, segment) in [(600, 3), (1200, 4)] {
        tcp.at(at).writes(SEGMENT).sends(&[segment]).at(at + 100).ack(segment);
    }
    // The used window counts as at least the initial window.
    tcp.cwnd(10.0);
}

proptest! {
    /// Checks that every segment is delivered, for any losses and any order of reports.
    #[test]
    fn every_segment_arrives_though_some_are_lost_and_reports_come_in_any_order(
        lost in prop::collection::vec(any::<bool>(), 200), segments in 1u64..60, rate in any::<bool>()
    ) {
        let pacing = if rate { PacingKind::Rate(1.0, 1) } else { PacingKind::None };
        let config = TcpConfig { pacing, limited_transmit: true, ..paced(4) };
        let mut tcp = Scene::new(config, segments);
        let mut lost = lost.into_iter();
        let (mut arrived, mut acked) = (vec![false; segments as usize + 2], 0);
        for _ in 0..2000 {
            for segment in tcp.take() {
                prop_assert!(segment <= segments);
                // After the last entry of `lost`, all segments arrive.
                arrived[segment as usize] |= !lost.next().unwrap_or(false);
            }
            while arrived[acked as usize + 1] && acked < segments {
                acked += 1;
            }
            if acked == segments {
                break;
            }
            let beyond: Vec<u64> = (acked + 2..=segments).filter(|&n| arrived[n as usize]).collect();
            let ranges: Vec<_> = beyond.chunk_by(|a, b| a + 1 == *b).rev().take(3).map(|r| r[0]..=r[r.len() - 1]).collect();
            tcp.advance(10).sack(acked, &ranges);
            tcp.until_sent();
        }
        prop_assert_eq!(acked, segments);
        tcp.sack(acked, &[]);
        prop_assert!(tcp.sender().is_done());
    }
}
