//! Laws that hold in two places: in simulated hosts, and in the kernel of a real one. Each is integer arithmetic on plain numbers and has a
//! twin, a header of C without calls into the kernel (`crates/agent/bpf/law`), which is compared with it bit by bit.
//!
//! Times are nanoseconds, windows and places in a stream are bytes unless their names say segments.

#![no_std]
#![forbid(unsafe_code)]

pub mod bucket;
pub mod eca;
pub mod last_window;
pub mod newcwv;
pub mod spm;
pub mod tcp_state;
