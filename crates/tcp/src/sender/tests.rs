use crate::control::validated::ValidationSpec;
use crate::recovery::RecoveryKind;
use crate::transmission::Transmission;
use crate::{RtoConfig, Segment, Sender, TcpConfig};
use catnip_base::{Span, Time};

mod sack;
mod without_sack;
use crate::testing::{SEGMENT, Scene, ms, ns2, rfc, unsampled};
use crate::{Flags, Halving};

const NEW_RENO: RecoveryKind = RecoveryKind::NewReno;

/// Returns the parameters of NewReno by the RFCs with the given initial window.
fn standard(initial_window: u32) -> TcpConfig {
    rfc(NEW_RENO, initial_window)
}

#[test]
fn slow_start_opens_the_window_by_one_segment_per_ack_however_much_it_acknowledges() {
    let mut tcp = Scene::new(standard(2), 100);
    tcp.sends(&[1, 2]).cwnd(2.0);
    // RFC 5681, section 3.1: "During slow start, a TCP increments cwnd by at most SMSS bytes for each ACK received that
    // cumulatively acknowledges new data."
    tcp.at(100).ack(1).sends(&[3, 4]).cwnd(3.0);
    tcp.ack(2).sends(&[5, 6]).cwnd(4.0);
    tcp.at(200).ack(4).sends(&[7, 8, 9]).cwnd(5.0);
}

#[test]
fn an_ack_of_half_a_segment_opens_the_window_by_half_a_segment() {
    let mut tcp = Scene::new(standard(2), 100);
    let half = Segment { ack: SEGMENT / 2, window: 100_000, flags: ACK, ..Segment::default() };
    // RFC 5681, equation 2: "cwnd += min (N, SMSS)".
    tcp.sends(&[1, 2]).at(100).receives(&half).sends(&[3]).cwnd(2.5);
    // The same holds for half of a later segment.
    let later = Segment { ack: 3 * SEGMENT / 2, ..half };
    tcp.at(200).ack(1).cwnd(3.0).receives(&later).cwnd(3.5).take();
}

const ACK: Flags = Flags { syn: false, ack: true, fin: false };

#[test]
fn no_more_is_out_than_the_other_side_takes_in() {
    let mut tcp = Scene::new(standard(4), 100);
    // RFC 5681, section 2: "At any given time, a TCP MUST NOT send data with a sequence number higher than the sum of the
    // highest acknowledged sequence number and the minimum of cwnd and rwnd."
    tcp.sends(&[1, 2, 3, 4]).advertises(3 * SEGMENT).at(100).ack(1).sends(&[]).ack(2).sends(&[5]);
    // Only when the first ACK arrived was cwnd fully used.
    tcp.advertises(10 * SEGMENT).ack(3).sends(&[6, 7, 8]).cwnd(5.0);
}

#[test]
fn a_window_that_was_not_used_does_not_grow_except_in_ns_2() {
    // Two of the ten segments that cwnd permits are in flight, because no more were written.
    Scene::new(standard(10), 2).sends(&[1, 2]).at(100).ack(1).cwnd(10.0);
    Scene::new(ns2(NEW_RENO, 10), 2).sends(&[1, 2]).at(100).ack(1).cwnd(11.0);
    // The window permits one more segment.
    Scene::new(standard(4), 3).sends(&[1, 2, 3]).at(100).ack(1).cwnd(4.0);
    // Before the first ACK, three of three segments are in flight. Before the second ACK, two of four are in flight.
    Scene::new(standard(3), 3).sends(&[1, 2, 3]).at(100).ack(1).cwnd(4.0).ack(2).cwnd(4.0);
}

