//! Tests of the command line.

mod command_line;
#[path = "../skip/mod.rs"]
mod skip;
