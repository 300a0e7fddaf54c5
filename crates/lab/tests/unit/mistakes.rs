//! Tests of error messages for scenarios, which name the wrong key as the scenario writes it, and of keys that are set by options instead
//! of the file.

use catnip_lab::{InputError, Plan, Scenario, fingerprint};
use std::path::Path;

const SCENARIO: &str = r#"
id = "X"
title = "x"
duration = "5s"
[node]
server = { kind = "host" }
router = { kind = "router" }
client = { kind = "host", count = 3 }
[link.line]
from = "server"
to = "router"
rate = "2Mbit"
delay = "5ms"
queue = "drop-tail:10"
[link.access]
from = "router"
to = "client"
rate = "10Mbit"
delay = "5ms"
queue = "drop-tail:10"
[tcp]
profile = "rfc"
[traffic.far]
kind = "bulk"
from = "server"
to = "client"
bytes = "32KB"
start_s = { distribution = "exponential", mean = 2 }
[traffic.page]
kind = "web"
clients = "client"
servers = "server"
http = "1.1"
think_s = 1
generate = { html_bytes = 1000, images = 2, image_bytes = "2KB" }
"#;

fn read(text: &str) -> Result<Scenario, InputError> {
    Scenario::parse(Path::new("x.toml"), text)
}

fn changed(from: &str, to: &str) -> String {
    assert!(SCENARIO.contains(from), "{from}");
    SCENARIO.replace(from, to)
}

fn told(from: &str, to: &str) -> String {
    read(&changed(from, to)).unwrap_err().to_string()
}

fn only(scenario: &Scenario) -> &Plan {
    scenario.plan(scenario.variants().next().unwrap()).unwrap()
}

