mod pools;
mod records;

pub use self::pools::Coalescing;
pub use self::records::{FetchRecord, LoadRecord};

use self::pools::{ConnState, Pools, insert_by_urgency};
use self::records::{Milestones, Progress};
use super::names::{self, LookUps, NameFlows, Names};
use super::pages::{ObjectRecord, PageRecord, object_of, tag_of};
use super::{
    AppEvent, Application, Interest, Milestone, Site, SiteObject, SitePage, Tls, Unfinished, Version, tls,
};
use crate::FlowId;
use crate::connection_spec::ConnectionSpec;
use crate::host::{Conn, Host};
use crate::message_stream::Message;
use catnip_base::{Distribution, Rng, Span, Stream, Time};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// Configuration of the browsers of a group.
#[derive(Clone, Debug)]
pub struct LoaderConfig {
    /// Site to load.
    pub site: Arc<Site>,
    /// Maximum number of parallel connections to an origin with HTTP/1.1, at least one.
    pub connections_per_origin: u32,
    /// Sharing of connections by origins with HTTP/2.
    pub coalescing: Coalescing,
    /// Handshakes of connections to origins with TLS.
    pub tls: Tls,
    /// Look-ups of names; `None` if all are known.
    pub look_ups: Option<LookUps>,
    /// Limit of requests while objects block the first rendering: one of urgency 2 is sent if fewer of that urgency are outstanding, and a less
    /// urgent one if fewer of any are. `None` for no limit.
    pub early_limit: Option<u32>,
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
    rng: Rng,
    /// Number of pages started.
    pages_started: u64,
    page: u32,
    page_start: Time,
    objects: Vec<Progress>,
    /// Number of objects received.
    complete: u32,
    milestones: Milestones,
    /// Objects that are requested later, in the order of their urgencies.
    held: VecDeque<(u8, u32)>,
    /// Number of outstanding requests, and of those of urgency [`MEDIUM`].
    outstanding: u32,
    medium: u32,
    names: Option<Names>,
    /// Objects that wait for the look-up of a name: the name and the object.
    unnamed: Vec<(u32, u32)>,
    pools: Pools,
}

/// Key of the timer that starts a page. The key of an object is its number plus one.
const START_PAGE: u64 = 0;
/// Urgency of what Chromium requests with the priority Medium.
const MEDIUM: u8 = 2;

impl Loader {
    /// Creates the browser of user `user`. Its think times depend only on the configuration, the seed of the run and `user`. `servers`, the
    /// ends and TCP options of the connections to each server, must not be empty. `flows` are those of each name of the site, if names are
    /// looked up.
    pub fn new(
        config: Arc<LoaderConfig>,
        servers: &[ConnectionSpec],
        flows: Vec<NameFlows>,
        seed: u64,
        user: u32,
    ) -> Self {
        let names = config.look_ups.clone();
        let pools =
            Pools::new(&config.site, servers, config.connections_per_origin, config.coalescing, config.tls);
        Self {
            rng: Rng::new(seed, Stream::User(user)),
            names: names.map(|look_ups| Names::new(look_ups, &config.site, flows, seed, user)),
            unnamed: Vec::new(),
            pools,
            config,
            pages_started: 0,
            page: 0,
            page_start: Time::ZERO,
            objects: Vec::new(),
            complete: 0,
            milestones: Milestones::default(),
            held: VecDeque::new(),
            outstanding: 0,
            medium: 0,
        }
    }

    fn start(&mut self, host: &mut Host<'_>) {
        if let Some(names) = &self.names {
            names.start(host);
        }
        self.think(host);
    }

