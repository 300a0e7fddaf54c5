//! Parsing of values of scenario files.

use crate::error::{KeyError, in_toml_terms};
use crate::scenario::describe::{InSchema, distribution};
use catnip_base::{Distribution, Measure, ParseError, Span, notation};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Value that is written as a text in scenarios: with a unit, or in the notation of its type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Text<T>(pub(crate) T);

impl<'de, T: FromStr<Err = ParseError>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        to_notation(&toml::Value::deserialize(d)?).parse().map(Self).map_err(D::Error::custom)
    }
}

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl<T: InSchema> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "text".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        T::schema()
    }
}

/// Optional value; its absence is written as `none`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrNone<T>(pub(crate) Option<T>);

impl<T: FromStr<Err = ParseError>> FromStr for OrNone<T> {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        notation::optional(text).map(Self)
    }
}

impl<T> InSchema for OrNone<T>
where
    Option<T>: InSchema,
{
    fn schema() -> Schema {
        Option::<T>::schema()
    }
}

macro_rules! distribution {
    ($($(#[$about:meta])* $Name:ident = $name:literal, $measure:expr;)+) => {
        $($(#[$about])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(try_from = "toml::Value")]
        pub(crate) struct $Name(pub(crate) Distribution);

        impl TryFrom<toml::Value> for $Name {
            type Error = ParseError;
            fn try_from(value: toml::Value) -> Result<Self, ParseError> {
                Distribution::with_units(&distribution_text(value), $measure).map(Self)
            }
        }

        impl JsonSchema for $Name {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                distribution($measure)
            }
        })+
    };
}

distribution! {
    /// Distribution of times, seconds. A key of this type also has an older name that ends in `_s`.
    Times = "times", Measure::Time;
    /// Distribution of sizes, bytes.
    Sizes = "sizes", Measure::Size;
    /// Distribution of counts.
    Counts = "counts", Measure::Count;
}

/// Returns the text notation of a distribution that is given as a number, a text or a table.
fn distribution_text(value: toml::Value) -> String {
    let toml::Value::Table(mut table) = value else { return to_notation(&value) };
    let name = table.remove("distribution").map_or_else(String::new, |name| to_notation(&name));
    let options: Vec<String> =
        table.iter().map(|(key, value)| format!("{key}={}", to_notation(value))).collect();
    format!("{name}:{}", options.join(","))
}

/// Returns a value in text notation. The points of a list are separated by semicolons, the numbers of a point by slashes.
fn to_notation(value: &toml::Value) -> String {
    let join = |list: &[toml::Value], by| list.iter().map(to_notation).collect::<Vec<_>>().join(by);
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(list) if list.iter().all(toml::Value::is_array) => join(list, ";"),
        toml::Value::Array(list) => join(list, "/"),
        other => other.to_string(),
    }
}

/// Reads the table at the path `prefix`. An error gives the wrong key and the reason.
pub(crate) fn read_table<T: DeserializeOwned>(prefix: &str, table: toml::Table) -> Result<T, KeyError> {
    serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|error| {
        let path = error.path().to_string();
        let key = [prefix, path.trim_start_matches('.')]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>();
        (key.join("."), in_toml_terms(error.inner().message()))
    })
}

/// Calls `change` for every text within a table, with the path of the text's key.
pub(crate) fn map_texts(
    table: &mut toml::Table,
    change: &mut dyn FnMut(&str, &mut String) -> Result<(), KeyError>,
) -> Result<(), KeyError> {
    table.iter_mut().try_for_each(|(key, value)| map_texts_within(key, value, change))
}

fn map_texts_within(
    key: &str,
    value: &mut toml::Value,
    change: &mut dyn FnMut(&str, &mut String) -> Result<(), KeyError>,
) -> Result<(), KeyError> {
    match value {
        toml::Value::String(text) => change(key, text),
        toml::Value::Table(table) => table
            .iter_mut()
            .try_for_each(|(inner, value)| map_texts_within(&format!("{key}.{inner}"), value, change)),
        toml::Value::Array(list) => {
            list.iter_mut().try_for_each(|value| map_texts_within(key, value, change))
        }
        _ => Ok(()),
    }
}

pub(crate) fn one() -> u32 {
    1
}

pub(crate) fn yes() -> bool {
    true
}

pub(crate) fn no_time() -> Text<Span> {
    Text(Span::ZERO)
}

pub(crate) fn a_day() -> Text<Span> {
    Text(Span::from_secs(86_400))
}
