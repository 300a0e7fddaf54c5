//! Scenario files: TOML parsed into plain data, each key checked where it is read.

pub(crate) mod axis;
pub(crate) mod define;
pub(crate) mod describe;
pub(crate) mod external;
pub(crate) mod files;
pub(crate) mod kinds;
pub(crate) mod lint;
pub(crate) mod network;
pub(crate) mod plan;
pub(crate) mod point;
pub(crate) mod schema;
pub(crate) mod single_flow;
pub(crate) mod sla;
pub(crate) mod sweep;
pub(crate) mod sysctl;
pub(crate) mod tcp;
pub(crate) mod text;

use crate::error::KeyError;
use crate::input::Opened;
use crate::scenario::axis::{
    Variant, by_axis, change_of, check_axes, check_product, cross, take_axes, take_variants,
};
use crate::scenario::files::{Bundle, Files, beside};
use crate::scenario::kinds::Kinds;
use crate::scenario::lint::Warning;
use crate::scenario::plan::ScenarioFile;
use crate::scenario::point::Point;
use crate::scenario::sweep::Sweep;
use crate::scenario::text::{one, read_table};
use crate::{InputError, Plan, input};
use catnip_base::notation::did_you_mean;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Scenario file: one experiment, in one or more variants.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Path of the file.
    pub path: PathBuf,
    /// Text of the file, followed by the texts of its base scenarios. If keys were changed on loading: the changes, followed by the
    /// resulting scenario.
    pub text: String,
    /// Other files that the scenario names: recordings, traces, pages.
    pub files: Vec<PathBuf>,
    /// Identifier of the experiment that the scenario reproduces, such as `CAT-E4`.
    pub id: String,
    /// Title, one line.
    pub title: String,
    /// Default number of replications.
    pub seeds: u32,
    /// Keys in which the variants differ, each with its values in the order of the variants. Empty if the scenario has no `[[axis]]`.
    pub axes: Vec<(String, Vec<toml::Value>)>,
    /// Warnings that apply to all variants, as lines that name file and key: keys that are valid and have no effect.
    pub warnings: Vec<String>,
    /// Seeds of the points, the rule by which they end, and the values that are drawn.
    pub sweep: Sweep,
    plans: Vec<(String, Plan)>,
    /// Digest of what determines the runs of each variant, and the files that it names.
    points: Vec<Point>,
    /// Text of the file itself, and the keys changed on loading.
    source: (String, Vec<(String, String)>),
    /// Files of the scenarios on which it builds.
    bases: Vec<PathBuf>,
    /// Bundle from which the scenario was read; `None` if it was read from disk.
    bundle: Option<Bundle>,
}

