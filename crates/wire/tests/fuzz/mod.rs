//! Runs every parser on the same bytes. The results are ignored; every parser only has to return.

use catnip_base::{Span, Time};
use catnip_net::{Ecn, Priority};
use catnip_wire::pcapng::{Reader, Writer};
use catnip_wire::verify::{Rules, verify};
use catnip_wire::*;

/// Parses the bytes as a packet and as a capture, and rewrites them as a packet.
pub(crate) fn parsers(data: &[u8]) {
    packet(data);
    let _ = Tcp::parse(data).map(|tcp| tcp.header());
    let _ = Udp::parse(data).map(|udp| udp.payload());
    let _ = verify(data, &Rules::default(), None);
    if let Ok(mut reader) = Reader::new(data) {
        while let Ok(Some(record)) = reader.next_record() {
            let _ = record.ip();
        }
    }
    // The bytes are the only packet of a valid capture, so that they reach the verifier.
    let mut writer = Writer::new(Vec::new(), Span::ZERO).expect("a vector takes everything");
    let interface = writer.interface("fuzz").expect("a vector takes everything");
    writer.packet(Time::ZERO, interface, data, "").expect("a vector takes everything");
    let _ = verify(writer.finish().expect("a vector takes everything").as_slice(), &Rules::default(), None);
}

fn packet(data: &[u8]) {
    if let Ok(ip) = Ip::parse(data) {
        assert_eq!(ip.header_len() + ip.payload().len(), ip.total_len());
        assert_eq!(ip.total_len() + ip.padding(), data.len());
        let _ = (ip.source(), ip.destination(), ip.ecn(), ip.hop_limit(), ip.has_valid_header_checksum());
        let _ = (FlowKey::of(&ip), has_valid_transport_checksum(&ip));
        let announcement = Announcement { mss: 1460, window_scale: Some(7), sack: true, timestamps: false };
        if let Ok(tcp) = ip.transport(ip::TCP).and_then(Tcp::parse) {
            let mut translation = Translation::new(0, announcement);
            for _ in 0..2 {
                if let Ok(Incoming::Segment(segment)) = translation.incoming(&tcp) {
                    translation.outgoing(&segment);
                }
            }
        }
    }
    let mut copy = data.to_vec();
    for codec in [PriorityCodec::default(), PriorityCodec::FlagBit] {
        for priority in [Priority::High, Priority::Low] {
            let written = codec.write(&mut copy, priority);
            assert!(written.is_err() || codec.read(&copy) == Ok(priority));
        }
    }
    let _ = ip::set_ecn(&mut copy, Ecn::CE);
}
