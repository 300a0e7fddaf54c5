use crate::WireError;
use crate::bytes::be16;
use crate::error::need;

const HEADER: usize = 8;

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