impl Scenario {
    /// Reads a file and checks every variant, so that an error in the last variant is reported before any run.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        Self::load_with(path, &Kinds::default())
    }

    /// Reads a file as [`Scenario::load`] does; the scenario may also use the custom kinds in `kinds`.
    pub fn load_with(path: &Path, kinds: &Kinds) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let text = input::text(path).map_err(|error| InputError::new(&file, "", error))?;
        Self::parse_with(path, &text, kinds)
    }

    /// Reads a file as [`Scenario::load`] does, then sets the keys in `set`. Each entry of `set` is the path of a key, as in an axis, and
    /// its new value: a TOML value or a bare text. The value applies to all variants and replaces an axis of the same key.
    /// [`Scenario::text`] becomes the changed scenario, as one file.
    pub fn load_set(path: &Path, set: &[(String, String)]) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let text = input::text(path).map_err(|error| InputError::new(&file, "", error))?;
        Self::parse_set(path, &text, set)
    }

    /// Reads a scenario from text, then sets the keys in `set` as [`Scenario::load_set`] does.
    pub fn parse_set(path: &Path, text: &str, set: &[(String, String)]) -> Result<Self, InputError> {
        Self::read(path, text, &Kinds::default(), set)
    }

    /// Reads a scenario from text. Errors name `path`, and the names of other files are relative to it.
    pub fn parse(path: &Path, text: &str) -> Result<Self, InputError> {
        Self::parse_with(path, text, &Kinds::default())
    }

    /// Reads a scenario from text as [`Scenario::parse`] does; the scenario may also use the custom kinds in `kinds`.
    pub fn parse_with(path: &Path, text: &str, kinds: &Kinds) -> Result<Self, InputError> {
        Self::read(path, text, kinds, &[])
    }

    /// Reads a scenario from a bundle, and nothing from disk.
    pub fn of_bundle(bundle: &Bundle) -> Result<Self, InputError> {
        Self::variant_of_bundle(bundle, None)
    }

    /// Reads a scenario from a bundle with one variant alone, which is sooner done, or with all if there is none with this name.
    pub fn variant_of_bundle(bundle: &Bundle, only: Option<&str>) -> Result<Self, InputError> {
        let Bundle { path, text, set, .. } = bundle;
        let read = Self::read_from(&|| Files::of(bundle), path, text, &Kinds::default(), set, only)?;
        Ok(Self { bundle: Some(bundle.clone()), ..read })
    }

    /// Returns the scenario with the present contents of its files. An error names the file that cannot be read.
    pub fn bundle(&self) -> Result<Bundle, InputError> {
        if let Some(bundle) = &self.bundle {
            return Ok(bundle.clone());
        }
        let (text, set) = self.source.clone();
        let without_files = Bundle { path: self.path.clone(), text, set, files: BTreeMap::new() };
        without_files.with(&self.bases)?.with(&self.files)
    }

    fn read(path: &Path, text: &str, kinds: &Kinds, set: &[(String, String)]) -> Result<Self, InputError> {
        Self::read_from(&|| Files::on_disk(path), path, text, kinds, set, None)
    }

    fn read_from(
        files: &dyn Fn() -> Files,
        path: &Path,
        text: &str,
        kinds: &Kinds,
        set: &[(String, String)],
        only: Option<&str>,
    ) -> Result<Self, InputError> {
        let source = (text.to_string(), set.to_vec());
        let file = path.display().to_string();
        let own_defines = table(path, text)?.remove("define");
        let is_own = |name: &String| own_defines.as_ref().is_some_and(|own| own.get(name).is_some());
        let Merged { base, text, bases, sweep, mut variants } = Merged::of(files, path, text, set)?;
        if let Some(name) = only
            && variants.iter().any(|variant| variant.name == name)
        {
            variants.retain(|variant| variant.name == name);
        }
        let files = files();
        let (mut plans, mut points) = (Vec::new(), Vec::new());
        let mut head = None;
        let mut warnings: Option<Vec<Warning>> = None;
        let axes = by_axis(&variants);
        for Variant { name, changes, .. } in variants {
            let _ = files.take_named();
            let (parsed, plan, mut unused) = apply_changes(base.clone(), changes)
                .and_then(|merged| {
                    points.push(Point::new(&merged));
                    check(&files, merged, kinds)
                })
                .map_err(|(key, message)| {
                    // An error that also occurs without the changes of the variant is reported without the variant's name.
                    let common = check(&files, base.clone(), kinds)
                        .err()
                        .is_some_and(|other| other == (key.clone(), message.clone()));
                    let key_path = if common { key } else { format!("variant {name:?}: {key}") };
                    InputError::new(&file, &key_path, message)
                })?;
            // A scenario need not use all that its base defines.
            unused.retain(is_own);
            let of_variant = lint::of_variant(&parsed, &plan, &unused);
            match &mut warnings {
                Some(common) => common.retain(|warning| of_variant.contains(warning)),
                None => warnings = Some(of_variant),
            }
            head.get_or_insert((parsed.id, parsed.title, parsed.seeds));
            points.last_mut().expect("the variant has one").files = files.take_named();
            plans.push((name, plan));
        }
        let (id, title, seeds) = head.expect("there is at least one variant");
        let warnings = warnings.into_iter().flatten();
        let warnings =
            warnings.map(|(key, message)| InputError::new(&file, &key, message).to_string()).collect();
        let files = files.into_named();
        let path = path.into();
        Ok(Self {
            path,
            text,
            files,
            id,
            title,
            seeds,
            axes,
            warnings,
            sweep,
            plans,
            points,
            source,
            bases,
            bundle: None,
        })
    }

    /// Returns the names of the variants, in order.
    pub fn variants(&self) -> impl Iterator<Item = &str> {
        self.plans.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the name of each variant that lasts: a hash of what determines its runs, that is, the version of the program, the keys of
    /// the variant and the contents of the files that it names. An error names the file that cannot be read.
    pub fn point_ids(&self) -> Result<Vec<String>, InputError> {
        point::ids(&self.points, &self.bundle()?)
    }

    /// Returns the keys of a variant as the files have them: with those of the bases, with the texts of `[define]` in their places, and
    /// without the keys changed on loading.
    pub fn document(&self, variant: &str) -> Result<toml::Table, InputError> {
        let _ = self.emulation(variant)?;
        let files = || self.bundle.as_ref().map_or_else(|| Files::on_disk(&self.path), Files::of);
        let (text, _) = &self.source;
        let Merged { base, variants, .. } = Merged::of(&files, &self.path, text, &[])?;
        let changes = variants.into_iter().find(|one| one.name == variant).map(|one| one.changes);
        let substituted = apply_changes(base, changes.unwrap_or_default()).and_then(|mut merged| {
            define::substitute(&mut merged)?;
            sla::substitute(&mut merged)?;
            Ok(merged)
        });
        substituted.map_err(|(key, message)| InputError::new(&self.path.display().to_string(), &key, message))
    }

    /// Returns the plan of a variant for the simulator, which does not support external hosts.
    pub fn plan(&self, variant: &str) -> Result<&Plan, InputError> {
        let plan = self.emulation(variant)?;
        match plan.external_nodes() {
            [] => Ok(plan),
            [external, ..] => {
                let key = format!("node.{}", plan.topology().name(external.node));
                let message = "an external host, which only the emulator supports: use catnip-emu emulate";
                Err(InputError::new(&self.path.display().to_string(), &key, message))
            }
        }
    }

    /// Returns the plan of a variant for the emulator.
    pub fn emulation(&self, variant: &str) -> Result<&Plan, InputError> {
        let plan = self.plans.iter().find(|(name, _)| name == variant);
        plan.map(|(_, plan)| plan).ok_or_else(|| {
            let names: Vec<&str> = self.variants().collect();
            let message = format!("no variant {variant:?}; expected one of {}", names.join(", "));
            InputError::new(&self.path.display().to_string(), "variant", message)
        })
    }
}

