//! Reference of scenario files: the schema, the page of all keys and the documented defaults must agree with the types that read scenarios.

use catnip_base::notation::Usage;
use catnip_lab::{
    DEFAULT_DESCRIPTION, NOTATION, OLDER_NAME, Scenario, built_in, notations, schema, schema_text,
};
use catnip_tcp::profile;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Part of a scenario file: heading, description, and schema of its keys.
struct Section {
    title: String,
    about: String,
    keys: Map<String, Value>,
}

impl Section {
    fn new(title: &str, schema: &Value) -> Self {
        let about = schema["description"].as_str().unwrap_or_default();
        // Older names are listed once, not with every key.
        let keys = schema["properties"].as_object().unwrap().clone();
        let keys = keys.into_iter().filter(|(_, key)| key.get(OLDER_NAME).is_none()).collect();
        Self { title: title.into(), about: about.into(), keys }
    }
}

fn sections() -> Vec<Section> {
    let schema = schema();
    let all = &schema["$defs"];
    let mut top = schema["then"].clone();
    for key in ["base", "define", "sla", "variant", "axis", "sweep"] {
        top["properties"][key] = schema["properties"][key].clone();
    }
    let mut variant = all["variant"].clone();
    variant["properties"].as_object_mut().unwrap().retain(|key, _| key == "name");
    let mut sections = vec![
        Section::new("Top level", &top),
        Section::new("[node.NAME]", &all["node"]),
        Section::new("[link.NAME]", &all["link"]),
        Section::new("[tcp], and tcp in [traffic.NAME]", &all["tcp"]),
        Section::new("[tcp.sysctl]", &all["sysctl"]),
    ];
    for kind in all["traffic"]["oneOf"].as_array().unwrap() {
        let name = kind["properties"]["kind"]["const"].as_str().unwrap();
        assert!(kind["properties"]["kind"]["description"].is_string(), "{name}");
        let mut kind = kind.clone();
        kind["properties"].as_object_mut().unwrap().retain(|key, _| key != "kind");
        sections.push(Section::new(&format!("[traffic.NAME] with kind = \"{name}\""), &kind));
        if let Some(generate) = all.get(format!("{name}-generate")) {
            sections.push(Section::new(&format!("[traffic.NAME.generate] with kind = \"{name}\""), generate));
        }
    }
    sections.extend([
        Section::new("[sla.NAME]", &all["sla"]),
        Section::new("[[variant]]", &variant),
        Section::new("[[axis]]", &all["axis"]),
        Section::new("[sweep]", &all["sweep"]),
    ]);
    sections
}

