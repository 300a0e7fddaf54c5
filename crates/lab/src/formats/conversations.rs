//! Connection vectors of the TCP connections in a packet capture, as Tmix defines them: what the two ends exchanged, without the effects of
//! the network. No address, name or data of a packet is kept.

use crate::InputError;
use crate::formats::capture::each_packet;
use catnip_base::{Span, Time};
use catnip_sim::app::{Adu, After, ConnectionVector, Observed, Order, Side};
use catnip_wire::{FlowKey, Tcp, TcpFlags};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

/// Connections of a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedVectors {
    /// Vectors in the order of the openings of the connections.
    pub vectors: Vec<ConnectionVector>,
    /// Number of connections whose opening is in the capture and which exchanged no data.
    pub empty: u64,
    /// Number of TCP packets of connections whose opening is not in the capture.
    pub unopened: u64,
    /// True if the capture ends in the middle of a packet.
    pub is_cut: bool,
}

/// Time without new data after which data of the same end, all of which was acknowledged, begins a new unit (Hernández-Campos, 2006).
const QUIET: Span = Span::from_millis(500);

/// Reads the connections of a capture in the format pcapng or pcap.
///
/// Data that an end sends without data of the other end in between is one unit; it ends after half a second if all of it was acknowledged.
/// A connection is concurrent if an end sends new data before it has acknowledged all data of the other end. The waiting time before a unit
/// is that at its sender: the time seen in the capture, less the round trip from the place of the capture to the sender and back, as the
/// handshake shows it.
pub fn read_vectors(path: &Path) -> Result<CapturedVectors, InputError> {
    let mut conversations = Conversations::default();
    let is_cut = each_packet(path, |now, flow, tcp| conversations.packet(now, flow, tcp))?;
    let Conversations { open, mut ended, unopened } = conversations;
    ended.extend(open.into_values());
    ended.sort_by_key(|conversation| conversation.number);
    let opened = ended.len();
    let with_data = ended.into_iter().filter(|conversation| !conversation.events.is_empty());
    let vectors: Vec<ConnectionVector> = (0..).zip(with_data).map(|(id, it)| it.vector(id)).collect();
    if opened == 0 && unopened == 0 {
        return Err(InputError::new(&path.display().to_string(), "", "it has no TCP packets"));
    }
    Ok(CapturedVectors { empty: (opened - vectors.len()) as u64, vectors, unopened, is_cut })
}

#[derive(Debug, Default)]
struct Conversations {
    /// Connections by the smaller of their two flows. Addresses that are used again belong to the latest connection.
    open: BTreeMap<FlowKey, Conversation>,
    ended: Vec<Conversation>,
    unopened: u64,
}

impl Conversations {
    fn packet(&mut self, now: Time, flow: FlowKey, tcp: &Tcp<'_>) {
        let (key, flags) = (flow.min(flow.reversed()), tcp.flags());
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) {
            let is_repeated = self.open.get(&key).is_some_and(|open| open.is_opened_by(flow.source, tcp));
            if is_repeated {
                return;
            }
            let number = self.open.len() + self.ended.len();
            self.ended.extend(self.open.insert(key, Conversation::new(number, now, flow.source)));
        }
        match self.open.get_mut(&key) {
            Some(open) => open.packet(now, if flow.source == open.initiator { 0 } else { 1 }, tcp),
            None => self.unopened += 1,
        }
    }
}

/// New data of an end, or its FIN.
#[derive(Clone, Copy, Debug)]
struct Event {
    side: usize,
    /// Time at which the first byte was seen.
    at: Time,
    /// Time at which the last byte was seen, again if it was sent again.
    until: Time,
    /// Number of bytes; 0 for a FIN.
    bytes: u64,
}

/// Connection that was opened in the capture. Index 0 stands for the initiator, 1 for the acceptor.
#[derive(Debug)]
struct Conversation {
    number: usize,
    initiator: SocketAddr,
    opened: Time,
    /// Time of the SYN-ACK.
    accepted: Option<Time>,
    /// Round trips from the place of the capture to each end.
    round_trips: [Option<Span>; 2],
    ends: [End; 2],
    events: Vec<Event>,
    is_concurrent: bool,
    is_over: bool,
}

