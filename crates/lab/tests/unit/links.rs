//! Tests of links in scenario files, and of errors in their keys.

use crate::scenarios;
use catnip_base::Time;
use catnip_lab::{Column, RunRequest, Scenario, TableName, run_all};
use catnip_net::shape::RateSpec;
use catnip_net::{PortId, WireSpec};
use catnip_sim::Sim;
use catnip_tcp::recovery::RecoveryKind;
use std::path::Path;

/// Returns a scenario of one transfer over a link with the keys in `link`.
fn text(link: &str) -> String {
    format!(
        r#"
id = "X"
title = "One link"
[node]
a = {{ kind = "host" }}
b = {{ kind = "host" }}
[link.l]
from = "a"
to = "b"
{link}
[traffic.t]
kind = "bulk"
from = "a"
to = "b"
packets = 400
"#
    )
}

fn parse(link: &str) -> Scenario {
    Scenario::parse(&scenarios::file("fading-link.toml").with_file_name("x.toml"), &text(link))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn wire(scenario: &Scenario, port: usize) -> WireSpec {
    (*scenario.plan("default").unwrap().topology().ports()[port].wire).clone()
}

const PLAIN: &str = "rate = \"2Mbit\"\ndelay = \"20ms\"\nqueue = \"drop-tail:50\"";

#[test]
fn every_key_of_a_link_is_read() {
    let scenario = parse(
        r#"rate = "trace:traces/fading.trace"
delay = "20ms"
jitter = "normal:2ms"
queue = "drop-tail:15KB"
loss = "packets:3 | bernoulli:0.2"
wire_loss = "bernoulli:0.1"
conditioner = "tb-marker:high=250kbit/6000B | policer:high=1Mbit/6000B"
outage = "every=30s,for=2s"
link_layer = "arq:loss=0.05,retry=8ms"
there.delay = "21ms"
[link.l.back]
outage = "none"
link_layer = "arq:loss=0.05,retry=8ms,tries=3,in_order=true"
rate = "unlimited"
loss = "none"
conditioner = "none"
wire_loss = "packets:3""#,
    );
    let (there, back) = (wire(&scenario, 0), wire(&scenario, 1));
    assert!(
        matches!(&there.rate, RateSpec::Trace { trace, .. } if trace.mean_rate().bits_per_second() == 4_963_200)
    );
    assert_eq!(back.rate, RateSpec::Unlimited);
    assert_eq!(there.jitter, Some("normal:2ms".parse().unwrap()));
    assert_eq!(there.jitter, back.jitter);
    assert_eq!(there.queue.to_string(), "drop-tail:15KB");
    assert_eq!((there.delay.to_string(), back.delay.to_string()), ("21ms".into(), "20ms".into()));
    assert_eq!((there.before.len(), back.before.len()), (2, 0));
    let values_of = |wire: &WireSpec| {
        wire.written().into_iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>()
    };
    let conditioner = "conditioner tb-marker:high=250kbit/6000B | policer:high=1Mbit/6000B";
    assert_eq!(
        values_of(&there)[4..7],
        ["loss packets:3 | bernoulli:0.2", "wire_loss bernoulli:0.1", conditioner]
    );
    assert_eq!(values_of(&back)[4..7], ["loss none", "wire_loss packets:3", "conditioner none"]);
    assert_eq!(values_of(&there)[7..], ["outage every=30s,for=2s", "link_layer arq:loss=0.05,retry=8ms"]);
    assert_eq!(
        values_of(&back)[7..],
        ["outage none", "link_layer arq:loss=0.05,retry=8ms,tries=3,in_order=true"]
    );
    let by_time = parse(&PLAIN.replace("drop-tail:50", "drop-tail:200ms"));
    assert_eq!(wire(&by_time, 0).queue.to_string(), "drop-tail:200ms");
}

#[test]
fn a_link_with_the_name_of_a_profile_has_its_numbers_where_it_sets_none() {
    let queue = "queue = \"drop-tail:50\"";
    let named = parse(&format!("path = \"slow-4g\"\nthere.rate = \"1Mbit\"\n{queue}"));
    let written =
        parse(&format!("there.rate = \"1Mbit\"\nback.rate = \"1638.4kbit\"\ndelay = \"75ms\"\n{queue}"));
    assert_eq!([0, 1].map(|port| wire(&named, port)), [0, 1].map(|port| wire(&written, port)));
    let refused = refusal(&format!("path = \"slow4g\"\n{queue}"));
    assert!(
        refused.contains("link.l.path: \"slow4g\": ") && refused.contains("did you mean slow-4g?"),
        "{refused}"
    );
}

#[test]
fn a_mistake_about_a_link_is_one_line_with_file_key_and_value() {
    let rate = |rate: &str| PLAIN.replace("2Mbit", rate);
    let with = |line: &str| format!("{PLAIN}\n{line}");
    let bad_trace = std::env::temp_dir().join(format!("catnip-bad-{}.trace", std::process::id()));
    std::fs::write(&bad_trace, "1\n5\n3\n").unwrap();
    for (link, named) in [
        (rate("trace:no-such.trace"), &["link.l.rate", "no-such.trace"][..]),
        (rate("trace:"), &["link.l.rate", "\"trace:\"", "trace:FILE"]),
        (rate("infinite"), &["link.l.rate", "\"infinite\"", "unlimited"]),
        (rate(&format!("trace:{}", bad_trace.display())), &["link.l.rate", "line 3", "3 comes after 5"]),
        (with("back.rate = \"trace:x\""), &["link.l.back.rate", "No such file"]),
        (with("there.colour = \"red\""), &["link.l.there.colour", "expected one of from, to, rate, delay"]),
        (with("rate_back = \"1Mbit\""), &["link.l.rate_back", "given as back.rate", "[link.NAME.back]"]),
        (with("wire_loss_back = \"none\""), &["link.l.wire_loss_back", "given as back.wire_loss"]),
        (with("back.delay = 5"), &["link.l.back.delay", "5: expected a text"]),
        (PLAIN.replace("delay", "jitter"), &["link.l.delay", "required, for the link or for each direction"]),
        (
            PLAIN.replace("rate", "there.rate"),
            &["link.l.rate", "required, for the link or for each direction"],
        ),
        (with("jitter = \"uniform:25ms\""), &["link.l.jitter", "25ms", "20ms"]),
        (with("jitter = \"normal:7ms\""), &["link.l.jitter", "21ms"]),
        (with("jitter = \"uniform:5\""), &["link.l.jitter", "uniform:5"]),
        (with("jitter = \"gamma:5ms\""), &["link.l.jitter", "one of uniform"]),
        (with("jitter = \"normal:0ms\""), &["link.l.jitter", "above zero"]),
        (with("wire_loss = \"bernoulli:2\""), &["link.l.wire_loss", "bernoulli:2"]),
        (PLAIN.replace("drop-tail:50", "catnip-red:15ms"), &["link.l.queue", "15KB (above zero)"]),
        (with("loss = \"reorder:0.1\""), &["link.l.loss", "reorder:0.1", "expected in wire_loss"]),
        (with("back.loss = \"bernoulli:0.1 | duplicate:0.1\""), &["link.l.back.loss", "duplicate:0.1"]),
        (with("outage = \"every=2s,for=3s\""), &["link.l.outage", "for less than every"]),
        (with("outage = \"outage:every=3s,for=2s\""), &["link.l.outage", "mean_up=30s"]),
        (with("link_layer = \"arq:loss=1,retry=8ms\""), &["link.l.link_layer", "in [0, 1)"]),
        (with("link_layer = \"arq:loss=0.1\""), &["link.l.link_layer", "retry="]),
        (with("link_layer = \"arq:loss=0.1,retry=8ms,tries=0\""), &["link.l.link_layer", "tries"]),
        (
            format!(
                "{}\nlink_layer = \"arq:loss=0.1,retry=8ms\"",
                PLAIN.replace("drop-tail:50", "drop-tail:50ms")
            ),
            &["link.l.queue", "drop-tail:50ms", "in packets or bytes"],
        ),
    ] {
        let error = refusal(&link);
        assert!(named.iter().all(|name| error.contains(name)), "{named:?}: {error}");
    }
    std::fs::remove_file(bad_trace).unwrap();
}

/// Returns the error for a link with the keys `lines`, which may be followed by other tables. Checks that the error is one line that names
/// the file.
fn refusal(lines: &str) -> String {
    let path = scenarios::file("fading-link.toml").with_file_name("x.toml");
    let error = Scenario::parse(&path, &text(lines)).expect_err(lines).to_string();
    assert!(!error.contains('\n') && error.starts_with(&format!("{}: ", path.display())), "{error}");
    error
}

#[test]
fn a_bucket_below_the_longest_packet_is_refused_wherever_it_is_said() {
    let queue = |queue: &str| PLAIN.replace("drop-tail:50", queue);
    let with = |line: &str| format!("{PLAIN}\n{line}");
    let sla = "[sla.user]\nhigh = \"250kbit/6000B\"\nmed = \"250kbit/1499B\"";
    let named = "high=250kbit/6000B,med=250kbit/1499B";
    for (lines, key, value) in [
        (queue("shaper:64,high=250kbit/100B"), "queue", "shaper:64,high=250kbit/100B"),
        (
            queue("scheduler:64,high=1Mbit/3000B,med=1Mbit/9B"),
            "queue",
            "scheduler:64,high=1Mbit/3000B,med=1Mbit/9B",
        ),
        (
            queue("wrr:af1=1(shaper:9,high=1Mbit/1499B),rest=1(shaper:9,high=1Mbit/1500B)"),
            "queue",
            "wrr:af1=1(shaper:9,high=1Mbit/1499B),rest=1(shaper:9,high=1Mbit/1500B)",
        ),
        (with("there.queue = \"shaper:64,high=1Mbit/100B\""), "there.queue", "shaper:64,high=1Mbit/100B"),
        (with("conditioner = \"policer:high=1Mbit/100B\""), "conditioner", "policer:high=1Mbit/100B"),
        (
            with("conditioner = \"policer:high=1Mbit/1500B | tb-marker:high=1Mbit/40B\""),
            "conditioner",
            "tb-marker:high=1Mbit/40B",
        ),
        (
            with("back.conditioner = \"tb-marker:high=1Mbit/40B\""),
            "back.conditioner",
            "tb-marker:high=1Mbit/40B",
        ),
        (with("loss = \"policer:high=1Mbit/100B\""), "loss", "policer:high=1Mbit/100B"),
        (with("wire_loss = \"policer:high=1Mbit/100B\""), "wire_loss", "policer:high=1Mbit/100B"),
        (format!("{}\n{sla}", queue("shaper:64,{sla.user}")), "queue", &format!("shaper:64,{named}")),
        (
            format!("{PLAIN}\nback.conditioner = \"policer:{{sla.user}}\"\n{sla}"),
            "back.conditioner",
            &format!("policer:{named}"),
        ),
    ] {
        let error = refusal(&lines);
        assert!(error.contains(&format!(": link.l.{key}: {value:?}: a bucket of ")), "{value}: {error}");
        assert!(error.ends_with("too small for packets of 1500 bytes"), "{error}");
    }
    // A bucket of exactly the longest packet is accepted.
    let all = "conditioner = \"tb-marker:high=1Mbit/1500B\"\n[sla.user]\nhigh = \"1Mbit/1500B\"";
    parse(&format!("{}\n{all}", queue("shaper:64,{sla.user}")));
}

#[test]
fn thresholds_out_of_order_weights_of_nothing_and_classes_without_a_queue_are_refused() {
    let queue = |queue: &str| (PLAIN.replace("drop-tail:50", queue), "link.l.queue", queue.to_string());
    let tcp = |line: &str, key, value: &str| (format!("{PLAIN}\n[tcp]\n{line}"), key, value.to_string());
    for ((lines, key, value), why) in [
        (queue("rio:400,low=50%-60%"), "thresholds that do not decrease"),
        (queue("rio:400,low=10%-70%"), "thresholds that do not decrease"),
        (queue("rio:400,low=25%-10%"), "low=MIN%-MAX%, 0 <= MIN < MAX <= 100"),
        (tcp("marker = \"tcp-state:high=9,med=8\"", "tcp.marker", "tcp-state:high=9,med=8"), "high <= med"),
        (queue("wrr:af1=0(drop-tail:9),rest=1(drop-tail:9)"), "a weight from 1"),
        (queue("wrr:af1=0(drop-tail:9),rest=0(drop-tail:9)"), "a weight from 1"),
        (queue("wrr:af1=1(drop-tail:9),rest=-1(drop-tail:9)"), "a weight from 1"),
        (tcp("weight = 0", "tcp.weight", ""), "0: expected at least 1"),
        (tcp("weight = -1", "tcp.weight", "-1"), "a whole number from 0"),
        (queue("wrr:af1=20()"), "a queue for af1"),
        (queue("wrr:af1=20,rest=80(drop-tail:9)"), "af1=WEIGHT(QUEUE)"),
        (queue("wrr:af1=20(drop-tail:9)"), "the queue of all other packets"),
        (queue("wrr:rest=1(drop-most:9)"), "a queue for rest"),
    ] {
        let error = refusal(&lines);
        assert!([key, &value, why].iter().all(|named| error.contains(*named)), "{lines}: {error}");
    }
}

/// Returns the duration of a transfer over a link with the keys `link`, seconds, and the number of packets lost in the direction of the
/// transfer.
fn transfer(link: &str, seed: u64) -> (f64, u64) {
    let sim = parse(link).plan("default").unwrap().run(seed, ());
    assert_eq!(sim.tally().completed, 1, "{link}");
    assert_eq!(sim.packets_out(), 0, "{link}");
    let dropped = sim.fabric().counters(PortId(0)).dropped.iter().flatten().sum();
    (sim.now().since(Time::ZERO).as_secs(), dropped)
}

#[test]
fn transfers_survive_every_kind_of_link_and_packets_are_conserved() {
    let (plain, _) = transfer(PLAIN, 1);
    for line in [
        "jitter = \"uniform:20ms\"",
        "jitter = \"exponential:20ms\"",
        "wire_loss = \"bernoulli:0.05\"\nback.wire_loss = \"none\"",
        "wire_loss = \"gilbert-elliott:to_bad=0.1,to_good=0.3,loss_bad=0.5\"\njitter = \"normal:5ms\"\nback.wire_loss = \"bernoulli:0.1\"",
    ] {
        let (time, dropped) = transfer(&format!("{PLAIN}\n{line}"), 1);
        assert!(time != plain && (time > plain || !line.contains("loss")), "{line}: {time} against {plain}");
        assert!(dropped > 0 || !line.contains("loss"), "{line}");
        assert_eq!(transfer(&format!("{PLAIN}\n{line}"), 1), (time, dropped), "the same again");
        assert_ne!(transfer(&format!("{PLAIN}\n{line}"), 2).0, time, "another seed");
    }
    let (unlimited, dropped) = transfer(&PLAIN.replace("2Mbit", "unlimited"), 1);
    assert!(unlimited < plain && dropped == 0);
    // A shallow buffer drops packets, regardless of the unit of its limit.
    for queue in ["drop-tail:10", "drop-tail:10KB", "drop-tail:40ms"] {
        assert!(transfer(&PLAIN.replace("drop-tail:50", queue), 1).1 > 0, "{queue}");
    }
}

#[test]
fn links_that_reorder_copy_stand_still_or_send_again_carry_every_byte_of_every_transfer_once() {
    let links = [
        "wire_loss = \"reorder:0.1,by=30ms\"",
        "wire_loss = \"reorder:0.1,by=4\"",
        "wire_loss = \"duplicate:0.2\"",
        "wire_loss = \"duplicate:0.1 | reorder:0.1,by=10ms | bernoulli:0.02 | duplicate:0.1\"",
        "outage = \"every=700ms,for=300ms,first=0ms\"",
        "wire_loss = \"outage:mean_up=900ms,mean_down=100ms\"",
        "link_layer = \"arq:loss=0.2,retry=10ms,tries=3\"",
        "link_layer = \"arq:loss=0.2,retry=10ms,tries=3,in_order=true\"",
        "link_layer = \"arq:loss=0.1,retry=10ms\"\nwire_loss = \"reorder:0.05 | duplicate:0.05\"\noutage = \"mean_up=1s,mean_down=200ms\"\njitter = \"normal:5ms\"",
    ];
    // There is also traffic in the other direction: many messages over connections that open and close.
    let more = "[tcp]\nprofile = \"rfc\"\nrecovery = \"{}\"\n[traffic.up]\nkind = \"ftp\"\nfrom = \"b\"\nto = \"a\"\nbytes = \"constant:value=9000\"\ngap_s = \"constant:value=0.2\"\nfiles = 8";
    for link in links {
        for recovery in RecoveryKind::ALL {
            let scenario = parse(&format!("{PLAIN}\n{link}\n{}", more.replace("{}", recovery.name())));
            let plan = scenario.plan("default").unwrap();
            let mut sim = Sim::new(plan.topology(), 1, ());
            plan.start(1, &mut sim);
            let mut steps = 0;
            while sim.advance(Time::from_nanos(steps * 10_000_000)) < Time::NEVER {
                assert_eq!(sim.packets_out() as u64, sim.fabric().packets_inside(), "{link} {recovery}");
                steps += 1;
                assert!(steps < 100_000, "{link} {recovery}: it ends");
            }
            assert_eq!((sim.packets_out(), sim.fabric().packets_inside()), (0, 0), "{link} {recovery}");
            let tally = sim.tally();
            assert_eq!((tally.waiting, tally.open), (0, 0), "{link} {recovery}");
            assert!(tally.opened > 5, "{link} {recovery}");
            for port in [0, 1].map(|port| sim.fabric().counters(PortId(port))) {
                let (arrived, dropped) =
                    (port.arrived.iter().sum::<u64>(), port.dropped.iter().flatten().sum::<u64>());
                assert_eq!(arrived + port.duplicated, port.delivered + dropped, "{link} {recovery}");
                assert_eq!(port.duplicated > 0, link.contains("duplicate"), "{link} {recovery}");
            }
        }
    }
}

#[test]
fn a_trace_is_used_to_the_last_opportunity() {
    let path = scenarios::file("fading-link.toml");
    let text = std::fs::read_to_string(&path).unwrap().replace("\"4MB\"", "\"40MB\"");
    let scenario = Scenario::parse(Path::new(&path), &text).unwrap();
    let request = RunRequest {
        variants: vec!["default"],
        seeds: vec![1],
        tables: vec![TableName::PORTS],
        threads: 1,
        every: None,
    };
    let ports =
        run_all(&scenario, &request, &mut |_| true).unwrap().unwrap().remove(&TableName::PORTS).unwrap();
    let Some((_, Column::Float(utilization))) =
        ports.columns().iter().find(|(name, _)| *name == "utilization")
    else {
        panic!("no utilization")
    };
    // Links are in the order of their names: access, there and back, then radio, there and back.
    assert!((0.9..=1.0).contains(&utilization[2]), "{utilization:?}");
}
