//! Tests of recordings of browsers (HAR): the data that a page file keeps, and error messages.

use crate::recording::{changed, entry, har, objects, read, written};
use catnip_lab::{
    Dropped, Holds, HttpVersion, Priorities, RecordedObject, ResourceKind, SiteFile, SiteOptions, read_har,
    read_site,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[test]
fn of_a_har_sizes_server_times_and_dependencies_are_kept() {
    let connected = json!({"/timings/connect": 30.0, "/timings/ssl": 10.0, "/connection": "443", "/_connectionId": "4711"});
    let by_parser =
        json!({"/_initiator": {"type": "parser", "url": "https://example.org/a?q=1"}, "/connection": "12"});
    let frames = json!([{"url": "https://cdn.example.org/s.js"}, {"url": "https://example.org/a?q=1"}]);
    let by_script = json!({"/_initiator": {"type": "script", "stack": {"callFrames": [], "parent": {"callFrames": frames}}}});
    let entries = vec![
        // Entries need not be in order.
        changed(entry("https://example.org/img?x=secret-query", 250.0, 40.0, 25.0, 5000), by_script),
        changed(entry("https://example.org/a?q=1#secret-fragment", 0.0, 100.0, 50.0, 1000), connected),
        changed(entry("https://cdn.example.org/s.js", 80.0, 60.0, 21.5, 2000), by_parser),
        entry("https://user:secret-password@example.org:8443/late", 450.0, 10.0, 5.0, 700),
    ];
    let (file, told) = read(&har(entries)).unwrap();
    assert_eq!(
        file.origins,
        ["https://example.org:443", "https://cdn.example.org:443", "https://example.org:8443"]
    );
    let object = |origin, path: &str, bytes, server_ms, after, delay_ms, connection| RecordedObject {
        origin,
        path: path.into(),
        request_bytes: 400,
        bytes,
        server_ms,
        after,
        delay_ms,
        connection: Some(connection),
        protocol: Some(HttpVersion::Http1),
        ..RecordedObject::default()
    };
    let expected = [
        // Opening a connection took 30 - 10 ms. Therefore 20 ms of the wait of each entry of this origin are due to the network.
        object(0, "/a", 1000, 30.0, None, 0.0, 0),
        // The parser sent the request before the end of the document. The shortest wait is the only measurement of the round-trip time to
        // this origin.
        object(1, "/s.js", 2000, 0.0, Some(0), 0.0, 1),
        // The script had ended at 140 ms.
        object(0, "/img", 5000, 5.0, Some(1), 110.0, 0),
        // An entry without an initiator depends on the object that ended last before the entry.
        object(2, "/late", 700, 0.0, Some(2), 160.0, 0),
    ];
    let found = file.pages[0].objects.iter().cloned();
    let plain = |of| RecordedObject { compressed_bytes: None, kind: None, holds: None, ..of };
    assert_eq!(found.map(plain).collect::<Vec<_>>(), expected);
    let [page] = &told[..] else { panic!("{told:?}") };
    assert_eq!((page.url.as_str(), page.origins, page.objects), ("https://example.org:443/a", 3, 4));
    assert_eq!((page.bytes, page.connections), (8700, 2));
    assert!(!file.to_text().contains("secret"), "{}", file.to_text());
}

#[test]
fn a_redirected_request_waits_for_the_answer_that_redirects() {
    let redirects = json!({"/response/status": 302, "/response/redirectURL": "/b"});
    let entries = vec![
        entry("http://example.org/", 0.0, 50.0, 10.0, 1000),
        changed(entry("http://example.org/a", 60.0, 40.0, 10.0, 500), redirects),
        entry("http://example.org/c", 65.0, 36.0, 10.0, 500),
        entry("http://example.org/b", 103.0, 36.0, 10.0, 500),
    ];
    let of: Vec<_> = objects(&har(entries)).iter().map(|object| (object.after, object.delay_ms)).collect();
    assert_eq!(of, [(None, 0.0), (Some(0), 10.0), (Some(0), 15.0), (Some(1), 3.0)]);
}

#[test]
fn where_sizes_are_missing_the_next_best_ones_count() {
    let bytes_of = |changes: Value| {
        let entry = changed(entry("http://example.org/a", 0.0, 1.0, 1.0, 1000), changes);
        let object = objects(&har(vec![entry])).remove(0);
        (object.request_bytes, object.bytes)
    };
    assert_eq!(bytes_of(json!({})), (400, 1000));
    assert_eq!(bytes_of(json!({"/response/_transferSize": null})), (400, 300 + 700));
    let body = json!({"/response/_transferSize": null, "/response/bodySize": -1});
    assert_eq!(bytes_of(body), (400, 300 + 2000), "the size of the content");
    let compressed = json!({
        "/response/_transferSize": -1, "/response/bodySize": -1, "/response/content/compression": 1500
    });
    assert_eq!(bytes_of(compressed), (400, 300 + 500), "as it was sent");
    // "GET /a HTTP/1.1\r\n", "Cookie: secret-cookie\r\n", "\r\n".
    let unknown = json!({"/request/headersSize": -1, "/request/bodySize": -1});
    assert_eq!(bytes_of(unknown), (17 + 23 + 2, 1000));
    assert_eq!(bytes_of(json!({"/request/bodySize": 50})), (450, 1000));
}

#[test]
fn what_did_not_cross_the_network_is_left_out_with_a_reason_and_its_followers_wait_for_its_cause() {
    let first = entry("http://example.org/", 0.0, 50.0, 10.0, 1000);
    let like = |url: &str, changes: Value| changed(entry(url, 60.0, 5.0, 1.0, 1000), changes);
    let parser = json!({"type": "parser", "url": "http://example.org/"});
    let script =
        json!({"type": "script", "stack": {"callFrames": [{"url": "http://example.org/cached.js"}]}});
    let entries = vec![
        first,
        like("http://example.org/cached.js", json!({"/_fromCache": "disk", "/_initiator": parser})),
        like("http://example.org/worker", json!({"/response/_fetchedViaServiceWorker": true})),
        like(
            "http://example.org/gone",
            json!({"/response/status": 0, "/response/_error": "net::ERR_FAILED"}),
        ),
        like("http://example.org/broken", json!({"/response/_error": "net::ERR_ABORTED"})),
        like("data:image/png;base64,AAAA", json!({})),
        like("wss://example.org/talk", json!({})),
        like("http://example.org/talk", json!({"/response/status": 101})),
        like("chrome-extension://abc/x.js", json!({})),
        like(
            "http://example.org/nothing",
            json!({
                "/response/_transferSize": -1, "/response/headersSize": -1, "/response/bodySize": -1,
                "/response/content": null
            }),
        ),
        // Response that Chromium generates itself.
        like("http://example.org/hsts", json!({"/response/_transferSize": 0})),
        changed(entry("http://example.org/x", 95.0, 5.0, 1.0, 900), json!({"/_initiator": script})),
    ];
    let (file, told) = read(&har(entries)).unwrap();
    let reasons = [
        (Dropped::Cached, 2),
        (Dropped::Failed, 2),
        (Dropped::Data, 1),
        (Dropped::WebSocket, 2),
        (Dropped::Scheme, 1),
        (Dropped::Empty, 2),
    ];
    assert_eq!(told[0].dropped, BTreeMap::from(reasons));
    let retained: Vec<_> =
        file.pages[0].objects.iter().map(|it| (it.path.as_str(), it.after, it.delay_ms)).collect();
    assert_eq!(retained, [("/", None, 0.0), ("/x", Some(0), 45.0)]);
}

#[test]
fn entries_belong_to_the_page_that_they_name_or_that_was_open() {
    let mut two = har(vec![
        entry("http://example.org/1", 0.0, 10.0, 1.0, 1000),
        changed(entry("http://example.org/2", 5000.0, 10.0, 1.0, 1000), json!({"/pageref": "page_2"})),
        changed(entry("http://example.org/3", 6000.0, 10.0, 1.0, 1000), json!({"/pageref": null})),
        changed(entry("http://example.org/4", 100.0, 10.0, 1.0, 1000), json!({"/pageref": null})),
    ]);
    let second = json!({"id": "page_2", "startedDateTime": "2026-01-31T14:00:04.000+02:00", "title": "x"});
    two["log"]["pages"].as_array_mut().unwrap().push(second);
    let paths = |har: &Value| -> Vec<Vec<String>> {
        let pages = read(har).unwrap().0.pages;
        pages.iter().map(|page| page.objects.iter().map(|object| object.path.clone()).collect()).collect()
    };
    assert_eq!(paths(&two), [["/1", "/4"], ["/2", "/3"]]);
    let mut none = two.clone();
    none["log"].as_object_mut().unwrap().remove("pages");
    assert_eq!(paths(&none), [["/1", "/4", "/2", "/3"]], "without pages, all is one");
    two["log"]["entries"][1]["pageref"] = "page_9".into();
    assert_eq!(paths(&two), [["/1", "/4"], ["/2", "/3"]], "of a page that is not listed, the time counts");
}

#[test]
fn of_a_malformed_har_the_json_path_is_named() {
    let good = har(vec![entry("http://example.org/", 0.0, 50.0, 10.0, 1000)]);
    assert!(read(&good).is_ok());
    for (changes, message) in [
        (
            json!({"/log/entries": 3}),
            "log.entries: invalid type: integer `3`, expected a list of entries at line 1",
        ),
        (json!({"/log/entries": []}), "log.entries: no objects loaded over the network"),
        (
            json!({"/log/entries/0/request/url": "nowhere"}),
            "log.entries: no objects loaded over the network (left out: 1 odd)",
        ),
        (
            json!({
                "/log/entries/0/response/_transferSize": -1, "/log/entries/0/response/bodySize": -1,
                "/log/entries/0/response/content/size": -1,
            }),
            "log.entries: no objects loaded over the network (left out: 1 empty)",
        ),
    ] {
        let error = read(&changed(good.clone(), changes.clone())).unwrap_err();
        assert!(error.starts_with(message), "{changes}: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let text = good.to_string();
    let message = |text: &str| read_har(&written(&folder, text), false).unwrap_err().to_string();
    assert!(message(&text[..text.len() / 2]).contains("site.har: log.entries"), "cut short");
    assert!(message(&format!("{text} x")).contains("site.har: trailing characters"));
    assert!(message("").contains("site.har: EOF while parsing a value"));
    assert!(message("{}").contains("site.har: missing field `log`"));
    assert!(read_har(&written(&folder, &format!("\u{feff}{text}")), false).is_ok(), "with a byte order mark");
    let missing = folder.path().join("no.har");
    let error = read_site(&missing).unwrap_err().to_string();
    assert!(error.contains("no.har: No such file"), "{error}");
}

#[test]
fn a_page_file_is_read_back_as_it_was_written_and_its_mistakes_are_named() {
    let entries = vec![
        entry("http://example.org/\"quoted\"", 0.0, 50.5, 10.0, 1000),
        entry("http://other.example.org/x", 60.0, 5.0, 1.25, 1000),
    ];
    let (file, _) = read(&har(entries)).unwrap();
    let text = file.to_text();
    assert_eq!(SiteFile::read("site.page.json", text.as_bytes()).unwrap(), file, "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("\"bytes\"")).count(), 2, "an object a line\n{text}");
    let good: Value = serde_json::from_str(&text).unwrap();
    for (changes, message) in [
        (json!({"/catnip_page": 2}), "catnip_page: 2: expected version 1"),
        (json!({"/pages": []}), "pages: no pages"),
        (json!({"/pages/0/objects": []}), "pages[0].objects: no objects"),
        (
            json!({"/pages/0/objects/0/after": 0}),
            "pages[0].objects[0].after: 0: expected the number of an earlier object",
        ),
        (json!({"/pages/0/objects/1/origin": 2}), "pages[0].objects[1].origin: 2: expected one of 2 origins"),
        (json!({"/pages/0/objects/1/bytes": 0}), "pages[0].objects[1].bytes: 0: expected at least 1"),
        (json!({"/pages/0/objects/1/bytes": -1}), "pages[0].objects[1].bytes: invalid value: integer `-1`"),
        (
            json!({"/pages/0/objects/1/delay_ms": -1}),
            "pages[0].objects[1].delay_ms: -1: expected 0 to 86400000",
        ),
        (json!({"/pages/0/objects/1/size": 1}), "pages[0].objects[1].size: unknown field `size`"),
        (json!({"/origins/0": 5}), "origins[0]: invalid type: integer"),
    ] {
        let bad = changed(good.clone(), changes).to_string();
        let error = SiteFile::read("site.page.json", bad.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("site.page.json: {message}")), "{error}");
    }
}

