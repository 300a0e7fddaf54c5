//! Options of links and of timing that the commands share.

use catnip_base::{Span, notation};
use catnip_cli::failure::Failure;
use catnip_emu::control::{Adjust, Control};
use catnip_emu::link::LinkSpec;
use catnip_emu::mark::Marking;
use catnip_emu::observe::certificate::Tolerance;
use catnip_emu::timing::TimingSpec;
use catnip_lab::{LinkProfile, PathFile};
use catnip_linux::sys;
use catnip_net::mark::SpmParameters;
use catnip_net::queue::{CustomQueues, QueueKind};
use catnip_net::stage::CustomStages;
use catnip_net::{Key, References, WireSpec};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Settings of one link, separate for each direction if they differ.
#[derive(Args, Debug)]
pub(crate) struct WireOptions {
    #[command(flatten)]
    both: WireSettings,
    /// Profile (dial-up, edge, 2g, slow-3g, regular-3g, 3g, fast-3g, slow-4g, 4g, fast-4g, dense-4g, lte, dsl, cable, fios, satellite) or
    /// file with a recorded path (`there` is up), whose settings apply where no option sets them
    #[arg(long, value_name = "NAME|FILE")]
    path: Option<PathBuf>,
    /// Mark TCP packets of both directions at entry: spm, spm:leading=0,trailing=3,small_window=4, spm-partial, spm:handshake=low (SYN and
    /// SYN-ACK, otherwise HIGH); responses end where their HTTP/1 headers specify, and encrypted or chunked ones are marked without their
    /// end
    #[arg(long, value_name = "TEXT", default_value = "none")]
    mark: String,
    /// Write the marks into the packets, visible to the other end and in captures
    #[arg(long)]
    write_marks: bool,
    /// Different settings of the outward direction, as in "rate=512kbit,queue=drop-tail:20"
    #[arg(long, value_name = "KEY=VALUE,…")]
    up: Option<String>,
    /// Different settings of the inward direction, towards the command or the inside interface
    #[arg(long, value_name = "KEY=VALUE,…")]
    down: Option<String>,
    /// Change settings after a time, as in "10s rate=1Mbit" or "10s up rate=1Mbit,loss=1%"; repeat the option for more changes, or use
    /// `catnip link set` by hand
    #[arg(long, value_name = "TIME [up|down] KEY=VALUE,…")]
    at: Vec<String>,
    /// Encoding of loss priorities in packets: dscp (AF11 is HIGH), dscp:AF2 to dscp:AF4, or flag-bit, the historical bit in the TCP flags,
    /// which excludes ECN
    #[arg(long, value_name = "TEXT", default_value = "dscp")]
    codec: String,
    /// Seed of all random choices, reported in the certificate to repeat the same losses [default: a new one each time]
    #[arg(long, value_name = "INTEGER", allow_hyphen_values = true)]
    seed: Option<u64>,
}

