//! Verification of the marks of selective packet marking in a capture (CATNIP paper, sections III-B and V-G).
//!
//! The capture must be taken at the sender, before packets can be lost or reordered. It shows most inputs of the marker: the first and last
//! packets of a document, SYN, FIN and retransmissions, all of which must be HIGH. The capture does not show the congestion window. A lower
//! bound of the window is the largest amount of data in flight since the last sign of congestion or the last idle period. A packet far from
//! both ends of its document must be LOW if this bound exceeds a small window. All other packets may be HIGH or LOW.
//!
//! The kernel's own trace ([`Windows`]) shows the window and the state of congestion control. With it, what each segment of a document must
//! be is known, and a document counts as right only if every segment is. Marks by the state of TCP (Noureddine and Tobagi 2002, Algorithm 1)
//! depend on nothing else.

mod report;
mod track;
mod windows;

pub use report::{Connection, Fault, FaultKind, Reason, Report, Side};
pub use windows::Windows;

use crate::pcapng::{CaptureError, Reader, Restored};
use crate::{FlowKey, Ip, PriorityCodec, Tcp, TcpFlags, has_valid_transport_checksum, ip};
use catnip_net::Priority;
use catnip_net::mark::{SpmParameters, Threshold};
use std::collections::BTreeMap;
use std::io::Read;
use track::Tracked;

/// Configuration of the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Marker.
    pub marker: Marker,
    /// True if SYN and FIN are HIGH. The marker may specify another priority for SYN and SYN-ACK, and for FIN.
    pub control: bool,
    /// True if retransmissions are HIGH, regardless of the window, and so is all that is sent until lost data is repaired. The capture alone
    /// does not tell how long this takes.
    pub retransmissions: bool,
    /// Marks of ACKs without data.
    pub acks: Acks,
    /// Definition of a document.
    pub documents: Documents,
    /// Sides whose packets are marked.
    pub markers: Markers,
    /// Encoding of the priority.
    pub codec: PriorityCodec,
}

/// Marker of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Selective packet marking: leading and trailing packets, and the small window.
    Spm(SpmParameters),
    /// Marking by the state of TCP with these thresholds for HIGH and MED: SYN is HIGH, and so is all that is sent during a fast recovery;
    /// the window counts for all other data and for FIN.
    TcpState([Threshold; 2]),
}

impl Marker {
    /// Returns the rules for places in a document. Marking by the state of TCP has none.
    fn spm(&self) -> SpmParameters {
        match self {
            Self::Spm(spm) => *spm,
            Self::TcpState(_) => SpmParameters {
                leading: 0,
                trailing: 0,
                small_window: 0,
                handshake: Some(Priority::High),
                repairs: false,
            },
        }
    }
}

/// Marks of ACKs without data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// Any marks.
    #[default]
    Any,
    /// LOW, as without a mark.
    Low,
    /// Level of the latest received data, LOW before it.
    AsData,
}

/// Definition of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Documents {
    /// All data that one side sends (HTTP/1.0).
    PerConnection,
    /// Data that one side sends until data from the other side arrives (persistent connections).
    PerExchange,
}

/// Sides of connections whose packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markers {
    /// Both sides.
    Both,
    /// Side that opens connections.
    Clients,
    /// Side that accepts connections.
    Servers,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            marker: Marker::Spm(SpmParameters::FULL),
            control: true,
            retransmissions: true,
            acks: Acks::default(),
            documents: Documents::PerConnection,
            markers: Markers::Both,
            codec: PriorityCodec::default(),
        }
    }
}

/// Verifier of a capture, packet by packet.
#[derive(Debug)]
pub struct Verifier {
    rules: Rules,
    windows: Option<Windows>,
    report: Report,
    /// Index of the current connection between two endpoints, by the smaller of the two flows of the connection.
    current: BTreeMap<FlowKey, usize>,
    tracked: Vec<Tracked>,
    restored: Restored,
}