/// Strategy that generates JSON values to replace a value of a recording.
fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "http://a.b/c?d",
            "data:,x",
            "ws://a/b",
            "http://a.b/",
            "page_1",
            "http://[::1]:9/"
        ])
        .prop_map(Value::from),
        prop::sample::select(vec![
            "2026-01-31T12:00:01Z",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:60+14:00"
        ])
        .prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!({"callFrames": [{"url": "http://example.org/1"}]})),
    ]
}

/// Appends the JSON pointers of `value`, which is at `at`, and of all values within it to `into`.
fn pointers(value: &Value, at: String, into: &mut Vec<String>) {
    match value {
        Value::Object(table) => {
            table.iter().for_each(|(key, inner)| pointers(inner, format!("{at}/{key}"), into))
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, inner)| pointers(inner, format!("{at}/{i}"), into));
        }
        _ => {}
    }
    into.push(at);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn anything_like_a_har_gives_a_site_or_one_line_that_says_what_is_wrong(
        changes in prop::collection::vec((any::<prop::sample::Index>(), anything()), 0..6), cut in 0.0..1.5f64
    ) {
        let script = json!({"/_initiator": {"type": "script", "stack": {"callFrames": [{"url": "http://example.org/1"}]}}});
        let mut document = har(vec![
            entry("http://example.org/1", 0.0, 50.0, 10.0, 1000),
            changed(entry("http://example.org/2", 60.0, 50.0, 10.0, 1000), script),
            entry("http://other.example.org/3", 70.0, 50.0, 10.0, 1000),
        ]);
        for (place, value) in changes {
            let mut all: Vec<String> = Vec::new();
            pointers(&document, String::new(), &mut all);
            *document.pointer_mut(place.get::<String>(&all).as_str()).unwrap() = value;
        }
        let text = document.to_string();
        let end = (0..=text.len().min((cut * text.len() as f64) as usize)).rev().find(|&end| text.is_char_boundary(end));
        let folder = tempfile::tempdir().unwrap();
        match read_har(&written(&folder, &text[..end.unwrap()]), false) {
            Ok((file, _)) => {
                prop_assert_eq!(&SiteFile::read("x", file.to_text().as_bytes()).unwrap(), &file);
                let site = file.site(SiteOptions { version: None, priorities: Priorities::Chrome });
                prop_assert!(site.pages.iter().all(|page| page.bytes() > 0));
            }
            Err(error) => {
                let error = error.to_string();
                prop_assert!(error.contains("site.har: ") && !error.contains('\n'), "{}", error);
            }
        }
    }
}

