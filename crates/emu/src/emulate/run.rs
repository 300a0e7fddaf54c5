//! Emulation of a world in real time: its devices, its clock, and its end.

use super::real::{Commands, Environment, RealHosts};
use super::recorder::{RunRecorder, Served};
use super::world::{self, is_done};
use crate::datapath::frames::Frames;
use crate::datapath::gateways::{Emulator, Gateway, Gateways};
use crate::external::ExternalPeers;
use crate::observe::capture::Capture;
use crate::timing::{Timing, TimingMode, TimingSpec};
use catnip_base::Histogram;
use catnip_base::{Span, Time};
use catnip_cli::failure::{Failure, failed};
use catnip_lab::{Plan, WarmUp};
use catnip_linux::clock::{Clock, Stopwatch, WallClock};
use catnip_linux::sys::Signals;
use catnip_linux::tun::{PacketIo, Tun};
use catnip_sim::World;
use std::os::fd::AsFd;
use std::path::Path;

/// Signals that end a run.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Longest time to wait for the end of connections after the end of the command that ends the run.
const CLOSE_GRACE: Span = Span::from_secs(3);
/// Interval of checks for the end of connections.
const LOOK: Span = Span::from_millis(10);

/// Parameters of a run that are not part of its plan.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of all random choices.
    pub seed: u64,
    /// Largest length of packets of external hosts, bytes.
    pub mtu: u32,
    /// Scheduling and timing of the emulator.
    pub timing: TimingSpec,
    /// True to record the bursts of simulated servers.
    pub bursts: bool,
    /// True if the output of commands goes to standard error, even of commands that end the run.
    pub keeps_stdout: bool,
}

/// Outcome of a run.
#[derive(Debug)]
pub struct Finished {
    /// Exit code: 128 plus the number of the signal that ended the run, 2 if a device failed, or the exit code of the command that ended
    /// the run if only one command may end it. Otherwise 0.
    pub code: u8,
    /// Time on the clock of the run at its end.
    pub duration: Span,
    /// CPU time of the emulator.
    pub cpu: Span,
    /// Scheduling and timing that were permitted.
    pub manner: TimingMode,
    /// Lateness of wake-ups.
    pub woken_late: Histogram,
    /// Reports of external hosts.
    pub hosts: Vec<HostReport>,
    /// Messages on failed commands and devices.
    pub remarks: Vec<String>,
    /// Reason for which the run was cut short: its maximum duration, a signal, or a failed device. `None` if the run is complete.
    pub cut: Option<&'static str>,
    /// State at the end of the warm-up; `None` if there was no warm-up or the run ended before its end.
    pub warm_up: Option<WarmUp>,
}

/// Report of an external host.
#[derive(Debug)]
pub struct HostReport {
    /// Name of the host.
    pub name: String,
    /// Counters and delays at its device.
    pub served: Served,
    /// Number of packets that the kernel has dropped before the emulator could read them.
    pub missed: u64,
}

/// World of a run.
pub type EmulatedWorld = World<Frames<Gateways<WallClock, Tun>, ExternalPeers>, RunRecorder>;

