//! TCP as state machines without I/O. The inputs are segments, data to send and the time. The outputs are segments to send and the time of
//! the next call.
//!
//! Three mechanisms are separate: loss recovery ([`recovery`]) selects what to retransmit, congestion control ([`control`]) sets how cwnd
//! grows and shrinks, and pacing ([`pacing`]) sets when a segment is sent. A [`TcpConfig`] has a choice of each; a named profile of
//! [`profile`] has all parameters of a configuration. The senders have a common interface: [`classic`] has the sender of ns-2 and of the
//! papers, [`modern`] has the senders of current standards and Linux. The choice of loss recovery selects the sender.

#![forbid(unsafe_code)]

pub mod classic;
mod config;
pub mod control;
mod ecn;
mod ecn_state;
mod endpoint;
mod linux_acks;
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
mod timer_wheel;
mod timestamps;
mod transmission;

pub use config::{DelayedAck, InitialSsthresh, MAX_WINDOW_SCALE, RtoConfig, TcpConfig};
pub use control::Halving;
pub use ecn::EcnKind;
pub use endpoint::{Endpoint, Outgoing, Role};
pub use receiver::Receiver;
pub use rto::Rto;
pub use scoreboard::Scoreboard;
pub use segment::{EcnBits, Flags, SackBlocks, Segment, Timestamps};
pub use sender::Sender;
pub use transmission::SenderStats;