#[test]
fn a_mistake_is_told_with_its_whole_key_and_in_no_words_of_programs() {
    for (from, to, message) in [
        (
            "count = 3",
            "count = 1000000000000000000",
            "x.toml: node.client.count: invalid value: integer `1000000000000000000`, expected a whole number from 0 to 4294967295",
        ),
        (
            "count = 3",
            "count = -1",
            "x.toml: node.client.count: invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
        ),
        (
            "\"32KB\"",
            "\"-32KB\"",
            "x.toml: traffic.far.bytes: \"-32KB\": expected a size such as 512, 512B, 32KB, 1MB or 1GB (not negative)",
        ),
        ("\"32KB\"", "\"2 apples\"", "x.toml: traffic.far.bytes: \"2 apples\": expected a size such as"),
        (
            "mean = 2",
            "mean = \"2 parsecs\"",
            "x.toml: traffic.far.start_s: \"exponential:mean=2 parsecs\": expected a value for mean",
        ),
        ("exponential", "exponental", "did you mean exponential?"),
        (
            "images = 2",
            "images = \"2s\"",
            "x.toml: traffic.page.generate.images: \"2s\": expected a number such as 8",
        ),
        (
            "kind = \"bulk\"",
            "kind = \"blk\"",
            "x.toml: traffic.far.kind: \"blk\": expected one of bulk, background, ftp, iperf, page, telnet, tmix, video, web; did you mean bulk?",
        ),
        ("kind = \"bulk\"\n", "", "x.toml: traffic.far.kind: missing: expected one of bulk,"),
        (
            "bytes = \"32KB\"",
            "bites = \"32KB\"",
            "x.toml: traffic.far.bites: unknown field `bites`, expected one of",
        ),
        ("bytes = \"32KB\"", "bites = \"32KB\"", "; did you mean bytes?"),
        ("start_s =", "start = 1\nstart_s =", "x.toml: traffic.far"),
        ("title = \"x\"", "title = \"x\"\nsedes = 3", "x.toml: sedes: unknown field `sedes`"),
        ("title = \"x\"", "", "x.toml: missing field `title`"),
        (
            "queue = \"drop-tail:10\"\n[link.access]",
            "qeue = \"red:10\"\n[link.access]",
            "x.toml: link.line.qeue: expected one of from, to, ",
        ),
        (
            "queue = \"drop-tail:10\"\n[link.access]",
            "qeue = \"red:10\"\n[link.access]",
            "; did you mean queue?",
        ),
        ("drop-tail:10\"\n[link.access]", "drop-tial:10\"\n[link.access]", "did you mean drop-tail?"),
        (
            "drop-tail:10\"\n[link.access]",
            "drop-tail:1000000000000000000\"\n[link.access]",
            "at most 4294967296",
        ),
        (
            "delay = \"5ms\"\nqueue = \"drop-tail:10\"\n[tcp]",
            "delay = \"5ms\"\nqueue = \"drop-tail:10\"\nloss = \"gilbert-elliott:\"\n[tcp]",
            "link.access.loss: \"gilbert-elliott:\": expected to_bad=, to_good= and loss_bad=",
        ),
        (
            "delay = \"5ms\"\nqueue = \"drop-tail:10\"\n[tcp]",
            "delay = \"5ms\"\nqueue = \"drop-tail:10\"\nloss = \"priority:\"\n[tcp]",
            "expected high= or low=",
        ),
        ("profile = \"rfc\"", "profile = \"rfc\"\ncontrol = \"cubik\"", "did you mean cubic?"),
        (
            "profile = \"rfc\"",
            "profile = \"rfc\"\nnagle = 1",
            "x.toml: tcp.nagle: invalid type: integer `1`, expected true or false",
        ),
        (
            "profile = \"rfc\"",
            "profile = \"rfc\"\nrto_min = 1",
            "x.toml: tcp.rto_min: \"1\": expected a time such as 200ms",
        ),
        ("id = \"X\"", "id = \"\"", "x.toml: id: \"\": expected a text that is not empty"),
        ("title = \"x\"", "title = \"\\u001b[2J\"", "x.toml: title: \"\\u{1b}[2J\": has a control character"),
        ("[traffic.far]", "[traffic.\"far\\t\"]", "x.toml: traffic: \"far\\t\": has a control character"),
        ("\"32KB\"", "1.5", "x.toml: traffic.far.bytes: \"1.5\": expected a whole number of bytes"),
        ("html_bytes = 1000", "html_bytes = 0.5", "generate.html_bytes: \"0.5\": expected a whole number"),
        (
            "images = 2",
            "images = \"constant:value=2.5\"",
            "images: \"constant:value=2.5\": expected a whole number",
        ),
        (
            "drop-tail:10\"\n[link.access]",
            "red:50,min=5,min=6\"\n[link.access]",
            "x.toml: link.line.queue: \"red:50,min=5,min=6\": min occurs twice",
        ),
        (
            "drop-tail:10\"\n[link.access]",
            "{nope}:10\"\n[link.access]",
            "x.toml: link.line.queue: \"{nope}:10\": nope is not in [define]",
        ),
        (
            "queue = \"drop-tail:10\"\n[link.access]",
            "queue = \"drop-tail:10\"\nconditioner = \"policer:{sla.none}\"\n[link.access]",
            "no [sla.none]; the scenario has none",
        ),
        (
            "[tcp]",
            "[link.again]\nfrom = \"client\"\nto = \"router\"\nrate = \"1Mbit\"\ndelay = \"5ms\"\nqueue = \"drop-tail:5\"\n[tcp]",
            "x.toml: link.again.to: \"router\": link.access already links client[0] and router, and packets take one",
        ),
        (
            "profile = \"rfc\"",
            "profile = \"linux-6\"\ncontrol = \"reno\"\necn = \"l4s\"",
            "x.toml: tcp.ecn: \"l4s\": needs a scalable control, dctcp or prague, not \"reno\"",
        ),
        (
            "bytes = \"32KB\"",
            "bytes = \"32KB\"\ntcp.control = \"prague\"",
            "x.toml: traffic.far.tcp.control: \"prague\": needs ecn = \"l4s\"",
        ),
        (
            "profile = \"rfc\"",
            "profile = \"nowhere\"",
            "x.toml: tcp.profile: \"nowhere\": expected a TCP profile",
        ),
    ] {
        let error = told(from, to);
        assert!(error.contains(message), "{error}\n{message}");
        for leaked in ["File", "u32", "u64", "f64", "struct", "enum", "toml::", "`data`"] {
            assert!(!error.contains(leaked), "{error}");
        }
    }
}

