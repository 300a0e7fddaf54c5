use super::{
    BYTE_ORDER, COMMENT, END_OF_OPTIONS, ENHANCED_PACKET, INTERFACE, LinkType, OFFSET, OLD_PACKET,
    RESOLUTION, SECTION_HEADER, SIMPLE_PACKET,
};
use std::fmt;
use std::io::{self, Read};

/// Reader of pcapng and classic pcap files of either byte order, packet by packet.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    format: Format,
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Block or packet read last.
    block: Vec<u8>,
}

/// Packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Capture time, nanoseconds since 1970.
    pub nanos: i64,
    /// Index of the capturing interface in the section of the packet.
    pub interface: u32,
    /// Link type of the frame.
    pub link: LinkType,
    /// Captured bytes of the frame.
    pub frame: &'a [u8],
    /// Original length of the frame, bytes.
    pub original_len: u32,
    /// First comment; `None` without a comment in valid UTF-8.
    pub comment: Option<&'a str>,
}

/// Error of reading a capture.
#[derive(Debug)]
pub enum CaptureError {
    /// I/O error.
    Io(io::Error),
    /// End of file within a block or packet, as after an interrupted capture.
    Truncated,
    /// File that is neither pcapng nor pcap, with its first bytes.
    Magic([u8; 4]),
    /// Implausible length of a block or packet: the file is corrupt.
    BlockLength(u32),
    /// Inconsistent block.
    Block(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pcap,
    Pcapng,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// Time units per second.
    per_second: u64,
    /// Seconds to add to every timestamp.
    offset: i64,
    /// Largest number of captured bytes per packet; 0 for no limit.
    snap: u32,
}

/// Largest length of a block, bytes, far above any block of an IP capture. The limit bounds the memory that a corrupt length field can
/// claim.
const MAX_BLOCK: u32 = 1 << 24;

/// Largest plausible number of missing bytes, above the length of any frame with an IP packet.
const MAX_MISSING: usize = 1 << 17;

/// Largest number of interfaces. A capture has one interface for each capture point. The limit bounds the memory that a corrupt capture can
/// claim.
const MAX_INTERFACES: usize = 1 << 16;

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Truncated => write!(f, "the capture ends within a packet"),
            Self::Magic(magic) => write!(f, "not a capture: begins with {magic:02x?}"),
            Self::BlockLength(len) => write!(f, "invalid block length: {len} bytes"),
            Self::Block(description) => write!(f, "{description}"),
        }
    }
}

impl std::error::Error for CaptureError {}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Truncated } else { Self::Io(error) }
    }
}

impl<'a> Record<'a> {
    /// Returns the IP packet in the frame; `None` if the frame contains no IP packet.
    pub fn ip(&self) -> Option<&'a [u8]> {
        self.link.ip(self.frame)
    }

    /// Returns the number of bytes at the end of the frame that the capture lacks.
    pub fn missing(&self) -> usize {
        (self.original_len as usize).saturating_sub(self.frame.len())
    }
}

/// Buffer for packets that a capture has cut. Their headers tell lengths, so that they are read at their original ones.
#[derive(Debug, Default)]
pub struct Restored(Vec<u8>);

impl Restored {
    /// Returns a packet with zeros for the last `missing` bytes, and true if any are missing. A packet that lacks more than any frame has is
    /// returned as it is.
    pub fn restore<'a>(&'a mut self, packet: &'a [u8], missing: usize) -> (&'a [u8], bool) {
        if missing == 0 || missing > MAX_MISSING {
            return (packet, false);
        }
        self.0.clear();
        self.0.extend_from_slice(packet);
        self.0.resize(packet.len() + missing, 0);
        (&self.0, true)
    }
}

impl<R: Read> Reader<R> {
    /// Opens a capture and reads its header.
    pub fn new(mut input: R) -> Result<Self, CaptureError> {
        let mut magic = [0; 4];
        input.read_exact(&mut magic)?;
        let mut reader = Self {
            input,
            format: Format::Pcapng,
            big_endian: false,
            interfaces: Vec::new(),
            block: Vec::new(),
        };
        let (big_endian, per_second) = match u32::from_le_bytes(magic) {
            SECTION_HEADER => {
                reader.read_section()?;
                return Ok(reader);
            }
            0xa1b2_c3d4 => (false, 1_000_000),
            0xd4c3_b2a1 => (true, 1_000_000),
            0xa1b2_3c4d => (false, 1_000_000_000),
            0x4d3c_b2a1 => (true, 1_000_000_000),
            _ => return Err(CaptureError::Magic(magic)),
        };
        (reader.format, reader.big_endian) = (Format::Pcap, big_endian);
        reader.read(20)?;
        // The upper half of the field describes the frame check sequence, the lower half the link type.
        let link = LinkType::from_number(reader.u32(16) as u16);
        reader.interfaces.push(Interface { link, per_second, offset: 0, snap: 0 });
        Ok(reader)
    }

