use super::{Documents, Fault, FaultKind, Markers, Reason, Report, Rules};
use crate::convert::count;
use crate::{Tcp, TcpFlags};
use catnip_net::Colour;
use std::collections::VecDeque;

/// What has been seen of a connection: of its client and of its server.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    ends: [End; 2],
}

/// A packet of it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) number: u64,
    /// When it was seen, nanoseconds since 1970.
    pub(super) nanos: i64,
    pub(super) connection: usize,
    pub(super) server: bool,
    pub(super) priority: Colour,
    pub(super) tcp: &'a Tcp<'a>,
}

/// One side as a sender. Positions count bytes of its data from 0.
#[derive(Debug, Default)]
struct End {
    /// Sequence number of its SYN. Without it nothing is known about documents.
    initial: Option<u32>,
    /// The segment size that its SYN announces.
    mss: Option<u16>,
    /// The most data in one packet.
    largest: u64,
    /// End of all that was sent.
    sent: u64,
    acknowledged: u64,
    /// While not all of this is acknowledged, the window may be smaller than what is in flight.
    recover: Option<u64>,
    /// The window is no smaller than this, bytes: the most that was in flight since it may last have been cut.
    window: u64,
    /// When data was last sent, nanoseconds since 1970.
    last_data: i64,
    /// Where the document begins.
    document: u64,
    /// New data packets in the document.
    packets: u32,
    /// The next data begins a document.
    answered: bool,
    /// Packets that may turn out to be the last ones.
    undecided: VecDeque<Undecided>,
    /// Data is missing in the capture.
    gap: bool,
}

#[derive(Clone, Copy, Debug)]
struct Undecided {
    number: u64,
    priority: Colour,
    end: u64,
    /// If it is not one of the last packets.
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    High(Reason),
    Low,
    Free,
}

/// A sender that was idle for so long may begin with a small window again: RFC 5681, section 4.1, with the least
/// timeout in use.
const IDLE_NANOS: i64 = 200_000_000;

/// RFC 9293, section 3.7.1.
const DEFAULT_MSS: u16 = 536;

impl Tracked {
    /// Can this SYN belong to the connection?
    pub(super) fn may_open_with(&self, server: bool, sequence: u32) -> bool {
        self.ends[usize::from(server)].initial.is_none_or(|initial| initial == sequence)
    }

    /// The connection ends, or the capture does, without a word about the end of the documents.
    pub(super) fn cut(&mut self, connection: usize, report: &mut Report) {
        for (end, server) in self.ends.iter_mut().zip([false, true]) {
            end.decide(connection, server, 0, report);
        }
    }

    pub(super) fn packet(&mut self, seen: &Seen<'_>, rules: &Rules, report: &mut Report) {
        let [client, server] = &mut self.ends;
        let (from, to) = if seen.server { (server, client) } else { (client, server) };
        let (tcp, flags) = (seen.tcp, seen.tcp.flags());
        let len = tcp.payload().len() as u64;
        let side = report.connections[seen.connection].side_mut(seen.server);
        side.packets += 1;
        side.data += u64::from(len > 0);
        side.high += u64::from(seen.priority == Colour::Green);
        if flags.contains(TcpFlags::SYN) {
            from.initial = Some(tcp.sequence());
            from.mss = tcp.options().ok().and_then(|options| options.mss);
        }
        if flags.contains(TcpFlags::ACK) {
            to.on_ack(tcp);
        }
        if len > 0 && rules.documents == Documents::PerExchange {
            to.answered = true;
        }
        let judged = match rules.markers {
            Markers::Both => true,
            Markers::Clients => !seen.server,
            Markers::Servers => seen.server,
        };
        from.sends(seen, to.mss, judged, rules, report);
        if flags.contains(TcpFlags::RST) {
            self.cut(seen.connection, report);
        }
    }
}

impl End {
    /// The other side acknowledges.
    fn on_ack(&mut self, tcp: &Tcp<'_>) {
        let ack = self.initial.and_then(|initial| count(initial, tcp.acknowledgement(), self.sent));
        let Some(ack) = ack else { return };
        if ack > self.sent {
            (self.gap, self.sent) = (true, ack);
        }
        let bare = tcp.payload().is_empty() && !tcp.flags().contains(TcpFlags::FIN);
        let repeats = bare && ack == self.acknowledged && self.sent > ack;
        let reports = tcp.options().is_ok_and(|options| !options.sack.as_slice().is_empty());
        self.acknowledged = self.acknowledged.max(ack);
        if repeats || reports || tcp.flags().contains(TcpFlags::ECE) {
            self.recover = Some(self.sent);
        } else if self.recover.is_some_and(|recover| self.acknowledged > recover) {
            // New data was acknowledged that was sent since, and what it put in flight did not count.
            self.recover = None;
        }
    }

