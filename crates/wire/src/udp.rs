//! UDP datagrams.

use crate::bytes::{be16, put16};
use crate::error::require_len;
use crate::ip::{IPV4_HEADER, UDP};
use crate::{Addresses, WireError};

const HEADER: usize = 8;
/// Discard port (RFC 863).
const DISCARD: u16 = 9;

/// Writes an IPv4 packet with a UDP datagram of zeros to the beginning of `buffer` and returns the length of the packet. The length is
/// `bytes`, but at least that of the headers and at most what the buffer and the length field allow. Both ports are the discard port, and
/// only the IP header has a checksum (RFC 768: "An all zero transmitted checksum value means that the transmitter generated no checksum").
pub fn write_zeros(addresses: &Addresses, bytes: usize, buffer: &mut [u8]) -> usize {
    let len = bytes.clamp(IPV4_HEADER + HEADER, buffer.len().min(usize::from(u16::MAX)));
    let (header, datagram) = buffer[..len].split_at_mut(IPV4_HEADER);
    addresses.write(UDP, header, datagram.len() as u16);
    datagram.fill(0);
    put16(datagram, 0, DISCARD);
    put16(datagram, 2, DISCARD);
    put16(datagram, 4, datagram.len() as u16);
    len
}

/// UDP datagram with a valid length (RFC 768). Its checksum may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a>(&'a [u8]);

impl<'a> Udp<'a> {
    /// Parses the payload of an IP packet as a UDP datagram. Bytes beyond the length of the datagram are ignored.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        require_len("UDP header", bytes, HEADER)?;
        let len = usize::from(be16(bytes, 4));
        if len < HEADER {
            return Err(WireError::Length { part: "UDP datagram", bytes: len });
        }
        require_len("UDP datagram", bytes, len)?;
        Ok(Self(&bytes[..len]))
    }

    /// Returns the source port.
    pub fn source_port(&self) -> u16 {
        be16(self.0, 0)
    }

    /// Returns the destination port.
    pub fn destination_port(&self) -> u16 {
        be16(self.0, 2)
    }

    /// Returns the checksum field; 0 means no checksum.
    pub fn checksum(&self) -> u16 {
        be16(self.0, 6)
    }

    /// Returns the data.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER..]
    }

    /// Returns header and data.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ip, has_valid_transport_checksum};
    use std::net::Ipv4Addr;

    #[test]
    fn a_datagram_of_zeros_is_as_long_as_asked_within_what_can_be() {
        let [source, destination] = [1, 2].map(|n| Ipv4Addr::new(10, 0, 0, n).into());
        let addresses = Addresses { source, destination, traffic_class: 40, hop_limit: 64 };
        let mut buffer = vec![0xff; 70_000];
        for (requested, written) in
            [(0, 28), (28, 28), (29, 29), (1500, 1500), (65_535, 65_535), (69_000, 65_535)]
        {
            assert_eq!(write_zeros(&addresses, requested, &mut buffer), written);
            let ip = Ip::parse(&buffer[..written]).unwrap();
            assert!(ip.has_valid_header_checksum() && ip.total_len() == written);
            assert_eq!(has_valid_transport_checksum(&ip), Ok(true));
            let udp = Udp::parse(ip.transport(UDP).unwrap()).unwrap();
            assert_eq!((udp.source_port(), udp.destination_port(), udp.checksum()), (9, 9, 0));
            assert!(udp.payload().len() == written - 28 && udp.payload().iter().all(|&byte| byte == 0));
        }
        assert_eq!(write_zeros(&addresses, 1500, &mut buffer[..100]), 100);
    }
}
