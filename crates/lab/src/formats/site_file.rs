//! Page files: recorded sites as readable JSON, one object per line.

mod fetches;

pub(crate) use self::fetches::is_incremental;
pub use self::fetches::{Holds, Priorities, ResourceKind};

use self::fetches::{parse_priority, version_of};
use crate::InputError;
use catnip_base::{Span, keywords};
use catnip_sim::app::{Milestone, Site, SiteObject, SiteOrigin, SitePage, Version};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::io::BufRead;
use url::{Host, Url};

/// Recorded site: pages whose objects come from several origins and depend on each other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteFile {
    /// Version of the format: 1.
    catnip_page: u32,
    /// Scheme, host and port of each origin.
    pub origins: Vec<String>,
    /// Pages, at least one.
    pub pages: Vec<RecordedPage>,
}

/// Recorded page.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPage {
    /// URL of the first object, without possibly private parts.
    pub url: String,
    /// Time from the end of the last object for which the load event waits to that event, milliseconds.
    #[serde(default)]
    pub load_delay_ms: f64,
    /// Objects in the order of their requests, at least one.
    pub objects: Vec<RecordedObject>,
}

/// Object of a recorded page.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedObject {
    /// Index of the object's origin in [`SiteFile::origins`].
    pub origin: u32,
    /// Path of the URL, without query.
    pub path: String,
    /// Bytes of the request.
    pub request_bytes: u64,
    /// Bytes of the response with its header, as transferred over the network.
    pub bytes: u64,
    /// Processing time of the server, milliseconds.
    pub server_ms: f64,
    /// Index in the page of the earlier object that must end before the request; `None` if the request waits only for the start of the
    /// page.
    pub after: Option<u32>,
    /// Delay from the end of the object in [`Self::after`], or from the start of the page, to the request, milliseconds.
    pub delay_ms: f64,
    /// Index of the connection over which the response arrived, among the connections of the page; `None` if unknown.
    pub connection: Option<u32>,
    /// Version of HTTP over which the response came; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<HttpVersion>,
    /// Bytes of the request with its header compressed as over HTTP/2, without the header of its frame; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compressed_bytes: Option<u64>,
    /// Kind of the object; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ResourceKind>,
    /// Priority with which the browser requested the object, as in the `priority` header (RFC 9218); `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// Milestone of the page that waits for the object; `None` for the load event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Holds>,
}

/// Choices that make a simulated site of a recorded one.
#[derive(Clone, Copy, Debug)]
pub struct SiteOptions {
    /// Version of HTTP of all origins; `None` for the recorded one of each, and where that is unknown HTTP/2 with TLS and HTTP/1.1
    /// without it.
    pub version: Option<Version>,
    /// Source of the priorities of objects.
    pub priorities: Priorities,
}

keywords! {
    /// Version of HTTP over which a response came.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    pub enum HttpVersion {
        /// HTTP/1.1 or before.
        #[serde(rename = "h1")]
        Http1 = ("h1", "HTTP/1.1 or before."),
        /// HTTP/2, or its forerunner SPDY.
        #[serde(rename = "h2")]
        Http2 = ("h2", "HTTP/2."),
        /// HTTP/3 over QUIC.
        #[serde(rename = "h3")]
        Http3 = ("h3", "HTTP/3."),
    }
}

/// Error in a page file: its location as a JSON path, and its description.
type KeyError = (String, String);

/// Maximum size of an object: a terabyte.
pub(super) const MAX_BYTES: u64 = 1_000_000_000_000;
/// Maximum of the times of a page file, milliseconds: a day.
pub(super) const MAX_MS: f64 = 86_400_000.0;

impl SiteFile {
    const VERSION: u32 = 1;

    /// Returns a site with these origins and pages, or an error if a page is invalid.
    pub(crate) fn new(origins: Vec<String>, pages: Vec<RecordedPage>) -> Result<Self, KeyError> {
        let file = Self { catnip_page: Self::VERSION, origins, pages };
        file.check()?;
        Ok(file)
    }

