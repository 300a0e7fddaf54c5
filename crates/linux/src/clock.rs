//! Real-time clocks that wait for a time or for input on file descriptors.

use crate::sys::{self, Readable};
use catnip_base::{Histogram, Span, Time};
use std::cell::RefCell;
use std::fmt::Debug;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Clock of an emulator, which also waits for deadlines and for packets from the devices.
pub trait Clock: Debug {
    /// Returns the time since the run began, which never decreases.
    fn now(&self) -> Time;
    /// Waits until `deadline`, or until input for the emulator arrives if that happens earlier.
    fn sleep_until(&self, deadline: Time);
    /// Returns true if the device with this index was readable when the last wait ended. A device without input need not be read, which
    /// saves a system call per device and wake-up.
    fn has_input(&self, _edge: usize) -> bool {
        true
    }
    /// Returns the latest time at which a wait found the device with this index empty. The next packet read from the device arrived later.
    fn empty_at(&self, _edge: usize) -> Time {
        Time::ZERO
    }
    /// Returns the arrival time of the input that ended the last wait, or a slightly earlier time; zero if the arrival time is unknown. The
    /// result does not apply to a device that still had unread packets before the wait.
    fn wakeup_arrival_at(&self) -> Time {
        Time::ZERO
    }
}

/// Use of the cores during the time of a stopwatch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuUse {
    /// CPU time of this process.
    pub own: Span,
    /// Fraction of the time of all cores of the machine in which they were idle; `None` if the kernel does not tell.
    pub idle_share: Option<f64>,
}

/// Monotonic clock that starts at zero when created.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    began: Instant,
    /// CPU time that this process had used before the stopwatch was started.
    cpu_before: Span,
    /// Time of all cores before the stopwatch was started.
    cores_before: Option<CoreTime>,
}

impl Stopwatch {
    /// Starts a stopwatch, which shows time zero at this moment.
    #[expect(clippy::disallowed_methods, reason = "this is the clock of the host in real time")]
    pub fn start() -> Self {
        Self { began: Instant::now(), cpu_before: sys::cpu_time(), cores_before: CoreTime::so_far() }
    }

    /// Returns the use of the cores since the stopwatch was started.
    pub fn cpu_use(&self) -> CpuUse {
        let cores = CoreTime::so_far().zip(self.cores_before).map(|(now, before)| now.since(before));
        CpuUse {
            own: sys::cpu_time().saturating_sub(self.cpu_before),
            idle_share: cores.and_then(CoreTime::idle_share),
        }
    }

    /// Returns the time from the beginning of 1970 to the start of the stopwatch.
    pub fn since_1970(&self) -> Span {
        since_1970().saturating_sub(self.now().since(Time::ZERO))
    }

    /// Returns the time since the stopwatch was started.
    #[inline]
    #[expect(clippy::disallowed_methods, reason = "this is the clock of the host in real time")]
    pub fn now(&self) -> Time {
        let elapsed = Instant::now().duration_since(self.began);
        Time::from_nanos(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
    }
}

/// Time of all cores of the machine together, in ticks of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CoreTime {
    idle: u64,
    total: u64,
}

impl CoreTime {
    fn so_far() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the first line of /proc/stat. proc(5): user, nice, system, idle, iowait, irq, softirq and steal; then guest times, which user
    /// and nice contain.
    fn parse(stat: &str) -> Option<Self> {
        let times = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let times: Vec<u64> = times.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { idle: times.get(3)? + times.get(4)?, total: times.iter().sum() })
    }

    fn since(self, before: Self) -> Self {
        // The kernel's time of iowait can decrease.
        Self { idle: self.idle.saturating_sub(before.idle), total: self.total.saturating_sub(before.total) }
    }

    /// Returns the fraction of idle time; `None` before the first tick.
    fn idle_share(self) -> Option<f64> {
        (self.total > 0).then(|| (self.idle as f64 / self.total as f64).min(1.0))
    }
}

/// Returns the time since the beginning of 1970 by the clock of the machine.
#[expect(clippy::disallowed_methods, reason = "this is the clock of the host in real time")]
pub fn since_1970() -> Span {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Span::from_nanos(now.as_nanos() as u64)
}

