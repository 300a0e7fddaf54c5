//! Test with a counting allocator that no memory is allocated when a packet is parsed, marked, translated and captured.

#[path = "../../net/tests/counting/mod.rs"]
mod counting;

use catnip_base::{Span, Time};
use catnip_net::{Ecn, Priority};
use catnip_tcp::{Flags, SackBlocks, Segment};
use catnip_wire::has_valid_transport_checksum;
use catnip_wire::pcapng::{Reader, Writer};
use catnip_wire::{
    Addresses, Announcement, FlowKey, Incoming, Ip, PriorityCodec, Tcp, TcpHeader, Translation, ip,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn announcement() -> Announcement {
    Announcement { mss: 1460, window_scale: Some(7), sack: true, timestamps: false }
}

/// Sends data from one end and an acknowledgement with SACK blocks from the other end. In round 0, the segments are a handshake.
fn exchange(ends: &mut [Translation; 2], round: u64, address: IpAddr, capture: &mut Writer<std::io::Sink>) {
    let window = 1 << 20;
    let flags = |ack| Flags { syn: round == 0, ack, fin: false };
    if round == 0 {
        let syn = Segment { window, flags: flags(false), ..Segment::default() };
        carry(ends, 0, &syn, address, capture);
        carry(ends, 1, &Segment { flags: flags(true), ..syn }, address, capture);
        return;
    }
    let (seq, ack) = (round * 100 - 100, round * 100 - 50);
    let data = Segment { seq, len: 100, window, flags: flags(true), ..Segment::default() };
    carry(ends, 0, &data, address, capture);
    let sack = SackBlocks::new(ack, [(ack + 10, ack + 20), (ack + 30, ack + 40)].into_iter());
    carry(
        ends,
        1,
        &Segment { ack, window, flags: flags(true), sack, ..Segment::default() },
        address,
        capture,
    );
}

/// Sends a segment from one end to the other end, and marks, parses and captures it on the way.
fn carry(
    ends: &mut [Translation; 2],
    from: usize,
    segment: &Segment,
    address: IpAddr,
    capture: &mut Writer<std::io::Sink>,
) {
    let header: TcpHeader = ends[from].outgoing(segment);
    let addresses = Addresses { source: address, destination: address, traffic_class: 0, hop_limit: 64 };
    let mut buffer = [0; 256];
    let len = header.write(&addresses, &[1; 100][..segment.len as usize], &mut buffer).unwrap();
    let packet = &mut buffer[..len];
    for codec in [PriorityCodec::default(), PriorityCodec::FlagBit] {
        codec.write(packet, Priority::High).unwrap();
        assert_eq!(codec.read(packet), Ok(Priority::High));
    }
    ip::set_ecn(packet, Ecn::CE).unwrap();
    let ip = Ip::parse(packet).unwrap();
    assert_eq!(has_valid_transport_checksum(&ip), Ok(true));
    assert!(FlowKey::of(&ip).is_ok());
    let tcp = Tcp::parse(ip.transport(ip::TCP).unwrap()).unwrap();
    let Ok(Incoming::Segment(arrived)) = ends[1 - from].incoming(&tcp) else { panic!("stray") };
    assert_eq!(arrived.sack, segment.sack);
    let interface = capture.interface("a").unwrap();
    capture.packet(Time::ZERO, interface, packet, "high, class 0").unwrap();
}

#[test]
fn a_packet_allocates_nothing() {
    let mut capture = Writer::new(std::io::sink(), Span::ZERO).unwrap();
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let mut ends = [Translation::new(1, announcement()), Translation::new(2, announcement())];
        for round in 0..3 {
            exchange(&mut ends, round, address, &mut capture);
        }
        let before = counting::allocations();
        for round in 3..500 {
            exchange(&mut ends, round, address, &mut capture);
        }
        assert_eq!(counting::allocations() - before, 0);
    }

    let mut written = Writer::new(Vec::new(), Span::ZERO).unwrap();
    let interface = written.interface("a").unwrap();
    for _ in 0..100 {
        written.packet(Time::ZERO, interface, &[0x45; 60], "low").unwrap();
    }
    let file = written.finish().unwrap();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    reader.next_record().unwrap().unwrap();
    let before = counting::allocations();
    while let Some(record) = reader.next_record().unwrap() {
        assert_eq!(record.comment, Some("low"));
    }
    assert_eq!(counting::allocations() - before, 0);
}
