//! Requirements of the standards on a host, tested segment by segment with a simulated host. A test reads like a packetdrill script: it
//! sends segments to the host, and checks the segments that the host sends in response.

use catnip_base::{Span, Time};
use catnip_emu::datapath::frames::{Arrival, Delivery, Egress, Frames};
use catnip_emu::datapath::gateways::admit;
use catnip_emu::emulate::{self, finish};
use catnip_lab::Scenario;
use catnip_net::NodeId;
use catnip_sim::World;
use catnip_wire::{Addresses, Ip, Tcp, TcpFlags, TcpHeader, TcpOptions, has_valid_transport_checksum, ip};
use std::net::Ipv4Addr;
use std::path::Path;

const HOSTS: &str = "
id = 'X'
title = 'A host that says single segments'
duration = '600min'
[node]
real = { kind = 'host', external = true }
server = { kind = 'host' }
client = { kind = 'host' }
r = { kind = 'router' }
[link.real]
from = 'real'
to = 'r'
rate = '100Mbit'
delay = '1ms'
queue = 'drop-tail:1000'
[link.server]
from = 'server'
to = 'r'
rate = '100Mbit'
delay = '1ms'
queue = 'drop-tail:1000'
[link.client]
from = 'client'
to = 'r'
rate = '100Mbit'
delay = '1ms'
queue = 'drop-tail:1000'
[tcp]
profile = 'rfc'
[traffic.download]
kind = 'bulk'
from = 'real'
to = 'client'
bytes = '700'
[traffic.upload]
kind = 'bulk'
from = 'server'
to = 'real'
bytes = '50KB'
";

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const RST: TcpFlags = TcpFlags::RST;
const FIN_ACK: TcpFlags = TcpFlags(0x11);
const SYN_ACK: TcpFlags = TcpFlags(0x12);
/// Waiting time that is longer than a round trip and shorter than any timer, milliseconds.
const SOON_MS: u64 = 20;
/// Initial sequence number of the test's own host, [`Raw`].
const OURS: u32 = 5000;

/// Packets that the network has delivered to the test's own host.
#[derive(Debug, Default)]
struct Outgoing(Vec<Vec<u8>>);

impl Egress for Outgoing {
    fn deliver(&mut self, ideal: Time, _node: NodeId, packet: &[u8]) -> Delivery {
        self.0.push(packet.to_vec());
        Delivery { actual: ideal, written: true }
    }
}

/// Segment from a simulated host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Received {
    flags: TcpFlags,
    seq: u32,
    ack: u32,
    len: usize,
    text: String,
    at_ms: u64,
}

/// External host whose segments the test composes itself, with a connection to a simulated host.
struct Raw {
    world: World<Frames<Outgoing, catnip_emu::external::ExternalPeers>, ()>,
    now: Time,
    external: NodeId,
    ours: Ipv4Addr,
    theirs: Ipv4Addr,
    ports: [u16; 2],
    window: u16,
    options: TcpOptions,
    /// All received data, in order of arrival.
    stream: Vec<Vec<u8>>,
}

impl Raw {
    /// Creates the test's own host as a client of the simulated server.
    fn client() -> Self {
        let mut raw = Self::towards("server", [40_000, 80]);
        // Discards segments of the simulated client.
        raw.on_data_received();
        raw
    }

    fn towards(host: &str, ports: [u16; 2]) -> Self {
        let scenario = Scenario::parse(Path::new("x.toml"), HOSTS).unwrap();
        let plan = scenario.emulation("default").unwrap();
        let node = |name: &str| (0..4).map(NodeId).find(|&node| plan.topology().name(node) == name).unwrap();
        let mut world = emulate::world(plan, 1, 1500, Outgoing::default(), ());
        world.advance(Time::ZERO);
        let (external, host) = (node("real"), node(host));
        let [ours, theirs] = [external, host].map(|node| world.medium().address(node));
        let options = TcpOptions { mss: Some(1000), sack_permitted: true, ..TcpOptions::default() };
        Self {
            world,
            now: Time::ZERO,
            external,
            ours,
            theirs,
            ports,
            window: 60_000,
            options,
            stream: Vec::new(),
        }
    }

    fn advance(&mut self, ms: u64) -> &mut Self {
        self.now += Span::from_millis(ms);
        let (mut now, mut last) = (self.world.advanced_to(), self.world.advanced_to());
        while now <= self.now {
            last = now;
            now = self.world.advance(now);
        }
        self.world.advance(self.now.max(last));
        self
    }

