use crate::WireError;
use crate::bytes::{be16, be32, put16, put32};
use crate::checksum::{Sum, checksum, update};
use crate::error::require_len;
use crate::ip::{IPV4_HEADER, IPV6_HEADER, TCP};
use std::fmt;
use std::net::IpAddr;
use std::ops::BitOr;

const HEADER: usize = 20;
const MAX_OPTIONS: usize = 40;
const FLAGS_AT: usize = 13;
const CHECKSUM_AT: usize = 16;

/// TCP segment with a complete header. Its options and its checksum may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a> {
    segment: &'a [u8],
    header: usize,
}

/// Control bits (RFC 9293, section 3.1).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

/// Fields of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpHeader {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number of the first byte of data, or of the SYN.
    pub sequence: u32,
    /// Next sequence number that the sender of the segment expects; valid if the ACK bit is set.
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window field, not scaled.
    pub window: u16,
    /// End of urgent data; valid if the URG bit is set.
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
}

/// TCP options that this crate supports. Other options are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size (RFC 9293, section 3.7.1).
    pub mss: Option<u16>,
    /// Shift count of later windows (RFC 7323, section 2.2).
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018, section 2).
    pub sack_permitted: bool,
    /// SACK blocks (RFC 2018, section 3).
    pub sack: TcpSackBlocks,
    /// Timestamp value and echo reply (RFC 7323, section 3.2).
    pub timestamps: Option<(u32, u32)>,
}

/// Up to four SACK blocks. Each block has its first sequence number, and the sequence number after its last byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSackBlocks {
    count: u8,
    blocks: [(u32, u32); Self::MAX],
}

/// Addresses, traffic class and hop limit of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
}

impl TcpFlags {
    /// End of the data.
    pub const FIN: Self = Self(0x01);
    /// Opening of a connection.
    pub const SYN: Self = Self(0x02);
    /// Reset of the connection.
    pub const RST: Self = Self(0x04);
    /// Push: the receiver passes the data to the application immediately.
    pub const PSH: Self = Self(0x08);
    /// Valid acknowledgement number.
    pub const ACK: Self = Self(0x10);
    /// Valid urgent pointer.
    pub const URG: Self = Self(0x20);
    /// ECN echo: congestion was experienced (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168); the priority bit of the CATNIP paper, section V-G.
    pub const CWR: Self = Self(0x80);

    const NAMES: [&'static str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];

    /// Returns true if all of these flags are set.
    #[inline]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for TcpFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (_, name) in Self::NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1) {
            write!(f, "{separator}{name}")?;
            separator = "|";
        }
        Ok(())
    }
}

impl TcpSackBlocks {
    /// Largest number of blocks, which a header without other options can hold.
    pub const MAX: usize = 4;

    /// Creates a list of the first [`Self::MAX`] blocks of an iterator.
    pub fn new(blocks: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut sack = Self::default();
        for (slot, block) in sack.blocks.iter_mut().zip(blocks) {
            *slot = block;
            sack.count += 1;
        }
        sack
    }

    /// Returns the blocks in the order in the header.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}

impl<'a> Tcp<'a> {
    /// Parses the payload of an IP packet as a TCP segment.
    #[inline]
    pub fn parse(segment: &'a [u8]) -> Result<Self, WireError> {
        require_len("TCP header", segment, HEADER)?;
        let header = usize::from(segment[12] >> 4) * 4;
        if header < HEADER {
            return Err(WireError::Length { part: "TCP header", bytes: header });
        }
        require_len("TCP header", segment, header)?;
        Ok(Self { segment, header })
    }

    /// Returns the source port.
    #[inline]
    pub fn source_port(&self) -> u16 {
        be16(self.segment, 0)
    }

    /// Returns the destination port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        be16(self.segment, 2)
    }

    /// Returns the sequence number.
    #[inline]
    pub fn sequence(&self) -> u32 {
        be32(self.segment, 4)
    }

    /// Returns the acknowledgement number, valid or not.
    #[inline]
    pub fn acknowledgement(&self) -> u32 {
        be32(self.segment, 8)
    }

