//! What our programs ask of a Linux kernel.

#![forbid(unsafe_code)]

pub mod netlink;
