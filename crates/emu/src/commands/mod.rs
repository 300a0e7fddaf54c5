//! Subcommands of the program.

pub(crate) mod emulate;
pub(crate) mod link;
mod options;
mod outputs;
pub(crate) mod router;
pub(crate) mod set;
