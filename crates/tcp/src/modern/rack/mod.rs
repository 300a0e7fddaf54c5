//! Loss recovery by time: RACK-TLP (RFC 8985), proportional rate reduction (RFC 6937), F-RTO (RFC 5682) and the undoing of cuts
//! that were wrong (RFC 3522, 4015), put together in the states that Linux has.
//!
//! Windows and what is out are counted in segments, as Linux does; a short one counts as a full one.

mod flight;
mod prr;
mod rate;
mod reordering;
mod round_trip;
mod sender;
mod undo;
mod usage;

pub use sender::Sender;
