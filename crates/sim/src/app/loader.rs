use super::pages::{ObjectRecord, PageRecord, object_of, tag_of};
use super::{AppEvent, Application, Handshake, Interest, Multiplexing, Site, Tls, Unfinished, tls};
use crate::connection_spec::ConnectionSpec;
use crate::host::{Conn, Host};
use crate::message_stream::Message;
use catnip_base::{Distribution, Rng, Span, Stream, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Configuration of the browsers of a group.
#[derive(Clone, Debug)]
pub struct LoaderConfig {
    /// Site to load.
    pub site: Arc<Site>,
    /// Version of HTTP and use of connections.
    pub http: Multiplexing,
    /// Handshakes of connections to origins with TLS.
    pub tls: Tls,
    /// True if connections stay open at the end of a page, for use by the next page.
    pub keep_alive: bool,
    /// Number of times that all pages are loaded, one after the other; `None` for no limit.
    pub times: Option<u32>,
    /// Think time before the first page, and between the end of a page and the start of the next page, seconds.
    pub think_s: Distribution,
}

/// Browser that loads the pages of a recorded site. Each object is requested after the recorded delay from the end of the object on which
/// it depends. The delay does not depend on how long that object takes to load in the run.
#[derive(Debug)]
pub struct Loader {
    config: Arc<LoaderConfig>,
    /// Ends and TCP options of the connections to each server; origins are assigned to servers in rotation.
    servers: Vec<ConnectionSpec>,
    rng: Rng,
    /// Number of pages started.
    pages_started: u64,
    page: u32,
    page_start: Time,
    objects: Vec<Progress>,
    /// Number of objects received.
    complete: u32,
    /// Pool of each origin, or of each server if origins share connections.
    pools: Vec<Pool>,
}

/// Progress of an object.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Time of the request.
    start: Option<Time>,
    received: u64,
}

/// Connections that share a queue of objects to request.
#[derive(Debug, Default)]
struct Pool {
    conns: Vec<ConnState>,
    /// Objects that wait for a connection.
    queue: VecDeque<u32>,
}

#[derive(Debug)]
struct ConnState {
    conn: Conn,
    /// Number of outstanding responses.
    outstanding: u32,
    /// Object of the last request.
    last: u32,
    /// True if the current page has used the connection.
    used: bool,
    /// True while requests wait for the handshake of TLS.
    in_handshake: bool,
    /// Bytes that precede the next request: the end of a handshake.
    prefix_bytes: u64,
}

/// Key of the timer that starts a page. The key of an object is its number plus one.
const START_PAGE: u64 = 0;

impl Loader {
    /// Creates the browser of user `user`. Its think times depend only on the configuration, the seed of the run and `user`. `servers` must
    /// not be empty.
    pub fn new(config: Arc<LoaderConfig>, servers: Vec<ConnectionSpec>, seed: u64, user: u32) -> Self {
        let pools = match config.http {
            Multiplexing::Http2 { coalesced: true, .. } => servers.len(),
            _ => config.site.origins.len(),
        };
        Self {
            rng: Rng::new(seed, Stream::User(user)),
            config,
            servers,
            pages_started: 0,
            page: 0,
            page_start: Time::ZERO,
            objects: Vec::new(),
            complete: 0,
            pools: (0..pools).map(|_| Pool::default()).collect(),
        }
    }

    fn think(&mut self, host: &mut Host<'_>) {
        let pages = self.config.site.pages.len() as u64;
        if self.config.times.is_some_and(|times| self.pages_started >= pages * u64::from(times)) {
            return self.close_conns(host);
        }
        let pause = Span::from_secs_f64(self.config.think_s.draw(&mut self.rng));
        host.timer(host.now() + pause, START_PAGE);
    }

    fn close_conns(&mut self, host: &mut Host<'_>) {
        self.pools.iter_mut().flat_map(|pool| pool.conns.drain(..)).for_each(|state| host.close(state.conn));
    }

