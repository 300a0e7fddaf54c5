//! Changes of a running link: scheduled in advance, or requested by `catnip link set`.

use catnip_linux::clock::Clock;

use crate::datapath::frames::ExternalHosts;
use crate::datapath::gateways::Emulator;
use catnip_base::{Span, Time};
use catnip_cli::failure::{Failure, failed};
use catnip_linux::tun::PacketIo;
use catnip_net::{PortId, WireSpec};
use catnip_sim::Watch;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

/// Prefix of the name of the abstract socket on which a running link accepts change requests. The process ID of the emulator follows.
const SOCKET_NAME: &str = "catnip-emu link ";
const DONE: &str = "done";
/// Time limit for receiving a change request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest change request, bytes.
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
        Self { adjust, seed, wires, schedule, listener: None, requests: None, changes: Vec::new() }
    }

    /// Binds the abstract socket for change requests in the network namespace of this thread.
    pub(crate) fn bind(&mut self) {
        let name = format!("{SOCKET_NAME}{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name);
        // Errors are ignored, because a link that accepts no requests is still usable.
        self.listener = address.and_then(|address| UnixListener::bind_addr(&address)).ok();
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

/// Requests a change of the link that the process `process` emulates. `None` means the only running link in this network namespace.
pub fn request_change(process: Option<u32>, change: &str) -> Result<(), Failure> {
    let process = process.map_or_else(only_link, Ok)?;
    let no_link = |error: io::Error| {
        Failure::new("--link", format!("no link of process {process} in this network namespace ({error})"))
    };
    let address = SocketAddr::from_abstract_name(format!("{SOCKET_NAME}{process}")).map_err(no_link)?;
    let link = UnixStream::connect_addr(&address).map_err(no_link)?;
    let mut response = String::new();
    writeln!(&link, "{change}")
        .and_then(|()| BufReader::new(&link).read_line(&mut response))
        .map_err(no_link)?;
    match response.trim() {
        DONE => Ok(()),
        "" => Err(Failure::new("--link", format!("process {process} belongs to another user, or has ended"))),
        message => Err(Failure { message: message.into(), code: 2 }),
    }
}

/// Returns the process ID of the only running link in this network namespace. Returns an error if there are several or none.
fn only_link() -> Result<u32, Failure> {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let name = |line: &str| line.split_once(&format!("@{SOCKET_NAME}"))?.1.trim().parse().ok();
    let mut found: Vec<u32> = sockets.lines().filter_map(name).collect();
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [one] => Ok(one),
        [] => Err(Failure::new("--link", "no running link was started in this network namespace")),
        _ => Err(Failure::new(
            "--link",
            format!("several links in this network namespace; specify one of {found:?}"),
        )),
    }
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
/// no request.
fn request(client: &UnixStream) -> Option<String> {
    let user = socket_peercred(client).ok()?.uid;
    client.set_read_timeout(Some(REQUEST_TIMEOUT)).ok()?;
    let mut change = String::new();
    let len = BufReader::new(io::Read::take(client, MAX_REQUEST as u64)).read_line(&mut change).ok()?;
    let is_permitted = user == geteuid() || user.is_root();
    (is_permitted && len > 0).then(|| change.trim().replace(['\n', '\r'], " "))
}
