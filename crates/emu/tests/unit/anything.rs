//! Tests with hosts that send arbitrary data: inputs found by fuzzing, random scripts, and floods.

use crate::fuzz;
use crate::hex;
use catnip_base::{Rng, Stream};
use catnip_lab::Scenario;
use proptest::prelude::*;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Replays the files of `tests/corpus`. Each file contains a script of [`fuzz::socket`] in hexadecimal and its expected result; `#` begins
/// a comment. Scripts that have revealed a defect belong there. `CATNIP_BLESS=1` makes the present results the expected ones.
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
        let actual = format!("expect: {} {} bytes,{}", trace.effects, trace.bytes, trace.sent);
        if std::env::var_os("CATNIP_BLESS").is_some() {
            let mut blessed: String = script.iter().fold(String::new(), |text, line| text + line + "\n");
            writeln!(blessed, "{actual}").unwrap();
            fs::write(&file, blessed).unwrap();
        } else {
            assert_eq!(expected, [actual], "{}", file.display());
        }
    }
}

/// Replays inputs found by fuzzing, one per line. They are a minimal set of inputs of at most 300 bytes with the coverage of ten minutes of
/// fuzzing.
#[test]
fn what_fuzzing_has_reached_stays_in_order() {
    let (hosts, world) = (include_str!("../fuzz/hosts.hex"), include_str!("../fuzz/world.hex"));
    assert!(hosts.lines().count() > 500 && world.lines().count() > 500);
    for script in hosts.lines() {
        fuzz::socket(&hex::bytes(script));
    }
    let scenario = Scenario::parse(Path::new("x.toml"), EXTERNAL_HOST).unwrap();
    for script in world.lines() {
        fuzz::world(scenario.emulation("default").unwrap(), &hex::bytes(script));
    }
}

/// Scenario of an external host, a simulated server for it, and a simulated client that connects to it.
const EXTERNAL_HOST: &str = include_str!("../fuzz/external_host.toml");

/// Traffic groups in which the external host is a server or a client of Web pages and echoes.
const EXTERNAL_TRAFFIC: &str = "
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
    let scenario =
        Scenario::parse(Path::new("x.toml"), &format!("{EXTERNAL_HOST}{EXTERNAL_TRAFFIC}")).unwrap();
    let plan = || scenario.emulation("default").unwrap();
    for script in include_str!("../fuzz/world.hex").lines() {
        fuzz::world(plan(), &hex::bytes(script));
    }
    // The scripts answer the last packet with a SYN, an ACK, data, a FIN or a reset, mostly with correct sequence numbers.
    let mut rng = Rng::new(1, Stream::Workload(98));
    let server = (0..4).find(|&n| plan().topology().name(catnip_net::NodeId(n)) == "server").unwrap() as u8;
    let mut draw = |max: u32| (rng.uniform() * f64::from(max)) as u32;
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
                    let distance = [0, 0, 0, 0, 1, 255][draw(6) as usize];
                    let [high, low] = (draw(5) as u16 * 290).to_be_bytes();
                    script.extend([1, flags, 0, distance, 0, 0, high, low]);
                }
            }
        }
        fuzz::world(plan(), &script);
    }
}

#[test]
fn a_flood_of_syns_is_bounded_and_forgotten() {
    let scenario = Scenario::parse(Path::new("x.toml"), EXTERNAL_HOST).unwrap();
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

    /// Tests random scripts that begin with a handshake, since they reach more states of a socket.
    #[test]
    fn any_script_behind_a_handshake_leaves_a_socket_in_order(
        passive: bool,
        commands in prop::collection::vec((0u8..5, prop::collection::vec(any::<u8>(), 12)), 0..120),
    ) {
        let mut script = vec![u8::from(passive)];
        let flags = if passive { 0x02 } else { 0x12 };
        script.extend([1, flags, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 7, 1, 0x10, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0]);
        for (command, mut bytes) in commands {
            // Most distances from the expected sequence numbers are small, so that most segments have an effect.
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
        let scenario = Scenario::parse(Path::new("x.toml"), EXTERNAL_HOST).unwrap();
        fuzz::world(scenario.emulation("default").unwrap(), &script);
    }
}