    fn start_page(&mut self, host: &mut Host<'_>) {
        let config = self.config.clone();
        self.page = (self.pages_started % config.site.pages.len() as u64) as u32;
        self.pages_started += 1;
        self.page_start = host.now();
        self.complete = 0;
        let objects = config.site.pages[self.page as usize].objects();
        self.objects.clear();
        self.objects.resize(objects.len(), Progress::default());
        self.pools.iter_mut().flat_map(|pool| &mut pool.conns).for_each(|state| state.used = false);
        for (number, object) in (0..).zip(objects) {
            if object.after.is_none() {
                self.schedule_request(number, object.delay, host);
            }
        }
    }

    /// Requests an object after a delay.
    fn schedule_request(&mut self, object: u32, delay: Span, host: &mut Host<'_>) {
        if delay == Span::ZERO {
            self.request(object, host);
        } else {
            host.timer(host.now() + delay, u64::from(object) + 1);
        }
    }

    /// Requests an object as soon as a connection is available.
    fn request(&mut self, object: u32, host: &mut Host<'_>) {
        let Some(of) = self.config.site.object((self.page, object)) else { return };
        let (max_conns, max_outstanding) = self.limits();
        let server = self.servers[of.origin as usize % self.servers.len()];
        let pool = of.origin as usize % self.pools.len();
        let Pool { conns, queue } = &mut self.pools[pool];
        let is_free = |state: &ConnState| !state.in_handshake && state.outstanding < max_outstanding;
        if let Some(index) = conns.iter().position(is_free) {
            return self.send(pool, index, object, host);
        }
        if conns.len() == max_conns {
            return queue.push_back(object);
        }
        let tls = if self.config.site.origins[of.origin as usize] { self.config.tls } else { Tls::default() };
        let conn = host.open(server);
        let in_handshake = tls.waits();
        if tls.handshake != Handshake::None {
            let (bytes, response_bytes) = (Tls::CLIENT_HELLO_BYTES, tls.flight_bytes());
            host.send(conn, Message { bytes, tag: tls::TAG, response_bytes, context: None });
        }
        let prefix_bytes = if in_handshake { Tls::FINISHED_BYTES } else { 0 };
        conns.push(ConnState { conn, outstanding: 0, last: object, used: true, in_handshake, prefix_bytes });
        if in_handshake {
            queue.push_back(object);
        } else {
            let index = conns.len() - 1;
            self.send(pool, index, object, host);
        }
    }

    /// Returns the largest number of connections of a pool, and of outstanding responses of a connection.
    fn limits(&self) -> (usize, u32) {
        match self.config.http {
            Multiplexing::Http1 { connections_per_origin } => (connections_per_origin as usize, 1),
            Multiplexing::Http2 { .. } => (1, u32::MAX),
        }
    }

    /// Handles the server's flight of a handshake: requests what waits for a connection.
    fn on_handshake(&mut self, conn: Conn, host: &mut Host<'_>) {
        let Some((pool, index)) = self.find(conn) else { return };
        let (_, max_outstanding) = self.limits();
        self.pools[pool].conns[index].in_handshake = false;
        while self.pools[pool].conns[index].outstanding < max_outstanding
            && let Some(next) = self.pools[pool].queue.pop_front()
        {
            self.send(pool, index, next, host);
        }
    }

    /// Returns the pool of a connection and its index there; `None` if it was closed.
    fn find(&self, conn: Conn) -> Option<(usize, usize)> {
        let is_same = |state: &ConnState| state.conn == conn;
        let find_in = |(pool, of): (usize, &Pool)| Some((pool, of.conns.iter().position(is_same)?));
        self.pools.iter().enumerate().find_map(find_in)
    }

    fn send(&mut self, pool: usize, index: usize, object: u32, host: &mut Host<'_>) {
        let Some(of) = self.config.site.object((self.page, object)) else { return };
        self.objects[object as usize].start = Some(host.now());
        let state = &mut self.pools[pool].conns[index];
        state.outstanding += 1;
        state.last = object;
        state.used = true;
        let tag = tag_of(self.page, object);
        let bytes =
            of.request_bytes + self.config.http.header_bytes() + std::mem::take(&mut state.prefix_bytes);
        host.send(state.conn, Message { bytes, tag, response_bytes: of.bytes, context: None });
    }

