use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A point on one run's clock, in nanoseconds since the run began.
///
/// Two points cannot be added; their difference is a [`Span`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Time {
    /// The beginning of the run.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the beginning.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the beginning.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the beginning.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// Time since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A length of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A length of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// A length of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A length of `secs` whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * NANOS_PER_SECOND)
    }

    /// A length of `secs` seconds, rounded to the nearest nanosecond; negative and absurd values saturate.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * NANOS_PER_SECOND as f64).round() as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// The difference to a shorter span, or zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// How many whole `unit`s fit.
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
    /// Panics in debug builds if the right side is later: a clock that goes back is a bug.
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

/// A line rate in bit/s; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// A rate of `bits` bit/s, or `None` for zero.
    pub const fn from_bits_per_second(bits: u64) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// The time `bytes` bytes take on the wire, rounded down to the nanosecond.
    pub fn time_of(self, bytes: u64) -> Span {
        Span((u128::from(bytes) * 8 * u128::from(NANOS_PER_SECOND) / u128::from(self.0)) as u64)
    }
}

/// How long packets take on a wire of constant rate, exact over any busy period.
///
/// A packet's time is rarely a whole number of nanoseconds. The fraction is carried from one packet of a busy
/// period to the next, so that a link is never wrong by more than one nanosecond, however long it is busy.
#[derive(Clone, Debug)]
pub struct WireTime {
    rate: u64,
    carry: u64,
    last_end: Time,
    cached_len: u32,
    whole: u64,
    fraction: u64,
}

impl WireTime {
    /// A wire of the given rate that is idle.
    pub fn new(rate: Rate) -> Self {
        Self { rate: rate.0, carry: 0, last_end: Time::ZERO, cached_len: 0, whole: 0, fraction: 0 }
    }

    /// Its rate.
    pub fn rate(&self) -> Rate {
        Rate(self.rate)
    }

    /// When the last bit of `len` bytes has left if the first one leaves at `start`.
    #[inline]
    pub fn finish(&mut self, start: Time, len: u32) -> Time {
        if len != self.cached_len {
            let scaled = u64::from(len) * 8 * NANOS_PER_SECOND;
            (self.cached_len, self.whole, self.fraction) = (len, scaled / self.rate, scaled % self.rate);
        }
        if start != self.last_end {
            self.carry = 0;
        }
        let mut nanos = self.whole;
        self.carry += self.fraction;
        if self.carry >= self.rate {
            self.carry -= self.rate;
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
