//! A world in real time: its devices, its clock, and when it ends.

use super::audience::{Audience, Delivery, Outside};
use super::real::{Commands, Environment, RealHosts};
use super::watch::Watch;
use super::world::World;
use crate::capture::Capture;
use crate::clock::{Clock, PacketIo, Stopwatch, Tun};
use crate::failure::{Failure, failed};
use crate::histogram::Histogram;
use crate::sys::{self, Signals};
use crate::timing::Timing;
use catnip_base::{Span, Time};
use catnip_lab::Plan;
use catnip_net::NodeId;
use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Packets read from one device before the others have their turn.
const BATCH: usize = 32;
/// Signals that end a run.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// What a run needs beside its plan.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Of all random choices.
    pub seed: u64,
    /// Longest packet of real hosts, bytes.
    pub mtu: u32,
    /// Ask for SCHED_FIFO.
    pub real_time: bool,
    /// How long before a deadline to spin.
    pub spin: Option<Span>,
}

/// What a run was like.
#[derive(Debug)]
pub struct Finished {
    /// Exit code of the command that ended the run, if it was the only one that may; 128 and its number for a signal.
    pub code: u8,
    /// The clock at the end.
    pub duration: Span,
    /// CPU time of the emulator.
    pub cpu: Span,
    /// It ran under SCHED_FIFO.
    pub real_time: bool,
    /// How long before a deadline it spun.
    pub spin: Span,
    /// Real hosts.
    pub hosts: Vec<HostReport>,
    /// What commands had to say at their end.
    pub remarks: Vec<String>,
    /// The run was cut short: by its duration, or by a signal.
    pub cut: Option<&'static str>,
}

/// What went on at a real host.
#[derive(Debug)]
pub struct HostReport {
    /// Its name.
    pub name: String,
    /// Packets written to its device, and those that it did not take.
    pub written: [u64; 2],
    /// How much later than ideal.
    pub lateness: Histogram,
    /// Packets that the kernel has dropped before the emulator could read them.
    pub missed: u64,
}

/// A device where packets leave the world.
#[derive(Debug)]
struct Device<I> {
    node: NodeId,
    io: I,
    written: [u64; 2],
    lateness: Histogram,
}

/// The devices, and the clock that says how late packets reach them.
#[derive(Debug)]
struct Edge<'a, C, I> {
    clock: &'a C,
    devices: &'a RefCell<Vec<Device<I>>>,
}

impl<C: Clock, I: PacketIo> Outside for Edge<'_, C, I> {
    fn deliver(&mut self, ideal: Time, node: NodeId, packet: &[u8]) -> Delivery {
        let actual = self.clock.now();
        let mut devices = self.devices.borrow_mut();
        let Some(device) = devices.iter_mut().find(|device| device.node == node) else {
            return Delivery { actual, written: false };
        };
        let written = device.io.send(packet).is_ok();
        device.written[usize::from(!written)] += 1;
        device.lateness.record(actual.since(ideal));
        Delivery { actual, written }
    }
}

/// Moves what can be moved now. Gives the time of the next event; something may be left to read at once.
fn turn<C: Clock, I: PacketIo, A: Audience>(
    world: &mut World<A>,
    clock: &C,
    devices: &RefCell<Vec<Device<I>>>,
    mtu: u32,
) -> io::Result<Time> {
    let mut edge = Edge { clock, devices };
    let count = devices.borrow().len();
    for index in 0..count {
        let node = devices.borrow()[index].node;
        for _ in 0..BATCH {
            let read = |bytes: &mut [u8]| devices.borrow_mut()[index].io.recv(bytes);
            if !world.take_in(node, mtu, &mut edge, read)? {
                break;
            }
        }
    }
    let next = world.advance(clock.now(), &mut edge);
    Ok(next)
}

