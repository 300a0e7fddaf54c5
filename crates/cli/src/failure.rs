//! Why a command of the program ends with an error.

use std::fmt;
use std::io;

/// Why there is no run: one line, and the exit code of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What, and what to do.
    pub message: String,
    /// Exit code.
    pub code: u8,
}

impl Failure {
    /// Bad input or a machine that cannot do it: exit code 2.
    pub fn new(key: &str, what: impl fmt::Display) -> Self {
        Self { message: format!("{key}: {what}"), code: 2 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message.replace('\n', " "))
    }
}

impl std::error::Error for Failure {}

/// Turns what the system says into a failure of what is done for a key.
pub fn failed(key: &'static str, doing: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::new(key, format!("cannot {doing}: {error}"))
}
