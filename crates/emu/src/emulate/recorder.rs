//! Data recorded during a run: users' pages, objects and connections, and measurements of each named link.

use crate::observe::capture::Capture;
use crate::observe::monitor::Monitor;
use catnip_base::Histogram;
use catnip_base::Time;
use catnip_lab::{Bursts, Plan, Records, TableName};
use catnip_linux::clock::Stopwatch;
use catnip_net::{NodeId, Packet, PortId, WireSpec};

use catnip_sim::record::Activity;
use catnip_sim::watch::{Gate, Origin, Step};
use catnip_sim::{Event, Watch, record};
use std::sync::Arc;

/// Watch that records the data from which the results are computed.
#[derive(Debug)]
pub struct RunRecorder {
    /// Records of users' pages, objects and connections.
    pub records: Records,
    /// Named links.
    pub links: Vec<NamedLink>,
    /// Measurements of both directions of each named link.
    pub monitor: Monitor,
    /// Lateness of the delivery of packets to simulated hosts.
    pub lateness: Histogram,
    /// Counters and delays at the devices of external hosts, by node.
    pub hosts: Vec<Served>,
    /// Capture of all packets.
    pub capture: Option<Capture>,
    /// Bursts in which simulated servers have sent.
    pub bursts: Option<Bursts>,
    /// Clock for measuring lateness. If it is `None`, all lateness is zero.
    stopwatch: Option<Stopwatch>,
}

/// Link with a name in the scenario.
#[derive(Debug)]
pub struct NamedLink {
    /// Name of the link.
    pub name: String,
    /// Ports of the two directions, `from` to `to` first.
    pub ports: [PortId; 2],
    /// Specified properties of the two directions.
    pub wires: [Arc<WireSpec>; 2],
}

/// Counters and delays at the device of an external host.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Number of packets written, and of packets that the device did not accept.
    pub written: [u64; 2],
    /// Lateness of the writes relative to their ideal times.
    pub lateness: Histogram,
    /// Upper bound on the time that packets of the host waited before they were read.
    pub waited: Histogram,
}

impl RunRecorder {
    /// Creates the watch of a run of this plan.
    pub fn new(plan: &Plan, stopwatch: Option<Stopwatch>, capture: Option<Capture>) -> Self {
        let ports = plan.topology().ports();
        let is_real = |node| plan.real_nodes().iter().any(|real| real.node == node);
        // Links with several instances have no certificates, which would be too many.
        let links = plan.ports().chunks_exact(2).filter_map(|both| {
            let [there, back] = both else { unreachable!("a chunk has two") };
            let of = [there.single()?, back.single()?];
            let wires = of.map(|port| ports[port.0 as usize].wire.clone());
            Some(NamedLink { name: there.name.clone(), ports: of, wires })
        });
        let links: Vec<NamedLink> = links.collect();
        let watched = links.iter().flat_map(|link| link.ports.into_iter().zip(&link.wires));
        let monitor =
            Monitor::new(watched.map(|(port, wire)| (port, wire.delay, is_real(ports[port.0 as usize].to))));
        Self {
            records: Records::new(&TableName::usual()),
            links,
            monitor,
            lateness: Histogram::default(),
            hosts: vec![Served::default(); plan.topology().node_count()],
            capture,
            bursts: None,
            stopwatch,
        }
    }

    /// Adds records of the bursts of simulated servers if `asked_for` is true.
    pub fn with_bursts(self, asked_for: bool) -> Self {
        Self { bursts: asked_for.then(Bursts::default), ..self }
    }
}

impl Watch for RunRecorder {
    const PACKETS: bool = true;

    fn record(&mut self, now: Time, event: &Event) {
        self.records.record(now, event);
        self.bursts.record(now, event);
    }

    fn activity(&mut self, now: Time, activity: &dyn Activity) {
        self.records.activity(now, activity);
    }

    fn served(&mut self, now: Time, what: &record::Served) {
        self.bursts.served(now, what);
    }

    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        self.capture.packet(now, packet, origin, step);
        self.monitor.packet(now, packet, origin, step);
        match step {
            Step::Delivered(_) => {
                let actual = self.stopwatch.map_or(now, |stopwatch| stopwatch.now());
                self.lateness.record(actual.since(now));
            }
            Step::Left { at, actual, written } => {
                let host = &mut self.hosts[at.0 as usize];
                host.written[usize::from(!written)] += 1;
                host.lateness.record(actual.since(now));
            }
            // Packets of simulated hosts do not wait in a device, so their waiting time is zero.
            Step::Sent(_) => self.hosts[origin.from.0 as usize].waited.record(origin.waited),
            Step::Entered(_)
            | Step::Passed(_)
            | Step::Copied(..)
            | Step::Corrupted(_)
            | Step::Dropped(..) => {}
        }
    }

    fn gate(&mut self, now: Time, at: NodeId, what: Gate<'_>) {
        self.capture.gate(now, at, what);
        self.monitor.gate(now, at, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Span;
    use catnip_lab::Scenario;
    use catnip_net::Route;
    use std::path::Path;

    #[test]
    fn lateness_is_counted_where_packets_are_heard_and_where_they_are_written() {
        let text = include_str!("../../tests/fuzz/stranger.toml");
        let scenario = Scenario::parse(Path::new("stranger.toml"), text).unwrap();
        let plan = scenario.emulation("default").unwrap();
        let real = plan.real_nodes()[0].node;
        // The clock runs, and the packet has the time zero, at which the clock started.
        let mut kept = RunRecorder::new(plan, Some(Stopwatch::start()), None);
        let packet = Packet::new(Time::ZERO, Route::default(), 100, 0);
        let origin = Origin { number: 0, at: Time::ZERO, from: real, waited: Span::ZERO };
        kept.packet(Time::ZERO, &packet, origin, Step::Delivered(real));
        assert!(kept.lateness.count() == 1 && kept.lateness.max() > Span::ZERO);
        let actual = Time::from_nanos(3_000_000);
        for written in [true, true, false] {
            let step = Step::Left { at: real, actual, written };
            kept.packet(Time::from_nanos(1_000_000), &packet, origin, step);
        }
        let served = &kept.hosts[real.0 as usize];
        assert_eq!((served.written, served.lateness.max()), ([2, 1], Span::from_millis(2)));
    }
}