#[test]
fn acks_of_what_was_never_sent_or_long_acknowledged_change_nothing() {
    let mut tcp = Scene::new(standard(4), 100);
    tcp.sends(&[1, 2, 3, 4]).at(100).ack(2).sends(&[5, 6, 7]).cwnd(5.0).timer(1100);
    // RFC 9293, section 3.10.7.4: "If the ACK is a duplicate (SEG.ACK =< SND.UNA), it can be ignored. If the ACK acks
    // something not yet sent (SEG.ACK > SND.NXT), then send an ACK, drop the segment, and return."
    tcp.at(150).advertises(SEGMENT).ack(1).ack(8).cwnd(5.0).timer(1100);
    assert_eq!((tcp.sender().snd_una(), tcp.sender().dupacks()), (2 * SEGMENT, 0));
    tcp.advertises(100 * SEGMENT).ack(7).sends(&[8, 9, 10, 11, 12, 13]);
}

#[test]
fn a_duplicate_carries_no_data_and_something_is_out() {
    let with_data = Segment { ack: 0, len: 10, window: 100_000, flags: ACK, ..Segment::default() };
    let with_fin = Segment { len: 0, flags: Flags { fin: true, ..ACK }, ..with_data };
    let mut tcp = Scene::new(standard(4), 4);
    // RFC 5681, section 2: "(b) the incoming acknowledgment carries no data, (c) the SYN and FIN bits are both off".
    tcp.sends(&[1, 2, 3, 4]).at(100);
    (0..4).for_each(|_| _ = tcp.receives(&with_data).receives(&with_fin));
    assert_eq!(tcp.sender().dupacks(), 0);
    // "(a) the receiver of the ACK has outstanding data".
    tcp.at(110).ack(4).dup().dup().dup().no_timer();
    assert_eq!(tcp.sender().dupacks(), 0);
}

#[test]
fn the_first_two_duplicates_each_release_one_new_segment_if_limited_transmit_is_on() {
    let limited = TcpConfig { limited_transmit: true, ..standard(4) };
    let mut tcp = Scene::new(limited.clone(), 100);
    // RFC 5681, section 3.2, step 1: "On the first and second duplicate ACKs received at a sender, a TCP SHOULD send a
    // segment of previously unsent data per [RFC3042] ... the TCP sender MUST NOT change cwnd to reflect these two segments."
    tcp.sends(&[1, 2, 3, 4]).at(100).dup().sends(&[5]).cwnd(4.0).dup().sends(&[6]).cwnd(4.0);
    // Step 2: "When [RFC3042] is in use, additional data sent in limited transmit MUST NOT be included in this calculation."
    tcp.dup().sends(&[1]).cwnd(2.0).ssthresh(2.0);

    // "provided that the receiver's advertised window allows"
    let mut tcp = Scene::new(limited, 100);
    tcp.sends(&[1, 2, 3, 4]).advertises(5 * SEGMENT).at(100).dup().sends(&[5]).dup().sends(&[]);

    let mut tcp = Scene::new(standard(4), 100);
    tcp.sends(&[1, 2, 3, 4]).at(100).dup().dup().sends(&[]);
}

#[test]
fn what_limited_transmit_may_send_is_gone_with_the_next_ack() {
    let limited = TcpConfig { limited_transmit: true, ..standard(4) };
    let mut tcp = Scene::new(limited, 100);
    // Reordering caused the two duplicate ACKs. After the new ACK, only cwnd limits the sender.
    tcp.sends(&[1, 2, 3, 4]).at(100).dup().dup().sends(&[5, 6]).ack(3).sends(&[7, 8]).cwnd(5.0);
}

#[test]
fn the_timer_starts_with_the_first_segment_restarts_with_each_new_ack_and_stops_when_nothing_is_out() {
    let mut tcp = Scene::new(standard(2), 5);
    // RFC 6298, section 5.1: "Every time a packet containing data is sent (including a retransmission), if the timer is
    // not running, start it running so that it will expire after RTO seconds". Section 2.1: RTO is 1 second at first.
    tcp.sends(&[1, 2]).timer(1000);
    // 5.3: "When an ACK is received that acknowledges new data, restart the retransmission timer".
    tcp.at(100).ack(1).sends(&[3, 4]).timer(1100);
    tcp.at(130).ack(2).sends(&[5]).timer(1130);
    tcp.at(150).dup().timer(1130);
    // 5.2: "When all outstanding data has been acknowledged, turn off the retransmission timer."
    tcp.at(200).ack(5).no_timer();
}

