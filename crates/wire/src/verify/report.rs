use crate::WireError;
use catnip_net::Priority;
use std::fmt;
use std::net::SocketAddr;

/// Report of a verified capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Number of frames in the capture.
    pub packets: u64,
    /// Number of frames without TCP over IP.
    pub not_tcp: u64,
    /// Number of frames that are malformed or fragments.
    pub unreadable: u64,
    /// True if the capture ends in the middle of a packet, as after an interruption.
    pub is_cut: bool,
    /// Connections, in the order of their first packets.
    pub connections: Vec<Connection>,
    /// Faults, at most [`Report::MAX_FAULTS`]. At most half of this limit is available for checksum faults. The counters of each [`Side`]
    /// include all faults.
    pub faults: Vec<Fault>,
}

/// TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Side that opened the connection, or that sent the first packet in the capture if the capture lacks the opening.
    pub client: SocketAddr,
    /// Other side.
    pub server: SocketAddr,
    /// Packets from the client.
    pub from_client: Side,
    /// Packets from the server.
    pub from_server: Side,
}

/// Packet counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// All packets.
    pub packets: u64,
    /// Packets with data.
    pub data: u64,
    /// Documents of the side that marks.
    pub documents: u64,
    /// Documents in which each segment has the mark that it must have.
    pub right_documents: u64,
    /// Documents without a wrong mark in which the capture does not tell of each segment what its mark must be.
    pub undecided_documents: u64,
    /// Packets whose data was seen before.
    pub retransmissions: u64,
    /// Packets marked HIGH.
    pub high: u64,
    /// Segments, and ACKs without data, that must be HIGH. Several segments may leave in one packet, and under one mark.
    pub must_be_high: u64,
    /// Segments that must be MED.
    pub must_be_med: u64,
    /// Segments, and ACKs without data, that must be LOW.
    pub must_be_low: u64,
    /// Segments that must be HIGH and are not.
    pub missing_high: u64,
    /// Segments that must be MED and are not.
    pub wrong_med: u64,
    /// Segments that must be LOW and are marked HIGH or MED.
    pub wrong_high: u64,
    /// Packets that cannot carry a mark in the given encoding.
    pub unmarkable: u64,
    /// Packets with a wrong checksum. With checksum offload at the sender, all packets have a wrong checksum.
    pub bad_checksums: u64,
    /// Packets truncated by the capture, so that their checksums cannot be verified.
    pub unchecked: u64,
    /// Gaps in the data, caused by packets that are missing in the capture. After a gap, fewer packets can be judged.
    pub gaps: u64,
}

/// Fault of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the packet in the capture, counted from 1 as in other tools.
    pub packet: u64,
    /// Index of the connection in [`Report::connections`].
    pub connection: usize,
    /// True if the server sent the packet.
    pub server: bool,
    /// Kind of the fault.
    pub kind: FaultKind,
}

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Packet that must be HIGH and is not.
    MissingHigh(Reason),
    /// Packet that must be MED and has this mark.
    WrongMed(Priority),
    /// HIGH or MED mark on a packet that must be LOW.
    WrongHigh,
    /// Wrong IP or TCP checksum.
    Checksum,
    /// Packet that cannot carry a mark in the given encoding.
    Unmarkable(WireError),
}

/// Reason for which a packet must be HIGH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Opening of a connection.
    Syn,
    /// End of the data.
    Fin,
    /// Data that has been sent before.
    Retransmission,
    /// New data while lost data is repaired.
    Recovery,
    /// Data sent while the congestion window is small.
    SmallWindow,
    /// One of the first packets of a document.
    Leading,
    /// One of the last packets of a document.
    Trailing,
    /// Answer to data that is HIGH.
    Ack,
}

impl Report {
    /// Largest number of listed faults.
    pub const MAX_FAULTS: usize = 1000;

    /// Returns true if every segment that can be judged has the correct mark, some can be judged, and every packet can carry a mark. Wrong
    /// checksums do not count.
    pub fn marks_are_correct(&self) -> bool {
        self.sides().any(|side| side.judged() > 0)
            && self.sides().all(|side| side.misclassified() + side.unmarkable == 0)
    }

