//! Logs of one run in the formats of other tools: packets as pcapng for Wireshark, events of TCP senders as qlog for qvis.

mod failure;
#[cfg(not(target_family = "wasm"))]
mod on_disk;
mod packets;
mod qlog;
mod spill;

#[cfg(not(target_family = "wasm"))]
pub use on_disk::{LogRequest, PacketLog, write_logs};

use crate::{InputError, Plan, Scenario};
use catnip_base::Time;
use catnip_sim::Sim;
use packets::{Packets, Points};
use qlog::Qlog;
use std::fmt::Debug;
use std::io::{self, Read, Seek, Write};

/// Number of steps of the simulator between two calls of `should_continue`.
const STEPS_PER_CHECK: u32 = 1 << 12;

/// Run whose logs are written.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRun<'a> {
    /// Name of the variant.
    pub variant: &'a str,
    /// Seed of the run.
    pub seed: u64,
    /// Nodes at which packets are captured, as in [`PacketLog::at`].
    pub packets_at: &'a [String],
}

/// Output of a qlog, and an empty store for most of its text until it is written.
#[derive(Debug)]
pub struct QlogOutput<W, S> {
    /// Output of the whole log.
    pub out: W,
    /// Store whose contents have no meaning to others.
    pub store: S,
}

/// Reason why logs were not written.
#[derive(Debug)]
pub enum LogFailure {
    /// Request that the scenario cannot meet.
    Input(InputError),
    /// Failed output of the capture.
    Packets(io::Error),
    /// Failed output or store of the qlog.
    Qlog(io::Error),
}

/// Executes a run and writes its capture and its qlog to the outputs that are given. Calls `should_continue` regularly. If
/// `should_continue` returns false, stops without completing the logs, and returns false.
pub fn log_run<P: Write + Debug, Q: Write, S: Read + Write + Seek + Debug>(
    scenario: &Scenario,
    run: &LoggedRun<'_>,
    packets: Option<P>,
    qlog: Option<QlogOutput<Q, S>>,
    should_continue: &mut dyn FnMut() -> bool,
) -> Result<bool, LogFailure> {
    let plan = scenario.plan(run.variant).map_err(LogFailure::Input)?;
    let packets = match packets {
        None => None,
        Some(out) => {
            let points = capture_points(scenario, run.variant, run.packets_at).map_err(LogFailure::Input)?;
            Some(Packets::new(out, plan, points).map_err(LogFailure::Packets)?)
        }
    };
    let (qlog_out, qlog) = qlog.map(|qlog| (qlog.out, Qlog::new(qlog.store, plan))).unzip();
    let mut sim = Sim::new(plan.topology(), run.seed, (packets, qlog));
    plan.start(run.seed, &mut sim);
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
    if let Some(packets) = packets {
        packets.finish().map_err(LogFailure::Packets)?;
    }
    if let (Some(qlog), Some(out)) = (qlog, qlog_out) {
        let description = format!("{}, variant {}, seed {}", scenario.id, run.variant, run.seed);
        qlog.finish(out, &scenario.title, &description).map_err(LogFailure::Qlog)?;
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
    packets::check(plan).map_err(|message| option_error("--packets", message))?;
    Ok(points)
}

fn points(plan: &Plan, at: &[String]) -> Result<Points, String> {
    if at.is_empty() {
        return Ok(Points::Servers);
    }
    let nodes = at.iter().map(|text| plan.select(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(Points::Nodes(nodes.concat()))
}
