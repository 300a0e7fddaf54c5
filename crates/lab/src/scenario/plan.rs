//! Checked variant of a scenario. A plan and a seed determine a run.

use crate::error::KeyError;
use crate::results::rows::Unit;
use crate::run::memory;
use crate::scenario::external::{ExternalNode, NodeFile, ObjectName, Service};
use crate::scenario::files::Files;
use crate::scenario::kinds::Kinds;
use crate::scenario::network::{self, LinkFile, NamedPorts, Network};
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

/// Keys of a scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioFile {
    /// Identifier of the scenario in lists and results.
    #[schemars(example = &"MY-1")]
    pub(crate) id: String,
    /// Subject of the scenario in one line, shown above its results.
    #[schemars(example = &"Does a longer queue help?")]
    pub(crate) title: String,
    /// Default number of runs of each variant, which the command line can change. The runs have the seeds 1, 2, 3 and so on.
    #[serde(default = "one")]
    #[schemars(range(min = 1), example = 10)]
    pub(crate) seeds: u32,
    /// Maximum duration of a run. A run ends earlier once all users and connections have finished, even if background traffic is still
    /// being sent. The default is a day.
    #[serde(default = "a_day")]
    #[schemars(example = &"60s")]
    duration: Text<Span>,
    /// Warm-up period at the start of a run. Sums, means and quantiles in the results do not cover it.
    #[serde(default = "no_time")]
    #[schemars(example = &"5s")]
    warm_up: Text<Span>,
    /// Hosts and routers by name.
    #[schemars(example = json!({ "server": { "kind": "host" } }))]
    node: BTreeMap<String, NodeFile>,
    /// Links by name. In results, `NAME` is the direction from `from` to `to`, and `NAME:back` the other direction.
    #[schemars(example = json!({
        "line": { "from": "server", "to": "router", "rate": "1Mbit", "delay": "5ms", "queue": "drop-tail:10" }
    }))]
    link: BTreeMap<String, LinkFile>,
    /// Parameters of all TCP connections. A traffic group can change them with its own key `tcp`.
    #[serde(default)]
    #[schemars(example = json!({ "profile": "rfc" }), extend("x-default" = "set by the profile"))]
    tcp: TcpFile,
    /// Groups of traffic by name. A variant, or a scenario with a `base`, removes a group with the value `"none"`.
    #[serde(default)]
    #[schemars(
        with = "BTreeMap<String, TrafficFile>",
        example = json!({ "file": { "kind": "bulk", "from": "server", "to": "client", "bytes": "32KB" } }),
        extend("x-default" = "none; commands of external hosts generate the traffic"),
    )]
    traffic: BTreeMap<String, toml::Table>,
}

impl ScenarioFile {
    /// Returns the path at which a traffic group gets a key of TCP: its own table `tcp`, or `[tcp]`. `None` if neither has the key.
    pub(crate) fn tcp_key(&self, group: &str, key: &str) -> Option<String> {
        let own = self.traffic.get(group).and_then(|group| group.get("tcp")?.get(key));
        match own {
            Some(_) => Some(format!("traffic.{group}.tcp.{key}")),
            None => self.tcp.sets(key).then(|| format!("tcp.{key}")),
        }
    }
}

/// Shortest interval of time series, below the time of a packet on any link.
const MIN_INTERVAL: Span = Span::from_micros(1);
/// Memory for a row of time series, bytes.
const SAMPLE_BYTES: u64 = 64;

/// Checked variant of a scenario. A plan and a seed determine a run.
#[derive(Clone, Debug)]
pub struct Plan {
    topology: Topology,
    ports: Vec<NamedPorts>,
    traffic: Vec<Traffic>,
    duration: Span,
    warm_up: Span,
    external: Vec<ExternalNode>,
    /// Marker of `[tcp]`, for external hosts that are not servers of a traffic group.
    marker: Option<MarkerSpec>,
    addresses: Vec<(NodeId, Ipv4Addr)>,
    /// Nodes by name.
    groups: BTreeMap<String, Vec<NodeId>>,
}

