//! Tests of the bursts in which servers send, and of the table of bursts.

use crate::scenarios;
use catnip_base::{Span, Time};
use catnip_lab::{Burst, Bursts, Column, RunRequest, Scenario, Table, TableName, run_all, tmix};
use catnip_sim::app::{ConnectionVector, Side};
use catnip_sim::record::{ConnectionRecord, Served, ServedStep};
use catnip_sim::{Event, TcpId, Watch};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Bursts computed from events that a test specifies. All events are events of the server of connection 7, which is opened at 100 ms.
#[derive(Default)]
struct ByHand(Bursts);

impl ByHand {
    fn record(&mut self, millis: u64, written: u64, step: ServedStep) {
        let served = Served { connection: 7, app: 3, tcp: TcpId(0), opened: at(100), written, step };
        self.0.served(at(millis), &served);
    }
    fn sent(&mut self, millis: u64, written: u64, seq: u64, retransmission: bool) {
        self.record(millis, written, ServedStep::Sent { seq, bytes: 1000, retransmission });
    }
    fn acked(&mut self, millis: u64, written: u64, snd_una: u64) {
        self.record(millis, written, ServedStep::Acked { snd_una });
    }
}

fn burst(number: u32, bytes: [u64; 2], idle: u64, times: [u64; 2], counts: [u32; 4]) -> Burst {
    let [first_byte, bytes] = bytes;
    let [sent, retransmitted, dropped, timeouts] = counts;
    let [start, end] = times.map(at);
    let idle = Span::from_millis(idle);
    Burst {
        connection: 7,
        app: 3,
        tcp: TcpId(0),
        number,
        first_byte,
        bytes,
        delivered: bytes,
        idle,
        start,
        end,
        sent,
        retransmitted,
        dropped,
        timeouts,
    }
}

#[test]
fn planted_bursts_and_silences_are_recovered() {
    let mut it = ByHand::default();
    // 3000 bytes are written at once and sent one segment per round trip, as the congestion window permits: one burst.
    it.acked(150, 0, 0);
    it.sent(300, 3000, 0, false);
    it.acked(400, 3000, 1000);
    it.sent(400, 3000, 1000, false);
    it.acked(500, 3000, 2000);
    it.sent(510, 3000, 2000, false);
    it.acked(600, 3000, 3000);
    // Two segments, of which the first is lost and retransmitted after a timeout. A duplicate ACK in between changes nothing.
    it.sent(2000, 5000, 3000, false);
    it.sent(2000, 5000, 4000, false);
    it.record(2010, 5000, ServedStep::Dropped { seq: 3000 });
    it.acked(2100, 5000, 3000);
    it.record(3000, 5000, ServedStep::Timeout);
    it.sent(3000, 5000, 3000, true);
    it.acked(3100, 5000, 5000);
    // Events after the end of a burst do not count.
    it.sent(3101, 5000, 4000, true);
    it.record(3102, 5000, ServedStep::Dropped { seq: 3000 });
    it.record(3103, 5000, ServedStep::Timeout);
    // Another response is written before the first response is acknowledged: one burst. The ACK of the FIN covers one more byte.
    it.sent(4000, 6000, 5000, false);
    it.record(4001, 6000, ServedStep::Dropped { seq: 4000 });
    it.sent(4050, 7000, 6000, false);
    it.acked(4100, 7000, 6000);
    it.acked(4150, 7000, 7001);
    // Unfinished burst: half of its 2000 bytes are acknowledged.
    it.sent(9000, 9000, 7000, false);
    it.sent(9000, 9000, 8000, false);
    it.acked(9100, 9000, 8000);
    assert_eq!(
        it.0.finished(),
        [
            burst(0, [0, 3000], 200, [300, 600], [3, 0, 0, 0]),
            burst(1, [3000, 2000], 1400, [2000, 3100], [3, 1, 1, 1]),
            burst(2, [5000, 2000], 900, [4000, 4150], [2, 0, 0, 0]),
        ]
    );
    let begun = burst(3, [7000, 2000], 4850, [9000, 9000], [2, 0, 0, 0]);
    let begun = Burst { delivered: 1000, end: Time::NEVER, ..begun };
    assert_eq!(it.0.unfinished().collect::<Vec<_>>(), [&begun]);
}

#[test]
fn a_connection_that_is_over_is_forgotten() {
    let mut it = ByHand::default();
    for round in 0..3 {
        it.sent(1000, 1000, 0, false);
        it.acked(2000, 1000, 1000);
        let record = ConnectionRecord {
            connection: 7,
            app: 3,
            bytes: 1000,
            opened: at(100),
            received: at(1900),
            acked: at(2000),
            sent: 1,
            sent_high: 0,
            retransmitted: 0,
            timeouts: 0,
            fast_retransmits: 0,
            probes: 0,
            dropped: 0,
            syn_timeouts: 0,
            rtt_samples: 1,
            rtt_sum: Span::from_secs(1),
        };
        it.0.record(at(2000), &Event::Connection(record));
        assert_eq!(it.0.finished().len(), round + 1);
    }
    assert!(it.0.finished().iter().all(|burst| burst.number == 0 && burst.idle == Span::from_millis(900)));
}

