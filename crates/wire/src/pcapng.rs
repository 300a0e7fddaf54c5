//! Packet captures. They are written as pcapng (draft-ietf-opsawg-pcapng), and read as pcapng or classic pcap.

mod reader;
mod writer;

pub use reader::{CaptureError, Reader, Record, Restored};
pub use writer::{InterfaceId, Writer};

/// Link type of the frames of a capture (LINKTYPE registry of tcpdump.org).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// Raw IP: frames begin with the IP header.
    Raw,
    /// Ethernet, with or without VLAN tags.
    Ethernet,
    /// Linux cooked capture, as on the "any" device.
    LinuxCooked,
    /// Linux cooked capture, version 2.
    LinuxCooked2,
    /// Unsupported link type.
    Other(u16),
}

impl LinkType {
    /// Returns the number of the link type in files.
    pub const fn number(self) -> u16 {
        match self {
            Self::Raw => 101,
            Self::Ethernet => 1,
            Self::LinuxCooked => 113,
            Self::LinuxCooked2 => 276,
            Self::Other(number) => number,
        }
    }

    /// Returns the link type with the given number in files.
    pub const fn from_number(number: u16) -> Self {
        match number {
            // libpcap writes 12 for raw IP on some systems; 228 and 229 are raw IPv4 and IPv6.
            12 | 101 | 228 | 229 => Self::Raw,
            1 => Self::Ethernet,
            113 => Self::LinuxCooked,
            276 => Self::LinuxCooked2,
            other => Self::Other(other),
        }
    }

    /// Returns the IP packet in a frame; `None` if the frame contains no IP packet.
    pub fn ip(self, frame: &[u8]) -> Option<&[u8]> {
        let (ether_type, packet) = match self {
            Self::Raw => return Some(frame),
            Self::Ethernet => {
                let mut header = 14;
                // 802.1Q and 802.1ad tags have four bytes each; a frame has at most two tags.
                while header < 22 && matches!(ether_type(frame, header - 2)?, 0x8100 | 0x88a8) {
                    header += 4;
                }
                (ether_type(frame, header - 2)?, header)
            }
            Self::LinuxCooked => (ether_type(frame, 14)?, 16),
            Self::LinuxCooked2 => (ether_type(frame, 0)?, 20),
            Self::Other(_) => return None,
        };
        if matches!(ether_type, 0x0800 | 0x86dd) { frame.get(packet..) } else { None }
    }
}

fn ether_type(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

/// Block types.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Option codes. The first two are common to all blocks; the others are for interfaces.
const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;

#[cfg(test)]
mod tests;