/// Does a run of a plan. `folder` is where its scenario file is.
pub fn run(
    plan: &Plan,
    setup: &Setup,
    folder: &Path,
    capture: impl FnOnce(Stopwatch) -> Result<Option<Capture>, Failure>,
) -> Result<(Finished, World<Watch>), Failure> {
    let watched = [&ENDING[..], &[libc::SIGCHLD]].concat();
    let signals = Signals::new(&watched).map_err(failed("signals", "read them"))?;
    let addresses = super::world::assign(plan.topology().node_count(), plan.addresses());
    let environment = Environment { plan, addresses: &addresses, folder, mtu: setup.mtu };
    let mut real = RealHosts::start(&environment)?;
    let stopwatch = Stopwatch::start();
    let capture = capture(stopwatch)?;
    let tuns = real.hosts.iter().map(|host| host.tun(stopwatch)).collect::<Result<Vec<Tun>, _>>()?;
    let fds = std::iter::once(signals.as_fd()).chain(tuns.iter().map(|tun| tun.as_fd()));
    let Timing { clock, real_time, spin } = Timing::new(stopwatch, setup.real_time, setup.spin, fds);
    let device = |(host, tun): (&super::real::Host, &Tun)| Device {
        node: host.node,
        io: tun.clone(),
        written: [0; 2],
        lateness: Histogram::default(),
    };
    let devices = RefCell::new(real.hosts.iter().zip(&tuns).map(device).collect::<Vec<_>>());
    let watch = Watch::new(plan, Some(stopwatch), capture);
    let mut world = World::new(plan, setup.seed, setup.mtu, watch);
    let mut remarks = Vec::new();
    let ending = loop {
        let next = turn(&mut world, &clock, &devices, setup.mtu)
            .map_err(failed("real hosts", "read a device; was it taken down?"))?;
        if let Some(ending) = is_over(&world, plan, &real.commands, next) {
            break ending;
        }
        clock.sleep_until(next.min(Time::ZERO + plan.duration()));
        if clock.is_ready(0)
            && let Some(ending) = on_signals(&signals, &mut real.commands, &mut remarks)
        {
            break ending;
        }
    };
    // What is due now belongs to the run.
    turn(&mut world, &clock, &devices, setup.mtu).map_err(failed("real hosts", "read a device"))?;
    world.finish();
    let duration = clock.now().since(Time::ZERO);
    let mut hosts = Vec::new();
    for (device, host) in devices.into_inner().into_iter().zip(&mut real.hosts) {
        let Device { written, lateness, .. } = device;
        hosts.push(HostReport { name: host.name.clone(), written, lateness, missed: host.missed() });
    }
    let cpu = sys::cpu_time();
    real.commands.stop();
    let Ending { code, cut } = ending;
    Ok((Finished { code, duration, cpu, real_time, spin, hosts, remarks, cut }, world))
}

/// Why a run ends.
#[derive(Debug)]
struct Ending {
    code: u8,
    cut: Option<&'static str>,
}

impl Ending {
    const GOOD: Self = Self { code: 0, cut: None };
}

fn is_over<A: Audience>(world: &World<A>, plan: &Plan, commands: &Commands, next: Time) -> Option<Ending> {
    if world.told() >= Time::ZERO + plan.duration() {
        return Some(Ending { code: 0, cut: Some("its duration is over") });
    }
    let waits = commands.that_end_the_run() > 0;
    let nobody = plan.groups().next().is_none();
    let idle = next == Time::NEVER && plan.real_nodes().is_empty();
    let done = (!waits && (world.is_done() || idle)) || (nobody && commands.all_ended());
    done.then_some(Ending::GOOD)
}

fn on_signals(signals: &Signals, commands: &mut Commands, remarks: &mut Vec<String>) -> Option<Ending> {
    let mut ending = None;
    while let Some(signal) = signals.next() {
        if signal.number != libc::SIGCHLD {
            let ended = Ending { code: 128 + signal.number as u8, cut: Some("a signal ended it") };
            ending = ending.or(Some(ended));
            continue;
        }
        for ended in commands.reap() {
            if ended.ends_run {
                let code = if commands.that_end_the_run() == 1 { ended.code } else { 0 };
                ending = ending.or(Some(Ending { code, cut: None }));
            } else if ended.code != 0 {
                remarks.push(format!("{}: {} has ended with code {}", ended.host, ended.program, ended.code));
            }
        }
    }
    ending
}
