//! What all commands let the user say of a link.

use catnip_base::{Span, notation};
use catnip_cli::failure::Failure;
use catnip_emu::control::{Adjust, Control};
use catnip_emu::link::LinkSpec;
use catnip_emu::mark::Marking;
use catnip_emu::observe::certificate::Tolerance;
use catnip_emu::timing::TimingSpec;
use catnip_linux::sys;
use catnip_net::mark::SpmParameters;
use catnip_net::queue::{CustomQueues, QueueKind};
use catnip_net::stage::CustomStages;
use catnip_net::{Key, References, WireSpec};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;

/// One link, each direction by itself if they differ.
#[derive(Args, Debug)]
pub(crate) struct WireOptions {
    #[command(flatten)]
    both: Said,
    /// Mark the TCP packets of either direction as they enter: spm, spm:leading=0,trailing=3,small_window=4, spm-partial,
    /// spm:handshake=low (SYN and SYN-ACK, otherwise HIGH); responses end where their HTTP/1 headers say, what is encrypted
    /// or chunked is marked without its end
    #[arg(long, value_name = "TEXT", default_value = "none")]
    mark: String,
    /// Write these marks into the packets, so that the other end and captures see them
    #[arg(long)]
    write_marks: bool,
    /// What is different on the way out, as in "rate=512kbit,queue=drop-tail:20"
    #[arg(long, value_name = "KEY=VALUE,…")]
    up: Option<String>,
    /// What is different on the way in, towards the command or the inside
    #[arg(long, value_name = "KEY=VALUE,…")]
    down: Option<String>,
    /// What changes after a time, as in "10s rate=1Mbit" or "10s up rate=1Mbit,loss=1%"; again for more changes. `catnip link set` does
    /// the same by hand
    #[arg(long, value_name = "TIME [up|down] KEY=VALUE,…")]
    at: Vec<String>,
    /// How packets say their loss priority: dscp (AF11 is HIGH), dscp:AF2 to dscp:AF4, or flag-bit, the historical bit
    /// in the TCP flags, which excludes ECN
    #[arg(long, value_name = "TEXT", default_value = "dscp")]
    codec: String,
    /// Seed of all random choices; the certificate says it, to have the same losses again [default: another one each time]
    #[arg(long, value_name = "INTEGER", allow_hyphen_values = true)]
    seed: Option<u64>,
}