    fn packet(&self, flags: TcpFlags, seq: u32, ack: u32, data: &[u8]) -> Vec<u8> {
        let header = TcpHeader {
            source_port: self.ports[0],
            destination_port: self.ports[1],
            sequence: seq,
            acknowledgement: ack,
            flags,
            window: self.window,
            options: if flags.contains(SYN) { self.options } else { TcpOptions::default() },
            ..TcpHeader::default()
        };
        let (source, destination) = (self.ours.into(), self.theirs.into());
        let mut packet = vec![0; 1500];
        let addresses = Addresses { source, destination, traffic_class: 0, hop_limit: 64 };
        let len = header.write(&addresses, data, &mut packet).unwrap();
        packet.truncate(len);
        packet
    }

    /// Sends a segment and returns the segments that arrive at once in response.
    fn send_segment(&mut self, flags: TcpFlags, seq: u32, ack: u32, data: &[u8]) -> Vec<Received> {
        let packet = self.packet(flags, seq, ack, data);
        self.send_packet(&packet)
    }

    fn send_packet(&mut self, packet: &[u8]) -> Vec<Received> {
        let body = self.world.medium_mut().allocate().unwrap();
        self.world.medium_mut().buffer_mut(body)[..packet.len()].copy_from_slice(packet);
        let at = self.now.max(self.world.advanced_to());
        self.world.advance(at);
        let arrival = Arrival { body, header: 0, len: packet.len(), waited: Span::ZERO };
        admit(&mut self.world, at, self.external, arrival);
        self.advance(SOON_MS).on_data_received()
    }

    /// Returns the segments received from the peer since the last call.
    fn on_data_received(&mut self) -> Vec<Received> {
        let at_ms = self.now.as_nanos() / 1_000_000;
        let all = std::mem::take(&mut self.world.medium_mut().egress.0);
        let stream = &mut self.stream;
        let mut read = |packet: &Vec<u8>| {
            let ip = Ip::parse(packet).unwrap();
            assert_eq!(has_valid_transport_checksum(&ip), Ok(true));
            let tcp = ip.transport(ip::TCP).and_then(Tcp::parse).unwrap();
            let mine =
                ip.source() == self.theirs && [tcp.destination_port(), tcp.source_port()] == self.ports;
            let text = String::from_utf8_lossy(tcp.payload()).chars().take(12).collect();
            let (seq, ack) = (tcp.sequence(), tcp.acknowledgement());
            if mine {
                stream.push(tcp.payload().to_vec());
            }
            mine.then_some(Received { flags: tcp.flags(), seq, ack, len: tcp.payload().len(), text, at_ms })
        };
        all.iter().filter_map(&mut read).collect()
    }

    /// Waits for `ms` milliseconds, in steps of 10 ms. Returns the segments received in this time, each with its arrival time.
    fn receive_for(&mut self, ms: u64) -> Vec<Received> {
        (0..ms / 10).flat_map(|_| self.advance(10).on_data_received()).collect()
    }

    /// Performs a handshake. Returns the sequence number of the server's first byte.
    fn handshake(&mut self, seq: u32) -> u32 {
        let answer = self.send_segment(SYN, seq, 0, &[]);
        let [syn] = &answer[..] else { panic!("{answer:?}") };
        assert_eq!((syn.flags, syn.ack), (SYN_ACK, seq.wrapping_add(1)));
        let first = syn.seq.wrapping_add(1);
        assert_eq!(self.send_segment(ACK, seq.wrapping_add(1), first, &[]), []);
        first
    }

    /// Opens a connection and requests a document of `bytes` bytes. Returns the sequence number of the server's first byte and the first
    /// segments received.
    fn request_document(&mut self, bytes: u64) -> (u32, Vec<Received>) {
        let first = self.handshake(OURS);
        let answer = self.send_segment(ACK, OURS + 1, first, request(bytes).as_bytes());
        (first, answer)
    }

    /// Returns the next sequence number of the test's own host after a request for a document of `bytes` bytes.
    fn after_request(bytes: u64) -> u32 {
        OURS + 1 + request(bytes).len() as u32
    }

