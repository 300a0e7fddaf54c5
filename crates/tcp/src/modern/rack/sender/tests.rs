use crate::recovery::RecoveryKind::Rack;
use crate::testing::{SEGMENT, Scene, rfc};
use crate::{EcnBits, Flags, Halving, RtoConfig, Segment, TcpConfig};
use catnip_base::Span;

const TEN: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// Returns the parameters of Linux for a data transfer without handshake and FIN, with Reno.
fn linux() -> TcpConfig {
    let base = rfc(Rack, 10);
    TcpConfig {
        halving: Halving::Window,
        segmentation_offload: true,
        byte_counting: true,
        rto: RtoConfig { min: Span::from_millis(200), ..base.rto },
        ..base
    }
}

#[test]
fn a_segment_is_lost_once_three_above_it_are_reported_and_the_window_goes_down_in_proportion() {
    let mut tcp = Scene::new(linux(), 100);
    // Each SACKed segment permits one new segment (RFC 3042).
    tcp.sends(&TEN).at(100).sack(0, &[2..=2]).sends(&[11]).at(102).sack(0, &[2..=3]).sends(&[12]);
    // RFC 8985, section 6.2, step 4: no reordering was seen, and "RACK.segs_sacked >= DupThresh": the reordering window is 0.
    tcp.at(103).sack(0, &[2..=4]).sends(&[1]).ssthresh(5.0);
    // RFC 6937: one segment is sent per two that arrive, while the window decreases from 10 to 5.
    tcp.sack(0, &[2..=5]).sends(&[]).sack(0, &[2..=6]).sends(&[13]).sack(0, &[2..=7]).sends(&[]);
    tcp.sack(0, &[2..=8]).sends(&[14]).sack(0, &[2..=9]).sends(&[]).sack(0, &[2..=10]).sends(&[]);
    // The reordering timer of the first report has no effect. Five segments are in flight; from now on, one segment is sent per segment
    // that arrives.
    tcp.at(133).wakes().at(200).sack(0, &[2..=11]).sends(&[15]).sack(0, &[2..=12]).sends(&[16]).window(5);
    // Four segments and the retransmission are in flight. The ACK of the retransmission ends the episode, and the window is ssthresh.
    tcp.at(201).ack(12).cwnd(5.2).sends(&[17]);
    assert_eq!((tcp.sender().stats().fast_retransmits, tcp.sender().stats().timeouts), (1, 0));
}

#[test]
fn fewer_reports_are_waited_for_a_quarter_of_the_least_round_trip() {
    let mut tcp = Scene::new(linux(), 3);
    // Segment.xmit_ts + RACK.rtt + RACK.reo_wnd = 0 + 100 + 25, and the kernel's minimum time of a timer.
    tcp.sends(&[1, 2, 3]).at(100).sack(0, &[2..=3]).sends(&[]).timer(125 + 8);
    tcp.at(133).wakes().sends(&[1]).ssthresh(5.0);
    tcp.at(233).ack(3).no_timer();
}

#[test]
fn what_arrives_in_time_was_only_late_and_from_then_on_three_reports_mean_nothing() {
    let mut tcp = Scene::new(linux(), 100);
    tcp.sends(&TEN).at(100).sack(0, &[2..=3]).sends(&[11, 12]).at(110).ack(3).sends(&[13, 14]);
    // RACK.reordering_seen: the reordering window is a quarter of 100 ms, regardless of the reports. 4 to 10 were sent at 0.
    tcp.at(111).sack(3, &[5..=10]).cwnd(11.0);
    tcp.take();
    assert!(!tcp.sender().in_recovery());
    tcp.timer(111 + 25 + 8);
    tcp.at(144).wakes().sends(&[4]);
    assert!(tcp.sender().in_recovery());
}

#[test]
fn a_lost_retransmission_is_sent_again_when_something_later_has_arrived() {
    let mut tcp = Scene::new(linux(), 100);
    tcp.sends(&TEN).at(100).sack(0, &[2..=2]).sends(&[11]);
    tcp.at(102).sack(0, &[2..=3]).sack(0, &[2..=4]).sends(&[12, 1]);
    tcp.at(103).sack(0, &[2..=10]).sends(&[13, 14]);
    tcp.at(133).wakes();
    // 13 was sent after the retransmission of 1 and has arrived.
    tcp.at(201).sack(0, &[2..=14]);
    assert_eq!(tcp.take().first(), Some(&1));
    tcp.at(301).ack(14);
    assert_eq!((tcp.sender().stats().retransmitted, tcp.sender().stats().timeouts), (2, 0));
}