/// Wall clock. It sleeps in `ppoll(2)`, which returns as soon as one of the descriptors is readable.
///
/// A sleeping thread is woken 40 to 100 us late, so the clock can spin during the last `margin` before a deadline instead. Spinning helps
/// only a thread that is not preempted: with other work on the same CPU, a spinning thread is late by whole time slices. Spinning threads
/// also preempt each other and cost CPU time, so a budget can be set. A clock that has used up its budget sleeps until the deadline instead
/// of spinning, and for at least `MIN_WAKEUP_INTERVAL`.
#[derive(Debug)]
pub struct WallClock {
    stopwatch: Stopwatch,
    margin: Span,
    state: RefCell<WaitState>,
}

#[derive(Debug)]
struct WaitState {
    fds: Vec<Readable>,
    /// Time at which each descriptor was last found empty.
    empty: Vec<Time>,
    /// Longest time to sleep without reading the clock.
    sleep_limit: Span,
    /// Counter of the time that this thread has waited for a CPU; `None` if the kernel has no such counter.
    run_delay_counter: Option<RunDelayCounter>,
    /// Last value read from `run_delay_counter`.
    last_run_delay: Span,
    /// Recent maximum of the time that waking this thread takes if a CPU is available.
    wakeup_cost: Span,
    /// Result of [`Clock::wakeup_arrival_at`].
    wakeup_arrival_at: Time,
    /// Wake-up latency of this thread.
    wakeup_latency: Histogram,
    max_run: Option<Span>,
    slept_at: Time,
    budget: Option<Budget>,
}

impl WaitState {
    /// Waits from `now` for `sleep` or until a descriptor is readable. Returns true if a descriptor is readable.
    fn wait(&mut self, now: Time, sleep: Span) -> bool {
        let Ok(is_readable) = sys::wait_readable(&mut self.fds, Some(sleep)) else { return false };
        // The kernel polls all descriptors before it sleeps, and again at the timeout if none became readable.
        let polled_at = if is_readable { now } else { now + sleep };
        for (fd, empty) in self.fds.iter().zip(&mut self.empty) {
            if !fd.is_ready() {
                *empty = polled_at;
            }
        }
        is_readable
    }

    /// Records a sleep that ended late by `latency`.
    fn on_timer_wakeup(&mut self, latency: Span) {
        self.wakeup_latency.record(latency);
        let wakeup_cost = latency.saturating_sub(self.take_run_delay().unwrap_or(Span::ZERO));
        self.wakeup_cost = wakeup_cost.max(self.wakeup_cost.saturating_sub(self.wakeup_cost / 8));
    }

    /// Returns the time that this thread has waited for a CPU since the last call.
    fn take_run_delay(&mut self) -> Option<Span> {
        let total = self.run_delay_counter.as_ref().and_then(RunDelayCounter::total)?;
        Some(total.saturating_sub(std::mem::replace(&mut self.last_run_delay, total)))
    }

    /// Estimates the arrival time of the input that ended a sleep at `woken_at`: the time at which the thread began to wake up and to wait
    /// for a CPU. After a signal, the arrival time is unknown, because the signal may have continued a stopped process.
    ///
    /// The kernel has polled all other descriptors again before it returned, so the descriptors without input were empty at the estimated
    /// time.
    fn on_input_wakeup(&mut self, woken_at: Time) {
        self.wakeup_arrival_at = Time::ZERO;
        let Some(delay) = self.take_run_delay().map(|delay| delay + self.wakeup_cost) else { return };
        if self.fds[SIGNALS].is_ready() {
            return;
        }
        self.wakeup_arrival_at = Time::from_nanos(woken_at.as_nanos().saturating_sub(delay.as_nanos()));
        for (fd, empty) in self.fds.iter().zip(&mut self.empty) {
            if !fd.is_ready() {
                *empty = self.wakeup_arrival_at.max(*empty);
            }
        }
    }
}

/// Counter of the time that a runnable thread has waited for a CPU.
#[derive(Debug)]
struct RunDelayCounter(File);

