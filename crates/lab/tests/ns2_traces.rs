//! Packet by packet against ns-2 2.35: every send and every ACK of 80 deterministic transfers, in the same order,
//! within one clock tick.

use catnip_base::{Rate, Span};
use catnip_lab::{TraceRequest, TraceRow, trace};
use catnip_net::queue::{DropTailSpec, QueueSpec};
use catnip_tcp::recovery::RecoveryKind;
use catnip_tcp::{TcpConfig, profile};
use std::path::{Path, PathBuf};

/// 100 packets of 1000 B, 1 Mbit/s, 50 ms, window 64 (validation/reference/ns2/README.md).
fn request(preset: &str, variant: &str, scenario: &str, limit: u32) -> TraceRequest {
    let base = if preset == "era" { profile::ns2_2002() } else { profile::ns2_235() };
    let tcp = TcpConfig {
        segment_bytes: 1000,
        receive_window: 64 * 1000,
        recovery: match variant {
            "Tahoe" => RecoveryKind::Tahoe,
            "Reno" => RecoveryKind::Reno,
            "NewReno" => RecoveryKind::NewReno,
            _ => RecoveryKind::Sack1,
        },
        ..base
    };
    let drop = match scenario {
        "base" => vec![],
        "d1" => vec![1],
        "d20" => vec![20],
        "d20_22" => vec![20, 22],
        "dlast" => vec![100],
        other => panic!("unknown scenario {other}"),
    };
    TraceRequest {
        tcp,
        marker: None,
        packets: 100,
        rate: Rate::from_bits_per_second(1_000_000).unwrap(),
        delay: Span::from_millis(50),
        queue: QueueSpec::DropTail(DropTailSpec::packets(limit).unwrap()),
        drop,
        tick_phase: None,
        seed: 1,
    }
}

#[derive(Debug)]
struct Expected {
    time_s: f64,
    event: String,
    seq: i64,
    cwnd: f64,
    ssthresh: Option<f64>,
}

fn expected(path: &Path) -> Vec<Expected> {
    let text = std::fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[1] == "send" || cells[1] == "ack").then(|| Expected {
            time_s: cells[0].parse().unwrap(),
            event: cells[1].into(),
            seq: cells[2].parse().unwrap(),
            cwnd: cells[3].parse().unwrap(),
            ssthresh: cells[4].parse().ok(),
        })
    };
    text.lines().skip(1).filter_map(row).collect()
}

fn difference(expected: &[Expected], ours: &[TraceRow], tick_s: f64) -> Option<String> {
    for (i, e) in expected.iter().enumerate() {
        let Some(o) = ours.get(i) else { return Some(format!("row {i}: {e:?} is missing")) };
        let same = o.event == e.event && o.seq == e.seq;
        let window = (o.cwnd - e.cwnd).abs() < 2e-3 * e.cwnd.max(1.0);
        let threshold =
            e.ssthresh.is_none_or(|ssthresh| o.ssthresh.is_some_and(|ours| (ours - ssthresh).abs() < 1e-3));
        if !same || !window || !threshold || (o.at.as_secs() - e.time_s).abs() > tick_s + 2e-5 {
            return Some(format!("row {i}: ns-2 {e:?}, here {o:?}"));
        }
    }
    (ours.len() > expected.len()).then(|| format!("{} rows too many", ours.len() - expected.len()))
}

#[test]
fn every_send_and_ack_of_80_transfers_agrees_with_ns2() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../validation/reference/ns2/traces");
    let mut compared = 0;
    let mut exact = 0;
    let mut differences = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        if name == "summary" {
            continue;
        }
        let parts: Vec<&str> = name.split('_').collect();
        let (preset, variant) = (parts[0], parts[1]);
        let scenario = parts[2..parts.len() - 1].join("_");
        let limit = parts[parts.len() - 1][1..].parse().unwrap();
        let request = request(preset, variant, &scenario, limit);
        let theirs = expected(&path);
        compared += 1;
        // ns-2 starts each connection's clock at a random point of a tick; the trace does not say which.
        let tick_s = request.tcp.rto.tick.as_secs();
        let of_phase = |tenths: u64| {
            let tick_phase = Some(request.tcp.rto.tick * tenths / 10);
            let rows = trace(&TraceRequest { tick_phase, ..request.clone() });
            rows.into_iter().filter(|row| matches!(row.event, "send" | "ack")).collect::<Vec<_>>()
        };
        let phases: Vec<_> = (0..10).map(of_phase).collect();
        exact += usize::from(phases.iter().any(|ours| difference(&theirs, ours, 0.0).is_none()));
        if phases.iter().all(|ours| difference(&theirs, ours, tick_s).is_some()) {
            differences.extend(difference(&theirs, &phases[0], tick_s).map(|what| format!("{name}: {what}")));
        }
    }
    assert_eq!(compared, 80, "{}", folder.display());
    assert!(differences.is_empty(), "{} exact of {compared}\n{}", exact, differences.join("\n"));
    assert_eq!(exact, compared, "with the right phase of the clock all agree to the last printed digit");
}