#[test]
fn a_lost_tail_is_probed_after_two_round_trips_and_repaired_without_a_timeout() {
    let mut tcp = Scene::new(linux(), 10);
    // RFC 8985, section 7.2: PTO = 2 * SRTT, and the kernel's minimum time.
    tcp.sends(&TEN).at(100).ack(8).timer(100 + 200 + 8);
    // 7.3: "Retransmit the highest-sequence Segment sent".
    tcp.at(308).wakes().sends(&[10]).timer(308 + 300);
    // 7.4.1: the ACK of the probe shows that segments sent before the probe were lost.
    tcp.at(408).sack(8, &[10..=10]).sends(&[9]);
    tcp.at(508).ack(10).no_timer();
    let stats = tcp.sender().stats();
    assert_eq!((stats.probes, stats.fast_retransmits, stats.timeouts), (1, 1, 0));
}

#[test]
fn a_probe_sends_new_data_where_there_is_some() {
    let mut tcp = Scene::new(linux(), 40);
    tcp.sends(&TEN).at(100).ack(10);
    tcp.sends(&(11..=30).collect::<Vec<_>>()).timer(100 + 208);
    tcp.at(308).wakes().sends(&[31]);
    tcp.at(408).sack(10, &[31..=31]);
    // All other segments are lost and are retransmitted.
    assert_eq!(tcp.take().first(), Some(&11));
    assert_eq!((tcp.sender().stats().probes, tcp.sender().stats().timeouts), (1, 0));
}

/// Returns a scene in which the last of ten segments is lost or late, and its probe has been sent.
fn probed() -> Scene {
    let mut tcp = Scene::new(linux(), 10);
    // Only one segment is in flight, so its ACK may be delayed by up to 200 ms. The probe is sent no later than the timeout of 100 + 200
    // ms.
    tcp.sends(&TEN).at(100).ack(9).cwnd(19.0).timer(100 + 300);
    tcp.at(400).wakes().sends(&[10]).timer(400 + 300);
    tcp
}

#[test]
fn a_probe_that_repaired_the_only_loss_reduces_the_window_as_a_loss_would() {
    let mut tcp = probed();
    tcp.at(500).ack(10).cwnd(20.0);
    // 7.4.2: "ACK's ack. number > TLP.end_seq: Repaired the single loss".
    tcp.writes(SEGMENT).sends(&[11]).at(600).ack(11).ssthresh(10.0).cwnd(10.0);
}

#[test]
fn a_probe_that_was_a_duplicate_reduces_nothing() {
    let mut tcp = probed();
    // Case 1: "an ACK that covers TLP.end_seq with a DSACK option".
    tcp.at(410).ack(10).at(500).sack(10, &[10..=10]);
    tcp.writes(SEGMENT).sends(&[11]).at(600).ack(11);
    assert!(tcp.sender().control().ssthresh.is_none());
    // Case 2: "a DupAck without any SACK option".
    let mut tcp = probed();
    tcp.at(410).ack(10).at(500).dup();
    tcp.writes(SEGMENT).sends(&[11]).at(600).ack(11);
    assert!(tcp.sender().control().ssthresh.is_none());
}

/// Returns a scene in which two of ten segments are acknowledged after 100 ms. No other ACK arrives, and a probe and a timeout follow.
fn timed_out() -> Scene {
    let mut tcp = Scene::new(linux(), 100);
    tcp.sends(&TEN).at(100).ack(2).sends(&[11, 12, 13, 14]).timer(300);
    tcp.at(300).wakes().sends(&[15]).timer(600);
    tcp.at(600).times_out().sends(&[3]).cwnd(1.0).ssthresh(6.0).timer(600 + 600);
    tcp
}

#[test]
fn a_timeout_is_undone_when_what_was_sent_before_it_arrives() {
    let mut tcp = timed_out();
    // RFC 5682, section 3.1, step 3b, with SACK: 4 was not retransmitted.
    tcp.at(620).ack(4).cwnd(14.0);
    // Eleven segments are in flight, and none of them is lost. A single segment waits for another one (tcp_tso_should_defer).
    tcp.sends(&[16, 17]).at(630).ack(15).cwnd(25.0);
    assert_eq!((tcp.take().first(), tcp.sender().stats().retransmitted), (Some(&18), 1));
}

#[test]
fn timestamps_tell_of_a_spurious_timeout_where_only_the_first_segment_is_acknowledged() {
    // RFC 3522, section 3.2, step 6: the ACK echoes a time before the retransmission.
    let mut tcp = timed_out();
    tcp.echoes(0).at(620).ack(3).cwnd(13.0).sends(&[16]);
    // Without timestamps, new data is sent, because the segment may not be lost (RFC 5682, step 2b).
    let mut tcp = timed_out();
    tcp.at(708).ack(3).cwnd(2.0).sends(&[16, 17]);
    // Step 3a: a segment above the missing one is SACKed, so the missing segment was lost.
    tcp.at(808).sack(3, &[16..=16]).sends(&[4]);
    // From then on, recovery is the conventional one: original data that arrives late undoes nothing.
    // Ten segments of reordering are known, so that reports open the window, too (tcp_may_raise_cwnd).
    tcp.at(820).sack(3, &[6..=6, 16..=16]).cwnd(3.0);
    tcp.take();
}