#[test]
fn objects_have_the_kinds_priorities_and_milestones_that_browsers_and_tools_record() {
    let of = |changes: Value| {
        let mut recorded = har(vec![
            entry("https://example.org/", 0.0, 10.0, 5.0, 900),
            changed(entry("https://example.org/x", 20.0, 60.0, 5.0, 900), changes),
        ]);
        recorded["log"]["pages"][0]["pageTimings"]["onLoad"] = json!(100.0);
        let page = read(&recorded).unwrap().0.pages.remove(0);
        // The last object that it waits for ends at 80 or at 10 ms.
        let delay_ms = if page.objects[1].holds == Some(Holds::End) { 90.0 } else { 20.0 };
        assert_eq!(page.load_delay_ms, delay_ms);
        let object = page.objects[1].clone();
        (object.kind, object.priority, object.holds)
    };
    let typed = |name: &str, priority: &str| of(json!({"/_resourceType": name, "/_priority": priority}));
    let some = |text: &str| Some(text.to_string());
    use ResourceKind::{Fetch, Font, Image, Script, Stylesheet};
    assert_eq!(typed("stylesheet", "VeryHigh"), (Some(Stylesheet), some("u=0"), Some(Holds::Render)));
    assert_eq!(typed("script", "High"), (Some(Script), some("u=1"), Some(Holds::Render)));
    assert_eq!(typed("script", "Low"), (Some(Script), some("u=3"), None), "not in the way of the parser");
    assert_eq!(typed("image", "Medium"), (Some(Image), some("u=2, i"), None));
    assert_eq!(typed("xhr", "High"), (Some(Fetch), some("u=1, i"), None));
    assert_eq!(typed("font", "Highest"), (Some(Font), some("u=0"), None), "as WebPageTest says it");
    let mime = |mime: &str| of(json!({"/response/content/mimeType": mime}));
    assert_eq!(mime("text/css; charset=utf-8"), (Some(Stylesheet), None, Some(Holds::Render)));
    assert_eq!(mime("application/javascript"), (Some(Script), None, None), "it may be asynchronous");
    assert_eq!(mime("font/woff2").0, Some(Font));
    let blocking = |says: &str| of(json!({"/_resourceType": "script", "/_renderBlocking": says})).2;
    assert_eq!([blocking("blocking"), blocking("non_blocking")], [Some(Holds::Render), None]);
    // The load event was 100 ms after the start of the page: one object ends at 80 ms, another one at 320 ms.
    assert_eq!(of(json!({"/time": 300.0})).2, Some(Holds::End));
}

