//! Measurement of the bursts in which servers send data (CWV-S11).

use catnip_base::{Span, Time};
use catnip_sim::record::{Served, ServedStep};
use catnip_sim::{Event, TcpId, Watch};
use std::collections::BTreeMap;

/// Watch that records the bursts of all connections. A burst is a maximal period in which some data written by the server's application is
/// not acknowledged, regardless of the congestion window. The first byte of a burst is therefore the same under any congestion control.
#[derive(Debug, Default)]
pub struct Bursts {
    /// State of each open connection, by number of the connection.
    connections: BTreeMap<u64, ConnectionState>,
    finished: Vec<Burst>,
}

/// Burst of data that a server sends over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Number of the connection in order of opening, from 0.
    pub connection: u64,
    /// Application that opened the connection, or [`NO_APP`](catnip_sim::record::NO_APP).
    pub app: u32,
    /// TCP parameters, which identify the traffic group.
    pub tcp: TcpId,
    /// Number of the burst in its connection, from 0.
    pub number: u32,
    /// First byte of the burst, counted from the first byte that the server sends over the connection.
    pub first_byte: u64,
    /// Size of the burst as written by the server's application so far, bytes.
    pub bytes: u64,
    /// Number of acknowledged bytes of the burst.
    pub delivered: u64,
    /// Idle period from the end of the previous burst, or from the opening of the connection, to the start of this burst.
    pub idle: Span,
    /// Time at which the first segment of the burst was sent.
    pub start: Time,
    /// Time at which all data of the burst was acknowledged, or [`Time::NEVER`] if data is still unacknowledged.
    pub end: Time,
    /// Number of data segments sent, retransmissions included.
    pub sent: u32,
    /// Number of data segments retransmitted.
    pub retransmitted: u32,
    /// Number of data segments that the network dropped.
    pub dropped: u32,
    /// Number of expiries of the retransmission timer.
    pub timeouts: u32,
}

#[derive(Debug)]
struct ConnectionState {
    /// Time at which the last burst ended, or at which the connection was opened if there was no burst.
    idle_since: Time,
    /// Number of bursts that have ended.
    count: u32,
    current: Option<Burst>,
}

impl Bursts {
    /// Returns the bursts that have ended, in the order in which they ended.
    pub fn finished(&self) -> &[Burst] {
        &self.finished
    }

    /// Returns the bursts that have not ended, in the order of connection numbers.
    pub fn unfinished(&self) -> impl Iterator<Item = &Burst> {
        self.connections.values().filter_map(|state| state.current.as_ref())
    }

    fn on_sent(&mut self, now: Time, served: &Served, seq: u64, retransmission: bool) {
        let state = self.connections.entry(served.connection).or_insert(ConnectionState {
            idle_since: served.opened,
            count: 0,
            current: None,
        });
        let burst = match &mut state.current {
            Some(burst) => burst,
            // A retransmission after the end of its burst does not begin a new burst.
            None if retransmission => return,
            none => none.insert(Burst {
                connection: served.connection,
                app: served.app,
                tcp: served.tcp,
                number: state.count,
                first_byte: seq,
                bytes: 0,
                delivered: 0,
                idle: now - state.idle_since,
                start: now,
                end: Time::NEVER,
                sent: 0,
                retransmitted: 0,
                dropped: 0,
                timeouts: 0,
            }),
        };
        burst.bytes = served.written - burst.first_byte;
        burst.sent += 1;
        burst.retransmitted += u32::from(retransmission);
    }

    fn on_acked(&mut self, now: Time, served: &Served, snd_una: u64) {
        let Some(state) = self.connections.get_mut(&served.connection) else { return };
        if let Some(burst) = &mut state.current {
            burst.bytes = served.written - burst.first_byte;
            burst.delivered = snd_una.saturating_sub(burst.first_byte).min(burst.bytes);
        }
        if let Some(burst) = state.current.take_if(|_| snd_una >= served.written) {
            self.finished.push(Burst { end: now, ..burst });
            (state.idle_since, state.count) = (now, state.count + 1);
        }
    }

    fn current(&mut self, connection: u64) -> Option<&mut Burst> {
        self.connections.get_mut(&connection)?.current.as_mut()
    }
}

impl Watch for Bursts {
    const PACKETS: bool = true;

    fn record(&mut self, _now: Time, event: &Event) {
        if let Event::Connection(record) = event {
            self.connections.remove(&record.connection);
        }
    }

    fn served(&mut self, now: Time, served: &Served) {
        match served.step {
            ServedStep::Sent { seq, retransmission, .. } => self.on_sent(now, served, seq, retransmission),
            ServedStep::Acked { snd_una } => self.on_acked(now, served, snd_una),
            ServedStep::Timeout => {
                self.current(served.connection).into_iter().for_each(|burst| burst.timeouts += 1);
            }
            ServedStep::Dropped { seq } => {
                let burst = self.current(served.connection).filter(|burst| seq >= burst.first_byte);
                burst.into_iter().for_each(|burst| burst.dropped += 1);
            }
        }
    }
}