    /// Reads a page file. Errors name the file as `name`.
    pub fn read(name: &str, from: impl BufRead) -> Result<Self, InputError> {
        let file: Self = read_json(name, from)?;
        file.check().map_err(|(at, message)| InputError::new(name, &at, message))?;
        Ok(file)
    }

    /// Returns the text of the page file.
    pub fn to_text(&self) -> String {
        let quoted = |text: &String| serde_json::Value::from(text.as_str()).to_string();
        let origins: Vec<_> = self.origins.iter().map(|origin| format!("    {}", quoted(origin))).collect();
        let mut out = format!("{{\n  \"catnip_page\": {},\n  \"origins\": [\n", self.catnip_page);
        let _ = write!(out, "{}\n  ],\n  \"pages\": [", origins.join(",\n"));
        for (number, page) in self.pages.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(out, "{comma}\n    {{\n      \"url\": {},\n", quoted(&page.url));
            if page.load_delay_ms > 0.0 {
                let _ = writeln!(out, "      \"load_delay_ms\": {},", page.load_delay_ms);
            }
            let object =
                |object| serde_json::to_string(object).expect("numbers, which are finite, and texts");
            let objects: Vec<_> = page.objects.iter().map(|it| format!("        {}", object(it))).collect();
            let _ = write!(out, "      \"objects\": [\n{}\n      ]\n    }}", objects.join(",\n"));
        }
        out.push_str("\n  ]\n}\n");
        out
    }

    /// Converts the recording to the site that simulated browsers and servers use.
    pub fn site(&self, options: SiteOptions) -> Site {
        let mut names: Vec<String> = Vec::new();
        let versions = self.versions(options);
        let shared = self.shared_connections();
        let origins: Vec<SiteOrigin> = (0..)
            .zip(self.origins.iter().zip(&versions))
            .map(|(number, (origin, &version))| {
                let name = host_name(origin).map(|host| {
                    names.iter().position(|known| *known == host).unwrap_or_else(|| {
                        names.push(host);
                        names.len() - 1
                    }) as u32
                });
                SiteOrigin { name, tls: has_tls(origin), version, shares: shared[number] }
            })
            .collect();
        let page = |page: &RecordedPage| {
            let objects = page.objects.iter();
            let objects = objects.map(|of| of.site_object(&versions, options.priorities)).collect();
            SitePage::new(objects, Span::from_secs_f64(page.load_delay_ms / 1e3))
        };
        let pages = self.pages.iter().map(page).collect();
        Site { names: names.iter().map(|name| name.len() as u32).collect(), origins, pages }
    }

    /// Returns the version of HTTP of each origin.
    fn versions(&self, options: SiteOptions) -> Vec<Version> {
        let objects_of = |number| {
            let objects = self.pages.iter().flat_map(|page| &page.objects);
            objects.filter(move |object| object.origin == number).filter_map(|object| object.protocol)
        };
        let recorded = |(number, origin): (u32, &String)| version_of(objects_of(number), has_tls(origin));
        (0..).zip(&self.origins).map(|origin| options.version.unwrap_or_else(|| recorded(origin))).collect()
    }

    /// Returns for each origin the first one with which it shares a connection in the recording, or itself.
    fn shared_connections(&self) -> Vec<u32> {
        let mut first: Vec<u32> = (0..self.origins.len() as u32).collect();
        for page in &self.pages {
            let mut origin_of: Vec<Option<u32>> = Vec::new();
            for object in &page.objects {
                let Some(connection) = object.connection else { continue };
                let connection = connection as usize;
                if connection >= page.objects.len() {
                    continue;
                }
                origin_of.resize(origin_of.len().max(connection + 1), None);
                let other = first[*origin_of[connection].get_or_insert(object.origin) as usize];
                let own = first[object.origin as usize];
                let (from, to) = (own.max(other), own.min(other));
                first.iter_mut().filter(|it| **it == from).for_each(|it| *it = to);
            }
        }
        first
    }

    fn check(&self) -> Result<(), KeyError> {
        if self.catnip_page != Self::VERSION {
            let message = format!("{}: expected version {}", self.catnip_page, Self::VERSION);
            return Err(("catnip_page".into(), message));
        }
        if self.pages.is_empty() {
            return Err(("pages".into(), "no pages".into()));
        }
        for (number, page) in self.pages.iter().enumerate() {
            if !(0.0..=MAX_MS).contains(&page.load_delay_ms) {
                let message = format!("{}: expected 0 to {MAX_MS}", page.load_delay_ms);
                return Err((format!("pages[{number}].load_delay_ms"), message));
            }
            if page.objects.is_empty() {
                return Err((format!("pages[{number}].objects"), "no objects".into()));
            }
            for (index, object) in (0..).zip(&page.objects) {
                object
                    .check(index, self.origins.len())
                    .map_err(|(key, message)| (format!("pages[{number}].objects[{index}].{key}"), message))?;
            }
        }
        Ok(())
    }
}

