//! Readers of the output of a run of the program.

use serde_json::Value;
use std::process::Output;

pub(crate) fn told(output: &Output) -> String {
    format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr))
}

/// Values of a column; NaN, which JSON does not have, where there is none.
pub(crate) fn column(results: &Value, table: &str, name: &str) -> Vec<f64> {
    let values = results[table][name].as_array().unwrap_or_else(|| panic!("no {table}.{name} in {results}"));
    values.iter().map(|value| if value.is_null() { f64::NAN } else { value.as_f64().unwrap() }).collect()
}
