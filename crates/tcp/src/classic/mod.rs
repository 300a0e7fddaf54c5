//! The senders of ns-2 and of the papers: Tahoe, Reno, NewReno and ns-2's Sack1.
//!
//! They are closed: traces of ns-2 hold every packet of theirs, and what TCP has learned since is in [`crate::modern`].

pub mod recovery;
mod sender;

pub use sender::Sender;
