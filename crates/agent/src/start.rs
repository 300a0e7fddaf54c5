//! Command `catnip agent start`.

use catnip_agent::check;
use catnip_agent::kernel::{
    Attached, CONTROLLERS, Controllers, ObjectMemory, Setup, default_cgroup, default_devices,
};
use catnip_agent::policy::{Codepoints, Policy};
use catnip_agent::segments::Segments;
use catnip_agent::serve::{Agent, AgentInfo, Ending, Failures, Outputs, Signals, listen, serve};
use catnip_agent::settings::setting;
use catnip_agent::state::{Changes, StateDir};
use catnip_agent::windows::Table;
use catnip_base::{Rate, Span, notation};
use catnip_cli::failure::{Failure, failed};
use catnip_cli::out::{print_json, print_stderr, write_failure};
use catnip_linux::netlink::DeviceMonitor;
use catnip_linux::sys;
use catnip_net::mark::{MarkerSpec, Service};
use catnip_net::{Profile, Sla};
use clap::Args;
use rustix::thread::{CapabilitySet, set_capabilities, set_no_new_privs};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Attaches the programs to the kernel, and stays in the background until `stop`.
///
/// All packets that leave the devices are marked from then on. Documents of unencrypted HTTP/1 servers end where
/// Content-Length specifies; other applications may announce theirs (include/catnip.h). When the agent ends, for
/// whatever reason, packets leave as they did before.
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct Start {
    /// Device whose outgoing packets are marked; may be repeated [default: all that are up, except the loopback]
    #[arg(long, value_name = "NAME")]
    device: Vec<String>,
    /// Marker: last-only, spm, spm-partial, tcp-state, tcp-state-random or app, with parameters as in scenarios, such
    /// as spm:leading=3,trailing=3,small_window=3; none for no marks
    #[arg(long, value_name = "TEXT", default_value = "last-only")]
    mark: String,
    /// Codepoints of the levels [default: high=AF11,med=AF12,low=AF13, with app and tcp-state by class]
    #[arg(long, value_name = "TEXT")]
    codepoints: Option<String>,
    /// Mark ACKs with the level of the data that they acknowledge
    #[arg(long)]
    mark_acks: bool,
    /// Limits of HIGH and MED for each user, above which packets are demoted, such as high=250kbit/6000B,med=500kbit/6000B;
    /// with share=50%, half of a user's bytes may be HIGH beyond the rate, and half MED; none for no limits
    /// [default: high=RATE/128KB,share=50%, with tcp-state the same for MED; RATE is a hundredth of the slowest device's
    /// rate, or 1Mbit; none with app]
    #[arg(long, value_name = "TEXT")]
    user_limit: Option<String>,
    /// Class of connections that request none: highly-interactive, interactive or other
    #[arg(long, value_name = "CLASS", default_value = "interactive")]
    class: String,
    /// Best class that processes without root privileges may request
    #[arg(long, value_name = "CLASS", default_value = "interactive")]
    allow_class: String,
    /// Largest thresholds that processes without root privileges may request: HIGH,MED in segments
    #[arg(long, value_name = "N,N", default_value = "4,8")]
    allow_thresholds: String,
    /// Limit on the HIGH SYN-ACKs, which strangers cause: RATE/DEPTH [default: a hundredth of the slowest device's rate, or 1Mbit, and 15000B]
    #[arg(long, value_name = "RATE/DEPTH")]
    handshake_limit: Option<String>,
    /// Ignore HTTP headers
    #[arg(long)]
    no_http: bool,
    /// Keep marks that applications have set themselves
    #[arg(long)]
    trust_applications: bool,
    /// Control group whose processes may announce documents [default: all processes]
    #[arg(long, value_name = "FOLDER")]
    cgroup: Option<PathBuf>,
    /// Segments that leave TCP one by one, so that each has its own mark
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    segments: Segments,
    /// Congestion controllers to register, for the whole machine
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    controllers: Controllers,
    /// Congestion controller of all new connections in this network namespace
    #[arg(long, value_name = "NAME")]
    control: Option<String>,
    /// Append statistics to this file, one line of JSON at every interval
    #[arg(long, value_name = "FILE")]
    statistics: Option<PathBuf>,
    /// Keep the latest statistics in this file, for the node exporter of Prometheus
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// Interval of the statistics
    #[arg(long, value_name = "TIME", default_value = "10s")]
    every: String,
    /// Write the windows of each connection with newCWV to this new file, as CSV: cwnd, ssthresh, pipeACK and phase at
    /// ACKs outside of recoveries, starts with nothing in flight, congestion, timeouts and ends of recoveries
    #[arg(long, value_name = "FILE")]
    windows: Option<PathBuf>,
    /// Stay in the foreground
    #[arg(long)]
    foreground: bool,
    /// Print a description of the running agent as JSON on standard output
    #[arg(long)]
    json: bool,
    /// Report on standard output that the agent runs, and detach from the terminal
    #[arg(long = "tell-ready", hide = true)]
    report_ready: bool,
}

