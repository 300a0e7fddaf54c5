use super::{AppEvent, Application, Multiplexing, Site, Unfinished, Wants, object_of};
use crate::dialogue::Message;
use crate::host::{Conn, Host};
use crate::parties::Parties;
use crate::record::{Event, ObjectRecord, PageRecord};
use catnip_base::{Distribution, Rng, Span, Stream, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// What all browsers of a group have in common.
#[derive(Clone, Debug)]
pub struct LoaderConfig {
    /// What they load.
    pub site: Arc<Site>,
    /// How.
    pub http: Multiplexing,
    /// Connections outlive the page.
    pub keep_alive: bool,
    /// How often all pages are loaded, one after the other; `None`: on and on.
    pub times: Option<u32>,
    /// Seconds between the end of a page and the start of the next one, and before the first one.
    pub think_s: Distribution,
}

/// A browser that loads the pages of a site as they were recorded: each object is asked for so long after the end of another one,
/// however long that has taken here.
#[derive(Debug)]
pub struct Loader {
    config: Arc<LoaderConfig>,
    /// One for each server; origins take turns.
    servers: Vec<Parties>,
    rng: Rng,
    /// Pages that were begun.
    begun: u64,
    page: u32,
    page_start: Time,
    objects: Vec<Progress>,
    /// Objects that have arrived.
    complete: u32,
    /// Of each origin, or of each server if origins share connections.
    pools: Vec<Pool>,
}

/// How far an object is.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// When it was asked for.
    start: Option<Time>,
    received: u64,
}

/// The connections that may be used for the same objects.
#[derive(Debug, Default)]
struct Pool {
    lines: Vec<Line>,
    /// Objects that wait for a connection.
    queue: VecDeque<u32>,
}

#[derive(Debug)]
struct Line {
    conn: Conn,
    /// Responses that have not come.
    awaited: u32,
    /// What was asked for last.
    last: u32,
    /// The page uses it.
    used: bool,
}

/// The key of the timer that begins a page; that of an object is its number and one.
const BEGIN: u64 = 0;

impl Loader {
    /// Browser number `user` of the run with this seed; how long its user thinks depends on nothing else. There is at least one
    /// server.
    pub fn new(config: Arc<LoaderConfig>, servers: Vec<Parties>, seed: u64, user: u32) -> Self {
        let pools = match config.http {
            Multiplexing::Http2 { coalesced: true, .. } => servers.len(),
            _ => config.site.origins as usize,
        };
        Self {
            rng: Rng::new(seed, Stream::User(user)),
            config,
            servers,
            begun: 0,
            page: 0,
            page_start: Time::ZERO,
            objects: Vec::new(),
            complete: 0,
            pools: (0..pools).map(|_| Pool::default()).collect(),
        }
    }

    fn think(&mut self, host: &mut Host<'_>) {
        let pages = self.config.site.pages.len() as u64;
        if self.config.times.is_some_and(|times| self.begun >= pages * u64::from(times)) {
            return self.hang_up(host);
        }
        let pause = Span::from_secs_f64(self.config.think_s.draw(&mut self.rng));
        host.timer(host.now() + pause, BEGIN);
    }

    fn hang_up(&mut self, host: &mut Host<'_>) {
        self.pools.iter_mut().flat_map(|pool| pool.lines.drain(..)).for_each(|line| host.close(line.conn));
    }

    fn begin_page(&mut self, host: &mut Host<'_>) {
        let config = self.config.clone();
        self.page = (self.begun % config.site.pages.len() as u64) as u32;
        self.begun += 1;
        self.page_start = host.now();
        self.complete = 0;
        let objects = config.site.pages[self.page as usize].objects();
        self.objects.clear();
        self.objects.resize(objects.len(), Progress::default());
        self.pools.iter_mut().flat_map(|pool| &mut pool.lines).for_each(|line| line.used = false);
        for (number, object) in (0..).zip(objects) {
            if object.after.is_none() {
                self.plan(number, object.delay, host);
            }
        }
    }

    /// An object is to be asked for after so long.
    fn plan(&mut self, object: u32, delay: Span, host: &mut Host<'_>) {
        if delay == Span::ZERO {
            self.ask(object, host);
        } else {
            host.timer(host.now() + delay, u64::from(object) + 1);
        }
    }

    /// Asks for an object as soon as there is a connection for it.
    fn ask(&mut self, object: u32, host: &mut Host<'_>) {
        let Some(of) = self.config.site.object((self.page, object)) else { return };
        let (most_lines, most_awaited) = match self.config.http {
            Multiplexing::Http1 { connections_per_origin } => (connections_per_origin as usize, 1),
            Multiplexing::Http2 { .. } => (1, u32::MAX),
        };
        let server = self.servers[of.origin as usize % self.servers.len()];
        let pool = of.origin as usize % self.pools.len();
        let Pool { lines, queue } = &mut self.pools[pool];
        let free = lines.iter().position(|line| line.awaited < most_awaited);
        match free {
            Some(line) => self.send(pool, line, object, host),
            None if lines.len() < most_lines => {
                lines.push(Line { conn: host.open(server), awaited: 0, last: object, used: false });
                let line = lines.len() - 1;
                self.send(pool, line, object, host);
            }
            None => queue.push_back(object),
        }
    }

