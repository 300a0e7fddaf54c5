use super::{AppEvent, Application, Interest, Unfinished};
use crate::connection_spec::ConnectionSpec;
use crate::host::{Conn, Host};
use crate::message_stream::Message;
use crate::record::Activity;
use catnip_base::{Distribution, Rng, Span, Stream, Time};
use std::sync::Arc;

/// Configuration of Telnet sessions.
#[derive(Clone, Debug)]
pub struct TelnetConfig {
    /// Size of a keystroke and of its echo, bytes.
    pub bytes: u64,
    /// Time before the first keystroke, and from each keystroke to the next, seconds. If the echo of a keystroke takes longer, the next
    /// keystroke follows the echo at once.
    pub pause_s: Distribution,
}

/// Record of a keystroke and its echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EchoRecord {
    /// Number of the application.
    pub app: u32,
    /// Number of the keystroke, from 0.
    pub number: u64,
    /// Time of the keystroke.
    pub start: Time,
}

impl Activity for EchoRecord {
    fn app(&self) -> u32 {
        self.app
    }
}

/// Telnet session: sends a keystroke, waits for the echo, and sends the next keystroke. At most one packet is outstanding, as with the
/// Nagle algorithm.
#[derive(Debug)]
pub struct Telnet {
    config: Arc<TelnetConfig>,
    spec: ConnectionSpec,
    rng: Rng,
    conn: Option<Conn>,
    typed_at: Time,
    /// Earliest time of the next keystroke.
    next: Time,
    count: u64,
    /// True while the echo of the last keystroke is outstanding.
    awaits_echo: bool,
}

impl Telnet {
    /// Creates the session of user `user`. Its keystrokes depend only on the configuration, the seed of the run and `user`.
    pub fn new(config: Arc<TelnetConfig>, spec: ConnectionSpec, seed: u64, user: u32) -> Self {
        let rng = Rng::new(seed, Stream::User(user));
        Self {
            config,
            spec,
            rng,
            conn: None,
            typed_at: Time::ZERO,
            next: Time::ZERO,
            count: 0,
            awaits_echo: false,
        }
    }

    fn pause(&mut self) -> Span {
        Span::from_secs_f64(self.config.pause_s.draw(&mut self.rng))
    }

    fn type_next(&mut self, host: &mut Host<'_>) {
        let conn = *self.conn.get_or_insert_with(|| host.open(self.spec));
        let bytes = self.config.bytes;
        host.send(conn, Message { bytes, tag: self.count, response_bytes: bytes, context: None });
        self.count += 1;
        self.awaits_echo = true;
        self.typed_at = host.now();
        self.next = host.now() + self.pause();
    }
}

impl Application for Telnet {
    fn interest(&self) -> Interest {
        Interest { peer_closed: true, ..Interest::MESSAGES }
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => {
                let first = host.now() + self.pause();
                host.timer(first, 0);
            }
            AppEvent::Timer(_) => self.type_next(host),
            AppEvent::Message { message, .. } => {
                self.awaits_echo = false;
                let (app, start, number) = (host.program(), self.typed_at, message.tag);
                host.record(&EchoRecord { app, number, start });
                host.timer(self.next, 0);
            }
            AppEvent::PeerClosed(conn) => {
                host.close(conn);
                self.conn = None;
                self.awaits_echo = false;
                host.timer(self.next, 0);
            }
            _ => {}
        }
    }

    fn unfinished(&self, app: u32, visitor: &mut Unfinished<'_>) {
        if let (true, Some(conn)) = (self.awaits_echo, self.conn) {
            let echo = EchoRecord { app, number: self.count - 1, start: self.typed_at };
            (visitor.visit)(&echo, (visitor.arrived)(conn));
        }
    }
}