#[test]
fn a_timer_that_expires_resends_the_first_segment_doubles_the_timeout_and_starts_again() {
    let mut tcp = Scene::new(standard(8), 100);
    tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(1000).times_out();
    // RFC 6298, section 5.4: "Retransmit the earliest segment that has not been acknowledged by the TCP receiver."
    tcp.sends(&[1]);
    // 5.5: "The host MUST set RTO <- RTO * 2". 5.6: "Start the retransmission timer, such that it expires after RTO seconds".
    tcp.timer(1000 + 2000);
    // RFC 5681, section 3.1: "upon a timeout ... cwnd MUST be set to no more than the loss window, LW, which equals 1
    // full-sized segment", and equation 4: "ssthresh = max (FlightSize / 2, 2*SMSS)".
    tcp.cwnd(1.0).ssthresh(4.0);
    // "after retransmitting the dropped segment the TCP sender uses the slow start algorithm to increase the window": later segments are
    // retransmitted, too, until an ACK shows that they have arrived.
    tcp.at(1100).ack(1).sends(&[2, 3]).cwnd(2.0);
    tcp.at(1200).ack(2).sends(&[4, 5]).cwnd(3.0);
    tcp.ack(8).sends(&[9, 10, 11, 12]).cwnd(4.0);
    assert_eq!((tcp.sender().stats().timeouts, tcp.sender().stats().retransmitted), (1, 5));
    assert_eq!((tcp.sender().stats().sent, tcp.sender().stats().fast_retransmits), (17, 0));
}

#[test]
fn the_second_timeout_for_the_same_data_leaves_ssthresh_alone_by_rfc_5681_and_halves_it_again_in_ns_2() {
    let mut tcp = Scene::new(standard(8), 100);
    tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(1000).times_out().sends(&[1]).ssthresh(4.0);
    // RFC 5681, section 3.1: "when a TCP sender detects segment loss using the retransmission timer and the given segment
    // has already been retransmitted by way of the retransmission timer at least once, the value of ssthresh is held
    // constant."
    tcp.at(3000).times_out().sends(&[1]).ssthresh(4.0).cwnd(1.0).timer(3000 + 4000);
    tcp.at(7000).times_out().sends(&[1]).ssthresh(4.0).cwnd(1.0).timer(7000 + 8000);
    // The timer has not retransmitted segment 2 before, so the first timeout of segment 2 reduces ssthresh.
    tcp.at(7100).ack(1).sends(&[2, 3]).cwnd(2.0).timer(7100 + 8000);
    tcp.at(15_100).times_out().sends(&[2]).ssthresh(2.0);

    let mut tcp = Scene::new(ns2(NEW_RENO, 8), 100);
    tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(6000).times_out().sends(&[1]).ssthresh(4.0);
    tcp.at(18_000).times_out().sends(&[1]).ssthresh(2.0);
}

#[test]
fn duplicates_of_before_a_timeout_are_forgotten() {
    let mut tcp = Scene::new(TcpConfig { limited_transmit: true, ..standard(4) }, 100);
    tcp.sends(&[1, 2, 3, 4]).at(100).dup().dup().sends(&[5, 6]);
    tcp.at(1000).times_out().sends(&[1]).cwnd(1.0);
    assert_eq!(tcp.sender().dupacks(), 0);
    // One segment is in flight and cwnd is one segment, so the credit of limited transmit is gone, too.
    tcp.at(1100).ack(1).sends(&[2, 3]);
}

#[test]
fn a_segment_that_a_timeout_sent_again_is_no_sample_and_its_ack_does_not_end_the_back_off() {
    let mut tcp = Scene::new(standard(2), 100);
    tcp.sends(&[1, 2]).at(1000).times_out().sends(&[1]).timer(3000);
    // RFC 6298, section 3: "RTT samples MUST NOT be made using segments that were retransmitted (and thus for which it is
    // ambiguous whether the reply was for the first instance of the packet or a later instance)."
    tcp.at(1100).ack(1).sends(&[2, 3]).timer(1100 + 2000);
    tcp.at(1200).ack(2).sends(&[4]).timer(1200 + 2000);
    // Segment 3 was sent only once, at 1.1 s. Its RTT sample ends the back-off.
    tcp.at(1300).ack(3).sends(&[5]).timer(1300 + 1000);
}

