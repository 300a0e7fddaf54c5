//! Connection with one simulated end, and its application protocol.

use super::echo::Echo;
use super::fetch::Fetch;
use super::http::{self, Requests};
use super::services::Document;
use crate::socket::{Received, Socket};
use catnip_base::{FlowContext, Time};
use catnip_lab::ObjectName;
use catnip_net::{Packet, Route};
use catnip_sim::app::object_of;
use catnip_sim::record::{ConnectionRecord, Reply, Served, ServedStep};
use catnip_sim::{Conn, ConnectionInfo, Message, SERVER, Watch};
use catnip_tcp::Sender;
use catnip_wire::Tcp;
use std::collections::VecDeque;
use std::sync::Arc;

/// Connection with one simulated end.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    /// Simulated end, [`SERVER`] or the client, and its program.
    pub(super) side: usize,
    pub(super) program: u32,
    /// Notifications that the program has received: that the connection is open, and that the peer has closed.
    pub(super) told: [bool; 2],
    /// Route of the packets that the simulated end sends.
    pub(super) route: Route,
    /// Time of the next timer. Entries of the calendar for this connection with another time are stale.
    pub(super) planned: Time,
    pub(super) info: ConnectionInfo,
    pub(super) protocol: AppProtocol,
    pub(super) recorded: bool,
    /// Time until which the connection is kept after its end, to answer retransmissions.
    pub(super) linger_until: Time,
}

/// Application protocol of a connection.
#[derive(Debug)]
pub(super) enum AppProtocol {
    /// HTTP with an external server.
    Fetch(Box<Fetch>),
    /// HTTP with an external client: its requests, and the responses still to be sent, in order.
    Serve(Box<Serving>),
    /// Echo by an external server.
    Echo(Box<Echo>),
    /// Echo to an external client.
    Repeat(Box<Repeating>),
}

/// Data of a client that is not echoed yet.
#[derive(Debug, Default)]
pub(super) struct Repeating {
    pub(super) said: VecDeque<u8>,
    /// Number of these bytes of which the program is notified.
    pub(super) announced: usize,
}

/// Requests and responses of a simulated server.
#[derive(Debug, Default)]
pub(super) struct Serving {
    pub(super) requests: Requests,
    /// Responses still to be sent.
    pub(super) awaited: VecDeque<Awaited>,
    /// Status of the connection: 404 once a requested document was missing, else 200; 0 before the first request.
    pub(super) status: u16,
}

/// Response to a request.
#[derive(Clone, Debug)]
pub(super) struct Awaited {
    pub(super) answer: Answer,
    /// True if the connection stays open after the response.
    pub(super) persistent: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Document, sent when the program responds.
    Document(Arc<Document>),
    /// Header of a document, without the document.
    Header(Arc<Document>),
    /// Response for a document that does not exist.
    Missing,
}

impl Connection {
    pub(super) fn conn(&self, id: u32) -> Conn {
        Conn::external(id, self.info.number)
    }

    /// Returns the record of the connection in its present state.
    pub(super) fn record(&self) -> ConnectionRecord {
        let ours = Some(&self.socket).filter(|_| self.side == SERVER);
        let mut stats = ours.and_then(Socket::sender).map(Sender::stats).unwrap_or_default();
        if let AppProtocol::Fetch(fetch) = &self.protocol {
            (stats.sent, stats.retransmitted) = (fetch.server.sent, fetch.server.retransmitted);
        }
        self.info.record(stats, self.socket.syn_timeouts())
    }

    /// Returns the status of the responses that a simulated server has sent so far; `None` at a client.
    pub(super) fn answered(&self) -> Option<u16> {
        match &self.protocol {
            AppProtocol::Serve(serving) => Some(serving.status),
            AppProtocol::Repeat(_) => Some(200),
            AppProtocol::Fetch(_) | AppProtocol::Echo(_) => None,
        }
    }

    /// Returns the number of bytes that have arrived at the client: of the next message, as far as this end can count them, and in total.
    pub(super) fn arrived(&self) -> [u64; 2] {
        match &self.protocol {
            AppProtocol::Fetch(fetch) => fetch.arrived(),
            AppProtocol::Echo(echo) => echo.arrived(),
            AppProtocol::Serve(_) | AppProtocol::Repeat(_) => {
                [0, self.socket.sender().map_or(0, Sender::snd_una).min(self.info.bytes)]
            }
        }
    }

