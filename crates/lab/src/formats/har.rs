//! HAR 1.2 (<http://www.softwareishard.com/blog/har-12-spec/>), as exported by browsers, with the fields that Chromium adds. Private fields
//! are skipped while reading, and bodies are skipped byte by byte, so that a recording needs no more memory than its list of requests.

use crate::InputError;
use crate::formats::site_file::{RecordedObject, RecordedPage, SiteFile, read_json};
use catnip_base::keywords;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use url::Url;

keywords! {
    /// Reason for which an entry of a HAR is left out.
    #[derive(PartialOrd, Ord)]
    pub enum Dropped {
        /// Response from the browser itself: from its cache or a service worker.
        Cached = ("cached", "Response from the browser's cache or a service worker."),
        /// Missing or incomplete response.
        Failed = ("failed", "Missing or incomplete response."),
        /// Object contained in its URL.
        Data = ("data", "Object contained in its URL."),
        /// WebSocket connection, which is not an object of the page.
        WebSocket = ("websocket", "WebSocket."),
        /// Scheme other than HTTP.
        Scheme = ("scheme", "URL with a scheme other than http and https."),
        /// Response without a recorded size.
        Empty = ("empty", "Response without a recorded size."),
    }
}

/// Summary of a page of a HAR.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarPage {
    /// URL of the first object, without possibly private parts; empty if the page has no object and is left out.
    pub url: String,
    /// Number of origins of the objects.
    pub origins: usize,
    /// Number of objects.
    pub objects: usize,
    /// Total size of the responses, bytes.
    pub bytes: u64,
    /// Number of connections over which the responses arrived. Responses without a recorded connection are not counted.
    pub connections: usize,
    /// Number of entries that were left out, by reason.
    pub dropped: BTreeMap<Dropped, usize>,
}

/// Reads a HAR, and returns the site and a summary of each page.
pub fn read_har(path: &Path) -> Result<(SiteFile, Vec<HarPage>), InputError> {
    let name = path.display().to_string();
    let file = crate::input::open(path).map_err(|error| InputError::new(&name, "", error))?;
    har_of(&name, BufReader::new(file))
}

/// Reads a HAR if the name ends in `.har`, otherwise a page file.
pub fn read_site(path: &Path) -> Result<SiteFile, InputError> {
    let file = crate::input::open(path);
    site_of(path, file.map_err(|error| InputError::new(&path.display().to_string(), "", error))?)
}

/// Reads what the file with this path contains, a HAR or a page file.
pub(crate) fn site_of(path: &Path, contents: impl Read) -> Result<SiteFile, InputError> {
    let (name, contents) = (path.display().to_string(), BufReader::new(contents));
    if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("har")) {
        return Ok(har_of(&name, contents)?.0);
    }
    SiteFile::read(&name, contents)
}

fn har_of(name: &str, contents: impl BufRead) -> Result<(SiteFile, Vec<HarPage>), InputError> {
    let Har { log } = read_json(name, contents)?;
    convert(log).map_err(|(at, message)| InputError::new(name, &at, message))
}

/// Error in a HAR: its location as a JSON path, and its description.
type KeyError = (String, String);

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    #[serde(default)]
    pages: Vec<LogPage>,
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogPage {
    id: String,
    started_date_time: Timestamp,
}

