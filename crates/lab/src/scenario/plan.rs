//! One variant of a scenario, checked and ready: with a seed it is a run.

use crate::error::Wrong;
use crate::results::rows::Unit;
use crate::run::memory;
use crate::scenario::files::Files;
use crate::scenario::kinds::Kinds;
use crate::scenario::network::{self, LinkFile, NamedPorts, Network};
use crate::scenario::real::{NodeFile, ObjectName, RealNode, Service};
use crate::scenario::tcp::TcpFile;
use crate::scenario::text::{Text, a_day, no_time, one};
use crate::traffic::{Traffic, TrafficFile};
use catnip_base::{Span, Time};
use catnip_net::mark::{MarkerSpec, SpmParameters};
use catnip_net::{NodeId, PortId, Topology, TopologyError};
use catnip_sim::app::ConnectionVector;
use catnip_sim::{FlowId, Handler, Memory, Sim, TcpId, Watch, World};
use catnip_tcp::TcpConfig;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// What a scenario says.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioFile {
    /// What lists and results call the scenario.
    #[schemars(example = &"MY-1")]
    pub(crate) id: String,
    /// What it shows, in one line above its results.
    #[schemars(example = &"Does a longer queue help?")]
    pub(crate) title: String,
    /// Runs of each variant, unless the command line says otherwise; they have the seeds 1, 2, 3 and so on.
    #[serde(default = "one")]
    #[schemars(range(min = 1), example = 10)]
    pub(crate) seeds: u32,
    /// The run ends after so long at the latest, and before if all that was begun is over. The default is a day.
    #[serde(default = "a_day")]
    #[schemars(example = &"60s")]
    duration: Text<Span>,
    /// Sums, means and quantiles leave out what happens before.
    #[serde(default = "no_time")]
    #[schemars(example = &"5s")]
    warm_up: Text<Span>,
    /// Hosts and routers by name.
    #[schemars(example = json!({ "server": { "kind": "host" } }))]
    node: BTreeMap<String, NodeFile>,
    /// Links by name, which is also what results call their ways: `NAME` that from `from` to `to`, `NAME:back` the other one.
    #[schemars(example = json!({
        "line": { "from": "server", "to": "router", "rate": "1Mbit", "delay": "5ms", "queue": "drop-tail:10" }
    }))]
    link: BTreeMap<String, LinkFile>,
    /// Parameters of all TCP connections; a group of traffic has its own beside them.
    #[serde(default)]
    #[schemars(example = json!({ "profile": "rfc" }), extend("x-default" = "as the profile says"))]
    tcp: TcpFile,
    /// Groups of traffic by name. In a variant, and where a scenario builds on another one, `"none"` does without a group.
    #[serde(default)]
    #[schemars(
        with = "BTreeMap<String, TrafficFile>",
        example = json!({ "file": { "kind": "bulk", "from": "server", "to": "client", "bytes": "32KB" } }),
        extend("x-default" = "none: then programs at real hosts make the traffic"),
    )]
    traffic: BTreeMap<String, toml::Table>,
}

/// One variant of a scenario, checked and ready: with a seed it is a run.
#[derive(Clone, Debug)]
pub struct Plan {
    topology: Topology,
    ports: Vec<NamedPorts>,
    traffic: Vec<Traffic>,
    duration: Span,
    warm_up: Span,
    real: Vec<RealNode>,
    /// For real hosts outside of all traffic groups.
    marker: Option<MarkerSpec>,
    addresses: Vec<(NodeId, Ipv4Addr)>,
    /// Nodes of one name.
    groups: BTreeMap<String, Vec<NodeId>>,
}

