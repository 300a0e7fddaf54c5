use super::*;
use crate::control::test_path::{Path, RTT, SEGMENT, close};

/// Returns a path that a controller has filled with `segments` segments per round trip. The controller is in ProbeBW.
fn settled(segments: u32) -> Path<Bbr> {
    let mut path = Path::new(BbrSpec);
    for _ in 0..8 {
        path.round(segments, |_| ());
    }
    path.round(segments, |ack| ack.packets_in_flight = segments);
    assert_eq!(path.control.mode, Mode::ProbeBw);
    path
}

#[test]
fn the_first_rate_is_the_initial_window_per_round_trip_times_two_over_ln_two_less_a_per_cent() {
    close(Path::new(BbrSpec).paced(), 10.0 * 2.0 / std::f64::consts::LN_2 * 0.99);
}

#[test]
fn startup_ends_after_three_rounds_that_bring_less_than_a_quarter_more_and_then_drains() {
    let mut path = Path::new(BbrSpec);
    for (acked_sacked, full_bw_reached) in
        [(10, false), (20, false), (40, false), (48, false), (48, false), (49, true)]
    {
        path.round(acked_sacked, |ack| ack.packets_in_flight = 200);
        assert_eq!(path.control.full_bw_reached, full_bw_reached, "{acked_sacked}");
    }
    assert_eq!(path.control.mode, Mode::Drain);
    close(path.paced(), 49.0 * std::f64::consts::LN_2 / 2.0 * 0.99);
    // ssthresh: a BDP of 49 segments and three bursts of two segments, rounded up to an even number.
    assert_eq!(path.control.control().ssthresh, Some(56 * u64::from(SEGMENT)));
    path.round(49, |ack| ack.packets_in_flight = 57);
    assert_eq!(path.control.mode, Mode::Drain);
    path.round(49, |ack| ack.packets_in_flight = 56);
    assert_eq!(path.control.mode, Mode::ProbeBw);
}

#[test]
fn rounds_that_the_application_limits_do_not_fill_the_pipe() {
    let mut path = Path::new(BbrSpec);
    for _ in 0..20 {
        path.round(10, |ack| ack.rate.as_mut().unwrap().is_app_limited = true);
    }
    assert_eq!(path.control.mode, Mode::Startup);
}

#[test]
fn probing_goes_through_eight_phases_of_which_one_sends_a_quarter_more_and_the_next_drains_it() {
    let mut path = settled(50);
    let mut gains = Vec::new();
    for _ in 0..16 {
        gains.push((path.paced() / 50.0 / 0.99 * 100.0).round() as u32);
        // While the controller probes, the number of segments in flight reaches the controller's target.
        let out = if path.control.cycle_idx == 0 { 80 } else { 60 };
        path.round(50, |ack| (ack.prior_in_flight, ack.packets_in_flight) = (out, out));
    }
    let probe = gains.iter().position(|&gain| gain == 125).unwrap();
    assert_eq!(gains[probe..probe + 8], [125, 75, 100, 100, 100, 100, 100, 100]);
    assert_eq!(
        path.segments(),
        156,
        "twice what the path holds, three bursts of two, and what one ACK brings"
    );
}

#[test]
fn an_old_round_trip_is_measured_anew_with_four_segments_for_a_fifth_of_a_second() {
    let mut path = settled(50);
    let before = path.segments();
    // The RTT is longer for ten seconds.
    while path.control.mode != Mode::ProbeRtt {
        path.round(50, |ack| ack.rtt = Some(RTT * 2));
        assert!(path.now < Time::ZERO + Span::from_secs(30));
    }
    assert_eq!(path.segments(), 4);
    assert!(path.control.is_cwnd_reduced_for_probe());
    path.round(4, |ack| ack.packets_in_flight = 4);
    let began = path.now;
    while path.control.mode == Mode::ProbeRtt {
        path.round(4, |ack| ack.packets_in_flight = 4);
    }
    assert!(path.now > began + PROBE_RTT && path.now <= began + PROBE_RTT + RTT * 2);
    assert_eq!(path.control.min_rtt, Some(RTT), "that of the last rounds");
    assert!(path.segments() + 4 >= before, "the window is what it was");
}

