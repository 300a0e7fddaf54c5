//! Named sets of TCP parameters.
//!
//! `ns2-2002` and `ns2-2.35` follow ns-2, the simulator of the papers, and are verified by measurements of its last release. `rfc` follows
//! current standards.

use crate::control::validated::ValidationSpec;
use crate::control::{ControlSpec, LinuxCubicSpec, RenoSpec};
use crate::pacing::PacingKind;
use crate::recovery::RecoveryKind;
use crate::{DelayedAck, EcnKind, Halving, InitialSsthresh, RtoConfig, TcpConfig};
use catnip_base::{ParseError, Span};

/// Names that [`by_name`] accepts, with their descriptions.
pub const NAMES: [(&str, &str); 7] = [
    (
        "ns2-2002",
        "ns-2 of the CATNIP paper: no SYN, no headers, tick 100 ms, first RTO 6 s, no minimum RTO of 1 s",
    ),
    ("ns2-2.35", "defaults of ns-2 2.35 without SYN: headers, tick 10 ms, first RTO 3 s, minimum RTO 0.2 s"),
    (
        "ns2-s001",
        "ns2-2.35 with a minimum RTO of 1 s and a window of 24: simulations of the hysteresis paper",
    ),
    (
        "bsd-reno",
        "Reno with a window of 24, minimum RTO 1 s, an ACK per two packets or per tick of a 200 ms clock",
    ),
    (
        "linux-2.0",
        "Linux of the testbed paper: Reno without SACK, 100 Hz, first RTO 3 s, for SYN and data, RTO 0.2 to 120 s",
    ),
    (
        "linux-6",
        "defaults of Linux 6: RACK-TLP, CUBIC with HyStart, initial window 10, quick ACKs, minimum RTO 0.2 s, timestamps",
    ),
    ("rfc", "RFC 5681, 6298, 6582, 6675, 3042, 6928: SYN and FIN, initial window 10, first RTO 1 s"),
];

/// Returns the parameters of the profile `name`, or an error that lists the names.
pub fn by_name(name: &str) -> Result<TcpConfig, ParseError> {
    match name {
        "ns2-2002" => Ok(ns2_2002()),
        "ns2-2.35" => Ok(ns2_235()),
        "ns2-s001" => Ok(ns2_s001()),
        "bsd-reno" => Ok(bsd_reno()),
        "linux-2.0" => Ok(linux_20()),
        "linux-6" => Ok(linux_6()),
        "rfc" => Ok(rfc()),
        _ => {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            Err(ParseError::new(name, format!("a TCP profile ({})", names.join(", "))))
        }
    }
}

/// Returns the parameters of ns-2 in the CATNIP paper: the `era` preset of the ns-2 measurements in `python/catnip/reference/ns2`.
pub fn ns2_2002() -> TcpConfig {
    TcpConfig {
        segment_bytes: 512,
        header_bytes: 0,
        first_without_header: false,
        pads_segments: true,
        ack_bytes: 40,
        sack_block_bytes: 8,
        initial_window: 1,
        receive_window: 20 * 512,
        tunes_window: false,
        timestamps: false,
        initial_ssthresh: InitialSsthresh::ReceiveWindow,
        recovery: RecoveryKind::Reno,
        control: ControlSpec::Reno(RenoSpec::default()),
        halving: Halving::WholeSegments,
        grow_unused: true,
        byte_counting: false,
        grow_on_exit: true,
        pacing: PacingKind::None,
        nagle: false,
        validation: ValidationSpec::None,
        ecn: EcnKind::None,
        limited_transmit: false,
        earliest_fast_retransmit: 2,
        second_always_fast: false,
        inflate_without_retransmit: true,
        tahoe_keeps_dupacks: true,
        recovery_burst: 2,
        rto: RtoConfig {
            tick: Span::from_millis(100),
            first: Span::from_secs(6),
            min: Span::ZERO,
            max: Span::from_secs(100_000),
            floor_before_backoff: false,
        },
        delayed_ack: None,
        handshake: false,
        segmentation_offload: false,
        timer_wheel: false,
        syn_linear_timeouts: 0,
        times_handshake: true,
        fin: false,
    }
}

