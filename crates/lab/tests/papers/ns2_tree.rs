//! Telnet, Web and FTP over a congested tree, compared with ns-2 with the same traffic: `validation/ns2/diffserv.tcl`, measured over ten
//! seeds in `python/catnip/reference/ns2/diffserv_tree.csv`.

use catnip_lab::{Column, RunRequest, Scenario, Table, TableName, run_all};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Start and end of the measurement, seconds: transfers that end in between are counted.
const COUNTED_S: (f64, f64) = (50.0, 350.0);
const SEEDS: u64 = 5;

fn floats<'a>(table: &'a Table, name: &str) -> &'a [f64] {
    match table.columns().iter().find(|(column, _)| *column == name) {
        Some((_, Column::Float(values))) => values,
        other => panic!("{name}: {other:?}"),
    }
}

fn integers<'a>(table: &'a Table, name: &str) -> &'a [u64] {
    match table.columns().iter().find(|(column, _)| *column == name) {
        Some((_, Column::Integer(values))) => values,
        other => panic!("{name}: {other:?}"),
    }
}

/// Returns the durations of the transfers in a table that ended within the measurement, in ascending order, seconds.
fn durations_s(table: &Table) -> Vec<f64> {
    let ended = floats(table, "start_s").iter().zip(floats(table, "time_s"));
    let counted = ended.filter(|(start, time)| (COUNTED_S.0..COUNTED_S.1).contains(&(*start + *time)));
    let mut all: Vec<f64> = counted.map(|(_, time)| *time).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn above(durations_s: &[f64], limit_s: f64) -> f64 {
    durations_s.iter().filter(|&&time| time > limit_s).count() as f64 / durations_s.len() as f64
}

/// Returns the tables of a variant over all seeds, for runs of `end_s` seconds.
fn run(case: &str, end_s: f64) -> BTreeMap<TableName, Table> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ns2_tree.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let duration = format!("duration = \"{}s\"", COUNTED_S.1);
    assert!(text.contains(&duration));
    let text = text.replace(&duration, &format!("duration = \"{end_s}s\""));
    let scenario = Scenario::parse(&path, &text).unwrap();
    let tables = vec![TableName::PAGES, TableName::ECHOES, TableName::PORTS];
    let request =
        RunRequest { variants: vec![case], seeds: (1..=SEEDS).collect(), tables, threads: 0, every: None };
    run_all(&scenario, &request, &mut |_| true).unwrap().expect("the run is not interrupted")
}

/// Returns the number of packets that arrived at the bottleneck in the direction of the users, and the number of packets dropped there.
fn at_the_bottleneck(ports: &Table) -> [f64; 2] {
    let is_bottleneck = match ports.columns().iter().find(|(name, _)| *name == "port") {
        Some((_, Column::Text(names))) => names.iter().map(|name| name == "bottleneck").collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    ["arrived_low", "dropped_low"].map(|name| {
        let here = integers(ports, name).iter().zip(&is_bottleneck).filter(|(_, is)| **is);
        here.map(|(n, _)| *n as f64).sum::<f64>()
    })
}

/// Returns the quantities of a variant that are compared with ns-2, by the column in which ns-2's measurements are stored.
fn measured(case: &str) -> BTreeMap<&'static str, f64> {
    let (before, all) = (run(case, COUNTED_S.0), run(case, COUNTED_S.1));
    let (pages, echoes) = (durations_s(&all[&TableName::PAGES]), durations_s(&all[&TableName::ECHOES]));
    // A shorter run with the same seed has the same events as the beginning of a longer run. The difference of their counts is therefore
    // the count within the measurement.
    let [early, whole] = [before, all].map(|tables| at_the_bottleneck(&tables[&TableName::PORTS]));
    let [arrived, dropped] = [0, 1].map(|i| whole[i] - early[i]);
    BTreeMap::from([
        ("forward_loss_share", dropped / arrived),
        ("page_above_5_s_share", above(&pages, 5.0)),
        ("page_above_10_s_share", above(&pages, 10.0)),
        ("echo_above_0.15_s_share", above(&echoes, 0.15)),
        ("echo_above_1_s_share", above(&echoes, 1.0)),
    ])
}

/// Returns the least and the greatest value of a column over the runs of ns-2 with different seeds.
fn of_ns2(case: &str, column: &str) -> (f64, f64) {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../python/catnip/reference/ns2/diffserv_tree.csv");
    let mut reader = csv::Reader::from_path(file).unwrap();
    let at = reader.headers().unwrap().iter().position(|name| name == column).unwrap();
    let rows = reader.records().map(Result::unwrap).filter(|row| &row[0] == case);
    let values: Vec<f64> = rows.map(|row| row[at].parse().unwrap()).collect();
    assert_eq!(values.len(), 10);
    values.iter().fold((f64::INFINITY, 0.0), |(least, most), value| (least.min(*value), most.max(*value)))
}

/// Known deviations from the range of ns-2. The one-way agents of ns-2 have no handshake. The agent that emulates a handshake repeats a
/// lost SYN-ACK only when the opener repeats its SYN. CATNIP also repeats a SYN-ACK when its timer expires (RFC 9293, section 3.8.1), so
/// that two copies are sent and a second loss is rare. Without this timer, the page times are within the range. The share of lost packets
/// is 1.7 % below the range, relative to the value; the cause is unknown. The test also fails if one of these values returns to the range.
const OPEN: [(&str, &str); 3] = [
    ("droptail_20", "forward_loss_share"),
    ("droptail_20", "page_above_10_s_share"),
    ("red_20", "page_above_10_s_share"),
];

#[test]
fn a_congested_tree_loses_and_delays_as_in_ns2_but_where_it_is_known_not_to() {
    let mut off = Vec::new();
    for case in ["droptail_20", "droptail_12", "red_20"] {
        for (column, value) in measured(case) {
            let (least, most) = of_ns2(case, column);
            if (least..=most).contains(&value) == OPEN.contains(&(case, column)) {
                off.push(format!("{case} {column}: {value}, ns-2 {least} to {most}"));
            }
        }
    }
    assert!(off.is_empty(), "{off:#?}");
}