/// Scenario with its bases and the keys changed on loading, before any variant is checked.
struct Merged {
    base: toml::Table,
    /// As [`Scenario::text`].
    text: String,
    bases: Vec<PathBuf>,
    sweep: Sweep,
    variants: Vec<Variant>,
}

impl Merged {
    fn of(
        files: &dyn Fn() -> Files,
        path: &Path,
        text: &str,
        set: &[(String, String)],
    ) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let (mut base, mut text, bases) = merge_bases(&files(), path, text)?;
        for (key, value) in set {
            base = with_key_set(base, key, value)
                .map_err(|(key, message)| InputError::new(&file, &key, message))?;
        }
        if !set.is_empty() {
            text = set
                .iter()
                .map(|(key, value)| format!("# Set: {key} = {}\n", value.replace('\n', " ")))
                .collect();
            text.push_str(&toml::to_string(&base).expect("a parsed table can be written"));
        }
        let sweep = Sweep::take(&file, &mut base)?;
        let axes = take_axes(&file, &mut base, &files(), &sweep)?;
        let variants = take_variants(&file, &mut base)?;
        check_axes(&file, &variants, &axes)?;
        check_product(&file, variants.len(), &axes)?;
        Ok(Self { base, text, bases, sweep, variants: cross(variants, &axes) })
    }
}

