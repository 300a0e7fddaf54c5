//! Counters of a running router: JSON lines for programs, and a text file for Prometheus.

use crate::link::Outcome;
use crate::observe::counts::Counts;
use crate::observe::monitor::{Direction, GateCounts, Monitor};
use catnip_base::Span;
use catnip_net::{DropReason, NodeId, Priority};
use catnip_sim::watch::Refusal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Counters since the start of a router.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counters {
    /// Time since the start of the router, s.
    pub time_s: f64,
    /// CPU time that the emulator used, s.
    pub cpu_s: f64,
    /// Direction from inside to outside.
    pub up: DirectionCounters,
    /// Direction from outside to inside.
    pub down: DirectionCounters,
}

/// Counters of one direction of the link. The identity packets in + duplicated = out + dropped + unwritable + held holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionCounters {
    /// Number of packets that entered with priority HIGH.
    pub packets_in_high: u64,
    /// Number of packets that entered with priority MED.
    pub packets_in_med: u64,
    /// Number of all other packets that entered.
    pub packets_in_low: u64,
    /// Counts of packets by fate.
    #[serde(flatten)]
    pub counts: Counts,
    /// Lateness of the writes of packets to the device, relative to the model, us.
    pub lateness_us: Lateness,
}

/// Lateness of the writes of packets to the device, relative to the model, us.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct Lateness {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

/// Prometheus metric with one value per direction: its name, its help text, and the function that returns its value.
type CountMetric = (&'static str, &'static str, fn(&Counts) -> u64);
const COUNT_METRICS: [CountMetric; 8] = [
    ("bytes_in_total", "Bytes of packets that entered the link", |c| c.bytes_in),
    ("packets_out_total", "Packets that left the link", |c| c.packets_out),
    ("bytes_out_total", "Bytes of packets that left the link", |c| c.bytes_out),
    ("packets_unwritable_total", "Packets that the interface did not accept", |c| c.unwritable),
    ("frames_passed_total", "Frames forwarded without delay", |c| c.passed),
    ("frames_missed_total", "Frames dropped by the kernel before they were read", |c| c.missed),
    ("frames_broken_total", "Malformed frames", |c| c.broken),
    ("packets_held", "Packets on the link", |c| c.held),
];

impl Counters {
    /// Creates the counters from a monitor of two directions, up first.
    pub fn new(monitor: &Monitor, outcome: &Outcome) -> Self {
        let one = |edge: usize| {
            direction(&monitor.directions[edge], monitor.counts(NodeId(edge as u32)), outcome, edge)
        };
        Self {
            time_s: outcome.duration.as_secs(),
            cpu_s: outcome.cpu.own.as_secs(),
            up: one(0),
            down: one(1),
        }
    }

