//! Clocks of real time, and waiting on them.

use crate::sys::{self, Readable};
use catnip_base::{Histogram, Span, Time};
use std::cell::RefCell;
use std::fmt::Debug;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// What time it is on the clock of a run, and how to wait.
pub trait Clock: Debug {
    /// Time since the run began; never goes back.
    fn now(&self) -> Time;
    /// Waits until `deadline`, or less long if something has come that the host should look at.
    fn sleep_until(&self, deadline: Time);
    /// Could the device of this edge be read when the last wait ended? Asking the kernel again would cost a system call
    /// per device and wake-up.
    fn has_come(&self, _edge: usize) -> bool {
        true
    }
    /// The latest time at which waiting has shown that there was nothing to read from the device of this edge. What is read
    /// from it next has come since then.
    fn empty_at(&self, _edge: usize) -> Time {
        Time::ZERO
    }
    /// When, or a little before, something came that ended the last wait. It says nothing of a device that was not read to its
    /// end before.
    fn ended_by_arrival_at(&self) -> Time {
        Time::ZERO
    }
}

/// The monotonic clock, counted from when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    began: Instant,
    /// CPU time of this process until then. It may have been another program's, which has executed this one.
    cpu_before: Span,
}

impl Stopwatch {
    /// Time zero is now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock of the host in real time")]
    pub fn start() -> Self {
        Self { began: Instant::now(), cpu_before: sys::cpu_time() }
    }

    /// CPU time of this process since it was made.
    pub fn cpu(&self) -> Span {
        sys::cpu_time().saturating_sub(self.cpu_before)
    }

    /// From 1970 to time zero.
    pub fn since_1970(&self) -> Span {
        since_1970().saturating_sub(self.now().since(Time::ZERO))
    }

    /// Time since it was made.
    #[inline]
    #[expect(clippy::disallowed_methods, reason = "this is the clock of the host in real time")]
    pub fn now(&self) -> Time {
        let elapsed = Instant::now().duration_since(self.began);
        Time::from_nanos(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
    }
}

/// Time since 1970 by the clock of the machine.
#[expect(clippy::disallowed_methods, reason = "this is the clock of the host in real time")]
pub fn since_1970() -> Span {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Span::from_nanos(now.as_nanos() as u64)
}

/// The wall clock. It sleeps in `ppoll(2)`, which returns as soon as one of the descriptors can be read.
///
/// A sleeping thread is woken 40 to 100 us late, so the last `margin` before a deadline can be spent looking at the
/// clock instead. That is of use only to a thread that nobody pushes aside: with other work on the same CPU, spinning
/// makes it late by whole time slices. Spinning threads push each other aside, too, and cost CPU time, so a budget can
/// be set: a clock that has used it up sleeps to the end, and then sleeps no shorter than `REST` either.
#[derive(Debug)]
pub struct WallClock {
    stopwatch: Stopwatch,
    margin: Span,
    waiting: RefCell<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    fds: Vec<Readable>,
    /// Of each, when it was seen that there is nothing to read.
    empty: Vec<Time>,
    /// No sleep is longer.
    beat: Span,
    /// How long this thread has waited for a CPU, if the kernel counts that, and what it was before.
    delays: Option<RunDelays>,
    delayed: Span,
    /// How long it takes to wake this thread if there is a CPU for it: about the most that was seen lately.
    to_wake: Span,
    /// See [`Clock::ended_by_arrival_at`].
    ended_at: Time,
    /// How much later than it should have this thread was woken.
    woken_late: Histogram,
    longest_run: Option<Span>,
    slept_at: Time,
    budget: Option<Budget>,
}

impl Waiting {
    /// Waits at `now` until something can be read or for `sleep`. True if something can be read.
    fn wait(&mut self, now: Time, sleep: Span) -> bool {
        let Ok(came) = sys::wait_readable(&mut self.fds, Some(sleep)) else { return false };
        // The kernel looks at all of them before it sleeps, and if nothing has come, again when the time is over.
        let looked = if came { now } else { now + sleep };
        for (fd, empty) in self.fds.iter().zip(&mut self.empty) {
            if !fd.is_ready() {
                *empty = looked;
            }
        }
        came
    }