/// Requests of a browser over one connection with HTTP/2, as a server that is not ours (nghttpd 1.52) received them: for each the length of
/// its HEADERS frame and its fields.
fn received(requests: &str) -> Vec<(u64, Vec<(&str, &str)>)> {
    let blocks = requests.split("\n\n").filter(|block| !block.trim().is_empty() && !block.starts_with('#'));
    blocks
        .map(|block| {
            let (length, fields) = block.trim().split_once('\n').unwrap();
            (length.parse().unwrap(), fields.lines().map(name_and_value).collect())
        })
        .collect()
}

/// Returns the parts of a line `name: value`. The names of pseudo-header fields begin with a colon.
fn name_and_value(line: &str) -> (&str, &str) {
    let at = line[1..].find(": ").unwrap() + 1;
    (&line[..at], &line[at + 2..])
}

#[test]
fn compressed_requests_have_the_sizes_that_browsers_send() {
    for (browser, requests, tolerance) in [
        ("Chromium 156", include_str!("data/requests/chromium-156.txt"), 3),
        ("Firefox 153", include_str!("data/requests/firefox-153.txt"), 10),
    ] {
        let requests = received(requests);
        assert!(requests.len() > 20, "{browser}");
        let entries = requests.iter().zip(0..).map(|((_, fields), number)| {
            let headers: Vec<_> =
                fields.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            let path = fields.iter().find(|(name, _)| *name == ":path").unwrap().1;
            let start = 10.0 * f64::from(number);
            changed(
                entry(&format!("https://localhost:8443{path}"), start, 5.0, 1.0, 1000),
                json!({"/request/headers": headers, "/request/headersSize": -1, "/request/bodySize": 0}),
            )
        });
        let objects = objects(&har(entries.collect()));
        let mut sums = [0, 0];
        for (object, (length, _)) in objects.iter().zip(&requests) {
            let bytes = object.compressed_bytes.unwrap();
            assert!(bytes.abs_diff(*length) <= tolerance, "{browser}: {}: {bytes} for {length}", object.path);
            sums = [sums[0] + bytes, sums[1] + length];
        }
        assert!(sums[0].abs_diff(sums[1]) * 33 <= sums[1], "{browser}: {sums:?}");
    }
}