/// Properties of a HAR entry that are needed until all entries are read.
#[derive(Deserialize)]
#[serde(from = "RawEntry")]
struct Entry {
    page: Option<String>,
    start: Timestamp,
    /// Total time of the request and the response, milliseconds.
    duration_ms: f64,
    wait_ms: f64,
    /// Time to open a new connection, without TLS, milliseconds; `None` if no connection was opened.
    connect_ms: Option<f64>,
    url: UrlParts,
    redirects_to: String,
    request_bytes: u64,
    bytes: u64,
    connection: Option<String>,
    initiators: Vec<String>,
    /// Reason for which the entry is left out; `None` if the entry becomes an object.
    dropped: Option<Dropped>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEntry {
    pageref: Option<String>,
    started_date_time: Timestamp,
    time: f64,
    request: Request,
    response: Response,
    timings: Timings,
    connection: Option<String>,
    /// Identifier of the connection in Chromium, whose field `connection` is a port number.
    #[serde(rename = "_connectionId")]
    connection_id: Option<String>,
    #[serde(rename = "_initiator")]
    initiator: Option<Initiator>,
    #[serde(rename = "_fromCache")]
    from_cache: Option<IgnoredAny>,
    #[serde(rename = "_resourceType")]
    resource_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: Length,
    url: UrlParts,
    #[serde(default)]
    headers: Vec<Header>,
    headers_size: Option<f64>,
    body_size: Option<f64>,
}

#[derive(Deserialize)]
struct Header {
    name: Length,
    value: Length,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    status: f64,
    #[serde(default, rename = "redirectURL")]
    redirect_url: String,
    #[serde(default)]
    headers: Vec<Header>,
    headers_size: Option<f64>,
    body_size: Option<f64>,
    content: Option<Content>,
    #[serde(rename = "_transferSize")]
    transfer_size: Option<f64>,
    #[serde(rename = "_error")]
    error: Option<IgnoredAny>,
    #[serde(default, rename = "_fetchedViaServiceWorker")]
    by_service_worker: bool,
}

#[derive(Deserialize)]
struct Content {
    size: Option<f64>,
    compression: Option<f64>,
}

#[derive(Deserialize)]
struct Timings {
    wait: Timing,
    connect: Option<Timing>,
    ssl: Option<Timing>,
}

/// Part of the time of a request, milliseconds; -1 if it does not apply to the request (HAR 1.2, timings). Browsers write some times that
/// round to zero a little below it.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Timing(f64);

impl TryFrom<f64> for Timing {
    type Error = String;
    fn try_from(ms: f64) -> Result<Self, String> {
        if ms >= -1.0 { Ok(Self(ms)) } else { Err(format!("{ms}: expected milliseconds, or -1 for none")) }
    }
}

/// Cause of a request in Chromium: the document that was being parsed, or the scripts that were running.
#[derive(Deserialize)]
struct Initiator {
    url: Option<String>,
    stack: Option<Stack>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stack {
    #[serde(default)]
    call_frames: Vec<Frame>,
    parent: Option<Box<Stack>>,
}

#[derive(Deserialize)]
struct Frame {
    #[serde(default)]
    url: String,
}

/// Maximum number of scripts that are kept per initiator: more than enough to find one that is in the recording.
const MAX_INITIATORS: usize = 16;

impl From<RawEntry> for Entry {
    fn from(raw: RawEntry) -> Self {
        let RawEntry { request, response, timings, .. } = raw;
        let url = request.url;
        let header_bytes_of = |list: &[Header], first: usize| {
            let line = |header: &Header| header.name.0 + header.value.0 + ": \r\n".len();
            (list.iter().map(line).sum::<usize>() + first + "\r\n".len()) as u64
        };
        let known_bytes = |size: Option<f64>| size.filter(|size| *size >= 0.0).map(|size| size as u64);
        let request_line = request.method.0 + url.path.len() + "  HTTP/1.1\r\n".len();
        let request_bytes = known_bytes(request.headers_size)
            .unwrap_or_else(|| header_bytes_of(&request.headers, request_line))
            .saturating_add(known_bytes(request.body_size).unwrap_or(0));
        let content = response.content.as_ref().and_then(|content| {
            let saved = content.compression.unwrap_or(0.0).max(0.0);
            known_bytes(content.size).map(|bytes| bytes.saturating_sub(saved as u64))
        });
        let body = known_bytes(response.body_size).or(content);
        let header_bytes = known_bytes(response.headers_size).unwrap_or_else(|| match response.headers[..] {
            [] => 0,
            _ => header_bytes_of(&response.headers, "HTTP/1.1 200\r\n".len()),
        });
        let sum = body.map(|body| header_bytes.saturating_add(body));
        let bytes = known_bytes(response.transfer_size).or(sum).unwrap_or(0);
        let is_socket = raw.resource_type.as_deref() == Some("websocket") || response.status == 101.0;
        let dropped = match url.scheme {
            Scheme::Data => Some(Dropped::Data),
            Scheme::WebSocket => Some(Dropped::WebSocket),
            Scheme::Http if is_socket => Some(Dropped::WebSocket),
            Scheme::Other => Some(Dropped::Scheme),
            Scheme::Http if raw.from_cache.is_some() || response.by_service_worker => Some(Dropped::Cached),
            Scheme::Http if response.status <= 0.0 || response.error.is_some() => Some(Dropped::Failed),
            Scheme::Http if bytes == 0 => Some(Dropped::Empty),
            Scheme::Http => None,
        };
        let connect = timings.connect.map(|Timing(ms)| ms).filter(|ms| *ms > 0.0);
        Self {
            page: raw.pageref,
            start: raw.started_date_time,
            duration_ms: raw.time.max(0.0),
            wait_ms: timings.wait.0.max(0.0),
            connect_ms: connect.map(|ms| (ms - timings.ssl.map_or(0.0, |Timing(ms)| ms).max(0.0)).max(0.0)),
            redirects_to: response.redirect_url,
            request_bytes,
            bytes,
            connection: raw.connection_id.or(raw.connection).filter(|name| !name.is_empty()),
            initiators: raw.initiator.map_or_else(Vec::new, Initiator::urls),
            dropped,
            url,
        }
    }
}

impl Entry {
    fn end_ms(&self) -> f64 {
        self.start.0 + self.duration_ms
    }
}

impl Initiator {
    /// Returns the URLs of the possible causes of a request, the nearest cause first.
    fn urls(self) -> Vec<String> {
        let mut urls: Vec<String> = Vec::new();
        let mut stack = self.stack;
        while let Some(Stack { call_frames, parent }) = stack {
            for Frame { url } in call_frames {
                if urls.len() < MAX_INITIATORS && !url.is_empty() && !urls.contains(&url) {
                    urls.push(url);
                }
            }
            stack = parent.map(|parent| *parent);
        }
        urls.extend(self.url);
        urls.iter_mut().for_each(|url| url.truncate(url.find('#').unwrap_or(url.len())));
        urls
    }
}

/// Time of an entry or a page, as milliseconds of Unix time; read from a date and time with an offset.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Timestamp(f64);

impl TryFrom<String> for Timestamp {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let moment = chrono::DateTime::parse_from_rfc3339(&text)
            .map_err(|_| format!("{text:?}: expected a time such as 2026-01-31T12:00:00.000Z"))?;
        Ok(Self(moment.timestamp_micros() as f64 / 1e3))
    }
}

/// Length of a text whose characters are not kept, bytes.
struct Length(usize);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_str(StrVisitor("a text", |text: &str| Ok(Self(text.len()))))
    }
}

