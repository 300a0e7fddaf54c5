//! Tests of recorded pages as traffic: the objects that a replay fetches, their times and their connections.

use crate::recording::{changed, entry, har, objects, read};
use catnip_lab::{
    Column, Holds, HttpVersion, RecordedObject, ResourceKind, RunRequest, Scenario, Table, TableName, run_all,
};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;

/// Network of a browser and servers, with 10 Mbit/s and a round-trip time of 40 ms between them.
const NETWORK: &str = r#"
id = "X"
title = "x"
[node]
server = { kind = "host", count = 2 }
near = { kind = "router" }
browser = { kind = "host" }
[link.server]
from = "server"
to = "near"
rate = "1Gbit"
delay = "5ms"
queue = "drop-tail:1000"
[link.bottleneck]
from = "near"
to = "browser"
rate = "10Mbit"
delay = "15ms"
queue = "drop-tail:1000"
[traffic.site]
kind = "page"
clients = "browser"
servers = "server"
page = "site.page.json"
"#;

/// Returns an object that depends on no other object.
fn object(origin: u32, bytes: u64) -> RecordedObject {
    let path = format!("/{bytes}");
    RecordedObject { origin, path, request_bytes: 400, bytes, ..RecordedObject::default() }
}

/// Returns a page file whose origins are addresses, which need no look-up.
fn site(origins: u32, pages: &[Vec<RecordedObject>]) -> String {
    let origins: Vec<_> = (0..origins).map(|number| format!("http://10.0.0.{number}:80")).collect();
    let pages: Vec<_> =
        pages.iter().map(|objects| json!({"url": "http://10.0.0.0:80/", "objects": objects})).collect();
    json!({"catnip_page": 1, "origins": origins, "pages": pages}).to_string()
}

/// Tables of the runs in which a browser has loaded a site.
struct Loaded(BTreeMap<TableName, Table>);

