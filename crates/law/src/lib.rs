//! Control laws that both simulated hosts and the Linux kernel apply. Each law is integer arithmetic on plain numbers and has an equivalent
//! C header that calls no kernel functions (`crates/agent/bpf/law`). A test compares the results of both bit by bit.
//!
//! Times are in nanoseconds, congestion windows and stream offsets in bytes unless their names contain `segments`.

#![no_std]
#![forbid(unsafe_code)]

pub mod bucket;
pub mod eca;
pub mod last_window;
pub mod newcwv;
pub mod spm;
pub mod tcp_state;
