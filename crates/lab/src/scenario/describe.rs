//! JSON Schema of single values of scenarios, and descriptions of their notations.

use crate::formats::site_file::Priorities;
use crate::scenario::kinds::built_in;
use catnip_base::notation::{Family, Kind, Usage, name};
use catnip_base::{Bytes, Distribution, Measure, Quantity, Rate, Share, Span};
use catnip_net::mark::MarkerSpec;
use catnip_net::queue::QueueSpec;
use catnip_net::{Key, WireSpec};
use catnip_sim::app::{Handshake, RateRule};
use catnip_tcp::EcnKind;
use catnip_tcp::control::ControlSpec;
use catnip_tcp::control::validated::ValidationSpec;
use catnip_tcp::pacing::PacingKind;
use catnip_tcp::profile;
use catnip_tcp::recovery::RecoveryKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Schema keyword for the notation of a value: the name of one of [`notations`] or of a family of kinds.
pub const NOTATION: &str = "x-notation";
/// Schema keyword for the list of forms in which a value can be written.
pub(crate) const FORMS: &str = "x-forms";
/// Schema keyword for a description of a key's default value in words.
pub const DEFAULT_DESCRIPTION: &str = "x-default";

/// Name, meaning and examples of a notation.
pub type Notation = (&'static str, String, Vec<&'static str>);

/// Returns the notations of quantities, nodes and distributions. The notations of families of kinds are in [`built_in`].
pub fn notations() -> Vec<Notation> {
    fn quantity<Q: Quantity>(examples: &[&'static str]) -> Notation {
        let units: Vec<&str> = Q::UNITS.iter().copied().filter(|unit| !unit.is_empty()).collect();
        let bare =
            if Q::UNITS.contains(&"") { "a number, or a text with a unit" } else { "a text with a unit" };
        let about = format!("{bare} ({}); {}", units.join(", "), Q::ABOUT);
        (Q::NAME, about, examples.to_vec())
    }
    let nodes = "nodes of one name: all of them, one by its number (from 0), a range (excluding its end), a range with a step, or a range \
                 with exceptions";
    let selections = [
        "client",
        "client[3]",
        "client[0..50]",
        "client[0..50:2]",
        "client[1..:2]",
        "client[0.. except 3, 7..9]",
    ];
    vec![
        quantity::<Span>(&["200ms", "5s", "1.5min"]),
        quantity::<Rate>(&["1.5Mbit", "10Gbit"]),
        quantity::<Bytes>(&["1500", "32KB", "1GB"]),
        quantity::<Share>(&["0.05", "5%"]),
        ("nodes", nodes.into(), selections.to_vec()),
        (
            measure_name(Measure::Time),
            distribution_of("times", "in seconds"),
            vec!["5s", "0.2", "exponential:mean=2s"],
        ),
        (
            measure_name(Measure::Size),
            distribution_of("sizes", "in bytes"),
            vec!["32KB", "1000", "pareto:shape=1.2,minimum=32KB"],
        ),
        (
            measure_name(Measure::Count),
            distribution_of("counts", "counts"),
            vec!["8", "pareto:shape=2.43,minimum=1"],
        ),
    ]
}

fn distribution_of(noun: &str, numbers: &str) -> String {
    format!(
        "a distribution of {noun}: a constant value; a text in one of the forms of distributions, whose values may have units; or a table \
         such as {{ distribution = \"uniform\", minimum = 1, maximum = 2 }}, whose values may be texts with units. Numbers without a unit \
         are {numbers}"
    )
}

pub(crate) fn measure_name(measure: Measure) -> &'static str {
    match measure {
        Measure::Time => "distribution of times",
        Measure::Size => "distribution of sizes",
        Measure::Count => "distribution of counts",
    }
}

/// Regular expression for the start of `{NAME}`, the reference to a named text, which can replace any value.
const REFERENCE: &str = r"\{";

/// Type whose values are written as text in scenarios, and the JSON Schema of these texts.
pub(crate) trait InSchema {
    /// Returns the schema, without a description.
    fn schema() -> Schema;
}

macro_rules! in_schema {
    ($schema:ident: $($Type:ty),+ $(,)?) => {
        $(impl InSchema for $Type {
            fn schema() -> Schema {
                $schema::<Self>()
            }
        })+
    };
}

in_schema! { quantity: Span, Rate, Bytes, Share }
in_schema! { kind: EcnKind, RecoveryKind, PacingKind, ValidationSpec, ControlSpec, QueueSpec, RateRule, Handshake, Priorities }

impl InSchema for Option<Span> {
    fn schema() -> Schema {
        let mut schema = quantity::<Span>();
        let of_span = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
        let pattern = format!(r"^\s*none\s*$|{of_span}");
        schema.insert("pattern".into(), pattern.into());
        schema
    }
}

impl InSchema for Option<MarkerSpec> {
    fn schema() -> Schema {
        kinds(&MarkerSpec::usages(), true)
    }
}

fn quantity<Q: Quantity>() -> Schema {
    let units: Vec<&str> = Q::UNITS.iter().copied().filter(|unit| !unit.is_empty()).collect();
    let (types, bare) =
        if Q::UNITS.contains(&"") { (json!(["string", "number"]), "?") } else { (json!("string"), "") };
    let pattern = format!(r"^\s*[0-9]*\.?[0-9]*\s*({}){bare}\s*$|{REFERENCE}", units.join("|"));
    json_schema!({ "type": types, "minimum": 0, "pattern": pattern, NOTATION: Q::NAME })
}