impl Plan {
    pub(crate) fn new(files: &Files, file: &ScenarioFile, kinds: &Kinds) -> Result<Self, Wrong> {
        if file.seeds == 0 {
            return Err(("seeds".into(), "0: at least one replicate is needed".into()));
        }
        let (duration, warm_up) = (file.duration.0, file.warm_up.0);
        if warm_up > Span::ZERO && warm_up >= duration {
            let what = format!("{warm_up}: expected less than duration, {duration}");
            return Err(("warm_up".into(), what));
        }
        let network = network::build(files, &file.node, &file.link, kinds)?;
        let mut traffic = Vec::new();
        let mut users = 0;
        for (name, said) in &file.traffic {
            let said = TrafficFile::read(name, said)?;
            let there = said.kind();
            let back = there.back();
            for kind in [Some(there), back.as_deref()].into_iter().flatten() {
                let built = Traffic::new(files, name, kind, &file.tcp, &network, users, kinds)?;
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
        if duration == a_day().0 && traffic.iter().any(|traffic| traffic.workload.unit() == Unit::Flow) {
            let what = "a transfer is endless: say how long the run is, such as 60s";
            return Err(("duration".into(), what.into()));
        }
        network.check_contracts(longest_packet(&traffic))?;
        let Network { topology, ports, real, addresses, groups, .. } = network;
        let ends = |real: &RealNode| real.node;
        let pairs = real.iter().map(ends).flat_map(|from| real.iter().map(move |to| (from, to.node)));
        let no_route = |error: TopologyError| ("link".to_string(), error.to_string());
        topology.check_routes(pairs.filter(|(from, to)| from != to)).map_err(no_route)?;
        let marker = file.tcp.marker.and_then(|said| said.0.0);
        Ok(Self { topology, ports, traffic, duration, warm_up, real, marker, addresses, groups })
    }

    /// The run with this seed, from beginning to end.
    pub fn run<W: Watch>(&self, seed: u64, watch: W) -> Sim<W> {
        self.run_in(seed, watch, Memory::default())
    }

    /// The same in the memory of an earlier run.
    pub fn run_in<W: Watch>(&self, seed: u64, watch: W, memory: Memory) -> Sim<W> {
        let mut sim = self.begin(seed, watch, memory);
        sim.run(Time::ZERO + self.duration);
        sim
    }

    /// The run at time zero.
    pub fn begin<W: Watch>(&self, seed: u64, watch: W, memory: Memory) -> Sim<W> {
        let mut sim = Sim::with_memory(&self.topology, seed, watch, memory);
        self.start(seed, &mut sim);
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

    /// Sums and means leave out what happens before.
    pub fn warm_up(&self) -> Span {
        self.warm_up
    }

    /// About how much memory a run takes at least, bytes.
    pub fn memory_bytes(&self) -> u64 {
        memory::of_nodes(self.topology.node_count() as u64)
    }

    /// How many users there are, of all groups.
    pub(crate) fn users(&self) -> usize {
        self.traffic.iter().map(|traffic| traffic.users.len()).sum()
    }

    /// The same plan, over at this time at the latest.
    pub fn until(&self, end: Span) -> Self {
        Self { duration: self.duration.min(end), ..self.clone() }
    }

    /// The port of the only link of this name, or of its way `:back`.
    pub fn port(&self, name: &str) -> Option<PortId> {
        self.ports.iter().find(|port| port.name == name)?.single()
    }

    /// Both directions of each `[link]` entry, as results call them.
    pub fn ports(&self) -> &[NamedPorts] {
        &self.ports
    }

    /// How many links each entry of `[link]` makes.
    pub fn links(&self) -> impl Iterator<Item = (&str, usize)> {
        self.ports.iter().step_by(2).map(|port| (port.name.as_str(), port.ids.len()))
    }

    /// The network.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The nodes that a text names as links and traffic do: `client`, `client[3]`, `client[0..50]`.
    pub(crate) fn select(&self, text: &str) -> Result<Vec<NodeId>, String> {
        network::select(&self.groups, text)
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

    /// One address per node: those that were given, and others from 10.0.0.0/8.
    pub fn addresses(&self) -> Vec<Ipv4Addr> {
        let given = &self.addresses;
        let is_given = |address: &Ipv4Addr| given.iter().any(|(_, other)| other == address);
        let mut free = (1..1 << 24).map(|n: u32| Ipv4Addr::from_bits(10 << 24 | n)).filter(|address| {
            // Old software takes these for the network itself and for everybody.
            !matches!(address.octets()[3], 0 | 255) && !is_given(address)
        });
        let mut addresses: Vec<Ipv4Addr> =
            (0..self.topology.node_count()).map(|_| free.next().unwrap_or(Ipv4Addr::UNSPECIFIED)).collect();
        given.iter().for_each(|(node, address)| addresses[node.0 as usize] = *address);
        addresses
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

    /// The connection vectors that a group of traffic replays in the run with this seed; without a name, those of the only group
    /// that replays any.
    pub fn vectors(&self, group: Option<&str>, seed: u64) -> Result<Arc<[ConnectionVector]>, String> {
        let replaying = self.traffic.iter().filter_map(|it| Some((&it.name[..], it.workload.vectors(seed)?)));
        let mut found: Vec<_> =
            replaying.filter(|(name, _)| group.is_none_or(|group| group == *name)).collect();
        match (found.pop(), &found[..], group) {
            (Some((_, vectors)), [], _) => Ok(vectors),
            (None, _, Some(group)) => Err(format!("{group:?}: no group of this name replays connections")),
            (None, ..) => Err("no group replays connections".into()),
            (Some((last, _)), others, _) => {
                let others = others.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                Err(format!("which of {others}, {last}?"))
            }
        }
    }

    /// The objects that clients may fetch from a host, by path, with their sizes.
    pub fn documents(&self, server: NodeId) -> Vec<(String, u64)> {
        let named = self.named(server).map(|(traffic, name)| (traffic.service.paths.of(name), name.bytes));
        let mut documents: Vec<(String, u64)> = named.collect();
        documents.sort();
        documents.dedup();
        documents
    }

    /// The pages that clients may fetch from a host: the path of each, and the paths of what it embeds.
    pub fn pages(&self, server: NodeId) -> Vec<(String, Vec<String>)> {
        let mut pages: Vec<(String, Vec<String>)> = Vec::new();
        for (traffic, name) in self.named(server).filter(|(traffic, _)| traffic.workload.unit() == Unit::Page)
        {
            let path = traffic.service.paths.of(name);
            match pages.last_mut().filter(|_| name.object > 0) {
                Some((_, embedded)) => embedded.push(path),
                None => pages.push((path, Vec::new())),
            }
        }
        pages
    }

    /// The objects of a host, those of a page one behind the other.
    fn named(&self, server: NodeId) -> impl Iterator<Item = (&Traffic, ObjectName)> {
        self.traffic.iter().flat_map(move |traffic| {
            let here = traffic.pairs.iter().zip(0..).filter(move |((at, _), _)| *at == server);
            here.flat_map(move |(_, index)| {
                let user = traffic.users.get(index).copied().unwrap_or(0);
                let named = traffic.workload.documents().into_iter();
                named.map(move |name| (traffic, ObjectName { user, ..name }))
            })
        })
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
