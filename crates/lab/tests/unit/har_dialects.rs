//! Tests that recordings of browsers and tools are read as their writers mean them. Sizes are worked out by hand.

use crate::recording::{changed, entry, har, read};
use catnip_lab::{Dropped, HttpVersion, SiteFile, read_har, read_site};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

const FIRST: &str = "https://site.test/";

/// Returns an entry with what all writers have. It is the `number`th, 100 ms after the one before.
fn plain(number: u32, path: &str, response: Value, more: Value) -> Value {
    let mut entry = json!({
        "startedDateTime": format!("2026-01-01T12:00:00.{number}00Z"),
        "time": 25,
        "request": {
            "method": "GET", "url": format!("https://site.test{path}"), "httpVersion": "HTTP/1.1", "headers": [],
            "queryString": [], "cookies": [], "headersSize": 200, "bodySize": 0,
        },
        "response": {
            "status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1", "headers": [], "cookies": [],
            "content": {"size": 1000, "mimeType": "text/html"}, "redirectURL": "", "headersSize": 300, "bodySize": 1000,
        },
        "cache": {},
        "timings": {"blocked": 0, "dns": -1, "connect": 10, "ssl": -1, "send": 0, "wait": 20, "receive": 5},
    });
    response.as_object().unwrap().iter().for_each(|(key, value)| entry["response"][key] = value.clone());
    more.as_object().unwrap().iter().for_each(|(key, value)| entry[key] = value.clone());
    entry
}

fn written_by(creator: &str, version: &str, entries: Vec<Value>) -> Value {
    let pages =
        json!([{"id": "p", "startedDateTime": "2026-01-01T12:00:00Z", "title": "", "pageTimings": {}}]);
    json!({"log": {"version": "1.2", "creator": {"name": creator, "version": version}, "pages": pages, "entries": entries}})
}

/// Asserts the bytes of the objects of a HAR, in the order of their requests, and the reasons of what is left out.
fn assert_read(name: &str, har: &Value, bytes: &[u64], dropped: &[(Dropped, usize)]) {
    let (file, told) = read(har).unwrap_or_else(|error| panic!("{name}: {error}"));
    let read: Vec<u64> =
        file.pages.iter().flat_map(|page| &page.objects).map(|object| object.bytes).collect();
    assert_eq!(read, bytes, "{name}");
    let mut left_out: BTreeMap<Dropped, usize> = BTreeMap::new();
    told.iter()
        .flat_map(|page| &page.dropped)
        .for_each(|(reason, n)| *left_out.entry(*reason).or_default() += n);
    assert_eq!(left_out, BTreeMap::from_iter(dropped.iter().copied()), "{name}");
}

