//! Transfers, checked packet by packet against the examples of the papers and the rules of the RFCs.

use catnip_base::Span;
use catnip_lab::{Column, RunRequest, Scenario, TableName, TraceRequest, TraceRow, run_all, trace};
use catnip_tcp::{TcpConfig, profile};
use std::path::Path;

/// Returns a transfer over the two-node network of the CATNIP paper (section III-A): 1 Mbit/s, 100 ms, segments of 512 B.
fn paper(packets: u64, drop: &[u64], change: impl FnOnce(&mut TcpConfig)) -> TraceRequest {
    let mut tcp = profile::ns2_2002();
    change(&mut tcp);
    TraceRequest {
        tcp,
        marker: None,
        packets,
        rate: "1Mbit".parse().unwrap(),
        delay: Span::from_millis(100),
        queue: "drop-tail:1000".parse().unwrap(),
        drop: drop.to_vec(),
        tick_phase: None,
        seed: 1,
    }
}

fn sends(request: &TraceRequest) -> Vec<TraceRow> {
    trace(request).into_iter().filter(|row| row.event == "send").collect()
}

fn count(request: &TraceRequest, event: &str) -> usize {
    trace(request).iter().filter(|row| row.event == event).count()
}

fn done_s(request: &TraceRequest) -> f64 {
    trace(request).iter().find(|row| row.event == "done").expect("the transfer ends").at.as_secs()
}

/// Returns the number of packets in each burst. A packet begins a new burst if it is sent at least half a round-trip time after the
/// previous packet.
fn bursts(request: &TraceRequest) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut last = -1.0;
    for row in sends(request) {
        match sizes.last_mut() {
            Some(size) if row.at.as_secs() - last < 0.1 => *size += 1,
            _ => sizes.push(1),
        }
        last = row.at.as_secs();
    }
    sizes
}

const RTT_S: f64 = 0.204416;

#[test]
fn slow_start_sends_bursts_of_1_2_4_and_7() {
    assert_eq!(bursts(&paper(14, &[], |_| {})), [1, 2, 4, 7]);
    assert_eq!(bursts(&paper(15, &[], |_| {})), [1, 2, 4, 8]);
}

#[test]
fn eca_sends_bursts_of_1_2_4_4_and_3() {
    for rule in ["eca", "eca:final-window"] {
        assert_eq!(
            bursts(&paper(14, &[], |tcp| tcp.control = rule.parse().unwrap())),
            [1, 2, 4, 4, 3],
            "{rule}"
        );
    }
}

#[test]
fn rbplw_spreads_the_last_window_over_one_round_trip_and_leaves_the_others_alone() {
    let paced = sends(&paper(14, &[], |tcp| tcp.pacing = "rbplw".parse().unwrap()));
    let plain = sends(&paper(14, &[], |_| {}));
    let times = |rows: &[TraceRow]| rows.iter().map(|row| row.at.as_secs()).collect::<Vec<_>>();
    assert_eq!(times(&paced)[..8], times(&plain)[..8], "bursts 1, 2, 4 and the first of the last window");
    let gaps: Vec<f64> = paced[7..].windows(2).map(|w| w[1].at.as_secs() - w[0].at.as_secs()).collect();
    assert_eq!(gaps.len(), 6);
    assert!(gaps.iter().all(|gap| (gap - RTT_S / 7.0).abs() < 1e-3), "{gaps:?}");
}

#[test]
fn eca_with_rbplw_spreads_only_the_last_three() {
    let request = paper(14, &[], |tcp| {
        tcp.control = "eca".parse().unwrap();
        tcp.pacing = "rbplw".parse().unwrap();
    });
    let times: Vec<f64> = sends(&request).iter().map(|row| row.at.as_secs()).collect();
    let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps[7..10].iter().all(|gap| *gap < 0.006), "the burst of four is as it was: {gaps:?}");
    assert!(gaps[11..].iter().all(|gap| (gap - RTT_S / 3.0).abs() < 2e-3), "{gaps:?}");
}

#[test]
fn without_loss_eca_and_rbplw_cost_at_most_one_round_trip() {
    for packets in 1..=200 {
        let plain = done_s(&paper(packets, &[], |_| {}));
        let eca = done_s(&paper(packets, &[], |tcp| tcp.control = "eca".parse().unwrap()));
        let paced = done_s(&paper(packets, &[], |tcp| tcp.pacing = "rbplw".parse().unwrap()));
        assert!(eca <= plain + RTT_S, "ECA, {packets} packets: {eca} against {plain}");
        assert!(paced <= plain + 1.05 * RTT_S, "RBPLW, {packets} packets: {paced} against {plain}");
    }
}

