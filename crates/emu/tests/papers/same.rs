//! Tests that the emulator without external hosts has exactly the events of the simulator, however late its clock is.

use crate::brief::brief;
use crate::results::{column, output_text};
use crate::scenarios;
use catnip_base::{Rng, Span, Stream, Time};
use catnip_emu::emulate;
use catnip_lab::{LogRequest, PacketLog, Scenario, write_logs};
use catnip_net::Packet;
use catnip_sim::record::{Activity, Served};
use catnip_sim::watch::{Origin, Step};
use catnip_sim::{Event, Watch};
use catnip_wire::pcapng::Reader;
use catnip_wire::{Ip, Tcp, TcpFlags, TcpHeader, TcpSackBlocks, ip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

#[derive(Debug, Default)]
struct Log(Vec<(Time, Recorded)>);

/// Event of a run, in a form that can be compared.
#[derive(Debug, PartialEq)]
enum Recorded {
    Event(Event),
    OfServer(Served),
    Activity(String),
}

impl Watch for Log {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        self.0.push((now, Recorded::Event(*event)));
    }
    fn served(&mut self, now: Time, what: &Served) {
        self.0.push((now, Recorded::OfServer(*what)));
    }
    fn activity(&mut self, now: Time, activity: &dyn Activity) {
        self.0.push((now, Recorded::Activity(format!("{activity:?}"))));
    }
}

/// Compares a run of the simulator with the same run of the emulator over real packets, advanced in steps of random length. Returns the
/// number of events.
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

/// Watch that keeps a copy of every packet that a host sends.
#[derive(Debug, Default)]
struct Leaving(Vec<(Time, Vec<u8>)>);

impl Watch for Leaving {
    const PACKETS: bool = false;
    fn record(&mut self, _now: Time, _event: &Event) {}
    fn packet(&mut self, now: Time, _packet: &Packet, _origin: Origin, step: Step<'_>) {
        if let Step::Sent(bytes) = step {
            self.0.push((now, bytes.to_vec()));
        }
    }
}

/// Returns the source, the traffic class, the header and the data length of a segment, with numbers relative to the SYNs of the two ends.
/// Ports are set to zero, since they are arbitrary, and PSH is removed, since only a socket sets it.
fn shown(bytes: &[u8], initial: &mut BTreeMap<IpAddr, u32>) -> (IpAddr, u8, TcpHeader, usize) {
    let ip = Ip::parse(bytes).unwrap();
    let tcp = Tcp::parse(ip.transport(ip::TCP).unwrap()).unwrap();
    let header = tcp.header().unwrap();
    if header.flags.contains(TcpFlags::SYN) {
        initial.insert(ip.source(), header.sequence);
    }
    let [ours, theirs] = [ip.source(), ip.destination()].map(|end| initial.get(&end).copied().unwrap_or(0));
    let count = |number: u32| number.wrapping_sub(theirs);
    let sack = header.options.sack.as_slice().iter().map(|&(from, to)| (count(from), count(to)));
    let mut options = header.options;
    options.sack = TcpSackBlocks::new(sack);
    let counted = TcpHeader {
        source_port: 0,
        destination_port: 0,
        sequence: header.sequence.wrapping_sub(ours),
        acknowledgement: count(header.acknowledgement),
        flags: TcpFlags(header.flags.0 & !TcpFlags::PSH.0),
        options,
        ..header
    };
    (ip.source(), ip.traffic_class(), counted, tcp.payload().len())
}

#[test]
fn a_capture_of_the_simulator_has_the_packets_of_the_emulator() {
    let axis = "[[axis]]\nkey = 'tcp.recovery'\nvalues = ['sack', 'newreno', 'reno', 'tahoe']\n";
    let marked = BULK.replace("profile = 'rfc'", "profile = 'rfc'\nmarker = 'spm'");
    let scenario = Scenario::parse(Path::new("x.toml"), &format!("{marked}{axis}")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (path, at) = (folder.path().join("x.pcapng"), ["client".to_string(), "server".to_string()]);
    for variant in scenario.variants() {
        let plan = scenario.plan(variant).unwrap();
        let mut world = emulate::world(plan, 1, 1500, (), Leaving::default());
        world.advance(Time::ZERO + plan.duration());
        let packets = Some(PacketLog { path: &path, at: &at });
        write_logs(&scenario, &LogRequest { variant, seed: 1, packets, qlog: None }, &mut || true).unwrap();

        let capture = std::fs::read(&path).unwrap();
        let mut reader = Reader::new(&capture[..]).unwrap();
        let (mut ours, mut initial) = (Vec::new(), BTreeMap::new());
        while let Some(record) = reader.next_record().unwrap() {
            let seen = shown(record.frame, &mut initial);
            if seen.0 == plan.addresses()[record.interface as usize] {
                ours.push((Time::from_nanos(record.nanos as u64), seen));
            }
        }
        let mut initial = BTreeMap::new();
        let theirs = world.into_watch().0;
        let theirs: Vec<_> = theirs.iter().map(|(at, bytes)| (*at, shown(bytes, &mut initial))).collect();
        assert!(theirs.len() > 3000, "{}", theirs.len());
        let differs = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
        if let Some(at) = differs {
            panic!("{variant}: packet {at}: {:?}\nin the emulator {:?}", ours[at], theirs[at]);
        }
        assert_eq!(ours.len(), theirs.len(), "{variant}");
    }
}

/// Scenario with Telnet, Web and FTP traffic over one lossy link, in both directions.
const TALK: &str = concat!(
    "duration = '30s'\n",
    include_str!("../../../lab/tests/lossy_link.toml"),
    "marker = 'tcp-state'
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
"
);

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
        // Compares the first and the last variant.
        for variant in variants.first().into_iter().chain(variants[1.min(variants.len())..].last()) {
            println!("{} {variant}", path.display());
            compared += compare(&scenario, variant, 1);
        }
    }
    assert!(compared > 100_000, "{compared}");
}

#[test]
fn without_real_hosts_it_is_the_simulators_run_in_real_time() {
    let file = scenarios::file("catnip-e11.toml");
    let scenario = Scenario::load(&file).unwrap();
    for variant in scenario.variants() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catnip-emu"));
        command.arg("emulate").arg(&file).args(["--tolerance", "60s", "--json", "--variant", variant]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", output_text(&output));
        let results: Value = serde_json::from_slice(&output.stdout).unwrap();
        let log = scenario.plan(variant).unwrap().run(1, Log::default()).into_watch().0;
        let received: Vec<f64> = log
            .iter()
            .filter_map(|(_, event)| match event {
                Recorded::Event(Event::Connection(connection)) => Some(connection.received.as_secs()),
                _ => None,
            })
            .collect();
        assert_eq!(column(&results, "connections", "received_s"), received, "{variant}");
        let duration = column(&results, "runs", "duration_s")[0];
        assert!(duration >= received[0], "{duration} s in real time");
    }
}
