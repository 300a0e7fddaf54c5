//! The calls that no library has yet. All unsafe code of the agent is here.

use libbpf_rs::{AsRawLibbpf, Link, ProgramMut};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// The number by which the programs in the kernel know the network namespace of this thread.
pub(crate) fn network_cookie() -> io::Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let (mut cookie, mut len) = (0u64, size_of::<u64>() as libc::socklen_t);
    let value = (&raw mut cookie).cast();
    // SAFETY: the kernel writes so many bytes at most.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, value, &raw mut len)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}

/// Attaches a program to what leaves a device (TCX). It ends with the link.
pub(crate) fn attach_tcx(program: &ProgramMut<'_>, device: u32) -> io::Result<Link> {
    // SAFETY: the program is loaded and alive; without options none are read.
    let link = unsafe {
        libbpf_sys::bpf_program__attach_tcx(program.as_libbpf_object().as_ptr(), device as i32, ptr::null())
    };
    // libbpf says what went wrong in errno.
    let link = NonNull::new(link).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: libbpf gave this link to us alone.
    Ok(unsafe { Link::from_ptr(link) })
}
