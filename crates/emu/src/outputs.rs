//! What all commands write beside packets: a certificate, a capture, and the exit code that follows.

use catnip_emu::capture::Capture;
use catnip_emu::certificate::Verdict;
use catnip_emu::clock::Stopwatch;
use catnip_emu::failure::Failure;
use catnip_wire::pcapng::LinkType;
use clap::Args;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct OutputOptions {
    /// Write the certificate to this file, as JSON
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Print no certificate
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Write every packet that came to this file, as pcapng with a comment that says what became of it
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl OutputOptions {
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
            eprintln!("warning: {path}: {left_out} packets are missing, the disk was too slow");
        }
        Ok(())
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

pub(crate) fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    out.flush()
}

pub(crate) fn cannot(path: &Path, error: io::Error) -> Failure {
    Failure::new(&path.display().to_string(), format!("cannot write it: {error}"))
}

/// The exit code of a run that was out of tolerance though its command succeeded.
const RED: u8 = 3;

pub(crate) fn exit_code(code: u8, verdict: Verdict) -> u8 {
    if code == 0 && verdict == Verdict::Red { RED } else { code }
}
