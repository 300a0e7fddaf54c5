//! Sessions of simulated hosts with external peers. A session consists of a socket and an application protocol.

use super::echo::Echo;
use super::fetch::{CompletedResponse, Fetch};
use super::http::{self, Requests};
use super::services::{Document, Services};
use crate::socket::{Received, Socket};
use catnip_base::{FlowContext, Span, Time};
use catnip_lab::{ObjectName, Protocol};
use catnip_net::Ecn;
use catnip_sim::app::object_of;
use catnip_sim::record::Reply;
use catnip_sim::session::{Session, SessionEvent, Written};
use catnip_sim::{CLIENT, ConnectionInfo, Message, ReceivedMessage, SERVER, TcpId};
use catnip_tcp::{Outgoing, Segment, Sender};
use catnip_wire::Tcp;
use std::collections::VecDeque;
use std::sync::Arc;

/// Time for which a closed connection is kept, as TIME-WAIT in Linux, and for which a server waits for the end of a handshake.
const LINGER: Span = Span::from_secs(60);

/// Simulated end of a connection with an external peer.
#[derive(Debug)]
pub struct SocketSession {
    pub(super) socket: Socket,
    /// Simulated end of the connection: [`CLIENT`] or [`SERVER`].
    side: usize,
    services: Arc<Services>,
    tcp: TcpId,
    opened: Time,
    protocol: AppProtocol,
    has_reported_open: bool,
    has_reported_close: bool,
    /// True if this end is a server and the client has not completed the handshake in time.
    has_timed_out: bool,
    has_ended: bool,
    /// Time until which the connection is kept after its end, to answer retransmissions.
    lingers_until: Time,
}

/// Application protocol of a connection.
#[derive(Debug)]
enum AppProtocol {
    /// HTTP client of an external server.
    HttpClient(Box<Fetch>),
    /// HTTP server of an external client: its requests, and the responses that have not been sent, in order.
    HttpServer(Box<ServerState>),
    /// Client of an external echo server.
    EchoClient(Box<Echo>),
    /// Echo server of an external client.
    EchoServer(Box<EchoState>),
}

/// Data of a client that has not been echoed.
#[derive(Debug, Default)]
struct EchoState {
    bytes: VecDeque<u8>,
    /// Number of these bytes that were already reported to the application.
    notified: usize,
}

/// Requests from an external client to a simulated HTTP server, and pending responses.
#[derive(Debug, Default)]
struct ServerState {
    requests: Requests,
    /// Responses that have not been sent, in order.
    pending: VecDeque<PendingResponse>,
    /// Status code of the connection in results: 0 before the first request, 404 once a requested document was missing, else 200.
    status: u16,
}

/// Response that an HTTP server has not sent yet.
#[derive(Clone, Debug)]
struct PendingResponse {
    kind: ResponseKind,
    /// True if the connection stays open after the response.
    persistent: bool,
}

#[derive(Clone, Debug)]
enum ResponseKind {
    /// Document, which is sent when the simulated application responds.
    Document(Arc<Document>),
    /// Header of a document without the document, for a HEAD request.
    Header(Arc<Document>),
    /// Error 404 for a document that does not exist.
    Missing,
}

impl SocketSession {
    /// Creates the session of a simulated client whose socket opens a connection to an external server.
    pub(crate) fn client(now: Time, socket: Socket, services: Arc<Services>, tcp: TcpId) -> Self {
        let server = socket.ends().1;
        let host = if server.port() == 80 { server.ip().to_string() } else { server.to_string() };
        let protocol = match services.get(tcp).protocol {
            Protocol::Http { persistent } => AppProtocol::HttpClient(Box::new(Fetch::new(host, persistent))),
            Protocol::Echo => AppProtocol::EchoClient(Box::default()),
        };
        Self::new(now, socket, CLIENT, services, tcp, protocol)
    }

