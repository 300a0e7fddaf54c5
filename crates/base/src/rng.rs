//! Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3). A
//! stream consists of a key and a counter. Each component of a run has its own stream, which does not depend on the draws of other
//! components.

use crate::math;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: u32 = 10;

/// Component of a run that draws random numbers. Two components never share a stream, and the stream of a component does not depend on the
/// existence of other components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Drop decisions of the queue of port `n`.
    Queue(u32),
    /// Drop decisions of one of several queues of a port: index of the port, index of the queue.
    PartOfQueue(u32, u32),
    /// Choice of the packets to push out of the queue of port `n`.
    Victim(u32),
    /// Choice of the packets to push out of one of several queues of a port: index of the port, index of the queue.
    PartOfVictim(u32, u32),
    /// Stage before the queue of a port: index of the port, index of the stage.
    Before(u32, u32),
    /// Behaviour of user `n`: the order of pages and think times.
    User(u32),
    /// Properties of the `n`-th connection, such as the phase of its clock tick.
    Connection(u32),
    /// Generation of workload `n`.
    Workload(u32),
    /// Start times of the traffic of group `n`.
    Start(u32),
    /// Propagation delays of port `n`.
    Jitter(u32),
    /// Stage behind the wire of a port: index of the port, index of the stage.
    After(u32, u32),
    /// Response times of server `n`.
    Server(u32),
    /// Conditioner behind the wire of a port: index of the port, index of the conditioner.
    Conditioner(u32, u32),
    /// Outages of the wire of port `n`.
    Outage(u32),
    /// Losses of transmission attempts at the link layer of port `n`.
    Arq(u32),
    /// Processing times of a host for the packets from port `n`.
    Processing(u32),
    /// Response times of the resolver of user `n`.
    Resolver(u32),
    /// Values of range `n` of a plan.
    Design(u32),
}

impl Stream {
    fn counter_words(self) -> [u32; 2] {
        match self {
            Self::Queue(n) => [1, n],
            Self::PartOfQueue(n, part) => [14 | part << 8, n],
            Self::Before(n, stage) => [2 | stage << 8, n],
            Self::User(n) => [3, n],
            Self::Connection(n) => [4, n],
            Self::Workload(n) => [6, n],
            Self::Start(n) => [7, n],
            Self::Victim(n) => [8, n],
            Self::PartOfVictim(n, part) => [13 | part << 8, n],
            Self::Jitter(n) => [9, n],
            Self::After(n, stage) => [10 | stage << 8, n],
            Self::Server(n) => [12, n],
            Self::Conditioner(n, stage) => [11 | stage << 8, n],
            Self::Outage(n) => [15, n],
            Self::Arq(n) => [16, n],
            Self::Processing(n) => [17, n],
            Self::Design(n) => [18, n],
            Self::Resolver(n) => [19, n],
        }
    }
}

/// Stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    key: [u32; 2],
    stream: [u32; 2],
    block: u64,
    buffer: [u32; 4],
    used: u8,
}

impl Rng {
    /// Creates the stream of a component in the run with seed `seed`.
    pub fn new(seed: u64, stream: Stream) -> Self {
        let key = [seed as u32, (seed >> 32) as u32];
        Self { key, stream: stream.counter_words(), block: 0, buffer: [0; 4], used: 4 }
    }

    /// Returns stream `n` of the same component, from the beginning of the stream. `n` is encoded like the index of a stage.
    pub fn branch(&self, n: u32) -> Self {
        let stream = [self.stream[0] | (n + 1) << 8, self.stream[1]];
        Self { key: self.key, stream, block: 0, buffer: [0; 4], used: 4 }
    }

