use super::{Connections, Scene, Stage, TrafficKind, User, Workload};
use crate::error::Wrong;
use crate::network::beside;
use crate::real::ObjectName;
use crate::tcp::TcpFile;
use crate::text::{DistributionText, yes};
use catnip_sim::app::{AnyApp, Http, Page, PageGenerator, WebClient, WebConfig};
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
    #[serde(default = "http_10")]
    http: String,
    #[serde(default = "four")]
    max_connections: u32,
    think_s: DistributionText,
    /// Images are asked for after so many packets of the HTML.
    images_after_packets: Option<u32>,
    /// Bytes of a request; 0: a request takes no time.
    #[serde(default)]
    request_bytes: u64,
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
    pages: u32,
    seed: u64,
    html_bytes: DistributionText,
    images: DistributionText,
    image_bytes: DistributionText,
}

fn http_10() -> String {
    "1.0".into()
}

fn four() -> u32 {
    4
}

impl TrafficKind for WebFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("servers", &self.servers), ("clients", &self.clients)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let paths = self.paths.as_deref().unwrap_or("/{page}/{object}");
        Some(Connections { tcp: &self.tcp, tells_size: self.tells_size, port: self.port, paths })
    }

    fn build(&self, scene: &Scene<'_>) -> Result<Arc<dyn Workload>, Wrong> {
        let pages = self.pages(scene)?;
        let http = match self.http.as_str() {
            "1.0" if self.max_connections > 0 => Http::V10 { max_connections: self.max_connections },
            "1.0" => return Err((scene.key("max_connections"), "0: no connections".into())),
            "1.1" => Http::V11,
            other => return Err((scene.key("http"), format!("{other:?}: expected \"1.0\" or \"1.1\""))),
        };
        let segment_bytes = u64::from(scene.tcp.segment_bytes);
        let images_after_bytes = self.images_after_packets.map_or(u64::MAX, |n| u64::from(n) * segment_bytes);
        let think_s = self.think_s.read().map_err(scene.at("think_s"))?;
        let config = Arc::new(WebConfig { pages, http, think_s, images_after_bytes });
        Ok(Arc::new(WebWorkload { config, request_bytes: self.request_bytes }))
    }
}

impl WebFile {
    fn pages(&self, scene: &Scene<'_>) -> Result<Vec<Page>, Wrong> {
        match (&self.pages, &self.generate) {
            (Some(file), None) => read_pages(scene.path, file).map_err(scene.at("pages")),
            (None, Some(g)) => {
                let read = |text: &DistributionText, key: &str| {
                    text.read().map_err(scene.at(&format!("generate.{key}")))
                };
                let generator = PageGenerator {
                    html_bytes: read(&g.html_bytes, "html_bytes")?,
                    images: read(&g.images, "images")?,
                    image_bytes: read(&g.image_bytes, "image_bytes")?,
                };
                if g.pages == 0 {
                    return Err((scene.key("generate.pages"), "0: no pages".into()));
                }
                Ok(generator.generate(g.pages, g.seed))
            }
            _ => Err((scene.key("pages"), "give either pages or generate".into())),
        }
    }
}

#[derive(Debug)]
struct WebWorkload {
    config: Arc<WebConfig>,
    request_bytes: u64,
}

impl Workload for WebWorkload {
    fn app(&self, user: &User, _stage: &mut dyn Stage) -> AnyApp {
        let template = user.transfer(0, self.request_bytes);
        AnyApp::Web(Box::new(WebClient::new(self.config.clone(), template, user.seed, user.number)))
    }

    fn documents(&self) -> Vec<ObjectName> {
        let objects = (0..).zip(&self.config.pages).flat_map(|(page, of)| {
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