    fn think(&mut self, host: &mut Host<'_>) {
        let pages = self.config.site.pages.len() as u64;
        if self.config.times.is_some_and(|times| self.pages_started >= pages * u64::from(times)) {
            return self.pools.close_all(host);
        }
        let pause = Span::from_secs_f64(self.config.think_s.draw(&mut self.rng));
        host.timer(host.now() + pause, START_PAGE);
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
        let waiting = |by| objects.iter().filter(|object| object.holds <= by).count() as u32;
        self.milestones = Milestones::of([Milestone::Render, Milestone::Load].map(waiting));
        (self.outstanding, self.medium) = (0, 0);
        self.pools.start_page();
        if let Some(names) = &mut self.names {
            names.start_page();
        }
        for (number, object) in (0..).zip(objects) {
            if object.after.is_none() {
                self.schedule_request(number, object.delay, host);
            }
        }
    }

    /// Requests an object after a delay.
    fn schedule_request(&mut self, object: u32, delay: Span, host: &mut Host<'_>) {
        if delay == Span::ZERO {
            self.want(object, host);
        } else {
            host.timer(host.now() + delay, u64::from(object) + 1);
        }
    }

    /// Requests an object, or holds it while others block the first rendering and too many are outstanding, as Chromium does until the body
    /// of the document begins.
    fn want(&mut self, object: u32, host: &mut Host<'_>) {
        let Some(&of) = self.config.site.object((self.page, object)) else { return };
        self.objects[object as usize].wanted = host.now();
        if self.may_go(of.priority.urgency) {
            self.ask(object, of, host);
        } else {
            insert_by_urgency(&mut self.held, object, of.priority.urgency);
        }
    }

    /// Returns true if an object of this urgency may be requested now.
    fn may_go(&self, urgency: u8) -> bool {
        let Some(limit) = self.config.early_limit.filter(|_| !self.milestones.is_unblocked()) else {
            return true;
        };
        match urgency.cmp(&MEDIUM) {
            Ordering::Less => true,
            Ordering::Equal => self.medium < limit,
            Ordering::Greater => self.outstanding < limit,
        }
    }

    /// Requests objects that were held, as many as may be requested now.
    fn release(&mut self, host: &mut Host<'_>) {
        while let Some(&(urgency, object)) = self.held.front()
            && self.may_go(urgency)
        {
            self.held.pop_front();
            if let Some(&of) = self.config.site.object((self.page, object)) {
                self.ask(object, of, host);
            }
        }
    }

    /// Requests an object as soon as its name is known and a connection is available.
    fn ask(&mut self, object: u32, of: SiteObject, host: &mut Host<'_>) {
        self.objects[object as usize].asked = host.now();
        self.outstanding += 1;
        self.medium += u32::from(of.priority.urgency == MEDIUM);
        if let Some(name) = self.config.site.origin(&of).name
            && let Some(names) = &mut self.names
            && !names.ask(name, host)
        {
            return self.unnamed.push((name, object));
        }
        self.request(object, of, host);
    }

    /// Requests an object, whose name is known, as soon as a connection is available.
    fn request(&mut self, object: u32, of: SiteObject, host: &mut Host<'_>) {
        self.objects[object as usize].looked_up = host.now();
        let pool = self.pools.of_origin(of.origin);
        if let Some(index) = self.pools.pool(pool).free() {
            return self.send(pool, index, object, host);
        }
        self.pools.pool_mut(pool).enqueue(object, of.priority.urgency);
        if let Some(index) = self.pools.open(pool, host) {
            self.send_waiting(pool, index, host);
        }
    }

    /// Sends requests that wait for a connection, as many as this one may take.
    fn send_waiting(&mut self, pool: usize, index: usize, host: &mut Host<'_>) {
        while let Some(object) = self.pools.pool_mut(pool).next_for(index) {
            self.send(pool, index, object, host);
        }
    }

