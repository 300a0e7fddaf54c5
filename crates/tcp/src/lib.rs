//! TCP as state machines without I/O: told of segments and time, they answer with segments to send and the time
//! at which they want to be asked again.
//!
//! Three questions are kept apart: what to resend ([`recovery`]), how fast to grow and how much to cut
//! ([`control`]), and when to put a segment on the wire ([`pacing`]). A [`TcpConfig`] combines an answer to each;
//! a named profile of [`profile`] gives all parameters at once. There are two senders with one contract: [`classic`] is
//! that of ns-2 and of the papers, [`modern`] that of today; the recovery decides.

#![forbid(unsafe_code)]

pub mod classic;
mod config;
pub mod control;
mod echo;
mod ecn;
mod endpoint;
mod messages;
pub mod modern;
pub mod pacing;
pub mod profile;
mod receive_window;
mod receiver;
pub mod recovery;
mod rto;
mod scoreboard;
mod segment;
mod sender;
#[cfg(test)]
mod testing;
mod timestamps;
mod transmission;

pub use config::{DelayedAck, InitialSsthresh, MAX_WINDOW_SCALE, RtoConfig, TcpConfig};
pub use control::Halving;
pub use ecn::EcnKind;
pub use endpoint::{Endpoint, Outgoing, Role};
pub use receiver::Receiver;
pub use rto::Rto;
pub use scoreboard::Scoreboard;
pub use segment::{EcnBits, Flags, SackBlocks, Segment, Stamps};
pub use sender::Sender;
pub use transmission::SenderStats;