#[test]
fn a_timeout_loses_all_but_what_was_sent_less_than_a_round_trip_ago() {
    let mut tcp = Scene::new(linux(), 100);
    tcp.sends(&TEN).at(100).ack(10);
    tcp.sends(&(11..=30).collect::<Vec<_>>()).at(308).wakes().sends(&[31]);
    tcp.at(560).advertises(100 * SEGMENT).dup().sends(&[]);
    tcp.at(608).times_out().sends(&[11]).cwnd(1.0);
}

#[test]
fn a_timeout_of_a_recovery_is_not_held_for_spurious_because_of_late_data() {
    // tcp_enter_loss: F-RTO if it is a new recovery or "icsk_retransmits". A timeout during fast recovery is neither.
    let mut tcp = Scene::new(linux(), 11);
    tcp.sends(&TEN).at(100).sack(0, &[2..=4]).sends(&[1, 11]).at(400).times_out().sends(&[1]).cwnd(1.0);
    tcp.at(420).sack(0, &[5..=6, 2..=4]).cwnd(1.0);
}

#[test]
fn after_a_timeout_the_window_holds_what_may_still_arrive_and_one_segment_more() {
    let mut tcp = Scene::new(linux(), 10);
    tcp.sends(&TEN).at(100).ack(9).timer(400).at(400).wakes().sends(&[10]).timer(700);
    // 11 leaves less than a round trip (100 ms) before the timeout. tcp_enter_loss: "tcp_packets_in_flight(tp) + 1".
    tcp.at(650).writes(SEGMENT).sends(&[11]).at(700).wakes().sends(&[]);
    tcp.times_out().sends(&[10]).cwnd(2.0);
}

#[test]
fn the_round_trip_for_the_timeout_is_that_of_the_first_segment_and_the_least_one_that_of_the_last() {
    // tcp_clean_rtx_queue: seq_rtt_us is measured from first_ackt, and ca_rtt_us, which is that of tcp_update_rtt_min, from last_ackt.
    let mut tcp = Scene::new(linux(), 1);
    tcp.sends(&[1]).at(50).writes(SEGMENT).sends(&[2]).at(150).ack(2);
    assert_eq!(tcp.sender().srtt(), Some(Span::from_millis(150)));
    // The reordering window is a quarter of 100 ms.
    tcp.writes(3 * SEGMENT).sends(&[3, 4, 5]).at(350).sack(2, &[4..=5]).timer(150 + 200 + 25 + 8);
}

#[test]
fn an_ack_of_a_retransmission_measures_no_round_trip() {
    // Karn's rule, also for the other segments of the ACK. tcp_clean_rtx_queue: "if (likely(first_ackt) && !(flag &
    // FLAG_RETRANS_DATA_ACKED))".
    let mut tcp = Scene::new(linux(), 11);
    tcp.sends(&TEN).at(100).sack(0, &[2..=4]).sends(&[1, 11]);
    let before = tcp.sender().stats().rtt_samples;
    tcp.at(200).ack(11);
    assert_eq!(tcp.sender().stats().rtt_samples, before);
}

#[test]
fn a_cut_is_undone_when_all_retransmissions_were_duplicates() {
    let mut tcp = Scene::new(linux(), 100);
    tcp.sends(&TEN).at(100).sack(0, &[2..=4]).sends(&[1, 11]).ssthresh(5.0);
    // The first transmission was late. Segment 1 and all other segments are acknowledged, which ends the episode.
    tcp.at(101).ack(10).cwnd(6.4);
    tcp.take();
    // A DSACK reports that the retransmission was a duplicate (RFC 3708).
    tcp.at(200).sack(10, &[1..=1]).cwnd(10.0);
    assert_eq!(tcp.sender().control().ssthresh, Some(u64::MAX), "slow start goes on");
}

#[test]
fn ecn_echo_makes_a_cut_final() {
    // tcp_fastretrans_alert: "if (flag & FLAG_ECE) tp->prior_ssthresh = 0", so that the undo finds nothing to restore.
    let mut tcp = Scene::new(linux(), 100);
    tcp.sends(&TEN).at(100).sack(0, &[2..=4]).sends(&[1, 11]).ssthresh(5.0);
    let ecn = EcnBits::new(true, false);
    let flags = Flags { ack: true, ..Flags::default() };
    tcp.at(101).receives(&Segment { ack: 4 * SEGMENT, window: 100_000, flags, ecn, ..Segment::default() });
    tcp.take();
    tcp.at(200).sack(10, &[1..=1]).ssthresh(5.0);
    tcp.take();
}

