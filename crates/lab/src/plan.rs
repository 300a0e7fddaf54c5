//! One variant of a scenario, checked and ready: with a seed it is a run.

use crate::error::Wrong;
use crate::kinds::Kinds;
use crate::network::{self, LinkFile, Network};
use crate::real::{NodeFile, ObjectName, RealNode, Service};
use crate::tcp::TcpFile;
use crate::text::{a_day, from_text, one};
use crate::traffic::{Traffic, TrafficFile};
use catnip_base::{Span, Time};
use catnip_net::mark::{MarkerSpec, SpmParameters};
use catnip_net::{NodeId, PortId, Topology, TopologyError};
use catnip_sim::{FlowId, Handler, Memory, Sim, TcpId, Watch, World};
use catnip_tcp::TcpConfig;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioFile {
    pub(crate) id: String,
    pub(crate) title: String,
    #[serde(default = "one")]
    pub(crate) seeds: u32,
    /// The run ends here at the latest.
    #[serde(default = "a_day", deserialize_with = "from_text")]
    duration: Span,
    node: BTreeMap<String, NodeFile>,
    link: BTreeMap<String, LinkFile>,
    #[serde(default)]
    tcp: TcpFile,
    #[serde(default)]
    traffic: BTreeMap<String, TrafficFile>,
}

/// One variant of a scenario, checked and ready: with a seed it is a run.
#[derive(Clone, Debug)]
pub struct Plan {
    topology: Topology,
    /// Results call them so.
    ports: Vec<(String, PortId)>,
    traffic: Vec<Traffic>,
    duration: Span,
    real: Vec<RealNode>,
    /// For real hosts outside of all traffic groups.
    marker: Option<MarkerSpec>,
    addresses: Vec<(NodeId, Ipv4Addr)>,
}

impl Plan {
    pub(crate) fn new(path: &Path, file: &ScenarioFile, kinds: &Kinds) -> Result<Self, Wrong> {
        if file.seeds == 0 {
            return Err(("seeds".into(), "0: at least one replicate is needed".into()));
        }
        let network = network::build(path, &file.node, &file.link, kinds)?;
        let mut traffic = Vec::new();
        let mut users = 0;
        for (name, there) in file.traffic.iter().map(|(name, file)| (name, file.kind())) {
            let back = there.back();
            for kind in [Some(there), back.as_deref()].into_iter().flatten() {
                let built = Traffic::new(path, name, kind, &file.tcp, &network, users, kinds)?;
                users += built.users.len() as u32;
                network
                    .topology
                    .check_routes(built.ways())
                    .map_err(|error| (format!("traffic.{name}"), error.to_string()))?;
                traffic.push(built);
            }
        }
        if traffic.is_empty() && network.real.iter().all(|real| real.command.is_none()) {
            return Err(("traffic".into(), "nothing to do: no traffic".into()));
        }
        network.check_contracts(longest_packet(&traffic))?;
        let Network { topology, ports, real, addresses, .. } = network;
        let ends = |real: &RealNode| real.node;
        let pairs = real.iter().map(ends).flat_map(|from| real.iter().map(move |to| (from, to.node)));
        let no_route = |error: TopologyError| ("link".to_string(), error.to_string());
        topology.check_routes(pairs.filter(|(from, to)| from != to)).map_err(no_route)?;
        let marker = file.tcp.marker.flatten();
        Ok(Self { topology, ports, traffic, duration: file.duration, real, marker, addresses })
    }

    /// The run with this seed, from beginning to end.
    pub fn run<W: Watch>(&self, seed: u64, watch: W) -> Sim<W> {
        self.run_in(seed, watch, Memory::default())
    }

    /// The same in the memory of an earlier run.
    pub fn run_in<W: Watch>(&self, seed: u64, watch: W, memory: Memory) -> Sim<W> {
        let mut sim = Sim::with_memory(&self.topology, seed, watch, memory);
        self.start(seed, &mut sim);
        sim.run(Time::ZERO + self.duration);
        sim
    }

