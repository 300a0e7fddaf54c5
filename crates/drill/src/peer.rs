//! Peer of a host in a generated case: a plain receiver (RFC 9293, 2018, 2883, 3168), written apart from the one that is tested, and a
//! sender of data at given times.

use crate::packet::{Options, Packet};
use catnip_base::{Span, Time};
use catnip_net::Ecn;
use catnip_tcp::{SackBlocks, Timestamps};
use catnip_wire::TcpFlags;
use std::collections::VecDeque;

/// Properties of a peer.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// Whether the host opens the connection.
    pub(crate) is_active: bool,
    pub(crate) ecn: bool,
    pub(crate) mss: u16,
    pub(crate) timestamps: bool,
    /// Shift count of its windows.
    pub(crate) scale: u8,
    /// Number of segments that it acknowledges at once.
    pub(crate) ack_every: u32,
}

/// Peer of the host.
#[derive(Debug)]
pub(crate) struct Peer {
    habits: Habits,
    /// Next byte expected from the host; `None` until its SYN has arrived.
    rcv_nxt: Option<u64>,
    /// Data above a gap, the most recent range first.
    ranges: Vec<(u64, u64)>,
    duplicate: Option<(u64, u64)>,
    /// Segments that are not acknowledged yet.
    waiting: u32,
    ack_due: Option<Time>,
    acks_at_once: u32,
    echoes: bool,
    /// Last timestamp in order.
    ts_recent: u32,
    opened: Option<Time>,
    data: VecDeque<(Span, u64, u32)>,
    /// Highest number sent.
    snd_nxt: u64,
}

/// Longest delay of an ACK.
const DELAY: Span = Span::from_millis(40);

impl Peer {
    /// Creates a peer that sends data: the time after the opening, the first byte (from 0) and the length of each segment.
    pub(crate) fn new(habits: Habits, data: &[(Span, u64, u32)]) -> Self {
        Self {
            habits,
            rcv_nxt: None,
            ranges: Vec::new(),
            duplicate: None,
            waiting: 0,
            ack_due: None,
            acks_at_once: 0,
            echoes: false,
            ts_recent: 0,
            opened: None,
            data: data.iter().copied().collect(),
            snd_nxt: 1,
        }
    }

    /// Returns the SYN or SYN-ACK.
    pub(crate) fn syn(&self) -> Packet {
        let bits = match (self.habits.ecn, self.habits.is_active) {
            (false, _) => TcpFlags::default(),
            (true, false) => TcpFlags::ECE | TcpFlags::CWR,
            (true, true) => TcpFlags::ECE,
        };
        Packet {
            ecn: None,
            flags: TcpFlags::SYN
                | bits
                | if self.habits.is_active { TcpFlags::ACK } else { TcpFlags::default() },
            seq: 0,
            len: 0,
            ack: self.habits.is_active.then_some(1),
            window: None,
            options: Some(Options {
                mss: Some(self.habits.mss),
                window_scale: Some(self.habits.scale),
                sack_permitted: true,
                sack: Vec::new(),
                timestamps: self.habits.timestamps.then_some((1, self.ts_recent)),
            }),
        }
    }

    /// Begins to send data.
    pub(crate) fn open(&mut self, now: Time) {
        self.opened = Some(now);
    }

    pub(crate) fn receive(&mut self, now: Time, packet: &Packet) {
        let stamp = packet.options.as_ref().and_then(|options| options.timestamps);
        if packet.has(TcpFlags::SYN) {
            self.rcv_nxt = self.rcv_nxt.or(Some(1));
            self.ts_recent = stamp.map_or(0, |(value, _)| value);
            self.acks_at_once += 1;
            return;
        }
        let Some(rcv_nxt) = &mut self.rcv_nxt else { return };
        let end = packet.seq + u64::from(packet.len) + u64::from(packet.has(TcpFlags::FIN));
        if end == packet.seq {
            return;
        }
        if self.habits.ecn {
            let is_marked = packet.ecn == Some(Ecn::CE);
            self.echoes = is_marked || self.echoes && !packet.has(TcpFlags::CWR);
            self.acks_at_once += u32::from(is_marked);
        }
        if packet.seq <= *rcv_nxt {
            self.ts_recent = stamp.map_or(0, |(value, _)| value.max(self.ts_recent));
        }
        let is_known =
            end <= *rcv_nxt || self.ranges.iter().any(|range| range.0 <= packet.seq && end <= range.1);
        if is_known {
            self.duplicate = Some((packet.seq, end));
            self.acks_at_once += 1;
        } else if packet.seq > *rcv_nxt {
            let mut range = (packet.seq, end);
            self.ranges.retain(|other| {
                let touches = other.0 <= range.1 && range.0 <= other.1;
                if touches {
                    range = (range.0.min(other.0), range.1.max(other.1));
                }
                !touches
            });
            self.ranges.insert(0, range);
            self.acks_at_once += 1;
        } else {
            self.acks_at_once += u32::from(!self.ranges.is_empty());
            *rcv_nxt = end;
            while let Some(at) = self.ranges.iter().position(|range| range.0 <= *rcv_nxt) {
                *rcv_nxt = (*rcv_nxt).max(self.ranges.remove(at).1);
            }
            self.waiting += 1;
            if self.waiting >= self.habits.ack_every {
                self.acks_at_once += 1;
            } else {
                self.ack_due = self.ack_due.or(Some(now + DELAY));
            }
        }
    }

    pub(crate) fn transmit(&mut self, now: Time) -> Option<Packet> {
        let rcv_nxt = self.rcv_nxt?;
        if self.habits.is_active && self.opened.is_none() && self.acks_at_once > 0 {
            self.acks_at_once -= 1;
            return Some(self.syn());
        }
        let is_ack_due = self.ack_due.is_some_and(|due| due <= now);
        let data = match (self.opened, self.data.front()) {
            (Some(opened), Some(&(after, first, len))) if opened + after <= now => Some((first, len)),
            _ => None,
        };
        if data.is_none() && self.acks_at_once == 0 && !is_ack_due {
            return None;
        }
        let (seq, len) = data.map_or((self.snd_nxt, 0), |(first, len)| (first + 1, len));
        if data.is_some() {
            self.data.pop_front();
            self.snd_nxt = self.snd_nxt.max(seq + u64::from(len));
        } else {
            self.acks_at_once = self.acks_at_once.saturating_sub(1);
        }
        self.waiting = 0;
        self.ack_due = None;
        let blocks = self
            .duplicate
            .take()
            .into_iter()
            .chain(self.ranges.iter().copied())
            .take(SackBlocks::MAX)
            .collect();
        Some(Packet {
            ecn: data.filter(|_| self.habits.ecn).map(|_| Ecn::ECT_0),
            flags: TcpFlags::ACK | if self.echoes { TcpFlags::ECE } else { TcpFlags::default() },
            seq,
            len,
            ack: Some(rcv_nxt),
            window: None,
            options: Some(Options {
                sack: blocks,
                timestamps: self.habits.timestamps.then(|| (Timestamps::tsval_at(now), self.ts_recent)),
                ..Options::default()
            }),
        })
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.ack_due
    }
}
