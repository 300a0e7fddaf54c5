use super::pages::round_to_bytes;
use catnip_base::{Distribution, Rng, Span};

/// Connection vector (Weigle et al., "Tmix: a tool for generating realistic TCP application workloads in ns-2", ACM CCR 36(3), 2006): the
/// data units that the two ends of a TCP connection have exchanged and the waiting times in between, without the effects of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionVector {
    /// Time of the opening, microseconds after the start of the run.
    pub start_us: u64,
    /// Dependence of the transmissions of each end on the transmissions of the other end.
    pub order: Order,
    /// Data units of both ends. The units of each end are in the order of sending. In a sequential vector, the units of both ends together
    /// are in the order of sending.
    pub adus: Vec<Adu>,
    /// Measurements of the recorded connection.
    pub observed: Observed,
}

/// Dependence of the transmissions of each end of a connection on the transmissions of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each end sends after receiving from the other: request and response.
    Sequential,
    /// Each end sends at its own times: pipelining, file sharing.
    Concurrent,
}

/// Application data unit: data that one end sends at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adu {
    /// Sending end.
    pub by: Side,
    /// Event from which the waiting time counts.
    pub after: After,
    /// Waiting time after this event, microseconds.
    pub wait_us: u64,
    /// Length, bytes; 0 means a FIN, after which this end sends no more data.
    pub bytes: u64,
}

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    /// Client, which opens the connection.
    Initiator,
    /// Server, which accepts the connection.
    Acceptor,
}

/// Event from which a waiting time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Transmission of the preceding data unit of the same end; for the first unit, the opening of the connection.
    Sent,
    /// Arrival of all preceding data units of the other end.
    Received,
}

/// Measurements of a recorded connection. Replay does not use them: the scenario specifies the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Two identifiers of the connection.
    pub ids: [u64; 2],
    /// Largest windows of the initiator and the acceptor, bytes.
    pub window_bytes: Option<[u64; 2]>,
    /// Maximum segment sizes of the initiator and the acceptor, bytes.
    pub mss_bytes: Option<[u64; 2]>,
    /// Minimum round-trip time, microseconds.
    pub min_rtt_us: Option<u64>,
    /// Loss rate of packets to the acceptor, and of packets to the initiator.
    pub loss: Option<[f64; 2]>,
}

impl ConnectionVector {
    /// Returns the number of exchanges. Each data unit starts an exchange, except an acceptor's unit directly after a unit of the
    /// initiator.
    pub fn epochs(&self) -> u64 {
        let mut after_request = false;
        let mut epochs = 0;
        for adu in self.adus.iter().filter(|adu| adu.bytes > 0) {
            epochs += u64::from(adu.by == Side::Initiator || !after_request);
            after_request = adu.by == Side::Initiator;
        }
        epochs
    }

    /// Returns the number of bytes that this end sends.
    pub fn bytes(&self, side: Side) -> u64 {
        self.adus.iter().filter(|adu| adu.by == side).map(|adu| adu.bytes).sum()
    }

    /// Returns true if the vector consists of requests of the initiator with one response each.
    pub fn is_request_response(&self) -> bool {
        let data_adus: Vec<&Adu> = self.adus.iter().filter(|adu| adu.bytes > 0).collect();
        let in_turn = data_adus.chunks(2).all(|epoch| match epoch {
            [request, response] => {
                (request.by, response.by, response.after)
                    == (Side::Initiator, Side::Acceptor, After::Received)
            }
            _ => false,
        });
        let waits = data_adus.iter().skip(1).all(|adu| adu.after == After::Received);
        self.order == Order::Sequential && in_turn && waits
    }
}

/// Generator of vectors of requests and response bursts with idle times in between (CWV-S9).
#[derive(Clone, Debug, PartialEq)]
pub struct VectorGenerator {
    /// Number of connections.
    pub connections: u32,
    /// Period in which connections are opened, each at a uniformly distributed time.
    pub over: Span,
    /// Number of requests of a connection.
    pub epochs: Distribution,
    /// Size of a request, bytes.
    pub request_bytes: Distribution,
    /// Size of a response, bytes.
    pub response_bytes: Distribution,
    /// Seconds from a response to the next request.
    pub idle_s: Distribution,
    /// Processing time of the server, seconds.
    pub server_s: Distribution,
}

/// Maximum number of requests over one connection, more than any server allows: a bound for heavy-tailed distributions.
const MAX_EPOCHS: f64 = 1000.0;

/// Largest windows in generated vectors, bytes: the maximum that a header without options can advertise (RFC 9293, section 3.1).
const WINDOW_BYTES: u64 = 65_535;

impl VectorGenerator {
    /// Returns all connections in order of opening. The data units of each connection do not depend on the others.
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
                _ => (After::Received, round_to_us(self.idle_s.draw(rng))),
            };
            let request = round_to_bytes(self.request_bytes.draw(rng));
            adus.push(Adu { by: Side::Initiator, after, wait_us, bytes: request });
            let wait_us = round_to_us(self.server_s.draw(rng));
            let response = round_to_bytes(self.response_bytes.draw(rng));
            adus.push(Adu { by: Side::Acceptor, after: After::Received, wait_us, bytes: response });
        }
        adus
    }
}

/// Rounds a drawn waiting time down to whole microseconds, but at least one, since 0 means no waiting time in Tmix.
fn round_to_us(seconds: f64) -> u64 {
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
