//! Scenarios that the simulated endpoints of `tests/unit/verifier.rs` do not produce.

use super::*;
use crate::pcapng::Writer;
use crate::{Addresses, TcpHeader, WireError};
use catnip_base::{Span, Time};
use catnip_net::Priority;
use std::net::{IpAddr, Ipv4Addr};

const SIZE: u32 = 100;
const LOW: Priority = Priority::Low;
const MED: Priority = Priority::Medium;
const HIGH: Priority = Priority::High;

/// Connection whose packets are specified by a test, one per line.
struct Scene {
    rules: Rules,
    timestamps: bool,
    clock_millis: i64,
    packets: Vec<(i64, Vec<u8>)>,
}

impl Scene {
    /// Creates a scene that begins with a correctly marked handshake.
    fn new(rules: Rules) -> Self {
        let mut scene = Self { rules, timestamps: false, clock_millis: 0, packets: Vec::new() };
        scene.client(TcpFlags::SYN, 0, 0, 0, HIGH);
        scene.server(TcpFlags::SYN | TcpFlags::ACK, 0, 1, 0, HIGH);
        scene
    }

    fn server(&mut self, flags: TcpFlags, seq: u32, ack: u32, len: u32, mark: Priority) -> u64 {
        self.push(false, flags, seq, ack, len, mark)
    }

    fn client(&mut self, flags: TcpFlags, seq: u32, ack: u32, len: u32, mark: Priority) -> u64 {
        self.push(true, flags, seq, ack, len, mark)
    }

    /// Sends the packets of a document from packet `from` on. Each letter of `marks` is the mark of one packet: H for HIGH, l for LOW.
    fn document(&mut self, from: u32, ack: u32, marks: &str) {
        for (i, mark) in (0..).zip(marks.chars()) {
            let mark = if mark == 'H' { HIGH } else { LOW };
            self.server(TcpFlags::ACK, 1 + (from + i) * SIZE, ack, SIZE, mark);
        }
    }

    fn push(
        &mut self,
        client: bool,
        flags: TcpFlags,
        sequence: u32,
        acknowledgement: u32,
        len: u32,
        mark: Priority,
    ) -> u64 {
        let ends = [(1, 4000), (2, 80)];
        let (from, to) = if client { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
        let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        let addresses = Addresses {
            source: address(from.0),
            destination: address(to.0),
            traffic_class: 0,
            hop_limit: 64,
        };
        let mut header = TcpHeader {
            source_port: from.1,
            destination_port: to.1,
            sequence,
            acknowledgement,
            flags,
            ..TcpHeader::default()
        };
        // The client accepts larger segments than the server sends.
        header.options.mss = flags.contains(TcpFlags::SYN).then_some(if client { 1460 } else { SIZE as u16 });
        header.options.timestamps = self.timestamps.then_some((1, 2));
        let mut packet = vec![0; 400];
        let len = header.write(&addresses, &vec![0; len as usize], &mut packet).unwrap();
        packet.truncate(len);
        let _ = self.rules.codec.write(&mut packet, mark);
        self.clock_millis += 1;
        self.packets.push((self.clock_millis, packet));
        self.packets.len() as u64
    }

    fn report(&self) -> Report {
        let mut verifier = Verifier::new(&self.rules, None);
        for (millis, packet) in &self.packets {
            verifier.packet(millis * 1_000_000, Some(packet), 0);
        }
        verifier.finish()
    }

    fn faults(&self) -> Vec<(u64, FaultKind)> {
        self.report().faults.iter().map(|fault| (fault.packet, fault.kind)).collect()
    }
}

#[test]
fn on_a_persistent_connection_each_answer_is_a_document() {
    let rules = Rules { documents: Documents::PerExchange, ..Rules::default() };
    let mut scene = Scene::new(rules);
    scene.client(TcpFlags::ACK, 1, 1, 50, HIGH);
    scene.document(0, 51, "HHHllllHHH");
    scene.client(TcpFlags::ACK, 51, 1001, 50, HIGH);
    scene.document(10, 101, "HHHllllHHH");
    let fin = scene.server(TcpFlags::FIN | TcpFlags::ACK, 2001, 101, 0, HIGH);
    assert_eq!(scene.faults(), []);
    let side = scene.report().connections[0].from_server;
    assert_eq!((side.must_be_high, side.data), (1 + 6 + 6 + 1, 20));

    scene.rules = Rules::default();
    let faults = scene.faults();
    assert!(faults.len() >= 3, "as one document, marks in its middle are wrong: {faults:?}");
    assert!(faults.iter().all(|(packet, kind)| *kind == FaultKind::WrongHigh && *packet < fin - 3));
}

#[test]
fn a_retransmission_must_be_high_if_the_rules_say_so() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HHHllll");
    let retransmission = scene.server(TcpFlags::ACK, 1 + 4 * SIZE, 1, SIZE, LOW);
    assert_eq!(scene.faults(), [(retransmission, FaultKind::MissingHigh(Reason::Retransmission))]);
    scene.rules.retransmissions = false;
    assert_eq!(scene.faults(), []);
}

