//! Entries of a HAR: what their fields say, by the writer of the file.

use super::Dropped;
use super::hpack::Encoders;
use super::lenient::{FromAny, Length, Lenient, List, Object, Present, Short};
use crate::formats::site_file::{HttpVersion, MAX_BYTES, MAX_MS, ResourceKind};
use serde::Deserialize;
use url::Url;

/// Properties of an entry that are needed until all entries are read.
pub(super) struct Entry {
    pub(super) page: Option<String>,
    pub(super) start_ms: f64,
    /// Total time of the request and the response, milliseconds.
    pub(super) duration_ms: f64,
    pub(super) wait_ms: f64,
    /// Time to open a new connection, without TLS, milliseconds; `None` if no connection was opened.
    pub(super) connect_ms: Option<f64>,
    pub(super) url: UrlParts,
    pub(super) redirects_to: String,
    pub(super) request_bytes: u64,
    /// Bytes of the request with its header compressed as over HTTP/2; `None` if its header is not known.
    pub(super) compressed_bytes: Option<u64>,
    pub(super) kind: Option<ResourceKind>,
    /// Urgency of the request (RFC 9218) by the priority that Chromium has recorded; `None` without one.
    pub(super) urgency: Option<u8>,
    /// True if the browser says that the first rendering waits for the object, false if it does not; `None` if it says nothing.
    pub(super) blocks: Option<bool>,
    sizes: Sizes,
    /// Size of the body of a response whose size is not recorded, bytes; `None` unless sizes are estimated.
    estimated_bytes: Option<u64>,
    pub(super) protocol: Option<HttpVersion>,
    pub(super) connection: Option<String>,
    pub(super) initiators: Vec<String>,
    /// Reason for which the entry is left out; `None` if the entry becomes an object.
    pub(super) dropped: Option<Dropped>,
}

/// Sizes of a response as its writer has recorded them, bytes; `None` where nothing is known.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    /// Transferred bytes, with the header.
    transfer: Option<u64>,
    header: Option<u64>,
    body: Option<u64>,
    /// Body as the page sees it, less what compression saved.
    content: Option<u64>,
    /// True for a response that has no body (RFC 9110, sections 6.4.1 and 9.3.2).
    is_bodiless: bool,
    /// True if no time of the response is known, or all are zero and it has no header.
    is_untimed: bool,
}

/// Program that has written a HAR, as far as it says sizes in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// Firefox since version 72, whose `bodySize` includes the header.
    Firefox,
    /// Firefox before that.
    OldFirefox,
    Other,
}