/// Settings of one direction of a link as text, by key. Each key is also a command-line option.
#[derive(Clone, Debug)]
struct WireSettings(BTreeMap<&'static str, String>);

/// Key of the marking of packets in [`WireSettings`], which is not a key of [`WireSpec`].
const MARK: &str = "mark";

impl FromArgMatches for WireSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let setting = |key: &Key| Some((key.name, matches.get_one::<String>(key.name)?.clone()));
        Ok(Self(WireSpec::KEYS.iter().filter_map(setting).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for WireSettings {
    fn augment_args(command: Command) -> Command {
        let option = |key: &Key| {
            let values: Vec<&str> = (key.values)().into_iter().map(|(form, _)| form).collect();
            let default_value = key.default.or(default_value(key.name)).unwrap_or_default();
            let help =
                format!("{}, both directions: {} [default: {default_value}]", key.about, values.join(", "));
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
    /// Returns the link that the options specify. `default_queue` applies without --queue.
    pub(crate) fn link(&self, default_queue: &str, timing: &TimingOptions) -> Result<LinkSpec, Failure> {
        let [up, down] = self.directions(default_queue)?;
        let ((up, up_marks), (down, down_marks)) = (up.wire("--up ")?, down.wire("--down ")?);
        Ok(LinkSpec {
            wires: [up, down],
            codec: parse("--codec", &self.codec)?,
            marking: Marking { edges: [up_marks, down_marks], writes_marks: self.write_marks },
            seed: self.seed.map_or_else(random_seed, Ok)?,
            timing: timing.spec()?,
        })
    }

    /// Creates the control that changes the link while it runs: at the times given by --at, and on request.
    pub(crate) fn control(
        &self,
        default_queue: &str,
        link: &LinkSpec,
        offload: bool,
    ) -> Result<Control, Failure> {
        let settings = self.directions(default_queue)?;
        let adjustable = AdjustableLink { settings, wires: link.wires.clone(), offload };
        let mut schedule = Vec::new();
        for change in &self.at {
            let (time, changes) = change.trim().split_once(char::is_whitespace).unwrap_or((change, ""));
            schedule.push((parse::<Span>("--at", time)?, changes.trim().to_string()));
        }
        schedule.sort_by_key(|(at, _)| *at);
        // A change that is not possible is reported now rather than later.
        let mut trial = adjustable.clone();
        for (_, changes) in &schedule {
            trial.adjust(changes).map_err(|failure| Failure::new("--at", failure))?;
        }
        Ok(Control::new(Box::new(adjustable), link.wires.clone(), link.seed, schedule))
    }

    /// Returns the settings of both directions, up first. `default_queue` applies without --queue.
    fn directions(&self, default_queue: &str) -> Result<[WireSettings; 2], Failure> {
        let [up, down] = self.recorded()?.map(|recorded| {
            let mut settings = WireSettings(recorded);
            settings.0.extend(self.both.0.clone());
            settings.0.entry("queue").or_insert_with(|| default_queue.into());
            settings.0.insert(MARK, self.mark.clone());
            settings
        });
        up.wire("--")?;
        down.wire("--")?;
        Ok([up.with_changes("--up", self.up.as_deref())?, down.with_changes("--down", self.down.as_deref())?])
    }

    /// Returns the settings of the recorded path, up first; empty without one.
    fn recorded(&self) -> Result<[BTreeMap<&'static str, String>; 2], Failure> {
        let Some(file) = &self.path else { return Ok(Default::default()) };
        let read = || {
            let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
            PathFile::parse(&text, file)
        };
        let path = LinkProfile::or_file(&file.to_string_lossy(), read);
        let path =
            path.map_err(|problem| Failure::new("--path", format!("{}: {problem}", file.display())))?;
        Ok(path.wires)
    }
}

/// Settings of both directions of a running link, up first, and the wires that result from them.
#[derive(Clone, Debug)]
struct AdjustableLink {
    settings: [WireSettings; 2],
    wires: [WireSpec; 2],
    offload: bool,
}

impl Adjust for AdjustableLink {
    fn adjust(&mut self, changes: &str) -> Result<[WireSpec; 2], Failure> {
        let (edges, changes) = match changes.split_once(char::is_whitespace) {
            Some(("up", changes)) => (0..1, changes),
            Some(("down", changes)) => (1..2, changes),
            _ => (0..2, changes),
        };
        let mut to = self.clone();
        for edge in edges {
            let settings = to.settings[edge].with_changes("change", Some(changes))?;
            if settings.0 == self.settings[edge].0 && changes.trim().is_empty() {
                let expected = "expected changes, as in \"rate=1Mbit,loss=1%\" or \"up delay=50ms\"";
                return Err(Failure::new("change", expected));
            }
            if settings.0[MARK] != self.settings[edge].0[MARK] {
                return Err(Failure::new(MARK, "cannot change while packets cross the link"));
            }
            let (wire, _) = settings.wire("")?;
            self.wires[edge]
                .check_change_to(&wire)
                .map_err(|(key, problem)| Failure::new(&key.replace('_', "-"), problem))?;
            (to.settings[edge], to.wires[edge]) = (settings, wire);
        }
        if self.offload {
            check_super_packets(&to.wires)?;
        }
        *self = to;
        Ok(self.wires.clone())
    }
}

impl WireSettings {
    /// Parses the settings into a wire and the parameters of its marker. Error messages begin with `prefix` and the name of the key.
    fn wire(&self, prefix: &str) -> Result<(WireSpec, Option<SpmParameters>), Failure> {
        let open = |file: &str| {
            std::fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))
        };
        let (queues, stages) = (CustomQueues::default(), CustomStages::default());
        let with = References { queues: &queues, stages: &stages, open: &open };
        let failure =
            |key: &str, problem: String| Failure::new(&format!("{prefix}{}", key.replace('_', "-")), problem);
        let setting = |key| self.0.get(key).map(String::as_str).or(default_value(key));
        let wire = WireSpec::read(setting, &with).map_err(|(key, problem)| failure(key, problem))?;
        let marks = notation::optional(&self.0[MARK]).map_err(|error| failure(MARK, error.to_string()))?;
        Ok((wire, marks))
    }

    /// Returns the settings after `changes`, which have the form `key=value,…`. Values may contain commas and `=`. Error messages begin
    /// with `option`.
    fn with_changes(&self, option: &str, changes: Option<&str>) -> Result<Self, Failure> {
        let mut settings = self.clone();
        let mut last: Option<&str> = None;
        for part in changes.unwrap_or("").split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let pair = part.split_once('=').and_then(|(key, value)| Some((key_named(key)?, value)));
            match (pair, last) {
                (Some((key, value)), _) => {
                    settings.0.insert(key, value.into());
                    last = Some(key);
                }
                (None, Some(key)) => *settings.0.entry(key).or_default() += &format!(",{part}"),
                (None, None) => {
                    let keys: Vec<String> = keys().map(|key| format!("{}=", key.replace('_', "-"))).collect();
                    let expected = format!("{part:?}: expected {}, separated by commas", keys.join(", "));
                    return Err(Failure::new(option, expected));
                }
            }
        }
        Ok(settings)
    }
}

fn keys() -> impl Iterator<Item = &'static str> {
    WireSpec::KEYS.iter().map(|key| key.name).chain([MARK])
}

/// Returns the key whose spelling on the command line, with hyphens, is `written`.
fn key_named(written: &str) -> Option<&'static str> {
    keys().find(|key| key.replace('_', "-") == written)
}

