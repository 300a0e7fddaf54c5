//! Printing to standard output and standard error, and output of JSON.

use crate::failure::Failure;
use crate::text::Plain;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Prints to standard error, as [`Plain`] text. Failures are ignored, for example if standard error is closed.
pub fn print_stderr(text: impl Display) {
    let _ = write!(io::stderr(), "{}", Plain(text));
}

/// Prints to standard output, as [`Plain`] text. Returns the exit code of the program, which reports a failed write.
pub fn print_stdout(text: impl Display) -> ExitCode {
    let mut out = io::stdout().lock();
    match ignore_closed_pipe(write!(out, "{}", Plain(text)).and_then(|()| out.flush())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print_stderr(format_args!("error: {failure}\n"));
            ExitCode::from(failure.code)
        }
    }
}

/// Prints one JSON document to standard output.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    ignore_closed_pipe(write_json(&mut io::stdout().lock(), value))
}

/// Converts the result of printing to standard output. A pipe that the reader has closed is no failure.
pub fn ignore_closed_pipe(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        // The reader of a closed pipe needs no more output.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| write_failure(Path::new("standard output"), error)),
    }
}

/// Writes one JSON document, indented and with a newline at the end.
pub fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    out.flush()
}

/// Returns the failure for a file that cannot be written.
pub fn write_failure(path: &Path, error: io::Error) -> Failure {
    Failure::new(&path.display().to_string(), format!("cannot write it: {error}"))
}
