use crate::stage::probability;
use crate::{Backlog, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share, Span, Time, as_text};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// A link layer that sends again what its wire has lost, with selective repeat (RFC 3366, section 1.4), as configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArqSpec {
    /// The probability that an attempt is lost, in [0, 1).
    pub loss: f64,
    /// From the beginning of a lost attempt to that of the next one, if the wire is free then.
    pub retry: Span,
    /// A packet is given up when so many attempts were lost.
    pub tries: NonZeroU32,
    /// The other end hands packets over in order, as those before them have arrived or were given up.
    pub in_order: bool,
}

const USUAL_TRIES: NonZeroU32 = NonZeroU32::new(7).expect("7 is not 0");

impl Kind for ArqSpec {
    const USAGE: &'static [Usage] = &[(
        "arq:loss=0.05,retry=8ms[,tries=7,in_order=false]",
        "each attempt is lost with that probability and repeated after that time, up to 7 of them in all",
    )];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let Share(loss) = text.key("loss")?;
        Ok(Self {
            loss: probability(text, loss)?,
            retry: text.key("retry")?,
            tries: text.option("tries", USUAL_TRIES)?,
            in_order: text.option("in_order", false)?,
        })
    }

    fn write(&self, to: &mut Written) {
        to.name("arq")
            .key("loss", self.loss)
            .key("retry", self.retry)
            .option("tries", self.tries, USUAL_TRIES)
            .option("in_order", self.in_order, false);
    }
}

as_text!(ArqSpec);

impl ArqSpec {
    /// The probability that a packet is given up.
    pub fn residual_loss(&self) -> f64 {
        self.loss.powf(f64::from(self.tries.get()))
    }

    /// The link layer of one port; `rng` is the port's stream for it.
    pub fn build(self, rng: Rng) -> Arq {
        Arq {
            spec: self,
            rng,
            lost: VecDeque::new(),
            given_up: VecDeque::new(),
            crossing: 0,
            crossed: 0,
            arriving: VecDeque::new(),
            handed_over: 0,
            last: Time::ZERO,
        }
    }
}

/// Attempts of packets to cross a wire.
#[derive(Debug)]
pub struct Arq {
    spec: ArqSpec,
    rng: Rng,
    /// What is sent again, in order of time.
    lost: VecDeque<(Time, Attempt)>,
    /// Which of those on the wire do not arrive, counted as they were put there.
    given_up: VecDeque<u64>,
    /// How many were put on the wire, and how many came to its end.
    crossing: u64,
    crossed: u64,
    /// Where order is kept: what was begun and not put on the wire, in that order; `None`: it has not arrived.
    arriving: VecDeque<Option<(Packet, bool)>>,
    /// How many were put on the wire in order, and when the last of them arrives.
    handed_over: u64,
    last: Time,
}

/// A packet that is sent, perhaps again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) packet: Packet,
    /// Where order is kept: its number among all.
    number: u64,
    /// Those before this one.
    lost: u32,
}

impl Attempt {
    /// Of a packet that no link layer sends again.
    pub(crate) fn only(packet: Packet) -> Self {
        Self { packet, number: 0, lost: 0 }
    }
}

impl Arq {
    /// When something is sent again, if the wire is free then.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.lost.front().map(|(at, _)| *at)
    }

    /// What is sent again now.
    pub(crate) fn again(&mut self, now: Time) -> Option<Attempt> {
        self.wake_at().filter(|&at| at <= now)?;
        self.lost.pop_front().map(|(_, attempt)| attempt)
    }

    /// The first attempt of a packet.
    pub(crate) fn first(&mut self, packet: Packet) -> Attempt {
        let number = self.handed_over + self.arriving.len() as u64;
        if self.spec.in_order {
            self.arriving.push_back(None);
        }
        Attempt { number, ..Attempt::only(packet) }
    }

    /// An attempt that began at `start` would arrive at the time in its packet, which is no earlier than that of the one before.
    /// Puts all on the wire that is known to arrive, and when.
    pub(crate) fn attempt(&mut self, start: Time, attempt: Attempt, mut onto_wire: impl FnMut(Packet)) {
        let Attempt { packet, number, lost } = attempt;
        let is_lost = self.rng.chance(self.spec.loss);
        if is_lost && lost + 1 < self.spec.tries.get() {
            self.lost.push_back((start + self.spec.retry, Attempt { lost: lost + 1, ..attempt }));
            return;
        }
        if !self.spec.in_order {
            self.note(is_lost);
            return onto_wire(packet);
        }
        self.arriving[(number - self.handed_over) as usize] = Some((packet, is_lost));
        while let Some(&Some((packet, is_lost))) = self.arriving.front() {
            self.arriving.pop_front();
            self.handed_over += 1;
            self.note(is_lost);
            self.last = self.last.max(packet.arrived);
            onto_wire(Packet { arrived: self.last, ..packet });
        }
    }

    /// A packet has come to the end of the wire: does it arrive?
    pub(crate) fn arrives(&mut self) -> bool {
        let is_given_up = self.given_up.front() == Some(&self.crossed);
        self.crossed += 1;
        if is_given_up {
            self.given_up.pop_front();
        }
        !is_given_up
    }

    /// What is not on the wire.
    pub(crate) fn backlog(&self) -> Backlog {
        let mut backlog = Backlog::default();
        self.lost.iter().for_each(|(_, attempt)| backlog.add(&attempt.packet));
        self.arriving.iter().flatten().for_each(|(packet, _)| backlog.add(packet));
        backlog
    }

    fn note(&mut self, is_lost: bool) {
        if is_lost {
            self.given_up.push_back(self.crossing);
        }
        self.crossing += 1;
    }
}
