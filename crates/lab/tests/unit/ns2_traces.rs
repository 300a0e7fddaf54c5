//! Comparison with ns-2 2.35 packet by packet: every transmission and every ACK must be in the same order, at the same time and with the
//! same congestion window.

use catnip_base::{Rate, Span};
use catnip_lab::{TraceRequest, TraceRow, trace};
use catnip_net::queue::{DropTailSpec, QueueSpec};
use catnip_tcp::{TcpConfig, profile};
use std::path::{Path, PathBuf};

/// Transfer of 100 packets of 1000 B, 1 Mbit/s, 50 ms, window 64 (python/catnip/reference/ns2/README.md).
fn request(preset: &str, variant: &str, scenario: &str, limit: u32) -> TraceRequest {
    let drop = match scenario {
        "base" => vec![],
        "d1" => vec![1],
        "d20" => vec![20],
        "d20_22" => vec![20, 22],
        "dlast" => vec![100],
        other => panic!("unknown scenario {other}"),
    };
    TraceRequest {
        tcp: config(preset, variant, 64),
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

fn config(preset: &str, variant: &str, window: u64) -> TcpConfig {
    let base = match preset {
        "era" => profile::ns2_2002(),
        "s001" => profile::ns2_s001(),
        _ => profile::ns2_235(),
    };
    let segment_bytes = if preset == "s001" { 1433 } else { 1000 };
    let receive_window = window * u64::from(segment_bytes);
    TcpConfig { segment_bytes, receive_window, recovery: variant.to_lowercase().parse().unwrap(), ..base }
}

#[derive(Debug)]
struct Expected {
    time_s: f64,
    event: String,
    seq: i64,
    cwnd: f64,
    ssthresh: Option<f64>,
    wire_bytes: u32,
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
            wire_bytes: cells[6].parse().unwrap(),
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
        // Precision of ns-2's printed times: five decimals or six significant digits, whichever is coarser.
        let printed_s = 2e-5_f64.max(1e-5 * e.time_s);
        let in_time = (o.at.as_secs() - e.time_s).abs() <= tick_s + printed_s;
        if !same || !window || !threshold || !in_time || o.wire_bytes != e.wire_bytes {
            return Some(format!("row {i}: ns-2 {e:?}, here {o:?}"));
        }
    }
    (ours.len() > expected.len()).then(|| format!("{} rows too many", ours.len() - expected.len()))
}

#[test]
fn every_send_and_ack_of_80_transfers_agrees_with_ns2() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../python/catnip/reference/ns2/traces");
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
        // ns-2 starts the clock of each connection at a random point of a tick, which the trace does not contain.
        let tick_s = request.tcp.rto.tick.as_secs();
        let of_phase = |tenths: u64| {
            let tick_phase = Some(request.tcp.rto.tick * tenths / 10);
            let rows = trace(&TraceRequest { tick_phase, ..request.clone() });
            rows.into_iter().filter(|row| matches!(row.event, "send" | "ack")).collect::<Vec<_>>()
        };
        let phases: Vec<_> = (0..10).map(of_phase).collect();
        exact += usize::from(phases.iter().any(|ours| difference(&theirs, ours, 0.0).is_none()));
        if phases.iter().all(|ours| difference(&theirs, ours, tick_s).is_some()) {
            differences
                .extend(difference(&theirs, &phases[0], tick_s).map(|message| format!("{name}: {message}")));
        }
    }
    assert_eq!(compared, 80, "{}", folder.display());
    assert!(differences.is_empty(), "{} exact of {compared}\n{}", exact, differences.join("\n"));
    assert_eq!(exact, compared, "with the right phase of the clock all agree to the last printed digit");
}

/// Transfers over other windows, sizes and losses, with and without delayed ACKs (validation/ns2/transfers.tcl).
#[test]
fn every_packet_of_transfers_with_lists_of_losses_agrees_with_ns2() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../python/catnip/reference/ns2");
    let rows = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        text.lines().skip(1).map(|line| line.split(',').map(String::from).collect()).collect::<Vec<Vec<_>>>()
    };
    let mut packets: Vec<Vec<Expected>> = Vec::new();
    for row in rows("transfers_packets.csv") {
        let transfer: usize = row[0].parse().unwrap();
        packets.resize_with(packets.len().max(transfer), Vec::new);
        packets[transfer - 1].push(Expected {
            time_s: row[1].parse().unwrap(),
            event: row[2].clone(),
            seq: row[3].parse().unwrap(),
            cwnd: row[4].parse().unwrap(),
            ssthresh: None,
            wire_bytes: row[5].parse().unwrap(),
        });
    }
    let transfers = rows("transfers.csv");
    let mut differences = Vec::new();
    for (row, theirs) in transfers.iter().zip(&packets) {
        let base = config(&row[1], &row[2], row[4].parse().unwrap());
        let delayed_ack = (row[3] == "1").then(|| profile::delayed_ack(&base));
        let (rate_mbps, phase): (f64, f64) = (row[7].parse().unwrap(), row[11].parse().unwrap());
        let request = TraceRequest {
            packets: row[5].parse().unwrap(),
            rate: Rate::from_bits_per_second((rate_mbps * 1e6) as u64).unwrap(),
            delay: Span::from_millis(row[8].parse().unwrap()),
            queue: QueueSpec::DropTail(DropTailSpec::packets(row[6].parse().unwrap()).unwrap()),
            // ns-2 counts packets from 0.
            drop: row[9].split(' ').map(|number| number.parse::<u64>().unwrap() + 1).collect(),
            tick_phase: Some(Span::from_nanos((phase * base.rto.tick.as_nanos() as f64) as u64)),
            tcp: TcpConfig { delayed_ack, ..base },
            marker: None,
            seed: 1,
        };
        let ours: Vec<_> =
            trace(&request).into_iter().filter(|row| matches!(row.event, "send" | "ack")).collect();
        differences
            .extend(difference(theirs, &ours, 0.0).map(|message| format!("{}: {message}", row.join(","))));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!((packets.len(), transfers.len()), (COMPARED, COMPARED));
}

const COMPARED: usize = 204;
