use super::*;
use crate::control::bbr::PROBE_RTT;
use crate::control::test_path::{Path, RTT, SEGMENT, close};
use crate::recovery::RecoveryKind;
use crate::testing::rfc;
use crate::{Sender, TcpConfig};

/// Returns a path that a controller has filled with `segments` segments per round trip. The controller is in the cruise phase of ProbeBW.
fn settled(segments: u32) -> Path<Bbr3> {
    let mut path = Path::new(Bbr3Spec);
    for _ in 0..5 {
        path.round(segments, |_| ());
    }
    assert_eq!(path.control.state, State::Cruise, "no more is out than the path holds");
    path
}

/// Returns a function that makes an ACK report the loss of `lost` of 100 segments in flight.
fn loses(lost: u32) -> impl Fn(&mut Delivery) {
    move |ack| {
        ack.lost = lost;
        ack.loss = Some(LossSample { lost, tx_in_flight: 100, is_app_limited: false });
    }
}

fn goes_to(path: &mut Path<Bbr3>, state: State, segments: u32) {
    let until = path.now + Span::from_secs(20);
    while path.control.state != state {
        assert!(path.now < until, "{:?} instead of {state:?}", path.control.state);
        path.round(segments, |_| ());
    }
}

#[test]
fn the_first_rate_is_the_initial_window_per_round_trip_times_four_ln_two() {
    // BBRInitPacingRate: "C.pacing_rate = BBR.StartupPacingGain * nominal_bandwidth", without the margin of one per cent.
    close(Path::new(Bbr3Spec).paced(), 10.0 * 4.0 * std::f64::consts::LN_2);
}

#[test]
fn the_first_window_is_paced_from_its_first_segment_on() {
    // Ten segments of 1000 bytes at 2.77 windows per assumed round trip of a millisecond: one each 36 us.
    let config =
        TcpConfig { control: crate::control::ControlSpec::Bbr3(Bbr3Spec), ..rfc(RecoveryKind::Rack, 10) };
    let mut tcp = Sender::new(&config, Span::ZERO);
    tcp.write(Time::ZERO, 100_000, None, false, &config);
    let mut now = Time::ZERO;
    for segment in 0..10 {
        assert!((now.as_secs() * 1e6 - 36.1 * f64::from(segment)).abs() < 1.0, "{segment} at {now}");
        assert!(tcp.transmit(now, &config).is_some());
        if segment < 9 {
            assert!(tcp.transmit(now, &config).is_none(), "{segment} is not alone");
            now = tcp.deadline().unwrap();
        }
    }
}

#[test]
fn startup_ends_after_three_rounds_that_bring_less_than_a_quarter_more_and_drains_at_half_the_rate() {
    let mut path = Path::new(Bbr3Spec);
    for (acked_sacked, is_full) in
        [(10, false), (20, false), (40, false), (48, false), (48, false), (49, true)]
    {
        path.round(acked_sacked, |ack| ack.packets_in_flight = 200);
        assert_eq!(path.control.full.full_bw_reached, is_full, "{acked_sacked}");
    }
    assert_eq!(path.control.state, State::Drain);
    close(path.paced(), 49.0 / 2.0 * 0.99);
    path.round(49, |ack| ack.packets_in_flight = 50);
    assert_eq!(path.control.state, State::Drain, "more is out than the path holds");
    path.round(49, |ack| ack.packets_in_flight = 49);
    assert_eq!(path.control.state, State::Cruise);
    close(path.paced(), 49.0 * 0.99);
}

#[test]
fn a_queue_that_does_not_drain_ends_drain_in_the_fourth_round() {
    let mut path = Path::new(Bbr3Spec);
    for acked_sacked in [10, 20, 40, 48, 48, 49] {
        path.round(acked_sacked, |ack| ack.packets_in_flight = 200);
    }
    // BBRCheckDrainDone: "BBR.round_count > BBR.drain_start_round + 3".
    for _ in 0..3 {
        path.round(49, |ack| ack.packets_in_flight = 200);
        assert_eq!(path.control.state, State::Drain);
    }
    path.round(49, |ack| ack.packets_in_flight = 200);
    assert_eq!(path.control.state, State::Down);
    close(path.paced(), 49.0 * 0.9 * 0.99);
}

