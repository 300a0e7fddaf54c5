//! Scripts of arbitrary input for simulated hosts. The hosts must not panic, and must not send endlessly.

use catnip_base::{Span, Time};
use catnip_emu::datapath::frames::{Arrival, Delivery, Egress};
use catnip_emu::datapath::gateways::admit;
use catnip_emu::socket::{Identity, Received, Socket, padding};
use catnip_lab::Plan;
use catnip_net::{Ecn, NodeId};
use catnip_tcp::{Role, TcpConfig, profile};
use catnip_wire::has_valid_transport_checksum;
use catnip_wire::{Addresses, Ip, Tcp, TcpFlags, TcpHeader, TcpOptions, TcpSackBlocks, ip};
use std::net::SocketAddrV4;
use std::sync::Arc;

/// Reader of numbers from bytes. Returns zeros after the last byte.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }
    fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }
    /// Reads a distance between sequence numbers, encoded as a signed word.
    fn distance(&mut self) -> u32 {
        i32::from(self.number() as i16) as u32
    }
    fn bytes(&mut self) -> Vec<u8> {
        let len = self.byte();
        (0..len).map(|_| self.byte()).collect()
    }
    fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

const OURS: u32 = 1000;
/// Initial sequence number of the peer until the socket has accepted a SYN, which may have another number.
const THEIRS: u32 = u32::MAX - 500;
/// Largest number of packets that a socket may send at one time. More packets indicate an endless loop.
const MAX_BURST: usize = 5000;

/// Effects of a script on a socket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// One letter per packet of the script for its effect on the socket: S for a segment, R for a reset, I for an impossible
    /// acknowledgement, - for no effect.
    pub(crate) effects: String,
    /// Number of bytes that the socket has passed on.
    pub(crate) bytes: u64,
    /// Flags of the packets sent, each after a space.
    pub(crate) sent: String,
}

/// Executes a script with one socket. Bit 0 of the first byte is 1 if the socket waits for a SYN. Commands follow. A command is one byte
/// (modulo 5), followed by its parameters, whose lengths in bytes are in parentheses:
/// - 0: any bytes as a segment: length (1), bytes;
/// - 1: a segment: flags (1), distance of its sequence number from the expected number, or for a SYN from the number of the accepted SYN
///   (2), distance of its acknowledgement from the end of the data that the socket has sent (2), window (2), length (2), options (1);
/// - 2: time passes: in units of 50 ms (1), or up to the next deadline if 0;
/// - 3: the host writes: number of hundreds of bytes in the upper seven bits, close of the sending direction in the lowest one (1);
/// - 4: an acknowledgement with three blocks: distances of their starts and ends from the acknowledgement (12).
pub(crate) fn socket(script: &[u8]) -> Trace {
    let mut script = Script(script);
    let role = if script.byte() & 1 == 1 { Role::Passive } else { Role::Active };
    let config = Arc::new(TcpConfig { receive_window: 100_000, ..profile::rfc() });
    let mut peer = Peer::new(role, &config);
    peer.drain();
    while !script.is_over() {
        match script.byte() % 5 {
            0 => {
                let bytes = script.bytes();
                peer.is_unknown |= peer.receive(&bytes) != Received::Discarded;
            }
            1 => {
                let flags = TcpFlags(script.byte());
                let (seq, ack, window) = (script.distance(), script.distance(), script.number());
                let (len, options) = (script.number() % 3000, script.byte());
                peer.segment(flags, seq, ack, window, len, options_of(options));
            }
            2 => {
                let units = script.byte();
                let deadline = peer.socket.deadline().unwrap_or(peer.now);
                let after = peer.now + Span::from_millis(50) * u64::from(units);
                peer.now = if units == 0 { deadline.max(peer.now) } else { after };
                peer.socket.on_timer(peer.now);
            }
            3 => {
                let command = script.byte();
                if !peer.closed {
                    peer.closed = command & 1 == 1;
                    peer.socket.write_padding(peer.now, u64::from(command >> 1) * 100, None, peer.closed);
                }
            }
            _ => {
                let ack = peer.acknowledgement;
                let block = |script: &mut Script<'_>| {
                    (ack.wrapping_add(script.distance()), ack.wrapping_add(script.distance()))
                };
                let blocks = [block(&mut script), block(&mut script), block(&mut script)];
                let sack = TcpSackBlocks::new(blocks.into_iter());
                let options = TcpOptions { sack, ..TcpOptions::default() };
                peer.segment(TcpFlags::ACK, 0, 0, 1000, 0, options);
            }
        }
        peer.drain();
    }
    Trace { effects: peer.effects, bytes: peer.bytes, sent: peer.sent }
}

