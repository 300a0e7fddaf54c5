//! Traffic of scenarios. Each kind of traffic is one source file and one line in the declaration of [`TrafficFile`].

mod background;
mod bulk;
mod files;
mod iperf;
mod page;
mod telnet;
mod tmix;
mod video;
mod web;

use crate::error::KeyError;
use crate::results::activities::ActivityKind;
use crate::results::rows::Unit;
use crate::scenario::external::{self, ObjectName, Protocol};
use crate::scenario::files::Files;
use crate::scenario::kinds::Kinds;
use crate::scenario::network::{Network, select};
use crate::scenario::tcp::{TcpFile, WEIGHT, tcp_config};
use crate::scenario::text::read_table;
use background::BackgroundFile;
use bulk::BulkFile;
use catnip_base::notation::did_you_mean;
use catnip_net::NodeId;
use catnip_net::mark::{MarkerSpec, Service};
use catnip_sim::app::{AnyApp, ConnectionVector, Server, ServerConfig};
use catnip_sim::{CLIENT, ConnectionSpec, FlowId, Handler, TcpId, TcpOptions, Watch, World};
use catnip_tcp::TcpConfig;
use files::FilesFile;
use iperf::IperfFile;
use page::PageFile;
use schemars::JsonSchema;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use telnet::TelnetFile;
use tmix::TmixFile;
use video::VideoFile;
use web::WebFile;

/// World in which a plan is executed, of the simulator or of the emulator.
pub(crate) trait AnyWorld {
    /// Adds the application `app` to `node`, where it accepts connections with the TCP parameters `tcp`.
    fn add_server(&mut self, node: NodeId, tcp: TcpId, app: AnyApp);
    /// Adds a flow of datagrams from one host to another.
    fn add_flow(&mut self, from: NodeId, to: NodeId) -> FlowId;
    /// Adds an application, which starts at once. Returns its number, by which records refer to it.
    fn add_app(&mut self, app: AnyApp) -> u32;
}

impl<M: Handler, W: Watch> AnyWorld for World<M, W> {
    fn add_server(&mut self, node: NodeId, tcp: TcpId, app: AnyApp) {
        self.add_server(node, tcp, app);
    }
    fn add_flow(&mut self, from: NodeId, to: NodeId) -> FlowId {
        self.add_flow(from, to)
    }
    fn add_app(&mut self, app: AnyApp) -> u32 {
        self.add_app(app)
    }
}

/// Keys of a traffic group of one kind, as read from a scenario file.
pub(crate) trait TrafficKind {
    /// Returns the keys and values that select the servers, which send, and then those that select the clients, which receive.
    fn ends(&self) -> [(&'static str, &str); 2];
    /// Returns the configuration of the connections of the group, or `None` if the group has no connections.
    fn connections(&self) -> Option<Connections<'_>>;
    /// Checks the keys that are specific to the kind and returns the workload.
    fn build(&self, context: &BuildContext<'_>) -> Result<Arc<dyn Workload>, KeyError>;
    /// Returns true if results have rows for each page, object, file and keystroke of the users.
    fn is_measured(&self) -> bool {
        true
    }
    /// Returns the service that the application needs from the network.
    fn service(&self) -> Service {
        Service::Other
    }
    /// Returns true if each user connects to all servers. Otherwise, each user connects to one server.
    fn uses_all_servers(&self) -> bool {
        false
    }
    /// Returns the kinds of activities that the applications record.
    fn activities() -> Vec<ActivityKind>
    where
        Self: Sized,
    {
        Vec::new()
    }
    /// Returns traffic of this kind with servers and clients exchanged, if the group also has traffic in that direction.
    fn reverse(&self) -> Option<Box<dyn TrafficKind>> {
        None
    }
}

/// Configuration of the connections of a traffic group.
pub(crate) struct Connections<'a> {
    tcp: &'a TcpFile,
    /// True if senders pass the size of each document to TCP.
    tells_size: bool,
    /// Port of the servers. Port and protocol are used only if a server or a client is external.
    port: Option<u16>,
    protocol: Protocol,
    /// Pattern of the paths of documents, used only if a server or a client is external.
    paths: &'a str,
}

/// Context in which a traffic group's keys are checked.
pub(crate) struct BuildContext<'a> {
    files: &'a Files,
    name: &'a str,
    network: &'a Network,
    tcp: &'a TcpConfig,
    /// Pairs of a server and a client of the group.
    pairs: &'a [(NodeId, NodeId)],
    /// Number of the group's first user, among all users of the run.
    first_user: u32,
}

impl BuildContext<'_> {
    fn key(&self, key: &str) -> String {
        format!("traffic.{}.{key}", self.name)
    }