#[test]
fn one_notation_says_the_same_as_another() {
    let same = |from: &str, to: &str| {
        let (old, new) = (read(SCENARIO).unwrap(), read(&changed(from, to)).unwrap());
        assert_eq!(format!("{:?}", only(&old)), format!("{:?}", only(&new)), "{to}");
    };
    let start = "start_s = { distribution = \"exponential\", mean = 2 }";
    for to in [
        "start = { distribution = \"exponential\", mean = 2 }",
        "start = { distribution = \"exponential\", mean = \"2s\" }",
        "start = \"exponential:mean=2s\"",
        "start = \"exponential:mean=2000ms\"",
        "start_s = \"exponential:mean=2\"",
    ] {
        same(start, to);
    }
    for to in [
        "think = 1",
        "think = 1.0",
        "think = \"1s\"",
        "think_s = \"1000ms\"",
        "think = { distribution = \"constant\", value = \"1s\" }",
    ] {
        same("think_s = 1", to);
    }
    for to in ["bytes = 32768", "bytes = \"32768\"", "bytes = \"32768B\""] {
        same("bytes = \"32KB\"", to);
    }
    same("image_bytes = \"2KB\"", "image_bytes = 2048");
    let lossy = |loss: &str| format!("delay = \"5ms\"\nqueue = \"drop-tail:10\"\nloss = \"{loss}\"\n[tcp]");
    let plan = |loss: &str| {
        format!(
            "{:?}",
            only(&read(&changed("delay = \"5ms\"\nqueue = \"drop-tail:10\"\n[tcp]", &lossy(loss))).unwrap())
        )
    };
    assert_eq!(plan("bernoulli:5%"), plan("bernoulli:0.05"));
    assert_eq!(plan("priority:high=1%,low=10%"), plan("priority:high=0.01,low=0.1"));
    assert_eq!(
        plan("gilbert-elliott:to_bad=1%,to_good=30%,loss_bad=50%"),
        plan("gilbert-elliott:to_bad=0.01,to_good=0.3,loss_good=0,loss_bad=0.5")
    );
}

#[test]
fn a_change_under_either_name_of_a_key_replaces_the_other() {
    let varied = |key: &str| format!("{SCENARIO}\n[[variant]]\nname = 'v'\ntraffic.page.{key} = '7s'\n");
    let plan = |text: &str| format!("{:?}", only(&read(text).unwrap()));
    assert_eq!(plan(&varied("think")), plan(&varied("think_s")));
    assert_eq!(plan(&varied("think")), plan(&changed("think_s = 1", "think = 7")));
}

/// Parses a scenario with these keys set to these values.
fn set(text: &str, keys: &[(&str, &str)]) -> Result<Scenario, InputError> {
    let keys: Vec<_> = keys.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Scenario::parse_set(Path::new("x.toml"), text, &keys)
}