    /// A sleep has ended so much later than it should have.
    fn on_beat(&mut self, late: Span) {
        self.woken_late.record(late);
        let to_wake = late.saturating_sub(self.delay().unwrap_or(Span::ZERO));
        self.to_wake = to_wake.max(self.to_wake.saturating_sub(self.to_wake / 8));
    }

    /// How long this thread has waited for a CPU since this was asked the last time.
    fn delay(&mut self) -> Option<Span> {
        let delayed = self.delays.as_ref().and_then(RunDelays::total)?;
        Some(delayed.saturating_sub(std::mem::replace(&mut self.delayed, delayed)))
    }

    /// What has ended a sleep, which was at `woken`, came when this thread was to be woken and began to wait for a CPU. A signal may
    /// be one that has let it go on after a stop, so then nobody knows.
    ///
    /// Before it returned, the kernel has looked at all the others again.
    fn on_woken(&mut self, woken: Time) {
        self.ended_at = Time::ZERO;
        let Some(delay) = self.delay().map(|delay| delay + self.to_wake) else { return };
        if self.fds[SIGNALS].is_ready() {
            return;
        }
        self.ended_at = Time::from_nanos(woken.as_nanos().saturating_sub(delay.as_nanos()));
        for (fd, empty) in self.fds.iter().zip(&mut self.empty) {
            if !fd.is_ready() {
                *empty = self.ended_at.max(*empty);
            }
        }
    }
}

/// How long a thread has waited for a CPU although it could run.
#[derive(Debug)]
struct RunDelays(File);

impl RunDelays {
    /// Of this thread. `None`: the kernel does not count that.
    fn of_this_thread() -> Option<Self> {
        let delays = Self(File::open("/proc/thread-self/schedstat").ok()?);
        delays.total().map(|_| delays)
    }

    /// Documentation/scheduler/sched-stats.rst of the kernel, /proc/PID/schedstat, 2: "time spent waiting on a runqueue (in
    /// nanoseconds)".
    fn total(&self) -> Option<Span> {
        let mut text = [0; 64];
        let len = self.0.read_at(&mut text, 0).ok()?;
        let second = std::str::from_utf8(&text[..len]).ok()?.split_ascii_whitespace().nth(1)?;
        second.parse().ok().map(Span::from_nanos)
    }
}

/// Time that may still be spent spinning.
#[derive(Debug)]
struct Budget {
    left: Span,
    counted: Time,
}

impl Budget {
    /// A share of 1/100 of all time, saved up for this long at most.
    const SHARE: u64 = 100;
    const SAVED: Span = Span::from_millis(5);

