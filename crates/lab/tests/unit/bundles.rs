//! Scenarios as bundles: read where their files are not.

use crate::scenarios;
use catnip_lab::{Bundle, RunRequest, Scenario, TableName, run_all, run_one};
use catnip_sim::Memory;
use std::path::Path;

/// Returns the plans of all variants, in full.
fn plans(scenario: &Scenario) -> Vec<String> {
    let of = |name| format!("{name}: {:?}", scenario.emulation(name).unwrap());
    scenario.variants().map(of).collect()
}

#[test]
fn every_scenario_has_the_same_plans_where_its_files_are_not() {
    for path in scenarios::all() {
        let here = Scenario::load(&path).unwrap();
        let bundle = here.bundle().unwrap();
        let elsewhere = Bundle { path: "/nowhere/scenario.toml".into(), ..bundle.clone() };
        let there = Scenario::of_bundle(&elsewhere).unwrap();
        assert_eq!(plans(&there), plans(&here), "{}", path.display());
        assert_eq!(there.bundle().unwrap(), elsewhere);
    }
}

#[test]
fn a_variant_that_is_read_alone_has_the_plan_that_it_has_among_all() {
    let scenario = Scenario::load(&scenarios::file("catnip-e4.toml")).unwrap();
    let bundle = scenario.bundle().unwrap();
    for (number, name) in scenario.variants().enumerate() {
        let alone = Scenario::variant_of_bundle(&bundle, Some(name)).unwrap();
        assert_eq!(plans(&alone), plans(&scenario)[number..=number]);
    }
    let all = Scenario::variant_of_bundle(&bundle, Some("no such variant")).unwrap();
    assert_eq!(plans(&all), plans(&scenario));
}

#[test]
fn a_bundle_has_the_keys_that_were_set_and_the_files_of_all_bases() {
    let path = scenarios::file("today-mix.toml");
    let set = [("define.buffer".to_string(), "77".to_string())];
    let scenario = Scenario::load_set(&path, &set).unwrap();
    let bundle = scenario.bundle().unwrap();
    assert_eq!(bundle.set, set);
    let names: Vec<_> = bundle.files.keys().map(|name| name.display().to_string()).collect();
    assert_eq!(names, ["../reference/today_pages.csv", "today.toml"]);
    assert_eq!(Scenario::of_bundle(&bundle).unwrap().text, scenario.text);
}

#[test]
fn a_file_that_a_bundle_lacks_is_named_even_if_the_disk_has_it() {
    let path = scenarios::file("today-mix.toml");
    let mut bundle = Scenario::load(&path).unwrap().bundle().unwrap();
    bundle.files.remove(Path::new("../reference/today_pages.csv"));
    let error = Scenario::of_bundle(&bundle).unwrap_err().to_string();
    assert!(error.contains("today_pages.csv: not among the files of the bundle"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn a_run_on_this_thread_has_the_rows_of_all_runs() {
    let scenario = Scenario::load(&scenarios::file("catnip-e4.toml")).unwrap();
    let variant = scenario.variants().next().unwrap();
    let tables = vec![TableName::GROUPS, TableName::PORTS];
    let request = RunRequest {
        variants: vec![variant],
        seeds: vec![7],
        tables: tables.clone(),
        threads: 2,
        every: None,
    };
    let all = run_all(&scenario, &request, &mut |_| true).unwrap().unwrap();
    let plan = scenario.plan(variant).unwrap();
    let mut memory = Memory::default();
    // The second run reuses memory of the first one.
    for seed in [8, 7] {
        let one = run_one(plan, seed, &tables, None, &mut || true, &mut memory).unwrap();
        assert_eq!(format!("{one:?}") == format!("{all:?}"), seed == 7);
    }
    assert!(run_one(plan, 7, &tables, None, &mut || false, &mut memory).is_none());
}
