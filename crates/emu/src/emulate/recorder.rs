//! What is kept of a run: users' pages, objects and connections, and what each named link did.

use crate::observe::capture::Capture;
use crate::observe::monitor::Monitor;
use catnip_base::Histogram;
use catnip_base::Time;
use catnip_lab::{Bursts, Plan, Records, TableName};
use catnip_linux::clock::Stopwatch;
use catnip_net::{NodeId, Packet, PortId, WireSpec};

use catnip_sim::watch::{Gate, Origin, Step};
use catnip_sim::{Event, Watch, record};
use std::sync::Arc;

/// What a run is told in: all tables but those of bursts, which have to be asked for, and of events.
pub(super) const TABLES: [TableName; 9] = [
    TableName::Runs,
    TableName::Groups,
    TableName::Transfers,
    TableName::Pages,
    TableName::Objects,
    TableName::Connections,
    TableName::Echoes,
    TableName::Ports,
    TableName::Datagrams,
];

/// Keeps what results are made of.
#[derive(Debug)]
pub struct Kept {
    /// Users' pages, objects and connections.
    pub records: Records,
    /// Named links.
    pub links: Vec<NamedLink>,
    /// What they did: both directions of each.
    pub monitor: Monitor,
    /// How much later than they should have simulated hosts have heard of packets.
    pub lateness: Histogram,
    /// By node: how real hosts were served.
    pub hosts: Vec<Served>,
    /// Every packet.
    pub capture: Option<Capture>,
    /// In which simulated servers have sent.
    pub bursts: Option<Bursts>,
    /// Says how late things are; a run without one is never late.
    stopwatch: Option<Stopwatch>,
}

/// A link with a name in the scenario.
#[derive(Debug)]
pub struct NamedLink {
    /// Its name.
    pub name: String,
    /// Its two directions, `from` to `to` first.
    pub ports: [PortId; 2],
    /// What they should be.
    pub wires: [Arc<WireSpec>; 2],
}

/// What was written to the device of a real host.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Packets written, and those that the device did not take.
    pub written: [u64; 2],
    /// How much later than ideal.
    pub lateness: Histogram,
    /// How long what it has sent had waited before it was read, at most.
    pub waited: Histogram,
}

impl Kept {
    /// Keeps those of a run of this plan.
    pub fn new(plan: &Plan, stopwatch: Option<Stopwatch>, capture: Option<Capture>) -> Self {
        let ports = plan.topology().ports();
        let is_real = |node| plan.real_nodes().iter().any(|real| real.node == node);
        // Those that are several are too many to be certified one by one.
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
            records: Records::new(&TABLES),
            links,
            monitor,
            lateness: Histogram::default(),
            hosts: vec![Served::default(); plan.topology().node_count()],
            capture,
            bursts: None,
            stopwatch,
        }
    }

    /// The same with the bursts of simulated servers, or without.
    pub fn with_bursts(self, asked_for: bool) -> Self {
        Self { bursts: asked_for.then(Bursts::default), ..self }
    }
}

impl Watch for Kept {
    const PACKETS: bool = true;

    fn record(&mut self, now: Time, event: &Event) {
        self.records.record(now, event);
        self.bursts.record(now, event);
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
            // Simulated hosts are read at once.
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
        // A clock that runs, and a packet of the time at which it began.
        let mut kept = Kept::new(plan, Some(Stopwatch::start()), None);
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
