use std::fmt;

/// Error of parsing or writing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Packet that ends before the length given by its headers.
    Truncated {
        /// Truncated part.
        part: &'static str,
        /// Number of bytes that the part needs.
        needed: usize,
        /// Number of bytes present.
        present: usize,
    },
    /// IP version other than 4 and 6.
    Version(u8),
    /// Length field that contradicts its header.
    Length {
        /// Header or packet with the wrong length.
        part: &'static str,
        /// Value of the length field, bytes.
        bytes: usize,
    },
    /// Hop-by-hop header that does not immediately follow the IPv6 header (RFC 8200, section 4.1).
    HopByHopNotFirst,
    /// Protocol other than the requested one.
    Protocol(u8),
    /// Fragment that lacks the requested part, which is in another fragment or requires reassembly.
    Fragment,
    /// TCP option with an impossible length, or one that exceeds the header.
    TcpOption {
        /// Kind of the option.
        kind: u8,
        /// Length field of the option; 0 also if the field is missing.
        length: u8,
    },
    /// Options longer than the 40 bytes available in a TCP header.
    TooManyOptions(usize),
    /// Addresses of different IP versions.
    MixedVersions,
    /// Packet longer than its length field can express.
    TooLong(usize),
    /// Buffer smaller than the packet.
    BufferTooSmall {
        /// Length of the packet, bytes.
        needed: usize,
        /// Length of the buffer, bytes.
        present: usize,
    },
    /// Historical priority bit, today's CWR, on a packet that uses ECN (RFC 3168).
    EcnInUse,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { part, needed, present } => {
                write!(f, "{part} needs {needed} bytes, only {present} are present")
            }
            Self::Version(version) => write!(f, "IP version {version}"),
            Self::Length { part, bytes } => write!(f, "{part} cannot be {bytes} bytes"),
            Self::HopByHopNotFirst => write!(f, "hop-by-hop header not directly after the IPv6 header"),
            Self::Protocol(protocol) => write!(f, "unexpected protocol {protocol}"),
            Self::Fragment => write!(f, "fragment of a packet"),
            Self::TcpOption { kind, length } => write!(f, "TCP option {kind} with length {length}"),
            Self::TooManyOptions(bytes) => write!(f, "{bytes} bytes of TCP options do not fit into 40"),
            Self::MixedVersions => write!(f, "an IPv4 and an IPv6 address in one packet"),
            Self::TooLong(bytes) => write!(f, "a packet of {bytes} bytes is too long"),
            Self::BufferTooSmall { needed, present } => {
                write!(f, "a packet of {needed} bytes does not fit into {present}")
            }
            Self::EcnInUse => write!(f, "the historical priority bit cannot be used with ECN"),
        }
    }
}

impl std::error::Error for WireError {}

/// Returns an error that names `part` if `bytes` has fewer than `needed` bytes.
pub(crate) fn require_len(part: &'static str, bytes: &[u8], needed: usize) -> Result<(), WireError> {
    let present = bytes.len();
    if present < needed { Err(WireError::Truncated { part, needed, present }) } else { Ok(()) }
}
