//! Variants of a scenario, and axes: keys with several values, with which every variant is combined.

use crate::InputError;
use crate::error::in_toml_terms;
use crate::scenario::files::Files;
use crate::scenario::sweep::{Design, Sweep};
use crate::scenario::{check_label, merge};
use catnip_base::math;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::f64::consts::LN_10;

/// Maximum number of variants of a scenario, with its axes.
const MAX_VARIANTS: usize = 100_000;

const DEFAULT_VARIANT: &str = "default";

/// Variant: its name, its changes, and its value on each axis.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) changes: toml::Table,
    pub(crate) levels: Vec<(String, toml::Value)>,
}

/// Axis whose values are the names of `[[variant]]`.
const NAMES: &str = "variant.name";

/// Removes `[[variant]]` from a scenario and returns the variants, or a single default variant if there are none.
pub(crate) fn take_variants(file: &str, base: &mut toml::Table) -> Result<Vec<Variant>, InputError> {
    let Some(value) = base.remove("variant") else {
        return Ok(vec![Variant {
            name: DEFAULT_VARIANT.into(),
            changes: toml::Table::new(),
            levels: Vec::new(),
        }]);
    };
    let toml::Value::Array(list) = value else {
        return Err(InputError::new(file, "variant", "expected [[variant]] tables"));
    };
    let mut variants: Vec<Variant> = Vec::new();
    for entry in list {
        let toml::Value::Table(mut changes) = entry else {
            return Err(InputError::new(file, "variant", "expected [[variant]] tables"));
        };
        let Some(toml::Value::String(name)) = changes.remove("name") else {
            return Err(InputError::new(file, NAMES, "every variant needs a name"));
        };
        check_label(&name).map_err(|message| InputError::new(file, NAMES, message))?;
        if variants.iter().any(|other| other.name == name) {
            return Err(InputError::new(file, NAMES, format!("{name:?} occurs twice")));
        }
        let levels = vec![(NAMES.to_string(), toml::Value::String(name.clone()))];
        variants.push(Variant { name, changes, levels });
    }
    Ok(variants)
}

/// Returns each axis with its value in every variant. All variants have the same axes.
pub(crate) fn by_axis(variants: &[Variant]) -> Vec<(String, Vec<toml::Value>)> {
    // The names of the variants are left out if they are the only axis, because they would repeat the list of variants.
    let several = |variant: &&Variant| variant.levels.iter().any(|(key, _)| key != NAMES);
    let axes = variants.first().filter(several).into_iter().flat_map(|first| first.levels.iter().enumerate());
    let of = |axis: usize| variants.iter().map(|variant| variant.levels[axis].1.clone()).collect();
    axes.map(|(axis, (key, _))| (key.clone(), of(axis))).collect()
}

/// Keys with several values. Every variant is combined with each of these values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "axis")]
pub(crate) struct AxisFile {
    /// Path of the key, its parts separated by dots.
    #[serde(default)]
    #[schemars(example = &"link.line.queue", extend("x-default" = "none, but one of `key` and `keys` is required"))]
    key: Option<String>,
    /// Paths of keys that change together.
    #[serde(default)]
    #[schemars(
        example = serde_json::json!(["link.line.rate", "link.line.delay"]),
        extend("x-default" = "none")
    )]
    keys: Option<Vec<String>>,
    /// Values of the key, in order; of several keys, a list of values for each step.
    #[serde(default)]
    #[schemars(
        with = "Option<Vec<serde_json::Value>>",
        length(min = 1),
        example = serde_json::json!(["drop-tail:10", "red:10"]),
        extend("x-default" = "none, but one of `values`, `files` and `range` is required")
    )]
    values: Option<Vec<toml::Value>>,
    /// Value with the name of a file, in which `*` stands for a part of the name: every file of such a name gives a value. Of several keys,
    /// a list of such texts, whose files belong together if `*` stands for the same.
    #[serde(default)]
    #[schemars(
        with = "Option<serde_json::Value>",
        example = &"trace:traces/*.txt",
        extend("type" = ["string", "array"], "x-default" = "none")
    )]
    files: Option<toml::Value>,
    /// Range of the key, LEAST..GREATEST, in which `sweep.samples` values are drawn. All axes with a range are drawn together, as one axis.
    #[serde(default)]
    #[schemars(example = &"5ms..100ms", extend("x-default" = "none"))]
    range: Option<String>,
    /// True if a range is divided by ratios: values are drawn uniformly on a logarithmic scale.
    #[serde(default)]
    #[schemars(example = true, extend("x-default" = "false"))]
    log: bool,
}