#[test]
fn each_writer_is_read_as_it_means_its_sizes() {
    let first = || plain(0, "/", json!({}), json!({}));
    let chromium = vec![
        plain(
            0,
            "/",
            json!({"_transferSize": 1250, "httpVersion": "h2"}),
            json!({"_initiator": {"type": "other"}}),
        ),
        plain(1, "/a.css", json!({"bodySize": 0, "_transferSize": 0}), json!({"_fromCache": "memory"})),
        plain(2, "/b.js", json!({"_transferSize": 700, "httpVersion": "h3"}), json!({"connection": 443})),
    ];
    assert_read(
        "Chromium",
        &written_by("WebInspector", "537.36", chromium),
        &[1250, 700],
        &[(Dropped::Cached, 1)],
    );

    let firefox = vec![
        // The body of 1000 B and the header of 800 B are both in `bodySize`.
        plain(0, "/", json!({"headersSize": 800, "bodySize": 1800}), json!({})),
        // Of a response from the cache, only the header came; Firefox writes the size of the stored body.
        plain(1, "/a", json!({"status": 304, "bodySize": 34_000}), json!({})),
        plain(2, "/b", json!({"bodySize": -1, "headersSize": null}), json!({"timings": {}})),
        plain(
            3,
            "/c",
            json!({"headersSize": 0}),
            json!({"time": 0, "timings": {"blocked": 0, "wait": 0, "receive": 0}}),
        ),
        plain(4, "/d", json!({"headersSize": 300, "bodySize": 300, "status": 204}), json!({"time": null})),
    ];
    let left_out = [(Dropped::Cached, 2)];
    assert_read("Firefox", &written_by("Firefox", "146.0", firefox.clone()), &[1800, 300, 300], &left_out);
    let old = written_by("Firefox", "54.0.1", firefox);
    assert_read("Firefox 54", &old, &[2600, 300, 300], &left_out);

    let cached =
        json!({"content": {"size": 50_000, "compression": 50_000}, "headersSize": -1, "bodySize": -1});
    let safari = vec![
        plain(0, "/", json!({"_transferSize": 1400}), json!({"_fetchType": "Network Load"})),
        plain(1, "/a", cached.clone(), json!({"_fetchType": "Memory Cache"})),
        plain(2, "/b", cached, json!({"_fetchType": "Disk Cache"})),
    ];
    assert_read(
        "Safari",
        &written_by("WebKit Web Inspector", "1.0", safari),
        &[1400],
        &[(Dropped::Cached, 2)],
    );

    let detail =
        json!({"type": "script", "stack": {"callFrames": [{"url": "https://site.test/a.js"}]}}).to_string();
    let sitespeed = vec![
        plain(0, "/", json!({"_transferSize": 900, "httpVersion": "h2"}), json!({"_initiator": ""})),
        plain(
            1,
            "/a.js",
            json!({"_transferSize": 800}),
            json!({"_initiator": FIRST, "_initiator_line": "12"}),
        ),
        plain(
            2,
            "/x",
            json!({"_transferSize": 700}),
            json!({"_initiator_detail": detail, "_initiator": FIRST, "time": null}),
        ),
    ];
    let sitespeed = written_by("Browsertime", "17.0.0", sitespeed);
    assert_read("sitespeed.io", &sitespeed, &[900, 800, 700], &[]);
    let after: Vec<_> = read(&sitespeed).unwrap().0.pages[0].objects.iter().map(|it| it.after).collect();
    assert_eq!(
        after,
        [None, Some(0), Some(1)],
        "the document asks for the script, and the script for the rest"
    );

    // WebPageTest counts what came in, with the header, and writes numbers as texts.
    let unknown = json!({"headersSize": -1, "bodySize": -1});
    let webpagetest = vec![
        plain(0, "/", unknown.clone(), json!({"_bytesIn": "5321", "_protocol": "HTTP/2", "_initiator": ""})),
        plain(1, "/a", unknown, json!({"_bytesIn": 321, "_initiator": FIRST, "connection": 7})),
    ];
    assert_read("WebPageTest", &written_by("WebPagetest", "22.10", webpagetest), &[5321, 321], &[]);

    let charles = vec![
        plain(0, "/", json!({"redirectURL": null, "headers": null}), json!({"_charlesStatus": "COMPLETE"})),
        plain(1, "/a", json!({"headers": [{"name": "ETag", "value": null}], "headersSize": -1}), json!({})),
        plain(2, "/b", json!({"status": null}), json!({"response": null})),
    ];
    // "HTTP/1.1 200\r\n", "ETag: \r\n", "\r\n": 14, 8 and 2.
    assert_read(
        "Charles",
        &written_by("Charles Proxy", "4.6", charles),
        &[1300, 1024],
        &[(Dropped::Failed, 1)],
    );

    let fiddler = vec![
        plain(
            0,
            "/",
            json!({}),
            json!({"startedDateTime": "2026-01-01T13:00:00.0000000+01:00", "connection": "ClientPort:5; EgressPort:6"}),
        ),
        plain(
            1,
            "/a",
            json!({"redirectURL": ""}),
            json!({"comment": "[#2]", "timings": {"wait": -7, "receive": 3}}),
        ),
    ];
    let mut fiddler = written_by("Fiddler", "5.0", fiddler);
    fiddler["log"]["pages"] = Value::Null;
    assert_read("Fiddler", &fiddler, &[1300, 1300], &[]);

    let mitmproxy = vec![
        plain(
            0,
            "/",
            json!({"content": {"size": 1000, "compression": 400}, "bodySize": 600}),
            json!({"startedDateTime": "2026-01-01T12:00:00.000000+00:00"}),
        ),
        plain(
            1,
            "/a",
            json!({"httpVersion": "HTTP/2.0", "headersSize": 90, "bodySize": 10}),
            json!({"serverIPAddress": "192.0.2.1"}),
        ),
    ];
    assert_read("mitmproxy", &written_by("mitmproxy", "10.1", mitmproxy), &[900, 100], &[]);

    let playwright = vec![
        plain(
            0,
            "/",
            json!({"_transferSize": 1234, "bodySize": -1}),
            json!({"_monotonicTime": 5.5, "pageref": "page@1"}),
        ),
        plain(1, "/a", json!({"status": -1, "_failureText": "net::ERR_ABORTED"}), json!({})),
        plain(2, "/b", json!({"_transferSize": -1, "bodySize": 50, "headersSize": 50}), json!({})),
    ];
    assert_read(
        "Playwright",
        &written_by("Playwright", "1.40", playwright),
        &[1234, 100],
        &[(Dropped::Failed, 1)],
    );

    let browsermob = vec![
        first(),
        plain(
            1,
            "/a",
            json!({"error": null}),
            json!({"startedDateTime": "2026-01-01T12:00:00.100+0000", "timings": null}),
        ),
    ];
    assert_read("BrowserMob", &written_by("BrowserMob Proxy", "2.1", browsermob), &[1300, 1300], &[]);
}

