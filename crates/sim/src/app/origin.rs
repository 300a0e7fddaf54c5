use super::http2::{self, Streams};
use super::{AppEvent, Application, Framing, Interest, Site, Tls, Version, object_of, tls};
use crate::host::{Conn, Host};
use crate::message_stream::Message;
use catnip_base::{FlowContext, Span};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Configuration of the servers of a site.
#[derive(Clone, Debug)]
pub struct OriginConfig {
    /// Site to serve.
    pub site: Arc<Site>,
    /// Writing of responses over HTTP/2.
    pub framing: Framing,
    /// True if servers pass the size of each HTTP/1.1 response to TCP. The size of a frame is not passed, since a frame is part of a longer
    /// response.
    pub tells_size: bool,
}

/// Server of one or more origins of a site, for any number of [`Loader`](super::Loader)s. With HTTP/2, the server writes one frame at a
/// time, in the order of the responses' priorities. The server writes the next frame when few bytes of the previous frame are unsent.
#[derive(Debug)]
pub struct Origin {
    config: Arc<OriginConfig>,
    /// Requests in progress, by the key of their timers.
    in_progress: BTreeMap<u64, (Conn, u64)>,
    next_key: u64,
    conns: BTreeMap<Conn, ConnState>,
}

/// State of a connection with a request.
#[derive(Debug, Default)]
struct ConnState {
    /// Number of requests in progress.
    in_progress: u32,
    /// Responses of HTTP/2 that are not written completely.
    streams: Streams,
    /// True if the connection has TLS.
    has_tls: bool,
    /// True once the server has answered the end of the handshake and the start of HTTP/2.
    has_started: bool,
    /// True while the next frame must wait, since too many bytes of the last frame are unsent; see [`Framing::unsent_bytes`].
    writing: bool,
    /// True once the client has closed the connection.
    closed: bool,
}

impl Origin {
    /// Returns a server without connections.
    pub fn new(config: Arc<OriginConfig>) -> Self {
        Self { config, in_progress: BTreeMap::new(), next_key: 0, conns: BTreeMap::new() }
    }

    fn on_request(&mut self, conn: Conn, tag: u64, host: &mut Host<'_>) {
        let config = self.config.clone();
        let Some(object) = config.site.object(object_of(tag)) else { return };
        self.start(conn, config.site.origin(object).version, host);
        let state = self.conns.entry(conn).or_default();
        if object.server_time == Span::ZERO {
            return self.respond(conn, tag, host);
        }
        state.in_progress += 1;
        host.timer(host.now() + object.server_time, self.next_key);
        self.in_progress.insert(self.next_key, (conn, tag));
        self.next_key += 1;
    }

    fn on_timer(&mut self, key: u64, host: &mut Host<'_>) {
        let Some((conn, tag)) = self.in_progress.remove(&key) else { return };
        if let Some(state) = self.conns.get_mut(&conn) {
            state.in_progress -= 1;
        }
        self.respond(conn, tag, host);
        self.close_if_done(conn, host);
    }

    fn respond(&mut self, conn: Conn, tag: u64, host: &mut Host<'_>) {
        let Some(&object) = self.config.site.object(object_of(tag)) else { return };
        let Some(state) = self.conns.get_mut(&conn) else { return };
        match self.config.site.origin(&object).version {
            Version::Http1 => {
                let bytes = tls::wrapped(object.bytes, state.has_tls);
                let context = self.config.tells_size.then(|| FlowContext::document(bytes));
                host.send(conn, Message { bytes, tag, response_bytes: 0, context });
            }
            Version::Http2 => {
                state.streams.push(tag, object.bytes, object.priority);
                if !state.writing {
                    self.write(conn, host);
                }
            }
        }
    }

    /// Writes the next frame of HTTP/2 if a response has unwritten bytes.
    fn write(&mut self, conn: Conn, host: &mut Host<'_>) {
        let framing = self.config.framing;
        let Some(state) = self.conns.get_mut(&conn) else { return };
        let next = state.streams.next(framing, state.has_tls);
        state.writing = next.is_some();
        let Some((tag, payload, is_first)) = next else { return };
        let bytes = http2::written(payload, is_first, state.has_tls);
        host.send(conn, Message { bytes, tag, response_bytes: 0, context: None });
        host.notify_drained(conn, framing.unsent_bytes);
    }

    fn on_drained(&mut self, conn: Conn, host: &mut Host<'_>) {
        self.write(conn, host);
        self.close_if_done(conn, host);
    }

    /// Handles a client's flight of a handshake of TLS.
    fn on_hello(&mut self, conn: Conn, flight_bytes: u64, host: &mut Host<'_>) {
        self.conns.entry(conn).or_default().has_tls = true;
        host.send(conn, Message { bytes: flight_bytes, tag: tls::TAG, response_bytes: 0, context: None });
    }

    /// Sends what precedes the first response of a connection: tickets for later handshakes, and the start of HTTP/2.
    fn start(&mut self, conn: Conn, version: Version, host: &mut Host<'_>) {
        let state = self.conns.entry(conn).or_default();
        if std::mem::replace(&mut state.has_started, true) {
            return;
        }
        let tickets = if state.has_tls { Tls::TICKETS_BYTES } else { 0 };
        let settings = match version {
            Version::Http1 => 0,
            Version::Http2 => tls::wrapped(http2::SERVER_START_BYTES, state.has_tls),
        };
        if tickets + settings > 0 {
            let bytes = tickets + settings;
            host.send(conn, Message { bytes, tag: tls::TICKET_TAG, response_bytes: 0, context: None });
        }
    }

    fn on_peer_closed(&mut self, conn: Conn, host: &mut Host<'_>) {
        self.conns.entry(conn).or_default().closed = true;
        self.close_if_done(conn, host);
    }

    fn close_if_done(&mut self, conn: Conn, host: &mut Host<'_>) {
        let is_done = |state: &ConnState| state.closed && state.in_progress == 0 && state.streams.is_empty();
        if self.conns.get(&conn).is_some_and(is_done) {
            self.conns.remove(&conn);
            host.close(conn);
        }
    }
}

impl Application for Origin {
    fn interest(&self) -> Interest {
        Interest { peer_closed: true, ..Interest::MESSAGES }
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Message { conn, message, .. } if message.tag == tls::TAG => {
                self.on_hello(conn, message.response_bytes, host);
            }
            AppEvent::Message { conn, message, .. } => self.on_request(conn, message.tag, host),
            AppEvent::Timer(key) => self.on_timer(key, host),
            AppEvent::Drained(conn) => self.on_drained(conn, host),
            AppEvent::PeerClosed(conn) => self.on_peer_closed(conn, host),
            _ => {}
        }
    }
}