#[test]
fn after_a_sign_of_congestion_high_is_free() {
    for sign in ["none", "duplicate", "echo"] {
        let mut scene = Scene::new(Rules::default());
        scene.document(0, 1, "HHHlllll");
        let ack = scene.client(TcpFlags::ACK, 1, 1 + 3 * SIZE, 0, LOW);
        match sign {
            "duplicate" => scene.client(TcpFlags::ACK, 1, 1 + 3 * SIZE, 0, LOW),
            "echo" => scene.client(TcpFlags::ACK | TcpFlags::ECE, 1, 1 + 4 * SIZE, 0, LOW),
            _ => ack,
        };
        scene.document(8, 1, "H");
        let high = scene.packets.len() as u64;
        scene.document(9, 1, "llllllll");
        let expected = if sign == "none" { vec![(high, FaultKind::WrongHigh)] } else { vec![] };
        assert_eq!(scene.faults(), expected, "{sign}");
    }
}

#[test]
fn after_a_recovery_the_window_is_measured_anew() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HHHlllll");
    for _ in 0..3 {
        scene.client(TcpFlags::ACK, 1, 1 + 3 * SIZE, 0, LOW);
    }
    scene.client(TcpFlags::ACK, 1, 1 + 8 * SIZE, 0, LOW);
    scene.document(8, 1, "HH");
    scene.client(TcpFlags::ACK, 1, 1 + 10 * SIZE, 0, LOW);
    scene.document(10, 1, "HHHHllllll");
    let fault = scene.packets.len() as u64 - 6;
    assert_eq!(scene.faults(), [(fault, FaultKind::WrongHigh)], "the fourth in flight");
}

#[test]
fn high_is_wrong_from_one_packet_above_a_small_window_on() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HHH");
    scene.client(TcpFlags::ACK, 1, 1 + 3 * SIZE, 0, LOW);
    scene.document(3, 1, "HHH");
    let fault = scene.packets.len() as u64 + 1;
    scene.document(6, 1, "Hlllll");
    assert_eq!(scene.faults(), [(fault, FaultKind::WrongHigh)]);
}

#[test]
fn timestamps_make_full_segments_smaller() {
    let mut scene = Scene::new(Rules::default());
    scene.timestamps = true;
    let size = SIZE - 12;
    for i in 0..10 {
        scene.server(TcpFlags::ACK, 1 + i * size, 1, size, if i < 4 { HIGH } else { LOW });
    }
    assert_eq!(scene.faults(), [(6, FaultKind::WrongHigh)], "the fourth packet");
}

#[test]
fn a_pause_may_close_the_window() {
    for (pause_millis, wrong) in [(100, 1), (300, 0)] {
        let mut scene = Scene::new(Rules::default());
        scene.document(0, 1, "HHHlllll");
        scene.client(TcpFlags::ACK, 1, 1 + 8 * SIZE, 0, LOW);
        scene.clock_millis += pause_millis;
        scene.document(8, 1, "Hlllll");
        assert_eq!(scene.faults().len(), wrong, "{pause_millis} ms");
    }
}

#[test]
fn a_marker_that_counts_bytes_may_mark_a_fourth_last_packet_if_the_last_ones_are_small() {
    for (last, wrong) in [(20, 0), (SIZE, 1)] {
        let mut scene = Scene::new(Rules::default());
        scene.document(0, 1, "HHHlllllllHH");
        scene.server(TcpFlags::ACK, 1 + 12 * SIZE, 1, last, HIGH);
        scene.server(TcpFlags::ACK, 1 + 12 * SIZE + last, 1, last, HIGH);
        scene.server(TcpFlags::FIN | TcpFlags::ACK, 1 + 12 * SIZE + 2 * last, 1, 0, HIGH);
        assert_eq!(scene.faults().len(), wrong, "the last four have {} bytes", 2 * (SIZE + last));
        scene.rules.marker = Marker::Spm(SpmParameters { trailing: 2, ..SpmParameters::FULL });
        assert_eq!(scene.faults().len(), wrong + 1, "of two segments");
    }
}

