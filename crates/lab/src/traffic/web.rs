use super::files::read_delay;
use super::{Connections, Scene, Stage, TrafficKind, User, Workload};
use crate::error::Wrong;
use crate::files::Files;
use crate::groups::Unit;
use crate::real::{ObjectName, Protocol};
use crate::tcp::TcpFile;
use crate::text::{DistributionText, yes};
use catnip_base::Distribution;
use catnip_net::NodeId;
use catnip_net::mark::Service;
use catnip_sim::app::{AnyApp, Http, Page, PageGenerator, PageSource, ServerConfig, WebClient, WebConfig};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// People who fetch pages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebFile {
    clients: String,
    servers: String,
    pages: Option<PathBuf>,
    generate: Option<GenerateFile>,
    /// Pages are fetched again and again; those that are drawn one by one always go on.
    #[serde(default)]
    endless: bool,
    #[serde(default = "http_10")]
    http: String,
    /// Four unless said.
    max_connections: Option<u32>,
    /// HTTP/1.1: requests do not wait for answers to earlier ones.
    pipelining: Option<bool>,
    /// HTTP/1.1: connections outlive the page; they do unless said.
    keep_alive: Option<bool>,
    think_s: DistributionText,
    /// Images are asked for after so many packets of the HTML.
    images_after_packets: Option<u32>,
    /// Bytes of a request; 0: a request takes no time.
    #[serde(default)]
    request_bytes: u64,
    /// Seconds that a server needs before it answers.
    server_delay_s: Option<DistributionText>,
    /// What its users do has rows in results.
    #[serde(default = "yes")]
    measured: bool,
    #[serde(default)]
    tcp: TcpFile,
    #[serde(default = "yes")]
    tells_size: bool,
    port: Option<u16>,
    paths: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GenerateFile {
    /// So many pages for everybody, from this seed; without both, users draw their own, on and on.
    pages: Option<u32>,
    seed: Option<u64>,
    html_bytes: DistributionText,
    images: DistributionText,
    image_bytes: DistributionText,
}

fn http_10() -> String {
    "1.0".into()
}

impl TrafficKind for WebFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("servers", &self.servers), ("clients", &self.clients)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let paths = self.paths.as_deref().unwrap_or("/{page}/{object}");
        let (tells_size, port, speaks) =
            (self.tells_size, self.port, Protocol::Http { persistent: self.http == "1.1" });
        Some(Connections { tcp: &self.tcp, tells_size, port, speaks, paths })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, scene: &Scene<'_>) -> Result<Arc<dyn Workload>, Wrong> {
        let pages = self.pages(scene)?;
        let max_connections = self.max_connections.unwrap_or(4);
        let (pipelining, keep_alive) = (self.pipelining.unwrap_or(false), self.keep_alive.unwrap_or(true));
        let http = match self.http.as_str() {
            "1.0" => Http::V10 { max_connections },
            "1.1" => Http::V11 { max_connections, pipelining, keep_alive },
            "approximate-1.1" => Http::Approximate,
            other => {
                let expected = "expected \"1.0\", \"1.1\" or \"approximate-1.1\"";
                return Err((scene.key("http"), format!("{other:?}: {expected}")));
            }
        };
        let not_approximate = self.max_connections.map(|most| ("max_connections", most.to_string()));
        let only_11 = [("pipelining", self.pipelining), ("keep_alive", self.keep_alive)];
        let only_11 = only_11.into_iter().find_map(|(key, said)| Some((key, said?.to_string())));
        let without_effect = match http {
            Http::V11 { .. } => None,
            Http::V10 { .. } => only_11,
            Http::Approximate => not_approximate.or(only_11),
        };
        if let Some((key, said)) = without_effect {
            return Err((scene.key(key), format!("{said}: without effect with http = {:?}", self.http)));
        }
        if max_connections == 0 {
            return Err((scene.key("max_connections"), "0: no connections".into()));
        }
        let is_real = |&(server, client): &(NodeId, NodeId)| {
            scene.network.real.iter().any(|real| real.node == server || real.node == client)
        };
        if http == Http::Approximate && scene.pairs.iter().any(is_real) {
            let what = "\"approximate-1.1\": nobody real speaks it; take \"1.1\"";
            return Err((scene.key("http"), what.into()));
        }
        let segment_bytes = u64::from(scene.tcp.segment_bytes);
        let images_after_bytes = self.images_after_packets.map_or(u64::MAX, |n| u64::from(n) * segment_bytes);
        let think_s = self.think_s.read().map_err(scene.at("think_s"))?;
        let delay_s = read_delay(scene, self.server_delay_s.as_ref())?;
        let request_bytes = self.request_bytes;
        let config = Arc::new(WebConfig { pages, http, think_s, images_after_bytes, request_bytes });
        Ok(Arc::new(WebWorkload { config, delay_s }))
    }

    fn service(&self) -> Service {
        Service::Interactive
    }
}

impl WebFile {
    fn pages(&self, scene: &Scene<'_>) -> Result<PageSource, Wrong> {
        let known = |pages| PageSource::Known { pages, endless: self.endless };
        match (&self.pages, &self.generate) {
            (Some(file), None) => read_pages(scene.files, file).map(known).map_err(scene.at("pages")),
            (None, Some(g)) => {
                let read = |text: &DistributionText, key: &str| {
                    text.read().map_err(scene.at(&format!("generate.{key}")))
                };
                let generator = PageGenerator {
                    html_bytes: read(&g.html_bytes, "html_bytes")?,
                    images: read(&g.images, "images")?,
                    image_bytes: read(&g.image_bytes, "image_bytes")?,
                };
                match (g.pages, g.seed) {
                    (None, None) => Ok(PageSource::Drawn(generator)),
                    (Some(0), _) => Err((scene.key("generate.pages"), "0: no pages".into())),
                    (Some(pages), Some(seed)) => Ok(known(generator.generate(pages, seed))),
                    (None, Some(_)) => Err((scene.key("generate.pages"), "how many pages?".into())),
                    (Some(_), None) => Err((scene.key("generate.seed"), "from which seed?".into())),
                }
            }
            _ => Err((scene.key("pages"), "give either pages or generate".into())),
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
        Unit::Page
    }

    fn app(&self, user: &User, _stage: &mut dyn Stage) -> AnyApp {
        AnyApp::Web(Box::new(WebClient::new(self.config.clone(), user.parties(), user.seed, user.number)))
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

/// Reads pages from CSV with the columns page, object_index and bytes; objects in order, the HTML first.
fn read_pages(files: &Files, file: &Path) -> Result<Vec<Page>, String> {
    let path = files.find(file);
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
