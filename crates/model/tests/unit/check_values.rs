//! Comparison of the models in the registry with the check values of `python/catnip/reference/model_check_values.csv`.

use catnip_model::{Model, Parameter, by_name};
use std::path::Path;

/// Splits a model name of the CSV file into the name in the registry and a parameter setting: some names in the file contain a setting.
fn model_and_setting(name: &str) -> (&str, Option<(&str, f64)>) {
    match name {
        "pftk_W" => ("W", None),
        "E_dss_no_plus1" => ("E_dss", Some(("plus_one", 0.0))),
        "hysteresis_last_cycle_lossless" => ("hysteresis", Some(("last_cycle_loss", 0.0))),
        other => (other, None),
    }
}

/// Settings that the CSV file lists and that the models always use, without a parameter.
const ALWAYS: [(&str, &str, &str); 2] = [("E_dss", "cap", "1"), ("cardwell00", "handshake", "0")];

/// Returns true if `key` is the name in the CSV file of the parameter `name`. Names of times end in `_s` only in the registry. The initial
/// window is `w1` in the registry, but sometimes `w` in the file.
fn is_called(name: &str, key: &str) -> bool {
    name == key || name.strip_suffix("_s") == Some(key) || (name == "w1" && key == "w")
}

fn inputs(model: &Model, params: &str, setting: Option<(&str, f64)>) -> Vec<f64> {
    let mut values: Vec<Option<f64>> = model.parameters.iter().map(|p| p.default).collect();
    let index = |key: &str| model.parameters.iter().position(|p: &Parameter| is_called(p.name, key));
    if let Some((key, value)) = setting {
        values[index(key).unwrap()] = Some(value);
    }
    for pair in params.split(';') {
        let (key, value) = pair.split_once('=').unwrap();
        if ALWAYS.contains(&(model.name, key, value)) {
            continue;
        }
        let index = index(key).unwrap_or_else(|| panic!("{} has no parameter {key}", model.name));
        let rule = (value == "rto_iff_Q_eq_1").then_some(1.0);
        values[index] = Some(rule.unwrap_or_else(|| value.parse().unwrap()));
    }
    values.into_iter().map(|value| value.expect("the file gives what has no default")).collect()
}

#[test]
fn every_check_value_is_met_to_its_printed_digits() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/catnip/reference/model_check_values.csv");
    let rows = std::fs::read_to_string(&file).unwrap().lines().count() - 1;
    let mut checked = 0;
    let mut wrong = Vec::new();
    for record in csv::Reader::from_path(&file).unwrap().records() {
        let record = record.unwrap();
        let [name, params, quantity, value] = [0, 1, 2, 3].map(|i| &record[i]);
        let (name, setting) = model_and_setting(name);
        let model = by_name(name).unwrap_or_else(|| panic!("no model {name}"));
        let index = model.quantities.iter().position(|q| is_called(q.name, quantity));
        let index = index.unwrap_or_else(|| panic!("{name} has no quantity {quantity}"));
        let mut out = vec![f64::NAN; model.quantities.len()];
        (model.evaluate)(&inputs(model, params, setting), &mut out).unwrap();
        let expected: f64 = value.parse().unwrap();
        let error = (out[index] - expected).abs();
        if error.is_nan() || error > 1e-5 * expected.abs() {
            wrong.push(format!("{name} {params} {quantity}: {} instead of {expected}", out[index]));
        }
        checked += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((checked, rows), (rows, 497));
}
