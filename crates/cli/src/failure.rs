//! Errors that end a command.

use std::fmt;
use std::io;

/// Error that ends a command, with a message of one line and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Description of the error, and a remedy.
    pub message: String,
    /// Exit code.
    pub code: u8,
}

impl Failure {
    /// Creates a failure with the message "`key`: `problem`" and exit code 2, for invalid input or a machine without a required feature.
    pub fn new(key: &str, problem: impl fmt::Display) -> Self {
        Self { message: format!("{key}: {problem}"), code: 2 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message.replace('\n', " "))
    }
}

impl std::error::Error for Failure {}

/// Returns a function that converts an I/O error to the failure "`key`: cannot `action`: error".
pub fn failed(key: &'static str, action: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::new(key, format!("cannot {action}: {error}"))
}
