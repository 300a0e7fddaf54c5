use super::*;
use crate::has_valid_transport_checksum;
use crate::{Addresses, TcpHeader};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Builds a segment with these flags and this traffic class, over IPv6 if `v6` is true.
fn packet(v6: bool, traffic_class: u8, flags: TcpFlags) -> Vec<u8> {
    let source = if v6 { IpAddr::V6(Ipv6Addr::LOCALHOST) } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
    let addresses = Addresses { source, destination: source, traffic_class, hop_limit: 64 };
    let mut buffer = vec![0; 100];
    let len = TcpHeader { flags, ..TcpHeader::default() }.write(&addresses, b"data", &mut buffer).unwrap();
    buffer.truncate(len);
    buffer
}

#[test]
fn codepoints_are_those_of_rfc_2597_section_6() {
    let expected = [
        [0b001010, 0b001100, 0b001110],
        [0b010010, 0b010100, 0b010110],
        [0b011010, 0b011100, 0b011110],
        [0b100010, 0b100100, 0b100110],
    ];
    for (class, row) in (1..).zip(expected) {
        for (precedence, dscp) in row.into_iter().enumerate() {
            let priority = [Priority::High, Priority::Medium, Priority::Low][precedence];
            assert_eq!(Dscp::assured(class, priority).codepoint(), dscp);
            assert_eq!(Dscp::new(dscp).priority(), priority);
        }
    }
    assert_eq!((AfClass::new(0), AfClass::new(5)), (None, None));
}

#[test]
fn drop_precedences_1_and_2_of_the_own_class_are_high_and_med_and_all_else_is_low() {
    for dscp in 0..64 {
        let packet = packet(false, dscp << 2, TcpFlags::ACK);
        let read = |class| PriorityCodec::Dscp(class).read(&packet).unwrap();
        let expected = |high, med| match dscp {
            _ if dscp == high => Priority::High,
            _ if dscp == med => Priority::Medium,
            _ => Priority::Low,
        };
        assert_eq!(read(AfClass::AF1), expected(10, 12));
        assert_eq!(read(AfClass::new(4).unwrap()), expected(34, 36));
    }
}

#[test]
fn the_historical_bit_is_the_high_order_bit_of_the_flags() {
    for v6 in [false, true] {
        let mut bytes = packet(v6, 0, TcpFlags::ACK);
        let flags = bytes.len() - 4 - 20 + 13;
        PriorityCodec::FlagBit.write(&mut bytes, Priority::High).unwrap();
        assert_eq!(bytes[flags], 0x90);
        assert_eq!(PriorityCodec::FlagBit.read(&bytes), Ok(Priority::High));
    }
}

#[test]
fn the_historical_bit_is_refused_beside_ecn() {
    let ecn_syn = TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR;
    for (traffic_class, flags) in
        [(1, TcpFlags::ACK), (2, TcpFlags::ACK), (3, TcpFlags::ACK), (0, TcpFlags::ECE), (0, ecn_syn)]
    {
        let mut bytes = packet(false, traffic_class, flags);
        let before = bytes.clone();
        assert_eq!(PriorityCodec::FlagBit.write(&mut bytes, Priority::High), Err(WireError::EcnInUse));
        assert_eq!(PriorityCodec::FlagBit.read(&bytes), Err(WireError::EcnInUse));
        assert_eq!(bytes, before, "a refused packet is unchanged");
    }
}

#[test]
fn a_packet_without_tcp_header_is_low_and_cannot_have_the_bit() {
    let mut udp = packet(false, 0, TcpFlags::ACK);
    udp[9] = ip::UDP;
    assert_eq!(PriorityCodec::FlagBit.read(&udp), Ok(Priority::Low));
    assert_eq!(PriorityCodec::FlagBit.write(&mut udp, Priority::High), Err(WireError::Protocol(17)));
    let mut fragment = packet(false, 0, TcpFlags::ACK);
    fragment[7] = 1;
    assert_eq!(PriorityCodec::FlagBit.read(&fragment), Ok(Priority::Low));
    assert_eq!(PriorityCodec::FlagBit.write(&mut fragment, Priority::High), Err(WireError::Fragment));
}

proptest! {
    #[test]
    fn a_written_priority_is_read_back_and_nothing_else_changes(
        v6: bool,
        traffic_class: u8,
        flags in 0u8..64,
        class in 1u8..=4,
        historical: bool,
        high: bool,
    ) {
        // The historical priority bit requires a packet without ECN.
        let traffic_class = if historical { traffic_class & !3 } else { traffic_class };
        let codec = if historical { PriorityCodec::FlagBit } else { PriorityCodec::Dscp(AfClass(class)) };
        let mut bytes = packet(v6, traffic_class, TcpFlags(flags));
        let priority = if high { Priority::High } else { Priority::Low };
        codec.write(&mut bytes, priority).unwrap();
        prop_assert_eq!(codec.read(&bytes), Ok(priority));
        let ip = Ip::parse(&bytes).unwrap();
        prop_assert!(ip.has_valid_header_checksum());
        prop_assert_eq!(has_valid_transport_checksum(&ip), Ok(true));
        let tcp = Tcp::parse(ip.payload()).unwrap();
        let expected = match codec {
            PriorityCodec::FlagBit => (traffic_class, if high { flags | 0x80 } else { flags }),
            PriorityCodec::Dscp(_) => (class << 5 | if high { 0x08 } else { 0x18 } | traffic_class & 3, flags),
        };
        prop_assert_eq!((ip.traffic_class(), tcp.flags().0), expected);
        prop_assert_eq!(bytes, packet(v6, expected.0, TcpFlags(expected.1)));
    }

    #[test]
    fn ecn_is_rewritten_with_right_checksums(v6: bool, traffic_class: u8) {
        let mut bytes = packet(v6, traffic_class, TcpFlags::ACK);
        for ecn in [Ecn::CE, Ecn::ECT_0, Ecn::NOT_ECT, Ecn::ECT_1] {
            ip::set_ecn(&mut bytes, ecn).unwrap();
            let ip = Ip::parse(&bytes).unwrap();
            prop_assert_eq!((ip.ecn(), ip.dscp()), (ecn, traffic_class >> 2));
            prop_assert!(ip.has_valid_header_checksum());
        }
    }
}