#[test]
fn the_version_of_http_is_kept_and_told() {
    let with = |number, version: &str| plain(number, "/", json!({"httpVersion": version}), json!({}));
    let versions = ["h3", "http/2.0", "HTTP/1.0", "h3-29", "http/2+quic/46", "unknown"];
    let entries = (0..).zip(versions).map(|(number, version)| with(number, version)).collect();
    let (file, told) = read(&written_by("x", "1", entries)).unwrap();
    // Where the response has no known version, that of the request counts.
    let expected = [(HttpVersion::Http1, 2), (HttpVersion::Http2, 1), (HttpVersion::Http3, 3)];
    assert_eq!(told[0].protocols, BTreeMap::from(expected));
    let again = SiteFile::read("x", file.to_text().as_bytes()).unwrap();
    assert_eq!(again.pages[0].objects[0].protocol, Some(HttpVersion::Http3));
    assert_eq!(again, file);
}

#[test]
fn a_response_to_head_and_of_a_status_without_a_body_has_none() {
    let head = json!({"request": {"method": "HEAD", "url": FIRST, "headersSize": 100, "bodySize": 0}});
    let entries = vec![
        plain(0, "/", json!({}), json!({})),
        plain(1, "/", json!({}), head),
        plain(2, "/", json!({"status": 103, "headersSize": 60}), json!({})),
        plain(3, "/", json!({"status": 304, "_transferSize": 120}), json!({})),
    ];
    assert_read("RFC 9110", &written_by("x", "1", entries), &[1300, 300, 60, 120], &[]);
}

#[test]
fn an_entry_that_makes_no_sense_is_left_out_and_counted() {
    let at = |time: Value| json!({"startedDateTime": time});
    let url = |url: Value| json!({"request": {"method": "GET", "url": url}});
    let entries = vec![
        plain(0, "/", json!({}), json!({})),
        plain(1, "/", json!({}), at("noon".into())),
        plain(1, "/", json!({}), at(Value::Null)),
        plain(1, "/", json!({}), url("/relative".into())),
        plain(1, "/", json!({}), url("http://site.test:99999/".into())),
        plain(1, "/", json!({}), url(7.into())),
        plain(1, "/", json!({}), json!({"request": []})),
        plain(1, "/", json!({"_transferSize": 1e15}), json!({})),
        plain(1, "/", json!({}), json!({"timings": {"wait": 1e12}})),
        Value::Null,
        json!("entry"),
        plain(1, "/", json!({}), json!({"response": {}})),
        plain(2, "/", json!({}), at("2026-01-01 12:00:02".into())),
        plain(2, "/", json!({}), at("2026-01-01T12:00:03".into())),
        plain(2, "/", json!({}), at(json!(1_767_268_804_000_u64))),
    ];
    assert_read(
        "odd",
        &written_by("x", "1", entries),
        &[1300; 4],
        &[(Dropped::Odd, 10), (Dropped::Failed, 1)],
    );
}