/// Returns the default parameters of ns-2 2.35, without SYN: the `ns235` preset of the ns-2 measurements.
pub fn ns2_235() -> TcpConfig {
    TcpConfig {
        header_bytes: 40,
        first_without_header: true,
        halving: Halving::Window,
        limited_transmit: true,
        second_always_fast: true,
        inflate_without_retransmit: false,
        rto: RtoConfig {
            tick: Span::from_millis(10),
            first: Span::from_secs(3),
            min: Span::from_millis(200),
            max: Span::from_secs(60),
            floor_before_backoff: true,
        },
        ..ns2_2002()
    }
}

/// Returns the parameters of ns-2 2.35 with a minimum RTO of 1 s and a window of 24: the `s001` preset of the ns-2 measurements.
pub fn ns2_s001() -> TcpConfig {
    let base = ns2_235();
    TcpConfig {
        segment_bytes: 1433,
        receive_window: 24 * 1433,
        rto: RtoConfig { min: Span::from_secs(1), ..base.rto },
        ..base
    }
}

/// Returns the parameters of BSD Reno as described in the hysteresis paper (sections 3 and 4): MSS 1433, window and ssthresh 24, and an RTO
/// of at least 1 s. The ACK timer of the receiver fires every 200 ms, so that a single packet waits 100 ms on average.
pub fn bsd_reno() -> TcpConfig {
    TcpConfig {
        limited_transmit: false,
        second_always_fast: false,
        tahoe_keeps_dupacks: false,
        first_without_header: false,
        halving: Halving::WholeSegments,
        delayed_ack: Some(DelayedAck {
            every: 2,
            max_delay: Span::from_millis(200),
            first_at_once: false,
            delays_duplicates: false,
            heartbeat: true,
            quick: 0,
            quick_after: Span::ZERO,
            linux: false,
            sack_delay: Span::ZERO,
        }),
        ..ns2_s001()
    }
}

/// Returns the parameters of Linux 2.0.34 as described in the testbed paper (section III-C, tbp08 to tbp14): Reno, a clock of 100 Hz, and
/// an initial window of 2. The first RTO is 3 s for data, too, because the handshake is not timed.
pub fn linux_20() -> TcpConfig {
    TcpConfig {
        segment_bytes: 1460,
        header_bytes: 40,
        ack_bytes: 40,
        initial_window: 2,
        receive_window: 22 * 1460,
        recovery: RecoveryKind::Reno,
        halving: Halving::WholeSegments,
        grow_unused: true,
        limited_transmit: false,
        rto: RtoConfig {
            tick: Span::from_millis(10),
            first: Span::from_secs(3),
            min: Span::from_millis(200),
            max: Span::from_secs(120),
            floor_before_backoff: true,
        },
        times_handshake: false,
        ..rfc()
    }
}

/// Returns the parameters of Linux 6.18 on a newly installed system (net/ipv4/tcp.c, tcp_input.c, tcp_timer.c, and sysctl).
pub fn linux_6() -> TcpConfig {
    TcpConfig {
        receive_window: 16 << 20,
        tunes_window: true,
        timestamps: true,
        recovery: RecoveryKind::Rack,
        control: ControlSpec::LinuxCubic(LinuxCubicSpec::default()),
        halving: Halving::Cwnd,
        byte_counting: true,
        validation: ValidationSpec::Linux,
        segmentation_offload: true,
        timer_wheel: true,
        syn_linear_timeouts: 4,
        rto: RtoConfig { min: Span::from_millis(200), max: Span::from_secs(120), ..rfc().rto },
        delayed_ack: rfc().delayed_ack.map(|standard| DelayedAck {
            // TCP_DELACK_MIN, TCP_MAX_QUICKACKS, and tcp_comp_sack_delay_ns.
            max_delay: Span::from_millis(40),
            quick: 16,
            linux: true,
            sack_delay: Span::from_millis(1),
            ..standard
        }),
        ..rfc()
    }
}

