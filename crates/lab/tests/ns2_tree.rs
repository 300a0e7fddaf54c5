//! Telnet, Web and FTP over a congested tree, beside ns-2 with the same traffic: `validation/ns2/diffserv.tcl`, measured over ten
//! seeds in `validation/reference/ns2/diffserv_tree.csv`.

use catnip_lab::{Column, RunRequest, Scenario, Table, TableName, run_all};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is counted ends within these seconds.
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

/// How long those took that ended in the time that counts, in order of duration.
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

/// What both simulators are asked, by the name of ns-2's column.
fn measured(case: &str) -> BTreeMap<&'static str, f64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ns2_tree.toml");
    let scenario = Scenario::load(&path).unwrap();
    let tables = vec![TableName::Pages, TableName::Echoes, TableName::Ports];
    let request = RunRequest { variants: vec![case], seeds: (1..=SEEDS).collect(), tables, threads: 0 };
    let results = run_all(&scenario, &request, &mut |_| true).unwrap().expect("nobody stops it");
    let (pages, echoes) =
        (durations_s(&results[&TableName::Pages]), durations_s(&results[&TableName::Echoes]));
    let ports = &results[&TableName::Ports];
    let bottleneck = match ports.columns().iter().find(|(name, _)| *name == "port") {
        Some((_, Column::Text(names))) => names.iter().map(|name| name == "bottleneck").collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let sum = |name: &str| {
        integers(ports, name)
            .iter()
            .zip(&bottleneck)
            .filter(|(_, is)| **is)
            .map(|(n, _)| *n as f64)
            .sum::<f64>()
    };
    BTreeMap::from([
        ("forward_loss_share", sum("dropped_low") / sum("arrived_low")),
        ("page_above_5_s_share", above(&pages, 5.0)),
        ("page_above_10_s_share", above(&pages, 10.0)),
        ("echo_above_0.15_s_share", above(&echoes, 0.15)),
        ("echo_above_1_s_share", above(&echoes, 1.0)),
    ])
}

/// Least and greatest value over ns-2's seeds.
fn of_ns2(case: &str, column: &str) -> (f64, f64) {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../validation/reference/ns2/diffserv_tree.csv");
    let mut reader = csv::Reader::from_path(file).unwrap();
    let at = reader.headers().unwrap().iter().position(|name| name == column).unwrap();
    let rows = reader.records().map(Result::unwrap).filter(|row| &row[0] == case);
    let values: Vec<f64> = rows.map(|row| row[at].parse().unwrap()).collect();
    assert_eq!(values.len(), 10);
    values.iter().fold((f64::INFINITY, 0.0), |(least, most), value| (least.min(*value), most.max(*value)))
}

/// What is 1 % beyond ns-2's range. Its Web sessions fetch fewer pages the longer a run lasts, ours do not, and so offer more; why is
/// open.
const OPEN: [(&str, &str); 2] =
    [("droptail_12", "echo_above_0.15_s_share"), ("droptail_12", "echo_above_1_s_share")];

#[test]
fn a_congested_tree_loses_and_delays_as_in_ns2() {
    let mut off = Vec::new();
    for case in ["droptail_20", "droptail_12", "red_20"] {
        for (column, value) in measured(case) {
            let (least, most) = of_ns2(case, column);
            if !(least..=most).contains(&value) && !OPEN.contains(&(case, column)) {
                off.push(format!("{case} {column}: {value}, ns-2 {least} to {most}"));
            }
        }
    }
    assert!(off.is_empty(), "{off:#?}");
}
