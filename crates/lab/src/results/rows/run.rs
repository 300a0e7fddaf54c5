//! A row per run.

use super::row::{Row, TableName};
use crate::results::column::Columns;
use catnip_base::{Span, Time};
use catnip_sim::Tally;

/// A run as a whole.
#[derive(Clone, Copy, Debug)]
pub struct RunRow {
    /// When it ended.
    pub end: Time,
    /// Before then nothing was counted in sums.
    pub warm_up: Span,
    /// What became of its transfers.
    pub tally: Tally,
    /// Packets that hosts have sent and whose end they have not heard of.
    pub open: u64,
    /// Packets times links.
    pub hops: u64,
    /// What it was like to do it in real time.
    pub real: Option<RealTime>,
}

/// What it was like to do a run in real time.
#[derive(Clone, Copy, Debug)]
pub struct RealTime {
    /// The clock at the end.
    pub duration: Span,
    /// CPU time of the emulator.
    pub cpu: Span,
    /// It ran under SCHED_FIFO.
    pub scheduled: bool,
}

impl Row for RunRow {
    const TABLE: TableName = TableName::Runs;
    fn columns(to: &mut impl Columns<Self>) {
        to.float("end_s", "When the run ended, on its own clock, which starts at 0.", |run| {
            run.end.as_secs()
        });
        to.float(
            "warm_up_s",
            "What the tables groups, transfers and ports leave out at its beginning.",
            |run| run.warm_up.as_secs(),
        );
        to.integer("packets_sent", "Data packets that TCP senders sent, retransmissions included.", |run| {
            run.tally.data_sent
        });
        to.integer("packets_dropped", "Of these, dropped by the network.", |run| run.tally.data_dropped);
        to.integer("packets_open", "Packets still in the network at the end, as the hosts count.", |run| {
            run.open
        });
        to.integer("connections", "TCP connections opened.", |run| run.tally.opened);
        to.integer("hops", "Packets times the links they crossed.", |run| run.hops);
        to.integer("transfers_completed", "Documents that have arrived whole.", |run| run.tally.completed);
        let seconds = |run: &Self, of: fn(&RealTime) -> Span| {
            run.real.as_ref().map_or(f64::NAN, |real| of(real).as_secs())
        };
        to.float("duration_s", "Emulator: how long the run took; NaN if simulated.", |run| {
            seconds(run, |real| real.duration)
        });
        to.float("cpu_s", "Emulator: its CPU time; NaN if simulated.", |run| seconds(run, |real| real.cpu));
        to.integer("real_time", "1 if an emulator ran under SCHED_FIFO.", |run| {
            run.real.is_some_and(|real| real.scheduled).into()
        });
    }
}
