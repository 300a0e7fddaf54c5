use catnip_base::{Span, Time};

/// Tick of Linux's timer wheel, a jiffy at 250 Hz.
const TICK: Span = Span::from_millis(4);
/// Period of the wheel's third level, after which the expiries of timers of up to 16 s repeat.
pub(crate) const PERIOD: Span = Span::from_millis(256);
/// Number of ticks from which on a timer belongs to the second level. Each further level has units eight times as long.
const FIRST_LEVEL: u64 = 63;
/// Number of levels.
const LEVELS: u32 = 9;

/// Returns the expiry of a timer that is started at `now` for `delay` (kernel/time/timer.c, `calc_wheel_index`). A timer never expires early:
/// it does at the next tick after its time, or at the next eighth tick if it runs for more than 252 ms, at the next 64th above 2 s, and so on.
/// `phase` is the time from the last start of a period of the wheel to time zero.
#[inline(never)]
pub(crate) fn expiry(now: Time, delay: Span, phase: Span) -> Time {
    let tick = TICK.as_nanos();
    let ticks_now = (now + phase).as_nanos() / tick;
    let ticks = delay.as_nanos().div_ceil(tick);
    let level = match ticks {
        0..FIRST_LEVEL => 0,
        _ => (1..LEVELS - 1).find(|&level| ticks < FIRST_LEVEL << (3 * level)).unwrap_or(LEVELS - 1),
    };
    let expires = (((ticks_now + ticks) >> (3 * level)) + 1) << (3 * level);
    now + Span::from_nanos(expires * tick - (now + phase).as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    fn late_ms(now: u64, delay: u64, phase: u64) -> u64 {
        let due = ms(now + delay);
        (expiry(ms(now), Span::from_millis(delay), Span::from_millis(phase)) - due)
            .in_units_of(Span::from_millis(1))
    }

    #[test]
    fn a_timer_expires_at_the_next_tick_or_the_eighth_above_252_ms_or_the_64th_above_two_seconds() {
        assert_eq!([0, 1, 3].map(|now| late_ms(now, 40, 0)), [4, 3, 1]);
        assert_eq!(late_ms(0, 248, 0), 4, "62 ticks");
        // 63 ticks of 4 ms are 252 ms; the next multiple of 32 ms is 256.
        assert_eq!(late_ms(0, 252, 0), 4);
        assert_eq!([0, 4, 19, 20].map(|now| late_ms(now, 300, 0)), [20, 16, 1, 32]);
        // 504 ticks are 2016 ms; the next multiples of 256 ms are 2048 and 2304.
        assert_eq!([2012, 2016, 2048].map(|delay| late_ms(0, delay, 0)), [4, 32, 256]);
    }

    #[test]
    fn ticks_are_those_of_the_host_s_clock() {
        assert_eq!([0, 2].map(|phase| late_ms(0, 40, phase)), [4, 2]);
        assert_eq!([0, 10, 20].map(|phase| late_ms(0, 300, phase)), [20, 10, 32]);
        assert_eq!(late_ms(5, 300, 17), late_ms(5, 300, 17 + 256));
    }
}