#[test]
fn startup_ends_with_six_losses_in_a_round_of_recovery_if_more_than_two_per_cent_were_lost() {
    let ends = |loss_events_in_round: u32, lost: u32| {
        let mut path = Path::new(Bbr3Spec);
        path.round(100, |ack| ack.packets_in_flight = 200);
        for _ in 0..2 {
            // Several ACKs within a round report a loss.
            for _ in 1..loss_events_in_round {
                path.round(0, |ack| {
                    loses(lost)(ack);
                    ack.recovery_state = RecoveryState::Recovery;
                    ack.packets_in_flight = 200;
                    ack.rate.as_mut().unwrap().prior_delivered = 0;
                });
            }
            path.round(120, |ack| {
                loses(lost)(ack);
                ack.recovery_state = RecoveryState::Recovery;
                ack.packets_in_flight = 200;
                ack.rate.as_mut().unwrap().lost = lost;
                ack.rate.as_mut().unwrap().tx_in_flight = 100;
            });
        }
        (path.control.state, path.control.inflight_longterm)
    };
    assert_eq!(ends(6, 3), (State::Drain, Some(120)), "what the path holds");
    assert_eq!(ends(6, 2), (State::Startup, None), "two per cent are no more than two per cent");
    assert_eq!(ends(2, 3), (State::Startup, None), "few losses");
}

#[test]
fn probing_goes_down_cruises_refills_for_a_round_and_goes_up_until_no_more_arrives() {
    let mut path = settled(50);
    let mut states = vec![State::Cruise];
    let mut gains = vec![path.paced() / 50.0 / 0.99];
    while states.len() < 5 {
        let out = if path.control.state == State::Down { 50 } else { 40 };
        path.round(50, |ack| (ack.prior_in_flight, ack.packets_in_flight) = (out, out));
        if *states.last().unwrap() != path.control.state {
            states.push(path.control.state);
            gains.push(path.paced() / 50.0 / 0.99);
        }
        assert!(path.now < Time::ZERO + Span::from_secs(20));
    }
    assert_eq!(states, [State::Cruise, State::Refill, State::Up, State::Down, State::Cruise]);
    for (gain, expected) in gains.iter().zip([1.0, 1.0, 1.25, 0.9, 1.0]) {
        close(*gain, expected);
    }
}

#[test]
fn it_probes_after_two_to_three_seconds_or_as_soon_as_reno_would() {
    // With 50 segments per round trip, coexistence with Reno requires a probe after 50 rounds, which is later than three seconds.
    let waited = |segments: u32| {
        let mut path = settled(segments);
        let from = path.now;
        goes_to(&mut path, State::Refill, segments);
        path.now.since(from).as_secs()
    };
    assert!((2.0..3.2).contains(&waited(50)), "{}", waited(50));
    let small = waited(8);
    assert!((0.6..0.95).contains(&small), "eight rounds of 0.1 s, or seven: {small}");
}

#[test]
fn a_probe_that_loses_more_than_two_per_cent_sets_the_long_term_bound_to_where_it_did() {
    let mut path = settled(100);
    goes_to(&mut path, State::Up, 100);
    // Three of 100 segments in flight are lost; the second loss reaches two per cent.
    path.round(100, loses(3));
    assert_eq!(path.control.state, State::Down);
    // lost_prefix = (0.02 * 99 - 2) / 0.98 < 0, so the bound is 98.
    assert_eq!(path.control.inflight_longterm, Some(98));
    assert!(path.segments() <= 98, "{}", path.segments());
    goes_to(&mut path, State::Cruise, 80);
    path.round(80, |_| ());
    assert!(path.segments() <= 84, "15 % stay free while it cruises: {}", path.segments());
}

#[test]
fn losses_outside_of_a_probe_lower_the_short_term_bounds_by_three_tenths_at_most_until_the_next_probe() {
    let mut path = settled(100);
    goes_to(&mut path, State::Cruise, 100);
    path.round(100, loses(1));
    (0..3).for_each(|_| path.round(60, |_| ()));
    let bw = path.control.bw_shortterm.unwrap() as f64 / path.control.max_bandwidth() as f64;
    assert!((0.69..=1.0).contains(&bw), "{bw}");
    assert!(path.control.inflight_shortterm.is_some());
    goes_to(&mut path, State::Refill, 60);
    assert_eq!((path.control.bw_shortterm, path.control.inflight_shortterm), (None, None));
}

/// Returns a path that cruises at 100 segments per round trip, and then loses a segment in a round in which `arriving` segments arrive.
/// The next ACK ends the round of the loss.
fn lost_while(arriving: u32) -> Path<Bbr3> {
    let mut path = settled(100);
    goes_to(&mut path, State::Cruise, 100);
    path.round(arriving, |_| ());
    path.round(arriving, loses(1));
    path
}