#[test]
fn a_key_set_from_outside_holds_in_all_variants_and_the_text_does_the_same_run() {
    let varied = format!(
        "{SCENARIO}\n[[variant]]\nname = 'a'\nlink.line.queue = 'red:10'\n[[variant]]\nname = 'b'\n\
         [[axis]]\nkey = 'link.line.rate'\nvalues = ['1Mbit', '3Mbit']\n"
    );
    let changes = [
        ("link.line.queue", "codel:10"),
        ("traffic.page.http", "1.0"),
        ("seeds", "3"),
        ("traffic.far.start", "2s"),
    ];
    let scenario = set(&varied, &changes).unwrap();
    assert_eq!(scenario.seeds, 3);
    let reread = read(&scenario.text).unwrap();
    let names: Vec<&str> = scenario.variants().collect();
    assert_eq!(names, ["a / rate=1Mbit", "a / rate=3Mbit", "b / rate=1Mbit", "b / rate=3Mbit"]);
    assert_eq!(names, reread.variants().collect::<Vec<_>>());
    for name in names {
        let plans = [&scenario, &reread].map(|it| it.plan(name).unwrap());
        assert_eq!(fingerprint(plans[0], 1), fingerprint(plans[1], 1), "{name}");
        let line = plans[0].port("line").unwrap();
        assert_eq!(plans[0].topology().ports()[line.0 as usize].wire.queue.to_string(), "codel:10");
    }
    assert!(scenario.text.starts_with("# Set: link.line.queue = codel:10\n"), "{}", scenario.text);
    let one_rate = set(&varied, &[("link.line.rate", "2Mbit")]).unwrap();
    assert_eq!(one_rate.variants().collect::<Vec<_>>(), ["a", "b"], "the axis has one value now");
    assert_eq!(read(&one_rate.text).unwrap().variants().count(), 2);
    assert_eq!(
        set(&varied, &[("traffic.far", "none")])
            .unwrap()
            .emulation("a / rate=1Mbit")
            .unwrap()
            .groups()
            .count(),
        1
    );
}

#[test]
fn a_key_set_from_outside_must_be_one() {
    for (key, value, message) in [
        (
            "link.lien.queue",
            "red:10",
            "x.toml: link.lien.queue: link.lien is not defined; did you mean line?",
        ),
        ("link.line.qeue", "red:10", "x.toml: link.line.qeue: expected one of from,"),
        ("link.line.qeue", "red:10", "did you mean queue?"),
        ("sedes", "3", "x.toml: sedes: unknown field `sedes`"),
        ("sedes", "3", "did you mean seeds?"),
        ("tcp.contrl", "cubic", "did you mean control?"),
        (
            "seeds",
            "many",
            "x.toml: seeds: invalid type: string \"many\", expected a whole number from 0 to 4294967295",
        ),
        ("axis", "[]", "x.toml: axis: base, variant and axis can only be set in a file"),
        ("link.line", "fast", "x.toml: link.line: invalid type: string \"fast\", expected a table"),
    ] {
        let error = set(SCENARIO, &[(key, value)]).unwrap_err().to_string();
        assert!(error.contains(message), "{error}\n{message}");
    }
}

#[test]
fn an_axis_sets_no_key_that_a_variant_or_another_axis_sets() {
    const AXIS: &str = "[[axis]]\nkey = \"link.line.queue\"\nvalues = [\"drop-tail:5\", \"drop-tail:6\"]\n";
    let variant = |changes: &str| format!("{SCENARIO}[[variant]]\nname = \"short\"\n{changes}\n{AXIS}");
    for (text, other) in [
        (variant("link.line.queue = \"drop-tail:2\""), "variant \"short\""),
        (variant("link.line = { queue = \"drop-tail:2\" }"), "variant \"short\""),
        (format!("{SCENARIO}{AXIS}{AXIS}"), "another axis"),
    ] {
        let message =
            format!("x.toml: axis.key: \"link.line.queue\": {other} sets it, too; keep one of the two");
        assert_eq!(read(&text).unwrap_err().to_string(), message);
    }
    assert!(read(&variant("link.line.delay = \"9ms\"")).is_ok());
    assert!(read(&variant("link.access.queue = \"drop-tail:9\"")).is_ok());
}

