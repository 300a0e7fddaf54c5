//! Whole scenarios in the emulator's world: without real hosts it is the simulator, whatever the clock does; with real
//! ones, simulated hosts speak to programs of this machine. Those tests need TUN devices and namespaces; where there are
//! none, they say so.

#[path = "../../lab/tests/brief/mod.rs"]
mod brief;
mod fuzz;
#[path = "../../wire/tests/hex/mod.rs"]
mod hex;
#[path = "../../lab/tests/scenarios/mod.rs"]
mod scenarios;
mod skip;

use brief::brief;
use catnip_base::{Rng, Span, Stream, Time};
use catnip_emu::emulate;
use catnip_emu::socket::filling;
use catnip_emu::sys;
use catnip_lab::Scenario;
use catnip_sim::{Event, Watch};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::{Field, Row};
use proptest::prelude::*;
use serde_json::Value;
use skip::skipped;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

#[derive(Debug, Default)]
struct Log(Vec<(Time, Event)>);

impl Watch for Log {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        self.0.push((now, *event));
    }
}

/// The same run by the simulator and, over real packets, by the emulator, which is told of time in steps of any length.
#[track_caller]
fn compare(scenario: &Scenario, variant: &str, seed: u64) -> usize {
    let plan = brief(scenario.plan(variant).unwrap());
    let sim = plan.run(seed, Log::default());
    let end = Time::ZERO + plan.duration();
    let mut world = emulate::world(&plan, seed, 1500, (), Log::default());
    let mut steps = Rng::new(seed, Stream::Workload(99));
    let mut next = world.advance(Time::ZERO);
    while next <= end {
        let late = Span::from_secs_f64(steps.exponential(0.02));
        next = world.advance((next + late).min(end));
    }
    assert_eq!(world.packets_out() as u64, world.fabric().packets_inside(), "{variant}");
    assert_eq!(world.tally(), sim.tally(), "{variant}");
    let (ours, theirs) = (world.into_watch().0, sim.into_watch().0);
    let differs = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
    if let Some(at) = differs {
        panic!("{variant}: event {at}: {:?}\nin the simulator {:?}", ours[at], theirs[at]);
    }
    assert_eq!(ours.len(), theirs.len(), "{variant}");
    ours.len()
}

const BULK: &str = "
id = 'X'
title = 'Bulk transfer over a lossy link'
[node]
server = { kind = 'host' }
client = { kind = 'host' }
[link.path]
from = 'server'
to = 'client'
rate = '5Mbit'
delay = '20ms'
queue = 'drop-tail:20'
loss = 'bernoulli:0.03'
[tcp]
profile = 'rfc'
[traffic.document]
kind = 'bulk'
from = 'server'
to = 'client'
packets = 2000
";

#[test]
fn a_bulk_transfer_with_losses_is_the_simulators_segment_by_segment() {
    let axis = "[[axis]]\nkey = 'tcp.recovery'\nvalues = ['sack', 'newreno', 'reno', 'tahoe']\n";
    let scenario = Scenario::parse(Path::new("x.toml"), &format!("{BULK}{axis}")).unwrap();
    for variant in scenario.variants() {
        for seed in 1..=5 {
            let events = compare(&scenario, variant, seed);
            assert!(events > 3000, "{events}");
        }
    }
}

/// Typists, readers and downloads over one lossy link, in both directions.
const TALK: &str = "
id = 'X'
title = 'Conversations over a lossy link'
duration = '30s'
[node]
near = { kind = 'host', count = 3 }
r = { kind = 'router' }
far = { kind = 'host' }
[link.near]
from = 'near'
to = 'r'
rate = '10Mbit'
delay = '2ms'
queue = 'drop-tail:20'
[link.far]
from = 'r'
to = 'far'
rate = '3Mbit'
delay = '15ms'
queue = 'drop-tail:12'
loss = 'bernoulli:0.02'
[tcp]
profile = 'rfc'
marker = 'tcp-state'
[traffic.telnet]
kind = 'telnet'
clients = 'near'
servers = 'far'
pause_s = { distribution = 'exponential', mean = 0.1 }
tcp = { nagle = true }
[traffic.web]
kind = 'web'
clients = 'near'
servers = 'far'
http = '1.1'
max_connections = 2
pipelining = true
endless = true
request_bytes = 300
server_delay_s = { distribution = 'exponential', mean = 0.02 }
think_s = { distribution = 'exponential', mean = 0.2 }
tcp = { marker = 'spm', pacing = 'rbplw' }
[traffic.web.generate]
pages = 10
seed = 1
html_bytes = { distribution = 'constant', value = 6000 }
images = { distribution = 'uniform', minimum = 0, maximum = 9 }
image_bytes = { distribution = 'exponential', mean = 5000 }
[traffic.down]
kind = 'ftp'
from = 'far'
to = 'near'
bytes = { distribution = 'exponential', mean = 30000 }
gap_s = { distribution = 'exponential', mean = 0.5 }
[traffic.up]
kind = 'ftp'
from = 'near'
to = 'far'
request_bytes = 50
bytes = { distribution = 'exponential', mean = 30000 }
gap_s = { distribution = 'exponential', mean = 0.5 }
tcp = { marker = 'app' }
";

