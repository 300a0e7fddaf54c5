use super::*;
use crate::Ip;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn addresses() -> impl Strategy<Value = Addresses> {
    let v4 = any::<[[u8; 4]; 2]>().prop_map(|ends| ends.map(|a| IpAddr::V4(Ipv4Addr::from(a))));
    let v6 = any::<[[u8; 16]; 2]>().prop_map(|ends| ends.map(|a| IpAddr::V6(Ipv6Addr::from(a))));
    (prop_oneof![v4, v6], any::<[u8; 2]>()).prop_map(|([source, destination], [traffic_class, hop_limit])| {
        Addresses { source, destination, traffic_class, hop_limit }
    })
}

fn options() -> impl Strategy<Value = TcpOptions> {
    let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..=TcpSackBlocks::MAX);
    (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>(), any::<Option<(u32, u32)>>(), blocks).prop_map(
        |(mss, window_scale, sack_permitted, timestamps, blocks)| TcpOptions {
            mss,
            window_scale,
            sack_permitted,
            timestamps,
            sack: TcpSackBlocks::new(blocks.into_iter()),
        },
    )
}

fn headers() -> impl Strategy<Value = TcpHeader> {
    (any::<[u16; 4]>(), any::<[u32; 2]>(), any::<u8>(), options()).prop_map(
        |([source_port, destination_port, window, urgent], [sequence, acknowledgement], flags, options)| {
            TcpHeader {
                source_port,
                destination_port,
                sequence,
                acknowledgement,
                flags: TcpFlags(flags),
                window,
                urgent,
                options,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        addresses in addresses(),
        header in headers(),
        payload in prop::collection::vec(any::<u8>(), 0..100),
        padding in 0usize..20,
    ) {
        let mut buffer = [0xff; 300];
        let Ok(len) = header.write(&addresses, &payload, &mut buffer) else {
            prop_assert!(header.options.len() > MAX_OPTIONS);
            return Ok(());
        };
        let ip = Ip::parse(&buffer[..len + padding]).unwrap();
        prop_assert_eq!((ip.total_len(), ip.padding()), (len, padding));
        prop_assert_eq!((ip.source(), ip.destination()), (addresses.source, addresses.destination));
        prop_assert_eq!((ip.traffic_class(), ip.hop_limit()), (addresses.traffic_class, addresses.hop_limit));
        prop_assert!(ip.fragment().is_none() && ip.has_valid_header_checksum());
        prop_assert_eq!(crate::has_valid_transport_checksum(&ip), Ok(true));
        let tcp = Tcp::parse(ip.transport(TCP).unwrap()).unwrap();
        prop_assert_eq!(tcp.header(), Ok(header));
        prop_assert_eq!(tcp.payload(), &payload[..]);
    }

    #[test]
    fn a_changed_bit_is_a_wrong_checksum_or_another_packet(
        addresses in addresses(),
        header in headers(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let mut buffer = [0; 100];
        if let Ok(len) = header.write(&addresses, &[], &mut buffer) {
            let segment = if addresses.source.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER };
            buffer[segment + at.index(len - segment)] ^= 1 << bit;
            let ip = Ip::parse(&buffer[..len]).unwrap();
            prop_assert_ne!(crate::has_valid_transport_checksum(&ip), Ok(true));
        }
    }
}

fn with_options(options: &[u8]) -> Result<TcpOptions, WireError> {
    let mut segment = [0; 60];
    let header = 20 + options.len().next_multiple_of(4);
    segment[12] = (header as u8 / 4) << 4;
    segment[20..20 + options.len()].copy_from_slice(options);
    Tcp::parse(&segment[..header]).unwrap().options()
}

#[test]
fn bad_options_are_errors_that_name_the_option() {
    let error = |kind, length| Err(WireError::TcpOption { kind, length });
    assert_eq!(with_options(&[8, 0, 0, 0]), error(8, 0), "a zero length would never end");
    assert_eq!(with_options(&[254, 1, 0, 0]), error(254, 1));
    assert_eq!(with_options(&[1, 1, 1, 3]), error(3, 0), "no length at all");
    assert_eq!(with_options(&[2, 5, 0, 0]), error(2, 5), "runs out of the header");
    assert_eq!(with_options(&[2, 3, 5, 0]), error(2, 3), "an MSS of one byte");
    assert_eq!(with_options(&[5, 2, 0, 0]), error(5, 2), "SACK without a block");
}

#[test]
fn unknown_options_are_skipped_and_the_end_is_the_end() {
    let expected = TcpOptions { mss: Some(1460), ..TcpOptions::default() };
    assert_eq!(with_options(&[254, 4, 9, 9, 1, 2, 4, 0x05, 0xb4, 0, 3, 0]), Ok(expected));
}

#[test]
fn a_packet_that_cannot_be_is_refused() {
    let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let write = |source, destination, header: TcpHeader, payload: &[u8], space: usize| {
        let addresses = Addresses { source, destination, traffic_class: 0, hop_limit: 64 };
        header.write(&addresses, payload, &mut vec![0; space])
    };
    let plain = TcpHeader::default();
    assert_eq!(write(v4, v6, plain, &[], 100), Err(WireError::MixedVersions));
    assert_eq!(write(v4, v4, plain, &[], 39), Err(WireError::BufferTooSmall { needed: 40, present: 39 }));
    assert_eq!(write(v4, v4, plain, &[0; 65_495], 70_000), Ok(65_535));
    assert_eq!(write(v4, v4, plain, &[0; 65_496], 70_000), Err(WireError::TooLong(65_536)));
    assert_eq!(write(v6, v6, plain, &[0; 65_515], 70_000), Ok(65_575));
    assert_eq!(write(v6, v6, plain, &[0; 65_516], 70_000), Err(WireError::TooLong(65_576)));
    let sack = TcpSackBlocks::new([(0, 1); 4].into_iter());
    let full = TcpHeader { options: TcpOptions { sack, ..TcpOptions::default() }, ..plain };
    assert_eq!(write(v4, v4, full, &[], 100), Ok(76));
    let options = TcpOptions { sack, timestamps: Some((0, 0)), ..TcpOptions::default() };
    assert_eq!(write(v4, v4, TcpHeader { options, ..plain }, &[], 100), Err(WireError::TooManyOptions(44)));
}

#[test]
fn flags_print_as_their_names() {
    assert_eq!(format!("{:?}", TcpFlags::SYN | TcpFlags::ACK | TcpFlags::CWR), "SYN|ACK|CWR");
}
