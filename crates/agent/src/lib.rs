//! CATNIP endpoint on Linux: kernel programs mark the outgoing packets of a host, receive information about documents from applications,
//! and control congestion. All of this ends with the process of the agent.

// Unsafe code is permitted only in the module that is generated from the kernel programs.
#![deny(unsafe_code)]

pub mod check;
pub mod kernel;
pub mod policy;
pub mod segments;
pub mod serve;
pub mod settings;
pub mod state;
pub mod statistics;
pub mod users;
pub mod windows;

#[allow(unsafe_code, clippy::all, missing_docs, unreachable_pub, non_camel_case_types, dead_code)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/agent.skel.rs"));
}
