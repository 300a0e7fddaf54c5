/// Maximum over a sliding window of rounds, computed from the three best candidates (Kathleen Nichols's algorithm; Linux's win_minmax).
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxFilter {
    /// Rounds and values of the candidates, largest value first. A candidate is never older than the previous one.
    best: [(u32, u64); 3],
    rounds: u32,
}

impl MaxFilter {
    /// Creates a filter over a window of `rounds` rounds.
    pub(super) fn new(rounds: u32) -> Self {
        Self { best: [(0, 0); 3], rounds }
    }

    pub(super) fn get(&self) -> u64 {
        self.best[0].1
    }

    /// Adds a value that was measured in round `round`.
    pub(super) fn add(&mut self, round: u32, value: u64) {
        let new = (round, value);
        let [first, second, third] = &mut self.best;
        if value >= first.1 || round - third.0 > self.rounds {
            self.best = [new; 3];
            return;
        }
        if value >= second.1 {
            (*second, *third) = (new, new);
        } else if value >= third.1 {
            *third = new;
        }
        let age = round - first.0;
        if age > self.rounds {
            // The best candidate has left the window, and the second candidate may have left it, too.
            for _ in 0..2 {
                if round - self.best[0].0 > self.rounds {
                    self.best = [self.best[1], self.best[2], new];
                }
            }
        } else if second.0 == first.0 && age > self.rounds / 4 {
            // A quarter of the window has passed without a second candidate, so it is taken from the rest of the window.
            (*second, *third) = (new, new);
        } else if third.0 == second.0 && age > self.rounds / 2 {
            *third = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_is_a_value_of_the_window_and_no_less_than_the_latest(
            values in prop::collection::vec((0u32..4, 0u64..100), 1..60)
        ) {
            let (mut filter, mut round, mut seen) = (MaxFilter::new(10), 0, Vec::new());
            for (step, value) in values {
                round += step;
                seen.push((round, value));
                filter.add(round, value);
                let window = || seen.iter().filter(|(then, _)| round - then <= 10).map(|it| it.1);
                prop_assert!(window().any(|value| value == filter.get()));
                prop_assert!(filter.get() >= value);
            }
        }
    }

    #[test]
    fn the_largest_value_is_forgotten_once_its_window_has_passed() {
        let mut filter = MaxFilter::new(10);
        filter.add(1, 100);
        (2..=11).for_each(|round| filter.add(round, 50));
        assert_eq!(filter.get(), 100);
        filter.add(12, 40);
        assert_eq!(filter.get(), 50);
    }
}