#[test]
fn sizes_that_are_not_recorded_are_estimated_by_kind_only_on_request() {
    let unsized_entry = |path: &str, mime: &str| {
        changed(
            entry(&format!("https://example.org/{path}"), 0.0, 50.0, 10.0, 1000),
            json!({
                "/response/content/mimeType": mime, "/response/content/size": -1, "/response/bodySize": -1,
                "/response/headersSize": 300, "/response/_transferSize": -1,
            }),
        )
    };
    let recorded = har(vec![
        entry("https://example.org/", 0.0, 50.0, 10.0, 1000),
        unsized_entry("a.html", "text/html"),
        unsized_entry("b.png", "image/png"),
        unsized_entry("c.js", "text/javascript"),
        unsized_entry("d", "application/pdf"),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, &recorded.to_string());
    let sizes = |estimate| {
        let (site, told) = read_har(&file, estimate).unwrap();
        let bytes: Vec<u64> = site.pages[0].objects.iter().map(|object| object.bytes).collect();
        (bytes, told[0].unsized_objects, told[0].dropped.clone())
    };
    assert_eq!(sizes(false), (vec![1000], 4, BTreeMap::from([(Dropped::Empty, 4)])));
    // Medians of the Web Almanac of 2025: 35 KB of HTML, 8 KB of images, 4.6 KB of scripts.
    let estimated = [35 * 1024, 8 * 1024, 4710, 4710].map(|body| 300 + body);
    assert_eq!(sizes(true), ([&[1000], &estimated[..]].concat(), 4, BTreeMap::new()));
}
