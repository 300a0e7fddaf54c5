use super::windows::{Moment, Sending, Windows};
use super::{Acks, Documents, Fault, FaultKind, Marker, Markers, Reason, Report, Rules};
use crate::convert::stream_offset;
use crate::{FlowKey, Tcp, TcpFlags};
use catnip_net::Priority;
use catnip_net::mark::TcpStateSpec;
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
    pub(super) flow: &'a FlowKey,
}

/// One side of a connection as a sender. Positions count bytes of its data from 0.
#[derive(Debug, Default)]
struct End {
    /// Sequence number of the SYN; `None` without a SYN in the capture, in which case documents are unknown.
    initial: Option<u32>,
    /// MSS announced in the SYN.
    mss: Option<u16>,
    /// Size of a full segment, bytes.
    segment: u64,
    /// End of the data sent (SND.MAX).
    snd_max: u64,
    /// End of the data that the capture has shown. `snd_max` may be larger if packets are missing.
    seen: u64,
    snd_una: u64,
    /// Number of segments from the other side since the one that moved `snd_una`, or that completed the handshake; `None` before it.
    received: Option<usize>,
    /// Recovery point: until it is acknowledged, cwnd may be smaller than the data in flight.
    recover: Option<u64>,
    /// Lower bound of cwnd, bytes: the largest amount of data in flight since the last possible reduction of cwnd.
    window: u64,
    /// Time of the last data packet, nanoseconds since 1970.
    last_data: i64,
    /// True if the data since the last segment from the other side began after so long an idle time that the sender may have restarted with
    /// a small window.
    is_idle: bool,
    /// Last time at which the kernel's cwnd was full, nanoseconds since 1970, and the largest amount of data in flight since, segments.
    full_at: i64,
    used: u32,
    /// End of the data sent when the kernel's cwnd was full last; true until data is sent after all of it was acknowledged; and true if that
    /// was so when the latest segment arrived.
    full_until: u64,
    is_full: bool,
    was_full: bool,
    /// Latest data from the other side.
    from_peer: Option<FromPeer>,
    /// Start of the document.
    document_start: u64,
    /// Number of new data packets in the document.
    packets: u32,
    /// True if the next data begins a document.
    answered: bool,
    /// Segments that may turn out to be the last of the document.
    waiting: VecDeque<Waiting>,
    /// Repeated segments, whose marks depend on their places if `retransmissions` is not set in the rules.
    repeated: Vec<Waiting>,
    /// Marks of the document so far.
    marks: Marks,
    /// True if data is missing in the capture.
    has_gap: bool,
}

/// Data packet as the side that answers it has received it.
#[derive(Clone, Copy, Debug)]
struct FromPeer {
    priority: Priority,
    /// Time since which all data has had this priority, nanoseconds since 1970.
    since: i64,
}

/// Segment whose distance from the end of the document is not known yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u64,
    priority: Priority,
    start: u64,
    end: u64,
    /// Verdict if the segment is not among the last ones of the document.
    verdict: Verdict,
}

/// Marks of the segments of a document.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// True if the document has data.
    has_data: bool,
    wrong: u64,
    unknown: u64,
}

/// Required mark of a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    High(Reason),
    Med,
    Low,
    /// Any mark: no rule applies, or rules in packets and in bytes differ.
    Either,
    /// One mark, but the capture does not tell which.
    Unknown,
}

/// Packet as far as its verdict depends on it.
#[derive(Clone, Copy, Debug, Default)]
struct PacketContext {
    syn: bool,
    fin: bool,
    /// True if the rules apply to this side of the connection.
    is_checked: bool,
    /// True if the packet carries neither data nor SYN, FIN or RST.
    is_pure_ack: bool,
    /// True if the packet carries data that is no probe.
    is_data: bool,
    /// True if the packet carries data whose place in the document is known.
    has_known_offset: bool,
    /// True for a retransmission.
    is_retransmission: bool,
    /// Number of new segments of the document before this one.
    index: u32,
    /// Distance from the start of the document, full segments.
    distance: u64,
    /// Lower bound of cwnd, full segments.
    window: u64,
    /// State of the sender according to the kernel; `None` if the kernel's trace does not tell.
    sending: Option<Sending>,
    /// Mark of the data that the packet answers; `None` if it may be either of two.
    answers: Option<Priority>,
}

