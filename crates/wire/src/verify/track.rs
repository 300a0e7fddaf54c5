use super::{Documents, Fault, FaultKind, Markers, Reason, Report, Rules};
use crate::convert::count;
use crate::{Tcp, TcpFlags};
use catnip_net::Colour;
use std::collections::VecDeque;

/// State of the client and of the server of a connection.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    ends: [End; 2],
}

/// Packet of a tracked connection.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) number: u64,
    /// Capture time, nanoseconds since 1970.
    pub(super) nanos: i64,
    pub(super) connection: usize,
    pub(super) server: bool,
    pub(super) priority: Colour,
    pub(super) tcp: &'a Tcp<'a>,
}

/// One side of a connection as a sender. Positions count bytes of its data from 0.
#[derive(Debug, Default)]
struct End {
    /// Sequence number of the SYN; `None` without a SYN in the capture, in which case documents are unknown.
    initial: Option<u32>,
    /// MSS announced in the SYN.
    mss: Option<u16>,
    /// Largest amount of data in one packet, bytes.
    largest: u64,
    /// End of the data sent (SND.MAX).
    sent: u64,
    acknowledged: u64,
    /// Recovery point: until it is acknowledged, cwnd may be smaller than the data in flight.
    recover: Option<u64>,
    /// Lower bound of cwnd, bytes: the largest amount of data in flight since the last possible reduction of cwnd.
    window: u64,
    /// Time of the last data packet, nanoseconds since 1970.
    last_data: i64,
    /// Start of the document.
    document: u64,
    /// Number of new data packets in the document.
    packets: u32,
    /// True if the next data begins a document.
    answered: bool,
    /// Packets that may turn out to be the last of the document.
    undecided: VecDeque<Undecided>,
    /// True if data is missing in the capture.
    gap: bool,
}

#[derive(Clone, Copy, Debug)]
struct Undecided {
    number: u64,
    priority: Colour,
    end: u64,
    /// Verdict if the packet is not among the last packets of the document.
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    High(Reason),
    Low,
    Free,
}

/// Packet as far as its verdict depends on it.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    syn: bool,
    fin: bool,
    /// True if the rules apply to this side of the connection.
    judged: bool,
    /// True if the packet carries data whose place in the document is known.
    has_place: bool,
    /// True for a retransmission.
    again: bool,
    /// Number of new data packets of the document before this one.
    index: u32,
    /// Distance from the start of the document, full segments.
    distance: u64,
    /// Lower bound of cwnd, full segments.
    window: u64,
}

impl Sent {
    /// Returns the verdict of the first clause that applies.
    fn verdict(&self, rules: &Rules) -> Verdict {
        CLAUSES.iter().find_map(|clause| clause(self, rules)).unwrap_or(Verdict::Free)
    }
}

/// Verdict on a packet; `None` if the clause does not apply to it.
type Clause = fn(&Sent, &Rules) -> Option<Verdict>;

/// Rules that a packet alone can break, in order of precedence. The trailing packets are known only when the document ends.
const CLAUSES: [Clause; 6] = [handshake, fin, unplaced, retransmission, leading, middle];

/// Verdict on a SYN: the priority of the rules, or HIGH as a control packet.
fn handshake(packet: &Sent, rules: &Rules) -> Option<Verdict> {
    packet.syn.then_some(match rules.spm.handshake {
        _ if !packet.judged => Verdict::Free,
        Some(Colour::Red) => Verdict::Low,
        None if !rules.control => Verdict::Free,
        _ => Verdict::High(Reason::Syn),
    })
}

/// Verdict on a FIN as a control packet.
fn fin(packet: &Sent, rules: &Rules) -> Option<Verdict> {
    (packet.fin && packet.judged && rules.control).then_some(Verdict::High(Reason::Fin))
}

/// Verdict on packets without data, on probes, and after a gap in the capture.
fn unplaced(packet: &Sent, _rules: &Rules) -> Option<Verdict> {
    (!packet.has_place).then_some(Verdict::Free)
}

fn retransmission(packet: &Sent, rules: &Rules) -> Option<Verdict> {
    let verdict = if rules.retransmissions { Verdict::High(Reason::Retransmission) } else { Verdict::Free };
    packet.again.then_some(verdict)
}

