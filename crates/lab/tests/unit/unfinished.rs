//! Rows of activities that are unfinished at the end of a run. A shorter run has a row for every activity that started before its end. If
//! the activity had finished, its row has the same values as in a longer run.

use crate::scenarios;
use catnip_lab::{Column, RunRequest, Scenario, Table, TableName, run_all};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Scenario with Web pages by all versions of HTTP, files in both directions, Telnet, and connections of a trace.
const OFFICE: &str = concat!(include_str!("../lossy_link.toml"), include_str!("../office.toml"));

/// Tables of activities that end, and the columns that identify a row.
const TABLES: [(TableName, &[&str]); 4] = [
    (TableName::PAGES, &["client", "start_s"]),
    (TableName::OBJECTS, &["client", "object", "start_s"]),
    (TableName::CONNECTIONS, &["connection"]),
    (TableName::ECHOES, &["client", "number"]),
];

/// Start, duration and delivered bytes of an activity, in seconds and bytes; NaN means a missing value.
type Times3 = [f64; 3];

fn run(
    path: &Path,
    text: &str,
    variant: &str,
    until_ms: u64,
) -> BTreeMap<TableName, BTreeMap<Vec<u64>, Times3>> {
    let text = format!("duration = '{until_ms}ms'\n{text}");
    let scenario = Scenario::parse(path, &text).unwrap_or_else(|error| panic!("{error}"));
    let tables = TABLES.map(|(name, _)| name).to_vec();
    let request = RunRequest { variants: vec![variant], seeds: vec![1], tables, threads: 1, every: None };
    let tables = run_all(&scenario, &request, &mut |_| true).unwrap().unwrap();
    TABLES.into_iter().map(|(name, key)| (name, times_by_key(&tables[&name], name, key))).collect()
}

fn times_by_key(table: &Table, name: TableName, key: &[&str]) -> BTreeMap<Vec<u64>, Times3> {
    let keys: Vec<Vec<f64>> = key.iter().map(|name| column(table, name)).collect();
    let start = column(table, "start_s");
    let time = if name == TableName::CONNECTIONS {
        column(table, "acked_s").iter().zip(&start).map(|(end, start)| end - start).collect()
    } else {
        column(table, "time_s")
    };
    let has_bytes = name != TableName::ECHOES;
    let delivered = if has_bytes { column(table, "delivered_bytes") } else { vec![f64::NAN; table.rows()] };
    let row = |row: usize| {
        let key = keys.iter().map(|column| (column[row] * 1e9).round() as u64).collect();
        (key, [start[row], time[row], delivered[row]])
    };
    let rows: BTreeMap<_, _> = (0..table.rows()).map(row).collect();
    assert_eq!(rows.len(), table.rows(), "{name:?}: one row each");
    rows
}

fn column(table: &Table, name: &str) -> Vec<f64> {
    match &table.columns().iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no {name}")).1 {
        Column::Float(values) => values.clone(),
        Column::Integer(values) => values.iter().map(|&v| v as f64).collect(),
        Column::Text(_) => panic!("{name} is text"),
    }
}

/// Checks that a run of `end_ms` has a row for each activity that started before `end_ms` in a run of `later_ms`, and that the rows of
/// activities that had finished by `end_ms` have the same values. Returns the number of unfinished activities.
fn is_its_beginning(path: &Path, text: &str, variant: &str, [end_ms, later_ms]: [u64; 2]) -> usize {
    let [short, long] = [end_ms, later_ms].map(|until_ms| run(path, text, variant, until_ms));
    let end_s = end_ms as f64 / 1e3;
    let mut open = 0;
    for (name, rows) in &long {
        let begun = rows.values().filter(|[start, ..]| *start <= end_s).count();
        assert_eq!(begun, short[name].len(), "{name:?}: nothing is missing, nothing is made up");
        for (key, &[start, time, delivered]) in &short[name] {
            let [began, took, came] = rows[key];
            assert_eq!(start.to_bits(), began.to_bits());
            if time.is_nan() {
                open += 1;
                assert!(took.is_nan() || began + took > end_s, "{name:?} {key:?}: {began} {took}");
                assert!(delivered.is_nan() || delivered <= came, "{name:?} {key:?}: {delivered} {came}");
            } else {
                assert_eq!(time.to_bits(), took.to_bits());
                assert!(delivered.is_nan() || delivered == came, "{name:?} {key:?}: {delivered} {came}");
            }
        }
    }
    open
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_run_that_ends_earlier_is_the_beginning_of_the_same_run(end_ms in 200u64..6000, more_ms in 1u64..3000) {
        let open = is_its_beginning(Path::new("x.toml"), OFFICE, "default", [end_ms, end_ms + more_ms]);
        prop_assert!(open > 0, "some transfers are always unfinished");
        let path = scenarios::file("recorded-page.toml");
        let text = fs::read_to_string(&path).unwrap();
        for variant in ["HTTP/1.1", "HTTP/2"] {
            is_its_beginning(&path, &text, variant, [end_ms, end_ms + more_ms]);
        }
    }
}

#[test]
fn of_a_page_that_is_not_complete_as_much_has_arrived_as_of_its_objects() {
    let path = scenarios::file("recorded-page.toml");
    let text = fs::read_to_string(&path).unwrap();
    let mut before = 0.0;
    for until_ms in (100..2000).step_by(50) {
        for variant in ["HTTP/1.1", "HTTP/2"] {
            let tables = run(&path, &text, variant, until_ms);
            let pages = &tables[&TableName::PAGES];
            let objects: f64 = tables[&TableName::OBJECTS].values().map(|[.., delivered]| delivered).sum();
            let delivered: f64 = pages.values().map(|[.., delivered]| delivered).sum();
            assert_eq!(objects, delivered, "a page is its objects");
            before = delivered.max(before);
        }
    }
    assert!(before > 0.0);
}