impl RunDelayCounter {
    /// Opens the counter of this thread. Returns `None` if the kernel does not have one.
    fn of_this_thread() -> Option<Self> {
        let counter = Self(File::open("/proc/thread-self/schedstat").ok()?);
        counter.total().map(|_| counter)
    }

    /// Returns the value of the counter. Documentation/scheduler/sched-stats.rst of the kernel, /proc/PID/schedstat, 2: "time spent waiting
    /// on a runqueue (in nanoseconds)".
    fn total(&self) -> Option<Span> {
        let mut text = [0; 64];
        let len = self.0.read_at(&mut text, 0).ok()?;
        let second = std::str::from_utf8(&text[..len]).ok()?.split_ascii_whitespace().nth(1)?;
        second.parse().ok().map(Span::from_nanos)
    }
}

/// Budget of time for spinning.
#[derive(Debug)]
struct Budget {
    remaining: Span,
    updated_at: Time,
}

impl Budget {
    /// Reciprocal of the share of the elapsed time that is added to the budget: 1 %.
    const SHARE_DIVISOR: u64 = 100;
    /// Largest amount of unused spinning time that the budget saves up.
    const MAX: Span = Span::from_millis(5);

    fn allows(&mut self, now: Time, margin: Span) -> bool {
        let more = now.since(self.updated_at) / Self::SHARE_DIVISOR;
        self.updated_at = now;
        self.remaining = (self.remaining + more).min(Self::MAX);
        self.remaining >= margin
    }
}

/// Longest time to sleep. A longer time between two readings of the clock shows that the thread was prevented from running.
const SLEEP_LIMIT: Span = Span::from_millis(20);
/// Longest time to sleep if the kernel does not count how long a thread waits for a CPU. A packet may then have arrived at any time during
/// the sleep that it ended.
const UNCOUNTED_SLEEP_LIMIT: Span = Span::from_millis(1);
const MIN_SLEEP_LIMIT: Span = Span::from_micros(100);
/// Initial estimate of the time that waking a thread takes.
const INITIAL_WAKEUP_COST: Span = Span::from_micros(100);
/// Shortest time between wake-ups of a thread that has used up its spinning budget, regardless of arrivals and deadlines. All packets that
/// are due in this time are moved together. Setting a timer and waking up for each packet would cost more CPU time than moving the packet,
/// and would hardly be more exact. Network cards delay their interrupts for similar times.
const MIN_WAKEUP_INTERVAL: Span = Span::from_micros(50);
/// Index of the signal descriptor among the watched descriptors. The descriptors of the devices follow it.
const SIGNALS: usize = 0;
/// Run time without a sleep after which a real-time thread lets other threads run for [`PAUSE`].
const MAX_RUN: Span = Span::from_millis(50);
const PAUSE: Span = Span::from_micros(500);

impl WallClock {
    /// Creates a clock that shows the time of `stopwatch` and spins during the last `margin` before a deadline. `watched` consists of the
    /// signal descriptor and the descriptors of the devices, in this order. The descriptors must stay open.
    pub fn new<'a>(
        stopwatch: Stopwatch,
        margin: Span,
        watched: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> Self {
        let fds: Vec<Readable> = watched.into_iter().map(Readable::new).collect();
        let now = stopwatch.now();
        let run_delay_counter = RunDelayCounter::of_this_thread();
        let state = WaitState {
            empty: vec![now; fds.len()],
            fds,
            sleep_limit: if run_delay_counter.is_some() { SLEEP_LIMIT } else { UNCOUNTED_SLEEP_LIMIT },
            last_run_delay: run_delay_counter.as_ref().and_then(RunDelayCounter::total).unwrap_or(Span::ZERO),
            run_delay_counter,
            wakeup_cost: INITIAL_WAKEUP_COST,
            wakeup_arrival_at: Time::ZERO,
            wakeup_latency: Histogram::default(),
            max_run: None,
            slept_at: now,
            budget: None,
        };
        Self { stopwatch, margin, state: RefCell::new(state) }
    }

