use crate::recovery::RecoveryKind::{Sack1, SackRfc6675};
use crate::testing::{SEGMENT, Scene, ns2, rfc, unsampled};
use crate::{Flags, SackBlocks, Segment, TcpConfig};

const TEN: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

#[test]
fn sack1_counts_what_is_in_the_pipe_and_resends_before_it_sends() {
    let mut tcp = Scene::new(ns2(Sack1, 10), 100);
    // 1 and 4 are lost.
    tcp.sends(&TEN).at(200).sack(0, &[2..=2]).sack(0, &[2..=3]).sends(&[]);
    // Fall and Floyd 1996, section 3: at the third duplicate ACK, three of ten segments have left the network, and seven are in the pipe.
    tcp.sack(0, &[5..=5, 2..=3]).sends(&[1]).cwnd(5.0).ssthresh(5.0).timer(200 + 6000);
    // "the variable pipe ... is decremented by one when the sender receives a dup ACK packet with a SACK option reporting that new data has
    // been received". The sender sends while the pipe is below cwnd, missing segments first.
    tcp.sack(0, &[5..=6, 2..=3]).sack(0, &[5..=7, 2..=3]).sends(&[]);
    tcp.sack(0, &[5..=8, 2..=3]).sends(&[4]).sack(0, &[5..=9, 2..=3]).sends(&[11]);
    tcp.sack(0, &[5..=10, 2..=3]).sends(&[12]);
    // "For partial ACKs, pipe is decremented by two rather than one".
    tcp.at(400).sack(3, &[5..=10]).sends(&[13, 14]).cwnd(5.0);
    // "the sender exits Fast Recovery when a recovery ACK is received acknowledging all data that was outstanding".
    tcp.ack(10).sends(&[15]).cwnd(5.0);
    assert_eq!((tcp.sender().stats().fast_retransmits, tcp.sender().stats().timeouts), (1, 0));
}

#[test]
fn each_partial_ack_of_a_sack_recovery_restarts_the_timer() {
    for kind in [Sack1, SackRfc6675] {
        let mut tcp = Scene::new(unsampled(rfc(kind, 10)), 10);
        // 1, 4 and 7 are lost.
        tcp.sends(&TEN).at(100).sack(0, &[2..=2]).sack(0, &[2..=3]).sack(0, &[5..=5, 2..=3]);
        tcp.sack(0, &[5..=6, 2..=3]).sack(0, &[8..=8, 5..=6, 2..=3]).sack(0, &[8..=9, 5..=6, 2..=3]);
        tcp.sack(0, &[8..=10, 5..=6, 2..=3]).sends(&[1, 4, 7]).timer(100 + 3000);
        // RFC 6298, section 5.3. There is no RTT sample, because all segments were in flight when the first one was retransmitted.
        tcp.at(200).sack(3, &[8..=10, 5..=6]).timer(200 + 3000);
        tcp.at(300).sack(6, &[8..=10]).timer(300 + 3000);
    }
}

#[test]
fn a_partial_ack_ends_a_back_off() {
    let mut tcp = Scene::new(unsampled(rfc(SackRfc6675, 10)), 15);
    tcp.sends(&TEN).at(3000).times_out().sends(&[1]).timer(3000 + 6000);
    tcp.at(3100)
        .ack(1)
        .sends(&[2, 3])
        .at(3200)
        .ack(3)
        .sends(&[4, 5, 6])
        .at(3300)
        .ack(6)
        .sends(&[7, 8, 9, 10]);
    // 11 and 13 are lost.
    tcp.at(3400).ack(10).sends(&[11, 12, 13, 14, 15]).timer(3400 + 6000);
    tcp.at(3500).sack(10, &[12..=12]).sack(10, &[14..=14, 12..=12]).sack(10, &[14..=15, 12..=12]);
    tcp.sends(&[11]).timer(3500 + 6000);
    // Karn and Partridge 1987: the backed-off timeout remains until the ACK of a packet that was sent only once, here 12. ns-2: "t_backoff_
    // = 1" at a partial ACK. There is still no RTT sample.
    tcp.at(3600).sack(12, &[14..=15]).sends(&[13]).timer(3600 + 3000);
}