/// Scenario with one link of 8 Mbit/s and 10 ms, on which the transmission of a byte takes a microsecond. Headers and ACKs have 52 bytes,
/// full segments 1000 bytes. There is no handshake.
fn one_link(kind: &str, more: &str) -> String {
    format!(
        "id = 'X'\ntitle = 'x'\n[node]\ns = {{ kind = 'host', processing = 'none' }}\nc = {{ kind = 'host', processing = 'none' }}\n\
         [link.l]\nfrom = 's'\nto = 'c'\nrate = '8Mbit'\ndelay = '10ms'\nqueue = 'drop-tail:100'\n\
         [tcp]\nhandshake = false\nfin = false\nsegment = '948B'\ndelayed_ack = false\n\
         initial_window_segments = 2\nvalidation = \"none\"\npacing = 'none'\n\
         [traffic.t]\nkind = 'tmix'\nclients = 'c'\nservers = 's'\n{kind}\n{more}"
    )
}

fn run(scenario: &Scenario, seeds: &[u64], names: &[TableName]) -> BTreeMap<TableName, Table> {
    let request = RunRequest {
        variants: scenario.variants().collect(),
        seeds: seeds.to_vec(),
        tables: names.to_vec(),
        threads: 2,
        every: None,
    };
    run_all(scenario, &request, &mut |_| true).unwrap().unwrap()
}

fn column(table: &Table, name: &str) -> Vec<f64> {
    match &table.columns().iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no {name}")).1 {
        Column::Float(values) => values.clone(),
        Column::Integer(values) => values.iter().map(|&v| v as f64).collect(),
        Column::Text(_) => panic!("{name} is text"),
    }
}

#[test]
fn a_known_vector_makes_the_bursts_that_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let trace = "SEQ 50000 3 0 0\n> 60\nt 20000\n< 948\nt 1500000\n> 60\nt 100\n< 9480\nt 3000000\n> 60\nt 1000\n< 480\n\
                 SEQ 60000 1 0 1\n> 60\nt 1\n< 96\n";
    fs::write(folder.path().join("known.cvec"), trace).unwrap();
    let path = folder.path().join("x.toml");
    let scenario = Scenario::parse(&path, &one_link("trace = 'known.cvec'", "")).unwrap();
    let bursts = &run(&scenario, &[1], &[TableName::BURSTS])[&TableName::BURSTS];
    let of = |name: &str| {
        let first = column(bursts, "connection").into_iter().map(|connection| connection == 0.0);
        column(bursts, name)
            .into_iter()
            .zip(first)
            .filter(|(_, first)| *first)
            .map(|(it, _)| it)
            .collect::<Vec<_>>()
    };
    assert_eq!((bursts.rows(), of("number")), (4, vec![0.0, 1.0, 2.0]));
    assert_eq!(of("first_byte"), [0.0, 948.0, 10_428.0]);
    assert_eq!(of("bytes"), [948.0, 9480.0, 480.0]);
    assert_eq!((of("sent"), of("dropped")), (vec![1.0, 10.0, 1.0], vec![0.0; 3]));
    // One-way delays of a request, a full segment, the last response and an ACK, seconds.
    let (request, segment, last, ack) = (0.010_112, 0.011, 0.010_532, 0.010_052);
    let close = |seen: &[f64], expected: &[f64]| {
        seen.len() == expected.len() && seen.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9)
    };
    // The second response takes three round trips, with congestion windows of 2 and 4 segments and, in the last round trip, 4 segments back
    // to back.
    let second = 2.0 * (segment + ack) + 3.0 * 0.001 + segment + ack;
    assert!(close(&of("time_s"), &[segment + ack, second, last + ack]), "{:?}", of("time_s"));
    // The idle period begins when the server receives the last ACK, which the client sent one ACK delay earlier, before it paused and sent
    // a request.
    let idle = |think: f64, server: f64| think + request + server - ack;
    let expected = [request + 0.02, idle(1.5, 0.000_1), idle(3.0, 0.001)];
    assert!(close(&of("idle_s"), &expected), "{:?} {expected:?}", of("idle_s"));
}

fn vectors(scenario: &Scenario, seed: u64) -> Vec<ConnectionVector> {
    let variant = scenario.variants().next().unwrap();
    scenario.plan(variant).unwrap().vectors(None, seed).unwrap().to_vec()
}

