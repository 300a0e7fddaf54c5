mod rule;

pub use rule::{Fixed, RateRule};

use self::rule::{Chooser, Offer};
use super::{AppEvent, Application, Interest, Unfinished};
use crate::connection_spec::ConnectionSpec;
use crate::host::{Conn, Host};
use crate::message_stream::Message;
use crate::record::Activity;
use catnip_base::{Distribution, Rate, Rng, Span, Stream, Time};
use std::sync::Arc;

/// Configuration of videos that users watch: segments of one of several rates, fetched ahead of what is played.
#[derive(Clone, Debug)]
pub struct VideoConfig {
    /// Rates, bit/s, in ascending order; not empty.
    pub ladder: Vec<f64>,
    /// Rule by which a client chooses the rate of the next segment.
    pub rule: RateRule,
    /// Playing time of a segment.
    pub segment: Span,
    /// Number of segments of a video.
    pub segments: u32,
    /// Playing time that a client fetches ahead at most.
    pub buffer: Span,
    /// Playing time that a client has fetched ahead when it begins to play, and when it goes on after a stall.
    pub start: Span,
    /// Time before each video, seconds.
    pub pause_s: Distribution,
    /// Size of a request, bytes.
    pub request_bytes: u64,
}

/// Record of a fetched segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentRecord {
    /// Number of the application.
    pub app: u32,
    /// Number of the segment among all segments of its user, from 0.
    pub number: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// Rate in the video: the size divided by the playing time.
    pub rate: Rate,
    /// Time of the request.
    pub start: Time,
}

impl Activity for SegmentRecord {
    fn app(&self) -> u32 {
        self.app
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn tag(&self) -> Option<u64> {
        Some(self.number)
    }
}

/// Record of a video, which ends when it has been played to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VideoRecord {
    /// Number of the application.
    pub app: u32,
    /// Number of the video of its user, from 0.
    pub number: u64,
    /// Time of the first request.
    pub start: Time,
    /// Time from the first request until the client began to play; `None` if it has not begun.
    pub startup: Option<Span>,
    /// Number of times at which playing stopped, because nothing was fetched ahead.
    pub stalls: u32,
    /// Duration of the stalls that have ended.
    pub stalled: Span,
    /// Number of fetched segments.
    pub segments: u32,
    /// Size of the fetched segments, bytes.
    pub fetched_bytes: u64,
    /// Time during which segments were fetched.
    pub fetching: Span,
    /// Playing time of the fetched segments.
    pub fetched: Span,
    /// Number of segments with another rate than the segment before.
    pub switches: u32,
}

impl Activity for VideoRecord {
    fn app(&self) -> u32 {
        self.app
    }
}

/// User who watches one video after the other. Segments come over one connection, one request at a time. A client plays once it has fetched
/// enough ahead, stops when nothing is left, and fetches no further than its buffer holds, so that the server falls idle between segments.
#[derive(Debug)]
pub struct Video {
    config: Arc<VideoConfig>,
    spec: ConnectionSpec,
    rng: Rng,
    conn: Option<Conn>,
    video: VideoRecord,
    /// Number of requests of all videos.
    requests: u64,
    /// Time of the outstanding request.
    requested: Option<Time>,
    chooser: Chooser,
    /// Index of the rate of the segment that was requested last.
    level: usize,
    playback: Playback,
}

#[derive(Clone, Copy, Debug)]
enum Playback {
    /// No video.
    Off,
    /// The client waits since a time for enough to play, at a position.
    Waiting(Time, Span),
    /// The client plays since a time, from a position.
    Playing(Time, Span),
}

/// Keys of timers: the next video, the next request, and the end of what has been fetched.
const NEXT: u64 = 0;
const FETCH: u64 = 1;
const RUN_OUT: u64 = 2;

impl Video {
    /// Creates the user `user`. Its pauses depend only on the configuration, the seed of the run and `user`.
    pub fn new(config: Arc<VideoConfig>, spec: ConnectionSpec, seed: u64, user: u32) -> Self {
        let rng = Rng::new(seed, Stream::User(user));
        let video = Self::begun(0, 0, Time::ZERO);
        let chooser = Chooser::new(config.rule.clone());
        Self {
            config,
            spec,
            rng,
            conn: None,
            video,
            requests: 0,
            requested: None,
            chooser,
            level: 0,
            playback: Playback::Off,
        }
    }

    fn begun(app: u32, number: u64, start: Time) -> VideoRecord {
        VideoRecord {
            app,
            number,
            start,
            startup: None,
            stalls: 0,
            stalled: Span::ZERO,
            segments: 0,
            fetched_bytes: 0,
            fetching: Span::ZERO,
            fetched: Span::ZERO,
            switches: 0,
        }
    }

    /// Chooses the rate of the next segment.
    fn choose(&mut self, now: Time) {
        let VideoConfig { ladder, segment, buffer, .. } = &*self.config;
        let offer = Offer { ladder, segment_s: segment.as_secs(), buffer_s: buffer.as_secs() };
        let level = self.chooser.next(offer, self.level, self.ahead(now).as_secs());
        self.video.switches += u32::from(level != self.level && self.video.segments > 0);
        self.level = level;
    }