    /// Creates the session of a simulated server whose socket accepts a connection of an external client.
    pub(super) fn server(now: Time, socket: Socket, services: Arc<Services>, tcp: TcpId) -> Self {
        let protocol = match services.get(tcp).protocol {
            Protocol::Http { .. } => AppProtocol::HttpServer(Box::default()),
            Protocol::Echo => AppProtocol::EchoServer(Box::default()),
        };
        Self::new(now, socket, SERVER, services, tcp, protocol)
    }

    fn new(
        opened: Time,
        socket: Socket,
        side: usize,
        services: Arc<Services>,
        tcp: TcpId,
        protocol: AppProtocol,
    ) -> Self {
        Self {
            socket,
            side,
            services,
            tcp,
            opened,
            protocol,
            has_reported_open: false,
            has_reported_close: false,
            has_timed_out: false,
            has_ended: false,
            lingers_until: Time::ZERO,
        }
    }

    /// Returns the socket of the simulated end.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Processes a packet from the peer. Returns its segment, or `None` if the socket discards the packet.
    pub(crate) fn receive(&mut self, now: Time, ecn: Ecn, tcp: &Tcp<'_>) -> Option<Segment> {
        let protocol = &mut self.protocol;
        let received = self.socket.receive(now, ecn, tcp, |bytes| match protocol {
            AppProtocol::HttpClient(fetch) => fetch.receive(bytes),
            AppProtocol::HttpServer(server) => server.requests.receive(bytes),
            AppProtocol::EchoClient(echo) => echo.receive(bytes),
            AppProtocol::EchoServer(echo) => {
                let free_space = MAX_ECHO_BYTES - echo.bytes.len().min(MAX_ECHO_BYTES);
                echo.bytes.extend(&bytes[..bytes.len().min(free_space)]);
            }
        });
        match received {
            Received::Segment(segment) => Some(segment),
            Received::Reset | Received::UnacceptableAck | Received::Discarded => None,
        }
    }

    /// Writes the next packet to send to the beginning of `buffer`. Returns the segment and the length of the packet.
    pub(crate) fn transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<(Outgoing, usize)> {
        if self.has_timed_out { None } else { self.socket.transmit(now, buffer) }
    }

    /// Processes the timers due at `now`. Returns true if a retransmission timer expired.
    pub(crate) fn on_timer(&mut self, now: Time) -> bool {
        self.has_timed_out |= self.side == SERVER && !self.socket.is_open() && now >= self.opened + LINGER;
        !self.has_timed_out && self.socket.on_timer(now)
    }

