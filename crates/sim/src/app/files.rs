use super::{AppEvent, Application, Interest};
use crate::connection_spec::ConnectionSpec;
use crate::host::Host;
use crate::message_stream::Message;
use catnip_base::{Distribution, Rng, Span, Stream};
use std::sync::Arc;

/// Configuration of the clients that fetch files.
#[derive(Clone, Debug)]
pub struct FilesConfig {
    /// Size of a file, bytes.
    pub bytes: Distribution,
    /// Pause before the first file, and between the end of a file and the start of the next file, seconds.
    pub gap_s: Distribution,
    /// Size of a request, bytes; 0 if opening the connection is the request, as in the passive mode of FTP.
    pub request_bytes: u64,
    /// Number of files; `None` for no limit.
    pub count: Option<u32>,
}

/// Client that fetches files one after the other, each over a separate connection, as in FTP.
#[derive(Debug)]
pub struct Files {
    config: Arc<FilesConfig>,
    spec: ConnectionSpec,
    rng: Rng,
    fetched: u32,
}

impl Files {
    /// Creates user `user`. Its files depend only on the configuration, the seed of the run and `user`.
    pub fn new(config: Arc<FilesConfig>, spec: ConnectionSpec, seed: u64, user: u32) -> Self {
        Self { config, spec, rng: Rng::new(seed, Stream::User(user)), fetched: 0 }
    }

    fn pause(&mut self, host: &mut Host<'_>) {
        if self.config.count.is_none_or(|count| self.fetched < count) {
            let gap = Span::from_secs_f64(self.config.gap_s.draw(&mut self.rng));
            host.timer(host.now() + gap, 0);
        }
    }

    fn fetch(&mut self, host: &mut Host<'_>) {
        let response_bytes = super::pages::round_to_bytes(self.config.bytes.draw(&mut self.rng));
        let conn = host.open(self.spec);
        let (bytes, tag) = (self.config.request_bytes, u64::from(self.fetched));
        host.send(conn, Message { bytes, tag, response_bytes, context: None });
        self.fetched += 1;
    }
}

impl Application for Files {
    fn interest(&self) -> Interest {
        Interest::MESSAGES
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => self.pause(host),
            AppEvent::Timer(_) => self.fetch(host),
            AppEvent::Message { conn, .. } => {
                host.close(conn);
                self.pause(host);
            }
            _ => {}
        }
    }
}
