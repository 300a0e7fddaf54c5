use crate::stage::probability;
use crate::{Backlog, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share, Span, Time, as_text, math};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Configuration of a link layer that retransmits packets lost on its wire, with selective repeat (RFC 3366, section 1.4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArqSpec {
    /// Probability that an attempt is lost, in [0, 1).
    pub loss: f64,
    /// Time from the start of a lost attempt to the start of the next attempt. The next attempt starts later if the wire is busy.
    pub retry: Span,
    /// Maximum number of attempts; a packet is given up when all of them are lost.
    pub tries: NonZeroU32,
    /// True if the other end delivers packets in order, each as soon as all packets before it have arrived or were given up.
    pub in_order: bool,
}

const DEFAULT_TRIES: NonZeroU32 = NonZeroU32::new(7).expect("7 is not 0");

impl Kind for ArqSpec {
    const USAGE: &'static [Usage] = &[(
        "arq:loss=0.05,retry=8ms[,tries=7,in_order=false]",
        "retransmission by the link: each transmission of a packet is lost with probability loss, and repeated after retry, up to tries \
         transmissions; in_order delivers packets in order",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["arq:loss=0.05,retry=8ms", "arq:loss=0.1,retry=1ms,tries=2,in_order=true"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let Share(loss) = text.key("loss")?;
        Ok(Self {
            loss: probability(text, loss)?,
            retry: text.key("retry")?,
            tries: text.option("tries", DEFAULT_TRIES)?,
            in_order: text.option("in_order", false)?,
        })
    }

    fn write(&self, to: &mut Written) {
        to.name("arq")
            .key("loss", self.loss)
            .key("retry", self.retry)
            .option("tries", self.tries, DEFAULT_TRIES)
            .option("in_order", self.in_order, false);
    }
}

as_text!(ArqSpec);

impl ArqSpec {
    /// Returns the probability that all attempts to send a packet are lost, so that the packet is given up.
    pub fn residual_loss(&self) -> f64 {
        math::pow(self.loss, f64::from(self.tries.get()))
    }

    /// Creates the link layer of one port. `rng` decides which attempts are lost.
    pub fn build(self, rng: Rng) -> Arq {
        Arq {
            spec: self,
            rng,
            lost: VecDeque::new(),
            given_up: VecDeque::new(),
            sent: 0,
            arrived: 0,
            reordering: VecDeque::new(),
            delivered: 0,
            last: Time::ZERO,
        }
    }
}

/// Link-layer ARQ of one port.
#[derive(Debug)]
pub struct Arq {
    spec: ArqSpec,
    rng: Rng,
    /// Packets to retransmit, in order of their earliest retransmission times.
    lost: VecDeque<(Time, Attempt)>,
    /// Sequence numbers of the packets on the wire that were given up and do not arrive. Packets are numbered in the order in which they
    /// are put on the wire.
    given_up: VecDeque<u64>,
    /// Number of packets put on the wire.
    sent: u64,
    /// Number of packets that have reached the end of the wire.
    arrived: u64,
    /// Packets that are still attempted or wait for earlier packets, in order of first attempts; used for in-order delivery. `None` stands
    /// for a packet that is still attempted. The flag is true for a packet that was given up.
    reordering: VecDeque<Option<(Packet, bool)>>,
    /// Number of packets removed from the front of `reordering`, for in-order delivery.
    delivered: u64,
    /// Latest arrival time of the packets put on the wire, for in-order delivery.
    last: Time,
}

/// Attempt to transmit a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) packet: Packet,
    /// Sequence number of the packet in the order of first attempts, for in-order delivery.
    number: u64,
    /// Number of lost attempts before this one.
    lost: u32,
}

impl Attempt {
    /// Returns the single attempt of a packet on a link without retransmission.
    pub(crate) fn single(packet: Packet) -> Self {
        Self { packet, number: 0, lost: 0 }
    }
}

impl Arq {
    /// Returns the earliest start time of the next retransmission; `None` if no packet waits for a retransmission. The retransmission
    /// starts later if the wire is busy.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.lost.front().map(|(at, _)| *at)
    }

    /// Removes and returns the first retransmission that is due by `now`.
    pub(crate) fn next_retransmission(&mut self, now: Time) -> Option<Attempt> {
        self.wake_at().filter(|&at| at <= now)?;
        self.lost.pop_front().map(|(_, attempt)| attempt)
    }

    /// Returns the first attempt of a packet.
    pub(crate) fn first(&mut self, packet: Packet) -> Attempt {
        let number = self.delivered + self.reordering.len() as u64;
        if self.spec.in_order {
            self.reordering.push_back(None);
        }
        Attempt { number, ..Attempt::single(packet) }
    }

    /// Makes an attempt that begins at `start`. If it succeeds, the packet arrives at the time in its `arrived` field, which must not
    /// decrease between calls. Passes each packet whose arrival time is now final to `onto_wire`, including packets that were given up,
    /// which [`Arq::on_arrival`] later rejects.
    pub(crate) fn attempt(&mut self, start: Time, attempt: Attempt, mut onto_wire: impl FnMut(Packet)) {
        let Attempt { packet, number, lost } = attempt;
        let is_lost = self.rng.chance(self.spec.loss);
        if is_lost && lost + 1 < self.spec.tries.get() {
            self.lost.push_back((start + self.spec.retry, Attempt { lost: lost + 1, ..attempt }));
            return;
        }
        if !self.spec.in_order {
            self.put_on_wire(is_lost);
            return onto_wire(packet);
        }
        self.reordering[(number - self.delivered) as usize] = Some((packet, is_lost));
        while let Some(&Some((packet, is_lost))) = self.reordering.front() {
            self.reordering.pop_front();
            self.delivered += 1;
            self.put_on_wire(is_lost);
            self.last = self.last.max(packet.arrived);
            onto_wire(Packet { arrived: self.last, ..packet });
        }
    }

    /// Handles the next packet that has reached the end of the wire. Returns false if the packet was given up.
    pub(crate) fn on_arrival(&mut self) -> bool {
        let is_given_up = self.given_up.front() == Some(&self.arrived);
        self.arrived += 1;
        if is_given_up {
            self.given_up.pop_front();
        }
        !is_given_up
    }

    /// Returns the backlog of packets that wait for a retransmission or for in-order delivery.
    pub(crate) fn backlog(&self) -> Backlog {
        let mut backlog = Backlog::default();
        self.lost.iter().for_each(|(_, attempt)| backlog.add(&attempt.packet));
        self.reordering.iter().flatten().for_each(|(packet, _)| backlog.add(packet));
        backlog
    }

    fn put_on_wire(&mut self, is_lost: bool) {
        if is_lost {
            self.given_up.push_back(self.sent);
        }
        self.sent += 1;
    }
}