    /// Returns the time at which the session must run again if no packet arrives.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.socket.deadline().filter(|_| !self.has_ended && !self.has_timed_out)
    }

    /// Ends the period in which the closed connection answers retransmissions.
    pub(crate) fn end_linger(&mut self) {
        self.lingers_until = Time::ZERO;
    }

    /// Adds the events that result from data received by a simulated client from an external server.
    fn receive_responses(&mut self, info: &ConnectionInfo, events: &mut Vec<SessionEvent>) {
        let is_over = self.socket.was_reset() || self.socket.peer_closed();
        match &mut self.protocol {
            AppProtocol::HttpClient(fetch) => {
                let persists = !is_over || fetch.on_close();
                let abandoned = if persists { 0 } else { fetch.abandon() };
                let mut completed = Vec::new();
                while let Some(response) = fetch.next_response() {
                    completed.push(response);
                }
                events.extend((abandoned > 0).then_some(SessionEvent::Abandoned(abandoned)));
                events.extend(fetch.progress().map(SessionEvent::Progress));
                events.extend(completed.into_iter().map(|response| {
                    let CompletedResponse { request, status, body_bytes, digest, complete } = response;
                    let reply = Some(reply(info, request.tag, status, body_bytes, digest, complete));
                    let message = ReceivedMessage { bytes: body_bytes, tag: request.tag, response_bytes: 0 };
                    SessionEvent::Response { message, complete, reply }
                }));
            }
            AppProtocol::EchoClient(echo) => {
                while let Some((message, complete)) = echo.next_response() {
                    let message = ReceivedMessage {
                        bytes: message.response_bytes,
                        tag: message.tag,
                        response_bytes: 0,
                    };
                    events.push(SessionEvent::Response { message, complete, reply: None });
                }
                let abandoned = if is_over { echo.abandon() } else { 0 };
                events.extend((abandoned > 0).then_some(SessionEvent::Abandoned(abandoned)));
            }
            AppProtocol::HttpServer(_) | AppProtocol::EchoServer(_) => {}
        }
    }

    /// Adds the events that result from data received by a simulated server from an external client.
    fn receive_requests(&mut self, now: Time, events: &mut Vec<SessionEvent>) {
        if self.socket.was_reset() {
            return;
        }
        match &mut self.protocol {
            AppProtocol::HttpServer(server) => {
                let at = self.socket.ends().0;
                let persists = self.services.get(self.tcp).protocol == Protocol::Http { persistent: true };
                let may_continue = |last: Option<&PendingResponse>| last.is_none_or(|last| last.persistent);
                while !self.socket.is_closing()
                    && may_continue(server.pending.back())
                    && let Some(request) = server.requests.read()
                {
                    let document = request.path.and_then(|path| self.services.document(at, &path));
                    let persistent = persists && request.persistent;
                    let kind = match &document {
                        Some(document) if request.is_head => ResponseKind::Header(document.clone()),
                        Some(document) => ResponseKind::Document(document.clone()),
                        None => ResponseKind::Missing,
                    };
                    server.pending.push_back(PendingResponse { kind, persistent });
                    server.status = if document.is_some() && server.status <= 200 { 200 } else { 404 };
                    if let Some(document) = document.filter(|_| !request.is_head) {
                        let message =
                            ReceivedMessage { bytes: request.bytes, tag: 0, response_bytes: document.bytes };
                        events.push(SessionEvent::Message { message, complete: true });
                    }
                }
                send_immediate(server, &mut self.socket, now);
            }
            AppProtocol::EchoServer(echo) => {
                let bytes = (echo.bytes.len() - echo.notified) as u64;
                echo.notified = echo.bytes.len();
                if bytes > 0 {
                    let message = ReceivedMessage { bytes, tag: 0, response_bytes: bytes };
                    events.push(SessionEvent::Message { message, complete: true });
                }
            }
            AppProtocol::HttpClient(_) | AppProtocol::EchoClient(_) => {}
        }
    }
}

impl Session for SocketSession {
    fn send(&mut self, now: Time, message: Message, info: &ConnectionInfo) -> Written {
        match &mut self.protocol {
            AppProtocol::HttpClient(fetch) => {
                let (page, object) = object_of(message.tag);
                let name = ObjectName { page, object, bytes: message.response_bytes, user: info.app };
                let request = fetch.add_request(message, &self.services.get(self.tcp).paths.of(name));
                self.socket.write(now, &request, 0, message.context);
                Written { document_bytes: message.response_bytes, awaits_response: true }
            }
            AppProtocol::EchoClient(echo) => {
                echo.send(message);
                self.socket.write_padding(now, message.bytes, message.context, false);
                Written { document_bytes: message.response_bytes, awaits_response: true }
            }
            AppProtocol::EchoServer(echo) => {
                let len = echo.notified.min(message.bytes as usize);
                let bytes: Vec<u8> = echo.bytes.drain(..len).collect();
                echo.notified -= len;
                self.socket.write(now, &bytes, message.bytes - bytes.len() as u64, message.context);
                Written { document_bytes: bytes.len() as u64, awaits_response: false }
            }
            AppProtocol::HttpServer(server) => {
                send_immediate(server, &mut self.socket, now);
                let pending = server.pending.pop_front();
                let persistent = pending.as_ref().is_some_and(|pending| pending.persistent);
                let document = match pending {
                    Some(PendingResponse { kind: ResponseKind::Document(document), .. }) => Some(document),
                    _ => None,
                };
                let media_type = document.as_ref().map_or("text/plain", |document| document.media_type);
                let prefix = document.as_ref().map_or(&[][..], |document| &document.prefix);
                let prefix = &prefix[..prefix.len().min(message.bytes as usize)];
                let head = http::response_head("200 OK", media_type, message.bytes, persistent);
                let total = head.len() as u64 + message.bytes;
                let context = message.context.map(|_| FlowContext::document(total));
                let padding = message.bytes - prefix.len() as u64;
                self.socket.write(now, &[&head, prefix].concat(), padding, context);
                if !persistent {
                    self.socket.close(now);
                }
                send_immediate(server, &mut self.socket, now);
                Written { document_bytes: message.bytes, awaits_response: false }
            }
        }
    }

