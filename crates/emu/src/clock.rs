//! The two things that are not deterministic, behind traits: what time it is, and when packets come.

use crate::sys::{self, Readable};
use catnip_base::{Span, Time};
use std::cell::RefCell;
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
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
}

/// A device at the edge of a network.
pub trait PacketIo: Debug {
    /// Reads one packet, with the time at which it came, or nothing if none has come. A packet longer than `buffer` is
    /// cut.
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<(Time, usize)>>;
    /// Writes one packet.
    fn send(&mut self, packet: &[u8]) -> io::Result<()>;
    /// Where the IP packet begins in what was read; nothing if there is none, or one that must not wait.
    #[inline]
    fn ip_at(&self, _read: &[u8]) -> Option<usize> {
        Some(0)
    }
}

/// The monotonic clock, counted from when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Time zero is now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock of the host in real time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// From 1970 to time zero.
    #[expect(clippy::disallowed_methods, reason = "this is the clock of the host in real time")]
    pub fn since_1970(&self) -> Span {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let now = Span::from_nanos(now.as_nanos() as u64);
        now.saturating_sub(self.now().since(Time::ZERO))
    }

    /// Time since it was made.
    #[inline]
    #[expect(clippy::disallowed_methods, reason = "this is the clock of the host in real time")]
    pub fn now(&self) -> Time {
        let elapsed = Instant::now().duration_since(self.0);
        Time::from_nanos(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
    }
}

/// The wall clock. It sleeps in `ppoll(2)`, which returns as soon as one of the descriptors can be read.
///
/// A sleeping thread is woken 40 to 100 us late, so the last `margin` before a deadline can be spent looking at the
/// clock instead. That is of use only to a thread that nobody pushes aside: with other work on the same CPU, spinning
/// makes it late by whole time slices. Spinning threads push each other aside, too, and cost CPU time, so a budget can
/// be set: a clock that has used it up sleeps to the end.
#[derive(Debug)]
pub struct WallClock {
    stopwatch: Stopwatch,
    margin: Span,
    waiting: RefCell<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    fds: Vec<Readable>,
    longest_run: Option<Span>,
    slept_at: Time,
    budget: Option<Budget>,
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

/// After so long without a pause a real-time thread lets others run for [`PAUSE`].
const LONGEST_RUN: Span = Span::from_millis(50);
const PAUSE: Span = Span::from_micros(500);

impl WallClock {
    /// A clock that counts on `stopwatch` and watches these descriptors, which must stay open.
    pub fn new<'a>(
        stopwatch: Stopwatch,
        margin: Span,
        watched: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> Self {
        let fds = watched.into_iter().map(Readable::new).collect();
        let waiting = Waiting { fds, longest_run: None, slept_at: stopwatch.now(), budget: None };
        Self { stopwatch, margin, waiting: RefCell::new(waiting) }
    }

    /// Pauses now and then even if there is always work, as a thread before which nothing else runs must.
    pub fn give_way(&mut self) {
        self.waiting.get_mut().longest_run = Some(LONGEST_RUN);
    }

    /// Spins for a share of 1 % of all time at most.
    pub fn save_cpu(&mut self) {
        self.waiting.get_mut().budget = Some(Budget { left: Budget::SAVED, counted: self.stopwatch.now() });
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

    /// The first descriptor is the host's own, those of the edges follow in their order.
    #[inline]
    fn has_come(&self, edge: usize) -> bool {
        self.is_ready(edge + 1)
    }

    fn sleep_until(&self, deadline: Time) {
        let waiting = &mut *self.waiting.borrow_mut();
        let mut now = self.now();
        if waiting.longest_run.is_some_and(|longest| now.since(waiting.slept_at) > longest) {
            sys::wait_readable(&mut [], Some(PAUSE));
            now = self.now();
            waiting.slept_at = now;
        }
        let spin = waiting.budget.as_mut().is_none_or(|budget| budget.allows(now, self.margin));
        let margin = if spin { self.margin } else { Span::ZERO };
        let sleep = deadline.since(now).saturating_sub(margin);
        let for_ever = deadline == Time::NEVER;
        let came = sys::wait_readable(&mut waiting.fds, (!for_ever).then_some(sleep));
        if came || for_ever {
            // Nothing says whether it slept; if it did not, the pause comes a little early or late.
            let woken = self.now();
            if woken.since(now) > Span::from_micros(100) {
                waiting.slept_at = woken;
            }
            return;
        }
        let started = self.now();
        if sleep > Span::ZERO {
            waiting.slept_at = started;
        }
        if started >= deadline {
            return;
        }
        while self.now() < deadline && !sys::wait_readable(&mut waiting.fds, Some(Span::ZERO)) {
            std::hint::spin_loop();
        }
        if let Some(budget) = &mut waiting.budget {
            budget.left = budget.left.saturating_sub(self.now().since(started));
        }
    }
}

/// A TUN device.
#[derive(Clone, Debug)]
pub struct Tun {
    fd: Rc<OwnedFd>,
    stopwatch: Stopwatch,
    /// Bytes before each packet.
    header: usize,
}

impl Tun {
    /// A device that is open; packets are given the time of `stopwatch`.
    pub fn new(fd: OwnedFd, stopwatch: Stopwatch) -> Self {
        Self { fd: Rc::new(fd), stopwatch, header: 0 }
    }

    /// Packets have a virtual header in front, and go out with the one with which they came.
    pub fn with_virtual_header(self) -> Self {
        Self { header: sys::VIRTUAL_HEADER, ..self }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (*self.fd).as_fd()
    }
}

impl PacketIo for Tun {
    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<(Time, usize)>> {
        loop {
            match rustix::io::read(&*self.fd, &mut *buffer) {
                Ok(len) => return Ok(Some((self.stopwatch.now(), len))),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error.into()),
                },
            }
        }
    }

    #[inline]
    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        Ok(rustix::io::write(&*self.fd, packet).map(|_| ())?)
    }

    #[inline]
    fn ip_at(&self, read: &[u8]) -> Option<usize> {
        (read.len() >= self.header).then_some(self.header)
    }
}
