//! Tables of results: a table without rows has all columns, and docs/tables.md describes every column.

use catnip_lab::{Column, RunRequest, Scenario, Table, TableName, run_all};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[test]
fn the_page_about_tables_says_what_is_declared() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/tables.md");
    let mut now = String::from(
        "# Tables\n\n\
         Reference of the tables that `catnip run --out` and `catnip emulate --out` write: one Parquet file per table, with the same\n\
         columns from both commands, and manifest.json, which describes the run. The name of a column ends in its unit: `_s` for\n\
         seconds, `_bytes` for bytes. Times refer to the clock of the run, which starts at 0. A `float` is a double, with NaN for a\n\
         missing value, an `integer` an unsigned number of 64 bits, and a `text` UTF-8. There are no null values. `catnip list --json`\n\
         prints the same information for programs.\n",
    );
    for name in TableName::all() {
        writeln!(now, "\n## {}\n\n{}\n", name.name(), name.about()).unwrap();
        writeln!(now, "| column | type | description |\n|---|---|---|").unwrap();
        for heading in name.headings() {
            writeln!(now, "| `{}` | {} | {} |", heading.name, heading.empty.kind(), heading.about).unwrap();
        }
    }
    if std::env::var_os("CATNIP_BLESS").is_some() {
        std::fs::write(&page, &now).unwrap();
    }
    let before = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(before == now, "docs/tables.md is not what is declared; CATNIP_BLESS=1 writes it");
}

#[test]
fn a_table_without_rows_has_the_columns_of_one_with_rows() {
    let kinds = |table: &Table| -> Vec<_> {
        table.columns().iter().map(|(name, column)| (*name, column.kind())).collect()
    };
    // There are no pages, and the shorter duration ends before any transfer.
    let bulk = |duration: &str| {
        format!(
            "id = 'X'\ntitle = 'x'\nduration = '{duration}'\n[node]\na = {{ kind = 'host' }}\nb = {{ kind = 'host' }}\n\
             [link.ab]\nfrom = 'a'\nto = 'b'\nrate = '1Mbit'\ndelay = '5ms'\nqueue = 'drop-tail:30'\n\
             [traffic.file]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\npackets = 3\n"
        )
    };
    let tables = |duration| {
        let scenario = Scenario::parse(Path::new("x.toml"), &bulk(duration)).unwrap();
        let request = RunRequest {
            variants: vec!["default"],
            seeds: vec![1],
            tables: TableName::all(),
            threads: 1,
            every: None,
        };
        run_all(&scenario, &request, &mut |_| true).unwrap().unwrap()
    };
    let (cut, whole) = (tables("1ms"), tables("60s"));
    for name in TableName::all() {
        let declared: Vec<_> = name.headings().iter().map(|it| (it.name, it.empty.kind())).collect();
        assert_eq!(kinds(&cut[&name]), declared);
        assert_eq!(kinds(&whole[&name]), declared);
        assert_eq!(kinds(&Table::new(name)), declared);
    }
    let rows = |name| (cut[&name].rows(), whole[&name].rows());
    assert_eq!(rows(TableName::PAGES), (0, 0));
    assert_eq!(rows(TableName::ECHOES), (0, 0));
    assert_eq!(rows(TableName::CONNECTIONS), (1, 1));
    assert_eq!(rows(TableName::RUNS), (1, 1));
}

#[test]
fn columns_have_names_of_their_own_and_measured_ones_end_in_a_unit() {
    for name in TableName::all() {
        let headings = name.headings();
        let names: BTreeSet<_> = headings.iter().map(|heading| heading.name).collect();
        assert_eq!(names.len(), headings.len(), "{}", name.name());
        for heading in headings {
            assert!(heading.about.ends_with('.') && !heading.about.contains('|'), "{}", heading.name);
            if matches!(heading.empty, Column::Float(_))
                && !["utilization", "fairness"].contains(&heading.name)
            {
                assert!(!heading.unit().is_empty(), "{} has no unit", heading.name);
            }
        }
    }
}
