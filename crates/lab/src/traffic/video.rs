use super::bulk::PATHS;
use super::{AnyWorld, BuildContext, Connections, TrafficKind, User, Workload};
use crate::error::KeyError;
use crate::results::activities::ActivityKind;
use crate::results::rows::Unit;
use crate::scenario::describe::Nodes;
use crate::scenario::external::{PORT, Protocol};
use crate::scenario::tcp::TcpFile;
use crate::scenario::text::{Text, Times, yes};
use catnip_base::{Distribution, Rate, Span};
use catnip_net::mark::Service;
use catnip_sim::app::{
    AnyApp, Fixed, RateRule, SegmentRecord, ServerConfig, Video, VideoConfig, VideoRecord, segment_bytes,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// Streamed videos: each user watches one after the other. Segments come over one connection, with a fixed rate or one that the client
/// chooses for each, and the client fetches no further ahead than its buffer holds, so that the server sends bursts with idle periods.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "video")]
pub(crate) struct VideoFile {
    /// Clients, which watch. Each server serves a block of neighbouring clients.
    #[schemars(with = "Nodes", example = &"client[0..50]")]
    clients: String,
    /// Servers of the segments.
    #[schemars(with = "Nodes", example = &"server")]
    servers: String,
    /// Rule by which a client chooses the rate of the next segment.
    #[serde(default = "fixed")]
    #[schemars(example = &"bola", extend("default" = "fixed"))]
    rule: Text<RateRule>,
    /// Rate of a video with rule `fixed`: the size of a segment divided by its playing time.
    #[schemars(example = &"4Mbit", extend("x-default" = "required with rule `fixed`"))]
    rate: Option<Text<Rate>>,
    /// Rates from which the other rules choose, in ascending order.
    #[schemars(example = json!(["400kbit", "1Mbit", "2.5Mbit"]), extend("x-default" = "required with the other rules"))]
    ladder: Option<Vec<Text<Rate>>>,
    /// Playing time of a segment.
    #[serde(default = "segment")]
    #[schemars(with = "String", example = &"2s", extend("default" = "4s"))]
    segment: Text<Span>,
    /// Playing time of a video, rounded up to whole segments.
    #[schemars(with = "String", example = &"2min")]
    length: Text<Span>,
    /// Playing time that a client fetches ahead at most.
    #[serde(default = "buffer")]
    #[schemars(with = "String", example = &"30s", extend("default" = "20s"))]
    buffer: Text<Span>,
    /// Playing time that a client has fetched ahead when it begins to play, and when it goes on after a stall.
    #[serde(default = "segment")]
    #[schemars(with = "String", example = &"8s", extend("default" = "4s"))]
    start: Text<Span>,
    /// Time before the first video, and between the end of a video and the start of the next.
    #[serde(default = "at_once", alias = "pause_s")]
    #[schemars(example = &"exponential:mean=10s", extend("default" = 0))]
    pause: Times,
    /// Size of a request, bytes.
    #[serde(default = "request")]
    #[schemars(range(min = 1), example = 500)]
    request_bytes: u64,
    /// True if results have rows for the activity of the users. The packets of the group are always counted.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    measured: bool,
    /// TCP parameters of this group that differ from `[tcp]`.
    #[serde(default)]
    #[schemars(example = json!({ "control": "cubic" }), extend("x-default" = "same as `[tcp]`"))]
    tcp: TcpFile,
    /// True if servers pass the size of each segment to TCP, for marking, early congestion avoidance and pacing.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    tells_size: bool,
}

fn fixed() -> Text<RateRule> {
    Text(RateRule::Fixed(Fixed))
}

/// Largest size of a segment, bits: a petabyte.
const MAX_SEGMENT_BITS: f64 = 8e15;

fn segment() -> Text<Span> {
    Text(Span::from_secs(4))
}

fn buffer() -> Text<Span> {
    Text(Span::from_secs(20))
}

fn at_once() -> Times {
    Times(Distribution::Constant(0.0))
}

fn request() -> u64 {
    300
}

impl TrafficKind for VideoFile {
    fn activities() -> Vec<ActivityKind> {
        vec![ActivityKind::of::<VideoRecord>(), ActivityKind::of::<SegmentRecord>()]
    }

    fn ends(&self) -> [(&'static str, &str); 2] {
        [("servers", &self.servers), ("clients", &self.clients)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let protocol = Protocol::Http { persistent: true };
        let (tells_size, port) = (self.tells_size, Some(PORT));
        Some(Connections { tcp: &self.tcp, tells_size, port, protocol, paths: PATHS })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Arc<dyn Workload>, KeyError> {
        let Self { segment, length, buffer, start, request_bytes, .. } = self;
        let wrong = |key: &str, message: String| Err((context.key(key), message));
        if context.has_external_hosts() {
            return wrong("servers", "only between simulated hosts; external clients can be players".into());
        }
        if segment.0 == Span::ZERO {
            return wrong("segment", "0s: expected more".into());
        }
        let (key, ladder) = self.rates().map_err(|(key, problem)| (context.key(key), problem))?;
        if let Some(rate) = ladder.iter().find(|rate| **rate * segment.0.as_secs() > MAX_SEGMENT_BITS) {
            return wrong(key, format!("{rate} bit/s: a segment would be too large"));
        }
        let is_empty = segment_bytes(ladder[0], segment.0) == 0;
        let empty =
            [(key, is_empty), ("request_bytes", *request_bytes == 0), ("length", length.0 == Span::ZERO)];
        if let Some((key, _)) = empty.into_iter().find(|(_, is_empty)| *is_empty) {
            return wrong(key, "expected at least one byte, and one segment".into());
        }
        if buffer.0 < start.0 + segment.0 {
            return wrong("buffer", format!("{}: expected at least start and segment together", buffer.0));
        }
        let Ok(segments) = u32::try_from(length.0.as_nanos().div_ceil(segment.0.as_nanos())) else {
            return wrong("length", format!("{}: too many segments", length.0));
        };
        let config = VideoConfig {
            ladder,
            rule: self.rule.0.clone(),
            segment: segment.0,
            segments,
            buffer: buffer.0,
            start: start.0,
            pause_s: self.pause.0.clone(),
            request_bytes: *request_bytes,
        };
        Ok(Arc::new(VideoWorkload(Arc::new(config))))
    }

    fn service(&self) -> Service {
        Service::Interactive
    }
}

impl VideoFile {
    /// Returns the key of the rates of a video, and the rates in ascending order, bit/s. An error gives the wrong key and the reason.
    fn rates(&self) -> Result<(&'static str, Vec<f64>), (&'static str, String)> {
        let is_fixed = matches!(self.rule.0, RateRule::Fixed(_));
        match (&self.ladder, &self.rate) {
            (None, Some(Text(rate))) if is_fixed => Ok(("rate", vec![rate.bits_per_second() as f64])),
            (Some(rates), None) if !is_fixed => {
                let rates: Vec<f64> = rates.iter().map(|Text(rate)| rate.bits_per_second() as f64).collect();
                if rates.len() < 2 || !rates.is_sorted_by(|a, b| a < b) {
                    return Err(("ladder", "expected at least two rates in ascending order".into()));
                }
                Ok(("ladder", rates))
            }
            (Some(_), _) if is_fixed => {
                Err(("ladder", "rule fixed has no choice; expected rate alone".into()))
            }
            (None, None) if is_fixed => Err(("rate", "required with rule fixed".into())),
            _ => Err(("ladder", format!("required with rule {}, without rate", self.rule.0))),
        }
    }
}

#[derive(Debug)]
struct VideoWorkload(Arc<VideoConfig>);

impl Workload for VideoWorkload {
    fn unit(&self) -> Unit {
        Unit::SEGMENT
    }

    fn app(&self, user: &User, _world: &mut dyn AnyWorld) -> AnyApp {
        AnyApp::Video(Box::new(Video::new(self.0.clone(), user.connection_spec(), user.seed, user.number)))
    }

    fn server(&self) -> Option<ServerConfig> {
        Some(ServerConfig { delay_s: None, tells_size: true, closes: false })
    }
}
