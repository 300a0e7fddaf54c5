use super::vectors::{Adu, After, ConnectionVector, Side};
use super::{AppEvent, Application, Interest};
use crate::connection_spec::ConnectionSpec;
use crate::host::{Conn, Host};
use crate::message_stream::Message;
use catnip_base::{FlowContext, Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Initiator of the connections of a trace: opens each connection at its time and sends the initiator's data units of its vector.
///
/// Every message carries the index of its vector, so that the acceptor can find the vector to replay.
#[derive(Debug)]
pub struct Initiator {
    replay: Replay,
    spec: ConnectionSpec,
    /// Index of the next vector whose connection is opened.
    next: usize,
    /// Difference between the indices of successive vectors of this initiator.
    step: usize,
}

/// Acceptor of the connections of a trace: sends the acceptor's data units of the vector of each connection.
#[derive(Debug)]
pub struct Acceptor {
    replay: Replay,
    /// Index of the vector of each known connection.
    vectors: BTreeMap<Conn, u64>,
}

/// Key of the timer that opens the initiator's next connection; the other keys are indices of vectors.
const OPEN: u64 = u64::MAX;

impl Initiator {
    /// Creates the initiator of every vector whose index modulo `users` is `index`, with connections between the ends of `spec`.
    pub fn new(
        vectors: Arc<[ConnectionVector]>,
        spec: ConnectionSpec,
        (index, users): (usize, usize),
    ) -> Self {
        let replay = Replay::new(vectors, Side::Initiator, false);
        Self { replay, spec, next: index, step: users }
    }

    fn plan_next(&self, host: &mut Host<'_>) {
        if let Some(vector) = self.replay.vectors.get(self.next) {
            host.timer(Time::ZERO + Span::from_micros(vector.start_us), OPEN);
        }
    }

    fn open(&mut self, host: &mut Host<'_>) {
        let number = self.next as u64;
        let conn = host.open(self.spec);
        let adus = &self.replay.vectors[self.next].adus;
        // An empty message passes the index of the vector to an acceptor that sends before receiving data.
        if adus.iter().find(|adu| adu.by == Side::Acceptor).is_some_and(|adu| adu.after == After::Sent) {
            host.send(conn, Message { tag: number, ..Message::default() });
        }
        self.next += self.step;
        self.plan_next(host);
        self.replay.start(number, conn, host);
    }
}

impl Application for Initiator {
    fn interest(&self) -> Interest {
        INTEREST
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => self.plan_next(host),
            AppEvent::Timer(OPEN) => self.open(host),
            AppEvent::Timer(number) => self.replay.on_timer(number, host),
            AppEvent::Message { message, .. } => self.replay.receive(message.tag, host),
            AppEvent::PeerClosed(conn) => {
                if let Some(number) = self.replay.number_of(conn) {
                    self.replay.on_peer_closed(number, host);
                }
            }
            AppEvent::Closed(conn) => {
                if let Some(number) = self.replay.number_of(conn) {
                    self.replay.states.remove(&number);
                }
            }
            // No other events are requested.
            _ => {}
        }
    }
}

impl Acceptor {
    /// Creates the acceptor for initiators with the same vectors. With `tells_size`, the size of each data unit is passed to TCP.
    pub fn new(vectors: Arc<[ConnectionVector]>, tells_size: bool) -> Self {
        Self { replay: Replay::new(vectors, Side::Acceptor, tells_size), vectors: BTreeMap::new() }
    }
}

impl Application for Acceptor {
    fn interest(&self) -> Interest {
        INTEREST
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Timer(number) => self.replay.on_timer(number, host),
            AppEvent::Message { conn, message, .. } => {
                let number = message.tag;
                if self.vectors.insert(conn, number).is_none() {
                    self.replay.start(number, conn, host);
                }
                if message.bytes > 0 {
                    self.replay.receive(number, host);
                }
            }
            AppEvent::PeerClosed(conn) => match self.vectors.get(&conn) {
                Some(&number) => self.replay.on_peer_closed(number, host),
                None => host.close(conn),
            },
            AppEvent::Closed(conn) => {
                if let Some(number) = self.vectors.remove(&conn) {
                    self.replay.states.remove(&number);
                }
            }
            _ => {}
        }
    }
}

const INTEREST: Interest = Interest { opened: false, peer_closed: true, closed: true };

/// Replay of one side of vectors. An end that has a FIN in the vector closes at the time of this FIN; an end without a FIN closes after its
/// peer. If neither end has a FIN, each end closes when all data units are sent and received.
#[derive(Debug)]
struct Replay {
    vectors: Arc<[ConnectionVector]>,
    side: Side,
    tells_size: bool,
    /// Open connections by the indices of their vectors.
    states: BTreeMap<u64, SideState>,
}