    /// Returns the next packet, or `None` at the end of the capture.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        match self.format {
            Format::Pcap => self.next_of_pcap(),
            Format::Pcapng => self.next_of_pcapng(),
        }
    }

    fn next_of_pcap(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        let mut header = [0; 16];
        if !self.read_or_end(&mut header)? {
            return Ok(None);
        }
        let field = |i: usize| self.order([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let (seconds, fraction, original_len) = (field(0), field(4), field(12));
        self.read(field(8))?;
        let Interface { link, per_second, .. } = self.interfaces[0];
        let nanos =
            i64::from(seconds) * 1_000_000_000 + (u64::from(fraction) * (1_000_000_000 / per_second)) as i64;
        Ok(Some(Record { nanos, interface: 0, link, frame: &self.block, original_len, comment: None }))
    }

    fn next_of_pcapng(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        loop {
            let mut kind = [0; 4];
            if !self.read_or_end(&mut kind)? {
                return Ok(None);
            }
            match self.order(kind) {
                SECTION_HEADER => self.read_section()?,
                kind => {
                    self.read_block()?;
                    match kind {
                        INTERFACE => self.add_interface()?,
                        ENHANCED_PACKET | OLD_PACKET => return self.packet(kind).map(Some),
                        SIMPLE_PACKET => return self.simple_packet().map(Some),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Reads a section header. Each section has its own byte order and begins without interfaces.
    fn read_section(&mut self) -> Result<(), CaptureError> {
        let mut header = [0; 8];
        self.input.read_exact(&mut header)?;
        let (len, magic) = header.split_at(4);
        self.big_endian = match u32::from_le_bytes([magic[0], magic[1], magic[2], magic[3]]) {
            BYTE_ORDER => false,
            other if other.swap_bytes() == BYTE_ORDER => true,
            _ => return Err(CaptureError::Block("section header without byte order")),
        };
        let len = self.order([len[0], len[1], len[2], len[3]]);
        if len < 28 {
            return Err(CaptureError::BlockLength(len));
        }
        self.read(len - 12)?;
        self.check_end(len)?;
        if self.u16(0) != 1 {
            return Err(CaptureError::Block("pcapng of a major version other than 1"));
        }
        self.interfaces.clear();
        Ok(())
    }

    /// Reads the rest of a block whose type has been read. Stores the body of the block in `block`.
    fn read_block(&mut self) -> Result<(), CaptureError> {
        let mut len = [0; 4];
        self.input.read_exact(&mut len)?;
        let len = self.order(len);
        if len < 12 || !len.is_multiple_of(4) {
            return Err(CaptureError::BlockLength(len));
        }
        self.read(len - 8)?;
        self.check_end(len)
    }

    /// Removes the length at the end of a block, which must equal `len`, the length at the beginning of the block.
    fn check_end(&mut self, len: u32) -> Result<(), CaptureError> {
        let body = self.block.len() - 4;
        if self.u32(body) != len {
            return Err(CaptureError::Block("the two lengths of a block differ"));
        }
        self.block.truncate(body);
        Ok(())
    }

    fn add_interface(&mut self) -> Result<(), CaptureError> {
        if self.block.len() < 8 || self.interfaces.len() == MAX_INTERFACES {
            return Err(CaptureError::Block("interface description"));
        }
        let mut interface = Interface {
            link: LinkType::from_number(self.u16(0)),
            per_second: 1_000_000,
            offset: 0,
            snap: self.u32(4),
        };
        for (code, value) in self.options(8) {
            match (code, value) {
                (RESOLUTION, &[power]) => {
                    let (base, power) = if power < 128 { (10u64, power) } else { (2, power - 128) };
                    let per_second = base.checked_pow(u32::from(power));
                    interface.per_second = per_second.ok_or(CaptureError::Block("time resolution"))?;
                }
                (OFFSET, &[a, b, c, d, e, f, g, h]) => {
                    let bytes = [a, b, c, d, e, f, g, h];
                    interface.offset =
                        if self.big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) };
                }
                _ => {}
            }
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// Parses an enhanced packet block or its predecessor, the packet block.
    fn packet(&self, kind: u32) -> Result<Record<'_>, CaptureError> {
        const FIXED: usize = 20;
        if self.block.len() < FIXED {
            return Err(CaptureError::Block("packet block without its header"));
        }
        let number = if kind == OLD_PACKET { u32::from(self.u16(0)) } else { self.u32(0) };
        let interface = self.interface(number)?;
        let (len, original_len) = (self.u32(12), self.u32(16));
        let end = FIXED.saturating_add(len as usize);
        let Some(frame) = self.block.get(FIXED..end) else {
            return Err(CaptureError::Block("packet longer than its block"));
        };
        let units = u64::from(self.u32(4)) << 32 | u64::from(self.u32(8));
        let mut options = self.options(end.next_multiple_of(4));
        let comment = options.find(|(code, _)| *code == COMMENT).map(|(_, text)| text);
        Ok(Record {
            nanos: interface.nanos(units),
            interface: number,
            link: interface.link,
            frame,
            original_len,
            comment: comment.and_then(|text| std::str::from_utf8(text).ok()),
        })
    }

    /// Parses a simple packet block, which has a packet of the first interface without a timestamp.
    fn simple_packet(&self) -> Result<Record<'_>, CaptureError> {
        let interface = self.interface(0)?;
        if self.block.len() < 4 {
            return Err(CaptureError::Block("packet block without its header"));
        }
        let original_len = self.u32(0);
        let captured_len = if interface.snap == 0 { original_len } else { original_len.min(interface.snap) };
        let Some(frame) = self.block[4..].get(..captured_len as usize) else {
            return Err(CaptureError::Block("packet longer than its block"));
        };
        Ok(Record { nanos: 0, interface: 0, link: interface.link, frame, original_len, comment: None })
    }

    fn interface(&self, interface: u32) -> Result<&Interface, CaptureError> {
        self.interfaces
            .get(interface as usize)
            .ok_or(CaptureError::Block("packet of an interface without a description"))
    }

    /// Returns the codes and values of the options from offset `at` of the block, up to the first unreadable option.
    fn options(&self, mut at: usize) -> impl Iterator<Item = (u16, &[u8])> {
        std::iter::from_fn(move || {
            if self.block.len() < at.checked_add(4)? {
                return None;
            }
            let (code, len) = (self.u16(at), usize::from(self.u16(at + 2)));
            let value = self.block.get(at + 4..at + 4 + len)?;
            at += 4 + len.next_multiple_of(4);
            (code != END_OF_OPTIONS).then_some((code, value))
        })
    }

    /// Fills `block` with the next `len` bytes.
    fn read(&mut self, len: u32) -> Result<(), CaptureError> {
        if len > MAX_BLOCK {
            return Err(CaptureError::BlockLength(len));
        }
        // The allocated memory depends on the bytes that are present, not on the length field.
        self.block.clear();
        let read = self.input.by_ref().take(u64::from(len)).read_to_end(&mut self.block)?;
        if read < len as usize { Err(CaptureError::Truncated) } else { Ok(()) }
    }

    /// Fills `bytes` from the input. Returns false if the input ends before the first byte.
    fn read_or_end(&mut self, bytes: &mut [u8]) -> Result<bool, CaptureError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(CaptureError::Truncated),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn u32(&self, at: usize) -> u32 {
        let b = &self.block[at..at + 4];
        self.order([b[0], b[1], b[2], b[3]])
    }

    fn u16(&self, at: usize) -> u16 {
        let bytes = [self.block[at], self.block[at + 1]];
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn order(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

impl Interface {
    /// Converts a timestamp to nanoseconds since 1970. Times out of range saturate.
    fn nanos(&self, units: u64) -> i64 {
        let nanos = u128::from(units) * 1_000_000_000 / u128::from(self.per_second);
        let offset = i128::from(self.offset) * 1_000_000_000;
        i64::try_from(nanos as i128 + offset).unwrap_or(if self.offset < 0 { i64::MIN } else { i64::MAX })
    }
}
