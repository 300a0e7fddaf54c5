//! HAR 1.2 (<http://www.softwareishard.com/blog/har-12-spec/>), as browsers and tools export it, with the fields that they add. An entry that
//! makes no sense is left out and counted, and never refuses the file. Private fields are skipped while reading, and bodies are skipped byte
//! by byte, so that a recording needs no more memory than its list of requests.

mod entry;
mod hpack;
mod lenient;

use self::entry::{Entry, RawEntry, Timestamp, Writer};
use self::hpack::Encoders;
use self::lenient::{Lenient, List, Object};
use crate::InputError;
use crate::formats::site_file::{
    Holds, HttpVersion, MAX_MS, RecordedObject, RecordedPage, ResourceKind, SiteFile, is_incremental,
    read_json,
};
use catnip_base::keywords;
use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess};
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
        /// Entry without a request, a URL or a time, or with an absurd size or time.
        Odd = ("odd", "Entry without a URL or a time, or with an absurd one."),
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
    /// Number of objects by the version of HTTP over which they came, where that is recorded.
    pub protocols: BTreeMap<HttpVersion, usize>,
    /// Number of responses whose size is not recorded: they are left out, or have an estimated size.
    pub unsized_objects: usize,
    /// Number of entries that were left out, by reason.
    pub dropped: BTreeMap<Dropped, usize>,
}

/// Reads a HAR, and returns the site and a summary of each page. With `estimate`, objects whose size is not recorded have a usual size of their
/// kind; otherwise they are left out.
pub fn read_har(path: &Path, estimate: bool) -> Result<(SiteFile, Vec<HarPage>), InputError> {
    let name = path.display().to_string();
    let file = crate::input::open(path).map_err(|error| InputError::new(&name, "", error))?;
    har_of(&name, BufReader::new(file), estimate)
}

/// Reads a HAR if the name ends in `.har` or `.har.gz`, otherwise a page file.
pub fn read_site(path: &Path) -> Result<SiteFile, InputError> {
    let file = crate::input::open(path);
    site_of(path, file.map_err(|error| InputError::new(&path.display().to_string(), "", error))?)
}

/// Reads what the file with this path contains, a HAR or a page file.
pub(crate) fn site_of(path: &Path, contents: impl Read) -> Result<SiteFile, InputError> {
    let (name, contents) = (path.display().to_string(), BufReader::new(contents));
    let lower = name.to_ascii_lowercase();
    if lower.ends_with(".har") || lower.ends_with(".har.gz") {
        return Ok(har_of(&name, contents, false)?.0);
    }
    SiteFile::read(&name, contents)
}

fn har_of(
    name: &str,
    mut contents: impl BufRead,
    estimate: bool,
) -> Result<(SiteFile, Vec<HarPage>), InputError> {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    let wrong = |error: &dyn fmt::Display| InputError::new(name, "", error);
    let begins = contents.fill_buf().map_err(|error| wrong(&error))?;
    if begins.starts_with(GZIP) {
        return json_of(name, BufReader::new(MultiGzDecoder::new(contents)), estimate);
    }
    json_of(name, contents, estimate)
}

fn json_of(
    name: &str,
    contents: impl BufRead,
    estimate: bool,
) -> Result<(SiteFile, Vec<HarPage>), InputError> {
    let Har { log } = read_json(name, contents)?;
    convert(log, estimate).map_err(|(at, message)| InputError::new(name, &at, message))
}

/// Error in a HAR: its location as a JSON path, and its description.
type KeyError = (String, String);