/// Head of a scenario file and the names of its variants, for lists of scenarios. The changes that the variants make are not checked.
#[derive(Clone, Debug)]
pub struct Outline {
    /// Identifier, such as `CAT-E4`.
    pub id: String,
    /// Title, one line.
    pub title: String,
    /// Default number of replications.
    pub seeds: u32,
    /// Names of the variants, in the order of [`Scenario::variants`].
    pub variants: Vec<String>,
}

impl Outline {
    /// Reads the outline of a file. An error gives file, key and value; errors that only a full reading detects are not reported.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let text = input::text(path).map_err(|error| InputError::new(&file, "", error))?;
        let (mut base, ..) = merge_bases(&Files::on_disk(path), path, &text)?;
        let sweep = Sweep::take(&file, &mut base)?;
        let axes = take_axes(&file, &mut base, &Files::on_disk(path), &sweep)?;
        let variants = take_variants(&file, &mut base)?;
        check_product(&file, variants.len(), &axes)?;
        let variants = cross(variants, &axes);
        let head = ["id", "title", "seeds"].into_iter();
        let head = head.filter_map(|key| base.remove(key).map(|value| (key.to_string(), value))).collect();
        let Head { id, title, seeds } =
            read_table("", head).map_err(|(key, message)| InputError::new(&file, &key, message))?;
        Ok(Self { id, title, seeds, variants: variants.into_iter().map(|variant| variant.name).collect() })
    }
}

/// Keys of a scenario that lists of scenarios show.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    id: String,
    title: String,
    #[serde(default = "one")]
    seeds: u32,
}

/// Maximum number of files in a chain of base scenarios; a longer chain indicates a cycle.
const MAX_CHAIN: usize = 8;

/// Returns a scenario merged with the scenarios on which it builds (`base = "FILE"`), the texts of all files, and the paths of the bases. A
/// key of a base applies
/// unless the scenario sets the key. Variants of a scenario replace both the variants and the axes of its base; axes of a scenario replace
/// only the axes of its base.
fn merge_bases(
    files: &Files,
    path: &Path,
    text: &str,
) -> Result<(toml::Table, String, Vec<PathBuf>), InputError> {
    let mut texts = text.to_string();
    let mut at = path.to_path_buf();
    // The scenario, its base, the base of its base, ...
    let mut chain = vec![(at.display().to_string(), table(path, text)?)];
    let mut names = vec![at.clone()];
    while let Some((file, top)) = chain.last_mut()
        && let Some(base) = top.remove("base")
    {
        let toml::Value::String(name) = base else {
            return Err(InputError::new(file, "base", format!("{base}: expected the name of a file")));
        };
        at = beside(&at, Path::new(&name));
        let file_error = |error| InputError::new(file, "base", format!("{}: {error}", at.display()));
        if names.contains(&at) {
            return Err(InputError::new(file, "base", format!("{}: builds on itself", at.display())));
        }
        names.push(at.clone());
        let below = files.open(&at).and_then(Opened::text).map_err(file_error)?;
        texts.push_str(&format!("\n# {}\n{below}", at.display()));
        chain.push((at.display().to_string(), table(&at, &below)?));
        if chain.len() > MAX_CHAIN {
            let message = format!("more than {MAX_CHAIN} scenarios in a chain of base scenarios");
            return Err(InputError::new(&path.display().to_string(), "base", message));
        }
    }
    let (_, mut merged) = chain.pop().expect("there is the scenario itself");
    for (file, changes) in chain.into_iter().rev() {
        if changes.contains_key("variant") {
            merged.remove("variant");
            merged.remove("axis");
        }
        if changes.contains_key("axis") {
            merged.remove("axis");
        }
        merged =
            apply_changes(merged, changes).map_err(|(key, message)| InputError::new(&file, &key, message))?;
    }
    Ok((merged, texts, names.split_off(1)))
}

fn table(path: &Path, text: &str) -> Result<toml::Table, InputError> {
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        let line = line.map(|n| format!("line {n}")).unwrap_or_default();
        InputError::new(&path.display().to_string(), &line, error.message())
    })
}

