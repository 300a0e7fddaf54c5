//! How queues, losses, markers and TCP variants are written in scenario files and on the command line:
//! a name, then what it needs, as in `red:10,min=2,max=6,gentle=true`.

use catnip_base::{Bytes, ParseError, Rate, Span};
use catnip_net::jitter::JitterSpec;
use catnip_net::loss::LossSpec;
use catnip_net::mark::SpmParameters;
use catnip_net::queue::{QueueSpec, RedParameters, VictimRule};
use catnip_tcp::control::{ControlKind, EcaRule};
use catnip_tcp::pacing::PacingKind;
use catnip_tcp::recovery::RecoveryKind;
use std::path::PathBuf;
use std::str::FromStr;

/// The queue disciplines, with how each is written.
pub const QUEUES: [(&str, &str); 6] = [
    ("drop-tail:LIMIT", "FIFO; LIMIT counts the packet in transmission"),
    (
        "drop-tail:15KB, drop-tail:200ms",
        "the same in bytes, or dropping what would wait longer than that for its turn",
    ),
    (
        "red:LIMIT[,min=,max=,weight=,max_p=,gentle=,wait=,mean_packet=]",
        "random early detection; LIMIT packets may wait; thresholds default to 20 % and 60 % of it",
    ),
    ("catnip-good:LIMIT[,victim=random|newest|oldest|probe]", "HIGH arrivals push LOW packets out"),
    ("catnip-bad:LIMIT[,victim=…]", "LOW arrivals push HIGH packets out"),
    ("catnip-red:LIMIT[,…]", "RED decides when a packet goes, a LOW one goes first"),
];

/// A queue discipline.
pub fn queue(text: &str) -> Result<QueueSpec, ParseError> {
    let mut spec =
        Notation::parse(text, "a queue such as drop-tail:10, red:10 or catnip-good:10,victim=random")?;
    let kind = spec.kind;
    if let Some(measured) = measured_limit(&mut spec)? {
        spec.finish()?;
        return Ok(measured);
    }
    let counts_transmission = matches!(kind, "drop-tail" | "catnip-good" | "catnip-bad");
    let limit: u32 =
        spec.positional("a limit such as drop-tail:10 (packets), drop-tail:15KB or drop-tail:200ms")?;
    let least = if counts_transmission { 2 } else { 1 };
    if limit < least {
        return Err(spec.error(format!("a limit of at least {least} packets")));
    }
    let built = match kind {
        "drop-tail" => QueueSpec::DropTail { limit },
        "red" => QueueSpec::Red { limit, parameters: red(&mut spec, limit)? },
        "catnip-good" => QueueSpec::CatnipGood { limit, victim: victim(&mut spec)? },
        "catnip-bad" => QueueSpec::CatnipBad { limit, victim: victim(&mut spec)? },
        "catnip-red" => {
            QueueSpec::CatnipRed { limit, parameters: red(&mut spec, limit)?, victim: victim(&mut spec)? }
        }
        _ => return Err(spec.error("one of drop-tail, red, catnip-good, catnip-bad, catnip-red")),
    };
    spec.finish()?;
    Ok(built)
}

/// A limit with a unit, which is one of bytes or time; only DropTail has such.
fn measured_limit(spec: &mut Notation<'_>) -> Result<Option<QueueSpec>, ParseError> {
    let Some(&limit) = spec.positional.first() else { return Ok(None) };
    let built = match (limit.parse::<Bytes>(), limit.parse::<Span>()) {
        _ if !limit.ends_with(|last: char| last.is_ascii_alphabetic()) => return Ok(None),
        (Ok(Bytes(limit)), _) if limit > 0 => QueueSpec::DropTailBytes { limit },
        (_, Ok(limit)) if limit > Span::ZERO => QueueSpec::DropTailWait { limit },
        (Ok(_), _) | (_, Ok(_)) => return Err(spec.error("a limit above zero")),
        _ => return Ok(None),
    };
    if spec.kind != "drop-tail" {
        return Err(spec.error("a limit in packets: only drop-tail has one in bytes or time"));
    }
    spec.positional.remove(0);
    Ok(Some(built))
}

/// A line rate as it is written; a trace is still to be read.
#[derive(Clone, Debug, PartialEq)]
pub enum RateText {
    /// `1.5Mbit`
    Constant(Rate),
    /// `trace:FILE`
    Trace(PathBuf),
    /// `unlimited`
    Unlimited,
}

/// A line rate.
pub fn rate(text: &str) -> Result<RateText, ParseError> {
    match text.split_once(':') {
        Some(("trace", file)) if !file.trim().is_empty() => Ok(RateText::Trace(file.trim().into())),
        None if text == "unlimited" => Ok(RateText::Unlimited),
        _ => text.parse().map(RateText::Constant).map_err(|_| {
            let expected = "a rate such as 1.5Mbit (bit, kbit, Mbit, Gbit per second; positive), trace:FILE or unlimited";
            ParseError::new(text, expected)
        }),
    }
}