impl Plan {
    pub(crate) fn new(files: &Files, file: &ScenarioFile, kinds: &Kinds) -> Result<Self, KeyError> {
        if file.seeds == 0 {
            return Err(("seeds".into(), "0: at least one run is needed".into()));
        }
        let (duration, warm_up) = (file.duration.0, file.warm_up.0);
        if warm_up > Span::ZERO && warm_up >= duration {
            let message = format!("{warm_up}: expected less than duration, {duration}");
            return Err(("warm_up".into(), message));
        }
        let network = network::build(files, &file.node, &file.link, file.tcp.processing(), kinds)?;
        let mut traffic = Vec::new();
        let mut users = 0;
        for (name, table) in &file.traffic {
            let table = TrafficFile::read(name, table)?;
            let kind = table.kind();
            let reverse = kind.reverse();
            for kind in [Some(kind), reverse.as_deref()].into_iter().flatten() {
                let built = Traffic::new(files, name, kind, &file.tcp, &network, users, kinds)?;
                users += built.users.len() as u32;
                network
                    .topology
                    .check_routes(built.routes())
                    .map_err(|error| (format!("traffic.{name}"), error.to_string()))?;
                traffic.push(built);
            }
        }
        if traffic.is_empty() && network.external.iter().all(|external| external.command.is_none()) {
            return Err(("traffic".into(), "no traffic, and no host with a command".into()));
        }
        if duration == a_day().0 && traffic.iter().any(|traffic| traffic.workload.unit() == Unit::FLOW) {
            let message = "required with an endless transfer, such as 60s";
            return Err(("duration".into(), message.into()));
        }
        network.check_contracts(longest_packet(&traffic))?;
        let Network { topology, ports, external, addresses, groups, .. } = network;
        let ends = |external: &ExternalNode| external.node;
        let pairs = external.iter().map(ends).flat_map(|from| external.iter().map(move |to| (from, to.node)));
        let no_route = |error: TopologyError| ("link".to_string(), error.to_string());
        topology.check_routes(pairs.filter(|(from, to)| from != to)).map_err(no_route)?;
        let marker =
            file.tcp.marker(kinds).map_err(|(key, message)| (format!("tcp.{key}"), message))?.flatten();
        Ok(Self { topology, ports, traffic, duration, warm_up, external, marker, addresses, groups })
    }

    /// Executes the run with this seed from beginning to end.
    pub fn run<W: Watch>(&self, seed: u64, watch: W) -> Sim<W> {
        self.run_in(seed, watch, Memory::default())
    }

    /// Executes the run with this seed from beginning to end, reusing the memory of an earlier run.
    pub fn run_in<W: Watch>(&self, seed: u64, watch: W, memory: Memory) -> Sim<W> {
        let mut sim = self.begin(seed, watch, memory);
        sim.run(Time::ZERO + self.duration);
        sim
    }

    /// Returns the run with this seed at time zero, after the start of its applications.
    pub fn begin<W: Watch>(&self, seed: u64, watch: W, memory: Memory) -> Sim<W> {
        let mut sim = Sim::with_memory(&self.topology, seed, watch, memory);
        self.start(seed, &mut sim);
        sim
    }

    /// Adds the applications to their hosts and starts them.
    pub fn start<M: Handler, W: Watch>(&self, seed: u64, world: &mut World<M, W>) {
        let tcp_ids: Vec<TcpId> =
            self.traffic.iter().map(|traffic| world.add_tcp(traffic.options())).collect();
        let mut servers = 0;
        for (traffic, &tcp) in self.traffic.iter().zip(&tcp_ids) {
            servers = traffic.serve(world, tcp, seed, servers);
        }
        for (traffic, &tcp) in self.traffic.iter().zip(&tcp_ids) {
            traffic.start(world, tcp, seed);
        }
    }

    /// Returns the maximum duration of a run.
    pub fn duration(&self) -> Span {
        self.duration
    }

    /// Returns the warm-up period, which sums and means do not cover.
    pub fn warm_up(&self) -> Span {
        self.warm_up
    }