    /// Returns the numbers of documents that are right, undecided and of all documents.
    pub fn documents(&self) -> [u64; 3] {
        self.sides().fold([0; 3], |[right, undecided, all], side| {
            [right + side.right_documents, undecided + side.undecided_documents, all + side.documents]
        })
    }

    /// Returns the share of segments with the correct mark among those that can be judged; 1 if none can be judged.
    pub fn agreement(&self) -> f64 {
        let (checked, misclassified) = self.sides().fold((0, 0), |(checked, misclassified), side| {
            (checked + side.judged(), misclassified + side.misclassified())
        });
        if checked == 0 { 1.0 } else { 1.0 - misclassified as f64 / checked as f64 }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        // Checksum offload at the sender must not hide the other faults.
        let limit = if fault.kind == FaultKind::Checksum { Self::MAX_FAULTS / 2 } else { Self::MAX_FAULTS };
        if self.faults.len() < limit {
            self.faults.push(fault);
        }
    }

    fn sides(&self) -> impl Iterator<Item = &Side> {
        self.connections.iter().flat_map(|connection| [&connection.from_client, &connection.from_server])
    }
}

impl Connection {
    pub(super) fn new(client: SocketAddr, server: SocketAddr) -> Self {
        Self { client, server, from_client: Side::default(), from_server: Side::default() }
    }

    pub(super) fn side_mut(&mut self, server: bool) -> &mut Side {
        if server { &mut self.from_server } else { &mut self.from_client }
    }
}

impl Side {
    /// Returns the number of segments with the wrong mark.
    pub fn misclassified(&self) -> u64 {
        self.missing_high + self.wrong_med + self.wrong_high
    }

    /// Returns the number of segments whose mark is known.
    fn judged(&self) -> u64 {
        self.must_be_high + self.must_be_med + self.must_be_low
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, not_tcp, unreadable, is_cut, connections, faults } = self;
        writeln!(
            f,
            "{packets} packets, {not_tcp} not TCP, {unreadable} unreadable, {} connections",
            connections.len()
        )?;
        if *is_cut {
            writeln!(f, "the capture ends in the middle of a packet; what is before it is judged")?;
        }
        for connection in connections {
            let Connection { client, server, from_client, from_server } = connection;
            writeln!(f, "{client} > {server}: {from_client}")?;
            writeln!(f, "{server} > {client}: {from_server}")?;
        }
        for Fault { packet, connection, server, kind } in faults {
            let Connection { client, server: other, .. } = connections[*connection];
            let (from, to) = if *server { (other, client) } else { (client, other) };
            writeln!(f, "packet {packet}, {from} > {to}: {kind}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} packets, {} with data, {} retransmitted, {} HIGH; ",
            self.packets, self.data, self.retransmissions, self.high,
        )?;
        if self.documents > 0 {
            write!(f, "{} of {} documents right; ", self.right_documents, self.documents)?;
        }
        write!(
            f,
            "{} of {} due HIGH are not, {} of {} due LOW are not",
            self.missing_high, self.must_be_high, self.wrong_high, self.must_be_low,
        )?;
        if self.must_be_med > 0 {
            write!(f, ", {} of {} due MED are not", self.wrong_med, self.must_be_med)?;
        }
        for (count, description) in [
            (self.undecided_documents, "documents undecided"),
            (self.unmarkable, "cannot be marked"),
            (self.bad_checksums, "bad checksums"),
            (self.unchecked, "checksums not seen"),
            (self.gaps, "gaps in the capture"),
        ] {
            if count > 0 {
                write!(f, ", {count} {description}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingHigh(reason) => write!(f, "not HIGH, but must be: {reason}"),
            Self::WrongMed(marked) => write!(f, "{}, but must be MED", marked.name()),
            Self::WrongHigh => write!(f, "HIGH or MED, but must be LOW"),
            Self::Checksum => write!(f, "wrong checksum"),
            Self::Unmarkable(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syn => "SYN",
            Self::Fin => "FIN",
            Self::Retransmission => "retransmission",
            Self::Recovery => "sent during a recovery",
            Self::SmallWindow => "sent with a small window",
            Self::Leading => "among the first packets of a document",
            Self::Trailing => "among the last packets of a document",
            Self::Ack => "answer to data that is HIGH",
        })
    }
}
