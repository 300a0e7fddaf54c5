//! Comparison with measurements made with ns-2 2.35 (python/catnip/reference/ns2/README.md): the single-loss profile for every
//! lost packet, and the mean latency of short transfers under random loss.

use catnip_base::{FlowContext, Rate, Span, Time};
use catnip_lab::{TraceRequest, trace};
use catnip_net::mark::{MarkerSpec, SpmParameters};
use catnip_net::stage::{BernoulliSpec, ByPrioritySpec, StageSpec};
use catnip_net::{Topology, WireSpec};
use catnip_sim::app::{AnyApp, Bulk};
use catnip_sim::record::ConnectionRecord;
use catnip_sim::{ConnectionSpec, Event, Message, SERVER, Sim, TcpOptions, Watch};
use catnip_tcp::{TcpConfig, profile};
use std::path::PathBuf;

fn rows(file: &str) -> Vec<Vec<String>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../python/catnip/reference/ns2").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().skip(1).map(|line| line.split(',').map(String::from).collect()).collect()
}

fn number(cell: &str) -> f64 {
    cell.parse().unwrap()
}

fn config(preset: &str, variant: &str, delayed_ack: bool) -> TcpConfig {
    let base = match preset {
        "era" => profile::ns2_2002(),
        "ns235" => profile::ns2_235(),
        "s001" => profile::ns2_s001(),
        "s001_era" => {
            let (era, s001) = (profile::ns2_2002(), profile::ns2_s001());
            let rto = catnip_tcp::RtoConfig { min: Span::from_secs(1), max: Span::from_secs(60), ..era.rto };
            TcpConfig { segment_bytes: 1433, receive_window: s001.receive_window, rto, ..era }
        }
        other => panic!("unknown preset {other}"),
    };
    let name = variant.to_lowercase();
    TcpConfig {
        recovery: name.parse().unwrap(),
        delayed_ack: delayed_ack.then(|| profile::delayed_ack(&base)),
        ..base
    }
}