#[test]
fn a_marker_that_counts_bytes_may_mark_more_leading_packets_if_they_are_small() {
    let spm = SpmParameters { leading: 5, trailing: 0, small_window: 2, ..SpmParameters::FULL };
    let mut scene = Scene::new(Rules { marker: Marker::Spm(spm), ..Rules::default() });
    for i in 0..5 {
        scene.server(TcpFlags::ACK, 1 + 20 * i, 1, 20, HIGH);
    }
    for i in 0..6 {
        scene.server(TcpFlags::ACK, 101 + i * SIZE, 1, SIZE, HIGH);
    }
    let faults: Vec<_> = scene.faults().into_iter().map(|(packet, _)| packet).collect();
    assert_eq!(faults, [12, 13], "those that begin after five full segments");
}

#[test]
fn each_document_shows_its_window_anew() {
    let rules = Rules { documents: Documents::PerExchange, ..Rules::default() };
    let mut scene = Scene::new(rules);
    scene.client(TcpFlags::ACK, 1, 1, 50, HIGH);
    scene.document(0, 51, "HHHllllHHH");
    scene.client(TcpFlags::ACK, 51, 1 + 10 * SIZE, 50, HIGH);
    scene.document(10, 101, "HHH");
    scene.client(TcpFlags::ACK, 101, 1 + 13 * SIZE, 0, LOW);
    scene.document(13, 101, "HHHllll");
    assert_eq!(scene.faults(), []);
}

#[test]
fn after_a_gap_in_the_capture_old_data_is_no_retransmission() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HHH");
    scene.document(6, 1, "l");
    scene.document(3, 1, "lll");
    assert_eq!(scene.faults(), []);
    assert_eq!(scene.report().connections[0].from_server.gaps, 1);
}

#[test]
fn a_keep_alive_probe_is_no_retransmission() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HHH");
    scene.client(TcpFlags::ACK, 1, 1 + 3 * SIZE, 0, LOW);
    scene.server(TcpFlags::ACK, 3 * SIZE, 1, 1, LOW);
    assert_eq!(scene.faults(), []);
    assert_eq!(scene.report().connections[0].from_server.retransmissions, 0);
    scene.document(3, 1, "l");
    let retransmission = scene.server(TcpFlags::ACK, 4 * SIZE, 1, 1, LOW);
    let fault = (retransmission, FaultKind::MissingHigh(Reason::Retransmission));
    assert_eq!(scene.faults(), [fault], "a byte that is not acknowledged is one");
}

#[test]
fn only_those_who_mark_are_judged() {
    let mut scene = Scene::new(Rules { markers: Markers::Servers, ..Rules::default() });
    scene.packets.clear();
    scene.client(TcpFlags::SYN, 0, 0, 0, LOW);
    let answer = scene.server(TcpFlags::SYN | TcpFlags::ACK, 0, 1, 0, LOW);
    let missing = FaultKind::MissingHigh(Reason::Syn);
    assert_eq!(scene.faults(), [(answer, missing)]);
    scene.rules.markers = Markers::Clients;
    assert_eq!(scene.faults(), [(1, missing)]);

    let rules = Rules { markers: Markers::Servers, documents: Documents::PerExchange, ..Rules::default() };
    let mut scene = Scene::new(rules);
    scene.client(TcpFlags::ACK, 1, 1, 50, LOW);
    scene.document(0, 51, "HHH");
    scene.client(TcpFlags::ACK, 51, 301, 50, LOW);
    assert_eq!(scene.faults(), [], "requests need no mark");
}

