//! Changes of a link while it runs: at times that were said before, or when somebody asks for them.

use catnip_linux::clock::Clock;

use crate::datapath::frames::Foreign;
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

/// Under this and its process number a link listens in the caller's network namespace.
const NAME: &str = "catnip-emu link ";
const DONE: &str = "done";
/// How long somebody has to say what he wants.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest line.
const LONGEST: usize = 1 << 16;

/// Knows what a link is asked to be, and what becomes of that by what is said.
pub trait Adjust: Debug {
    /// What the link is from now on, up and down, or why it cannot be that.
    fn adjust(&mut self, said: &str) -> Result<[WireSpec; 2], Failure>;
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// When, on the clock of the run.
    pub at: Time,
    /// How it was said.
    pub said: String,
    /// What the link was from then on, up and down.
    pub wires: [WireSpec; 2],
}

/// What will change, and what has changed.
#[derive(Debug)]
pub struct Control {
    adjust: Box<dyn Adjust>,
    seed: u64,
    wires: [WireSpec; 2],
    /// In order of time.
    schedule: VecDeque<(Time, String)>,
    listener: Option<UnixListener>,
    /// Here the thread that listens hands over what is asked for, and hears what becomes of it.
    asks: Option<UnixStream>,
    changed: Vec<Changed>,
}

impl Control {
    /// For a link that is like this, with changes at these times.
    pub fn new(
        adjust: Box<dyn Adjust>,
        wires: [WireSpec; 2],
        seed: u64,
        mut schedule: Vec<(Span, String)>,
    ) -> Self {
        schedule.sort_by_key(|(at, _)| *at);
        let schedule = schedule.into_iter().map(|(at, said)| (Time::ZERO + at, said)).collect();
        Self { adjust, seed, wires, schedule, listener: None, asks: None, changed: Vec::new() }
    }

    /// Can be found in the network namespace of this thread from now on.
    pub(crate) fn bind(&mut self) {
        let name = format!("{NAME}{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name);
        // A link that nobody can change is still a link.
        self.listener = address.and_then(|address| UnixListener::bind_addr(&address)).ok();
    }

    /// Listens, in a thread of its own: whoever is slow to ask must not make packets late.
    pub(crate) fn listen(&mut self) -> Result<(), Failure> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let cannot = failed("link set", "listen for it");
        let (near, far) = UnixStream::pair().map_err(&cannot)?;
        let serve =
            move || listener.incoming().map_while(Result::ok).try_for_each(|asker| pass_on(&asker, &far));
        thread::Builder::new().name("control".into()).spawn(serve).map_err(cannot)?;
        self.asks = Some(near);
        Ok(())
    }

    /// Can be read when somebody asks.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.asks.as_ref().map(AsFd::as_fd)
    }

    /// When the next change is due.
    pub(crate) fn next_at(&self) -> Time {
        self.schedule.front().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Makes the changes that are due.
    pub(crate) fn change_due<I: PacketIo, F: Foreign, W: Watch, C: Clock>(
        &mut self,
        ports: [PortId; 2],
        emulator: &mut Emulator<C, I, F, W>,
    ) {
        let now = emulator.clock().now();
        while self.next_at() <= now {
            let Some((at, said)) = self.schedule.pop_front() else { return };
            // What was asked for by hand meanwhile may exclude it.
            let _ = self.change(at, &said, ports, emulator);
        }
    }

    /// Makes the change that somebody has asked for.
    pub(crate) fn change_asked<I: PacketIo, F: Foreign, W: Watch, C: Clock>(
        &mut self,
        ports: [PortId; 2],
        emulator: &mut Emulator<C, I, F, W>,
    ) {
        let Some(asks) = self.asks.as_ref().and_then(|asks| asks.try_clone().ok()) else { return };
        let mut said = String::new();
        // Whole lines are written there at once.
        if BufReader::new(&asks).read_line(&mut said).is_err() {
            return;
        }
        let answer = match self.change(emulator.clock().now(), said.trim(), ports, emulator) {
            Ok(()) => DONE.into(),
            Err(why) => why.to_string(),
        };
        let _ = writeln!(&asks, "{answer}");
    }

    /// What has changed so far.
    pub(crate) fn changed(&self) -> Vec<Changed> {
        self.changed.clone()
    }

    fn change<I: PacketIo, F: Foreign, W: Watch, C: Clock>(
        &mut self,
        at: Time,
        said: &str,
        ports: [PortId; 2],
        emulator: &mut Emulator<C, I, F, W>,
    ) -> Result<(), Failure> {
        let wires = self.adjust.adjust(said)?;
        // Nothing that begins anew repeats what has been.
        let seed = self.seed.wrapping_add(1 + self.changed.len() as u64);
        for ((port, from), to) in ports.into_iter().zip(&self.wires).zip(&wires) {
            emulator.world.change(at, port, from, to, seed);
        }
        self.wires = wires.clone();
        self.changed.push(Changed { at, said: said.into(), wires });
        Ok(())
    }
}

/// Asks the link of this process, or the only one there is, to change.
pub fn ask(process: Option<u32>, said: &str) -> Result<(), Failure> {
    let process = process.map_or_else(only_one, Ok)?;
    let gone =
        |error: io::Error| Failure::new("--link", format!("no link of process {process} is here ({error})"));
    let address = SocketAddr::from_abstract_name(format!("{NAME}{process}")).map_err(gone)?;
    let link = UnixStream::connect_addr(&address).map_err(gone)?;
    let mut answer = String::new();
    writeln!(&link, "{said}").and_then(|()| BufReader::new(&link).read_line(&mut answer)).map_err(gone)?;
    match answer.trim() {
        DONE => Ok(()),
        "" => {
            Err(Failure::new("--link", format!("process {process} belongs to somebody else, or has ended")))
        }
        why => Err(Failure { message: why.into(), code: 2 }),
    }
}

/// The process of the only link in this network namespace.
fn only_one() -> Result<u32, Failure> {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let name = |line: &str| line.split_once(&format!("@{NAME}"))?.1.trim().parse().ok();
    let mut found: Vec<u32> = sockets.lines().filter_map(name).collect();
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [one] => Ok(one),
        [] => Err(Failure::new("--link", "no link began in this network namespace and is still there")),
        _ => Err(Failure::new("--link", format!("several links are here, say which: {found:?}"))),
    }
}

/// Hands one request to the emulator, if the asker may, and its answer back. An error if the emulator is gone.
fn pass_on(asker: &UnixStream, emulator: &UnixStream) -> io::Result<()> {
    let Some(said) = request(asker) else { return Ok(()) };
    let mut answer = String::new();
    (&*emulator).write_all(format!("{said}\n").as_bytes())?;
    BufReader::new(emulator).read_line(&mut answer)?;
    let _ = write!(&*asker, "{answer}");
    Ok(())
}

/// What somebody asks for who may: whoever has started the link, or root.
fn request(asker: &UnixStream) -> Option<String> {
    let user = socket_peercred(asker).ok()?.uid;
    asker.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut said = String::new();
    let len = BufReader::new(io::Read::take(asker, LONGEST as u64)).read_line(&mut said).ok()?;
    let may = user == geteuid() || user.is_root();
    (may && len > 0).then(|| said.trim().replace(['\n', '\r'], " "))
}
