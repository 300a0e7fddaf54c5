//! Timing precision of a thread, and the clock that results from it.

use catnip_base::Span;
use catnip_linux::clock::{Stopwatch, WallClock};
use catnip_linux::sys;
use rustix::thread::set_current_timer_slack;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;

/// Spin margin under SCHED_FIFO: a little more than most wake-ups take. A larger margin costs CPU time and does not reduce lateness where
/// it matters (benches/emulator.md).
const DEFAULT_SPIN: Span = Span::from_micros(60);
/// Longest run time of a real-time thread without a wait; a longer one indicates a bug and ends the process.
const LONGEST_RUN: Span = Span::from_secs(2);

/// Requested timing precision.
#[derive(Clone, Copy, Debug)]
pub struct TimingSpec {
    /// True if SCHED_FIFO is requested.
    pub real_time: bool,
    /// Time to spin before a deadline. By default there is no spinning without SCHED_FIFO, and spinning for at most 1 % of the time with
    /// it.
    pub spin: Option<Span>,
    /// Requested upper bound on the error of arrival times.
    pub exactness: Span,
}

/// Timing precision that was permitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimingMode {
    /// True under SCHED_FIFO.
    pub real_time: bool,
    /// Time to spin before a deadline.
    pub spin: Span,
}

/// Clock of a run with its timing precision.
#[derive(Debug)]
pub struct Timing {
    /// Clock of the run.
    pub clock: WallClock,
    /// Timing precision that was permitted.
    pub manner: TimingMode,
}

impl Timing {
    /// Prepares this thread for emulation with the best timing precision that is permitted. The clock watches these descriptors, which must
    /// stay open.
    pub fn new<'a>(
        stopwatch: Stopwatch,
        TimingSpec { real_time, spin, exactness }: TimingSpec,
        watched: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> Self {
        let real_time = real_time && sys::run_in_real_time(LONGEST_RUN).is_ok();
        let margin = spin.unwrap_or(if real_time { DEFAULT_SPIN } else { Span::ZERO });
        // With the default slack, timers fire up to 50 us late. Nothing else depends on this setting.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut clock = WallClock::new(stopwatch, margin, watched);
        clock.know_arrivals_to(exactness);
        if real_time {
            clock.give_way();
        }
        if spin.is_none() {
            clock.save_cpu();
        }
        Self { clock, manner: TimingMode { real_time, spin: margin } }
    }
}
