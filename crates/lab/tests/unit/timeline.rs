//! Tests of timelines against what else is known of the same runs.

use crate::scenarios;
use catnip_base::Span;
use catnip_lab::{
    Column, RunRequest, Scenario, Table, TableName, Timeline, TimelineRequest, run_all, run_one, timeline,
};
use catnip_sim::Memory;

const LOSSY: &str = "
id = 'X'
title = 'One transfer over a slow line'
seeds = 1
duration = '20s'
[node.server]
kind = 'host'
[node.client]
kind = 'host'
[link.line]
from = 'server'
to = 'client'
rate = '1Mbit'
delay = '50ms'
queue = 'drop-tail:10'
[traffic.transfer]
kind = 'bulk'
from = 'server'
to = 'client'
bytes = 300000
[tcp]
profile = 'rfc'
";

fn request(samples: u32) -> TimelineRequest {
    TimelineRequest { seed: 1, range: None, is_brief: false, samples, connections: None, followed: None }
}

fn of(scenario: &Scenario, samples: u32) -> Timeline {
    let variant = scenario.variants().next().unwrap();
    timeline(scenario.plan(variant).unwrap(), &request(samples), &mut || true).unwrap()
}

fn count(table: &Table, kind: &str) -> usize {
    let Column::Text(kinds) = table.column("kind") else { panic!("kind") };
    kinds.iter().filter(|it| *it == kind).count()
}

#[test]
fn what_is_counted_over_time_is_what_the_tables_of_the_run_have() {
    let scenario = Scenario::parse("x.toml".as_ref(), LOSSY).unwrap();
    let tables = vec![TableName::CONNECTIONS, TableName::PORTS];
    let variants = scenario.variants().collect();
    let asked = RunRequest { variants, seeds: vec![1], tables, threads: 1, every: None };
    let run = run_all(&scenario, &asked, &mut |_| true).unwrap().unwrap();
    let connections = &run[&TableName::CONNECTIONS];
    let drawn = of(&scenario, 400);
    assert_eq!(drawn.left_out, 0);
    let ticks = &drawn.tables["ticks"];
    assert!(connections.integers("dropped")[0] > 0);
    assert_eq!(count(ticks, "drop") as u64, connections.integers("dropped")[0]);
    assert_eq!(count(ticks, "timeout") as u64, connections.integers("timeouts")[0]);
    let segments = &drawn.tables["segments"];
    let sent = count(segments, "data") + count(segments, "retransmission");
    assert_eq!(sent as u64, connections.integers("sent")[0]);
    assert_eq!(count(segments, "retransmission") as u64, connections.integers("retransmitted")[0]);
    // The bytes of all intervals are those of the whole run.
    let samples = &drawn.tables["link_samples"];
    let line = samples.integers("link").iter().zip(samples.floats("rate_mbps"));
    let interval_s = (drawn.range.1 - drawn.range.0).as_secs() / 400.0;
    let bytes: f64 = line
        .filter(|(link, rate)| **link == 0 && rate.is_finite())
        .map(|(_, rate)| rate * interval_s / 8e-6)
        .sum();
    let delivered = run[&TableName::PORTS].integers("delivered_bytes")[0] as f64;
    assert!((bytes - delivered).abs() < 1.0, "{bytes} {delivered}");
    let goodput: f64 = drawn.tables["sender_samples"]
        .floats("goodput_mbps")
        .iter()
        .filter(|rate| rate.is_finite())
        .map(|rate| rate * interval_s / 8e-6)
        .sum();
    assert!(goodput <= 300_000.0 && goodput > 290_000.0, "{goodput}");
}

#[test]
fn a_queue_holds_what_came_less_what_left_and_never_more_than_its_buffer() {
    let scenario = Scenario::parse("x.toml".as_ref(), LOSSY).unwrap();
    let drawn = of(&scenario, 20_000);
    let samples = &drawn.tables["link_samples"];
    let packets = |name: &str| samples.integers(name).to_vec();
    let waiting: Vec<u64> = packets("low_packets");
    assert_eq!(
        (packets("high_packets").iter().max(), packets("med_packets").iter().max()),
        (Some(&0), Some(&0))
    );
    // Nine wait and one is in transmission.
    assert_eq!(waiting.iter().max(), Some(&10));
    let delays_s = samples.floats("delay_s");
    let longest = delays_s.iter().copied().filter(|delay| delay.is_finite()).fold(0.0, f64::max);
    assert!((0.119..0.121).contains(&longest), "{longest}");
}