    /// Puts the applications where they run; they start.
    pub fn start<M: Handler, W: Watch>(&self, seed: u64, world: &mut World<M, W>) {
        let started: Vec<TcpId> =
            self.traffic.iter().map(|traffic| world.add_tcp(traffic.options())).collect();
        let mut servers = 0;
        for (traffic, &tcp) in self.traffic.iter().zip(&started) {
            servers = traffic.serve(world, tcp, seed, servers);
        }
        for (traffic, &tcp) in self.traffic.iter().zip(&started) {
            traffic.start(world, tcp, seed);
        }
    }

    /// The run is over after so long at the latest.
    pub fn duration(&self) -> Span {
        self.duration
    }

    /// The same plan, over at this time at the latest.
    pub fn until(&self, end: Span) -> Self {
        Self { duration: self.duration.min(end), ..self.clone() }
    }

    /// Both ports of each `[link]` entry that makes a single link, by name.
    pub fn ports(&self) -> &[(String, PortId)] {
        &self.ports
    }

    /// The network.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// The sources of background traffic: the application and its flow.
    pub fn sources(&self) -> impl Iterator<Item = (u32, FlowId)> {
        let is_source = |traffic: &&Traffic| traffic.workload.is_datagrams();
        let apps = self.traffic.iter().filter(is_source).flat_map(|traffic| traffic.users.iter().copied());
        apps.zip((0..).map(FlowId))
    }

    /// The traffic group that an application belongs to.
    pub fn group_of(&self, app: u32) -> &str {
        let mut first = 0;
        for traffic in &self.traffic {
            first += traffic.users.len() as u32;
            if app < first {
                return &traffic.name;
            }
        }
        unreachable!("application {app} belongs to no traffic")
    }

    /// The real hosts.
    pub fn real_nodes(&self) -> &[RealNode] {
        &self.real
    }

    /// The address of every node that was given one.
    pub fn addresses(&self) -> &[(NodeId, Ipv4Addr)] {
        &self.addresses
    }

    /// The traffic groups, in the order in which [`Plan::start`] adds their TCP parameters.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.traffic.iter().map(|t| Group { name: &t.name, service: &t.service, pairs: &t.pairs })
    }

    /// How the packets of real hosts are marked for them where they enter the network: as the traffic of a server says,
    /// else as the scenario says of all TCP.
    pub fn markers(&self) -> impl Iterator<Item = (NodeId, SpmParameters)> {
        self.real.iter().filter_map(|real| {
            let mut groups = self.traffic.iter();
            let served = groups.find(|traffic| traffic.pairs.iter().any(|pair| pair.0 == real.node));
            Some((real.node, served.map_or(self.marker, |traffic| traffic.marker)?.spm()?))
        })
    }

    /// Data bytes in the longest segment of any connection.
    pub fn longest_segment(&self) -> u32 {
        self.traffic.iter().map(|traffic| traffic.tcp.segment_bytes).max().unwrap_or(0)
    }

    /// The objects that clients may fetch from a host, by path, with their sizes.
    pub fn documents(&self, server: NodeId) -> Vec<(String, u64)> {
        let mut documents = Vec::new();
        for traffic in &self.traffic {
            let here = traffic.pairs.iter().zip(0..).filter(|((at, _), _)| *at == server);
            for (_, index) in here {
                let user = traffic.users.get(index).copied().unwrap_or(0);
                let name = |name| ObjectName { user, ..name };
                let named = traffic.workload.documents().into_iter().map(name);
                documents.extend(named.map(|name| (traffic.service.paths.of(name), name.bytes)));
            }
        }
        documents.sort();
        documents.dedup();
        documents
    }
}

/// Bytes on the wire of the longest packet of any connection.
fn longest_packet(traffic: &[Traffic]) -> u64 {
    let longest = |tcp: &TcpConfig| u64::from(tcp.segment_bytes) + u64::from(tcp.header_bytes);
    let connections = traffic.iter().filter(|traffic| !traffic.workload.is_datagrams());
    connections.map(|traffic| longest(&traffic.tcp)).max().unwrap_or(0)
}

/// A traffic group as the emulator needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Its name.
    pub name: &'a str,
    /// How its servers are reached.
    pub service: &'a Service,
    /// (server, client)
    pub pairs: &'a [(NodeId, NodeId)],
}