fn check_or_bless(file: &str, now: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if std::env::var_os("CATNIP_BLESS").is_some() {
        std::fs::write(&path, now).unwrap();
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(before == now, "{file} is not what is declared; CATNIP_BLESS=1 writes it");
}

#[test]
fn the_schema_that_editors_read_is_what_the_types_say() {
    check_or_bless("python/catnip/scenario.schema.json", &schema_text());
}

#[test]
fn the_page_of_all_keys_is_what_the_types_say() {
    check_or_bless("docs/scenario.md", &page());
}

#[test]
fn every_key_says_what_it_is_what_is_so_without_it_and_how_it_is_written() {
    let schema = schema();
    for section in sections() {
        assert!(!section.about.is_empty() || section.title == "Top level", "{}", section.title);
        for (name, key) in &section.keys {
            let location = format!("{}: {name}", section.title);
            let about = key["description"].as_str().unwrap_or_else(|| panic!("{location}: no description"));
            assert!(
                about.split("\n\n").next().unwrap().ends_with('.'),
                "{location}: {about:?} is no sentence"
            );
            assert!(!key["examples"][0].is_null(), "{location}: no example");
            let default = key.get("default").or(key.get(DEFAULT_DESCRIPTION));
            assert!(
                is_required(&schema, &section, name) != default.is_some(),
                "{location}: required or with a default"
            );
        }
    }
}

/// Returns true if the schema requires the key `key`, under this name or its older name.
fn is_required(schema: &Value, section: &Section, key: &str) -> bool {
    fn requires(of: &Value, key: &str) -> bool {
        let list = of["required"].as_array().is_some_and(|list| list.iter().any(|one| one == key));
        let parts = ["allOf", "oneOf"].into_iter().filter_map(|name| of[name].as_array()).flatten();
        list || parts.into_iter().any(|part| requires(part, key))
    }
    let defs = schema["$defs"].as_object().unwrap();
    let kinds = schema["$defs"]["traffic"]["oneOf"].as_array().unwrap();
    let tables = [&schema["then"]]
        .into_iter()
        .chain(kinds)
        .chain(defs.iter().filter(|(name, _)| !name.starts_with("part-of")).map(|(_, it)| it));
    let same = |of: &&Value| {
        let properties = of["properties"].as_object();
        properties.is_some_and(|properties| {
            section.keys.iter().all(|(name, schema_of_key)| {
                matches!(name.as_str(), "base" | "define" | "sla" | "variant" | "axis" | "sweep")
                    || properties.get(name) == Some(schema_of_key)
            })
        })
    };
    tables.filter(same).any(|of| requires(of, key))
}

/// Part of a scenario to which the tests add the keys of a section.
const NETWORK: &str = r#"
id = "X"
title = "x"
[node]
server.kind = "host"
router.kind = "router"
client = { kind = "host", count = 50 }
[link.line]
from = "server"
to = "router"
rate = "100Mbit"
delay = "10ms"
queue = "drop-tail:10"
[link.access]
from = "router"
to = "client"
rate = "100Mbit"
delay = "10ms"
queue = "drop-tail:10"
"#;

/// Returns scenarios for a section of the reference, each with the path at which the keys of the section are set. Every key of the section
/// is valid in at least one of these scenarios.
fn contexts(section: &str) -> Vec<(&'static str, String)> {
    let bulk = "[traffic.it]\nkind = 'bulk'\nfrom = 'server'\nto = 'client'\n";
    let hosts = "clients = 'client'\nservers = 'server'\n";
    let page = format!("[traffic.it]\nkind = 'page'\npage = 'pages/site.har'\n{hosts}");
    let web = format!("[traffic.it]\nkind = 'web'\nthink = '1s'\n{hosts}");
    let drawn = "generate.html_bytes = 1000\ngenerate.images = 3\ngenerate.image_bytes = 1000\n";
    let tmix = format!("[traffic.it]\nkind = 'tmix'\n{hosts}");
    let vectors = "generate = { connections = 3, over = '1s', epochs = 1, response_bytes = 9, idle = 1 }\n";
    let background = "[traffic.it]\nkind = 'background'\nfrom = 'server'\nto = 'client'\npeak = '5Mbit'\nburst = '9ms'\npacket_bytes = 900\n";
    let transfer = format!("{bulk}bytes = 1000\n");
    let (path, texts): (&str, Vec<String>) = match section {
        "Top level" => ("", vec![transfer.clone(), format!("{transfer}[tcp]\nprofile = 'rfc'\n")]),
        "[node.NAME]" => (
            "node.extra",
            vec![
                format!("{transfer}[node.extra]\nkind = 'host'\n"),
                format!("{transfer}[node.extra]\nkind = 'host'\ncommand = ['true']\n"),
            ],
        ),
        "[link.NAME]" => ("link.line", vec![transfer]),
        "[tcp], and tcp in [traffic.NAME]" => (
            "tcp",
            vec![
                transfer.clone(),
                format!("{transfer}[tcp]\nrecovery = 'sack'\ndelayed_ack = true\n"),
                format!("{transfer}[tcp]\nprofile = 'linux-6'\n"),
            ],
        ),
        "[tcp.sysctl]" => ("tcp.sysctl", vec![format!("{transfer}[tcp]\nprofile = 'linux-6'\n")]),
        "[sla.NAME]" => ("sla.user", vec![format!("{transfer}[sla.user]\nhigh = '1Mbit/9000B'\n")]),
        "[traffic.NAME] with kind = \"bulk\"" => {
            ("traffic.it", vec![transfer, format!("{bulk}packets = 3\n")])
        }
        "[traffic.NAME] with kind = \"background\"" => (
            "traffic.it",
            vec![
                format!("{background}rate = '1Mbit'\n"),
                format!("{background}load = 0.1\nlink = 'line'\n"),
                "[traffic.it]\nkind = 'background'\nfrom = 'server'\nto = 'client'\nreplay = 'traces/cross.txt'\n".into(),
            ],
        ),
        "[traffic.NAME] with kind = \"ftp\"" => (
            "traffic.it",
            vec![
                bulk.replace("bulk", "ftp") + "bytes = 1000\ngap = 1\nfiles = 2\n",
                bulk.replace("bulk", "ftp") + "bytes = 1000\ngap = 1\n",
            ],
        ),
        "[traffic.NAME] with kind = \"iperf\"" => {
            ("traffic.it", vec![bulk.replace("bulk", "iperf") + "duration = '2s'\n"])
        }
        "[traffic.NAME] with kind = \"page\"" => {
            ("traffic.it", vec![format!("{page}tls = 'full'\n"), page.clone(), format!("{page}http = '2'\n")])
        }
        "[traffic.NAME] with kind = \"telnet\"" => {
            ("traffic.it", vec![format!("[traffic.it]\nkind = 'telnet'\npause = '1s'\n{hosts}")])
        }
        "[traffic.NAME] with kind = \"tmix\"" => {
            ("traffic.it", vec![format!("{tmix}trace = 'traces/web.cvec'\n"), format!("{tmix}{vectors}")])
        }
        "[traffic.NAME.generate] with kind = \"tmix\"" => {
            ("traffic.it.generate", vec![format!("{tmix}{vectors}")])
        }
        "[traffic.NAME] with kind = \"video\"" => (
            "traffic.it",
            vec![
                format!("[traffic.it]\nkind = 'video'\nrate = '1Mbit'\nlength = '9s'\n{hosts}"),
                format!(
                    "[traffic.it]\nkind = 'video'\nrate = '1Mbit'\nlength = '9s'\nbuffer = '1min'\n{hosts}"
                ),
                format!(
                    "[traffic.it]\nkind = 'video'\nladder = ['1Mbit', '2Mbit']\nrule = 'bba'\nlength = '9s'\n{hosts}"
                ),
            ],
        ),
        "[traffic.NAME] with kind = \"web\"" => (
            "traffic.it",
            vec![
                format!("{web}pages = 'pages.csv'\n"),
                format!("{web}http = '1.1'\n{drawn}"),
                format!("{web}{drawn}"),
            ],
        ),
        "[traffic.NAME.generate] with kind = \"web\"" => (
            "traffic.it.generate",
            vec![format!("{web}{drawn}"), format!("{web}{drawn}generate.pages = 2\ngenerate.seed = 1\n")],
        ),
        // The keys of these tables are covered by the example of the whole list, a key at the top level.
        "[[variant]]" | "[[axis]]" | "[sweep]" => return Vec::new(),
        other => panic!("no scenario for {other}"),
    };
    texts.into_iter().map(|text| (path, format!("{NETWORK}{text}"))).collect()
}

/// Creates a folder with the files to which examples refer.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let there = |name: &str| folder.path().join(name);
    std::fs::create_dir(there("pages")).unwrap();
    std::fs::create_dir(there("traces")).unwrap();
    std::fs::create_dir(there("paths")).unwrap();
    std::fs::write(there("paths/leo.toml"), "at = [0, 15]\ndelay = [20, 50]\n").unwrap();
    let recorded = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/pages/site.har");
    std::fs::copy(recorded, there("pages/site.har")).unwrap();
    std::fs::write(there("pages.csv"), "page,object_index,bytes\n1,0,1000\n1,1,2000\n2,0,500\n").unwrap();
    std::fs::write(there("traces/web.cvec"), "S 6000 1 17 4711\nI 0 0 245\nA 0 51000 5100\nA 2000 0 0\n")
        .unwrap();
    std::fs::write(there("traces/cross.txt"), "0 100\n1.5 1500\n").unwrap();
    let transfer = "[traffic.it]\nkind = 'bulk'\nfrom = 'server'\nto = 'client'\nbytes = 1000\n";
    std::fs::write(there("tree.toml"), format!("{NETWORK}{transfer}")).unwrap();
    folder
}

