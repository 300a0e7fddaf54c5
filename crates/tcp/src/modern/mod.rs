//! The sender of today: SACK by RFC 6675, a record of every segment that is out, any controller, a rule about windows that are
//! not used, and pacing by rate.

mod ledger;
pub mod rack;
mod sack;
mod sender;
mod stream;

pub use ledger::{Ledger, Sample};
pub use sack::Sack;
pub use sender::Sender;