/// Keys that change together, and their values at each step.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Paths of the keys.
    pub(crate) keys: Vec<String>,
    /// Values at each step, one for each key.
    pub(crate) steps: Vec<Vec<toml::Value>>,
}

/// Removes `[[axis]]` from a scenario and returns the axes, in order; those with ranges are one axis, in place of the first.
pub(crate) fn take_axes(
    file: &str,
    base: &mut toml::Table,
    files: &Files,
    sweep: &Sweep,
) -> Result<Vec<Axis>, InputError> {
    let value = base.remove("axis").unwrap_or_else(|| toml::Value::Array(Vec::new()));
    let read: Vec<AxisFile> = serde_path_to_error::deserialize(value).map_err(|error| {
        InputError::new(file, &format!("axis{}", error.path()), in_toml_terms(error.inner().message()))
    })?;
    let mut axes: Vec<Axis> = Vec::new();
    let (mut drawn, mut ranges): (Option<usize>, Vec<Range>) = (None, Vec::new());
    for axis in read {
        let error = |key: &str, message: String| InputError::new(file, key, message);
        let keys = match (axis.key, axis.keys) {
            (Some(key), None) => vec![key],
            (None, Some(keys)) if keys.len() > 1 => keys,
            (None, Some(keys)) => {
                return Err(error("axis.keys", format!("{keys:?}: expected at least two; `key` is for one")));
            }
            _ => return Err(error("axis.key", "expected one of key and keys".into())),
        };
        if axis.log && axis.range.is_none() {
            return Err(error("axis.log", "true: needs a range".into()));
        }
        let steps = match (axis.values, axis.files, axis.range) {
            (Some(values), None, None) => {
                listed(&keys, values).map_err(|message| error("axis.values", message))?
            }
            (None, Some(names), None) => {
                matching(&keys, &names, files).map_err(|message| error("axis.files", message))?
            }
            (None, None, Some(text)) => {
                let range =
                    Range::new(keys, &text, axis.log).map_err(|message| error("axis.range", message))?;
                ranges.push(range);
                drawn.get_or_insert(axes.len());
                continue;
            }
            _ => {
                return Err(error(
                    "axis.values",
                    format!("{:?}: expected one of values, files and range", keys[0]),
                ));
            }
        };
        axes.push(Axis { keys, steps });
    }
    match (drawn, sweep.samples()) {
        (Some(at), Some(samples)) => axes.insert(at, draw(&ranges, samples, sweep.design())),
        (None, Some(_)) => return Err(InputError::new(file, "sweep.samples", "no axis has a range")),
        (Some(_), None) => {
            return Err(InputError::new(file, "axis.range", "needs the number of values, sweep.samples"));
        }
        (None, None) => {}
    }
    Ok(axes)
}

/// Returns the steps of listed values. An error gives the reason.
fn listed(keys: &[String], values: Vec<toml::Value>) -> Result<Vec<Vec<toml::Value>>, String> {
    if values.is_empty() {
        return Err(format!("{:?}: no values", keys[0]));
    }
    let mut texts = BTreeSet::new();
    if let Some(value) = values.iter().find(|value| !texts.insert(value.to_string())) {
        return Err(format!("{:?}: {value} occurs twice", keys[0]));
    }
    if keys.len() == 1 {
        return Ok(values.into_iter().map(|value| vec![value]).collect());
    }
    let step = |value: toml::Value| match value {
        toml::Value::Array(step) if step.len() == keys.len() => Ok(step),
        other => Err(format!("{other}: expected a list of {} values, one for each key", keys.len())),
    };
    values.into_iter().map(step).collect()
}

