use super::{Connections, Scene, Stage, TrafficKind, User, Workload};
use crate::error::Wrong;
use crate::text::{DistributionText, from_text, option_from_text};
use catnip_base::{Rate, Span};
use catnip_sim::app::{AnyApp, Background, BackgroundConfig};
use serde::Deserialize;
use std::sync::Arc;

/// Bursts of packets without TCP from each host to another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackgroundFile {
    from: String,
    to: String,
    /// Of all sources together: a share of the rate of `link`, which they all pass, or a rate.
    load: Option<f64>,
    link: Option<String>,
    #[serde(default, deserialize_with = "option_from_text")]
    rate: Option<Rate>,
    /// Of each source, during a burst.
    #[serde(deserialize_with = "from_text")]
    peak: Rate,
    /// Mean length of a burst.
    #[serde(deserialize_with = "from_text")]
    burst: Span,
    /// Pareto tail indices.
    #[serde(default = "three_halves")]
    burst_shape: f64,
    #[serde(default = "three_halves")]
    silence_shape: f64,
    packet_bytes: DistributionText,
    /// The same again from `to` to `from`.
    #[serde(default)]
    both_ways: bool,
}

fn three_halves() -> f64 {
    1.5
}

/// Ten times what a link carries is overload enough.
const MAX_LOAD: f64 = 10.0;

impl TrafficKind for BackgroundFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("from", &self.from), ("to", &self.to)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        None
    }

    fn build(&self, scene: &Scene<'_>) -> Result<Arc<dyn Workload>, Wrong> {
        let mean = self.total(scene)? / scene.pairs.len() as f64;
        if mean > self.peak.bits_per_second() as f64 {
            let what = format!("{} bit/s: below the mean of {mean} bit/s", self.peak.bits_per_second());
            return Err((scene.key("peak"), what));
        }
        if self.burst == Span::ZERO {
            return Err((scene.key("burst"), "0: a burst takes time".into()));
        }
        let shapes = [self.burst_shape, self.silence_shape];
        for (key, shape) in ["burst_shape", "silence_shape"].into_iter().zip(shapes) {
            if !(shape > 0.0 && shape.is_finite()) {
                return Err((scene.key(key), format!("{shape}: expected a positive tail index")));
            }
        }
        let sizes = self.packet_bytes.read().map_err(scene.at("packet_bytes"))?;
        Ok(Arc::new(BackgroundWorkload(Arc::new(BackgroundConfig::new(
            mean, self.peak, self.burst, shapes, sizes,
        )))))
    }

    fn back(&self) -> Option<Box<dyn TrafficKind>> {
        let (from, to) = (self.to.clone(), self.from.clone());
        self.both_ways.then(|| -> Box<dyn TrafficKind> { Box::new(Self { from, to, ..self.clone() }) })
    }
}

impl BackgroundFile {
    /// What all sources offer together, bit/s.
    fn total(&self, scene: &Scene<'_>) -> Result<f64, Wrong> {
        match (self.load, &self.link, self.rate) {
            (None, None, Some(rate)) => Ok(rate.bits_per_second() as f64),
            (Some(load), Some(_), None) if !(0.0..=MAX_LOAD).contains(&load) => {
                Err((scene.key("load"), format!("{load}: expected a share from 0 to {MAX_LOAD}")))
            }
            (Some(load), Some(link), None) => {
                Ok(load * scene.network.rate_of(link, scene.pairs).map_err(scene.at("link"))?)
            }
            _ => Err((scene.key("load"), "give either load and link or rate".into())),
        }
    }
}

#[derive(Debug)]
struct BackgroundWorkload(Arc<BackgroundConfig>);

impl Workload for BackgroundWorkload {
    fn app(&self, user: &User, stage: &mut dyn Stage) -> AnyApp {
        let flow = stage.add_flow(user.server, user.client);
        AnyApp::Background(Box::new(Background::new(self.0.clone(), flow, user.seed, user.number)))
    }

    fn is_datagrams(&self) -> bool {
        true
    }
}