const AFTER: &str = "Examples:
  Mark the last packets of documents sent by nginx, and retransmissions:
    catnip-agent start --device eth0

  Mark as in the CATNIP paper, with other codepoints:
    catnip-agent start --mark spm --codepoints high=AF21,low=0

  Use newCWV for all connections, without marks:
    catnip-agent start --mark none --control catnip_newcwv";

/// Limit on SYN-ACKs where no device tells its rate.
const STRANGERS: Profile = Profile { rate: SMALL, depth: NonZeroU64::new(15_000).unwrap() };

/// Limit on the packets of a user where no device tells its rate. No packet of the pages of `TDY-MIX` exceeds it, whatever the rate, with
/// any marker, nor with the share below (`tests/integration/test_user_limit.py`).
const USER: Profile = Profile { rate: SMALL, depth: NonZeroU64::new(128 << 10).unwrap() };

/// Share of a user's bytes that may be HIGH beyond that. The ten pages of the CATNIP paper have 37 to 45 %.
const USER_SHARE_PCT: u32 = 50;

const SMALL: Rate = Rate::from_bits_per_second(1_000_000).unwrap();

/// Returns the rate of a device; `None` if it does not tell.
fn device_rate(device: &str) -> Option<Rate> {
    let mbps: u64 = setting(format!("/sys/class/net/{device}/speed")).ok()?.parse().ok()?;
    Rate::from_bits_per_second(mbps.checked_mul(1_000_000)?)
}

/// Kernel setting with the congestion controller of new connections.
const CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

pub(crate) fn run(options: &Start) -> Result<u8, Failure> {
    let policy = options.policy()?;
    if let Some(missing) = check::unmet_requirement() {
        return Err(Failure::new(missing.what, missing.found));
    }
    if !options.foreground {
        return in_background(options.json);
    }
    let outputs = options.outputs()?;
    let setup = options.setup(policy)?;
    let state_dir = StateDir::current()?;
    let lock = state_dir.lock()?;
    let ended = options.attach(&setup, outputs, &state_dir);
    let cleaned = state_dir.restore(&lock);
    state_dir.remove(lock);
    cleaned.and(ended).map(|ending| if ending == Ending::Restarts { RESTART } else { 0 })
}

/// Exit code by which a service manager starts an agent again: that of a program which SIGHUP ends.
const RESTART: u8 = 129;

/// Starts an agent in a process without a terminal, and waits until the agent runs or has reported an error.
fn in_background(json: bool) -> Result<u8, Failure> {
    let cannot = |error| Failure::new("start", format!("cannot start in the background: {error}"));
    let mut args = std::env::args_os().skip(1);
    let start = args.next().unwrap_or_else(|| OsString::from("start"));
    let program = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(program);
    command.arg(start).args(args).args(["--foreground", "--tell-ready"]);
    sys::without_files(&mut command);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(cannot)?;
    }
    let Ok(info) = serde_json::from_str::<Value>(&line) else {
        let status = child.wait().map_err(cannot)?;
        return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2));
    };
    if json {
        print_json(&info)?;
    } else {
        print_stderr(format_args!(
            "agent runs as process {}; stop it with `catnip agent stop`\n",
            info["pid"]
        ));
    }
    Ok(0)
}

