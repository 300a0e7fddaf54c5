//! Scenario files: TOML parsed into plain data, each key checked where it is read.

use crate::notation::RateText;
use crate::{InputError, Plan, notation};
use catnip_base::{Bytes, ParseError, Rate, Span};
use catnip_net::jitter::JitterSpec;
use catnip_net::loss::LossSpec;
use catnip_net::mark::SpmParameters;
use catnip_net::queue::QueueSpec;
use catnip_sim::app::Distribution;
use catnip_tcp::control::ControlKind;
use catnip_tcp::pacing::PacingKind;
use catnip_tcp::recovery::RecoveryKind;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// A scenario file: one experiment, in one or more variants.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where it came from.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// What it reproduces, such as `CAT-E4`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Replicates unless something else is asked for.
    pub seeds: u32,
    plans: Vec<(String, Plan)>,
}

impl Scenario {
    /// Reads a file; every variant is checked at once, so that a mistake in the last one does not wait for its turn.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| InputError::new(&file, "", error))?;
        Self::parse(path, &text)
    }

    /// Reads a scenario from text; `path` is what errors call it and what other files' names are relative to.
    pub fn parse(path: &Path, text: &str) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let whole: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            InputError::new(&file, &line.map(|n| format!("line {n}")).unwrap_or_default(), error.message())
        })?;
        let mut base = whole;
        let axes = take_axes(&file, &mut base)?;
        let variants = cross(take_variants(&file, &mut base)?, &axes);
        let mut plans = Vec::new();
        let mut head = None;
        for (name, changes) in variants {
            let (parsed, plan) = check(path, merge(base.clone(), changes)).map_err(|(key, what)| {
                // What is wrong without the variant's changes, too, is not the variant's fault.
                let common =
                    check(path, base.clone()).err().is_some_and(|other| other == (key.clone(), what.clone()));
                let place = if common { key } else { format!("variant {name:?}: {key}") };
                InputError::new(&file, &place, what)
            })?;
            head.get_or_insert((parsed.id, parsed.title, parsed.seeds));
            plans.push((name, plan));
        }
        let (id, title, seeds) = head.expect("there is at least one variant");
        Ok(Self { path: path.into(), text: text.into(), id, title, seeds, plans })
    }

    /// The names of the variants, in order.
    pub fn variants(&self) -> impl Iterator<Item = &str> {
        self.plans.iter().map(|(name, _)| name.as_str())
    }

    /// What a variant does in the simulator, which has no real hosts.
    pub fn plan(&self, variant: &str) -> Result<&Plan, InputError> {
        let plan = self.emulation(variant)?;
        match plan.real_nodes() {
            [] => Ok(plan),
            [real, ..] => {
                let key = format!("node.{}", plan.topology().name(real.node));
                let what = "a real host, which only the emulator has: use catnip-emu emulate";
                Err(InputError::new(&self.path.display().to_string(), &key, what))
            }
        }
    }

    /// What a variant does in the emulator.
    pub fn emulation(&self, variant: &str) -> Result<&Plan, InputError> {
        let plan = self.plans.iter().find(|(name, _)| name == variant);
        plan.map(|(_, plan)| plan).ok_or_else(|| {
            let names: Vec<&str> = self.variants().collect();
            let what = format!("no variant {variant:?}; there are {}", names.join(", "));
            InputError::new(&self.path.display().to_string(), "variant", what)
        })
    }
}

const DEFAULT_VARIANT: &str = "default";

/// Reads one variant, or says with which key something is wrong.
fn check(path: &Path, table: toml::Table) -> Result<(ScenarioFile, Plan), (String, String)> {
    let parsed: ScenarioFile = serde_path_to_error::deserialize(toml::Value::Table(table))
        .map_err(|error| (error.path().to_string(), first_line(error.inner().message()).to_string()))?;
    let plan = Plan::new(path, &parsed)?;
    Ok((parsed, plan))
}