    /// Returns the control bits.
    #[inline]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(self.segment[FLAGS_AT])
    }

    /// Returns the window field, not scaled.
    #[inline]
    pub fn window(&self) -> u16 {
        be16(self.segment, 14)
    }

    /// Returns the checksum field.
    pub fn checksum(&self) -> u16 {
        be16(self.segment, CHECKSUM_AT)
    }

    /// Returns the urgent pointer, valid or not.
    pub fn urgent(&self) -> u16 {
        be16(self.segment, 18)
    }

    /// Returns the length of the header in bytes, options included.
    pub fn header_len(&self) -> usize {
        self.header
    }

    /// Returns the data.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.segment[self.header..]
    }

    /// Parses the options. Options are parsed on demand, so that a packet with malformed options can still be routed and marked.
    pub fn options(&self) -> Result<TcpOptions, WireError> {
        let mut options = TcpOptions::default();
        let mut rest = &self.segment[HEADER..self.header];
        while let [kind, tail @ ..] = rest {
            rest = match (*kind, tail) {
                (0, _) => break,
                (1, _) => tail,
                (kind, &[length, ..]) if (2..=rest.len()).contains(&usize::from(length)) => {
                    let (option, tail) = rest.split_at(usize::from(length));
                    options.read(kind, &option[2..])?;
                    tail
                }
                (kind, tail) => {
                    return Err(WireError::TcpOption { kind, length: tail.first().copied().unwrap_or(0) });
                }
            };
        }
        Ok(options)
    }

    /// Parses all fields of the header.
    pub fn header(&self) -> Result<TcpHeader, WireError> {
        Ok(TcpHeader {
            source_port: self.source_port(),
            destination_port: self.destination_port(),
            sequence: self.sequence(),
            acknowledgement: self.acknowledgement(),
            flags: self.flags(),
            window: self.window(),
            urgent: self.urgent(),
            options: self.options()?,
        })
    }
}

impl TcpHeader {
    /// Returns the length of the header in bytes, options included.
    pub fn header_len(&self) -> Result<usize, WireError> {
        match self.options.len().next_multiple_of(4) {
            len @ ..=MAX_OPTIONS => Ok(HEADER + len),
            len => Err(WireError::TooManyOptions(len)),
        }
    }

    /// Writes the whole IP packet, with correct checksums, to the beginning of `buffer` and returns its length.
    ///
    /// An IPv4 packet has the don't-fragment bit and identification 0 (RFC 6864, section 4.1).
    pub fn write(
        &self,
        addresses: &Addresses,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, WireError> {
        let header = self.header_len()?;
        let segment = header + payload.len();
        let ip = match (addresses.source, addresses.destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => IPV4_HEADER,
            (IpAddr::V6(_), IpAddr::V6(_)) => IPV6_HEADER,
            _ => return Err(WireError::MixedVersions),
        };
        let total = ip + segment;
        // The length field of IPv6 excludes the IPv6 header.
        if total - if ip == IPV6_HEADER { ip } else { 0 } > usize::from(u16::MAX) {
            return Err(WireError::TooLong(total));
        }
        let present = buffer.len();
        let Some(packet) = buffer.get_mut(..total) else {
            return Err(WireError::BufferTooSmall { needed: total, present });
        };
        let (ip_header, tcp) = packet.split_at_mut(ip);
        addresses.write(TCP, ip_header, segment as u16);
        self.write_header(&mut tcp[..header]);
        tcp[header..].copy_from_slice(payload);
        let sum = Sum::default().pseudo_header(addresses.source, addresses.destination, TCP, segment);
        let sum = sum.bytes(tcp).checksum();
        put16(tcp, CHECKSUM_AT, sum);
        Ok(total)
    }

    fn write_header(&self, header: &mut [u8]) {
        put16(header, 0, self.source_port);
        put16(header, 2, self.destination_port);
        put32(header, 4, self.sequence);
        put32(header, 8, self.acknowledgement);
        header[12] = (header.len() as u8 / 4) << 4;
        header[FLAGS_AT] = self.flags.0;
        put16(header, 14, self.window);
        put16(header, CHECKSUM_AT, 0);
        put16(header, 18, self.urgent);
        self.options.write(&mut header[HEADER..]);
    }
}

impl TcpOptions {
    fn read(&mut self, kind: u8, value: &[u8]) -> Result<(), WireError> {
        match (kind, value.len()) {
            (2, 2) => self.mss = Some(be16(value, 0)),
            (3, 1) => self.window_scale = Some(value[0]),
            (4, 0) => self.sack_permitted = true,
            (5, 8 | 16 | 24 | 32) => {
                self.sack = TcpSackBlocks::new(value.chunks_exact(8).map(|b| (be32(b, 0), be32(b, 4))));
            }
            (8, 8) => self.timestamps = Some((be32(value, 0), be32(value, 4))),
            (2..=5 | 8, len) => return Err(WireError::TcpOption { kind, length: len as u8 + 2 }),
            _ => {}
        }
        Ok(())
    }