/// Returns a scenario with the key `key` set to `value`. A table at the top level is merged with the existing table.
fn with(text: &str, path: &str, key: &str, value: &Value) -> String {
    let mut table: toml::Table = text.parse().unwrap();
    let parts = path.split('.').filter(|part| !part.is_empty());
    let at = parts.fold(&mut table, |table, part| {
        table.entry(part).or_insert_with(|| toml::Table::new().into()).as_table_mut().unwrap()
    });
    let new = toml::Value::try_from(value).unwrap();
    match (at.get_mut(key), new) {
        (Some(toml::Value::Table(old)), toml::Value::Table(more)) if path.is_empty() => old.extend(more),
        (_, new) => drop(at.insert(key.into(), new)),
    }
    toml::to_string(&table).unwrap()
}

/// Returns true if a scenario already contains this key.
fn says(text: &str, path: &str, key: &str) -> bool {
    let table: toml::Value = toml::Value::Table(text.parse().unwrap());
    let mut parts = path.split('.').filter(|part| !part.is_empty());
    parts.try_fold(&table, |value, part| value.get(part)).is_some_and(|table| table.get(key).is_some())
}

/// Returns the number of seeds and the plan of the first variant as text, or the error message of the scenario.
fn plan(folder: &Path, text: &str) -> Result<String, String> {
    let scenario = Scenario::parse(&folder.join("x.toml"), text).map_err(|error| error.to_string())?;
    let first = scenario.variants().next().unwrap();
    Ok(format!("{} {:?}", scenario.seeds, scenario.emulation(first).unwrap()))
}

