//! Interfaces to Linux for the emulator, the agent and applications: clocks, devices, namespaces, processes, users, addresses, socket
//! options. This crate contains all clocks of the toolkit, and all unsafe code except generated code, the allocator of the Python module,
//! and tests.

#[cfg(feature = "host")]
pub mod address;
#[cfg(feature = "host")]
pub mod clock;
#[cfg(feature = "host")]
pub mod dns;
#[cfg(feature = "host")]
pub mod file_lock;
#[cfg(feature = "host")]
pub mod namespace;
#[cfg(feature = "host")]
pub mod nat;
#[cfg(feature = "host")]
pub mod netlink;
#[cfg(feature = "host")]
pub mod pid_namespace;
#[cfg(feature = "host")]
pub mod private_folder;
pub mod socket_option;
#[cfg(feature = "host")]
pub mod sys;
#[cfg(feature = "host")]
pub mod terminal;
#[cfg(feature = "host")]
pub mod timer_wheel;
#[cfg(feature = "host")]
pub mod tun;
#[cfg(feature = "host")]
pub mod user;
