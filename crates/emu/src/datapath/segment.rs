//! Software completion of the offloads of received frames: computation of missing checksums, and segmentation of frames much longer than
//! the MTU (TSO, GSO, and the result of GRO). Emulated links then carry the packets that a wire would carry.

use catnip_wire::checksum::{Sum, checksum};
use catnip_wire::ip::{Ip, TCP, UDP, Version};
use catnip_wire::{Tcp, Udp};
use std::net::IpAddr;

/// Length of the header that the kernel puts in front of a frame (`struct virtio_net_hdr`), bytes.
pub const HEADER: usize = catnip_linux::sys::VIRTUAL_HEADER;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Flag in the type of segmentation for TCP connections with ECN (`VIRTIO_NET_HDR_GSO_ECN`).
const ECN: u8 = 0x80;

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;
const UDP_HEADER: usize = 8;

/// Checksum and segmentation that a received frame still needs, from its `virtio_net_hdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    flags: u8,
    kind: u8,
    /// Number of payload bytes in each packet after segmentation.
    size: usize,
    checksum_start: usize,
    checksum_offset: usize,
}

impl Offloads {
    /// Parses the `virtio_net_hdr` in front of a frame.
    pub fn read(header: &[u8; HEADER]) -> Self {
        let word = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        Self {
            flags: header[0],
            kind: header[1] & !ECN,
            size: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    /// Returns true if the frame must be segmented into several packets.
    pub fn is_super_frame(&self) -> bool {
        self.kind != GSO_NONE
    }

    /// Computes the checksum of a frame of one packet, if it is missing. `shift` bytes were inserted before the beginning of the
    /// checksummed part. Returns false if the offsets are invalid.
    pub fn complete_checksum(&self, frame: &mut [u8], shift: usize) -> bool {
        if self.flags & NEEDS_CHECKSUM == 0 {
            return true;
        }
        let start = self.checksum_start + shift;
        let at = start + self.checksum_offset;
        if start > frame.len() || at + 2 > frame.len() {
            return false;
        }
        // The checksum field already contains the sum of the pseudo-header.
        let sum = match checksum(&frame[start..]) {
            0 => 0xffff,
            sum => sum,
        };
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        true
    }

    /// Returns the segmentation of a frame whose IP packet begins at the offset `ip_at`; `None` if the frame contradicts its
    /// `virtio_net_hdr`.
    pub fn segmentation(&self, frame: &[u8], ip_at: usize) -> Option<Segmentation> {
        let ip = Ip::parse(frame.get(ip_at..)?).ok()?;
        let (protocol, transport) = match (self.kind, ip.version(), ip.protocol()) {
            (GSO_TCP_V4, Version::V4, TCP) | (GSO_TCP_V6, Version::V6, TCP) => {
                (TCP, Tcp::parse(ip.transport(TCP).ok()?).ok()?.header_len())
            }
            (GSO_UDP_L4, _, UDP) => {
                Udp::parse(ip.transport(UDP).ok()?).ok()?;
                (UDP, UDP_HEADER)
            }
            _ => return None,
        };
        let headers = ip_at + ip.header_len() + transport;
        let end = ip_at + ip.total_len();
        let count = (end - headers).div_ceil(self.size.max(1)).max(1);
        (self.size > 0).then_some(Segmentation {
            ip_at,
            ip_len: ip.header_len(),
            version: ip.version(),
            addresses: (ip.source(), ip.destination()),
            protocol,
            headers,
            size: self.size,
            end,
            count,
        })
    }
}

/// Parameters of the segmentation of a frame into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    ip_at: usize,
    ip_len: usize,
    version: Version,
    /// Source and destination IP addresses.
    addresses: (IpAddr, IpAddr),
    protocol: u8,
    /// Length of all headers before the payload, bytes.
    headers: usize,
    size: usize,
    /// Offset of the end of the payload in the frame.
    end: usize,
    /// Number of packets that result from the segmentation.
    pub count: usize,
}

impl Segmentation {
    /// Writes the packet with the index `number`, from 0, to `out` and returns its length; `None` if `out` is too small.
    pub fn packet(&self, frame: &[u8], number: usize, out: &mut [u8]) -> Option<usize> {
        let from = self.headers + number * self.size;
        let payload = frame.get(from..(from + self.size).min(self.end))?;
        let len = self.headers + payload.len();
        let out = out.get_mut(..len)?;
        out[..self.headers].copy_from_slice(&frame[..self.headers]);
        out[self.headers..].copy_from_slice(payload);
        let ip = &mut out[self.ip_at..];
        let write_u16 =
            |bytes: &mut [u8], at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        let total = ip.len() as u16;
        match self.version {
            Version::V4 => {
                write_u16(ip, 2, total);
                let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(number as u16);
                write_u16(ip, 4, id);
                write_u16(ip, 10, 0);
                let sum = checksum(&ip[..self.ip_len]);
                write_u16(ip, 10, sum);
            }
            Version::V6 => write_u16(ip, 4, total - 40),
        }
        let transport = &mut ip[self.ip_len..];
        let len_of_transport = transport.len();
        let field = match self.protocol {
            TCP => {
                let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
                let sequence = sequence.wrapping_add((number * self.size) as u32);
                transport[4..8].copy_from_slice(&sequence.to_be_bytes());
                if number + 1 < self.count {
                    transport[13] &= !FIN_PSH;
                }
                if number > 0 {
                    transport[13] &= !CWR;
                }
                16
            }
            _ => {
                write_u16(transport, 4, len_of_transport as u16);
                6
            }
        };
        write_u16(transport, field, 0);
        let (source, destination) = self.addresses;
        let sum = Sum::default().pseudo_header(source, destination, self.protocol, len_of_transport);
        let sum = match sum.bytes(transport).checksum() {
            0 if self.protocol == UDP => 0xffff,
            sum => sum,
        };
        write_u16(transport, field, sum);
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_wire::has_valid_transport_checksum;
    use proptest::prelude::*;

    fn header(kind: u8, size: u16) -> Offloads {
        let mut header = [0; HEADER];
        (header[0], header[1]) = (NEEDS_CHECKSUM, kind);
        header[4..6].copy_from_slice(&size.to_ne_bytes());
        Offloads::read(&header)
    }

    /// Returns an Ethernet frame with `payload` bytes of payload and wrong checksums.
    fn frame(version: Version, protocol: u8, payload: usize) -> Vec<u8> {
        let transport = if protocol == TCP { 20 } else { 8 };
        let mut frame = vec![0; 14];
        let len = transport + payload;
        match version {
            Version::V4 => {
                let mut ip = [0; 20];
                (ip[0], ip[8], ip[9]) = (0x45, 64, protocol);
                ip[2..4].copy_from_slice(&((20 + len) as u16).to_be_bytes());
                ip[4..6].copy_from_slice(&[0xff, 0xff]);
                ip[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
                frame.extend_from_slice(&ip);
            }
            Version::V6 => {
                let mut ip = [0; 40];
                (ip[0], ip[6], ip[7], ip[8], ip[24]) = (0x60, protocol, 64, 0xfd, 0xfd);
                ip[4..6].copy_from_slice(&(len as u16).to_be_bytes());
                frame.extend_from_slice(&ip);
            }
        }
        let start = frame.len();
        frame.resize(start + len, 0);
        if protocol == TCP {
            frame[start + 4..start + 8].copy_from_slice(&0xffff_fff0_u32.to_be_bytes());
            (frame[start + 12], frame[start + 13]) = (5 << 4, 0x10 | FIN_PSH | CWR);
        } else {
            frame[start + 4..start + 6].copy_from_slice(&(len as u16).to_be_bytes());
        }
        let payload = &mut frame[start + transport..];
        payload.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 7 / 3) as u8);
        frame
    }

