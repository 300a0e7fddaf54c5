use std::fmt;

/// Why bytes are not the packet that they should be, or why a packet cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The bytes end before what their headers promise.
    Truncated {
        /// What is cut.
        what: &'static str,
        /// How many bytes it needs.
        needed: usize,
        /// How many there are.
        present: usize,
    },
    /// Neither 4 nor 6.
    Version(u8),
    /// A length field that contradicts the header it stands in.
    Length {
        /// Whose length.
        what: &'static str,
        /// Its value, bytes.
        bytes: usize,
    },
    /// A hop-by-hop header anywhere but behind the IPv6 header (RFC 8200, section 4.1).
    HopByHopNotFirst,
    /// Another protocol than the one asked for.
    Protocol(u8),
    /// A fragment: what is asked for is in another one, or needs all of them.
    Fragment,
    /// A TCP option whose length is impossible or runs out of the header.
    TcpOption {
        /// Its kind.
        kind: u8,
        /// Its length field; 0 also if there is none.
        length: u8,
    },
    /// The options need more than the 40 bytes that a TCP header has for them.
    TooManyOptions(usize),
    /// One address is IPv4, the other IPv6.
    MixedVersions,
    /// A packet longer than a length field can say.
    TooLong(usize),
    /// The buffer is smaller than the packet.
    BufferTooSmall {
        /// Bytes of the packet.
        needed: usize,
        /// Bytes of the buffer.
        present: usize,
    },
    /// The historical priority bit is today's CWR, and this packet uses ECN (RFC 3168).
    EcnInUse,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { what, needed, present } => {
                write!(f, "{what} needs {needed} bytes, there are {present}")
            }
            Self::Version(version) => write!(f, "IP version {version}"),
            Self::Length { what, bytes } => write!(f, "{what} cannot be {bytes} bytes"),
            Self::HopByHopNotFirst => write!(f, "hop-by-hop header not behind the IPv6 header"),
            Self::Protocol(protocol) => write!(f, "unexpected protocol {protocol}"),
            Self::Fragment => write!(f, "only a fragment of a packet"),
            Self::TcpOption { kind, length } => write!(f, "TCP option {kind} with length {length}"),
            Self::TooManyOptions(bytes) => write!(f, "{bytes} bytes of TCP options do not fit into 40"),
            Self::MixedVersions => write!(f, "an IPv4 and an IPv6 address in one packet"),
            Self::TooLong(bytes) => write!(f, "a packet of {bytes} bytes is too long"),
            Self::BufferTooSmall { needed, present } => {
                write!(f, "a packet of {needed} bytes does not fit into {present}")
            }
            Self::EcnInUse => write!(f, "the historical priority bit cannot be used beside ECN"),
        }
    }
}

impl std::error::Error for WireError {}

/// The first `needed` bytes, or an error that names what they hold.
pub(crate) fn need(what: &'static str, bytes: &[u8], needed: usize) -> Result<(), WireError> {
    let present = bytes.len();
    if present < needed { Err(WireError::Truncated { what, needed, present }) } else { Ok(()) }
}
