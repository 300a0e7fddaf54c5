use crate::recovery::RecoveryKind::NewRenoRfc6582;
use crate::testing::{Scene, rfc, unsampled};
use crate::{RtoConfig, TcpConfig};
use catnip_base::Span;

const TEN: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

#[test]
fn without_sack_the_window_has_room_as_if_duplicates_inflated_it() {
    let mut tcp = Scene::new(rfc(NewRenoRfc6582, 10), 100);
    // 1 and 4 are lost.
    tcp.sends(&TEN).at(200).dup().dup().sends(&[]);
    // RFC 6582, section 3.2, step 2, refers to RFC 5681, section 3.2: "retransmits what appears to be the missing segment", and "cwnd MUST
    // be set to ssthresh plus 3*SMSS". ssthresh is 5, so the window is 8, with 10 segments in flight.
    tcp.dup().sends(&[1]).cwnd(5.0).ssthresh(5.0);
    // "For each additional duplicate ACK received (after the third), cwnd MUST be incremented by SMSS": 9, 10, 11, and so on.
    tcp.dup().dup().sends(&[]).dup().sends(&[11]).dup().sends(&[12]).dup().sends(&[13]);
    // Step 3, partial acknowledgments: "retransmit the first unacknowledged segment. Deflate the congestion window by the amount of new
    // data acknowledged", and "add back SMSS bytes". The window of 13 becomes 13 - 3 + 1, which permits segments up to 14.
    tcp.at(400).ack(3).sends(&[4, 14]);
    // The segments sent in the meantime arrive.
    tcp.at(600).dup().sends(&[15]).dup().sends(&[16]).dup().sends(&[17]);
    // Full acknowledgments: "Set cwnd to ... ssthresh".
    tcp.ack(13).sends(&[18]).cwnd(5.0);
    assert_eq!((tcp.sender().stats().fast_retransmits, tcp.sender().stats().timeouts), (1, 0));
}

#[test]
fn each_of_many_losses_takes_a_round_trip_and_none_a_timeout() {
    let mut tcp = Scene::new(rfc(NewRenoRfc6582, 10), 10);
    // All segments except the last four are lost.
    tcp.sends(&TEN).at(100).dup().dup().dup().sends(&[1]).dup().sends(&[]);
    for lost in 1..6 {
        tcp.at(100 + 100 * lost).ack(lost).sends(&[lost + 1]);
    }
    tcp.at(700).ack(10).sends(&[]).no_timer();
    assert_eq!((tcp.sender().stats().retransmitted, tcp.sender().stats().timeouts), (6, 0));
}

#[test]
fn duplicates_that_say_another_window_or_come_after_a_timeout_do_not_count() {
    let config = TcpConfig {
        rto: RtoConfig { min: Span::from_secs(1), ..rfc(NewRenoRfc6582, 10).rto },
        ..rfc(NewRenoRfc6582, 10)
    };
    let mut tcp = Scene::new(unsampled(config), 100);
    // RFC 5681, section 2, duplicate acknowledgment, (e): the advertised window must be equal to that of the last ACK.
    tcp.sends(&TEN)
        .at(100)
        .advertises(90_000)
        .dup()
        .advertises(80_000)
        .dup()
        .advertises(70_000)
        .dup()
        .sends(&[]);
    tcp.at(3000).times_out().sends(&[1]);
    // RFC 6582, section 4: the duplicate ACKs may be caused by segments that were sent twice.
    tcp.at(3100).dup().dup().dup().dup().sends(&[]);
    // "recover": no episode begins until an ACK arrives beyond all data that was outstanding at the timeout.
    tcp.ack(8).sends(&[9, 10]).dup().dup().dup().sends(&[]);
    assert_eq!(tcp.sender().stats().fast_retransmits, 0);
}

#[test]
fn limited_transmit_sends_one_new_segment_for_each_of_the_first_two_duplicates() {
    let mut tcp = Scene::new(TcpConfig { limited_transmit: true, ..rfc(NewRenoRfc6582, 4) }, 100);
    // RFC 3042. RFC 5681, section 3.2, step 2: the data of limited transmit "MUST NOT be included" in the FlightSize that is halved.
    tcp.sends(&[1, 2, 3, 4]).at(100).dup().sends(&[5]).dup().sends(&[6]).dup().sends(&[1]).cwnd(2.0);
}
