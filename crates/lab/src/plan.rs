use crate::notation::RateText;
use crate::real::{self, RealNode, Service};
use crate::scenario::{DistributionFile, NodeKind, ScenarioFile, TcpFile, TrafficFile};
use catnip_base::{Rng, Span, Stream, Time};
use catnip_net::jitter::JitterSpec;
use catnip_net::mark::SpmParameters;
use catnip_net::shape::{RateSpec, Trace};
use catnip_net::{LinkSpec, NodeId, PortId, Topology, TopologyError};
use catnip_sim::app::{
    AnyApp, Background, BackgroundConfig, Bulk, Distribution, Http, Page, PageGenerator, WebClient, WebConfig,
};
use catnip_sim::{FlowId, Medium, Memory, Opener, Sim, TcpId, Transfer, Watch, World};
use catnip_tcp::{RtoConfig, TcpConfig, profile};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One variant of a scenario, checked and ready: with a seed it is a run.
#[derive(Clone, Debug)]
pub struct Plan {
    topology: Topology,
    /// Results call them so.
    ports: Vec<(String, PortId)>,
    traffic: Vec<Traffic>,
    duration: Span,
    pub(crate) real: Vec<RealNode>,
    /// For real hosts outside of all traffic groups.
    pub(crate) marker: Option<SpmParameters>,
    pub(crate) addresses: Vec<(NodeId, Ipv4Addr)>,
}

/// Connections of one kind between pairs of hosts.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) name: String,
    pub(crate) tcp: TcpConfig,
    pub(crate) marker: Option<SpmParameters>,
    /// (server, client)
    pub(crate) pairs: Vec<(NodeId, NodeId)>,
    /// Numbers of the users in the run, one per pair; none if the clients are real.
    pub(crate) users: Vec<u32>,
    pub(crate) tells_size: bool,
    pub(crate) kind: TrafficKind,
    /// The servers are real: clients connect to them and ask by name.
    real_servers: bool,
    pub(crate) service: Service,
}

#[derive(Clone, Debug)]
pub(crate) enum TrafficKind {
    Bulk { bytes: u64, start_s: Distribution },
    Web { config: Arc<WebConfig>, request_bytes: u64 },
    Background { config: Arc<BackgroundConfig> },
}

/// A transfer of more than this (an exabyte) is a slip of the keyboard.
const MAX_BYTES: u64 = 1 << 60;

/// Ten times what a link carries is overload enough.
const MAX_LOAD: f64 = 10.0;

/// What is wrong, and with which key.
pub(crate) type Wrong = (String, String);

