//! Tests with arbitrary packets: the emulator must continue and account for every packet.

use crate::fakes::{LateClock, Script, bridge_or_router, packet};
use crate::hex;
use catnip_base::{Rate, Span, Time};
use catnip_emu::datapath::ethernet;
use catnip_emu::datapath::frames::{Frames, Routing};
use catnip_emu::datapath::gateways::Emulator;
use catnip_emu::link::LinkTopology;
use catnip_emu::observe::monitor::{Direction, Monitor};
use catnip_linux::tun::{PacketIo, Read};
use catnip_net::WireSpec;
use catnip_net::shape::RateSpec;
use catnip_wire::{AfClass, PriorityCodec};
use ipnet::{Ipv4Net, Ipv6Net};
use proptest::prelude::*;
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// Device whose packets have an Ethernet header.
#[derive(Debug)]
struct Framed(Script);

impl PacketIo for Framed {
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<Read>> {
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
        delay: Span::from_millis(3).into(),
        queue: "catnip-good:8".parse().unwrap(),
        jitter: None,
        before: vec!["bernoulli:0.05".parse().unwrap()],
        after: vec!["bernoulli:0.05".parse().unwrap()],
        conditioner: vec![],
        outage: None,
        link_layer: None,
    }
}

/// Verifies that each packet that was read was refused, forwarded at once, delivered or dropped, with no packet left inside.
fn check_balance(read: usize, monitor: &Monitor, inside: usize, written: usize) {
    let refused: u64 = monitor.gates.iter().flat_map(|gate| gate.refused).sum();
    let passed: u64 = monitor.gates.iter().flat_map(|gate| gate.passed).sum();
    let sum = |of: &dyn Fn(&Direction) -> u64| monitor.directions.iter().map(of).sum::<u64>();
    let entered = sum(&|d| d.entered.iter().sum());
    let delivered = sum(&|d| d.delivered);
    let dropped = sum(&|d| d.dropped.iter().sum());
    assert_eq!(read as u64, refused + passed + entered);
    assert_eq!(entered, delivered + dropped);
    assert_eq!(written as u64, delivered + passed);
    assert_eq!(inside, 0);
}

/// Returns an Ethernet frame that contains the packet. Every eighth packet is returned without an Ethernet header.
fn framed(number: usize, packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = match packet.first().map(|first| first >> 4) {
        _ if number.is_multiple_of(8) => return packet.to_vec(),
        Some(6) => [0x86, 0xdd],
        _ => [8, 0],
    };
    [&[2; 12], &kind[..], packet].concat()
}

/// Sends these packets alternately from both ends of a link, one per millisecond, through a router and through a bridge.
fn send_through(packets: &[Vec<u8>], codec: PriorityCodec) {
    let link = LinkTopology::new(&wire(), &wire());
    let sides = || {
        let mut sides = [Vec::new(), Vec::new()];
        for (number, packet) in packets.iter().enumerate() {
            sides[number % 2].push((Time::ZERO + Span::from_millis(number as u64), packet.clone()));
        }
        sides
    };
    let alarms: Vec<Time> = (0..packets.len()).map(|n| Time::ZERO + Span::from_millis(n as u64)).collect();
    let everywhere = [Ipv4Net::default().into(), Ipv6Net::default().into()];
    let here = (IpAddr::from([10, 0, 0, 1]).into(), link.inside);
    let networks = everywhere.map(|network| (network, link.outside)).into_iter().chain([here]).collect();
    let routing = Routing { networks, ..Routing::default() };
    let clock = LateClock::new(alarms.clone(), vec![]);
    let devices = sides().map(|side| Script::new(&clock, side));
    let with = |frames: Frames<_>| frames.with_codec(codec);
    let mut router = bridge_or_router(&link, 1, &clock, devices, routing, 1500, with, link.monitor());
    run(&mut router, Script::remaining);
    let written = router.gateways().iter().map(|gateway| gateway.io.written.len()).sum();
    let inside = router.world.packets_out();
    check_balance(packets.len(), router.world.watch(), inside, written);

    let clock = LateClock::new(alarms, vec![]);
    let mut number = 0;
    let devices = sides().map(|side| {
        let frame = |(at, packet): (Time, Vec<u8>)| {
            number += 1;
            (at, framed(number, &packet))
        };
        Framed(Script::new(&clock, side.into_iter().map(frame).collect()))
    });
    let routing = Routing { bridge: Some([link.inside, link.outside]), ..Routing::default() };
    let with = |frames: Frames<_>| frames.with_codec(codec);
    let mut bridge = bridge_or_router(&link, 1, &clock, devices, routing, 1522, with, link.monitor());
    run(&mut bridge, |framed| framed.0.remaining());
    let written = bridge.gateways().iter().map(|gateway| gateway.io.0.written.len()).sum();
    let inside = bridge.world.packets_out();
    check_balance(packets.len(), bridge.world.watch(), inside, written);
}

fn run<I: PacketIo>(emulator: &mut Emulator<LateClock, I, (), Monitor>, remaining: impl Fn(&I) -> usize) {
    while emulator.gateways().iter().any(|gateway| remaining(&gateway.io) > 0)
        || emulator.world.packets_out() > 0
    {
        let next = emulator.poll().unwrap();
        emulator.sleep_until(next);
    }
}

fn codecs() -> impl Strategy<Value = PriorityCodec> {
    let dscp = (1u8..=4).prop_map(|class| PriorityCodec::Dscp(AfClass::new(class).unwrap()));
    prop_oneof![dscp, Just(PriorityCodec::FlagBit)]
}

/// Generates valid packets with some bytes of their headers changed, some of them truncated.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let cut = prop::option::weighted(0.1, any::<prop::sample::Index>());
    (1u8..3, 24usize..1500, any::<u8>(), changes, cut, any::<bool>()).prop_map(
        |(to, len, dscp, changes, cut, v6)| {
            let mut bytes = packet(to, 0, len, dscp & 63);
            bytes[9] = 6;
            if v6 {
                bytes.resize(bytes.len().max(48), 0);
                let payload = (bytes.len() - 40) as u16;
                (bytes[0], bytes[24]) = (0x60, 0xfd);
                bytes[4..6].copy_from_slice(&payload.to_be_bytes());
                bytes[6] = [0, 6, 17, 43, 44, 51, 58, 60][usize::from(dscp % 8)];
            }
            let headers = bytes.len().min(60);
            changes.into_iter().for_each(|(at, byte)| bytes[at.index(headers)] = byte);
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn mutated_packets(packets in prop::collection::vec(mutated(), 1..60), codec in codecs()) {
        send_through(&packets, codec);
    }

    #[test]
    fn arbitrary_bytes(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..60),
        codec in codecs(),
    ) {
        send_through(&packets, codec);
    }
}

#[test]
fn the_corpus_of_the_parsers_goes_through() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/corpus");
    let mut packets = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let bytes = hex::bytes(&text);
        packets.extend([bytes.clone(), bytes.clone(), bytes]);
    }
    assert!(packets.len() > 120);
    for codec in [PriorityCodec::default(), PriorityCodec::FlagBit] {
        send_through(&packets, codec);
    }
}
