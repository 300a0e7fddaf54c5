//! Tests of the marker with packets that the endpoints of `tests/unit/mark.rs` do not send.

use super::*;
use catnip_wire::{Addresses, TcpHeader, TcpOptions};
use std::net::{IpAddr, Ipv4Addr};

const SPM: SpmParameters =
    SpmParameters { leading: 3, trailing: 3, small_window: 0, handshake: None, repairs: false };
const MSS: usize = 100;

/// Server that sends at edge 1, its client at edge 0, and the marker between them. Sequence numbers start at 0.
struct Scene {
    marker: Marker,
    /// Next sequence numbers of the client and of the server.
    next: [u32; 2],
    port: u16,
}

impl Scene {
    fn new(rules: SpmParameters) -> Self {
        Self { marker: Marker::new(vec![None, Some(rules)], false), next: [0; 2], port: 4000 }
    }

    fn packet(&self, from: usize, header: TcpHeader, payload: &[u8]) -> Vec<u8> {
        let address = |end: usize| IpAddr::V4(Ipv4Addr::new(10, 0, 0, end as u8));
        let ports = [self.port, 80];
        let header = TcpHeader { source_port: ports[from], destination_port: ports[1 - from], ..header };
        let addresses = Addresses {
            source: address(from),
            destination: address(1 - from),
            traffic_class: 0,
            hop_limit: 9,
        };
        let mut packet = vec![0; 16 << 10];
        let len = header.write(&addresses, payload, &mut packet).unwrap();
        packet.truncate(len);
        packet
    }

    fn send(&mut self, from: usize, flags: TcpFlags, payload: &[u8]) -> Option<Priority> {
        let syn = flags.contains(TcpFlags::SYN);
        let mss = syn.then_some(MSS as u16);
        let header = TcpHeader {
            sequence: self.next[from],
            acknowledgement: self.next[1 - from],
            flags,
            options: TcpOptions { mss, ..TcpOptions::default() },
            ..TcpHeader::default()
        };
        let packet = self.packet(from, header, payload);
        let more = payload.len() + usize::from(syn) + usize::from(flags.contains(TcpFlags::FIN));
        self.next[from] = self.next[from].wrapping_add(more as u32);
        self.marker.mark(Some(from), &packet)
    }

    fn open(&mut self) {
        assert_eq!(self.handshake(), 'H');
    }

    /// Sends a SYN and a SYN-ACK. Returns the mark of the SYN-ACK.
    fn handshake(&mut self) -> char {
        self.send(0, TcpFlags::SYN, b"");
        letter(self.send(1, TcpFlags::SYN | TcpFlags::ACK, b""))
    }

    fn send_request(&mut self, request: &str) {
        self.send(0, TcpFlags::ACK, request.as_bytes());
    }

    /// Sends data of the server in full segments. Returns one letter per segment for its mark: H for HIGH, l for LOW.
    fn send_response(&mut self, bytes: &[u8]) -> String {
        let segments = bytes.chunks(MSS);
        segments.map(|segment| letter(self.send(1, TcpFlags::ACK, segment))).collect()
    }
}

fn letter(priority: Option<Priority>) -> char {
    match priority {
        Some(Priority::High) => 'H',
        Some(Priority::Medium) => 'm',
        Some(Priority::Low) => 'l',
        None => '-',
    }
}

fn response(fields: &str, body: usize) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
    bytes.resize(bytes.len() + body, b'x');
    bytes
}

fn sized(body: usize) -> Vec<u8> {
    response(&format!("Content-Length: {body}\r\n"), body)
}

/// Returns an HTTP response of `len` bytes, including the header.
fn filling(len: usize) -> Vec<u8> {
    (0..len).rev().map(sized).find(|response| response.len() == len).unwrap()
}

#[test]
fn the_first_and_the_last_segments_of_each_response_are_high() {
    let mut scene = Scene::new(SPM);
    scene.open();
    for _ in 0..3 {
        scene.send_request("GET / HTTP/1.1\r\n\r\n");
        assert_eq!(scene.send_response(&filling(1000)), "HHHllllHHH", "10 full segments");
        scene.send_request("GET / HTTP/1.1\r\n\r\n");
        assert_eq!(scene.send_response(&sized(10)), "H");
    }
    assert_eq!(scene.send(1, TcpFlags::ACK, b""), Some(Priority::Low), "an acknowledgement alone");
    assert_eq!(scene.send(1, TcpFlags::FIN | TcpFlags::ACK, b""), Some(Priority::High));
    assert_eq!(scene.send(1, TcpFlags::RST, b""), Some(Priority::High));
}