#[test]
fn every_packet_of_the_followed_connection_has_its_way_through_the_network() {
    let scenario = Scenario::parse("x.toml".as_ref(), LOSSY).unwrap();
    let drawn = of(&scenario, 10);
    let (packets, steps) = (&drawn.tables["packets"], &drawn.tables["steps"]);
    let ends = count(steps, "delivered") + count(steps, "dropped");
    assert_eq!(ends, packets.rows());
    assert_eq!(count(steps, "enters"), packets.rows());
    let Column::Text(kinds) = steps.column("kind") else { panic!("kind") };
    let mut last = vec![0.0; packets.rows()];
    for (row, kind) in kinds.iter().enumerate() {
        let (packet, at_s) = (steps.integers("packet")[row] as usize, steps.floats("at_s")[row]);
        assert!(last[packet] <= at_s, "{kind}");
        last[packet] = at_s;
    }
    assert_eq!(drawn.nodes, ["client", "server"]);
}

#[test]
fn a_part_of_a_run_is_drawn_as_in_the_whole() {
    let scenario = Scenario::parse("x.toml".as_ref(), LOSSY).unwrap();
    let plan = scenario.plan(scenario.variants().next().unwrap()).unwrap();
    let long = Some((Span::ZERO, Span::from_secs(2)));
    let whole = timeline(plan, &TimelineRequest { range: long, ..request(20) }, &mut || true).unwrap();
    let range = Some((Span::from_secs(1), Span::from_secs(2)));
    let part = timeline(plan, &TimelineRequest { range, ..request(10) }, &mut || true).unwrap();
    let cut = |drawn: &Timeline, name: &str, value: &str| -> Vec<(f64, u64)> {
        let table = &drawn.tables[name];
        let rows = table.floats("at_s").iter().copied().zip(table.integers(value).iter().copied());
        rows.filter(|(at_s, _)| (1.05..=2.0).contains(at_s)).collect()
    };
    let brief = TimelineRequest { range, is_brief: true, ..request(10) };
    let brief = timeline(plan, &brief, &mut || true).unwrap();
    assert_eq!(cut(&brief, "sender_samples", "cwnd_bytes"), cut(&part, "sender_samples", "cwnd_bytes"));
    assert_eq!(cut(&part, "sender_samples", "cwnd_bytes"), cut(&whole, "sender_samples", "cwnd_bytes"));
    assert_eq!(cut(&part, "segments", "from_bytes"), cut(&whole, "segments", "from_bytes"));
    assert!(!cut(&part, "segments", "from_bytes").is_empty());
}

#[test]
fn of_many_connections_some_of_each_group_are_sampled_and_the_bottleneck_is_the_link() {
    let scenario = Scenario::load(&scenarios::file("today-mix.toml")).unwrap();
    let plan = scenario.plan(scenario.variants().next().unwrap()).unwrap().until(Span::from_secs(10));
    let drawn = timeline(&plan, &request(50), &mut || true).unwrap();
    let Column::Text(groups) = drawn.tables["connections"].column("group") else { panic!("group") };
    let mut named: Vec<&str> = groups.iter().collect();
    named.sort_unstable();
    named.dedup();
    assert!(groups.len() <= 6 && named.len() > 1, "{named:?}");
    assert!((1..=4).contains(&drawn.tables["links"].rows()));
}

#[test]
fn a_timeline_that_is_to_stop_stops() {
    let scenario = Scenario::parse("x.toml".as_ref(), LOSSY).unwrap();
    let plan = scenario.plan(scenario.variants().next().unwrap()).unwrap();
    assert!(timeline(plan, &request(10), &mut || false).is_none());
}

#[test]
fn of_short_connections_the_time_around_the_first_large_one_after_the_start_is_drawn() {
    let scenario = Scenario::load(&scenarios::file("catnip-e4.toml")).unwrap();
    let plan = scenario.plan(scenario.variants().next().unwrap()).unwrap().until(Span::from_secs(60));
    let drawn = timeline(&plan, &request(100), &mut || true).unwrap();
    let tables = [TableName::CONNECTIONS];
    let run = run_one(&plan, 1, &tables, None, &mut || true, &mut Memory::default()).unwrap();
    let connections = &run[&TableName::CONNECTIONS];
    let (sent, starts_s) = (connections.integers("sent"), connections.floats("start_s"));
    let most = *sent.iter().max().unwrap() as f64;
    let large = (0..sent.len()).filter(|&row| sent[row] as f64 >= 0.8 * most && starts_s[row] >= 3.0);
    let first = large.min_by(|&one, &other| starts_s[one].total_cmp(&starts_s[other])).unwrap();
    let (start_s, over_s) = (starts_s[first], connections.floats("acked_s")[first]);
    let around_s = (over_s - start_s) / 2.0;
    let range_s = (drawn.range.0.as_secs(), drawn.range.1.as_secs());
    assert!(
        (range_s.0 - (start_s - around_s)).abs() < 1e-6 && (range_s.1 - (over_s + around_s)).abs() < 1e-6
    );
    let shown = &drawn.tables["connections"];
    assert!(shown.integers("connection").contains(&connections.integers("connection")[first]));
    assert_eq!(shown.rows(), 6);
}
