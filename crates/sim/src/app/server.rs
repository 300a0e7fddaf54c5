use super::{AppEvent, Application, Interest};
use crate::host::{Conn, Host};
use crate::message_stream::{Message, ReceivedMessage};
use catnip_base::{Distribution, FlowContext, Rng, Span, Stream, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Configuration of servers.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Processing time of a request, seconds; `None` for immediate responses.
    pub delay_s: Option<Distribution>,
    /// True if servers pass the size of each response to TCP.
    pub tells_size: bool,
    /// True if servers close a connection after the first response (HTTP/1.0).
    pub closes: bool,
}

/// Server that responds to each message with the requested number of bytes, in order on each connection.
#[derive(Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
    rng: Rng,
    /// Responses in progress, by the key of their timers.
    pending: BTreeMap<u64, (Conn, Message)>,
    next_key: u64,
    /// Connections with responses in progress, each with the time of its last response, and true if the client has closed the connection.
    busy: BTreeMap<Conn, (Time, bool)>,
}

impl Server {
    /// Creates server `server`. Its processing times depend only on the configuration, the seed of the run and `server`.
    pub fn new(config: Arc<ServerConfig>, seed: u64, server: u32) -> Self {
        let rng = Rng::new(seed, Stream::Server(server));
        Self { config, rng, pending: BTreeMap::new(), next_key: 0, busy: BTreeMap::new() }
    }

    fn on_request(&mut self, conn: Conn, request: ReceivedMessage, host: &mut Host<'_>) {
        let bytes = request.response_bytes;
        let context = self.config.tells_size.then(|| FlowContext::document(bytes));
        let response = Message { bytes, tag: request.tag, response_bytes: 0, context };
        let Some(delay_s) = &self.config.delay_s else { return self.respond(conn, response, host) };
        let ready = host.now() + Span::from_secs_f64(delay_s.draw(&mut self.rng));
        let (last, _) = self.busy.entry(conn).or_insert((ready, false));
        *last = ready.max(*last);
        host.timer(*last, self.next_key);
        self.pending.insert(self.next_key, (conn, response));
        self.next_key += 1;
    }

    fn on_timer(&mut self, key: u64, host: &mut Host<'_>) {
        let Some((conn, response)) = self.pending.remove(&key) else { return };
        self.respond(conn, response, host);
        if self.pending.values().all(|(other, _)| *other != conn)
            && let Some((_, closed)) = self.busy.remove(&conn)
            && closed
        {
            host.close(conn);
        }
    }

    fn respond(&mut self, conn: Conn, response: Message, host: &mut Host<'_>) {
        host.send(conn, response);
        if self.config.closes {
            host.close(conn);
        }
    }
}

impl Application for Server {
    fn interest(&self) -> Interest {
        Interest { peer_closed: true, ..Interest::MESSAGES }
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Message { conn, message, .. } => self.on_request(conn, message, host),
            AppEvent::Timer(key) => self.on_timer(key, host),
            AppEvent::PeerClosed(conn) => match self.busy.get_mut(&conn) {
                Some((_, closed)) => *closed = true,
                None => host.close(conn),
            },
            _ => {}
        }
    }
}