    /// Formats the counters in the text format of Prometheus, with the label `link`.
    pub fn prometheus(&self, link: &str) -> String {
        let mut text = String::new();
        let directions = [("up", &self.up), ("down", &self.down)];
        let mut family = |name: &str, kind: &str, help: &str, lines: &[(String, f64)]| {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "# HELP catnip_{name} {help}\n# TYPE catnip_{name} {kind}");
            for (labels, value) in lines {
                let _ = writeln!(text, "catnip_{name}{labels} {value}");
            }
        };
        let labels =
            |direction: &str, more: &str| format!("{{link=\"{link}\",direction=\"{direction}\"{more}}}");
        let reasons = |counts: &dyn Fn(&DirectionCounters) -> &BTreeMap<&'static str, u64>, all: &[&str]| {
            let mut lines = Vec::new();
            for (name, counters) in directions {
                lines.extend(all.iter().map(|reason| {
                    let count = counts(counters).get(reason).copied().unwrap_or(0);
                    (labels(name, &format!(",reason=\"{reason}\"")), count as f64)
                }));
            }
            lines
        };
        let mut entered = Vec::new();
        for (name, c) in directions {
            entered.push((labels(name, ",priority=\"high\""), c.packets_in_high as f64));
            entered.push((labels(name, ",priority=\"med\""), c.packets_in_med as f64));
            entered.push((labels(name, ",priority=\"low\""), c.packets_in_low as f64));
        }
        family("packets_in_total", "counter", "Packets that entered the link", &entered);
        for (name, help, value) in COUNT_METRICS {
            let lines = directions.map(|(name, c)| (labels(name, ""), value(&c.counts) as f64));
            family(name, if name == "packets_held" { "gauge" } else { "counter" }, help, &lines);
        }
        let drops = reasons(&|c| &c.counts.dropped, &DropReason::NAMES.map(|(_, name)| name));
        family("packets_dropped_total", "counter", "Packets dropped", &drops);
        let refusals = reasons(&|c| &c.counts.refused, &Refusal::NAMES.map(|(_, name)| name));
        family("packets_refused_total", "counter", "Packets refused at entry", &refusals);
        let mut quantiles = Vec::new();
        for (name, c) in directions {
            for (quantile, us) in [("0.5", c.lateness_us.p50), ("0.99", c.lateness_us.p99)] {
                quantiles.push((labels(name, &format!(",quantile=\"{quantile}\"")), us / 1e6));
            }
        }
        let help = "Lateness of departures relative to the model";
        family("lateness_seconds", "summary", help, &quantiles);
        for (name, c) in directions {
            let l = c.lateness_us;
            let _ = writeln!(
                text,
                "catnip_lateness_seconds_sum{} {}",
                labels(name, ""),
                l.mean * l.count as f64 / 1e6
            );
            let _ = writeln!(text, "catnip_lateness_seconds_count{} {}", labels(name, ""), l.count);
        }
        let link = format!("{{link=\"{link}\"}}");
        for (name, kind, value) in
            [("uptime_seconds", "gauge", self.time_s), ("cpu_seconds_total", "counter", self.cpu_s)]
        {
            let _ = writeln!(text, "# TYPE catnip_{name} {kind}\ncatnip_{name}{link} {value}");
        }
        text
    }
}

fn direction(direction: &Direction, gate: GateCounts, outcome: &Outcome, edge: usize) -> DirectionCounters {
    let us = |span: Span| span.as_nanos() as f64 / 1e3;
    let lateness = &direction.lateness;
    DirectionCounters {
        packets_in_high: direction.entered[Priority::High as usize],
        packets_in_med: direction.entered[Priority::Medium as usize],
        packets_in_low: direction.entered[Priority::Low as usize],
        counts: Counts::new(direction, gate, outcome, edge),
        lateness_us: Lateness {
            count: lateness.count(),
            mean: us(lateness.mean()),
            p50: us(lateness.quantile(0.5)),
            p99: us(lateness.quantile(0.99)),
            max: us(lateness.max()),
        },
    }
}

/// Writer of counters in a separate thread, so that a slow reader does not delay packets.
#[derive(Debug)]
pub struct Reporter {
    sender: SyncSender<Counters>,
    thread: JoinHandle<io::Result<()>>,
}

impl Reporter {
    /// Starts the thread. JSON lines are written to `lines`. The file `prometheus` holds the latest counters, with the label `link`. The
    /// caller must have blocked the signals that the thread must not receive.
    pub fn start(
        lines: Option<Box<dyn Write + Send>>,
        prometheus: Option<PathBuf>,
        link: String,
    ) -> io::Result<Self> {
        if let Some(path) = &prometheus {
            // A file that cannot be written is reported now rather than at the first report.
            replace(path, "")?;
        }
        let (sender, receiver) = sync_channel::<Counters>(4);
        let mut lines = lines;
        let thread = std::thread::Builder::new().name("report".into()).spawn(move || {
            for counters in receiver {
                if let Some(out) = &mut lines {
                    let line = serde_json::to_string(&counters).map_err(io::Error::other)?;
                    writeln!(out, "{line}")?;
                    out.flush()?;
                }
                if let Some(path) = &prometheus {
                    replace(path, &counters.prometheus(&link))?;
                }
            }
            Ok(())
        })?;
        Ok(Self { sender, thread })
    }

    /// Passes counters to the thread. The counters are discarded if the thread is too slow.
    pub fn report(&self, counters: Counters) {
        let _ = self.sender.try_send(counters);
    }

    /// Writes the last counters and waits for the end of the thread.
    pub fn finish(self, counters: Counters) -> io::Result<()> {
        // A failure means that the thread has ended with an error, which is returned below.
        let _ = self.sender.send(counters);
        drop(self.sender);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the reporting thread failed")))
    }
}

/// Replaces a file atomically: readers see the old file or the new one, never a part.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let new = path.with_file_name(name);
    File::create(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}