/// What is said of a wire, by key. Each key is an option.
#[derive(Clone, Debug)]
struct Said(BTreeMap<&'static str, String>);

/// What is said of a direction beside the keys of its wire.
const MARK: &str = "mark";

impl FromArgMatches for Said {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let said = |key: &Key| Some((key.name, matches.get_one::<String>(key.name)?.clone()));
        Ok(Self(WireSpec::KEYS.iter().filter_map(said).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Said {
    fn augment_args(command: Command) -> Command {
        let option = |key: &Key| {
            let values: Vec<&str> = (key.values)().into_iter().map(|(form, _)| form).collect();
            let usual = key.usual.or(usual(key.name)).unwrap_or_default();
            let help = format!("{}, both ways: {} [default: {usual}]", key.about, values.join(", "));
            let name = key.name.replace('_', "-");
            Arg::new(key.name).long(name).value_name("TEXT").allow_hyphen_values(true).help(help)
        };
        command.args(WireSpec::KEYS.iter().map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl WireOptions {
    /// The link that is asked for.
    pub(crate) fn link(&self, default_queue: &str, timing: &TimingOptions) -> Result<LinkSpec, Failure> {
        let [up, down] = self.directions(default_queue)?;
        let ((up, up_marks), (down, down_marks)) = (up.wire("--up ")?, down.wire("--down ")?);
        Ok(LinkSpec {
            wires: [up, down],
            codec: read("--codec", &self.codec)?,
            marking: Marking { edges: [up_marks, down_marks], writes: self.write_marks },
            seed: self.seed.map_or_else(own_seed, Ok)?,
            timing: timing.spec()?,
        })
    }

    /// What changes it while it runs.
    pub(crate) fn control(
        &self,
        default_queue: &str,
        link: &LinkSpec,
        offload: bool,
    ) -> Result<Control, Failure> {
        let said = self.directions(default_queue)?;
        let adjusting = Adjusting { said, wires: link.wires.clone(), offload };
        let mut schedule = Vec::new();
        for change in &self.at {
            let (time, what) = change.trim().split_once(char::is_whitespace).unwrap_or((change, ""));
            schedule.push((read::<Span>("--at", time)?, what.trim().to_string()));
        }
        schedule.sort_by_key(|(at, _)| *at);
        // What cannot be is said now rather than later.
        let mut trial = adjusting.clone();
        for (_, what) in &schedule {
            trial.adjust(what).map_err(|why| Failure::new("--at", why))?;
        }
        Ok(Control::new(Box::new(adjusting), link.wires.clone(), link.seed, schedule))
    }

    /// What is said of each direction, up first.
    fn directions(&self, default_queue: &str) -> Result<[Said; 2], Failure> {
        let mut both = self.both.clone();
        both.0.entry("queue").or_insert_with(|| default_queue.into());
        both.0.insert(MARK, self.mark.clone());
        both.wire("--")?;
        Ok([both.but("--up", self.up.as_deref())?, both.but("--down", self.down.as_deref())?])
    }
}

/// What is said of a link, up and down, and what comes of it.
#[derive(Clone, Debug)]
struct Adjusting {
    said: [Said; 2],
    wires: [WireSpec; 2],
    offload: bool,
}

impl Adjust for Adjusting {
    fn adjust(&mut self, what: &str) -> Result<[WireSpec; 2], Failure> {
        let (edges, what) = match what.split_once(char::is_whitespace) {
            Some(("up", what)) => (0..1, what),
            Some(("down", what)) => (1..2, what),
            _ => (0..2, what),
        };
        let mut to = self.clone();
        for edge in edges {
            let said = to.said[edge].but("change", Some(what))?;
            if said.0 == self.said[edge].0 && what.trim().is_empty() {
                let expected = "expected what changes, as in \"rate=1Mbit,loss=1%\" or \"up delay=50ms\"";
                return Err(Failure::new("change", expected));
            }
            if said.0[MARK] != self.said[edge].0[MARK] {
                return Err(Failure::new(MARK, "cannot change while packets cross the link"));
            }
            let (wire, _) = said.wire("")?;
            self.wires[edge]
                .may_become(&wire)
                .map_err(|(key, what)| Failure::new(&key.replace('_', "-"), what))?;
            (to.said[edge], to.wires[edge]) = (said, wire);
        }
        if self.offload {
            takes_super_packets(&to.wires)?;
        }
        *self = to;
        Ok(self.wires.clone())
    }
}

impl Said {
    /// Reads what is said; errors begin with `prefix` and the name of the key.
    fn wire(&self, prefix: &str) -> Result<(WireSpec, Option<SpmParameters>), Failure> {
        let open = |file: &str| {
            std::fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))
        };
        let (queues, stages) = (CustomQueues::default(), CustomStages::default());
        let with = References { queues: &queues, stages: &stages, open: &open };
        let wrong =
            |key: &str, what: String| Failure::new(&format!("{prefix}{}", key.replace('_', "-")), what);
        let said = |key| self.0.get(key).map(String::as_str).or(usual(key));
        let wire = WireSpec::read(said, &with).map_err(|(key, what)| wrong(key, what))?;
        let marks = notation::optional(&self.0[MARK]).map_err(|error| wrong(MARK, error.to_string()))?;
        Ok((wire, marks))
    }

    /// The same, changed by `key=value,…`. Values may have commas and `=` themselves.
    fn but(&self, option: &str, changes: Option<&str>) -> Result<Self, Failure> {
        let mut said = self.clone();
        let mut last: Option<&str> = None;
        for part in changes.unwrap_or("").split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let known = part.split_once('=').and_then(|(key, value)| Some((known(key)?, value)));
            match (known, last) {
                (Some((key, value)), _) => {
                    said.0.insert(key, value.into());
                    last = Some(key);
                }
                (None, Some(key)) => *said.0.entry(key).or_default() += &format!(",{part}"),
                (None, None) => {
                    let keys: Vec<String> = keys().map(|key| format!("{}=", key.replace('_', "-"))).collect();
                    let expected = format!("{part:?}: expected {}, separated by commas", keys.join(", "));
                    return Err(Failure::new(option, expected));
                }
            }
        }
        Ok(said)
    }
}

fn keys() -> impl Iterator<Item = &'static str> {
    WireSpec::KEYS.iter().map(|key| key.name).chain([MARK])
}

/// The key that is written so.
fn known(written: &str) -> Option<&'static str> {
    keys().find(|key| key.replace('_', "-") == written)
}

/// What a link of the command line is if nothing is said of it: no link at all.
fn usual(key: &str) -> Option<&'static str> {
    let usual = [("rate", "unlimited"), ("delay", "0ms"), ("queue", DEFAULT_QUEUE)];
    usual.into_iter().find(|(other, _)| *other == key).map(|(_, value)| value)
}

/// The queue if nothing is said of it.
pub(crate) const DEFAULT_QUEUE: &str = "drop-tail:1000";
/// The same where packets are of any size.
pub(crate) const DEFAULT_QUEUE_BYTES: &str = "drop-tail:4MB";

/// Super-packets can be late, and dropped from the end of a full buffer; all else happens to single packets.
pub(crate) fn takes_super_packets(wires: &[WireSpec; 2]) -> Result<(), Failure> {
    let takes = |wire: &WireSpec| {
        let plain = wire.jitter.is_none() && wire.before.is_empty() && wire.behind.is_empty();
        plain && wire.is_steady() && !wire.queue.counts_packets()
    };
    if wires.iter().all(takes) {
        return Ok(());
    }
    let what = "super-packets have a rate, a delay and a queue such as drop-tail:4MB or drop-tail:50ms only";
    Err(Failure::new("--offload", what))
}

/// How exact the emulator tries to be, and how exact it must be.
#[derive(Args, Debug)]
pub(crate) struct TimingOptions {
    /// Stay an ordinary process even if SCHED_FIFO is permitted
    #[arg(long)]
    no_real_time: bool,
    /// How long before a deadline to spin instead of sleeping [default: 60us under SCHED_FIFO, for 1 % of the time at most; else 0us]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    spin: Option<String>,
    /// For how much longer than asked 1 of 100 packets may be kept before the certificate is red, and none a hundred times as long
    #[arg(long, value_name = "TIME", default_value = "5ms", allow_hyphen_values = true)]
    tolerance: String,
}

impl TimingOptions {
    pub(crate) fn spec(&self) -> Result<TimingSpec, Failure> {
        let spin = self.spin.as_deref().map(|text| read("--spin", text)).transpose()?;
        let exactness = read::<Span>("--tolerance", &self.tolerance)? / 4;
        Ok(TimingSpec { real_time: !self.no_real_time, spin, exactness })
    }

    pub(crate) fn tolerance(&self) -> Result<Tolerance, Failure> {
        let lateness: Span = read("--tolerance", &self.tolerance)?;
        Ok(Tolerance::of(lateness))
    }
}

fn own_seed() -> Result<u64, Failure> {
    sys::random().map_err(|error| Failure::new("--seed", format!("cannot draw one, say one: {error}")))
}

pub(crate) fn read<T: std::str::FromStr<Err: std::fmt::Display>>(
    key: &str,
    text: &str,
) -> Result<T, Failure> {
    text.parse().map_err(|error| Failure::new(key, error))
}