impl Start {
    /// Attaches the kernel programs, and serves requests until a request or a signal ends the agent. Changed settings are recorded in
    /// `state_dir`. The caller must restore them.
    fn attach(&self, setup: &Setup, mut outputs: Outputs, state_dir: &StateDir) -> Result<Ending, Failure> {
        let signals = Signals::catch()?;
        let mut memory = ObjectMemory::uninit();
        let attached = Attached::new(setup, &mut memory)?;
        if setup.controllers == Controllers::Auto && attached.controllers().len() < CONTROLLERS.len() {
            let warning =
                "another agent on this machine has registered them; they ignore documents announced here";
            print_stderr(format_args!("warning: --controllers: {warning}\n"));
        }
        if let Some(path) = &self.windows {
            if !attached.controllers().iter().any(|name| name == "catnip_newcwv") {
                return Err(Failure::new("--windows", "another agent on this machine has registered newCWV"));
            }
            outputs.windows = Some((path.clone(), Table::create(path)?));
        }
        let mut changes = self.segments.changes(&setup.devices)?;
        if self.control.is_some() {
            changes.settings.push((CONTROL.into(), setting(CONTROL)?));
        }
        let monitor = DeviceMonitor::open().map_err(failed("--device", "watch the devices"))?;
        let listener = listen(state_dir)?;
        state_dir.save(&changes)?;
        self.change(&changes)?;
        // A folder that the agent holds could not be unmounted.
        std::env::set_current_dir("/").map_err(failed("/", "make it the working folder"))?;
        drop_privileges(setup.policy.mark.is_some() || !changes.devices.is_empty())?;
        // Files that cannot be written are reported here rather than later.
        outputs.write(&attached.counts()?)?;
        let info = self.info(setup, &attached, &changes);
        self.report_ready(&info)?;
        let limits_segments = self.segments == Segments::Single;
        let limits_users = setup.policy.user.is_some();
        let state_dir = state_dir.clone();
        let (returned, failures) = (Vec::new(), Failures::default());
        let agent = Agent {
            info,
            attached,
            changes,
            limits_users,
            limits_segments,
            monitor,
            state_dir,
            returned,
            failures,
        };
        serve(agent, &listener, &signals, outputs)
    }

    fn policy(&self) -> Result<Policy, Failure> {
        let mark: Option<MarkerSpec> =
            notation::optional(&self.mark).map_err(|error| Failure::new("--mark", error))?;
        if let Some(other) = mark.as_ref().filter(|mark| !Policy::supports(mark)) {
            let problem =
                format!("{other}: expected spm, spm-partial, last-only, app, tcp-state or tcp-state-random");
            return Err(Failure::new("--mark", problem));
        }
        let service =
            |key: &str, text: &str| text.parse::<Service>().map_err(|error| Failure::new(key, error));
        // By these markers an application's own acts decide what is HIGH, and by the second one what is MED.
        let default = match &mark {
            Some(MarkerSpec::Spm(_)) => Some(Sla { high: USER, med: None, share_pct: USER_SHARE_PCT }),
            Some(MarkerSpec::TcpState(_)) => {
                Some(Sla { high: USER, med: Some(USER), share_pct: USER_SHARE_PCT })
            }
            _ => None,
        };
        let user = match &self.user_limit {
            None => default,
            Some(text) => notation::optional(text).map_err(|error| Failure::new("--user-limit", error))?,
        };
        let strangers = self.handshake_limit.as_deref().map(str::parse).transpose();
        let codepoints = self.codepoints.as_deref().map(Codepoints::read).transpose();
        Ok(Policy {
            mark,
            codepoints: codepoints.map_err(|problem| Failure::new("--codepoints", problem))?,
            marks_acks: self.mark_acks,
            user,
            strangers: strangers
                .map_err(|error| Failure::new("--handshake-limit", error))?
                .unwrap_or(STRANGERS),
            default_class: service("--class", &self.class)?,
            best_class: service("--allow-class", &self.allow_class)?,
            max_thresholds: self.max_thresholds()?,
            reads_http: !self.no_http,
            removes_app_marks: !self.trust_applications,
        })
    }

    fn max_thresholds(&self) -> Result<[u32; 2], Failure> {
        let text = &self.allow_thresholds;
        let parts = text
            .split_once(',')
            .and_then(|(high, med)| Some([high.trim().parse().ok()?, med.trim().parse().ok()?]));
        let parts = parts.filter(|[high, med]: &[u32; 2]| high <= med);
        parts.ok_or_else(|| {
            Failure::new(
                "--allow-thresholds",
                format!("{text:?}: expected two numbers of segments, the smaller one first"),
            )
        })
    }

    fn setup(&self, mut policy: Policy) -> Result<Setup, Failure> {
        if let Some(name) = &self.control
            && name.starts_with("catnip_")
            && !CONTROLLERS.iter().any(|(known, _)| known == name)
        {
            let known = CONTROLLERS.map(|(name, _)| name).join(", ");
            return Err(Failure::new("--control", format!("{name:?}: expected one of {known}")));
        }
        let devices = if self.device.is_empty() { default_devices()? } else { self.device.clone() };
        let slowest = devices.iter().filter_map(|device| device_rate(device)).min();
        if let Some(small) = slowest.and_then(|rate| Rate::from_bits_per_second(rate.bits_per_second() / 100))
        {
            if self.handshake_limit.is_none() {
                policy.strangers.rate = small;
            }
            if let (None, Some(user)) = (&self.user_limit, &mut policy.user) {
                user.high.rate = small;
                user.med = user.med.map(|_| user.high);
            }
        }
        let cgroup = self.cgroup.clone().map_or_else(default_cgroup, Ok)?;
        let reports_windows = self.windows.is_some();
        Ok(Setup { policy, devices, cgroup, controllers: self.controllers, reports_windows })
    }