#[test]
fn a_report_of_nothing_new_is_no_duplicate() {
    for (kind, config) in [(Sack1, ns2(Sack1, 10)), (SackRfc6675, rfc(SackRfc6675, 10))] {
        let mut tcp = Scene::new(config, 100);
        // RFC 6675, section 2: a duplicate is "a segment that arrives carrying a SACK block that identifies previously
        // unacknowledged and un-SACKed octets between HighACK and HighData".
        tcp.sends(&TEN).at(200).sack(0, &[2..=3]);
        (0..5).for_each(|_| _ = tcp.dup().sack(0, &[2..=3]).sack(0, &[3..=3]));
        assert_eq!(tcp.sender().dupacks(), 1, "{kind:?}");
        // A block of data that was never sent is ignored.
        tcp.sack(0, &[10..=11]).sack(0, &[11..=14]).cwnd(10.0);
        assert_eq!(tcp.sender().dupacks(), 1, "{kind:?}");
    }
}

#[test]
fn reports_of_nothing_new_during_a_recovery_take_one_out_of_the_pipe_of_1996_only() {
    let mut tcp = Scene::new(rfc(SackRfc6675, 10), 100);
    tcp.sends(&TEN).at(200).sack(0, &[2..=2]).sack(0, &[2..=3]).sack(0, &[2..=4]).sends(&[1]);
    // RFC 6675, section 4: SetPipe counts octets, not ACKs. The pipe contains 1, which was retransmitted, and 5 to 10.
    (0..9).for_each(|_| _ = tcp.dup());
    tcp.sends(&[]);
}

#[test]
fn by_rfc_6675_three_segments_reported_at_once_are_a_loss() {
    let mut tcp = Scene::new(rfc(SackRfc6675, 10), 100);
    // RFC 6675, section 5, step 2: "If DupAcks < DupThresh but IsLost (HighACK + 1) returns true -- indicating at least
    // three segments have arrived above the current cumulative acknowledgment point, which is taken to indicate loss --
    // go to step (4)."
    tcp.sends(&TEN).at(200).sack(0, &[2..=4]).sends(&[1]).cwnd(5.0).ssthresh(5.0);

    // IsLost: "more than (DupThresh - 1) * SMSS bytes". Two segments are not more.
    let mut tcp = Scene::new(rfc(SackRfc6675, 10), 100);
    tcp.sends(&TEN).at(200).sack(0, &[2..=3]).sends(&[]).cwnd(10.0);

    // The algorithm of 1996 counts duplicate ACKs instead.
    let mut tcp = Scene::new(ns2(Sack1, 10), 100);
    tcp.sends(&TEN).at(200).sack(0, &[2..=4]).sends(&[]).cwnd(10.0);
}

#[test]
fn by_rfc_6675_three_ranges_are_a_loss_however_short() {
    let mut tcp = Scene::new(TcpConfig { segment_bytes: 3000, ..rfc(SackRfc6675, 4) }, 30);
    // Segments have 3000 bytes, and the scene's blocks report thirds of them. Three ranges are 3000 bytes, no more than 2 * SMSS. IsLost:
    // "either DupThresh discontiguous SACKed sequences have arrived above 'SeqNum' or ...".
    tcp.sends(&[1, 4, 7, 10]).at(200).sack(0, &[4..=4, 6..=6, 8..=8]).sends(&[1]);
    let mut tcp = Scene::new(TcpConfig { segment_bytes: 3000, ..rfc(SackRfc6675, 4) }, 30);
    tcp.sends(&[1, 4, 7, 10]).at(200).sack(0, &[4..=4, 6..=6]).sends(&[]);
}