fn options_of(bits: u8) -> TcpOptions {
    TcpOptions {
        mss: (bits & 1 > 0).then_some([536, 1460, 0, u16::MAX][usize::from(bits >> 6)]),
        window_scale: (bits & 2 > 0).then_some(bits >> 4),
        sack_permitted: bits & 4 > 0,
        timestamps: (bits & 8 > 0).then_some((1, 2)),
        ..TcpOptions::default()
    }
}

/// Peer that executes a script against a socket.
struct Peer {
    socket: Socket,
    now: Time,
    /// Sequence number after the data that the socket has sent.
    acknowledgement: u32,
    effects: String,
    bytes: u64,
    sent: String,
    closed: bool,
    /// Sequence number of the SYN that the socket has accepted; `None` before a SYN.
    syn: Option<u32>,
    /// True if a segment of arbitrary bytes had an effect, so that the content of the stream is unknown.
    is_unknown: bool,
}

impl Peer {
    fn new(role: Role, config: &Arc<TcpConfig>) -> Self {
        let identity = Identity {
            local: SocketAddrV4::new([10, 0, 0, 1].into(), 40_000),
            remote: SocketAddrV4::new([10, 0, 0, 2].into(), 80),
            isn: OURS,
            is_external: true,
        };
        Self {
            socket: Socket::new(Time::ZERO, role, config, Span::ZERO, identity),
            now: Time::ZERO,
            acknowledgement: OURS,
            effects: String::new(),
            bytes: 0,
            sent: String::new(),
            closed: false,
            syn: None,
            is_unknown: false,
        }
    }

    fn segment(&mut self, flags: TcpFlags, seq: u32, ack: u32, window: u16, len: u16, options: TcpOptions) {
        let next = self.socket.received() + u64::from(self.socket.peer_closed());
        let (first, distance) = (self.syn.unwrap_or(THEIRS), i64::from(seq as i32));
        // Data in a SYN begins after the SYN, regardless of its sequence number.
        let (base, offset) = match flags.contains(TcpFlags::SYN) {
            true if self.syn.is_none() => (first, 0),
            true => (first, distance as u64),
            false => (first.wrapping_add(1).wrapping_add(next as u32), next.wrapping_add_signed(distance)),
        };
        let payload: Vec<u8> = (0..u64::from(len)).map(|at| padding(offset.wrapping_add(at))).collect();
        let header = TcpHeader {
            source_port: 80,
            destination_port: 40_000,
            sequence: base.wrapping_add(seq),
            acknowledgement: self.acknowledgement.wrapping_add(ack),
            flags,
            window,
            options,
            ..TcpHeader::default()
        };
        let mut packet = vec![0; 4000];
        let addresses = Addresses {
            source: [10, 0, 0, 2].into(),
            destination: [10, 0, 0, 1].into(),
            traffic_class: 0,
            hop_limit: 64,
        };
        let len = header.write(&addresses, &payload, &mut packet).expect("it is short");
        let received = self.receive(&packet[20..len]);
        if flags.contains(TcpFlags::SYN) && matches!(received, Received::Segment(_)) {
            self.syn.get_or_insert(header.sequence);
        }
    }

    fn receive(&mut self, segment: &[u8]) -> Received {
        let Ok(tcp) = Tcp::parse(segment) else { return Received::Discarded };
        let (is_unknown, bytes) = (self.is_unknown, &mut self.bytes);
        let received = self.socket.receive(self.now, Ecn::NOT_ECT, &tcp, |received| {
            let expected = (*bytes..).map(padding);
            assert!(
                is_unknown || received.iter().copied().eq(expected.take(received.len())),
                "the stream is in order"
            );
            *bytes += received.len() as u64;
        });
        self.effects.push(match received {
            Received::Segment(_) => 'S',
            Received::Reset => 'R',
            Received::UnacceptableAck => 'I',
            Received::Discarded => '-',
        });
        received
    }

    fn drain(&mut self) {
        let mut buffer = vec![0; 2000];
        for count in 0.. {
            assert!(count < MAX_BURST, "it never stops sending");
            let Some((_, len)) = self.socket.transmit(self.now, &mut buffer) else { return };
            let ip = Ip::parse(&buffer[..len]).expect("it is a packet");
            assert_eq!(has_valid_transport_checksum(&ip), Ok(true));
            let tcp = ip.transport(ip::TCP).and_then(Tcp::parse).expect("it is TCP");
            let flags = tcp.flags();
            let ends = flags.contains(TcpFlags::SYN) || flags.contains(TcpFlags::FIN);
            let end = tcp.sequence().wrapping_add(tcp.payload().len() as u32 + u32::from(ends));
            if end.wrapping_sub(self.acknowledgement) as i32 > 0 {
                self.acknowledgement = end;
            }
            if self.sent.len() < 10_000 {
                self.sent += &format!(" {flags:?}");
            }
        }
    }
}