/// Verifies a whole capture, with the windows of its senders if they are known. A capture that is cut in the middle of a packet is verified
/// up to there.
pub fn verify(capture: impl Read, rules: &Rules, windows: Option<Windows>) -> Result<Report, CaptureError> {
    let mut reader = Reader::new(capture)?;
    let mut verifier = Verifier::new(rules, windows);
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                if verifier.windows.as_ref().is_some_and(|windows| !windows.covers(record.nanos)) {
                    return Err(CaptureError::Block(OTHER_TIME));
                }
                verifier.packet(record.nanos, record.ip(), record.missing());
            }
            Ok(None) => break,
            Err(CaptureError::Truncated) => {
                verifier.report.is_cut = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(verifier.finish())
}

const OTHER_TIME: &str =
    "a packet was captured at a time of which the kernel's trace is not (echo tai > trace_clock)";

impl Verifier {
    /// Creates a verifier. `windows` are those of the senders, if the kernel's trace is known.
    pub fn new(rules: &Rules, windows: Option<Windows>) -> Self {
        Self {
            rules: *rules,
            windows,
            report: Report::default(),
            current: BTreeMap::new(),
            tracked: Vec::new(),
            restored: Restored::default(),
        }
    }

    /// Verifies the next packet of the capture. `nanos` is its capture time, nanoseconds since 1970. `packet` is `None` for a frame without
    /// an IP packet. The capture lacks the last `missing` bytes of the packet.
    pub fn packet(&mut self, nanos: i64, packet: Option<&[u8]>, missing: usize) {
        self.report.packets += 1;
        let Some(packet) = packet else {
            self.report.not_tcp += 1;
            return;
        };
        let mut restored = std::mem::take(&mut self.restored);
        let (packet, is_cut) = restored.restore(packet, missing);
        self.check_packet(nanos, packet, !is_cut);
        self.restored = restored;
    }

    /// Returns the report on all packets so far.
    pub fn finish(mut self) -> Report {
        for index in 0..self.tracked.len() {
            self.tracked[index].close(index, &mut self.report);
        }
        self.report
    }

    fn check_packet(&mut self, nanos: i64, packet: &[u8], is_complete: bool) {
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
        let is_valid = ip.has_valid_header_checksum() && has_valid_transport_checksum(&ip) == Ok(true);
        let number = self.report.packets;
        if !is_complete {
            side.unchecked += 1;
        } else if !is_valid {
            side.bad_checksums += 1;
            self.report.fault(Fault { packet: number, connection: index, server, kind: FaultKind::Checksum });
        }
        match self.rules.codec.of(&ip) {
            Ok(priority) => {
                let (connection, tcp, flow) = (index, &tcp, &flow);
                let packet = track::Captured { number, nanos, connection, server, priority, tcp, flow };
                let windows = self.windows.as_mut();
                self.tracked[index].packet(&packet, &self.rules, windows, &mut self.report);
            }
            Err(error) => {
                self.report.connections[index].side_mut(server).unmarkable += 1;
                let kind = FaultKind::Unmarkable(error);
                self.report.fault(Fault { packet: number, connection: index, server, kind });
            }
        }
    }

    /// Returns the index of the connection of a packet. Creates a connection if no connection has the addresses of the packet, or if the
    /// packet is a SYN with another initial sequence number.
    fn connection(&mut self, flow: FlowKey, tcp: &Tcp<'_>) -> usize {
        let flags = tcp.flags();
        let is_syn = flags.contains(TcpFlags::SYN);
        let key = flow.min(flow.reversed());
        if let Some(&index) = self.current.get(&key) {
            let server = flow.source == self.report.connections[index].server;
            if !is_syn || self.tracked[index].accepts_syn(server, tcp.sequence()) {
                return index;
            }
            self.tracked[index].close(index, &mut self.report);
        }
        let is_syn_ack = is_syn && flags.contains(TcpFlags::ACK);
        let (client, server) =
            if is_syn_ack { (flow.destination, flow.source) } else { (flow.source, flow.destination) };
        self.report.connections.push(Connection::new(client, server));
        self.tracked.push(Tracked::default());
        self.current.insert(key, self.tracked.len() - 1);
        self.tracked.len() - 1
    }
}

#[cfg(test)]
mod tests;
