//! IPv4 and IPv6 packets without link-layer headers.

use crate::bytes::{be16, be32, put16};
use crate::checksum;
use crate::error::require_len;
use crate::{WireError, checksum::update};
use catnip_net::Ecn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

pub(crate) const IPV4_HEADER: usize = 20;
pub(crate) const IPV6_HEADER: usize = 40;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// IPv4 (RFC 791).
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// Fragment of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of the fragment in the payload of the packet, bytes.
    pub offset: u16,
    /// True if more fragments follow.
    pub more: bool,
    /// Identification, common to all fragments of a packet.
    pub id: u32,
}

/// IP packet whose header, IPv6 extension headers and lengths are consistent. Its checksums may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Ip<'a> {
    /// Packet without padding.
    packet: &'a [u8],
    version: Version,
    protocol: u8,
    payload: usize,
    fragment: Option<Fragment>,
    padding: usize,
}

impl<'a> Ip<'a> {
    /// Parses the headers of a packet. Bytes beyond the length given by the header are padding.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        match version(bytes)? {
            Version::V4 => Self::parse_v4(bytes),
            Version::V6 => Self::parse_v6(bytes),
        }
    }

    /// Returns the IP version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the source address.
    #[inline]
    pub fn source(&self) -> IpAddr {
        self.address(12, 8)
    }

    /// Returns the destination address.
    #[inline]
    pub fn destination(&self) -> IpAddr {
        self.address(16, 24)
    }

    /// Returns the protocol of the payload: the protocol field of IPv4 or the last next header of IPv6.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Returns the payload after all headers.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.packet[self.payload..]
    }

    /// Returns the length of the headers in bytes, extension headers included.
    #[inline]
    pub fn header_len(&self) -> usize {
        self.payload
    }

    /// Returns the length of the packet in bytes, headers included.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.packet.len()
    }

    /// Returns the packet without padding.
    pub fn bytes(&self) -> &'a [u8] {
        self.packet
    }

    /// Returns the number of bytes after the end of the packet.
    pub fn padding(&self) -> usize {
        self.padding
    }

    /// Returns the TOS byte or traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        traffic_class(self.packet, self.version)
    }

    /// Returns the DSCP (RFC 2474).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Returns the ECN codepoint (RFC 3168).
    #[inline]
    pub fn ecn(&self) -> Ecn {
        Ecn::of_traffic_class(self.traffic_class())
    }

    /// Returns the time to live or hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.packet[hop_limit_at(self.version)]
    }

    /// Returns the fragment information, or `None` for a whole packet.
    #[inline]
    pub fn fragment(&self) -> Option<Fragment> {
        self.fragment
    }

    /// Returns the payload if it begins with a header of this protocol; otherwise returns an error.
    #[inline]
    pub fn transport(&self, protocol: u8) -> Result<&'a [u8], WireError> {
        if self.protocol != protocol {
            return Err(WireError::Protocol(self.protocol));
        }
        match self.fragment {
            Some(Fragment { offset: 1.., .. }) => Err(WireError::Fragment),
            _ => Ok(self.payload()),
        }
    }

    /// Returns true if the header checksum is correct. IPv6 has no header checksum, so the result is then true.
    pub fn has_valid_header_checksum(&self) -> bool {
        match self.version {
            Version::V4 => checksum::checksum(&self.packet[..self.payload]) == 0,
            Version::V6 => true,
        }
    }

    #[inline]
    fn parse_v4(bytes: &'a [u8]) -> Result<Self, WireError> {
        require_len("IPv4 header", bytes, IPV4_HEADER)?;
        let header = usize::from(bytes[0] & 15) * 4;
        if header < IPV4_HEADER {
            return Err(WireError::Length { part: "IPv4 header", bytes: header });
        }
        let total = usize::from(be16(bytes, 2));
        if total < header {
            return Err(WireError::Length { part: "IPv4 packet", bytes: total });
        }
        require_len("IPv4 packet", bytes, total)?;
        let offset_field = be16(bytes, 6);
        let fragment = Fragment {
            offset: offset_field << 3,
            more: offset_field & 0x2000 != 0,
            id: u32::from(be16(bytes, 4)),
        };
        Ok(Self {
            packet: &bytes[..total],
            version: Version::V4,
            protocol: bytes[9],
            payload: header,
            fragment: fragment.is_part().then_some(fragment),
            padding: bytes.len() - total,
        })
    }

    #[inline]
    fn parse_v6(bytes: &'a [u8]) -> Result<Self, WireError> {
        require_len("IPv6 header", bytes, IPV6_HEADER)?;
        let total = IPV6_HEADER + usize::from(be16(bytes, 4));
        require_len("IPv6 packet", bytes, total)?;
        let mut ip = Self {
            packet: &bytes[..total],
            version: Version::V6,
            protocol: bytes[6],
            payload: IPV6_HEADER,
            fragment: None,
            padding: bytes.len() - total,
        };
        // Each extension header has at least eight bytes, so the loop ends at the end of the packet.
        while ip.skip_extension()? {}
        Ok(ip)
    }

    /// Skips one extension header. Returns false if no extension header follows.
    #[inline]
    fn skip_extension(&mut self) -> Result<bool, WireError> {
        let header = self.payload();
        let len = |unit: usize, more: usize| header.get(1).map(|&len| (usize::from(len) + more) * unit);
        let (part, len) = match self.protocol {
            HOP_BY_HOP if self.payload != IPV6_HEADER => return Err(WireError::HopByHopNotFirst),
            HOP_BY_HOP => ("IPv6 hop-by-hop header", len(8, 1)),
            ROUTING => ("IPv6 routing header", len(8, 1)),
            DESTINATION => ("IPv6 destination options", len(8, 1)),
            FRAGMENT => ("IPv6 fragment header", Some(8)),
            // RFC 4302, section 2.2: length in 32-bit words minus two. In IPv6, the sender has to make it a multiple of eight bytes.
            AUTHENTICATION => ("authentication header", len(4, 2)),
            _ => return Ok(false),
        };
        let len = len.unwrap_or(8);
        require_len(part, header, len)?;
        // The fixed part alone has twelve bytes.
        if self.protocol == AUTHENTICATION && len < 12 {
            return Err(WireError::Length { part, bytes: len });
        }
        if self.protocol == FRAGMENT {
            let offset_field = be16(header, 2);
            let fragment =
                Fragment { offset: offset_field & !7, more: offset_field & 1 != 0, id: be32(header, 4) };
            self.fragment = fragment.is_part().then_some(fragment);
        }
        self.protocol = header[0];
        self.payload += len;
        // Only the first fragment has further headers.
        Ok(self.fragment.is_none_or(|fragment| fragment.offset == 0))
    }

    #[inline]
    fn address(&self, v4: usize, v6: usize) -> IpAddr {
        match self.version {
            Version::V4 => IpAddr::V4(Ipv4Addr::from(be32(self.packet, v4))),
            Version::V6 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&self.packet[v6..v6 + 16]);
                IpAddr::V6(Ipv6Addr::from(octets))
            }
        }
    }
}

