//! Main loop of an agent: it answers `status` and `stop`, and writes statistics.

use crate::kernel::Attached;
use crate::segments::limit_to_one;
use crate::state::{ChangedDevice, Changes, StateDir};
use crate::statistics::{self, Count};
use crate::windows::Table;
use catnip_base::{Span, Time};
use catnip_cli::failure::{Failure, failed};
use catnip_cli::out::print_stderr;
use catnip_linux::clock::{Stopwatch, since_1970};
use catnip_linux::file_lock::FileLock;
use catnip_linux::netlink::{Device, DeviceMonitor, Netlink};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Description of a running agent, for `status`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AgentInfo {
    /// Process ID.
    pub pid: u32,
    /// Marker, in the notation of the option `--mark`.
    pub mark: String,
    /// Limit on the packets of each user, in the notation of the option `--user-limit`.
    pub user_limit: String,
    /// Devices whose outgoing packets are to be marked, as asked for.
    pub devices: Vec<String>,
    /// Control group whose processes may announce documents.
    pub cgroup: PathBuf,
    /// Registered congestion controllers.
    pub controllers: Vec<String>,
    /// Settings to restore when the agent ends, with their previous values.
    pub changes: Vec<String>,
}

/// Answer of an agent to the requests `status` and `stop`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Status {
    /// Description of the agent.
    #[serde(flatten)]
    pub info: AgentInfo,
    /// Devices whose outgoing packets are marked at present: none without a marker, and not those that have gone.
    pub marked_devices: Vec<String>,
    /// Counters of the marker.
    pub statistics: Vec<Count>,
    /// Number of times that the statistics could not be written to a file.
    pub unwritten: u64,
    /// Error of the latest of these times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_error: Option<String>,
    /// Number of times that devices could not be followed, or users not be forgotten.
    pub failed: u64,
    /// Error of the latest of these times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Error that ended the table of windows early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_error: Option<String>,
}

/// Files to which the agent writes statistics, and the interval.
#[derive(Debug)]
pub struct Outputs {
    /// File to which a line of JSON is appended at every interval; `None` for no such file.
    pub lines: Option<(PathBuf, File)>,
    /// File with the latest statistics, for the node exporter of Prometheus; `None` for no such file.
    pub textfile: Option<PathBuf>,
    /// Interval between two outputs of the statistics.
    pub every: Span,
    /// File with the windows of newCWV senders, which was just created; `None` for no such file.
    pub windows: Option<(PathBuf, File)>,
    /// Failed attempts to write the statistics.
    pub failures: Failures,
}

/// Failures that end nothing: what is marked does not depend on who looks, nor on a full disk.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    count: u64,
    latest: Option<String>,
}

/// Reason for which the main loop of an agent has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ends as it was asked to.
    Stopped,
    /// It is to be started again, by SIGHUP.
    Restarts,
}

/// Running agent: its programs, and its knowledge of devices and settings.
pub struct Agent<'a> {
    /// Description of the agent. Its list of changes grows with devices that come back.
    pub info: AgentInfo,
    /// Programs of the agent in the kernel.
    pub attached: Attached<'a>,
    /// Changes of settings that are recorded.
    pub changes: Changes,
    /// True if users have limits.
    pub limits_users: bool,
    /// True if segments leave the devices one by one.
    pub limits_segments: bool,
    /// Reports of devices that come and go.
    pub monitor: DeviceMonitor,
    /// Folder with the record of the changes.
    pub state_dir: StateDir,
    /// Devices that have come back, and whose segments are still to be limited.
    pub returned: Vec<String>,
    /// Failed attempts to follow devices and to forget users.
    pub failures: Failures,
}

/// Interval at which users without recent packets are forgotten.
const USERS_INTERVAL: Span = Span::from_millis(1000);
/// Time limit for an agent to receive a request, and to answer it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Length of the longest answer, bytes.
const MAX_ANSWER: u64 = 1 << 20;
/// Length of the longest request, bytes.
const MAX_REQUEST: u64 = 64;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Signals that end an agent.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals for this thread. From now on, they are received by a file descriptor.
    pub fn catch() -> Result<Self, Failure> {
        let mut set = SigSet::empty();
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().for_each(|signal| set.add(signal));
        let caught = set
            .thread_block()
            .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK));
        caught.map(Self).map_err(|error| Failure::new("signals", error))
    }

    /// Returns what the signal asks for that has been received; `None` if there is none.
    fn ending(&self) -> Option<Ending> {
        let signal = self.0.read_signal().ok().flatten()?;
        Some(if signal.ssi_signo == Signal::SIGHUP as u32 { Ending::Restarts } else { Ending::Stopped })
    }
}