    fn len(&self) -> usize {
        let option = |present: bool, len: usize| if present { len } else { 0 };
        let blocks = self.sack.as_slice().len();
        option(self.mss.is_some(), 4)
            + option(self.window_scale.is_some(), 3)
            + option(self.sack_permitted, 2)
            + option(blocks > 0, 2 + 8 * blocks)
            + option(self.timestamps.is_some(), 10)
    }

    /// Writes the options and fills the remainder of `rest` with no-operation options.
    fn write(&self, mut rest: &mut [u8]) {
        let mut put = |kind: u8, value: &[u8]| {
            let (option, tail) = std::mem::take(&mut rest).split_at_mut(2 + value.len());
            option[0] = kind;
            option[1] = option.len() as u8;
            option[2..].copy_from_slice(value);
            rest = tail;
        };
        if let Some(mss) = self.mss {
            put(2, &mss.to_be_bytes());
        }
        if self.sack_permitted {
            put(4, &[]);
        }
        if let Some((value, echo)) = self.timestamps {
            put(8, &pair(value, echo));
        }
        if let Some(shift) = self.window_scale {
            put(3, &[shift]);
        }
        let mut blocks = [0; 8 * TcpSackBlocks::MAX];
        let mut len = 0;
        for &(start, end) in self.sack.as_slice() {
            blocks[len..len + 8].copy_from_slice(&pair(start, end));
            len += 8;
        }
        if len > 0 {
            put(5, &blocks[..len]);
        }
        rest.fill(1);
    }
}

impl Addresses {
    /// Writes an IP header without options (20 or 40 bytes) for `payload` bytes of this protocol. Both addresses must
    /// have the same version.
    pub fn write(&self, protocol: u8, header: &mut [u8], payload: u16) {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                header.fill(0);
                header[0] = 0x45;
                header[1] = self.traffic_class;
                put16(header, 2, IPV4_HEADER as u16 + payload);
                put16(header, 6, 0x4000);
                header[8] = self.hop_limit;
                header[9] = protocol;
                header[12..16].copy_from_slice(&source.octets());
                header[16..20].copy_from_slice(&destination.octets());
                let sum = checksum(header);
                put16(header, 10, sum);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                put32(header, 0, 6 << 28 | u32::from(self.traffic_class) << 20);
                put16(header, 4, payload);
                header[6] = protocol;
                header[7] = self.hop_limit;
                header[8..24].copy_from_slice(&source.octets());
                header[24..40].copy_from_slice(&destination.octets());
            }
            _ => unreachable!("a packet of mixed versions is refused before it is written"),
        }
    }
}

/// Sets or clears control bits of a segment and updates its checksum.
#[inline]
pub(crate) fn set_flags(segment: &mut [u8], mask: TcpFlags, set: bool) {
    let old = be16(segment, FLAGS_AT - 1);
    let new = if set { old | u16::from(mask.0) } else { old & !u16::from(mask.0) };
    let sum = update(be16(segment, CHECKSUM_AT), old, new);
    put16(segment, FLAGS_AT - 1, new);
    put16(segment, CHECKSUM_AT, sum);
}

fn pair(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) << 32 | u64::from(second)).to_be_bytes()
}

#[cfg(test)]
mod tests;