impl PacketContext {
    /// Returns the verdict of the first clause that applies.
    fn verdict(&self, rules: &Rules) -> Verdict {
        CLAUSES.iter().find_map(|clause| clause(self, rules)).unwrap_or(Verdict::Unknown)
    }

    /// Returns true if cwnd is small according to the kernel; `None` if it is not known.
    fn is_small(&self, rules: &Rules) -> Option<bool> {
        self.sending.and_then(|sending| sending.is_small(rules.marker.spm().small_window))
    }
}

/// Verdict on a packet; `None` if the clause does not apply to it.
type Clause = fn(&PacketContext, &Rules) -> Option<Verdict>;

/// Rules that a packet alone can break, in order of precedence. The trailing packets are known only when the document ends.
const CLAUSES: [Clause; 10] = [
    handshake,
    fin,
    pure_ack,
    without_offset,
    tcp_state,
    retransmission,
    recovery,
    leading,
    small_window,
    middle,
];

/// Verdict on a SYN: the priority of the rules, or HIGH as a control packet.
fn handshake(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    packet.syn.then_some(match rules.marker.spm().handshake {
        _ if !packet.is_checked => Verdict::Either,
        Some(Priority::Low) => Verdict::Low,
        None if !rules.control => Verdict::Either,
        _ => Verdict::High(Reason::Syn),
    })
}

/// Verdict on a FIN as a control packet.
fn fin(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    let is_control = rules.control && matches!(rules.marker, Marker::Spm(_));
    (packet.fin && packet.is_checked && is_control).then_some(Verdict::High(Reason::Fin))
}

/// Verdict on a packet that does nothing but acknowledge.
fn pure_ack(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    (packet.is_pure_ack && packet.is_checked).then_some(match (rules.acks, packet.answers) {
        (Acks::Any, _) | (Acks::AsData, None) => Verdict::Either,
        (Acks::AsData, Some(Priority::High)) => Verdict::High(Reason::Ack),
        (Acks::AsData, Some(Priority::Medium)) => Verdict::Med,
        (Acks::Low, _) | (Acks::AsData, Some(Priority::Low)) => Verdict::Low,
    })
}

/// Verdict on packets without data, on probes, and after a gap in the capture.
fn without_offset(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    let is_hidden = packet.is_data && packet.is_checked;
    let is_bare_fin = packet.fin && !packet.is_data && packet.is_checked;
    let is_known_fin = is_bare_fin && packet.sending.is_some() && matches!(rules.marker, Marker::TcpState(_));
    (!packet.has_known_offset && !is_known_fin).then_some(if is_hidden {
        Verdict::Unknown
    } else {
        Verdict::Either
    })
}

/// Verdict of marking by the state of TCP on data, sent for the first time or again, and on FIN.
fn tcp_state(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    let Marker::TcpState(thresholds) = rules.marker else { return None };
    let Some(sending) = packet.sending else { return Some(Verdict::Unknown) };
    if sending.recovers_fast() {
        return Some(Verdict::High(Reason::Recovery));
    }
    let [low, high] = sending.window().map(|window| TcpStateSpec::priority(thresholds, window, false));
    Some(match low {
        _ if low != high => Verdict::Unknown,
        Priority::High => Verdict::High(Reason::SmallWindow),
        Priority::Medium => Verdict::Med,
        Priority::Low => Verdict::Low,
    })
}

/// Verdict on a retransmission. If it is not HIGH in any case, its place in the document counts.
fn retransmission(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    let is_high = packet.is_retransmission && rules.retransmissions;
    is_high.then_some(Verdict::High(Reason::Retransmission))
}

/// Verdict on new data while lost data is repaired.
fn recovery(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    let recovers = packet.sending.is_some_and(|sending| sending.recovers());
    (recovers && rules.retransmissions).then_some(Verdict::High(Reason::Recovery))
}

fn leading(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    (packet.index < rules.marker.spm().leading).then_some(Verdict::High(Reason::Leading))
}

fn small_window(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    (packet.is_small(rules) == Some(true)).then_some(Verdict::High(Reason::SmallWindow))
}

