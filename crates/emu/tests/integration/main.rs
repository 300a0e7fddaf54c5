//! The command line.

mod command_line;
#[path = "../skip/mod.rs"]
mod skip;