/// Parts of a URL that the conversion to a page file needs.
#[derive(Clone, Debug)]
struct UrlParts {
    scheme: Scheme,
    /// Scheme, host and port.
    origin: String,
    path: String,
    /// URL without fragment, with which entries refer to each other. Not kept after all entries are read.
    without_fragment: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    WebSocket,
    Data,
    Other,
}

impl<'de> Deserialize<'de> for UrlParts {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_str(StrVisitor("a URL", Self::read))
    }
}

impl UrlParts {
    fn read(text: &str) -> Result<Self, String> {
        let scheme = text.split(':').next().unwrap_or("").to_ascii_lowercase();
        let scheme = match scheme.as_str() {
            "http" | "https" => Scheme::Http,
            "ws" | "wss" => Scheme::WebSocket,
            "data" => Scheme::Data,
            _ => Scheme::Other,
        };
        if scheme == Scheme::Data {
            return Ok(Self {
                scheme,
                origin: String::new(),
                path: String::new(),
                without_fragment: String::new(),
            });
        }
        let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
        let port = url.port_or_known_default().map_or_else(String::new, |port| format!(":{port}"));
        let origin = format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or(""));
        let without_fragment = text.split('#').next().unwrap_or(text).to_string();
        Ok(Self { scheme, origin, path: url.path().to_string(), without_fragment })
    }
}