/// Returns the steps of files that match texts with `*`, by what `*` stands for. An error gives the reason.
fn matching(keys: &[String], names: &toml::Value, files: &Files) -> Result<Vec<Vec<toml::Value>>, String> {
    let expected =
        || format!("{names}: expected a text with the name of a file for each key, each with one *");
    let texts: Vec<&str> = match names {
        toml::Value::String(text) => vec![text],
        toml::Value::Array(texts) => {
            texts.iter().map(toml::Value::as_str).collect::<Option<_>>().ok_or_else(expected)?
        }
        _ => return Err(expected()),
    };
    if texts.len() != keys.len() || texts.iter().any(|text| text.matches('*').count() != 1) {
        return Err(expected());
    }
    let mut common: Option<Vec<String>> = None;
    for text in &texts {
        let pattern = text.split([':', ',', '=']).find(|part| part.contains('*')).unwrap_or(text);
        let found = files.matching(pattern).map_err(|error| format!("{text:?}: {error}"))?;
        match &common {
            _ if found.is_empty() => return Err(format!("{text:?}: no file has such a name")),
            Some(others) if *others != found => {
                let of = |name: &&String| !(found.contains(name) && others.contains(name));
                let lone = found.iter().chain(others).find(of).map_or("", String::as_str);
                return Err(format!("{text:?}: with {lone:?} for * there is not a file for each key"));
            }
            _ => common = Some(found),
        }
    }
    let step = |name: String| texts.iter().map(|text| text.replace('*', &name).into()).collect();
    Ok(common.unwrap_or_default().into_iter().map(step).collect())
}

/// Range of an axis.
struct Range {
    key: String,
    least: f64,
    greatest: f64,
    /// Unit of both bounds; empty for numbers.
    unit: String,
    is_whole: bool,
    is_log: bool,
}

impl Range {
    fn new(mut keys: Vec<String>, text: &str, is_log: bool) -> Result<Self, String> {
        let expected = || format!("{text:?}: expected LEAST..GREATEST in the same unit, such as 5ms..100ms");
        let key =
            keys.pop().filter(|_| keys.is_empty()).ok_or_else(|| format!("{text:?}: for one key only"))?;
        let (least, greatest) = text.split_once("..").ok_or_else(expected)?;
        let parts = |bound: &str| -> Option<(f64, String)> {
            let bound = bound.trim();
            let digits = bound.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bound.len());
            Some((bound[..digits].parse().ok()?, bound[digits..].into()))
        };
        let ((low, unit), (high, other)) = parts(least).zip(parts(greatest)).ok_or_else(expected)?;
        if unit != other || low >= high {
            return Err(expected());
        }
        if is_log && low <= 0.0 {
            return Err(format!("{text:?}: a logarithmic range begins above 0"));
        }
        let is_whole = unit.is_empty() && !text.replace("..", "").contains('.');
        Ok(Self { key, least: low, greatest: high, unit, is_whole, is_log })
    }

    /// Returns the value below which the share `share` of the range lies.
    fn at(&self, share: f64) -> toml::Value {
        let Self { least, greatest, .. } = *self;
        // Of whole numbers, each has the same share.
        let greatest = if self.is_whole { greatest + 1.0 } else { greatest };
        let value = if self.is_log {
            math::exp(math::ln(least) + share * (math::ln(greatest) - math::ln(least)))
        } else {
            least + share * (greatest - least)
        };
        if self.is_whole {
            return toml::Value::Integer((value.floor() as i64).min(self.greatest as i64));
        }
        // Six digits are more than any unit needs, and a name that can be read.
        let digits =
            (5 - (math::ln(value.max(f64::MIN_POSITIVE)) / LN_10).floor() as i32).clamp(0, 17) as usize;
        let text = format!("{value:.digits$}");
        if self.unit.is_empty() {
            return toml::Value::Float(text.parse().unwrap_or(value));
        }
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        toml::Value::String(format!("{text}{}", self.unit))
    }
}

