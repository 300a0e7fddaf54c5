use super::{AnyWorld, BuildContext, Connections, TrafficKind, User, Workload};
use crate::error::KeyError;
use crate::results::activities::ActivityKind;
use crate::results::rows::Unit;
use crate::scenario::describe::Nodes;
use crate::scenario::external::{ObjectName, PORT, Protocol};
use crate::scenario::files::Files;
use crate::scenario::tcp::TcpFile;
use crate::scenario::text::{Counts, Sizes, Times, yes};
use catnip_base::Distribution;
use catnip_net::NodeId;
use catnip_net::mark::Service;
use catnip_sim::app::{
    AnyApp, Http, ObjectRecord, Page, PageGenerator, PageRecord, PageSource, ServerConfig, WebClient,
    WebConfig,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Users that fetch Web pages.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "web")]
pub(crate) struct WebFile {
    /// Clients, which send requests. Each server serves a block of neighbouring clients.
    #[schemars(with = "Nodes", example = &"client[0..50]")]
    clients: String,
    /// Servers, which send responses.
    #[schemars(with = "Nodes", example = &"server")]
    servers: String,
    /// List of pages: a CSV file with the columns page, object_index and bytes; alternative to `generate`. Pages are numbered in order from
    /// 1, and the objects of a page in order from 0, which is the HTML. The path is relative to the scenario.
    #[schemars(example = &"pages.csv", extend("x-default" = "given by `generate`"))]
    pages: Option<PathBuf>,
    /// Randomly generated pages; alternative to `pages`.
    #[schemars(example = json!({ "html_bytes": "10KB", "images": 8, "image_bytes": "8KB" }), extend("x-default" = "given by `pages`"))]
    generate: Option<GenerateFile>,
    /// True if users fetch the pages of a list repeatedly until the end of the run, instead of once each. Users who draw their own pages
    /// never stop.
    #[serde(default)]
    #[schemars(example = true)]
    endless: bool,
    /// Version of HTTP. `1.0` uses a connection per object, `1.1` persistent connections. `approximate-1.1` uses a connection per page,
    /// which carries all bytes of the page as one document (CATNIP paper, section V-F).
    #[serde(default = "http_10")]
    #[schemars(extend("enum" = ["1.0", "1.1", "approximate-1.1"]), example = &"1.1")]
    http: String,
    /// HTTP/1.0 and 1.1: maximum number of parallel connections to the server.
    #[schemars(range(min = 1), example = 6, extend("default" = MAX_CONNECTIONS))]
    max_connections: Option<u32>,
    /// HTTP/1.1: true if a client sends requests before the responses to earlier requests have arrived.
    #[schemars(example = true, extend("default" = false))]
    pipelining: Option<bool>,
    /// HTTP/1.1: true if connections stay open at the end of a page, for use by the next page.
    #[schemars(example = false, extend("default" = true))]
    keep_alive: Option<bool>,
    /// Think time before the first page, and between the end of a page and the request for the next page.
    #[serde(alias = "think_s")]
    #[schemars(example = &"exponential:mean=5s")]
    think: Times,
    /// Number of packets of the HTML that must arrive before a client requests the images.
    #[schemars(example = 2, extend("x-default" = "all packets of the HTML"))]
    images_after_packets: Option<u32>,
    /// Size of a request, bytes. With 0, no request is sent: the server responds as soon as the connection is available.
    #[serde(default)]
    #[schemars(example = 300)]
    request_bytes: u64,
    /// Processing time of a server before a response. The responses of a connection keep their order.
    #[serde(alias = "server_delay_s")]
    #[schemars(example = &"exponential:mean=50ms", extend("x-default" = "none"))]
    server_delay: Option<Times>,
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
    /// TCP port of the servers, used only if a server or a client is external.
    #[schemars(range(min = 1), example = 8080, extend("default" = PORT))]
    port: Option<u16>,
    /// Pattern of the paths of objects, used only if a server or a client is external. The pattern may contain `{page}` (number from 1),
    /// `{object}` (number from 0), `{bytes}` (size) and `{user}` (number of the client).
    #[schemars(example = &"/files/{bytes}", extend("default" = PATHS))]
    paths: Option<String>,
}