#[test]
fn timestamps_undo_a_cut_at_once() {
    let mut tcp = Scene::new(linux(), 100);
    tcp.sends(&TEN).at(100).sack(0, &[2..=4]).sends(&[1, 11]).ssthresh(5.0);
    tcp.echoes(0).at(101).ack(4).cwnd(11.0);
    assert!(!tcp.sender().in_recovery());
}

#[test]
fn an_echo_from_the_tick_of_the_retransmission_or_later_undoes_nothing() {
    // RFC 3522, section 3.2, step 4: "smaller than the value of RetransmitTS".
    let mut tcp = Scene::new(linux(), 11);
    tcp.sends(&TEN).at(100).sack(0, &[2..=4]).sends(&[1, 11]).ssthresh(5.0);
    tcp.echoes(100).at(200).ack(11).ssthresh(5.0);
    // The same ACK undoes the reduction if it echoes the millisecond before.
    let mut tcp = Scene::new(linux(), 11);
    tcp.sends(&TEN).at(100).sack(0, &[2..=4]).sends(&[1, 11]).ssthresh(5.0);
    tcp.echoes(99).at(200).ack(11);
    assert_eq!(tcp.sender().control().ssthresh, Some(u64::MAX));
    // Step 2: RetransmitTS is that of "the retransmit sent when loss recovery is initiated". 5 is retransmitted later.
    let mut tcp = Scene::new(linux(), 11);
    tcp.sends(&TEN).at(100).sack(0, &[2..=4]).sends(&[1, 11]).at(150).sack(0, &[6..=10, 2..=4]).sends(&[5]);
    tcp.echoes(120).at(250).ack(11).ssthresh(5.0);
}

/// Returns a scene in which only the last three of ten segments have arrived, and as many retransmissions are on their way.
fn three_of_ten_arrived() -> Scene {
    let mut tcp = Scene::new(linux(), 100);
    // RFC 6937, section 3.1: nothing is in flight, which is less than ssthresh. Three segments were delivered, so that three may leave.
    tcp.sends(&TEN).at(100).sack(0, &[8..=10]).sends(&[1, 2, 3]).ssthresh(5.0).at(200);
    tcp
}

#[test]
fn an_ack_that_finds_another_loss_lets_no_more_leave_than_has_arrived() {
    // RFC 9937: SafeACK is true if an ACK "advances SND.UNA" and indicates no further loss. Only then "limit" grows by a segment. Both ACKs
    // deliver two segments. The second one shows that the retransmission of 2 was lost.
    three_of_ten_arrived().sack(2, &[8..=10]).sends(&[4, 5, 6]);
    three_of_ten_arrived().sack(1, &[3..=3, 8..=10]).sends(&[2, 4]);
}

#[test]
fn no_second_probe_leaves_while_one_is_out() {
    let mut tcp = Scene::new(linux(), 10);
    tcp.sends(&TEN).at(100).ack(8).at(308).wakes().sends(&[10]);
    // RFC 8985, section 7.3: "there is no other previous loss probe still in flight". 9 was only late. SRTT is now 7/8 * 100 + 320 / 8 =
    // 127.5 ms, and the peer may delay the ACK of the single segment by 200 ms.
    tcp.at(320).ack(9).timer(320 + 255 + 200);
    tcp.at(775).wakes().sends(&[]);
    assert_eq!(tcp.sender().stats().probes, 1);
}

#[test]
fn a_duplicate_of_the_probe_says_nothing_of_reordering() {
    let mut tcp = Scene::new(linux(), 10);
    // 1 arrives late, which is reordering. The probe of 10 is a duplicate.
    tcp.sends(&TEN).at(100).sack(0, &[2..=2]).at(101).ack(9).until_sent().sends(&[10]);
    tcp.ack(10).sack(10, &[10..=10]).at(600).writes(3 * SEGMENT).sends(&[11, 12, 13]);
    // tcp_dsack_seen: dsack_seen is not set for FLAG_DSACK_TLP, so that the window still is a quarter of 100 ms.
    tcp.at(700).sack(10, &[12..=13]).sends(&[]).timer(600 + 100 + 25 + 8);
}

#[test]
fn a_probe_round_trip_is_none_of_a_segment_that_was_sent_twice() {
    let mut tcp = Scene::new(linux(), 10);
    tcp.sends(&TEN).at(100).ack(8).at(308).wakes().sends(&[10]);
    // RACK_update: "If rtt < RACK.min_rtt: Continue". The first transmission of 10 has arrived, which does not show that 9 is lost.
    tcp.at(320).sack(8, &[10..=10]).sends(&[]);
    assert!(!tcp.sender().in_recovery());
}
