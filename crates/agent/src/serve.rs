//! Main loop of an agent: it answers `status` and `stop`, and writes statistics.

use crate::kernel::Attached;
use crate::state::StateDir;
use crate::statistics::{self, Count};
use crate::windows::Table;
use catnip_base::{Span, Time};
use catnip_cli::failure::{Failure, failed};
use catnip_linux::clock::{Stopwatch, since_1970};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
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
    /// Devices whose outgoing packets are marked.
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
    /// Counters of the marker.
    pub statistics: Vec<Count>,
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
}

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
    info: &AgentInfo,
    attached: &Attached<'_>,
    listener: &UnixListener,
    signals: &Signals,
    mut outputs: Outputs,
) -> Result<(), Failure> {
    let windows = outputs.windows.take();
    let table = windows.map(|(path, file)| Table::new(attached.window_events(), &path, file)).transpose()?;
    let answered = answer(info, attached, listener, signals, &mut outputs, table.as_ref());
    let written = attached.counts().and_then(|counts| outputs.write(&counts));
    let closed = table.map_or(Ok(()), Table::close);
    answered.and(written).and(closed)
}

fn answer(
    info: &AgentInfo,
    attached: &Attached<'_>,
    listener: &UnixListener,
    signals: &Signals,
    outputs: &mut Outputs,
    table: Option<&Table<'_>>,
) -> Result<(), Failure> {
    let has_statistics = outputs.lines.is_some() || outputs.textfile.is_some();
    let clock = Stopwatch::start();
    let mut due = Time::ZERO + outputs.every;
    loop {
        let mut fds = vec![PollFd::new(listener, PollFlags::IN), PollFd::new(&signals.0, PollFlags::IN)];
        fds.extend(table.map(|table| PollFd::new(table.ready(), PollFlags::IN)));
        let wait = has_statistics.then(|| timespec(due.since(clock.now())));
        match poll(&mut fds, wait.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            ready => ready.map_err(|error| Failure::new("agent", format!("cannot poll: {error}")))?,
        };
        if let Some(table) = table {
            table.write();
        }
        if has_statistics && clock.now() >= due {
            outputs.write(&attached.counts()?)?;
            due = clock.now() + outputs.every;
        }
        if fds[1].revents().contains(PollFlags::IN) {
            return Ok(());
        }
        if fds[0].revents().contains(PollFlags::IN)
            && let Ok((stream, _)) = listener.accept()
            && respond(stream, info, attached, table)?
        {
            return Ok(());
        }
    }
}

fn timespec(wait: Span) -> Timespec {
    let nanos = wait.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

/// Answers a request. Returns true if the request ends the agent.
fn respond(
    mut stream: UnixStream,
    info: &AgentInfo,
    attached: &Attached<'_>,
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
    let status = Status { info: info.clone(), statistics: attached.counts()?, windows_error };
    if let Ok(text) = serde_json::to_vec(&status) {
        let _ = stream.write_all(&text);
    }
    Ok(ends)
}

impl Outputs {
    fn write(&mut self, counts: &[Count]) -> Result<(), Failure> {
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
            // The file is replaced atomically, so that readers always find a complete file.
            let new = path.with_extension("new");
            let written =
                fs::write(&new, statistics::prometheus(counts)).and_then(|()| fs::rename(&new, path));
            written.map_err(|error| write_failure(path, &error))?;
        }
        Ok(())
    }
}

fn write_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(&path.display().to_string(), format!("cannot write it: {error}"))
}

/// Sends the request `command`, `status` or `stop`, to the agent with this state folder. Returns `None` if no agent runs there.
pub fn request(state_dir: &StateDir, command: &str) -> Result<Option<Status>, Failure> {
    let cannot = failed("agent", "send it a request");
    let mut stream = match UnixStream::connect(state_dir.socket()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(Failure::new("agent", "only root may send it requests"));
        }
        stream => stream.map_err(&cannot)?,
    };
    let mut text = String::new();
    let response =
        stream.write_all(format!("{command}\n").as_bytes()).and_then(|()| stream.read_to_string(&mut text));
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