fn kind<F: Family>() -> Schema {
    kinds(&F::usages(), false)
}

/// Returns the schema of texts that name a kind. The schema has a pattern only if the text of every kind begins with a name.
fn kinds(usages: &[Usage], is_optional: bool) -> Schema {
    let mut names: Vec<&str> = usages.iter().copied().map(name).collect();
    names.dedup();
    names.extend(is_optional.then_some("none"));
    let pattern = format!(r"^\s*({})\s*([:|].*)?$|{REFERENCE}", names.join("|"));
    let mut schema = Map::from_iter([("type".to_string(), json!("string"))]);
    let is_named = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic()) && !name.contains('=');
    if usages.iter().all(|usage| is_named(name(*usage))) {
        schema.insert("pattern".into(), pattern.into());
    }
    if let Some((family, _)) = built_in().iter().find(|(_, those)| those == usages) {
        schema.insert(NOTATION.into(), (*family).into());
    }
    let none = is_optional.then_some("`none`".to_string());
    let forms = none.into_iter().chain(usages.iter().map(|(form, about)| format!("`{form}`: {about}")));
    schema.insert(FORMS.into(), forms.collect::<Vec<_>>().into());
    schema.into()
}

/// Placeholder type with the JSON Schema of a TCP profile's name.
pub(crate) struct Profile;

impl JsonSchema for Profile {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "profile".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = profile::NAMES.iter().map(|(name, _)| *name).collect();
        let forms: Vec<String> =
            profile::NAMES.iter().map(|(name, about)| format!("`{name}`: {about}")).collect();
        json_schema!({
            "type": "string",
            "pattern": format!("^({})$|{REFERENCE}", names.join("|")),
            NOTATION: "profiles",
            FORMS: forms,
        })
    }
}

/// Placeholder type with the JSON Schema of a text that selects nodes by name and number.
pub(crate) struct Nodes;

impl JsonSchema for Nodes {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "nodes".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = format!(r"^[^\[\]]+(\[[0-9., :except]+\])?$|{REFERENCE}");
        json_schema!({ "type": "string", "pattern": pattern, NOTATION: "nodes" })
    }
}

/// Placeholder type with the JSON Schema of a table that contains keys of a wire.
pub(crate) struct Wire;

impl JsonSchema for Wire {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "wire".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let keys: Map<String, Value> =
            WireSpec::KEYS.iter().map(|key| (key.name.to_string(), wire_key(key))).collect();
        json_schema!({ "type": "object", "properties": keys, "additionalProperties": false })
    }
}

fn wire_key(key: &Key) -> Value {
    let usages = (key.values)();
    let mut schema = match usages[..] {
        // A key whose only form is a time, such as `10ms`, accepts any time.
        [(form, _)] if form.parse::<Span>().is_ok() => Span::schema(),
        _ => kinds(&usages, key.default == Some("none")),
    };
    schema.insert("description".into(), format!("{}.", key.about).into());
    schema.insert("examples".into(), json!([key.example]));
    match key.default {
        Some(usual) => schema.insert("default".into(), usual.into()),
        None => {
            schema.insert(DEFAULT_DESCRIPTION.into(), "required, for the link or for each direction".into())
        }
    };
    schema.to_value()
}

/// Returns the schema of a distribution.
pub(crate) fn distribution(measure: Measure) -> Schema {
    let mut names: Vec<&str> = Distribution::USAGE.iter().copied().map(name).collect();
    names.dedup();
    let units = match measure {
        Measure::Time => Span::UNITS,
        Measure::Size => Bytes::UNITS,
        Measure::Count => &[],
    };
    let pattern =
        format!(r"^\s*[0-9]*\.?[0-9]*\s*({})?\s*$|^\s*({}):|{REFERENCE}", units.join("|"), names.join("|"));
    let forms: Vec<Value> = Distribution::USAGE.iter().copied().map(table_of).collect();
    json_schema!({
        "anyOf": [{ "type": "number", "minimum": 0 }, { "type": "string", "pattern": pattern }, { "oneOf": forms }],
        NOTATION: measure_name(measure),
    })
}

/// Returns the schema of the table that corresponds to a form such as `pareto:shape=,minimum=[,maximum=]`; keys in brackets are optional.
fn table_of((form, about): Usage) -> Value {
    let (needed, more) = form.split_once('[').unwrap_or((form, ""));
    let keys = |text: &str| -> Vec<String> {
        let parts = text.split([':', ',', ']']).filter_map(|part| part.split_once('='));
        parts.map(|(key, _)| key.to_string()).collect()
    };
    let needed = keys(needed.split_once(':').map_or("", |(_, keys)| keys));
    let value = json!({ "type": ["number", "string", "array"] });
    let properties = needed.iter().cloned().chain(keys(more)).map(|key| (key, value.clone()));
    let mut properties: Map<String, Value> = properties.collect();
    properties.insert("distribution".into(), json!({ "const": name((form, about)) }));
    let required: Vec<String> = needed.into_iter().chain(["distribution".to_string()]).collect();
    json!({
        "type": "object",
        "description": about,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}