#[test]
fn by_rfc_6675_only_what_counts_as_lost_goes_out_before_new_data() {
    let mut tcp = Scene::new(rfc(SackRfc6675, 10), 100);
    // 1 and 5 are lost.
    tcp.sends(&TEN).at(100).sack(0, &[2..=2]).sack(0, &[2..=3]).sack(0, &[2..=4]).sends(&[1]).cwnd(5.0);
    // Section 4, SetPipe: 1 is lost and retransmitted. 5 does not count as lost yet and is in the pipe, as are 7 to 10.
    tcp.sack(0, &[6..=6, 2..=4]).sends(&[]).sack(0, &[6..=7, 2..=4]).sends(&[]);
    // Three segments above 5 have arrived, so 5 counts as lost. 1, 9 and 10 are in the pipe. NextSeg, rule 1: 5; rule 2: "unsent data".
    tcp.sack(0, &[6..=8, 2..=4]).sends(&[5, 11]);
    tcp.sack(0, &[6..=9, 2..=4]).sends(&[12]);
    tcp.at(200).sack(4, &[6..=10]).sends(&[13, 14]);
    // Section 5, step A: "An incoming cumulative ACK for a sequence number greater than RecoveryPoint signals the end of
    // loss recovery".
    tcp.at(300).ack(11).sends(&[15, 16]).cwnd(5.0);
}

#[test]
fn by_rfc_6675_a_hole_that_may_not_be_lost_goes_out_when_there_is_no_new_data() {
    let eight = [1, 2, 3, 4, 5, 6, 7, 8];
    let mut tcp = Scene::new(rfc(SackRfc6675, 8), 8);
    // 1 and 7 are lost.
    tcp.sends(&eight).at(100).sack(0, &[2..=2]).sack(0, &[2..=3]).sack(0, &[2..=4]).sends(&[1]).cwnd(4.0);
    tcp.sack(0, &[2..=5]).sends(&[]).sack(0, &[2..=6]).sends(&[8]);
    // NextSeg, rule 3: "If the conditions for rules (1) and (2) fail, but there exists an unSACKed sequence number 'S3'
    // that meets the criteria for detecting loss given in steps (1.a) and (1.b) above (specifically excluding step (1.c))
    // then one segment of up to SMSS octets starting with S3 SHOULD be returned."
    tcp.sack(0, &[8..=8, 2..=6]).sends(&[7]);

    // If new data is available, the hole is not retransmitted before more reports arrive.
    let mut tcp = Scene::new(rfc(SackRfc6675, 8), 9);
    tcp.sends(&eight).at(100).sack(0, &[2..=2]).sack(0, &[2..=3]).sack(0, &[2..=4]).sends(&[1]).cwnd(4.0);
    tcp.sack(0, &[2..=5]).sends(&[]).sack(0, &[8..=8, 2..=5]).sends(&[9]);
}

#[test]
fn new_data_of_a_recovery_fits_into_the_window_of_the_other_side() {
    for kind in [Sack1, SackRfc6675] {
        let mut tcp = Scene::new(rfc(kind, 10), 100);
        tcp.sends(&TEN).advertises(11_000).at(100);
        tcp.sack(0, &[2..=2]).sack(0, &[2..=3]).sack(0, &[2..=4]).sends(&[1]);
        tcp.sack(0, &[2..=5]).sack(0, &[2..=6]).sack(0, &[2..=7]).sends(&[11]);
        // If the receive window does not permit new data, rule 4 of RFC 6675 still applies.
        tcp.sack(0, &[2..=10]).sends(if kind == Sack1 { &[] } else { &[11] });
    }
}

#[test]
fn after_a_timeout_no_recovery_begins_for_what_was_out() {
    for kind in [Sack1, SackRfc6675] {
        let mut tcp = Scene::new(rfc(kind, 10), 100);
        tcp.sends(&TEN).at(1000).times_out().sends(&[1]).cwnd(1.0);
        tcp.at(1100).ack(1).sends(&[2, 3]).at(1200);
        // RFC 6675, section 5.1: "a new recovery phase (as described in Section 5) MUST NOT be initiated until HighACK is
        // greater than or equal to the new value of RecoveryPoint."
        tcp.sack(1, &[3..=3]).sack(1, &[3..=4]).sack(1, &[3..=5]).sack(1, &[3..=6]).sends(&[]).cwnd(2.0);
    }
}

