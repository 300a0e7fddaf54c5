//! Network emulator: the data path of the simulator, driven by the wall clock, with devices of the kernel at its edges.

#![forbid(unsafe_code)]

mod codec;
pub mod congestion;
pub mod control;
pub mod datapath;
pub mod emulate;
pub mod external;
pub mod link;
pub mod mark;
pub mod observe;
pub mod router;
pub mod socket;
pub mod timing;
