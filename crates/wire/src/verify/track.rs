use super::{Documents, Fault, FaultKind, Markers, Reason, Report, Rules};
use crate::convert::stream_offset;
use crate::{Tcp, TcpFlags};
use catnip_net::Priority;
use std::collections::VecDeque;

/// State of the client and of the server of a connection.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    ends: [End; 2],
}

/// Packet of a tracked connection.
#[derive(Clone, Copy)]
pub(super) struct Captured<'a> {
    pub(super) number: u64,
    /// Capture time, nanoseconds since 1970.
    pub(super) nanos: i64,
    pub(super) connection: usize,
    pub(super) server: bool,
    pub(super) priority: Priority,
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
    max_segment: u64,
    /// End of the data sent (SND.MAX).
    snd_max: u64,
    snd_una: u64,
    /// Recovery point: until it is acknowledged, cwnd may be smaller than the data in flight.
    recover: Option<u64>,
    /// Lower bound of cwnd, bytes: the largest amount of data in flight since the last possible reduction of cwnd.
    window: u64,
    /// Time of the last data packet, nanoseconds since 1970.
    last_data: i64,
    /// Start of the document.
    document_start: u64,
    /// Number of new data packets in the document.
    packets: u32,
    /// True if the next data begins a document.
    answered: bool,
    /// Packets that may turn out to be the last of the document.
    undecided: VecDeque<Undecided>,
    /// True if data is missing in the capture.
    has_gap: bool,
}

#[derive(Clone, Copy, Debug)]
struct Undecided {
    number: u64,
    priority: Priority,
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
struct PacketContext {
    syn: bool,
    fin: bool,
    /// True if the rules apply to this side of the connection.
    is_checked: bool,
    /// True if the packet carries data whose place in the document is known.
    has_known_offset: bool,
    /// True for a retransmission.
    is_retransmission: bool,
    /// Number of new data packets of the document before this one.
    index: u32,
    /// Distance from the start of the document, full segments.
    distance: u64,
    /// Lower bound of cwnd, full segments.
    window: u64,
}

impl PacketContext {
    /// Returns the verdict of the first clause that applies.
    fn verdict(&self, rules: &Rules) -> Verdict {
        CLAUSES.iter().find_map(|clause| clause(self, rules)).unwrap_or(Verdict::Free)
    }
}

/// Verdict on a packet; `None` if the clause does not apply to it.
type Clause = fn(&PacketContext, &Rules) -> Option<Verdict>;

/// Rules that a packet alone can break, in order of precedence. The trailing packets are known only when the document ends.
const CLAUSES: [Clause; 6] = [handshake, fin, without_offset, retransmission, leading, middle];

/// Verdict on a SYN: the priority of the rules, or HIGH as a control packet.
fn handshake(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    packet.syn.then_some(match rules.spm.handshake {
        _ if !packet.is_checked => Verdict::Free,
        Some(Priority::Low) => Verdict::Low,
        None if !rules.control => Verdict::Free,
        _ => Verdict::High(Reason::Syn),
    })
}

/// Verdict on a FIN as a control packet.
fn fin(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    (packet.fin && packet.is_checked && rules.control).then_some(Verdict::High(Reason::Fin))
}

/// Verdict on packets without data, on probes, and after a gap in the capture.
fn without_offset(packet: &PacketContext, _rules: &Rules) -> Option<Verdict> {
    (!packet.has_known_offset).then_some(Verdict::Free)
}

fn retransmission(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    let verdict = if rules.retransmissions { Verdict::High(Reason::Retransmission) } else { Verdict::Free };
    packet.is_retransmission.then_some(verdict)
}

fn leading(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    (packet.index < rules.spm.leading).then_some(Verdict::High(Reason::Leading))
}

/// Verdict on packets after the leading ones, while cwnd is not small. The window is one segment larger than the rule's, because a tail
/// loss probe may exceed cwnd (RFC 8985, section 7.3).
fn middle(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
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
    pub(super) fn accepts_syn(&self, server: bool, sequence: u32) -> bool {
        self.ends[usize::from(server)].initial.is_none_or(|initial| initial == sequence)
    }

    /// Handles the end of the connection or of the capture, at which the ends of the documents are unknown.
    pub(super) fn close(&mut self, connection: usize, report: &mut Report) {
        for (end, server) in self.ends.iter_mut().zip([false, true]) {
            end.end_document(connection, server, 0, report);
        }
    }

    pub(super) fn packet(&mut self, captured: &Captured<'_>, rules: &Rules, report: &mut Report) {
        let [client, server] = &mut self.ends;
        let (from, to) = if captured.server { (server, client) } else { (client, server) };
        let (tcp, flags) = (captured.tcp, captured.tcp.flags());
        let len = tcp.payload().len() as u64;
        let side = report.connections[captured.connection].side_mut(captured.server);
        side.packets += 1;
        side.data += u64::from(len > 0);
        side.high += u64::from(captured.priority == Priority::High);
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
        let is_checked = match rules.markers {
            Markers::Both => true,
            Markers::Clients => !captured.server,
            Markers::Servers => captured.server,
        };
        from.on_packet(captured, to.mss, is_checked, rules, report);
        if flags.contains(TcpFlags::RST) {
            self.close(captured.connection, report);
        }
    }
}

impl End {
    /// Handles an acknowledgement from the other side.
    fn on_ack(&mut self, tcp: &Tcp<'_>) {
        let ack =
            self.initial.and_then(|initial| stream_offset(initial, tcp.acknowledgement(), self.snd_max));
        let Some(ack) = ack else { return };
        if ack > self.snd_max {
            (self.has_gap, self.snd_max) = (true, ack);
        }
        let is_bare = tcp.payload().is_empty() && !tcp.flags().contains(TcpFlags::FIN);
        let is_duplicate = is_bare && ack == self.snd_una && self.snd_max > ack;
        let has_sack = tcp.options().is_ok_and(|options| !options.sack.as_slice().is_empty());
        self.snd_una = self.snd_una.max(ack);
        if is_duplicate || has_sack || tcp.flags().contains(TcpFlags::ECE) {
            self.recover = Some(self.snd_max);
        } else if self.recover.is_some_and(|recover| self.snd_una > recover) {
            // Data sent after the recovery point is acknowledged. The data in flight during the recovery did not count for the bound.
            self.recover = None;
        }
    }