/// Progress of one side of a connection.
#[derive(Debug)]
struct SideState {
    conn: Conn,
    /// Index of the next ADU of the vector.
    next_adu: usize,
    /// Number of ADUs of the other side before this index.
    expected_adus: usize,
    /// Number of ADUs of the other side that have arrived.
    received_adus: usize,
    /// True while the timer of the next ADU runs.
    is_waiting: bool,
    peer_closed: bool,
    /// True once this side has closed.
    closed: bool,
}

impl Replay {
    fn new(vectors: Arc<[ConnectionVector]>, side: Side, tells_size: bool) -> Self {
        Self { vectors, side, tells_size, states: BTreeMap::new() }
    }

    /// Starts the replay of a vector over a connection.
    fn start(&mut self, number: u64, conn: Conn, host: &mut Host<'_>) {
        let state = SideState {
            conn,
            next_adu: 0,
            expected_adus: 0,
            received_adus: 0,
            is_waiting: false,
            peer_closed: false,
            closed: false,
        };
        self.states.insert(number, state);
        self.send_due(number, host);
    }

    /// Handles an ADU of the other side.
    fn receive(&mut self, number: u64, host: &mut Host<'_>) {
        if let Some(state) = self.states.get_mut(&number) {
            state.received_adus += 1;
            self.send_due(number, host);
        }
    }

    /// Handles the close of the other side.
    fn on_peer_closed(&mut self, number: u64, host: &mut Host<'_>) {
        if let Some(state) = self.states.get_mut(&number) {
            state.peer_closed = true;
            self.send_due(number, host);
        }
    }

    /// Sends the next ADU at its time.
    fn on_timer(&mut self, number: u64, host: &mut Host<'_>) {
        if let Some(state) = self.states.get_mut(&number) {
            state.is_waiting = false;
            self.send_adu(number, host);
            self.send_due(number, host);
        }
    }

    /// Sends the ADUs that are due, and sets the timer of the next ADU.
    fn send_due(&mut self, number: u64, host: &mut Host<'_>) {
        while let Some(state) =
            self.states.get_mut(&number).filter(|state| !state.is_waiting && !state.closed)
        {
            let vector = &self.vectors[number as usize];
            let Some(adu) = state.next(&vector.adus, self.side) else {
                // An external host does not send the FIN of the vector.
                let has_no_fin =
                    host.has_external_peer(state.conn) || vector.adus.iter().all(|adu| adu.bytes > 0);
                if state.peer_closed || (has_no_fin && state.received_adus >= state.expected_adus) {
                    state.close(host);
                }
                return;
            };
            if adu.after == After::Received && state.received_adus < state.expected_adus {
                if state.peer_closed {
                    // The awaited ADU will never arrive.
                    state.close(host);
                }
                return;
            }
            if adu.wait_us > 0 {
                state.is_waiting = true;
                return host.timer(host.now() + Span::from_micros(adu.wait_us), number);
            }
            self.send_adu(number, host);
        }
    }

    fn send_adu(&mut self, number: u64, host: &mut Host<'_>) {
        let adus = &self.vectors[number as usize].adus;
        let Some(state) = self.states.get_mut(&number) else { return };
        let Some(adu) = state.next(adus, self.side) else { return };
        state.next_adu += 1;
        if adu.bytes == 0 {
            return state.close(host);
        }
        let response = adus.get(state.next_adu).filter(|next| next.by != self.side);
        let message = Message {
            bytes: adu.bytes,
            tag: number,
            response_bytes: response.map_or(0, |response| response.bytes),
            context: self.tells_size.then(|| FlowContext::document(adu.bytes)),
        };
        host.send(state.conn, message);
    }

    /// Returns the index of the vector of a connection.
    fn number_of(&self, conn: Conn) -> Option<u64> {
        self.states.iter().find(|(_, state)| state.conn == conn).map(|(&number, _)| number)
    }
}

impl SideState {
    /// Returns this side's next ADU, and counts the ADUs of the other side before it.
    fn next(&mut self, adus: &[Adu], side: Side) -> Option<Adu> {
        while let Some(adu) = adus.get(self.next_adu) {
            if adu.by == side {
                return Some(*adu);
            }
            self.expected_adus += usize::from(adu.bytes > 0);
            self.next_adu += 1;
        }
        None
    }

    fn close(&mut self, host: &mut Host<'_>) {
        self.closed = true;
        host.close(self.conn);
    }
}