#[test]
fn every_default_is_the_one_in_effect() {
    let folder = folder();
    let mut tried = 0;
    for section in sections() {
        for (key, default) in
            section.keys.iter().filter_map(|(key, value)| Some((key, value.get("default")?)))
        {
            let mut accepted = 0;
            for (path, text) in contexts(&section.title) {
                if says(&text, path, key) {
                    continue;
                }
                let Ok(value) = plan(folder.path(), &with(&text, path, key, default)) else { continue };
                let location = format!("{}: {key} = {default}", section.title);
                assert_eq!(value, plan(folder.path(), &text).unwrap(), "{location}");
                accepted += 1;
            }
            assert!(accepted > 0, "{}: {key} = {default} is refused", section.title);
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
}

#[test]
fn every_example_is_read() {
    let folder = folder();
    for section in sections() {
        let contexts = contexts(&section.title);
        for (key, value) in &section.keys {
            let example = &value["examples"][0];
            let read =
                contexts.iter().map(|(path, text)| plan(folder.path(), &with(text, path, key, example)));
            let errors: Vec<String> = read.filter_map(Result::err).collect();
            assert!(errors.len() < contexts.len().max(1), "{}: {key} = {example}: {errors:?}", section.title);
        }
    }
}

#[test]
fn a_renamed_key_is_read_by_its_older_name_and_a_variant_replaces_either() {
    let folder = folder();
    let mut tried = Vec::new();
    for section in sections() {
        for (older, name, values) in [
            ("real", "external", [json!(true), json!(false)]),
            ("silence_shape", "idle_shape", [json!(1.2), json!(1.7)]),
        ] {
            if !section.keys.iter().any(|(key, _)| key == name) {
                continue;
            }
            for (path, text) in contexts(&section.title) {
                let read = |key: &str| plan(folder.path(), &with(&text, path, key, &values[0])).unwrap();
                assert_eq!(read(older), read(name), "{name}");
                let changed = |in_base: &str, in_variant: &str| {
                    let base = with(&text, path, in_base, &values[1]);
                    let variant = format!("\n[[variant]]\nname = 'x'\n{path}.{in_variant} = {}\n", values[0]);
                    plan(folder.path(), &(base + &variant))
                };
                let same = changed(name, name).unwrap();
                assert_eq!(changed(older, name), Ok(same.clone()), "{name}");
                assert_eq!(changed(name, older), Ok(same), "{name}");
                tried.push(name);
            }
        }
    }
    tried.dedup();
    assert_eq!(tried, ["external", "idle_shape"]);
}

#[test]
fn keys_of_times_have_an_older_name_that_says_the_same() {
    // Keys that are younger than the rule have one name.
    const OLD: [&str; 7] = ["gap", "idle", "pause", "server", "server_delay", "start", "think"];
    let folder = folder();
    let mut tried = Vec::new();
    for section in sections() {
        for (key, value) in
            section.keys.iter().filter(|(_, value)| value["allOf"][0]["$ref"] == "#/$defs/times")
        {
            if !OLD.contains(&key.as_str()) {
                continue;
            }
            let (path, text) = contexts(&section.title).remove(0);
            let read = |key: &str, value: Value| {
                let without = text.replace("think = '1s'\n", "").replace("pause = '1s'\n", "");
                let without = if key.starts_with("gap") { without.replace("gap = 1\n", "") } else { without };
                let without =
                    if key.starts_with("idle") { without.replace(", idle = 1", "") } else { without };
                let kept = if without.contains("kind = 'web'") && !key.starts_with("think") {
                    &text
                } else {
                    &without
                };
                plan(folder.path(), &with(kept, path, key, &value))
                    .unwrap_or_else(|error| panic!("{key}: {error}"))
            };
            let old = format!("{key}_s");
            assert_eq!(read(key, "2s".into()), read(&old, 2.into()), "{key}");
            assert_eq!(
                read(key, value["examples"][0].clone()),
                read(&old, value["examples"][0].clone()),
                "{key}"
            );
            tried.push(key.clone());
        }
    }
    tried.sort();
    tried.dedup();
    assert_eq!(tried, OLD);
}

/// Returns the Markdown page that describes all keys of scenarios.
fn page() -> String {
    let families: BTreeMap<&str, Vec<Usage>> = built_in().into_iter().collect();
    let mut page = String::from(
        "# Scenario files\n\n\
         Reference of the keys of scenario files, which are [TOML](https://toml.io). This page is generated from the types that read them.\n\
         The models behind the keys are described in [traffic](traffic.md), [links](links.md), [TCP](tcp.md) and\n\
         [external hosts](external-hosts.md), the columns of results in [tables](tables.md), and exit codes in\n\
         [results](results.md#exit-codes).\n\n\
         - `catnip new FILE` writes a small runnable scenario. `catnip check FILE` checks a scenario and prints a summary. Both\n\
         \u{20} it and `catnip run` warn of keys that have no effect in any variant: marks that no queue obeys, ECN that no queue marks or the\n\
         \u{20} controller ignores, texts and nodes that nothing uses, long flows among which nothing is random.\n\
         - `catnip schema` prints this reference as a JSON Schema. A first line `#:schema PATH` in a scenario refers editors (Even Better\n\
         \x20\x20TOML, taplo) to the schema, for completion, documentation and validation.\n\
         - `--set KEY=VALUE` of `catnip run` and `catnip emulate` changes a key, given by its path as in an axis: `--set link.line.queue=red:10`.\n\n\
         A key without a default is required, in the scenario, in a scenario on which it builds (`base`), or in every variant.\n",
    );
    let sections = sections();
    for section in &sections {
        write!(page, "\n## {}\n\n", section.title).unwrap();
        if !section.about.is_empty() {
            writeln!(page, "{}\n", section.about).unwrap();
        }
        writeln!(page, "| key | value | default | description | example |\n|---|---|---|---|---|").unwrap();
        for (name, key) in &section.keys {
            let about =
                key["description"].as_str().unwrap_or_default().split("\n\n").next().unwrap_or_default();
            let default = match (key.get("default"), key.get(DEFAULT_DESCRIPTION)) {
                (Some(default), _) => format!("`{}`", as_toml(default)),
                (None, Some(words)) => words.as_str().unwrap_or_default().into(),
                (None, None) => String::new(),
            };
            let example = as_toml(&key["examples"][0]);
            let row = format!("| `{name}` | {} | {default} | {about} | `{example}` |", value_of(key));
            writeln!(page, "{row}").unwrap();
        }
    }
    page.push_str("\n# Notations\n\nA text may refer to names of `[define]` and `[sla]` in braces.\n");
    for (name, about, examples) in notations() {
        let examples: Vec<String> = examples.iter().map(|example| format!("`{example}`")).collect();
        writeln!(page, "\n## {name}\n\n{}. Examples: {}.", capitalized(&about), examples.join(", ")).unwrap();
    }
    page.push_str(
        "\nKeys of times have an older name that ends in `_s` (`think_s`, `start_s`), with the same meaning. So have\n`external` (`real`) and `idle_shape` (`silence_shape`).\n",
    );
    for (family, usages) in families {
        writeln!(page, "\n## {family}\n\n| form | description |\n|---|---|").unwrap();
        for (form, about) in usages {
            writeln!(page, "| `{}` | {} |", in_a_cell(form), in_a_cell(about)).unwrap();
        }
    }
    writeln!(page, "\n## profiles\n\n| name | description |\n|---|---|").unwrap();
    for (name, about) in profile::NAMES {
        writeln!(page, "| `{name}` | {about} |").unwrap();
    }
    page
}

/// Returns a description of the type of a key's values, from the schema of the key.
fn value_of(key: &Value) -> String {
    let of_reference = |path: &str| {
        let schema = schema();
        let name = path.trim_start_matches("#/$defs/").to_string();
        let notation = schema["$defs"][&name][NOTATION].as_str().map(String::from);
        notation.map_or(format!("table: `{name}`"), |notation| link_to(&notation))
    };
    if let Some(notation) = key[NOTATION].as_str() {
        return link_to(notation);
    }
    if let Some(path) = key["$ref"].as_str().or(key.pointer("/allOf/0/$ref").and_then(Value::as_str)) {
        return of_reference(path);
    }
    if let Some(values) = key["enum"].as_array() {
        return values.iter().map(|value| format!("`{}`", as_toml(value))).collect::<Vec<_>>().join(", ");
    }
    match key["type"].as_str() {
        Some("string") => "text".into(),
        Some("boolean") => "`true` or `false`".into(),
        Some("integer") => "whole number".into(),
        Some("number") => "number".into(),
        Some("array") => "list".into(),
        _ if key["type"] == json!(["string", "array"]) => "text or list".into(),
        _ => "table".into(),
    }
}

fn link_to(notation: &str) -> String {
    format!("[{notation}](#{})", notation.replace(' ', "-"))
}

/// Returns a value in the notation of scenarios, on one line.
fn as_toml(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let keys: Vec<String> =
                table.iter().map(|(key, value)| format!("{key} = {}", as_toml(value))).collect();
            format!("{{ {} }}", keys.join(", "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(as_toml).collect::<Vec<_>>().join(", ")),
        other => in_a_cell(&other.to_string()),
    }
}

/// Escapes bars, which would end the cell of a table.
fn in_a_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
