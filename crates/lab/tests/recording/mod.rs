//! Recordings of browsers, made by hand.

use catnip_lab::{HarPage, RecordedObject, SiteFile, read_har};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// An entry that begins so many milliseconds after noon and takes so long, of which the server takes `wait`.
pub(crate) fn entry(url: &str, at: f64, took: f64, wait: f64, bytes: u64) -> Value {
    let (seconds, millis) = (at as u64 / 1000, at as u64 % 1000);
    json!({
        "pageref": "page_1",
        "startedDateTime": format!("2026-01-31T12:00:{seconds:02}.{millis:03}Z"),
        "time": took,
        "request": {
            "method": "GET", "url": url, "httpVersion": "HTTP/1.1", "headersSize": 400, "bodySize": 0,
            "headers": [{"name": "Cookie", "value": "secret-cookie"}],
            "cookies": [{"name": "id", "value": "secret-cookie"}],
            "queryString": [{"name": "q", "value": "secret-query"}],
        },
        "response": {
            "status": 200, "statusText": "OK", "headersSize": 300, "bodySize": bytes - 300, "redirectURL": "",
            "headers": [], "cookies": [], "_transferSize": bytes,
            "content": {"size": bytes * 2, "mimeType": "text/html", "text": "secret-body"},
        },
        "cache": {},
        "timings": {"blocked": 1.0, "dns": -1, "connect": -1, "ssl": -1, "send": 0.1, "wait": wait, "receive": 1.0},
        "connection": "4711",
    })
}

pub(crate) fn har(entries: Vec<Value>) -> Value {
    json!({"log": {
        "version": "1.2",
        "creator": {"name": "WebInspector", "version": "537.36"},
        "pages": [{
            "id": "page_1", "title": "https://example.org/?q=secret-query",
            "startedDateTime": "2026-01-31T12:00:00.000Z", "pageTimings": {"onContentLoad": 1.0, "onLoad": 2.0},
        }],
        "entries": entries,
    }})
}

pub(crate) fn written(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("site.har");
    fs::write(&path, text).unwrap();
    path
}

pub(crate) fn read(har: &Value) -> Result<(SiteFile, Vec<HarPage>), String> {
    let folder = tempfile::tempdir().unwrap();
    read_har(&written(&folder, &har.to_string())).map_err(|error| {
        let text = error.to_string();
        text.split_once("site.har: ").map_or(text.clone(), |(_, what)| what.to_string())
    })
}

pub(crate) fn objects(har: &Value) -> Vec<RecordedObject> {
    read(har).unwrap().0.pages.remove(0).objects
}

/// The same but for the values at these JSON pointers.
pub(crate) fn changed(mut value: Value, changes: Value) -> Value {
    let Value::Object(changes) = changes else { panic!("a table of changes by JSON pointer") };
    for (pointer, change) in changes {
        if let Some(there) = value.pointer_mut(&pointer) {
            *there = change;
        } else {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            value.pointer_mut(parent).unwrap()[key] = change;
        }
    }
    value
}