#[test]
fn the_single_loss_profile_agrees_with_ns2_for_every_packet_and_phase() {
    let mut compared = 0;
    for row in rows("single_loss_profile.csv").iter().filter(|row| row[3] == "head") {
        let (preset, variant, delayed, k) = (&row[0], &row[1], row[2] == "1", row[4].parse::<u64>().unwrap());
        let mut times: Vec<f64> = (0..9)
            .map(|phase| {
                let tcp = config(preset, variant, delayed);
                let tick_phase = Some(tcp.rto.tick * (2 * phase + 1) / 18);
                let request = TraceRequest {
                    tcp,
                    marker: None,
                    packets: 28,
                    rate: Rate::from_bits_per_second(1_000_000).unwrap(),
                    delay: Span::from_millis(100),
                    queue: "drop-tail:1000".parse().unwrap(),
                    drop: if k == 0 { vec![] } else { vec![k] },
                    tick_phase,
                    seed: 1,
                };
                trace(&request).iter().find(|row| row.event == "done").unwrap().at.as_secs()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        // Columns: median, minimum and maximum over the phases of ns-2's clock
        let (low, high) = (number(&row[7]), number(&row[8]));
        let tick_s = config(preset, variant, delayed).rto.tick.as_secs();
        let off = (low - times[0]).abs().max((high - times[8]).abs()).max((number(&row[6]) - times[4]).abs());
        assert!(off <= tick_s + 1e-6, "{row:?}: {times:?}");
        compared += 1;
    }
    assert_eq!(compared, 29 * 8, "rows compared");
}

#[test]
fn transfers_that_lose_the_same_packets_as_in_ns2_take_the_same_time() {
    let table = rows("loss_lists.csv");
    for row in &table {
        let tcp = config("s001", &row[0], false);
        let tick_s = tcp.rto.tick.as_secs();
        let request = TraceRequest {
            tcp,
            marker: None,
            packets: row[1].parse().unwrap(),
            rate: Rate::from_bits_per_second(10_000_000).unwrap(),
            delay: Span::from_millis(100),
            queue: "drop-tail:1000".parse().unwrap(),
            // ns-2 counts packets from 0.
            drop: row[2].split_whitespace().map(|number| number.parse::<u64>().unwrap() + 1).collect(),
            tick_phase: None,
            seed: 1,
        };
        let trace = trace(&request);
        let count = |event: &str| trace.iter().filter(|row| row.event == event).count();
        let done_s = trace.iter().find(|row| row.event == "done").unwrap().at.as_secs();
        let retransmitted = count("send") as u64 - request.packets;
        assert!((done_s - number(&row[3])).abs() <= tick_s, "{row:?}: {done_s}");
        assert_eq!(
            (count("rto").to_string(), retransmitted.to_string()),
            (row[4].clone(), row[5].clone()),
            "{row:?}"
        );
    }
    assert_eq!(table.len(), 480);
}

/// Watch that keeps the record of the only connection of a run.
#[derive(Default)]
struct One(Option<ConnectionRecord>);

impl Watch for One {
    const PACKETS: bool = false;
    fn record(&mut self, _now: Time, event: &Event) {
        if let Event::Connection(record) = event {
            self.0 = Some(*record);
        }
    }
}

fn one_flow(
    tcp: &TcpConfig,
    marker: Option<SpmParameters>,
    loss: StageSpec,
    packets: u64,
    seed: u64,
) -> ConnectionRecord {
    let mut topology = Topology::default();
    let (server, client) = (topology.host("server"), topology.host("client"));
    let rate = Rate::from_bits_per_second(10_000_000).unwrap();
    let back = WireSpec::new(rate, Span::from_millis(100), "drop-tail:1000".parse().unwrap());
    topology.link(server, client, WireSpec { before: vec![loss], ..back.clone() }, back);
    let mut sim = Sim::new(&topology, seed, One::default());
    let bytes = packets * u64::from(tcp.segment_bytes);
    let marker = marker.map(MarkerSpec::Spm);
    let tcp = sim.add_tcp(TcpOptions { marker, ..tcp.clone().into() });
    let spec = ConnectionSpec { client, server, opener: SERVER, tcp };
    let document = Message { bytes, context: Some(FlowContext::document(bytes)), ..Message::default() };
    sim.add_app(AnyApp::Bulk(Bulk::new(spec, document, Time::ZERO)));
    sim.run(Time::ZERO + Span::from_secs(100_000));
    sim.into_watch().0.expect("the transfer ends")
}

/// Checks that every mean latency differs from the mean latency of ns-2 by at most five standard errors, and that the mean square of the
/// differences, in standard errors, is close to 1.
fn compare_means(file: &str, flows: u64, marked: bool) {
    let (mut squares, mut compared) = (0.0, 0);
    let table = rows(file);
    for row in &table {
        let tcp = config(&row[0], &row[1], row[2] == "1");
        let (p, packets) = (number(&row[4]), row[6].parse::<u64>().unwrap());
        let loss = if marked {
            StageSpec::ByPriority(ByPrioritySpec { high: 0.0, med: p, low: p })
        } else {
            StageSpec::Bernoulli(BernoulliSpec { probability: p })
        };
        let marker = marked.then_some(SpmParameters { small_window: 0, ..SpmParameters::FULL });
        let times: Vec<f64> = (1..=flows)
            .map(|seed| one_flow(&tcp, marker, loss.clone(), packets, seed).acked.as_secs())
            .collect();
        let n = flows as f64;
        let mean = times.iter().sum::<f64>() / n;
        let variance = times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let (theirs, their_error) = (number(&row[8]), number(&row[10]));
        let error = (variance / n + their_error.powi(2)).sqrt();
        if p == 0.0 || error < 1e-9 {
            assert!((mean - theirs).abs() < 2e-6, "without loss, exactly: {row:?}: {mean}");
            continue;
        }
        let z = (mean - theirs) / error;
        assert!(z.abs() < 5.0, "{row:?}: mean {mean}, {z} standard errors off");
        squares += z * z;
        compared += 1;
    }
    let mean_square = squares / f64::from(compared);
    assert!((0.6..1.6).contains(&mean_square), "{mean_square} over {compared} rows");
}

#[test]
fn mean_latency_under_random_loss_agrees_with_ns2() {
    compare_means("latency.csv", 1000, false);
}

#[test]
fn mean_latency_with_crucial_packets_protected_agrees_with_ns2() {
    compare_means("latency_partial_catnip.csv", 1000, true);
}
