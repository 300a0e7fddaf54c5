//! UDP datagrams.

use crate::bytes::{be16, put16};
use crate::error::need;
use crate::ip::{IPV4_HEADER, UDP};
use crate::{Addresses, WireError};

const HEADER: usize = 8;
/// RFC 863: what is sent there is thrown away.
const DISCARD: u16 = 9;

/// Writes an IPv4 packet of so many bytes to the beginning of `buffer`, as far as it and the length field can hold them and the
/// headers allow; its length. It carries zeros from and to the discard port, and has no checksum but that of its IP header (RFC
/// 768: "An all zero transmitted checksum value means that the transmitter generated no checksum").
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

/// A UDP datagram whose length fits (RFC 768). Its checksum may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a>(&'a [u8]);

impl<'a> Udp<'a> {
    /// Reads the payload of an IP packet; what the datagram does not claim is cut off.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        need("UDP header", bytes, HEADER)?;
        let len = usize::from(be16(bytes, 4));
        if len < HEADER {
            return Err(WireError::Length { what: "UDP datagram", bytes: len });
        }
        need("UDP datagram", bytes, len)?;
        Ok(Self(&bytes[..len]))
    }

    /// Port of the sender.
    pub fn source_port(&self) -> u16 {
        be16(self.0, 0)
    }

    /// Port of the receiver.
    pub fn destination_port(&self) -> u16 {
        be16(self.0, 2)
    }

    /// The checksum field; 0 means none.
    pub fn checksum(&self) -> u16 {
        be16(self.0, 6)
    }

    /// The data.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER..]
    }

    /// Header and data.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ip, transport_is_right};
    use std::net::Ipv4Addr;

    #[test]
    fn a_datagram_of_zeros_is_as_long_as_asked_within_what_can_be() {
        let [source, destination] = [1, 2].map(|n| Ipv4Addr::new(10, 0, 0, n).into());
        let addresses = Addresses { source, destination, traffic_class: 40, hop_limit: 64 };
        let mut buffer = vec![0xff; 70_000];
        for (asked, given) in [(0, 28), (28, 28), (29, 29), (1500, 1500), (65_535, 65_535), (69_000, 65_535)]
        {
            assert_eq!(write_zeros(&addresses, asked, &mut buffer), given);
            let ip = Ip::parse(&buffer[..given]).unwrap();
            assert!(ip.header_is_right() && ip.total_len() == given);
            assert_eq!(transport_is_right(&ip), Ok(true));
            let udp = Udp::parse(ip.transport(UDP).unwrap()).unwrap();
            assert_eq!((udp.source_port(), udp.destination_port(), udp.checksum()), (9, 9, 0));
            assert!(udp.payload().len() == given - 28 && udp.payload().iter().all(|&byte| byte == 0));
        }
        assert_eq!(write_zeros(&addresses, 1500, &mut buffer[..100]), 100);
    }
}
