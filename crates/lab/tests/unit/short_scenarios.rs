//! Abbreviations in scenarios: patterns of hosts, named texts, and scenarios that build on others.

use catnip_lab::{InputError, Plan, Scenario};
use std::fs;
use std::path::Path;

/// Returns a scenario with ten hosts on either side of a router, and queues for `places` packets. The hosts selected by `from` send to a
/// host on the other side.
fn tree(places: &str, from: &str, more: &str) -> String {
    format!(
        r#"
id = "X"
title = "Ten pairs"
define.queue = "drop-tail:{places}"
[node]
a = {{ kind = "host", count = 10 }}
r = {{ kind = "router" }}
b = {{ kind = "host", count = 10 }}
[link.a]
from = "a"
to = "r"
rate = "1Mbit"
delay = "1ms"
queue = "{{queue}}"
[link.b]
from = "r"
to = "b"
rate = "1Mbit"
delay = "1ms"
queue = "{{queue}}"
[traffic.t]
kind = "bulk"
from = "{from}"
to = "b[0]"
packets = 1
{more}"#
    )
}

fn read(text: &str) -> Result<Scenario, InputError> {
    Scenario::parse(Path::new("x.toml"), text)
}

fn first(scenario: &Scenario) -> &Plan {
    scenario.plan(scenario.variants().next().unwrap()).unwrap()
}

/// Returns the numbers of the hosts that a pattern selects.
fn selected(pattern: &str) -> Result<Vec<u32>, InputError> {
    let text = tree("7", "b[0]", "")
        .replace("from = \"b[0]\"\nto = \"b[0]\"", &format!("from = \"b[0]\"\nto = \"a{pattern}\""));
    let scenario = read(&text)?;
    let plan = first(&scenario);
    let clients = plan.groups().flat_map(|group| group.pairs.iter().map(|&(_, client)| client));
    let number = |name: &str| name[2..].trim_end_matches(']').parse().unwrap();
    Ok(clients.map(|client| number(plan.topology().name(client))).collect())
}

