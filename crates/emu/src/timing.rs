//! How punctual a thread can be, and the clock that follows from it.

use catnip_base::Span;
use catnip_linux::clock::{Stopwatch, WallClock};
use catnip_linux::sys;
use rustix::thread::set_current_timer_slack;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;

/// Spin margin under SCHED_FIFO: a little more than it takes to wake up, most of the time. More costs CPU time and
/// makes no packet less late where it counts (benches/emulator.md).
const DEFAULT_SPIN: Span = Span::from_micros(60);
/// A real-time thread that computes for so long without waiting has a bug.
const LONGEST_RUN: Span = Span::from_secs(2);

/// How punctual to be, as it was asked.
#[derive(Clone, Copy, Debug)]
pub struct TimingSpec {
    /// Ask for SCHED_FIFO.
    pub real_time: bool,
    /// How long before a deadline to spin; by default not at all without SCHED_FIFO, and with it for 1 % of the time
    /// at most.
    pub spin: Option<Span>,
    /// How exactly to know when packets come.
    pub exactness: Span,
}

/// How punctual it tries to be, as it was permitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Manner {
    /// Under SCHED_FIFO.
    pub real_time: bool,
    /// How long before a deadline it spins.
    pub spin: Span,
}

/// The clock of a run, and how it is read.
#[derive(Debug)]
pub struct Timing {
    /// The clock.
    pub clock: WallClock,
    /// What was permitted.
    pub manner: Manner,
}

impl Timing {
    /// Prepares this thread for emulation: as punctual as it is permitted to be. The clock watches these descriptors,
    /// which must stay open.
    pub fn new<'a>(
        stopwatch: Stopwatch,
        TimingSpec { real_time, spin, exactness }: TimingSpec,
        watched: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> Self {
        let real_time = real_time && sys::run_in_real_time(LONGEST_RUN).is_ok();
        let margin = spin.unwrap_or(if real_time { DEFAULT_SPIN } else { Span::ZERO });
        // Without it, timers fire up to 50 us late; nothing else depends on it.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut clock = WallClock::new(stopwatch, margin, watched);
        clock.know_arrivals_to(exactness);
        if real_time {
            clock.give_way();
        }
        if spin.is_none() {
            clock.save_cpu();
        }
        Self { clock, manner: Manner { real_time, spin: margin } }
    }
}
