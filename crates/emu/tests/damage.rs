//! Packets may be anything: whatever comes, the pump goes on, and every packet is accounted for.

#[allow(dead_code, reason = "each test file uses what it needs")]
mod fakes;

use catnip_base::{Rate, Span, Time};
use catnip_emu::clock::PacketIo;
use catnip_emu::ethernet;
use catnip_emu::link::{LinkTopology, monitor};
use catnip_emu::monitor::Monitor;
use catnip_emu::netlink::Network;
use catnip_emu::pump::{Edge, Pump};
use catnip_net::loss::LossSpec;
use catnip_net::queue::{QueueSpec, VictimRule};
use catnip_net::shape::RateSpec;
use catnip_net::{Fabric, WireSpec};
use catnip_wire::{AfClass, PriorityCodec};
use fakes::{LateClock, Script, packet};
use proptest::prelude::*;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

/// A device whose packets have an Ethernet header.
#[derive(Debug)]
struct Framed(Script);

impl PacketIo for Framed {
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<(Time, usize)>> {
        self.0.recv(buffer)
    }
    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.0.send(packet)
    }
    fn ip_at(&self, frame: &[u8]) -> Option<usize> {
        ethernet::ip_at(frame)
    }
}

fn wire() -> WireSpec {
    WireSpec {
        rate: RateSpec::Constant(Rate::from_bits_per_second(1_500_000).unwrap()),
        delay: Span::from_millis(3),
        queue: QueueSpec::CatnipGood { limit: 8, victim: VictimRule::Random },
        jitter: None,
        loss: Some(LossSpec::Bernoulli { probability: 0.05 }),
        wire_loss: Some(LossSpec::Bernoulli { probability: 0.05 }),
    }
}

/// Packets in = refused + passed + delivered + dropped, none left.
fn account(read: usize, monitor: &Monitor, inside: usize, written: usize) {
    let refused: u64 = monitor.refused.iter().flatten().sum();
    let passed: u64 = monitor.passed.iter().flatten().sum();
    let sum =
        |of: &dyn Fn(&catnip_emu::monitor::Direction) -> u64| monitor.directions.iter().map(of).sum::<u64>();
    let entered = sum(&|d| d.entered.iter().sum());
    let delivered = sum(&|d| d.delivered);
    let dropped = sum(&|d| d.dropped.iter().sum());
    assert_eq!(read as u64, refused + passed + entered);
    assert_eq!(entered, delivered + dropped);
    assert_eq!(written as u64, delivered + passed);
    assert_eq!(inside, 0);
}

/// Sends these packets from either side, one each millisecond, by a router and by a bridge.
fn pump_through(packets: &[Vec<u8>], codec: PriorityCodec) {
    let (link, wire) = (LinkTopology::new(&wire(), &wire()), wire());
    let sides = || {
        let mut sides = [Vec::new(), Vec::new()];
        for (number, packet) in packets.iter().enumerate() {
            sides[number % 2].push((Time::ZERO + Span::from_millis(number as u64), packet.clone()));
        }
        sides
    };
    let alarms: Vec<Time> = (0..packets.len()).map(|n| Time::ZERO + Span::from_millis(n as u64)).collect();
    let network = |number| Network::new(Ipv4Addr::new(10, 0, 0, number), 32);

    let clock = LateClock::new(alarms.clone(), vec![]);
    let [inside, outside] = sides().map(|side| Script::new(&clock, side));
    let edge = |io, (sends_as, receives_as), number| Edge {
        io,
        sends_as,
        receives_as,
        networks: vec![network(number)],
    };
    let edges = vec![edge(inside, link.inside, 1), edge(outside, link.outside, 2)];
    let watch = monitor(&wire, &wire);
    let mut router =
        Pump::new(Fabric::new(&link.topology, 1), edges, 1500, clock.clone(), watch).with_codec(codec);
    while router.edges_mut().iter().any(|edge| edge.io.left() > 0) || router.packets_inside() > 0 {
        let next = router.turn().unwrap();
        router.sleep_until(next);
    }
    let written = router.edges_mut().iter().map(|edge| edge.io.written.len()).sum();
    let inside = router.packets_inside();
    account(packets.len(), &router.into_observer(), inside, written);

    let clock = LateClock::new(alarms, vec![]);
    let [inside, outside] = sides().map(|side| Framed(Script::new(&clock, side)));
    let edge = |io, (sends_as, receives_as)| Edge { io, sends_as, receives_as, networks: Vec::new() };
    let edges = vec![edge(inside, link.inside), edge(outside, link.outside)];
    let watch = monitor(&wire, &wire);
    let fabric = Fabric::new(&link.topology, 1);
    let mut bridge = Pump::new(fabric, edges, 1522, clock.clone(), watch).with_codec(codec).bridging();
    while bridge.edges_mut().iter().any(|edge| edge.io.0.left() > 0) || bridge.packets_inside() > 0 {
        let next = bridge.turn().unwrap();
        bridge.sleep_until(next);
    }
    let written = bridge.edges_mut().iter().map(|edge| edge.io.0.written.len()).sum();
    let inside = bridge.packets_inside();
    account(packets.len(), &bridge.into_observer(), inside, written);
}

fn codecs() -> impl Strategy<Value = PriorityCodec> {
    let dscp = (1u8..=4).prop_map(|class| PriorityCodec::Dscp(AfClass::new(class).unwrap()));
    prop_oneof![dscp, Just(PriorityCodec::FlagBit)]
}

/// A good packet with some bytes changed, and maybe cut; maybe behind an Ethernet header.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (
        1u8..4,
        24usize..1600,
        any::<u8>(),
        changes,
        prop::option::of(any::<prop::sample::Index>()),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(to, len, dscp, changes, cut, framed, v6)| {
            let mut bytes = packet(to, 0, len, dscp & 63);
            bytes[9] = 6;
            if v6 {
                bytes.resize(bytes.len().max(48), 0);
                let payload = (bytes.len() - 40) as u16;
                bytes[0] = 0x60;
                bytes[4..6].copy_from_slice(&payload.to_be_bytes());
                bytes[6] = [0, 6, 17, 43, 44, 51, 58, 60][usize::from(dscp % 8)];
            }
            if framed {
                let kind: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
                bytes = [&[2; 12], &kind[..], &bytes].concat();
            }
            // Most changes are worth more in a header.
            let header = bytes.len().min(60);
            changes.into_iter().for_each(|(at, byte)| bytes[at.index(header)] = byte);
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn mutated_packets(packets in prop::collection::vec(mutated(), 1..60), codec in codecs()) {
        pump_through(&packets, codec);
    }

    #[test]
    fn arbitrary_bytes(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..60),
        codec in codecs(),
    ) {
        pump_through(&packets, codec);
    }
}

#[test]
fn the_corpus_of_the_parsers_goes_through() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/corpus");
    let mut packets = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("expect: "));
        let digits: String =
            lines.flat_map(|line| line.split('#').next()).flat_map(str::split_whitespace).collect();
        let bytes = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        let bytes: Vec<u8> = bytes.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        for kind in [[8, 0], [0x86, 0xdd], [0x81, 0]] {
            packets.push([&[2; 12], &kind[..], &bytes].concat());
        }
        packets.push(bytes);
    }
    assert!(packets.len() > 150);
    for codec in [PriorityCodec::default(), PriorityCodec::FlagBit] {
        pump_through(&packets, codec);
    }
}