#[test]
fn a_segment_sent_before_a_timeout_is_no_sample_even_if_it_was_sent_once() {
    let mut tcp = Scene::new(unsampled(standard(4)), 100);
    // Segment 5 is timed from 100 ms on. The sample of segment 1 makes the timeout 1 s.
    tcp.sends(&[1, 2, 3, 4]).at(100).ack(1).sends(&[5, 6]).timer(1100);
    // BSD and ns-2 stop the measurement at a timeout, because an ACK that waits for a retransmission does not measure the path.
    tcp.at(1100).times_out().sends(&[2]).timer(1100 + 2000);
    tcp.at(1900).ack(6).sends(&[7, 8]).timer(1900 + 2000);
}

#[test]
fn a_fast_retransmit_ends_the_measurement() {
    let mut tcp = Scene::new(standard(6), 100);
    tcp.sends(&[1, 2, 3, 4, 5, 6]).at(100).ack(1).sends(&[7, 8]).timer(1100);
    tcp.dup().dup().dup().sends(&[2]).timer(1100);
    // Segment 7 was timed from 100 ms on and sent only once, but its ACK has waited for the retransmission. A sample of 900 ms would make
    // the timeout 1.15 s. BSD and ns-2 stop the measurement at the fast retransmit.
    tcp.at(1000).ack(8).sends(&[9, 10, 11]).timer(1000 + 1000);
}

#[test]
fn a_segment_that_recovery_sent_twice_is_no_sample() {
    let mut tcp = Scene::new(unsampled(rfc(RecoveryKind::SackRfc6675, 10)), 100);
    tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).at(100);
    tcp.sack(0, &[2..=2]).sack(0, &[2..=3]).sends(&[]).sack(0, &[2..=4]).sends(&[1]).cwnd(5.0);
    // The pipe contains the retransmitted segment and 7 to 10.
    tcp.sack(0, &[2..=5]).sack(0, &[2..=6]).sends(&[]);
    tcp.at(200).sack(0, &[2..=7]).sends(&[11]).sack(0, &[2..=10]).sends(&[12, 13, 14]);
    // Segment 11, timed from 200 ms on, is lost, too. It is retransmitted after three segments above it have arrived.
    tcp.at(300).sack(0, &[12..=14, 2..=10]).sends(&[11, 15, 16, 17]);
    // RFC 6298, section 3: Karn's algorithm. Without a sample, the initial timeout remains.
    tcp.at(400).ack(14).sends(&[18, 19]).timer(400 + 3000);
}

#[test]
fn in_ns_2_s_sack1_a_segment_that_recovery_sent_twice_is_a_sample() {
    let mut tcp = Scene::new(unsampled(rfc(RecoveryKind::Sack1, 10)), 100);
    tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).at(100);
    tcp.sack(0, &[2..=2]).sack(0, &[2..=3]).sack(0, &[2..=4]).sends(&[1]).cwnd(5.0);
    tcp.sack(0, &[2..=5]).sack(0, &[2..=6]).sends(&[]).at(200).sack(0, &[2..=7]).sends(&[11]);
    tcp.sack(0, &[2..=8]).sends(&[12]).sack(0, &[2..=9]).sends(&[13]);
    // Segment 11 is lost and retransmitted. Its sample of 200 ms counts from the first transmission, and the timeout is the minimum.
    tcp.at(300).sack(0, &[12..=12, 2..=9]).sends(&[10]).sack(0, &[12..=13, 2..=9]).sends(&[11]);
    tcp.at(400).ack(13).take();
    tcp.timer(400 + 1000);
}