    /// This side sends: judges the packet, or keeps it until it is known how far from the end of its document it is.
    fn sends(
        &mut self,
        seen: &Seen<'_>,
        other_mss: Option<u16>,
        judged: bool,
        rules: &Rules,
        report: &mut Report,
    ) {
        let &Seen { number, nanos, connection, server, priority, tcp } = seen;
        let flags = tcp.flags();
        let (syn, fin) = (flags.contains(TcpFlags::SYN), flags.contains(TcpFlags::FIN));
        let len = if syn { 0 } else { tcp.payload().len() as u64 };
        let control = |reason| if rules.control && judged { Verdict::High(reason) } else { Verdict::Free };
        let now = |verdict, report: &mut Report| judge(number, connection, server, priority, verdict, report);
        let place = self.initial.and_then(|initial| count(initial, tcp.sequence(), self.sent));
        let Some(start) = place.filter(|_| !syn) else {
            let verdict = match (syn, fin) {
                (true, _) => match rules.spm.handshake.filter(|_| judged) {
                    None => control(Reason::Syn),
                    Some(Colour::Red) => Verdict::Low,
                    Some(_) => Verdict::High(Reason::Syn),
                },
                (_, true) => control(Reason::Fin),
                _ => Verdict::Free,
            };
            return now(verdict, report);
        };
        let end = start + len;
        let size = self.segment_size(tcp, other_mss, len);
        let far = |count: u32| u64::from(count) * size;
        // One byte before all that is acknowledged asks whether the other side is still there.
        let probe = len == 1 && end == self.sent && self.acknowledged >= end && !fin;
        let again = len > 0 && start < self.sent && !probe;
        if again {
            self.recover = Some(self.sent);
        }
        let side = report.connections[connection].side_mut(server);
        side.retransmissions += u64::from(again);
        if start > self.sent {
            side.gaps += 1;
            self.gap = true;
        }
        let sure = judged && !self.gap;
        let last = if sure { rules.spm.trailing } else { 0 };
        let new = end > self.sent;
        if new && std::mem::take(&mut self.answered) {
            self.decide(connection, server, last, report);
            (self.document, self.packets, self.window) = (start, 0, 0);
        }
        if len > 0 {
            let idle = self.acknowledged >= self.sent && nanos.saturating_sub(self.last_data) >= IDLE_NANOS;
            let kept = if idle { 0 } else { self.window };
            let in_flight = end.saturating_sub(self.acknowledged);
            self.window = if self.recover.is_some() { 0 } else { kept.max(in_flight) };
            self.last_data = nanos;
        }
        let settled = start >= self.document + far(rules.spm.leading)
            // One segment more, for the tail loss probe may exceed the window (RFC 8985, section 7.3).
            && self.window >= far(rules.spm.small_window.saturating_add(1));
        let verdict = if fin && (rules.control || len == 0) {
            control(Reason::Fin)
        } else if len == 0 || probe || !sure {
            Verdict::Free
        } else if again {
            if rules.retransmissions { Verdict::High(Reason::Retransmission) } else { Verdict::Free }
        } else if self.packets < rules.spm.leading {
            Verdict::High(Reason::Leading)
        } else if settled {
            Verdict::Low
        } else {
            Verdict::Free
        };
        if new {
            self.sent = end;
            self.packets += 1;
            self.undecided.push_back(Undecided { number, priority, end, verdict });
        } else {
            now(verdict, report);
        }
        if fin {
            self.decide(connection, server, last, report);
            self.sent = self.sent.max(end + 1);
        }
        // What is so far from the end of all data is not among the last packets, whatever follows.
        let trailing = rules.spm.trailing;
        let tail = if trailing == 0 { 0 } else { far(trailing.saturating_add(1)) };
        while self.undecided.len() > trailing as usize && self.undecided[0].end + tail <= self.sent {
            let Undecided { number, priority, verdict, .. } = self.undecided[0];
            judge(number, connection, server, priority, verdict, report);
            self.undecided.pop_front();
        }
    }

    /// The document ends: its last `trailing` packets must be HIGH. Those close to them may be, as a marker counts
    /// bytes rather than packets.
    fn decide(&mut self, connection: usize, server: bool, trailing: u32, report: &mut Report) {
        let first = self.undecided.len().saturating_sub(trailing as usize);
        for (i, packet) in self.undecided.drain(..).enumerate() {
            let verdict = match packet.verdict {
                Verdict::High(reason) => Verdict::High(reason),
                _ if i >= first => Verdict::High(Reason::Trailing),
                _ => Verdict::Free,
            };
            judge(packet.number, connection, server, packet.priority, verdict, report);
        }
    }

    /// Bytes in a full segment: what both sides can take less the options (RFC 6691), or what was seen.
    fn segment_size(&mut self, tcp: &Tcp<'_>, other_mss: Option<u16>, len: u64) -> u64 {
        self.largest = self.largest.max(len);
        let announced = match (self.mss, other_mss) {
            (Some(ours), Some(theirs)) => ours.min(theirs),
            (ours, theirs) => ours.or(theirs).unwrap_or(DEFAULT_MSS),
        };
        let options = tcp.header_len() as u64 - 20;
        self.largest.max(u64::from(announced).saturating_sub(options)).max(1)
    }
}

fn judge(
    packet: u64,
    connection: usize,
    server: bool,
    priority: Colour,
    verdict: Verdict,
    report: &mut Report,
) {
    let side = report.connections[connection].side_mut(server);
    let kind = match (verdict, priority) {
        (Verdict::High(reason), Colour::Red) => {
            side.missing_high += 1;
            Some(FaultKind::MissingHigh(reason))
        }
        (Verdict::Low, Colour::Green) => {
            side.wrong_high += 1;
            Some(FaultKind::WrongHigh)
        }
        _ => None,
    };
    side.must_be_high += u64::from(matches!(verdict, Verdict::High(_)));
    side.must_be_low += u64::from(verdict == Verdict::Low);
    if let Some(kind) = kind {
        report.fault(Fault { packet, connection, server, kind });
    }
}
