use catnip_base::{Span, Time};

/// Equal intervals of a timeline.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Grid {
    from: Time,
    until: Time,
    intervals: u32,
}

impl Grid {
    pub(in crate::run) fn new(from: Time, until: Time, intervals: u32) -> Self {
        Self { from, until, intervals }
    }

    pub(super) fn range(&self) -> (Time, Time) {
        (self.from, self.until)
    }

    pub(super) fn intervals(&self) -> u32 {
        self.intervals
    }

    /// Returns the length of an interval, s.
    pub(super) fn interval_s(&self) -> f64 {
        self.until.since(self.from).as_secs() / f64::from(self.intervals)
    }

    /// Returns the end of an interval, counted from 1; the end of interval 0 is the start of the timeline.
    pub(super) fn end_of(&self, number: u32) -> Time {
        let all = u128::from(self.until.since(self.from).as_nanos());
        self.from + Span::from_nanos((all * u128::from(number) / u128::from(self.intervals)) as u64)
    }

    /// Returns the number of the interval to whose end `at` counts, from 1; 0 at or before the start. `None` after the end.
    pub(super) fn interval_of(&self, at: Time) -> Option<u32> {
        if at <= self.from {
            return Some(0);
        }
        if at > self.until {
            return None;
        }
        let all = u128::from(self.until.since(self.from).as_nanos());
        let since = u128::from(at.since(self.from).as_nanos());
        let mut number = (since * u128::from(self.intervals)).div_ceil(all) as u32;
        // The ends are rounded down to nanoseconds.
        while self.end_of(number) < at {
            number += 1;
        }
        Some(number)
    }

    /// Returns true if `at` lies in the timeline.
    pub(super) fn contains(&self, at: Time) -> bool {
        self.from <= at && at <= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_its_end_and_not_its_start() {
        let at = |ns| Time::ZERO + Span::from_nanos(ns);
        let grid = Grid::new(at(10), at(20), 3);
        assert_eq!([0, 1, 2, 3].map(|number| grid.end_of(number)), [10, 13, 16, 20].map(at));
        let of = [0, 10, 11, 13, 14, 16, 17, 20, 21].map(|ns| grid.interval_of(at(ns)));
        let expected = [0, 0, 1, 1, 2, 2, 3, 3].map(Some);
        assert_eq!((&of[..8], of[8]), (&expected[..], None));
    }
}