#[test]
fn after_a_timeout_rfc_6675_asks_for_an_ack_of_what_was_out_and_sack1_for_one_beyond() {
    for (kind, resent) in [(Sack1, &[][..]), (SackRfc6675, &[5])] {
        let mut tcp = Scene::new(TcpConfig { limited_transmit: true, ..rfc(kind, 4) }, 8);
        tcp.sends(&[1, 2, 3, 4]).at(1000).times_out().sends(&[1]).at(1100).ack(4).sends(&[5, 6]);
        // RecoveryPoint is 4, and 5 is lost. ns-2's bugFix_ requires an ACK of 5.
        tcp.at(1200).sack(4, &[6..=6]).sends(&[7]).sack(4, &[6..=7]).sends(&[8]);
        tcp.sack(4, &[6..=8]).sends(resent);
    }
}

#[test]
fn the_ack_that_ends_a_recovery_by_rfc_6675_makes_way_for_the_next_one() {
    let mut tcp = Scene::new(TcpConfig { limited_transmit: true, ..rfc(SackRfc6675, 4) }, 10);
    tcp.sends(&[1, 2, 3, 4]).at(100).sack(0, &[2..=2]).sends(&[5]).sack(0, &[2..=3]).sends(&[6]);
    tcp.sack(0, &[2..=4]).sends(&[1]).cwnd(2.0);
    // RFC 6675, section 5, step A: the ACK of RecoveryPoint, 6, ends the recovery. Then 7 is lost.
    tcp.at(200).ack(6).sends(&[7, 8]).cwnd(2.0);
    tcp.at(300).sack(6, &[8..=8]).sends(&[9]).sack(6, &[8..=9]).sends(&[10]).sack(6, &[8..=10]).sends(&[7]);
    assert_eq!(tcp.sender().stats().fast_retransmits, 2);
}

#[test]
fn sack1_counts_only_what_is_out() {
    let mut tcp = Scene::new(ns2(Sack1, 10), 100);
    tcp.sends(&TEN).at(200).ack(2).sends(&[11, 12, 13]);
    // 3 is lost. Eleven segments are in flight, three of them have arrived, and cwnd permits five.
    tcp.sack(2, &[4..=4]).sack(2, &[4..=5]).sack(2, &[4..=6]).sends(&[3]).cwnd(5.0);
    tcp.sack(2, &[4..=7]).sack(2, &[4..=8]).sack(2, &[4..=9]).sends(&[]).sack(2, &[4..=10]).sends(&[14]);
}

#[test]
fn what_was_reported_below_an_ack_counts_no_more() {
    let mut tcp = Scene::new(rfc(SackRfc6675, 10), 100);
    // 2 arrived before 1.
    tcp.sends(&TEN).at(100).sack(0, &[2..=2]).ack(3).sends(&[11, 12, 13, 14]);
    // 4 is lost, and cwnd becomes half of eleven segments.
    tcp.sack(3, &[5..=5]).sack(3, &[5..=6]).sack(3, &[5..=7]).sends(&[4]).cwnd(5.5);
    // RFC 6675, section 4, SetPipe: the pipe contains 4 and 12 to 14.
    tcp.sack(3, &[5..=8]).sack(3, &[5..=9]).sack(3, &[5..=10]).sends(&[]).sack(3, &[5..=11]).sends(&[15]);
}

#[test]
fn ns_2_s_sack1_forgets_with_a_new_ack_what_was_reported_and_hears_of_it_anew() {
    let mut tcp = Scene::new(rfc(Sack1, 5), 5);
    tcp.sends(&[1, 2, 3, 4, 5]).at(100).sack(0, &[3..=3]).sack(1, &[3..=3]);
    // The first duplicate ACK, the second one, one that reports no new data, and the third one.
    tcp.sack(1, &[3..=3]).sack(1, &[3..=4]).sack(1, &[3..=4]).sends(&[]).sack(1, &[3..=5]).sends(&[2]);
}