    /// Handles a packet of this side. Judges the packet at once, or stores it until its distance from the end of the document is known.
    fn on_packet(
        &mut self,
        captured: &Captured<'_>,
        peer_mss: Option<u16>,
        is_checked: bool,
        rules: &Rules,
        report: &mut Report,
    ) {
        let &Captured { number, nanos, connection, server, priority, tcp } = captured;
        let flags = tcp.flags();
        let (syn, fin) = (flags.contains(TcpFlags::SYN), flags.contains(TcpFlags::FIN));
        let packet = PacketContext { syn, fin, is_checked, ..PacketContext::default() };
        let check_now = |packet: PacketContext, report: &mut Report| {
            check(number, connection, server, priority, packet.verdict(rules), report);
        };
        let offset = self.initial.and_then(|initial| stream_offset(initial, tcp.sequence(), self.snd_max));
        let Some(start) = offset.filter(|_| !syn) else { return check_now(packet, report) };
        let len = tcp.payload().len() as u64;
        let end = start + len;
        let segment_size = self.segment_size(tcp, peer_mss, len);
        // A packet with only the last byte of the data, if all data is acknowledged, is a keep-alive probe.
        let is_probe = len == 1 && end == self.snd_max && self.snd_una >= end && !fin;
        let is_retransmission = len > 0 && start < self.snd_max && !is_probe;
        if is_retransmission {
            self.recover = Some(self.snd_max);
        }
        let side = report.connections[connection].side_mut(server);
        side.retransmissions += u64::from(is_retransmission);
        if start > self.snd_max {
            side.gaps += 1;
            self.has_gap = true;
        }
        let is_certain = is_checked && !self.has_gap;
        let last = if is_certain { rules.spm.trailing } else { 0 };
        let is_new = end > self.snd_max;
        if is_new && std::mem::take(&mut self.answered) {
            self.end_document(connection, server, last, report);
            (self.document_start, self.packets, self.window) = (start, 0, 0);
        }
        if len > 0 {
            self.update_window(nanos, end);
        }
        let has_known_offset = len > 0 && !is_probe && is_certain;
        let distance = start.saturating_sub(self.document_start) / segment_size;
        let window = self.window / segment_size;
        let packet = PacketContext {
            has_known_offset,
            is_retransmission,
            index: self.packets,
            distance,
            window,
            ..packet
        };
        if is_new {
            self.snd_max = end;
            self.packets += 1;
            self.undecided.push_back(Undecided { number, priority, end, verdict: packet.verdict(rules) });
        } else {
            check_now(packet, report);
        }
        if fin {
            self.end_document(connection, server, last, report);
            self.snd_max = self.snd_max.max(end + 1);
        }
        // A packet this far from the end of the data sent is not among the last packets, regardless of what follows.
        let trailing = rules.spm.trailing;
        let tail = if trailing == 0 { 0 } else { u64::from(trailing.saturating_add(1)) * segment_size };
        while self.undecided.len() > trailing as usize && self.undecided[0].end + tail <= self.snd_max {
            let Undecided { number, priority, verdict, .. } = self.undecided[0];
            check(number, connection, server, priority, verdict, report);
            self.undecided.pop_front();
        }
    }

