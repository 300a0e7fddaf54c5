use super::{AnyWorld, BuildContext, Connections, TrafficKind, User, Workload};
use crate::error::KeyError;
use crate::scenario::describe::Nodes;
use crate::scenario::text::{Sizes, Text};
use catnip_base::{Rate, Share, Span};
use catnip_sim::app::{AnyApp, Background, BackgroundConfig, Datagrams, RecordedDatagrams};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Background traffic: bursts of packets without TCP, drawn at random or replayed from a file. Each source sends from one host to another.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "background")]
pub(crate) struct BackgroundFile {
    /// Sending nodes.
    #[schemars(with = "Nodes", example = &"server")]
    from: String,
    /// Receiving nodes. Each sender sends to a block of neighbouring receivers.
    #[schemars(with = "Nodes", example = &"client[0..50]")]
    to: String,
    /// Offered load of all sources together, as a share of the rate of `link`, at most 10 (1000 %); alternative to `rate`.
    #[schemars(example = &"60%", extend("x-default" = "given by `rate`"))]
    load: Option<Text<Share>>,
    /// Link to whose rate `load` refers. All packets of the group must pass it.
    #[schemars(example = &"line", extend("x-default" = "none, with `rate`"))]
    link: Option<String>,
    /// Mean rate of all sources together; alternative to `load` and `link`.
    #[schemars(example = &"500kbit", extend("x-default" = "given by `load` and `link`"))]
    rate: Option<Text<Rate>>,
    /// Rate of a source during a burst.
    #[schemars(example = &"5Mbit", extend("x-default" = WITHOUT_REPLAY))]
    peak: Option<Text<Rate>>,
    /// Mean duration of a burst.
    #[schemars(example = &"20ms", extend("x-default" = WITHOUT_REPLAY))]
    burst: Option<Text<Span>>,
    /// Tail index of the Pareto distribution of the durations of bursts.
    #[serde(default = "three_halves")]
    #[schemars(example = 1.2)]
    burst_shape: f64,
    /// Tail index of the Pareto distribution of the durations of idle periods.
    #[serde(default = "three_halves", alias = "silence_shape")]
    #[schemars(example = 1.2)]
    idle_shape: f64,
    /// Size of a packet, bytes.
    #[schemars(example = &"uniform:minimum=40,maximum=984", extend("x-default" = WITHOUT_REPLAY))]
    packet_bytes: Option<Sizes>,
    /// File of packets that each source sends instead: lines with a time in seconds and a length in bytes.
    #[schemars(example = &"traces/cross.txt", extend("x-default" = "none: packets are drawn at random"))]
    replay: Option<String>,
    /// True if the packets of `replay` are sent again and again; the last time is the period.
    #[serde(default)]
    #[schemars(example = true)]
    repeat: bool,
    /// True if the nodes of `to` also send traffic with the same parameters to the nodes of `from`.
    #[serde(default)]
    #[schemars(example = true)]
    both_ways: bool,
}

const WITHOUT_REPLAY: &str = "required without `replay`";

fn three_halves() -> f64 {
    1.5
}

/// Maximum load, relative to the rate of the link. Experiments with overload need no more.
const MAX_LOAD: f64 = 10.0;

impl TrafficKind for BackgroundFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("from", &self.from), ("to", &self.to)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        None
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Arc<dyn Workload>, KeyError> {
        if let Some(file) = &self.replay {
            return self.replayed(context, file);
        }
        if self.repeat {
            return Err((context.key("repeat"), "true: nothing repeats without replay".into()));
        }
        let mean = self.total_rate(context)? / context.pairs.len() as f64;
        let missing = |key: &str| (context.key(key), WITHOUT_REPLAY.to_string());
        let Text(peak) = self.peak.ok_or_else(|| missing("peak"))?;
        let Text(burst) = self.burst.ok_or_else(|| missing("burst"))?;
        let Sizes(sizes) = self.packet_bytes.clone().ok_or_else(|| missing("packet_bytes"))?;
        if mean > peak.bits_per_second() as f64 {
            let message =
                format!("{} bit/s: expected at least the mean rate, {mean} bit/s", peak.bits_per_second());
            return Err((context.key("peak"), message));
        }
        if burst == Span::ZERO {
            return Err((context.key("burst"), "0: expected a time above zero".into()));
        }
        let shapes = [self.burst_shape, self.idle_shape];
        for (key, shape) in ["burst_shape", "idle_shape"].into_iter().zip(shapes) {
            if !(shape > 0.0 && shape.is_finite()) {
                return Err((context.key(key), format!("{shape}: expected a positive tail index")));
            }
        }
        Ok(Arc::new(BackgroundWorkload(Arc::new(BackgroundConfig::new(mean, peak, burst, shapes, sizes)))))
    }

    fn reverse(&self) -> Option<Box<dyn TrafficKind>> {
        let (from, to) = (self.to.clone(), self.from.clone());
        self.both_ways.then(|| -> Box<dyn TrafficKind> { Box::new(Self { from, to, ..self.clone() }) })
    }
}

impl BackgroundFile {
    /// Returns the workload of sources that send the packets of a file.
    fn replayed(&self, context: &BuildContext<'_>, file: &str) -> Result<Arc<dyn Workload>, KeyError> {
        let set = [
            ("load", self.load.is_some()),
            ("link", self.link.is_some()),
            ("rate", self.rate.is_some()),
            ("peak", self.peak.is_some()),
            ("burst", self.burst.is_some()),
            ("packet_bytes", self.packet_bytes.is_some()),
        ];
        if let Some((key, _)) = set.into_iter().find(|(_, is_set)| *is_set) {
            return Err((context.key(key), "no effect with replay, whose file has the packets".into()));
        }
        let read = context.files.text(file).and_then(|text| RecordedDatagrams::parse(&text, self.repeat));
        let recorded = read.map_err(|problem| (context.key("replay"), format!("{file:?}: {problem}")))?;
        Ok(Arc::new(ReplayedWorkload(Arc::new(recorded))))
    }

    /// Returns the mean rate of all sources together, bit/s.
    fn total_rate(&self, context: &BuildContext<'_>) -> Result<f64, KeyError> {
        match (self.load, &self.link, self.rate) {
            (None, None, Some(Text(rate))) => Ok(rate.bits_per_second() as f64),
            (Some(Text(Share(load))), Some(_), None) if !(0.0..=MAX_LOAD).contains(&load) => {
                Err((context.key("load"), format!("{load}: expected a share from 0 to {MAX_LOAD}")))
            }
            (Some(Text(Share(load))), Some(link), None) => {
                Ok(load * context.network.rate_of(link, context.pairs).map_err(context.error_at("link"))?)
            }
            _ => Err((context.key("load"), "expected either load and link or rate".into())),
        }
    }
}

#[derive(Debug)]
struct BackgroundWorkload(Arc<BackgroundConfig>);

impl Workload for BackgroundWorkload {
    fn app(&self, user: &User, world: &mut dyn AnyWorld) -> AnyApp {
        let flow = world.add_flow(user.server, user.client);
        AnyApp::Background(Box::new(Background::new(self.0.clone(), flow, user.seed, user.number)))
    }

    fn is_datagrams(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct ReplayedWorkload(Arc<RecordedDatagrams>);

impl Workload for ReplayedWorkload {
    fn app(&self, user: &User, world: &mut dyn AnyWorld) -> AnyApp {
        let flow = world.add_flow(user.server, user.client);
        AnyApp::Datagrams(Box::new(Datagrams::new(self.0.clone(), flow)))
    }

    fn is_datagrams(&self) -> bool {
        true
    }
}
