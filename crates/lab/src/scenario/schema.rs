//! JSON Schema of scenario files, derived from the types that read them.

use crate::scenario::OLDER_NAMES;
use crate::scenario::axis::AxisFile;
use crate::scenario::describe;
use crate::scenario::plan::ScenarioFile;
use crate::scenario::sla::SlaFile;
use crate::scenario::sweep::Sweep;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub use crate::scenario::describe::{DEFAULT_DESCRIPTION, NOTATION, Notation, notations};

/// Schema keyword for an older name of a key; its value is the current name.
pub const OLDER_NAME: &str = "x-older-name-of";

/// Keys that combine files, named texts, contracts and variants. They are applied and removed before the other keys are read.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a table of TOML is read key by key")]
struct CompositionKeys {
    /// Scenario file on which this scenario builds; the path is relative to this file. A key of the base applies unless this scenario sets
    /// the key.
    #[schemars(example = &"tree.toml", extend("x-default" = "none"))]
    base: Option<PathBuf>,
    /// Named texts. `{NAME}` in any text, including another named text, is replaced with the text of this name.
    #[schemars(example = json!({ "router": "drop-tail:64" }), extend("x-default" = "none"))]
    define: Option<BTreeMap<String, String>>,
    /// Contracts by name. `{sla.NAME}` in a text is replaced with the contract of this name.
    #[schemars(example = json!({ "user": { "high": "250kbit/6000B" } }), extend("x-default" = "none"))]
    sla: Option<BTreeMap<String, SlaFile>>,
    /// Variants, in order. Each variant has a name and the keys of the scenario that it changes.
    #[schemars(example = json!([{ "name": "RED", "link": { "line": { "queue": "red:10" } } }]),
        extend("x-default" = "a single variant, `default`"))]
    variant: Option<Vec<Variant>>,
    /// Axes: keys with several values. Every variant is combined with every value of every axis.
    #[schemars(example = json!([{ "key": "link.line.rate", "values": ["1Mbit", "10Mbit"] }]), extend("x-default" = "none"))]
    axis: Option<Vec<AxisFile>>,
    /// Execution of a plan: seeds of its points, the rule by which they end, and values of ranges.
    #[schemars(example = json!({ "seeds": "5..200", "until": "5%" }), extend("x-default" = "none"))]
    sweep: Option<Sweep>,
}

/// Variant of the scenario: a name, and new values for any keys of the scenario.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a table of TOML is read key by key")]
#[schemars(rename = "variant")]
struct Variant {
    /// Name of the variant in results.
    #[schemars(example = &"drop-tail")]
    name: String,
}

/// Returns the JSON Schema (draft 7) of scenario files. Definitions whose names begin with `part-of-` have no required keys, because a
/// variant may set any part of a table.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut scenario = ScenarioFile::json_schema(&mut generator).to_value();
    let mut composition = CompositionKeys::json_schema(&mut generator).to_value();
    let mut definitions = Value::Object(generator.take_definitions(false));
    [&mut scenario, &mut composition, &mut definitions].into_iter().for_each(tidy);

    for kind in definitions["traffic"]["oneOf"].as_array_mut().into_iter().flatten() {
        let (about, key) = (kind["description"].clone(), &mut kind["properties"]["kind"]);
        key["examples"] = json!([key["const"]]);
        key["description"] = about;
    }

    let mut part = scenario.clone();
    let parts = object(&definitions).iter().map(|(name, definition)| (part_of(name), definition.clone()));
    let mut parts = Value::Object(parts.collect());
    [&mut part, &mut parts].into_iter().for_each(without_requirements);
    let traffic = &mut parts[part_of("traffic")];
    *traffic = part_of_traffic(traffic);
    let definitions = object_mut(&mut definitions);
    definitions.append(object_mut(&mut parts));

    let keys = |of: &Value| object(&of["properties"]).clone();
    let part = keys(&part);
    let mut composition = keys(&composition);
    let variant = object_mut(&mut definitions["variant"]["properties"]);
    variant.extend(part.clone());
    variant.extend(["define", "sla"].map(|key| (key.to_string(), composition[key].clone())));
    definitions["variant"]["additionalProperties"] = false.into();
    definitions["sla"] = definitions[&part_of("sla")].clone();
    definitions
        .retain(|name, _| !["tcp", "variant", "axis", "sla", "sweep"].iter().any(|it| part_of(it) == *name));
    composition.extend(part);
    // A scenario with a base, variants or axes has no required keys, because each key may be set there.
    let elsewhere = ["base", "variant", "axis"].map(|key| json!({ "required": [key] }));
    object_mut(&mut scenario).retain(|key, _| matches!(key.as_str(), "properties" | "required"));
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Scenario of CATNIP",
        "type": "object",
        "properties": composition,
        "additionalProperties": false,
        "if": { "not": { "anyOf": elsewhere } },
        "then": scenario,
        "$defs": definitions,
    })
}

/// Returns the schema as the text of a file, with keys in alphabetical order.
pub fn schema_text() -> String {
    format!("{:#}\n", sorted(schema()))
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let keys: BTreeMap<String, Value> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(keys.into_iter().collect())
        }
        Value::Array(list) => list.into_iter().map(sorted).collect(),
        other => other,
    }
}

fn part_of(name: &str) -> String {
    format!("part-of-{name}")
}