/// A loss model.
pub fn loss(text: &str) -> Result<LossSpec, ParseError> {
    let mut spec = Notation::parse(text, "a loss model such as bernoulli:0.05 or packets:20,22")?;
    let built = match spec.kind {
        "bernoulli" => {
            let probability = spec.positional("a probability, as in bernoulli:0.05")?;
            LossSpec::Bernoulli { probability: spec.probability(probability)? }
        }
        "priority" => {
            let (high, low) = (spec.option("high", 0.0)?, spec.option("low", 0.0)?);
            LossSpec::ByPriority { high: spec.probability(high)?, low: spec.probability(low)? }
        }
        "gilbert-elliott" => {
            // Here 1 is of use: Gilbert's channel loses everything while it is bad.
            let mut p = |name, default| {
                let value = spec.option(name, default)?;
                if (0.0..=1.0).contains(&value) {
                    Ok(value)
                } else {
                    Err(spec.error("probabilities in [0, 1]"))
                }
            };
            LossSpec::GilbertElliott {
                to_bad: p("to_bad", 0.01)?,
                to_good: p("to_good", 0.3)?,
                loss_good: p("loss_good", 0.0)?,
                loss_bad: p("loss_bad", 0.5)?,
            }
        }
        "packets" => {
            let mut packets = spec.all_positional("packet numbers from 1, as in packets:20,22")?;
            packets.sort_unstable();
            packets.dedup();
            if packets.first().is_none_or(|&first: &u64| first == 0) {
                return Err(spec.error("packet numbers from 1, as in packets:20,22"));
            }
            LossSpec::List { packets }
        }
        _ => return Err(spec.error("one of bernoulli, priority, gilbert-elliott, packets")),
    };
    spec.finish()?;
    Ok(built)
}

/// How much the delay of a link varies.
pub fn jitter(text: &str) -> Result<JitterSpec, ParseError> {
    let mut spec = Notation::parse(text, "a jitter such as uniform:5ms, normal:2ms or exponential:3ms")?;
    let kind = spec.kind;
    let width: String = spec.positional("a time, as in uniform:5ms")?;
    let width: Span = width.parse().map_err(|_| spec.error("a time, as in uniform:5ms"))?;
    spec.finish()?;
    match kind {
        _ if width == Span::ZERO => Err(spec.error("a time above zero, or none")),
        "uniform" => Ok(JitterSpec::Uniform { half_width: width }),
        "normal" => Ok(JitterSpec::Normal { deviation: width }),
        "exponential" => Ok(JitterSpec::Exponential { mean: width }),
        _ => Err(spec.error("one of uniform, normal, exponential")),
    }
}

/// A packet marker.
pub fn marker(text: &str) -> Result<Option<SpmParameters>, ParseError> {
    let mut spec = Notation::parse(text, "a marker: none, spm or spm-partial")?;
    let base = match spec.kind {
        "none" => {
            spec.finish()?;
            return Ok(None);
        }
        "spm" => SpmParameters::FULL,
        "spm-partial" => SpmParameters::PARTIAL,
        _ => return Err(spec.error("one of none, spm, spm-partial")),
    };
    let parameters = SpmParameters {
        leading: spec.option("leading", base.leading)?,
        trailing: spec.option("trailing", base.trailing)?,
        small_window: spec.option("small_window", base.small_window)?,
    };
    spec.finish()?;
    Ok(Some(parameters))
}

/// A loss recovery.
pub fn recovery(text: &str) -> Result<RecoveryKind, ParseError> {
    match text {
        "tahoe" => Ok(RecoveryKind::Tahoe),
        "reno" => Ok(RecoveryKind::Reno),
        "newreno" => Ok(RecoveryKind::NewReno),
        "sack1" => Ok(RecoveryKind::Sack1),
        "sack" => Ok(RecoveryKind::SackRfc6675),
        _ => Err(ParseError::new(text, "one of tahoe, reno, newreno, sack1 (ns-2's), sack (RFC 6675)")),
    }
}

/// A congestion control.
pub fn control(text: &str) -> Result<ControlKind, ParseError> {
    match text {
        "reno" => Ok(ControlKind::Reno),
        "eca" | "eca:last-round" => Ok(ControlKind::Eca(EcaRule::LastRound)),
        "eca:final-window" => Ok(ControlKind::Eca(EcaRule::FinalWindow)),
        "eca:one-more-round" => Ok(ControlKind::Eca(EcaRule::OneMoreRound)),
        _ => Err(ParseError::new(
            text,
            "one of reno, eca (eca:last-round), eca:final-window, eca:one-more-round",
        )),
    }
}

/// A pacing.
pub fn pacing(text: &str) -> Result<PacingKind, ParseError> {
    match text {
        "none" => Ok(PacingKind::None),
        "rbplw" => Ok(PacingKind::Rbplw),
        _ => Err(ParseError::new(text, "one of none, rbplw")),
    }
}

