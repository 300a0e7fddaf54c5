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
    asked: u32,
    /// Objects to request again, because the server closed their connection before the response.
    again: Vec<u32>,
    /// Number of objects received.
    complete: u32,
    images_known: bool,
    started: Vec<Time>,
    lines: Vec<Line>,
    /// Number of connections opened for the page.
    opened: u32,
}

/// Connection, and the objects requested over it that have not arrived.
#[derive(Debug)]
struct Line {
    conn: Conn,
    awaited: Vec<u32>,
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
            asked: 0,
            again: Vec::new(),
            complete: 0,
            images_known: false,
            started: Vec::new(),
            lines: Vec::new(),
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
        let goes_on = match &self.config.pages {
            PageSource::Drawn(_) => true,
            PageSource::Known { endless, .. } => *endless || !self.order.is_empty(),
        };
        if goes_on {
            let pause = Span::from_secs_f64(self.config.think_s.draw(&mut self.rng));
            host.timer(host.now() + pause, 0);
        } else {
            self.hang_up(host);
        }
    }

    fn hang_up(&mut self, host: &mut Host<'_>) {
        self.lines.drain(..).for_each(|line| host.close(line.conn));
    }

    fn begin_page(&mut self, host: &mut Host<'_>) {
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
        self.asked = 0;
        self.complete = 0;
        self.images_known = false;
        self.started.clear();
        self.opened = 0;
        let conn = match self.lines.first() {
            Some(line) => line.conn,
            None => self.open(host),
        };
        if matches!(self.config.http, Http::V10 { .. } | Http::V11 { .. }) {
            host.notify(conn, self.config.images_after_bytes);
        }
        self.ask_next(conn, host);
    }

    /// Returns the number of responses that the page needs.
    fn answers(&self) -> u32 {
        if self.config.http == Http::Approximate { 1 } else { self.objects.len() as u32 }
    }

    fn open(&mut self, host: &mut Host<'_>) -> Conn {
        let conn = host.open(self.spec);
        self.lines.push(Line { conn, awaited: Vec::new() });
        self.opened += 1;
        conn
    }

    /// Requests the next object over this connection.
    fn ask_next(&mut self, conn: Conn, host: &mut Host<'_>) {
        let object = self.again.pop().unwrap_or_else(|| {
            self.started.push(host.now());
            self.asked += 1;
            self.asked - 1
        });
        let asks = match self.config.http {
            Http::Approximate => self.objects.iter().sum(),
            _ => self.objects[object as usize],
        };
        if let Some(line) = self.lines.iter_mut().find(|line| line.conn == conn) {
            line.awaited.push(object);
        }
        let tag = tag_of(self.page, object);
        host.send(conn, Message { bytes: self.config.request_bytes, tag, asks, context: None });
    }

    fn is_to_ask(&self) -> bool {
        !self.again.is_empty() || (self.images_known && self.asked < self.answers())
    }

    /// Requests as many images as the connections allow.
    fn ask_on(&mut self, host: &mut Host<'_>) {
        let most = self.config.http.max_connections();
        match self.config.http {
            Http::Approximate => {}
            Http::V10 { .. } => {
                while self.is_to_ask() && self.lines.len() < most {
                    let conn = self.open(host);
                    self.ask_next(conn, host);
                }
            }
            Http::V11 { pipelining, .. } => {
                while self.is_to_ask() {
                    let least = self.lines.iter().min_by_key(|line| line.awaited.len());
                    let conn = match least {
                        Some(line) if line.awaited.is_empty() => line.conn,
                        _ if self.lines.len() < most => self.open(host),
                        Some(line) if pipelining => line.conn,
                        _ => return,
                    };
                    self.ask_next(conn, host);
                }
            }
        }
    }

    fn on_answer(&mut self, conn: Conn, object: u32, host: &mut Host<'_>) {
        let Some(at) = self.lines.iter().position(|line| line.conn == conn) else { return };
        self.lines[at].awaited.retain(|&other| other != object);
        let persists = matches!(self.config.http, Http::V11 { .. });
        if !persists {
            self.lines.remove(at);
            host.close(conn);
        }
        self.complete += 1;
        self.images_known = true;
        let app = host.program();
        if self.config.http != Http::Approximate {
            let (bytes, start) = (self.objects[object as usize], self.started[object as usize]);
            host.record(&ObjectRecord { app, page: self.page, object, bytes, start });
        }
        if self.complete < self.answers() {
            return self.ask_on(host);
        }
        let (page, bytes, start) = (self.page, self.objects.iter().sum(), self.page_start);
        host.record(&PageRecord { app, page, bytes, connections: self.opened, start });
        if !matches!(self.config.http, Http::V11 { keep_alive: true, .. }) {
            self.hang_up(host);
        }
        self.think(host);
    }

    /// Handles the close of a connection by the server. Unanswered requests are repeated over another connection.
    fn on_end(&mut self, conn: Conn, host: &mut Host<'_>) {
        let Some(at) = self.lines.iter().position(|line| line.conn == conn) else { return };
        let line = self.lines.remove(at);
        host.close(conn);
        let unanswered = !line.awaited.is_empty();
        self.again.extend(line.awaited.into_iter().rev());
        if unanswered && self.lines.is_empty() {
            let conn = self.open(host);
            self.ask_next(conn, host);
        }
        self.ask_on(host);
    }
}

impl Application for WebClient {
    fn interest(&self) -> Interest {
        Interest { opened: false, ..Interest::ALL }
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => self.think(host),
            AppEvent::Timer(_) => self.begin_page(host),
            AppEvent::Progress { .. } => {
                self.images_known = true;
                self.ask_on(host);
            }
            AppEvent::Message { conn, message, .. } => self.on_answer(conn, object_of(message.tag).1, host),
            AppEvent::PeerClosed(conn) | AppEvent::Closed(conn) => self.on_end(conn, host),
            AppEvent::Opened(_) | AppEvent::Accepted(_) | AppEvent::Drained(_) => {}
        }
    }

    fn unfinished(&self, app: u32, to: &mut Unfinished<'_>) {
        if self.objects.is_empty() || self.complete == self.answers() {
            return;
        }
        let (page, bytes, start) = (self.page, self.objects.iter().sum(), self.page_start);
        let mut delivered = bytes;
        let underway = self.lines.iter().flat_map(|line| {
            let first = line.awaited.first().map(|_| (to.arrived)(line.conn));
            line.awaited.iter().zip(first.into_iter().chain(std::iter::repeat(0)))
        });
        let not_asked = (self.asked..self.answers()).chain(self.again.iter().copied());
        let mut missing: Vec<(u32, u64)> = underway.map(|(&object, arrived)| (object, arrived)).collect();
        missing.extend(not_asked.map(|object| (object, 0)));
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
                (to.visit)(&ObjectRecord { app, page, object, bytes, start }, arrived);
            }
        }
        (to.visit)(&PageRecord { app, page, bytes, connections: self.opened, start }, delivered);
    }
}