/// Returns the parameters of current standards.
pub fn rfc() -> TcpConfig {
    TcpConfig {
        segment_bytes: 1448,
        header_bytes: 52,
        first_without_header: false,
        pads_segments: false,
        ack_bytes: 52,
        sack_block_bytes: 8,
        initial_window: 10,
        receive_window: 1 << 20,
        tunes_window: false,
        timestamps: false,
        initial_ssthresh: InitialSsthresh::Infinite,
        recovery: RecoveryKind::SackRfc6675,
        control: ControlSpec::Reno(RenoSpec::default()),
        halving: Halving::Flight,
        grow_unused: false,
        byte_counting: false,
        grow_on_exit: false,
        pacing: PacingKind::None,
        nagle: false,
        validation: ValidationSpec::Restart,
        ecn: EcnKind::None,
        limited_transmit: true,
        earliest_fast_retransmit: 0,
        second_always_fast: false,
        inflate_without_retransmit: false,
        tahoe_keeps_dupacks: false,
        recovery_burst: u32::MAX,
        rto: RtoConfig {
            tick: Span::from_micros(1),
            first: Span::from_secs(1),
            min: Span::from_secs(1),
            max: Span::from_secs(60),
            floor_before_backoff: true,
        },
        delayed_ack: Some(DelayedAck {
            every: 2,
            max_delay: Span::from_millis(200),
            first_at_once: false,
            delays_duplicates: false,
            heartbeat: false,
            quick: 0,
            quick_after: Span::ZERO,
            linux: false,
            sack_delay: Span::ZERO,
        }),
        segmentation_offload: false,
        timer_wheel: false,
        syn_linear_timeouts: 0,
        handshake: true,
        times_handshake: true,
        fin: true,
    }
}