/// Takes `[[variant]]` out of a scenario: names and what each changes.
fn take_variants(file: &str, base: &mut toml::Table) -> Result<Vec<(String, toml::Table)>, InputError> {
    let Some(value) = base.remove("variant") else {
        return Ok(vec![(DEFAULT_VARIANT.into(), toml::Table::new())]);
    };
    let toml::Value::Array(list) = value else {
        return Err(InputError::new(file, "variant", "expected [[variant]] tables"));
    };
    let mut variants: Vec<(String, toml::Table)> = Vec::new();
    for entry in list {
        let toml::Value::Table(mut changes) = entry else {
            return Err(InputError::new(file, "variant", "expected [[variant]] tables"));
        };
        let Some(toml::Value::String(name)) = changes.remove("name") else {
            return Err(InputError::new(file, "variant.name", "every variant needs a name"));
        };
        if variants.iter().any(|(other, _)| *other == name) {
            return Err(InputError::new(file, "variant.name", format!("{name:?} is there twice")));
        }
        variants.push((name, changes));
    }
    Ok(variants)
}

/// A key and the values that it takes in turn.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Axis {
    key: String,
    values: Vec<toml::Value>,
}

/// Takes `[[axis]]` out of a scenario.
fn take_axes(file: &str, base: &mut toml::Table) -> Result<Vec<Axis>, InputError> {
    let Some(value) = base.remove("axis") else { return Ok(Vec::new()) };
    let axes: Vec<Axis> = serde_path_to_error::deserialize(value).map_err(|error| {
        InputError::new(file, &format!("axis{}", error.path()), first_line(error.inner().message()))
    })?;
    for axis in &axes {
        if axis.values.is_empty() {
            return Err(InputError::new(file, "axis.values", format!("{:?}: no values", axis.key)));
        }
        let repeated = axis.values.iter().enumerate().find(|(i, value)| axis.values[..*i].contains(value));
        if let Some((_, value)) = repeated {
            return Err(InputError::new(
                file,
                "axis.values",
                format!("{:?}: {value} is there twice", axis.key),
            ));
        }
    }
    Ok(axes)
}

/// Every variant with every value of every axis, the last axis changing fastest.
fn cross(variants: Vec<(String, toml::Table)>, axes: &[Axis]) -> Vec<(String, toml::Table)> {
    axes.iter().fold(variants, |variants, axis| {
        let with = |(name, changes): &(String, toml::Table), value: &toml::Value| {
            let short = axis.key.rsplit('.').next().unwrap_or(&axis.key);
            let shown = value.as_str().map_or_else(|| value.to_string(), String::from);
            let level = format!("{short}={shown}");
            let name = if name == DEFAULT_VARIANT { level } else { format!("{name} / {level}") };
            let change = axis.key.rsplit('.').fold(value.clone(), |inner, key| {
                toml::Value::Table(toml::Table::from_iter([(key.to_string(), inner)]))
            });
            let toml::Value::Table(change) = change else { unreachable!("a key has at least one part") };
            (name, merge(changes.clone(), change))
        };
        variants
            .iter()
            .flat_map(|variant| axis.values.iter().map(move |value| with(variant, value)))
            .collect()
    })
}