/// Reads and checks the merged table of one variant. Returns also the names in `[define]` to which nothing refers. An error gives the wrong
/// key and the reason.
fn check(
    files: &Files,
    mut table: toml::Table,
    kinds: &Kinds,
) -> Result<(ScenarioFile, Plan, Vec<String>), KeyError> {
    check_names(&table)?;
    let unused = define::substitute(&mut table)?;
    sla::substitute(&mut table)?;
    let parsed: ScenarioFile = read_table("", table)?;
    for (key, text) in [("id", &parsed.id), ("title", &parsed.title)] {
        check_label(text).map_err(|message| (key.to_string(), message))?;
    }
    let plan = Plan::new(files, &parsed, kinds)?;
    Ok((parsed, plan, unused))
}

/// Checks the names that the tables of a scenario give: they are shown in tables and on terminals.
fn check_names(table: &toml::Table) -> Result<(), KeyError> {
    for family in ["node", "link", "traffic", "define", "sla"] {
        let names = table.get(family).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
        for name in names {
            check_label(name).map_err(|message| (family.to_string(), message))?;
        }
    }
    Ok(())
}

/// Checks a text that is shown in tables and on terminals: not empty, and without control characters, which change what a terminal shows.
fn check_label(text: &str) -> Result<(), String> {
    match text {
        _ if text.trim().is_empty() => Err(format!("{text:?}: expected a text that is not empty")),
        _ if text.chars().any(char::is_control) => Err(format!("{text:?}: has a control character")),
        _ => Ok(()),
    }
}

/// Sets the key with the path `key` to the value written as `text` in all variants of a scenario. `scenario` must still contain the
/// tables `[[variant]]` and `[[axis]]`.
fn with_key_set(mut scenario: toml::Table, key: &str, text: &str) -> Result<toml::Table, KeyError> {
    let parts: Vec<&str> = key.split('.').collect();
    if let ["base" | "variant" | "axis", ..] = parts[..] {
        return Err((key.into(), "base, variant and axis can only be set in a file".into()));
    }
    let variants = |scenario: &toml::Table| -> Vec<toml::Table> {
        let list = scenario.get("variant").and_then(toml::Value::as_array).into_iter().flatten();
        list.filter_map(toml::Value::as_table).cloned().collect()
    };
    let all_tables: Vec<toml::Table> = variants(&scenario).into_iter().chain([scenario.clone()]).collect();
    // A named table, such as `link.NAME`, must exist; all other keys are checked where they are read.
    if let [family @ ("node" | "link" | "traffic" | "define" | "sla"), name, ..] = parts[..] {
        let tables = all_tables.iter().filter_map(|table| table.get(family)?.as_table());
        let names: Vec<&str> = tables.flat_map(|table| table.keys().map(String::as_str)).collect();
        if !names.contains(&name) {
            let hint = did_you_mean(name, names.iter().copied());
            return Err((key.into(), format!("{family}.{name} is not defined{hint}")));
        }
    }
    let value_at = |table: &toml::Table| {
        let (first, rest) = parts.split_first()?;
        rest.iter().try_fold(table.get(*first)?, |value, part| value.get(*part)).cloned()
    };
    // The new value of a key that had a text is a text, too: 1.1 may be a version of HTTP.
    let is_text = all_tables.iter().filter_map(value_at).any(|value| value.is_str());
    let as_value = format!("value = {text}").parse::<toml::Table>().ok().filter(|table| table.len() == 1);
    let value =
        as_value.and_then(|mut table| table.remove("value")).filter(|value| !is_text || value.is_str());
    let change = change_of(key, value.unwrap_or_else(|| text.into()));
    if let Some(toml::Value::Array(axes)) = scenario.get_mut("axis") {
        let keys = |axis: &toml::Value| axis.get("keys").and_then(toml::Value::as_array).cloned();
        if axes.iter().filter_map(keys).flatten().any(|other| other.as_str() == Some(key)) {
            return Err((key.into(), "an axis sets it together with other keys; change the axis".into()));
        }
        axes.retain(|axis| axis.get("key").and_then(toml::Value::as_str) != Some(key));
        let has_range = axes.iter().any(|axis| axis.get("range").is_some());
        if axes.is_empty() {
            scenario.remove("axis");
        }
        // Without a range there is nothing to draw.
        if let Some(toml::Value::Table(sweep)) = scenario.get_mut("sweep").filter(|_| !has_range) {
            sweep.remove("samples");
        }
    }
    let without = parts.len() == 2 && parts[0] == "traffic" && text == REMOVED;
    if let Some(toml::Value::Array(variants)) = scenario.get_mut("variant") {
        for variant in variants.iter_mut().filter_map(toml::Value::as_table_mut) {
            *variant = merge(std::mem::take(variant), change.clone());
        }
        // Each variant now leaves the group out itself. The group must therefore remain in the common part.
        if without {
            return Ok(scenario);
        }
    }
    apply_changes(scenario, change)
}

