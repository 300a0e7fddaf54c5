//! Existing Ethernet interfaces as the edges of a network.

use catnip_linux::clock::Stopwatch;

use crate::datapath::segment::{Cut, HEADER, Unfinished};
use catnip_base::Time;
use catnip_linux::sys::{self, Frame};
use catnip_linux::tun::{PacketIo, Read};
use catnip_wire::Ip;
use catnip_wire::pcapng::LinkType;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes in front of the IP packet, two VLAN tags included.
pub const LONGEST_HEADER: usize = 22;
/// The largest frame that a host leaves to its network card to cut, and a tag.
const LARGEST_FRAME: usize = HEADER + (1 << 16) + LONGEST_HEADER;

const ICMP_V6: u8 = 58;
const ROUTER_SOLICITATION: u8 = 133;
const REDIRECT: u8 = 137;

/// An interface whose frames are all read, whoever they are for, those that it sends left out. It is promiscuous as
/// long as this lives; nothing else is changed.
///
/// Frames that stand for many packets are cut, missing checksums are filled in, tags that the kernel has taken out
/// are put back: what is read is what was on the wire.
#[derive(Debug)]
pub struct Ethernet {
    fd: OwnedFd,
    stopwatch: Stopwatch,
    /// The virtual header, then the frame.
    frame: Box<[u8]>,
    len: usize,
    /// A frame that is being cut, when it was read and when it came, and the next packet.
    cutting: Option<(Cut, Times, usize)>,
    missed: u64,
    broken: u64,
}

/// When a frame was read, and when it came, if the kernel has said so.
type Times = (Time, Option<Time>);

impl Ethernet {
    /// Opens the interface with this number in the network namespace of this thread.
    pub fn open(index: u32, stopwatch: Stopwatch) -> io::Result<Self> {
        let fd = sys::open_interface(index)?;
        let frame = vec![0; LARGEST_FRAME].into_boxed_slice();
        Ok(Self { fd, stopwatch, frame, len: 0, cutting: None, missed: 0, broken: 0 })
    }

    /// Frames that the kernel has dropped because they were not read in time.
    pub fn missed(&mut self) -> u64 {
        self.missed += u64::from(sys::frames_missed(self.fd.as_fd()).unwrap_or(0));
        self.missed
    }

    /// Frames that no wire could have carried.
    pub fn broken(&self) -> u64 {
        self.broken
    }

    /// The next packet of the frame that is being cut.
    fn cut(&mut self, buffer: &mut [u8]) -> Option<Read> {
        let (cut, (at, came), number) = self.cutting?;
        self.cutting = (number + 1 < cut.count).then_some((cut, (at, came), number + 1));
        let len = cut.packet(&self.frame[HEADER..HEADER + self.len], number, buffer);
        // One that is too long for the buffer is too long for the network.
        Some(Read { at, came, len: len.unwrap_or(buffer.len()) })
    }

    /// Reads a frame to the middle of its buffer.
    fn read(&mut self) -> io::Result<Option<Times>> {
        loop {
            // A tag needs room in front of the type, so the frame is moved up later.
            let room = LARGEST_FRAME - 4;
            match sys::read_frame(self.fd.as_fd(), &mut self.frame[..room]) {
                Ok(Frame { len, tag, age }) if (HEADER + 14..=room).contains(&len) => {
                    let at = self.stopwatch.now();
                    let came = age.map(|age| Time::from_nanos(at.as_nanos().saturating_sub(age.as_nanos())));
                    self.len = len - HEADER;
                    let moved = tag.map_or(0, |tag| self.put_back(tag));
                    let mut header = [0; HEADER];
                    header.copy_from_slice(&self.frame[..HEADER]);
                    let unfinished = Unfinished::read(&header);
                    let frame = &mut self.frame[HEADER..HEADER + self.len];
                    let whole = if unfinished.is_super() {
                        let cut = ip_in(frame).and_then(|ip_at| unfinished.cut(frame, ip_at));
                        self.cutting = cut.map(|cut| (cut, (at, came), 0));
                        cut.is_some()
                    } else {
                        unfinished.finish(frame, moved)
                    };
                    if whole {
                        return Ok(Some((at, came)));
                    }
                    self.broken += 1;
                }
                Ok(_) => self.broken += 1,
                Err(error) => match (error.kind(), error.raw_os_error()) {
                    (io::ErrorKind::WouldBlock, _) => return Ok(None),
                    (io::ErrorKind::Interrupted, _) => {}
                    // It was taken down; it may come back.
                    (_, Some(libc::ENETDOWN)) => return Ok(None),
                    // The kernel cannot say what is left to do for this frame.
                    (_, Some(libc::EINVAL)) => self.broken += 1,
                    _ => return Err(error),
                },
            }
        }
    }

    /// Puts a VLAN tag back behind the addresses.
    fn put_back(&mut self, tag: [u8; 4]) -> usize {
        let at = HEADER + 12;
        self.frame.copy_within(at..HEADER + self.len, at + 4);
        self.frame[at..at + 4].copy_from_slice(&tag);
        self.len += 4;
        4
    }
}

impl AsFd for Ethernet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl PacketIo for Ethernet {
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<Read>> {
        if let Some(packet) = self.cut(buffer) {
            return Ok(Some(packet));
        }
        let Some((at, came)) = self.read()? else { return Ok(None) };
        if let Some(packet) = self.cut(buffer) {
            return Ok(Some(packet));
        }
        let len = self.len.min(buffer.len());
        buffer[..len].copy_from_slice(&self.frame[HEADER..HEADER + len]);
        Ok(Some(Read { at, came, len }))
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        // Nothing is left to do for the kernel.
        let parts = [&[0; HEADER], packet].map(IoSlice::new);
        Ok(rustix::io::writev(&self.fd, &parts).map(|_| ())?)
    }

    fn ip_at(&self, frame: &[u8]) -> Option<usize> {
        ip_at(frame)
    }
}

/// Where the IP packet begins in a frame; nothing if there is none that may wait. ARP and its IPv6 counterpart do not
/// wait: a full or lossy link would make hosts vanish.
pub fn ip_at(frame: &[u8]) -> Option<usize> {
    ip_in(frame).filter(|&at| !is_neighbour_discovery(&frame[at..]))
}

fn ip_in(frame: &[u8]) -> Option<usize> {
    let packet = LinkType::Ethernet.ip(frame)?;
    Some(frame.len() - packet.len())
}

fn is_neighbour_discovery(packet: &[u8]) -> bool {
    if packet.first().is_none_or(|first| first >> 4 != 6) {
        return false;
    }
    Ip::parse(packet).is_ok_and(|ip| {
        ip.transport(ICMP_V6).is_ok_and(|message| {
            message.first().is_some_and(|kind| (ROUTER_SOLICITATION..=REDIRECT).contains(kind))
        })
    })
}