    /// Returns the size of a segment with the chosen rate, bytes.
    fn segment_bytes(&self) -> u64 {
        segment_bytes(self.config.ladder[self.level], self.config.segment)
    }

    fn segment(&self, app: u32, start: Time) -> SegmentRecord {
        let rate =
            Rate::from_bits_per_second(self.config.ladder[self.level] as u64).expect("rates are positive");
        SegmentRecord { app, number: self.requests, bytes: self.segment_bytes(), rate, start }
    }

    fn pause(&mut self, host: &mut Host<'_>) {
        let pause = Span::from_secs_f64(self.config.pause_s.draw(&mut self.rng));
        host.timer(host.now() + pause, NEXT);
    }

    fn fetch(&mut self, host: &mut Host<'_>) {
        let conn = *self.conn.get_or_insert_with(|| host.open(self.spec));
        let (tag, context) = (self.requests, None);
        let (bytes, response_bytes) = (self.config.request_bytes, self.segment_bytes());
        host.send(conn, Message { bytes, tag, response_bytes, context });
        self.requested.get_or_insert(host.now());
    }

    /// Handles the arrival of a segment.
    fn fetched(&mut self, host: &mut Host<'_>) {
        let now = host.now();
        let Some(start) = self.requested.take() else { return };
        let segment = self.segment(host.program(), start);
        host.record(&segment);
        let time_s = (now - start).as_secs();
        self.chooser.fetched(time_s, segment.bytes as f64 * 8.0 / time_s);
        self.requests += 1;
        self.video.segments += 1;
        self.video.fetched_bytes += segment.bytes;
        self.video.fetching += now - start;
        self.video.fetched += self.config.segment;
        let ahead = self.ahead(now);
        let is_whole = self.video.segments == self.config.segments;
        match self.playback {
            Playback::Waiting(since, position) if ahead >= self.config.start || is_whole => {
                match self.video.startup {
                    None => self.video.startup = Some(now - since),
                    Some(_) => self.video.stalled += now - since,
                }
                self.playback = Playback::Playing(now, position);
            }
            _ => {}
        }
        if let Playback::Playing(..) = self.playback {
            host.timer(now + ahead, RUN_OUT);
        }
        if !is_whole {
            // The client never waits to play while it waits to fetch: its buffer holds what it needs to start.
            let room = self.config.buffer.saturating_sub(self.config.segment);
            host.timer(now + ahead.saturating_sub(room), FETCH);
        }
    }

    /// Handles the end of what has been fetched: of the video, or of its fetched part.
    fn run_out(&mut self, host: &mut Host<'_>) {
        let now = host.now();
        if self.video.segments == self.config.segments {
            host.record(&self.video);
            self.playback = Playback::Off;
            self.video = Self::begun(self.video.app, self.video.number + 1, Time::ZERO);
            self.pause(host);
        } else {
            self.video.stalls += 1;
            self.playback = Playback::Waiting(now, self.fetched_time());
        }
    }

    /// Returns the playing time of the fetched segments.
    fn fetched_time(&self) -> Span {
        self.config.segment * u64::from(self.video.segments)
    }

    /// Returns the playing time of what has been fetched and not played.
    fn ahead(&self, now: Time) -> Span {
        match self.playback {
            Playback::Off => Span::ZERO,
            Playback::Waiting(_, position) => self.fetched_time().saturating_sub(position),
            Playback::Playing(since, position) => {
                self.fetched_time().saturating_sub(position + (now - since))
            }
        }
    }
}

/// Returns the size of a segment with this rate, bit/s, and playing time, bytes.
pub fn segment_bytes(rate: f64, segment: Span) -> u64 {
    (rate as u128 * u128::from(segment.as_nanos()) / 8_000_000_000) as u64
}

impl Application for Video {
    fn interest(&self) -> Interest {
        Interest { peer_closed: true, ..Interest::MESSAGES }
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => self.pause(host),
            AppEvent::Timer(NEXT) => {
                self.video = Self::begun(host.program(), self.video.number, host.now());
                self.playback = Playback::Waiting(host.now(), Span::ZERO);
                self.choose(host.now());
                self.fetch(host);
            }
            AppEvent::Timer(FETCH) => {
                self.choose(host.now());
                self.fetch(host);
            }
            AppEvent::Timer(_) => self.run_out(host),
            AppEvent::Message { .. } => self.fetched(host),
            AppEvent::PeerClosed(conn) => {
                host.close(conn);
                self.conn = None;
                if self.requested.is_some() {
                    self.fetch(host);
                }
            }
            _ => {}
        }
    }

    fn unfinished(&self, app: u32, visitor: &mut Unfinished<'_>) {
        if let (Some(start), Some(conn)) = (self.requested, self.conn) {
            (visitor.visit)(&self.segment(app, start), (visitor.arrived)(conn));
        }
        if !matches!(self.playback, Playback::Off) {
            (visitor.visit)(&self.video, self.video.fetched_bytes);
        }
    }
}