#[test]
fn conversations_are_the_simulators_event_by_event() {
    let axes = "[[axis]]\nkey = 'traffic.web.pipelining'\nvalues = [true, false]\n\
                [[axis]]\nkey = 'traffic.web.keep_alive'\nvalues = [true, false]\n";
    let scenario = Scenario::parse(Path::new("x.toml"), &format!("{TALK}{axes}")).unwrap();
    for variant in scenario.variants() {
        for seed in 1..=2 {
            let events = compare(&scenario, variant, seed);
            assert!(events > 5000, "{events}");
        }
    }
}

#[test]
fn every_scenario_of_the_simulator_is_the_same_in_the_emulator() {
    let mut compared = 0;
    for path in scenarios::all() {
        let scenario = Scenario::load(&path).unwrap();
        let variants: Vec<&str> = scenario.variants().filter(|name| scenario.plan(name).is_ok()).collect();
        // The first and the last one.
        for variant in variants.first().into_iter().chain(variants[1.min(variants.len())..].last()) {
            println!("{} {variant}", path.display());
            compared += compare(&scenario, variant, 1);
        }
    }
    assert!(compared > 100_000, "{compared}");
}

/// A file of `tests/corpus` holds a script of [`fuzz::socket`] in hexadecimal, and what comes of it; after `#` comes a
/// comment. A script that made trouble once belongs there. `CATNIP_BLESS=1` writes down what comes of each now.
#[test]
fn the_corpus_does_what_it_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 20);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let (expected, script): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with("expect: "));
        let trace = fuzz::socket(&hex::bytes(&text));
        let is = format!("expect: {} {} bytes,{}", trace.heard, trace.bytes, trace.sent);
        if std::env::var_os("CATNIP_BLESS").is_some() {
            let mut blessed: String = script.iter().fold(String::new(), |text, line| text + line + "\n");
            writeln!(blessed, "{is}").unwrap();
            fs::write(&file, blessed).unwrap();
        } else {
            assert_eq!(expected, [is], "{}", file.display());
        }
    }
}

/// One input to a line: the fewest of at most 300 bytes that reach what ten minutes of fuzzing have reached.
#[test]
fn what_fuzzing_has_reached_stays_in_order() {
    let (hosts, world) = (include_str!("fuzz/hosts.hex"), include_str!("fuzz/world.hex"));
    assert!(hosts.lines().count() > 500 && world.lines().count() > 500);
    for script in hosts.lines() {
        fuzz::socket(&hex::bytes(script));
    }
    let scenario = Scenario::parse(Path::new("x.toml"), STRANGER).unwrap();
    for script in world.lines() {
        fuzz::world(scenario.emulation("default").unwrap(), &hex::bytes(script));
    }
}

/// A simulated client of a real host, and a simulated server for it.
const STRANGER: &str = include_str!("fuzz/stranger.toml");

/// Conversations with the same real host: it is asked for pages and echoes, and may ask for them.
const TALKERS: &str = "
[traffic.echo]
kind = 'telnet'
clients = 'client'
servers = 'real'
pause_s = { distribution = 'constant', value = 0.3 }
[traffic.repeat]
kind = 'telnet'
clients = 'real'
servers = 'server'
pause_s = { distribution = 'constant', value = 1 }
[traffic.reader]
kind = 'web'
clients = 'client'
servers = 'real'
http = '1.1'
max_connections = 2
pipelining = true
endless = true
images_after_packets = 1
think_s = { distribution = 'constant', value = 0.2 }
[traffic.reader.generate]
pages = 3
seed = 1
html_bytes = { distribution = 'constant', value = 700 }
images = { distribution = 'constant', value = 4 }
image_bytes = { distribution = 'constant', value = 700 }
[traffic.site]
kind = 'web'
clients = 'real'
servers = 'server'
http = '1.1'
port = 8080
server_delay_s = { distribution = 'exponential', mean = 0.1 }
think_s = { distribution = 'constant', value = 1 }
[traffic.site.generate]
pages = 1
seed = 1
html_bytes = { distribution = 'constant', value = 3000 }
images = { distribution = 'constant', value = 0 }
image_bytes = { distribution = 'constant', value = 1 }
";

#[test]
fn conversations_with_a_host_that_says_anything_stay_in_order() {
    let scenario = Scenario::parse(Path::new("x.toml"), &format!("{STRANGER}{TALKERS}")).unwrap();
    let plan = || scenario.emulation("default").unwrap();
    for script in include_str!("fuzz/world.hex").lines() {
        fuzz::world(plan(), &hex::bytes(script));
    }
    // Answers to what came last, most of them as they should be: with a SYN, an ACK, data, a FIN or a reset.
    let mut rng = Rng::new(1, Stream::Workload(98));
    let server = (0..4).find(|&n| plan().topology().name(catnip_net::NodeId(n)) == "server").unwrap() as u8;
    let mut draw = |most: u32| (rng.uniform() * f64::from(most)) as u32;
    for _ in 0..400 {
        let mut script = Vec::new();
        for _ in 0..draw(60) {
            match draw(8) {
                0 => script.extend([2, draw(20) as u8]),
                1 => script.extend([
                    3,
                    7,
                    draw(4) as u8,
                    [0, 0x1f][draw(2) as usize],
                    [7, 0x90][draw(2) as usize],
                    server,
                ]),
                _ => {
                    let flags = [0x12, 0x10, 0x18, 0x18, 0x11, 0x14][draw(6) as usize];
                    let near = [0, 0, 0, 0, 1, 255][draw(6) as usize];
                    let [high, low] = (draw(5) as u16 * 290).to_be_bytes();
                    script.extend([1, flags, 0, near, 0, 0, high, low]);
                }
            }
        }
        fuzz::world(plan(), &script);
    }
}

