//! Tests of the exchange of capture files with other programs.

mod captures;
#[path = "../../../emu/tests/skip/mod.rs"]
mod skip;