    /// Returns 32 uniform bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            let counter = [self.block as u32, (self.block >> 32) as u32, self.stream[0], self.stream[1]];
            self.buffer = philox(counter, self.key);
            self.block += 1;
            self.used = 0;
        }
        let word = self.buffer[self.used as usize];
        self.used += 1;
        word
    }

    /// Draws uniformly from [0, 1) with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        let (high, low) = (u64::from(self.next_u32()), u64::from(self.next_u32()));
        ((high << 32 | low) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draws uniformly from `0..n` without bias; `n` must be positive.
    pub fn below(&mut self, n: u32) -> u32 {
        assert!(n > 0, "there is no number below zero");
        // Lemire's method: the high word of the product is uniform if products whose low word is below the threshold are rejected.
        let threshold = n.wrapping_neg() % n;
        loop {
            let product = u64::from(self.next_u32()) * u64::from(n);
            if product as u32 >= threshold {
                return (product >> 32) as u32;
            }
        }
    }

    /// Returns true with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Draws from the exponential distribution with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * math::ln(1.0 - self.uniform())
    }

    /// Draws from the standard normal distribution (Box-Muller method; the second number of each pair is not used).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * math::ln(1.0 - self.uniform())).sqrt();
        radius * math::cos(std::f64::consts::TAU * self.uniform())
    }

    /// Draws from the Pareto distribution with the given shape and minimum.
    pub fn pareto(&mut self, shape: f64, minimum: f64) -> f64 {
        minimum * math::pow(1.0 - self.uniform(), -1.0 / shape)
    }

    /// Shuffles `items` (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u32 + 1) as usize);
        }
    }
}

fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let left = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let right = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (right >> 32) as u32 ^ counter[1] ^ key[0],
            right as u32,
            (left >> 32) as u32 ^ counter[3] ^ key[1],
            left as u32,
        ];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known-answer vectors published with Random123 (`kat_vectors`, philox4x32 10).
    #[test]
    fn philox_gives_the_published_known_answers() {
        let ones = u32::MAX;
        let cases = [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([ones; 4], [ones; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ];
        for (counter, key, answer) in cases {
            assert_eq!(philox(counter, key), answer);
        }
    }

    #[test]
    fn streams_differ_by_seed_and_component_and_repeat_themselves() {
        let draw = |seed, stream| {
            (0..4).map(|_| 0).scan(Rng::new(seed, stream), |r, _: i32| Some(r.next_u32())).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, Stream::Queue(0)), draw(1, Stream::Queue(0)));
        assert_ne!(draw(1, Stream::Queue(0)), draw(2, Stream::Queue(0)));
        assert_ne!(draw(1, Stream::Queue(0)), draw(1, Stream::Queue(1)));
        assert_ne!(draw(1, Stream::Queue(0)), draw(1, Stream::Before(0, 0)));
    }

    #[test]
    fn no_two_components_share_a_stream() {
        use Stream::*;
        let of_one = [Queue, Victim, User, Connection, Workload, Start, Jitter, Server, Outage, Arq, Design]
            .map(|of| vec![of(3)]);
        let of_several = [PartOfQueue, PartOfVictim, Before, After, Conditioner];
        let of_several = of_several.map(|of| (0..5).map(|part| of(3, part)).collect::<Vec<_>>());
        let mut words: Vec<_> = of_one
            .into_iter()
            .chain(of_several)
            .flatten()
            .map(|stream| (stream.counter_words(), stream))
            .collect();
        words.sort_by_key(|(words, _)| *words);
        for pair in words.windows(2) {
            assert_ne!(pair[0].0, pair[1].0, "{:?} and {:?}", pair[0].1, pair[1].1);
        }
    }

    #[test]
    fn means_and_proportions_are_within_four_standard_errors() {
        let mut rng = Rng::new(7, Stream::User(0));
        let n = 100_000;
        let mean = (0..n).map(|_| rng.exponential(40.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 40.0).abs() < 4.0 * 40.0 / f64::from(n).sqrt(), "{mean}");
        let mut counts = [0u32; 7];
        (0..n).for_each(|_| counts[rng.below(7) as usize] += 1);
        let expected = f64::from(n) / 7.0;
        let chi_square: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
        assert!(chi_square < 22.46, "6 degrees of freedom, p > 0.001: {chi_square}");
    }
}