#[test]
fn the_least_round_trip_is_kept_for_ten_seconds_and_is_measured_anew_in_the_next_round() {
    let mut path = settled(50);
    let measured = path.now;
    while path.control.mode != Mode::ProbeRtt {
        assert_eq!(path.control.min_rtt, Some(RTT), "at {}", path.now);
        path.round(50, |ack| ack.rtt = Some(RTT * 2));
    }
    // tcp_bbr.c, "min_rtt = windowed_min(rtt, 10 seconds)". bbr_update_min_rtt: the filter has expired if it is "after" min_rtt_stamp plus
    // bbr_min_rtt_win_sec, which is 10.
    let age = path.now.since(measured);
    assert!(age > Span::from_secs(10) && age <= Span::from_secs(10) + RTT * 2, "{age}");
}

#[test]
fn what_the_application_limits_raises_the_bandwidth_but_never_lowers_it() {
    let mut path = settled(50);
    let kept = path.control.bw.get();
    // bbr_update_bw: "if (!rs->is_app_limited || bw >= bbr_max_bw(sk))". The filter spans ten rounds, so that rounds that counted would
    // leave nothing of the earlier rate.
    for _ in 0..20 {
        path.round(20, |ack| ack.rate.as_mut().unwrap().is_app_limited = true);
        assert_eq!(path.control.bw.get(), kept);
    }
    path.round(60, |ack| ack.rate.as_mut().unwrap().is_app_limited = true);
    assert_eq!(path.control.bw.get(), bandwidth(60, RTT), "more arrived than was known to be possible");
    // The same rounds lower the estimate if the path limits them.
    (0..11).for_each(|_| path.round(20, |_| ()));
    assert_eq!(path.control.bw.get(), bandwidth(20, RTT));
}

#[test]
fn a_loss_keeps_the_window_to_what_is_out_for_a_round_and_its_end_gives_it_back() {
    let mut path = settled(50);
    (0..4).for_each(|_| path.round(50, |_| ()));
    let before = path.segments();
    let out = |ack: &mut Delivery| {
        (ack.recovery_state, ack.lost, ack.packets_in_flight) = (RecoveryState::Recovery, 2, 40);
        ack.rate.as_mut().unwrap().prior_delivered = 0;
    };
    path.control.on_congestion(&Congestion {
        now: path.now,
        cause: Cause::Loss,
        in_flight: 0,
        receive_window: 0,
        repeated: false,
    });
    path.round(3, out);
    assert_eq!(path.segments(), 43, "what is out and what has arrived");
    path.round(1, |ack| ack.packets_in_flight = 40);
    assert!(path.segments() >= before.min(106), "{} of {before}", path.segments());
}

#[test]
fn two_intervals_with_the_same_rate_and_a_fifth_lost_are_a_policer_whose_rate_is_kept() {
    let mut path = settled(50);
    for _ in 0..12 {
        path.lost += 20;
        path.round(40, |ack| ack.lost = 20);
    }
    assert!(path.control.policer.rate().is_some());
    close(path.paced(), 40.0 * 0.99);
    for _ in 0..60 {
        path.round(40, |_| ());
    }
    assert_eq!(path.control.policer.rate(), None, "after 48 rounds it probes again");
}

#[test]
fn a_timeout_ends_an_interval_of_the_policer_with_what_it_found_lost() {
    // tcp_enter_loss marks what is out as lost, and then calls bbr_set_state, whose rate sample has a loss. "lost / delivered >= 20%":
    // 40 of 204 segments are above 50/256 of them, 39 are not.
    let believed = |lost: u64| {
        let mut path = settled(50);
        path.lost += 1;
        path.round(50, |ack| ack.lost = 1);
        for _ in 0..2 {
            (0..4).for_each(|_| path.round(51, |_| ()));
            path.timeout(lost);
        }
        path.control.policer.rate().is_some()
    };
    assert_eq!([39, 40].map(believed), [false, true]);
}
