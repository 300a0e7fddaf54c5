use catnip_base::notation::did_you_mean;
use std::fmt;

/// Error in an input: one line that names the file, the key and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError(String);

impl InputError {
    /// Creates the error `FILE: KEY: MESSAGE`, in which `message` gives the wrong value and the reason. Empty parts are left out.
    pub fn new(file: &str, key: &str, message: impl fmt::Display) -> Self {
        let message = message.to_string().replace('\n', " ");
        let parts = [file, key, &message];
        Self(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": "))
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InputError {}

/// Error in an input whose file is not known yet: the key, and the reason why its value is wrong.
pub(crate) type KeyError = (String, String);

/// Rewrites an error message of serde in the terms of TOML instead of Rust types, with a suggestion for a misspelled name.
pub(crate) fn in_toml_terms(message: &str) -> String {
    let first = message.lines().next().unwrap_or(message);
    let Some((before, expected)) = first.split_once(", expected ") else { return first.into() };
    let expected = match expected {
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" => "a whole number, not negative".into(),
        "f32" | "f64" => "a number, with a point or without".into(),
        "a sequence" => "a list".into(),
        "a map" => "a table".into(),
        "a boolean" => "true or false".into(),
        "any valid TOML value" | "path string" => "a text".into(),
        other if other.starts_with("struct ") || other.contains("enum ") => "a table".into(),
        other => format!("{other}{}", suggestion(before, other)),
    };
    let before = before
        .replace("invalid type: map", "invalid type: table")
        .replace("invalid type: sequence", "invalid type: list");
    format!("{before}, expected {expected}")
}

/// Returns the end of an error message that suggests the right spelling of a name, or an empty text. `before` contains the misspelled name
/// in backticks, `expected` the known names.
fn suggestion(before: &str, expected: &str) -> String {
    let in_backticks =
        |text: &'_ str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(String::from).collect() };
    let known = in_backticks(expected);
    match &in_backticks(before)[..] {
        [unknown] => did_you_mean(unknown, known.iter().map(String::as_str)),
        _ => String::new(),
    }
}