/// Creates the socket of an agent in its state folder and listens there. Only root has access to the socket.
pub fn listen(state_dir: &StateDir) -> Result<UnixListener, Failure> {
    let path = state_dir.socket();
    let bound = UnixListener::bind(&path).and_then(|listener| {
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(listener)
    });
    bound.map_err(|error| failed("/run/catnip-agent", "listen there")(error))
}

/// Answers requests until a request or a signal ends the agent.
pub fn serve(
    mut agent: Agent<'_>,
    listener: &UnixListener,
    signals: &Signals,
    mut outputs: Outputs,
) -> Result<Ending, Failure> {
    let windows = outputs.windows.take();
    let events = windows.is_some().then(|| agent.attached.window_events()).transpose()?;
    let table = windows.zip(events.as_ref());
    let table = table.map(|((path, file), events)| Table::new(events, &path, file)).transpose()?;
    let answered = answer(&mut agent, listener, signals, &mut outputs, table.as_ref());
    let counts = agent.attached.counts();
    let written = counts.and_then(|counts| outputs.write(&counts));
    outputs.failures.count(written);
    let closed = table.map_or(Ok(()), Table::close);
    let warnings = [outputs.failures.warning(UNWRITTEN), agent.failures.warning(FAILED)];
    warnings.into_iter().flatten().for_each(print_stderr);
    closed.and(answered)
}

fn answer(
    agent: &mut Agent<'_>,
    listener: &UnixListener,
    signals: &Signals,
    outputs: &mut Outputs,
    table: Option<&Table<'_>>,
) -> Result<Ending, Failure> {
    let has_statistics = outputs.lines.is_some() || outputs.textfile.is_some();
    let clock = Stopwatch::start();
    let mut due = Time::ZERO + outputs.every;
    let mut users_due = Time::ZERO + USERS_INTERVAL;
    let mut follows_later = false;
    loop {
        let mut fds = vec![
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(&signals.0, PollFlags::IN),
            PollFd::new(&agent.monitor, PollFlags::IN),
        ];
        fds.extend(table.map(|table| PollFd::new(table.ready(), PollFlags::IN)));
        let retry = follows_later.then(|| clock.now() + USERS_INTERVAL);
        let next = [has_statistics.then_some(due), agent.limits_users.then_some(users_due), retry]
            .into_iter()
            .flatten()
            .min();
        let wait = next.map(|next| timespec(next.since(clock.now())));
        match poll(&mut fds, wait.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            ready => ready.map_err(|error| Failure::new("agent", format!("cannot poll: {error}")))?,
        };
        if let Some(table) = table {
            table.write();
        }
        if has_statistics && clock.now() >= due {
            let counts = agent.attached.counts();
            let written = counts.and_then(|counts| outputs.write(&counts));
            outputs.failures.count(written);
            due = clock.now() + outputs.every;
        }
        if agent.limits_users && clock.now() >= users_due {
            agent.failures.count(agent.attached.forget_idle_users());
            users_due = clock.now() + USERS_INTERVAL;
        }
        let [has_request, has_signal, has_devices] =
            [0, 1, 2].map(|fd| fds[fd].revents().contains(PollFlags::IN));
        drop(fds);
        if let Some(ending) = has_signal.then(|| signals.ending()).flatten() {
            return Ok(ending);
        }
        if (has_devices && agent.monitor.has_changed()) || follows_later {
            let followed = agent.follow_devices();
            follows_later = followed.is_err();
            agent.failures.count(followed);
        }
        if has_request
            && let Ok((stream, _)) = listener.accept()
            && respond(stream, agent, outputs, table)?
        {
            return Ok(Ending::Stopped);
        }
    }
}

impl Agent<'_> {
    /// Marks the packets of devices that have come back, and limits their segments as those of the others.
    fn follow_devices(&mut self) -> Result<(), Failure> {
        let followed = self.attached.follow_devices(&mut self.returned);
        if !self.limits_segments {
            self.returned.clear();
        }
        followed.and(self.limit_returned())
    }

    /// Limits the segments of the devices that have come back. Those for which it fails are limited the next time.
    fn limit_returned(&mut self) -> Result<(), Failure> {
        if self.returned.is_empty() {
            return Ok(());
        }
        let mut netlink = Netlink::open().map_err(|error| Failure::new("--segments", error))?;
        while let Some(name) = self.returned.last() {
            // A device may go again in the meantime.
            if let Ok(Device { index, gso_max_segs: Some(gso_max_segs), .. }) = netlink.device(name) {
                let changed = ChangedDevice { name: name.clone(), index, gso_max_segs };
                let mut changes = self.changes.clone();
                changes.devices.push(changed.clone());
                self.state_dir.save(&changes)?;
                self.changes = changes;
                self.info.changes = self.changes.describe();
                let _ = limit_to_one(&changed);
            }
            self.returned.pop();
        }
        Ok(())
    }
}

