//! Application protocols between a simulated end of a connection and an external peer.

use crate::connection_info::ConnectionInfo;
use crate::message_stream::{Message, ReceivedMessage};
use crate::record::Reply;
use catnip_base::Time;

/// Application protocol of the simulated end of a connection with an external peer. It turns messages of the application into bytes, and
/// the bytes of the peer into events, where two simulated ends exchange the boundaries of messages through the engine.
pub trait Session {
    /// Writes a message of the application.
    fn send(&mut self, now: Time, message: Message, info: &ConnectionInfo) -> Written;
    /// Closes the sending direction.
    fn close(&mut self, now: Time);
    /// Requests [`SessionEvent::Progress`] once this number of bytes of the next message have arrived.
    fn notify(&mut self, bytes: u64);
    /// Returns the events that the last packet has caused, in order.
    fn events(&mut self, now: Time, info: &ConnectionInfo) -> Vec<SessionEvent>;
    /// Returns true if both directions are closed and everything is acknowledged, or if the connection was reset or given up.
    fn is_over(&self) -> bool;
    /// Returns true if the peer has reset the connection.
    fn was_reset(&self) -> bool;
    /// Ends the session. Returns the time until which the connection is kept to answer retransmissions, if it is kept.
    fn end(&mut self, now: Time) -> Option<Time>;
    /// Returns true if the connection is still kept to answer retransmissions.
    fn lingers(&self, now: Time) -> bool;
    /// Returns the response to record for a simulated server, complete after the end of the session; `None` at a client.
    fn reply(&self, info: &ConnectionInfo) -> Option<Reply>;
    /// Returns the number of bytes that the application has written, headers of the protocol included.
    fn written(&self) -> u64;
    /// Returns the number of bytes that have arrived at the client: of the next message, as far as the session can count them, and in
    /// total.
    fn arrived(&self, info: &ConnectionInfo) -> [u64; 2];
}

/// Result of writing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of bytes that the message adds to the documents of the server.
    pub document_bytes: u64,
    /// True if the message requests a response.
    pub awaits_response: bool,
}

/// Event of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SessionEvent {
    /// Completion of the handshake.
    Open,
    /// Message of the peer.
    Message {
        /// Message received.
        message: ReceivedMessage,
        /// True if the message is complete.
        complete: bool,
    },
    /// Response of the peer.
    Response {
        /// Message received.
        message: ReceivedMessage,
        /// True if the response is complete and successful.
        complete: bool,
        /// Response to record before the application handles it, if the protocol has a status.
        reply: Option<Reply>,
    },
    /// Arrival of the requested number of bytes of the response with this tag.
    Progress(u64),
    /// End of the wait for this number of responses, which will never arrive.
    Abandoned(usize),
    /// Close of the connection by the peer.
    PeerClosed,
}
