//! Scheduling and timing of the emulator's thread, and its clock.

use catnip_base::Span;
use catnip_linux::clock::{Stopwatch, WallClock};
use catnip_linux::sys;
use rustix::thread::set_current_timer_slack;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;

/// Default spin margin under SCHED_FIFO, slightly longer than most wake-ups take. Since spinning is limited to 1 % of the time, a larger
/// margin would not make links with few packets more exact (benches/emulator.md).
const DEFAULT_SPIN: Span = Span::from_micros(60);
/// Longest time for which a real-time thread may run without sleeping. A longer run indicates a bug, and the kernel ends the process.
const MAX_RUN: Span = Span::from_secs(2);

/// Requested scheduling and timing of the emulator.
#[derive(Clone, Copy, Debug)]
pub struct TimingSpec {
    /// True if SCHED_FIFO is requested.
    pub real_time: bool,
    /// Time to spin before a deadline. `None` means no spinning without SCHED_FIFO; under SCHED_FIFO it means a default time, with spinning
    /// for at most 1 % of the time.
    pub spin: Option<Span>,
    /// Requested upper bound on the error of packets' arrival times.
    pub max_arrival_error: Span,
}

/// Scheduling and timing that the emulator actually uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimingMode {
    /// True if the emulator runs under SCHED_FIFO.
    pub real_time: bool,
    /// Time to spin before a deadline.
    pub spin: Span,
}

/// Clock of a run, and the scheduling and timing of its thread.
#[derive(Debug)]
pub struct Timing {
    /// Clock of the run.
    pub clock: WallClock,
    /// Scheduling and timing that the emulator actually uses.
    pub timing_mode: TimingMode,
}

impl Timing {
    /// Prepares this thread for emulation: uses SCHED_FIFO if it is requested and permitted, and creates the clock. The clock watches the
    /// descriptors `watched`, which must stay open.
    pub fn new<'a>(
        stopwatch: Stopwatch,
        TimingSpec { real_time, spin, max_arrival_error }: TimingSpec,
        watched: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> Self {
        let real_time = real_time && sys::run_in_real_time(MAX_RUN).is_ok();
        let margin = spin.unwrap_or(if real_time { DEFAULT_SPIN } else { Span::ZERO });
        // With the default slack, timers fire up to 50 us late. A failure costs only precision.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut clock = WallClock::new(stopwatch, margin, watched);
        clock.set_max_arrival_error(max_arrival_error);
        if real_time {
            clock.pause_regularly();
        }
        if spin.is_none() {
            clock.limit_spinning();
        }
        Self { clock, timing_mode: TimingMode { real_time, spin: margin } }
    }
}
