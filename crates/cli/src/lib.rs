//! Command lines of the Rust programs: help, errors and output in the style of `catnip`, which usually starts them as subcommands.

#![forbid(unsafe_code)]

pub mod failure;
pub mod help;
pub mod out;
pub mod text;
