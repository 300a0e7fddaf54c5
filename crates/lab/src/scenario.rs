//! Scenario files: TOML parsed into plain data, each key checked where it is read.

use crate::error::{Wrong, in_plain_words};
use crate::files::{Files, beside};
use crate::kinds::Kinds;
use crate::plan::ScenarioFile;
use crate::text::read_table;
use crate::{InputError, Plan, define, sla};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A scenario file: one experiment, in one or more variants.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where it came from.
    pub path: PathBuf,
    /// Its text, and behind it that of the scenarios on which it builds.
    pub text: String,
    /// Other files that it names: recordings, traces, pages.
    pub files: Vec<PathBuf>,
    /// What it reproduces, such as `CAT-E4`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Replicates unless something else is asked for.
    pub seeds: u32,
    plans: Vec<(String, Plan)>,
}

impl Scenario {
    /// Reads a file; every variant is checked at once, so that a mistake in the last one does not wait for its turn.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        Self::load_with(path, &Kinds::default())
    }

    /// The same for a scenario that may name these kinds, too.
    pub fn load_with(path: &Path, kinds: &Kinds) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| InputError::new(&file, "", error))?;
        Self::parse_with(path, &text, kinds)
    }

    /// Reads a scenario from text; `path` is what errors call it and what other files' names are relative to.
    pub fn parse(path: &Path, text: &str) -> Result<Self, InputError> {
        Self::parse_with(path, text, &Kinds::default())
    }

    /// The same for a scenario that may name these kinds, too.
    pub fn parse_with(path: &Path, text: &str, kinds: &Kinds) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let (mut base, text) = whole(path, text)?;
        let axes = take_axes(&file, &mut base)?;
        let variants = cross(take_variants(&file, &mut base)?, &axes);
        let files = Files::new(path);
        let mut plans = Vec::new();
        let mut head = None;
        for (name, changes) in variants {
            let (parsed, plan) = changed(base.clone(), changes)
                .and_then(|whole| check(&files, whole, kinds))
                .map_err(|(key, what)| {
                    // What is wrong without the variant's changes, too, is not the variant's fault.
                    let common = check(&files, base.clone(), kinds)
                        .err()
                        .is_some_and(|other| other == (key.clone(), what.clone()));
                    let place = if common { key } else { format!("variant {name:?}: {key}") };
                    InputError::new(&file, &place, what)
                })?;
            head.get_or_insert((parsed.id, parsed.title, parsed.seeds));
            plans.push((name, plan));
        }
        let (id, title, seeds) = head.expect("there is at least one variant");
        Ok(Self { path: path.into(), text, files: files.into_named(), id, title, seeds, plans })
    }

    /// The names of the variants, in order.
    pub fn variants(&self) -> impl Iterator<Item = &str> {
        self.plans.iter().map(|(name, _)| name.as_str())
    }

    /// What a variant does in the simulator, which has no real hosts.
    pub fn plan(&self, variant: &str) -> Result<&Plan, InputError> {
        let plan = self.emulation(variant)?;
        match plan.real_nodes() {
            [] => Ok(plan),
            [real, ..] => {
                let key = format!("node.{}", plan.topology().name(real.node));
                let what = "a real host, which only the emulator has: use catnip-emu emulate";
                Err(InputError::new(&self.path.display().to_string(), &key, what))
            }
        }
    }

    /// What a variant does in the emulator.
    pub fn emulation(&self, variant: &str) -> Result<&Plan, InputError> {
        let plan = self.plans.iter().find(|(name, _)| name == variant);
        plan.map(|(_, plan)| plan).ok_or_else(|| {
            let names: Vec<&str> = self.variants().collect();
            let what = format!("no variant {variant:?}; there are {}", names.join(", "));
            InputError::new(&self.path.display().to_string(), "variant", what)
        })
    }
}

const DEFAULT_VARIANT: &str = "default";

/// More files than anybody builds upon each other; so many are a circle.
const MOST_FILES: usize = 8;

/// A scenario with all that those say on which it builds, `base = "FILE"`, where it says nothing else itself; and their texts.
/// Variants of its own replace their variants and axes, axes of its own their axes.
fn whole(path: &Path, text: &str) -> Result<(toml::Table, String), InputError> {
    let mut texts = text.to_string();
    let mut at = path.to_path_buf();
    // The scenario, that on which it builds, that on which this builds, ...
    let mut chain = vec![(at.display().to_string(), table(path, text)?)];
    while let Some((file, top)) = chain.last_mut()
        && let Some(base) = top.remove("base")
    {
        let toml::Value::String(name) = base else {
            return Err(InputError::new(file, "base", format!("{base}: expected the name of a file")));
        };
        at = beside(&at, Path::new(&name));
        let wrong = |error| InputError::new(file, "base", format!("{}: {error}", at.display()));
        let below = std::fs::read_to_string(&at).map_err(wrong)?;
        texts.push_str(&format!("\n# {}\n{below}", at.display()));
        chain.push((at.display().to_string(), table(&at, &below)?));
        if chain.len() > MOST_FILES {
            let what = format!("more than {MOST_FILES} scenarios that build on each other");
            return Err(InputError::new(&path.display().to_string(), "base", what));
        }
    }
    let (_, mut whole) = chain.pop().expect("there is the scenario itself");
    for (file, changes) in chain.into_iter().rev() {
        if changes.contains_key("variant") {
            whole.remove("variant");
            whole.remove("axis");
        }
        if changes.contains_key("axis") {
            whole.remove("axis");
        }
        whole = changed(whole, changes).map_err(|(key, what)| InputError::new(&file, &key, what))?;
    }
    Ok((whole, texts))
}

