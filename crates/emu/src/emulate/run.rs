//! Emulation of a world in real time: its devices, its clock, and its end.

use super::external_hosts::{Commands, Environment, ExternalHostSet};
use super::recorder::{DeviceStats, RunRecorder};
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
use catnip_linux::clock::{Clock, CpuUse, Stopwatch, WallClock};
use catnip_linux::sys::Signals;
use catnip_linux::tun::{PacketIo, Tun};
use catnip_sim::World;
use std::os::fd::AsFd;
use std::path::Path;

/// Signals on which the emulator ends a run.
const END_SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Longest time to wait, at the end of a run, until connections with external hosts have closed.
const CLOSE_GRACE: Span = Span::from_secs(3);
/// Interval of checks whether connections have closed.
const CHECK_INTERVAL: Span = Span::from_millis(10);

/// Parameters of a run that are not part of its plan.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of all random choices.
    pub seed: u64,
    /// Largest length of packets of external hosts, bytes.
    pub mtu: u32,
    /// Requested scheduling and timing of the emulator.
    pub timing: TimingSpec,
    /// True to record the bursts of simulated servers.
    pub bursts: bool,
    /// True if commands with `ends_run` write to standard error, as all other commands do, instead of standard output.
    pub reserves_stdout: bool,
}

/// Outcome of an emulated run.
#[derive(Debug)]
pub struct Finished {
    /// Exit code: 128 plus the number of the signal that ended the run, 2 if a device failed, or the exit code of the command that ended
    /// the run if only one command may end it. Otherwise 0.
    pub code: u8,
    /// Duration of the run on its own clock.
    pub duration: Span,
    /// CPU time that the emulator used, and idle time of the cores.
    pub cpu: CpuUse,
    /// Scheduling and timing that the emulator actually used.
    pub timing_mode: TimingMode,
    /// Distribution of the times by which the emulator was woken late from its sleeps.
    pub wakeup_latency: Histogram,
    /// Reports on the external hosts.
    pub hosts: Vec<HostReport>,
    /// Messages for the user about failed commands and devices.
    pub remarks: Vec<String>,
    /// Reason for which the run was cut short: its maximum duration, a signal, or a failed device. `None` if the run is complete.
    pub early_end: Option<&'static str>,
    /// State at the end of the warm-up; `None` if there was no warm-up or the run ended before its end.
    pub warm_up: Option<WarmUp>,
}

/// Report on an external host during a run.
#[derive(Debug)]
pub struct HostReport {
    /// Name of the host.
    pub name: String,
    /// Counters and delays at the device of the host.
    pub device: DeviceStats,
    /// Number of packets from the host that the kernel has dropped before the emulator could read them.
    pub missed: u64,
}

/// World of an emulated scenario, with its devices and its recorder.
pub type EmulatedWorld = World<Frames<Gateways<WallClock, Tun>, ExternalPeers>, RunRecorder>;