    /// Handles a response or a frame of a response.
    fn on_message(&mut self, conn: Conn, bytes: u64, tag: u64, host: &mut Host<'_>) {
        let (page, object) = object_of(tag);
        let Some((pool, index)) = self.find(conn) else { return };
        let config = self.config.clone();
        let Some(of) = config.site.object((page, object)).filter(|_| page == self.page) else { return };
        let Progress { start, received } = &mut self.objects[object as usize];
        *received += bytes.saturating_sub(config.http.header_bytes());
        if *received < of.bytes {
            return;
        }
        let (app, bytes, start) = (host.program(), *received, start.unwrap_or(self.page_start));
        host.record(&ObjectRecord { app, page, object, bytes, start });
        let Pool { conns, queue } = &mut self.pools[pool];
        conns[index].outstanding -= 1;
        if let Some(next) = queue.pop_front() {
            self.send(pool, index, next, host);
        }
        self.complete += 1;
        let site_page = &config.site.pages[page as usize];
        for &follower in site_page.followers(object) {
            self.schedule_request(follower, site_page.objects()[follower as usize].delay, host);
        }
        if self.complete as usize == site_page.objects().len() {
            self.end_page(site_page.bytes(), host);
        }
    }

    fn end_page(&mut self, bytes: u64, host: &mut Host<'_>) {
        let (app, page, start, connections) =
            (host.program(), self.page, self.page_start, self.connections());
        host.record(&PageRecord { app, page, bytes, connections, start });
        if !self.config.keep_alive {
            self.close_conns(host);
        }
        self.think(host);
    }

    /// Returns true if a page was started and is not complete.
    fn is_loading(&self) -> bool {
        (self.complete as usize) < self.objects.len()
    }

    /// Returns the number of connections that the page has used so far.
    fn connections(&self) -> u32 {
        self.pools.iter().flat_map(|pool| &pool.conns).filter(|state| state.used).count() as u32
    }
}

impl Application for Loader {
    fn interest(&self) -> Interest {
        Interest::MESSAGES
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => self.think(host),
            AppEvent::Timer(START_PAGE) => self.start_page(host),
            AppEvent::Timer(key) => self.request((key - 1) as u32, host),
            AppEvent::Message { conn, message, .. } if message.tag == tls::TAG => {
                self.on_handshake(conn, host);
            }
            AppEvent::Message { conn, message, .. } => {
                self.on_message(conn, message.bytes, message.tag, host)
            }
            _ => {}
        }
    }

    fn unfinished(&self, app: u32, visitor: &mut Unfinished<'_>) {
        let Some(site_page) = self.config.site.pages.get(self.page as usize).filter(|_| self.is_loading())
        else {
            return;
        };
        let (page, start) = (self.page, self.page_start);
        let conns = || self.pools.iter().flat_map(|pool| &pool.conns);
        let mut delivered = 0;
        for ((object, of), progress) in (0..).zip(site_page.objects()).zip(&self.objects) {
            // `progress` counts the frames of HTTP/2 as they arrive, but a response of HTTP/1.1 only when it is complete.
            let state = conns().find(|state| state.outstanding == 1 && state.last == object);
            let partial = match self.config.http {
                Multiplexing::Http1 { .. } => state.map_or(0, |state| (visitor.arrived)(state.conn)),
                Multiplexing::Http2 { .. } => 0,
            };
            let received = progress.received.max(partial).min(of.bytes);
            delivered += received;
            if let Some(start) = progress.start.filter(|_| progress.received < of.bytes) {
                let bytes = of.bytes;
                (visitor.visit)(&ObjectRecord { app, page, object, bytes, start }, received);
            }
        }
        let connections = self.connections();
        let bytes = site_page.bytes();
        (visitor.visit)(&PageRecord { app, page, bytes, connections, start }, delivered);
    }
}