    /// Checks the interval of time series. An error gives the reason why a run cannot have them.
    pub fn check_interval(&self, every: Span) -> Result<(), String> {
        if every < MIN_INTERVAL {
            return Err(format!("expected at least {MIN_INTERVAL}"));
        }
        // Without a duration, a run may end long before the day that bounds it.
        let samples = if self.duration < a_day().0 { self.duration.in_units_of(every) } else { 0 };
        let ports = self.topology.ports().len() as u64;
        memory::shortage(samples.saturating_mul(ports).saturating_mul(SAMPLE_BYTES)).map_or(Ok(()), Err)
    }

    /// Returns the approximate minimum memory of a run, bytes.
    pub fn memory_bytes(&self) -> u64 {
        memory::of_nodes(self.topology.node_count() as u64)
    }

    /// Returns true if a traffic group has transfers that end, so that runs have times.
    pub fn has_transfers(&self) -> bool {
        let is_timed =
            |group: &Traffic| !group.workload.is_datagrams() && group.workload.unit() != Unit::FLOW;
        self.traffic.iter().any(is_timed)
    }

    /// Returns the number of users of all groups.
    pub(crate) fn users(&self) -> usize {
        self.traffic.iter().map(|traffic| traffic.users.len()).sum()
    }

    /// Returns the plan with its duration limited to `end`.
    pub fn until(&self, end: Span) -> Self {
        Self { duration: self.duration.min(end), ..self.clone() }
    }

    /// Returns the port with this name in results, or `None` unless exactly one link has this name. `NAME` is the direction from `from` to
    /// `to`, and `NAME:back` the other direction.
    pub fn port(&self, name: &str) -> Option<PortId> {
        self.ports.iter().find(|port| port.name == name)?.single()
    }

    /// Returns both directions of each `[link]` entry, with their names in results.
    pub fn ports(&self) -> &[NamedPorts] {
        &self.ports
    }

    /// Returns the name of each entry of `[link]` and the number of its links.
    pub fn links(&self) -> impl Iterator<Item = (&str, usize)> {
        self.ports.iter().step_by(2).map(|port| (port.name.as_str(), port.ids.len()))
    }

    /// Returns the network topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the nodes that a text selects, in the notation of links and traffic: `client`, `client[3]`, `client[0..50]`.
    pub(crate) fn select(&self, text: &str) -> Result<Vec<NodeId>, String> {
        network::select(&self.groups, text)
    }

    pub(crate) fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// Returns the application and the flow of each source of background traffic.
    pub fn sources(&self) -> impl Iterator<Item = (u32, FlowId)> {
        let users = self.traffic.iter().flat_map(|traffic| {
            let (is_source, flows) = (traffic.workload.is_datagrams(), traffic.workload.flows());
            traffic.users.iter().map(move |&user| (user, is_source, flows))
        });
        let numbered = users.scan(0, |next, (user, is_source, flows)| {
            let first = FlowId(*next);
            *next += flows;
            Some(is_source.then_some((user, first)))
        });
        numbered.flatten()
    }

    /// Returns the name of the traffic group of an application. The name is empty for an application that is not part of the plan.
    pub fn group_of(&self, app: u32) -> &str {
        self.traffic_of(app).map_or("", |traffic| &traffic.name)
    }

    /// Returns the name of the traffic group of an application as [`Plan::group_of`] does, or `None` if the group is not measured: results
    /// then have no rows for its activities and connections.
    pub(crate) fn measured_group(&self, app: u32) -> Option<&str> {
        self.traffic_of(app).map_or(Some(""), |traffic| traffic.measured.then_some(&traffic.name))
    }

    fn traffic_of(&self, app: u32) -> Option<&Traffic> {
        let mut first = 0;
        self.traffic.iter().find(|traffic| {
            first += traffic.users.len() as u32;
            app < first
        })
    }

    /// Returns the external hosts.
    pub fn external_nodes(&self) -> &[ExternalNode] {
        &self.external
    }