    /// Requests a document and acknowledges its data until it is complete. Returns the lengths of the received segments.
    fn download(&mut self, bytes: u64) -> Vec<usize> {
        let (first, answer) = self.request_document(bytes);
        let (mut received, mut lengths, mut end) = (answer, Vec::new(), first);
        for _ in 0..10_000 {
            for segment in received.iter().filter(|segment| segment.len > 0) {
                if segment.seq == end {
                    end = end.wrapping_add(segment.len as u32);
                    lengths.push(segment.len);
                }
            }
            if received.iter().any(|segment| segment.flags.contains(TcpFlags::FIN)) {
                return lengths;
            }
            received = self.send_segment(ACK, Self::after_request(bytes), end, &[]);
            if received.is_empty() {
                received = self.receive_for(2000);
            }
        }
        panic!("it never ends: {} bytes", end.wrapping_sub(first));
    }

    /// Performs a whole short connection with a request. Returns the sequence numbers of the server's SYN and of the end of the server's
    /// stream; `None` if the server does not answer.
    fn short_connection(&mut self, seq: u32) -> Option<[u32; 2]> {
        let answer = self.send_segment(SYN, seq, 0, &[]);
        let syn = answer.iter().find(|received| received.flags == SYN_ACK)?;
        let first = syn.seq.wrapping_add(1);
        let request = request(10);
        let answer = self.send_segment(ACK, seq.wrapping_add(1), first, request.as_bytes());
        let last = answer.last()?;
        let end = last.seq.wrapping_add(last.len as u32 + 1);
        let next = seq.wrapping_add(1 + request.len() as u32);
        self.send_segment(FIN_ACK, next, end, &[]);
        Some([syn.seq, end])
    }

    fn damaged(&self) -> u64 {
        self.world.medium().external.damaged_packets()
    }
}

fn request(bytes: u64) -> String {
    format!("GET /x/{bytes} HTTP/1.0\r\n\r\n")
}

fn flags(received: &[Received]) -> Vec<TcpFlags> {
    received.iter().map(|segment| segment.flags).collect()
}

#[test]
fn what_has_a_wrong_checksum_was_never_there() {
    // RFC 9293, section 3.1: "The sender MUST generate it (MUST-2) and the receiver MUST check it (MUST-3)."
    for at in [10, 36] {
        let mut raw = Raw::client();
        let mut syn = raw.packet(SYN, OURS, 0, &[]);
        syn[at] ^= 0x40;
        assert_eq!((raw.send_packet(&syn), raw.damaged()), (vec![], 1));
        let first = raw.handshake(OURS);
        let mut data = raw.packet(ACK, OURS + 1, first, request(10).as_bytes());
        data[at] ^= 0x40;
        assert_eq!((raw.send_packet(&data), raw.damaged()), (vec![], 2));
        assert_eq!(raw.send_segment(ACK, OURS + 1, first, request(10).as_bytes())[0].text, "HTTP/1.0 200");
    }
}

#[test]
fn a_syn_in_an_open_connection_is_challenged_whatever_its_number() {
    // RFC 5961, section 4.2.
    for seq in [OURS, OURS + 1, OURS + 1000, OURS.wrapping_sub(1_000_000)] {
        let mut raw = Raw::client();
        let first = raw.handshake(OURS);
        let answer = raw.send_segment(SYN, seq, 0, &[]);
        assert_eq!(flags(&answer), [ACK], "{seq}");
        assert_eq!((answer[0].seq, answer[0].ack), (first, OURS + 1));
        assert_eq!(raw.send_segment(ACK, OURS + 1, first, request(10).as_bytes())[0].text, "HTTP/1.0 200");
    }
}

#[test]
fn what_acknowledges_more_than_a_syn_ack_is_reset_and_the_right_ack_still_opens() {
    // RFC 9293, section 3.10.7.4, SYN-RECEIVED: "If the segment acknowledgment is not acceptable, form a reset segment
    // <SEQ=SEG.ACK><CTL=RST> and send it."
    let mut raw = Raw::client();
    let syn = raw.send_segment(SYN, OURS, 0, &[]);
    let first = syn[0].seq.wrapping_add(1);
    for invalid in [first - 1, first + 1, first.wrapping_add(1 << 20)] {
        let answer = raw.send_segment(ACK, OURS + 1, invalid, &[]);
        assert_eq!((flags(&answer), answer[0].seq), (vec![RST], invalid));
    }
    // A reset is not answered.
    assert_eq!(raw.send_segment(RST | ACK, OURS - 1, first + 7, &[]), []);
    assert_eq!(raw.send_segment(ACK, OURS + 1, first, &[]), []);
    assert_eq!(raw.send_segment(ACK, OURS + 1, first, request(10).as_bytes())[0].text, "HTTP/1.0 200");
}