    fn close(&mut self, now: Time) {
        self.socket.close(now);
    }

    fn notify(&mut self, bytes: u64) {
        if let AppProtocol::HttpClient(fetch) = &mut self.protocol {
            fetch.notify(bytes);
        }
    }

    fn events(&mut self, now: Time, info: &ConnectionInfo) -> Vec<SessionEvent> {
        let mut events = Vec::new();
        if self.socket.is_open() && !std::mem::replace(&mut self.has_reported_open, true) {
            events.push(SessionEvent::Open);
        }
        match self.side {
            CLIENT => self.receive_responses(info, &mut events),
            _ => self.receive_requests(now, &mut events),
        }
        let is_over = self.socket.was_reset() || self.socket.peer_closed();
        if is_over && !std::mem::replace(&mut self.has_reported_close, true) {
            events.push(SessionEvent::PeerClosed);
        }
        events
    }

    fn is_over(&self) -> bool {
        self.has_timed_out || self.socket.is_over()
    }

    fn was_reset(&self) -> bool {
        self.socket.was_reset()
    }

    fn end(&mut self, now: Time) -> Option<Time> {
        self.has_ended = true;
        let lingers = !self.has_timed_out && !self.socket.was_reset();
        lingers.then(|| {
            self.lingers_until = now + LINGER;
            self.lingers_until
        })
    }

    fn lingers(&self, now: Time) -> bool {
        now < self.lingers_until
    }

    fn reply(&self, info: &ConnectionInfo) -> Option<Reply> {
        let status = match &self.protocol {
            AppProtocol::HttpServer(server) => server.status,
            AppProtocol::EchoServer(_) => 200,
            AppProtocol::HttpClient(_) | AppProtocol::EchoClient(_) => return None,
        };
        let complete = self.has_ended && !self.socket.was_reset();
        let body_bytes = if complete { info.bytes } else { self.arrived(info)[1] };
        (!self.has_timed_out).then(|| reply(info, 0, status, body_bytes, 0, complete))
    }

    fn written(&self) -> u64 {
        self.socket.written()
    }

    fn arrived(&self, info: &ConnectionInfo) -> [u64; 2] {
        match &self.protocol {
            AppProtocol::HttpClient(fetch) => fetch.arrived(),
            AppProtocol::EchoClient(echo) => echo.arrived(),
            AppProtocol::HttpServer(_) | AppProtocol::EchoServer(_) => {
                [0, self.socket.sender().map_or(0, Sender::snd_una).min(info.bytes)]
            }
        }
    }
}

fn reply(
    info: &ConnectionInfo,
    tag: u64,
    status: u16,
    body_bytes: u64,
    digest: u64,
    complete: bool,
) -> Reply {
    let &ConnectionInfo { number: connection, app, ref spec, .. } = info;
    Reply { connection, app, tag, tcp: spec.tcp, status, body_bytes, digest, complete }
}

/// Largest number of bytes that an echo server buffers until the application responds.
const MAX_ECHO_BYTES: usize = 1 << 20;

/// Sends pending responses up to the first document, which waits for the application. Headers and errors do not depend on the application.
fn send_immediate(server: &mut ServerState, socket: &mut Socket, now: Time) {
    while let Some(PendingResponse { kind, persistent }) = server.pending.front() {
        let persistent = *persistent;
        let head = match kind {
            ResponseKind::Document(_) => break,
            ResponseKind::Header(of) => http::response_head("200 OK", of.media_type, of.bytes, persistent),
            ResponseKind::Missing => http::response_head("404 Not Found", "text/plain", 0, persistent),
        };
        server.pending.pop_front();
        socket.write(now, &head, 0, None);
        if !persistent {
            socket.close(now);
        }
    }
}
