//! Does a capture show the marks that selective packet marking promises (CATNIP paper, sections III-B and V-G)?
//!
//! The capture is taken at the sender, before packets can be lost or overtake each other. Most of what the marker
//! knew can be seen there: the first and last packets of a document, SYN, FIN and retransmissions, all of which must
//! be HIGH. The congestion window cannot be seen, but it is no smaller than what is in flight, nor than what was since
//! the last sign of congestion or pause. So a packet far from both ends of its document must be LOW if that is more
//! than a small window. Every other packet is free to be either.

mod report;
mod track;

pub use report::{Connection, Fault, FaultKind, Reason, Report, Side};

use crate::pcapng::{CaptureError, Reader};
use crate::{FlowKey, Ip, PriorityCodec, Tcp, TcpFlags, ip, transport_is_right};
use catnip_net::mark::SpmParameters;
use std::collections::BTreeMap;
use std::io::Read;
use track::Tracked;

/// What the marker was told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Leading and trailing packets, small window.
    pub spm: SpmParameters,
    /// SYN and FIN are HIGH; of SYN and SYN-ACK `spm` may say otherwise.
    pub control: bool,
    /// Retransmissions are HIGH, whatever the window.
    pub retransmissions: bool,
    /// What a document is.
    pub documents: Documents,
    /// Whose packets are marked.
    pub markers: Markers,
    /// How a packet says its priority.
    pub codec: PriorityCodec,
}

/// What counts as one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Documents {
    /// All that one side sends (HTTP/1.0).
    PerConnection,
    /// What one side sends until it hears data from the other (persistent connections).
    PerExchange,
}

/// Who marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markers {
    /// Both sides.
    Both,
    /// The side that opens connections.
    Clients,
    /// The other one.
    Servers,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            spm: SpmParameters::FULL,
            control: true,
            retransmissions: true,
            documents: Documents::PerConnection,
            markers: Markers::Both,
            codec: PriorityCodec::default(),
        }
    }
}

/// Judges packet by packet.
#[derive(Debug)]
pub struct Verifier {
    rules: Rules,
    report: Report,
    /// The connection that now uses a pair of addresses, by the smaller of its two flows.
    current: BTreeMap<FlowKey, usize>,
    tracked: Vec<Tracked>,
    /// A packet that the capture has cut, with zeros for what is missing.
    restored: Vec<u8>,
}

/// Judges a whole capture.
pub fn verify(capture: impl Read, rules: &Rules) -> Result<Report, CaptureError> {
    let mut reader = Reader::new(capture)?;
    let mut verifier = Verifier::new(rules);
    while let Some(record) = reader.next_record()? {
        let missing = (record.original_len as usize).saturating_sub(record.frame.len());
        verifier.packet(record.nanos, record.ip(), missing);
    }
    Ok(verifier.finish())
}

/// Longer than any frame with an IP packet in it.
const MAX_MISSING: usize = 1 << 17;

impl Verifier {
    /// A verifier that has seen nothing.
    pub fn new(rules: &Rules) -> Self {
        Self {
            rules: *rules,
            report: Report::default(),
            current: BTreeMap::new(),
            tracked: Vec::new(),
            restored: Vec::new(),
        }
    }

    /// The next packet of the capture, seen at a time in nanoseconds, or `None` for a frame without one. The capture
    /// has cut `missing` bytes off its end.
    pub fn packet(&mut self, nanos: i64, packet: Option<&[u8]>, missing: usize) {
        self.report.packets += 1;
        let Some(packet) = packet else {
            self.report.not_tcp += 1;
            return;
        };
        if missing == 0 || missing > MAX_MISSING {
            self.whole(nanos, packet, true);
        } else {
            let mut restored = std::mem::take(&mut self.restored);
            restored.clear();
            restored.extend_from_slice(packet);
            restored.resize(packet.len() + missing, 0);
            self.whole(nanos, &restored, false);
            self.restored = restored;
        }
    }

    /// The judgement on all packets so far.
    pub fn finish(mut self) -> Report {
        for index in 0..self.tracked.len() {
            self.tracked[index].cut(index, &mut self.report);
        }
        self.report
    }

    fn whole(&mut self, nanos: i64, packet: &[u8], complete: bool) {
        let ip = match Ip::parse(packet) {
            Ok(ip) if ip.protocol() != ip::TCP => {
                self.report.not_tcp += 1;
                return;
            }
            Ok(ip) if ip.fragment().is_none() => ip,
            _ => {
                self.report.unreadable += 1;
                return;
            }
        };
        let Ok(tcp) = Tcp::parse(ip.payload()) else {
            self.report.unreadable += 1;
            return;
        };
        let flow = FlowKey::of_tcp(&ip, &tcp);
        let index = self.connection(flow, &tcp);
        let connection = &mut self.report.connections[index];
        let server = flow.source == connection.server;
        let side = connection.side_mut(server);
        let right = ip.header_is_right() && transport_is_right(&ip) == Ok(true);
        let number = self.report.packets;
        if !complete {
            side.unchecked += 1;
        } else if !right {
            side.bad_checksums += 1;
            self.report.fault(Fault { packet: number, connection: index, server, kind: FaultKind::Checksum });
        }
        match self.rules.codec.of(&ip) {
            Ok(priority) => {
                let packet = track::Seen { number, nanos, connection: index, server, priority, tcp: &tcp };
                self.tracked[index].packet(&packet, &self.rules, &mut self.report);
            }
            Err(error) => {
                self.report.connections[index].side_mut(server).unmarkable += 1;
                let kind = FaultKind::Unmarkable(error);
                self.report.fault(Fault { packet: number, connection: index, server, kind });
            }
        }
    }

    /// The connection of a packet: a new one if none has its addresses, or if it opens one with other numbers.
    fn connection(&mut self, flow: FlowKey, tcp: &Tcp<'_>) -> usize {
        let flags = tcp.flags();
        let opens = flags.contains(TcpFlags::SYN);
        let key = flow.min(flow.reversed());
        if let Some(&index) = self.current.get(&key) {
            let server = flow.source == self.report.connections[index].server;
            if !opens || self.tracked[index].may_open_with(server, tcp.sequence()) {
                return index;
            }
            self.tracked[index].cut(index, &mut self.report);
        }
        let answers = opens && flags.contains(TcpFlags::ACK);
        let (client, server) =
            if answers { (flow.destination, flow.source) } else { (flow.source, flow.destination) };
        self.report.connections.push(Connection::new(client, server));
        self.tracked.push(Tracked::default());
        self.current.insert(key, self.tracked.len() - 1);
        self.tracked.len() - 1
    }
}

#[cfg(test)]
mod tests;