#[test]
fn keys_without_an_effect_are_warned_of_unless_a_variant_gives_them_one() {
    let warnings = |from: &str, to: &str, more: &str| {
        read(&format!("{}{more}", changed(from, to))).unwrap().warnings.join("\n")
    };
    let queue = "queue = \"drop-tail:10\"\n[link.access]";
    let profile = "profile = \"rfc\"";
    assert_eq!(warnings(profile, profile, ""), "");
    for (from, to, expected) in [
        (
            profile,
            "profile = \"rfc\"\n[define]\nused_by_nobody = \"3\"",
            "x.toml: define.used_by_nobody: nothing refers to it",
        ),
        (
            "client = {",
            "left-over = { kind = \"host\", count = 2 }\nclient = {",
            "x.toml: node.left-over: no link leads to left-over[0]",
        ),
        (
            queue,
            "queue = \"drop-tail:10\"\nback.queue = \"red:50,max=100\"\n[link.access]",
            "x.toml: link.line:back.queue: \"red:50,max=100\": the average queue never reaches max, which is above the limit",
        ),
        (
            profile,
            "profile = \"rfc\"\nmarker = \"spm\"",
            "x.toml: tcp.marker: \"spm\": no queue, loss or policer of the network depends on priorities",
        ),
        (
            "bytes = \"32KB\"",
            "bytes = \"32KB\"\ntcp = { profile = \"linux-6\", ecn = \"classic\" }",
            "x.toml: traffic.far.tcp.ecn: \"classic\": no queue of the network marks packets",
        ),
        (
            queue,
            "queue = \"drop-tail:10\"\nwire_loss = \"bernoulli:1%\"\nlink_layer = \"arq:loss=5%,retry=8ms\"\n[link.access]",
            "x.toml: link.line.wire_loss: losses that link_layer = \"arq:loss=0.05,retry=8ms\" does not repair: it repairs its own, loss=\n\
             x.toml: link.line:back.wire_loss: losses that link_layer = \"arq:loss=0.05,retry=8ms\" does not repair: it repairs its own, loss=",
        ),
    ] {
        assert_eq!(warnings(from, to, ""), expected);
    }
    let marks = "profile = \"rfc\"\nmarker = \"spm\"";
    let effect =
        "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nlink.line.queue = \"catnip-good:10\"\n";
    assert_eq!(warnings(profile, marks, effect), "");
    let bbr =
        "profile = \"linux-6\"\ncontrol = \"bbr\"\necn = \"classic\"\n[link.line.back]\nqueue = \"codel:10\"";
    assert_eq!(warnings(profile, bbr, ""), "x.toml: tcp.ecn: \"classic\": bbr does not respond to marks");
}

#[test]
fn long_flows_among_which_nothing_is_random_are_warned_of() {
    let text = |processing: &str, queue: &str| {
        let i = SCENARIO.find("[traffic.far]").unwrap();
        let flows =
            "[traffic.far]\nkind = \"bulk\"\nfrom = \"server\"\nto = \"client\"\nbytes = \"endless\"\n";
        let scenario = format!("{}{flows}", &SCENARIO[..i]).replace("kind = \"host\"", processing);
        read(&scenario.replace("drop-tail:10", queue)).unwrap().warnings
    };
    let none = "kind = \"host\", processing = \"none\"";
    let warned = text(none, "drop-tail:10");
    assert!(
        warned.len() == 1 && warned[0].contains("x.toml: node: nothing but starts is random"),
        "{warned:?}"
    );
    for (processing, queue) in [("kind = \"host\"", "drop-tail:10"), (none, "red:10")] {
        assert_eq!(text(processing, queue), Vec::<String>::new());
    }
}

