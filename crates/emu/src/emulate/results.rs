//! Tables of a run, with the same columns as the simulator's, and the certificates of its links.

use super::files;
use super::recorder::{NamedLink, RunRecorder};
use super::run::{EmulatedWorld, Finished};
use crate::datapath::frames::{Egress, Frames};
use crate::external::ExternalPeers;
use crate::link::Outcome;
use crate::observe::certificate::{Certificate, Cores, Tolerance, Verdict};
use crate::observe::monitor::GateCounts;
use catnip_base::Histogram;
use catnip_base::Span;
use catnip_lab::rows::{EmulatorStats, Run};
use catnip_lab::{Plan, Table, TableName, Tables};
use catnip_sim::World;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Results of an emulated run.
#[derive(Debug)]
pub struct Results {
    /// Tables by name.
    pub tables: BTreeMap<TableName, Table>,
    /// Certificates of the named links, and of the run as a whole.
    pub certificate: RunCertificate,
}

/// Certificate of a run: accuracy of the emulation compared with its tolerance.
#[derive(Clone, Debug, Serialize)]
pub struct RunCertificate {
    /// Verdict on the run.
    pub verdict: Verdict,
    /// Reasons for a red verdict that concern no particular link.
    pub failures: Vec<String>,
    /// Number of packets inside the network at the end of the run, counted in two ways that must agree: by the network, and by buffers in
    /// use.
    pub packets_inside: [u64; 2],
    /// Number of packets for connections and services that do not exist.
    pub stray_packets: u64,
    /// Number of packets for simulated hosts that were dropped for a wrong checksum.
    pub damaged_packets: u64,
    /// Use of the cores during the run.
    #[serde(flatten)]
    pub cores: Cores,
    /// Lateness of the delivery of packets to simulated hosts, us: median, 99th percentile, maximum.
    pub lateness_us: [f64; 3],
    /// Certificates of named links; up is from `from` to `to`.
    pub links: Vec<LinkCertificate>,
    /// Certificates of external hosts.
    pub hosts: Vec<HostCertificate>,
}

/// Certificate of one link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkCertificate {
    /// Name of the link.
    pub name: String,
    /// Certificate of the link.
    pub certificate: Certificate,
}

/// Certificate of one external host.
#[derive(Clone, Debug, Serialize)]
pub struct HostCertificate {
    /// Name of the host.
    pub name: String,
    /// Number of packets written to the device of the host.
    pub written: u64,
    /// Number of packets that the device of the host did not accept.
    pub unwritable: u64,
    /// Number of packets from the host that the kernel has dropped before the emulator could read them.
    pub missed: u64,
    /// Lateness of the writes relative to their ideal times, us: median, 99th percentile, maximum.
    pub lateness_us: [f64; 3],
    /// Upper bound on the time that packets of the host waited before they were read, us: median, 99th percentile, maximum.
    pub waited_us: [f64; 3],
}

impl Results {
    /// Computes the tables and the certificate of a run that has finished.
    pub fn new(
        plan: &Plan,
        variant: usize,
        seed: u64,
        finished: &Finished,
        world: &EmulatedWorld,
        tolerance: Tolerance,
    ) -> Self {
        let run = Run { variant: variant as u64, seed };
        let emulator_stats = EmulatorStats {
            duration: finished.duration,
            cpu: finished.cpu.own,
            real_time: finished.timing_mode.real_time,
        };
        let recorder = world.watch();
        let bursts = recorder.bursts.iter().map(|_| TableName::BURSTS);
        let mut tables = Tables::new(&TableName::usual().into_iter().chain(bursts).collect::<Vec<_>>());
        recorder.records.fill(&mut tables, run, plan, world, finished.warm_up.as_ref(), Some(emulator_stats));
        recorder.bursts.iter().for_each(|bursts| bursts.fill(&mut tables, run, plan));
        let certificate = certify(seed, finished, world, tolerance);
        Self { tables: tables.into_map(), certificate }
    }

    /// Returns all results as one JSON document: tables by column, with the variant by name, and the certificate.
    pub fn json(&self, variant: &str) -> Value {
        let mut document = files::json(&self.tables, variant);
        document.insert("certificate".into(), json!(self.certificate));
        Value::Object(document)
    }
}