#[test]
fn an_answer_to_a_syn_that_acknowledges_something_else_is_reset() {
    // RFC 9293, section 3.10.7.3, SYN-SENT: "If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset".
    let mut raw = Raw::towards("client", [80, 0]);
    raw.advance(10);
    let packet = raw.world.medium().egress.0.first().expect("the client knocks").clone();
    let tcp = Ip::parse(&packet).unwrap().transport(ip::TCP).and_then(Tcp::parse).unwrap();
    raw.ports[1] = tcp.source_port();
    let isn = tcp.sequence();
    raw.on_data_received();
    for invalid in [isn, isn.wrapping_add(2)] {
        let answer = raw.send_segment(SYN_ACK, OURS, invalid, &[]);
        assert_eq!((flags(&answer), answer[0].seq), (vec![RST], invalid));
    }
    let answer = raw.send_segment(SYN_ACK, OURS, isn.wrapping_add(1), &[]);
    assert!(answer.iter().any(|segment| segment.text.starts_with("GET ")), "{answer:?}");
}

#[test]
fn a_port_can_be_used_again_at_once_by_a_larger_number_and_after_a_reset_by_any() {
    let mut raw = Raw::client();
    let [_, last] = raw.short_connection(OURS).unwrap();
    // RFC 1122, section 4.2.2.13: "it MAY accept a new SYN from the remote TCP to reopen the connection directly from TIME-WAIT state", if
    // the initial sequence number of the new connection is larger than all numbers used before.
    let [first, _] = raw.short_connection(OURS + 100_000).unwrap();
    assert!((1..1 << 20).contains(&first.wrapping_sub(last)), "{first} behind {last}");
    // A SYN with a smaller sequence number may be an old duplicate and gets a challenge ACK. If the SYN is new, its sender answers with a
    // reset.
    let answer = raw.send_segment(SYN, OURS, 0, &[]);
    assert_eq!(flags(&answer), [ACK]);
    assert_eq!(raw.send_segment(RST, answer[0].ack, 0, &[]), []);
    assert!(raw.short_connection(OURS).is_some());
}

#[test]
fn ten_thousand_short_connections_from_a_hundred_ports_are_all_served() {
    let mut raw = Raw::client();
    for number in 0..10_000_u32 {
        raw.ports[0] = 40_000 + (number % 100) as u16;
        assert!(raw.short_connection(OURS + 1000 * (number / 100)).is_some(), "connection {number}");
    }
    finish(&mut raw.world);
    assert_eq!(raw.world.packets_out(), 0);
}

#[test]
fn three_duplicates_make_a_fast_retransmit_where_nobody_knows_sack() {
    // RFC 5681, section 3.2; RFC 6582 for the partial acknowledgement.
    let mut raw = Raw::client();
    raw.options.sack_permitted = false;
    let (first, answer) = raw.request_document(100_000);
    assert!(answer.len() >= 8, "{answer:?}");
    let lost = [answer[0].seq, answer[4].seq];
    let mut dup = || raw.send_segment(ACK, Raw::after_request(100_000), first, &[]);
    assert!(![dup(), dup()].concat().iter().any(|segment| lost.contains(&segment.seq)));
    let third = dup();
    assert_eq!((third[0].seq, third[0].len), (lost[0], answer[0].len), "the first one again");
    let partial = raw.send_segment(ACK, Raw::after_request(100_000), lost[1], &[]);
    assert_eq!(partial[0].seq, lost[1], "and then the next one that is missing");
}

#[test]
fn a_window_smaller_than_a_segment_lets_everything_through() {
    // RFC 9293, section 3.8.6.2.1: silly window syndrome avoidance must not wait forever.
    for (window, max_len) in [(1, 1), (50, 50), (500, 500), (800, 400), (1152, 576)] {
        let mut raw = Raw::client();
        raw.window = window;
        let bytes = if window == 1 { 20 } else { 5000 };
        let lengths = raw.download(bytes);
        assert!(lengths.iter().sum::<usize>() as u64 > bytes);
        assert!(lengths.iter().all(|&len| len <= max_len), "{window}: {lengths:?}");
    }
}

#[test]
fn a_window_that_gets_smaller_than_a_segment_lets_what_fits_through_after_a_while() {
    let mut raw = Raw::client();
    let (_, answer) = raw.request_document(30_000);
    let end = answer.last().map(|last| last.seq.wrapping_add(last.len as u32)).unwrap();
    raw.window = 300;
    let ack = Raw::after_request(30_000);
    assert_eq!(raw.send_segment(ACK, ack, end, &[]), []);
    let next = raw.receive_for(1500);
    assert_eq!((next[0].seq, next[0].len), (end, 300), "{next:?}");
    raw.window = 60_000;
    let rest = raw.send_segment(ACK, ack, end.wrapping_add(300), &[]);
    assert_eq!(rest[0].len, 1000, "segments are whole again: {rest:?}");
}

