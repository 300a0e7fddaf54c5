//! A connection of which one end is simulated, and what is talked about on it.

use super::echo::Echo;
use super::fetch::Fetch;
use super::http::{self, Requests};
use super::services::Document;
use crate::socket::{Heard, Socket};
use catnip_base::{FlowContext, Time};
use catnip_lab::ObjectName;
use catnip_net::{Packet, Route};
use catnip_sim::app::object_of;
use catnip_sim::record::{ConnectionRecord, Reply, Served, ServedStep};
use catnip_sim::{Account, Conn, Message, SERVER, Watch};
use catnip_tcp::Sender;
use catnip_wire::Tcp;
use std::collections::VecDeque;
use std::sync::Arc;

/// A connection of which one end is simulated.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    /// Which end that is, and the program there.
    pub(super) side: usize,
    pub(super) program: u32,
    /// What the program has heard: that it is open, that its peer has closed.
    pub(super) told: [bool; 2],
    /// The way of what it sends.
    pub(super) route: Route,
    /// Of its entries in the calendar of timers, only the one with this time is valid.
    pub(super) planned: Time,
    pub(super) account: Account,
    pub(super) talk: Talk,
    pub(super) recorded: bool,
    /// Kept so long after the end, to answer what comes again.
    pub(super) linger_until: Time,
}

/// What is talked about.
#[derive(Debug)]
pub(super) enum Talk {
    /// The server is outside and speaks HTTP.
    Fetch(Box<Fetch>),
    /// The client is outside: what it has asked, and what is still to be answered, in order.
    Serve(Box<Serving>),
    /// The server is outside and repeats what it hears.
    Echo(Box<Echo>),
    /// The client is outside, and what it says is repeated.
    Repeat(Box<Repeating>),
}

/// What a client has said that is not repeated yet.
#[derive(Debug, Default)]
pub(super) struct Repeating {
    pub(super) said: VecDeque<u8>,
    /// How much of it the program knows of.
    pub(super) announced: usize,
}

/// What a simulated server does for a client outside.
#[derive(Debug, Default)]
pub(super) struct Serving {
    pub(super) requests: Requests,
    /// Answers to come.
    pub(super) awaited: VecDeque<Awaited>,
    /// The status of the first answer that was not 200, or 200.
    pub(super) status: u16,
}

/// What a request gets.
#[derive(Clone, Debug)]
pub(super) struct Awaited {
    pub(super) answer: Answer,
    /// The connection goes on behind it.
    pub(super) persistent: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// A document, when the program says so.
    Document(Arc<Document>),
    /// The header of one, without it.
    Header(Arc<Document>),
    /// There is no such document.
    Missing,
}

impl Connection {
    pub(super) fn conn(&self, id: u32) -> Conn {
        Conn::foreign(id, self.account.number)
    }

    /// What is to be said of it, now or at its end.
    pub(super) fn record(&self) -> ConnectionRecord {
        let ours = Some(&self.socket).filter(|_| self.side == SERVER);
        let mut stats = ours.and_then(Socket::sender).map(Sender::stats).unwrap_or_default();
        if let Talk::Fetch(fetch) = &self.talk {
            (stats.sent, stats.retransmitted) = (fetch.server.sent, fetch.server.retransmitted);
        }
        self.account.record(stats, self.socket.syn_timeouts())
    }

    /// The status of what a simulated server has answered over it so far; `None` at a client.
    pub(super) fn answered(&self) -> Option<u16> {
        match &self.talk {
            Talk::Serve(serving) => Some(serving.status),
            Talk::Repeat(_) => Some(200),
            Talk::Fetch(_) | Talk::Echo(_) => None,
        }
    }

    /// Bytes that have come to the client: of what it waits for next, as far as that is known here, and in all.
    pub(super) fn arrived(&self) -> [u64; 2] {
        match &self.talk {
            Talk::Fetch(fetch) => fetch.arrived(),
            Talk::Echo(echo) => echo.arrived(),
            Talk::Serve(_) | Talk::Repeat(_) => {
                [0, self.socket.sender().map_or(0, Sender::una).min(self.account.bytes)]
            }
        }
    }

    /// Its program has this to say; true if that asks for something.
    pub(super) fn send(&mut self, now: Time, message: Message, paths: &catnip_lab::Paths) -> bool {
        match &mut self.talk {
            Talk::Fetch(fetch) => {
                let (page, object) = object_of(message.tag);
                let name = ObjectName { page, object, bytes: message.asks, user: self.account.app };
                let request = fetch.ask(message, &paths.of(name));
                self.account.bytes += message.asks;
                self.socket.say(now, &request, 0, message.context);
                true
            }
            Talk::Echo(echo) => {
                echo.say(message);
                self.account.bytes += message.asks;
                self.socket.fill(now, message.bytes, message.context, false);
                true
            }
            Talk::Repeat(repeating) => {
                let len = repeating.announced.min(message.bytes as usize);
                let bytes: Vec<u8> = repeating.said.drain(..len).collect();
                repeating.announced -= len;
                self.account.bytes += bytes.len() as u64;
                self.socket.say(now, &bytes, message.bytes - bytes.len() as u64, message.context);
                false
            }
            Talk::Serve(serving) => {
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
                self.account.bytes += message.bytes;
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

    /// Gives a packet to the socket.
    pub(super) fn hear<W: Watch>(
        &mut self,
        now: Time,
        (packet, tcp): (&Packet, &Tcp<'_>),
        watch: &mut W,
    ) -> Heard {
        let talk = &mut self.talk;
        let heard = self.socket.receive(now, packet.ecn, tcp, |bytes| match talk {
            Talk::Fetch(fetch) => fetch.hear(bytes),
            Talk::Serve(serving) => serving.requests.hear(bytes),
            Talk::Echo(echo) => echo.hear(bytes),
            Talk::Repeat(repeating) => {
                let room = LONGEST_REPEATED - repeating.said.len().min(LONGEST_REPEATED);
                repeating.said.extend(&bytes[..bytes.len().min(room)]);
            }
        });
        if W::PACKETS
            && let Heard::Segment(segment) = &heard
            && let Some(event) = self.account.acked(self.side, self.socket.sender(), segment, packet.len)
        {
            watch.record(now, &event);
        }
        if W::PACKETS
            && let Heard::Segment(segment) = &heard
            && segment.flags.ack
            && let Some(una) = self.socket.sender().map(Sender::una)
        {
            self.served(ServedStep::Acked { una }).iter().for_each(|what| watch.served(now, what));
        }
        heard
    }

    /// A step of what is sent, if this end is the server's.
    pub(super) fn served(&self, step: ServedStep) -> Option<Served> {
        (self.side == SERVER).then(|| self.account.served(self.socket.written(), step))
    }

    pub(super) fn reply(&self, tag: u64, status: u16, body_bytes: u64, digest: u64, whole: bool) -> Reply {
        let &Account { number: connection, app, ref parties, .. } = &self.account;
        Reply { connection, app, tag, tcp: parties.tcp, status, body_bytes, digest, whole }
    }
}

/// Most bytes that a server keeps to repeat them.
const LONGEST_REPEATED: usize = 1 << 20;

/// Answers requests that the program does not hear of, as far as it is their turn.
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
