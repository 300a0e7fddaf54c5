use super::pages::whole_bytes;
use catnip_base::{Distribution, Rng, Span};

/// A connection vector (Weigle et al., "Tmix: a tool for generating realistic TCP application workloads in ns-2", ACM CCR 36(3),
/// 2006): what the two ends of a TCP connection have said to each other and how long they have waited in between, without
/// what the network made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionVector {
    /// When it is opened, microseconds after the beginning.
    pub start_us: u64,
    /// What the waits of its ends depend on.
    pub order: Order,
    /// What both ends say. Those of one end are in the order in which it says them; in a sequential vector, so are all.
    pub adus: Vec<Adu>,
    /// What is known of the connection that was recorded.
    pub observed: Observed,
}

/// What the waits of the ends of a connection depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Who speaks has heard the other end: request and response.
    Sequential,
    /// Each end keeps its own time: pipelining, file sharing.
    Concurrent,
}

/// An application data unit: what one end says at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adu {
    /// Who says it.
    pub by: Side,
    /// What it waits for first.
    pub after: After,
    /// How long it waits then, microseconds.
    pub wait_us: u64,
    /// Its length; 0 is a FIN: this end says no more.
    pub bytes: u64,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    /// Opens it: the client.
    Initiator,
    /// Accepts it: the server.
    Acceptor,
}

/// What an end waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It has said what it has to say before this; without such, the connection is opened.
    Sent,
    /// All has arrived that the other end says before this.
    Received,
}

/// What is known of a connection that was recorded. Replaying it takes none of this: the scenario says what paths are like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Two numbers under which it is known.
    pub ids: [u64; 2],
    /// Largest windows of the initiator and the acceptor, bytes.
    pub window_bytes: Option<[u64; 2]>,
    /// Their maximum segment sizes, bytes.
    pub mss_bytes: Option<[u64; 2]>,
    /// The shortest round trip, microseconds.
    pub min_rtt_us: Option<u64>,
    /// The share of packets lost on the way to the acceptor, and to the initiator.
    pub loss: Option<[f64; 2]>,
}

impl ConnectionVector {
    /// How often something is said and answered. An end that says several things in a row begins an exchange with each, and
    /// so does an acceptor that speaks first.
    pub fn epochs(&self) -> u64 {
        let mut asked = false;
        let mut epochs = 0;
        for adu in self.adus.iter().filter(|adu| adu.bytes > 0) {
            epochs += u64::from(adu.by == Side::Initiator || !asked);
            asked = adu.by == Side::Initiator;
        }
        epochs
    }

    /// Bytes that this end says.
    pub fn bytes(&self, side: Side) -> u64 {
        self.adus.iter().filter(|adu| adu.by == side).map(|adu| adu.bytes).sum()
    }

    /// Is it made of requests of the initiator, each with one response, and an end?
    pub fn is_request_response(&self) -> bool {
        let said: Vec<&Adu> = self.adus.iter().filter(|adu| adu.bytes > 0).collect();
        let in_turn = said.chunks(2).all(|epoch| match epoch {
            [request, response] => {
                (request.by, response.by, response.after)
                    == (Side::Initiator, Side::Acceptor, After::Received)
            }
            _ => false,
        });
        let waits = said.iter().skip(1).all(|adu| adu.after == After::Received);
        self.order == Order::Sequential && in_turn && waits
    }
}

/// Makes vectors of requests and bursts of response with idle times in between (CWV-S9).
#[derive(Clone, Debug, PartialEq)]
pub struct VectorGenerator {
    /// How many connections.
    pub connections: u32,
    /// They are opened in this time, each at any moment of it with the same chance.
    pub over: Span,
    /// Requests of a connection.
    pub epochs: Distribution,
    /// Size of a request, bytes.
    pub request_bytes: Distribution,
    /// Size of a response, bytes.
    pub response_bytes: Distribution,
    /// Seconds from a response to the next request.
    pub idle_s: Distribution,
    /// Seconds that the server takes.
    pub server_s: Distribution,
}

/// More requests over one connection than any server allows: a bound on what a heavy tail can ask for.
const MAX_EPOCHS: f64 = 1000.0;

/// What a vector says of the windows if nothing limits them: the most that a header without options can announce (RFC 9293,
/// section 3.1).
const WINDOW_BYTES: u64 = 65_535;