/// Runs a plan. `folder` is the folder of its scenario file. `capture` creates the capture when the external hosts have started.
pub fn run(
    plan: &Plan,
    setup: &Setup,
    folder: &Path,
    capture: impl FnOnce(Stopwatch) -> Result<Option<Capture>, Failure>,
) -> Result<(Finished, EmulatedWorld), Failure> {
    let watched = [&ENDING[..], &[libc::SIGCHLD]].concat();
    let signals = Signals::new(&watched).map_err(failed("signals", "open a signalfd"))?;
    let addresses = plan.addresses();
    let environment =
        Environment { plan, addresses: &addresses, folder, mtu: setup.mtu, keeps_stdout: setup.keeps_stdout };
    let mut real = RealHosts::start(&environment)?;
    let stopwatch = Stopwatch::start();
    let capture = capture(stopwatch)?;
    let tuns = real.hosts.iter().map(|host| host.tun(stopwatch)).collect::<Result<Vec<Tun>, _>>()?;
    let fds = std::iter::once(signals.as_fd()).chain(tuns.iter().map(|tun| tun.as_fd()));
    let Timing { clock, manner } = Timing::new(stopwatch, setup.timing, fds);
    let gateway = |(host, tun): (&super::real::Host, Tun)| Gateway { io: tun, node: host.node };
    let gateways = Gateways::new(clock, real.hosts.iter().zip(tuns).map(gateway).collect());
    let kept = RunRecorder::new(plan, Some(stopwatch), capture).with_bursts(setup.bursts);
    let mut emulator = Emulator::new(world::world(plan, setup.seed, setup.mtu, gateways, kept));
    let mut remarks = Vec::new();
    let warm = Time::ZERO + plan.warm_up();
    let mut warm_up = None;
    let ending = loop {
        let next = match emulator.turn() {
            Ok(next) => next,
            Err(error) => {
                remarks.push(format!("real hosts: cannot read a device (was it taken down?): {error}"));
                break Ending { code: 2, cut: Some("a device failed") };
            }
        };
        let mut next_look = Time::ZERO + plan.duration();
        if plan.warm_up() > Span::ZERO && warm_up.is_none() {
            if emulator.world.advanced_to() < warm {
                next_look = warm;
            } else {
                warm_up = Some(WarmUp::of(&mut emulator.world));
            }
        }
        if let Some(ending) = is_over(&emulator, plan, &real.commands, next) {
            break ending;
        }
        emulator.sleep_until(next.min(next_look));
        if emulator.clock().is_ready(0)
            && let Some(ending) = on_signals(&signals, &mut real.commands, &mut remarks)
        {
            break ending;
        }
    };
    if ending.cut.is_none() {
        hear_last_words(&mut emulator, plan)?;
    }
    let woken_late = emulator.clock().woken_late();
    // Events that are due now belong to the run.
    if let Err(error) = emulator.finish()
        && ending.cut.is_none()
    {
        remarks.push(format!("real hosts: cannot read a device: {error}"));
    }
    let duration = emulator.clock().now().since(Time::ZERO);
    let mut world = emulator.world;
    world::finish(&mut world);
    let mut hosts = Vec::new();
    for host in &mut real.hosts {
        let served = world.watch().hosts[host.node.0 as usize].clone();
        hosts.push(HostReport { name: host.name.clone(), served, missed: host.missed() });
    }
    let cpu = stopwatch.cpu();
    real.commands.stop();
    let Ending { code, cut } = ending;
    Ok((Finished { code, duration, cpu, manner, woken_late, hosts, remarks, cut, warm_up }, world))
}

/// Continues until simulated servers have received the end of each connection, for at most [`CLOSE_GRACE`]. When a command ends, its last
/// packets may still be in the kernel.
fn hear_last_words<C: Clock, I: PacketIo>(
    emulator: &mut Emulator<C, I, ExternalPeers, RunRecorder>,
    plan: &Plan,
) -> Result<(), Failure> {
    let until = (emulator.clock().now() + CLOSE_GRACE).min(Time::ZERO + plan.duration());
    while emulator.clock().now() < until && emulator.world.serves_external() {
        let next = emulator.turn().map_err(failed("real hosts", "read a device (was it taken down?)"))?;
        emulator.sleep_until(next.min(emulator.clock().now() + LOOK));
    }
    Ok(())
}

/// Exit code of a run, and the reason if it was cut short.
#[derive(Debug)]
struct Ending {
    code: u8,
    cut: Option<&'static str>,
}

impl Ending {
    const GOOD: Self = Self { code: 0, cut: None };
}

fn is_over<C: Clock, I: PacketIo>(
    emulator: &Emulator<C, I, ExternalPeers, RunRecorder>,
    plan: &Plan,
    commands: &Commands,
    next: Time,
) -> Option<Ending> {
    let world = &emulator.world;
    if world.advanced_to() >= Time::ZERO + plan.duration() {
        return Some(Ending { code: 0, cut: Some("the maximum duration was reached") });
    }
    let waits = commands.that_end_the_run() > 0;
    let no_traffic = plan.groups().next().is_none();
    let idle = next == Time::NEVER && plan.real_nodes().is_empty();
    let done = (!waits && (is_done(world) || idle)) || (no_traffic && commands.all_ended());
    done.then_some(Ending::GOOD)
}

fn on_signals(signals: &Signals, commands: &mut Commands, remarks: &mut Vec<String>) -> Option<Ending> {
    let mut ending = None;
    while let Some(signal) = signals.next() {
        if signal.number != libc::SIGCHLD {
            let ended = Ending { code: 128 + signal.number as u8, cut: Some("a signal was received") };
            ending = ending.or(Some(ended));
            continue;
        }
        for ended in commands.reap() {
            if ended.ends_run {
                let code = if commands.that_end_the_run() == 1 { ended.code } else { 0 };
                ending = ending.or(Some(Ending { code, cut: None }));
            } else if ended.code != 0 {
                remarks.push(format!("{}: {} exited with code {}", ended.host, ended.program, ended.code));
            }
        }
    }
    ending
}
