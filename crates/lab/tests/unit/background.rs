//! Background traffic in whole runs: load, conservation, determinism, and the end of the run.

use crate::scenarios;
use catnip_lab::{Column, RunRequest, Scenario, Table, TableName, fingerprint, run_all};
use catnip_net::PortId;
use std::path::Path;

fn testbed() -> String {
    let path = scenarios::file("testbed-e1.toml");
    std::fs::read_to_string(path).unwrap()
}

fn parse(text: &str) -> Scenario {
    Scenario::parse(Path::new("x.toml"), text).unwrap_or_else(|error| panic!("{error}"))
}

fn table(scenario: &Scenario, variant: &str, name: TableName) -> Table {
    let request = RunRequest {
        variants: vec![variant],
        seeds: vec![1, 2],
        tables: vec![name],
        threads: 0,
        every: None,
    };
    run_all(scenario, &request, &mut |_| true).unwrap().unwrap().remove(&name).unwrap()
}

fn column(table: &Table, name: &str) -> Vec<f64> {
    match &table.columns().iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no {name}")).1 {
        Column::Float(values) => values.clone(),
        Column::Integer(values) => values.iter().map(|&v| v as f64).collect(),
        Column::Text(_) => panic!("{name} is text"),
    }
}

#[test]
fn the_link_is_offered_its_load_in_both_directions_and_delay_and_loss_grow_with_it() {
    let scenario = parse(&testbed());
    let mut before = (0.0, 0.0);
    for load in [0.3, 0.6, 0.9] {
        let sources = table(&scenario, &format!("load={load:?}"), TableName::DATAGRAMS);
        let sum = |name: &str| column(&sources, name).iter().sum::<f64>();
        assert_eq!(column(&sources, "sent").len(), 2 * 2 * 8, "eight sources each way, two seeds");
        let offered = sum("sent_bytes") * 8.0 / (2.0 * 2.0 * 100.0 * 10e6);
        assert!((offered / load - 1.0).abs() < 0.04, "{offered} instead of {load}");
        let (sent, received, dropped) = (sum("sent"), sum("received"), sum("dropped"));
        assert!((0.0..200.0).contains(&(sent - received - dropped)), "the rest is on the way");
        let weighted = column(&sources, "delay_mean_s")
            .iter()
            .zip(column(&sources, "received"))
            .map(|(delay, received)| delay * received)
            .sum::<f64>();
        let now = (weighted / received, dropped / sent);
        assert!(now.0 > before.0 && now.1 > before.1, "{now:?} after {before:?}");
        assert!(column(&sources, "delay_variance_s2").iter().all(|&variance| variance > 0.0));
        before = now;
    }
    let silent = table(&scenario, "load=0.0", TableName::DATAGRAMS);
    assert!(column(&silent, "sent").iter().all(|&sent| sent == 0.0));
    assert!(column(&silent, "delay_mean_s").iter().all(|mean| mean.is_nan()));
}

#[test]
fn packets_of_background_traffic_are_conserved_and_seen_by_the_ports() {
    let sim = parse(&testbed()).plan("load=0.8").unwrap().run(3, ());
    assert_eq!(sim.packets_out() as u64, sim.fabric().packets_inside());
    let all: Vec<_> = (0..16).map(|flow| sim.datagrams(catnip_sim::FlowId(flow))).collect();
    let sum = |of: fn(&catnip_sim::DatagramCounters) -> u64| all.iter().map(of).sum::<u64>();
    let ports = || (0..2 * 17).map(|port| sim.fabric().counters(PortId(port)));
    assert_eq!(sum(|c| c.sent + c.duplicated - c.received - c.dropped), sim.fabric().packets_inside());
    assert_eq!(
        sum(|c| c.dropped),
        ports().map(|port| port.dropped.iter().flatten().sum::<u64>()).sum::<u64>()
    );
    assert!(sum(|c| c.dropped) > 0);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let scenario = parse(&testbed().replace("100s", "2s"));
    let plan = scenario.plan("load=0.5").unwrap();
    assert_eq!(fingerprint(plan, 1), fingerprint(plan, 1));
    assert_ne!(fingerprint(plan, 1), fingerprint(plan, 2));
}

const TRANSFER: &str = r#"
[traffic.document]
kind = "bulk"
from = "server[0]"
to = "client[0]"
packets = 100
start_s = { distribution = "constant", value = 3.0 }
"#;