    fn send(&mut self, pool: usize, index: usize, object: u32, host: &mut Host<'_>) {
        let Some(&of) = self.config.site.object((self.page, object)) else { return };
        let now = host.now();
        let pool = self.pools.pool_mut(pool);
        let bytes = pool.request_bytes(index, of.request_bytes);
        let version = pool.version;
        let state = &mut pool.conns[index];
        state.outstanding += 1;
        state.last = object;
        state.used = true;
        let progress = &mut self.objects[object as usize];
        (progress.start, progress.sent) = (Some(now), now);
        if state.first.is_none() {
            state.first = Some(object);
            progress.wait_for(state);
        }
        let tag = tag_of(self.page, object);
        host.send(state.conn, Message { bytes, tag, response_bytes: of.bytes, context: None });
        if version == Version::Http1 && !state.awaits_ticket {
            host.notify(state.conn, tls::first_bytes(of.bytes, pool.has_tls));
        }
    }

    /// Handles the end of the opening of a connection.
    fn on_opened(&mut self, conn: Conn, host: &mut Host<'_>) {
        let Some((pool, index)) = self.pools.find(conn) else { return };
        let state = &mut self.pools.pool_mut(pool).conns[index];
        state.connected = Some(host.now());
        // The first request was sent together with the end of the handshake.
        if let Some(first) = state.first {
            let progress = &mut self.objects[first as usize];
            progress.sent = host.now();
            progress.wait_for(state);
        }
    }

    /// Handles the server's flight of a handshake: requests what waits for the connection.
    fn on_handshake(&mut self, conn: Conn, host: &mut Host<'_>) {
        let Some((pool, index)) = self.pools.find(conn) else { return };
        self.pools.pool_mut(pool).conns[index].ready.get_or_insert(host.now());
        self.send_waiting(pool, index, host);
    }

    /// Handles a server's tickets, which precede its first response.
    fn on_ticket(&mut self, conn: Conn, host: &mut Host<'_>) {
        let Some((pool, index)) = self.pools.find(conn) else { return };
        let pool = self.pools.pool_mut(pool);
        pool.on_ticket(index);
        let last = pool.conns[index].last;
        if pool.version == Version::Http1
            && let Some(of) = self.config.site.object((self.page, last))
        {
            host.notify(conn, tls::first_bytes(of.bytes, pool.has_tls));
        }
    }

    fn on_datagram(&mut self, flow: FlowId, host: &mut Host<'_>) {
        let Some(known) = self.names.as_mut().and_then(|names| names.on_datagram(flow, host)) else { return };
        let mut waiting = Vec::new();
        self.unnamed.retain(|&(name, object)| {
            if name == known {
                waiting.push(object);
            }
            name != known
        });
        for object in waiting {
            if let Some(&of) = self.config.site.object((self.page, object)) {
                self.request(object, of, host);
            }
        }
    }

    fn on_first_byte(&mut self, tag: u64, host: &mut Host<'_>) {
        let (page, object) = object_of(tag);
        if page == self.page
            && let Some(progress) = self.objects.get_mut(object as usize)
        {
            progress.first_byte.get_or_insert(host.now());
            self.milestones.on_first_byte(host.now());
        }
    }

    /// Handles a response or a frame of a response.
    fn on_message(&mut self, conn: Conn, bytes: u64, tag: u64, host: &mut Host<'_>) {
        let (page, object) = object_of(tag);
        let Some((pool, index)) = self.pools.find(conn) else { return };
        let config = self.config.clone();
        let Some(of) = config.site.object((page, object)).filter(|_| page == self.page) else { return };
        self.on_first_byte(tag, host);
        let progress = &mut self.objects[object as usize];
        progress.received += self.pools.pool(pool).payload(bytes, progress.received == 0);
        if progress.received < of.bytes {
            return;
        }
        self.record_object(object, of, conn, host);
        self.pools.pool_mut(pool).conns[index].outstanding -= 1;
        self.send_waiting(pool, index, host);
        self.complete += 1;
        let needed = [Milestone::Render, Milestone::Load].map(|by| of.holds <= by);
        self.outstanding -= 1;
        self.medium -= u32::from(of.priority.urgency == MEDIUM);
        self.milestones.on_end(host.now(), self.page_start, of.bytes, needed);
        self.release(host);
        let site_page = &config.site.pages[page as usize];
        for &follower in site_page.followers(object) {
            self.schedule_request(follower, site_page.objects()[follower as usize].delay, host);
        }
        if self.complete as usize == site_page.objects().len() {
            self.end_page(site_page, host);
        }
    }