fn table(path: &Path, text: &str) -> Result<toml::Table, InputError> {
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        let place = line.map(|n| format!("line {n}")).unwrap_or_default();
        InputError::new(&path.display().to_string(), &place, error.message())
    })
}

/// Reads one variant, or says with which key something is wrong.
fn check(files: &Files, mut table: toml::Table, kinds: &Kinds) -> Result<(ScenarioFile, Plan), Wrong> {
    define::fill_in(&mut table)?;
    sla::fill_in(&mut table)?;
    let parsed: ScenarioFile = read_table("", table)?;
    let plan = Plan::new(files, &parsed, kinds)?;
    Ok((parsed, plan))
}

/// Takes `[[variant]]` out of a scenario: names and what each changes.
fn take_variants(file: &str, base: &mut toml::Table) -> Result<Vec<(String, toml::Table)>, InputError> {
    let Some(value) = base.remove("variant") else {
        return Ok(vec![(DEFAULT_VARIANT.into(), toml::Table::new())]);
    };
    let toml::Value::Array(list) = value else {
        return Err(InputError::new(file, "variant", "expected [[variant]] tables"));
    };
    let mut variants: Vec<(String, toml::Table)> = Vec::new();
    for entry in list {
        let toml::Value::Table(mut changes) = entry else {
            return Err(InputError::new(file, "variant", "expected [[variant]] tables"));
        };
        let Some(toml::Value::String(name)) = changes.remove("name") else {
            return Err(InputError::new(file, "variant.name", "every variant needs a name"));
        };
        if variants.iter().any(|(other, _)| *other == name) {
            return Err(InputError::new(file, "variant.name", format!("{name:?} is there twice")));
        }
        variants.push((name, changes));
    }
    Ok(variants)
}

/// A key and the values that it takes in turn.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "axis")]
pub(crate) struct Axis {
    /// The path of the key, with points in between.
    #[schemars(example = &"link.line.queue")]
    key: String,
    /// What it takes, one after the other.
    #[schemars(with = "Vec<serde_json::Value>", length(min = 1), example = serde_json::json!(["drop-tail:10", "red:10"]))]
    values: Vec<toml::Value>,
}

/// Takes `[[axis]]` out of a scenario.
fn take_axes(file: &str, base: &mut toml::Table) -> Result<Vec<Axis>, InputError> {
    let Some(value) = base.remove("axis") else { return Ok(Vec::new()) };
    let axes: Vec<Axis> = serde_path_to_error::deserialize(value).map_err(|error| {
        InputError::new(file, &format!("axis{}", error.path()), in_plain_words(error.inner().message()))
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
                format!("{:?}: {value} is there twice", axis.key),
            ));
        }
    }
    Ok(axes)
}

/// Every variant with every value of every axis, the last axis changing fastest.
fn cross(variants: Vec<(String, toml::Table)>, axes: &[Axis]) -> Vec<(String, toml::Table)> {
    axes.iter().fold(variants, |variants, axis| {
        let with = |(name, changes): &(String, toml::Table), value: &toml::Value| {
            let short = axis.key.rsplit('.').next().unwrap_or(&axis.key);
            let shown = value.as_str().map_or_else(|| value.to_string(), String::from);
            let level = format!("{short}={shown}");
            let name = if name == DEFAULT_VARIANT { level } else { format!("{name} / {level}") };
            let change = axis.key.rsplit('.').fold(value.clone(), |inner, key| {
                toml::Value::Table(toml::Table::from_iter([(key.to_string(), inner)]))
            });
            let toml::Value::Table(change) = change else { unreachable!("a key has at least one part") };
            (name, merge(changes.clone(), change))
        };
        variants
            .iter()
            .flat_map(|variant| axis.values.iter().map(move |value| with(variant, value)))
            .collect()
    })
}

/// What a scenario or a variant says instead of a group of traffic that it does without.
const WITHOUT: &str = "none";

/// A table with changes: tables are merged key by key, everything else is replaced.
fn merge(mut base: toml::Table, changes: toml::Table) -> toml::Table {
    for (key, change) in changes {
        let merged = match (base.remove(&key), change) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => toml::Value::Table(merge(old, new)),
            (_, new) => new,
        };
        base.insert(key, merged);
    }
    base
}

/// A scenario with changes, which may do without groups of traffic that it has.
fn changed(mut base: toml::Table, mut changes: toml::Table) -> Result<toml::Table, Wrong> {
    if let Some(toml::Value::Table(said)) = changes.get_mut("traffic") {
        let without = said.iter().filter(|(_, group)| group.as_str() == Some(WITHOUT));
        let without: Vec<String> = without.map(|(name, _)| name.clone()).collect();
        for name in without {
            said.remove(&name);
            let groups = base.get_mut("traffic").and_then(toml::Value::as_table_mut);
            if groups.and_then(|groups| groups.remove(&name)).is_none() {
                let what = format!("{WITHOUT:?}: there is no such group to do without");
                return Err((format!("traffic.{name}"), what));
            }
        }
    }
    Ok(merge(base, changes))
}
