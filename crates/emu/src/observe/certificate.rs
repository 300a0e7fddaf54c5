//! Certificate of a link: its specification and its measured behaviour in each direction, with a verdict.

mod clauses;

use self::clauses::Evidence;
use crate::congestion::Congestion;
use crate::link::{EDGES, LinkSpec, Outcome};
use crate::observe::counts::Counts;
use crate::observe::layout::{Line, table};
use crate::observe::monitor::{Direction, GateCounts, Monitor};
use catnip_base::Histogram;
use catnip_base::Span;
use catnip_base::notation::or_none;
use catnip_cli::text::wrapped;
use catnip_linux::clock::CpuUse;
use catnip_net::WireSpec;
use catnip_net::mark::SpmParameters;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// Requested settings of one direction in the notation of scenarios: the keys of its wire, and the marking of packets at entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedSettings(Vec<(&'static str, String)>);

impl RequestedSettings {
    fn new(wire: &WireSpec, marks: Option<SpmParameters>) -> Self {
        Self(wire.written().into_iter().chain([("mark", or_none(marks.as_ref()))]).collect())
    }

    fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(other, _)| *other == key).map_or("none", |(_, value)| value)
    }
}

impl Serialize for RequestedSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// Tolerated deviations of a link's behaviour from its specification.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tolerance {
    /// Limit of the 99th percentile of the packets' excess delay, ms.
    pub lateness_p99_ms: f64,
    /// Limit of the maximum of the packets' excess delay, ms.
    pub stall_ms: f64,
    /// Limit of the relative error of the measured rate.
    pub rate: f64,
    /// Shortest busy time after which the rate is judged, s.
    pub busy_s: f64,
    /// Limit of the difference between the number of lost packets and its expectation, standard deviations.
    pub loss_sigmas: f64,
}

impl Tolerance {
    /// Creates tolerances with `lateness` as the limit of the 99th percentile of the excess delay.
    pub fn of(lateness: Span) -> Self {
        let lateness_p99_ms = 1e3 * lateness.as_secs();
        Self { lateness_p99_ms, stall_ms: 100.0 * lateness_p99_ms, rate: 0.01, busy_s: 1.0, loss_sigmas: 4.0 }
    }
}

impl Default for Tolerance {
    fn default() -> Self {
        Self::of(Span::from_millis(5))
    }
}

/// Verdict of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Behaviour of the link within tolerance.
    Green,
    /// Behaviour of the link out of tolerance.
    Red,
    /// No traffic, and thus no verdict.
    Grey,
}

impl Verdict {
    pub(crate) fn of(failures: &[String], is_used: bool) -> Self {
        match (failures, is_used) {
            ([], true) => Self::Green,
            ([], false) => Self::Grey,
            _ => Self::Red,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Green => "green",
            Self::Red => "red",
            Self::Grey => "grey",
        })
    }
}

/// Use of the machine's cores during a run. It is no part of the verdict: the emulator takes the time that it needs first, and what real
/// programs lose is no fault of the link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cores {
    /// Fraction of the time of all cores in which they were idle; null if the kernel does not tell.
    pub idle_share: Option<f64>,
    /// True if so little time was left that real programs waited for a core, and the results are those of a slower host.
    pub busy: bool,
}

impl Cores {
    /// Fraction of idle time from which programs wait little. On two cores, ten Apache servers side by side leave none: pages take 2.4 s in
    /// place of 1.8 s, and a router drops 4 % in place of 11 %. Four leave half, and each does as it does alone.
    const IDLE_ENOUGH: f64 = 0.2;

    /// Returns what a certificate states about the cores.
    pub fn of(cpu: CpuUse) -> Self {
        let busy = cpu.idle_share.is_some_and(|share| share < Self::IDLE_ENOUGH);
        Self { idle_share: cpu.idle_share, busy }
    }

    /// Returns a warning about busy cores.
    pub fn warning(self) -> Option<String> {
        let idle_pct = 100.0 * self.idle_share.filter(|_| self.busy)?;
        Some(format!("the cores were idle for {idle_pct:.0} % of the time: programs waited for them"))
    }
}