fn merge(mut base: toml::Table, changes: toml::Table) -> toml::Table {
    for (key, change) in changes {
        let merged = match (base.remove(&key), change) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => toml::Value::Table(merge(old, new)),
            (_, new) => new,
        };
        base.insert(key, merged);
    }
    base
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioFile {
    pub(crate) id: String,
    pub(crate) title: String,
    #[serde(default = "one")]
    pub(crate) seeds: u32,
    /// The run ends here at the latest.
    #[serde(default = "a_day", deserialize_with = "from_text")]
    pub(crate) duration: Span,
    pub(crate) node: BTreeMap<String, NodeFile>,
    pub(crate) link: BTreeMap<String, LinkFile>,
    #[serde(default)]
    pub(crate) tcp: TcpFile,
    #[serde(default)]
    pub(crate) traffic: BTreeMap<String, TrafficFile>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeFile {
    pub(crate) kind: NodeKind,
    #[serde(default = "one")]
    pub(crate) count: u32,
    /// A namespace of this machine, in the emulator.
    #[serde(default)]
    pub(crate) real: bool,
    /// The same with a program in it: its name and arguments.
    pub(crate) command: Option<Vec<String>>,
    pub(crate) address: Option<Ipv4Addr>,
    /// The run begins when somebody listens here, as in `tcp:80`.
    pub(crate) ready: Option<String>,
    /// The run ends with the command.
    #[serde(default)]
    pub(crate) ends_run: bool,
    /// How the kernel of a real node controls congestion, as in `reno`.
    pub(crate) congestion: Option<String>,
    /// Its initial window.
    pub(crate) initial_window_segments: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NodeKind {
    Host,
    Router,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkFile {
    pub(crate) from: String,
    pub(crate) to: String,
    #[serde(deserialize_with = "rate_text")]
    pub(crate) rate: RateText,
    #[serde(default, deserialize_with = "option_rate_text")]
    pub(crate) rate_back: Option<RateText>,
    #[serde(deserialize_with = "from_text")]
    pub(crate) delay: Span,
    #[serde(deserialize_with = "queue_text")]
    pub(crate) queue: QueueSpec,
    #[serde(default, deserialize_with = "loss_text")]
    pub(crate) loss: Option<LossSpec>,
    #[serde(default, deserialize_with = "loss_text")]
    pub(crate) loss_back: Option<LossSpec>,
    #[serde(default, deserialize_with = "loss_text")]
    pub(crate) wire_loss: Option<LossSpec>,
    #[serde(default, deserialize_with = "loss_text")]
    pub(crate) wire_loss_back: Option<LossSpec>,
    #[serde(default, deserialize_with = "jitter_text")]
    pub(crate) jitter: Option<JitterSpec>,
}

/// What differs from a profile.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TcpFile {
    pub(crate) profile: Option<String>,
    #[serde(default, deserialize_with = "recovery_text")]
    pub(crate) recovery: Option<RecoveryKind>,
    #[serde(default, deserialize_with = "control_text")]
    pub(crate) control: Option<ControlKind>,
    #[serde(default, deserialize_with = "pacing_text")]
    pub(crate) pacing: Option<PacingKind>,
    #[serde(default, deserialize_with = "marker_text")]
    pub(crate) marker: Option<Option<SpmParameters>>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) segment: Option<Bytes>,
    pub(crate) window_segments: Option<u32>,
    pub(crate) initial_window_segments: Option<u32>,
    pub(crate) delayed_ack: Option<bool>,
    pub(crate) limited_transmit: Option<bool>,
    pub(crate) handshake: Option<bool>,
    pub(crate) fin: Option<bool>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) rto_first: Option<Span>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) rto_min: Option<Span>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) rto_max: Option<Span>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) rto_tick: Option<Span>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum TrafficFile {
    /// Transfers of a given size, one per pair of hosts.
    Bulk {
        from: String,
        to: String,
        packets: Option<u64>,
        #[serde(default, deserialize_with = "option_from_text")]
        bytes: Option<Bytes>,
        /// When each begins, seconds.
        start_s: Option<DistributionFile>,
        #[serde(default)]
        tcp: TcpFile,
        /// The sender tells TCP how long the document is.
        #[serde(default = "yes")]
        tells_size: bool,
        /// For a real server: where it listens, and how documents are named.
        port: Option<u16>,
        paths: Option<String>,
    },
    /// Bursts of packets without TCP from each host to another.
    Background {
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
        packet_bytes: DistributionFile,
        /// The same again from `to` to `from`.
        #[serde(default)]
        both_ways: bool,
    },
    /// People who fetch pages.
    Web {
        clients: String,
        servers: String,
        pages: Option<PathBuf>,
        generate: Option<GenerateFile>,
        #[serde(default = "http_10")]
        http: String,
        #[serde(default = "four")]
        max_connections: u32,
        think_s: DistributionFile,
        /// Images are asked for after so many packets of the HTML.
        images_after_packets: Option<u32>,
        /// Bytes of a request; 0: a request takes no time.
        #[serde(default)]
        request_bytes: u64,
        #[serde(default)]
        tcp: TcpFile,
        #[serde(default = "yes")]
        tells_size: bool,
        /// For a real server: where it listens, and how objects are named.
        port: Option<u16>,
        paths: Option<String>,
    },
}

