use super::pages::{ObjectRecord, PageRecord, object_of, tag_of};
use super::{AppEvent, Application, Interest, Page, PageSource, Unfinished};
use crate::connection_spec::ConnectionSpec;
use crate::host::{Conn, Host};
use crate::message_stream::Message;
use catnip_base::{Distribution, Rng, Span, Stream, Time};
use std::sync::Arc;

/// Version of HTTP and use of connections to fetch a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// One connection per object, a limited number at a time (CATNIP paper, section IV-A).
    V10 {
        /// Maximum number of parallel connections, including the connection of the HTML.
        max_connections: u32,
    },
    /// Persistent connections (RFC 9112, section 9.3).
    V11 {
        /// Maximum number of parallel connections to the server.
        max_connections: u32,
        /// True if a client sends requests before the responses to earlier requests have arrived (RFC 9112, section 9.3.2).
        pipelining: bool,
        /// True if connections stay open at the end of a page, for use by the next page.
        keep_alive: bool,
    },
    /// Approximation of HTTP/1.1 in the CATNIP paper (section V-F): one connection per page, which carries all bytes of the page as one
    /// document.
    Approximate,
}

impl Http {
    fn max_connections(self) -> usize {
        match self {
            Self::V10 { max_connections } | Self::V11 { max_connections, .. } => max_connections as usize,
            Self::Approximate => 1,
        }
    }
}

/// Configuration of the clients of a group.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// Source of the pages.
    pub pages: PageSource,
    /// Version of HTTP and use of connections.
    pub http: Http,
    /// Think time before the first page, and between the end of a page and the start of the next page, seconds.
    pub think_s: Distribution,
    /// Number of bytes of the HTML that must arrive before images are requested. Images are requested at the end of the HTML at the latest.
    pub images_after_bytes: u64,
    /// Size of a request, bytes; 0 if a request takes no time.
    pub request_bytes: u64,
}

/// Web client that fetches pages one after the other, with think times in between.
#[derive(Debug)]
pub struct WebClient {
    config: Arc<WebConfig>,
    spec: ConnectionSpec,
    rng: Rng,
    /// Pages of a list that are still to be fetched. The last element is the next page.
    order: Vec<u32>,
    /// Sizes of the objects of the current page, bytes.
    objects: Vec<u64>,
    /// Number of the current page, from 0.
    page: u32,
    page_start: Time,
    /// Number of objects requested so far.
    requested: u32,
    /// Objects to request again, because the server closed their connection before the response.
    retry: Vec<u32>,
    /// Number of objects received.
    complete: u32,
    images_known: bool,
    started: Vec<Time>,
    conns: Vec<ConnState>,
    /// Number of connections opened for the page.
    opened: u32,
}

/// Connection, and the objects requested over it that have not arrived.
#[derive(Debug)]
struct ConnState {
    conn: Conn,
    outstanding: Vec<u32>,
}

impl WebClient {
    /// Creates the client of user `user`. Its choices depend only on the configuration, the seed of the run and `user`.
    pub fn new(config: Arc<WebConfig>, spec: ConnectionSpec, seed: u64, user: u32) -> Self {
        let mut client = Self {
            rng: Rng::new(seed, Stream::User(user)),
            config,
            spec,
            order: Vec::new(),
            objects: Vec::new(),
            page: 0,
            page_start: Time::ZERO,
            requested: 0,
            retry: Vec::new(),
            complete: 0,
            images_known: false,
            started: Vec::new(),
            conns: Vec::new(),
            opened: 0,
        };
        client.shuffle();
        client
    }

    /// Puts all known pages into a random order.
    fn shuffle(&mut self) {
        if let PageSource::Known { pages, .. } = &self.config.pages {
            self.order = (0..pages.len() as u32).collect();
            self.rng.shuffle(&mut self.order);
        }
    }

    fn think(&mut self, host: &mut Host<'_>) {
        let continues = match &self.config.pages {
            PageSource::Drawn(_) => true,
            PageSource::Known { endless, .. } => *endless || !self.order.is_empty(),
        };
        if continues {
            let pause = Span::from_secs_f64(self.config.think_s.draw(&mut self.rng));
            host.timer(host.now() + pause, 0);
        } else {
            self.close_conns(host);
        }
    }

    fn close_conns(&mut self, host: &mut Host<'_>) {
        self.conns.drain(..).for_each(|state| host.close(state.conn));
    }

    fn start_page(&mut self, host: &mut Host<'_>) {
        match &self.config.pages {
            PageSource::Drawn(generator) => {
                self.objects = generator.draw(&mut self.rng).objects;
                self.page += u32::from(!self.started.is_empty());
            }
            PageSource::Known { .. } => {
                if self.order.is_empty() {
                    self.shuffle();
                }
                let PageSource::Known { pages, .. } = &self.config.pages else { return };
                let Some(page) = self.order.pop() else { return };
                let Page { objects } = &pages[page as usize];
                self.objects.clone_from(objects);
                self.page = page;
            }
        }
        self.page_start = host.now();
        self.requested = 0;
        self.complete = 0;
        self.images_known = false;
        self.started.clear();
        self.opened = 0;
        let conn = match self.conns.first() {
            Some(state) => state.conn,
            None => self.open(host),
        };
        if matches!(self.config.http, Http::V10 { .. } | Http::V11 { .. }) {
            host.notify(conn, self.config.images_after_bytes);
        }
        self.request_next(conn, host);
    }

    /// Returns the number of responses that the page needs.
    fn response_count(&self) -> u32 {
        if self.config.http == Http::Approximate { 1 } else { self.objects.len() as u32 }
    }

