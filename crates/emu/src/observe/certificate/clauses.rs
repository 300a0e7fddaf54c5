//! Clauses of a certificate. Each clause is a deviation, with a tolerance, that makes the certificate red.

use super::{Comparable, Report, Tolerance, format_rate};
use crate::observe::monitor::Direction;
use catnip_net::WireSpec;
use catnip_net::queue::QueueKind;
use catnip_net::shape::RateSpec;
use catnip_net::stage;

/// Specification and measurements of one direction, on which the clauses decide.
pub(super) struct Evidence<'a> {
    pub(super) wire: &'a WireSpec,
    /// Properties of the wire that did not change during the run.
    pub(super) comparable: Comparable,
    pub(super) direction: &'a Direction,
    pub(super) report: &'a Report,
    pub(super) tolerance: Tolerance,
}

/// Function that checks one clause. Returns a description of a deviation out of tolerance. Returns `None` within tolerance, or if the
/// measurement cannot be compared with the specification.
type Clause = fn(&Evidence<'_>) -> Option<String>;

/// All clauses, in the order in which a certificate lists their deviations.
const CLAUSES: [Clause; 10] = [
    packets_unaccounted,
    excess_delay,
    packets_unwritable,
    rate,
    delay_too_short,
    queue_too_long,
    loss,
    packets_missed,
    flags_meaningless,
    no_memory,
];

impl Evidence<'_> {
    /// Returns descriptions of the deviations that are out of tolerance.
    pub(super) fn deviations(&self) -> impl Iterator<Item = String> {
        CLAUSES.iter().filter_map(|clause| clause(self))
    }

    /// Returns true if the delay that the wire adds is the same for all packets.
    fn has_constant_delay(&self) -> bool {
        self.wire.has_constant_delay() && self.comparable.delay
    }
}

fn packets_unaccounted(Evidence { direction, report, .. }: &Evidence<'_>) -> Option<String> {
    let counts = &report.counts;
    let dropped: u64 = direction.dropped.iter().sum();
    let accounted = counts.packets_out + counts.unwritable + dropped + counts.held;
    let entered = report.packets_in + counts.duplicated;
    (entered != accounted).then(|| format!("{entered} packets in, {accounted} accounted for"))
}

fn excess_delay(Evidence { report, tolerance, .. }: &Evidence<'_>) -> Option<String> {
    let [excess, waited, lateness] = [&report.excess_us, &report.waited_us, &report.lateness_us];
    [
        (excess.p99, waited.p99, lateness.p99, "p99", tolerance.lateness_p99_ms),
        (excess.max, waited.max, lateness.max, "max", tolerance.stall_ms),
    ]
    .into_iter()
    .find(|(excess_us, .., limit_ms)| excess_us / 1e3 > *limit_ms)
    .map(|(excess_us, waited_us, lateness_us, quantile, limit_ms)| {
        let [excess_ms, waited_ms, lateness_ms] = [excess_us, waited_us, lateness_us].map(|us| us / 1e3);
        format!(
            "excess delay of {excess_ms:.2} ms ({quantile} > {limit_ms} ms: {waited_ms:.2} ms waiting, {lateness_ms:.2} ms lateness)"
        )
    })
}

fn packets_unwritable(Evidence { report, .. }: &Evidence<'_>) -> Option<String> {
    let count = report.counts.unwritable;
    (count > 0).then(|| format!("the device at the other end did not accept {count} packets"))
}

fn rate(Evidence { wire, comparable, report, tolerance, .. }: &Evidence<'_>) -> Option<String> {
    let (RateSpec::Constant(rate), Some(busy_rate)) = (&wire.rate, report.busy_rate) else { return None };
    // The measured rate is the rate of the wire only if packets wait for nothing but the transmission of earlier packets.
    let is_comparable = wire.queue.is_work_conserving()
        && wire.is_steady()
        && comparable.rate
        && comparable.delay
        && wire.delay.constant().is_some()
        && report.busy_s >= tolerance.busy_s;
    let requested = rate.bits_per_second() as f64;
    let error_s = (report.busy_s - busy_rate * report.busy_s / requested).abs();
    // A single late packet changes the busy time by at most its lateness, which is therefore not counted. Frequent lateness is a deviation
    // of its own.
    let max_lateness_s = report.lateness_us.max / 1e6;
    let deviates = is_comparable && error_s - max_lateness_s > tolerance.rate * report.busy_s;
    deviates.then(|| format!("rate {} instead of {}", format_rate(busy_rate), format_rate(requested)))
}

fn delay_too_short(evidence @ Evidence { wire, direction, report, .. }: &Evidence<'_>) -> Option<String> {
    let delays = &direction.ideal_delay;
    let is_comparable = wire.jitter.is_none() && evidence.comparable.delay;
    let is_short = is_comparable && delays.count() > 0 && delays.min() < wire.delay.min();
    is_short.then(|| format!("delay {} ms is less than requested", report.ideal_delay_ms.min))
}

fn queue_too_long(evidence @ Evidence { wire, comparable, report, .. }: &Evidence<'_>) -> Option<String> {
    let is_comparable = evidence.has_constant_delay() && comparable.rate && wire.is_steady();
    let limit = wire.queue.buffer_bounds().max.filter(|_| is_comparable)?;
    (report.largest_queue > limit).then(|| format!("{} packets in a queue of {limit}", report.largest_queue))
}

fn loss(Evidence { wire, comparable, direction, report, tolerance }: &Evidence<'_>) -> Option<String> {
    if !comparable.loss || wire.link_layer.is_some() {
        return None;
    }
    // If there are loss models both before and behind the wire, a loss cannot be attributed to one of them.
    let (stages, trials) = match (&wire.before[..], &wire.after[..]) {
        ([], []) => return None,
        (stages, []) => (stages, direction.entered),
        // Packets are counted here by their priority at the end of the wire, which a conditioner may change.
        ([], stages) if wire.conditioner.is_empty() => (stages, direction.crossed),
        _ => return None,
    };
    let probabilities = stage::loss_of(stages)?;
    let of_each = || probabilities.into_iter().zip(trials.map(|trials| trials as f64));
    let mean: f64 = of_each().map(|(p, n)| n * p).sum();
    let deviation = of_each().map(|(p, n)| n * p * (1.0 - p)).sum::<f64>().sqrt();
    let lost: u64 = direction.lost.iter().sum();
    // Half a packet on top, as counts are integers: it matters on links with very few expected losses.
    let deviates = (lost as f64 - mean).abs() > tolerance.loss_sigmas * deviation + 0.5;
    deviates.then(|| format!("{lost} of {} packets lost, {mean:.1} expected", report.packets_in))
}

fn packets_missed(Evidence { report, .. }: &Evidence<'_>) -> Option<String> {
    let count = report.counts.missed;
    (count > 0).then(|| format!("the kernel dropped {count} packets that the emulator was too slow to read"))
}

fn flags_meaningless(Evidence { report, .. }: &Evidence<'_>) -> Option<String> {
    let count = report.counts.refused.get("ecn_in_use")?;
    Some(format!(
        "{count} packets use ECN, so their flag bit has no meaning; switch ECN off or use --codec dscp"
    ))
}

fn no_memory(Evidence { report, .. }: &Evidence<'_>) -> Option<String> {
    let count = report.counts.refused.get("no_buffer")?;
    Some(format!("no memory for {count} packets"))
}