    fn record_object(&self, object: u32, of: &SiteObject, conn: Conn, host: &mut Host<'_>) {
        let (app, page) = (host.program(), self.page);
        let progress = &self.objects[object as usize];
        let start = progress.start.unwrap_or(self.page_start);
        host.record(&ObjectRecord { app, page, object, bytes: progress.received, start });
        host.record(&FetchRecord {
            app,
            page,
            object,
            origin: of.origin,
            bytes: of.bytes,
            wanted: progress.wanted,
            look_up: progress.looked_up.since(progress.asked),
            connect: progress.connect,
            tls: progress.tls,
            sent: progress.sent,
            first_byte: progress.first_byte.unwrap_or(host.now()),
            connection: conn.number,
            version: self.config.site.origin(of).version,
        });
    }

    fn end_page(&mut self, site_page: &SitePage, host: &mut Host<'_>) {
        let (app, page, start, connections) =
            (host.program(), self.page, self.page_start, self.connections());
        let bytes = site_page.bytes();
        host.record(&PageRecord { app, page, bytes, connections, start });
        let load = self.milestones.record(app, page, start, bytes, host.now());
        host.record(&LoadRecord { load: load.load + site_page.load_delay(), ..load });
        if !self.config.keep_alive {
            self.pools.close_all(host);
        }
        self.think(host);
    }

    /// Returns true if a page was started and is not complete.
    fn is_loading(&self) -> bool {
        (self.complete as usize) < self.objects.len()
    }

    /// Returns the number of connections that the page has used so far.
    fn connections(&self) -> u32 {
        self.pools.conns().filter(|state| state.used).count() as u32
    }
}

impl Progress {
    /// Sets the times that the first request of a connection waits for it.
    fn wait_for(&mut self, state: &ConnState) {
        let Some(connected) = state.connected else { return };
        let from = self.looked_up.max(state.opened);
        self.connect = connected.since(from);
        self.tls = state.ready.map_or(Span::ZERO, |ready| ready.since(from.max(connected)));
    }
}

impl Application for Loader {
    fn interest(&self) -> Interest {
        Interest { opened: true, ..Interest::MESSAGES }
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => self.start(host),
            AppEvent::Timer(START_PAGE) => self.start_page(host),
            AppEvent::Timer(key) if key >= names::FIRST_KEY => {
                if let Some(names) = &mut self.names {
                    names.on_timer(key, host);
                }
            }
            AppEvent::Timer(key) => self.want((key - 1) as u32, host),
            AppEvent::Datagram(flow) => self.on_datagram(flow, host),
            AppEvent::Opened(conn) => self.on_opened(conn, host),
            AppEvent::Message { conn, message, .. } => match message.tag {
                tls::TAG => self.on_handshake(conn, host),
                tls::TICKET_TAG => self.on_ticket(conn, host),
                tag => self.on_message(conn, message.bytes, tag, host),
            },
            AppEvent::Progress { tag, .. } => self.on_first_byte(tag, host),
            _ => {}
        }
    }

    fn unfinished(&self, app: u32, visitor: &mut Unfinished<'_>) {
        let Some(site_page) = self.config.site.pages.get(self.page as usize).filter(|_| self.is_loading())
        else {
            return;
        };
        let (page, start) = (self.page, self.page_start);
        let mut delivered = 0;
        for ((object, of), progress) in (0..).zip(site_page.objects()).zip(&self.objects) {
            // `progress` counts the frames of HTTP/2 as they arrive, but a response of HTTP/1.1 only when it is complete.
            let partial = match self.config.site.origin(of).version {
                Version::Http1 => {
                    let state =
                        self.pools.conns().find(|state| state.outstanding == 1 && state.last == object);
                    state.map_or(0, |state| (visitor.arrived)(state.conn))
                }
                Version::Http2 => 0,
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
