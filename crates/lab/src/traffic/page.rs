use super::{AnyWorld, BuildContext, Connections, TrafficKind, User, Workload};
use crate::error::KeyError;
use crate::formats::har::site_of;
use crate::formats::site_file::{Priorities, SiteFile, SiteOptions};
use crate::results::activities::ActivityKind;
use crate::results::rows::Unit;
use crate::scenario::describe::Nodes;
use crate::scenario::external::Protocol;
use crate::scenario::files::Files;
use crate::scenario::network::select;
use crate::scenario::tcp::TcpFile;
use crate::scenario::text::{Text, Times, yes};
use catnip_base::{Bytes, Distribution, Span};
use catnip_net::NodeId;
use catnip_net::mark::Service;
use catnip_sim::ConnectionSpec;
use catnip_sim::app::{
    AnyApp, Coalescing, FetchRecord, Framing, Handshake, LoadRecord, Loader, LoaderConfig, LookUps,
    ObjectRecord, Origin, OriginConfig, PageRecord, Tls, Version,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Browsers that load a recorded site.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "page")]
pub(crate) struct PageFile {
    /// Clients, on which the browsers run.
    #[schemars(with = "Nodes", example = &"client[0..50]")]
    clients: String,
    /// Servers. Each browser connects to all servers. The origins of the recording are assigned to the servers in rotation.
    #[schemars(with = "Nodes", example = &"server")]
    servers: String,
    /// Recording of the site: a HAR or a page file. The path is relative to the scenario.
    #[schemars(example = &"pages/site.har")]
    page: PathBuf,
    /// Version of HTTP: `1.1`, `2`, or `recorded`. With `1.1`, there are several connections to an origin, and responses follow each other on a
    /// connection. With `2`, there is one connection to an origin, on which responses are interleaved. With `recorded`, each origin has the
    /// version of its recorded responses; if that is unknown, `2` with `https`, and `1.1` without. Responses recorded over HTTP/3 are sent
    /// over HTTP/2.
    #[serde(default = "recorded")]
    #[schemars(extend("enum" = ["recorded", "1.1", "2"]), example = &"2")]
    http: String,
    /// HTTP/1.1: maximum number of parallel connections to an origin.
    #[schemars(range(min = 1), example = 2, extend("default" = CONNECTIONS_PER_ORIGIN))]
    connections_per_origin: Option<u32>,
    /// HTTP/2: true if origins on the same server share a connection, false if each has its own.
    #[schemars(example = true, extend("x-default" = "as recorded"))]
    coalesced: Option<bool>,
    /// Priorities of objects (RFC 9218), by which requests wait for a connection and responses over HTTP/2 follow each other.
    #[serde(default)]
    #[schemars(example = &"none", extend("default" = "chrome"))]
    priorities: Text<Priorities>,
    /// Limit of requests while objects block the first rendering: one of urgency 2 is sent if fewer of that urgency are outstanding, and a less
    /// urgent one if fewer of any are.
    #[schemars(range(min = 1), example = 10, extend("x-default" = "2 with the priorities of chrome, as Chromium until the body begins; otherwise none"))]
    early_limit: Option<u32>,
    /// HTTP/2: payload of a frame, up to 16777215 bytes.
    #[schemars(range(min = 1, max = MAX_FRAME_BYTES), example = 1400, extend("default" = FRAME_BYTES))]
    frame_bytes: Option<u64>,
    /// HTTP/2: threshold of unsent bytes. A server writes the next frame once fewer bytes of a connection are unsent.
    #[schemars(range(min = 1), example = 100_000, extend("default" = FRAME_BYTES))]
    unsent_bytes: Option<u64>,
    /// Handshake of TLS 1.3 at the opening of a connection to an origin with `https`.
    #[serde(default)]
    #[schemars(example = &"full", extend("default" = "browser"))]
    tls: Text<Handshake>,
    /// TLS: size of the certificate chain of a server.
    #[schemars(example = &"5KB", extend("default" = CERTIFICATE_BYTES))]
    certificate_bytes: Option<Text<Bytes>>,
    /// Look-ups of the host names of origins: `each-page`, `once` or `none`.
    #[serde(default = "each_page")]
    #[schemars(extend("enum" = ["each-page", "once", "none"]), example = &"once")]
    look_ups: String,
    /// Host that answers look-ups, over UDP.
    #[schemars(with = "Option<Nodes>", example = &"server[0]", extend("x-default" = "the first of `servers`"))]
    resolver: Option<String>,
    /// Time that the resolver takes for an answer.
    #[schemars(example = &"20ms", extend("x-default" = "none, as for an answer from its cache"))]
    resolver_time: Option<Times>,
    /// Time until queries without an answer are repeated. It doubles with each repetition, up to 5 s.
    #[schemars(example = &"5s", extend("default" = "1s"))]
    resolver_timeout: Option<Text<Span>>,
    /// True if connections stay open at the end of a page, for use by the next page.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    keep_alive: bool,
    /// Number of times that a browser loads all pages of the site.
    #[schemars(range(min = 1), example = 10, extend("default" = TIMES))]
    times: Option<u32>,
    /// True if the browsers load the pages repeatedly until the end of the run; alternative to `times`.
    #[serde(default)]
    #[schemars(example = true)]
    endless: bool,
    /// Think time before the first page, and between the end of a page and the start of the next page.
    #[serde(alias = "think_s")]
    #[schemars(example = &"exponential:mean=2s", extend("x-default" = "none"))]
    think: Option<Times>,
    /// True if results have rows for the activity of the users. The packets of the group are always counted.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    measured: bool,
    /// TCP parameters of this group that differ from `[tcp]`.
    #[serde(default)]
    #[schemars(example = json!({ "control": "cubic" }), extend("x-default" = "same as `[tcp]`"))]
    tcp: TcpFile,
    /// True if senders pass the size of each message to TCP, for marking, early congestion avoidance and pacing.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    tells_size: bool,
}

