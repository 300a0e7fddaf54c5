//! What all commands write beside packets: a certificate, a capture, and the exit code that follows.

use catnip_cli::failure::Failure;
use catnip_cli::out::{cannot, print_json, tell, write_json};
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
    /// Nothing on standard error but errors: no certificate, no notes
    #[arg(long, short, overrides_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say on standard error what is done, and when
    #[arg(long, short, overrides_with = "quiet")]
    verbose: bool,
    /// Write every packet that came to this file, as pcapng with a comment that says what became of it
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl OutputOptions {
    /// What is done from now on, for those who want to know.
    pub(crate) fn notes(&self) -> Notes {
        Notes { since: Stopwatch::start(), wanted: self.verbose }
    }

    /// Prints a certificate as wide as the terminal is.
    pub(crate) fn show(&self, certificate: &impl Display) {
        if !self.quiet {
            tell(in_lines(certificate));
        }
    }

    /// The certificate, to standard output as JSON or to people.
    pub(crate) fn tell_certificate(&self, certificate: &Certificate, json: bool) -> Result<(), Failure> {
        if json {
            return print_json(certificate);
        }
        self.show(certificate);
        Ok(())
    }

    /// Where the certificate goes, opened before the run, so that it does not run in vain.
    pub(crate) fn certificate(&self) -> Result<Option<Output>, Failure> {
        self.certificate.as_deref().map(Output::create).transpose()
    }

    /// Begins the capture, whose packets come in at edges of these names, behind `skip` bytes.
    pub(crate) fn capture(
        &self,
        link: LinkType,
        stopwatch: Stopwatch,
        edges: Vec<String>,
        skip: usize,
    ) -> Result<Option<Capture>, Failure> {
        let Some(path) = self.pcap.as_deref() else { return Ok(None) };
        let capture = Capture::create(path, link, stopwatch.since_1970(), edges, skip);
        capture.map(Some).map_err(|error| cannot(path, error))
    }

    /// Ends the capture, and says so if it is not whole.
    pub(crate) fn finish(&self, capture: Option<Capture>) -> Result<(), Failure> {
        let (Some(capture), Some(path)) = (capture, self.pcap.as_deref()) else { return Ok(()) };
        let left_out = capture.finish().map_err(|error| cannot(path, error))?;
        if left_out > 0 {
            let path = path.display();
            tell(format_args!("warning: {path}: {left_out} packets are missing, the disk was too slow\n"));
        }
        Ok(())
    }
}

/// What is done and when, on standard error.
#[derive(Debug)]
pub(crate) struct Notes {
    since: Stopwatch,
    wanted: bool,
}

impl Notes {
    pub(crate) fn note(&self, what: impl Display) {
        if self.wanted {
            tell(format_args!("{:8.3} s  {what}\n", self.since.now().as_secs()));
        }
    }
}

/// A text as wide as the terminal is, if standard error is one.
pub(crate) fn in_lines(text: &impl Display) -> String {
    match terminal_columns() {
        Some(width) => format!("{text:width$}"),
        None => text.to_string(),
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) file: BufWriter<File>,
    path: PathBuf,
}

impl Output {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| cannot(path, error))?;
        Ok(Self { file: BufWriter::new(file), path: path.into() })
    }

    pub(crate) fn write_json(mut self, value: &impl Serialize) -> Result<(), Failure> {
        write_json(&mut self.file, value).map_err(|error| cannot(&self.path, error))
    }
}

/// The exit code of a run that was out of tolerance though its command succeeded.
const RED: u8 = 3;

pub(crate) fn exit_code(code: u8, verdict: Verdict) -> u8 {
    if code == 0 && verdict == Verdict::Red { RED } else { code }
}