    /// Makes the clock pause regularly even under constant load, as is necessary for a thread of real-time priority.
    pub fn pause_regularly(&mut self) {
        self.state.get_mut().max_run = Some(MAX_RUN);
    }

    /// Limits spinning to 1 % of all time. A clock that has used up this budget sleeps for at least `MIN_WAKEUP_INTERVAL` between wake-ups.
    pub fn limit_spinning(&mut self) {
        self.state.get_mut().budget =
            Some(Budget { remaining: Budget::MAX, updated_at: self.stopwatch.now() });
    }

    /// Sets the requested upper bound on the error of arrival times. The bound limits the length of a sleep if the kernel does not count
    /// the wait for a CPU.
    pub fn set_max_arrival_error(&mut self, max_error: Span) {
        let state = self.state.get_mut();
        if state.run_delay_counter.is_none() {
            state.sleep_limit = max_error.clamp(MIN_SLEEP_LIMIT, UNCOUNTED_SLEEP_LIMIT);
        }
    }

    /// Returns the use of the cores since the start of the clock's stopwatch.
    pub fn cpu_use(&self) -> CpuUse {
        self.stopwatch.cpu_use()
    }

    /// Returns the distribution of the times by which this thread was woken late.
    pub fn wakeup_latency(&self) -> Histogram {
        self.state.borrow().wakeup_latency.clone()
    }

    /// Returns true if the watched descriptor with this index was readable when the last sleep ended.
    pub fn is_ready(&self, index: usize) -> bool {
        self.state.borrow().fds[index].is_ready()
    }
}

impl Clock for WallClock {
    #[inline]
    fn now(&self) -> Time {
        self.stopwatch.now()
    }

    #[inline]
    fn has_input(&self, edge: usize) -> bool {
        self.is_ready(SIGNALS + 1 + edge)
    }

    #[inline]
    fn empty_at(&self, edge: usize) -> Time {
        self.state.borrow().empty[SIGNALS + 1 + edge]
    }

    #[inline]
    fn wakeup_arrival_at(&self) -> Time {
        self.state.borrow().wakeup_arrival_at
    }