#[test]
fn a_segment_that_was_sent_once_is_a_sample_although_another_one_was_sent_twice() {
    let mut tcp = Scene::new(unsampled(rfc(RecoveryKind::SackRfc6675, 10)), 100);
    // 1 and 9 are lost.
    tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).at(100);
    (2..=7).for_each(|last| _ = tcp.sack(0, &[2..=last]));
    tcp.sends(&[1, 11]).at(200).sack(0, &[2..=8]).sends(&[12]).sack(0, &[10..=10, 2..=8]).sends(&[13]);
    tcp.sack(0, &[10..=11, 2..=8]).sends(&[14]).sack(0, &[10..=12, 2..=8]).sends(&[9, 15]);
    // Segment 11 is timed from 100 ms on, after the retransmission of segment 1. Segment 9, below it, is retransmitted later.
    tcp.at(400).ack(12).take();
    tcp.timer(400 + 1000);

    let mut tcp = Scene::new(unsampled(rfc(RecoveryKind::SackRfc6675, 10)), 100);
    // 1 and 12 are lost. 12 begins at the end of the timed segment.
    tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).at(100);
    (2..=7).for_each(|last| _ = tcp.sack(0, &[2..=last]));
    tcp.sends(&[1, 11]).sack(0, &[2..=8]).sack(0, &[2..=9]).sack(0, &[2..=10]).sends(&[12, 13, 14]);
    tcp.at(200)
        .sack(0, &[2..=11])
        .sack(0, &[13..=13, 2..=11])
        .sack(0, &[13..=14, 2..=11])
        .sends(&[15, 16, 17]);
    tcp.sack(0, &[13..=15, 2..=11]).sends(&[12, 18]).at(400).ack(11).take();
    tcp.timer(400 + 1000);
}

#[test]
fn one_round_trip_is_measured_at_a_time() {
    // RFC 6298, section 3: "a TCP implementation MUST take at least one RTT measurement per RTT". Segment 1 is timed first. Segment 4, the
    // next one sent after its ACK, is timed next.
    let config = TcpConfig { rto: RtoConfig { min: Span::from_millis(1), ..standard(3).rto }, ..standard(3) };
    let mut tcp = Scene::new(config, 100);
    tcp.sends(&[1, 2, 3]).at(100).ack(1).sends(&[4, 5]).timer(100 + 300);
    // The ACKs of 2 and 3 yield no samples, so the timeout stays at 100 + 4 * 50 ms.
    tcp.at(250).ack(3).sends(&[6, 7, 8]).timer(250 + 300);
    // Segment 4 takes 180 ms. Rule 2.3: SRTT = 7/8 * 100 + 1/8 * 180 = 110, RTTVAR = 3/4 * 50 + 1/4 * 80 = 57.5.
    tcp.at(280).ack(4).sends(&[9, 10]).timer(280 + 110 + 4 * 57 + 2);
}

#[test]
fn the_last_segment_may_be_short_and_the_fin_counts_as_one_byte() {
    let config = TcpConfig { fin: true, ..standard(4) };
    let mut sender = Sender::new(&config, Span::ZERO);
    sender.write(Time::ZERO, 1500, None, true, &config);
    let sent = |seq, len, fin| Some(Transmission { seq, len, fin, retransmission: false, cwr: false });
    assert_eq!(sender.transmit(Time::ZERO, &config), sent(0, 1000, false));
    assert_eq!(sender.transmit(Time::ZERO, &config), sent(1000, 500, true));
    assert_eq!(sender.transmit(Time::ZERO, &config), None);
    let ack = |ack| Segment { ack, window: 100_000, flags: ACK, ..Segment::default() };
    sender.on_ack(ms(100), &ack(1500), &config);
    assert!(!sender.is_done() && sender.deadline().is_some(), "the FIN is out");
    // RFC 9293, section 3.4: a FIN occupies one sequence number and is retransmitted like data.
    assert!(sender.on_timer(ms(1100), &config));
    let retransmission = Transmission { seq: 1500, len: 0, fin: true, retransmission: true, cwr: false };
    assert_eq!(sender.transmit(ms(1100), &config), Some(retransmission));
    sender.on_ack(ms(1200), &ack(1501), &config);
    assert!(sender.is_done() && sender.deadline().is_none());
}