impl Plan {
    pub(crate) fn new(path: &Path, file: &ScenarioFile) -> Result<Self, Wrong> {
        if file.seeds == 0 {
            return Err(("seeds".into(), "0: at least one replicate is needed".into()));
        }
        let network = build_network(path, file)?;
        let mut traffic = Vec::new();
        let mut users = 0;
        let both_ways = |(name, spec): (_, &TrafficFile)| {
            [Some((name, spec.clone())), spec.back().map(|back| (name, back))]
        };
        for (name, spec) in file.traffic.iter().flat_map(both_ways).flatten() {
            let built = Traffic::new(path, name, &spec, &file.tcp, &network, users)?;
            users += built.users.len() as u32;
            let both_ways =
                built.pairs.iter().flat_map(|&(server, client)| [(server, client), (client, server)]);
            network
                .topology
                .check_routes(both_ways)
                .map_err(|error| (format!("traffic.{name}"), error.to_string()))?;
            traffic.push(built);
        }
        if traffic.is_empty() && network.real.iter().all(|real| real.command.is_none()) {
            return Err(("traffic".into(), "nothing to do: no traffic".into()));
        }
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
    pub fn start<M: Medium, W: Watch>(&self, seed: u64, world: &mut World<M, W>) {
        for traffic in &self.traffic {
            traffic.start(world, seed);
        }
    }

    /// The run is over after so long at the latest.
    pub fn duration(&self) -> Span {
        self.duration
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
        let is_source = |traffic: &&Traffic| matches!(traffic.kind, TrafficKind::Background { .. });
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
}

impl Traffic {
    fn new(
        path: &Path,
        name: &str,
        spec: &TrafficFile,
        common: &TcpFile,
        network: &Network,
        first_user: u32,
    ) -> Result<Self, Wrong> {
        let key = |key: &str| format!("traffic.{name}.{key}");
        let at = |k: &str| {
            let k = key(k);
            move |what: String| (k, what)
        };
        let no_tcp = TcpFile::default();
        let (server_names, client_names, own_tcp, tells_size) = match spec {
            TrafficFile::Bulk { from, to, tcp, tells_size, .. } => (from, to, tcp, *tells_size),
            TrafficFile::Web { servers, clients, tcp, tells_size, .. } => {
                (servers, clients, tcp, *tells_size)
            }
            TrafficFile::Background { from, to, .. } => (from, to, &no_tcp, false),
        };
        let (server_key, client_key) = match spec {
            TrafficFile::Bulk { .. } | TrafficFile::Background { .. } => ("from", "to"),
            TrafficFile::Web { .. } => ("servers", "clients"),
        };
        let servers = select(&network.groups, server_names).map_err(at(server_key))?;
        let clients = select(&network.groups, client_names).map_err(at(client_key))?;
        let real_servers = real::all_real(&network.real, &servers, server_names).map_err(at(server_key))?;
        let real_clients = real::all_real(&network.real, &clients, client_names).map_err(at(client_key))?;
        if real_servers && real_clients {
            let what = format!("{client_names:?}: both ends are real, so their commands make the traffic");
            return Err((key(client_key), what));
        }
        if (real_servers || real_clients) && matches!(spec, TrafficFile::Background { .. }) {
            return Err((key(client_key), "background traffic is between simulated hosts".into()));
        }
        let (tcp, marker) =
            tcp_config(common, own_tcp).map_err(|(k, what)| (key(&format!("tcp.{k}")), what))?;
        // Each server serves a block of neighbouring clients.
        let pairs: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(i, c)| (servers[i * servers.len() / clients.len()], *c))
            .collect();
        let kind = match spec {
            TrafficFile::Bulk { packets, bytes, start_s, .. } => {
                let bytes = match (packets, bytes) {
                    (Some(packets), None) => packets.saturating_mul(tcp.segment_bytes.into()),
                    (None, Some(bytes)) => bytes.0,
                    _ => return Err((key("packets"), "give either packets or bytes".into())),
                };
                if !(1..=MAX_BYTES).contains(&bytes) {
                    return Err((key("packets"), format!("{bytes} bytes: expected 1 to {MAX_BYTES}")));
                }
                let start_s = match start_s {
                    None => Distribution::Constant(0.0),
                    Some(start) => start.check().map_err(at("start_s"))?,
                };
                TrafficKind::Bulk { bytes, start_s }
            }
            TrafficFile::Background {
                load,
                link,
                rate,
                peak,
                burst,
                burst_shape,
                silence_shape,
                packet_bytes,
                ..
            } => {
                let total = match (load, link, rate) {
                    (None, None, Some(rate)) => rate.bits_per_second() as f64,
                    (Some(load), Some(link), None) => {
                        if !(0.0..=MAX_LOAD).contains(load) {
                            return Err((
                                key("load"),
                                format!("{load}: expected a share from 0 to {MAX_LOAD}"),
                            ));
                        }
                        load * network.rate_of(link, &pairs).map_err(at("link"))?
                    }
                    _ => return Err((key("load"), "give either load and link or rate".into())),
                };
                let mean = total / pairs.len() as f64;
                if mean > peak.bits_per_second() as f64 {
                    let what = format!("{} bit/s: below the mean of {mean} bit/s", peak.bits_per_second());
                    return Err((key("peak"), what));
                }
                if *burst == Span::ZERO {
                    return Err((key("burst"), "0: a burst takes time".into()));
                }
                for (k, shape) in [("burst_shape", *burst_shape), ("silence_shape", *silence_shape)] {
                    if !(shape > 0.0 && shape.is_finite()) {
                        return Err((key(k), format!("{shape}: expected a positive tail index")));
                    }
                }
                let sizes = packet_bytes.check().map_err(at("packet_bytes"))?;
                let shapes = [*burst_shape, *silence_shape];
                let config = BackgroundConfig::new(mean, *peak, *burst, shapes, sizes);
                TrafficKind::Background { config: Arc::new(config) }
            }
            TrafficFile::Web {
                pages,
                generate,
                http,
                max_connections,
                think_s,
                images_after_packets,
                request_bytes,
                ..
            } => {
                let pages = match (pages, generate) {
                    (Some(file), None) => read_pages(path, file).map_err(at("pages"))?,
                    (None, Some(g)) => {
                        let check =
                            |d: &DistributionFile, k: &str| d.check().map_err(at(&format!("generate.{k}")));
                        let generator = PageGenerator {
                            html_bytes: check(&g.html_bytes, "html_bytes")?,
                            images: check(&g.images, "images")?,
                            image_bytes: check(&g.image_bytes, "image_bytes")?,
                        };
                        if g.pages == 0 {
                            return Err((key("generate.pages"), "0: no pages".into()));
                        }
                        generator.generate(g.pages, g.seed)
                    }
                    _ => return Err((key("pages"), "give either pages or generate".into())),
                };
                let http = match http.as_str() {
                    "1.0" if *max_connections > 0 => Http::V10 { max_connections: *max_connections },
                    "1.0" => return Err((key("max_connections"), "0: no connections".into())),
                    "1.1" => Http::V11,
                    other => return Err((key("http"), format!("{other:?}: expected \"1.0\" or \"1.1\""))),
                };
                let after =
                    images_after_packets.map_or(u64::MAX, |n| u64::from(n) * u64::from(tcp.segment_bytes));
                let think_s = think_s.check().map_err(at("think_s"))?;
                let config = Arc::new(WebConfig { pages, http, think_s, images_after_bytes: after });
                TrafficKind::Web { config, request_bytes: *request_bytes }
            }
        };
        if (real_servers || real_clients) && !(tcp.handshake && tcp.fin) {
            let what =
                "real hosts need a handshake and a FIN: take the profile rfc, or set handshake and fin";
            return Err((key("tcp"), what.into()));
        }
        let users = if real_clients { 0 } else { pairs.len() as u32 };
        let users = (first_user..first_user + users).collect();
        let service = real::service(spec).map_err(|(k, what)| (key(k), what))?;
        Ok(Self { name: name.into(), tcp, marker, pairs, users, tells_size, kind, real_servers, service })
    }

    fn start<M: Medium, W: Watch>(&self, world: &mut World<M, W>, seed: u64) {
        let tcp = world.add_tcp(self.tcp.clone(), self.marker);
        for (&(server, client), &user) in self.pairs.iter().zip(&self.users) {
            let app = match &self.kind {
                TrafficKind::Bulk { bytes, start_s } => {
                    let start = start_s.draw(&mut Rng::new(seed, Stream::Start(user)));
                    let opener = if self.real_servers { Opener::Client } else { Opener::Server };
                    let transfer = Transfer { opener, ..self.transfer(server, client, tcp, *bytes, 0) };
                    AnyApp::Bulk(Bulk::new(transfer, Time::ZERO + Span::from_secs_f64(start)))
                }
                TrafficKind::Web { config, request_bytes } => {
                    let template = self.transfer(server, client, tcp, 0, *request_bytes);
                    AnyApp::Web(Box::new(WebClient::new(config.clone(), template, seed, user)))
                }
                TrafficKind::Background { config } => {
                    let flow = world.add_flow(server, client);
                    AnyApp::Background(Box::new(Background::new(config.clone(), flow, seed, user)))
                }
            };
            world.add_app(app);
        }
    }

    fn transfer(
        &self,
        server: NodeId,
        client: NodeId,
        tcp: TcpId,
        bytes: u64,
        request_bytes: u64,
    ) -> Transfer {
        Transfer {
            server,
            client,
            request_bytes,
            bytes,
            tells_size: self.tells_size,
            opener: Opener::Client,
            tcp,
            notify_at: None,
            tag: 0,
        }
    }
}

/// What the nodes and links of a scenario make.
struct Network {
    topology: Topology,
    /// Nodes of one name.
    groups: BTreeMap<String, Vec<NodeId>>,
    ports: Vec<(String, PortId)>,
    real: Vec<RealNode>,
    addresses: Vec<(NodeId, Ipv4Addr)>,
}

impl Network {
    /// The rate of the port of a link which packets between all these pairs pass, bit/s.
    fn rate_of(&self, link: &str, pairs: &[(NodeId, NodeId)]) -> Result<f64, String> {
        let ports: Vec<PortId> = [link.to_string(), format!("{link}:back")]
            .iter()
            .filter_map(|name| self.ports.iter().find(|(port, _)| port == name).map(|(_, id)| *id))
            .collect();
        if ports.is_empty() {
            return Err(format!("{link:?}: there is no such link, or there are several of this name"));
        }
        let passes = |port: &PortId, &(from, to): &(NodeId, NodeId)| {
            self.topology.path(from, to).is_ok_and(|path| path.contains(port))
        };
        let port = ports.iter().find(|port| pairs.iter().all(|pair| passes(port, pair)));
        let port = port.ok_or_else(|| format!("{link:?}: the packets do not all pass it"))?;
        let rate = self.topology.ports()[port.0 as usize].wire.rate.mean();
        rate.map(|rate| rate.bits_per_second() as f64)
            .ok_or_else(|| format!("{link:?}: its rate is unlimited, and so is a share of it"))
    }
}

fn build_network(path: &Path, file: &ScenarioFile) -> Result<Network, Wrong> {
    let mut topology = Topology::default();
    let mut groups: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    let (mut real, mut addresses) = (Vec::new(), Vec::new());
    for (name, node) in &file.node {
        if node.count == 0 {
            return Err((format!("node.{name}.count"), "0: at least one node is needed".into()));
        }
        let mut add = |name: String| match node.kind {
            NodeKind::Host => topology.host(name),
            NodeKind::Router => topology.router(name),
        };
        let ids = match node.count {
            1 => vec![add(name.clone())],
            count => (0..count).map(|i| add(format!("{name}[{i}]"))).collect(),
        };
        node.note_real(name, &ids, &mut real, &mut addresses)?;
        groups.insert(name.clone(), ids);
    }
    let mut ports = Vec::new();
    for (name, link) in &file.link {
        let end = |key: &str, group: &String| {
            let nodes = groups.get(group).cloned();
            nodes.ok_or_else(|| (format!("link.{name}.{key}"), format!("{group:?}: there is no such node")))
        };
        let (from, to) = (end("from", &link.from)?, end("to", &link.to)?);
        if from.len() != to.len() && from.len() != 1 && to.len() != 1 {
            let what = format!("{:?}: {} nodes cannot be paired with {}", link.to, to.len(), from.len());
            return Err((format!("link.{name}.to"), what));
        }
        let count = from.len().max(to.len());
        let ends = (0..count).map(|i| (from[i % from.len()], to[i % to.len()]));
        let rate = |key: &str, text: &RateText| {
            rate_spec(path, text).map_err(|what| (format!("link.{name}.{key}"), what))
        };
        if let Some(least) = link.jitter.map(JitterSpec::least_delay).filter(|&least| link.delay < least) {
            let what =
                format!("the delay of {} is below {least}, so that packets would arrive early", link.delay);
            return Err((format!("link.{name}.jitter"), what));
        }
        let ids = topology.links(
            ends,
            LinkSpec {
                rate: rate("rate", &link.rate)?,
                rate_back: link.rate_back.as_ref().map(|text| rate("rate_back", text)).transpose()?,
                delay: link.delay,
                queue: link.queue.clone(),
                loss: link.loss.clone(),
                loss_back: link.loss_back.clone(),
                wire_loss: link.wire_loss.clone(),
                wire_loss_back: link.wire_loss_back.clone(),
                jitter: link.jitter,
            },
        );
        if let [id] = ids[..] {
            ports.push((name.clone(), id.forward()));
            ports.push((format!("{name}:back"), id.back()));
        }
    }
    Ok(Network { topology, groups, ports, real, addresses })
}

fn rate_spec(scenario: &Path, text: &RateText) -> Result<RateSpec, String> {
    Ok(match text {
        RateText::Constant(rate) => RateSpec::Constant(*rate),
        RateText::Unlimited => RateSpec::Unlimited,
        RateText::Trace(file) => {
            let path = beside(scenario, file);
            let wrong = |what: &dyn fmt::Display| format!("{}: {what}", path.display());
            let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
            RateSpec::Trace(Arc::new(Trace::parse(&text).map_err(|error| wrong(&error))?))
        }
    })
}

/// Files that a scenario names are relative to it.
fn beside(scenario: &Path, file: &Path) -> PathBuf {
    scenario.parent().unwrap_or(Path::new("")).join(file)
}

/// Nodes by name: `client`, `client[3]`, `client[0..50]` or `client[0..100:2]` (every second one).
fn select(groups: &BTreeMap<String, Vec<NodeId>>, text: &str) -> Result<Vec<NodeId>, String> {
    let expected =
        || format!("{text:?}: expected a node or nodes, such as client, client[3] or client[0..50:2]");
    let (name, range) = match text.split_once('[') {
        None => (text, None),
        Some((name, rest)) => (name, Some(rest.strip_suffix(']').ok_or_else(expected)?)),
    };
    let nodes = groups.get(name).ok_or_else(|| format!("{text:?}: there is no such node"))?;
    let Some(range) = range else { return Ok(nodes.clone()) };
    let number = |text: &str| text.parse::<usize>().map_err(|_| expected());
    let (range, step) = match range.split_once(':') {
        None => (range, 1),
        Some((range, step)) => (range, number(step).ok().filter(|&step| step > 0).ok_or_else(expected)?),
    };
    let (first, end) = match range.split_once("..") {
        None => (number(range)?, number(range)?.saturating_add(1)),
        Some((first, end)) => (number(first)?, number(end)?),
    };
    let chosen =
        nodes.get(first..end).ok_or_else(|| format!("{text:?}: there are {} of them", nodes.len()))?;
    let chosen: Vec<_> = chosen.iter().copied().step_by(step).collect();
    if chosen.is_empty() { Err(format!("{text:?}: selects nobody")) } else { Ok(chosen) }
}

/// The parameters of a connection: a profile, what the scenario changes, what the traffic changes.
fn tcp_config(common: &TcpFile, own: &TcpFile) -> Result<(TcpConfig, Option<SpmParameters>), Wrong> {
    let name = own.profile.as_ref().or(common.profile.as_ref()).map_or("rfc", String::as_str);
    let base = profile::by_name(name).map_err(|error| ("profile".to_string(), error.to_string()))?;
    let mut marker = None;
    let mut config = base.clone();
    for file in [common, own] {
        config = apply(config, file)?;
        marker = file.marker.unwrap_or(marker);
    }
    Ok((config, marker))
}

fn apply(base: TcpConfig, file: &TcpFile) -> Result<TcpConfig, Wrong> {
    let window_segments = base.receive_window_segments();
    let segment_bytes = match file.segment {
        None => base.segment_bytes,
        Some(bytes) if (1..=65_495).contains(&bytes.0) => bytes.0 as u32,
        Some(bytes) => return Err(("segment".into(), format!("{}: expected 1 to 65495 bytes", bytes.0))),
    };
    let at_least_one = |key: &str, value: Option<u32>, default: u64| match value {
        Some(0) => Err((key.to_string(), "0: at least one segment is needed".to_string())),
        Some(n) => Ok(u64::from(n)),
        None => Ok(default),
    };
    let window = at_least_one("window_segments", file.window_segments, window_segments)?;
    let initial =
        at_least_one("initial_window_segments", file.initial_window_segments, base.initial_window.into())?;
    let delayed_ack = match file.delayed_ack {
        None => base.delayed_ack,
        Some(false) => None,
        Some(true) => base.delayed_ack.or(Some(profile::delayed_ack(&base))),
    };
    let tick = file.rto_tick.unwrap_or(base.rto.tick);
    for (key, span) in [("rto_tick", file.rto_tick), ("rto_first", file.rto_first), ("rto_max", file.rto_max)]
    {
        if span == Some(Span::ZERO) {
            return Err((key.into(), "0: expected a time above zero".into()));
        }
    }
    Ok(TcpConfig {
        segment_bytes,
        receive_window: window * u64::from(segment_bytes),
        initial_window: initial as u32,
        recovery: file.recovery.unwrap_or(base.recovery),
        control: file.control.unwrap_or(base.control),
        pacing: file.pacing.unwrap_or(base.pacing),
        delayed_ack,
        limited_transmit: file.limited_transmit.unwrap_or(base.limited_transmit),
        handshake: file.handshake.unwrap_or(base.handshake),
        fin: file.fin.unwrap_or(base.fin),
        rto: RtoConfig {
            tick,
            first: file.rto_first.unwrap_or(base.rto.first),
            min: file.rto_min.unwrap_or(base.rto.min),
            max: file.rto_max.unwrap_or(base.rto.max),
            ..base.rto
        },
        ..base
    })
}

#[derive(Deserialize)]
struct PageRow {
    page: u32,
    object_index: u32,
    bytes: u64,
}

/// Reads pages from CSV with the columns page, object_index and bytes; objects in order, the HTML first.
fn read_pages(scenario: &Path, file: &Path) -> Result<Vec<Page>, String> {
    let path = beside(scenario, file);
    let wrong = |what: String| format!("{}: {what}", path.display());
    let mut reader = csv::Reader::from_path(&path).map_err(|error| wrong(error.to_string()))?;
    let mut pages: Vec<Page> = Vec::new();
    for (line, row) in reader.deserialize().enumerate() {
        let row: PageRow = row.map_err(|error| wrong(error.to_string()))?;
        let place = |what: &str| wrong(format!("row {}: {what}", line + 1));
        if row.bytes == 0 {
            return Err(place("bytes = 0: an object of nothing"));
        }
        if row.object_index == 0 {
            pages.push(Page { objects: Vec::new() });
        }
        let number = pages.len() as u32;
        let page = pages
            .last_mut()
            .filter(|page| number == row.page && page.objects.len() as u32 == row.object_index);
        page.ok_or_else(|| place("pages and objects must be numbered in order"))?.objects.push(row.bytes);
    }
    if pages.is_empty() { Err(wrong("no pages".into())) } else { Ok(pages) }
}
