//! Tests of the verifier with the marker of the simulator: simulated endpoints exchange real packets, a capture is taken at the server, and
//! its marks are verified. Marker and verifier share no code.

use catnip_base::{FlowContext, Span, Time};
use catnip_net::mark::{PacketMarker, Spm, SpmParameters};
use catnip_net::{Packet, Priority, Route};
use catnip_tcp::{Endpoint, Role, TcpConfig, profile};
use catnip_wire::pcapng::{InterfaceId, Writer};
use catnip_wire::verify::{FaultKind, Marker, Markers, Reason, Report, Rules, verify};
use catnip_wire::{Addresses, Announcement, Incoming, Ip, PriorityCodec, Tcp, TcpHeader, Translation, ip};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const DELAY: Span = Span::from_millis(50);
const REQUEST: u64 = 300;

/// Transfer of one document from a marking server to a client.
#[derive(Clone, Debug)]
struct Scene {
    document: u64,
    config: TcpConfig,
    spm: SpmParameters,
    /// True if SYN, FIN and retransmissions are HIGH in addition to the packets that the CATNIP paper marks. `spm` may specify another
    /// priority for the SYN.
    eager: bool,
    codec: PriorityCodec,
    v6: bool,
    initial: [u32; 2],
    /// Numbers of the server's packets that are lost after the capture point.
    lost: Vec<usize>,
}

struct Net {
    scene: Scene,
    ends: [(Endpoint, Translation); 2],
    flying: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    serial: u64,
    from_server: usize,
    capture: Vec<(Time, Vec<u8>)>,
}

impl Scene {
    fn plain(document: u64) -> Self {
        let config =
            TcpConfig { segment_bytes: 512, receive_window: 64 * 512, initial_window: 2, ..profile::rfc() };
        Self {
            document,
            config,
            spm: SpmParameters::FULL,
            eager: true,
            codec: PriorityCodec::default(),
            v6: false,
            initial: [7, u32::MAX - 5000],
            lost: Vec::new(),
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            marker: Marker::Spm(self.spm),
            control: self.eager,
            retransmissions: self.eager,
            markers: Markers::Servers,
            codec: self.codec,
            ..Rules::default()
        }
    }

    /// Runs the transfer to its end. Returns the packets captured at the server, with their times.
    fn run(&self) -> Vec<(Time, Vec<u8>)> {
        let announcement = Announcement {
            mss: self.config.segment_bytes as u16,
            window_scale: Some(2),
            sack: true,
            timestamps: false,
        };
        let end = |role, initial| {
            let endpoint = Endpoint::new(Time::ZERO, role, &self.config, Span::ZERO);
            (endpoint, Translation::new(initial, announcement))
        };
        let mut net = Net {
            scene: self.clone(),
            ends: [end(Role::Active, self.initial[0]), end(Role::Passive, self.initial[1])],
            flying: BTreeMap::new(),
            serial: 0,
            from_server: 0,
            capture: Vec::new(),
        };
        net.ends[CLIENT].0.write(Time::ZERO, REQUEST, None, true, &self.config);
        net.run();
        assert_eq!(net.ends[CLIENT].0.received(), self.document, "all of it arrives");
        net.capture
    }

    fn report(&self, capture: &[(Time, Vec<u8>)]) -> Report {
        let mut writer = Writer::new(Vec::new(), Span::ZERO).unwrap();
        let interface: InterfaceId = writer.interface("server").unwrap();
        for (at, packet) in capture {
            writer.packet(*at, interface, packet, "").unwrap();
        }
        verify(writer.finish().unwrap().as_slice(), &self.rules(), None).unwrap()
    }

    fn address(&self, end: usize) -> IpAddr {
        let last = end as u8 + 1;
        match self.v6 {
            false => IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)),
            true => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last))),
        }
    }
}