impl Loaded {
    /// Loads a site. `keys` are keys of the traffic group, which may be followed by other tables of the scenario.
    fn of(site: &str, keys: &str, seeds: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("site.page.json"), site).unwrap();
        let text = format!("{NETWORK}{keys}");
        let scenario =
            Scenario::parse(&folder.path().join("x.toml"), &text).unwrap_or_else(|error| panic!("{error}"));
        let tables = vec![
            TableName::RUNS,
            TableName::PAGES,
            TableName::OBJECTS,
            TableName::LOADS,
            TableName::FETCHES,
            TableName::CONNECTIONS,
            TableName::PORTS,
        ];
        let request = RunRequest {
            variants: vec!["default"],
            seeds: (1..=seeds).collect(),
            tables,
            threads: 1,
            every: None,
        };
        Self(run_all(&scenario, &request, &mut |_| true).unwrap().unwrap())
    }

    fn column(&self, table: TableName, name: &str) -> Vec<f64> {
        match &self.0[&table].columns().iter().find(|(n, _)| *n == name).unwrap().1 {
            Column::Float(values) => values.clone(),
            Column::Integer(values) => values.iter().map(|&v| v as f64).collect(),
            Column::Text(_) => panic!("{name} is text"),
        }
    }

    /// Returns the texts of a column of the ports.
    fn texts(&self, name: &str) -> Vec<String> {
        match &self.0[&TableName::PORTS].columns().iter().find(|(n, _)| *n == name).unwrap().1 {
            Column::Text(texts) => texts.iter().map(|text| text.to_string()).collect(),
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Returns the start and the end of each object in seconds, in the order of their numbers.
    fn times(&self) -> Vec<(f64, f64)> {
        let of = |name| self.column(TableName::OBJECTS, name);
        let (numbers, starts, took) = (of("object"), of("start_s"), of("time_s"));
        let mut all: Vec<_> =
            (0..numbers.len()).map(|i| (numbers[i], starts[i], starts[i] + took[i])).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.into_iter().map(|(_, start, end)| (start, end)).collect()
    }

    fn bytes(&self) -> Vec<f64> {
        let (numbers, bytes) =
            (self.column(TableName::OBJECTS, "object"), self.column(TableName::OBJECTS, "bytes"));
        let mut all: Vec<_> = numbers.into_iter().zip(bytes).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.into_iter().map(|(_, bytes)| bytes).collect()
    }

    fn sum(&self, table: TableName, name: &str) -> f64 {
        self.column(table, name).iter().sum()
    }
}

/// Bytes that a server sends over a connection with HTTP/2 before its first response.
const SETTINGS: u64 = 49;

/// Returns the number of frames of a response of `bytes` bytes: that of its header, and those of the rest.
fn frames(bytes: u64, frame: u64) -> u64 {
    let header = bytes.min(200).min(frame);
    1 + (bytes - header).div_ceil(frame)
}

/// Returns the maximum number of intervals in `times` that overlap.
fn max_concurrent(times: &[(f64, f64)]) -> usize {
    let at = |now: f64| times.iter().filter(|(start, end)| *start <= now && now < *end - 1e-8).count();
    times.iter().map(|(start, _)| at(*start)).max().unwrap()
}

#[test]
fn a_replayed_har_has_its_sizes_and_asks_for_each_object_so_long_after_the_one_that_it_waits_for() {
    let parser = json!({"/_initiator": {"type": "parser", "url": "http://example.org/"}});
    let entries = vec![
        entry("http://example.org/", 0.0, 100.0, 30.0, 30_000),
        changed(entry("http://example.org/a.js", 110.0, 60.0, 25.0, 12_000), parser.clone()),
        changed(entry("http://cdn.example.org/b.png", 111.0, 200.0, 20.0, 55_555), parser),
        entry("http://example.org/c", 175.0, 60.0, 90.0, 500),
    ];
    let recorded = har(entries);
    let of = objects(&recorded);
    let (file, _) = read(&recorded).unwrap();
    for http in ["http = '1.1'", "http = '2'", "http = '2'\ncoalesced = true"] {
        let loaded = Loaded::of(&file.to_text(), &format!("look_ups = 'none'\n{http}"), 1);
        let times = loaded.times();
        assert_eq!(loaded.bytes(), [30_000.0, 12_000.0, 55_555.0, 500.0]);
        for (object, (start, _)) in of.iter().zip(&times) {
            let after = object.after.map_or(0.0, |after| times[after as usize].1);
            assert!((start - after - object.delay_ms / 1e3).abs() < 1e-8, "{http}: {object:?} at {start}");
        }
        // The page ends with its last object.
        let last = times.iter().map(|(_, end)| *end).fold(0.0, f64::max);
        assert!((loaded.sum(TableName::PAGES, "time_s") - last).abs() < 1e-8);
        assert_eq!(loaded.sum(TableName::PAGES, "bytes"), 98_055.0);
        // Processing time of the last object: the recorded wait minus a round-trip time.
        let (start, end) = times[3];
        assert!(of[3].server_ms > 60.0 && end - start > 0.04 + of[3].server_ms / 1e3, "{}", end - start);
        assert!(end - start < 0.042 + of[3].server_ms / 1e3, "{}", end - start);
    }
}

#[test]
fn a_server_time_is_waited_for_to_the_nanosecond() {
    let slow = |ms| vec![RecordedObject { server_ms: ms, ..object(0, 500) }];
    for http in ["http = '1.1'", "http = '2'"] {
        let page_time_s = |ms| Loaded::of(&site(1, &[slow(ms)]), http, 1).sum(TableName::PAGES, "time_s");
        assert!((page_time_s(123.456) - page_time_s(1.0) - 0.122_456).abs() < 1e-8, "{http}");
    }
}

#[test]
fn over_http_11_no_origin_has_more_connections_than_allowed_and_those_have_one_request_each() {
    let many: Vec<_> = (0..40).map(|number| object(number % 2, 20_000)).collect();
    for (keys, most) in [("", 6), ("connections_per_origin = 2", 2), ("connections_per_origin = 30", 20)] {
        let loaded = Loaded::of(&site(2, std::slice::from_ref(&many)), keys, 1);
        let times = loaded.times();
        for origin in [0, 1] {
            let of: Vec<_> = times.iter().copied().skip(origin).step_by(2).collect();
            assert_eq!(max_concurrent(&of), most, "{keys}: origin {origin}");
        }
        assert_eq!(loaded.column(TableName::CONNECTIONS, "bytes").len(), 2 * most);
        assert_eq!(loaded.column(TableName::PAGES, "connections"), [2.0 * most as f64]);
        assert_eq!(loaded.sum(TableName::CONNECTIONS, "bytes"), 800_000.0);
    }
}

#[test]
fn like_http_2_equal_responses_end_close_to_each_other_and_bytes_are_conserved() {
    let two = site(1, &[vec![object(0, 500_000), object(0, 500_000)]]);
    let ends = |keys: &str| {
        let loaded = Loaded::of(&two, &format!("http = '2'\n{keys}"), 1);
        let count = 2 * frames(500_000, if keys.is_empty() { 16_384 } else { 500_000 });
        let sent = (1_000_000 + 9 * count + SETTINGS) as f64;
        assert_eq!(loaded.sum(TableName::CONNECTIONS, "bytes"), sent);
        assert_eq!(loaded.column(TableName::CONNECTIONS, "bytes").len(), 1);
        let times = loaded.times();
        (times[0].1, times[1].1)
    };
    // Transmission time of a frame at 10 Mbit/s with the headers of its segments. When the second request arrives, two frames of the first
    // response are written.
    let frame_s = 16_393.0 * 8.0 / 10e6 * 1.05;
    let (first, second) = ends("");
    assert!(first < second && second - first < 2.0 * frame_s, "{first} {second}");
    // One frame per response: the second response waits for the whole first response.
    let (first, second) = ends("frame_bytes = 1000000");
    assert!(second - first > 0.4, "{first} {second}");
    // All available data is written at once and arrives in the order of writing. Frames of the two responses still alternate.
    let (first, second) = ends("unsent_bytes = 10000000\nframe_bytes = 500000");
    assert!(second - first > 0.4, "{first} {second}");
}

#[test]
fn like_http_2_a_late_small_response_overtakes_only_what_is_not_yet_written() {
    let delayed = RecordedObject { after: None, delay_ms: 200.0, ..object(0, 1000) };
    let page = site(1, &[vec![object(0, 2_000_000), delayed]]);
    let page_time_s = |keys: &str| {
        let loaded = Loaded::of(&page, &format!("http = '2'\ntcp.window_segments = 40\n{keys}"), 1);
        let (start, end) = loaded.times()[1];
        end - start
    };
    // The small response follows the 40 segments in flight and two frames.
    let (soon, delayed) = (page_time_s(""), page_time_s("unsent_bytes = 100000000"));
    assert!(soon < 0.2, "{soon}");
    assert!(
        delayed > 1.0,
        "the server has written all of the first response before the second was asked for: {delayed}"
    );
}

#[test]
fn origins_take_turns_with_the_servers_and_share_a_connection_only_if_coalesced() {
    let four: Vec<_> = (0..4).map(|origin| object(origin, 10_000 * u64::from(origin + 1))).collect();
    let four = site(4, &[four]);
    for (keys, sizes) in [
        ("http = '2'", vec![vec![0], vec![1], vec![2], vec![3]]),
        // Origins 0 and 2 are at one server, 1 and 3 at the other.
        ("http = '2'\ncoalesced = true", vec![vec![0, 2], vec![1, 3]]),
        ("http = '2'\ncoalesced = true\nservers = 'server[0]'", vec![vec![0, 1, 2, 3]]),
    ] {
        let size = |origin: &u64| 10_000 * (origin + 1) + 9 * frames(10_000 * (origin + 1), 16_384);
        let sizes = sizes.iter().map(|origins| SETTINGS + origins.iter().map(size).sum::<u64>());
        let keys = format!("{keys}\n");
        let text = if keys.contains("servers") { keys.replace("servers", "# ") } else { keys.clone() };
        let scenario = if keys.contains("servers") {
            text + "[[variant]]\nname = 'default'\ntraffic.site.servers = 'server[0]'\n"
        } else {
            text
        };
        let loaded = Loaded::of(&four, &scenario, 1);
        let mut bytes = loaded.column(TableName::CONNECTIONS, "bytes");
        bytes.sort_by(f64::total_cmp);
        assert_eq!(bytes, sizes.map(|size| size as f64).collect::<Vec<_>>(), "{keys}");
        assert_eq!(loaded.bytes(), [10_000.0, 20_000.0, 30_000.0, 40_000.0]);
    }
}

#[test]
fn pages_are_loaded_in_order_as_often_as_asked_with_pauses_of_the_users_own() {
    let pages = site(1, &[vec![object(0, 5000)], vec![object(0, 7000), object(0, 100)]]);
    let think = "think_s = { distribution = 'uniform', minimum = 1, maximum = 5 }";
    let loaded = Loaded::of(&pages, &format!("times = 3\n{think}"), 2);
    let rows = |name| loaded.column(TableName::PAGES, name);
    assert_eq!(rows("page"), [1.0, 2.0].repeat(6));
    assert_eq!(rows("bytes"), [5000.0, 7100.0].repeat(6));
    let (starts, took, seeds) = (rows("start_s"), rows("time_s"), rows("seed"));
    let pause = |i: usize| starts[i] - if i.is_multiple_of(6) { 0.0 } else { starts[i - 1] + took[i - 1] };
    let pauses: Vec<_> = (0..12).map(pause).collect();
    assert!(pauses.iter().all(|pause| (1.0 - 1e-8..5.0).contains(pause)), "{pauses:?}");
    assert!(seeds[5] < seeds[6] && pauses[..6] != pauses[6..], "another seed draws others");
    let repeated = Loaded::of(&pages, &format!("times = 3\nhttp = '2'\n{think}"), 1);
    let (other, took) =
        (repeated.column(TableName::PAGES, "start_s"), repeated.column(TableName::PAGES, "time_s"));
    for i in 1..6 {
        let pause = other[i] - other[i - 1] - took[i - 1];
        assert!((pause - pauses[i]).abs() < 1e-8, "the same users whatever is spoken");
    }
}

#[test]
fn connections_outlive_the_page_unless_told_otherwise() {
    let one = site(1, &[vec![object(0, 5000)]]);
    for (keys, connections) in [("times = 5", 1), ("times = 5\nkeep_alive = false", 5)] {
        for http in ["1.1", "2"] {
            let loaded = Loaded::of(&one, &format!("http = '{http}'\n{keys}"), 1);
            assert_eq!(loaded.column(TableName::CONNECTIONS, "bytes").len(), connections, "{http}: {keys}");
            assert_eq!(loaded.column(TableName::PAGES, "connections"), [1.0; 5], "one is used each time");
        }
    }
    let endless = Loaded::of(
        &one,
        "endless = true\nthink_s = { distribution = 'constant', value = 1 }\n[[variant]]\nname = 'default'\nduration = '20s'",
        1,
    );
    let pages = endless.column(TableName::PAGES, "page").len();
    assert!((18..20).contains(&pages), "on and on: {pages}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_site_is_loaded_whole_over_a_lossy_link(
        drawn in prop::collection::vec((0u32..3, 1u64..60_000, 0.0..50f64, any::<prop::sample::Index>(), 0u64..50), 1..12),
        http in prop::sample::select(vec!["http = '1.1'", "http = '2'", "http = '2'\ncoalesced = true\nframe_bytes = 999\nunsent_bytes = 1"]),
        times in 1u32..3, seed in 1u64..1000
    ) {
        let list: Vec<RecordedObject> = (0..).zip(&drawn).map(|(number, (origin, bytes, server_ms, after, delay))| {
            let after = after.index(number as usize + 1) as u32;
            let after = (after < number).then_some(after);
            RecordedObject { server_ms: *server_ms, after, delay_ms: *delay as f64, ..object(*origin, *bytes) }
        }).collect();
        let lossy = format!("{http}\ntimes = {times}\n[[variant]]\nname = 'default'\nlink.bottleneck.loss = 'bernoulli:0.02'\n");
        let loaded = Loaded::of(&site(3, std::slice::from_ref(&list)), &lossy, seed % 3 + 1);
        let runs = (seed % 3 + 1) as usize;
        prop_assert_eq!(loaded.column(TableName::PAGES, "page").len(), runs * times as usize);
        prop_assert_eq!(loaded.column(TableName::OBJECTS, "page").len(), runs * times as usize * list.len());
        let total_bytes: u64 = list.iter().map(|object| object.bytes).sum();
        let bytes = (total_bytes * u64::from(times)) as f64 * runs as f64;
        prop_assert_eq!(loaded.sum(TableName::OBJECTS, "bytes"), bytes);
        prop_assert_eq!(loaded.sum(TableName::RUNS, "packets_open"), 0.0);
        let frame = if http.contains("999") { 999 } else { 16_384 };
        let frames: u64 = list.iter().map(|object| frames(object.bytes, frame)).sum();
        let mut origins: Vec<u32> = list.iter().map(|object| object.origin).collect();
        if http.contains("coalesced") {
            // Origins 0 and 2 are at one server.
            origins.iter_mut().for_each(|origin| *origin %= 2);
        }
        origins.sort_unstable();
        origins.dedup();
        let starts = SETTINGS * origins.len() as u64;
        let framing = 9 * frames * u64::from(times) + starts;
        let headers = if http.contains("'2'") { framing as f64 * runs as f64 } else { 0.0 };
        prop_assert_eq!(loaded.sum(TableName::CONNECTIONS, "bytes"), bytes + headers);
    }
}

#[test]
fn mistakes_in_the_keys_of_page_traffic_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("site.page.json"), site(1, &[vec![object(0, 5000)]])).unwrap();
    fs::write(folder.path().join("bad.har"), r#"{"log": {"entries": [{"time": 1}]}}"#).unwrap();
    let parse = |keys: &str| {
        let text = format!("{NETWORK}{keys}");
        Scenario::parse(&folder.path().join("x.toml"), &text).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(parse(""), Ok(()));
    for (keys, message) in [
        ("http = '3'", "http: \"3\": expected \"recorded\", \"1.1\" or \"2\""),
        ("connections_per_origin = 0", "connections_per_origin: 0: expected at least 1"),
        ("http = '2'\nconnections_per_origin = 6", "connections_per_origin: only for http = \"1.1\""),
        ("http = '1.1'\ncoalesced = true", "coalesced: only for http = \"2\""),
        ("http = '1.1'\nframe_bytes = 1", "frame_bytes: only for http = \"2\""),
        ("priorities = 'edge'", "priorities: \"edge\": expected one of chrome, firefox, none"),
        ("look_ups = 'never'", "look_ups: \"never\": expected \"each-page\", \"once\" or \"none\""),
        ("look_ups = 'none'\nresolver = 'near'", "resolver: not for look_ups = \"none\""),
        ("resolver = 'here'", "resolver: \"here\": no such node"),
        ("resolver = 'near'", "resolver: \"near\": expected a simulated host"),
        ("resolver = 'server'", "resolver: \"server\": 2 hosts; expected one"),
        ("resolver_timeout = '0s'", "resolver_timeout: 0: expected a positive time"),
        ("http = '2'\nframe_bytes = 0", "frame_bytes: 0: expected 1 to 16777215 bytes"),
        ("http = '2'\nunsent_bytes = 0", "unsent_bytes: 0: expected 1 to 4294967295 bytes"),
        ("times = 0", "times: 0: expected at least 1"),
        ("times = 2\nendless = true", "times: expected either times or endless"),
        ("think_s = 'x'", "think_s: \"x\""),
        ("pages = 'x.csv'", "unknown field `pages`, expected one of `clients`"),
    ] {
        let error = parse(keys).unwrap_err();
        assert!(error.contains("x.toml: traffic.site") && error.contains(message), "{keys}: {error}");
    }
    let named = |file: &str| {
        parse(&format!("[[variant]]\nname = 'default'\ntraffic.site.page = '{file}'")).unwrap_err()
    };
    assert!(
        named("bad.har")
            .contains("bad.har: log.entries: no objects loaded over the network (left out: 1 odd)"),
        "{}",
        named("bad.har")
    );
    assert!(named("no.page.json").contains("no.page.json: No such file"));
    let external = "[[variant]]\nname = 'default'\nnode.browser.external = true";
    assert!(
        parse(external)
            .unwrap_err()
            .contains("traffic.site.clients: \"browser\": a recorded site is only replayed between")
    );
}

#[test]
fn a_scenario_may_name_a_har_itself() {
    let folder = tempfile::tempdir().unwrap();
    let har = har(vec![entry("http://example.org/", 0.0, 50.0, 10.0, 1000)]);
    fs::write(folder.path().join("site.har"), har.to_string()).unwrap();
    let text = NETWORK.replace("site.page.json", "site.har");
    let scenario = Scenario::parse(&folder.path().join("x.toml"), &text).unwrap();
    assert!(scenario.plan("default").is_ok());
}

/// Returns the time of a page with one object of this size from an origin with TLS, the bytes of its connection, and its retransmissions.
fn over_tls(bytes: u64, keys: &str) -> (f64, f64, f64) {
    let site = site(1, &[vec![object(0, bytes)]]).replace("http://", "https://");
    let version = if keys.contains("http") { "" } else { "http = '1.1'" };
    let loaded =
        Loaded::of(&site, &format!("{keys}\n{version}\n[tcp]\nprofile = 'rfc'\nhandshake = true\n"), 1);
    (
        loaded.sum(TableName::PAGES, "time_s"),
        loaded.sum(TableName::CONNECTIONS, "bytes"),
        loaded.sum(TableName::CONNECTIONS, "retransmitted"),
    )
}

#[test]
fn a_handshake_costs_its_round_trips_and_its_bytes() {
    let (none_s, none_bytes, _) = over_tls(500, "tls = 'none'");
    // One round trip for TCP, and one for the request: 80 ms, and the transmission of a few packets.
    assert!((0.080..0.085).contains(&none_s), "{none_s}");
    for (keys, round_trips, flight) in [
        // ServerHello, certificates and signature.
        ("tls = 'full'", 1, 1307 + 3500 + 299),
        ("tls = 'browser'", 1, 1307 + 3500 + 299),
        ("tls = 'full'\ncertificate_bytes = '2KB'", 1, 1307 + 2048 + 299),
        ("tls = 'resumed'", 1, 1307),
        ("tls = '0-rtt'", 0, 1307),
        ("tls = 'full'\nhttp = '2'", 1, 1307 + 3500 + 299),
    ] {
        let (time_s, bytes, _) = over_tls(500, keys);
        let more_s = time_s - none_s - 0.040 * f64::from(round_trips);
        // The flights take some milliseconds at 10 Mbit/s: 5 KB take 4 ms.
        assert!((-1e-9..0.008).contains(&more_s), "{keys}: {more_s}");
        // The start of HTTP/2 is a record, and the response another one with two frames.
        let framing = if keys.contains("http") { (49 + 22) + (2 * 9 + 22) } else { 22 };
        assert_eq!(bytes - none_bytes, f64::from(flight + 2 * (265 + 22) + framing), "{keys}");
    }
}

#[test]
fn a_certificate_that_does_not_fit_into_the_window_costs_another_round_trip() {
    // Ten segments of 1460 bytes are the first window.
    let [fits, fits_not] = ["12000", "16000"]
        .map(|bytes| over_tls(500, &format!("tls = 'full'\ncertificate_bytes = {bytes}")).0);
    assert!((fits_not - fits - 0.040).abs() < 0.01, "{fits} and {fits_not}");
}

#[test]
fn only_origins_with_https_have_tls_and_each_connection_has_its_own() {
    let objects: Vec<RecordedObject> = [0, 0, 0, 1, 1, 1].map(|origin| object(origin, 20_000)).to_vec();
    let mixed = site(2, &[objects]).replace("http://10.0.0.1", "https://10.0.0.1");
    let plain = Loaded::of(&mixed, "http = '1.1'\ntls = 'none'", 1);
    let secure = Loaded::of(&mixed, "http = '1.1'\ntls = 'resumed'", 1);
    // Three connections to the second origin, each with a flight, tickets and a response of two records.
    let bytes = |loaded: &Loaded| loaded.sum(TableName::CONNECTIONS, "bytes");
    assert_eq!(bytes(&secure) - bytes(&plain), 3.0 * (1307.0 + 574.0 + 44.0));
    assert_eq!(secure.bytes(), plain.bytes());
    assert_eq!(secure.column(TableName::PAGES, "connections"), [6.0]);
    let requests_s = |loaded: &Loaded| loaded.times().into_iter().map(|(start, _)| start).collect::<Vec<_>>();
    assert_eq!(requests_s(&secure)[..3], requests_s(&plain)[..3]);
    assert!(
        requests_s(&secure)[3..].iter().all(|start| *start >= 0.040),
        "they wait for the server's flight"
    );
}

#[test]
fn a_mistake_about_tls_is_one_line() {
    for (keys, named) in [
        ("tls = 'yes'", "one of none, browser, full, resumed, 0-rtt"),
        (
            "tls = 'resumed'\ncertificate_bytes = 100",
            "traffic.site.certificate_bytes: only for tls = \"browser\" or \"full\"",
        ),
        ("tls = 'full'\ncertificate_bytes = '20MB'", "expected at most 16777215 bytes"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("site.page.json"), site(1, &[vec![object(0, 5)]])).unwrap();
        let text = format!("{NETWORK}{keys}");
        let error = Scenario::parse(&folder.path().join("x.toml"), &text).unwrap_err().to_string();
        assert!(error.contains(named) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_browser_resumes_once_it_has_a_ticket() {
    let later = |delay_ms: f64| RecordedObject { delay_ms, ..object(0, 20_000) };
    let page =
        site(1, &[vec![later(0.0), later(0.0), later(500.0), later(500.0)]]).replace("http:", "https:");
    let keys = |tls: &str| format!("http = '1.1'\nkeep_alive = false\ntimes = 2\ntls = '{tls}'");
    let bytes = |tls: &str| Loaded::of(&page, &keys(tls), 1).sum(TableName::CONNECTIONS, "bytes");
    // Two connections are opened before a ticket arrives, and the later two objects use them again; the next load resumes.
    assert_eq!(bytes("full") - bytes("browser"), 2.0 * (3500.0 + 299.0));
    assert_eq!(bytes("full") - bytes("resumed"), 4.0 * (3500.0 + 299.0));
}

/// Returns a page file whose origins have names such as a.example0.org.
fn named_site(origins: u32, pages: &[Vec<RecordedObject>]) -> String {
    site(origins, pages).replace("//10.0.0.", "//a.example").replace(":80", ".org:80")
}

#[test]
fn a_name_costs_a_round_trip_for_each_page_or_once() {
    let page = named_site(2, &[vec![object(0, 500), object(0, 500), object(1, 500)]]);
    let times = |keys: &str| {
        let loaded = Loaded::of(&page, &format!("times = 2\n{keys}"), 1);
        let waits = loaded.column(TableName::FETCHES, "look_up_s");
        (loaded.column(TableName::PAGES, "time_s"), waits)
    };
    let (known, waits) = times("look_ups = 'none'");
    assert_eq!(waits, [0.0; 6]);
    for (keys, expected) in [
        ("", [0.040, 0.040]),
        ("look_ups = 'once'", [0.040, 0.0]),
        ("resolver_time = '30ms'", [0.070, 0.070]),
        (
            "resolver = 'resolver'\n[node.resolver]\nkind = 'host'\n[link.resolver]\nfrom = 'resolver'\nto = 'near'\nrate = '1Gbit'\ndelay = '1ms'\nqueue = 'drop-tail:100'",
            [0.032, 0.032],
        ),
    ] {
        let (took, waits) = times(keys);
        for load in [0, 1] {
            let more_s = took[load] - known[load];
            assert!((more_s - expected[load]).abs() < 0.001, "{keys}: {more_s}");
            let of_load = &waits[3 * load..3 * load + 3];
            let is_close = |wait: &f64| (wait - expected[load]).abs() < 0.001;
            assert!(of_load.iter().all(is_close), "all three wait for a name: {waits:?}");
        }
    }
}

#[test]
fn queries_and_answers_have_the_sizes_of_rfc_1035() {
    let page = named_site(1, &[vec![object(0, 500)]]);
    let sent = |keys: &str| {
        let loaded = Loaded::of(&page, keys, 1);
        let (names, bytes) = (loaded.texts("port"), loaded.column(TableName::PORTS, "delivered_bytes"));
        let of = |name: &str| {
            let at = names.iter().position(|it| it == name);
            bytes[at.unwrap_or_else(|| panic!("{names:?}"))]
        };
        [of("bottleneck"), of("bottleneck:back")]
    };
    let (with, without) = (sent(""), sent("look_ups = 'none'"));
    // The name has three labels of 1, 8 and 3 characters, each after its length, and a zero.
    let query = 20 + 8 + 12 + (2 + 9 + 4 + 1) + 4;
    assert_eq!(with[1] - without[1], f64::from(2 * query));
    assert_eq!(with[0] - without[0], f64::from(2 * query + (12 + 4) + (12 + 16)));
}

#[test]
fn a_query_without_an_answer_is_repeated_after_a_second_and_then_ever_later() {
    let page = named_site(1, &[vec![object(0, 500)]]);
    let lossy = "times = 40\nkeep_alive = false\n[[variant]]\nname = 'default'\nlink.bottleneck.loss = 'bernoulli:0.5'\n";
    let loaded = Loaded::of(&page, lossy, 3);
    let waits = loaded.column(TableName::FETCHES, "look_up_s");
    let mut counts = [0; 6];
    for wait in &waits {
        let steps = [0.0, 1.0, 3.0, 7.0, 12.0, 17.0].map(|step| step + 0.040);
        let found = steps.iter().position(|step| (wait - step).abs() < 0.002);
        match found {
            Some(found) => counts[found] += 1,
            None => assert!((wait - 0.04).rem_euclid(5.0) - 2.0 < 0.002, "{wait}"),
        }
    }
    // Half of the packets of each direction are lost: two queries and two answers arrive in one of sixteen cases.
    assert!((1..20).contains(&counts[0]) && counts[1..].iter().all(|count| *count > 2), "{counts:?}");
}

#[test]
fn the_parts_of_a_fetch_add_up_and_are_those_of_a_browser() {
    let page = named_site(1, &[vec![object(0, 500), RecordedObject { after: Some(0), ..object(0, 500) }]])
        .replace("http:", "https:");
    let loaded = Loaded::of(&page, "[tcp]\nprofile = 'rfc'\nhandshake = true\n", 1);
    let column = |name| loaded.column(TableName::FETCHES, name);
    let parts = ["look_up_s", "connect_s", "tls_s", "sent_s", "first_byte_s", "time_s"].map(column);
    // A round trip of 40 ms each; the certificates take 5 ms.
    let expected = [0.040, 0.040, 0.046, 0.126, 0.168, 0.168];
    for ((part, expected), name) in
        parts.iter().zip(expected).zip(["look_up", "connect", "tls", "sent", "first", "end"])
    {
        assert!((part[0] - expected).abs() < 0.002, "{name}: {part:?}");
    }
    let [look_up, connect, tls, sent, first_byte, end] = parts.map(|part| part[1]);
    assert_eq!([look_up, connect, tls, sent], [0.0; 4], "the second one uses the connection of the first");
    assert!((0.040..0.042).contains(&first_byte) && end >= first_byte);
    assert_eq!(column("connection")[0], column("connection")[1]);
}

#[test]
fn the_milestones_of_a_page_wait_for_the_objects_that_hold_them() {
    let at = |delay_ms: f64, bytes, holds| RecordedObject { delay_ms, holds, ..object(0, bytes) };
    let page = vec![
        at(0.0, 1000, Some(Holds::Render)),
        at(100.0, 2000, Some(Holds::Render)),
        at(300.0, 3000, None),
        at(600.0, 4000, Some(Holds::End)),
    ];
    let loaded = Loaded::of(&site(1, &[page]), "connections_per_origin = 1", 1);
    let ends: Vec<f64> = loaded.times().into_iter().map(|(_, end)| end).collect();
    let column = |name| loaded.column(TableName::LOADS, name)[0];
    assert_eq!(column("render_s"), ends[1]);
    assert_eq!(column("load_s"), ends[2]);
    assert_eq!(column("time_s"), ends[3]);
    assert!(column("first_byte_s") <= ends[0] && column("first_byte_s") > 0.04);
    let weighted =
        ends.iter().zip([1.0, 2.0, 3.0, 4.0]).map(|(end, weight)| end * weight).sum::<f64>() / 10.0;
    assert!((column("byte_index_s") - weighted).abs() < 1e-8);
    let late = site(1, &[vec![object(0, 500)]]).replace("\"url\":", "\"load_delay_ms\": 70.0, \"url\":");
    let late = Loaded::of(&late, "", 1);
    let load_s = late.column(TableName::LOADS, "load_s")[0];
    assert!((load_s - late.times()[0].1 - 0.070).abs() < 1e-9, "the browser's own time after the objects");
    let unmarked = Loaded::of(&site(1, &[vec![object(0, 500), at(50.0, 600, Some(Holds::End))]]), "", 1);
    let times = unmarked.times();
    assert_eq!(unmarked.column(TableName::LOADS, "render_s")[0], times[0].1, "the first object that arrives");
}

#[test]
fn over_http_2_style_sheets_come_before_images_unless_priorities_are_off() {
    let of = |kind, bytes| RecordedObject { kind: Some(kind), ..object(0, bytes) };
    let page = site(
        1,
        &[vec![
            of(ResourceKind::Image, 200_000),
            of(ResourceKind::Image, 200_000),
            of(ResourceKind::Script, 100_000),
            of(ResourceKind::Stylesheet, 100_000),
        ]],
    );
    let ends = |priorities: &str| {
        let loaded = Loaded::of(&page, &format!("http = '2'\npriorities = '{priorities}'"), 1);
        let ends: Vec<f64> = loaded.times().into_iter().map(|(_, end)| end).collect();
        <[f64; 4]>::try_from(ends).unwrap()
    };
    let [image, other, script, sheet] = ends("chrome");
    assert!(sheet < script && script < image && image < other, "{sheet} {script} {image} {other}");
    let [image, _, script, sheet] = ends("firefox");
    assert!(script < sheet && sheet < image, "the same urgency: in the order of the requests");
    let [_, _, script, sheet] = ends("none");
    assert!((script - sheet).abs() < 0.08 && sheet > 0.3, "all take turns: {script} {sheet}");
}

#[test]
fn over_http_11_requests_wait_in_the_order_of_their_urgencies() {
    let of = |kind| RecordedObject { kind: Some(kind), ..object(0, 20_000) };
    let page =
        site(1, &[vec![of(ResourceKind::Document), of(ResourceKind::Image), of(ResourceKind::Stylesheet)]]);
    let starts = |priorities: &str| {
        let keys = format!("http = '1.1'\nconnections_per_origin = 1\npriorities = '{priorities}'");
        Loaded::of(&page, &keys, 1).times().into_iter().map(|(start, _)| start).collect::<Vec<_>>()
    };
    let (with, without) = (starts("chrome"), starts("none"));
    assert!(with[2] < with[1] && without[1] < without[2], "{with:?} {without:?}");
}

#[test]
fn origins_that_shared_a_connection_when_recorded_share_one_and_have_the_recorded_version() {
    let over = |origin, connection, protocol| RecordedObject {
        connection: Some(connection),
        protocol: Some(protocol),
        ..object(origin, 5000)
    };
    let page = site(
        4,
        &[vec![
            over(0, 0, HttpVersion::Http2),
            over(1, 0, HttpVersion::Http2),
            over(2, 1, HttpVersion::Http3),
            over(3, 2, HttpVersion::Http1),
            over(3, 3, HttpVersion::Http1),
        ]],
    );
    let connections = |keys: &str| Loaded::of(&page, keys, 1).column(TableName::CONNECTIONS, "bytes").len();
    assert_eq!(connections(""), 1 + 1 + 2);
    assert_eq!(connections("coalesced = false"), 2 + 1 + 2);
    assert_eq!(connections("coalesced = true"), 2 + 2, "two servers; the last origin has HTTP/1.1");
}

#[test]
fn less_urgent_objects_wait_while_others_block_the_first_rendering_as_in_chromium() {
    let of = |priority: &str, holds: Option<Holds>, bytes| RecordedObject {
        priority: Some(priority.into()),
        holds,
        after: Some(0),
        // What does not block comes from another server.
        ..object(u32::from(holds.is_none()), bytes)
    };
    let page = site(
        2,
        &[vec![
            RecordedObject { priority: Some("u=0, i".into()), holds: Some(Holds::Render), ..object(0, 5000) },
            of("u=0", Some(Holds::Render), 5000),
            of("u=1", Some(Holds::Render), 200_000),
            of("u=2", None, 500),
            of("u=2", None, 500),
            of("u=2", None, 500),
            of("u=3, i", None, 500),
        ]],
    );
    let starts = |keys: &str| {
        let times = Loaded::of(&page, &format!("http = '2'\n{keys}"), 1).times();
        let (first, blocking) = (times[0].1, times[2].1);
        times[1..].iter().map(|(start, _)| (start - first < 1e-9, start - blocking)).collect::<Vec<_>>()
    };
    let tight = starts("");
    let at_once: Vec<bool> = tight.iter().map(|(at_once, _)| *at_once).collect();
    // The style sheet, the script, and two of urgency 2. The third of these follows when one has ended, and the image when at most one
    // request is outstanding: the last one that blocks.
    assert_eq!(at_once, [true, true, true, true, false, false]);
    assert!(
        tight[4].1 < 0.0 && tight[5].1 < 0.0,
        "before the end of the script, which takes long: {tight:?}"
    );
    let one = starts("early_limit = 1");
    assert!(one[5].1.abs() < 1e-9, "with the end of what blocks: {one:?}");
    for keys in ["early_limit = 100", "priorities = 'firefox'"] {
        assert!(starts(keys).iter().all(|(at_once, _)| *at_once), "{keys}");
    }
}
