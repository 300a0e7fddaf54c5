//! Histogram of durations with a fixed memory size.

use crate::Span;

/// Histogram of durations. The width of a bucket is at most 1/64 of the durations in the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    largest: u64,
    smallest: u64,
    sum: u128,
}

/// Buckets per power of two.
const STEPS: u32 = 64;
const STEP_BITS: u32 = STEPS.ilog2();
const BUCKETS: usize = ((64 - STEP_BITS + 1) * STEPS) as usize;

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), count: 0, largest: 0, smallest: u64::MAX, sum: 0 }
    }
}

impl Histogram {
    /// Records a duration.
    #[inline]
    pub fn record(&mut self, span: Span) {
        let nanos = span.as_nanos();
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.largest = self.largest.max(nanos);
        self.smallest = self.smallest.min(nanos);
        self.sum += u128::from(nanos);
    }

    /// Returns the number of recorded durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the exact smallest duration; zero if no duration was recorded.
    pub fn min(&self) -> Span {
        Span::from_nanos(if self.count == 0 { 0 } else { self.smallest })
    }

    /// Returns the exact largest duration; zero if no duration was recorded.
    pub fn max(&self) -> Span {
        Span::from_nanos(self.largest)
    }

    /// Returns the mean duration, exact to the nanosecond; zero if no duration was recorded.
    pub fn mean(&self) -> Span {
        Span::from_nanos((self.sum / u128::from(self.count.max(1))) as u64)
    }

    /// Returns the `q` quantile of the durations, too large by at most 1/64 of its value; zero if no duration was recorded.
    pub fn quantile(&self, q: f64) -> Span {
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Span::from_nanos(bucket_max(bucket).min(self.largest));
            }
        }
        Span::ZERO
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let Some(exponent) = nanos.checked_ilog2().filter(|&exponent| exponent > STEP_BITS) else {
        return nanos as usize;
    };
    let shift = exponent - STEP_BITS;
    (shift * STEPS) as usize + (nanos >> shift) as usize
}

/// Returns the largest value in a bucket.
fn bucket_max(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let steps = u64::from(STEPS);
    if bucket < 2 * steps {
        return bucket;
    }
    let shift = bucket / steps - 1;
    ((bucket % steps + steps) << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_known_values() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|n| histogram.record(Span::from_micros(n)));
        for (q, exact) in [(0.5, 500_000), (0.9, 900_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let found = histogram.quantile(q).as_nanos();
            assert!(found >= exact && found - exact <= exact / 64, "{q}: {found}");
        }
        assert_eq!(histogram.max(), Span::from_millis(1));
        assert_eq!(histogram.min(), Span::from_micros(1));
        assert_eq!(histogram.mean(), Span::from_nanos(500_500));
        assert_eq!(Histogram::default().quantile(0.99), Span::ZERO);
    }

    proptest! {
        #[test]
        fn a_value_is_in_the_bucket_that_ends_at_or_after_it(nanos: u64) {
            let last = bucket_max(bucket(nanos));
            prop_assert!(last >= nanos && last - nanos <= nanos / 64);
            prop_assert!(bucket(nanos) < BUCKETS);
        }
    }
}
