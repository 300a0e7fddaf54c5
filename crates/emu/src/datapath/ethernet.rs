//! Existing Ethernet interfaces as the edges of a network.

use catnip_linux::clock::Stopwatch;

use crate::datapath::segment::{HEADER, Offloads, Segmentation};
use catnip_base::Time;
use catnip_linux::sys::{self, Frame};
use catnip_linux::tun::{PacketIo, Read};
use catnip_wire::Ip;
use catnip_wire::pcapng::LinkType;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Largest length of the header in front of the IP packet, with two VLAN tags, bytes.
pub const MAX_HEADER: usize = 22;
/// Largest frame with segmentation offload, with a VLAN tag, bytes.
const MAX_FRAME: usize = HEADER + (1 << 16) + MAX_HEADER;

const ICMP_V6: u8 = 58;
const ROUTER_SOLICITATION: u8 = 133;
const REDIRECT: u8 = 137;

/// Interface whose received frames are all read, regardless of their destination. Frames that the interface sends are not read. The
/// interface is promiscuous during the lifetime of this value, and otherwise unchanged.
///
/// Frames of several packets are segmented, missing checksums are computed, and VLAN tags that the kernel has removed are inserted again,
/// so that the frames read are those on the wire.
#[derive(Debug)]
pub struct Ethernet {
    fd: OwnedFd,
    stopwatch: Stopwatch,
    /// `virtio_net_hdr`, followed by the last frame that was read.
    frame: Box<[u8]>,
    len: usize,
    /// State of the segmentation of `frame`: its parameters, the times of the frame, and the index of the next packet. `None` if no packets
    /// remain.
    segmenting: Option<(Segmentation, Times, usize)>,
    missed: u64,
    broken: u64,
}

/// Time at which a frame was read, and its arrival time if the kernel reports it.
type Times = (Time, Option<Time>);

impl Ethernet {
    /// Opens the interface with the interface index `index` in the network namespace of this thread. The times of packets are read from
    /// `stopwatch`.
    pub fn open(index: u32, stopwatch: Stopwatch) -> io::Result<Self> {
        let fd = sys::open_interface(index)?;
        let frame = vec![0; MAX_FRAME].into_boxed_slice();
        Ok(Self { fd, stopwatch, frame, len: 0, segmenting: None, missed: 0, broken: 0 })
    }

    /// Returns the number of frames that the kernel has dropped because this program did not read them in time.
    pub fn missed(&mut self) -> u64 {
        self.missed += u64::from(sys::frames_missed(self.fd.as_fd()).unwrap_or(0));
        self.missed
    }

    /// Returns the number of malformed frames, which no wire could have carried.
    pub fn broken(&self) -> u64 {
        self.broken
    }

    /// Writes the next packet of the frame that is being segmented to `buffer`. Returns `None` if no packet remains.
    fn next_segment(&mut self, buffer: &mut [u8]) -> Option<Read> {
        let (segmentation, (at, arrived_at), number) = self.segmenting?;
        self.segmenting =
            (number + 1 < segmentation.count).then_some((segmentation, (at, arrived_at), number + 1));
        let len = segmentation.packet(&self.frame[HEADER..HEADER + self.len], number, buffer);
        // A packet too long for the buffer is too long for the network.
        Some(Read { at, arrived_at, len: len.unwrap_or(buffer.len()) })
    }

    /// Reads the next valid frame into `self.frame`. Returns its times, or `None` if no frame is available.
    fn read(&mut self) -> io::Result<Option<Times>> {
        loop {
            // Space for a VLAN tag is left at the end, because inserting the tag moves the rest of the frame.
            let max_len = MAX_FRAME - 4;
            match sys::read_frame(self.fd.as_fd(), &mut self.frame[..max_len]) {
                Ok(Frame { len, tag, age }) if (HEADER + 14..=max_len).contains(&len) => {
                    let at = self.stopwatch.now();
                    let arrived_at =
                        age.map(|age| Time::from_nanos(at.as_nanos().saturating_sub(age.as_nanos())));
                    self.len = len - HEADER;
                    let shift = tag.map_or(0, |tag| self.insert_tag(tag));
                    let mut header = [0; HEADER];
                    header.copy_from_slice(&self.frame[..HEADER]);
                    let offloads = Offloads::read(&header);
                    let frame = &mut self.frame[HEADER..HEADER + self.len];
                    let is_valid = if offloads.is_super_frame() {
                        let segmentation = ip_in(frame).and_then(|ip_at| offloads.segmentation(frame, ip_at));
                        self.segmenting =
                            segmentation.map(|segmentation| (segmentation, (at, arrived_at), 0));
                        segmentation.is_some()
                    } else {
                        offloads.complete_checksum(frame, shift)
                    };
                    if is_valid {
                        return Ok(Some((at, arrived_at)));
                    }
                    self.broken += 1;
                }
                Ok(_) => self.broken += 1,
                Err(error) => match (error.kind(), error.raw_os_error()) {
                    (io::ErrorKind::WouldBlock, _) => return Ok(None),
                    (io::ErrorKind::Interrupted, _) => {}
                    // The interface was taken down and may come up again.
                    (_, Some(libc::ENETDOWN)) => return Ok(None),
                    // The kernel cannot describe the offloads of this frame.
                    (_, Some(libc::EINVAL)) => self.broken += 1,
                    _ => return Err(error),
                },
            }
        }
    }

    /// Inserts a VLAN tag after the MAC addresses of the frame. Returns the number of bytes by which the rest of the frame was moved.
    fn insert_tag(&mut self, tag: [u8; 4]) -> usize {
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
        if let Some(packet) = self.next_segment(buffer) {
            return Ok(Some(packet));
        }
        let Some((at, arrived_at)) = self.read()? else { return Ok(None) };
        if let Some(packet) = self.next_segment(buffer) {
            return Ok(Some(packet));
        }
        let len = self.len.min(buffer.len());
        buffer[..len].copy_from_slice(&self.frame[HEADER..HEADER + len]);
        Ok(Some(Read { at, arrived_at, len }))
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        // The virtual header requests no offloads.
        let parts = [&[0; HEADER], packet].map(IoSlice::new);
        Ok(rustix::io::writev(&self.fd, &parts).map(|_| ())?)
    }

    fn ip_at(&self, frame: &[u8]) -> Option<usize> {
        ip_at(frame)
    }
}

/// Returns the offset of the IP packet in a frame; `None` if the frame must be forwarded at once, because it has no IP packet or is part of
/// IPv6 neighbour discovery. Loss of ARP or neighbour discovery on a full or lossy link would make hosts unreachable.
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