#[test]
fn a_fin_waits_for_the_last_write() {
    let config = TcpConfig { fin: true, ..standard(4) };
    let mut sender = Sender::new(&config, Span::ZERO);
    assert!(!sender.is_done(), "nothing was handed over");
    sender.write(Time::ZERO, 1000, None, false, &config);
    assert_eq!(sender.transmit(Time::ZERO, &config).map(|sent| (sent.seq, sent.fin)), Some((0, false)));
    sender.write(Time::ZERO, 1000, None, true, &config);
    assert_eq!(sender.transmit(Time::ZERO, &config).map(|sent| (sent.seq, sent.fin)), Some((1000, true)));
    assert_eq!(sender.transmit(Time::ZERO, &config), None);
}

#[test]
fn windows_hold_whole_segments() {
    // ns-2 counts packets: half a segment of cwnd permits no segment, even if the last segment is short.
    let config = TcpConfig { halving: Halving::Window, ..ns2(RecoveryKind::Reno, 5) };
    let mut tcp = Scene::of_bytes(config, 8 * SEGMENT + 500);
    tcp.sends(&[1, 2, 3, 4, 5]).at(100).dup().dup().dup().sends(&[1]).cwnd(2.5);
    // The window is 2.5, plus 3 for three duplicate ACKs and 1 for the fourth: six whole segments.
    tcp.dup().sends(&[6]).at(200).ack(6).sends(&[7, 8]).cwnd(2.9).at(300).ack(7).sends(&[9]);
}

fn paced(config: TcpConfig) -> TcpConfig {
    TcpConfig { pacing: crate::pacing::PacingKind::Rbplw, ..config }
}

#[test]
fn the_last_window_is_spread_over_one_round_trip() {
    let mut tcp = Scene::new(paced(ns2(RecoveryKind::Reno, 1)), 7);
    tcp.sends(&[1]).at(200).ack(1).sends(&[2, 3]);
    // CATNIP paper, section III-B: the last packets are sent "over a short interval". Four segments are left and the next round can send
    // four, so they are a quarter of 200 ms apart.
    tcp.at(400).ack(2).sends(&[4]).timer(450).ack(3).sends(&[]);
    tcp.at(450).wakes().sends(&[5]).at(500).wakes().sends(&[6]).at(550).wakes().sends(&[7]);
}

#[test]
fn a_retransmission_does_not_wait_for_its_turn_and_a_duplicate_takes_no_turn_back() {
    let mut tcp = Scene::new(paced(ns2(RecoveryKind::Reno, 4)), 9);
    // Five segments are left and the next round can send eight, so the segments are 40 ms apart.
    tcp.sends(&[1, 2, 3, 4]).at(200).ack(1).sends(&[5]).ack(2).timer(240);
    tcp.at(210).dup().timer(240).at(220).dup().timer(240);
    tcp.at(230).dup().sends(&[3]).window(6).timer(240);
    tcp.at(240).wakes().sends(&[6]).at(280).wakes().sends(&[7]).at(320).wakes().sends(&[8]);
}

#[test]
fn the_last_round_sends_two_windows_in_slow_start_and_one_after_it_and_no_more_than_the_other_side_takes() {
    // Pairs of the receive window and the number of unsent segments that the next round can send, with a window of 4 and an initial
    // ssthresh equal to the receive window.
    for (receive_window, last) in [(20, 8), (8, 8), (6, 6), (4, 4)] {
        let config = TcpConfig { receive_window: receive_window * SEGMENT, ..ns2(RecoveryKind::Reno, 4) };
        let mut tcp = Scene::new(paced(config.clone()), 4 + last);
        tcp.sends(&[1, 2, 3, 4]).at(200).ack(1).sends(&[5]).ack(2).sends(&[]);
        let gap = Span::from_millis(200) / last;
        assert_eq!(tcp.sender().deadline(), Some(ms(200) + gap), "{last} of {receive_window}");
        // With one more segment, the round is not the last one.
        let mut tcp = Scene::new(paced(config), 5 + last);
        tcp.sends(&[1, 2, 3, 4]).at(200).ack(2);
        assert!(
            tcp.take().len() > 1 && tcp.sender().deadline() > Some(ms(700)),
            "{last} of {receive_window}"
        );
    }
}