    fn allows(&mut self, now: Time, margin: Span) -> bool {
        let more = now.since(self.counted) / Self::SHARE;
        self.counted = now;
        self.left = (self.left + more).min(Self::SAVED);
        self.left >= margin
    }
}

/// Longest sleep: who could not look at the clock for longer was kept from it.
const BEAT: Span = Span::from_millis(20);
/// The same where the kernel does not tell how long a thread has waited: then a packet has come at any time of the sleep that it
/// ends.
const BLIND_BEAT: Span = Span::from_millis(1);
const SHORTEST_BEAT: Span = Span::from_micros(100);
/// What it takes to wake a thread, before that is known.
const TO_WAKE: Span = Span::from_micros(100);
/// So long after it was woken the last time, a thread with a budget that has used it up is woken again at the earliest, whatever
/// comes or is due: what falls in between is moved at once. To set a timer and to be woken by it costs more CPU time than to move a
/// packet, and is hardly more exact than this. Network cards hold their interrupts back for as long.
const REST: Span = Span::from_micros(50);
/// The host's own descriptor, by which it hears of signals, comes before those of the edges.
const SIGNALS: usize = 0;
/// After so long without a pause a real-time thread lets others run for [`PAUSE`].
const LONGEST_RUN: Span = Span::from_millis(50);
const PAUSE: Span = Span::from_micros(500);

impl WallClock {
    /// A clock that counts on `stopwatch` and watches these descriptors, which must stay open: that of signals, and those of the
    /// edges in their order.
    pub fn new<'a>(
        stopwatch: Stopwatch,
        margin: Span,
        watched: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> Self {
        let fds: Vec<Readable> = watched.into_iter().map(Readable::new).collect();
        let now = stopwatch.now();
        let delays = RunDelays::of_this_thread();
        let waiting = Waiting {
            empty: vec![now; fds.len()],
            fds,
            beat: if delays.is_some() { BEAT } else { BLIND_BEAT },
            delayed: delays.as_ref().and_then(RunDelays::total).unwrap_or(Span::ZERO),
            delays,
            to_wake: TO_WAKE,
            ended_at: Time::ZERO,
            woken_late: Histogram::default(),
            longest_run: None,
            slept_at: now,
            budget: None,
        };
        Self { stopwatch, margin, waiting: RefCell::new(waiting) }
    }

    /// Pauses now and then even if there is always work, as a thread before which nothing else runs must.
    pub fn give_way(&mut self) {
        self.waiting.get_mut().longest_run = Some(LONGEST_RUN);
    }

    /// Spins for a share of 1 % of all time at most, and rests (`REST`) where that is not enough.
    pub fn save_cpu(&mut self) {
        self.waiting.get_mut().budget = Some(Budget { left: Budget::SAVED, counted: self.stopwatch.now() });
    }

    /// It is to be known to so much when packets come.
    pub fn know_arrivals_to(&mut self, exactness: Span) {
        let waiting = self.waiting.get_mut();
        if waiting.delays.is_none() {
            waiting.beat = exactness.clamp(SHORTEST_BEAT, BLIND_BEAT);
        }
    }

    /// CPU time of this process since the beginning of the run.
    pub fn cpu(&self) -> Span {
        self.stopwatch.cpu()
    }

    /// How much later than it should have this thread was woken at the end of a sleep.
    pub fn woken_late(&self) -> Histogram {
        self.waiting.borrow().woken_late.clone()
    }

    /// Could the descriptor with this index be read when the last sleep ended?
    pub fn is_ready(&self, index: usize) -> bool {
        self.waiting.borrow().fds[index].is_ready()
    }
}

impl Clock for WallClock {
    #[inline]
    fn now(&self) -> Time {
        self.stopwatch.now()
    }

    #[inline]
    fn has_come(&self, edge: usize) -> bool {
        self.is_ready(SIGNALS + 1 + edge)
    }

    #[inline]
    fn empty_at(&self, edge: usize) -> Time {
        self.waiting.borrow().empty[SIGNALS + 1 + edge]
    }

    #[inline]
    fn ended_by_arrival_at(&self) -> Time {
        self.waiting.borrow().ended_at
    }

