//! Measures one variant of a scenario: `bench FILE VARIANT [ROUNDS]` prints a JSON line per round with the wall time
//! of the event loop, packet-hops, and the peak memory of this process.
#![allow(clippy::disallowed_methods, reason = "a benchmark is a host: it reads the wall clock")]

use catnip_lab::{Plan, Scenario};
use catnip_net::PortId;
use catnip_sim::Memory;
use std::path::Path;
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, variant, rest @ ..] = args.as_slice() else {
        eprintln!("usage: bench FILE VARIANT [ROUNDS]");
        std::process::exit(2);
    };
    let rounds: u32 = rest.first().map_or(1, |text| text.parse().expect("ROUNDS is a number"));
    let scenario = Scenario::load(Path::new(file)).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        std::process::exit(2);
    });
    let plan = scenario.plan(variant).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        std::process::exit(2);
    });
    let mut memory = Memory::default();
    for number in 1..=rounds {
        let start = Instant::now();
        let hops;
        (hops, memory) = round(plan, number.into(), memory);
        let wall_s = start.elapsed().as_secs_f64();
        println!(
            "{{\"variant\": {variant:?}, \"wall_s\": {wall_s:.6}, \"hops\": {hops}, \"ns_per_hop\": {:.2}, \"peak_kb\": {}}}",
            wall_s * 1e9 / hops as f64,
            peak_kb()
        );
    }
    // Exits without freeing the memory, since that work would count in the last round.
    std::process::exit(0);
}

/// Executes one run with the memory of the previous run. Returns its packet-hops and the memory for the next run. `benches/gate.py` starts
/// counting at this function and finds it by its name.
#[inline(never)]
fn round(plan: &Plan, seed: u64, memory: Memory) -> (u64, Memory) {
    let sim = plan.run_in(seed, (), memory);
    let ports = plan.topology().ports().len() as u32;
    let hops = (0..ports).map(|port| sim.fabric().counters(PortId(port)).delivered).sum();
    (hops, sim.into_memory())
}

/// Returns the peak resident memory of this process, kB.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
