//! Readers of the output of the program.

use serde_json::Value;
use std::process::Output;

pub(crate) fn output_text(output: &Output) -> String {
    format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr))
}

/// Returns the values of a column. A null becomes NaN, which JSON cannot represent.
pub(crate) fn column(results: &Value, table: &str, name: &str) -> Vec<f64> {
    let values = results[table][name].as_array().unwrap_or_else(|| panic!("no {table}.{name} in {results}"));
    values.iter().map(|value| if value.is_null() { f64::NAN } else { value.as_f64().unwrap() }).collect()
}