/// Returns one axis of all ranges, with `samples` steps, of which equal ones count once.
fn draw(ranges: &[Range], samples: u32, design: Design) -> Axis {
    let shares: Vec<Vec<f64>> = (0..ranges.len() as u32).map(|of| design.shares(of, samples)).collect();
    let step =
        |sample: usize| ranges.iter().zip(&shares).map(|(range, shares)| range.at(shares[sample])).collect();
    let mut texts = BTreeSet::new();
    let is_new = |step: &Vec<toml::Value>| texts.insert(format!("{step:?}"));
    Axis {
        keys: ranges.iter().map(|range| range.key.clone()).collect(),
        steps: (0..samples as usize).map(step).filter(is_new).collect(),
    }
}

/// Checks that no axis sets a key that a variant or another axis sets, too: its values would silently replace theirs.
pub(crate) fn check_axes(file: &str, variants: &[Variant], axes: &[Axis]) -> Result<(), InputError> {
    let all: Vec<&String> = axes.iter().flat_map(|axis| &axis.keys).collect();
    for (index, key) in all.iter().enumerate() {
        let error = |other: String| {
            InputError::new(file, "axis.key", format!("{key:?}: {other} sets it, too; keep one of the two"))
        };
        if all[..index].iter().any(|other| overlap(other, key)) {
            return Err(error("another axis".into()));
        }
        let keys = |variant: &Variant| keys_within("", &variant.changes);
        if let Some(variant) =
            variants.iter().find(|variant| keys(variant).iter().any(|other| overlap(other, key)))
        {
            return Err(error(format!("variant {:?}", variant.name)));
        }
    }
    Ok(())
}

/// Checks that the axes do not make more variants than a computer can hold.
pub(crate) fn check_product(file: &str, variants: usize, axes: &[Axis]) -> Result<(), InputError> {
    let product = axes.iter().fold(variants, |product, axis| product.saturating_mul(axis.steps.len()));
    let message = || format!("{product} variants, of {} axes; at most {MAX_VARIANTS}", axes.len());
    if product > MAX_VARIANTS { Err(InputError::new(file, "axis", message())) } else { Ok(()) }
}

/// Returns true if one of two key paths is the other or leads to it.
fn overlap(one: &str, other: &str) -> bool {
    let leads_to = |short: &str, long: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    leads_to(one, other) || leads_to(other, one)
}

/// Returns the paths of all keys of a table whose values are no tables.
fn keys_within(prefix: &str, table: &toml::Table) -> Vec<String> {
    let paths = table.iter().flat_map(|(key, value)| {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => keys_within(&path, inner),
            _ => vec![path],
        }
    });
    paths.collect()
}

/// Combines every variant with every value of every axis. The last axis changes fastest.
pub(crate) fn cross(variants: Vec<Variant>, axes: &[Axis]) -> Vec<Variant> {
    axes.iter().fold(variants, |variants, axis| {
        let with = |variant: &Variant, values: &[toml::Value]| {
            let level = |(key, value): (&String, &toml::Value)| {
                let short = key.rsplit('.').next().unwrap_or(key);
                let shown = value.as_str().map_or_else(|| value.to_string(), String::from);
                format!("{short}={shown}")
            };
            let level = axis.keys.iter().zip(values).map(level).collect::<Vec<_>>().join(", ");
            let Variant { name, mut changes, mut levels } = variant.clone();
            let name = if name == DEFAULT_VARIANT { level } else { format!("{name} / {level}") };
            for (key, value) in axis.keys.iter().zip(values) {
                levels.push((key.clone(), value.clone()));
                changes = merge(changes, change_of(key, value.clone()));
            }
            Variant { name, changes, levels }
        };
        variants
            .iter()
            .flat_map(|variant| axis.steps.iter().map(move |values| with(variant, values)))
            .collect()
    })
}

/// Returns a table that contains only the key with the path `key`, set to `value`.
pub(crate) fn change_of(key: &str, value: toml::Value) -> toml::Table {
    let change = key
        .rsplit('.')
        .fold(value, |inner, key| toml::Value::Table(toml::Table::from_iter([(key.to_string(), inner)])));
    let toml::Value::Table(change) = change else { unreachable!("a key has at least one part") };
    change
}
