use crate::jitter::JitterSpec;
use crate::queue::{CustomQueues, QueueKind, QueueSpec};
use crate::shape::RateSpec;
use crate::stage::{self, CustomStages, StageKind, StageSpec};
use crate::{ArqSpec, DelaySpec, OutageSpec, Sla};
use catnip_base::notation::{Family, Usage, optional, or_none};
use catnip_base::{ParseError, Span};

/// Configuration key of a wire in scenario files, on the command line and in certificates.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Meaning of the key.
    pub about: &'static str,
    /// Default value; `None` if the key is required.
    pub default: Option<&'static str>,
    /// Example of a value.
    pub example: &'static str,
    /// Notations of a value.
    pub values: fn() -> Vec<Usage>,
}

/// External definitions that the text of a wire may refer to.
#[derive(Clone, Copy)]
pub struct References<'a> {
    /// Custom queues.
    pub queues: &'a CustomQueues,
    /// Custom stages.
    pub stages: &'a CustomStages,
    /// Function that returns the text of a file, or the reason why the file cannot be read.
    pub open: &'a dyn Fn(&str) -> Result<String, String>,
}

macro_rules! wire {
    ($($field:ident: $Type:ty = $name:literal, $default:expr, $example:literal, $about:literal, $values:expr, $read:expr, $write:expr;)+) => {
        /// Configuration of one direction of a link between two nodes. Each field has a key in [`WireSpec::KEYS`].
        #[derive(Clone, Debug, PartialEq)]
        pub struct WireSpec {
            $(#[doc = $about] pub $field: $Type),+
        }

        impl WireSpec {
            /// Configuration keys of a wire.
            pub const KEYS: &'static [Key] =
                &[$(Key { name: $name, about: $about, default: $default, example: $example, values: $values }),+];

            /// Reads a wire. `value_of` returns the text of each key, or `None` if the key is not given. An error gives the wrong key and
            /// the reason.
            pub fn read<'t>(
                value_of: impl Fn(&'static str) -> Option<&'t str>,
                with: &References<'_>,
            ) -> Result<Self, (&'static str, String)> {
                let wire = Self {
                    $($field: {
                        let text = value_of($name).or($default).ok_or(($name, "required, for the link or for each direction".to_string()))?;
                        let read: fn(&str, &References<'_>) -> Result<$Type, ParseError> = $read;
                        read(text, with).map_err(|error| ($name, error.to_string()))?
                    }),+
                };
                wire.checked()
            }

            /// Returns the keys and values from which [`WireSpec::read`] reads the same wire.
            pub fn written(&self) -> Vec<(&'static str, String)> {
                vec![$(($name, { let write: fn(&$Type) -> String = $write; write(&self.$field) })),+]
            }
        }
    };
}

wire! {
    rate: RateSpec = "rate", None, "1.5Mbit", "Line rate", || RateSpec::USAGE.to_vec(),
        |text, with| RateSpec::read(text, with.open), |rate| rate.to_string();
    delay: DelaySpec = "delay", None, "25ms", "Propagation delay", || DelaySpec::USAGE.to_vec(),
        |text, with| DelaySpec::read(text, with.open), |delay| delay.to_string();
    jitter: Option<JitterSpec> = "jitter", Some("none"), "uniform:5ms", "Variation of the delay", JitterSpec::usages,
        |text, with| (text != "none").then(|| JitterSpec::read(text, with.open)).transpose(), |jitter| or_none(jitter.as_ref());
    queue: QueueSpec = "queue", None, "drop-tail:10", "Queue discipline", QueueSpec::usages,
        |text, with| with.queues.read(text, QueueSpec::Custom), |queue| queue.to_string();
    before: Vec<StageSpec> = "loss", Some("none"), "bernoulli:1%", "Losses before the queue", StageSpec::usages,
        |text, with| stage::read(text, with.stages, with.open), |stages| stage::write(stages);
    after: Vec<StageSpec> = "wire_loss", Some("none"), "gilbert-elliott:to_bad=1%,to_good=30%,loss_bad=50%",
        "Losses after the queue, of packets that have been transmitted", StageSpec::usages,
        |text, with| stage::read(text, with.stages, with.open), |stages| stage::write(stages);
    conditioner: Vec<StageSpec> = "conditioner", Some("none"), "policer:high=250kbit/6000B",
        "Meters, markers and policers (RFC 2475) at the end of the link, after wire_loss",
        StageSpec::usages, |text, with| stage::read(text, with.stages, with.open), |stages| stage::write(stages);
    outage: Option<OutageSpec> = "outage", Some("none"), "every=30s,for=2s",
        "Outages, during which the link does not transmit and packets wait",
        || OutageSpec::USAGE.to_vec(), |text, _| optional(text), |outage| or_none(outage.as_ref());
    link_layer: Option<ArqSpec> = "link_layer", Some("none"), "arq:loss=5%,retry=8ms",
        "Retransmission by the link of packets lost on it", ArqSpec::usages,
        |text, _| optional(text), |arq| or_none(arq.as_ref());
}

impl WireSpec {
    /// Creates a wire of constant delay, without jitter, losses, conditioners, outages or link-layer retransmission.
    pub fn new(rate: impl Into<RateSpec>, delay: impl Into<DelaySpec>, queue: QueueSpec) -> Self {
        let none = Vec::new;
        Self {
            rate: rate.into(),
            delay: delay.into(),
            jitter: None,
            queue,
            before: none(),
            after: none(),
            conditioner: none(),
            outage: None,
            link_layer: None,
        }
    }

    /// Checks whether the wire may change to `to` while packets cross it. The queue, the link layer and recorded trains cannot change, because
    /// they keep packets. The outages cannot change either, nor can the rate if the queue has a limit in time. An error gives the key that cannot
    /// change and the reason.
    pub fn check_change_to(&self, to: &Self) -> Result<(), (&'static str, String)> {
        let fixed = [
            ("queue", self.queue != to.queue),
            ("rate", self.rate.trains() != to.rate.trains()),
            ("outage", self.outage != to.outage),
            ("link_layer", self.link_layer != to.link_layer),
        ];
        if let Some((key, _)) = fixed.into_iter().find(|(_, changes)| *changes) {
            return Err((key, "cannot change while packets cross the link".into()));
        }
        if self.rate != to.rate && self.queue.has_time_limit() {
            let problem =
                "cannot change while the queue has a limit in time; use a limit in packets or bytes";
            return Err(("rate", problem.into()));
        }
        Ok(())
    }

    /// Returns the contracts that apply to packets on the wire, each with the key and the value that specify it.
    pub fn contracts(&self) -> Vec<(&'static str, String, Sla)> {
        let stages = [("loss", &self.before), ("wire_loss", &self.after), ("conditioner", &self.conditioner)];
        let of_stages = stages.into_iter().flat_map(|(key, stages)| {
            stages.iter().filter_map(move |stage| Some((key, stage.to_string(), stage.sla()?)))
        });
        let of_queue = self.queue.sla().map(|sla| ("queue", self.queue.to_string(), sla));
        of_queue.into_iter().chain(of_stages).collect()
    }

    /// Returns true if the delay that the wire adds to transmission and queueing is the same for all packets.
    pub fn has_constant_delay(&self) -> bool {
        self.jitter.is_none() && self.delay.constant().is_some() && self.rate.trains().is_none()
    }

    /// Returns true if the wire always transmits at its rate and delivers each packet that crosses it once and in order: no outages, no
    /// link-layer retransmission, and no stage that holds back, copies or corrupts packets.
    pub fn is_steady(&self) -> bool {
        let after = self.after.iter().chain(&self.conditioner);
        self.outage.is_none() && self.link_layer.is_none() && !after.into_iter().any(StageKind::needs_wire)
    }

    /// Checks the constraints between values that are individually valid.
    fn checked(self) -> Result<Self, (&'static str, String)> {
        let min_delay = self.jitter.as_ref().map_or(Span::ZERO, JitterSpec::min_delay);
        let delay = self.delay.min();
        if delay < min_delay {
            let problem = format!("needs a delay of at least {min_delay}, not {delay}");
            return Err(("jitter", problem));
        }
        if let Some(stage) = self.before.iter().find(|stage| stage.needs_wire()) {
            return Err(("loss", format!("{:?}: expected in wire_loss or conditioner", stage.to_string())));
        }
        if self.rate.trains().is_some() {
            let both = [("outage", self.outage.is_some()), ("link_layer", self.link_layer.is_some())];
            if let Some((key, _)) = both.into_iter().find(|(_, is_set)| *is_set) {
                return Err((key, "cannot be combined with cell-trains, whose recordings contain it".into()));
            }
        }
        if self.link_layer.is_some() && self.queue.has_time_limit() {
            let queue = self.queue.to_string();
            let problem = format!(
                "{queue:?}: expected a limit in packets or bytes: link-layer retransmissions make waiting times unpredictable"
            );
            return Err(("queue", problem));
        }
        Ok(self)
    }
}
