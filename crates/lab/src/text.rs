//! How values of scenario files are read.

use crate::error::Wrong;
use catnip_base::{Distribution, ParseError, Span};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use std::str::FromStr;

/// A value in a text, with a unit or in the notation of its kind.
pub(crate) fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err = ParseError>>(
    d: D,
) -> Result<T, D::Error> {
    String::deserialize(d)?.parse().map_err(de::Error::custom)
}

/// The same where the key may be left out.
pub(crate) fn option_from_text<'de, D: Deserializer<'de>, T: FromStr<Err = ParseError>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    from_text(d).map(Some)
}

/// A distribution, as a table or as a text.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "toml::Value")]
pub(crate) struct DistributionText(String);

impl DistributionText {
    pub(crate) fn read(&self) -> Result<Distribution, String> {
        self.0.parse().map_err(|error: ParseError| error.to_string())
    }
}

impl From<toml::Value> for DistributionText {
    fn from(value: toml::Value) -> Self {
        let toml::Value::Table(mut table) = value else { return Self(plain(&value)) };
        let name = table.remove("distribution").map_or_else(String::new, |name| plain(&name));
        let options: Vec<String> =
            table.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
        Self(format!("{name}:{}", options.join(",")))
    }
}

/// Points of a list are separated by semicolons, the numbers of a point by slashes.
fn plain(value: &toml::Value) -> String {
    let join = |list: &[toml::Value], by| list.iter().map(plain).collect::<Vec<_>>().join(by);
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(list) if list.iter().all(toml::Value::is_array) => join(list, ";"),
        toml::Value::Array(list) => join(list, "/"),
        other => other.to_string(),
    }
}

/// Changes every text within a table; `change` gets the key at which it stands, too.
pub(crate) fn change_texts(
    table: &mut toml::Table,
    change: &mut dyn FnMut(&str, &mut String) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    table.iter_mut().try_for_each(|(key, value)| change_within(key, value, change))
}

fn change_within(
    key: &str,
    value: &mut toml::Value,
    change: &mut dyn FnMut(&str, &mut String) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    match value {
        toml::Value::String(text) => change(key, text),
        toml::Value::Table(table) => table
            .iter_mut()
            .try_for_each(|(inner, value)| change_within(&format!("{key}.{inner}"), value, change)),
        toml::Value::Array(list) => list.iter_mut().try_for_each(|value| change_within(key, value, change)),
        _ => Ok(()),
    }
}

pub(crate) fn one() -> u32 {
    1
}

pub(crate) fn yes() -> bool {
    true
}

pub(crate) fn a_day() -> Span {
    Span::from_secs(86_400)
}
