//! Comparison with etherparse, which shares no code with this crate: each library reads the packets that the other library writes.

use catnip_net::Ecn;
use catnip_wire::has_valid_transport_checksum;
use catnip_wire::{
    Addresses, Fragment, Ip, Tcp, TcpFlags, TcpHeader, TcpOptions, TcpSackBlocks, Udp, WireError, ip,
};
use etherparse::*;
use proptest::prelude::*;
use std::net::IpAddr;

fn options(
    mss: u16,
    scale: u8,
    stamps: (u32, u32),
    block: (u32, u32),
    which: u8,
) -> (TcpOptions, Vec<TcpOptionElement>) {
    let has = |bit: u8| which >> bit & 1 == 1;
    let mut ours = TcpOptions::default();
    let mut theirs = Vec::new();
    if has(0) {
        ours.mss = Some(mss);
        theirs.push(TcpOptionElement::MaximumSegmentSize(mss));
    }
    if has(1) {
        ours.window_scale = Some(scale);
        theirs.push(TcpOptionElement::WindowScale(scale));
    }
    if has(2) {
        ours.sack_permitted = true;
        theirs.push(TcpOptionElement::SelectiveAcknowledgementPermitted);
    }
    if has(3) {
        ours.timestamps = Some(stamps);
        theirs.push(TcpOptionElement::Timestamp(stamps.0, stamps.1));
    }
    if has(4) {
        ours.sack = TcpSackBlocks::new([block].into_iter());
        theirs.push(TcpOptionElement::SelectiveAcknowledgement(block, [None; 3]));
    }
    (ours, theirs)
}

prop_compose! {
    fn packets()(
        v6: bool,
        source: [u8; 16],
        destination: [u8; 16],
        [source_port, destination_port, window, urgent] in any::<[u16; 4]>(),
        [sequence, acknowledgement] in any::<[u32; 2]>(),
        [flags, traffic_class, hop_limit] in any::<[u8; 3]>(),
        (mss, scale, stamps, block, which) in any::<(u16, u8, (u32, u32), (u32, u32), u8)>(),
        payload in prop::collection::vec(any::<u8>(), 0..90),
    ) -> (Addresses, TcpHeader, Vec<TcpOptionElement>, Vec<u8>) {
        let address = |bytes: [u8; 16]| match v6 {
            true => IpAddr::from(bytes),
            false => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        };
        let addresses = Addresses {
            source: address(source),
            destination: address(destination),
            traffic_class,
            hop_limit,
        };
        let (options, elements) = options(mss, scale, stamps, block, which);
        let flags = TcpFlags(flags);
        let header = TcpHeader {
            source_port, destination_port, sequence, acknowledgement, flags, window, urgent, options,
        };
        (addresses, header, elements, payload)
    }
}

/// Returns the packet that etherparse writes for these headers, options and payload.
fn build(
    addresses: &Addresses,
    header: &TcpHeader,
    elements: &[TcpOptionElement],
    payload: &[u8],
) -> Vec<u8> {
    let tcp = theirs(header, elements);
    let mut bytes = Vec::new();
    PacketBuilder::ip(ip_headers(addresses)).tcp_header(tcp).write(&mut bytes, payload).unwrap();
    bytes
}

fn ip_headers(addresses: &Addresses) -> IpHeaders {
    match (addresses.source, addresses.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut v4 = Ipv4Header::new(
                0,
                addresses.hop_limit,
                ip_number::TCP,
                source.octets(),
                destination.octets(),
            )
            .unwrap();
            v4.dscp = IpDscp::try_new(addresses.traffic_class >> 2).unwrap();
            v4.ecn = IpEcn::try_new(addresses.traffic_class & 3).unwrap();
            v4.dont_fragment = true;
            IpHeaders::Ipv4(v4, Ipv4Extensions::default())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let v6 = Ipv6Header {
                traffic_class: addresses.traffic_class,
                hop_limit: addresses.hop_limit,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            };
            IpHeaders::Ipv6(v6, Ipv6Extensions::default())
        }
        _ => unreachable!(),
    }
}

fn theirs(header: &TcpHeader, elements: &[TcpOptionElement]) -> etherparse::TcpHeader {
    let bit = |flag| header.flags.contains(flag);
    let mut tcp = etherparse::TcpHeader::new(
        header.source_port,
        header.destination_port,
        header.sequence,
        header.window,
    );
    tcp.acknowledgment_number = header.acknowledgement;
    tcp.urgent_pointer = header.urgent;
    tcp.fin = bit(TcpFlags::FIN);
    tcp.syn = bit(TcpFlags::SYN);
    tcp.rst = bit(TcpFlags::RST);
    tcp.psh = bit(TcpFlags::PSH);
    tcp.ack = bit(TcpFlags::ACK);
    tcp.urg = bit(TcpFlags::URG);
    tcp.ece = bit(TcpFlags::ECE);
    tcp.cwr = bit(TcpFlags::CWR);
    tcp.set_options(elements).unwrap();
    tcp
}

