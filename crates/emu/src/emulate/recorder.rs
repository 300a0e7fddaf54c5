//! Data recorded during a run: users' pages, objects and connections, and measurements of each named link.

use crate::observe::capture::Capture;
use crate::observe::monitor::Monitor;
use catnip_base::Histogram;
use catnip_base::Time;
use catnip_lab::{Bursts, Plan, Records, TableName};
use catnip_linux::clock::Stopwatch;
use catnip_net::{NodeId, Packet, PortId, WireSpec};

use catnip_sim::record::Activity;
use catnip_sim::watch::{GatewayEvent, Origin, Step};
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
    pub hosts: Vec<DeviceStats>,
    /// Capture of all packets; `None` if no capture is requested.
    pub capture: Option<Capture>,
    /// Bursts in which simulated servers have sent data; `None` if they are not requested.
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
pub struct DeviceStats {
    /// Number of packets written to the device, and number of packets that the device did not accept.
    pub written: [u64; 2],
    /// Lateness of the writes relative to their ideal times.
    pub lateness: Histogram,
    /// Upper bound on the time that packets of the host waited before they were read.
    pub waited: Histogram,
}

impl RunRecorder {
    /// Creates the recorder of a run of `plan`.
    pub fn new(plan: &Plan, stopwatch: Option<Stopwatch>, capture: Option<Capture>) -> Self {
        let ports = plan.topology().ports();
        let is_external = |node| plan.external_nodes().iter().any(|external| external.node == node);
        // Links with several instances have no certificates, which would be too many.
        let links = plan.ports().chunks_exact(2).filter_map(|pair| {
            let [forward, reverse] = pair else { unreachable!("a chunk has two") };
            let of = [forward.single()?, reverse.single()?];
            let wires = of.map(|port| ports[port.0 as usize].wire.clone());
            Some(NamedLink { name: forward.name.clone(), ports: of, wires })
        });
        let links: Vec<NamedLink> = links.collect();
        let watched = links.iter().flat_map(|link| link.ports.into_iter().zip(&link.wires));
        let monitor = Monitor::new(
            watched.map(|(port, wire)| (port, wire.delay.min(), is_external(ports[port.0 as usize].to))),
        );
        Self {
            records: Records::new(&TableName::usual()),
            links,
            monitor,
            lateness: Histogram::default(),
            hosts: vec![DeviceStats::default(); plan.topology().node_count()],
            capture,
            bursts: None,
            stopwatch,
        }
    }

    /// Makes the recorder also record the bursts of simulated servers, if `enabled` is true.
    pub fn with_bursts(self, enabled: bool) -> Self {
        Self { bursts: enabled.then(Bursts::default), ..self }
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

    fn served(&mut self, now: Time, served: &record::Served) {
        self.bursts.served(now, served);
    }

    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        self.capture.packet(now, packet, origin, step);
        self.monitor.packet(now, packet, origin, step);
        match step {
            Step::Delivered(_) => {
                let actual = self.stopwatch.map_or(now, |stopwatch| stopwatch.now());
                self.lateness.record(actual.since(now));
            }
            Step::Egress { at, actual, written } => {
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

    fn gateway(&mut self, now: Time, at: NodeId, event: GatewayEvent<'_>) {
        self.capture.gateway(now, at, event);
        self.monitor.gateway(now, at, event);
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
        let text = include_str!("../../tests/fuzz/external_host.toml");
        let scenario = Scenario::parse(Path::new("external_host.toml"), text).unwrap();
        let plan = scenario.emulation("default").unwrap();
        let external = plan.external_nodes()[0].node;
        // The clock runs, and the packet has the time zero, at which the clock started.
        let mut recorder = RunRecorder::new(plan, Some(Stopwatch::start()), None);
        let packet = Packet::new(Time::ZERO, Route::default(), 100, 0);
        let origin = Origin { number: 0, at: Time::ZERO, from: external, waited: Span::ZERO };
        recorder.packet(Time::ZERO, &packet, origin, Step::Delivered(external));
        assert!(recorder.lateness.count() == 1 && recorder.lateness.max() > Span::ZERO);
        let actual = Time::from_nanos(3_000_000);
        for written in [true, true, false] {
            let step = Step::Egress { at: external, actual, written };
            recorder.packet(Time::from_nanos(1_000_000), &packet, origin, step);
        }
        let device = &recorder.hosts[external.0 as usize];
        assert_eq!((device.written, device.lateness.max()), ([2, 1], Span::from_millis(2)));
    }
}