#[test]
fn a_marker_may_be_told_what_handshakes_are_marked_with() {
    let (syn_ack, missing) = (TcpFlags::SYN | TcpFlags::ACK, FaultKind::MissingHigh(Reason::Syn));
    for (handshake, marked, fault) in [
        (Priority::High, HIGH, None),
        (Priority::High, LOW, Some(missing)),
        (Priority::Low, HIGH, Some(FaultKind::WrongHigh)),
        (Priority::Low, LOW, None),
    ] {
        let spm = SpmParameters { handshake: Some(handshake), ..SpmParameters::FULL };
        let mut scene =
            Scene::new(Rules { marker: Marker::Spm(spm), markers: Markers::Servers, ..Rules::default() });
        scene.packets.clear();
        scene.client(TcpFlags::SYN, 0, 0, 0, LOW);
        let answer = scene.server(syn_ack, 0, 1, 0, marked);
        assert_eq!(scene.faults(), Vec::from_iter(fault.map(|fault| (answer, fault))));
    }
}

#[test]
fn a_packet_with_ecn_cannot_carry_the_historical_bit() {
    let mut scene = Scene::new(Rules { codec: PriorityCodec::FlagBit, ..Rules::default() });
    let ect = scene.client(TcpFlags::ACK, 1, 1, 0, LOW);
    ip::set_ecn(&mut scene.packets.last_mut().unwrap().1, catnip_net::Ecn::ECT_0).unwrap();
    assert_eq!(scene.faults(), [(ect, FaultKind::Unmarkable(WireError::EcnInUse))]);
    assert!(!scene.report().marks_are_correct());
}

#[test]
fn many_wrong_checksums_do_not_hide_a_wrong_mark() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, &("HHH".to_owned() + &"l".repeat(1200)));
    for (_, packet) in &mut scene.packets {
        *packet.last_mut().unwrap() ^= 1;
    }
    scene.document(0, 1, "l");
    let report = scene.report();
    assert_eq!(report.connections[0].from_server.bad_checksums, 1204);
    let marks: Vec<_> = report.faults.iter().filter(|fault| fault.kind != FaultKind::Checksum).collect();
    assert_eq!(marks.len(), 1);
}

#[test]
fn a_capture_of_headers_only_is_judged_without_checksums() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HHHlllllHl");
    scene.server(TcpFlags::FIN | TcpFlags::ACK, 1 + 10 * SIZE, 1, 0, HIGH);
    let mut verifier = Verifier::new(&scene.rules, None);
    for (_, packet) in &scene.packets {
        let captured = packet.len().min(60);
        verifier.packet(0, Some(&packet[..captured]), packet.len() - captured);
    }
    let report = verifier.finish();
    let side = report.connections[0].from_server;
    assert_eq!((side.unchecked, side.bad_checksums), (10, 0));
    let trailing = FaultKind::MissingHigh(Reason::Trailing);
    let faults: Vec<_> = report.faults.iter().map(|fault| (fault.packet, fault.kind)).collect();
    assert_eq!(faults, [(10, trailing), (12, trailing)]);
}

/// State of congestion control, and the time of the change to it, ms.
type Change = (u32, u32);

/// Returns the kernel's trace for the server: packets sent and cwnd when a segment arrives, and a change before it.
fn trace(segments: &[(u32, u32, Option<Change>)]) -> Windows {
    let mut lines = String::new();
    for (packets, cwnd, state) in segments {
        if let Some((state, millis)) = state {
            let at = 1000 * millis;
            lines += &format!(
                "x-1 [000] .. 0.{at:06}: tcp_cong_state_set: family=AF_INET sport=80 dport=4000 saddr=10.0.0.2 \
                 daddr=10.0.0.1 cong_state={state}\n"
            );
        }
        let at = 999_999;
        lines += &format!(
            "x-1 [000] .. 0.{at:06}: tcp_probe: family=AF_INET src=10.0.0.2:80 dest=10.0.0.1:4000 \
             snd_nxt={:#x} snd_una=0x1 snd_cwnd={cwnd} ssthresh=2147483647 snd_wnd=64000\n",
            1 + packets * SIZE
        );
    }
    Windows::read(lines.as_bytes()).unwrap()
}

impl Scene {
    fn documents(&self, windows: Option<Windows>) -> ([u64; 3], Vec<(u64, FaultKind)>) {
        let mut verifier = Verifier::new(&self.rules, windows);
        for (millis, packet) in &self.packets {
            verifier.packet(millis * 1_000_000, Some(packet), 0);
        }
        let report = verifier.finish();
        (report.documents(), report.faults.iter().map(|fault| (fault.packet, fault.kind)).collect())
    }

