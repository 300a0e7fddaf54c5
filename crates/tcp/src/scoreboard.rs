/// Ranges of bytes above the cumulative ACK that the peer has reported. The ranges are sorted and disjoint, and they do not touch.
///
/// The scoreboard has one entry per gap, not per segment, so it is short even if windows are large.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    ranges: Vec<(u64, u64)>,
    bytes: u64,
}

impl Scoreboard {
    /// Adds the block from `start` to `end`. Returns true if a part of the block is new.
    pub fn add(&mut self, start: u64, end: u64) -> bool {
        self.add_with(start, end, |_, _| {})
    }

    /// Adds the block from `start` to `end`. Calls `on_new_range` for each new part of the block, lowest part first. Returns true if a part
    /// of the block is new.
    pub fn add_with(&mut self, start: u64, end: u64, mut on_new_range: impl FnMut(u64, u64)) -> bool {
        if start >= end {
            return false;
        }
        let first = self.ranges.partition_point(|r| r.1 < start);
        let after = self.ranges.partition_point(|r| r.0 <= end);
        let mut from = start;
        for &(known, known_end) in &self.ranges[first..after] {
            if from < known {
                on_new_range(from, known);
            }
            from = from.max(known_end);
        }
        if from < end {
            on_new_range(from, end);
        }
        if first == after {
            self.ranges.insert(first, (start, end));
            self.bytes += end - start;
            return true;
        }
        let merged = (start.min(self.ranges[first].0), end.max(self.ranges[after - 1].1));
        let old_bytes: u64 = self.ranges[first..after].iter().map(|r| r.1 - r.0).sum();
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..after);
        self.bytes += merged.1 - merged.0 - old_bytes;
        merged.1 - merged.0 > old_bytes
    }

    /// Removes all bytes below `snd_una`. Returns true if any bytes were removed.
    pub fn advance(&mut self, snd_una: u64) -> bool {
        let before = self.bytes;
        let removed = self.ranges.partition_point(|r| r.1 <= snd_una);
        self.bytes -= self.ranges.drain(..removed).map(|r| r.1 - r.0).sum::<u64>();
        if let Some(first) = self.ranges.first_mut().filter(|r| r.0 < snd_una) {
            self.bytes -= snd_una - first.0;
            first.0 = snd_una;
        }
        self.bytes != before
    }

    /// Removes all ranges.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.bytes = 0;
    }

    /// Returns the number of reported bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the first byte at or above `from` that was not reported while a higher byte was reported.
    pub fn next_hole(&self, from: u64) -> Option<u64> {
        let index = self.ranges.partition_point(|r| r.1 < from);
        let range = self.ranges.get(index)?;
        if from < range.0 {
            return Some(from);
        }
        // `from` lies in this range or at its end. The hole begins at the end of the range if another range follows.
        self.ranges.get(index + 1).map(|_| range.1)
    }

    /// Returns the last hole between `snd_una` and `end`. No data above `end` may have been reported.
    pub fn last_hole(&self, snd_una: u64, end: u64) -> Option<(u64, u64)> {
        let below = self.ranges.partition_point(|r| r.1 < end);
        let to = self.ranges.get(below).map_or(end, |r| r.0);
        let from = if below > 0 { self.ranges[below - 1].1 } else { snd_una };
        (from < to).then_some((from, to))
    }

    /// Returns the number of reported bytes at or above `from`.
    pub fn bytes_above(&self, from: u64) -> u64 {
        self.ranges.iter().filter(|r| r.1 > from).map(|r| r.1 - r.0.max(from)).sum()
    }

    /// Returns the number of separate ranges that begin at or above `from`.
    pub fn ranges_above(&self, from: u64) -> usize {
        self.ranges.iter().filter(|r| r.0 >= from).count()
    }

    /// Returns the ranges, lowest range first.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_the_set_of_bytes_told(blocks in prop::collection::vec((0u64..60, 0u64..20), 0..40), snd_una in 0u64..80, from in 0u64..80) {
            let mut board = Scoreboard::default();
            let mut set = std::collections::BTreeSet::new();
            for (start, len) in blocks {
                let new: Vec<u64> = (start..start + len).filter(|b| !set.contains(b)).collect();
                let mut new_bytes = Vec::new();
                let has_new_data = board.add_with(start, start + len, |from, to| new_bytes.extend(from..to));
                prop_assert_eq!(has_new_data, !new.is_empty());
                prop_assert_eq!(new_bytes, new);
                set.extend(start..start + len);
            }
            let shrinks = set.iter().any(|&b| b < snd_una);
            set.retain(|&b| b >= snd_una);
            prop_assert_eq!(board.advance(snd_una), shrinks);
            prop_assert_eq!(board.bytes(), set.len() as u64);
            prop_assert_eq!(board.bytes_above(from), set.iter().filter(|&&b| b >= from).count() as u64);
            let hole = set.last().and_then(|&top| (from..top).find(|b| !set.contains(b)));
            prop_assert_eq!(board.next_hole(from), hole);
            let end = set.last().map_or(snd_una, |top| top + 1) + from % 4;
            let last = (snd_una..end).rev().find(|b| !set.contains(b)).map(|last| {
                let first = (snd_una..=last).rev().take_while(|b| !set.contains(b)).last().unwrap();
                (first, last + 1)
            });
            prop_assert_eq!(board.last_hole(snd_una, end), last);
            let starts = |b: &u64| *b >= from && !(*b > 0 && set.contains(&(b - 1)));
            let ranges = set.iter().filter(|&b| starts(b)).count();
            prop_assert_eq!(board.ranges_above(from), ranges);
            prop_assert_eq!(board.ranges().iter().map(|r| r.1 - r.0).sum::<u64>(), set.len() as u64);
            board.clear();
            prop_assert_eq!((board.bytes(), board.ranges().len()), (0, 0));
        }
    }
}
