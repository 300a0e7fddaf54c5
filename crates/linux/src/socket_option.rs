//! Reading and writing of socket options as plain bytes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets a socket option to the bytes `value` (setsockopt(2)).
pub fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of the value.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the first `N` bytes of a socket option (getsockopt(2)). Bytes that the kernel does not write are zero.
pub fn get<const N: usize>(socket: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<[u8; N]> {
    let (mut value, mut len) = ([0; N], N as libc::socklen_t);
    let into = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `N` bytes of the value.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, into, &raw mut len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
