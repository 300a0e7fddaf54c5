//! Captures in files, read by programs of others.

mod captures;
#[path = "../../../emu/tests/skip/mod.rs"]
mod skip;