/// Certificate of one link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// Verdict on the link.
    pub verdict: Verdict,
    /// Descriptions of the deviations that are out of tolerance.
    pub failures: Vec<String>,
    /// Tolerances on which the verdict is based.
    pub tolerance: Tolerance,
    /// Seed of all random choices.
    pub seed: u64,
    /// Length of the run, s.
    pub duration_s: f64,
    /// CPU time of the emulator, divided by the length of the run.
    pub cpu_share: f64,
    /// Use of the cores during the run; `None` if another certificate states it.
    #[serde(flatten)]
    pub cores: Option<Cores>,
    /// True if the emulator ran under SCHED_FIFO.
    pub real_time: bool,
    /// Time that the emulator spins before a deadline instead of sleeping, us.
    pub spin_us: f64,
    /// Times by which the emulator was woken late from its sleeps, us.
    pub woken_late_us: Quantiles,
    /// Default congestion controls of both ends; absent for a router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<Congestion>,
    /// Changes during the run: time in seconds on the clock of the run, and text.
    pub changed: Vec<(f64, String)>,
    /// Direction up: from inside to outside, or from the `from` to the `to` of a named link.
    pub up: Report,
    /// Direction down, opposite to up.
    pub down: Report,
}

/// Report on one direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Settings requested at the start of the run.
    pub asked: RequestedSettings,
    /// Number of packets that entered the direction.
    pub packets_in: u64,
    /// Counts of packets by fate.
    #[serde(flatten)]
    pub counts: Counts,
    /// Time during which packets followed one another without a pause, s.
    pub busy_s: f64,
    /// Rate during the busy time, bit/s; `None` if the link was never busy or has jitter.
    pub busy_rate: Option<f64>,
    /// Delay of packets from entry to exit in the model, ms.
    pub ideal_delay_ms: Quantiles,
    /// Measured delay of packets from entry to exit, ms.
    pub delay_ms: Quantiles,
    /// Lateness of the writes of packets to the device, relative to the model, us.
    pub lateness_us: Quantiles,
    /// Time that packets waited in the device before they were read, us. The delay in the model begins with the read. If the kernel does
    /// not report arrival times, the time since the device was last empty is used as an upper bound.
    pub waited_us: Quantiles,
    /// Excess delay, the sum of waiting time and lateness, us: upper bound on the delay beyond the requested one.
    pub excess_us: Quantiles,
    /// Share of packets that a loss model dropped, among the packets to which it was applied.
    pub loss: f64,
    /// 95 % confidence interval of `loss` (Wilson's interval).
    pub loss_interval: [f64; 2],
    /// Largest number of packets that were waiting or in transmission at the same time.
    pub largest_queue: u32,
}

