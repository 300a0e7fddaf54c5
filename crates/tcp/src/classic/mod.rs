//! Senders of ns-2 and of the papers: Tahoe, Reno, NewReno and ns-2's Sack1.
//!
//! Their behaviour is frozen, because traces of ns-2 verify each of their packets. Later TCP mechanisms are in [`crate::modern`].

pub mod recovery;
mod sender;

pub use sender::Sender;