/// Serde visitor that converts a borrowed text to a value by a function. The first field names the expected input in errors.
struct StrVisitor<F>(&'static str, F);

impl<T, F: FnOnce(&str) -> Result<T, String>> de::Visitor<'_> for StrVisitor<F> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(E::custom)
    }
}

fn convert(log: Log) -> Result<(SiteFile, Vec<HarPage>), KeyError> {
    let network_ms = network_times(&log.entries);
    let mut of_page: Vec<Vec<usize>> = vec![Vec::new(); log.pages.len().max(1)];
    for (number, entry) in log.entries.iter().enumerate() {
        of_page[page_of(&log.pages, entry, number)?].push(number);
    }
    let mut origins: Vec<String> = Vec::new();
    let (mut pages, mut summaries) = (Vec::new(), Vec::new());
    for mut numbers in of_page {
        let start = |number: &usize| log.entries[*number].start.0;
        numbers.sort_by(|a, b| start(a).total_cmp(&start(b)));
        let entries: Vec<&Entry> = numbers.iter().map(|&number| &log.entries[number]).collect();
        let page = build_page(&entries, &network_ms, &mut origins);
        summaries.push(summarize(&entries, &page));
        if !page.objects.is_empty() {
            pages.push(page);
        }
    }
    if pages.is_empty() {
        let mut left_out: BTreeMap<Dropped, usize> = BTreeMap::new();
        for (reason, count) in summaries.into_iter().flat_map(|page| page.dropped) {
            *left_out.entry(reason).or_default() += count;
        }
        let reasons: Vec<String> =
            left_out.iter().map(|(reason, count)| format!("{count} {}", reason.name())).collect();
        let reasons =
            if reasons.is_empty() { String::new() } else { format!(" (left out: {})", reasons.join(", ")) };
        return Err(("log.entries".into(), format!("no objects loaded over the network{reasons}")));
    }
    Ok((SiteFile::new(origins, pages)?, summaries))
}

/// Returns the page to which an entry belongs: the page that the entry names, otherwise the last page that started before the entry.
fn page_of(pages: &[LogPage], entry: &Entry, number: usize) -> Result<usize, KeyError> {
    match &entry.page {
        Some(id) if !pages.is_empty() => pages
            .iter()
            .position(|page| page.id == *id)
            .ok_or_else(|| (format!("log.entries[{number}].pageref"), format!("{id:?}: no such page"))),
        _ => {
            let started = (0..).zip(pages).filter(|(_, page)| page.started_date_time.0 <= entry.start.0);
            let last =
                started.max_by(|(_, a), (_, b)| a.started_date_time.0.total_cmp(&b.started_date_time.0));
            Ok(last.map_or(0, |(number, _)| number))
        }
    }
}

/// Returns the estimated round-trip time to each origin, milliseconds, which is the network's part of the wait for a response. The estimate
/// is the shortest time in which a TCP connection to the origin was opened or a response of the origin began.
fn network_times(entries: &[Entry]) -> BTreeMap<String, f64> {
    let mut shortest: BTreeMap<String, f64> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.dropped.is_none()) {
        let ms = entry.connect_ms.map_or(entry.wait_ms, |connect| connect.min(entry.wait_ms));
        let shortest = shortest.entry(entry.url.origin.clone()).or_insert(ms);
        *shortest = shortest.min(ms);
    }
    shortest
}