/// Runs a plan in real time. `folder` is the folder of the scenario file. `capture` is called when the external hosts have started, and
/// creates the capture of packets.
pub fn run(
    plan: &Plan,
    setup: &Setup,
    folder: &Path,
    capture: impl FnOnce(Stopwatch) -> Result<Option<Capture>, Failure>,
) -> Result<(Finished, EmulatedWorld), Failure> {
    let signal_numbers = [&END_SIGNALS[..], &[libc::SIGCHLD]].concat();
    let signals = Signals::new(&signal_numbers).map_err(failed("signals", "open a signalfd"))?;
    let addresses = plan.addresses();
    let environment = Environment {
        plan,
        addresses: &addresses,
        folder,
        mtu: setup.mtu,
        reserves_stdout: setup.reserves_stdout,
    };
    let mut external = ExternalHostSet::start(&environment)?;
    let stopwatch = Stopwatch::start();
    let capture = capture(stopwatch)?;
    let tuns = external.hosts.iter().map(|host| host.tun(stopwatch)).collect::<Result<Vec<Tun>, _>>()?;
    let fds = std::iter::once(signals.as_fd()).chain(tuns.iter().map(|tun| tun.as_fd()));
    let Timing { clock, timing_mode } = Timing::new(stopwatch, setup.timing, fds);
    let gateway =
        |(host, tun): (&super::external_hosts::ExternalHost, Tun)| Gateway { io: tun, node: host.node };
    let gateways = Gateways::new(clock, external.hosts.iter().zip(tuns).map(gateway).collect());
    let recorder = RunRecorder::new(plan, Some(stopwatch), capture).with_bursts(setup.bursts);
    let mut emulator = Emulator::new(world::world(plan, setup.seed, setup.mtu, gateways, recorder));
    let mut remarks = Vec::new();
    let warm = Time::ZERO + plan.warm_up();
    let mut warm_up = None;
    let run_end = loop {
        let next = match emulator.poll() {
            Ok(next) => next,
            Err(error) => {
                remarks.push(format!("external hosts: cannot read a device (was it taken down?): {error}"));
                break RunEnd { code: 2, early_end: Some("a device failed") };
            }
        };
        let mut next_check = Time::ZERO + plan.duration();
        if plan.warm_up() > Span::ZERO && warm_up.is_none() {
            if emulator.world.advanced_to() < warm {
                next_check = warm;
            } else {
                warm_up = Some(WarmUp::of(&mut emulator.world));
            }
        }
        if let Some(run_end) = is_over(&emulator, plan, &external.commands, next) {
            break run_end;
        }
        emulator.sleep_until(next.min(next_check));
        if emulator.clock().is_ready(0)
            && let Some(run_end) = on_signals(&signals, &mut external.commands, &mut remarks)
        {
            break run_end;
        }
    };
    if run_end.early_end.is_none() {
        wait_for_close(&mut emulator, plan)?;
    }
    let wakeup_latency = emulator.clock().wakeup_latency();
    // Events that are due now belong to the run.
    if let Err(error) = emulator.finish()
        && run_end.early_end.is_none()
    {
        remarks.push(format!("external hosts: cannot read a device: {error}"));
    }
    let duration = emulator.clock().now().since(Time::ZERO);
    let mut world = emulator.world;
    world::finish(&mut world);
    let mut hosts = Vec::new();
    for host in &mut external.hosts {
        let device = world.watch().hosts[host.node.0 as usize].clone();
        hosts.push(HostReport { name: host.name.clone(), device, missed: host.missed() });
    }
    let cpu = stopwatch.cpu_use();
    external.commands.stop();
    let RunEnd { code, early_end } = run_end;
    Ok((
        Finished { code, duration, cpu, timing_mode, wakeup_latency, hosts, remarks, early_end, warm_up },
        world,
    ))
}

/// Continues the emulation until simulated servers have received the end of each connection, for at most [`CLOSE_GRACE`]. When a command
/// ends, its last packets may still be in the kernel.
fn wait_for_close<C: Clock, I: PacketIo>(
    emulator: &mut Emulator<C, I, ExternalPeers, RunRecorder>,
    plan: &Plan,
) -> Result<(), Failure> {
    let until = (emulator.clock().now() + CLOSE_GRACE).min(Time::ZERO + plan.duration());
    while emulator.clock().now() < until && emulator.world.serves_external() {
        let next = emulator.poll().map_err(failed("external hosts", "read a device (was it taken down?)"))?;
        emulator.sleep_until(next.min(emulator.clock().now() + CHECK_INTERVAL));
    }
    Ok(())
}

/// Exit code of a run, and the reason if it was cut short.
#[derive(Debug)]
struct RunEnd {
    code: u8,
    early_end: Option<&'static str>,
}

impl RunEnd {
    const GOOD: Self = Self { code: 0, early_end: None };
}

fn is_over<C: Clock, I: PacketIo>(
    emulator: &Emulator<C, I, ExternalPeers, RunRecorder>,
    plan: &Plan,
    commands: &Commands,
    next: Time,
) -> Option<RunEnd> {
    let world = &emulator.world;
    if world.advanced_to() >= Time::ZERO + plan.duration() {
        return Some(RunEnd { code: 0, early_end: Some("the maximum duration was reached") });
    }
    let awaits_command = commands.run_ending_count() > 0;
    let no_traffic = plan.groups().next().is_none();
    let idle = next == Time::NEVER && plan.external_nodes().is_empty();
    let done = (!awaits_command && (is_done(world) || idle)) || (no_traffic && commands.all_ended());
    done.then_some(RunEnd::GOOD)
}

fn on_signals(signals: &Signals, commands: &mut Commands, remarks: &mut Vec<String>) -> Option<RunEnd> {
    let mut run_end = None;
    while let Some(signal) = signals.next() {
        if signal.number != libc::SIGCHLD {
            let ended = RunEnd { code: 128 + signal.number as u8, early_end: Some("a signal was received") };
            run_end = run_end.or(Some(ended));
            continue;
        }
        for ended in commands.reap() {
            if ended.ends_run {
                let code = if commands.run_ending_count() == 1 { ended.code } else { 0 };
                run_end = run_end.or(Some(RunEnd { code, early_end: None }));
            } else if ended.code != 0 {
                remarks.push(format!("{}: {} exited with code {}", ended.host, ended.program, ended.code));
            }
        }
    }
    run_end
}
