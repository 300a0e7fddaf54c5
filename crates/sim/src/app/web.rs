use super::{AppEvent, Application, Page, PageSource, Unfinished, Wants};
use crate::dialogue::Message;
use crate::host::{Conn, Host};
use crate::parties::Parties;
use crate::record::{Event, ObjectRecord, PageRecord};
use catnip_base::{Distribution, Rng, Span, Stream, Time};
use std::sync::Arc;

/// How a client fetches a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// A connection per object, at most so many at a time (CATNIP paper, section IV-A).
    V10 {
        /// Parallel connections, one of which may be that of the HTML.
        max_connections: u32,
    },
    /// Persistent connections (RFC 9112, section 9.3).
    V11 {
        /// Parallel connections to the server.
        max_connections: u32,
        /// Requests do not wait for the answers to earlier ones (RFC 9112, section 9.3.2).
        pipelining: bool,
        /// Connections outlive the page.
        keep_alive: bool,
    },
    /// The CATNIP paper's approximation of HTTP/1.1 (section V-F): one connection per page that carries all its bytes as one
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

/// What all clients of a group have in common.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// The pages.
    pub pages: PageSource,
    /// How.
    pub http: Http,
    /// Seconds between the end of a page and the start of the next one, and before the first one.
    pub think_s: Distribution,
    /// Images are asked for when so many bytes of the HTML have arrived, or all of it.
    pub images_after_bytes: u64,
    /// Bytes of a request; 0: it takes no time.
    pub request_bytes: u64,
}

/// A person who looks at pages one after the other, with time to think in between.
#[derive(Debug)]
pub struct WebClient {
    config: Arc<WebConfig>,
    parties: Parties,
    rng: Rng,
    /// Known pages still to come, the next one last.
    order: Vec<u32>,
    /// The page that is being fetched, and its number from 0.
    objects: Vec<u64>,
    page: u32,
    page_start: Time,
    /// Objects asked for, so far, and those of a connection that was closed before their answers came.
    asked: u32,
    again: Vec<u32>,
    /// Objects that have arrived.
    complete: u32,
    images_known: bool,
    started: Vec<Time>,
    lines: Vec<Line>,
    /// Connections opened for the page.
    opened: u32,
}

/// A connection, and the objects asked for over it that have not come.
#[derive(Debug)]
struct Line {
    conn: Conn,
    awaited: Vec<u32>,
}

/// Page and object, both from 0, in the tag of a request or an answer.
pub fn object_of(tag: u64) -> (u32, u32) {
    ((tag >> 32) as u32, tag as u32)
}

impl WebClient {
    /// Client number `user` of the run with this seed; its choices depend on nothing else.
    pub fn new(config: Arc<WebConfig>, parties: Parties, seed: u64, user: u32) -> Self {
        let mut client = Self {
            rng: Rng::new(seed, Stream::User(user)),
            config,
            parties,
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

    /// All known pages, in a random order.
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

    /// How many answers the page takes.
    fn answers(&self) -> u32 {
        if self.config.http == Http::Approximate { 1 } else { self.objects.len() as u32 }
    }

    fn open(&mut self, host: &mut Host<'_>) -> Conn {
        let conn = host.open(self.parties);
        self.lines.push(Line { conn, awaited: Vec::new() });
        self.opened += 1;
        conn
    }

    /// Asks for the next object over this connection.
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
        let tag = u64::from(self.page) << 32 | u64::from(object);
        host.send(conn, Message { bytes: self.config.request_bytes, tag, asks, context: None });
    }

    fn is_to_ask(&self) -> bool {
        !self.again.is_empty() || (self.images_known && self.asked < self.answers())
    }

    /// Asks for images as far as connections allow it.
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
            host.record(&Event::Object(ObjectRecord { app, page: self.page, object, bytes, start }));
        }
        if self.complete < self.answers() {
            return self.ask_on(host);
        }
        let (page, bytes, start) = (self.page, self.objects.iter().sum(), self.page_start);
        host.record(&Event::Page(PageRecord { app, page, bytes, connections: self.opened, start }));
        if !matches!(self.config.http, Http::V11 { keep_alive: true, .. }) {
            self.hang_up(host);
        }
        self.think(host);
    }

    /// The server will not answer any more over this connection; what it has not answered is asked for over another one.
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
    fn wants(&self) -> Wants {
        Wants { opened: false, ..Wants::ALL }
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
                (to.tell)(Event::Object(ObjectRecord { app, page, object, bytes, start }), arrived);
            }
        }
        (to.tell)(Event::Page(PageRecord { app, page, bytes, connections: self.opened, start }), delivered);
    }
}