const GENERATE: &str = "[traffic.t.generate]\nconnections = 20\nover = '10s'\nidle_s = 'constant:value=2'\n\
                        epochs = 'uniform:minimum=1,maximum=4'\nresponse_bytes = 'lognormal:mu=9,sigma=1,maximum=90000'\n";

#[test]
fn a_trace_depends_on_its_own_seed_or_else_on_that_of_the_run() {
    let read = |more: &str| Scenario::parse(Path::new("x.toml"), &one_link(GENERATE, more)).unwrap();
    let of_run = read("");
    assert_eq!(vectors(&of_run, 1), vectors(&of_run, 1));
    assert_ne!(vectors(&of_run, 1), vectors(&of_run, 2));
    let fixed = read("seed = 9");
    assert_eq!(vectors(&fixed, 1), vectors(&fixed, 2));
    assert_ne!(vectors(&fixed, 1), vectors(&read("seed = 8"), 1));
}

#[test]
fn all_variants_replay_the_same_connections() {
    let scenario = Scenario::load(&scenarios::file("bursts.toml")).unwrap();
    let tables = run(&scenario, &[1, 2], &[TableName::BURSTS, TableName::CONNECTIONS]);
    let bursts = &tables[&TableName::BURSTS];
    let key = ["variant", "seed", "connection", "first_byte", "bytes"].map(|name| column(bursts, name));
    let of_run = |variant: f64, seed: f64| {
        let rows = (0..bursts.rows()).filter(|&row| key[0][row] == variant && key[1][row] == seed);
        let mut rows: Vec<_> = rows.map(|row| [2, 3, 4].map(|part| key[part][row] as u64)).collect();
        rows.sort_unstable();
        rows
    };
    assert!(of_run(0.0, 1.0).len() > 500, "{}", of_run(0.0, 1.0).len());
    assert_ne!(of_run(0.0, 1.0), of_run(0.0, 2.0));
    for seed in [1.0, 2.0] {
        let (restarted, kept) = (of_run(0.0, seed), of_run(1.0, seed));
        let same = restarted.iter().filter(|row| kept.binary_search(row).is_ok()).count();
        // Only bursts that the end of the run cuts short may differ between the variants.
        assert!(same + 5 >= restarted.len().max(kept.len()), "{same} of {}", restarted.len());
    }
    // All data of the server has arrived on every connection that has ended.
    let connections = &tables[&TableName::CONNECTIONS];
    let number =
        ["seed", "connection", "bytes", "delivered_bytes", "acked_s"].map(|name| column(connections, name));
    let mut over = 0;
    for seed in [1, 2] {
        let expected = vectors(&scenario, seed);
        for row in (0..connections.rows()).filter(|&row| number[0][row] == seed as f64) {
            let response_bytes = expected[number[1][row] as usize].bytes(Side::Acceptor);
            let [bytes, delivered] = [2, 3].map(|column| number[column][row] as u64);
            if number[4][row].is_nan() {
                assert!(
                    delivered <= bytes && bytes <= response_bytes,
                    "{delivered} {bytes} {response_bytes}"
                );
            } else {
                assert_eq!([bytes, delivered], [response_bytes; 2]);
                over += 1;
            }
        }
    }
    assert!(over > 2 * 2 * 180 && over < connections.rows(), "{over}");
}

/// Tests that the example scenario offers what the newCWV paper's study of bursts needs (CWV-S9): 3151 connections in an hour, an offered
/// load of about 700 kbit/s, and 200 bursts in every class of burst sizes and idle periods.
#[test]
fn an_hour_of_the_example_offers_what_the_study_of_bursts_needs() {
    let path = scenarios::file("bursts.toml");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("connections = 210", "connections = 3151").replace("\"4min\"", "\"60min\"");
    let scenario = Scenario::parse(&path, &text).unwrap();
    for seed in 1..=5 {
        let vectors = vectors(&scenario, seed);
        assert_eq!(vectors.len(), 3151);
        let bytes: u64 = vectors.iter().map(|vector| vector.bytes(Side::Acceptor)).sum();
        let kbit_per_s = bytes as f64 * 8.0 / 3600.0 / 1e3;
        assert!((640.0..760.0).contains(&kbit_per_s), "seed {seed}: {kbit_per_s} kbit/s");
        let epochs = vectors.iter().flat_map(|vector| vector.adus.chunks(2));
        let bursts: Vec<(u64, u64)> = epochs.map(|epoch| (epoch[1].bytes, epoch[0].wait_us)).collect();
        let mut sizes: Vec<u64> = bursts.iter().map(|burst| burst.0).collect();
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        assert!((9_000..11_000).contains(&median) && sizes.last() <= Some(&1_000_000), "{median}");
        for larger in [5, 10, 20, 40, 80] {
            for longer in [1, 3, 5, 7, 10, 15] {
                let of_class =
                    |&&(bytes, idle_us): &&(u64, u64)| bytes > larger * 1000 && idle_us > longer * 1_000_000;
                let count = bursts.iter().filter(of_class).count();
                assert!(count >= 200, "seed {seed}: {count} bursts over {larger} KB after {longer} s");
            }
        }
    }
}