#[test]
fn a_window_that_shrinks_below_what_is_out_is_asked_for() {
    // RFC 9293, section 3.8.6: "a sending TCP peer MUST be robust against window shrinking".
    let mut raw = Raw::client();
    let (first, answer) = raw.request_document(30_000);
    assert!(answer.len() > 2);
    raw.window = 0;
    let ack = Raw::after_request(30_000);
    assert_eq!(raw.send_segment(ACK, ack, first, &[]), []);
    let probes = raw.receive_for(10_000);
    assert!(probes.len() >= 3, "{probes:?}");
    assert!(probes.iter().all(|probe| probe.len == 0 && probe.seq == first - 1), "{probes:?}");
    raw.window = 60_000;
    let retransmitted = raw.send_segment(ACK, ack, first, &[]);
    assert_eq!(
        retransmitted[0].seq, first,
        "the first unacknowledged segment is retransmitted: {retransmitted:?}"
    );
}

#[test]
fn probes_of_a_closed_window_come_less_and_less_often_though_they_are_answered() {
    // RFC 9293, section 3.8.6.1.
    let mut raw = Raw::client();
    let (_, answer) = raw.request_document(30_000);
    let end = answer.last().map(|last| last.seq.wrapping_add(last.len as u32)).unwrap();
    raw.window = 0;
    let ack = Raw::after_request(30_000);
    let closed_ms = raw.now.as_nanos() / 1_000_000;
    raw.send_segment(ACK, ack, end, &[]);
    let mut probes = Vec::new();
    while raw.now < Time::ZERO + Span::from_secs(40) {
        for probe in raw.receive_for(10) {
            probes.push((probe.at_ms - closed_ms).div_ceil(1000));
            assert_eq!(raw.send_segment(ACK, ack, end, &[]), []);
        }
    }
    assert_eq!(probes[..4], [2, 4, 8, 16].map(|s| s), "{probes:?}");
    raw.window = 60_000;
    assert_eq!(raw.send_segment(ACK, ack, end, &[])[0].seq, end);
}

#[test]
fn only_a_reset_of_the_number_that_is_expected_ends_a_connection() {
    // RFC 5961, section 3.2.
    let mut raw = Raw::client();
    let first = raw.handshake(OURS);
    assert_eq!(flags(&raw.send_segment(RST, OURS + 100, 0, &[])), [ACK], "in the window: challenged");
    assert_eq!(raw.send_segment(RST, OURS - 100, 0, &[]), [], "outside of it: nothing");
    assert_eq!(raw.send_segment(RST, OURS + 1, 0, &[]), []);
    let answer = raw.send_segment(ACK, OURS + 1, first, b"GET");
    assert_eq!((flags(&answer), answer[0].seq), (vec![RST], first), "the connection is closed");
    raw.handshake(OURS + 7);
}

#[test]
fn a_number_that_no_document_could_have_is_not_found() {
    for bytes in [u64::MAX, 1 << 50] {
        let mut raw = Raw::client();
        let (_, answer) = raw.request_document(bytes);
        assert_eq!(answer[0].text, "HTTP/1.0 404");
    }
}

#[test]
fn a_server_answers_head_and_queries_and_lines_that_end_in_a_feed_alone() {
    for (request, text, bytes) in [
        ("HEAD /x/700 HTTP/1.0\r\n\r\n", "Content-Length: 700", 0),
        ("GET /x/700?session=1 HTTP/1.0\r\n\r\n", "Content-Length: 700", 700),
        ("GET /x/7.0 HTTP/1.0\n\n", "Content-Length: 0", 0),
        ("GET /x/70 HTTP/1.0\n\n", "Content-Length: 70\r\n", 70),
    ] {
        let mut raw = Raw::client();
        let first = raw.handshake(OURS);
        raw.send_segment(ACK, OURS + 1, first, request.as_bytes());
        let received: Vec<u8> = raw.stream.concat();
        let received = String::from_utf8(received).unwrap();
        let (head, body) = received.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(text.trim_end()), "{head}");
        assert_eq!(body.len(), bytes, "{head}");
    }
}