#[test]
fn sysctls_of_linux_do_what_the_keys_with_their_meaning_do() {
    let scenario = |keys: &str| {
        let text = changed("profile = \"rfc\"", &format!("profile = \"linux-6\"\n{keys}"));
        // Pages whose windows grow beyond the initial one, which idle periods do not reduce.
        let text = text.replace("image_bytes = \"2KB\"", "image_bytes = \"60KB\"");
        read(&text).unwrap_or_else(|error| panic!("{keys}: {error}"))
    };
    let events = |keys: &str| fingerprint(only(&scenario(keys)), 1);
    let settings = |keys: &str| format!("{:?}", only(&scenario(keys)));
    let bare = events("");
    for (sysctl, keys) in [
        ("tcp_congestion_control = \"reno\"", "control = \"reno\""),
        ("tcp_slow_start_after_idle = 0", "validation = \"none\""),
        ("tcp_rto_min_us = 1000", "rto_min = \"1ms\""),
        ("tcp_timestamps = 0", "timestamps = false"),
        ("tcp_ecn = 1", "ecn = \"classic\""),
        ("tcp_congestion_control = \"dctcp\"", "control = \"dctcp\"\necn = \"exact\""),
    ] {
        let named = events(&format!("sysctl = {{ {sysctl} }}"));
        assert_eq!(named, events(keys), "{sysctl}");
        assert_ne!(named, bare, "{sysctl} changes something");
    }
    // These take longer runs to be seen, or no key has their meaning.
    for (sysctl, keys) in [
        ("tcp_syn_linear_timeouts = 0", Some("syn_linear_timeouts = 0")),
        ("tcp_rto_max_ms = 60_000", Some("rto_max = \"60s\"")),
        ("tcp_comp_sack_delay_ns = 0", None),
        ("tcp_moderate_rcvbuf = 0", None),
    ] {
        let named = settings(&format!("sysctl = {{ {sysctl} }}"));
        assert_ne!(named, settings(""), "{sysctl} changes something");
        assert!(keys.is_none_or(|keys| named == settings(keys)), "{sysctl}");
    }
    let defaults = "tcp_congestion_control = \"cubic\", tcp_slow_start_after_idle = 1, tcp_syn_linear_timeouts = 4, \
        tcp_rto_min_us = 200_000, tcp_rto_max_ms = 120_000, tcp_comp_sack_delay_ns = 1_000_000, tcp_timestamps = 1, \
        tcp_ecn = 2, tcp_moderate_rcvbuf = 1";
    assert_eq!(
        events(&format!("sysctl = {{ {defaults} }}")),
        bare,
        "the profile's values are those of a new system"
    );
}

#[test]
fn sysctls_are_refused_by_name_where_they_say_nothing_or_say_it_twice() {
    let linux = |keys: &str| told("profile = \"rfc\"", &format!("profile = \"linux-6\"\n{keys}"));
    for (told, expected) in [
        (linux("sysctl = { tcp_ecn = 3 }"), "x.toml: tcp.sysctl.tcp_ecn: 3: expected 0 to 2"),
        (
            linux("sysctl = { tcp_congestion_control = \"vegas\" }"),
            "x.toml: tcp.sysctl.tcp_congestion_control: \"vegas\": expected cubic, reno, bbr or dctcp",
        ),
        (
            linux("sysctl = { tcp_rto_min_us = 2_000_000, tcp_rto_max_ms = 1000 }"),
            "x.toml: tcp.sysctl.tcp_rto_min_us: a minimum RTO of 2s is above the maximum, 1s",
        ),
        (
            linux("rto_min = \"1s\"\nsysctl = { tcp_rto_min_us = 5 }"),
            "x.toml: tcp.sysctl.tcp_rto_min_us: the table has the key rto_min, too, which means the same",
        ),
        (
            told("profile = \"rfc\"", "profile = \"rfc\"\nsysctl = { tcp_ecn = 1 }"),
            "x.toml: tcp.sysctl: needs profile = \"linux-6\", not \"rfc\"",
        ),
    ] {
        assert_eq!(told, expected);
    }
    let unknown = linux("sysctl = { tcp_fack = 1 }");
    assert!(unknown.contains("tcp.sysctl.tcp_fack") && unknown.contains("tcp_ecn"), "{unknown}");
}

#[test]
fn segmentation_offload_needs_the_sender_that_has_it() {
    assert_eq!(
        told("profile = \"rfc\"", "profile = \"rfc\"\nsegmentation_offload = true"),
        "x.toml: tcp.segmentation_offload: true: needs recovery = \"rack\", not \"sack\""
    );
}