fn certify<O: Egress>(
    seed: u64,
    finished: &Finished,
    world: &World<Frames<O, ExternalPeers>, RunRecorder>,
    tolerance: Tolerance,
) -> RunCertificate {
    let us = |span: Span| span.as_nanos() as f64 / 1e3;
    let quantiles = |h: &Histogram| [us(h.quantile(0.5)), us(h.quantile(0.99)), us(h.max())];
    let mut failures = Vec::new();
    let inside = [world.fabric().packets_inside(), world.packets_out() as u64];
    if inside[0] != inside[1] {
        failures.push(format!("{} packets in the network, {} in memory", inside[0], inside[1]));
    }
    let hosts: Vec<HostCertificate> = finished
        .hosts
        .iter()
        .map(|host| {
            if host.missed > 0 {
                let count = host.missed;
                failures.push(format!(
                    "{}: the kernel dropped {count} packets that were not read in time",
                    host.name
                ));
            }
            if host.device.written[1] > 0 {
                failures.push(format!(
                    "{}: its device did not accept {} packets",
                    host.name, host.device.written[1]
                ));
            }
            HostCertificate {
                name: host.name.clone(),
                written: host.device.written[0],
                unwritable: host.device.written[1],
                missed: host.missed,
                lateness_us: quantiles(&host.device.lateness),
                waited_us: quantiles(&host.device.waited),
            }
        })
        .collect();
    let lateness_us = quantiles(&world.watch().lateness);
    let of_hosts = hosts.iter().flat_map(|host| {
        [(host.name.as_str(), "late by", host.lateness_us), (&host.name, "unread for", host.waited_us)]
    });
    for (name, problem, [_, p99, max]) in of_hosts.chain([("simulated hosts", "late by", lateness_us)]) {
        let limits = [(p99, "p99", tolerance.lateness_p99_ms), (max, "max", tolerance.stall_ms)];
        if let Some((us, quantile, limit)) = limits.into_iter().find(|(us, _, limit)| us / 1e3 > *limit) {
            failures.push(format!("{name}: packets {problem} {:.2} ms ({quantile} > {limit} ms)", us / 1e3));
        }
    }
    let links: Vec<LinkCertificate> = world
        .watch()
        .links
        .iter()
        .enumerate()
        .map(|(index, link)| certify_link(seed, finished, world, (index, link), tolerance))
        .collect();
    let verdict = |of: Verdict| links.iter().filter(|link| link.certificate.verdict == of).count();
    let is_used = world.watch().lateness.count() > 0 || hosts.iter().any(|host| host.written > 0);
    RunCertificate {
        verdict: if verdict(Verdict::Red) > 0 { Verdict::Red } else { Verdict::of(&failures, is_used) },
        failures,
        packets_inside: inside,
        stray_packets: world.medium().external.unmatched_packets(),
        damaged_packets: world.medium().external.damaged_packets(),
        cores: Cores::of(finished.cpu),
        lateness_us,
        links,
        hosts,
    }
}