/// Subjects of the warnings about failed outputs, and about an agent's other work.
const UNWRITTEN: &str = "the statistics were not written";
const FAILED: &str = "devices were not followed, or users not forgotten,";

impl Failures {
    /// Counts a failure.
    fn count(&mut self, done: Result<(), Failure>) {
        if let Err(failure) = done {
            self.count += 1;
            self.latest = Some(failure.to_string());
        }
    }

    fn warning(&self, what: &str) -> Option<String> {
        warning(what, self.count, self.latest.as_ref())
    }
}

impl Status {
    /// Warnings about what has failed so far, each a line.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let unwritten = warning(UNWRITTEN, self.unwritten, self.write_error.as_ref());
        [unwritten, warning(FAILED, self.failed, self.error.as_ref())].into_iter().flatten()
    }
}

fn warning(what: &str, count: u64, latest: Option<&String>) -> Option<String> {
    Some(format!("warning: {what} {count} times; the last time: {}\n", latest?))
}

fn timespec(wait: Span) -> Timespec {
    let nanos = wait.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

/// Answers a request. Returns true if the request ends the agent.
fn respond(
    mut stream: UnixStream,
    agent: &Agent<'_>,
    outputs: &Outputs,
    table: Option<&Table<'_>>,
) -> Result<bool, Failure> {
    let mut command = String::new();
    // A slow or disconnected client cannot block the agent.
    let received = stream
        .set_read_timeout(Some(REQUEST_TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(REQUEST_TIMEOUT)))
        .and_then(|()| BufReader::new((&stream).take(MAX_REQUEST)).read_line(&mut command));
    let ends = received.is_ok() && command == "stop\n";
    let windows_error = table.and_then(Table::flush);
    let status = Status {
        info: agent.info.clone(),
        marked_devices: agent.attached.marked_devices(),
        statistics: agent.attached.counts()?,
        unwritten: outputs.failures.count,
        write_error: outputs.failures.latest.clone(),
        failed: agent.failures.count,
        error: agent.failures.latest.clone(),
        windows_error,
    };
    if let Ok(text) = serde_json::to_vec(&status) {
        let _ = stream.write_all(&text);
    }
    Ok(ends)
}

impl Outputs {
    /// Writes the statistics to the files.
    pub fn write(&mut self, counts: &[Count]) -> Result<(), Failure> {
        if let Some((path, file)) = &mut self.lines {
            #[derive(Serialize)]
            struct Line<'a> {
                time_s: f64,
                statistics: &'a [Count],
            }
            let line = Line { time_s: since_1970().as_secs(), statistics: counts };
            let text = serde_json::to_string(&line).unwrap_or_default() + "\n";
            file.write_all(text.as_bytes()).map_err(|error| write_failure(path, &error))?;
        }
        if let Some(path) = &self.textfile {
            // The file is replaced atomically, so that readers always find a complete file. Other users may be able to write to its folder.
            let folder = path.parent().unwrap_or(Path::new("/"));
            let readable = Permissions::from_mode(0o644);
            let mut new = tempfile::Builder::new();
            let new = new.prefix(".catnip-agent-").permissions(readable).tempfile_in(folder);
            let written = new.and_then(|mut new| {
                new.write_all(statistics::prometheus(counts).as_bytes())?;
                new.persist(path).map_err(|error| error.error)
            });
            written.map_err(|error| write_failure(path, &error))?;
        }
        Ok(())
    }
}

fn write_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(&path.display().to_string(), format!("cannot write it: {error}"))
}

/// Sends the request `command`, `status` or `stop`, to the agent with this state folder. Returns `None` if no agent runs there. Fails if an
/// agent does not answer in time.
pub fn request(state_dir: &StateDir, command: &str) -> Result<Option<Status>, Failure> {
    let cannot = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let holder = FileLock::holder(&state_dir.lock_file());
            let problem =
                format!("{holder} does not answer within {} s; is it stopped?", ANSWER_TIMEOUT.as_secs());
            Failure::new("agent", problem)
        }
        _ => failed("agent", "send it a request")(error),
    };
    let mut stream = match connect(&state_dir.socket()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(Failure::new("agent", "only root may send it requests"));
        }
        stream => stream.map_err(&cannot)?,
    };
    let mut text = String::new();
    let response = stream
        .write_all(format!("{command}\n").as_bytes())
        .and_then(|()| (&stream).take(MAX_ANSWER).read_to_string(&mut text));
    match response {
        // The agent is ending.
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            return Ok(None);
        }
        Ok(0) => return Ok(None),
        response => response.map_err(&cannot)?,
    };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| Failure::new("agent", format!("invalid response: {error}")))
}

/// Connects to a socket with a time limit for this and for what follows: an agent that is stopped accepts no connections.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    for timeout in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, timeout, Some(ANSWER_TIMEOUT))?;
    }
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}
