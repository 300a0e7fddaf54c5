use super::{AppEvent, Application, FRAME_HEADER_BYTES, Framing, Multiplexing, Site, Wants, object_of};
use crate::dialogue::Message;
use crate::host::{Conn, Host};
use catnip_base::{FlowContext, Span};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What the servers of a site have in common.
#[derive(Clone, Debug)]
pub struct OriginConfig {
    /// What they serve.
    pub site: Arc<Site>,
    /// How.
    pub http: Multiplexing,
    /// Over HTTP/1.1, they tell TCP how long each response is. Of a frame that says nothing: it is a part of something longer.
    pub tells_size: bool,
}

/// A server of one or more origins of a site, for any number of [`Loader`](super::Loader)s. Like HTTP/2, it writes one frame at
/// a time, of each response that is ready in turn, and the next one when the last one has almost left.
#[derive(Debug)]
pub struct Origin {
    config: Arc<OriginConfig>,
    /// Requests that it works on, by the key of their timers.
    working: BTreeMap<u64, (Conn, u64)>,
    next_key: u64,
    lines: BTreeMap<Conn, Line>,
}

/// A connection over which something was asked.
#[derive(Debug, Default)]
struct Line {
    /// Requests that it works on.
    working: u32,
    /// Responses that were begun: their tags, and what has yet to be written of each. The next frame is of the first one.
    streams: VecDeque<(u64, u64)>,
    /// The last frame has not left.
    writing: bool,
    /// The client will ask no more.
    closed: bool,
}

impl Origin {
    /// A server that has heard of nobody.
    pub fn new(config: Arc<OriginConfig>) -> Self {
        Self { config, working: BTreeMap::new(), next_key: 0, lines: BTreeMap::new() }
    }

    fn on_request(&mut self, conn: Conn, tag: u64, host: &mut Host<'_>) {
        let Some(object) = self.config.site.object(object_of(tag)) else { return };
        let line = self.lines.entry(conn).or_default();
        if object.server_time == Span::ZERO {
            return self.answer(conn, tag, host);
        }
        line.working += 1;
        host.timer(host.now() + object.server_time, self.next_key);
        self.working.insert(self.next_key, (conn, tag));
        self.next_key += 1;
    }

    fn on_timer(&mut self, key: u64, host: &mut Host<'_>) {
        let Some((conn, tag)) = self.working.remove(&key) else { return };
        if let Some(line) = self.lines.get_mut(&conn) {
            line.working -= 1;
        }
        self.answer(conn, tag, host);
        self.close_if_done(conn, host);
    }

    fn answer(&mut self, conn: Conn, tag: u64, host: &mut Host<'_>) {
        let Some(&object) = self.config.site.object(object_of(tag)) else { return };
        match self.config.http {
            Multiplexing::Http1 { .. } => {
                let context = self.config.tells_size.then(|| FlowContext::document(object.bytes));
                host.send(conn, Message { bytes: object.bytes, tag, asks: 0, context });
            }
            Multiplexing::Http2 { framing, .. } => {
                let Some(line) = self.lines.get_mut(&conn) else { return };
                line.streams.push_back((tag, object.bytes));
                if !line.writing {
                    self.write(conn, framing, host);
                }
            }
        }
    }

    /// Writes a frame, if any response has something left.
    fn write(&mut self, conn: Conn, framing: Framing, host: &mut Host<'_>) {
        let Some(line) = self.lines.get_mut(&conn) else { return };
        let next = line.streams.pop_front();
        line.writing = next.is_some();
        let Some((tag, left)) = next else { return };
        let bytes = left.min(framing.frame_bytes);
        host.send(conn, Message { bytes: bytes + FRAME_HEADER_BYTES, tag, asks: 0, context: None });
        host.notify_drained(conn, framing.unsent_bytes);
        if left > bytes {
            line.streams.push_back((tag, left - bytes));
        }
    }

    fn on_drained(&mut self, conn: Conn, host: &mut Host<'_>) {
        if let Multiplexing::Http2 { framing, .. } = self.config.http {
            self.write(conn, framing, host);
            self.close_if_done(conn, host);
        }
    }

    fn on_peer_closed(&mut self, conn: Conn, host: &mut Host<'_>) {
        self.lines.entry(conn).or_default().closed = true;
        self.close_if_done(conn, host);
    }

    fn close_if_done(&mut self, conn: Conn, host: &mut Host<'_>) {
        let is_done = |line: &Line| line.closed && line.working == 0 && line.streams.is_empty();
        if self.lines.get(&conn).is_some_and(is_done) {
            self.lines.remove(&conn);
            host.close(conn);
        }
    }
}

impl Application for Origin {
    fn wants(&self) -> Wants {
        Wants { peer_closed: true, ..Wants::MESSAGES }
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Message { conn, message, .. } => self.on_request(conn, message.tag, host),
            AppEvent::Timer(key) => self.on_timer(key, host),
            AppEvent::Drained(conn) => self.on_drained(conn, host),
            AppEvent::PeerClosed(conn) => self.on_peer_closed(conn, host),
            _ => {}
        }
    }
}