#[test]
fn a_pattern_takes_a_range_by_steps_and_leaves_out_others() {
    for (pattern, expected) in [
        ("", vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("[3]", vec![3]),
        ("[2..5]", vec![2, 3, 4]),
        ("[1..8:3]", vec![1, 4, 7]),
        ("[7..]", vec![7, 8, 9]),
        ("[0..:2 except 4]", vec![0, 2, 6, 8]),
        ("[0..:2 except 0..:4]", vec![2, 6]),
        ("[0.. except 0..5, 8..]", vec![5, 6, 7]),
        ("[0..3 except 7]", vec![0, 1, 2]),
    ] {
        assert_eq!(selected(pattern).unwrap(), expected, "{pattern}");
    }
}

#[test]
fn a_pattern_that_means_nobody_or_nothing_is_refused() {
    for (pattern, what) in [
        ("[10]", "only 10 nodes of this name"),
        ("[0..11]", "only 10 nodes of this name"),
        ("[0.. except 9..12]", "only 10 nodes of this name"),
        ("[4..4]", "selects no node"),
        ("[0.. except 0..]", "selects no node"),
        ("[0.. except x]", "expected a node or nodes"),
        ("[0.. without 3]", "expected a node or nodes"),
        ("[0..:0]", "expected a node or nodes"),
        ("[3", "expected a node or nodes"),
    ] {
        let error = selected(pattern).unwrap_err().to_string();
        assert!(
            error.contains("x.toml: traffic.t.to") && error.contains(pattern) && error.contains(what),
            "{error}"
        );
    }
}

fn queues(scenario: &Scenario, variant: &str) -> Vec<String> {
    let ports = scenario.plan(variant).unwrap().topology().ports();
    let mut queues: Vec<_> = ports.iter().map(|port| port.wire.queue.to_string()).collect();
    queues.dedup();
    queues
}

#[test]
fn a_variant_changes_a_named_text_for_all_who_use_it() {
    let variants =
        "[[variant]]\nname = \"short\"\n[[variant]]\nname = \"long\"\ndefine.queue = \"drop-tail:99\"";
    let scenario = read(&tree("7", "a[0]", variants)).unwrap();
    assert_eq!(queues(&scenario, "short"), ["drop-tail:7"]);
    assert_eq!(queues(&scenario, "long"), ["drop-tail:99"]);
    let more = |more: &str| tree("{many}", "a[0]", "").replace("[node]", &format!("{more}\n[node]"));
    let nested = read(&more("define.many = \"1{few}\"\ndefine.few = \"2\"")).unwrap();
    assert_eq!(queues(&nested, "default"), ["drop-tail:12"], "one text names another");
    let error = read(&more("define.many = \"1{few}\"\ndefine.few = \"{many}\"")).unwrap_err().to_string();
    assert!(error.contains("define.few: \"{many}\": refers to itself: few, many, few"), "{error}");
    let error =
        read(&tree("7", "a[0]", "[[variant]]\nname = \"x\"\ndefine.queue = 7")).unwrap_err().to_string();
    assert!(error.contains("define.queue: 7: expected a text"), "{error}");
    let error = read(&tree("7", "a[0]", "").replace("{queue}", "{qeue}")).unwrap_err().to_string();
    assert!(error.contains("link.a.queue") && error.contains("{qeue}"), "{error}");
}

#[test]
fn a_variant_can_be_without_a_group() {
    let more = "[traffic.other]\nkind = \"bulk\"\nfrom = \"a[1]\"\nto = \"b[1]\"\npackets = 1\n[[variant]]\nname = \"both\"\n\
                [[variant]]\nname = \"one\"\ntraffic.other = \"none\"\n";
    let scenario = read(&tree("7", "a[0]", more)).unwrap();
    let groups = |variant| {
        scenario.plan(variant).unwrap().groups().map(|group| group.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((groups("both"), groups("one")), (vec!["other".into(), "t".into()], vec!["t".into()]));
}

#[test]
fn doing_without_a_group_that_is_not_there_is_refused() {
    let variant = "[[variant]]\nname = \"x\"\ntraffic.missing = \"none\"\n";
    let error = read(&tree("7", "a[0]", variant)).unwrap_err().to_string();
    assert!(error.contains("traffic.missing: \"none\": no such group"), "{error}");
}

#[test]
fn a_text_that_refers_to_itself_is_refused_however_it_does() {
    for (said, circle) in [("{a}", "a, a"), ("{b}", "a, b, a"), ("{c}", "c, c")] {
        let define = format!("define.a = \"{said}\"\ndefine.b = \"{{a}}\"\ndefine.c = \"{{c}}\"");
        let text = tree("7", "a[0]", "").replace("[node]", &format!("{define}\n[node]"));
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains("refers to itself") && error.contains(circle), "{error}");
    }
}

#[test]
fn a_scenario_builds_on_another_and_its_variants_replace_those_below() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let variants = "[[variant]]\nname = \"p\"\n[[variant]]\nname = \"q\"\ntcp.window_segments = 4\n";
    fs::write(at("below.toml"), tree("7", "a[0]", variants)).unwrap();
    fs::write(at("middle.toml"), "base = \"below.toml\"\nid = \"Y\"\ndefine.queue = \"drop-tail:8\"\n")
        .unwrap();
    let axis = "[[axis]]\nkey = \"link.a.rate\"\nvalues = [\"1Mbit\", \"2Mbit\"]\n";
    fs::write(at("above.toml"), format!("base = \"middle.toml\"\ntitle = \"Above\"\n{axis}")).unwrap();
    fs::write(at("other.toml"), "base = \"middle.toml\"\n[[variant]]\nname = \"own\"\n").unwrap();

    let above = Scenario::load(&at("above.toml")).unwrap();
    assert_eq!((&above.id[..], &above.title[..]), ("Y", "Above"));
    let names = ["p / rate=1Mbit", "p / rate=2Mbit", "q / rate=1Mbit", "q / rate=2Mbit"];
    assert_eq!(above.variants().collect::<Vec<_>>(), names);
    assert_eq!(queues(&above, names[0]), ["drop-tail:8"]);
    assert!(above.text.contains("window_segments"), "the text includes that of its base");
    let other = Scenario::load(&at("other.toml")).unwrap();
    assert_eq!(other.variants().collect::<Vec<_>>(), ["own"]);
}

#[test]
fn a_base_that_is_not_there_wrong_or_a_circle_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("circle.toml"), "base = \"circle.toml\"\n").unwrap();
    fs::write(at("broken.toml"), "id = \n").unwrap();
    for (base, messages) in [
        ("\"nowhere.toml\"", ["above.toml: base", "nowhere.toml"]),
        ("\"circle.toml\"", ["circle.toml: base: ", "circle.toml: builds on itself"]),
        ("\"broken.toml\"", ["broken.toml", "line 1"]),
        ("3", ["above.toml: base", "3: expected the name of a file"]),
    ] {
        fs::write(at("above.toml"), format!("base = {base}\n")).unwrap();
        let error = Scenario::load(&at("above.toml")).unwrap_err().to_string();
        assert!(messages.iter().all(|message| error.contains(message)), "{error}");
    }
}
