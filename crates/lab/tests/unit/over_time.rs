//! Counts of a run after its warm-up and in intervals. The counts add up to the counts of the whole run, and counting does not change the
//! run.

use catnip_base::Span;
use catnip_lab::{Column, RunRequest, Scenario, Table, TableName, run_all};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

const OFFICE: &str = concat!(include_str!("../lossy_link.toml"), include_str!("../office.toml"));

/// Returns all tables of a run of the scenario [`OFFICE`], preceded by the keys `keys`. `every` is the interval of time series.
fn run(keys: &str, every: Option<Span>) -> BTreeMap<TableName, Table> {
    let scenario = Scenario::parse(Path::new("x.toml"), &format!("{keys}\n{OFFICE}")).unwrap();
    let (variants, tables) = (vec!["default"], TableName::all());
    let request = RunRequest { variants, seeds: vec![3], tables, threads: 1, every };
    run_all(&scenario, &request, &mut |_| true).unwrap().unwrap()
}

fn column(table: &Table, name: &str) -> Vec<f64> {
    match &table.columns().iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no {name}")).1 {
        Column::Float(values) => values.clone(),
        Column::Integer(values) => values.iter().map(|&v| v as f64).collect(),
        Column::Text(_) => panic!("{name} is text"),
    }
}

fn names(table: &Table, name: &str) -> Vec<String> {
    match &table.columns().iter().find(|(n, _)| *n == name).unwrap().1 {
        Column::Text(values) => values.iter().map(String::from).collect(),
        _ => panic!("{name} is no text"),
    }
}

/// Returns the sum of the values of a column for each key of its rows.
fn sums<K: Ord>(keys: impl IntoIterator<Item = K>, values: Vec<f64>) -> BTreeMap<K, f64> {
    let mut sums = BTreeMap::new();
    keys.into_iter().zip(values).for_each(|(key, value)| *sums.entry(key).or_default() += value);
    sums
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_run_without_its_warm_up_is_what_it_did_more_than_a_run_of_that_length(
        warm_ms in 100u64..4000,
        more_ms in 1u64..4000,
    ) {
        let end_ms = warm_ms + more_ms;
        let warm = run(&format!("duration = '{warm_ms}ms'"), None);
        let full = run(&format!("duration = '{end_ms}ms'"), None);
        let rest = run(&format!("duration = '{end_ms}ms'\nwarm_up = '{warm_ms}ms'"), None);
        let groups = TableName::GROUPS;
        prop_assert!(names(&full[&groups], "group").len() > 5);
        for name in ["started", "delivered_bytes", "sent", "retransmitted", "timeouts", "dropped", "rtt_samples"] {
            let [warm, full, rest] = [&warm, &full, &rest].map(|of| column(&of[&groups], name));
            for ((warm, full), rest) in warm.iter().zip(full).zip(rest) {
                prop_assert_eq!(full - warm, rest, "{}", name);
            }
        }
        for name in ["arrived_low", "delivered", "delivered_bytes", "dropped_low", "loss", "overflow"] {
            let [warm, full, rest] = [&warm, &full, &rest].map(|of| column(&of[&TableName::PORTS], name));
            for ((warm, full), rest) in warm.iter().zip(full).zip(rest) {
                prop_assert_eq!(full - warm, rest, "{}", name);
            }
        }
        // A mean over time, multiplied by its duration, is a sum that can be compared.
        let seconds = |of: &BTreeMap<_, Table>| column(&of[&TableName::RUNS], "end_s")[0];
        let [packets, packets_warm, packets_rest] =
            [&full, &warm, &rest].map(|of| column(&of[&TableName::PORTS], "queue_mean_packets"));
        let measured = column(&rest[&groups], "measured_s")[0];
        // The run ends with its last event, which may come before the end of the warm-up.
        prop_assert!((measured - (seconds(&full) - warm_ms as f64 / 1e3).max(0.0)).abs() < 1e-9);
        for ((all, warm_mean), mean) in packets.iter().zip(packets_warm).zip(packets_rest) {
            let waited = all * seconds(&full) - warm_mean * seconds(&warm);
            prop_assert!((waited - mean * measured).abs() < 1e-6, "{} {}", waited, mean * measured);
        }
        // Connections opened before the end of the warm-up have rows, too, but do not count as transfers that users wait for.
        let starts = column(&rest[&TableName::TRANSFERS], "start_s");
        prop_assert!(starts.iter().all(|&start| start * 1e3 >= warm_ms as f64));
        prop_assert_eq!(rest[&TableName::CONNECTIONS].rows(), full[&TableName::CONNECTIONS].rows());
    }

    #[test]
    fn intervals_add_up_and_looking_changes_nothing(every_ms in 3u64..900) {
        let every = Some(Span::from_millis(every_ms));
        let (looked, not) = (run("duration = '5s'", every), run("duration = '5s'", None));
        for (name, table) in &not {
            if ![TableName::LINK_SERIES, TableName::CONNECTION_SERIES].contains(name) {
                prop_assert!(table == &looked[name], "{:?}", name);
            }
        }
        let links = &looked[&TableName::LINK_SERIES];
        let ports = &looked[&TableName::PORTS];
        let by_port = sums(names(links, "port"), column(links, "delivered_bytes"));
        prop_assert_eq!(by_port, sums(names(ports, "port"), column(ports, "delivered_bytes")));
        let samples = &looked[&TableName::CONNECTION_SERIES];
        let connections = &looked[&TableName::CONNECTIONS];
        let ids = |table: &Table| column(table, "connection").into_iter().map(|it| it as u64).collect::<Vec<_>>();
        for name in ["delivered_bytes", "sent", "retransmitted"] {
            let by_interval = sums(ids(samples), column(samples, name));
            prop_assert_eq!(by_interval, sums(ids(connections), column(connections, name)), "{}", name);
        }
        let mut before = 0.0;
        let rates = column(links, "utilization").into_iter().zip(column(links, "delivered_bytes"));
        let rows = names(links, "port").into_iter().zip(column(links, "time_s")).zip(rates);
        for ((_, at), (utilization, bytes)) in rows.filter(|((port, _), _)| port == "far") {
            prop_assert!((utilization * 3e6 * (at - before) - 8.0 * bytes).abs() < 1e-3);
            before = at;
        }
    }
}