    fn open(&mut self, host: &mut Host<'_>) -> Conn {
        let conn = host.open(self.spec);
        self.conns.push(ConnState { conn, outstanding: Vec::new() });
        self.opened += 1;
        conn
    }

    /// Requests the next object over this connection.
    fn request_next(&mut self, conn: Conn, host: &mut Host<'_>) {
        let object = self.retry.pop().unwrap_or_else(|| {
            self.started.push(host.now());
            self.requested += 1;
            self.requested - 1
        });
        let response_bytes = match self.config.http {
            Http::Approximate => self.objects.iter().sum(),
            _ => self.objects[object as usize],
        };
        if let Some(state) = self.conns.iter_mut().find(|state| state.conn == conn) {
            state.outstanding.push(object);
        }
        let tag = tag_of(self.page, object);
        host.send(conn, Message { bytes: self.config.request_bytes, tag, response_bytes, context: None });
    }

    fn has_pending_request(&self) -> bool {
        !self.retry.is_empty() || (self.images_known && self.requested < self.response_count())
    }

    /// Requests as many images as the connections allow.
    fn request_more(&mut self, host: &mut Host<'_>) {
        let max_conns = self.config.http.max_connections();
        match self.config.http {
            Http::Approximate => {}
            Http::V10 { .. } => {
                while self.has_pending_request() && self.conns.len() < max_conns {
                    let conn = self.open(host);
                    self.request_next(conn, host);
                }
            }
            Http::V11 { pipelining, .. } => {
                while self.has_pending_request() {
                    let least_loaded = self.conns.iter().min_by_key(|state| state.outstanding.len());
                    let conn = match least_loaded {
                        Some(state) if state.outstanding.is_empty() => state.conn,
                        _ if self.conns.len() < max_conns => self.open(host),
                        Some(state) if pipelining => state.conn,
                        _ => return,
                    };
                    self.request_next(conn, host);
                }
            }
        }
    }

    fn on_response(&mut self, conn: Conn, object: u32, host: &mut Host<'_>) {
        let Some(at) = self.conns.iter().position(|state| state.conn == conn) else { return };
        self.conns[at].outstanding.retain(|&other| other != object);
        let is_persistent = matches!(self.config.http, Http::V11 { .. });
        if !is_persistent {
            self.conns.remove(at);
            host.close(conn);
        }
        self.complete += 1;
        self.images_known = true;
        let app = host.program();
        if self.config.http != Http::Approximate {
            let (bytes, start) = (self.objects[object as usize], self.started[object as usize]);
            host.record(&ObjectRecord { app, page: self.page, object, bytes, start });
        }
        if self.complete < self.response_count() {
            return self.request_more(host);
        }
        let (page, bytes, start) = (self.page, self.objects.iter().sum(), self.page_start);
        host.record(&PageRecord { app, page, bytes, connections: self.opened, start });
        if !matches!(self.config.http, Http::V11 { keep_alive: true, .. }) {
            self.close_conns(host);
        }
        self.think(host);
    }

    /// Handles the close of a connection by the server. Unanswered requests are repeated over another connection.
    fn on_end(&mut self, conn: Conn, host: &mut Host<'_>) {
        let Some(at) = self.conns.iter().position(|state| state.conn == conn) else { return };
        let state = self.conns.remove(at);
        host.close(conn);
        let has_unanswered = !state.outstanding.is_empty();
        self.retry.extend(state.outstanding.into_iter().rev());
        if has_unanswered && self.conns.is_empty() {
            let conn = self.open(host);
            self.request_next(conn, host);
        }
        self.request_more(host);
    }
}

impl Application for WebClient {
    fn interest(&self) -> Interest {
        Interest { opened: false, ..Interest::ALL }
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => self.think(host),
            AppEvent::Timer(_) => self.start_page(host),
            AppEvent::Progress { .. } => {
                self.images_known = true;
                self.request_more(host);
            }
            AppEvent::Message { conn, message, .. } => self.on_response(conn, object_of(message.tag).1, host),
            AppEvent::PeerClosed(conn) | AppEvent::Closed(conn) => self.on_end(conn, host),
            AppEvent::Opened(_) | AppEvent::Accepted(_) | AppEvent::Datagram(_) | AppEvent::Drained(_) => {}
        }
    }

    fn unfinished(&self, app: u32, visitor: &mut Unfinished<'_>) {
        if self.objects.is_empty() || self.complete == self.response_count() {
            return;
        }
        let (page, bytes, start) = (self.page, self.objects.iter().sum(), self.page_start);
        let mut delivered = bytes;
        let in_progress = self.conns.iter().flat_map(|state| {
            let first = state.outstanding.first().map(|_| (visitor.arrived)(state.conn));
            state.outstanding.iter().zip(first.into_iter().chain(std::iter::repeat(0)))
        });
        let not_requested = (self.requested..self.response_count()).chain(self.retry.iter().copied());
        let mut missing: Vec<(u32, u64)> = in_progress.map(|(&object, arrived)| (object, arrived)).collect();
        missing.extend(not_requested.map(|object| (object, 0)));
        missing.sort_unstable();
        for (object, arrived) in missing {
            if self.config.http == Http::Approximate {
                delivered = arrived;
                continue;
            }
            let bytes = self.objects[object as usize];
            let arrived = arrived.min(bytes);
            delivered -= bytes - arrived;
            if let Some(&start) = self.started.get(object as usize) {
                (visitor.visit)(&ObjectRecord { app, page, object, bytes, start }, arrived);
            }
        }
        (visitor.visit)(&PageRecord { app, page, bytes, connections: self.opened, start }, delivered);
    }
}
