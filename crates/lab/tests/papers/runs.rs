//! Tests of whole runs: determinism, conservation, behaviour of the applications, and errors for bad input.

use crate::brief::brief;
use crate::scenarios;
use catnip_lab::{Column, InputError, Marking, RunRequest, Scenario, Table, TableName, fingerprint, run_all};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

fn load(name: &str) -> Scenario {
    Scenario::load(&scenarios::file(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn run(
    scenario: &Scenario,
    variants: &[&str],
    seeds: u64,
    tables: &[TableName],
    threads: usize,
) -> BTreeMap<TableName, Table> {
    let request = RunRequest {
        variants: variants.to_vec(),
        seeds: (1..=seeds).collect(),
        tables: tables.to_vec(),
        threads,
        every: None,
    };
    run_all(scenario, &request, &mut |_| true).unwrap().unwrap()
}

fn column(table: &Table, name: &str) -> Vec<f64> {
    match &table.columns().iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no {name}")).1 {
        Column::Float(values) => values.clone(),
        Column::Integer(values) => values.iter().map(|&v| v as f64).collect(),
        Column::Text(_) => panic!("{name} is text"),
    }
}

/// Returns the fingerprints of a scenario's variants, one line per variant.
fn fingerprints(file: &Path) -> String {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap();
    let scenario = load(name);
    let mut lines = String::new();
    // Variants for the emulator depend on external hosts.
    for variant in scenario.variants().filter(|name| scenario.plan(name).is_ok()) {
        let print = fingerprint(&brief(scenario.plan(variant).unwrap()), 1);
        writeln!(lines, "{print:016x} {name} {variant}").unwrap();
    }
    lines
}

/// Compares hashes of all events of all scenarios with the stored fingerprints, since any changed event may change results.
#[test]
fn every_scenario_does_what_it_did_when_its_fingerprint_was_taken() {
    let stored = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fingerprints.txt");
    // Runs are executed in parallel, because this test takes longer than all other tests of this program.
    let (files, cores) = (scenarios::all(), std::thread::available_parallelism().map_or(1, usize::from));
    let next = AtomicUsize::new(0);
    let some = || std::iter::from_fn(|| files.get(next.fetch_add(1, Ordering::Relaxed)));
    let prints: BTreeMap<&PathBuf, String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores)
            .map(|_| scope.spawn(|| some().map(|file| (file, fingerprints(file))).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let now: String = files.iter().map(|file| prints[file].as_str()).collect();
    if std::env::var_os("CATNIP_BLESS").is_some() {
        std::fs::write(&stored, &now).unwrap();
    }
    let before = std::fs::read_to_string(&stored).unwrap_or_default();
    let changed: Vec<_> = now.lines().filter(|line| !before.contains(line)).collect();
    assert!(
        changed.is_empty() && before == now,
        "changed; if on purpose, say why and set CATNIP_BLESS=1:\n{changed:#?}"
    );
}

#[test]
fn axes_make_every_combination_and_the_last_one_changes_fastest() {
    let scenario = load("hysteresis.toml");
    let names: Vec<_> = scenario.variants().collect();
    assert_eq!(names.len(), 3 * 13 * 5);
    assert_eq!(names[0], "Reno / packets=1 / loss=priority:low=0.01");
    assert_eq!(names[1], "Reno / packets=1 / loss=priority:low=0.03");
    assert_eq!(names[13 * 5 * 2 - 1], "Partial CATNIP / packets=143 / loss=priority:low=0.1");
}

#[test]
fn the_models_are_told_what_the_run_does_and_only_where_they_apply() {
    let scenario = load("hysteresis.toml");
    let flow = |name: &str| scenario.plan(name).unwrap().single_flow().unwrap();
    let reno = flow("Reno / packets=36 / loss=priority:low=0.1");
    assert_eq!((reno.packets, reno.p, reno.p_high, reno.marking), (36, 0.1, 0.1, Marking::None));
    assert_eq!((reno.t0_s, reno.w_max, reno.b, reno.w1, reno.delack_s), (1.0, 24, 2, 1, 0.1));
    assert!((reno.rtt_s - 0.2).abs() < 0.002, "HYS-S7: {}", reno.rtt_s);
    let partial = flow("Partial CATNIP / packets=36 / loss=priority:low=0.1");
    assert_eq!((partial.p, partial.p_high, partial.marking), (0.1, 0.0, Marking::Ends));
    assert_eq!(flow("CATNIP / packets=36 / loss=priority:low=0.1").marking, Marking::Other);
    for name in ["catnip-e4.toml", "catnip-e1.toml", "catnip-e11.toml"] {
        let scenario = load(name);
        let lossy = scenario.variants().filter(|variant| *variant != "no loss");
        for variant in lossy {
            assert_eq!(scenario.plan(variant).unwrap().single_flow(), None, "{name} {variant}");
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_byte() {
    let scenario = load("catnip-e4.toml");
    let variants = ["Reno/DropTail", "Reno/CATNIP-Good"];
    let tables = [TableName::PAGES, TableName::CONNECTIONS, TableName::PORTS, TableName::RUNS];
    assert_eq!(run(&scenario, &variants, 3, &tables, 1), run(&scenario, &variants, 3, &tables, 5));
}

#[test]
fn all_policies_see_the_same_users() {
    let scenario = load("catnip-e4.toml");
    let tables = run(&scenario, &["Reno/DropTail", "ECA/CATNIP-Good"], 1, &[TableName::PAGES], 0);
    let pages = &tables[&TableName::PAGES];
    let orders = |variant: f64| {
        let mut of_client: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for (i, v) in column(pages, "variant").iter().enumerate() {
            if *v == variant {
                let start_ns = (column(pages, "start_s")[i] * 1e9) as u64;
                of_client
                    .entry(column(pages, "client")[i] as u64)
                    .or_default()
                    .push((start_ns, column(pages, "page")[i] as u64));
            }
        }
        of_client.values_mut().for_each(|pages| pages.sort_unstable());
        of_client
            .into_values()
            .map(|p| p.into_iter().map(|(_, page)| page).collect())
            .collect::<Vec<Vec<u64>>>()
    };
    let (droptail, good) = (orders(0.0), orders(1.0));
    assert_eq!(droptail, good, "the order of pages of each client");
    assert!(droptail.windows(2).any(|w| w[0] != w[1]), "which differs from client to client");
}

#[test]
fn records_of_connections_add_up_to_the_counters_of_the_bottleneck() {
    let scenario = load("catnip-e4.toml");
    let tables = run(
        &scenario,
        &["Reno/CATNIP-Good"],
        2,
        &[TableName::CONNECTIONS, TableName::PORTS, TableName::PAGES],
        0,
    );
    let (connections, ports, pages) =
        (&tables[&TableName::CONNECTIONS], &tables[&TableName::PORTS], &tables[&TableName::PAGES]);
    for seed in [1.0, 2.0] {
        let of_seed = |table: &Table, name: &str| -> f64 {
            column(table, "seed")
                .iter()
                .zip(column(table, name))
                .filter(|(s, _)| **s == seed)
                .map(|(_, v)| v)
                .sum()
        };
        let Column::Text(names) = &ports.columns().iter().find(|(name, _)| *name == "port").unwrap().1 else {
            panic!("ports have names")
        };
        let is_it = |row: &usize| column(ports, "seed")[*row] == seed && &names[*row] == "bottleneck";
        let bottleneck = (0..ports.rows()).find(is_it).unwrap();
        let forward = |name: &str| column(ports, name)[bottleneck];
        assert_eq!(of_seed(connections, "sent"), forward("arrived_high") + forward("arrived_low"));
        assert_eq!(of_seed(connections, "sent_high"), forward("arrived_high"));
        assert_eq!(of_seed(connections, "dropped"), forward("dropped_high") + forward("dropped_low"));
        assert_eq!(of_seed(connections, "bytes"), 100.0 * 221_356.0, "every byte of every page");
        assert_eq!(of_seed(pages, "connections"), 4500.0);
        let reasons: f64 =
            ["overflow", "pushed_out", "early", "forced", "loss"].into_iter().map(forward).sum();
        assert_eq!(reasons, forward("dropped_high") + forward("dropped_low"));
    }
}

#[test]
fn packets_sent_are_delivered_dropped_or_inside_when_a_run_is_cut_short() {
    let text = std::fs::read_to_string(scenarios::file("catnip-e4.toml"))
        .unwrap()
        .replace("seeds = 30", "seeds = 1\nduration = \"123.456s\"");
    let scenario = Scenario::parse(&scenarios::file("catnip-e4.toml"), &text).unwrap();
    for variant in scenario.variants() {
        let sim = scenario.plan(variant).unwrap().run(1, ());
        assert_eq!(sim.packets_out() as u64, sim.fabric().packets_inside(), "{variant}");
        // The number of packets delivered to a router equals the number of packets that arrive at its ports.
        let ports = scenario.plan(variant).unwrap().topology().ports();
        let counters = |port: usize| sim.fabric().counters(catnip_net::PortId(port as u32));
        for router in
            ports.iter().map(|port| port.to).filter(|&node| ports.iter().filter(|p| p.to == node).count() > 1)
        {
            let delivered: u64 =
                (0..ports.len()).filter(|&p| ports[p].to == router).map(|p| counters(p).delivered).sum();
            let went: u64 = (0..ports.len())
                .filter(|&p| ports[p].from == router)
                .map(|p| counters(p).arrived.iter().sum::<u64>())
                .sum();
            assert_eq!(delivered, went, "{variant}, router {router:?}");
        }
    }
}

#[test]
fn a_client_has_at_most_four_connections_and_asks_for_images_after_the_html_began() {
    let scenario = load("catnip-e4.toml");
    let tables = run(&scenario, &["Reno/DropTail"], 1, &[TableName::OBJECTS], 0);
    let objects = &tables[&TableName::OBJECTS];
    let get = |name| column(objects, name);
    let (client, page, object, start, time) =
        (get("client"), get("page"), get("object"), get("start_s"), get("time_s"));
    assert_eq!(client.len(), 4500);
    let mut html: BTreeMap<(u64, u64), (f64, f64)> = BTreeMap::new();
    for i in 0..client.len() {
        if object[i] == 0.0 {
            html.insert((client[i] as u64, page[i] as u64), (start[i], start[i] + time[i]));
        }
    }
    let mut max_open = 0;
    for i in 0..client.len() {
        let others = (0..client.len()).filter(|&j| {
            client[j] == client[i] && start[j] <= start[i] && start[i] + 1e-8 < start[j] + time[j]
        });
        max_open = max_open.max(others.count());
        let began = html[&(client[i] as u64, page[i] as u64)].0;
        assert!(object[i] == 0.0 || start[i] > began, "the HTML comes first");
    }
    assert_eq!(max_open, 4);
}

#[test]
fn http_1_1_takes_one_connection_per_page_with_all_its_bytes() {
    let scenario = load("catnip-e8.toml");
    let tables = run(&scenario, &["Reno/DropTail"], 1, &[TableName::PAGES, TableName::CONNECTIONS], 0);
    assert_eq!(column(&tables[&TableName::CONNECTIONS], "bytes").len(), 1000);
    assert!(column(&tables[&TableName::PAGES], "connections").iter().all(|&c| c == 1.0));
    assert_eq!(column(&tables[&TableName::CONNECTIONS], "bytes").iter().sum::<f64>(), 100.0 * 221_356.0);
}

#[test]
fn a_saturated_link_is_used_to_the_last_bit() {
    let text = r#"
id = "X"
title = "One long flow"
duration = "100s"
[node]
a = { kind = "host" }
b = { kind = "host" }
[link.l]
from = "a"
to = "b"
rate = "2Mbit"
delay = "10ms"
queue = "drop-tail:100"
[tcp]
profile = "rfc"
window_segments = 60
[traffic.t]
kind = "bulk"
from = "a"
to = "b"
bytes = "1000MB"
"#;
    let scenario = Scenario::parse(Path::new("x.toml"), text).unwrap();
    let tables = run(&scenario, &["default"], 1, &[TableName::PORTS], 1);
    let utilization = column(&tables[&TableName::PORTS], "utilization")[0];
    assert!((0.995..=1.0).contains(&utilization), "{utilization}");
}

fn error_of(change: impl Fn(&str) -> String) -> InputError {
    let text = std::fs::read_to_string(scenarios::file("catnip-e4.toml")).unwrap();
    Scenario::parse(&scenarios::file("catnip-e4.toml"), &change(&text)).expect_err("this is bad input")
}

#[test]
fn bad_input_is_one_line_that_names_file_key_and_value() {
    let cases: [(&str, &str, &[&str]); 25] = [
        ("rate = \"1.5Mbit\"", "rate = \"-3Mbit\"", &["link.bottleneck.rate", "-3Mbit"]),
        ("rate = \"1.5Mbit\"", "rate = \"1.5Mbps\"", &["link.bottleneck.rate", "1.5Mbps"]),
        ("rate = \"1.5Mbit\"", "rate = 5", &["link.bottleneck.rate", "5"]),
        ("delay = \"5ms\"", "delay = \"5\"", &["link.bottleneck.delay", "\"5\""]),
        ("delay = \"5ms\"", "dealy = \"5ms\"", &["link.bottleneck", "dealy"]),
        ("count = 100", "count = 0", &["node.client.count", "0"]),
        ("catnip_pages.csv", "no_such_pages.csv", &["traffic.web.pages", "no_such_pages.csv"]),
        (
            "from = \"server\"\nto = \"router_s\"",
            "from = \"server\"\nto = \"router_x\"",
            &["link.server.to", "router_x"],
        ),
        (
            "from = \"router_s\"\nto = \"router_c\"",
            "from = \"router_s\"\nto = \"router_s\"",
            &["link.bottleneck.to", "router_s would be linked to itself"],
        ),
        ("queue = \"drop-tail:10\"", "queue = \"drop-tail:0\"", &["link.bottleneck.queue", "drop-tail:0"]),
        ("mean = 40", "mean = -40", &["traffic.web.think_s", "-40"]),
        ("profile = \"ns2-2002\"", "profile = \"ns3\"", &["tcp.profile", "ns3"]),
        ("recovery = \"reno\"", "recovery = \"reno\"\nrto_first = \"0s\"", &["tcp.rto_first", "0"]),
        // The classic senders do not support later mechanisms.
        (
            "recovery = \"reno\"",
            "recovery = \"reno\"\nvalidation = \"newcwv\"",
            &["tcp.validation", "\"newcwv\"", "recovery = \"sack\""],
        ),
        ("recovery = \"reno\"", "recovery = \"reno\"\npacing = \"rate:2\"", &["tcp.pacing", "\"rate:2\""]),
        ("recovery = \"reno\"", "recovery = \"sack\"\npacing = \"rate:0\"", &["tcp.pacing", "rate:0"]),
        (
            "recovery = \"reno\"",
            "recovery = \"reno\"\nack_delay = \"100ms\"",
            &["tcp.ack_delay", "delayed_ack"],
        ),
        (
            "recovery = \"reno\"",
            "recovery = \"reno\"\ndelayed_ack = true\nack_delay = \"1s\"",
            &["tcp.ack_delay", "1 s"],
        ),
        (
            "clients = \"client\"",
            "clients = \"client[0..50:0]\"",
            &["traffic.web.clients", "client[0..50:0]"],
        ),
        ("http = \"1.0\"", "http = \"2\"", &["traffic.web.http", "\"2\""]),
        (
            "http = \"1.0\"",
            "http = \"1.0\"\npipelining = true",
            &["traffic.web.pipelining", "true: no effect with http = \"1.0\""],
        ),
        (
            "http = \"1.0\"",
            "http = \"approximate-1.1\"",
            &["traffic.web.max_connections", ": no effect with http = \"approximate-1.1\""],
        ),
        (
            "servers = \"server\"",
            "servers = \"client[3]\"",
            &["traffic.web.clients", "client[3] is both server and client"],
        ),
        (
            "recovery = \"reno\"",
            "recovery = \"reno\"\nrto_min = \"100s\"\nrto_max = \"1s\"",
            &["tcp.rto_min", "expected at most rto_max"],
        ),
        (
            "name = \"ECA/CATNIP-Good\"",
            "name = \"ECA/CATNIP-Good\"\ntcp.colour = 1",
            &["ECA/CATNIP-Good", "tcp.colour"],
        ),
    ];
    for (from, to, named) in cases {
        let error = error_of(|text| {
            assert!(text.contains(from), "{from} is not in the scenario");
            text.replace(from, to)
        });
        let line = error.to_string();
        assert!(!line.contains('\n') && line.contains("catnip-e4.toml"), "{line}");
        for name in named {
            assert!(line.contains(name), "{name} is missing: {line}");
        }
    }
    let with_axis = |axis: &str| error_of(|text| format!("{text}\n[[axis]]\n{axis}")).to_string();
    for (axis, what) in [
        ("key = \"tcp.window_segments\"\nvalues = []", "no values"),
        ("key = \"tcp.window_segments\"\nvalues = [3, 3]", "3 occurs twice"),
        ("key = \"tcp.window_segments\"\nvalues = [0]", "tcp.window_segments: 0"),
        (
            "key = \"tcp.window_segments\"",
            "axis.values: \"tcp.window_segments\": expected one of values, files",
        ),
    ] {
        assert!(with_axis(axis).contains(what), "{}", with_axis(axis));
    }
    assert!(error_of(|_| "id = ".into()).to_string().contains("line 1"));
    let missing = Scenario::load(Path::new("/no/such/file.toml")).unwrap_err().to_string();
    assert!(missing.contains("/no/such/file.toml") && !missing.contains('\n'), "{missing}");
}