/// Default size of a certificate chain.
const CERTIFICATE_BYTES: u64 = 3500;
/// Largest size of a certificate chain: the limit of RFC 8446, section 4.4.2.
const MAX_CERTIFICATE_BYTES: u64 = (1 << 24) - 1;

fn recorded() -> String {
    "recorded".into()
}

fn each_page() -> String {
    "each-page".into()
}

/// Default time until a query is repeated, that of Chromium (`kDnsDefaultFallbackPeriod`).
const RESOLVER_TIMEOUT: Span = Span::from_secs(1);

/// Default number of loads of a site.
const TIMES: u32 = 1;
/// Default number of connections to an origin, as in browsers.
const CONNECTIONS_PER_ORIGIN: u32 = 6;
/// Limit of early requests in Chromium (tight mode of its ResourceLoadScheduler).
const EARLY_LIMIT: u32 = 2;
/// Default size of a frame. RFC 9113, section 6.5.2, SETTINGS_MAX_FRAME_SIZE: "The initial value is 2^14 (16,384) octets", and the maximum
/// is 2^24-1.
const FRAME_BYTES: u64 = 16_384;
const MAX_FRAME_BYTES: u64 = 16_777_215;

impl TrafficKind for PageFile {
    fn activities() -> Vec<ActivityKind> {
        vec![
            ActivityKind::of::<PageRecord>(),
            ActivityKind::of::<ObjectRecord>(),
            ActivityKind::of::<LoadRecord>(),
            ActivityKind::of::<FetchRecord>(),
        ]
    }