#[derive(Debug, Default)]
struct End {
    /// Initial sequence number; `None` before the SYN.
    initial: Option<u32>,
    /// Number of bytes sent, each counted once.
    sent: u64,
    /// Number of bytes that the other end has acknowledged.
    acked: u64,
    /// Time of the ACK that acknowledged all that was sent.
    all_acked: Option<Time>,
    packets: u64,
    repeated: u64,
    mss: Option<u64>,
    window_scale: Option<u8>,
    window: u64,
}

impl End {
    /// Returns the number of bytes before a sequence number, which is less than 2 GB from the last data; `None` if it is not known.
    fn position(&self, sequence: u32) -> Option<u64> {
        let first = self.initial?.wrapping_add(1);
        let ahead = sequence.wrapping_sub(first).wrapping_sub(self.sent as u32) as i32;
        self.sent.checked_add_signed(ahead.into())
    }
}

impl Conversation {
    fn new(number: usize, opened: Time, initiator: SocketAddr) -> Self {
        Self {
            number,
            initiator,
            opened,
            accepted: None,
            round_trips: [None; 2],
            ends: Default::default(),
            events: Vec::new(),
            is_concurrent: false,
            is_over: false,
        }
    }

    fn is_opened_by(&self, source: SocketAddr, syn: &Tcp<'_>) -> bool {
        self.initiator == source && self.ends[0].initial == Some(syn.sequence())
    }

    fn packet(&mut self, now: Time, side: usize, tcp: &Tcp<'_>) {
        let flags = tcp.flags();
        self.note_handshake(now, side, tcp);
        if flags.contains(TcpFlags::ACK)
            && let Some(acked) = self.ends[1 - side].position(tcp.acknowledgement())
        {
            let other = &mut self.ends[1 - side];
            // The ACK of a FIN counts one more.
            let acked = acked.min(other.sent);
            if acked > other.acked || other.all_acked.is_none() {
                other.acked = other.acked.max(acked);
                other.all_acked = (other.acked == other.sent).then_some(now);
            }
        }
        if flags.contains(TcpFlags::RST) {
            self.is_over = true;
        }
        let bytes = tcp.payload().len() as u64;
        let Some(from) = self.ends[side].position(tcp.sequence()).filter(|_| !self.is_over) else { return };
        if bytes > 0 {
            self.data(now, side, from, bytes);
        }
        if flags.contains(TcpFlags::FIN) && from + bytes == self.ends[side].sent {
            self.events.push(Event { side, at: now, until: now, bytes: 0 });
            // What an end still receives is no longer an exchange that a replay could time.
            self.is_over = true;
        }
    }

    fn note_handshake(&mut self, now: Time, side: usize, tcp: &Tcp<'_>) {
        let end = &mut self.ends[side];
        let is_syn = tcp.flags().contains(TcpFlags::SYN);
        if is_syn {
            end.initial.get_or_insert(tcp.sequence());
            let options = tcp.options().unwrap_or_default();
            (end.mss, end.window_scale) = (options.mss.map(u64::from), options.window_scale);
        }
        let scale = if is_syn {
            0
        } else {
            self.ends[0]
                .window_scale
                .and(self.ends[1].window_scale)
                .map_or(0, |_| self.ends[side].window_scale.unwrap_or(0).min(14))
        };
        self.ends[side].window = self.ends[side].window.max(u64::from(tcp.window()) << scale);
        match (side, is_syn, self.accepted) {
            (1, true, None) => {
                self.accepted = Some(now);
                self.round_trips[1] = Some(now.since(self.opened));
            }
            (0, false, Some(accepted)) if self.round_trips[0].is_none() => {
                self.round_trips[0] = Some(now.since(accepted));
            }
            _ => {}
        }
    }

