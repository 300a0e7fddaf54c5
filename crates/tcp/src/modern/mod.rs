//! Senders of current standards and of Linux: loss recovery by RFC 6675, by NewReno (RFC 6582) or by RACK, a record of every segment in
//! flight, any controller, congestion window validation, and pacing by rate.

pub mod rack;
mod sack;
mod sender;
mod sent_segments;
mod stream;

pub use sack::Sack;
pub use sender::Sender;
pub use sent_segments::{Sample, SentSegments};