#[test]
fn a_compressed_har_is_read_and_what_is_no_har_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = written_by("x", "1", vec![plain(0, "/", json!({}), json!({}))]).to_string();
    let path = folder.path().join("site.har.gz");
    let mut packed =
        flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap();
    assert_eq!(read_site(&path).unwrap().pages[0].objects[0].bytes, 1300);
    let whole = std::fs::read(&path).unwrap();
    let files: &[&[u8]] = &[
        b"",
        b"   ",
        b"null",
        b"[]",
        b"{}",
        b"7",
        b"onInputData({\"log\": {}});",
        b"{\"log\": null}",
        b"{\"log\": {}}",
        b"{\"log\": {\"entries\": null}}",
        b"{\"log\": {\"entries\": {}}}",
        b"{\"log\": {\"entries\": []}}",
        b"{\"log\": {\"entries\": [null]}}",
        b"PK\x03\x04",
        b"\xff\xfe{\x00",
        b"<html>",
        &whole[..whole.len() / 2],
        &text.as_bytes()[..text.len() / 2],
    ];
    for file in files {
        std::fs::write(&path, file).unwrap();
        let error = read_har(&path, false).unwrap_err().to_string();
        assert!(error.contains("site.har.gz: ") && !error.contains('\n'), "{error}");
        for word in ["struct", "f64", "newtype"] {
            assert!(!error.contains(word), "{error}");
        }
    }
}

/// Appends the JSON pointers of all values below an entry to `into`.
fn fields(value: &Value, at: String, into: &mut Vec<String>) {
    let within: Vec<(String, &Value)> = match value {
        Value::Object(table) => table.iter().map(|(key, inner)| (format!("{at}/{key}"), inner)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(i, inner)| (format!("{at}/{i}"), inner)).collect()
        }
        _ => Vec::new(),
    };
    for (at, inner) in within {
        fields(inner, at.clone(), into);
        into.push(at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    /// No type and no absence of a field of an entry refuses the file: at least the other entry is read.
    #[test]
    fn no_field_refuses_a_file(
        place in any::<prop::sample::Index>(),
        value in prop::sample::select(vec![
            Value::Null, json!(true), json!(-1), json!(1e300), json!(""), json!("x"), json!([]), json!({}), json!([[]]), json!([7]), json!({"a": 1}),
        ]),
        is_removed in any::<bool>(),
    ) {
        let rich = json!({
            "/_initiator": {"type": "script", "url": FIRST, "stack": {"callFrames": [{"url": FIRST}], "parent": {"callFrames": []}}},
            "/_fromCache": "disk", "/_fetchType": "x", "/response/_error": "x", "/response/content/compression": 5, "/pageref": "p",
        });
        let mut document = har(vec![
            entry("http://example.org/1", 0.0, 50.0, 10.0, 1000),
            changed(entry("http://example.org/2", 60.0, 50.0, 10.0, 1000), rich),
        ]);
        let mut all: Vec<String> = Vec::new();
        fields(&document["log"]["entries"][1], "/log/entries/1".into(), &mut all);
        fields(&document["log"]["pages"], "/log/pages".into(), &mut all);
        all.extend(["/log/pages", "/log/creator", "/log/version", "/log/entries/1"].map(String::from));
        let at = place.get::<String>(&all);
        let (parent, key) = at.rsplit_once('/').unwrap();
        match document.pointer_mut(parent).unwrap() {
            Value::Object(table) if is_removed => drop(table.remove(key)),
            _ => *document.pointer_mut(at).unwrap() = value,
        }
        let (file, _) = read(&document).map_err(|error| TestCaseError::fail(format!("{at}: {error}")))?;
        prop_assert!(!file.pages.is_empty());
    }
}
