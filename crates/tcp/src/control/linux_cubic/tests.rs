use super::*;
use catnip_base::math;
use proptest::prelude::*;

fn ms(n: u64) -> Time {
    Time::ZERO + Span::from_millis(n)
}

/// Returns a controller with segments of 1000 bytes and a window of `window` segments.
fn cubic(window: u32) -> Box<LinuxCubic> {
    LinuxCubicSpec { slow_start: SlowStartKind::Standard }.build(&Start {
        segment_bytes: 1000,
        window,
        ssthresh: None,
        halving: crate::Halving::Window,
        grow_unused: false,
        byte_counting: true,
    })
}

fn acks(it: &mut LinuxCubic, at: Time, segments: u64) {
    it.on_ack(&Ack {
        now: at,
        bytes: segments * 1000,
        in_flight: 0,
        snd_una: 0,
        snd_max: 0,
        unsent: 0,
        delivered: segments * 1000,
        marked: 0,
        rtt: Some(Span::from_millis(100)),
        srtt: None,
        cwnd_limited: true,
    });
}

fn event(cause: Cause, repeated: bool) -> Congestion {
    Congestion { now: Time::ZERO, cause, in_flight: 0, receive_window: u64::MAX, repeated }
}

proptest! {
    /// RFC 9438, equation 1: W_cubic(t) = C * (t - K)^3 + W_max, with K of equation 2. Windows below the plateau are rounded up to whole
    /// segments, windows above the plateau are rounded down. 410/1024 is 0.1 % more than 0.4.
    #[test]
    fn the_law_is_the_rfc_s_to_within_a_segment(cwnd in 2u64..3000, delta in 0u64..3000, ticks in 0u64..5000) {
        let cubic = CubicFunction::new(cwnd, cwnd + delta);
        let (t, c) = (ticks as f64 / 250.0, 410.0 / 1024.0);
        let k = math::cbrt(delta as f64 / c);
        let expected = (c * (t - k).powi(3) + (cwnd + delta) as f64).max(0.0);
        let tolerance = 1.0 + 3.0 * c * (t - k).powi(2) / 512.0;
        prop_assert!((cubic.target(ticks) as f64 - expected).abs() <= tolerance, "{} for {expected}", cubic.target(ticks));
    }

    #[test]
    fn a_cube_root_is_the_greatest_whole_one(of in 0u64..1 << 62) {
        let root = u128::from(cube_root(of));
        prop_assert!(root.pow(3) <= of.into() && (root + 1).pow(3) > of.into());
    }
}

#[test]
fn after_a_loss_at_fourteen_it_grows_as_a_kernel_was_seen_to() {
    // Measured with Linux 6.18 on a path of 100 ms, with one loss: "cwnd 9" at 217 ms, 10 at 309, 11 at 413, 12 at 514, 13 at 814.
    let mut it = cubic(14);
    it.on_congestion(&event(Cause::Loss, false));
    assert_eq!((it.cwnd, it.ssthresh, it.last_max_cwnd), (9, 9, 14));
    acks(&mut it, ms(216), 1);
    let round = |at: u64| {
        (0..it.cwnd).for_each(|n| acks(&mut it, ms(at + n), 1));
        it.cwnd
    };
    let seen = [304, 406, 507, 608, 710, 811].map(round);
    assert_eq!(seen, [10, 11, 12, 12, 12, 13]);
}

#[test]
fn fast_convergence_remembers_less_and_a_timeout_nothing() {
    let mut it = cubic(100);
    it.on_congestion(&event(Cause::Loss, false));
    assert_eq!((it.cwnd, it.last_max_cwnd), (70, 100));
    it.on_congestion(&event(Cause::Loss, false));
    // 70 * (1024 + 717) / 2048.
    assert_eq!((it.cwnd, it.last_max_cwnd), (49, 59));
    it.on_congestion(&event(Cause::Restart, false));
    assert_eq!((it.cwnd, it.ssthresh, it.last_max_cwnd), (1, 34, 0));
    // RFC 5681, section 3.1: a repeated timeout leaves ssthresh unchanged.
    it.on_congestion(&event(Cause::Restart, true));
    assert_eq!((it.cwnd, it.ssthresh), (1, 34));
}

#[test]
fn slow_start_ends_at_ssthresh_and_what_is_left_of_an_ack_counts_for_avoidance() {
    let mut it = cubic(10);
    it.on_congestion(&event(Cause::Restart, false));
    it.set_cwnd(5000, None);
    acks(&mut it, ms(0), 4);
    assert_eq!((it.cwnd, it.ssthresh, it.cwnd_cnt), (7, 7, 2));
}

#[test]
fn a_spurious_episode_is_undone_and_silence_is_no_time_of_a_stage() {
    let mut it = cubic(100);
    it.on_congestion(&event(Cause::Loss, false));
    it.on_spurious(Time::ZERO);
    assert_eq!((it.cwnd, it.ssthresh), (100, u64::MAX));
    it.on_congestion(&event(Cause::Loss, false));
    acks(&mut it, ms(1000), 1);
    let start = |now, since_ms| TxStart {
        now: ms(now),
        since_sent: Span::from_millis(since_ms),
        is_app_limited: false,
    };
    it.on_tx_start(&start(9000, 7000));
    assert_eq!(it.epoch.unwrap().start, ms(8000));
    it.on_tx_start(&start(10_000, 7000));
    assert_eq!(it.epoch.unwrap().start, ms(10_000));
}