#[test]
fn a_short_term_bound_is_seven_tenths_of_the_last_one_where_less_was_delivered() {
    // BBRLossLowerBounds: "BBR.bw_shortterm = max(BBR.bw_latest, BBRBeta * BBR.bw_shortterm)", and the same of inflight. BBRInitLowerBounds
    // begins with BBR.max_bw and cwnd. 60 of 100 segments are less than 70.
    let mut path = lost_while(60);
    path.control.set_cwnd(200 * u64::from(SEGMENT), None);
    path.round(60, |_| ());
    close(path.control.bw_shortterm.unwrap() as f64, 0.7 * bandwidth(100, RTT) as f64);
    assert_eq!(path.control.inflight_shortterm, Some(200 * BETA as u32 / UNIT as u32));
    // Another round with a loss takes three tenths of what is left: 49 of 100, where 40 are delivered.
    path.round(40, |_| ());
    path.round(40, loses(1));
    path.round(40, |_| ());
    close(path.control.bw_shortterm.unwrap() as f64, 0.49 * bandwidth(100, RTT) as f64);
}

#[test]
fn a_short_term_bound_is_what_was_delivered_where_that_is_more_than_seven_tenths() {
    let mut path = lost_while(90);
    path.control.set_cwnd(100 * u64::from(SEGMENT), None);
    path.round(90, |_| ());
    assert_eq!(path.control.bw_shortterm, Some(bandwidth(90, RTT)));
    assert_eq!(path.control.inflight_shortterm, Some(90));
}

#[test]
fn the_long_term_bound_grows_by_one_segment_in_a_probe_s_first_round_and_by_twice_as_many_in_each_next() {
    let mut path = settled(100);
    goes_to(&mut path, State::Up, 100);
    path.round(100, loses(3));
    // The loss has set the bound to 98 segments. The next probe fills it.
    goes_to(&mut path, State::Cruise, 80);
    // A shorter round trip postpones ProbeRTT by five seconds.
    path.round(80, |ack| ack.rtt = Some(Span::from_micros(99_999)));
    goes_to(&mut path, State::Up, 80);
    let mut bound = path.control.inflight_longterm.unwrap();
    assert_eq!((bound, path.segments()), (98, 98));
    for growth in [1, 2, 4] {
        // BBRRaiseInflightLongtermSlope: "growth_this_round = 1 MSS << BBR.bw_probe_up_rounds", "BBR.probe_up_cnt = max(cwnd /
        // growth_this_round, 1)": while cwnd segments are acknowledged, the bound grows by 1, 2, 4, ... segments.
        let window = path.control.cwnd;
        path.round(window, |ack| {
            ack.prior_in_flight = window;
            ack.rate.as_mut().unwrap().tx_in_flight = bound;
        });
        assert_eq!(path.control.state, State::Up);
        assert_eq!(path.control.inflight_longterm, Some(bound + growth), "after a round of {window}");
        bound += growth;
    }
}

#[test]
fn a_loss_that_was_none_gives_the_bounds_back() {
    let mut path = settled(100);
    goes_to(&mut path, State::Up, 100);
    path.control.on_congestion(&Congestion {
        now: path.now,
        cause: Cause::Loss,
        in_flight: 0,
        receive_window: 0,
        repeated: false,
    });
    path.round(100, loses(3));
    assert_eq!(path.control.state, State::Down);
    path.control.on_spurious(path.now);
    assert_eq!((path.control.state, path.control.inflight_longterm), (State::Up, None));
}

#[test]
fn a_round_trip_of_five_seconds_age_is_measured_anew_with_half_of_what_the_path_holds() {
    let mut path = settled(100);
    let from = path.now;
    while path.control.state != State::ProbeRtt {
        path.round(100, |ack| ack.rtt = Some(RTT * 2));
        assert!(path.now < Time::ZERO + Span::from_secs(9));
    }
    assert!(path.now.since(from) > Span::from_secs(4));
    assert_eq!(path.segments(), 50);
    assert!(path.control.is_cwnd_reduced_for_probe());
    let began = path.now;
    while path.control.state == State::ProbeRtt {
        path.round(50, |_| ());
    }
    assert!(path.now > began + PROBE_RTT && path.now <= began + PROBE_RTT + RTT * 3);
    assert_eq!(path.control.state, State::Cruise);
    assert!(u64::from(SEGMENT) * 50 < path.control.control().cwnd);
}