/// Randomly generated pages.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "web-generate")]
struct GenerateFile {
    /// Number of pages in a list that is drawn with `seed` and is the same for all users.
    #[schemars(range(min = 1), example = 10, extend("x-default" = "each user draws its own pages, without end"))]
    pages: Option<u32>,
    /// Seed with which the list of `pages` is drawn. The two keys are only given together.
    #[schemars(example = 2002, extend("x-default" = "seed of the run"))]
    seed: Option<u64>,
    /// Size of the HTML, bytes.
    #[schemars(example = &"lognormal:mu=7.63,sigma=1.001")]
    html_bytes: Sizes,
    /// Number of images of a page.
    #[schemars(example = &"pareto:shape=2.43,minimum=1,maximum=100")]
    images: Counts,
    /// Size of an image, bytes.
    #[schemars(example = &"lognormal:mu=8.2,sigma=1.36,maximum=1MB")]
    image_bytes: Sizes,
}

/// Default pattern of the paths of objects.
const PATHS: &str = "/{page}/{object}";
/// Default maximum number of parallel connections.
const MAX_CONNECTIONS: u32 = 4;

fn http_10() -> String {
    "1.0".into()
}

impl TrafficKind for WebFile {
    fn activities() -> Vec<ActivityKind> {
        vec![ActivityKind::of::<PageRecord>(), ActivityKind::of::<ObjectRecord>()]
    }