    /// Updates the lower bound of cwnd when a data packet that ends at `end` is sent.
    fn update_window(&mut self, nanos: i64, end: u64) {
        let idle = self.snd_una >= self.snd_max && nanos.saturating_sub(self.last_data) >= IDLE_NANOS;
        let window = if idle { 0 } else { self.window };
        let in_flight = end.saturating_sub(self.snd_una);
        self.window = if self.recover.is_some() { 0 } else { window.max(in_flight) };
        self.last_data = nanos;
    }

    /// Handles the end of the document. The last `trailing` packets must be HIGH. Packets close to these packets may be HIGH, because a
    /// marker counts bytes rather than packets.
    fn end_document(&mut self, connection: usize, server: bool, trailing: u32, report: &mut Report) {
        let first = self.undecided.len().saturating_sub(trailing as usize);
        for (i, packet) in self.undecided.drain(..).enumerate() {
            let verdict = match packet.verdict {
                Verdict::High(reason) => Verdict::High(reason),
                _ if i >= first => Verdict::High(Reason::Trailing),
                _ => Verdict::Free,
            };
            check(packet.number, connection, server, packet.priority, verdict, report);
        }
    }

    /// Returns the size of a full segment in bytes: the smaller MSS minus the length of the options (RFC 6691), or the largest segment so
    /// far if that is larger.
    fn segment_size(&mut self, tcp: &Tcp<'_>, peer_mss: Option<u16>, len: u64) -> u64 {
        self.max_segment = self.max_segment.max(len);
        let announced = match (self.mss, peer_mss) {
            (Some(ours), Some(theirs)) => ours.min(theirs),
            (ours, theirs) => ours.or(theirs).unwrap_or(DEFAULT_MSS),
        };
        let options = tcp.header_len() as u64 - 20;
        self.max_segment.max(u64::from(announced).saturating_sub(options)).max(1)
    }
}

fn check(
    packet: u64,
    connection: usize,
    server: bool,
    priority: Priority,
    verdict: Verdict,
    report: &mut Report,
) {
    let side = report.connections[connection].side_mut(server);
    let kind = match (verdict, priority) {
        (Verdict::High(reason), Priority::Low) => {
            side.missing_high += 1;
            Some(FaultKind::MissingHigh(reason))
        }
        (Verdict::Low, Priority::High) => {
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