impl VectorGenerator {
    /// All connections, in the order in which they are opened. What happens on each does not depend on the others.
    pub fn generate(&self, rng: &Rng) -> Vec<ConnectionVector> {
        let mut drawn = rng.clone();
        let over_us = self.over.as_nanos() / 1000;
        let mut starts: Vec<u64> =
            (0..self.connections).map(|_| (drawn.uniform() * over_us as f64) as u64).collect();
        starts.sort_unstable();
        let vector = |(number, start_us)| ConnectionVector {
            start_us,
            order: Order::Sequential,
            adus: self.draw(&mut rng.branch(number)),
            observed: Observed {
                ids: [number.into(), number.into()],
                window_bytes: Some([WINDOW_BYTES; 2]),
                ..Observed::default()
            },
        };
        (0..).zip(starts).map(vector).collect()
    }

    fn draw(&self, rng: &mut Rng) -> Vec<Adu> {
        let epochs = self.epochs.draw(rng).round().clamp(1.0, MAX_EPOCHS) as usize;
        let mut adus = Vec::with_capacity(2 * epochs);
        for epoch in 0..epochs {
            let (after, wait_us) = match epoch {
                0 => (After::Sent, 0),
                _ => (After::Received, whole_us(self.idle_s.draw(rng))),
            };
            let request = whole_bytes(self.request_bytes.draw(rng));
            adus.push(Adu { by: Side::Initiator, after, wait_us, bytes: request });
            let wait_us = whole_us(self.server_s.draw(rng));
            let response = whole_bytes(self.response_bytes.draw(rng));
            adus.push(Adu { by: Side::Acceptor, after: After::Received, wait_us, bytes: response });
        }
        adus
    }
}

/// A wait as it was drawn, in whole microseconds: at least one, since Tmix takes 0 for no wait at all.
fn whole_us(seconds: f64) -> u64 {
    (Span::from_secs_f64(seconds).as_nanos() / 1000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Stream;

    fn generator() -> VectorGenerator {
        let fixed = Distribution::Constant;
        VectorGenerator {
            connections: 40,
            over: Span::from_secs(10),
            epochs: fixed(2.4),
            request_bytes: fixed(300.0),
            response_bytes: Distribution::Lognormal { mu: 9.0, sigma: 1.0, maximum: 1e6 },
            idle_s: Distribution::Pareto { shape: 0.5, minimum: 1.0, maximum: 60.0 },
            server_s: fixed(0.0),
        }
    }

    fn generate(seed: u64, connections: u32) -> Vec<ConnectionVector> {
        VectorGenerator { connections, ..generator() }.generate(&Rng::new(seed, Stream::Workload(0)))
    }

    #[test]
    fn the_same_seed_gives_the_same_vectors_and_another_seed_others() {
        assert_eq!(generate(1, 40), generate(1, 40));
        assert_ne!(generate(1, 40), generate(2, 40));
    }

    #[test]
    fn what_happens_on_a_connection_does_not_depend_on_how_many_there_are() {
        let adus = |vectors: Vec<ConnectionVector>| vectors.into_iter().map(|it| it.adus).collect::<Vec<_>>();
        assert_eq!(adus(generate(1, 10)), adus(generate(1, 40))[..10]);
    }

    #[test]
    fn connections_are_opened_in_order_and_in_time_and_answer_each_request() {
        let vectors = generate(3, 40);
        assert!(vectors.is_sorted_by_key(|vector| vector.start_us));
        assert!(vectors.iter().all(|vector| vector.start_us < 10_000_000));
        for vector in &vectors {
            assert!(vector.is_request_response());
            assert_eq!((vector.epochs(), vector.adus.len()), (2, 4));
            let waits: Vec<u64> = vector.adus.iter().map(|adu| adu.wait_us).collect();
            assert_eq!((waits[0], waits[1], waits[3]), (0, 1, 1), "{waits:?}");
            assert!((1_000_000..=60_000_000).contains(&waits[2]), "{waits:?}");
        }
    }

    #[test]
    fn an_epoch_begins_with_a_request_or_with_what_nobody_has_asked_for() {
        use Side::{Acceptor, Initiator};
        let vector = |sides: &[Side]| ConnectionVector {
            start_us: 0,
            order: Order::Sequential,
            adus: sides.iter().map(|&by| Adu { by, after: After::Received, wait_us: 1, bytes: 9 }).collect(),
            observed: Observed::default(),
        };
        for (sides, epochs, in_turn) in [
            (&[Initiator, Acceptor, Initiator, Acceptor][..], 2, true),
            (&[Acceptor, Initiator, Acceptor], 2, false),
            (&[Initiator, Acceptor, Acceptor, Acceptor], 3, false),
            (&[Initiator, Initiator, Acceptor, Initiator], 3, false),
        ] {
            let vector = vector(sides);
            assert_eq!((vector.epochs(), vector.is_request_response()), (epochs, in_turn), "{sides:?}");
        }
    }
}