/// Verdict on packets after the leading ones, while cwnd is not small. Without the kernel's window its lower bound must be one segment
/// larger than the rule's, because a tail loss probe may exceed cwnd (RFC 8985, section 7.3).
fn middle(packet: &PacketContext, rules: &Rules) -> Option<Verdict> {
    // A marker that counts bytes may mark more packets than one that counts packets.
    let spm = rules.marker.spm();
    if packet.distance < u64::from(spm.leading) {
        return Some(Verdict::Either);
    }
    let is_large = packet.window > u64::from(spm.small_window);
    (packet.is_small(rules) == Some(false) || is_large).then_some(Verdict::Low)
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

    pub(super) fn packet(
        &mut self,
        captured: &Captured<'_>,
        rules: &Rules,
        windows: Option<&mut Windows>,
        report: &mut Report,
    ) {
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
            from.full_at = captured.nanos;
            from.mss = tcp.options().ok().and_then(|options| options.mss);
        }
        if flags.contains(TcpFlags::ACK) {
            to.on_ack(tcp);
        }
        let is_checked = match rules.markers {
            Markers::Both => true,
            Markers::Clients => !captured.server,
            Markers::Servers => captured.server,
        };
        if len > 0 {
            let latest = to.from_peer.filter(|latest| latest.priority == captured.priority);
            let since = latest.map_or(captured.nanos, |latest| latest.since);
            to.from_peer = Some(FromPeer { priority: captured.priority, since });
        }
        // A repeated request asks for nothing new.
        if from.shows_new_data(tcp) && rules.documents == Documents::PerExchange {
            to.answered = true;
        }
        from.on_packet(captured, to.mss, is_checked, rules, windows, report);
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
        // The kernel's trace begins after the handshake.
        let received = self.received.filter(|_| ack <= self.snd_una);
        self.received = Some(received.map_or(0, |received| received + 1));
        self.is_idle = false;
        self.was_full = self.is_full;
        self.snd_una = self.snd_una.max(ack);
        if is_duplicate || has_sack || tcp.flags().contains(TcpFlags::ECE) {
            self.recover = Some(self.snd_max);
        } else if self.recover.is_some_and(|recover| self.snd_una > recover) {
            // Data sent after the recovery point is acknowledged. The data in flight during the recovery did not count for the bound.
            self.recover = None;
        }
    }

    /// Returns true if a packet has data that no packet of the capture had before.
    fn shows_new_data(&mut self, tcp: &Tcp<'_>) -> bool {
        let len = tcp.payload().len() as u64;
        let offset = self.initial.and_then(|initial| stream_offset(initial, tcp.sequence(), self.snd_max));
        let end = offset.map_or(u64::MAX, |start| start + len);
        let is_new = len > 0 && end > self.seen;
        // Packets of an unknown place count as new each time.
        self.seen = if is_new && offset.is_some() { end } else { self.seen };
        is_new
    }

    /// Handles a packet of this side. Judges the packet at once, or stores it until its distance from the end of the document is known.
    fn on_packet(
        &mut self,
        captured: &Captured<'_>,
        peer_mss: Option<u16>,
        is_checked: bool,
        rules: &Rules,
        windows: Option<&mut Windows>,
        report: &mut Report,
    ) {
        let &Captured { number, nanos, connection, server, priority, tcp, flow } = captured;
        let flags = tcp.flags();
        let (syn, fin) = (flags.contains(TcpFlags::SYN), flags.contains(TcpFlags::FIN));
        let len = tcp.payload().len() as u64;
        let is_pure_ack = len == 0 && !syn && !fin && !flags.contains(TcpFlags::RST);
        let answers = self.answers(nanos);
        let packet = PacketContext {
            syn,
            fin,
            is_checked,
            is_pure_ack,
            answers,
            is_data: len > 0,
            ..PacketContext::default()
        };
        let offset = self.initial.and_then(|initial| stream_offset(initial, tcp.sequence(), self.snd_max));
        let Some(start) = offset.filter(|_| !syn) else {
            return self.check(number, connection, server, priority, packet.verdict(rules), report);
        };
        let end = start + len;
        self.update_segment(tcp, peer_mss, len);
        let segment_size = self.segment;
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
        let spm = rules.marker.spm();
        let last = if is_certain { spm.trailing } else { 0 };
        let is_new = end > self.snd_max;
        if is_new && std::mem::take(&mut self.answered) {
            self.end_document(connection, server, last, report);
            (self.document_start, self.packets, self.window) = (start, 0, 0);
        }
        if len > 0 {
            self.update_window(nanos, end);
        }
        let packet = PacketContext {
            is_data: len > 0 && !is_probe,
            has_known_offset: len > 0 && !is_probe && is_certain,
            is_retransmission,
            window: self.window / segment_size,
            ..packet
        };
        if is_new {
            self.snd_max = end;
            let moment = self.moment(nanos);
            let sending =
                windows.and_then(|windows| windows.at(flow, tcp.sequence())).map(|one| one.at(moment));
            self.update_use(nanos, sending);
            let packet = PacketContext { sending, ..packet };
            self.marks.has_data |= is_checked;
            // Segments that leave as one packet have one mark, and each its own place in the document.
            let mut from = start;
            while from < end {
                let until = end.min(from + segment_size);
                let distance = from.saturating_sub(self.document_start) / segment_size;
                let verdict = PacketContext { index: self.packets, distance, ..packet }.verdict(rules);
                self.packets += 1;
                self.waiting.push_back(Waiting { number, priority, start: from, end: until, verdict });
                from = until;
            }
        } else if is_retransmission && packet.has_known_offset && !rules.retransmissions {
            let una = self.initial.unwrap_or(0).wrapping_add(1).wrapping_add(self.snd_una as u32);
            let sent = windows
                .as_deref()
                .and_then(|windows| windows.at_repair(flow, una, self.received.unwrap_or(0)));
            let sending = sent.map(|interval| interval.at(self.moment(nanos)));
            let distance = start.checked_sub(self.document_start).map(|offset| offset / segment_size);
            let index = distance.map_or(u32::MAX, |distance| distance as u32);
            let packet = PacketContext { sending, index, distance: u64::from(index), window: 0, ..packet };
            let verdict = packet.verdict(rules);
            self.repeated.push(Waiting { number, priority, start, end, verdict });
        } else {
            let is_first_fin = fin && len == 0 && start == self.snd_max && is_certain;
            let sent = windows.filter(|_| is_first_fin).and_then(|windows| windows.at(flow, tcp.sequence()));
            let packet = PacketContext { sending: sent.map(|one| one.at(self.moment(nanos))), ..packet };
            let marks = self.marks;
            self.check(number, connection, server, priority, packet.verdict(rules), report);
            // An ACK belongs to no document.
            self.marks = if is_pure_ack { marks } else { self.marks };
        }
        if fin {
            self.end_document(connection, server, last, report);
            self.snd_max = self.snd_max.max(end + 1);
        }
        // A segment this far from the end of the data sent is not among the last ones, regardless of what follows.
        let trailing = spm.trailing;
        let tail = if trailing == 0 { 0 } else { u64::from(trailing.saturating_add(1)) * segment_size };
        while self.waiting.len() > trailing as usize && self.waiting[0].end + tail <= self.snd_max {
            let Waiting { number, priority, verdict, .. } = self.waiting[0];
            self.check(number, connection, server, priority, verdict, report);
            self.waiting.pop_front();
        }
    }

    /// Returns the mark of the data that an ACK answers: of the latest data; `None` if data with this mark has just begun to arrive, as it
    /// may not have been processed yet.
    fn answers(&self, nanos: i64) -> Option<Priority> {
        const JUST_NANOS: i64 = 1_000_000;
        let Some(FromPeer { priority, since }) = self.from_peer else { return Some(Priority::Low) };
        (nanos.saturating_sub(since) > JUST_NANOS).then_some(priority)
    }

    /// Returns the moment at which data is sent that is already counted.
    fn moment(&self, nanos: i64) -> Moment {
        let is_unused = nanos.saturating_sub(self.full_at) >= IDLE_NANOS;
        let unused = is_unused.then_some(self.used.max(self.in_flight()));
        Moment { nanos, segment: self.segment, is_idle: self.is_idle, unused, was_full: self.was_full }
    }

    /// Records how much of the kernel's cwnd is used once data is sent.
    fn update_use(&mut self, nanos: i64, sending: Option<Sending>) {
        let in_flight = self.in_flight();
        let is_full = sending.is_none_or(|sending| sending.is_filled_by(in_flight));
        if is_full {
            (self.full_at, self.used, self.full_until) = (nanos, 0, self.snd_max);
        } else {
            self.used = self.used.max(in_flight);
        }
        self.is_full = is_full || self.is_full && self.snd_una < self.full_until;
    }

    /// Returns the amount of data in flight, segments.
    fn in_flight(&self) -> u32 {
        self.snd_max.saturating_sub(self.snd_una).div_ceil(self.segment) as u32
    }

    /// Updates the lower bound of cwnd when a data packet that ends at `end` is sent.
    fn update_window(&mut self, nanos: i64, end: u64) {
        let is_idle = self.snd_una >= self.snd_max && nanos.saturating_sub(self.last_data) >= IDLE_NANOS;
        self.is_idle |= is_idle;
        let window = if is_idle { 0 } else { self.window };
        let in_flight = end.saturating_sub(self.snd_una);
        self.window = if self.recover.is_some() { 0 } else { window.max(in_flight) };
        self.last_data = nanos;
    }

    /// Handles the end of the document. The last `trailing` segments must be HIGH. One that begins within as many full segments may be
    /// HIGH, because a marker counts bytes rather than packets.
    fn end_document(&mut self, connection: usize, server: bool, trailing: u32, report: &mut Report) {
        let first = self.waiting.len().saturating_sub(trailing as usize);
        let last = self.waiting.get(first).map_or(self.snd_max, |segment| segment.start);
        let near = self.snd_max.saturating_sub(u64::from(trailing) * self.segment);
        let waiting = std::mem::take(&mut self.waiting);
        for segment in waiting.into_iter().chain(std::mem::take(&mut self.repeated)) {
            let verdict = match segment.verdict {
                Verdict::High(reason) => Verdict::High(reason),
                _ if segment.start >= last => Verdict::High(Reason::Trailing),
                _ if trailing > 0 && segment.start >= near => Verdict::Either,
                other => other,
            };
            self.check(segment.number, connection, server, segment.priority, verdict, report);
        }
        let Marks { has_data, wrong, unknown } = std::mem::take(&mut self.marks);
        let side = report.connections[connection].side_mut(server);
        side.documents += u64::from(has_data);
        side.right_documents += u64::from(has_data && wrong + unknown == 0);
        side.undecided_documents += u64::from(has_data && wrong == 0 && unknown > 0);
    }

    /// Updates the size of a full segment with a packet that has `len` bytes of data: the smaller MSS minus the length of the options
    /// (RFC 6691). If neither side has announced one, it is at least the largest packet so far.
    fn update_segment(&mut self, tcp: &Tcp<'_>, peer_mss: Option<u16>, len: u64) {
        let options = tcp.header_len() as u64 - 20;
        let announced = self.mss.into_iter().chain(peer_mss).min();
        let full = u64::from(announced.unwrap_or(DEFAULT_MSS)).saturating_sub(options).max(1);
        self.segment = if announced.is_some() { full } else { full.max(len).max(self.segment) };
    }

    /// Counts the mark of a segment, and reports a wrong one.
    fn check(
        &mut self,
        packet: u64,
        connection: usize,
        server: bool,
        priority: Priority,
        verdict: Verdict,
        report: &mut Report,
    ) {
        let side = report.connections[connection].side_mut(server);
        let kind = match verdict {
            Verdict::High(reason) if priority != Priority::High => {
                side.missing_high += 1;
                Some(FaultKind::MissingHigh(reason))
            }
            Verdict::Med if priority != Priority::Medium => {
                side.wrong_med += 1;
                Some(FaultKind::WrongMed(priority))
            }
            Verdict::Low if priority != Priority::Low => {
                side.wrong_high += 1;
                Some(FaultKind::WrongHigh)
            }
            _ => None,
        };
        side.must_be_high += u64::from(matches!(verdict, Verdict::High(_)));
        side.must_be_med += u64::from(verdict == Verdict::Med);
        side.must_be_low += u64::from(verdict == Verdict::Low);
        self.marks.unknown += u64::from(verdict == Verdict::Unknown);
        if let Some(kind) = kind {
            self.marks.wrong += 1;
            report.fault(Fault { packet, connection, server, kind });
        }
    }
}
