//! Outputs that the commands share: certificate, capture, notes and exit code.

use catnip_cli::failure::Failure;
use catnip_cli::out::{print_json, print_stderr, write_failure, write_json};
use catnip_cli::text::terminal_columns;
use catnip_emu::observe::capture::Capture;
use catnip_emu::observe::certificate::{Certificate, Verdict};
use catnip_linux::clock::Stopwatch;
use catnip_wire::pcapng::LinkType;
use clap::Args;
use serde::Serialize;
use std::fmt::Display;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct OutputOptions {
    /// Write the certificate to this file, as JSON
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Print only errors on standard error, without certificate and notes
    #[arg(long, short, overrides_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print each step with its time on standard error
    #[arg(long, short, overrides_with = "quiet")]
    verbose: bool,
    /// Write every arriving packet to this file, as pcapng with the fate of the packet in a comment
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl OutputOptions {
    /// Starts the notes on the steps of a run, which are printed only with --verbose.
    pub(crate) fn notes(&self) -> Notes {
        Notes { since: Stopwatch::start(), is_verbose: self.verbose }
    }

    /// Prints a warning on standard error, unless --quiet is given.
    pub(crate) fn warn(&self, warning: &str) {
        if !self.quiet {
            print_stderr(format_args!("warning: {warning}\n"));
        }
    }

    /// Prints a certificate as text on standard error, at the width of the terminal, unless --quiet is given.
    pub(crate) fn print_text(&self, certificate: &impl Display) {
        if !self.quiet {
            print_stderr(wrap_for_terminal(certificate));
        }
    }

    /// Prints the certificate of a link: as JSON on standard output if `json` is true, otherwise as text on standard error.
    pub(crate) fn print_certificate(&self, certificate: &Certificate, json: bool) -> Result<(), Failure> {
        if json {
            return print_json(certificate);
        }
        self.print_text(certificate);
        Ok(())
    }

    /// Creates the file for the certificate, if --certificate is given. This happens before the run, so that errors are reported early.
    pub(crate) fn certificate(&self) -> Result<Option<Output>, Failure> {
        self.certificate.as_deref().map(Output::create).transpose()
    }

    /// Starts the capture, if --pcap is given. `edges` has a name for each node at which packets enter. The first `skip` bytes of each
    /// packet are left out.
    pub(crate) fn capture(
        &self,
        link: LinkType,
        stopwatch: Stopwatch,
        edges: Vec<String>,
        skip: usize,
    ) -> Result<Option<Capture>, Failure> {
        let Some(path) = self.pcap.as_deref() else { return Ok(None) };
        let capture = Capture::create(path, link, stopwatch.since_1970(), edges, skip);
        capture.map(Some).map_err(|error| write_failure(path, error))
    }

    /// Completes the capture file, and prints a warning if packets are missing.
    pub(crate) fn finish(&self, capture: Option<Capture>) -> Result<(), Failure> {
        let (Some(capture), Some(path)) = (capture, self.pcap.as_deref()) else { return Ok(()) };
        let omitted = capture.finish().map_err(|error| write_failure(path, error))?;
        if omitted > 0 {
            let path = path.display();
            print_stderr(format_args!(
                "warning: {path}: {omitted} packets are missing; the disk was too slow\n"
            ));
        }
        Ok(())
    }
}

/// Printer of notes on the steps of a run, with their times, on standard error.
#[derive(Debug)]
pub(crate) struct Notes {
    since: Stopwatch,
    is_verbose: bool,
}

impl Notes {
    pub(crate) fn note(&self, text: impl Display) {
        if self.is_verbose {
            print_stderr(format_args!("{:8.3} s  {text}\n", self.since.now().as_secs()));
        }
    }
}

/// Formats a text for the width of the terminal if standard error is a terminal, and without a limit of the width otherwise.
pub(crate) fn wrap_for_terminal(text: &impl Display) -> String {
    match terminal_columns() {
        Some(width) => format!("{text:width$}"),
        None => text.to_string(),
    }
}

/// Output file, and its path for error messages.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) file: BufWriter<File>,
    path: PathBuf,
}

impl Output {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| write_failure(path, error))?;
        Ok(Self { file: BufWriter::new(file), path: path.into() })
    }

    pub(crate) fn write_json(mut self, value: &impl Serialize) -> Result<(), Failure> {
        write_json(&mut self.file, value).map_err(|error| write_failure(&self.path, error))
    }
}

/// Exit code of a run whose command succeeded, but whose certificate is red.
const EXIT_RED: u8 = 3;

pub(crate) fn exit_code(code: u8, verdict: Verdict) -> u8 {
    if code == 0 && verdict == Verdict::Red { EXIT_RED } else { code }
}