#[test]
fn a_first_packet_lost_again_and_again_goes_out_after_6_12_and_24_seconds() {
    let times: Vec<f64> = sends(&paper(1, &[1, 2, 3], |_| {})).iter().map(|row| row.at.as_secs()).collect();
    assert_eq!(times, [0.0, 6.0, 18.0, 42.0]);
}

#[test]
fn reno_recovers_one_loss_on_the_third_duplicate_and_needs_a_timeout_for_two_in_a_small_window() {
    let one = paper(28, &[16], |_| {});
    assert_eq!(count(&one, "rto"), 0);
    let resent = sends(&one).iter().filter(|row| row.seq == 15).count();
    assert_eq!(resent, 2, "packet 16 goes out twice");
    // Two losses in a window of 8 leave too few duplicate ACKs for a fast retransmit of the second lost packet.
    let two = paper(28, &[8, 9], |_| {});
    assert_eq!(count(&two, "rto"), 1);
}

#[test]
fn newreno_and_sack_recover_three_losses_of_one_window_without_a_timeout() {
    for (kind, timeouts) in [("newreno", 0), ("sack1", 0), ("sack", 0)] {
        let request = paper(100, &[20, 22, 24], |tcp| {
            tcp.recovery = kind.parse().unwrap();
            tcp.receive_window = 64 * 512;
        });
        assert_eq!(count(&request, "rto"), timeouts, "{kind}");
    }
    let reno = paper(100, &[20, 22, 24], |tcp| tcp.receive_window = 64 * 512);
    assert!(count(&reno, "rto") > 0, "Reno does not (Fall and Floyd 1996)");
}

#[test]
fn newreno_resends_one_segment_per_round_trip_and_rfc_6675_as_the_pipe_allows() {
    // RFC 6582, section 3.2: each partial ACK causes one retransmission, so the third loss waits for two round trips.
    let wait_s = |kind: &str| {
        let rows = sends(&paper(100, &[20, 22, 24], |tcp| {
            tcp.recovery = kind.parse().unwrap();
            tcp.receive_window = 64 * 512;
        }));
        let resent_s =
            |seq| rows.iter().filter(|row| row.seq == seq).nth(1).expect("it is resent").at.as_secs();
        resent_s(23) - resent_s(19)
    };
    assert!((wait_s("newreno") - 2.0 * RTT_S).abs() < 0.1 * RTT_S, "{}", wait_s("newreno"));
    assert!(wait_s("sack") < RTT_S, "{}", wait_s("sack"));
}

#[test]
fn limited_transmit_repairs_a_loss_that_needs_a_timeout_without_it() {
    // RFC 3042: the first of three segments is lost, so two duplicate ACKs return. A third duplicate ACK requires new data.
    let request = |limited| {
        paper(28, &[1], |tcp| {
            tcp.initial_window = 3;
            tcp.earliest_fast_retransmit = 0;
            tcp.limited_transmit = limited;
        })
    };
    assert_eq!((count(&request(false), "rto"), count(&request(true), "rto")), (1, 0));
}

#[test]
fn half_of_the_flight_does_not_count_what_limited_transmit_sent() {
    // RFC 5681, section 3.2. Every segment is acknowledged: two ACKs increase cwnd to 22, then the third segment is missing.
    let request = paper(100, &[3], |tcp| {
        *tcp = TcpConfig {
            initial_window: 20,
            receive_window: 100 * 512,
            segment_bytes: 512,
            delayed_ack: None,
            handshake: false,
            recovery: "newreno".parse().unwrap(),
            ..profile::rfc()
        };
    });
    let rows = trace(&request);
    let before = rows.iter().take_while(|row| row.ssthresh.is_none()).last().unwrap();
    let after = rows.iter().find_map(|row| row.ssthresh).unwrap();
    assert_eq!((before.cwnd, after), (22.0, 11.0));
}

#[test]
fn spm_marks_the_first_three_the_last_three_and_what_small_windows_send() {
    let mut request = paper(16, &[], |_| {});
    request.marker = Some("spm:small_window=3".parse().unwrap());
    let high: Vec<i64> = sends(&request).iter().filter(|row| row.high).map(|row| row.seq).collect();
    // While the window is below 3, the sender sends packets 0 to 2, which belong to the first three packets anyway.
    assert_eq!(high, [0, 1, 2, 13, 14, 15]);
    request.marker = Some("spm:small_window=4".parse().unwrap());
    let high: Vec<i64> = sends(&request).iter().filter(|row| row.high).map(|row| row.seq).collect();
    assert_eq!(high, [0, 1, 2, 3, 4, 13, 14, 15], "the window is 3 when packets 3 and 4 go out");
}

