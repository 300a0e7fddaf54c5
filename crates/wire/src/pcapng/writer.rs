use super::{
    BYTE_ORDER, COMMENT, END_OF_OPTIONS, ENHANCED_PACKET, INTERFACE, LinkType, NAME, RESOLUTION,
    SECTION_HEADER,
};
use catnip_base::{Span, Time};
use std::io::{self, Write};

/// Writer of pcapng captures with timestamps in nanoseconds and a comment for each packet.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// Time from 1970 to the beginning of the run.
    epoch_offset: Span,
    interfaces: u32,
    /// Block under construction.
    block: Vec<u8>,
}

/// Identifier of an interface in a capture: the point at which packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId(u32);

impl<W: Write> Writer<W> {
    /// Begins a capture. `epoch_offset` is the time from 1970 to the beginning of the run, zero in a simulation.
    pub fn new(out: W, epoch_offset: Span) -> io::Result<Self> {
        let mut writer = Self { out, epoch_offset, interfaces: 0, block: Vec::new() };
        writer.begin(SECTION_HEADER);
        writer.u32(BYTE_ORDER);
        // Version 1.0 and a section of unspecified length.
        writer.block.extend_from_slice(&[1, 0, 0, 0]);
        writer.block.extend_from_slice(&u64::MAX.to_le_bytes());
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface for raw IP packets. The format allows any number of interfaces. However, tcpdump reads only captures with a single
    /// interface, because libpcap (1.10) assumes that a second raw IP interface has another link type.
    pub fn interface(&mut self, name: &str) -> io::Result<InterfaceId> {
        self.interface_of(LinkType::Raw, name)
    }

    /// Adds an interface for packets of this link type.
    pub fn interface_of(&mut self, link: LinkType, name: &str) -> io::Result<InterfaceId> {
        self.begin(INTERFACE);
        self.u32(u32::from(link.number()));
        // No limit on the length of packets.
        self.u32(0);
        self.option(NAME, name.as_bytes());
        self.option(RESOLUTION, &[9]);
        self.option(END_OF_OPTIONS, &[]);
        self.end()?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces - 1))
    }

    /// Adds a packet that interface `interface` captured at `at`. An empty comment is omitted.
    pub fn packet(
        &mut self,
        at: Time,
        interface: InterfaceId,
        packet: &[u8],
        comment: &str,
    ) -> io::Result<()> {
        self.packet_of(at, interface, packet, 0, comment)
    }

    /// Adds a packet of which only the beginning may be written. Its length on the wire is `wire_bytes`.
    pub fn packet_of(
        &mut self,
        at: Time,
        interface: InterfaceId,
        packet: &[u8],
        wire_bytes: u32,
        comment: &str,
    ) -> io::Result<()> {
        let nanos = (at + self.epoch_offset).as_nanos();
        let len = u32::try_from(packet.len()).map_err(io::Error::other)?;
        self.begin(ENHANCED_PACKET);
        self.u32(interface.0);
        self.u32((nanos >> 32) as u32);
        self.u32(nanos as u32);
        self.u32(len);
        self.u32(len.max(wire_bytes));
        self.block.extend_from_slice(packet);
        self.pad();
        if !comment.is_empty() {
            self.option(COMMENT, comment.as_bytes());
            self.option(END_OF_OPTIONS, &[]);
        }
        self.end()
    }

    /// Flushes the capture and returns the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0);
    }

    /// Sets the length at both ends of the block and writes the block.
    fn end(&mut self) -> io::Result<()> {
        let len = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&len);
        self.block.extend_from_slice(&len);
        self.out.write_all(&self.block)
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds an option. A value too long for its length field is truncated.
    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }
}
