//! Devices at the edge of an emulated network.

use crate::clock::Stopwatch;
use crate::sys;
use catnip_base::Time;
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// A packet that was read from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// When it was read; in the network it begins its way then.
    pub at: Time,
    /// When it came to the device, if the kernel says so.
    pub came: Option<Time>,
    /// Bytes of it in the buffer.
    pub len: usize,
}

/// A device at the edge of a network.
pub trait PacketIo: Debug {
    /// Reads one packet, or nothing if none has come. A packet longer than `buffer` is cut.
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<Read>>;
    /// Writes one packet.
    fn send(&mut self, packet: &[u8]) -> io::Result<()>;
    /// Where the IP packet begins in what was read; nothing if there is none, or one that must not wait.
    #[inline]
    fn ip_at(&self, _read: &[u8]) -> Option<usize> {
        Some(0)
    }
}

/// A TUN device.
#[derive(Clone, Debug)]
pub struct Tun {
    fd: Rc<OwnedFd>,
    stopwatch: Stopwatch,
    /// Bytes before each packet.
    header: usize,
}

impl Tun {
    /// A device that is open; packets are given the time of `stopwatch`.
    pub fn new(fd: OwnedFd, stopwatch: Stopwatch) -> Self {
        Self { fd: Rc::new(fd), stopwatch, header: 0 }
    }

    /// Packets have a virtual header in front, and go out with the one with which they came.
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
                Ok(len) => return Ok(Some(Read { at: self.stopwatch.now(), came: None, len })),
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