/// Converts a schema and all of its subschemas to what editors support, and removes null, which TOML does not have.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(tidy),
        Value::Object(map) => {
            map.values_mut().for_each(tidy);
            without_null(map);
            for name in ["format", "$schema"] {
                map.remove(name);
            }
            if map.contains_key(DEFAULT_DESCRIPTION) {
                map.remove("default");
            }
            if let Some(Value::String(about)) = map.get_mut("description") {
                *about = about.replace('\n', " ");
            }
            add_forms(map);
            add_older_names(map);
            // Draft 7 ignores keywords beside a reference.
            if map.len() > 1
                && let Some(reference) = map.remove("$ref")
            {
                map.insert("allOf".into(), json!([{ "$ref": reference }]));
            }
        }
        _ => {}
    }
}

fn without_null(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|single| single != "null");
        if let [single] = &types[..] {
            let single = single.clone();
            map.insert("type".into(), single);
        }
    }
    if let Some(Value::Array(any)) = map.get_mut("anyOf") {
        any.retain(|single| *single != json!({ "type": "null" }));
        if let [Value::Object(single)] = &any[..] {
            let single = single.clone();
            map.remove("anyOf");
            for (key, value) in single {
                map.entry(key).or_insert(value);
            }
        }
    }
}

/// Appends the forms of a value to its description.
fn add_forms(map: &mut Map<String, Value>) {
    if let Some(Value::Array(forms)) = map.get(describe::FORMS)
        && let Some(Value::String(about)) = map.get("description")
    {
        let forms: Vec<&str> = forms.iter().filter_map(Value::as_str).collect();
        let about = format!("{about}\n\n{}", forms.join("\n\n"));
        map.remove(describe::FORMS);
        map.insert("description".into(), about.into());
    }
}

/// Adds the older names of keys. The older name of a time ends in `_s`, because numbers under this name are seconds.
fn add_older_names(map: &mut Map<String, Value>) {
    let times = json!("#/$defs/times");
    let is_time = |schema: &Value| {
        schema.get("$ref") == Some(&times) || schema.pointer("/allOf/0/$ref") == Some(&times)
    };
    let Some(Value::Object(keys)) = map.get_mut("properties") else { return };
    for (older, name) in OLDER_NAMES {
        if let Some(Value::Object(schema)) = keys.get(name) {
            let mut schema = schema.clone();
            schema.insert("description".into(), format!("Older name of `{name}`.").into());
            schema.insert(OLDER_NAME.into(), name.into());
            keys.insert(older.into(), schema.into());
        }
    }
    let names: Vec<String> =
        keys.iter().filter(|(_, schema)| is_time(schema)).map(|(name, _)| name.clone()).collect();
    for name in &names {
        let about = format!("Older name of `{name}`; numbers are seconds.");
        let older = json!({ "allOf": [{ "$ref": times }], "description": about, OLDER_NAME: name });
        keys.insert(older_name(name), older);
    }
    let Some(Value::Array(required)) = map.get_mut("required") else { return };
    let older: Vec<String> = names.into_iter().filter(|name| required.contains(&json!(name))).collect();
    required.retain(|key| !older.iter().any(|name| key == name));
    let either =
        |name: &String| json!({ "oneOf": [{ "required": [name] }, { "required": [older_name(name)] }] });
    if !older.is_empty() {
        map.insert("allOf".into(), older.iter().map(either).collect());
    }
}

fn older_name(name: &str) -> String {
    format!("{name}_s")
}

/// Removes all requirements from a schema, and changes its references to definitions without requirements.
fn without_requirements(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(without_requirements),
        Value::Object(map) => {
            merge_forms(map);
            map.values_mut().for_each(without_requirements);
            if map.contains_key("properties") {
                map.remove("required");
                map.remove("allOf");
            }
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/$defs/")
                && name != "tcp"
            {
                *reference = format!("#/$defs/{}", part_of(name));
            }
        }
        _ => {}
    }
}

/// Replaces the alternative forms of a table with one form that accepts the keys of all forms, since a variant may set any of these keys.
fn merge_forms(map: &mut Map<String, Value>) {
    let Some(Value::Array(forms)) = map.get("oneOf") else { return };
    // Kinds of traffic have no constant `distribution`. Their forms remain separate, since the key `kind` distinguishes them.
    let Some(names) =
        forms.iter().map(|form| form.pointer("/properties/distribution/const").cloned()).collect()
    else {
        return;
    };
    let names: Vec<Value> = names;
    let mut keys: Map<String, Value> =
        forms.iter().flat_map(|form| object(&form["properties"]).clone()).collect();
    keys.insert("distribution".into(), json!({ "enum": names }));
    *map = object(&json!({ "type": "object", "properties": keys, "additionalProperties": false })).clone();
}

/// Returns the schema of a part of a traffic group. A part with the key `kind` has keys of this kind; a part without it has keys of any
/// kind. The value `none` leaves out the group.
fn part_of_traffic(kinds: &Value) -> Value {
    let Value::Array(mut kinds) = kinds["oneOf"].clone() else {
        unreachable!("a group is one of several kinds")
    };
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for kind in &mut kinds {
        for (key, schema) in object(&kind["properties"]).iter().filter(|(key, _)| *key != "kind") {
            let known = all.entry(key.clone()).or_default();
            if !known.contains(schema) {
                known.push(schema.clone());
            }
        }
        kind["required"] = json!(["kind"]);
    }
    let any_of = |schema: Vec<Value>| match &schema[..] {
        [one] => one.clone(),
        several => json!({ "anyOf": several }),
    };
    let keys: Map<String, Value> = all.into_iter().map(|(key, schema)| (key, any_of(schema))).collect();
    kinds.push(json!({ "type": "object", "properties": keys, "additionalProperties": false }));
    kinds.push(json!({ "const": "none" }));
    json!({ "anyOf": kinds })
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("schemas and lists of keys are objects")
}

fn object_mut(value: &mut Value) -> &mut Map<String, Value> {
    value.as_object_mut().expect("schemas and lists of keys are objects")
}
