use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Point in time on the clock of a run, in nanoseconds since the run began.
///
/// Two points cannot be added; their difference is a [`Span`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// Duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Time {
    /// Beginning of the run.
    pub const ZERO: Self = Self(0);
    /// Time later than all events, also used for events that never occur.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the time `nanos` nanoseconds after the beginning of the run.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the beginning of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the beginning of the run.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// Returns the duration from `earlier` to this time, or zero if `earlier` is later than this time.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// Zero duration.
    pub const ZERO: Self = Self(0);

    /// Returns a duration of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns a duration of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// Returns a duration of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Returns a duration of `secs` whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * NANOS_PER_SECOND)
    }

    /// Returns a duration of `secs` seconds, rounded to the nearest nanosecond; negative and too large values saturate.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * NANOS_PER_SECOND as f64).round() as u64)
    }

    /// Returns the nanoseconds of the duration.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds of the duration.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// Returns this duration minus `other`, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the number of whole `unit`s in the duration.
    pub const fn in_units_of(self, unit: Self) -> u64 {
        self.0 / unit.0
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub for Time {
    type Output = Span;
    /// Returns the duration from `earlier` to this time. Panics in debug builds if `earlier` is later than this time, because a clock that
    /// runs backwards is a bug.
    fn sub(self, earlier: Self) -> Span {
        debug_assert!(self >= earlier, "time runs backwards: {self} - {earlier}");
        self.since(earlier)
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for Span {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Span {
    type Output = Self;
    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / NANOS_PER_SECOND, self.0 % NANOS_PER_SECOND)
    }
}

/// Line rate in bit/s; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Returns a rate of `bits` bit/s, or `None` for zero.
    pub const fn from_bits_per_second(bits: u64) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// Returns the rate in bit/s.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the transmission time of `bytes` bytes, rounded down to the nanosecond.
    pub fn time_of(self, bytes: u64) -> Span {
        Span((u128::from(bytes) * 8 * u128::from(NANOS_PER_SECOND) / u128::from(self.0)) as u64)
    }
}

/// Computation of transmission times on a link of constant rate, exact over any busy period.
///
/// The transmission time of a packet is rarely a whole number of nanoseconds. The fraction is carried from one packet of a busy period to
/// the next, so that the error never exceeds one nanosecond, regardless of the length of the busy period.
#[derive(Clone, Debug)]
pub struct WireTime {
    /// Rate of the link. A rate of zero does not exist, so that an enum with a wire in it needs no tag.
    rate: NonZeroU64,
    carry: u64,
    last_end: Time,
    cached_len: u32,
    whole_ns: u64,
    fraction: u64,
}

impl WireTime {
    /// Creates an idle link of the given rate.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate: NonZeroU64::new(rate.0).expect("rates are positive"),
            carry: 0,
            last_end: Time::ZERO,
            cached_len: 0,
            whole_ns: 0,
            fraction: 0,
        }
    }

    /// Returns the rate of the link.
    pub fn rate(&self) -> Rate {
        Rate(self.rate.get())
    }

    /// Returns the time at which the last bit of a packet of `len` bytes leaves if its transmission starts at `start`.
    #[inline]
    pub fn finish(&mut self, start: Time, len: u32) -> Time {
        if len != self.cached_len {
            let scaled = u64::from(len) * 8 * NANOS_PER_SECOND;
            (self.cached_len, self.whole_ns, self.fraction) = (len, scaled / self.rate, scaled % self.rate);
        }
        let rate = self.rate.get();
        if start != self.last_end {
            self.carry = 0;
        }
        let mut nanos = self.whole_ns;
        self.carry += self.fraction;
        if self.carry >= rate {
            self.carry -= rate;
            nanos += 1;
        }
        self.last_end = start + Span(nanos);
        self.last_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_512_byte_packet_takes_4096_us_at_1_mbit() {
        let mut wire = WireTime::new(Rate::from_bits_per_second(1_000_000).unwrap());
        assert_eq!(wire.finish(Time::ZERO, 512), Time::from_nanos(4_096_000));
    }

    proptest! {
        #[test]
        fn a_busy_period_is_exact_to_one_nanosecond(rate in 1_000u64..10_000_000_000, lens in prop::collection::vec(40u32..9000, 1..300)) {
            let mut wire = WireTime::new(Rate(rate));
            let mut end = Time::ZERO;
            for &len in &lens {
                end = wire.finish(end, len);
            }
            let bits: u128 = lens.iter().map(|&l| u128::from(l) * 8).sum();
            let exact = bits * u128::from(NANOS_PER_SECOND) / u128::from(rate);
            prop_assert_eq!(u128::from(end.as_nanos()), exact);
        }
    }
}
