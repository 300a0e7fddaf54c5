//! Lossy links: a queue wrapped by a loss model, not a link with a loss field.

use crate::queue::QueueDiscipline;
use crate::{Backlog, DropReason, Fate, Packet, Priority};
use catnip_base::{Rng, Time};
use std::fmt::Debug;

/// Decides which arrivals never get as far as the queue.
pub trait LossModel: Debug + Send {
    /// Is this arrival lost?
    fn loses(&mut self, packet: &Packet) -> bool;
}

/// A loss model as configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum LossSpec {
    /// Each packet with the same probability, independently.
    Bernoulli {
        /// Probability in [0, 1).
        probability: f64,
    },
    /// Each packet with the probability of its priority. One number is drawn per packet whatever its priority, so
    /// that equal probabilities lose the same packets as `Bernoulli` does.
    ByPriority {
        /// Probability for HIGH packets.
        high: f64,
        /// Probability for LOW packets.
        low: f64,
    },
    /// Two states with a loss probability each (Gilbert 1960, Elliott 1963); it begins in the good one.
    GilbertElliott {
        /// Good to bad, per packet.
        to_bad: f64,
        /// Bad to good, per packet.
        to_good: f64,
        /// Loss while good.
        loss_good: f64,
        /// Loss while bad.
        loss_bad: f64,
    },
    /// The packets with these numbers, counted from 1 in order of arrival, once each.
    List {
        /// Ascending, no repetition.
        packets: Vec<u64>,
    },
}

impl LossSpec {
    /// The model; `rng` is the port's loss stream.
    pub fn build(&self, rng: Rng) -> AnyLoss {
        match *self {
            Self::Bernoulli { probability } => {
                AnyLoss::ByPriority(ByPriority { probability: [probability; Priority::COUNT], rng })
            }
            Self::ByPriority { high, low } => {
                AnyLoss::ByPriority(ByPriority { probability: [high, low], rng })
            }
            Self::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                AnyLoss::GilbertElliott(GilbertElliott {
                    change: [to_bad, to_good],
                    loss: [loss_good, loss_bad],
                    bad: false,
                    rng,
                })
            }
            Self::List { ref packets } => AnyLoss::List(List { packets: packets.clone(), next: 0, seen: 0 }),
        }
    }
}

/// Independent losses with one probability per priority.
#[derive(Debug)]
pub struct ByPriority {
    probability: [f64; Priority::COUNT],
    rng: Rng,
}

impl LossModel for ByPriority {
    fn loses(&mut self, packet: &Packet) -> bool {
        self.rng.chance(self.probability[packet.priority as usize])
    }
}

/// Losses in bursts.
#[derive(Debug)]
pub struct GilbertElliott {
    change: [f64; 2],
    loss: [f64; 2],
    bad: bool,
    rng: Rng,
}

impl LossModel for GilbertElliott {
    fn loses(&mut self, _packet: &Packet) -> bool {
        if self.rng.chance(self.change[usize::from(self.bad)]) {
            self.bad = !self.bad;
        }
        self.rng.chance(self.loss[usize::from(self.bad)])
    }
}

/// Exactly the packets one asked for (CAT-S17).
#[derive(Debug)]
pub struct List {
    packets: Vec<u64>,
    next: usize,
    seen: u64,
}

impl LossModel for List {
    fn loses(&mut self, _packet: &Packet) -> bool {
        self.seen += 1;
        let hit = self.packets.get(self.next) == Some(&self.seen);
        self.next += usize::from(hit);
        hit
    }
}

/// The built-in loss models and one of your own.
#[derive(Debug)]
pub enum AnyLoss {
    /// Bernoulli, too.
    ByPriority(ByPriority),
    /// Two states.
    GilbertElliott(GilbertElliott),
    /// A given list.
    List(List),
    /// Anything else.
    Custom(Box<dyn LossModel>),
}

impl LossModel for AnyLoss {
    fn loses(&mut self, packet: &Packet) -> bool {
        match self {
            Self::ByPriority(model) => model.loses(packet),
            Self::GilbertElliott(model) => model.loses(packet),
            Self::List(model) => model.loses(packet),
            Self::Custom(model) => model.loses(packet),
        }
    }
}

