//! Whole scenarios in the emulator's world: without real hosts it is the simulator, whatever the clock does.

use catnip_base::{Rng, Span, Stream, Time};
use catnip_emu::emulate::{Audience, World};
use catnip_lab::Scenario;
use catnip_sim::{Event, Recorder};
use std::path::{Path, PathBuf};

#[derive(Debug, Default)]
struct Log(Vec<(Time, Event)>);

impl Recorder for Log {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        self.0.push((now, *event));
    }
}

impl Audience for Log {}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// The same run by the simulator and, over real packets, by the emulator, which is told of time in steps of any length.
#[track_caller]
fn compare(scenario: &Scenario, variant: &str, seed: u64) -> usize {
    let plan = scenario.plan(variant).unwrap();
    let sim = plan.run(seed, Log::default());
    let end = Time::ZERO + plan.duration();
    let mut world = World::new(plan, seed, 1500, Log::default());
    let mut steps = Rng::new(seed, Stream::Workload(99));
    let mut next = world.advance(Time::ZERO, &mut ());
    while next <= end {
        let late = Span::from_secs_f64(steps.exponential(0.02));
        next = world.advance((next + late).min(end), &mut ());
    }
    assert_eq!(world.packets_inside() as u64, world.fabric().packets_inside(), "{variant}");
    assert_eq!(world.data_segments(), sim.data_segments(), "{variant}");
    let (ours, theirs) = (world.into_audience().0, sim.into_recorder().0);
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
loss_back = 'bernoulli:0.03'
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

#[test]
fn every_scenario_of_the_simulator_is_the_same_in_the_emulator() {
    let files = std::fs::read_dir(scenarios()).unwrap().map(|entry| entry.unwrap().path());
    let mut compared = 0;
    for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
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
