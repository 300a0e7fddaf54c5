use super::{
    AppEvent, Application, FRAME_HEADER_BYTES, Framing, Interest, Multiplexing, Site, object_of, tls,
};
use crate::host::{Conn, Host};
use crate::message_stream::Message;
use catnip_base::{FlowContext, Span};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Configuration of the servers of a site.
#[derive(Clone, Debug)]
pub struct OriginConfig {
    /// Site to serve.
    pub site: Arc<Site>,
    /// Version of HTTP and use of connections.
    pub http: Multiplexing,
    /// True if servers pass the size of each HTTP/1.1 response to TCP. The size of a frame is not passed, since a frame is part of a longer
    /// response.
    pub tells_size: bool,
}

/// Server of one or more origins of a site, for any number of [`Loader`](super::Loader)s. With HTTP/2, the server writes one frame at a
/// time, from each ready response in turn. The server writes the next frame when few bytes of the previous frame are unsent.
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
    /// Tag and number of unwritten bytes of each started response. The next frame belongs to the first response.
    streams: VecDeque<(u64, u64)>,
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
        let Some(object) = self.config.site.object(object_of(tag)) else { return };
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
        match self.config.http {
            Multiplexing::Http1 { .. } => {
                let context = self.config.tells_size.then(|| FlowContext::document(object.bytes));
                host.send(conn, Message { bytes: object.bytes, tag, response_bytes: 0, context });
            }
            Multiplexing::Http2 { framing, .. } => {
                let Some(state) = self.conns.get_mut(&conn) else { return };
                state.streams.push_back((tag, object.bytes));
                if !state.writing {
                    self.write(conn, framing, host);
                }
            }
        }
    }

    /// Writes the next frame if a response has unwritten bytes.
    fn write(&mut self, conn: Conn, framing: Framing, host: &mut Host<'_>) {
        let Some(state) = self.conns.get_mut(&conn) else { return };
        let next = state.streams.pop_front();
        state.writing = next.is_some();
        let Some((tag, remaining)) = next else { return };
        let bytes = remaining.min(framing.frame_bytes);
        host.send(conn, Message { bytes: bytes + FRAME_HEADER_BYTES, tag, response_bytes: 0, context: None });
        host.notify_drained(conn, framing.unsent_bytes);
        if remaining > bytes {
            state.streams.push_back((tag, remaining - bytes));
        }
    }

    fn on_drained(&mut self, conn: Conn, host: &mut Host<'_>) {
        if let Multiplexing::Http2 { framing, .. } = self.config.http {
            self.write(conn, framing, host);
            self.close_if_done(conn, host);
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
                let bytes = message.response_bytes;
                host.send(conn, Message { bytes, tag: tls::TAG, response_bytes: 0, context: None });
            }
            AppEvent::Message { conn, message, .. } => self.on_request(conn, message.tag, host),
            AppEvent::Timer(key) => self.on_timer(key, host),
            AppEvent::Drained(conn) => self.on_drained(conn, host),
            AppEvent::PeerClosed(conn) => self.on_peer_closed(conn, host),
            _ => {}
        }
    }
}