    fn ends(&self) -> [(&'static str, &str); 2] {
        [("servers", &self.servers), ("clients", &self.clients)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let paths = self.paths.as_deref().unwrap_or(PATHS);
        let (tells_size, port, protocol) =
            (self.tells_size, self.port, Protocol::Http { persistent: self.http == "1.1" });
        Some(Connections { tcp: &self.tcp, tells_size, port, protocol, paths })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Arc<dyn Workload>, KeyError> {
        let pages = self.pages(context)?;
        let max_connections = self.max_connections.unwrap_or(MAX_CONNECTIONS);
        let (pipelining, keep_alive) = (self.pipelining.unwrap_or(false), self.keep_alive.unwrap_or(true));
        let http = match self.http.as_str() {
            "1.0" => Http::V10 { max_connections },
            "1.1" => Http::V11 { max_connections, pipelining, keep_alive },
            "approximate-1.1" => Http::Approximate,
            other => {
                let expected = "expected \"1.0\", \"1.1\" or \"approximate-1.1\"";
                return Err((context.key("http"), format!("{other:?}: {expected}")));
            }
        };
        let not_approximate = self.max_connections.map(|max| ("max_connections", max.to_string()));
        let only_11 = [("pipelining", self.pipelining), ("keep_alive", self.keep_alive)];
        let only_11 = only_11.into_iter().find_map(|(key, value)| Some((key, value?.to_string())));
        let without_effect = match http {
            Http::V11 { .. } => None,
            Http::V10 { .. } => only_11,
            Http::Approximate => not_approximate.or(only_11),
        };
        if let Some((key, value)) = without_effect {
            return Err((context.key(key), format!("{value}: no effect with http = {:?}", self.http)));
        }
        if max_connections == 0 {
            return Err((context.key("max_connections"), "0: expected at least 1".into()));
        }
        let is_external = |&(server, client): &(NodeId, NodeId)| {
            context.network.external.iter().any(|external| external.node == server || external.node == client)
        };
        if http == Http::Approximate && context.pairs.iter().any(is_external) {
            let message = "\"approximate-1.1\": external hosts do not support it; take \"1.1\"";
            return Err((context.key("http"), message.into()));
        }
        let segment_bytes = u64::from(context.tcp.segment_bytes);
        let images_after_bytes = self.images_after_packets.map_or(u64::MAX, |n| u64::from(n) * segment_bytes);
        let think_s = self.think.0.clone();
        let delay_s = self.server_delay.as_ref().map(|value| value.0.clone());
        let request_bytes = self.request_bytes;
        let config = Arc::new(WebConfig { pages, http, think_s, images_after_bytes, request_bytes });
        Ok(Arc::new(WebWorkload { config, delay_s }))
    }

    fn service(&self) -> Service {
        Service::Interactive
    }
}

impl WebFile {
    fn pages(&self, context: &BuildContext<'_>) -> Result<PageSource, KeyError> {
        let known = |pages| PageSource::Known { pages, endless: self.endless };
        match (&self.pages, &self.generate) {
            (Some(file), None) => {
                read_pages(context.files, file).map(known).map_err(context.error_at("pages"))
            }
            (None, Some(g)) => {
                let generator = PageGenerator {
                    html_bytes: g.html_bytes.0.clone(),
                    images: g.images.0.clone(),
                    image_bytes: g.image_bytes.0.clone(),
                };
                match (g.pages, g.seed) {
                    (None, None) => Ok(PageSource::Drawn(generator)),
                    (Some(0), _) => Err((context.key("generate.pages"), "0: expected at least 1".into())),
                    (Some(pages), Some(seed)) => Ok(known(generator.generate(pages, seed))),
                    (None, Some(_)) => {
                        Err((context.key("generate.pages"), "required with generate.seed".into()))
                    }
                    (Some(_), None) => {
                        Err((context.key("generate.seed"), "required with generate.pages".into()))
                    }
                }
            }
            _ => Err((context.key("pages"), "expected either pages or generate".into())),
        }
    }
}

#[derive(Debug)]
struct WebWorkload {
    config: Arc<WebConfig>,
    delay_s: Option<Distribution>,
}

impl Workload for WebWorkload {
    fn unit(&self) -> Unit {
        Unit::PAGE
    }

    fn app(&self, user: &User, _world: &mut dyn AnyWorld) -> AnyApp {
        AnyApp::Web(Box::new(WebClient::new(
            self.config.clone(),
            user.connection_spec(),
            user.seed,
            user.number,
        )))
    }

    fn server(&self) -> Option<ServerConfig> {
        let closes = !matches!(self.config.http, Http::V11 { .. });
        Some(ServerConfig { delay_s: self.delay_s.clone(), tells_size: true, closes })
    }

    fn documents(&self) -> Vec<ObjectName> {
        let PageSource::Known { pages, .. } = &self.config.pages else { return Vec::new() };
        let objects = (0..).zip(pages).flat_map(|(page, of)| {
            let name = move |(object, &bytes)| ObjectName { page, object, bytes, user: 0 };
            (0..).zip(&of.objects).map(name)
        });
        objects.collect()
    }
}

#[derive(Deserialize)]
struct PageRow {
    page: u32,
    object_index: u32,
    bytes: u64,
}

/// Reads pages from a CSV file with the columns page, object_index and bytes. The objects of a page are in order; the first object is the
/// HTML.
fn read_pages(files: &Files, file: &Path) -> Result<Vec<Page>, String> {
    let path = files.find(file);
    let file_error = |message: String| format!("{}: {message}", path.display());
    let file = files.open(&path).map_err(|error| file_error(error.to_string()))?;
    let mut reader = csv::Reader::from_reader(file);
    let mut pages: Vec<Page> = Vec::new();
    for (line, row) in reader.deserialize().enumerate() {
        let row: PageRow = row.map_err(|error| file_error(error.to_string()))?;
        let row_error = |message: &str| file_error(format!("row {}: {message}", line + 1));
        if row.bytes == 0 {
            return Err(row_error("bytes = 0: expected at least 1"));
        }
        if row.object_index == 0 {
            pages.push(Page { objects: Vec::new() });
        }
        let number = pages.len() as u32;
        let page = pages
            .last_mut()
            .filter(|page| number == row.page && page.objects.len() as u32 == row.object_index);
        page.ok_or_else(|| row_error("pages and objects must be numbered in order"))?.objects.push(row.bytes);
    }
    if pages.is_empty() { Err(file_error("no pages".into())) } else { Ok(pages) }
}