#[test]
fn a_handshake_takes_one_round_trip_and_a_lost_syn_the_first_timeout() {
    let mut request = paper(1, &[], |tcp| {
        tcp.handshake = true;
        tcp.fin = true;
    });
    request.tcp.header_bytes = 40;
    let plain = done_s(&request);
    // SYN, SYN-ACK, data with FIN, ACK: two round trips, and 4 transmissions.
    let expected = 4.0 * 0.1 + (40.0 + 40.0 + 552.0 + 40.0) * 8.0 / 1e6;
    assert!((plain - expected).abs() < 1e-6, "{plain}");
    request.drop = vec![1];
    assert!((done_s(&request) - plain - 6.0).abs() < 1e-6, "{}", done_s(&request));
    request.drop = vec![1, 2];
    assert!((done_s(&request) - plain - 18.0).abs() < 1e-6, "{}", done_s(&request));
}

/// Returns the duration of a transfer over a round trip of 100 ms with a first timeout of `first`, seconds. `lost` are the losses among the
/// packets of the server, and `keys` are added to `[tcp]`.
fn transfer_s(first: &str, keys: &str, lost: &str) -> f64 {
    let text = format!(
        r#"
id = "X"
title = "A transfer"
[node]
server = {{ kind = "host" }}
client = {{ kind = "host" }}
[link.l]
from = "server"
to = "client"
rate = "10Mbit"
delay = "50ms"
queue = "drop-tail:50"
there.loss = "{lost}"
[tcp]
profile = "ns2-2.35"
rto_first = "{first}"
rto_min = "1s"
handshake = true
{keys}
[traffic.t]
kind = "bulk"
from = "server"
to = "client"
packets = 3
"#
    );
    let scenario = Scenario::parse(Path::new("x.toml"), &text).unwrap();
    let (variants, tables) = (vec!["default"], vec![TableName::TRANSFERS]);
    let request = RunRequest { variants, seeds: vec![1], tables, threads: 1, every: None };
    let tables = run_all(&scenario, &request, &mut |_| true).unwrap().expect("the run is not interrupted");
    let columns = tables[&TableName::TRANSFERS].columns();
    match columns.iter().find(|(name, _)| *name == "time_s").map(|(_, column)| column) {
        Some(Column::Float(times)) => times[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lost_first_segment_costs_the_first_timeout_unless_the_handshake_is_a_sample() {
    // The first packet of the server is its SYN-ACK. Timeouts are whole ticks of 10 ms.
    for (first, keys, timeout_s) in [
        ("6s", "", 1.0),
        ("6s", "times_handshake = true", 1.0),
        ("6s", "times_handshake = false", 6.0),
        ("3s", "times_handshake = false", 3.0),
    ] {
        let cost_s = transfer_s(first, keys, "packets:2") - transfer_s(first, keys, "none");
        assert!((timeout_s - 0.011..timeout_s + 0.3).contains(&cost_s), "{first}, {keys:?}: {cost_s} s");
    }
}

#[test]
fn after_a_lost_syn_the_window_begins_at_one_and_the_timeout_at_three_seconds() {
    // RFC 6928, section 2, and RFC 6298, rule 5.7.
    let mut request = paper(10, &[], |tcp| *tcp = TcpConfig { segment_bytes: 512, ..profile::rfc() });
    let first_burst = |request: &TraceRequest| bursts(request)[0];
    assert_eq!(first_burst(&request), 10);
    request.drop = vec![1];
    assert_eq!(first_burst(&request), 1);
    // The SYN is retransmitted; then the first data segment is lost, too.
    request.drop = vec![1, 3];
    let times: Vec<f64> = sends(&request).iter().map(|row| row.at.as_secs()).collect();
    assert!((times[1] - times[0] - 3.0).abs() < 1e-6, "{times:?}");
}

#[test]
fn a_lost_fin_is_repaired_like_any_data() {
    let mut request = paper(5, &[], |_| {});
    request.tcp = TcpConfig { segment_bytes: 512, ..profile::rfc() };
    let plain = done_s(&request);
    request.drop = vec![6];
    assert!(count(&request, "rto") > 0 && done_s(&request) > plain + 0.9);
}

#[test]
fn the_profile_of_today_sends_ten_segments_at_once_and_acknowledges_every_second_one() {
    let mut request = paper(40, &[], |_| {});
    request.tcp = TcpConfig { handshake: false, ..profile::rfc() };
    let first = sends(&request).iter().take_while(|row| row.at.as_nanos() == 0).count();
    assert_eq!(first, 10);
    assert_eq!(count(&request, "ack"), 20, "the FIN rides on the last of 40 segments");
}