    fn send(&mut self, pool: usize, line: usize, object: u32, host: &mut Host<'_>) {
        let Some(of) = self.config.site.object((self.page, object)) else { return };
        self.objects[object as usize].start = Some(host.now());
        let line = &mut self.pools[pool].lines[line];
        line.awaited += 1;
        line.last = object;
        line.used = true;
        let tag = u64::from(self.page) << 32 | u64::from(object);
        let bytes = of.request_bytes + self.config.http.header_bytes();
        host.send(line.conn, Message { bytes, tag, asks: of.bytes, context: None });
    }

    /// A response, or a frame of one, has arrived.
    fn on_message(&mut self, conn: Conn, bytes: u64, tag: u64, host: &mut Host<'_>) {
        let (page, object) = object_of(tag);
        let is_it = |line: &Line| line.conn == conn;
        let place = |(pool, of): (usize, &Pool)| Some((pool, of.lines.iter().position(is_it)?));
        let Some((pool, line)) = self.pools.iter().enumerate().find_map(place) else { return };
        let config = self.config.clone();
        let Some(of) = config.site.object((page, object)).filter(|_| page == self.page) else { return };
        let Progress { start, received } = &mut self.objects[object as usize];
        *received += bytes.saturating_sub(config.http.header_bytes());
        if *received < of.bytes {
            return;
        }
        let (app, bytes, start) = (host.program(), *received, start.unwrap_or(self.page_start));
        host.record(&Event::Object(ObjectRecord { app, page, object, bytes, start }));
        let Pool { lines, queue } = &mut self.pools[pool];
        lines[line].awaited -= 1;
        if let Some(next) = queue.pop_front() {
            self.send(pool, line, next, host);
        }
        self.complete += 1;
        let whole = &config.site.pages[page as usize];
        for &follower in whole.followers(object) {
            self.plan(follower, whole.objects()[follower as usize].delay, host);
        }
        if self.complete as usize == whole.objects().len() {
            self.end_page(whole.bytes(), host);
        }
    }

    fn end_page(&mut self, bytes: u64, host: &mut Host<'_>) {
        let (app, page, start, connections) =
            (host.program(), self.page, self.page_start, self.connections());
        host.record(&Event::Page(PageRecord { app, page, bytes, connections, start }));
        if !self.config.keep_alive {
            self.hang_up(host);
        }
        self.think(host);
    }

    /// A page was begun and is not over.
    fn is_loading(&self) -> bool {
        (self.complete as usize) < self.objects.len()
    }

    /// Those that the page has used so far.
    fn connections(&self) -> u32 {
        self.pools.iter().flat_map(|pool| &pool.lines).filter(|line| line.used).count() as u32
    }
}

impl Application for Loader {
    fn wants(&self) -> Wants {
        Wants::MESSAGES
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => self.think(host),
            AppEvent::Timer(BEGIN) => self.begin_page(host),
            AppEvent::Timer(key) => self.ask((key - 1) as u32, host),
            AppEvent::Message { conn, message, .. } => {
                self.on_message(conn, message.bytes, message.tag, host)
            }
            _ => {}
        }
    }

    fn unfinished(&self, app: u32, to: &mut Unfinished<'_>) {
        let Some(whole) = self.config.site.pages.get(self.page as usize).filter(|_| self.is_loading()) else {
            return;
        };
        let (page, start) = (self.page, self.page_start);
        let lines = || self.pools.iter().flat_map(|pool| &pool.lines);
        let mut delivered = 0;
        for ((object, of), progress) in (0..).zip(whole.objects()).zip(&self.objects) {
            // Frames have been counted, a response as a whole has not.
            let line = lines().find(|line| line.awaited == 1 && line.last == object);
            let underway = match self.config.http {
                Multiplexing::Http1 { .. } => line.map_or(0, |line| (to.arrived)(line.conn)),
                Multiplexing::Http2 { .. } => 0,
            };
            let received = progress.received.max(underway).min(of.bytes);
            delivered += received;
            if let Some(start) = progress.start.filter(|_| progress.received < of.bytes) {
                let bytes = of.bytes;
                (to.tell)(Event::Object(ObjectRecord { app, page, object, bytes, start }), received);
            }
        }
        let connections = self.connections();
        let bytes = whole.bytes();
        (to.tell)(Event::Page(PageRecord { app, page, bytes, connections, start }), delivered);
    }
}
