//! Time-based loss recovery: RACK-TLP (RFC 8985), proportional rate reduction (RFC 6937), F-RTO (RFC 5682) and the undo of spurious
//! reductions (RFC 3522, 4015), combined in the congestion states of Linux.
//!
//! Windows and data in flight are counted in segments, as in Linux. A short segment counts as a full one.

mod cwnd_usage;
mod flight;
mod prr;
mod rate;
mod reordering;
mod rtt;
mod sender;
mod tso;
mod undo;

pub use sender::Sender;