/// Executes a script that sends packets of an external host into a whole world. A command is one byte (modulo 4), followed by its
/// parameters, whose lengths in bytes are in parentheses:
/// - 0: any bytes: length (1), bytes;
/// - 1: an answer to the last packet received: flags (1), distances of its sequence number and its acknowledgement from the correct ones (2
///   each), length (2);
/// - 2: time passes, in units of 50 ms (1);
/// - 3: a SYN: source port (2), destination port (2), destination host (1).
///
/// Returns the number of packets that the external host has received.
pub(crate) fn world(plan: &Plan, script: &[u8]) -> usize {
    let Some(external) = plan.external_nodes().first().map(|external| external.node) else { return 0 };
    let mut world = catnip_emu::emulate::world(plan, 1, 1500, LastPacket::default(), ());
    let mut script = Script(script);
    let mut now = Time::ZERO;
    world.advance(now);
    while !script.is_over() {
        let packet = match script.byte() % 4 {
            0 => script.bytes(),
            1 => {
                let flags = TcpFlags(script.byte());
                let (seq, ack, len) = (script.distance(), script.distance(), script.number() % 1400);
                world.medium().egress.answer(flags, seq, ack, len).unwrap_or_default()
            }
            2 => {
                now += Span::from_millis(50) * u64::from(script.byte());
                world.advance(now);
                continue;
            }
            _ => {
                let (from, to) = (script.number(), script.number());
                let host = NodeId(u32::from(script.byte()) % plan.topology().node_count() as u32);
                let addresses = [external, host].map(|node| world.medium().address(node));
                syn(addresses, [from, to])
            }
        };
        let at = now.max(world.advanced_to());
        let Some(body) = world.medium_mut().allocate() else { panic!("there is memory for so few packets") };
        let buffer = &mut world.medium_mut().buffer_mut(body)[..1501];
        let len = packet.len().min(buffer.len());
        buffer[..len].copy_from_slice(&packet[..len]);
        world.advance(at);
        admit(&mut world, at, external, Arrival { body, header: 0, len, waited: Span::ZERO });
        assert_eq!(world.packets_out() as u64, world.fabric().packets_inside());
    }
    world.advance(now + Span::from_secs(200));
    catnip_emu::emulate::finish(&mut world);
    assert_eq!(world.packets_out() as u64, world.fabric().packets_inside());
    world.medium().egress.count
}

/// Output of a network that keeps the last packet to an external host.
#[derive(Debug, Default)]
struct LastPacket {
    last: Vec<u8>,
    count: usize,
}

impl Egress for LastPacket {
    fn deliver(&mut self, ideal: Time, _node: NodeId, packet: &[u8]) -> Delivery {
        self.count += 1;
        self.last = packet.to_vec();
        Delivery { actual: ideal, written: true }
    }
}

impl LastPacket {
    fn answer(&self, flags: TcpFlags, seq: u32, ack: u32, len: u16) -> Option<Vec<u8>> {
        let ip = Ip::parse(&self.last).ok()?;
        let tcp = Tcp::parse(ip.transport(ip::TCP).ok()?).ok()?;
        let span = tcp.payload().len() as u32 + u32::from(tcp.flags().contains(TcpFlags::SYN));
        let header = TcpHeader {
            source_port: tcp.destination_port(),
            destination_port: tcp.source_port(),
            sequence: tcp.acknowledgement().wrapping_add(seq),
            acknowledgement: tcp.sequence().wrapping_add(span).wrapping_add(ack),
            flags,
            window: 1000,
            ..TcpHeader::default()
        };
        let addresses =
            Addresses { source: ip.destination(), destination: ip.source(), traffic_class: 0, hop_limit: 64 };
        let head = b"HTTP/1.0 200 OK\r\nContent-Length: 700\r\n\r\n";
        let payload: Vec<u8> = head.iter().copied().cycle().take(len.into()).collect();
        let mut packet = vec![0; 1600];
        let len = header.write(&addresses, &payload, &mut packet).ok()?;
        packet.truncate(len);
        Some(packet)
    }
}

fn syn([from, to]: [std::net::Ipv4Addr; 2], [source_port, destination_port]: [u16; 2]) -> Vec<u8> {
    let header = TcpHeader {
        source_port,
        destination_port,
        sequence: u32::from(source_port),
        flags: TcpFlags::SYN,
        window: 1000,
        ..TcpHeader::default()
    };
    let addresses =
        Addresses { source: from.into(), destination: to.into(), traffic_class: 0, hop_limit: 64 };
    let mut packet = vec![0; 60];
    let len = header.write(&addresses, &[], &mut packet).expect("a SYN has 40 bytes");
    packet.truncate(len);
    packet
}