#[test]
fn background_traffic_slows_a_transfer_down_and_falls_silent_after_it() {
    let scenario = parse(&testbed().replace("[[axis]]", &format!("{TRANSFER}\n[[axis]]")));
    let end = |variant: &str| {
        let sim = scenario.plan(variant).unwrap().run(1, ());
        assert_eq!(sim.tally().completed, 1, "{variant}");
        assert_eq!((sim.packets_out(), sim.fabric().packets_inside()), (0, 0), "{variant}");
        sim.now().as_secs()
    };
    let (alone, busy) = (end("load=0.0"), end("load=0.9"));
    assert!(3.0 < alone && alone < busy && busy < 99.0, "{alone} and {busy}");
}

/// Two hosts at a line of 1 Mbit/s, and cross traffic from a file.
fn replayed(keys: &str) -> String {
    format!(
        r#"
id = "T"
title = "cross traffic"
seeds = 1
duration = "10s"
[node]
a = {{ kind = "host" }}
b = {{ kind = "host" }}
[link.line]
from = "a"
to = "b"
rate = "1Mbit"
delay = "10ms"
queue = "drop-tail:3"
[traffic.cross]
kind = "background"
from = "a"
to = "b"
{keys}
"#
    )
}

#[test]
fn recorded_packets_are_sent_at_their_times_and_again_if_they_repeat() {
    let folder = tempfile::tempdir().unwrap();
    // Four packets at once do not fit into the queue; then one is alone.
    std::fs::write(folder.path().join("cross.txt"), "0.5 1000\n0.5 1000\n0.5 1000\n0.5 1000\n4 1500\n")
        .unwrap();
    for (keys, sent, dropped) in [("", 5, 1), ("repeat = true", 14, 3)] {
        let text = replayed(&format!("replay = 'cross.txt'\n{keys}"));
        let scenario = Scenario::parse(&folder.path().join("x.toml"), &text).unwrap();
        let sim = scenario.plan("default").unwrap().run(1, ());
        let counters = sim.datagrams(catnip_sim::FlowId(0));
        assert_eq!((counters.sent, counters.dropped), (sent, dropped), "{keys}");
    }
}

#[test]
fn a_mistake_about_recorded_packets_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.txt"), "0.5\n").unwrap();
    std::fs::write(folder.path().join("good.txt"), "0.5 5\n").unwrap();
    for (keys, named) in [
        ("replay = 'none.txt'", "traffic.cross.replay: \"none.txt\""),
        ("replay = 'bad.txt'", "line 1: \"0.5\""),
        ("replay = 'good.txt'\npeak = '5Mbit'", "traffic.cross.peak: no effect with replay"),
        ("repeat = true", "traffic.cross.repeat: true: nothing repeats"),
        (
            "rate = '1Mbit'\npeak = '5Mbit'\nburst = '9ms'",
            "traffic.cross.packet_bytes: required without `replay`",
        ),
    ] {
        let error = Scenario::parse(&folder.path().join("x.toml"), &replayed(keys)).unwrap_err().to_string();
        assert!(!error.contains('\n') && error.contains(named), "{error}");
    }
}

#[test]
fn a_mistake_about_background_traffic_is_one_line_with_file_key_and_value() {
    for (from, to, named) in [
        ("load = 0.0", "load = -0.5", &["traffic.background.load", "-0.5"][..]),
        ("load = 0.0", "", &["traffic.background", "expected either load and link or rate"]),
        ("link = \"w\"", "link = \"v\"", &["traffic.background.link", "\"v\"", "no such link"]),
        ("link = \"w\"", "link = \"client\"", &["traffic.background.link", "\"client\"", "several"]),
        ("load = 0.0\nlink = \"w\"", "rate = \"50Mbit\"", &["traffic.background.peak", "5000000", "6250000"]),
        ("rate = \"10Mbit\"", "rate = \"unlimited\"", &["traffic.background.link", "unlimited"]),
        ("burst = \"20ms\"", "burst = \"0ms\"", &["traffic.background.burst", "0"]),
        ("burst = \"20ms\"", "burst = \"20ms\"\nburst_shape = 0.0", &["traffic.background.burst_shape", "0"]),
        ("minimum = 40", "minimum = -40", &["traffic.background.packet_bytes", "-40"]),
        ("to = \"server\"\nboth", "to = \"servers\"\nboth", &["traffic.background.to", "servers"]),
    ] {
        let text = testbed();
        assert!(text.contains(from), "{from}");
        let text = text.split("[[axis]]").next().unwrap().replace(from, to);
        let error = Scenario::parse(Path::new("x.toml"), &text).expect_err(to).to_string();
        assert!(!error.contains('\n') && error.contains("x.toml"), "{error}");
        assert!(named.iter().all(|name| error.contains(name)), "{named:?}: {error}");
    }
}
