//! Ticks of the kernel's timer wheel.

use catnip_base::Span;
use rustix::time::{ClockId, clock_gettime};
use std::io;

/// Relation of the kernel's count of ticks (jiffies) to its monotonic clock, for a kernel with 250 ticks a second.
#[derive(Clone, Copy, Debug)]
pub struct TimerWheel {
    /// Number of ticks at time zero of the monotonic clock, modulo [`TICKS`].
    ticks_at_zero: u64,
}

/// Tick of the kernel.
const TICK: Span = Span::from_millis(4);
/// Number of ticks after which the expiries of timers of up to 16 s repeat: the unit of the wheel's third level.
const TICKS: u64 = 64;
/// Number of times that the kernel is asked before a tick falls between its two answers no more.
const TRIES: usize = 20;

impl TimerWheel {
    /// Reads the count of ticks from /proc/timer_list, which only root can read.
    pub fn read() -> io::Result<Self> {
        for _ in 0..TRIES {
            let before = ticks_of_clock();
            let list = std::fs::read_to_string("/proc/timer_list")?;
            let invalid = || io::Error::new(io::ErrorKind::InvalidData, "no line \"jiffies: NUMBER\"");
            let counts: Vec<u64> = (list.lines())
                .filter_map(|line| line.strip_prefix("jiffies: ")?.trim().parse().ok())
                .collect();
            let (first, last) = (counts.first().ok_or_else(invalid)?, counts.last().ok_or_else(invalid)?);
            if first == last && before == ticks_of_clock() {
                return Ok(Self { ticks_at_zero: (first % TICKS + TICKS - before % TICKS) % TICKS });
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the count of ticks changes while it is read"))
    }

    /// Waits for the start of a period of 64 ticks.
    pub fn wait_for_period(&self) {
        let period = TICK.as_nanos() * TICKS;
        let into_period = (monotonic_ns() + self.ticks_at_zero * TICK.as_nanos()) % period;
        std::thread::sleep(std::time::Duration::from_nanos(period - into_period));
    }
}

/// Returns the number of whole ticks of the monotonic clock.
fn ticks_of_clock() -> u64 {
    monotonic_ns() / TICK.as_nanos()
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