    fn data(&mut self, now: Time, side: usize, from: u64, bytes: u64) {
        let [own, other] = if side == 0 { [0, 1] } else { [1, 0] };
        let is_behind = self.ends[other].acked < self.ends[other].sent;
        let end = &mut self.ends[own];
        end.packets += 1;
        let new = (from + bytes).saturating_sub(end.sent);
        if new == 0 {
            end.repeated += 1;
            if let Some(last) = self.events.iter_mut().rev().find(|event| event.side == side) {
                last.until = now;
            }
            return;
        }
        // An end that has not acknowledged all data of the other end did not wait for it.
        self.is_concurrent |= is_behind;
        let was_quiet = end.all_acked.is_some_and(|at| now.since(at) > QUIET);
        end.sent += new;
        end.all_acked = None;
        let continues = match self.events.last() {
            Some(last) => last.side == side && last.bytes > 0 && !was_quiet,
            None => false,
        };
        if continues {
            let last = self.events.last_mut().expect("it continues");
            (last.until, last.bytes) = (now, last.bytes + new);
        } else {
            self.events.push(Event { side, at: now, until: now, bytes: new });
        }
    }

    fn vector(self, id: u64) -> ConnectionVector {
        let loss = [0, 1].map(|side| {
            let End { packets, repeated, .. } = self.ends[side];
            if packets == 0 { 0.0 } else { repeated as f64 / packets as f64 }
        });
        let [mss, windows] =
            [self.ends.each_ref().map(|end| end.mss), self.ends.each_ref().map(|end| Some(end.window))];
        let both = |[one, other]: [Option<u64>; 2]| one.zip(other).map(|(one, other)| [one, other]);
        let observed = Observed {
            ids: [id, id],
            window_bytes: both(windows),
            mss_bytes: both(mss),
            min_rtt_us: self.round_trips[0].zip(self.round_trips[1]).map(|(one, other)| micros(one + other)),
            loss: Some(loss),
        };
        let (order, adus) = if self.is_concurrent {
            (Order::Concurrent, self.concurrent())
        } else {
            (Order::Sequential, self.sequential())
        };
        ConnectionVector { start_us: micros(self.opened.since(Time::ZERO)), order, adus, observed }
    }

    fn sequential(&self) -> Vec<Adu> {
        let mut adus: Vec<Adu> = Vec::with_capacity(self.events.len());
        let mut before: Option<&Event> = None;
        for event in &self.events {
            let (after, wait) = match before {
                // The first data of the initiator follows its opening at once; that of an acceptor is counted in the same way.
                None => (After::Sent, Span::ZERO),
                Some(last) if last.side == event.side => (After::Sent, event.at.since(last.until)),
                Some(last) => {
                    let round_trip = self.round_trips[event.side].unwrap_or_default();
                    (After::Received, event.at.since(last.until).saturating_sub(round_trip))
                }
            };
            let wait_us = if before.is_none() { 0 } else { micros(wait).max(1) };
            adus.push(Adu { by: side_of(event.side), after, wait_us, bytes: event.bytes });
            before = Some(event);
        }
        adus
    }

    fn concurrent(&self) -> Vec<Adu> {
        let mut adus: Vec<Adu> = Vec::with_capacity(self.events.len());
        let mut last: [Option<(Time, usize)>; 2] = [None; 2];
        for event in &self.events {
            match last[event.side] {
                // Data of the other end came in between, but no time in which this end was quiet.
                Some((until, index)) if event.bytes > 0 && event.at.since(until) <= QUIET => {
                    adus[index].bytes += event.bytes;
                    last[event.side] = Some((event.until, index));
                }
                before => {
                    let from = before.map_or(self.opened, |(until, _)| until);
                    let wait = event.at.since(from);
                    let handshake = self.round_trips[1].unwrap_or_default();
                    let wait = if before.is_some() { wait } else { wait.saturating_sub(handshake) };
                    let wait_us = micros(wait);
                    last[event.side] = Some((event.until, adus.len()));
                    adus.push(Adu {
                        by: side_of(event.side),
                        after: After::Sent,
                        wait_us,
                        bytes: event.bytes,
                    });
                }
            }
        }
        adus
    }
}

fn side_of(side: usize) -> Side {
    if side == 0 { Side::Initiator } else { Side::Acceptor }
}

fn micros(span: Span) -> u64 {
    span.as_nanos() / 1000
}