#[test]
fn what_is_in_flight_counts_at_a_loss_not_what_cwnd_would_have_allowed() {
    let mut tcp = Scene::new(standard(10), 6);
    // RFC 5681, equation 4: "ssthresh = max (FlightSize / 2, 2*SMSS)". Five of six segments are in flight, cwnd is 10.
    tcp.sends(&[1, 2, 3, 4, 5, 6]).at(100).ack(1).dup().dup().dup().sends(&[2]).ssthresh(2.5).cwnd(2.5);
}

#[test]
fn a_connection_whose_syn_was_lost_begins_with_one_segment_and_a_timeout_of_three_seconds() {
    let config = standard(10);
    let mut sender = Sender::new(&config, Span::ZERO);
    sender.on_handshake_retransmitted(&config, Span::ZERO, (1, Span::ZERO));
    sender.write(Time::ZERO, 100 * SEGMENT, None, true, &config);
    // RFC 5681, section 3.1: "if the SYN or SYN/ACK is lost, the initial window used by a sender after a correctly
    // transmitted SYN MUST be one segment".
    assert!(sender.transmit(Time::ZERO, &config).is_some());
    assert_eq!(sender.transmit(Time::ZERO, &config), None);
    // RFC 6298, section 5.7: "the RTO MUST be re-initialized to 3 seconds when data transmission begins".
    assert_eq!(sender.deadline(), Some(ms(3000)));
}

#[test]
fn a_timeout_above_three_seconds_stays_after_a_lost_syn() {
    let config = ns2(RecoveryKind::Reno, 1);
    let mut sender = Sender::new(&config, Span::ZERO);
    sender.on_handshake_retransmitted(&config, Span::ZERO, (1, Span::ZERO));
    sender.write(Time::ZERO, SEGMENT, None, true, &config);
    sender.transmit(Time::ZERO, &config);
    // RFC 6298, section 5.7 applies only if "the TCP implementation is using an RTO less than 3 seconds".
    assert_eq!(sender.deadline(), Some(ms(6000)));
}

#[test]
fn a_handshake_is_a_sample() {
    let config = TcpConfig { rto: RtoConfig { min: Span::from_millis(1), ..standard(1).rto }, ..standard(1) };
    let mut sender = Sender::new(&config, Span::ZERO);
    sender.on_handshake_rtt(Time::ZERO, ms(80), &config);
    sender.write(ms(80), SEGMENT, None, true, &config);
    sender.transmit(ms(80), &config);
    // RFC 6298, section 2.2: R + 4 * R / 2.
    assert_eq!(sender.deadline(), Some(ms(80 + 240)));
}

fn eca(initial_window: u32) -> TcpConfig {
    let control = crate::control::ControlSpec::Eca(crate::control::EcaSpec(Default::default()));
    TcpConfig { control, ..standard(initial_window) }
}

#[test]
fn the_second_message_is_paced_like_the_first() {
    let mut tcp = Scene::new(paced(ns2(RecoveryKind::Reno, 1)), 3);
    // Two segments are left and the next round can send two, so they are 100 ms apart, half of 200 ms.
    tcp.sends(&[1]).at(200).ack(1).sends(&[2]).at(300).wakes().sends(&[3]).at(400).ack(2).at(500).ack(3);
    // Five of nine segments are left when the ACK of the first one arrives. The next round can send eight, so the segments are 40 ms apart.
    tcp.at(600).writes(9 * SEGMENT).sends(&[4, 5, 6, 7]).at(800).ack(4).sends(&[8]).ack(5).timer(840);
}

#[test]
fn early_congestion_avoidance_looks_at_the_message_that_is_being_sent() {
    // At most two windows are unsent, so cwnd grows by one segment per window.
    let mut tcp = Scene::new(eca(4), 8);
    tcp.sends(&[1, 2, 3, 4]).at(100).ack(1).cwnd(4.25).sends(&[5]).at(110).ack(4).sends(&[6, 7, 8]);
    // The second message has 100 segments. More than two windows of it are unsent, so cwnd doubles.
    tcp.at(200).ack(8).at(300).writes(100 * SEGMENT);
    let before = tcp.sender().control().cwnd;
    tcp.sends(&[9, 10, 11, 12]).at(400).ack(9);
    assert_eq!(tcp.sender().control().cwnd, before + SEGMENT);
    tcp.take();
}