    fn sleep_until(&self, deadline: Time) {
        let state = &mut *self.state.borrow_mut();
        let mut now = self.now();
        if state.max_run.is_some_and(|limit| now.since(state.slept_at) > limit) {
            let _ = sys::wait_readable(&mut [], Some(PAUSE));
            now = self.now();
            state.slept_at = now;
        }
        let spin = state.budget.as_mut().is_none_or(|budget| budget.allows(now, self.margin));
        let margin = if spin { self.margin } else { Span::ZERO };
        let next_wakeup = state.slept_at + MIN_WAKEUP_INTERVAL;
        if margin == Span::ZERO && state.budget.is_some() && now < deadline && deadline < next_wakeup {
            let _ = sys::wait_readable(&mut [], Some(next_wakeup.since(now)));
            now = self.now();
            state.slept_at = now;
            state.on_timer_wakeup(now.since(next_wakeup));
        }
        loop {
            let sleep = deadline.since(now).saturating_sub(margin).min(state.sleep_limit);
            let is_readable = state.wait(now, sleep);
            let woken_at = self.now();
            if is_readable {
                if sleep > Span::ZERO {
                    state.on_input_wakeup(woken_at);
                } else {
                    state.wakeup_arrival_at = Time::ZERO;
                }
                // The call may not have slept. The next pause is then slightly early or late.
                if woken_at.since(now) > Span::from_micros(100) {
                    state.slept_at = woken_at;
                }
                return;
            }
            if sleep > Span::ZERO {
                state.slept_at = woken_at;
                state.on_timer_wakeup(woken_at.since(now + sleep));
            }
            state.wakeup_arrival_at = Time::ZERO;
            now = woken_at;
            if now + margin >= deadline {
                break;
            }
        }
        let started = now;
        while now < deadline && !state.wait(now, Span::ZERO) {
            std::hint::spin_loop();
            now = self.now();
        }
        if let Some(budget) = &mut state.budget {
            budget.remaining = budget.remaining.saturating_sub(now.since(started));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Creates a clock that watches one end of each of two socket pairs. The first pair stands in for signals, the second for a device.
    fn clock(stopwatch: Stopwatch) -> (WallClock, [[UnixStream; 2]; 2]) {
        let pairs = [(); 2].map(|()| UnixStream::pair().map(<[_; 2]>::from).unwrap());
        let clock = WallClock::new(stopwatch, Span::ZERO, pairs.iter().map(|[_, edge_end]| edge_end.as_fd()));
        (clock, pairs)
    }

    #[test]
    fn idle_time_is_that_of_all_cores_without_the_time_of_guests() {
        // user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
        let before = CoreTime::parse("cpu  100 0 50 800 50 0 0 0 90 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n").unwrap();
        assert_eq!(before, CoreTime { idle: 850, total: 1000 });
        let after = CoreTime::parse("cpu  130 0 60 850 45 1 2 7 120 0\n").unwrap();
        // Of 95 ticks 45 are idle: the kernel's iowait goes back by 5.
        assert_eq!(after.since(before), CoreTime { idle: 45, total: 95 });
        assert_eq!(before.since(before).idle_share(), None);
        assert_eq!(CoreTime::parse("intr 1 2"), None);
        assert_eq!(CoreTime::parse("cpu  1 2"), None);
    }

    #[test]
    fn a_descriptor_is_called_empty_at_no_time_at_which_there_was_something_to_read() {
        let stopwatch = Stopwatch::start();
        let (mut clock, [_signals, [mut peer, mut edge_end]]) = clock(stopwatch);
        // With the counted wait for a CPU, `empty_at` would be slightly later but less certain.
        clock.state.get_mut().run_delay_counter = None;
        clock.set_max_arrival_error(Span::ZERO);
        let (sender, receiver) = std::sync::mpsc::channel();
        let writer = std::thread::spawn(move || {
            for number in 0..200_u64 {
                std::thread::sleep(std::time::Duration::from_micros(number * 7919 % 3000));
                peer.write_all(&[0]).unwrap();
                sender.send(stopwatch.now()).unwrap();
            }
        });
        let mut last = Time::ZERO;
        for _ in 0..200 {
            while !clock.has_input(0) {
                clock.sleep_until(Time::NEVER);
            }
            let empty_at = clock.empty_at(0);
            edge_end.read_exact(&mut [0]).unwrap();
            let written = receiver.recv().unwrap();
            assert!(empty_at <= written, "called empty at {empty_at:?}, written before {written:?}");
            last = last.max(empty_at);
            clock.sleep_until(Time::ZERO);
        }
        writer.join().unwrap();
        assert!(last > Time::ZERO && clock.wakeup_latency().count() > 0);
    }

    #[test]
    fn what_ends_a_sleep_has_come_just_before_unless_a_signal_says_that_the_thread_was_stopped() {
        for stopped in [false, true] {
            let (mut clock, [[mut signal, _own], [mut peer, _edge_end]]) = clock(Stopwatch::start());
            clock.sleep_until(Time::ZERO);
            peer.write_all(&[0]).unwrap();
            if stopped {
                signal.write_all(&[0]).unwrap();
            }
            let began = clock.now();
            let state = clock.state.get_mut();
            assert!(state.wait(began, Span::from_secs(1)));
            let Some(run_delay_counter) = &state.run_delay_counter else { return };
            state.last_run_delay = run_delay_counter.total().unwrap();
            let woken_at = began + Span::from_secs(1);
            state.on_input_wakeup(woken_at);
            let arrived_at = clock.wakeup_arrival_at();
            if stopped {
                assert_eq!(arrived_at, Time::ZERO);
            } else {
                // The thread slept for a second, and waking it took some time.
                assert!(
                    began + Span::from_millis(500) < arrived_at
                        && arrived_at + INITIAL_WAKEUP_COST <= woken_at,
                    "{arrived_at:?}"
                );
                // The other descriptor was empty until the estimated arrival time.
                assert_eq!(clock.state.get_mut().empty[SIGNALS], arrived_at);
            }
        }
    }
}
