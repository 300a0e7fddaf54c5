//! What a router may know of a packet: where it goes, its loss priority, its ECN codepoint. No more than the first IP
//! header is looked at, so fragments, extension headers and unknown protocols pass like anything else.

use catnip_net::{Ecn, Priority};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a packet says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Who is to have it.
    pub destination: IpAddr,
    /// Loss priority, from the DSCP.
    pub priority: Priority,
    /// RFC 3168 codepoint.
    pub ecn: Ecn,
}

/// Why a packet from a device never enters the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// The header, or what it announces, is not all there.
    Truncated,
    /// Longer than the MTU.
    TooLong,
    /// Multicast, broadcast or link-local: what no router forwards.
    LinkScope,
    /// It leads nowhere, or back where it came from.
    NoRoute,
    /// There is no memory left for packets.
    NoBuffer,
}

impl Refusal {
    /// How many reasons there are.
    pub const COUNT: usize = 6;
    /// Every reason with its name in results.
    pub const NAMES: [(Self, &'static str); Self::COUNT] = [
        (Self::NotIp, "not_ip"),
        (Self::Truncated, "truncated"),
        (Self::TooLong, "too_long"),
        (Self::LinkScope, "link_scope"),
        (Self::NoRoute, "no_route"),
        (Self::NoBuffer, "no_buffer"),
    ];
}

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// DSCP of HIGH packets: AF11, the lowest drop precedence (RFC 2597).
const AF11: u8 = 10;

/// Reads the header of a packet.
#[inline]
pub fn classify(packet: &[u8]) -> Result<Class, Refusal> {
    let &first = packet.first().ok_or(Refusal::Truncated)?;
    let (destination, traffic_class, link_scope) = match first >> 4 {
        4 => {
            let header = packet.get(..IPV4_HEADER).ok_or(Refusal::Truncated)?;
            let header_len = usize::from(first & 15) * 4;
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            if header_len < IPV4_HEADER || total < header_len || total > packet.len() {
                return Err(Refusal::Truncated);
            }
            let to = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
            let link_scope = to.is_multicast() || to.is_broadcast() || to.is_link_local();
            (IpAddr::V4(to), header[1], link_scope)
        }
        6 => {
            let header = packet.get(..IPV6_HEADER).ok_or(Refusal::Truncated)?;
            let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
            if IPV6_HEADER + payload > packet.len() {
                return Err(Refusal::Truncated);
            }
            let mut to = [0; 16];
            to.copy_from_slice(&header[24..40]);
            let to = Ipv6Addr::from(to);
            let link_scope = to.is_multicast() || to.is_unicast_link_local();
            (IpAddr::V6(to), header[0] << 4 | header[1] >> 4, link_scope)
        }
        _ => return Err(Refusal::NotIp),
    };
    if link_scope {
        return Err(Refusal::LinkScope);
    }
    let ecn = match traffic_class & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    };
    let priority = if traffic_class >> 2 == AF11 { Priority::High } else { Priority::Low };
    Ok(Class { destination, priority, ecn })
}

/// Gives a packet that was classified the CE codepoint, whatever its codepoint was; the checksum follows (RFC 1624).
pub fn set_congestion_experienced(packet: &mut [u8]) {
    if packet[0] >> 4 == 6 {
        packet[1] |= 0x30;
        return;
    }
    let old = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] |= 3;
    let new = u16::from_be_bytes([packet[0], packet[1]]);
    let check = u16::from_be_bytes([packet[10], packet[11]]);
    let mut sum = u32::from(!check) + u32::from(!old) + u32::from(new);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(traffic_class: u8, len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        packet[0] = 0x45;
        packet[1] = traffic_class;
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        packet[16..20].copy_from_slice(&[10, 1, 2, 3]);
        packet
    }

    fn v6(traffic_class: u8, len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        packet[0] = 0x60 | traffic_class >> 4;
        packet[1] = traffic_class << 4;
        packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        packet[24] = 0xfd;
        packet[39] = 9;
        packet
    }

    #[test]
    fn af11_is_high_and_anything_else_is_low() {
        for (dscp, priority) in
            [(10, Priority::High), (12, Priority::Low), (14, Priority::Low), (0, Priority::Low)]
        {
            for (ecn_bits, ecn) in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].into_iter().enumerate() {
                let traffic_class = dscp << 2 | ecn_bits as u8;
                let four = classify(&v4(traffic_class, 60)).unwrap();
                let six = classify(&v6(traffic_class, 60)).unwrap();
                assert_eq!((four.priority, four.ecn), (priority, ecn));
                assert_eq!((six.priority, six.ecn), (priority, ecn));
                assert_eq!(four.destination, IpAddr::from([10, 1, 2, 3]));
                assert_eq!(six.destination, "fd00::9".parse::<IpAddr>().unwrap());
            }
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        let refused = |packet: &[u8]| classify(packet).unwrap_err();
        assert_eq!(refused(&[]), Refusal::Truncated);
        assert_eq!(refused(&[0x45; 19]), Refusal::Truncated);
        assert_eq!(refused(&v4(0, 60)[..59]), Refusal::Truncated);
        assert_eq!(refused(&v6(0, 60)[..59]), Refusal::Truncated);
        assert_eq!(refused(&[0; 60]), Refusal::NotIp);
        let mut short_header = v4(0, 60);
        short_header[0] = 0x44;
        assert_eq!(refused(&short_header), Refusal::Truncated);
        let mut multicast = v4(0, 60);
        multicast[16] = 224;
        assert_eq!(refused(&multicast), Refusal::LinkScope);
    }

    fn checksum(header: &[u8]) -> u16 {
        let words = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u32 = words.sum();
        !((sum & 0xffff) + (sum >> 16)) as u16
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if classify(&bytes).is_ok() {
                set_congestion_experienced(&mut bytes);
                prop_assert_eq!(classify(&bytes).unwrap().ecn, Ecn::Ce);
            }
        }

        #[test]
        fn the_checksum_follows_a_mark(traffic_class: u8, id: [u8; 2]) {
            let mut packet = v4(traffic_class, 20);
            packet[4..6].copy_from_slice(&id);
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            set_congestion_experienced(&mut packet);
            prop_assert_eq!(checksum(&packet), 0);
        }
    }
}
