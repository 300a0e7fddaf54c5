//! The one call that libbpf-rs does not have yet. All unsafe code of the agent is here.

use libbpf_rs::{AsRawLibbpf, Link, ProgramMut};
use std::io;
use std::ptr::{self, NonNull};

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
