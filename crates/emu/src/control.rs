//! Changes of a running link: scheduled in advance, or requested by `catnip link set`.

use catnip_linux::clock::{Clock, Stopwatch};
use catnip_linux::private_folder;
use catnip_linux::sys;

use crate::datapath::frames::ExternalHosts;
use crate::datapath::gateways::Emulator;
use catnip_base::{Span, Time};
use catnip_cli::failure::{Failure, failed};
use catnip_linux::tun::PacketIo;
use catnip_net::{PortId, WireSpec};
use catnip_sim::Watch;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Prefix of the name of the abstract socket on which a running link accepts change requests. The process ID of the emulator follows. Links
/// of root have a socket in root's folder instead.
const SOCKET_NAME: &str = "catnip-emu link ";
const DONE: &str = "done";
/// Time limit for receiving a whole change request, and for a whole answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest change request and longest answer, bytes.
const MAX_REQUEST: usize = 1 << 16;

/// Specification of a running link, to which changes in text form can be applied.
pub trait Adjust: Debug {
    /// Applies a change and returns the resulting wires, up and down. Returns an error if the change is not possible.
    fn adjust(&mut self, change: &str) -> Result<[WireSpec; 2], Failure>;
}

/// Change of a running link that was carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedChange {
    /// Time of the change, counted from the start of the run.
    pub at: Time,
    /// Text of the change, such as `up rate=1Mbit`.
    pub text: String,
    /// Wires of the link after the change, up and down.
    pub wires: [WireSpec; 2],
}

/// Control of a running link: it carries out scheduled and requested changes, and records them.
#[derive(Debug)]
pub struct Control {
    adjust: Box<dyn Adjust>,
    seed: u64,
    wires: [WireSpec; 2],
    /// Scheduled changes in order of time.
    schedule: VecDeque<(Time, String)>,
    listener: Option<UnixListener>,
    /// Socket of a link of root, which is removed at the end.
    socket_file: Option<PathBuf>,
    /// Socket over which the listening thread sends change requests and receives their results; `None` if requests are not accepted.
    requests: Option<UnixStream>,
    changes: Vec<AppliedChange>,
}

impl Control {
    /// Creates the control of a link that begins with the wires `wires`. Each change in `schedule` has the time since the start of the run.
    pub fn new(
        adjust: Box<dyn Adjust>,
        wires: [WireSpec; 2],
        seed: u64,
        mut schedule: Vec<(Span, String)>,
    ) -> Self {
        schedule.sort_by_key(|(at, _)| *at);
        let schedule = schedule.into_iter().map(|(at, change)| (Time::ZERO + at, change)).collect();
        let (listener, socket_file, requests) = (None, None, None);
        Self { adjust, seed, wires, schedule, listener, socket_file, requests, changes: Vec::new() }
    }

    /// Binds the socket for change requests in the network namespace of this thread. Errors are ignored, because a link that accepts no
    /// requests is still usable.
    pub(crate) fn bind(&mut self) {
        let process = std::process::id();
        if let Some(file) = socket_prefix().map(|prefix| PathBuf::from(format!("{prefix}{process}"))) {
            private_folder::clean();
            let _ = fs::remove_file(&file);
            self.listener = UnixListener::bind(&file).ok();
            self.socket_file = self.listener.is_some().then_some(file);
        }
        if self.listener.is_none() {
            let address = SocketAddr::from_abstract_name(format!("{SOCKET_NAME}{process}"));
            self.listener = address.and_then(|address| UnixListener::bind_addr(&address)).ok();
        }
    }