impl Net {
    fn run(&mut self) {
        let config = self.scene.config.clone();
        let mut now = Time::ZERO;
        let mut requested = false;
        loop {
            self.send(CLIENT, now);
            self.send(SERVER, now);
            let arrival = self.flying.keys().next().map(|key| key.0);
            let timers = self.ends.iter().filter_map(|(endpoint, _)| endpoint.deadline());
            let Some(next) = timers.chain(arrival).min() else { break };
            now = next;
            while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= now) {
                let (to, packet) = entry.remove();
                if to == SERVER {
                    self.capture.push((now, packet.clone()));
                }
                let (endpoint, translation) = &mut self.ends[to];
                let ip = Ip::parse(&packet).unwrap();
                let tcp = Tcp::parse(ip.transport(ip::TCP).unwrap()).unwrap();
                let Incoming::Segment(segment) = translation.incoming(&tcp).unwrap() else {
                    panic!("a stray segment");
                };
                endpoint.on_segment(now, &segment, &config);
            }
            if !requested && self.ends[SERVER].0.received() == REQUEST {
                requested = true;
                let context = FlowContext::document(self.scene.document);
                self.ends[SERVER].0.write(now, self.scene.document, Some(context), true, &config);
            }
            for (endpoint, _) in &mut self.ends {
                endpoint.on_timer(now, &config);
            }
        }
    }

    fn send(&mut self, from: usize, now: Time) {
        let scene = &self.scene;
        let (endpoint, translation) = &mut self.ends[from];
        while let Some(out) = endpoint.transmit(now, &scene.config) {
            let segment = out.segment;
            let ports = [40_000, 80];
            let header = TcpHeader {
                source_port: ports[from],
                destination_port: ports[1 - from],
                ..translation.outgoing(&segment)
            };
            let addresses = Addresses {
                source: scene.address(from),
                destination: scene.address(1 - from),
                traffic_class: 0,
                hop_limit: 64,
            };
            let mut packet = vec![0; 2000];
            let payload = vec![b'x'; segment.len as usize];
            let len = header.write(&addresses, &payload, &mut packet).unwrap();
            packet.truncate(len);
            if from == SERVER {
                let mut descriptor = Packet::new(now, Route::default(), len as u32, 0);
                let sending = endpoint.sender_state(&out, &scene.config);
                Spm::new(scene.spm).mark(now, Some(&sending), &mut descriptor);
                let eager = match segment.flags.syn {
                    true => scene.spm.handshake.is_none(),
                    false => segment.flags.fin || out.retransmission,
                };
                if scene.eager && eager {
                    descriptor.dscp = (Priority::High).into();
                }
                scene.codec.write(&mut packet, descriptor.dscp.priority()).unwrap();
                self.capture.push((now, packet.clone()));
                self.from_server += 1;
                if scene.lost.contains(&self.from_server) {
                    continue;
                }
            }
            self.serial += 1;
            self.flying.insert((now + DELAY, self.serial), (1 - from, packet));
        }
    }
}

fn flip(packet: &mut [u8], codec: PriorityCodec) {
    let other = match codec.read(packet).unwrap() {
        Priority::High => Priority::Low,
        Priority::Medium | Priority::Low => Priority::High,
    };
    codec.write(packet, other).unwrap();
}

/// Flips the mark of each packet of the server, one at a time. Returns the packet numbers and the faults that the verifier finds.
fn planted(scene: &Scene, capture: &[(Time, Vec<u8>)]) -> Vec<(u64, FaultKind)> {
    let mut found = Vec::new();
    for i in 0..capture.len() {
        let mut flipped = capture.to_vec();
        if Ip::parse(&flipped[i].1).unwrap().source() != scene.address(SERVER) {
            continue;
        }
        flip(&mut flipped[i].1, scene.codec);
        let report = scene.report(&flipped);
        assert!(report.faults.len() <= 1);
        assert_eq!(report.marks_are_correct(), report.faults.is_empty());
        found.extend(report.faults.iter().map(|fault| {
            assert!(fault.server && fault.packet == i as u64 + 1, "{report}");
            (fault.packet, fault.kind)
        }));
    }
    found
}

/// Tests that the verifier accepts a correct capture and finds each single wrong mark (CAT-S23).
#[test]
fn a_clean_capture_passes_and_each_planted_mark_is_found() {
    let scene = Scene::plain(16 * 512 + 100);
    let capture = scene.run();
    let clean = scene.report(&capture);
    assert!(clean.marks_are_correct() && clean.faults.is_empty(), "{clean}");
    assert_eq!(clean.agreement(), 1.0);
    let side = clean.connections[0].from_server;
    assert_eq!((side.data, side.retransmissions, side.gaps, side.bad_checksums), (17, 0, 0, 0), "{clean}");
    let found = planted(&scene, &capture);
    assert_eq!(found.len() as u64, side.must_be_high + side.must_be_low);
    let count = |wanted| found.iter().filter(|(_, kind)| *kind == wanted).count();
    assert_eq!(count(FaultKind::MissingHigh(Reason::Syn)), 1);
    assert_eq!(count(FaultKind::MissingHigh(Reason::Leading)), 3);
    // The last packet carries the FIN.
    assert_eq!(count(FaultKind::MissingHigh(Reason::Trailing)), 2);
    assert_eq!(count(FaultKind::MissingHigh(Reason::Fin)), 1);
    assert!(count(FaultKind::WrongHigh) >= 3, "{clean}");
}