    /// Returns true if a server or a client is external.
    fn has_external_hosts(&self) -> bool {
        let is_external = |node: NodeId| self.network.external.iter().any(|external| external.node == node);
        self.pairs.iter().any(|&(server, client)| is_external(server) || is_external(client))
    }

    /// Returns a function that converts the reason of an error to an error about the key `key` of the group.
    fn error_at(&self, key: &str) -> impl Fn(String) -> KeyError {
        let key = self.key(key);
        move |message| (key.clone(), message)
    }
}

/// Workload of a traffic group: the applications of its users and servers.
pub(crate) trait Workload: Debug + Send + Sync {
    /// Returns the application of a user.
    fn app(&self, user: &User, world: &mut dyn AnyWorld) -> AnyApp;
    /// Returns the configuration of simulated servers, or `None` if servers do not respond to requests.
    fn server(&self) -> Option<ServerConfig> {
        None
    }
    /// Returns the application of the simulated server `number` in the run with this seed, or `None` if servers have no application. If
    /// `tells_size` is true, the application passes the size of each response to TCP.
    fn server_app(&self, seed: u64, number: u32, tells_size: bool) -> Option<AnyApp> {
        let config = Arc::new(ServerConfig { tells_size, ..self.server()? });
        Some(AnyApp::Server(Box::new(Server::new(config, seed, number))))
    }
    /// Returns the connection vectors that the users replay in the run with this seed, or `None` if users do not replay vectors.
    fn vectors(&self, _seed: u64) -> Option<Arc<[ConnectionVector]>> {
        None
    }
    /// Returns true if simulated servers send to simulated clients without a request. Such servers respond only to external clients.
    fn pushes(&self) -> bool {
        false
    }
    /// Returns the objects that each user may fetch. Objects that are drawn during the run are not included.
    fn documents(&self) -> Vec<ObjectName> {
        Vec::new()
    }
    /// Returns the size of a user's transfer in bytes, or `None` unless each user has exactly one transfer of known size.
    fn single_transfer(&self) -> Option<u64> {
        None
    }
    /// Returns true if the users send datagrams, without connections.
    fn is_datagrams(&self) -> bool {
        false
    }
    /// Returns the number of flows of datagrams of each user.
    fn flows(&self) -> u32 {
        u32::from(self.is_datagrams())
    }
    /// Returns a node beside the servers with which the clients exchange packets.
    fn reached_by_clients(&self) -> Option<NodeId> {
        None
    }
    /// Returns the kind of transfer that the users wait for.
    fn unit(&self) -> Unit {
        Unit::TRANSFER
    }
}

/// User of a traffic group, whose application is to be created.
pub(crate) struct User {
    /// Number of the user, among all users of the run.
    number: u32,
    /// Seed of the run.
    seed: u64,
    server: NodeId,
    /// All servers of the group if the user connects to all of them, otherwise empty.
    servers: Arc<[NodeId]>,
    client: NodeId,
    tcp: TcpId,
    tells_size: bool,
    server_is_external: bool,
    /// Index of the user in the group, from 0, and the number of users of the group.
    position: (usize, usize),
}

impl User {
    /// Returns the hosts, the opening end and the TCP parameters of the user's connections.
    fn connection_spec(&self) -> ConnectionSpec {
        ConnectionSpec { client: self.client, server: self.server, opener: CLIENT, tcp: self.tcp }
    }
}