    /// Starts a thread that accepts change requests, so that a slow client does not delay packets.
    pub(crate) fn listen(&mut self) -> Result<(), Failure> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let cannot = failed("link set", "listen for requests");
        let (emulator_end, thread_end) = UnixStream::pair().map_err(&cannot)?;
        let serve = move || {
            listener
                .incoming()
                .map_while(Result::ok)
                .try_for_each(|client| forward_request(&client, &thread_end))
        };
        thread::Builder::new().name("control".into()).spawn(serve).map_err(cannot)?;
        self.requests = Some(emulator_end);
        Ok(())
    }

    /// Returns the descriptor that is readable while a change request is pending; `None` if requests are not accepted.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.requests.as_ref().map(AsFd::as_fd)
    }

    /// Returns the time of the next scheduled change, or [`Time::NEVER`] if none remains.
    pub(crate) fn next_at(&self) -> Time {
        self.schedule.front().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Carries out the scheduled changes that are due.
    pub(crate) fn apply_due<I: PacketIo, F: ExternalHosts, W: Watch, C: Clock>(
        &mut self,
        ports: [PortId; 2],
        emulator: &mut Emulator<C, I, F, W>,
    ) {
        let now = emulator.clock().now();
        while self.next_at() <= now {
            let Some((at, change)) = self.schedule.pop_front() else { return };
            // The scheduled change fails if it is no longer possible after a requested change.
            let _ = self.apply(at, &change, ports, emulator);
        }
    }

    /// Carries out the pending change request, and sends the result to the listening thread.
    pub(crate) fn apply_request<I: PacketIo, F: ExternalHosts, W: Watch, C: Clock>(
        &mut self,
        ports: [PortId; 2],
        emulator: &mut Emulator<C, I, F, W>,
    ) {
        let Some(requests) = self.requests.as_ref().and_then(|requests| requests.try_clone().ok()) else {
            return;
        };
        let mut change = String::new();
        // The listening thread writes whole lines.
        if BufReader::new(&requests).read_line(&mut change).is_err() {
            return;
        }
        let response = match self.apply(emulator.clock().now(), change.trim(), ports, emulator) {
            Ok(()) => DONE.into(),
            Err(failure) => failure.to_string(),
        };
        let _ = writeln!(&requests, "{response}");
    }

    /// Returns the changes that were carried out so far.
    pub(crate) fn changes(&self) -> Vec<AppliedChange> {
        self.changes.clone()
    }

    fn apply<I: PacketIo, F: ExternalHosts, W: Watch, C: Clock>(
        &mut self,
        at: Time,
        change: &str,
        ports: [PortId; 2],
        emulator: &mut Emulator<C, I, F, W>,
    ) -> Result<(), Failure> {
        let wires = self.adjust.adjust(change)?;
        // A new seed keeps restarted random streams from repeating earlier values.
        let seed = self.seed.wrapping_add(1 + self.changes.len() as u64);
        for ((port, from), to) in ports.into_iter().zip(&self.wires).zip(&wires) {
            emulator.world.change(at, port, from, to, seed);
        }
        self.wires = wires.clone();
        self.changes.push(AppliedChange { at, text: change.into(), wires });
        Ok(())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.socket_file.as_ref().map(fs::remove_file);
    }
}

/// Requests a change of the link that the process `process` emulates. `None` means the only running link in this network namespace: of this
/// user, or, for root, of all users if root has none.
pub fn request_change(process: Option<u32>, change: &str) -> Result<(), Failure> {
    let mut links = links();
    match process {
        Some(process) => links.retain(|link| link.process == process),
        None if links.iter().any(|link| link.is_own) => links.retain(|link| link.is_own),
        None => {}
    }
    let link = match &links[..] {
        [link] => link,
        [] => {
            let what =
                process.map_or("no running link".into(), |process| format!("no link of process {process}"));
            let problem = format!("{what} was started by this user in this network namespace");
            return Err(Failure::new("--link", problem));
        }
        several => {
            let mut processes: Vec<u32> = several.iter().map(|link| link.process).collect();
            processes.sort_unstable();
            let problem = format!("several links in this network namespace; specify one of {processes:?}");
            return Err(Failure::new("--link", problem));
        }
    };
    let process = link.process;
    let no_answer = |error| Failure::new("--link", format!("process {process} does not answer ({error})"));
    let response = writeln!(&link.socket, "{change}").and_then(|()| line(&link.socket)).map_err(no_answer)?;
    match response.trim() {
        DONE => Ok(()),
        "" => Err(Failure::new("--link", format!("process {process} belongs to another user, or has ended"))),
        message => Err(Failure { message: message.into(), code: 2 }),
    }
}

/// Running link whose user this process may be.
struct Link {
    process: u32,
    socket: UnixStream,
    is_own: bool,
}

