//! Capture files, read by other programs.

mod captures;
#[path = "../../../emu/tests/skip/mod.rs"]
mod skip;