    fn close(&mut self, packets: u32) {
        self.server(TcpFlags::FIN | TcpFlags::ACK, 1 + packets * SIZE, 1, 0, HIGH);
    }
}

#[test]
fn a_document_is_right_if_all_of_its_marks_are_and_undecided_if_one_may_be_either() {
    let mut right = Scene::new(Rules::default());
    right.document(0, 1, "HHHllllllHHH");
    right.close(12);
    assert_eq!(right.documents(None).0, [1, 0, 1]);
    // A fourth packet in flight is one more than a small window has, which a probe may be.
    let mut undecided = Scene::new(Rules::default());
    undecided.document(0, 1, "HHH");
    undecided.client(TcpFlags::ACK, 1, 1 + 3 * SIZE, 0, LOW);
    undecided.document(3, 1, "lll");
    undecided.client(TcpFlags::ACK, 1, 1 + 6 * SIZE, 0, LOW);
    undecided.document(6, 1, "lllHHH");
    undecided.close(12);
    assert_eq!(undecided.documents(None).0, [0, 1, 1]);
    let windows = |cwnd| trace(&[(3, 10, None), (6, cwnd, None), (12, 10, None)]);
    assert_eq!(undecided.documents(Some(windows(3))).0, [1, 0, 1]);
    let (documents, faults) = undecided.documents(Some(windows(2)));
    assert_eq!(documents, [0, 0, 1]);
    assert_eq!(faults, [7, 8, 9].map(|packet| (packet, FaultKind::MissingHigh(Reason::SmallWindow))));
}

#[test]
fn a_capture_without_marks_has_no_right_document() {
    let (documents, markers) = (Documents::PerExchange, Markers::Servers);
    let rules = Rules { documents, markers, ..Rules::default() };
    let mut scene = Scene::new(rules);
    for document in 0..20 {
        scene.client(TcpFlags::ACK, 1 + 50 * document, 1 + 100 * SIZE * document, 50, HIGH);
        scene.document(100 * document, 51 + 50 * document, &"l".repeat(100));
    }
    scene.close(2000);
    let report = scene.report();
    assert_eq!(report.documents(), [0, 0, 20]);
    assert!(report.agreement() > 0.93, "most packets must be LOW: {}", report.agreement());
}

#[test]
fn segments_that_leave_under_one_mark_are_judged_one_by_one() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HH");
    let pair = scene.server(TcpFlags::ACK, 1 + 2 * SIZE, 1, 2 * SIZE, HIGH);
    scene.document(4, 1, "lllllHHH");
    scene.close(12);
    let (documents, faults) = scene.documents(Some(trace(&[(12, 10, None)])));
    assert_eq!((documents, faults), ([0, 0, 1], vec![(pair, FaultKind::WrongHigh)]));
}

#[test]
fn new_data_during_a_recovery_must_be_high_if_the_kernel_says_so() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HHHllll");
    for _ in 0..3 {
        scene.client(TcpFlags::ACK, 1, 1 + 3 * SIZE, 0, LOW);
    }
    scene.document(3, 1, "H");
    scene.document(7, 1, "H");
    let during = scene.packets.len() as u64;
    scene.client(TcpFlags::ACK, 1, 1 + 8 * SIZE, 0, LOW);
    scene.document(8, 1, "lllHHH");
    scene.close(14);
    let millis = |packet: u64| scene.packets[packet as usize - 1].0 as u32;
    let (begins, ends) = (millis(during) - 1, millis(during) + 1);
    let windows = || trace(&[(7, 10, None), (8, 5, Some((3, begins))), (14, 5, Some((0, ends)))]);
    assert_eq!(scene.documents(Some(windows())), ([1, 0, 1], vec![]));
    assert_eq!(scene.documents(None).0, [0, 1, 1], "without the trace its end is not known");
    let _ = scene.rules.codec.write(&mut scene.packets[during as usize - 1].1, LOW);
    let missing = FaultKind::MissingHigh(Reason::Recovery);
    assert_eq!(scene.documents(Some(windows())), ([0, 0, 1], vec![(during, missing)]));
}