    fn ends(&self) -> [(&'static str, &str); 2] {
        [("servers", &self.servers), ("clients", &self.clients)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let protocol = Protocol::Http { persistent: true };
        Some(Connections { tcp: &self.tcp, tells_size: self.tells_size, port: None, protocol, paths: "/" })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn uses_all_servers(&self) -> bool {
        true
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Arc<dyn Workload>, KeyError> {
        for (key, nodes) in [("servers", &self.servers), ("clients", &self.clients)] {
            let is_external = |external: &crate::ExternalNode| {
                context
                    .pairs
                    .iter()
                    .any(|&(server, client)| external.node == if key == "servers" { server } else { client })
            };
            if context.network.external.iter().any(is_external) {
                let message = format!("{nodes:?}: a recorded site is only replayed between simulated hosts");
                return Err((context.key(key), message));
            }
        }
        let file = read_page(context.files, &self.page).map_err(context.error_at("page"))?;
        let (version, framing) = self.version(context)?;
        let site = Arc::new(file.site(SiteOptions { version, priorities: self.priorities.0 }));
        let times = match (self.times, self.endless) {
            (Some(0), _) => return Err((context.key("times"), "0: expected at least 1".into())),
            (Some(_), true) => return Err((context.key("times"), "expected either times or endless".into())),
            (times, false) => Some(times.unwrap_or(TIMES)),
            (None, true) => None,
        };
        let config = LoaderConfig {
            site,
            connections_per_origin: self.connections_per_origin.unwrap_or(CONNECTIONS_PER_ORIGIN),
            coalescing: match self.coalesced {
                None => Coalescing::Recorded,
                Some(true) => Coalescing::ByServer,
                Some(false) => Coalescing::Never,
            },
            tls: self.tls(context)?,
            look_ups: self.look_ups(context)?,
            early_limit: self.early_limit(context)?,
            keep_alive: self.keep_alive,
            times,
            think_s: self.think.as_ref().map_or(Distribution::Constant(0.0), |value| value.0.clone()),
        };
        let resolver = self.resolver(context)?.filter(|_| config.look_ups.is_some());
        Ok(Arc::new(PageWorkload { config: Arc::new(config), framing, resolver }))
    }

    fn service(&self) -> Service {
        Service::Interactive
    }
}

impl PageFile {
    fn tls(&self, context: &BuildContext<'_>) -> Result<Tls, KeyError> {
        let handshake = self.tls.0;
        let bytes = self.certificate_bytes.map_or(CERTIFICATE_BYTES, |Text(Bytes(bytes))| bytes);
        if self.certificate_bytes.is_some() && !matches!(handshake, Handshake::Full | Handshake::Browser) {
            let message = "only for tls = \"browser\" or \"full\"";
            return Err((context.key("certificate_bytes"), message.into()));
        }
        if bytes > MAX_CERTIFICATE_BYTES {
            let message = format!("{bytes}: expected at most {MAX_CERTIFICATE_BYTES} bytes");
            return Err((context.key("certificate_bytes"), message));
        }
        Ok(Tls { handshake, certificate_bytes: bytes })
    }

    /// Returns the version of HTTP of all origins, or `None` for the recorded ones, and the writing of responses over HTTP/2.
    fn version(&self, context: &BuildContext<'_>) -> Result<(Option<Version>, Framing), KeyError> {
        let only = |other: &str, keys: &[(&str, bool)]| match keys.iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err((context.key(key), format!("only for http = {other:?}"))),
            None => Ok(()),
        };
        let within = |key: &str, value: Option<u64>, max: u64| match value.unwrap_or(FRAME_BYTES) {
            bytes if (1..=max).contains(&bytes) => Ok(bytes),
            bytes => Err((context.key(key), format!("{bytes}: expected 1 to {max} bytes"))),
        };
        let version = match self.http.as_str() {
            "recorded" => None,
            "1.1" => Some(Version::Http1),
            "2" => Some(Version::Http2),
            other => {
                let expected = "expected \"recorded\", \"1.1\" or \"2\"";
                return Err((context.key("http"), format!("{other:?}: {expected}")));
            }
        };
        if version == Some(Version::Http1) {
            let of_http_2 = [
                ("coalesced", self.coalesced.is_some()),
                ("frame_bytes", self.frame_bytes.is_some()),
                ("unsent_bytes", self.unsent_bytes.is_some()),
            ];
            only("2", &of_http_2)?;
        }
        if version == Some(Version::Http2) {
            only("1.1", &[("connections_per_origin", self.connections_per_origin.is_some())])?;
        }
        if self.connections_per_origin == Some(0) {
            return Err((context.key("connections_per_origin"), "0: expected at least 1".into()));
        }
        let framing = Framing {
            frame_bytes: within("frame_bytes", self.frame_bytes, MAX_FRAME_BYTES)?,
            unsent_bytes: within("unsent_bytes", self.unsent_bytes, u64::from(u32::MAX))?,
        };
        Ok((version, framing))
    }

    fn early_limit(&self, context: &BuildContext<'_>) -> Result<Option<u32>, KeyError> {
        match (self.early_limit, self.priorities.0) {
            (Some(0), _) => Err((context.key("early_limit"), "0: expected at least 1".into())),
            (None, Priorities::Chrome) => Ok(Some(EARLY_LIMIT)),
            (limit, _) => Ok(limit),
        }
    }

    fn look_ups(&self, context: &BuildContext<'_>) -> Result<Option<LookUps>, KeyError> {
        let each_page = match self.look_ups.as_str() {
            "each-page" => true,
            "once" => false,
            "none" => {
                let keys = [
                    ("resolver", self.resolver.is_some()),
                    ("resolver_time", self.resolver_time.is_some()),
                    ("resolver_timeout", self.resolver_timeout.is_some()),
                ];
                return match keys.iter().find(|(_, is_set)| *is_set) {
                    Some((key, _)) => Err((context.key(key), "not for look_ups = \"none\"".into())),
                    None => Ok(None),
                };
            }
            other => {
                let expected = "expected \"each-page\", \"once\" or \"none\"";
                return Err((context.key("look_ups"), format!("{other:?}: {expected}")));
            }
        };
        let timeout = self.resolver_timeout.map_or(RESOLVER_TIMEOUT, |timeout| timeout.0);
        if timeout == Span::ZERO {
            return Err((context.key("resolver_timeout"), "0: expected a positive time".into()));
        }
        let resolver_s = self.resolver_time.as_ref().map_or(Distribution::Constant(0.0), |it| it.0.clone());
        Ok(Some(LookUps { resolver_s, timeout, each_page }))
    }

    /// Returns the host that answers look-ups; `None` for the first server of each browser.
    fn resolver(&self, context: &BuildContext<'_>) -> Result<Option<NodeId>, KeyError> {
        let Some(name) = &self.resolver else { return Ok(None) };
        let error = context.error_at("resolver");
        let nodes = select(&context.network.groups, name).map_err(&error)?;
        match nodes[..] {
            [node]
                if context.network.topology.is_router(node)
                    || context.network.external.iter().any(|external| external.node == node) =>
            {
                Err(error(format!("{name:?}: expected a simulated host")))
            }
            [node] => Ok(Some(node)),
            _ => Err(error(format!("{name:?}: {} hosts; expected one", nodes.len()))),
        }
    }
}

#[derive(Debug)]
struct PageWorkload {
    config: Arc<LoaderConfig>,
    framing: Framing,
    /// Host that answers look-ups; `None` for the first server of each browser.
    resolver: Option<NodeId>,
}

impl PageWorkload {
    fn has_look_ups(&self) -> bool {
        self.config.look_ups.is_some()
    }
}

/// Reads the site in a file that the scenario names.
fn read_page(files: &Files, file: &Path) -> Result<SiteFile, String> {
    let path = files.find(file);
    let contents = files.open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    site_of(&path, contents).map_err(|error| error.to_string())
}

impl Workload for PageWorkload {
    fn unit(&self) -> Unit {
        Unit::PAGE
    }

    fn app(&self, user: &User, world: &mut dyn AnyWorld) -> AnyApp {
        let servers: Vec<ConnectionSpec> =
            user.servers.iter().map(|&server| ConnectionSpec { server, ..user.connection_spec() }).collect();
        let resolver = self.resolver.unwrap_or(user.servers[0]);
        let mut exchange = || [world.add_flow(user.client, resolver), world.add_flow(resolver, user.client)];
        let names = if self.has_look_ups() { &self.config.site.names[..] } else { &[] };
        let flows = names.iter().map(|_| [exchange(), exchange()]).collect();
        AnyApp::Loader(Box::new(Loader::new(self.config.clone(), &servers, flows, user.seed, user.number)))
    }

    fn server_app(&self, _seed: u64, _number: u32, tells_size: bool) -> Option<AnyApp> {
        let config = OriginConfig { site: self.config.site.clone(), framing: self.framing, tells_size };
        Some(AnyApp::Origin(Box::new(Origin::new(Arc::new(config)))))
    }

    fn flows(&self) -> u32 {
        let names = if self.has_look_ups() { self.config.site.names.len() } else { 0 };
        (names * LookUps::QUERIES * 2) as u32
    }

    fn reached_by_clients(&self) -> Option<NodeId> {
        self.resolver
    }
}