    proptest! {
        #[test]
        fn packets_of_a_cut_frame_are_right_and_carry_its_bytes(
            v6: bool,
            tcp: bool,
            payload in 1usize..5000,
            size in 1u16..1500,
        ) {
            let version = if v6 { Version::V6 } else { Version::V4 };
            let (protocol, kind) = match (tcp, v6) {
                (true, false) => (TCP, GSO_TCP_V4),
                (true, true) => (TCP, GSO_TCP_V6),
                (false, _) => (UDP, GSO_UDP_L4),
            };
            let super_frame = frame(version, protocol, payload);
            let segmentation = header(kind, size).segmentation(&super_frame, 14).unwrap();
            prop_assert_eq!(segmentation.count, payload.div_ceil(usize::from(size)));
            let mut carried = Vec::new();
            let mut out = [0; 2000];
            for number in 0..segmentation.count {
                let len = segmentation.packet(&super_frame, number, &mut out).unwrap();
                let ip = Ip::parse(&out[14..len]).unwrap();
                prop_assert_eq!(ip.padding(), 0);
                prop_assert!(ip.has_valid_header_checksum());
                prop_assert_eq!(has_valid_transport_checksum(&ip), Ok(true));
                if tcp {
                    let segment = Tcp::parse(ip.payload()).unwrap();
                    let expected = 0xffff_fff0_u32.wrapping_add(carried.len() as u32);
                    prop_assert_eq!(segment.sequence(), expected);
                    let (first, last) = (number == 0, number + 1 == segmentation.count);
                    prop_assert_eq!(ip.payload()[13] & FIN_PSH, if last { FIN_PSH } else { 0 });
                    prop_assert_eq!(ip.payload()[13] & CWR, if first { CWR } else { 0 });
                    carried.extend_from_slice(segment.payload());
                } else {
                    carried.extend_from_slice(Udp::parse(ip.payload()).unwrap().payload());
                }
            }
            prop_assert_eq!(&carried[..], &super_frame[super_frame.len() - payload..]);
        }

        #[test]
        fn arbitrary_frames_never_panic(
            header in any::<[u8; HEADER]>(),
            mut frame in prop::collection::vec(any::<u8>(), 0..200),
            is_valid: bool,
        ) {
            if is_valid {
                let start = [0; 14].into_iter().chain([0x45]);
                frame = start.chain(frame).collect();
            }
            let offloads = Offloads::read(&header);
            if let Some(segmentation) = offloads.segmentation(&frame, 14) {
                let mut out = [0; 2000];
                (0..segmentation.count).for_each(|number| {
                    segmentation.packet(&frame, number, &mut out);
                });
            }
            offloads.complete_checksum(&mut frame, 0);
        }
    }

    #[test]
    fn a_checksum_is_filled_in() {
        let mut super_frame = frame(Version::V4, TCP, 100);
        let mut header = [0; HEADER];
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        header[8..10].copy_from_slice(&16_u16.to_ne_bytes());
        let ip = Ip::parse(&super_frame[14..]).unwrap();
        let sum = Sum::default().pseudo_header(ip.source(), ip.destination(), TCP, 120).folded();
        super_frame[50..52].copy_from_slice(&sum.to_be_bytes());
        assert!(Offloads::read(&header).complete_checksum(&mut super_frame, 0));
        assert_eq!(has_valid_transport_checksum(&Ip::parse(&super_frame[14..]).unwrap()), Ok(true));
        assert!(!Offloads::read(&header).complete_checksum(&mut super_frame[..50], 0));
    }
}