#[test]
fn a_wrong_checksum_is_found_and_does_not_hide_the_mark() {
    let scene = Scene::plain(8 * 512);
    let mut capture = scene.run();
    let i = capture.iter().position(|(_, packet)| packet.len() > 500).unwrap();
    let last = capture[i].1.len() - 1;
    capture[i].1[last] ^= 1;
    let report = scene.report(&capture);
    assert_eq!(report.connections[0].from_server.bad_checksums, 1);
    assert_eq!((report.faults.len(), report.faults[0].kind), (1, FaultKind::Checksum), "{report}");
    assert!(report.marks_are_correct());
}

#[test]
fn full_marking_fails_where_partial_marking_was_done() {
    let partial = Scene { spm: SpmParameters::PARTIAL, ..Scene::plain(30 * 512) };
    let capture = partial.run();
    assert!(partial.report(&capture).marks_are_correct());
    let report = Scene { spm: SpmParameters::FULL, ..partial }.report(&capture);
    assert!(!report.marks_are_correct() && report.agreement() < 1.0);
    assert!(report.faults.iter().all(|f| f.kind == FaultKind::MissingHigh(Reason::Trailing)), "{report}");
}

#[test]
fn what_is_missing_in_the_capture_makes_the_verdict_milder_and_never_wrong() {
    let scene = Scene::plain(40 * 512);
    let capture = scene.run();
    for i in 0..capture.len() {
        let mut holed = capture.clone();
        holed.remove(i);
        let report = scene.report(&holed);
        assert!(report.connections[0].from_server.missing_high <= 1, "without packet {}: {report}", i + 1);
    }
    let without_syn = scene.report(&capture[5..]);
    assert!(without_syn.marks_are_correct(), "without a SYN only FINs are judged: {without_syn}");
}

#[test]
fn several_connections_are_told_apart_even_on_the_same_ports() {
    let scene = Scene::plain(10 * 512);
    let first = scene.run();
    let reused_ports = Scene { initial: [99_999, 1 << 31], ..scene.clone() };
    let v6 = Scene { v6: true, ..scene.clone() };
    let mut capture = first.clone();
    capture.extend(reused_ports.run());
    for (i, packet) in v6.run().into_iter().enumerate() {
        capture.insert(2 * i, packet);
    }
    let report = scene.report(&capture);
    assert!(report.marks_are_correct(), "{report}");
    assert_eq!(report.connections.len(), 3);
    let sides: Vec<_> = report.connections.iter().map(|c| (c.from_client, c.from_server)).collect();
    assert!(sides.iter().all(|side| *side == sides[0]), "{report}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Tests that the verifier accepts every mark of the simulator's marker (CAT-S21): documents of 1 B to 1 MB, packet losses, both codecs
    /// of priorities, IPv4 and IPv6.
    #[test]
    fn what_the_marker_does_the_verifier_accepts(
        document in prop_oneof![1u64..20_000, 1u64..1_000_000],
        segment in prop_oneof![Just(512u32), Just(536), Just(1460)],
        [eager, historical, v6] in any::<[bool; 3]>(),
        initial: [u32; 2],
        partial: bool,
        small_window in 2u32..6,
        handshake in prop::sample::select(vec![None, Some(Priority::High), Some(Priority::Low)]),
        initial_window in 1u32..11,
        window in 4u64..64,
        lost in prop::collection::vec(2usize..80, 0..8),
    ) {
        let trailing = if partial { 0 } else { 3 };
        let spm = SpmParameters { trailing, small_window, handshake, ..SpmParameters::FULL };
        let codec = if historical { PriorityCodec::FlagBit } else { PriorityCodec::default() };
        let plain = Scene::plain(document);
        let config = TcpConfig {
            segment_bytes: segment,
            initial_window,
            receive_window: window * u64::from(segment),
            ..plain.config.clone()
        };
        let scene = Scene { config, spm, eager, codec, v6, initial, lost, ..plain };
        let capture = scene.run();
        let report = scene.report(&capture);
        prop_assert!(report.marks_are_correct() && report.faults.is_empty(), "{}", report);
        if document < 20_000 {
            let side = report.connections[0].from_server;
            let checked = side.must_be_high + side.must_be_low;
            prop_assert_eq!(planted(&scene, &capture).len() as u64, checked);
        }
    }
}