#[test]
fn a_flood_of_syns_is_bounded_and_forgotten() {
    let scenario = Scenario::parse(Path::new("x.toml"), STRANGER).unwrap();
    let plan = scenario.emulation("default").unwrap();
    let server = (0..4).find(|&n| plan.topology().name(catnip_net::NodeId(n)) == "server").unwrap() as u8;
    let syns = (1..3000u16).flat_map(|port| {
        let [high, low] = port.to_be_bytes();
        [3, high, low, 0, 80, server, 2, u8::from(port % 8 == 0)]
    });
    let answers = fuzz::world(plan, &syns.collect::<Vec<u8>>());
    assert!(answers > 3000, "{answers}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_script_leaves_a_socket_in_order(script in prop::collection::vec(any::<u8>(), 0..1500)) {
        fuzz::socket(&script);
    }

    /// Scripts that begin with a handshake get further.
    #[test]
    fn any_script_behind_a_handshake_leaves_a_socket_in_order(
        passive: bool,
        commands in prop::collection::vec((0u8..5, prop::collection::vec(any::<u8>(), 12)), 0..120),
    ) {
        let mut script = vec![u8::from(passive)];
        let flags = if passive { 0x02 } else { 0x12 };
        script.extend([1, flags, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 7, 1, 0x10, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0]);
        for (command, mut bytes) in commands {
            // Most distances are small, so that most segments matter.
            for high in [1, 3, 7, 9] {
                bytes[high] = [0, 0, 0, 0xff][usize::from(bytes[high] & 3)];
            }
            bytes[0] &= if command == 1 { 0x1b } else { 0x3f };
            script.push(command);
            script.extend(&bytes);
        }
        fuzz::socket(&script);
    }

    #[test]
    fn any_packets_leave_a_world_in_order(script in prop::collection::vec(any::<u8>(), 0..400)) {
        let scenario = Scenario::parse(Path::new("x.toml"), STRANGER).unwrap();
        fuzz::world(scenario.emulation("default").unwrap(), &script);
    }
}

