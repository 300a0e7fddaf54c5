//! Variants of a scenario, and axes: keys with several values, with which every variant is combined.

use crate::InputError;
use crate::error::in_toml_terms;
use crate::scenario::{check_label, merge};
use schemars::JsonSchema;
use serde::Deserialize;

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

/// Key with a list of values. Every variant is combined with each of these values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "axis")]
pub(crate) struct Axis {
    /// Path of the key, its parts separated by dots.
    #[schemars(example = &"link.line.queue")]
    key: String,
    /// Values of the key, in order.
    #[schemars(with = "Vec<serde_json::Value>", length(min = 1), example = serde_json::json!(["drop-tail:10", "red:10"]))]
    values: Vec<toml::Value>,
}

/// Removes `[[axis]]` from a scenario and returns the axes.
pub(crate) fn take_axes(file: &str, base: &mut toml::Table) -> Result<Vec<Axis>, InputError> {
    let Some(value) = base.remove("axis") else { return Ok(Vec::new()) };
    let axes: Vec<Axis> = serde_path_to_error::deserialize(value).map_err(|error| {
        InputError::new(file, &format!("axis{}", error.path()), in_toml_terms(error.inner().message()))
    })?;
    for axis in &axes {
        if axis.values.is_empty() {
            return Err(InputError::new(file, "axis.values", format!("{:?}: no values", axis.key)));
        }
        let repeated = axis.values.iter().enumerate().find(|(i, value)| axis.values[..*i].contains(value));
        if let Some((_, value)) = repeated {
            return Err(InputError::new(
                file,
                "axis.values",
                format!("{:?}: {value} occurs twice", axis.key),
            ));
        }
    }
    Ok(axes)
}

/// Checks that no axis sets a key that a variant or another axis sets, too: its values would silently replace theirs.
pub(crate) fn check_axes(file: &str, variants: &[Variant], axes: &[Axis]) -> Result<(), InputError> {
    for (index, Axis { key, .. }) in axes.iter().enumerate() {
        let error = |other: String| {
            InputError::new(file, "axis.key", format!("{key:?}: {other} sets it, too; keep one of the two"))
        };
        if axes[..index].iter().any(|axis| overlap(&axis.key, key)) {
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
    let product = axes.iter().fold(variants, |product, axis| product.saturating_mul(axis.values.len()));
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
        let with = |variant: &Variant, value: &toml::Value| {
            let short = axis.key.rsplit('.').next().unwrap_or(&axis.key);
            let shown = value.as_str().map_or_else(|| value.to_string(), String::from);
            let level = format!("{short}={shown}");
            let Variant { name, changes, mut levels } = variant.clone();
            let name = if name == DEFAULT_VARIANT { level } else { format!("{name} / {level}") };
            levels.push((axis.key.clone(), value.clone()));
            Variant { name, changes: merge(changes, change_of(&axis.key, value.clone())), levels }
        };
        variants
            .iter()
            .flat_map(|variant| axis.values.iter().map(move |value| with(variant, value)))
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