    fn outputs(&self) -> Result<Outputs, Failure> {
        let open = |path: &PathBuf| {
            // Other users may be able to write to its folder.
            let mut options = File::options();
            let options = options.append(true).create(true).custom_flags(libc::O_NOFOLLOW);
            let file = options.open(path).map_err(|error| write_failure(path, error))?;
            Ok((path.clone(), file))
        };
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|error| write_failure(path, error));
        let every: Span = self.every.parse().map_err(|error| Failure::new("--every", error))?;
        if every < Span::from_millis(100) {
            return Err(Failure::new("--every", format!("{every}: expected 100ms or more")));
        }
        let lines = self.statistics.as_ref().map(open).transpose()?;
        if self.windows.is_some() && self.controllers == Controllers::None {
            return Err(Failure::new("--windows", "no controllers are registered (--controllers none)"));
        }
        let textfile = self.textfile.as_ref().map(absolute).transpose()?;
        Ok(Outputs { lines, textfile, every, windows: None, failures: Failures::default() })
    }

    fn change(&self, changes: &Changes) -> Result<(), Failure> {
        self.segments.apply(changes)?;
        let Some(name) = &self.control else { return Ok(()) };
        let before = setting(CONTROL)?;
        let set = |name: &str| std::fs::write(CONTROL, name);
        // Setting the present controller shows that it can be restored later.
        set(&before).map_err(|error| {
            Failure::new("--control", format!("{before} could not be restored here: {error}"))
        })?;
        set(name).map_err(|error| Failure::new("--control", format!("{name}: {error}")))
    }

    fn info(&self, setup: &Setup, attached: &Attached<'_>, changes: &Changes) -> AgentInfo {
        AgentInfo {
            pid: std::process::id(),
            mark: self.mark.clone(),
            user_limit: notation::or_none(setup.policy.user.as_ref()),
            devices: setup.devices.clone(),
            cgroup: setup.cgroup.clone(),
            controllers: attached.controllers().to_vec(),
            changes: changes.describe(),
        }
    }

    /// Reports that the agent runs. In the background, the report goes to the starting process, and the agent detaches from the terminal.
    fn report_ready(&self, info: &AgentInfo) -> Result<(), Failure> {
        if !self.report_ready {
            return if self.json { print_json(info) } else { Ok(()) };
        }
        let text = serde_json::to_string(info).map_err(|error| Failure::new("start", error))?;
        println!("{text}");
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map_err(failed("/dev/null", "open it"))?;
        let detached = rustix::process::setsid()
            .and_then(|_| rustix::stdio::dup2_stdout(&null))
            .and_then(|()| rustix::stdio::dup2_stderr(&null));
        detached.map_err(|error| Failure::new("start", format!("cannot detach from the terminal: {error}")))
    }
}

/// Drops all privileges except those needed for devices: to restore their settings, and to mark their packets again when they come back.
fn drop_privileges(needs_devices: bool) -> Result<(), Failure> {
    let capabilities = if needs_devices { CapabilitySet::NET_ADMIN } else { CapabilitySet::empty() };
    let sets = rustix::thread::CapabilitySets {
        effective: capabilities,
        permitted: capabilities,
        inheritable: CapabilitySet::empty(),
    };
    let dropped = set_no_new_privs(true).and_then(|()| set_capabilities(None, sets));
    dropped.map_err(|error| Failure::new("privileges", format!("cannot drop them: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        start: Start,
    }

    /// Returns the limit by user with these options, at a device that does not tell its rate.
    fn user_limit(options: &str) -> String {
        let words = ["start", "--device", "none0"].into_iter().chain(options.split(' '));
        let Command { start } = Command::parse_from(words);
        let setup = start.policy().and_then(|policy| start.setup(policy)).unwrap();
        notation::or_none(setup.policy.user.as_ref())
    }

    #[test]
    fn half_of_the_bytes_of_a_user_may_be_high_unless_the_operator_decides_otherwise() {
        for (options, expected) in [
            ("--mark last-only", "high=1Mbit/128KB,share=50%"),
            ("--mark tcp-state-random", "high=1Mbit/128KB,med=1Mbit/128KB,share=50%"),
            ("--mark app:high", "none"),
            ("--mark none", "none"),
            ("--user-limit none", "none"),
            ("--user-limit high=1kbit/6000B", "high=1kbit/6000B"),
            ("--mark app --user-limit high=1kbit/6000B,share=10%", "high=1kbit/6000B,share=10%"),
        ] {
            assert_eq!(user_limit(options), expected, "{options}");
        }
    }
}