    /// Returns one address per node: the address in the scenario, or a free address of 10.0.0.0/8 if the scenario gives none.
    pub fn addresses(&self) -> Vec<Ipv4Addr> {
        let specified = &self.addresses;
        let is_specified = |address: &Ipv4Addr| specified.iter().any(|(_, other)| other == address);
        let mut free = (1..1 << 24).map(|n: u32| Ipv4Addr::from_bits(10 << 24 | n)).filter(|address| {
            // Old software treats these as network and broadcast addresses.
            !matches!(address.octets()[3], 0 | 255) && !is_specified(address)
        });
        let mut addresses: Vec<Ipv4Addr> =
            (0..self.topology.node_count()).map(|_| free.next().unwrap_or(Ipv4Addr::UNSPECIFIED)).collect();
        specified.iter().for_each(|(node, address)| addresses[node.0 as usize] = *address);
        addresses
    }

    /// Returns the traffic groups, in the order in which [`Plan::start`] adds their TCP parameters.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.traffic.iter().map(|t| Group { name: &t.name, service: &t.service, pairs: &t.pairs })
    }

    /// Returns the external hosts whose packets are marked on entry into the network, each with the parameters of its marker. The marker is
    /// set by the traffic group in which the host is a server; `[tcp]` sets the marker of a host that is in no group a server.
    pub fn markers(&self) -> impl Iterator<Item = (NodeId, SpmParameters)> {
        self.external.iter().filter_map(|external| {
            let mut groups = self.traffic.iter();
            let served = groups.find(|traffic| traffic.pairs.iter().any(|pair| pair.0 == external.node));
            let marker = served.map_or(&self.marker, |traffic| &traffic.marker);
            Some((external.node, marker.as_ref()?.spm()?))
        })
    }

    /// Returns the number of data bytes in the longest segment of any connection.
    pub fn longest_segment(&self) -> u32 {
        self.traffic.iter().map(|traffic| traffic.tcp.segment_bytes).max().unwrap_or(0)
    }

    /// Returns the connection vectors that the traffic group `group` replays in the run with the seed `seed`. If `group` is `None`, the
    /// plan must have exactly one group that replays vectors.
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
                Err(format!("expected one of {others}, {last}: several groups replay connections"))
            }
        }
    }

    /// Returns the paths of the objects that clients may fetch from a host, sorted, with their sizes in bytes.
    pub fn documents(&self, server: NodeId) -> Vec<(String, u64)> {
        let named = self.named(server).map(|(traffic, name)| (traffic.service.paths.of(name), name.bytes));
        let mut documents: Vec<(String, u64)> = named.collect();
        documents.sort();
        documents.dedup();
        documents
    }

    /// Returns the pages that clients may fetch from a host: the path of each page, and the paths of its embedded objects.
    pub fn pages(&self, server: NodeId) -> Vec<(String, Vec<String>)> {
        let mut pages: Vec<(String, Vec<String>)> = Vec::new();
        for (traffic, name) in self.named(server).filter(|(traffic, _)| traffic.workload.unit() == Unit::PAGE)
        {
            let path = traffic.service.paths.of(name);
            match pages.last_mut().filter(|_| name.object > 0) {
                Some((_, embedded)) => embedded.push(path),
                None => pages.push((path, Vec::new())),
            }
        }
        pages
    }

    /// Returns the objects that clients may fetch from a host, each with its traffic group; the objects of a page are adjacent.
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

/// Returns the size on the wire of the longest packet of any connection, bytes.
fn longest_packet(traffic: &[Traffic]) -> u64 {
    let longest = |tcp: &TcpConfig| u64::from(tcp.segment_bytes) + u64::from(tcp.header_bytes);
    let connections = traffic.iter().filter(|traffic| !traffic.workload.is_datagrams());
    connections.map(|traffic| longest(&traffic.tcp)).max().unwrap_or(0)
}

/// Traffic group, with the properties that the emulator needs.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Name of the group.
    pub name: &'a str,
    /// Service of the servers of the group.
    pub service: &'a Service,
    /// Pairs of a server and a client.
    pub pairs: &'a [(NodeId, NodeId)],
}