macro_rules! traffic {
    ($($name:literal: $Kind:ident($File:ty)),+ $(,)?) => {
        /// Group of traffic.
        #[derive(Clone, Debug, JsonSchema)]
        #[schemars(tag = "kind", rename = "traffic")]
        pub(crate) enum TrafficFile { $(#[schemars(rename = $name)] $Kind($File)),+ }

        impl TrafficFile {
            /// Reads `[traffic.NAME]`. An error gives the wrong key and the reason.
            pub(crate) fn read(name: &str, value: &toml::Table) -> Result<Self, KeyError> {
                let path = format!("traffic.{name}");
                let mut value = value.clone();
                let kind = value.remove("kind");
                match kind.as_ref().and_then(toml::Value::as_str) {
                    $(Some($name) => read_table(&path, value).map(Self::$Kind),)+
                    _ => Err(unknown_kind(&path, kind.as_ref(), &[$($name),+])),
                }
            }

            pub(crate) fn kind(&self) -> &dyn TrafficKind {
                match self { $(Self::$Kind(file) => file),+ }
            }
        }

        /// Returns the kinds of activities of all kinds of traffic.
        pub(crate) fn activity_kinds() -> impl Iterator<Item = ActivityKind> {
            let mut all: Vec<ActivityKind> = Vec::new();
            for kind in [$(<$File as TrafficKind>::activities()),+].into_iter().flatten() {
                if all.iter().all(|other| other.table() != kind.table()) {
                    all.push(kind);
                }
            }
            all.into_iter()
        }
    };
}

traffic! {
    "bulk": Bulk(BulkFile),
    "background": Background(BackgroundFile),
    "ftp": Ftp(FilesFile),
    "iperf": Iperf(IperfFile),
    "page": Page(PageFile),
    "telnet": Telnet(TelnetFile),
    "tmix": Tmix(TmixFile),
    "video": Video(VideoFile),
    "web": Web(WebFile),
}

fn unknown_kind(path: &str, value: Option<&toml::Value>, known: &[&str]) -> KeyError {
    let all = known.join(", ");
    let message = match value {
        None => format!("missing: expected one of {all}"),
        Some(value) => {
            let hint = value.as_str().map(|value| did_you_mean(value, known.iter().copied()));
            format!("{value}: expected one of {all}{}", hint.unwrap_or_default())
        }
    };
    (format!("{path}.kind"), message)
}

/// Checked traffic group: traffic of one kind between pairs of hosts.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) name: String,
    pub(crate) tcp: TcpConfig,
    pub(crate) marker: Option<MarkerSpec>,
    /// Service that the application needs from the network. `weight` is the weight of each connection at an output scheduler.
    service_class: Service,
    weight: u32,
    pub(crate) measured: bool,
    /// Pairs of a server and a client.
    pub(crate) pairs: Vec<(NodeId, NodeId)>,
    /// All servers of the group if every user connects to all of them, otherwise empty.
    servers: Arc<[NodeId]>,
    /// Numbers of the users, one per pair, among all users of the run. Empty if the clients are external.
    pub(crate) users: Vec<u32>,
    pub(crate) tells_size: bool,
    pub(crate) workload: Arc<dyn Workload>,
    /// True if the servers are external, so that clients connect to them and request objects by name.
    external_servers: bool,
    pub(crate) service: external::Service,
}

impl Traffic {
    /// Creates a traffic group from its checked keys. Its users are numbered from `first_user`.
    pub(crate) fn new(
        files: &Files,
        name: &str,
        kind: &dyn TrafficKind,
        common: &TcpFile,
        network: &Network,
        first_user: u32,
        kinds: &Kinds,
    ) -> Result<Self, KeyError> {
        let key = |key: &str| format!("traffic.{name}.{key}");
        let ends = Ends::read(kind, network).map_err(|(k, message)| (key(k), message))?;
        let no_tcp = TcpFile::default();
        let protocol = Protocol::Echo;
        let none = Connections { tcp: &no_tcp, tells_size: false, port: None, protocol, paths: "/" };
        let Connections { tcp, tells_size, port, protocol, paths } = kind.connections().unwrap_or(none);
        let weight = tcp.weight.or(common.weight).unwrap_or(WEIGHT);
        let (tcp, marker) = tcp_config(name, common, tcp, kinds)?;
        let Ends { pairs, servers, external: [external_servers, external_clients] } = ends;
        let servers = if kind.uses_all_servers() { servers.into() } else { Arc::default() };
        let workload =
            kind.build(&BuildContext { files, name, network, tcp: &tcp, pairs: &pairs, first_user })?;
        if (external_servers || external_clients) && !(tcp.handshake && tcp.fin) {
            let message = "external hosts need handshake and fin: use the profile rfc, or set both keys";
            return Err((key("tcp"), message.into()));
        }
        let users = if external_clients { 0 } else { pairs.len() as u32 };
        let users = (first_user..first_user + users).collect();
        let service =
            external::Service::read(port, paths, protocol).map_err(|(k, message)| (key(k), message))?;
        let service_class = kind.service();
        Ok(Self {
            name: name.into(),
            tcp,
            marker,
            service_class,
            weight,
            measured: kind.is_measured(),
            pairs,
            servers,
            users,
            tells_size,
            workload,
            external_servers,
            service,
        })
    }

    /// Returns the TCP parameters, the marker and the service class of the group's connections.
    pub(crate) fn options(&self) -> TcpOptions {
        TcpOptions {
            config: self.tcp.clone(),
            marker: self.marker.clone(),
            service: self.service_class,
            weight: self.weight,
        }
    }

    /// Returns all pairs of a sending and a receiving host between which packets travel.
    pub(crate) fn routes(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        let all = |&(_, client): &(NodeId, NodeId)| self.servers.iter().map(move |&server| (server, client));
        let other = self.workload.reached_by_clients();
        let beside = self.pairs.iter().flat_map(move |&(_, client)| other.map(|node| (node, client)));
        let pairs = self.pairs.iter().copied().chain(self.pairs.iter().flat_map(all)).chain(beside);
        pairs.flat_map(|(server, client)| [(server, client), (client, server)])
    }

    /// Adds an application to each simulated server; the first server has the number `first`. Returns the number of the next server.
    pub(crate) fn serve(&self, world: &mut dyn AnyWorld, tcp: TcpId, seed: u64, first: u32) -> u32 {
        let app = |number| self.workload.server_app(seed, number, self.tells_size);
        if self.external_servers || app(first).is_none() {
            return first;
        }
        let nodes = self.pairs.iter().map(|(server, _)| *server).chain(self.servers.iter().copied());
        let nodes: BTreeSet<NodeId> = nodes.collect();
        // A server without an application also takes a number, so that the numbers in other groups do not depend on which hosts are
        // external.
        let has_clients = self.users.is_empty() || !self.workload.pushes();
        for (&node, number) in nodes.iter().zip(first..).filter(|_| has_clients) {
            app(number).into_iter().for_each(|app| world.add_server(node, tcp, app));
        }
        first + nodes.len() as u32
    }

    /// Adds an application for each user of the group, which starts at once.
    pub(crate) fn start(&self, world: &mut dyn AnyWorld, tcp: TcpId, seed: u64) {
        for (index, (&(server, client), &number)) in self.pairs.iter().zip(&self.users).enumerate() {
            let (tells_size, server_is_external) = (self.tells_size, self.external_servers);
            let (servers, position) = (self.servers.clone(), (index, self.users.len()));
            let user =
                User { number, seed, server, servers, client, tcp, tells_size, server_is_external, position };
            let app = self.workload.app(&user, world);
            world.add_app(app);
        }
    }
}

/// Servers and clients of a traffic group.
struct Ends {
    /// Pairs of a server and a client. Each server serves a block of neighbouring clients.
    pairs: Vec<(NodeId, NodeId)>,
    /// All servers of the group.
    servers: Vec<NodeId>,
    /// Two flags: true if the servers are external, and true if the clients are external.
    external: [bool; 2],
}

impl Ends {
    fn read(kind: &dyn TrafficKind, network: &Network) -> Result<Self, (&'static str, String)> {
        let [servers, clients] = kind.ends();
        let nodes = |(key, text)| {
            let nodes = select(&network.groups, text).map_err(|message| (key, message))?;
            let external =
                external::all_external(&network.external, &nodes, text).map_err(|message| (key, message))?;
            Ok((nodes, external))
        };
        let ((server_nodes, external_servers), (client_nodes, external_clients)) =
            (nodes(servers)?, nodes(clients)?);
        let (key, text) = clients;
        if external_servers && external_clients {
            return Err((
                key,
                format!("{text:?}: both ends are external, so that their commands generate the traffic"),
            ));
        }
        if (external_servers || external_clients) && kind.connections().is_none() {
            return Err((key, "background traffic is only between simulated hosts".into()));
        }
        let server = |i: usize| server_nodes[i * server_nodes.len() / client_nodes.len()];
        let pairs: Vec<_> = client_nodes.iter().enumerate().map(|(i, &client)| (server(i), client)).collect();
        if let Some(&(_, client)) = pairs.iter().find(|(server, client)| server == client) {
            let host = network.topology.name(client);
            return Err((key, format!("{text:?}: {host} is both server and client of a connection")));
        }
        Ok(Self { pairs, servers: server_nodes, external: [external_servers, external_clients] })
    }
}