/// Returns the parameters for enabling delayed ACKs in a profile that has none: an ACK per two segments, delayed by at most 200 ms
/// (catp24).
pub fn delayed_ack(profile: &TcpConfig) -> DelayedAck {
    // ns-2 2.35 acknowledges the first packet immediately, ns-2 of 2002 does not.
    let first_at_once = profile.first_without_header;
    let max_delay = Span::from_millis(200);
    DelayedAck {
        every: 2,
        max_delay,
        first_at_once,
        delays_duplicates: true,
        heartbeat: false,
        quick: 0,
        quick_after: Span::ZERO,
        linux: false,
        sack_delay: Span::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_known_and_another_one_is_an_error_that_lists_them() {
        let expected = [ns2_2002(), ns2_235(), ns2_s001(), bsd_reno(), linux_20(), linux_6(), rfc()];
        let known = NAMES.map(|(name, _)| by_name(name).unwrap());
        assert_eq!(known, expected);
        let error = by_name("cubic").unwrap_err().to_string();
        assert!(NAMES.iter().all(|(name, _)| error.contains(name)), "{error}");
    }

    #[test]
    fn ns_2_of_2002_has_the_parameters_of_the_catnip_paper() {
        let tcp = ns2_2002();
        // catp21, catp22, catp24. Packets have 512 bytes, and windows have 20 packets.
        assert_eq!((tcp.rto.first, tcp.initial_window), (Span::from_secs(6), 1));
        assert_eq!((tcp.segment_bytes, tcp.header_bytes, tcp.receive_window), (512, 0, 10_240));
        let every_second = delayed_ack(&tcp);
        assert_eq!((every_second.every, every_second.max_delay), (2, Span::from_millis(200)));
        assert!(!every_second.first_at_once && !every_second.heartbeat);
        assert!(!tcp.handshake && !tcp.fin && !tcp.limited_transmit && tcp.inflate_without_retransmit);
    }

    #[test]
    fn ns_2_2_35_has_the_defaults_of_its_release() {
        let tcp = ns2_235();
        // tcl/lib/ns-default.tcl: tcpTick_ 0.01, rtxcur_init_ 3, minrto_ 0.2, maxrto_ 60, rfc2988_ on, singledup_ on,
        // bugFix_ss_ on, precisionReduce_ on, exitFastRetrans_ on, useHeaders_ on with 40 bytes.
        let ms = Span::from_millis;
        let rto = RtoConfig {
            tick: ms(10),
            first: ms(3000),
            min: ms(200),
            max: ms(60_000),
            floor_before_backoff: true,
        };
        assert_eq!(tcp.rto, rto);
        assert!(tcp.limited_transmit && tcp.second_always_fast && !tcp.inflate_without_retransmit);
        assert_eq!((tcp.halving, tcp.header_bytes), (Halving::Window, 40));
        assert!(tcp.first_without_header && delayed_ack(&tcp).first_at_once);
        assert_eq!(tcp.receive_window_segments(), 20);
    }

    #[test]
    fn the_hysteresis_paper_s_profiles_have_its_segments_windows_and_timers() {
        for tcp in [ns2_s001(), bsd_reno()] {
            // Sections 3 and 4: MSS 1433, window 24, timeouts of at least 1 s.
            assert_eq!((tcp.segment_bytes, tcp.receive_window_segments()), (1433, 24));
            assert_eq!((tcp.rto.min, tcp.rto.first), (Span::from_secs(1), Span::from_secs(3)));
        }
        let bsd = bsd_reno();
        let timer = DelayedAck {
            every: 2,
            max_delay: Span::from_millis(200),
            first_at_once: false,
            delays_duplicates: false,
            heartbeat: true,
            quick: 0,
            quick_after: Span::ZERO,
            linux: false,
            sack_delay: Span::ZERO,
        };
        assert_eq!((bsd.delayed_ack, bsd.halving), (Some(timer), Halving::WholeSegments));
        assert!(!bsd.limited_transmit && !bsd.second_always_fast && !bsd.first_without_header);
        assert!(!bsd.tahoe_keeps_dupacks && ns2_s001().tahoe_keeps_dupacks);
    }

    #[test]
    fn linux_2_0_has_the_timers_and_windows_of_the_testbed_paper() {
        let (tcp, ms) = (linux_20(), Span::from_millis);
        // tbp08, tbp09, tbp10: 3 s for "SYN, SYN/ACK and first packet", minimum 200 ms, maximum 120 s; tbp11, tbp13, tbp14.
        assert_eq!((tcp.rto.first, tcp.rto.min, tcp.rto.max), (ms(3000), ms(200), ms(120_000)));
        assert!(tcp.handshake && !tcp.times_handshake);
        assert_eq!((tcp.initial_window, tcp.segment_bytes, tcp.delayed_ack.unwrap().every), (2, 1460, 2));
        // HZ = 100, and a socket buffer of 32 767 bytes (include/net/sock.h of 2.0).
        assert_eq!((tcp.rto.tick, tcp.receive_window_segments()), (ms(10), 22));
        assert!(!tcp.recovery.uses_sack() && !tcp.limited_transmit && tcp.grow_unused);
    }

    #[test]
    fn the_profile_of_today_has_the_numbers_of_the_rfcs() {
        let tcp = rfc();
        // RFC 6928: ten segments. RFC 6298, sections 2.1, 2.4 and 2.5: initial RTO of 1 s, minimum of 1 s, maximum of 60 s.
        assert_eq!(tcp.initial_window, 10);
        let secs = Span::from_secs;
        assert_eq!((tcp.rto.first, tcp.rto.min, tcp.rto.max), (secs(1), secs(1), secs(60)));
        // RFC 5681, section 4.2: "within 500 ms", "for at least every second full-sized segment".
        let timer = tcp.delayed_ack.unwrap();
        assert!(timer.every == 2 && timer.max_delay <= Span::from_millis(500) && !timer.heartbeat);
        // RFC 5681, section 3.1: equation 4, and ssthresh "arbitrarily high". RFC 3042.
        assert_eq!((tcp.halving, tcp.initial_ssthresh), (Halving::Flight, InitialSsthresh::Infinite));
        assert!(tcp.limited_transmit && tcp.handshake && tcp.fin && !tcp.grow_unused && !tcp.grow_on_exit);
        assert_eq!((tcp.earliest_fast_retransmit, tcp.recovery_burst), (0, u32::MAX));
        // RFC 7323: more than the 65 535 bytes of RFC 9293, which would limit the throughput of current paths.
        assert_eq!(tcp.receive_window, 1_048_576);
    }
}
