use super::{AppAction, AppEvent, Application, Page};
use crate::Transfer;
use crate::record::{ObjectRecord, PageRecord};
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
    /// The CATNIP paper's approximation of HTTP/1.1 (section V-F): one connection per page that carries all its bytes.
    V11,
}

/// What all clients of a group have in common.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// The pages; each client fetches each of them once, in its own random order.
    pub pages: Vec<Page>,
    /// How.
    pub http: Http,
    /// Seconds between the end of a page and the start of the next one, and before the first one.
    pub think_s: Distribution,
    /// Images are asked for when so many bytes of the HTML have arrived, or all of it.
    pub images_after_bytes: u64,
}

/// A person who looks at pages one after the other, with time to think in between.
#[derive(Debug)]
pub struct WebClient {
    config: Arc<WebConfig>,
    /// Server, client and TCP parameters of each fetch.
    template: Transfer,
    rng: Rng,
    /// Pages still to come, the next one last.
    order: Vec<u32>,
    page: u32,
    page_start: Time,
    /// Objects asked for, so far.
    opened: u32,
    /// Objects that have arrived.
    complete: u32,
    images_known: bool,
    started: Vec<Time>,
}

impl WebClient {
    /// Client number `user` of the run with this seed; its choices depend on nothing else.
    pub fn new(config: Arc<WebConfig>, template: Transfer, seed: u64, user: u32) -> Self {
        let mut rng = Rng::new(seed, Stream::User(user));
        let mut order: Vec<u32> = (0..config.pages.len() as u32).collect();
        rng.shuffle(&mut order);
        Self {
            config,
            template,
            rng,
            order,
            page: 0,
            page_start: Time::ZERO,
            opened: 0,
            complete: 0,
            images_known: false,
            started: Vec::new(),
        }
    }

    fn think(&mut self, now: Time, actions: &mut Vec<AppAction>) {
        if !self.order.is_empty() {
            let pause = Span::from_secs_f64(self.config.think_s.draw(&mut self.rng));
            actions.push(AppAction::TimerAt(now + pause));
        }
    }

    fn begin_page(&mut self, now: Time, actions: &mut Vec<AppAction>) {
        let Some(page) = self.order.pop() else { return };
        self.page = page;
        self.page_start = now;
        self.opened = 0;
        self.complete = 0;
        self.images_known = false;
        self.started.clear();
        self.open_next(now, actions);
    }

    /// How it fetches pages.
    pub fn http(&self) -> Http {
        self.config.http
    }

    /// The number of the page that is being fetched, from 0.
    pub fn page(&self) -> u32 {
        self.page
    }

    /// The sizes of its objects.
    pub fn objects(&self) -> &[u64] {
        &self.config.pages[self.page as usize].objects
    }

    /// How many transfers the page takes.
    fn transfers(&self) -> u32 {
        match self.config.http {
            Http::V10 { .. } => self.objects().len() as u32,
            Http::V11 => 1,
        }
    }

    fn open_next(&mut self, now: Time, actions: &mut Vec<AppAction>) {
        let (bytes, notify_at) = match self.config.http {
            Http::V11 => (self.config.pages[self.page as usize].bytes(), None),
            Http::V10 { .. } => {
                let bytes = self.objects()[self.opened as usize];
                (bytes, (self.opened == 0).then_some(self.config.images_after_bytes))
            }
        };
        actions.push(AppAction::Open(Transfer { bytes, notify_at, tag: self.opened, ..self.template }));
        self.started.push(now);
        self.opened += 1;
    }

    /// Opens image connections up to the limit.
    fn open_images(&mut self, now: Time, actions: &mut Vec<AppAction>) {
        let Http::V10 { max_connections } = self.config.http else { return };
        while self.images_known
            && self.opened < self.transfers()
            && self.opened - self.complete < max_connections
        {
            self.open_next(now, actions);
        }
    }

    fn on_complete(&mut self, now: Time, id: u32, tag: u32, actions: &mut Vec<AppAction>) {
        self.complete += 1;
        self.images_known = true;
        if matches!(self.config.http, Http::V10 { .. }) {
            actions.push(AppAction::Object(ObjectRecord {
                app: id,
                page: self.page,
                object: tag,
                bytes: self.objects()[tag as usize],
                start: self.started[tag as usize],
            }));
        }
        if self.complete == self.transfers() {
            actions.push(AppAction::Page(PageRecord {
                app: id,
                page: self.page,
                bytes: self.config.pages[self.page as usize].bytes(),
                connections: self.transfers(),
                start: self.page_start,
            }));
            self.think(now, actions);
        } else {
            self.open_images(now, actions);
        }
    }
}

impl Application for WebClient {
    fn on_event(&mut self, now: Time, id: u32, event: AppEvent, actions: &mut Vec<AppAction>) {
        match event {
            AppEvent::Start => self.think(now, actions),
            AppEvent::Timer => self.begin_page(now, actions),
            AppEvent::Reached { .. } => {
                self.images_known = true;
                self.open_images(now, actions);
            }
            AppEvent::Complete { tag } => self.on_complete(now, id, tag, actions),
        }
    }
}
