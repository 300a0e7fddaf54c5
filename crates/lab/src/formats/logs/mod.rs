//! Logs of one run in the formats of other tools: packets as pcapng for Wireshark, events of TCP senders as qlog for qvis.

mod packets;
mod qlog;
mod spill;

use crate::{InputError, Plan, Scenario};
use catnip_base::Time;
use catnip_sim::Sim;
use packets::{Packets, Points};
use qlog::Qlog;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter};
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

/// Number of steps of the simulator between two calls of `should_continue`.
const STEPS_PER_CHECK: u32 = 1 << 12;

/// Executes a run and writes its logs. Calls `should_continue` regularly. If `should_continue` returns false, stops without completing the
/// files, and returns false. Errors name the file, or the option of `catnip run`.
pub fn write_logs(
    scenario: &Scenario,
    request: &LogRequest<'_>,
    should_continue: &mut dyn FnMut() -> bool,
) -> Result<bool, InputError> {
    let plan = scenario.plan(request.variant)?;
    let packets = match request.packets {
        None => None,
        Some(log) => {
            let points = capture_points(scenario, request.variant, log.at)?;
            let file = File::create(log.path).map_err(|error| file_error(log.path, error))?;
            let packets = Packets::new(file, plan, points);
            Some(packets.map_err(|error| file_error(log.path, error))?)
        }
    };
    let qlog = match request.qlog {
        None => None,
        Some(path) => {
            // Reports an unusable file before the run instead of at its end.
            let file = File::create(path).map_err(|error| file_error(path, error))?;
            let qlog = Qlog::new(path, plan).map_err(|error| file_error(path, error))?;
            Some((qlog, path, file))
        }
    };
    let (qlog, qlog_file) = qlog.map_or((None, None), |(qlog, path, file)| (Some(qlog), Some((path, file))));
    let mut sim = Sim::new(plan.topology(), request.seed, (packets, qlog));
    plan.start(request.seed, &mut sim);
    let end = Time::ZERO + plan.duration();
    let mut next = sim.advance(Time::ZERO);
    let mut steps = 0u32;
    while next <= end {
        steps = steps.wrapping_add(1);
        let (packets, qlog) = sim.watch();
        let broken =
            packets.as_ref().is_some_and(Packets::has_failed) || qlog.as_ref().is_some_and(Qlog::has_failed);
        if broken {
            break;
        }
        if steps.is_multiple_of(STEPS_PER_CHECK) && !should_continue() {
            return Ok(false);
        }
        next = sim.advance(next);
    }
    let (packets, qlog) = sim.into_watch();
    if let (Some(packets), Some(log)) = (packets, request.packets) {
        packets.finish().map_err(|error| file_error(log.path, error))?;
    }
    if let (Some(qlog), Some((path, file))) = (qlog, qlog_file) {
        let description = format!("{}, variant {}, seed {}", scenario.id, request.variant, request.seed);
        let written = qlog.finish(BufWriter::new(file), &scenario.title, &description);
        written.map_err(|error| file_error(path, error))?;
    }
    Ok(true)
}

/// Checks that the packets of a run of this variant can be captured at these nodes. Errors name the option of `catnip run`.
pub fn check_capture(scenario: &Scenario, variant: &str, at: &[String]) -> Result<(), InputError> {
    capture_points(scenario, variant, at).map(drop)
}

fn capture_points(scenario: &Scenario, variant: &str, at: &[String]) -> Result<Points, InputError> {
    let plan = scenario.plan(variant)?;
    let option_error = |option: &str, message: String| {
        InputError::new(&scenario.path.display().to_string(), option, message)
    };
    let points = points(plan, at).map_err(|message| option_error("--packets-at", message))?;
    Packets::check(plan).map_err(|message| option_error("--packets", message))?;
    Ok(points)
}

fn points(plan: &Plan, at: &[String]) -> Result<Points, String> {
    if at.is_empty() {
        return Ok(Points::Servers);
    }
    let nodes = at.iter().map(|text| plan.select(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(Points::Nodes(nodes.concat()))
}

fn file_error(path: &Path, error: impl Display) -> InputError {
    InputError::new(&path.display().to_string(), "", error)
}

/// First I/O error of a log writer. The writer is a watch, whose methods cannot return errors.
#[derive(Debug, Default)]
struct Failure(Option<io::Error>);

impl Failure {
    fn note(&mut self, result: io::Result<()>) {
        if self.0.is_none() {
            self.0 = result.err();
        }
    }

    fn is_set(&self) -> bool {
        self.0.is_some()
    }

    fn take(&mut self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), Err)
    }
}
