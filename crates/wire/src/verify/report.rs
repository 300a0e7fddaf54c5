use crate::WireError;
use std::fmt;
use std::net::SocketAddr;

/// What a capture shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Frames in the capture.
    pub packets: u64,
    /// Those that are not TCP over IP.
    pub not_tcp: u64,
    /// Those that are damaged or only fragments.
    pub unreadable: u64,
    /// Connections, in the order of their first packets.
    pub connections: Vec<Connection>,
    /// What is wrong, up to [`Report::MAX_FAULTS`], at most half of them checksums; all of it is counted by side.
    pub faults: Vec<Fault>,
}

/// One TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Who opened it, or sent its first packet in the capture.
    pub client: SocketAddr,
    /// The other side.
    pub server: SocketAddr,
    /// Packets from the client.
    pub from_client: Side,
    /// Packets from the server.
    pub from_server: Side,
}

/// Packets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// All of them.
    pub packets: u64,
    /// Those with data.
    pub data: u64,
    /// Those whose data was seen before.
    pub retransmissions: u64,
    /// Marked HIGH.
    pub high: u64,
    /// Must be HIGH.
    pub must_be_high: u64,
    /// Must be LOW.
    pub must_be_low: u64,
    /// Must be HIGH and are LOW.
    pub missing_high: u64,
    /// Must be LOW and are HIGH.
    pub wrong_high: u64,
    /// Unable to carry a mark in the given form.
    pub unmarkable: u64,
    /// With a wrong checksum. On a sender that leaves checksums to its network card, all of them.
    pub bad_checksums: u64,
    /// Cut by the capture, so that no checksum could be computed.
    pub unchecked: u64,
    /// Times that data is missing between two packets: the capture has lost something, and says less from there on.
    pub gaps: u64,
}

/// Something wrong with one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its number in the capture, from 1, as other tools count.
    pub packet: u64,
    /// Index of its connection.
    pub connection: usize,
    /// The server has sent it.
    pub server: bool,
    /// What is wrong.
    pub kind: FaultKind,
}

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// LOW, but it must be HIGH.
    MissingHigh(Reason),
    /// HIGH, but it must be LOW.
    WrongHigh,
    /// A checksum of IP or TCP.
    Checksum,
    /// It cannot carry a mark in the given form.
    Unmarkable(WireError),
}

/// Why a packet must be HIGH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It opens a connection.
    Syn,
    /// It ends the data.
    Fin,
    /// Its data was sent before.
    Retransmission,
    /// It is one of the first packets of a document.
    Leading,
    /// It is one of the last packets of a document.
    Trailing,
}

impl Report {
    /// How many faults are listed.
    pub const MAX_FAULTS: usize = 1000;

    /// Does every packet that can be judged have the right mark? Checksums are another question.
    pub fn marks_are_right(&self) -> bool {
        self.sides().all(|side| side.wrong_marks() + side.unmarkable == 0)
    }

    /// The share of packets with the right mark among those that can be judged; 1 if there is none.
    pub fn agreement(&self) -> f64 {
        let (judged, wrong) = self.sides().fold((0, 0), |(judged, wrong), side| {
            (judged + side.must_be_high + side.must_be_low, wrong + side.wrong_marks())
        });
        if judged == 0 { 1.0 } else { 1.0 - wrong as f64 / judged as f64 }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        // A sender that leaves checksums to its network card must not hide the rest.
        let room = if fault.kind == FaultKind::Checksum { Self::MAX_FAULTS / 2 } else { Self::MAX_FAULTS };
        if self.faults.len() < room {
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
    /// Packets with the wrong mark.
    pub fn wrong_marks(&self) -> u64 {
        self.missing_high + self.wrong_high
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, not_tcp, unreadable, connections, faults } = self;
        writeln!(
            f,
            "{packets} packets, {not_tcp} not TCP, {unreadable} unreadable, {} connections",
            connections.len()
        )?;
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
            "{} packets, {} with data, {} retransmitted, {} HIGH; {} of {} due HIGH are LOW, {} of {} due LOW are HIGH",
            self.packets,
            self.data,
            self.retransmissions,
            self.high,
            self.missing_high,
            self.must_be_high,
            self.wrong_high,
            self.must_be_low,
        )?;
        for (count, what) in [
            (self.unmarkable, "cannot be marked"),
            (self.bad_checksums, "bad checksums"),
            (self.unchecked, "checksums not seen"),
            (self.gaps, "gaps in the capture"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingHigh(reason) => write!(f, "LOW, but must be HIGH: {reason}"),
            Self::WrongHigh => write!(f, "HIGH, but must be LOW: the window is not small"),
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
            Self::Leading => "among the first of a document",
            Self::Trailing => "among the last of a document",
        })
    }
}
