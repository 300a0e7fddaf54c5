//! Rows of runs.

use super::row::Row;
use crate::results::column::Columns;
use catnip_base::{Span, Time};
use catnip_sim::Tally;

/// Row of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunRow {
    /// Time at which the run ended.
    pub end: Time,
    /// Length of the warm-up, which the sums in the results do not cover.
    pub warm_up: Span,
    /// Totals over the transfers of the run, such as the number of completed transfers.
    pub tally: Tally,
    /// Number of packets that hosts have sent and that were neither delivered nor dropped.
    pub open: u64,
    /// Packet-hops: packets times the links that they crossed.
    pub hops: u64,
    /// Measurements of the emulator; `None` if the run was simulated.
    pub emulator: Option<EmulatorStats>,
}

/// Measurements of the emulator during a run.
#[derive(Clone, Copy, Debug)]
pub struct EmulatorStats {
    /// Duration of the run by the clock of the emulator.
    pub duration: Span,
    /// CPU time that the emulator used.
    pub cpu: Span,
    /// True if the emulator ran under SCHED_FIFO.
    pub real_time: bool,
}

impl Row for RunRow {
    const NAME: &'static str = "runs";
    const ABOUT: &'static str = "One row per run.";
    fn columns(to: &mut impl Columns<Self>) {
        to.float("end_s", "Time at which the run ended, on its own clock, which starts at 0.", |run| {
            run.end.as_secs()
        });
        to.float(
            "warm_up_s",
            "Warm-up at the start of the run, which the tables groups, transfers and ports leave out.",
            |run| run.warm_up.as_secs(),
        );
        to.integer(
            "packets_sent",
            "Data packets sent by servers over TCP, retransmissions included.",
            |run| run.tally.data_sent,
        );
        to.integer("packets_dropped", "Data packets of servers dropped by the network.", |run| {
            run.tally.data_dropped
        });
        to.integer(
            "packets_open",
            "Packets still in the network at the end, as counted by the hosts.",
            |run| run.open,
        );
        to.integer("connections", "TCP connections opened.", |run| run.tally.opened);
        to.integer("hops", "Packets times the links that they crossed.", |run| run.hops);
        to.integer("transfers_completed", "Documents that have arrived completely.", |run| {
            run.tally.completed
        });
        let seconds = |run: &Self, of: fn(&EmulatorStats) -> Span| {
            run.emulator.as_ref().map_or(f64::NAN, |emulator| of(emulator).as_secs())
        };
        to.float("duration_s", "Duration of the run in the emulator; NaN if simulated.", |run| {
            seconds(run, |emulator| emulator.duration)
        });
        to.float("cpu_s", "CPU time of the emulator; NaN if simulated.", |run| {
            seconds(run, |emulator| emulator.cpu)
        });
        to.integer("real_time", "1 if the emulator ran under SCHED_FIFO, otherwise 0.", |run| {
            run.emulator.is_some_and(|emulator| emulator.real_time).into()
        });
    }
}