fn red(spec: &mut Notation<'_>, limit: u32) -> Result<RedParameters, ParseError> {
    // The CATNIP paper, section V-D: thresholds of 20 % and 60 % of the buffer, weight 0.01 (catp28 to catp30).
    let limit = f64::from(limit);
    let parameters = RedParameters {
        min_threshold: spec.option("min", 0.2 * limit)?,
        max_threshold: spec.option("max", 0.6 * limit)?,
        weight: spec.option("weight", 0.01)?,
        max_probability: spec.option("max_p", 0.1)?,
        gentle: spec.option("gentle", false)?,
        wait: spec.option("wait", true)?,
        mean_packet_bytes: spec.option("mean_packet", 512)?,
    };
    let p = &parameters;
    let ordered = 0.0 <= p.min_threshold && p.min_threshold < p.max_threshold;
    let fractions = p.weight > 0.0 && p.weight <= 1.0 && p.max_probability > 0.0 && p.max_probability <= 1.0;
    if !(ordered && fractions && p.mean_packet_bytes > 0) {
        return Err(spec.error("0 <= min < max, weight and max_p in (0, 1], and mean_packet positive"));
    }
    Ok(parameters)
}

fn victim(spec: &mut Notation<'_>) -> Result<VictimRule, ParseError> {
    match spec.take("victim") {
        None | Some("random") => Ok(VictimRule::Random),
        Some("newest") => Ok(VictimRule::Newest),
        Some("oldest") => Ok(VictimRule::Oldest),
        Some("probe") => Ok(VictimRule::Probe),
        Some(_) => Err(spec.error("victim=random, newest, oldest or probe")),
    }
}

/// `kind:positional,…,key=value,…`
struct Notation<'a> {
    text: &'a str,
    kind: &'a str,
    positional: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Notation<'a> {
    fn parse(text: &'a str, expected: &str) -> Result<Self, ParseError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        if kind.is_empty() {
            return Err(ParseError::new(text, expected));
        }
        let mut spec = Self { text, kind, positional: Vec::new(), options: Vec::new() };
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((key, value)) => spec.options.push((key.trim(), value.trim())),
                None => spec.positional.push(part),
            }
        }
        Ok(spec)
    }

    fn error(&self, expected: impl Into<String>) -> ParseError {
        ParseError::new(self.text, expected)
    }

    fn positional<T: FromStr>(&mut self, expected: &str) -> Result<T, ParseError> {
        if self.positional.is_empty() {
            return Err(self.error(expected));
        }
        self.positional.remove(0).parse().map_err(|_| self.error(expected))
    }

    fn all_positional<T: FromStr>(&mut self, expected: &str) -> Result<Vec<T>, ParseError> {
        let parts = std::mem::take(&mut self.positional);
        parts.into_iter().map(|part| part.parse().map_err(|_| self.error(expected))).collect()
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let index = self.options.iter().position(|(k, _)| *k == key)?;
        Some(self.options.remove(index).1)
    }

    fn option<T: FromStr>(&mut self, key: &str, default: T) -> Result<T, ParseError> {
        match self.take(key) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| self.error(format!("a value for {key}, not {value:?}"))),
        }
    }

    fn probability(&self, value: f64) -> Result<f64, ParseError> {
        if (0.0..1.0).contains(&value) { Ok(value) } else { Err(self.error("probabilities in [0, 1)")) }
    }

    fn finish(&self) -> Result<(), ParseError> {
        match (self.positional.first(), self.options.first()) {
            (None, None) => Ok(()),
            (Some(extra), _) | (None, Some((extra, _))) => {
                Err(self.error(format!("nothing like {extra:?} for {}", self.kind)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_red_has_thresholds_of_20_and_60_percent() {
        let QueueSpec::Red { limit: 10, parameters } = queue("red:10").unwrap() else { panic!("not RED") };
        assert_eq!((parameters.min_threshold, parameters.max_threshold), (2.0, 6.0));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("drop-tail", "limit"),
            ("drop-tail:1", "at least 2"),
            ("drop-tail:-5", "limit"),
            ("fifo:10", "one of drop-tail"),
            ("red:10,min=7", "min < max"),
            ("red:10,colour=blue", "colour"),
            ("catnip-good:10,victim=me", "victim="),
            ("drop-tail:10,20", "20"),
            ("drop-tail:0KB", "above zero"),
            ("drop-tail:0ms", "above zero"),
            ("drop-tail:1.5", "limit"),
            ("drop-tail:15kB", "drop-tail:15KB"),
            ("drop-tail:15KB,victim=random", "victim"),
            ("catnip-good:15KB", "only drop-tail"),
            ("red:200ms", "only drop-tail"),
        ] {
            let error = queue(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(named), "{error}");
        }
        assert!(loss("bernoulli:1.5").is_err());
        assert!(loss("packets:0").is_err());
        assert!(marker("spm:leading=x").is_err());
    }
}