impl Fragment {
    /// Returns true if the fragment is only a part of a packet. A fragment header may also cover a whole IPv6 packet (RFC 6946).
    fn is_part(self) -> bool {
        self.more || self.offset > 0
    }
}

/// Sets DSCP and ECN together and updates the checksum of an IPv4 header.
#[inline]
pub fn set_traffic_class(packet: &mut [u8], class: u8) -> Result<(), WireError> {
    match version(packet)? {
        Version::V4 => set_v4_word(packet, 0, u16::from_be_bytes([packet[0], class])),
        Version::V6 => {
            packet[0] = 0x60 | class >> 4;
            packet[1] = class << 4 | packet[1] & 15;
        }
    }
    Ok(())
}

/// Sets the ECN codepoint and leaves the DSCP as it is.
pub fn set_ecn(packet: &mut [u8], ecn: Ecn) -> Result<(), WireError> {
    let class = traffic_class(packet, version(packet)?);
    set_traffic_class(packet, class & !3 | ecn.bits())
}

/// Sets the DSCP and leaves the ECN codepoint as it is.
#[inline]
pub fn set_dscp(packet: &mut [u8], dscp: u8) -> Result<(), WireError> {
    let class = traffic_class(packet, version(packet)?);
    set_traffic_class(packet, dscp << 2 | class & 3)
}

/// Returns the IP version of a packet. Checks that the packet is long enough for the fixed header of this version.
#[inline]
pub(crate) fn version(bytes: &[u8]) -> Result<Version, WireError> {
    require_len("IP header", bytes, 1)?;
    match bytes[0] >> 4 {
        4 => require_len("IPv4 header", bytes, IPV4_HEADER).map(|()| Version::V4),
        6 => require_len("IPv6 header", bytes, IPV6_HEADER).map(|()| Version::V6),
        other => Err(WireError::Version(other)),
    }
}

#[inline]
pub(crate) fn traffic_class(packet: &[u8], version: Version) -> u8 {
    match version {
        Version::V4 => packet[1],
        Version::V6 => packet[0] << 4 | packet[1] >> 4,
    }
}

const fn hop_limit_at(version: Version) -> usize {
    match version {
        Version::V4 => 8,
        Version::V6 => 7,
    }
}

#[inline]
fn set_v4_word(packet: &mut [u8], at: usize, word: u16) {
    let sum = update(be16(packet, 10), be16(packet, at), word);
    put16(packet, at, word);
    put16(packet, 10, sum);
}