#[test]
fn the_duplicate_that_begins_a_recovery_lets_ns_2_s_sack1_resend_and_rfc_6675_also_send() {
    let dups = |kind| {
        let mut tcp = Scene::new(ns2(kind, 4), 100);
        tcp.sends(&[1, 2, 3, 4]).at(200).sack(0, &[2..=2]).sack(0, &[2..=3]).sends(&[]);
        // Three segments have arrived and 1 is retransmitted, so a cwnd of 2 permits one more segment.
        tcp.sack(0, &[2..=4]);
        tcp.take()
    };
    // RFC 6675, section 5: "(4.5) In order to take advantage of potential additional available cwnd, proceed to step (C)".
    assert_eq!(dups(SackRfc6675), [1, 5]);
    assert_eq!(dups(Sack1), [1]);
}

#[test]
fn by_rfc_6675_a_lost_tail_is_resent_once_when_there_is_nothing_else_to_send() {
    let eight = [1, 2, 3, 4, 5, 6, 7, 8];
    let mut tcp = Scene::new(rfc(SackRfc6675, 8), 8);
    // 1, 7 and 8 are lost.
    tcp.sends(&eight).at(100).sack(0, &[2..=2]).sack(0, &[2..=3]).sack(0, &[2..=4]).sends(&[1]).cwnd(4.0);
    // SetPipe: the pipe contains 1, which was retransmitted, and 6 to 8.
    tcp.sack(0, &[2..=5]).sends(&[]);
    // NextSeg, rule 4: "If the conditions for rules (1), (2), and (3) fail, but there exists outstanding unSACKed data, we
    // provide the opportunity for a single 'rescue' retransmission per entry into loss recovery ... one segment of up to
    // SMSS octets that MUST include the highest outstanding unSACKed sequence number SHOULD be returned".
    tcp.sack(0, &[2..=6]).sends(&[8]).at(200).ack(6).sends(&[]);
    // The report of 8 makes 7 a hole, and rule 3 applies.
    tcp.at(300).sack(6, &[8..=8]).sends(&[7]).at(400).ack(8).sends(&[]);
    assert_eq!((tcp.sender().stats().timeouts, tcp.sender().stats().retransmitted), (0, 3));

    // ns-2's Sack1 waits for the retransmission timer.
    let mut tcp = Scene::new(ns2(Sack1, 8), 8);
    tcp.sends(&eight).at(100).sack(0, &[2..=2]).sack(0, &[2..=3]).sack(0, &[2..=4]).sends(&[1]);
    tcp.sack(0, &[2..=5]).sack(0, &[2..=6]).sends(&[]).at(200).ack(6).sends(&[]);
}

#[test]
fn by_rfc_6675_what_a_recovery_has_resent_it_does_not_rescue() {
    let mut tcp = Scene::new(rfc(SackRfc6675, 4), 4);
    tcp.sends(&[1, 2, 3, 4]).at(100).sack(0, &[2..=2]).sack(0, &[2..=3]).sends(&[]);
    tcp.sack(0, &[2..=4]).sends(&[1]).cwnd(2.0).timer(1100);
}

#[test]
fn by_rfc_6675_a_fin_is_no_byte_that_was_reported() {
    // The fifth segment also carries the FIN.
    let fin = TcpConfig { fin: true, ..rfc(SackRfc6675, 10) };
    let report = |segments: u64| Segment {
        window: 100 * SEGMENT as u32,
        flags: Flags { ack: true, ..Flags::default() },
        sack: SackBlocks::new(0, std::iter::once((3 * SEGMENT, segments * SEGMENT + 1))),
        ..Segment::default()
    };
    let mut tcp = Scene::new(fin, 5);
    // IsLost: "more than (DupThresh - 1) * SMSS bytes". 4 and 5 are two segments, which is not more.
    tcp.sends(&[1, 2, 3, 4, 5]).at(100).receives(&report(5)).sends(&[]);
}
