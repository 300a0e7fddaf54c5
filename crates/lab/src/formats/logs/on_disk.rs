//! Logs in files. A page in a browser has none.

use super::{LogFailure, LoggedRun, QlogOutput, check_capture, log_run};
use crate::{InputError, Scenario};
use std::fmt::Display;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Request for logs of one run.
#[derive(Clone, Copy, Debug)]
pub struct LogRequest<'a> {
    /// Name of the variant.
    pub variant: &'a str,
    /// Seed of the run.
    pub seed: u64,
    /// Capture of the packets at interfaces of hosts, as pcapng.
    pub packets: Option<PacketLog<'a>>,
    /// File for the events of servers as qlog, with a trace for each connection.
    pub qlog: Option<&'a Path>,
}

/// Request for a capture of packets.
#[derive(Clone, Copy, Debug)]
pub struct PacketLog<'a> {
    /// File of the capture.
    pub path: &'a Path,
    /// Nodes at which packets are captured as they leave and as they arrive, named as in links. If empty, each packet is captured once:
    /// packets of a connection at its server, datagrams at their source.
    pub at: &'a [String],
}

/// Executes a run and writes its logs to files. Calls `should_continue` regularly. If `should_continue` returns false, stops without
/// completing the files, and returns false. Errors name the file, or the option of `catnip run`.
pub fn write_logs(
    scenario: &Scenario,
    request: &LogRequest<'_>,
    should_continue: &mut dyn FnMut() -> bool,
) -> Result<bool, InputError> {
    // Unusable nodes and files are reported before the run.
    let at = request.packets.map_or(&[][..], |log| log.at);
    if request.packets.is_some() {
        check_capture(scenario, request.variant, at)?;
    }
    let create =
        |path: &Path| File::create(path).map(BufWriter::new).map_err(|error| file_error(path, error));
    let packets = request.packets.map(|log| create(log.path)).transpose()?;
    let qlog = match request.qlog {
        None => None,
        Some(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let store = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")));
            Some(QlogOutput { out: create(path)?, store: store.map_err(|error| file_error(path, error))? })
        }
    };
    let run = LoggedRun { variant: request.variant, seed: request.seed, packets_at: at };
    log_run(scenario, &run, packets, qlog, should_continue).map_err(|failure| match failure {
        LogFailure::Input(error) => error,
        LogFailure::Packets(error) => {
            file_error(request.packets.map_or(Path::new(""), |log| log.path), error)
        }
        LogFailure::Qlog(error) => file_error(request.qlog.unwrap_or(Path::new("")), error),
    })
}

fn file_error(path: &Path, error: impl Display) -> InputError {
    InputError::new(&path.display().to_string(), "", error)
}