#[test]
fn handshakes_are_marked_as_said_and_what_ends_connections_is_high() {
    for (handshake, mark) in [(None, 'H'), (Some(Priority::High), 'H'), (Some(Priority::Low), 'l')] {
        let mut scene = Scene::new(SpmParameters { handshake, ..SPM });
        assert_eq!(scene.handshake(), mark);
        scene.send_request("GET / HTTP/1.1\r\n\r\n");
        assert_eq!(scene.send_response(&filling(1000)), "HHHllllHHH");
        assert_eq!(scene.send(1, TcpFlags::FIN | TcpFlags::ACK, b""), Some(Priority::High));
        assert_eq!(scene.send(1, TcpFlags::RST, b""), Some(Priority::High));
    }
}

#[test]
fn without_a_known_end_marking_is_partial() {
    for response_bytes in
        [response("Transfer-Encoding: chunked\r\n", 800), vec![0x17; 840], response("", 810)]
    {
        let mut scene = Scene::new(SPM);
        scene.open();
        for _ in 0..2 {
            scene.send_request("?");
            assert_eq!(scene.send_response(&response_bytes), "HHHllllll");
        }
    }
}

#[test]
fn pipelined_responses_are_told_apart_by_their_lengths() {
    let mut scene = Scene::new(SPM);
    scene.open();
    scene.send_request("GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\n\r\n");
    let (first, second) = (sized(860), sized(1060));
    let stream = [first.clone(), second, sized(10)].concat();
    let before = first.len() / MSS;
    let marks: Vec<char> = scene.send_response(&stream).chars().collect();
    let text: String = marks.iter().collect();
    assert_eq!(&text[..3], "HHH");
    assert!(text[3..before - 3].chars().all(|mark| mark == 'l'), "{text}");
    assert_eq!(&text[before - 2..before + 3], "HHHHH", "the end of the first, the beginning of the second");
    assert!(text.ends_with("HHH") && text.matches('l').count() > 6, "{text}");

    // A request that arrives before the previous response is complete does not end this response.
    let mut scene = Scene::new(SPM);
    scene.open();
    scene.send_request("GET / HTTP/1.1\r\n\r\n");
    let response_bytes = filling(1000);
    assert_eq!(scene.send_response(&response_bytes[..500]), "HHHll");
    scene.send_request("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(scene.send_response(&response_bytes[500..]), "llHHH");
    assert_eq!(scene.send_response(&response_bytes), "HHHllllHHH");
}

#[test]
fn the_answer_to_head_has_no_body() {
    let mut scene = Scene::new(SPM);
    scene.open();
    scene.send_request("HEAD / HTTP/1.1\r\n\r\n");
    assert_eq!(scene.send_response(&response("Content-Length: 100000\r\n", 0)), "H");
    scene.send_request("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(scene.send_response(&filling(1000)), "HHHllllHHH");
}

/// Retransmits the server's segment at offset `from` of its stream. Returns the mark of the segment.
fn retransmit(scene: &mut Scene, from: u32) -> String {
    let next = std::mem::replace(&mut scene.next[1], 1 + from);
    let mark = scene.send_response(&[0x17; MSS]);
    scene.next[1] = next;
    mark
}

/// Sends an acknowledgement of the first `bytes` bytes of the server's stream.
fn acknowledge(scene: &mut Scene, bytes: u32) {
    let next = std::mem::replace(&mut scene.next[1], 1 + bytes);
    scene.send(0, TcpFlags::ACK, b"");
    scene.next[1] = next;
}

#[test]
fn after_three_duplicates_the_window_is_half_of_what_was_in_flight() {
    let mut scene = Scene::new(SpmParameters { leading: 0, trailing: 0, small_window: 3, ..SPM });
    scene.open();
    scene.send_request("?");
    assert_eq!(scene.send_response(&[0x17; 800]), "HHllllll", "three in flight are not a small window");
    acknowledge(&mut scene, 0);
    acknowledge(&mut scene, 0);
    acknowledge(&mut scene, 0);
    // The window is four segments, and grows by one segment with each ACK of new data.
    assert_eq!((retransmit(&mut scene, 0), scene.send_response(&[0x17; 100])), ("l".into(), "l".into()));

    let mut scene = Scene::new(SpmParameters { leading: 0, trailing: 0, small_window: 3, ..SPM });
    scene.open();
    scene.send_request("?");
    assert_eq!(scene.send_response(&[0x17; 400]), "HHll");
    (0..3).for_each(|_| acknowledge(&mut scene, 0));
    assert_eq!(retransmit(&mut scene, 0), "H", "half of four");
    acknowledge(&mut scene, 100);
    assert_eq!(retransmit(&mut scene, 100), "l", "three with the ACK");
}

#[test]
fn after_a_timeout_the_window_is_one_segment_and_grows_with_each_ack() {
    let mut scene = Scene::new(SpmParameters { leading: 0, trailing: 0, small_window: 3, ..SPM });
    scene.open();
    scene.send_request("?");
    assert_eq!(scene.send_response(&[0x17; 800]), "HHllllll");
    assert_eq!(retransmit(&mut scene, 0), "H");
    acknowledge(&mut scene, 100);
    assert_eq!(retransmit(&mut scene, 100), "H", "two segments");
    acknowledge(&mut scene, 200);
    assert_eq!(retransmit(&mut scene, 200), "l", "three");
    // After the recovery, the data in flight determines the window again.
    acknowledge(&mut scene, 800);
    assert_eq!(scene.send_response(&[0x17; 300]), "lll");
}

#[test]
fn what_is_sent_again_is_judged_by_its_place() {
    let mut scene = Scene::new(SPM);
    scene.open();
    scene.send_request("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(scene.send_response(&filling(1000)), "HHHllllHHH");
    let marks: String = (0..10).map(|segment| retransmit(&mut scene, 100 * segment)).collect();
    assert_eq!(marks, "HHHllllHHH");
}

#[test]
fn numbers_wrap_and_ports_are_used_again() {
    let mut scene = Scene::new(SPM);
    for initial in [u32::MAX - 150, 7, 1 << 31] {
        scene.next = [initial.wrapping_add(5), initial];
        scene.open();
        for _ in 0..2 {
            scene.send_request("GET / HTTP/1.1\r\n\r\n");
            assert_eq!(scene.send_response(&filling(1000)), "HHHllllHHH");
        }
    }
}

#[test]
fn a_connection_that_was_under_way_is_marked_from_the_next_response_on() {
    let mut scene = Scene::new(SPM);
    scene.next = [70_000, 90_000];
    scene.send_response(&[b'x'; 500]);
    scene.send_request("GET / HTTP/1.1\r\n\r\n");
    assert!(scene.send_response(&sized(4000)).starts_with("HHHl"));
    scene.send_request("GET / HTTP/1.1\r\n\r\n");
    // Without a SYN, the marker takes the segment size from the segments that it has seen.
    let segments: Vec<_> =
        filling(8000).chunks(1000).map(|bytes| letter(scene.send(1, TcpFlags::ACK, bytes))).collect();
    assert_eq!(String::from_iter(segments), "HHHllHHH");
    scene.send_request("GET / HTTP/1.1\r\n\r\n");
    // A part of the response header does not pass the marker.
    scene.next[1] += 30;
    assert!(scene.send_response(&sized(4000)[30..]).ends_with("lll"));
}

#[test]
fn a_packet_of_many_segments_is_high_if_one_of_them_would_be() {
    let mut scene = Scene::new(SPM);
    scene.open();
    scene.send_request("GET / HTTP/1.1\r\n\r\n");
    let response_bytes = filling(10_000);
    let sizes = [1000, 1000, 7000, 600, 400];
    let mut at = 0;
    let marks = sizes.map(|size| {
        at += size;
        letter(scene.send(1, TcpFlags::ACK, &response_bytes[at - size..at]))
    });
    assert_eq!(String::from_iter(marks), "HlllH");
}

#[test]
fn only_whole_tcp_packets_of_marked_directions_are_marked() {
    let mut scene = Scene::new(SPM);
    assert_eq!(scene.send(0, TcpFlags::SYN, b""), None);
    let good = scene.packet(1, TcpHeader { flags: TcpFlags::SYN, ..TcpHeader::default() }, b"");
    assert_eq!(scene.marker.mark(Some(1), &good), Some(Priority::High));
    assert_eq!(scene.marker.mark(None, &good), None, "no edge");
    let mut fragment = good.clone();
    fragment[6] = 0x20;
    let mut udp = good.clone();
    udp[9] = ip::UDP;
    for other in [&fragment, &udp, &good[..30], &[][..]] {
        assert_eq!(scene.marker.mark(Some(1), other), None);
    }
}

#[test]
fn more_connections_than_there_is_room_for_do_no_harm() {
    let mut scene = Scene::new(SPM);
    for connection in 0..3 * CONNECTIONS {
        (scene.port, scene.next) = (connection as u16, [connection as u32; 2]);
        scene.open();
    }
    scene.send_request("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(scene.send_response(&filling(1000)), "HHHllllHHH", "the last one is still known");
}