#[test]
fn without_the_kernels_trace_new_data_after_a_loss_may_be_high_until_it_is_repaired() {
    let mut scene = Scene::new(Rules { marker: Marker::Spm(SpmParameters::LAST_ONLY), ..Rules::default() });
    scene.document(0, 1, "llllllll");
    for _ in 0..3 {
        scene.client(TcpFlags::ACK, 1, 1 + 3 * SIZE, 0, LOW);
    }
    scene.document(3, 1, "H");
    scene.document(8, 1, "HlH");
    scene.client(TcpFlags::ACK, 1, 1 + 11 * SIZE, 0, LOW);
    scene.document(11, 1, "lllHHH");
    scene.close(17);
    assert_eq!(scene.documents(None), ([0, 1, 1], vec![]));
}

#[test]
fn a_repeated_request_begins_no_document() {
    let (documents, markers) = (Documents::PerExchange, Markers::Servers);
    let mut scene = Scene::new(Rules { documents, markers, ..Rules::default() });
    scene.client(TcpFlags::ACK, 1, 1, 50, LOW);
    scene.document(0, 51, "HHHlll");
    scene.client(TcpFlags::ACK, 1, 1, 50, LOW);
    scene.document(6, 51, "lllHHH");
    // The next request is lost, and an ACK behind it comes first.
    scene.client(TcpFlags::ACK, 101, 1 + 12 * SIZE, 0, LOW);
    scene.client(TcpFlags::ACK, 51, 1 + 12 * SIZE, 50, LOW);
    scene.document(12, 101, "HHHHHH");
    scene.close(18);
    assert_eq!(scene.documents(Some(trace(&[(18, 10, None)]))), ([2, 0, 2], vec![]));
}

#[test]
fn a_capture_that_is_cut_is_judged_up_to_there() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HHH");
    let mut writer = Writer::new(Vec::new(), Span::ZERO).unwrap();
    let interface = writer.interface("server").unwrap();
    for (_, packet) in &scene.packets {
        writer.packet(Time::ZERO, interface, packet, "").unwrap();
    }
    let whole = writer.finish().unwrap();
    let report = verify(&whole[..whole.len() - 9], &scene.rules, None).unwrap();
    assert!(report.is_cut && report.to_string().contains("ends in the middle of a packet"));
    assert_eq!((report.packets, verify(whole.as_slice(), &scene.rules, None).unwrap().packets), (4, 5));
}

#[test]
fn fragments_and_foreign_packets_are_counted_and_not_judged() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HHH");
    scene.packets[2].1[6] = 0x20;
    scene.packets[3].1[9] = ip::UDP;
    scene.packets[4].1.truncate(30);
    let report = scene.report();
    assert_eq!((report.packets, report.not_tcp, report.unreadable), (5, 1, 2));
}

#[test]
fn the_report_names_connection_packet_and_reason() {
    let mut scene = Scene::new(Rules::default());
    scene.document(0, 1, "HlH");
    let mut writer = Writer::new(Vec::new(), Span::ZERO).unwrap();
    let interface = writer.interface("server").unwrap();
    for (_, packet) in &scene.packets {
        writer.packet(Time::ZERO, interface, packet, "").unwrap();
    }
    let report = verify(writer.finish().unwrap().as_slice(), &scene.rules, None).unwrap();
    let expected = "\
5 packets, 0 not TCP, 0 unreadable, 1 connections
10.0.0.1:4000 > 10.0.0.2:80: 1 packets, 0 with data, 0 retransmitted, 1 HIGH; 0 of 1 due HIGH are not, \
0 of 0 due LOW are not
10.0.0.2:80 > 10.0.0.1:4000: 4 packets, 3 with data, 0 retransmitted, 3 HIGH; 0 of 1 documents right; 1 of 4 due HIGH are not, \
0 of 0 due LOW are not
packet 4, 10.0.0.2:80 > 10.0.0.1:4000: not HIGH, but must be: among the first packets of a document
";
    assert_eq!(report.to_string(), expected);
    assert_eq!(report.agreement(), 0.8);
}