/// Summary of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct Quantiles {
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Quantiles {
    fn new(histogram: &Histogram, unit: Span) -> Self {
        let value = |span: Span| span.as_nanos() as f64 / unit.as_nanos() as f64;
        let quantile = |q| value(histogram.quantile(q));
        Self {
            min: value(histogram.min()),
            mean: value(histogram.mean()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: value(histogram.max()),
        }
    }
}

impl Certificate {
    /// Judges a single link from the measurements of its two directions.
    pub fn of_link(link: &LinkSpec, outcome: &Outcome, monitor: &Monitor, tolerance: Tolerance) -> Self {
        let directions = monitor.directions_and_gates();
        Self::new(link.wires.each_ref(), link.seed, link.marking.edges, outcome, directions, tolerance)
    }

    /// Judges a run from the measurements of its two directions, up first. Each direction comes with the counts of packets that were
    /// refused or forwarded at once where they should have entered the direction.
    pub fn new(
        wires: [&WireSpec; 2],
        seed: u64,
        marks: [Option<SpmParameters>; 2],
        outcome: &Outcome,
        directions: [(&Direction, GateCounts); 2],
        tolerance: Tolerance,
    ) -> Self {
        let mut failures = Vec::new();
        let mut reports = wires.into_iter().enumerate().map(|(index, wire)| {
            let name = EDGES[index];
            let (direction, gate) = directions[index];
            let requested = RequestedSettings::new(wire, marks[index]);
            let report = report(requested, wire, direction, gate, outcome, index);
            let comparable =
                Comparable::new(wire, outcome.changes.iter().map(|changed| &changed.wires[index]));
            let evidence = Evidence { wire, comparable, direction, report: &report, tolerance };
            failures.extend(evidence.deviations().map(|deviation| format!("{name}: {deviation}")));
            report
        });
        let (up, down) = match (reports.next(), reports.next()) {
            (Some(up), Some(down)) => (up, down),
            _ => unreachable!("there are two"),
        };
        drop(reports);
        failures.extend(outcome.early_end.iter().map(|reason| format!("the run ended early: {reason}")));
        let held = up.counts.held + down.counts.held;
        if held != outcome.buffers_in_use {
            failures.push(format!("{held} packets on the link, {} in memory", outcome.buffers_in_use));
        }
        let duration_s = outcome.duration.as_secs();
        let is_used = up.packets_in + down.packets_in > 0;
        Self {
            verdict: Verdict::of(&failures, is_used),
            failures,
            tolerance,
            seed,
            duration_s,
            cpu_share: outcome.cpu.own.as_secs() / duration_s.max(1e-9),
            cores: Some(Cores::of(outcome.cpu)),
            real_time: outcome.timing_mode.real_time,
            congestion: outcome.congestion.clone(),
            spin_us: outcome.timing_mode.spin.as_nanos() as f64 / 1e3,
            woken_late_us: Quantiles::new(&outcome.wakeup_latency, Span::from_micros(1)),
            changed: outcome
                .changes
                .iter()
                .map(|changed| (changed.at.as_secs(), changed.text.clone()))
                .collect(),
            up,
            down,
        }
    }
}

/// Creates the report on one direction. `edge` is the index of the node at which packets enter: 0 inside, 1 outside.
fn report(
    requested: RequestedSettings,
    wire: &WireSpec,
    direction: &Direction,
    gate: GateCounts,
    outcome: &Outcome,
    edge: usize,
) -> Report {
    let entered = direction.entered.iter().sum();
    let lost = direction.lost.iter().sum();
    // A loss model at the end of the wire is applied only to packets that have crossed the wire, not to those dropped by the queue.
    let on_wire_only = wire.before.is_empty() && !wire.after.is_empty();
    let trials: u64 = if on_wire_only { direction.crossed.iter().sum() } else { entered };
    let (ms, us) = (Span::from_millis(1), Span::from_micros(1));
    Report {
        asked: requested,
        packets_in: entered,
        counts: Counts::new(direction, gate, outcome, edge),
        busy_s: direction.busy.actual_ns as f64 / 1e9,
        // With jitter, the times between departures do not show the rate of the wire.
        busy_rate: direction.busy.rate().filter(|_| wire.jitter.is_none()),
        ideal_delay_ms: Quantiles::new(&direction.ideal_delay, ms),
        delay_ms: Quantiles::new(&direction.actual_delay, ms),
        lateness_us: Quantiles::new(&direction.lateness, us),
        waited_us: Quantiles::new(&direction.waited, us),
        excess_us: Quantiles::new(&direction.excess, us),
        loss: lost as f64 / (trials as f64).max(1.0),
        loss_interval: wilson(lost, trials),
        largest_queue: direction.largest_queue(),
    }
}

/// Returns the 95 % confidence interval of a proportion (Wilson 1927).
fn wilson(hits: u64, trials: u64) -> [f64; 2] {
    if trials == 0 {
        return [0.0, 1.0];
    }
    const Z: f64 = 1.959_964;
    let (n, p) = (trials as f64, hits as f64 / trials as f64);
    let scale = 1.0 + Z * Z / n;
    let middle = (p + Z * Z / (2.0 * n)) / scale;
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

/// Flags of the properties of a wire: true if the property did not change during the run, so that a measurement can be compared with it.
#[derive(Clone, Copy, Debug)]
struct Comparable {
    rate: bool,
    delay: bool,
    loss: bool,
}

impl Comparable {
    fn new<'a>(wire: &WireSpec, changed_wires: impl Iterator<Item = &'a WireSpec>) -> Self {
        let mut comparable = Self { rate: true, delay: true, loss: true };
        for other in changed_wires {
            comparable.rate &= other.rate == wire.rate && other.is_steady();
            comparable.delay &= (&other.delay, &other.jitter) == (&wire.delay, &wire.jitter);
            comparable.loss &= (&other.before, &other.after, &other.conditioner)
                == (&wire.before, &wire.after, &wire.conditioner);
        }
        comparable
    }
}

fn format_rate(rate: f64) -> String {
    match rate {
        r if r >= 1e9 => format!("{:.4} Gbit/s", r / 1e9),
        r if r >= 1e6 => format!("{:.4} Mbit/s", r / 1e6),
        r => format!("{:.3} kbit/s", r / 1e3),
    }
}

impl fmt::Display for Certificate {
    /// Formats the certificate as a table. A width, as in `{:80}`, is the number of columns of the terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = f.width().unwrap_or(usize::MAX);
        let scheduling = if self.real_time { "SCHED_FIFO" } else { "no SCHED_FIFO" };
        let cpu = 100.0 * self.cpu_share;
        let title = format!(
            "link certificate: {}; {:.1} s, {scheduling}, {cpu:.1} % CPU, seed {}",
            self.verdict, self.duration_s, self.seed
        );
        writeln!(f, "{}", wrapped(&title, width, "  "))?;
        for failure in &self.failures {
            writeln!(f, "{}", wrapped(&format!("  out of tolerance: {failure}"), width, "    "))?;
        }
        if let Some(warning) = self.cores.and_then(Cores::warning) {
            writeln!(f, "{}", wrapped(&format!("  warning: {warning}"), width, "    "))?;
        }
        if let Some(Congestion { inside, outside }) = &self.congestion {
            let text = format!("  congestion control: {inside} of the command, {outside} outside");
            writeln!(f, "{}", wrapped(&text, width, "    "))?;
        }
        for (at_s, text) in &self.changed {
            writeln!(f, "{}", wrapped(&format!("  after {at_s:.3} s: {text}"), width, "    "))?;
        }
        let mut rows: Vec<Line<'_>> = Vec::new();
        let mut row = |name: &'static str, cells: [String; 4]| rows.push((name, cells));
        let both = |cells: &dyn Fn(&Report) -> [String; 2]| {
            let ([a, b], [c, d]) = (cells(&self.up), cells(&self.down));
            [a, b, c, d]
        };
        row(
            "rate",
            both(&|r| {
                let busy = r.busy_rate.map(|rate| format!("{}, busy {:.2} s", format_rate(rate), r.busy_s));
                [r.asked.get("rate").into(), busy.unwrap_or_else(|| "not busy".into())]
            }),
        );
        let measured = |r: &Report, value: String| if r.packets_in > 0 { value } else { "no packets".into() };
        let delays = |q: &Quantiles| format!("{:.2} to {:.2}, mean {:.2} ms", q.min, q.max, q.mean);
        row("delay", both(&|r| [r.asked.get("delay").into(), measured(r, delays(&r.delay_ms))]));
        for (key, name) in [("jitter", "jitter"), ("outage", "outage"), ("link_layer", "link")] {
            if [&self.up, &self.down].iter().any(|r| r.asked.get(key) != "none") {
                row(name, both(&|r| [r.asked.get(key).into(), String::new()]));
            }
        }
        let share = |r: &Report| {
            let [low, high] = r.loss_interval.map(|share| 100.0 * share);
            format!("{:.2} % ({low:.2} to {high:.2})", 100.0 * r.loss)
        };
        let models = |requested: &RequestedSettings| match (requested.get("loss"), requested.get("wire_loss"))
        {
            (loss, "none") => loss.to_string(),
            ("none", loss) => format!("{loss} (wire)"),
            (loss, wire_loss) => format!("{loss}, {wire_loss} (wire)"),
        };
        row("loss", both(&|r| [models(&r.asked), measured(r, share(r))]));
        row(
            "queue",
            both(&|r| [r.asked.get("queue").into(), format!("{} packets at most", r.largest_queue)]),
        );
        let quantiles = |q: &Quantiles| format!("p50 {:.0}, p99 {:.0}, max {:.0} us", q.p50, q.p99, q.max);
        let limit = format!("p99 <= {} ms", self.tolerance.lateness_p99_ms);
        row("lateness", both(&|r| [String::new(), measured(r, quantiles(&r.lateness_us))]));
        row("waiting", both(&|r| [String::new(), measured(r, quantiles(&r.waited_us))]));
        row("excess", both(&|r| [limit.clone(), measured(r, quantiles(&r.excess_us))]));
        let packets = |r: &Report| {
            let dropped: u64 = r.counts.dropped.values().sum();
            let lost = if r.counts.unwritable > 0 {
                format!(" + {} unwritable", r.counts.unwritable)
            } else {
                String::new()
            };
            format!("{} + {dropped} dropped + {} held{lost}", r.counts.packets_out, r.counts.held)
        };
        row("packets", both(&|r| [format!("{} in", r.packets_in), packets(r)]));
        let reasons = |counts: &BTreeMap<&str, u64>| {
            counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
        };
        if !(self.up.counts.dropped.is_empty() && self.down.counts.dropped.is_empty()) {
            row("dropped", both(&|r| [String::new(), reasons(&r.counts.dropped)]));
        }
        if self.up.counts.passed + self.down.counts.passed > 0 {
            row("passed", both(&|r| [String::new(), format!("{} frames", r.counts.passed)]));
        }
        if !(self.up.counts.refused.is_empty() && self.down.counts.refused.is_empty()) {
            row("refused", both(&|r| [String::new(), reasons(&r.counts.refused)]));
        }
        f.write_str(&table(&rows, width))
    }
}

#[cfg(test)]
mod tests;