/// Value of a group of traffic that a scenario or a variant leaves out.
const REMOVED: &str = "none";

/// Applies changes to a table. Tables are merged key by key, and all other values are replaced. A value is also replaced if `changes` uses
/// the other of the two names of a key.
fn merge(mut base: toml::Table, changes: toml::Table) -> toml::Table {
    remove_other_names(&mut base, &changes);
    merge_keys(base, changes)
}

/// Keys that have two names: the older name and the current one.
pub(crate) const OLDER_NAMES: [(&str, &str); 2] = [("real", "external"), ("silence_shape", "idle_shape")];

/// Returns the other name of a key. The older name of a time ends in `_s`.
fn other_name(key: &str) -> String {
    let renamed = OLDER_NAMES.into_iter().find_map(|(older, name)| match key {
        key if key == older => Some(name),
        key if key == name => Some(older),
        _ => None,
    });
    renamed.or(key.strip_suffix("_s")).map_or_else(|| format!("{key}_s"), String::from)
}

/// Removes the keys of nodes and traffic groups in `base` that `changes` sets under their other name.
fn remove_other_names(base: &mut toml::Table, changes: &toml::Table) {
    let remove = |base: &mut toml::Value, changes: &toml::Value| {
        let Some((base, changes)) = base.as_table_mut().zip(changes.as_table()) else { return };
        for key in changes.keys() {
            base.remove(&other_name(key));
        }
    };
    for section in ["node", "traffic"] {
        let Some((base, changes)) = base.get_mut(section).zip(changes.get(section)) else { continue };
        for (name, changes) in changes.as_table().into_iter().flatten() {
            let Some(base) = base.get_mut(name) else { continue };
            remove(base, changes);
            if let Some((base, changes)) = base.get_mut("generate").zip(changes.get("generate")) {
                remove(base, changes);
            }
        }
    }
}

fn merge_keys(mut base: toml::Table, changes: toml::Table) -> toml::Table {
    for (key, change) in changes {
        let merged = match (base.remove(&key), change) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => {
                toml::Value::Table(merge_keys(old, new))
            }
            (_, new) => new,
        };
        base.insert(key, merged);
    }
    base
}

/// Applies changes to a scenario. A traffic group whose value is `none` is removed.
fn apply_changes(mut base: toml::Table, mut changes: toml::Table) -> Result<toml::Table, KeyError> {
    if let Some(toml::Value::Table(groups)) = changes.get_mut("traffic") {
        let without = groups.iter().filter(|(_, group)| group.as_str() == Some(REMOVED));
        let without: Vec<String> = without.map(|(name, _)| name.clone()).collect();
        for name in without {
            groups.remove(&name);
            let groups = base.get_mut("traffic").and_then(toml::Value::as_table_mut);
            if groups.and_then(|groups| groups.remove(&name)).is_none() {
                let message = format!("{REMOVED:?}: no such group to leave out");
                return Err((format!("traffic.{name}"), message));
            }
        }
    }
    Ok(merge(base, changes))
}
