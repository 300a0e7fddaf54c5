//! The bursts in which servers send (CWV-S11).

use catnip_base::{Span, Time};
use catnip_sim::record::{Served, ServedStep};
use catnip_sim::{Event, TcpId, Watch};
use std::collections::BTreeMap;

/// The bursts of all connections: each a maximal time in which some of what the server's program has handed over is not
/// acknowledged, whatever the window makes of that. Where a burst begins, it begins under any congestion control.
#[derive(Debug, Default)]
pub struct Bursts {
    /// By connection; those that are over are forgotten.
    connections: BTreeMap<u64, OfConnection>,
    over: Vec<Burst>,
}

/// A burst of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Its connection, in order of opening, from 0.
    pub connection: u64,
    /// The program that opened the connection, or [`NOBODY`](catnip_sim::record::NOBODY).
    pub app: u32,
    /// The traffic group, by its TCP parameters.
    pub tcp: TcpId,
    /// Which burst of the connection, from 0.
    pub number: u32,
    /// Its first byte, counted from the first that the server ever sends over the connection.
    pub first_byte: u64,
    /// How many there are, as far as they were handed over.
    pub bytes: u64,
    /// How many of them are acknowledged.
    pub delivered: u64,
    /// How long the server has had nothing to send, or since the connection was opened.
    pub idle: Span,
    /// When its first segment left.
    pub start: Time,
    /// When its last ACK arrived; [`Time::NEVER`] before.
    pub end: Time,
    /// Data segments sent, retransmissions included.
    pub sent: u32,
    /// Of these, retransmissions.
    pub retransmitted: u32,
    /// Of these, dropped by the network.
    pub dropped: u32,
    /// Expired retransmission timers.
    pub timeouts: u32,
}

#[derive(Debug)]
struct OfConnection {
    /// When its last burst was over, or it was opened.
    silent_since: Time,
    /// Bursts so far.
    count: u32,
    current: Option<Burst>,
}

impl Bursts {
    /// Those that are over, in the order in which they ended.
    pub fn over(&self) -> &[Burst] {
        &self.over
    }

    /// Those that are not, by connection.
    pub fn unfinished(&self) -> impl Iterator<Item = &Burst> {
        self.connections.values().filter_map(|of| of.current.as_ref())
    }

    fn on_sent(&mut self, now: Time, what: &Served, seq: u64, retransmission: bool) {
        let of = self.connections.entry(what.connection).or_insert(OfConnection {
            silent_since: what.opened,
            count: 0,
            current: None,
        });
        let burst = match &mut of.current {
            Some(burst) => burst,
            // Late for a burst that is over.
            None if retransmission => return,
            none => none.insert(Burst {
                connection: what.connection,
                app: what.app,
                tcp: what.tcp,
                number: of.count,
                first_byte: seq,
                bytes: 0,
                delivered: 0,
                idle: now - of.silent_since,
                start: now,
                end: Time::NEVER,
                sent: 0,
                retransmitted: 0,
                dropped: 0,
                timeouts: 0,
            }),
        };
        burst.bytes = what.written - burst.first_byte;
        burst.sent += 1;
        burst.retransmitted += u32::from(retransmission);
    }

    fn on_acked(&mut self, now: Time, what: &Served, una: u64) {
        let Some(of) = self.connections.get_mut(&what.connection) else { return };
        if let Some(burst) = &mut of.current {
            burst.bytes = what.written - burst.first_byte;
            burst.delivered = una.saturating_sub(burst.first_byte).min(burst.bytes);
        }
        if let Some(burst) = of.current.take_if(|_| una >= what.written) {
            self.over.push(Burst { end: now, ..burst });
            (of.silent_since, of.count) = (now, of.count + 1);
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

    fn served(&mut self, now: Time, what: &Served) {
        match what.step {
            ServedStep::Sent { seq, retransmission, .. } => self.on_sent(now, what, seq, retransmission),
            ServedStep::Acked { una } => self.on_acked(now, what, una),
            ServedStep::Timeout => {
                self.current(what.connection).into_iter().for_each(|burst| burst.timeouts += 1);
            }
            ServedStep::Dropped { seq } => {
                let burst = self.current(what.connection).filter(|burst| seq >= burst.first_byte);
                burst.into_iter().for_each(|burst| burst.dropped += 1);
            }
        }
    }
}