/// Returns the running links of this network namespace that this user may change: those whose socket belongs to this user or, for root, to
/// any user.
fn links() -> Vec<Link> {
    // Other users choose their names, of any bytes.
    let abstract_names = fs::read("/proc/net/unix").unwrap_or_default();
    let abstract_names = String::from_utf8_lossy(&abstract_names);
    let process = |line: &str| line.split_once(&format!("@{SOCKET_NAME}"))?.1.trim().parse().ok();
    let abstract_address =
        |process: &u32| SocketAddrUnix::new_abstract_name(format!("{SOCKET_NAME}{process}").as_bytes()).ok();
    let by_name = abstract_names
        .lines()
        .filter_map(process)
        .filter_map(|process| Some((process, abstract_address(&process)?)));
    let prefix = socket_prefix();
    let files = prefix.iter().flat_map(|_| fs::read_dir(private_folder::OF_LINKS)).flatten().flatten();
    let by_file = files.filter_map(|file| {
        let path = file.path();
        let process = path.to_str()?.strip_prefix(prefix.as_deref()?)?.parse().ok()?;
        Some((process, SocketAddrUnix::new(&path).ok()?))
    });
    let mut found: Vec<Link> = Vec::new();
    for (process, address) in by_file.chain(by_name) {
        let Ok(socket) = connect_at_once(&address) else { continue };
        let Ok(peer) = socket_peercred(&socket) else { continue };
        let is_own = peer.uid == geteuid();
        // A name says nothing of who has taken it. The socket of an accepted connection is listed by the same name as that of the link.
        let is_link = peer.pid.as_raw_nonzero().get() as u32 == process
            && !found.iter().any(|link| link.process == process);
        if is_link && (is_own || geteuid().is_root()) {
            found.push(Link { process, socket, is_own });
        }
    }
    found
}

/// Connects to a socket whose owner accepts connections. It is an error to have to wait: a user who took the name could make us wait for ever.
fn connect_at_once(address: &SocketAddrUnix) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = UnixStream::from(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?);
    rustix::net::connect(&socket, address)?;
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Returns the paths of the sockets of root's links in this network namespace, without the process ID; `None` for other users.
fn socket_prefix() -> Option<String> {
    let folder = Path::new(private_folder::OF_LINKS);
    let is_usable = geteuid().is_root() && private_folder::create(folder).is_ok();
    let cookie = sys::netns_cookie().ok().filter(|_| is_usable)?;
    Some(format!("{}/{cookie}-", folder.display()))
}

/// Reads a line within `REQUEST_TIMEOUT`, however slowly it comes; it ends early if it is longer than `MAX_REQUEST`.
fn line(from: &UnixStream) -> io::Result<String> {
    let stopwatch = Stopwatch::start();
    let mut text = Vec::new();
    while text.len() < MAX_REQUEST && text.last() != Some(&b'\n') {
        let elapsed = stopwatch.now().since(Time::ZERO).as_nanos();
        let left = REQUEST_TIMEOUT.saturating_sub(Duration::from_nanos(elapsed));
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        from.set_read_timeout(Some(left))?;
        let mut some = [0; 256];
        match (&*from).read(&mut some)? {
            0 => break,
            len => text.extend_from_slice(&some[..len]),
        }
    }
    String::from_utf8(text).map_err(|_| ErrorKind::InvalidData.into())
}

/// Forwards the change request of a client to the emulator, and the result to the client. Ignores clients without permission. Returns an
/// error if the emulator has ended.
fn forward_request(client: &UnixStream, emulator: &UnixStream) -> io::Result<()> {
    let Some(change) = request(client) else { return Ok(()) };
    let mut response = String::new();
    (&*emulator).write_all(format!("{change}\n").as_bytes())?;
    BufReader::new(emulator).read_line(&mut response)?;
    let _ = write!(&*client, "{response}");
    Ok(())
}

/// Reads the change request of a client. Returns `None` if the client belongs neither to the user of the link nor to root, or if it sends
/// no request in time.
fn request(client: &UnixStream) -> Option<String> {
    let user = socket_peercred(client).ok()?.uid;
    if user != geteuid() && !user.is_root() {
        return None;
    }
    client.set_write_timeout(Some(REQUEST_TIMEOUT)).ok()?;
    let change = line(client).ok()?;
    (!change.is_empty()).then(|| change.trim().replace(['\n', '\r'], " "))
}
