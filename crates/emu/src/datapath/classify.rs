//! Classification of packets for routers and bridges: addresses, priority, ECN codepoint and flow. Only the IP headers must be valid, so
//! that fragments and unknown protocols pass as well.

use catnip_net::{Ecn, Priority};
use catnip_sim::watch::Refusal;
use catnip_wire::{FlowKey, Ip, PriorityCodec, WireError};
use std::net::IpAddr;

/// Properties of a packet, taken from its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Priority that the codec reads from the packet.
    pub priority: Priority,
    /// ECN codepoint (RFC 3168).
    pub ecn: Ecn,
    /// Hash of the five-tuple, for fair queueing.
    pub flow: u16,
    /// Length of the packet without padding, bytes.
    pub len: u32,
}

/// Classifies a packet for a router. Packets with a destination of link scope are refused, since routers do not forward them.
#[inline]
pub fn classify(packet: &[u8], codec: PriorityCodec) -> Result<Class, Refusal> {
    let class = classify_any(packet, codec)?;
    let link_scope = match class.destination {
        IpAddr::V4(to) => to.is_multicast() || to.is_broadcast() || to.is_link_local(),
        IpAddr::V6(to) => to.is_multicast() || to.is_unicast_link_local(),
    };
    if link_scope { Err(Refusal::LinkScope) } else { Ok(class) }
}

/// Classifies a packet for a bridge, which forwards packets to any destination.
#[inline]
pub fn classify_any(packet: &[u8], codec: PriorityCodec) -> Result<Class, Refusal> {
    let refusal = |error| match error {
        WireError::Version(_) => Refusal::NotIp,
        WireError::EcnInUse => Refusal::EcnInUse,
        _ => Refusal::Malformed,
    };
    let ip = Ip::parse(packet).map_err(refusal)?;
    let priority = match codec.of(&ip) {
        // A router also forwards packets with a malformed TCP header; their priority is LOW.
        Err(error) if codec == PriorityCodec::FlagBit && error != WireError::EcnInUse => Priority::Low,
        read => read.map_err(refusal)?,
    };
    let len = ip.total_len() as u32;
    let (source, destination) = (ip.source(), ip.destination());
    Ok(Class { source, destination, priority, ecn: ip.ecn(), flow: hash(&ip), len })
}

/// Returns the hash that identifies a packet's flow; 0 for data that is no IP packet.
pub(crate) fn flow(packet: &[u8]) -> u16 {
    Ip::parse(packet).map_or(0, |ip| hash(&ip))
}

/// Returns the hash of the five-tuple: addresses, protocol and ports. A packet whose ports are absent or hidden belongs to the flow of its
/// addresses and its protocol.
#[inline]
fn hash(ip: &Ip<'_>) -> u16 {
    let ports = FlowKey::of(ip)
        .map_or(0, |key| u64::from(key.source.port()) << 16 | u64::from(key.destination.port()));
    // Multiplicative hashing (Knuth, The Art of Computer Programming 3, section 6.4), word by word.
    let values = [bits(ip.source()), bits(ip.destination()), ports << 8 | u64::from(ip.protocol())];
    (values.into_iter().fold(0, |hash: u64, value| (hash.rotate_left(23) ^ value).wrapping_mul(FACTOR)) >> 48)
        as u16
}

/// Returns the hash that identifies the host with this address, for queues that isolate hosts. Collisions within a network are rare.
pub(crate) fn host(address: IpAddr) -> u32 {
    (bits(address).wrapping_mul(FACTOR) >> 32) as u32
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

fn bits(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            (bits >> 64) as u64 ^ bits as u64
        }
    }
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
        packet[6] = 59;
        packet[24] = 0xfd;
        packet[39] = 9;
        packet
    }

    #[test]
    fn af11_is_high_af12_med_and_anything_else_low() {
        for (dscp, priority) in
            [(10, Priority::High), (12, Priority::Medium), (14, Priority::Low), (0, Priority::Low)]
        {
            for (ecn_bits, ecn) in [Ecn::NOT_ECT, Ecn::ECT_1, Ecn::ECT_0, Ecn::CE].into_iter().enumerate() {
                let traffic_class = dscp << 2 | ecn_bits as u8;
                let four = classify(&v4(traffic_class, 60), PriorityCodec::default()).unwrap();
                let six = classify(&v6(traffic_class, 60), PriorityCodec::default()).unwrap();
                assert_eq!((four.priority, four.ecn), (priority, ecn));
                assert_eq!((six.priority, six.ecn), (priority, ecn));
                assert_eq!(four.destination, IpAddr::from([10, 1, 2, 3]));
                assert_eq!(six.destination, "fd00::9".parse::<IpAddr>().unwrap());
            }
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        let refused = |packet: &[u8]| classify(packet, PriorityCodec::default()).unwrap_err();
        assert_eq!(refused(&[]), Refusal::Malformed);
        assert_eq!(refused(&[0x45; 19]), Refusal::Malformed);
        assert_eq!(refused(&v4(0, 60)[..59]), Refusal::Malformed);
        assert_eq!(refused(&v6(0, 60)[..59]), Refusal::Malformed);
        assert_eq!(refused(&[0; 60]), Refusal::NotIp);
        let mut short_header = v4(0, 60);
        short_header[0] = 0x44;
        assert_eq!(refused(&short_header), Refusal::Malformed);
        let mut multicast = v4(0, 60);
        multicast[16] = 224;
        assert_eq!(refused(&multicast), Refusal::LinkScope);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(class) = classify(&bytes, PriorityCodec::default()) {
                prop_assert!(!class.destination.is_multicast());
            }
        }
    }
}
