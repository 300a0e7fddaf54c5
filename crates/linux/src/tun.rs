//! Devices through which packets enter and leave an emulated network.

use crate::clock::Stopwatch;
use crate::sys;
use catnip_base::Time;
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Times and length of a packet that was read from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Time of the read, at which the packet enters the network.
    pub at: Time,
    /// Time of arrival at the device; `None` if the kernel does not report it.
    pub arrived_at: Option<Time>,
    /// Length of the packet in the buffer, bytes.
    pub len: usize,
}

/// Device through which an emulated network exchanges packets with the kernel.
pub trait PacketIo: Debug {
    /// Reads one packet. Returns `None` if no packet is waiting. A packet longer than `buffer` is truncated.
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<Read>>;
    /// Writes one packet.
    fn send(&mut self, packet: &[u8]) -> io::Result<()>;
    /// Returns the offset of the IP packet in the data that was read; `None` if the data contains no IP packet, or a packet that must not
    /// be delayed.
    #[inline]
    fn ip_at(&self, _read: &[u8]) -> Option<usize> {
        Some(0)
    }
}

/// TUN device.
#[derive(Clone, Debug)]
pub struct Tun {
    fd: Rc<OwnedFd>,
    stopwatch: Stopwatch,
    /// Length of the header before each packet, bytes.
    header: usize,
}

impl Tun {
    /// Creates a TUN device from an open descriptor. The times of packets are read from `stopwatch`.
    pub fn new(fd: OwnedFd, stopwatch: Stopwatch) -> Self {
        Self { fd: Rc::new(fd), stopwatch, header: 0 }
    }

    /// Declares that each packet has a `virtio_net_hdr` in front. A packet is written with the header with which it was read.
    pub fn with_virtual_header(self) -> Self {
        Self { header: sys::VIRTUAL_HEADER, ..self }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (*self.fd).as_fd()
    }
}

impl PacketIo for Tun {
    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<Read>> {
        loop {
            match rustix::io::read(&*self.fd, &mut *buffer) {
                Ok(len) => return Ok(Some(Read { at: self.stopwatch.now(), arrived_at: None, len })),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error.into()),
                },
            }
        }
    }

    #[inline]
    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        Ok(rustix::io::write(&*self.fd, packet).map(|_| ())?)
    }

    #[inline]
    fn ip_at(&self, read: &[u8]) -> Option<usize> {
        (read.len() >= self.header).then_some(self.header)
    }
}