/// Timing tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// A folder for a scenario and its results.
struct Lab {
    dir: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Lab {
    /// Nothing if this machine cannot have real hosts; then it says why.
    fn open(name: &str) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let dir = std::env::temp_dir().join(format!("catnip-emulate-test-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let lab = Self { dir, _turn: turn };
        let nodes = "a = { kind = 'host', command = ['true'] }\nb = { kind = 'host', real = true }";
        let output = lab.emulate(&scenario(nodes, "", ""), &["-q"]).output().unwrap();
        if output.status.success() {
            return Some(lab);
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
        skipped(&why);
        None
    }

    /// Being late fails no test; being wrong does.
    fn emulate(&self, scenario: &str, options: &[&str]) -> Command {
        let file = self.dir.join("scenario.toml");
        fs::write(&file, scenario).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_catnip-emu"));
        command.arg("emulate").arg(file).args(["--tolerance", "60s"]).args(options);
        command
    }

    /// A run of no interest, started by the words of `by`.
    fn another_run(&self, by: &str) {
        let nodes = "a = { kind = 'host', command = ['true'] }\nb = { kind = 'host', real = true }";
        let emulate = self.emulate(&scenario(nodes, "", ""), &["-q"]);
        let mut words = by.split_whitespace().map(OsStr::new).chain([emulate.get_program()]);
        let mut command = Command::new(words.next().unwrap());
        assert!(command.args(words).args(emulate.get_args()).status().unwrap().success());
    }

    /// The tables and the certificate of a run, which must be conclusive.
    #[track_caller]
    fn results(&self, scenario: &str) -> Value {
        let output = self.emulate(scenario, &["--json"]).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let results: Value = serde_json::from_slice(&output.stdout).unwrap();
        let certificate = &results["certificate"];
        assert_eq!(certificate["packets_inside"][0], certificate["packets_inside"][1]);
        for link in certificate["links"].as_array().unwrap() {
            for direction in ["up", "down"] {
                let report = &link["certificate"][direction];
                let dropped: u64 = report["dropped"].as_object().unwrap().values().map(number).sum();
                let out = number(&report["packets_out"]) + number(&report["unwritable"]);
                assert_eq!(number(&report["packets_in"]), out + dropped + number(&report["held"]), "{link}");
            }
        }
        results
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn told(output: &Output) -> String {
    format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr))
}

fn column(results: &Value, table: &str, name: &str) -> Vec<f64> {
    let values = results[table][name].as_array().unwrap_or_else(|| panic!("no {table}.{name} in {results}"));
    values.iter().map(|value| value.as_f64().unwrap()).collect()
}

/// A link between the nodes a and b.
fn scenario(nodes: &str, link: &str, rest: &str) -> String {
    format!(
        "id = 'X'\ntitle = 'x'\nduration = '60s'\n[node]\n{nodes}\n[link.ab]\nfrom = 'a'\nto = 'b'\n\
         rate = '10Mbit'\ndelay = '5ms'\nqueue = 'drop-tail:30'\n{link}\n{rest}"
    )
}

const PYTHON: &str = "command = ['sh', '-c', 'cd $CATNIP_DOCUMENTS && exec python3 -m http.server 80 2> /dev/null'], \
                      ready = 'tcp:80'";

fn fnv1a(bytes: impl Iterator<Item = u8>) -> String {
    let digest = bytes.fold(0xcbf2_9ce4_8422_2325u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{digest:016x}")
}

#[test]
fn a_file_comes_whole_from_a_real_server_through_a_lossy_link() {
    let Some(lab) = Lab::open("file") else { return };
    let nodes = format!("a = {{ kind = 'host', {PYTHON} }}\nb = {{ kind = 'host' }}");
    let traffic = "[traffic.file]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '400KB'";
    let loss = "loss = 'bernoulli:0.05'";
    let results = lab.results(&scenario(&nodes, loss, traffic));
    assert_eq!(column(&results, "connections", "body_bytes"), [409_600.0]);
    assert_eq!(results["connections"]["body_fnv1a"][0], fnv1a((0..409_600).map(filling)));
    assert_eq!(column(&results, "connections", "status"), [200.0]);
    let lost = column(&results, "connections", "dropped")[0];
    assert!(lost >= 5.0, "{lost} lost");
    assert!(column(&results, "connections", "retransmitted")[0] >= lost);
}

#[test]
fn twenty_simulated_clients_fetch_the_ten_pages_from_a_real_server() {
    let Some(lab) = Lab::open("pages") else { return };
    let nginx = "echo 'daemon off; master_process off; pid nginx.pid; error_log stderr; events {} http { \
                 access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; \
                 uwsgi_temp_path t; scgi_temp_path t; server { listen 80 backlog=511; root .; } }' > nginx.conf; \
                 exec nginx -p $PWD -c $PWD/nginx.conf -e stderr";
    let server = format!(
        "cd $CATNIP_DOCUMENTS; if command -v nginx > /dev/null; then {nginx}; \
         else exec python3 -m http.server 80 --protocol HTTP/1.1 2> /dev/null; fi"
    );
    let nodes = format!(
        "a = {{ kind = 'host', ready = 'tcp:80', command = ['sh', '-c', \"\"\"{server}\"\"\"] }}\n\
         b = {{ kind = 'router' }}\nclient = {{ kind = 'host', count = 20 }}"
    );
    let pages = scenarios::file("catnip-e4.toml").with_file_name("../reference/catnip_pages.csv");
    let rest = format!(
        "[link.client]\nfrom = 'b'\nto = 'client'\nrate = '10Mbit'\ndelay = '5ms'\nqueue = 'drop-tail:50'\n\
         [tcp]\nmarker = 'spm'\n\
         [traffic.web]\nkind = 'web'\nclients = 'client'\nservers = 'a'\npages = '{}'\n\
         think_s = {{ distribution = 'exponential', mean = 0.4 }}\nmax_connections = 2",
        pages.display()
    );
    let text = scenario(&nodes, "", &rest).replace("drop-tail:30", "catnip-good:10");
    let results = lab.results(&text);
    assert_eq!(column(&results, "pages", "page").len(), 200);
    let expected = column(&results, "objects", "bytes");
    assert_eq!(expected.len(), 20 * 45);
    assert_eq!(column(&results, "objects", "body_bytes"), expected);
    assert!(column(&results, "objects", "status").iter().all(|&status| status == 200.0));
    let sum = |name| column(&results, "ports", name)[0];
    assert!(sum("dropped_low") > 20.0, "the queue is too short for so many");
    let (high, low) = (sum("dropped_high") / sum("arrived_high"), sum("dropped_low") / sum("arrived_low"));
    assert!(high < 0.6 * low, "HIGH packets are kept: {high} and {low} lost");
    // HTTP/1.1: two connections per client that outlive its pages, with or without requests that wait for answers, or new ones
    // for each page.
    for (keys, connections) in
        [("", 40..=40), ("\npipelining = true", 40..=40), ("\nkeep_alive = false", 300..=400)]
    {
        let again = lab.results(&text.replace("kind = 'web'", &format!("kind = 'web'\nhttp = '1.1'{keys}")));
        assert_eq!(column(&again, "objects", "body_bytes"), column(&again, "objects", "bytes"), "{keys}");
        assert_eq!(column(&again, "objects", "bytes").iter().sum::<f64>(), expected.iter().sum::<f64>());
        assert_eq!(
            column(&again, "connections", "body_bytes").iter().sum::<f64>(),
            expected.iter().sum::<f64>()
        );
        assert_eq!(column(&again, "pages", "page").len(), 200);
        let opened = column(&again, "connections", "status").len();
        assert!(connections.contains(&opened), "{keys}: {opened} connections");
    }
}

#[test]
fn a_real_client_is_served_by_a_simulated_host() {
    let Some(lab) = Lab::open("serve") else { return };
    let client = "import urllib.request, urllib.error, os, hashlib
base = 'http://' + os.environ['CATNIP_A'] + ':8080'
for n in (0, 7, 100_000):
    body = urllib.request.urlopen(f'{base}/files/{n}').read()
    assert len(body) == n, n
    open(f'got-{n}', 'wb').write(body)
try:
    urllib.request.urlopen(base + '/nothing')
    exit(9)
except urllib.error.HTTPError as error:
    assert error.code == 404
try:
    urllib.request.urlopen('http://' + os.environ['CATNIP_A'] + ':81/')
    exit(8)
except urllib.error.URLError as error:
    assert isinstance(error.reason, ConnectionRefusedError), error
print(os.environ['CATNIP_HERE'])
exit(42)";
    fs::write(lab.dir.join("client.py"), client).unwrap();
    let nodes = "a = { kind = 'host' }\nb = { kind = 'host', address = '172.16.4.2', ends_run = true, \
                 command = ['sh', '-c', 'cd $CATNIP_SCENARIO && exec python3 client.py'] }";
    let traffic = "[traffic.files]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '10KB'\nport = 8080";
    let loss = "loss = 'bernoulli:0.05'";
    let text = scenario(nodes, loss, traffic);
    let output = lab.emulate(&text, &["--out", lab.dir.join("out").to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{}", told(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "172.16.4.2\n");
    let body = fs::read(lab.dir.join("got-100000")).unwrap();
    // Behind the header the alphabet goes on.
    assert!(body.windows(2).all(|pair| pair[1] == if pair[0] == b'z' { b'a' } else { pair[0] + 1 }));
    let table = SerializedFileReader::new(fs::File::open(lab.dir.join("out/connections.parquet")).unwrap());
    let integers = |row: Result<Row, _>| -> Vec<(String, u64)> {
        let row = row.unwrap();
        let integer = |(name, field): (&String, &Field)| match field {
            &Field::ULong(value) => Some((name.clone(), value)),
            _ => None,
        };
        row.get_column_iter().filter_map(integer).collect()
    };
    let rows: Vec<_> = table.unwrap().into_iter().map(integers).collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    let missing =
        [("status", 404), ("body_bytes", 0), ("whole", 1)].map(|(name, value)| (name.into(), value));
    assert!(rows.iter().any(|row| row.ends_with(&missing)), "{rows:?}");
}

#[test]
fn real_hosts_reach_each_other_and_refusals_do_not_stop_a_run() {
    let Some(lab) = Lab::open("both") else { return };
    let client = "python3 -c 'import urllib.request as r, os; print(len(r.urlopen(\"http://\" + os.environ[\"CATNIP_A\"] + \"/x\").read()))'";
    let server =
        "cd $CATNIP_DOCUMENTS; head -c 50000 /dev/zero > x; exec python3 -m http.server 80 2> /dev/null";
    let nodes = format!(
        "a = {{ kind = 'host', ready = 'tcp:80', command = ['sh', '-c', '{server}'] }}\n\
         b = {{ kind = 'host', ends_run = true, command = ['sh', '-c', \"\"\"{client}\"\"\"] }}"
    );
    let output = lab.emulate(&scenario(&nodes, "", ""), &[]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "50000\n");
    // Nobody listens at the real host.
    let nodes = "a = { kind = 'host', real = true }\nb = { kind = 'host' }";
    let traffic = "[traffic.file]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '10KB'";
    let results = lab.results(&scenario(nodes, "", traffic));
    assert_eq!(column(&results, "connections", "status"), [0.0]);
    assert_eq!(column(&results, "connections", "whole"), [0.0]);
    assert!(column(&results, "runs", "duration_s")[0] < 5.0);
}

/// A real client, and what it says to a simulated server of a traffic group; the run ends with it.
fn python_client(lab: &Lab, program: &str, traffic: &str) -> Value {
    // The run ends with the program; what is on its way then has arrived before.
    let program = format!("{program}\nimport time\ntime.sleep(0.5)\n");
    fs::write(lab.dir.join("client.py"), program).unwrap();
    let nodes = "a = { kind = 'host' }\nb = { kind = 'host', ends_run = true, \
                 command = ['sh', '-c', 'cd $CATNIP_SCENARIO && exec python3 client.py'] }";
    lab.results(&scenario(nodes, "", traffic))
}

/// The same the other way round: a real server at a port.
fn python_server(lab: &Lab, program: &str, port: u16, traffic: &str) -> Value {
    fs::write(lab.dir.join("server.py"), program).unwrap();
    let nodes = format!(
        "a = {{ kind = 'host', ready = 'tcp:{port}', \
         command = ['sh', '-c', 'cd $CATNIP_SCENARIO && exec python3 server.py'] }}\nb = {{ kind = 'host' }}"
    );
    lab.results(&scenario(&nodes, "", traffic).replace("'60s'", "'4s'"))
}

/// A simulated server that speaks HTTP/1.1.
const WEB_SERVER: &str = "
[traffic.web]
kind = 'web'
clients = 'b'
servers = 'a'
http = '1.1'
think_s = { distribution = 'constant', value = 0 }
server_delay_s = { distribution = 'exponential', mean = 0.01 }
[traffic.web.generate]
pages = 1
seed = 1
html_bytes = { distribution = 'constant', value = 1000 }
images = { distribution = 'constant', value = 0 }
image_bytes = { distribution = 'constant', value = 1 }
";

/// Reads answers from a file, and knows what bodies should be.
const READ_ANSWERS: &str = "
import http.client, os, socket
host = os.environ['CATNIP_A']
body = lambda n: (b'abcdefghijklmnopqrstuvwxyz' * (n // 26 + 1))[:n]
def answer(file):
    status = int(file.readline().split()[1])
    length = None
    while (line := file.readline().strip()):
        name, value = line.split(b': ')
        if name.lower() == b'content-length':
            length = int(value)
    return status, file.read(length)
def ask(*paths):
    return b''.join(f'GET {path} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode() for path in paths)
";

#[test]
fn a_real_client_asks_on_over_a_connection_that_a_simulated_server_keeps() {
    let Some(lab) = Lab::open("persistent") else { return };
    let client = format!(
        "{READ_ANSWERS}
sizes = (0, 1, 26, 5000, 70000, 3)
talk = http.client.HTTPConnection(host, 80, timeout=30)
talk.connect()
sock = talk.sock
for n in sizes:
    talk.request('GET', f'/files/{{n}}')
    got = talk.getresponse()
    assert (got.status, got.version, got.read()) == (200, 11, body(n)), n
for path, status in (('/nothing', 404), ('/1/0', 200)):
    talk.request('GET', path)
    got = talk.getresponse()
    assert got.status == status and len(got.read()) == (1000 if status == 200 else 0), path
assert talk.sock is sock
talk.close()
# All requests at once, a missing document among them.
raw = socket.create_connection((host, 80), 30)
raw.sendall(ask(*(f'/{{n}}' for n in sizes), '/nothing', '/9'))
file = raw.makefile('rb')
for n in sizes:
    assert answer(file) == (200, body(n)), n
assert answer(file) == (404, b'')
assert answer(file) == (200, body(9))
file.close()
raw.close()
"
    );
    let results = python_client(&lab, &client, WEB_SERVER);
    let mut bytes = column(&results, "connections", "body_bytes");
    bytes.sort_by(f64::total_cmp);
    assert_eq!(bytes, [75_030.0 + 9.0, 75_030.0 + 1000.0]);
}

#[test]
fn a_real_client_that_has_said_all_still_gets_its_answers() {
    let Some(lab) = Lab::open("half") else { return };
    let client = format!(
        "{READ_ANSWERS}
for sizes in ((20000,), (5, 20000, 0, 7)):
    raw = socket.create_connection((host, 80), 30)
    raw.sendall(ask(*(f'/{{n}}' for n in sizes)))
    raw.shutdown(socket.SHUT_WR)
    file = raw.makefile('rb')
    for n in sizes:
        assert answer(file) == (200, body(n)), n
    assert file.read() == b'', 'and then it closes'
"
    );
    let results = python_client(&lab, &client, WEB_SERVER);
    let mut bytes = column(&results, "connections", "body_bytes");
    bytes.sort_by(f64::total_cmp);
    assert_eq!(bytes, [20_000.0, 20_012.0]);
    assert_eq!(column(&results, "connections", "whole"), [1.0, 1.0]);
}

#[test]
fn a_simulated_typist_sees_what_a_real_server_repeats() {
    let Some(lab) = Lab::open("typist") else { return };
    let server = "
import socket, threading
def repeat(talk):
    while (said := talk.recv(65536)):
        talk.sendall(said)
    talk.close()
door = socket.create_server(('', 7))
while True:
    threading.Thread(target=repeat, args=(door.accept()[0],)).start()
";
    let traffic = "[traffic.telnet]\nkind = 'telnet'\nclients = 'b'\nservers = 'a'\nbytes = 80\n\
                   pause_s = { distribution = 'constant', value = 0.1 }";
    let results = python_server(&lab, server, 7, traffic);
    let delays = column(&results, "echoes", "time_s");
    // A keystroke every 100 ms for 4 s; an echo takes two ways of 5 ms and 2 x 132 bytes at 10 Mbit/s, and the server's time.
    assert!((30..=40).contains(&delays.len()), "{} echoes", delays.len());
    assert!(delays.iter().all(|delay| *delay > 0.0102), "{delays:?}");
    let median = {
        let mut sorted = delays.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    assert!(median < 0.05, "{median}");
}

#[test]
fn a_real_typist_sees_what_a_simulated_server_repeats() {
    let Some(lab) = Lab::open("repeat") else { return };
    let client = "
import os, socket, threading
talk = socket.create_connection((os.environ['CATNIP_A'], 7), 30)
file = talk.makefile('rb')
for line in (b'login\\n', b'ls -l\\n', b'x' * 5000 + b'\\n', b'exit\\n'):
    talk.sendall(line)
    assert file.readline() == line
# Much at once, and then the end.
much = bytes(range(256)) * 1000
threading.Thread(target=lambda: (talk.sendall(much), talk.shutdown(socket.SHUT_WR))).start()
assert file.read() == much
";
    let traffic = "[traffic.telnet]\nkind = 'telnet'\nclients = 'b'\nservers = 'a'\n\
                   pause_s = { distribution = 'constant', value = 1 }";
    let results = python_client(&lab, client, traffic);
    let bytes = 6.0 + 6.0 + 5001.0 + 5.0 + 256_000.0;
    assert_eq!(column(&results, "connections", "body_bytes"), [bytes]);
    assert_eq!(column(&results, "connections", "whole"), [1.0]);
}

#[test]
fn each_of_two_answers_in_one_segment_belongs_to_its_own_object() {
    let Some(lab) = Lab::open("pair") else { return };
    // The answers to ten pipelined requests are sent at once; each second one is a refusal.
    let server = "
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, wbufsize = 'HTTP/1.1', 1 << 16
    answers = 0
    def log_message(self, *args):
        pass
    def do_GET(self):
        object = int(self.path[1:])
        self.send_response(404 if object % 2 else 200)
        self.send_header('Content-Length', str(object))
        self.end_headers()
        self.wfile.write(b'x' * object)
    def handle_one_request(self):
        # What is written stays in the buffer until there is nothing more to read.
        wfile, self.answers = self.wfile, self.answers + 1
        flush = wfile.flush
        wfile.flush = lambda: flush() if self.answers in (1, 11) else None
        super().handle_one_request()
http.server.ThreadingHTTPServer(('', 80), Handler).serve_forever()
";
    let traffic = READERS
        .replace("max_connections = 2", "max_connections = 1\npipelining = true")
        .replace("'/{bytes}'", "'/{object}'")
        .replace("pages = 2", "pages = 1");
    let results = python_server(&lab, server, 80, &traffic);
    let objects = column(&results, "objects", "object");
    assert_eq!(objects, (0..11).map(f64::from).collect::<Vec<f64>>());
    assert_eq!(column(&results, "objects", "body_bytes"), objects);
    let status = objects.iter().map(|object| if object % 2.0 == 1.0 { 404.0 } else { 200.0 });
    assert_eq!(column(&results, "objects", "status"), status.collect::<Vec<f64>>());
}

/// Two pages of eleven objects, over connections that stay open.
const READERS: &str = "
[traffic.web]
kind = 'web'
clients = 'b'
servers = 'a'
http = '1.1'
max_connections = 2
paths = '/{bytes}'
think_s = { distribution = 'constant', value = 0.01 }
[traffic.web.generate]
pages = 2
seed = 1
html_bytes = { distribution = 'constant', value = 3000 }
images = { distribution = 'constant', value = 10 }
image_bytes = { distribution = 'uniform', minimum = 1, maximum = 9000 }
";

/// Answers a path that is a number with so many bytes.
const PYTHON_SERVER: &str = "
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    answers = 0
    def log_message(self, *args):
        pass
    def do_GET(self):
        body = (b'abcdefghijklmnopqrstuvwxyz' * 4000)[:int(self.path[1:])]
        self.send_response(200)
        self.answer(body)
        self.wfile.flush()
";

const SERVES: &str = "
http.server.ThreadingHTTPServer(('', 80), Handler).serve_forever()
";

#[track_caller]
fn all_objects_are_whole(results: &Value) {
    let bytes = column(results, "objects", "bytes");
    assert_eq!(bytes.len(), 22);
    assert_eq!(column(results, "objects", "body_bytes"), bytes);
    assert_eq!(column(results, "objects", "whole"), [1.0; 22]);
    assert_eq!(column(results, "pages", "page").len(), 2);
}

#[test]
fn a_real_server_may_answer_in_chunks() {
    let Some(lab) = Lab::open("chunks") else { return };
    let answer = "
    def answer(self, body):
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        for at in range(0, len(body), 777):
            part = body[at:at + 777]
            self.wfile.write(b'%x;note=1\\r\\n%s\\r\\n' % (len(part), part))
        self.wfile.write(b'0\\r\\nTrailer: yes\\r\\n\\r\\n')
";
    let server = format!("{PYTHON_SERVER}{answer}{SERVES}");
    for pipelining in [false, true] {
        let traffic = READERS.replace("http = '1.1'", &format!("http = '1.1'\npipelining = {pipelining}"));
        let results = python_server(&lab, &server, 80, &traffic);
        all_objects_are_whole(&results);
        assert_eq!(column(&results, "connections", "whole"), [1.0, 1.0]);
    }
}

#[test]
fn what_a_real_server_leaves_unanswered_is_asked_for_again() {
    let Some(lab) = Lab::open("limit") else { return };
    // It closes behind its third answer, and says so before or not.
    for (says, pipelining) in [("True", false), ("False", false), ("True", true), ("False", true)] {
        let answer = format!(
            "
    def answer(self, body):
        self.answers += 1
        self.send_header('Content-Length', str(len(body)))
        if self.answers == 3 and {says}:
            self.send_header('Connection', 'close')
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.answers == 3
"
        );
        let server = format!("{PYTHON_SERVER}{answer}{SERVES}");
        let traffic = READERS.replace("http = '1.1'", &format!("http = '1.1'\npipelining = {pipelining}"));
        let results = python_server(&lab, &server, 80, &traffic);
        all_objects_are_whole(&results);
        // Three answers for each connection, but perhaps the last ones.
        let connections = column(&results, "connections", "status").len();
        assert!((8..=10).contains(&connections), "{connections}");
    }
}

#[test]
fn without_real_hosts_it_is_the_simulators_run_in_real_time() {
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let file = scenarios::file("catnip-e11.toml");
    let scenario = Scenario::load(&file).unwrap();
    for variant in scenario.variants() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catnip-emu"));
        command.arg("emulate").arg(&file).args(["--tolerance", "60s", "--json", "--variant", variant]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let results: Value = serde_json::from_slice(&output.stdout).unwrap();
        let log = scenario.plan(variant).unwrap().run(1, Log::default()).into_watch().0;
        let received: Vec<f64> = log
            .iter()
            .filter_map(|(_, event)| match event {
                Event::Connection(connection) => Some(connection.received.as_secs()),
                _ => None,
            })
            .collect();
        assert_eq!(column(&results, "connections", "received_s"), received, "{variant}");
        let duration = column(&results, "runs", "duration_s")[0];
        assert!(duration >= received[0], "{duration} s in real time");
    }
    drop(turn);
}

#[test]
fn errors_are_one_line() {
    let Some(lab) = Lab::open("errors") else { return };
    let node = |a: &str| format!("a = {{ kind = 'host', {a} }}\nb = {{ kind = 'host', real = true }}");
    for (a, code, message) in [
        ("command = ['no-such-command']", 127, "error: node.a.command: no-such-command: command not found"),
        ("command = ['/etc/passwd']", 126, "error: node.a.command: /etc/passwd: cannot be executed"),
        (
            "command = ['false'], ready = 'tcp:80'",
            2,
            "error: node.a.ready: the command has ended with code 1",
        ),
    ] {
        let output = lab.emulate(&scenario(&node(a), "", ""), &[]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.starts_with(message) && stderr.lines().count() == 1, "{stderr}");
    }
    let output = lab.emulate(&scenario(&node("command = ['true']"), "", ""), &["--variant", "x"]).output();
    let stderr = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
    assert!(stderr.contains("no variant \"x\"; there are default"), "{stderr}");
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if happened() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited in vain: {what}");
}

fn user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

/// Processes that have this word on their command line.
fn processes_with(word: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let has_word = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    processes.filter(has_word).count()
}

#[test]
fn nothing_is_left_behind() {
    let Some(lab) = Lab::open("cleanup") else { return };
    let mark = format!("60.{}", std::process::id());
    let said = lab.dir.join("documents");
    // It starts another process in the background, which ignores polite requests.
    let server = format!(
        "echo $CATNIP_DOCUMENTS > {}; (trap '' TERM HUP INT; sleep {mark}; sleep {mark}) & exec sleep {mark}",
        said.display()
    );
    let nodes = format!(
        "a = {{ kind = 'host', command = ['sh', '-c', \"{server}\"] }}\nb = {{ kind = 'host', real = true }}"
    );
    for (signal, code) in [(libc::SIGTERM, Some(143)), (libc::SIGINT, Some(130)), (libc::SIGKILL, None)] {
        let mut command = lab.emulate(&scenario(&nodes, "", ""), &["-q"]);
        let mut emulator = command.stdout(Stdio::null()).spawn().unwrap();
        wait_until("the commands start", || processes_with(&mark) >= 3);
        let documents = PathBuf::from(fs::read_to_string(&said).unwrap().trim());
        assert!(documents.exists());
        // Another run does not take them for left over ones, even if it knows no process of ours.
        let rights = if user() == 0 { "" } else { "--user --map-root-user" };
        lab.another_run(&format!("unshare {rights} --pid --fork --mount-proc"));
        assert!(documents.exists());
        sys::kill(emulator.id(), signal).unwrap();
        assert_eq!(emulator.wait().unwrap().code(), code, "{signal}");
        wait_until("all processes end", || processes_with(&mark) == 0);
        if signal == libc::SIGKILL {
            // The next run removes what this one could not.
            lab.another_run("");
        }
        assert!(!documents.exists(), "{signal}");
    }
}

#[test]
fn servers_that_change_their_user_read_the_documents() {
    let Some(lab) = Lab::open("workers") else { return };
    if Command::new("nginx").arg("-v").output().is_err() {
        return skipped("nginx is not installed");
    }
    // Its master is who started it, its workers are those of the distribution.
    let server = "cd $CATNIP_DOCUMENTS; printf %s \
                  'daemon off; pid nginx.pid; events {} http { access_log off; server { listen 80; root .; } }' \
                  > nginx.conf; exec nginx -p $PWD -c $PWD/nginx.conf -e stderr";
    let nodes = format!(
        "a = {{ kind = 'host', ready = 'tcp:80', command = ['sh', '-c', \"\"\"{server}\"\"\"] }}\n\
         b = {{ kind = 'host' }}"
    );
    let traffic =
        "[traffic.file]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '9KB'\npaths = '/deep/{bytes}'";
    let emulate = lab.emulate(&scenario(&nodes, "", traffic), &["--json"]);
    let mut strict = Command::new("sh");
    strict.args(["-c", "umask 077; exec \"$0\" \"$@\""]).arg(emulate.get_program()).args(emulate.get_args());
    let output = strict.output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(column(&results, "connections", "status"), [200.0], "{}", told(&output));
    assert_eq!(column(&results, "connections", "body_bytes"), [9216.0]);
}

#[test]
fn documents_are_not_put_where_somebody_else_waits_for_them() {
    let Some(lab) = Lab::open("documents") else { return };
    let said = lab.dir.join("documents");
    let nodes = format!(
        "a = {{ kind = 'host', ends_run = true, command = ['sh', '-c', 'ls -dn $CATNIP_DOCUMENTS > {}'] }}\n\
         b = {{ kind = 'host', real = true }}",
        said.display()
    );
    let mut names = Vec::new();
    for trap in ["mkdir -m 777 $TMPDIR/catnip-documents-$$-0", "ln -s $TMPDIR $TMPDIR/catnip-documents-$$-0"]
    {
        let emulate = lab.emulate(&scenario(&nodes, "", ""), &["-q"]);
        let mut command = Command::new("sh");
        // The emulator is the same process, so its number is known before it starts.
        command.arg("-c").arg(format!("umask 077; {trap}; exec \"$0\" \"$@\""));
        command.arg(emulate.get_program()).args(emulate.get_args()).env("TMPDIR", &lab.dir);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let listed = fs::read_to_string(&said).unwrap();
        let words: Vec<&str> = listed.split_whitespace().collect();
        let (modes, owner, name) = (words[0], words[2], *words.last().unwrap());
        assert!(modes.starts_with("drwxr-xr-x"), "{listed}");
        assert_eq!(owner, user().to_string());
        assert!(name.starts_with(lab.dir.join("catnip-documents-").to_str().unwrap()), "{listed}");
        names.push(name.to_string());
    }
    assert!(names.iter().all(|name| !Path::new(name).exists()), "{names:?}");
    // Nobody could have foreseen the second one from the first, or either from the number of a process.
    assert_ne!(names[0], names[1]);
    assert!(names.iter().all(|name| !name.ends_with("-0")), "{names:?}");
}