#[test]
fn a_queue_is_seen_as_long_as_it_is() {
    // 20 packets of 1000 bytes arrive at once at a link of 800 kbit/s: one leaves every 10 ms, the first at 10 ms.
    let text = "id = 'X'\ntitle = 'x'\n[node]\na = { kind = 'host' }\nb = { kind = 'host' }\n\
                [link.ab]\nfrom = 'a'\nto = 'b'\nrate = '800kbit'\ndelay = '1s'\nqueue = 'drop-tail:100'\n\
                [traffic.file]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\npackets = 20\n\
                tcp = { profile = 'ns2-2002', segment = '1000B', initial_window_segments = 20, window_segments = 20 }\n";
    let scenario = Scenario::parse(Path::new("x.toml"), text).unwrap();
    let request = RunRequest {
        variants: vec!["default"],
        seeds: vec![1],
        tables: vec![TableName::LINK_SERIES, TableName::CONNECTION_SERIES],
        threads: 1,
        every: Some(Span::from_millis(25)),
    };
    let tables = run_all(&scenario, &request, &mut |_| true).unwrap().unwrap();
    let links = &tables[&TableName::LINK_SERIES];
    let forward: Vec<usize> = names(links, "port")
        .iter()
        .enumerate()
        .filter(|(_, name)| *name == "ab")
        .map(|(row, _)| row)
        .collect();
    let waiting = column(links, "waiting_packets");
    // At 25 ms, two packets have left and the third is in transmission.
    let seen: Vec<f64> = forward.iter().take(9).map(|&row| waiting[row]).collect();
    assert_eq!(seen, [17.0, 14.0, 12.0, 9.0, 7.0, 4.0, 2.0, 0.0, 0.0]);
    let cwnd = column(&tables[&TableName::CONNECTION_SERIES], "cwnd_bytes");
    assert_eq!(cwnd[0], 20.0 * 1000.0);
}

#[test]
fn a_warm_up_that_leaves_nothing_is_refused() {
    let text = format!("duration = '2s'\nwarm_up = '2s'\n{OFFICE}");
    let error = Scenario::parse(Path::new("x.toml"), &text).unwrap_err().to_string();
    assert_eq!(error, "x.toml: warm_up: 2s: expected less than duration, 2s");
}