#[test]
fn a_generated_trace_can_be_kept_and_replayed_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    let drawn = Scenario::parse(&path, &one_link(GENERATE, "seed = 4")).unwrap();
    let known = Scenario::parse(&path, &one_link("trace = 'kept.cvec'", ""));
    assert!(known.is_err(), "the file is not there yet");
    for form in [tmix::Form::Original, tmix::Form::Alternate] {
        let text = tmix::write(&vectors(&drawn, 1), form).unwrap();
        fs::write(folder.path().join("kept.cvec"), text).unwrap();
        let kept = Scenario::parse(&path, &one_link("trace = 'kept.cvec'", "")).unwrap();
        let tables = [TableName::BURSTS, TableName::CONNECTIONS];
        assert_eq!(run(&kept, &[1], &tables), run(&drawn, &[1], &tables));
    }
}

#[test]
fn what_is_wrong_with_a_trace_is_one_error_with_its_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    fs::write(folder.path().join("bad.cvec"), "SEQ 0 1 0 0\n> many\n").unwrap();
    fs::write(folder.path().join("empty.cvec"), "# nothing\n").unwrap();
    let generate = |key: &str, value: &str| {
        let kept = GENERATE.lines().filter(|line| !line.starts_with(key)).collect::<Vec<_>>().join("\n");
        format!("{kept}\n{key} = {value}\n")
    };
    for (keys, messages) in [
        ("trace = 'bad.cvec'".into(), ["x.toml: traffic.t.trace", "bad.cvec: line 2: \"many\""]),
        ("trace = 'none.cvec'".into(), ["traffic.t.trace", "none.cvec: No such file"]),
        ("trace = 'empty.cvec'".into(), ["traffic.t.trace", "empty.cvec: no connections"]),
        (String::new(), ["traffic.t.trace", "expected either trace or generate"]),
        (format!("trace = 'bad.cvec'\n{GENERATE}"), ["traffic.t.trace", "expected either trace or generate"]),
        (generate("connections", "0"), ["traffic.t.generate.connections", "0: expected 1 to"]),
        (generate("idle_s", "'pareto:shape=1'"), ["traffic.t.generate.idle_s", "pareto"]),
        (generate("over", "'long'"), ["traffic.t", "\"long\""]),
        (generate("epoch", "1"), ["traffic.t", "unknown field `epoch`"]),
    ] {
        let error = Scenario::parse(&path, &one_link(&keys, "")).unwrap_err().to_string();
        assert!(messages.iter().all(|message| error.contains(message)), "{keys}: {error}");
    }
}

#[test]
fn real_servers_answer_known_requests_and_real_clients_replay_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    fs::write(folder.path().join("asked.cvec"), "SEQ 0 1 0 0\n> 9\nt 1\n< 4000\nt 5\n> 9\nt 1\n< 300\n")
        .unwrap();
    fs::write(folder.path().join("told.cvec"), "SEQ 0 1 0 0\n> 9\nt 1\n< 20\nSEQ 0 1 0 0\n< 9\n").unwrap();
    let read = |external: &str, more: &str| {
        let text = one_link(more, "").replace("handshake = false\nfin = false", "");
        let text = text.replace(
            &format!("{external} = {{ kind = 'host'"),
            &format!("{external} = {{ external = true, kind = 'host'"),
        );
        Scenario::parse(&path, &text)
    };
    let known = read("s", "trace = 'asked.cvec'").unwrap_err().to_string();
    assert!(known.contains("2 epochs") || known.contains("1 epochs"), "{known}");
    fs::write(folder.path().join("asked.cvec"), "SEQ 0 2 0 0\n> 9\nt 1\n< 4000\nt 5\n> 9\nt 1\n< 300\n")
        .unwrap();
    let known = read("s", "trace = 'asked.cvec'").unwrap();
    let plan = known.emulation("default").unwrap();
    let server = plan.groups().next().unwrap().pairs[0].0;
    assert_eq!(plan.documents(server), [("/300".into(), 300), ("/4000".into(), 4000)]);
    for (external, more, messages) in [
        ("s", "trace = 'told.cvec'", ["traffic.t.trace", "connection 2: expected one response per request"]),
        ("s", GENERATE, ["traffic.t.generate.seed", "required with an external server"]),
        ("c", "trace = 'asked.cvec'", ["traffic.t.clients", "an external client does not replay"]),
    ] {
        let error = read(external, more).unwrap_err().to_string();
        assert!(messages.iter().all(|message| error.contains(message)), "{external}: {error}");
    }
}