/// Makes a page from `entries`, which are in the order of their start times.
fn build_page(
    entries: &[&Entry],
    network_ms: &BTreeMap<String, f64>,
    origins: &mut Vec<String>,
) -> RecordedPage {
    let mut objects: Vec<RecordedObject> = Vec::new();
    let mut connections: Vec<&str> = Vec::new();
    let mut url = String::new();
    // For each entry: the object on which the requests caused by the entry depend, and the end time of this object. Normally, this is the
    // object of the entry itself. If the entry is left out, it is the object on which the entry depends.
    let mut causes: Vec<Option<(u32, f64)>> = Vec::new();
    // Index of the last started entry for each URL, and index of the entry that redirects to each URL.
    let mut started: BTreeMap<&str, usize> = BTreeMap::new();
    let mut redirected: BTreeMap<String, usize> = BTreeMap::new();
    // Object that ended last before the start of the current entry, and objects that end later, each with its end time.
    let mut last_ended: Option<(u32, f64)> = None;
    let mut in_progress: Vec<(u32, f64)> = Vec::new();
    let first_ms = entries.iter().find(|entry| entry.dropped.is_none()).map_or(0.0, |entry| entry.start.0);
    for (number, entry) in entries.iter().enumerate() {
        in_progress.retain(|&(object, end_ms)| {
            let is_over = end_ms <= entry.start.0;
            if is_over && last_ended.is_none_or(|(_, last_ms)| last_ms <= end_ms) {
                last_ended = Some((object, end_ms));
            }
            !is_over
        });
        let initiator = entry.initiators.iter().find_map(|url| started.get(url.as_str()));
        let cause = redirected.remove(&entry.url.without_fragment).or(initiator.copied());
        let after = cause.map_or(last_ended, |cause| causes[cause]);
        started.insert(&entry.url.without_fragment, number);
        if let Some(target) = redirect_target(entry) {
            redirected.insert(target, number);
        }
        if entry.dropped.is_some() {
            causes.push(after);
            continue;
        }
        let object = objects.len() as u32;
        causes.push(Some((object, entry.end_ms())));
        in_progress.push((object, entry.end_ms()));
        let origin = index_of(origins, |known| *known == entry.url.origin, || entry.url.origin.clone());
        let connection = entry.connection.as_deref();
        let connection = connection.map(|name| index_of(&mut connections, |known| *known == name, || name));
        if objects.is_empty() {
            url = format!("{}{}", entry.url.origin, entry.url.path);
        }
        let network_ms = network_ms.get(&entry.url.origin).copied().unwrap_or(0.0);
        objects.push(RecordedObject {
            origin,
            path: entry.url.path.clone(),
            request_bytes: entry.request_bytes,
            bytes: entry.bytes,
            server_ms: to_micros(entry.wait_ms - network_ms),
            after: after.map(|(object, _)| object),
            delay_ms: to_micros(entry.start.0 - after.map_or(first_ms, |(_, end_ms)| end_ms)),
            connection,
        });
    }
    RecordedPage { url, objects }
}

/// Returns the index of the element for which `is_equal` is true. If there is none, appends the result of `create` to the list and returns
/// its index.
fn index_of<T>(list: &mut Vec<T>, is_equal: impl Fn(&T) -> bool, create: impl FnOnce() -> T) -> u32 {
    let number = list.iter().position(is_equal).unwrap_or_else(|| {
        list.push(create());
        list.len() - 1
    });
    number as u32
}

/// Returns the URL to which a response redirects, or `None` if the response is no redirection.
fn redirect_target(entry: &Entry) -> Option<String> {
    if entry.redirects_to.is_empty() {
        return None;
    }
    let mut target = Url::parse(&entry.url.without_fragment).ok()?.join(&entry.redirects_to).ok()?;
    target.set_fragment(None);
    Some(target.into())
}

/// Returns a time in milliseconds, rounded to whole microseconds and at least 0.
fn to_micros(ms: f64) -> f64 {
    (ms.max(0.0) * 1e3).round() / 1e3
}

fn summarize(entries: &[&Entry], page: &RecordedPage) -> HarPage {
    let distinct = |number_of: fn(&RecordedObject) -> Option<u32>| {
        let mut numbers: Vec<u32> = page.objects.iter().filter_map(number_of).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    };
    let mut dropped = BTreeMap::new();
    entries
        .iter()
        .filter_map(|entry| entry.dropped)
        .for_each(|reason| *dropped.entry(reason).or_default() += 1);
    HarPage {
        url: page.url.clone(),
        origins: distinct(|object| Some(object.origin)),
        objects: page.objects.len(),
        // Recorded sizes may be arbitrarily large.
        bytes: page.objects.iter().fold(0, |sum, object| sum.saturating_add(object.bytes)),
        connections: distinct(|object| object.connection),
        dropped,
    }
}
