//! Reports of tests that cannot run on this machine.

use std::fs::OpenOptions;
use std::io::Write;

/// Reports that this test, or a part of it, is skipped, with the reason `why`. The report goes to standard error, even if the output of
/// passed tests is hidden, and to the file that `CATNIP_SKIPPED` names. `make test` counts the reports in this file at its end.
pub(crate) fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("{}::{test}: {}\n", env!("CARGO_CRATE_NAME"), why.trim().replace('\n', " "));
    // A failed write to standard error does not matter.
    let _ = write!(std::io::stderr(), "skipped {line}");
    if let Some(file) = std::env::var_os("CATNIP_SKIPPED") {
        let file = OpenOptions::new().append(true).create(true).open(file);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("CATNIP_SKIPPED names a file");
    }
}