impl TrafficFile {
    /// What goes the other way, if anything does.
    pub(crate) fn back(&self) -> Option<Self> {
        let mut back = self.clone();
        match &mut back {
            Self::Background { from, to, both_ways: true, .. } => std::mem::swap(from, to),
            _ => return None,
        }
        Some(back)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GenerateFile {
    pub(crate) pages: u32,
    pub(crate) seed: u64,
    pub(crate) html_bytes: DistributionFile,
    pub(crate) images: DistributionFile,
    pub(crate) image_bytes: DistributionFile,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum DistributionFile {
    Constant { value: f64 },
    Uniform { minimum: f64, maximum: f64 },
    Exponential { mean: f64 },
    Pareto { shape: f64, minimum: f64, maximum: Option<f64> },
    Lognormal { mu: f64, sigma: f64 },
    Empirical { points: Vec<(f64, f64)> },
}

impl DistributionFile {
    /// The distribution, or what is wrong with its numbers.
    pub(crate) fn check(&self) -> Result<Distribution, String> {
        let positive = |name: &str, value: f64| {
            if value > 0.0 && value.is_finite() {
                Ok(value)
            } else {
                Err(format!("{name} = {value} is not positive"))
            }
        };
        Ok(match self {
            Self::Constant { value } if *value >= 0.0 => Distribution::Constant(*value),
            Self::Constant { value } => return Err(format!("value = {value} is negative")),
            Self::Uniform { minimum, maximum } if 0.0 <= *minimum && minimum <= maximum => {
                Distribution::Uniform { minimum: *minimum, maximum: *maximum }
            }
            Self::Uniform { minimum, maximum } => {
                return Err(format!("0 <= minimum <= maximum does not hold for {minimum} and {maximum}"));
            }
            Self::Exponential { mean } => Distribution::Exponential { mean: positive("mean", *mean)? },
            Self::Pareto { shape, minimum, maximum } => Distribution::Pareto {
                shape: positive("shape", *shape)?,
                minimum: positive("minimum", *minimum)?,
                maximum: maximum.map_or(Ok(f64::INFINITY), |m| positive("maximum", m))?,
            },
            Self::Lognormal { mu, sigma } => {
                Distribution::Lognormal { mu: *mu, sigma: positive("sigma", *sigma)? }
            }
            Self::Empirical { points } => {
                let ascending = points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 < w[1].1);
                let ends = points.first().is_some_and(|p| p.0 >= 0.0 && p.1 >= 0.0)
                    && points.last().is_some_and(|p| p.1 == 1.0);
                if !(ascending && ends) {
                    return Err(
                        "points must ascend in value and probability and end with probability 1".into()
                    );
                }
                Distribution::Empirical { points: points.clone() }
            }
        })
    }
}

fn one() -> u32 {
    1
}
fn four() -> u32 {
    4
}
fn three_halves() -> f64 {
    1.5
}
fn yes() -> bool {
    true
}
fn http_10() -> String {
    "1.0".into()
}
fn a_day() -> Span {
    Span::from_secs(86_400)
}

/// Reads a text with the notation that belongs to a type.
fn read<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, ParseError>,
) -> Result<T, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

fn from_text<'de, D: Deserializer<'de>, T: std::str::FromStr<Err = ParseError>>(d: D) -> Result<T, D::Error> {
    read(d, str::parse)
}
fn option_from_text<'de, D: Deserializer<'de>, T: std::str::FromStr<Err = ParseError>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    from_text(d).map(Some)
}
fn rate_text<'de, D: Deserializer<'de>>(d: D) -> Result<RateText, D::Error> {
    read(d, notation::rate)
}
fn option_rate_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<RateText>, D::Error> {
    rate_text(d).map(Some)
}
fn queue_text<'de, D: Deserializer<'de>>(d: D) -> Result<QueueSpec, D::Error> {
    read(d, notation::queue)
}
fn loss_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<LossSpec>, D::Error> {
    read(d, |text| if text == "none" { Ok(None) } else { notation::loss(text).map(Some) })
}
fn jitter_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<JitterSpec>, D::Error> {
    read(d, |text| if text == "none" { Ok(None) } else { notation::jitter(text).map(Some) })
}
fn recovery_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<RecoveryKind>, D::Error> {
    read(d, notation::recovery).map(Some)
}
fn control_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<ControlKind>, D::Error> {
    read(d, notation::control).map(Some)
}
fn pacing_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<PacingKind>, D::Error> {
    read(d, notation::pacing).map(Some)
}
fn marker_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<SpmParameters>>, D::Error> {
    read(d, notation::marker).map(Some)
}