/// Returns the default of a key on the command line: an unlimited rate, no delay, and [`DEFAULT_QUEUE`].
fn default_value(key: &str) -> Option<&'static str> {
    let defaults = [("rate", "unlimited"), ("delay", "0ms"), ("queue", DEFAULT_QUEUE)];
    defaults.into_iter().find(|(other, _)| *other == key).map(|(_, value)| value)
}

/// Default queue of a link: drop-tail with space for 1000 packets.
pub(crate) const DEFAULT_QUEUE: &str = "drop-tail:1000";
/// Default queue of a link with --offload, whose packets differ widely in size.
pub(crate) const DEFAULT_QUEUE_BYTES: &str = "drop-tail:4MB";

/// Checks that the wires can carry super-packets, which can only be delayed, or dropped by a drop-tail queue with a limit in bytes or time.
/// All other impairments require single packets.
pub(crate) fn check_super_packets(wires: &[WireSpec; 2]) -> Result<(), Failure> {
    let accepts = |wire: &WireSpec| {
        let plain = wire.jitter.is_none() && wire.before.is_empty() && wire.after.is_empty();
        plain && wire.is_steady() && !wire.queue.counts_packets()
    };
    if wires.iter().all(accepts) {
        return Ok(());
    }
    let problem =
        "super-packets support only a rate, a delay and a queue such as drop-tail:4MB or drop-tail:50ms";
    Err(Failure::new("--offload", problem))
}

/// Timing precision and tolerance of the emulator.
#[derive(Args, Debug)]
pub(crate) struct TimingOptions {
    /// Run without SCHED_FIFO even if it is permitted
    #[arg(long)]
    no_real_time: bool,
    /// Time to spin instead of sleeping before a deadline [default: 60us under SCHED_FIFO, for at most 1 % of the time; else 0us]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    spin: Option<String>,
    /// Limit of the excess delay at the 99th percentile, beyond which the certificate is red; the limit of its maximum is a hundred times
    /// as long
    #[arg(long, value_name = "TIME", default_value = "5ms", allow_hyphen_values = true)]
    tolerance: String,
}

impl TimingOptions {
    pub(crate) fn spec(&self) -> Result<TimingSpec, Failure> {
        let spin = self.spin.as_deref().map(|text| parse("--spin", text)).transpose()?;
        let max_arrival_error = parse::<Span>("--tolerance", &self.tolerance)? / 4;
        Ok(TimingSpec { real_time: !self.no_real_time, spin, max_arrival_error })
    }

    pub(crate) fn tolerance(&self) -> Result<Tolerance, Failure> {
        let lateness: Span = parse("--tolerance", &self.tolerance)?;
        Ok(Tolerance::of(lateness))
    }
}

fn random_seed() -> Result<u64, Failure> {
    sys::random().map_err(|error| Failure::new("--seed", format!("cannot draw a seed; specify one: {error}")))
}

pub(crate) fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(
    key: &str,
    text: &str,
) -> Result<T, Failure> {
    text.parse().map_err(|error| Failure::new(key, error))
}