fn leading(packet: &Sent, rules: &Rules) -> Option<Verdict> {
    (packet.index < rules.spm.leading).then_some(Verdict::High(Reason::Leading))
}

/// Verdict on packets after the leading ones, while cwnd is not small. The window is one segment larger than the rule's, because a tail loss
/// probe may exceed cwnd (RFC 8985, section 7.3).
fn middle(packet: &Sent, rules: &Rules) -> Option<Verdict> {
    let is_leading = packet.distance < u64::from(rules.spm.leading);
    let is_small = packet.window < u64::from(rules.spm.small_window.saturating_add(1));
    (!is_leading && !is_small).then_some(Verdict::Low)
}

/// Idle time after which a sender may restart with a small window (RFC 5681, section 4.1): the smallest RTO of common implementations.
const IDLE_NANOS: i64 = 200_000_000;

/// MSS of a peer that announces none (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u16 = 536;

impl Tracked {
    /// Returns true if this SYN can belong to the connection.
    pub(super) fn may_open_with(&self, server: bool, sequence: u32) -> bool {
        self.ends[usize::from(server)].initial.is_none_or(|initial| initial == sequence)
    }

    /// Handles the end of the connection or of the capture, at which the ends of the documents are unknown.
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
    /// Handles an acknowledgement from the other side.
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
            // Data sent after the recovery point is acknowledged. The data in flight during the recovery did not count for the bound.
            self.recover = None;
        }
    }

    /// Handles a packet of this side. Judges the packet at once, or stores it until its distance from the end of the document is known.
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
        let packet = Sent { syn, fin, judged, ..Sent::default() };
        let now = |packet: Sent, report: &mut Report| {
            judge(number, connection, server, priority, packet.verdict(rules), report);
        };
        let place = self.initial.and_then(|initial| count(initial, tcp.sequence(), self.sent));
        let Some(start) = place.filter(|_| !syn) else { return now(packet, report) };
        let len = tcp.payload().len() as u64;
        let end = start + len;
        let segment_size = self.segment_size(tcp, other_mss, len);
        // A packet with only the last byte of the data, if all data is acknowledged, is a keep-alive probe.
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
            self.update_window(nanos, end);
        }
        let has_place = len > 0 && !probe && sure;
        let distance = start.saturating_sub(self.document) / segment_size;
        let window = self.window / segment_size;
        let packet = Sent { has_place, again, index: self.packets, distance, window, ..packet };
        if new {
            self.sent = end;
            self.packets += 1;
            self.undecided.push_back(Undecided { number, priority, end, verdict: packet.verdict(rules) });
        } else {
            now(packet, report);
        }
        if fin {
            self.decide(connection, server, last, report);
            self.sent = self.sent.max(end + 1);
        }
        // A packet this far from the end of the data sent is not among the last packets, regardless of what follows.
        let trailing = rules.spm.trailing;
        let tail = if trailing == 0 { 0 } else { u64::from(trailing.saturating_add(1)) * segment_size };
        while self.undecided.len() > trailing as usize && self.undecided[0].end + tail <= self.sent {
            let Undecided { number, priority, verdict, .. } = self.undecided[0];
            judge(number, connection, server, priority, verdict, report);
            self.undecided.pop_front();
        }
    }

    /// Updates the lower bound of cwnd when a data packet that ends at `end` is sent.
    fn update_window(&mut self, nanos: i64, end: u64) {
        let idle = self.acknowledged >= self.sent && nanos.saturating_sub(self.last_data) >= IDLE_NANOS;
        let kept = if idle { 0 } else { self.window };
        let in_flight = end.saturating_sub(self.acknowledged);
        self.window = if self.recover.is_some() { 0 } else { kept.max(in_flight) };
        self.last_data = nanos;
    }

    /// Handles the end of the document. The last `trailing` packets must be HIGH. Packets close to these packets may be HIGH, because a
    /// marker counts bytes rather than packets.
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

    /// Returns the size of a full segment in bytes: the smaller MSS minus the length of the options (RFC 6691), or the largest segment so
    /// far if that is larger.
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