#[derive(Deserialize)]
#[serde(expecting = "an object with log.entries, as a HAR has it")]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with a list of entries")]
struct Log {
    #[serde(default)]
    creator: Lenient<Object<Program>>,
    #[serde(default)]
    browser: Lenient<Object<Program>>,
    #[serde(default)]
    pages: Lenient<List<Object<LogPage>>>,
    entries: Entries,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Program {
    name: Lenient<String>,
    version: Lenient<String>,
}

impl Program {
    fn writer(self) -> Writer {
        Writer::named(&self.name.0.unwrap_or_default(), &self.version.0.unwrap_or_default())
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LogPage {
    id: Lenient<String>,
    started_date_time: Lenient<Timestamp>,
    page_timings: Lenient<Object<PageTimings>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageTimings {
    on_load: Lenient<f64>,
}

impl LogPage {
    /// Returns the time of the load event, milliseconds of Unix time; `None` if it is not known.
    fn load_ms(&self) -> Option<f64> {
        let Object(timings) = self.page_timings.0.as_ref()?;
        Some(self.started_date_time.0?.0 + timings.on_load.0.filter(|ms| *ms > 0.0)?)
    }
}

/// Entries of a HAR, and the number of those that make no sense.
struct Entries {
    entries: Vec<Entry>,
    odd: usize,
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_seq(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> de::Visitor<'de> for EntriesVisitor {
    type Value = Entries;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries, A::Error> {
        let mut read = Entries { entries: Vec::new(), odd: 0 };
        let mut encoders = Encoders::default();
        while let Some(Lenient(element)) = list.next_element::<Lenient<Object<RawEntry>>>()? {
            match element.map(|Object(raw)| raw.entry(&mut encoders)) {
                Some(Ok(entry)) => read.entries.push(entry),
                Some(Err(_)) | None => read.odd += 1,
            }
        }
        Ok(read)
    }
}

fn convert(log: Log, estimate: bool) -> Result<(SiteFile, Vec<HarPage>), KeyError> {
    let Log { creator, browser, pages: listed, entries: Entries { mut entries, odd } } = log;
    let programs =
        [creator, browser].map(|of| of.0.map_or(Writer::Other, |Object(program)| program.writer()));
    let writer = programs.into_iter().find(|writer| *writer != Writer::Other).unwrap_or(Writer::Other);
    entries.iter_mut().for_each(|entry| entry.judge(writer, estimate));
    let listed: Vec<LogPage> =
        listed.0.unwrap_or_default().elements.into_iter().map(|Object(page)| page).collect();
    let network_ms = network_times(&entries);
    let mut of_page: Vec<Vec<usize>> = vec![Vec::new(); listed.len().max(1)];
    for (number, entry) in entries.iter().enumerate() {
        of_page[page_of(&listed, entry)].push(number);
    }
    let mut origins: Vec<String> = Vec::new();
    let (mut pages, mut summaries) = (Vec::new(), Vec::new());
    for (page, mut numbers) in of_page.into_iter().enumerate() {
        let start = |number: &usize| entries[*number].start_ms;
        numbers.sort_by(|a, b| start(a).total_cmp(&start(b)));
        let of: Vec<&Entry> = numbers.iter().map(|&number| &entries[number]).collect();
        let load_ms = listed.get(page).and_then(LogPage::load_ms);
        let page = build_page(&of, &network_ms, writer, load_ms, &mut origins);
        summaries.push(summarize(&of, &page));
        if !page.objects.is_empty() {
            pages.push(page);
        }
    }
    if let Some(first) = summaries.first_mut().filter(|_| odd > 0) {
        *first.dropped.entry(Dropped::Odd).or_default() += odd;
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
fn page_of(pages: &[LogPage], entry: &Entry) -> usize {
    let named =
        entry.page.as_deref().and_then(|id| pages.iter().position(|page| page.id.0.as_deref() == Some(id)));
    named.unwrap_or_else(|| {
        let times = (0..).zip(pages).filter_map(|(number, page)| Some((number, page.started_date_time.0?.0)));
        let started = times.filter(|(_, start_ms)| *start_ms <= entry.start_ms);
        started.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(number, _)| number)
    })
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

/// Makes a page from `entries`, which are in the order of their start times. `load_ms` is the time of its load event, if it is known.
fn build_page(
    entries: &[&Entry],
    network_ms: &BTreeMap<String, f64>,
    writer: Writer,
    load_ms: Option<f64>,
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
    let first_ms = entries.iter().find(|entry| entry.dropped.is_none()).map_or(0.0, |entry| entry.start_ms);
    for (number, entry) in entries.iter().enumerate() {
        in_progress.retain(|&(object, end_ms)| {
            let is_over = end_ms <= entry.start_ms;
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
            bytes: entry.bytes(writer),
            server_ms: to_micros(entry.wait_ms - network_ms),
            after: after.map(|(object, _)| object),
            delay_ms: to_micros(entry.start_ms - after.map_or(first_ms, |(_, end_ms)| end_ms)),
            connection,
            protocol: entry.protocol,
            compressed_bytes: entry.compressed_bytes,
            kind: entry.kind,
            priority: priority_of(entry),
            holds: holds(entry, object, load_ms),
        });
    }
    let held = entries.iter().filter(|entry| entry.dropped.is_none()).map(|entry| entry.end_ms());
    let last_ms = held.filter(|end_ms| load_ms.is_none_or(|load| *end_ms <= load)).fold(f64::NAN, f64::max);
    let load_delay_ms = load_ms.map_or(0.0, |load| load - last_ms);
    RecordedPage {
        url,
        load_delay_ms: if load_delay_ms > 0.0 { to_micros(load_delay_ms) } else { 0.0 },
        objects,
    }
}

/// Returns the value of the `priority` header with which the browser requested an object, if its priority is recorded.
fn priority_of(entry: &Entry) -> Option<String> {
    let incremental = entry.kind.is_none_or(is_incremental);
    entry.urgency.map(|urgency| format!("u={urgency}{}", if incremental { ", i" } else { "" }))
}

/// Returns the milestone that waits for an object; `None` if that is the load event. Without the browser's word, the first rendering waits
/// for the first document, for style sheets, and for scripts that Chromium requests with a high priority.
fn holds(entry: &Entry, object: u32, load_ms: Option<f64>) -> Option<Holds> {
    /// Time by which the end of an object may be later than the load event that waited for it, milliseconds.
    const TOLERANCE_MS: f64 = 10.0;
    let guess = match (entry.kind, entry.urgency) {
        (Some(ResourceKind::Document), _) => object == 0,
        (Some(ResourceKind::Stylesheet), urgency) => urgency.is_none_or(|urgency| urgency <= 1),
        (Some(ResourceKind::Script), urgency) => urgency.is_some_and(|urgency| urgency <= 1),
        _ => false,
    };
    match load_ms {
        Some(load_ms) if entry.end_ms() > load_ms + TOLERANCE_MS => Some(Holds::End),
        _ => entry.blocks.unwrap_or(guess).then_some(Holds::Render),
    }
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

/// Returns a time in milliseconds, rounded to whole microseconds, at least 0 and at most the longest of a page file.
fn to_micros(ms: f64) -> f64 {
    (ms.clamp(0.0, MAX_MS) * 1e3).round() / 1e3
}

/// Returns true for an object, and for an entry that is none only because its size is not known.
fn may_be_object(entry: &Entry) -> bool {
    matches!(entry.dropped, None | Some(Dropped::Empty))
}

fn summarize(entries: &[&Entry], page: &RecordedPage) -> HarPage {
    let distinct = |number_of: fn(&RecordedObject) -> Option<u32>| {
        let mut numbers: Vec<u32> = page.objects.iter().filter_map(number_of).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    };
    let mut protocols = BTreeMap::new();
    let known = page.objects.iter().filter_map(|object| object.protocol);
    known.for_each(|protocol| *protocols.entry(protocol).or_default() += 1);
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
        protocols,
        unsized_objects: entries.iter().filter(|entry| entry.is_unsized() && may_be_object(entry)).count(),
        dropped,
    }
}
