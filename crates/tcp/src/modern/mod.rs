//! Senders of current standards and of Linux: SACK by RFC 6675 or RACK, a record of every segment in flight, any controller, congestion
//! window validation, and pacing by rate.

mod ledger;
pub mod rack;
mod sack;
mod sender;
mod stream;

pub use ledger::{Ledger, Sample};
pub use sack::Sack;
pub use sender::Sender;