impl RecordedObject {
    /// Converts the object to one of a simulated site, whose origins have these versions of HTTP.
    fn site_object(&self, versions: &[Version], priorities: Priorities) -> SiteObject {
        let span = |ms: f64| Span::from_secs_f64(ms / 1e3);
        let compressed = match versions[self.origin as usize] {
            Version::Http1 => None,
            Version::Http2 => self.compressed_bytes,
        };
        let recorded = self.priority.as_deref().and_then(parse_priority);
        SiteObject {
            origin: self.origin,
            request_bytes: compressed.unwrap_or(self.request_bytes),
            bytes: self.bytes,
            server_time: span(self.server_ms),
            after: self.after,
            delay: span(self.delay_ms),
            priority: priorities.of(recorded, self.kind),
            holds: self.holds.map_or(Milestone::Load, Holds::milestone),
        }
    }

    fn check(&self, index: u32, origins: usize) -> Result<(), (&'static str, String)> {
        if self.origin as usize >= origins {
            return Err((
                "origin",
                format!("{}: expected one of {origins} origins, numbered from 0", self.origin),
            ));
        }
        if let Some(after) = self.after.filter(|after| *after >= index) {
            return Err(("after", format!("{after}: expected the number of an earlier object")));
        }
        if self.bytes == 0 {
            return Err(("bytes", "0: expected at least 1".into()));
        }
        if let Some(priority) = self.priority.as_ref().filter(|text| parse_priority(text).is_none()) {
            return Err(("priority", format!("{priority:?}: expected such as \"u=1\" or \"u=3, i\"")));
        }
        let compressed = self.compressed_bytes.unwrap_or(0);
        let sizes =
            [("bytes", self.bytes), ("request_bytes", self.request_bytes), ("compressed_bytes", compressed)];
        for (key, bytes) in sizes {
            if bytes > MAX_BYTES {
                return Err((key, format!("{bytes}: expected at most {MAX_BYTES}")));
            }
        }
        for (key, ms) in [("server_ms", self.server_ms), ("delay_ms", self.delay_ms)] {
            if !(0.0..=MAX_MS).contains(&ms) {
                return Err((key, format!("{ms}: expected 0 to {MAX_MS}")));
            }
        }
        Ok(())
    }
}

/// Returns true for an origin with TLS.
fn has_tls(origin: &str) -> bool {
    origin.starts_with("https:")
}

/// Returns the host name of an origin; `None` for an address.
fn host_name(origin: &str) -> Option<String> {
    match Url::parse(origin).ok()?.host()? {
        Host::Domain(name) => Some(name.into()),
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

/// Reads one JSON document incrementally. Error messages begin with the JSON path. A byte order mark is skipped.
pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(
    name: &str,
    mut from: impl BufRead,
) -> Result<T, InputError> {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    let begins = from.fill_buf().map_err(|error| InputError::new(name, "", error))?;
    if begins.starts_with(BYTE_ORDER_MARK) {
        from.consume(BYTE_ORDER_MARK.len());
    }
    let mut json = serde_json::Deserializer::from_reader(from);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        // The path is incomplete if the document ends within a key.
        let path = error.path().to_string();
        InputError::new(name, path.trim_end_matches(['.', '?']), error.inner())
    })?;
    json.end().map_err(|error| InputError::new(name, "", error))?;
    Ok(read)
}