/// Any queue behind a loss model: what the model takes never reaches the queue.
#[derive(Debug)]
pub struct Lossy<Q> {
    /// The model.
    pub loss: AnyLoss,
    /// The queue of those that are left.
    pub queue: Q,
}

impl<Q: QueueDiscipline> QueueDiscipline for Lossy<Q> {
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if self.loss.loses(&packet) {
            fate.dropped(now, packet, DropReason::Loss);
        } else {
            self.queue.enqueue(now, packet, fate);
        }
    }
    fn dequeue(&mut self, now: Time, fate: &mut dyn Fate) -> Option<Packet> {
        self.queue.dequeue(now, fate)
    }
    fn wake_at(&self) -> Option<Time> {
        self.queue.wake_at()
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;
    use catnip_base::Stream;

    const PACKETS: u32 = 200_000;

    /// Which of many packets, every third of them HIGH, are lost.
    fn lost(spec: &LossSpec) -> Vec<(Priority, bool)> {
        let mut model = spec.build(Rng::new(3, Stream::Loss(0)));
        let one = |n: u32| {
            let priority = if n.is_multiple_of(3) { Priority::High } else { Priority::Low };
            let packet = Packet { priority, ..Packet::new(Time::ZERO, Route::default(), 512, n) };
            (priority, model.loses(&packet))
        };
        (0..PACKETS).map(one).collect()
    }

    fn rate(lost: &[(Priority, bool)], of: impl Fn(Priority) -> bool) -> (f64, f64) {
        let chosen: Vec<bool> =
            lost.iter().filter(|(priority, _)| of(*priority)).map(|(_, lost)| *lost).collect();
        (chosen.iter().filter(|lost| **lost).count() as f64 / chosen.len() as f64, chosen.len() as f64)
    }

    fn assert_near((measured, n): (f64, f64), p: f64) {
        assert!((measured - p).abs() < 4.0 * (p * (1.0 - p) / n).sqrt() + 1e-9, "{measured} is not near {p}");
    }

    #[test]
    fn bernoulli_loses_the_share_it_is_told_to() {
        assert_near(rate(&lost(&LossSpec::Bernoulli { probability: 0.05 }), |_| true), 0.05);
    }

    #[test]
    fn each_priority_has_its_own_rate_and_equal_rates_lose_the_same_packets_as_bernoulli() {
        let split = lost(&LossSpec::ByPriority { high: 0.01, low: 0.1 });
        assert_near(rate(&split, |p| p == Priority::High), 0.01);
        assert_near(rate(&split, |p| p == Priority::Low), 0.1);
        let (equal, plain) =
            (LossSpec::ByPriority { high: 0.05, low: 0.05 }, LossSpec::Bernoulli { probability: 0.05 });
        assert_eq!(lost(&equal), lost(&plain));
    }

    #[test]
    fn gilbert_elliott_has_the_stationary_rate_and_the_burst_length_of_its_chain() {
        // The bad state holds for 1 / 0.25 = 4 packets on average and a share of 0.05 / (0.05 + 0.25) of the time.
        let spec = LossSpec::GilbertElliott { to_bad: 0.05, to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 };
        let losses: Vec<bool> = lost(&spec).into_iter().map(|(_, lost)| lost).collect();
        let bursts = losses.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        let lost = losses.iter().filter(|lost| **lost).count() as f64;
        assert!((lost / f64::from(PACKETS) - 1.0 / 6.0).abs() < 0.005, "{}", lost / f64::from(PACKETS));
        assert!((lost / bursts - 4.0).abs() < 0.15, "{}", lost / bursts);
    }

    #[test]
    fn a_list_loses_exactly_its_packets_once_each() {
        let losses = lost(&LossSpec::List { packets: vec![1, 20, 22] });
        let numbers: Vec<usize> = (1..=losses.len()).filter(|&n| losses[n - 1].1).collect();
        assert_eq!(numbers, [1, 20, 22]);
    }
}