proptest! {
    #[test]
    fn their_tcp_packets_are_read_and_have_right_checksums((addresses, header, elements, payload) in packets()) {
        let bytes = build(&addresses, &header, &elements, &payload);
        let ip = Ip::parse(&bytes).unwrap();
        prop_assert!(ip.has_valid_header_checksum());
        prop_assert_eq!(has_valid_transport_checksum(&ip), Ok(true));
        prop_assert_eq!((ip.source(), ip.destination()), (addresses.source, addresses.destination));
        prop_assert_eq!((ip.traffic_class(), ip.hop_limit()), (addresses.traffic_class, addresses.hop_limit));
        let tcp = Tcp::parse(ip.transport(ip::TCP).unwrap()).unwrap();
        prop_assert_eq!(tcp.header(), Ok(header));
        prop_assert_eq!(tcp.payload(), payload);
    }

    #[test]
    fn our_tcp_packets_are_read_by_them_and_have_their_checksums((addresses, header, elements, payload) in packets()) {
        let mut buffer = [0; 200];
        let len = header.write(&addresses, &payload, &mut buffer).unwrap();
        let packet = SlicedPacket::from_ip(&buffer[..len]).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { panic!("not TCP") };
        let expected = theirs(&header, &elements);
        let read = tcp.to_header();
        let checksum = match packet.net.as_ref().unwrap() {
            NetSlice::Ipv4(v4) => {
                let mut header = v4.header().to_header();
                prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
                header.header_checksum = 0;
                let IpHeaders::Ipv4(mut wanted, _) = ip_headers(&addresses) else { unreachable!() };
                wanted.total_len = len as u16;
                prop_assert_eq!(&header, &wanted);
                tcp.calc_checksum_ipv4(v4.header().source(), v4.header().destination())
            }
            NetSlice::Ipv6(v6) => {
                let IpHeaders::Ipv6(mut wanted, _) = ip_headers(&addresses) else { unreachable!() };
                wanted.payload_length = len as u16 - 40;
                wanted.next_header = ip_number::TCP;
                prop_assert_eq!(v6.header().to_header(), wanted);
                tcp.calc_checksum_ipv6(v6.header().source(), v6.header().destination())
            }
            NetSlice::Arp(_) => panic!("ARP"),
        };
        prop_assert_eq!(Ok(tcp.checksum()), checksum);
        prop_assert_eq!(tcp.payload(), payload);
        let elements: Vec<_> = read.options_iterator().map(Result::unwrap).collect();
        let wanted: Vec<_> = expected.options_iterator().map(Result::unwrap).collect();
        let sorted = |mut options: Vec<TcpOptionElement>| {
            options.retain(|option| *option != TcpOptionElement::Noop);
            options.sort_by_key(|option| format!("{option:?}"));
            options
        };
        prop_assert_eq!(sorted(elements), sorted(wanted));
        let bare = |mut header: etherparse::TcpHeader| {
            header.set_options(&[]).unwrap();
            header.checksum = 0;
            header
        };
        prop_assert_eq!(bare(read), bare(expected));
    }

    #[test]
    fn their_udp_packets_are_read_and_have_right_checksums(
        v6: bool,
        ends: [[u8; 16]; 2],
        ports: [u16; 2],
        payload in prop::collection::vec(any::<u8>(), 0..90),
    ) {
        let builder = match v6 {
            true => PacketBuilder::ipv6(ends[0], ends[1], 9),
            false => PacketBuilder::ipv4(ends[0][..4].try_into().unwrap(), ends[1][..4].try_into().unwrap(), 9),
        };
        let mut bytes = Vec::new();
        builder.udp(ports[0], ports[1]).write(&mut bytes, &payload).unwrap();
        let ip = Ip::parse(&bytes).unwrap();
        prop_assert_eq!(has_valid_transport_checksum(&ip), Ok(true));
        let udp = Udp::parse(ip.transport(ip::UDP).unwrap()).unwrap();
        prop_assert_eq!([udp.source_port(), udp.destination_port()], ports);
        prop_assert_eq!(udp.payload(), payload);
        bytes[if v6 { 47 } else { 27 }] ^= 1;
        let ip = Ip::parse(&bytes).unwrap();
        let none = !v6 && Udp::parse(ip.payload()).unwrap().checksum() == 0;
        prop_assert_eq!(has_valid_transport_checksum(&ip), Ok(none), "a wrong checksum, or by chance the sign for none");
    }

    /// Tests that packets with any IPv6 extension headers are parsed as by etherparse, whole or in fragments.
    #[test]
    fn their_ipv6_extension_headers_are_walked(
        [hop_by_hop, routing, destination, last, authentication] in any::<[Option<u8>; 5]>(),
        fragment in any::<Option<(u16, bool, u32)>>(),
        padding in 0usize..9,
    ) {
        // Extension headers contain only option 0 (one byte of padding); lengths are in units of eight bytes.
        let raw = |len: Option<u8>| len.map(|len| {
            Ipv6RawExtHeader::new_raw(ip_number::TCP, &vec![0; 6 + 8 * usize::from(len % 5)]).unwrap()
        });
        let mut extensions = Ipv6Extensions {
            hop_by_hop_options: raw(hop_by_hop),
            destination_options: raw(destination),
            routing: raw(routing).map(|routing| Ipv6RoutingExtensions {
                routing,
                final_destination_options: raw(last),
            }),
            fragment: fragment.map(|(offset, more, id)| {
                Ipv6FragmentHeader::new(ip_number::TCP, IpFragOffset::try_new(offset & 0x1fff).unwrap(), more, id)
            }),
            auth: authentication.map(|len| {
                // The number of words is even, so that the next header is aligned.
                IpAuthHeader::new(ip_number::TCP, 1, 2, &vec![0; 4 + 8 * usize::from(len % 5)]).unwrap()
            }),
        };
        let mut header = Ipv6Header { next_header: extensions.set_next_headers(ip_number::TCP), ..Default::default() };
        let payload = [7; 20];
        header.payload_length = (extensions.header_len() + payload.len()) as u16;
        let mut bytes = header.to_bytes().to_vec();
        extensions.write(&mut bytes, header.next_header).unwrap();
        bytes.extend(payload);
        bytes.resize(bytes.len() + padding, 0xff);

        let ip = Ip::parse(&bytes).unwrap();
        prop_assert_eq!(ip.padding(), padding);
        let piece = fragment
            .map(|(offset, more, id)| Fragment { offset: (offset & 0x1fff) << 3, more, id })
            .filter(|fragment| fragment.more || fragment.offset > 0);
        prop_assert_eq!(ip.fragment(), piece);
        let read = IpSlice::from_slice(&bytes).unwrap();
        prop_assert_eq!(read.is_fragmenting_payload(), piece.is_some());
        if piece.is_none_or(|piece| piece.offset == 0) {
            prop_assert_eq!(ip.payload(), payload);
            prop_assert_eq!(ip.payload(), read.payload().payload);
            prop_assert_eq!(ip.protocol(), read.payload_ip_number().0);
        } else {
            prop_assert_eq!(ip.transport(ip.protocol()).err(), Some(WireError::Fragment));
        }
    }

    /// Tests that this crate and etherparse accept the same damaged packets and read the same values.
    #[test]
    fn both_agree_on_damaged_packets(
        (addresses, header, elements, payload) in packets(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = build(&addresses, &header, &elements, &payload);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let (ours, theirs) = (Ip::parse(&bytes), IpSlice::from_slice(&bytes));
        // Intended differences: etherparse also reads the authentication header of IPv4, parses headers in later fragments, although their
        // payload is data (RFC 8200, section 4.5), and interprets an IPv6 length of zero as the rest of the bytes.
        let differs = ours.is_ok_and(|ip| {
            let later = ip.fragment().is_some_and(|fragment| fragment.offset > 0);
            match ip.version() {
                ip::Version::V4 => ip.protocol() == 51,
                ip::Version::V6 => ip.total_len() == 40 || later,
            }
        });
        match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) if !differs => {
                prop_assert_eq!(ours.source(), theirs.source_addr());
                prop_assert_eq!(ours.destination(), theirs.destination_addr());
                prop_assert_eq!(ours.protocol(), theirs.payload_ip_number().0);
                prop_assert_eq!(ours.payload(), theirs.payload().payload);
                prop_assert_eq!(ours.fragment().is_some(), theirs.is_fragmenting_payload());
                let codepoint = match theirs {
                    IpSlice::Ipv4(v4) => v4.header().ecn().value(),
                    IpSlice::Ipv6(v6) => v6.header().traffic_class() & 3,
                };
                let ecn = [Ecn::NOT_ECT, Ecn::ECT_1, Ecn::ECT_0, Ecn::CE][usize::from(codepoint)];
                prop_assert_eq!(ours.ecn(), ecn);
                if let Ok(segment) = ours.transport(ip::TCP) {
                    let (ours, theirs) = (Tcp::parse(segment), TcpSlice::from_slice(segment));
                    prop_assert_eq!(ours.is_ok(), theirs.is_ok());
                    if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
                        prop_assert_eq!(ours.payload(), theirs.payload());
                        prop_assert_eq!(ours.window(), theirs.window_size());
                    }
                }
            }
            // With a length of zero and a missing next header, etherparse continues.
            (Err(_), Ok(IpSlice::Ipv6(v6))) if v6.header().payload_length() == 0 => {}
            (ours, theirs) => {
                prop_assert!(differs || ours.is_ok() == theirs.is_ok(), "{:?} {:?}", ours, theirs);
            }
        }
    }
}