#[test]
fn a_message_that_waits_behind_another_one_is_not_a_part_of_it() {
    let mut one = Scene::new(eca(4), 8);
    let mut two = Scene::new(eca(4), 8);
    two.writes(50 * SEGMENT);
    for tcp in [&mut one, &mut two] {
        tcp.sends(&[1, 2, 3, 4]).at(100).ack(1).cwnd(4.25).take();
    }
}

#[test]
fn a_marker_is_told_of_the_message_to_which_a_byte_belongs() {
    let config = standard(4);
    let mut sender = Sender::new(&config, Span::ZERO);
    let context = |bytes| Some(catnip_base::FlowContext::document(bytes));
    sender.write(Time::ZERO, 2500, context(2500), false, &config);
    sender.write(Time::ZERO, 900, context(900), false, &config);
    assert_eq!(sender.message_at(2499), (0, context(2500)));
    assert_eq!(sender.message_at(2500), (2500, context(900)));
    assert_eq!(sender.message_at(3400), (2500, context(900)), "a FIN");
}

#[test]
fn a_short_segment_waits_for_the_ack_of_what_is_out_if_nagle_s_rule_is_on() {
    let config = TcpConfig { nagle: true, ..standard(10) };
    // RFC 896: "inhibit the sending of new TCP segments when new outgoing data arrives from the user if any previously
    // transmitted data on the connection remains unacknowledged."
    let segment = |ack| Segment { ack, window: 100_000, flags: ACK, ..Segment::default() };
    let mut sender = Sender::new(&config, Span::ZERO);
    let leaves = |sender: &mut Sender, now| {
        let mut sent = Vec::new();
        while let Some(it) = sender.transmit(ms(now), &config) {
            sent.push((it.seq, it.len));
        }
        sent
    };
    sender.write(ms(0), 100, None, false, &config);
    assert_eq!(leaves(&mut sender, 0), [(0, 100)], "nothing is out");
    sender.write(ms(10), 100, None, false, &config);
    sender.write(ms(20), 100, None, false, &config);
    assert_eq!(leaves(&mut sender, 20), []);
    sender.on_ack(ms(100), &segment(100), &config);
    assert_eq!(leaves(&mut sender, 100), [(100, 200)], "both together");
    // RFC 1122, section 4.2.3.4: until "the TCP can send a full-sized segment".
    sender.write(ms(110), 1900, None, false, &config);
    assert_eq!(leaves(&mut sender, 110), [(300, 1000)]);
    let off = TcpConfig { nagle: false, ..config.clone() };
    assert_eq!(sender.transmit(ms(110), &off).map(|it| it.len), Some(900));
}

#[test]
fn a_sender_that_was_silent_for_longer_than_its_timeout_begins_anew() {
    // RFC 5681, section 4.1: "a TCP SHOULD set cwnd to no more than RW before beginning transmission if the TCP has not sent
    // data in an interval exceeding the retransmission timeout", with "RW = min(IW,cwnd)".
    let mut tcp = Scene::new(standard(2), 6);
    tcp.sends(&[1, 2]).at(100).ack(2).sends(&[3, 4, 5]).at(110).ack(5).sends(&[6]).at(200).ack(6).cwnd(4.0);
    // The last segment was sent at 110 ms, and the timeout is one second.
    tcp.at(1110).writes(10 * SEGMENT).sends(&[7, 8, 9, 10]);
    let silent = |config| {
        let mut tcp = Scene::new(config, 6);
        for (at, acked) in [(100, 2), (110, 5), (200, 6)] {
            tcp.take();
            tcp.at(at).ack(acked);
        }
        tcp.at(1111).writes(10 * SEGMENT).take().len()
    };
    assert_eq!(silent(standard(2)), 2);
    assert_eq!(silent(TcpConfig { validation: ValidationSpec::None, ..standard(2) }), 4);
}
