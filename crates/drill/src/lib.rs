//! Steps the simulated TCP and this machine's kernel by the same scripts, and says where they differ.
//!
//! Scripts are a part of packetdrill's language. A generator writes random ones: a simulated connection over a path that loses, delays and
//! marks packets decides what arrives and what is expected, and the kernel is stepped by the same arrivals.

#![forbid(unsafe_code)]

pub mod case;
pub mod kernel;
pub mod packet;
mod peer;
pub mod record;
pub mod script;
pub mod simulated;