fn certify_link<O: Egress>(
    seed: u64,
    finished: &Finished,
    world: &World<Frames<O, ExternalPeers>, RunRecorder>,
    (index, link): (usize, &NamedLink),
    tolerance: Tolerance,
) -> LinkCertificate {
    let directions = [0, 1]
        .map(|direction| (&world.watch().monitor.directions[2 * index + direction], GateCounts::default()));
    let held = link.ports.map(|port| u64::from(world.fabric().port(port).backlog().packets));
    let outcome = Outcome {
        changes: Vec::new(),
        code: finished.code,
        duration: finished.duration,
        cpu: finished.cpu,
        timing_mode: finished.timing_mode,
        wakeup_latency: finished.wakeup_latency.clone(),
        missed: [0; 2],
        broken: [0; 2],
        held,
        buffers_in_use: directions.iter().map(|(direction, _)| direction.inside()).sum(),
        ended_at: world.advanced_to(),
        early_end: None,
        congestion: None,
    };
    let wires = [&*link.wires[0], &*link.wires[1]];
    let certificate = Certificate::new(wires, seed, [None; 2], &outcome, directions, tolerance);
    LinkCertificate { name: link.name.clone(), certificate: Certificate { cores: None, ..certificate } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulate::recorder::DeviceStats;
    use crate::emulate::run::HostReport;
    use crate::timing::TimingMode;
    use catnip_lab::Scenario;
    use catnip_linux::clock::CpuUse;
    use std::path::Path;

    const ONE_EXTERNAL_HOST: &str = include_str!("../../tests/fuzz/external_host.toml");

    /// Returns the verdict and the reasons for a red verdict of a run without events, whose recorder and host report `change` has changed.
    fn failures(change: impl FnOnce(&mut RunRecorder, &mut HostReport)) -> (Verdict, Vec<String>) {
        let scenario = Scenario::parse(Path::new("external_host.toml"), ONE_EXTERNAL_HOST).unwrap();
        let plan = scenario.emulation("default").unwrap();
        let mut recorder = RunRecorder::new(plan, None, None);
        let mut host = HostReport { name: "real".into(), device: DeviceStats::default(), missed: 0 };
        change(&mut recorder, &mut host);
        let finished = Finished {
            code: 0,
            duration: Span::from_secs(1),
            cpu: CpuUse { own: Span::ZERO, idle_share: None },
            timing_mode: TimingMode { real_time: false, spin: Span::ZERO },
            wakeup_latency: Histogram::default(),
            hosts: vec![host],
            remarks: Vec::new(),
            early_end: None,
            warm_up: None,
        };
        let world = crate::emulate::world(plan, 1, 1500, (), recorder);
        let certificate = certify(1, &finished, &world, Tolerance::default());
        let of_links = certificate.links.iter().flat_map(|link| link.certificate.failures.clone());
        (certificate.verdict, certificate.failures.into_iter().chain(of_links).collect())
    }

    #[test]
    fn a_run_is_green_where_nothing_was_missed_late_or_lost_from_sight_and_grey_where_nothing_came() {
        assert_eq!(
            failures(|recorder, _| recorder.lateness.record(Span::ZERO)),
            (Verdict::Green, Vec::new())
        );
        assert_eq!(failures(|_, host| host.device.written[0] = 1), (Verdict::Green, Vec::new()));
        assert_eq!(failures(|_, _| ()), (Verdict::Grey, Vec::new()));
    }

    #[test]
    fn what_the_kernel_dropped_makes_a_run_red() {
        let (verdict, messages) = failures(|_, host| host.missed = 2);
        let expected = "real: the kernel dropped 2 packets that were not read in time";
        assert_eq!((verdict, messages), (Verdict::Red, vec![expected.into()]));
    }

    #[test]
    fn lateness_of_simulated_and_of_real_hosts_makes_a_run_red() {
        let late = Span::from_millis(6);
        let (verdict, messages) = failures(|recorder, _| recorder.lateness.record(late));
        assert_eq!((verdict, messages.len()), (Verdict::Red, 1));
        assert!(messages[0].starts_with("simulated hosts: packets late by 6."), "{messages:?}");
        let (verdict, messages) = failures(|_, host| host.device.lateness.record(late));
        assert_eq!((verdict, messages.len()), (Verdict::Red, 1));
        assert!(messages[0].starts_with("real: packets late by 6."), "{messages:?}");
        let (verdict, messages) = failures(|_, host| host.device.waited.record(late));
        assert_eq!((verdict, messages.len()), (Verdict::Red, 1));
        assert!(messages[0].starts_with("real: packets unread for 6."), "{messages:?}");
        let (verdict, messages) = failures(|_, host| host.device.written[1] = 3);
        assert_eq!((verdict, &messages[0][..]), (Verdict::Red, "real: its device did not accept 3 packets"));
        let soon = Span::from_millis(4);
        assert_eq!(failures(|recorder, _| recorder.lateness.record(soon)).0, Verdict::Green);
    }

    #[test]
    fn a_red_link_makes_a_run_red() {
        let (verdict, messages) = failures(|recorder, _| recorder.monitor.directions[1].entered[2] = 1);
        assert_eq!(verdict, Verdict::Red, "{messages:?}");
    }
}