    fn sleep_until(&self, deadline: Time) {
        let waiting = &mut *self.waiting.borrow_mut();
        let mut now = self.now();
        if waiting.longest_run.is_some_and(|longest| now.since(waiting.slept_at) > longest) {
            let _ = sys::wait_readable(&mut [], Some(PAUSE));
            now = self.now();
            waiting.slept_at = now;
        }
        let spin = waiting.budget.as_mut().is_none_or(|budget| budget.allows(now, self.margin));
        let margin = if spin { self.margin } else { Span::ZERO };
        let rested = waiting.slept_at + REST;
        if margin == Span::ZERO && waiting.budget.is_some() && now < deadline && deadline < rested {
            let _ = sys::wait_readable(&mut [], Some(rested.since(now)));
            now = self.now();
            waiting.slept_at = now;
            waiting.on_beat(now.since(rested));
        }
        loop {
            let sleep = deadline.since(now).saturating_sub(margin).min(waiting.beat);
            let came = waiting.wait(now, sleep);
            let woken = self.now();
            if came {
                if sleep > Span::ZERO {
                    waiting.on_woken(woken);
                } else {
                    waiting.ended_at = Time::ZERO;
                }
                // Nothing says whether it slept; if it did not, the pause comes a little early or late.
                if woken.since(now) > Span::from_micros(100) {
                    waiting.slept_at = woken;
                }
                return;
            }
            if sleep > Span::ZERO {
                waiting.slept_at = woken;
                waiting.on_beat(woken.since(now + sleep));
            }
            waiting.ended_at = Time::ZERO;
            now = woken;
            if now + margin >= deadline {
                break;
            }
        }
        let started = now;
        while now < deadline && !waiting.wait(now, Span::ZERO) {
            std::hint::spin_loop();
            now = self.now();
        }
        if let Some(budget) = &mut waiting.budget {
            budget.left = budget.left.saturating_sub(now.since(started));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    /// A clock that watches the second ends of two pairs: that of signals, and of an edge.
    fn clock(stopwatch: Stopwatch) -> (WallClock, [[UnixStream; 2]; 2]) {
        let pairs = [(); 2].map(|()| UnixStream::pair().map(<[_; 2]>::from).unwrap());
        let clock = WallClock::new(stopwatch, Span::ZERO, pairs.iter().map(|[_, near]| near.as_fd()));
        (clock, pairs)
    }

    #[test]
    fn a_descriptor_is_called_empty_at_no_time_at_which_there_was_something_to_read() {
        let stopwatch = Stopwatch::start();
        let (mut clock, [_signals, [mut far, mut near]]) = clock(stopwatch);
        // What a thread has waited for a CPU makes this a little later, and nearly as certain.
        clock.waiting.get_mut().delays = None;
        clock.know_arrivals_to(Span::ZERO);
        let (tell, told) = std::sync::mpsc::channel();
        let writer = std::thread::spawn(move || {
            for number in 0..200_u64 {
                std::thread::sleep(std::time::Duration::from_micros(number * 7919 % 3000));
                far.write_all(&[0]).unwrap();
                tell.send(stopwatch.now()).unwrap();
            }
        });
        let mut last = Time::ZERO;
        for _ in 0..200 {
            while !clock.has_come(0) {
                clock.sleep_until(Time::NEVER);
            }
            let empty_at = clock.empty_at(0);
            near.read_exact(&mut [0]).unwrap();
            let written = told.recv().unwrap();
            assert!(empty_at <= written, "called empty at {empty_at:?}, written before {written:?}");
            last = last.max(empty_at);
            clock.sleep_until(Time::ZERO);
        }
        writer.join().unwrap();
        assert!(last > Time::ZERO && clock.woken_late().count() > 0);
    }

    #[test]
    fn what_ends_a_sleep_has_come_just_before_unless_a_signal_says_that_the_thread_was_stopped() {
        for stopped in [false, true] {
            let (mut clock, [[mut signal, _own], [mut far, _near]]) = clock(Stopwatch::start());
            clock.sleep_until(Time::ZERO);
            far.write_all(&[0]).unwrap();
            if stopped {
                signal.write_all(&[0]).unwrap();
            }
            let began = clock.now();
            let waiting = clock.waiting.get_mut();
            assert!(waiting.wait(began, Span::from_secs(1)));
            let Some(delays) = &waiting.delays else { return };
            waiting.delayed = delays.total().unwrap();
            let woken = began + Span::from_secs(1);
            waiting.on_woken(woken);
            let shown = clock.ended_by_arrival_at();
            if stopped {
                assert_eq!(shown, Time::ZERO);
            } else {
                // It slept for a second, and then it took a while to wake it.
                assert!(began + Span::from_millis(500) < shown && shown + TO_WAKE <= woken, "{shown:?}");
                // What has come to the other end has not come before.
                assert_eq!(clock.waiting.get_mut().empty[SIGNALS], shown);
            }
        }
    }
}