#[test]
fn algorithm_1_asks_for_the_level_of_the_window_under_which_each_segment_leaves() {
    let thresholds = [Threshold(4), Threshold(8)];
    let mut scene = Scene::new(Rules { marker: Marker::TcpState(thresholds), ..Rules::default() });
    // Windows of 2, 4, 5, 8 and 9 segments, of which as many leave.
    let windows = [(0, 2), (2, 2), (6, 4), (11, 5), (19, 8), (29, 9)];
    let mut from = 0;
    for (segments, level) in [(2, HIGH), (4, HIGH), (5, MED), (8, MED), (9, LOW)] {
        for _ in 0..segments {
            scene.server(TcpFlags::ACK, 1 + from * SIZE, 1, SIZE, level);
            from += 1;
        }
    }
    let right = scene.packets.clone();
    let mut report = |fin: Priority, wrong: &[(usize, Priority)]| {
        scene.packets = right.clone();
        for &(at, level) in wrong {
            let _ = scene.rules.codec.write(&mut scene.packets[at].1, level);
        }
        scene.server(TcpFlags::FIN | TcpFlags::ACK, 1 + 28 * SIZE, 1, 0, fin);
        let windows = windows.map(|(packets, cwnd)| (packets, cwnd, None));
        let mut verifier = Verifier::new(&scene.rules, Some(trace(&windows)));
        for (millis, packet) in &scene.packets {
            verifier.packet(millis * 1_000_000, Some(packet), 0);
        }
        verifier.finish()
    };
    let side = report(LOW, &[]).connections[0].from_server;
    assert_eq!([side.must_be_high, side.must_be_med, side.must_be_low], [7, 13, 10], "SYN and FIN, too");
    assert_eq!((side.misclassified(), side.documents, side.right_documents), (0, 1, 1));
    // The last packet of five, the first of nine, and the FIN.
    let kinds = |report: Report| report.faults.iter().map(|fault| fault.kind).collect::<Vec<_>>();
    assert_eq!(kinds(report(LOW, &[(7, MED)])), [FaultKind::MissingHigh(Reason::SmallWindow)]);
    assert_eq!(kinds(report(LOW, &[(12, LOW)])), [FaultKind::WrongMed(LOW)]);
    assert_eq!(kinds(report(LOW, &[(21, MED)])), [FaultKind::WrongHigh]);
    assert_eq!(kinds(report(HIGH, &[])), [FaultKind::WrongHigh]);
    let side = report(LOW, &[(12, HIGH)]).connections[0].from_server;
    assert_eq!((side.wrong_med, side.right_documents), (1, 0));
}

#[test]
fn an_ack_has_the_level_of_the_data_that_it_answers() {
    let mut scene = Scene::new(Rules { acks: Acks::AsData, markers: Markers::Servers, ..Rules::default() });
    scene.server(TcpFlags::ACK, 1, 1, 0, LOW);
    scene.client(TcpFlags::ACK, 1, 1, 50, HIGH);
    scene.clock_millis += 1;
    let low = scene.server(TcpFlags::ACK, 1, 51, 0, LOW);
    scene.client(TcpFlags::ACK, 51, 1, 50, HIGH);
    scene.client(TcpFlags::ACK, 101, 1, 0, LOW);
    let after_an_ack = scene.server(TcpFlags::ACK, 1, 101, 0, LOW);
    scene.client(TcpFlags::ACK, 101, 1, 50, LOW);
    scene.server(TcpFlags::ACK, 1, 151, 0, HIGH);
    let missing = |packet| (packet, FaultKind::MissingHigh(Reason::Ack));
    assert_eq!(
        scene.faults(),
        [missing(low), missing(after_an_ack)],
        "the last may not have seen the data yet"
    );
    scene.document(0, 151, "HHH");
    scene.rules.acks = Acks::Low;
    let side = scene.report().connections[0].from_server;
    assert_eq!((side.wrong_high, side.right_documents), (1, side.documents), "an ACK is in no document");
    scene.packets.truncate(scene.packets.len() - 3);
    assert_eq!(scene.faults(), [(scene.packets.len() as u64, FaultKind::WrongHigh)]);
    scene.rules.acks = Acks::Any;
    assert_eq!(scene.faults(), []);
}

#[test]
fn data_with_a_fin_is_judged_only_on_a_side_that_marks() {
    let rules = Rules {
        marker: Marker::TcpState([Threshold(4), Threshold(8)]),
        markers: Markers::Clients,
        ..Rules::default()
    };
    let mut scene = Scene::new(rules);
    scene.server(TcpFlags::ACK | TcpFlags::FIN, 1, 1, SIZE, LOW);
    assert_eq!(scene.documents(Some(trace(&[(1, 2, None)]))).1, []);
    scene.rules.markers = Markers::Servers;
    let faults = scene.documents(Some(trace(&[(1, 2, None)]))).1;
    assert_eq!(faults, [(3, FaultKind::MissingHigh(Reason::SmallWindow))]);
}