    /// Sends a message of the program. Returns true if the message requests a response.
    pub(super) fn send(&mut self, now: Time, message: Message, paths: &catnip_lab::Paths) -> bool {
        match &mut self.protocol {
            AppProtocol::Fetch(fetch) => {
                let (page, object) = object_of(message.tag);
                let name = ObjectName { page, object, bytes: message.asks, user: self.info.app };
                let request = fetch.ask(message, &paths.of(name));
                self.info.bytes += message.asks;
                self.socket.say(now, &request, 0, message.context);
                true
            }
            AppProtocol::Echo(echo) => {
                echo.say(message);
                self.info.bytes += message.asks;
                self.socket.fill(now, message.bytes, message.context, false);
                true
            }
            AppProtocol::Repeat(repeating) => {
                let len = repeating.announced.min(message.bytes as usize);
                let bytes: Vec<u8> = repeating.said.drain(..len).collect();
                repeating.announced -= len;
                self.info.bytes += bytes.len() as u64;
                self.socket.say(now, &bytes, message.bytes - bytes.len() as u64, message.context);
                false
            }
            AppProtocol::Serve(serving) => {
                answer_at_once(serving, &mut self.socket, now);
                let awaited = serving.awaited.pop_front();
                let persistent = awaited.as_ref().is_some_and(|awaited| awaited.persistent);
                let document = match awaited {
                    Some(Awaited { answer: Answer::Document(document), .. }) => Some(document),
                    _ => None,
                };
                let media_type = document.as_ref().map_or("text/plain", |document| document.media_type);
                let begins = document.as_ref().map_or(&[][..], |document| &document.begins);
                let begins = &begins[..begins.len().min(message.bytes as usize)];
                let head = http::response_head("200 OK", media_type, message.bytes, persistent);
                let whole = head.len() as u64 + message.bytes;
                let context = message.context.map(|_| FlowContext::document(whole));
                self.info.bytes += message.bytes;
                let filling = message.bytes - begins.len() as u64;
                self.socket.say(now, &[&head, begins].concat(), filling, context);
                if !persistent {
                    self.socket.close(now);
                }
                answer_at_once(serving, &mut self.socket, now);
                false
            }
        }
    }

    /// Passes a packet to the socket.
    pub(super) fn receive<W: Watch>(
        &mut self,
        now: Time,
        (packet, tcp): (&Packet, &Tcp<'_>),
        watch: &mut W,
    ) -> Received {
        let protocol = &mut self.protocol;
        let heard = self.socket.receive(now, packet.ecn, tcp, |bytes| match protocol {
            AppProtocol::Fetch(fetch) => fetch.receive(bytes),
            AppProtocol::Serve(serving) => serving.requests.receive(bytes),
            AppProtocol::Echo(echo) => echo.receive(bytes),
            AppProtocol::Repeat(repeating) => {
                let room = LONGEST_REPEATED - repeating.said.len().min(LONGEST_REPEATED);
                repeating.said.extend(&bytes[..bytes.len().min(room)]);
            }
        });
        if W::PACKETS
            && let Received::Segment(segment) = &heard
            && let Some(event) = self.info.acked(self.side, self.socket.sender(), segment, packet.len)
        {
            watch.record(now, &event);
        }
        if W::PACKETS
            && let Received::Segment(segment) = &heard
            && segment.flags.ack
            && let Some(snd_una) = self.socket.sender().map(Sender::snd_una)
        {
            self.served(ServedStep::Acked { snd_una }).iter().for_each(|what| watch.served(now, what));
        }
        heard
    }

    /// Returns the record of a step in the transmission of data, if this end is the server's.
    pub(super) fn served(&self, step: ServedStep) -> Option<Served> {
        (self.side == SERVER).then(|| self.info.served(self.socket.written(), step))
    }

    pub(super) fn reply(&self, tag: u64, status: u16, body_bytes: u64, digest: u64, whole: bool) -> Reply {
        let &ConnectionInfo { number: connection, app, ref spec, .. } = &self.info;
        Reply { connection, app, tag, tcp: spec.tcp, status, body_bytes, digest, whole }
    }
}

/// Largest number of bytes that a server buffers for an echo.
const LONGEST_REPEATED: usize = 1 << 20;

/// Sends the responses that do not depend on the program, up to the next one that does.
pub(super) fn answer_at_once(serving: &mut Serving, socket: &mut Socket, now: Time) {
    while let Some(Awaited { answer, persistent }) = serving.awaited.front() {
        let persistent = *persistent;
        let head = match answer {
            Answer::Document(_) => break,
            Answer::Header(of) => http::response_head("200 OK", of.media_type, of.bytes, persistent),
            Answer::Missing => http::response_head("404 Not Found", "text/plain", 0, persistent),
        };
        serving.awaited.pop_front();
        socket.say(now, &head, 0, None);
        if !persistent {
            socket.close(now);
        }
    }
}