impl Writer {
    /// Returns the writer with this name and version.
    pub(super) fn named(name: &str, version: &str) -> Self {
        if !name.to_ascii_lowercase().contains("firefox") {
            return Self::Other;
        }
        let major: Option<u32> = version.split('.').next().and_then(|major| major.parse().ok());
        if major.is_some_and(|major| (4..72).contains(&major)) { Self::OldFirefox } else { Self::Firefox }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct RawEntry {
    pageref: Lenient<String>,
    started_date_time: Lenient<Timestamp>,
    time: Lenient<f64>,
    request: Lenient<Object<Request>>,
    response: Lenient<Object<Response>>,
    timings: Lenient<Object<Timings>>,
    connection: Lenient<String>,
    /// Identifier of the connection in Chromium, whose field `connection` is a port number.
    #[serde(rename = "_connectionId")]
    connection_id: Lenient<String>,
    #[serde(rename = "_initiator")]
    initiator: Lenient<Initiator>,
    /// Initiator with its stack, as chrome-har writes it: JSON in a text.
    #[serde(rename = "_initiator_detail")]
    initiator_detail: Lenient<Detail>,
    #[serde(rename = "_fromCache")]
    from_cache: Lenient<Present>,
    /// Source of a response in Safari.
    #[serde(rename = "_fetchType")]
    fetch_type: Lenient<FetchType>,
    #[serde(rename = "_resourceType")]
    resource_type: Lenient<String>,
    #[serde(rename = "_priority")]
    priority: Lenient<Urgency>,
    #[serde(rename = "_renderBlocking")]
    render_blocking: Lenient<String>,
    /// Bytes of the response in WebPageTest.
    #[serde(rename = "_bytesIn")]
    bytes_in: Lenient<f64>,
    #[serde(rename = "_protocol")]
    protocol: Lenient<HttpVersion>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request {
    method: Lenient<Method>,
    url: Lenient<UrlParts>,
    http_version: Lenient<HttpVersion>,
    headers: Lenient<List<Object<Field>>>,
    headers_size: Lenient<f64>,
    body_size: Lenient<f64>,
}

/// Field of the header of a request, which is kept until its size is known.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Field {
    name: Lenient<Short>,
    value: Lenient<Short>,
}

impl Field {
    fn parts(&self) -> (&str, &str) {
        (Short::text(&self.name), Short::text(&self.value))
    }

    /// Returns the length of name and value, bytes.
    fn length(&self) -> usize {
        [&self.name, &self.value].map(|of| of.0.as_ref().map_or(0, |short| short.length)).iter().sum()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Header {
    name: Lenient<Length>,
    value: Lenient<Length>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Response {
    status: Lenient<f64>,
    http_version: Lenient<HttpVersion>,
    #[serde(rename = "redirectURL")]
    redirect_url: Lenient<String>,
    headers: Lenient<List<Object<Header>>>,
    headers_size: Lenient<f64>,
    body_size: Lenient<f64>,
    content: Lenient<Object<Content>>,
    #[serde(rename = "_transferSize")]
    transfer_size: Lenient<f64>,
    #[serde(rename = "_error")]
    error: Lenient<Present>,
    #[serde(rename = "_fetchedViaServiceWorker")]
    by_service_worker: Lenient<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Content {
    size: Lenient<f64>,
    compression: Lenient<f64>,
    #[serde(rename = "mimeType")]
    mime_type: Lenient<String>,
}

/// Parts of the time of a request, milliseconds; below zero if a part does not apply to the request (HAR 1.2, timings).
#[derive(Default, Deserialize)]
#[serde(default)]
struct Timings {
    blocked: Lenient<f64>,
    dns: Lenient<f64>,
    connect: Lenient<f64>,
    ssl: Lenient<f64>,
    send: Lenient<f64>,
    wait: Lenient<f64>,
    receive: Lenient<f64>,
}

impl Timings {
    /// Returns all parts that follow each other. TLS is a part of `connect`.
    fn parts(&self) -> [Option<f64>; 6] {
        [&self.blocked, &self.dns, &self.connect, &self.send, &self.wait, &self.receive].map(|part| part.0)
    }
}

/// Causes of a request, the nearest first, as URLs: the document that was being parsed, or the scripts that were running. In Chromium they
/// are an object with a URL and a stack, in chrome-har and WebPageTest a URL.
#[derive(Default)]
struct Initiator(Vec<String>);

impl FromAny for Initiator {
    fn of_text(url: &str) -> Option<Self> {
        Some(Self(Vec::from_iter((!url.is_empty()).then(|| without_fragment(url).to_string()))))
    }
    fn of_object<'de, A: serde::de::MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
        let read: Option<Object<Cause>> = Object::of_object(object)?;
        Ok(read.map(|Object(cause)| Self(cause.urls())))
    }
}

/// Object of an initiator within a text.
struct Detail(Vec<String>);

impl FromAny for Detail {
    fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str::<Cause>(text).ok().map(|cause| Self(cause.urls()))
    }
    fn of_object<'de, A: serde::de::MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
        Ok(Initiator::of_object(object)?.map(|Initiator(urls)| Self(urls)))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    url: Lenient<String>,
    stack: Lenient<Object<Stack>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stack {
    call_frames: Lenient<List<Object<Frame>>>,
    parent: Lenient<Box<Object<Stack>>>,
}

impl FromAny for Box<Object<Stack>> {
    fn of_object<'de, A: serde::de::MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
        Ok(Object::of_object(object)?.map(Box::new))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Frame {
    url: Lenient<String>,
}

/// Maximum number of scripts that are kept per initiator: more than enough to find one that is in the recording.
const MAX_INITIATORS: usize = 16;

impl Cause {
    fn urls(self) -> Vec<String> {
        let mut urls: Vec<String> = Vec::new();
        let mut stack = self.stack.0.map(|Object(stack)| stack);
        while let Some(Stack { call_frames, parent }) = stack {
            for Object(Frame { url }) in call_frames.0.unwrap_or_default().elements {
                let url = url.0.map(|url| without_fragment(&url).to_string());
                urls.extend(url.filter(|url| urls.len() < MAX_INITIATORS && !urls.contains(url)));
            }
            stack = parent.0.map(|parent| parent.0);
        }
        urls.extend(self.url.0.map(|url| without_fragment(&url).to_string()));
        urls
    }
}

impl RawEntry {
    /// Returns the entry, or the reason why it cannot be one.
    pub(super) fn entry(self, encoders: &mut Encoders<'_>) -> Result<Entry, Dropped> {
        let Object(request) = self.request.0.ok_or(Dropped::Odd)?;
        let url = request.url.0.ok_or(Dropped::Odd)?;
        let Timestamp(start_ms) = self.started_date_time.0.ok_or(Dropped::Odd)?;
        let has_response = self.response.0.is_some();
        let Object(response) = self.response.0.unwrap_or(Object(Response::default()));
        let Object(timings) = self.timings.0.unwrap_or(Object(Timings::default()));
        let parts = timings.parts();
        let total_ms = parts.iter().flatten().filter(|ms| **ms > 0.0).sum::<f64>();
        let method = request.method.0.unwrap_or_default();
        let request_headers = request.headers.0.unwrap_or_default().elements;
        let fields = request_headers.iter().map(|Object(field)| field.parts());
        let request_line = method.name.len() + url.path.len() + "  HTTP/1.1\r\n".len();
        let lengths = request_headers.iter().map(|Object(field)| field.length());
        let body_bytes = known_bytes(request.body_size).unwrap_or(0);
        let request_bytes = known_bytes(request.headers_size)
            .unwrap_or_else(|| header_bytes(lengths, request_line))
            .saturating_add(body_bytes);
        let compressed_bytes = (!request_headers.is_empty() && url.scheme == Scheme::Http).then(|| {
            encoders.request_bytes(&url.origin, &method.name, &url.target, fields).saturating_add(body_bytes)
        });
        let status = response.status.0.unwrap_or(0.0);
        let response_headers = response.headers.0.unwrap_or_default().elements;
        let Object(content) = response.content.0.unwrap_or(Object(Content::default()));
        let kind = self.resource_type.0.as_deref().and_then(kind_of_type);
        let kind = kind.or(content.mime_type.0.as_deref().and_then(kind_of_mime));
        let content = {
            let saved = content.compression.0.unwrap_or(0.0).max(0.0);
            known_bytes(content.size).map(|bytes| bytes.saturating_sub(saved as u64))
        };
        let recorded_header = known_bytes(response.headers_size);
        let sizes = Sizes {
            transfer: known_bytes(response.transfer_size).or(known_bytes(self.bytes_in)),
            header: recorded_header.or_else(|| {
                let is_listed = !response_headers.is_empty();
                let length = |text: &Lenient<Length>| text.0.map_or(0, |Length(length)| length);
                let lengths = response_headers.iter().map(|Object(it)| length(&it.name) + length(&it.value));
                is_listed.then(|| header_bytes(lengths, "HTTP/1.1 200\r\n".len()))
            }),
            body: known_bytes(response.body_size),
            content,
            is_bodiless: method.is_head
                || status == 204.0
                || status == 304.0
                || (100.0..200.0).contains(&status),
            is_untimed: parts.iter().all(Option::is_none) || (total_ms == 0.0 && recorded_header == Some(0)),
        };
        let is_socket = self.resource_type.0.as_deref() == Some("websocket") || status == 101.0;
        let is_cached = self.from_cache.0.is_some()
            || self.fetch_type.0.is_some_and(|FetchType { is_cached }| is_cached)
            || response.by_service_worker.0 == Some(true);
        let dropped = match url.scheme {
            Scheme::Data => Some(Dropped::Data),
            Scheme::WebSocket => Some(Dropped::WebSocket),
            Scheme::Http if is_socket => Some(Dropped::WebSocket),
            Scheme::Other => Some(Dropped::Scheme),
            Scheme::Http if is_cached => Some(Dropped::Cached),
            Scheme::Http if !has_response || status <= 0.0 || response.error.0.is_some() => {
                Some(Dropped::Failed)
            }
            Scheme::Http => None,
        };
        let connect_ms = timings.connect.0.filter(|ms| *ms > 0.0);
        let initiators = self.initiator_detail.0.map(|Detail(urls)| urls).filter(|urls| !urls.is_empty());
        Ok(Entry {
            page: self.pageref.0,
            start_ms,
            duration_ms: self.time.0.unwrap_or(total_ms).max(0.0),
            wait_ms: timings.wait.0.unwrap_or(0.0).max(0.0),
            connect_ms: connect_ms.map(|ms| (ms - timings.ssl.0.unwrap_or(0.0).max(0.0)).max(0.0)),
            redirects_to: response.redirect_url.0.unwrap_or_default(),
            request_bytes,
            compressed_bytes,
            kind,
            urgency: self.priority.0.map(|Urgency(urgency)| urgency),
            blocks: self.render_blocking.0.map(|says| says == "blocking"),
            sizes,
            estimated_bytes: None,
            protocol: response.http_version.0.or(request.http_version.0).or(self.protocol.0),
            connection: self.connection_id.0.or(self.connection.0),
            initiators: initiators.unwrap_or_else(|| self.initiator.0.unwrap_or_default().0),
            dropped,
            url,
        })
    }
}

impl Entry {
    pub(super) fn end_ms(&self) -> f64 {
        self.start_ms + self.duration_ms
    }

    /// Returns the transferred bytes of the response with its header; 0 if nothing is known.
    pub(super) fn bytes(&self, writer: Writer) -> u64 {
        let Sizes { transfer, header, body, content, is_bodiless, .. } = self.sizes;
        let header_bytes = header.unwrap_or(0);
        let body = match body {
            Some(both) if writer == Writer::Firefox && both >= header_bytes => Some(both - header_bytes),
            body => body,
        };
        let body = if is_bodiless { Some(0) } else { body.or(content) };
        let body = if self.is_unsized() { self.estimated_bytes } else { body };
        transfer.or(body.map(|body| header_bytes.saturating_add(body))).unwrap_or(0)
    }

    /// Returns true for a response whose size is not recorded, except perhaps that of its header.
    pub(super) fn is_unsized(&self) -> bool {
        let Sizes { transfer, body, content, is_bodiless, .. } = self.sizes;
        transfer.is_none() && body.is_none() && content.is_none() && !is_bodiless
    }

    /// Leaves the entry out if what its writer says of sizes and times means so. With `estimate`, a size that is not recorded is the median of
    /// the Web Almanac of 2025 (desktop, Page Weight) for HTML, scripts and images; for other kinds, of which it has none, that of scripts.
    pub(super) fn judge(&mut self, writer: Writer, estimate: bool) {
        if estimate && self.is_unsized() {
            self.estimated_bytes = Some(match self.kind {
                Some(ResourceKind::Document) => 35 * 1024,
                Some(ResourceKind::Image) => 8 * 1024,
                _ => 4710,
            });
        }
        let is_cached = writer != Writer::Other && self.sizes.is_untimed;
        let bytes = self.bytes(writer);
        let is_absurd = bytes > MAX_BYTES
            || self.request_bytes > MAX_BYTES
            || [self.wait_ms, self.duration_ms].iter().any(|ms| *ms > MAX_MS);
        self.dropped = self.dropped.or(match () {
            () if is_cached => Some(Dropped::Cached),
            () if bytes == 0 => Some(Dropped::Empty),
            () if is_absurd => Some(Dropped::Odd),
            () => None,
        });
    }
}

fn known_bytes(size: Lenient<f64>) -> Option<u64> {
    size.0.filter(|size| *size >= 0.0).map(|size| size as u64)
}

/// Returns the size of a header with fields of these lengths and a first line of this length, bytes.
fn header_bytes(fields: impl Iterator<Item = usize>, first: usize) -> u64 {
    (fields.map(|length| length + ": \r\n".len()).sum::<usize>() + first + "\r\n".len()) as u64
}

/// Returns the kind of an object by its type in Chromium's recordings; `None` if it says little.
fn kind_of_type(name: &str) -> Option<ResourceKind> {
    match name.to_ascii_lowercase().as_str() {
        "xhr" | "eventsource" | "ping" | "preflight" | "texttrack" => Some(ResourceKind::Fetch),
        name => name.parse().ok().filter(|kind| *kind != ResourceKind::Other),
    }
}

/// Returns the kind of an object by its type of content.
fn kind_of_mime(mime: &str) -> Option<ResourceKind> {
    let mime = mime.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| mime.contains(part));
    match () {
        () if has(&["text/html", "application/xhtml"]) => Some(ResourceKind::Document),
        () if has(&["text/css"]) => Some(ResourceKind::Stylesheet),
        () if has(&["javascript", "ecmascript"]) => Some(ResourceKind::Script),
        () if has(&["font", "woff"]) => Some(ResourceKind::Font),
        () if mime.starts_with("image/") => Some(ResourceKind::Image),
        () if mime.starts_with("video/") || mime.starts_with("audio/") => Some(ResourceKind::Media),
        () if has(&["json", "xml", "text/plain"]) => Some(ResourceKind::Fetch),
        () => None,
    }
}

fn without_fragment(url: &str) -> &str {
    url.split('#').next().unwrap_or(url)
}

#[derive(Clone, Debug, Default)]
struct Method {
    name: String,
    is_head: bool,
}

impl FromAny for Method {
    fn of_text(text: &str) -> Option<Self> {
        Some(Self { name: text.into(), is_head: text.eq_ignore_ascii_case("HEAD") })
    }
}

/// Urgency (RFC 9218) with which Chromium 156 sends a request of a priority that its recordings name.
#[derive(Clone, Copy, Debug)]
struct Urgency(u8);

impl FromAny for Urgency {
    fn of_text(text: &str) -> Option<Self> {
        let urgency = match text.to_ascii_lowercase().as_str() {
            "veryhigh" | "highest" => 0,
            "high" => 1,
            "medium" => 2,
            "low" => 3,
            "verylow" | "lowest" => 4,
            _ => return None,
        };
        Some(Self(urgency))
    }
}

#[derive(Clone, Copy, Debug)]
struct FetchType {
    is_cached: bool,
}

impl FromAny for FetchType {
    fn of_text(text: &str) -> Option<Self> {
        Some(Self { is_cached: ["Memory Cache", "Disk Cache", "Service Worker"].contains(&text) })
    }
}

impl FromAny for HttpVersion {
    fn of_text(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let is = |parts: &[&str]| parts.iter().any(|part| text.starts_with(part));
        match () {
            () if is(&["h3", "http/3"]) || text.contains("quic") => Some(Self::Http3),
            () if is(&["h2", "http/2", "spdy"]) => Some(Self::Http2),
            () if is(&["http/1", "http/0.9", "h1"]) => Some(Self::Http1),
            () => None,
        }
    }
}

/// Time of an entry or a page, as milliseconds of Unix time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timestamp(pub(super) f64);

/// Date and time with an offset that has no colon.
const WITH_OFFSET: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f%z", "%Y-%m-%d %H:%M:%S%.f%z"];
/// Date and time without an offset. Only differences of times count.
const WITHOUT_OFFSET: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
/// Number from which on a time is in milliseconds and not in seconds.
const MILLISECONDS_FROM: f64 = 1e11;

impl FromAny for Timestamp {
    fn of_text(text: &str) -> Option<Self> {
        use chrono::{DateTime, NaiveDateTime};
        let text = text.trim();
        let with_offset = || WITH_OFFSET.iter().find_map(|form| DateTime::parse_from_str(text, form).ok());
        let moment = DateTime::parse_from_rfc3339(text).ok().or_else(with_offset);
        let micros = moment.map(|moment| moment.timestamp_micros()).or_else(|| {
            let naive = WITHOUT_OFFSET.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
            naive.map(|naive| naive.and_utc().timestamp_micros())
        });
        micros.map(|micros| Self(micros as f64 / 1e3))
    }
    fn of_number(number: f64) -> Option<Self> {
        let ms = if number < MILLISECONDS_FROM { number * 1e3 } else { number };
        (number > 0.0 && ms < 1e15).then_some(Self(ms))
    }
}

/// Parts of a URL that the conversion to a page file needs.
#[derive(Clone, Debug)]
pub(super) struct UrlParts {
    scheme: Scheme,
    /// Scheme, host and port.
    pub(super) origin: String,
    pub(super) path: String,
    /// Path with query.
    target: String,
    /// URL without fragment, with which entries refer to each other. Not kept after all entries are read.
    pub(super) without_fragment: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    WebSocket,
    Data,
    Other,
}

impl FromAny for UrlParts {
    fn of_text(text: &str) -> Option<Self> {
        let scheme = text.split(':').next().unwrap_or("").to_ascii_lowercase();
        let scheme = match scheme.as_str() {
            "http" | "https" => Scheme::Http,
            "ws" | "wss" => Scheme::WebSocket,
            "data" => Scheme::Data,
            _ => Scheme::Other,
        };
        if scheme == Scheme::Data {
            let empty = String::new;
            return Some(Self {
                scheme,
                origin: empty(),
                path: empty(),
                target: empty(),
                without_fragment: empty(),
            });
        }
        let url = Url::parse(text).ok()?;
        let port = url.port_or_known_default().map_or_else(String::new, |port| format!(":{port}"));
        let origin = format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or(""));
        let without_fragment = without_fragment(text).to_string();
        let path = url.path().to_string();
        let target = url.query().map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
        Some(Self { scheme, origin, path, target, without_fragment })
    }
}
