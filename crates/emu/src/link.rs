//! Emulated link between the network namespace in which the program was started, and a new namespace in which a command runs.

use crate::codec::{check_no_ecn, disable_ecn_for};
use crate::congestion::{Congestion, default_congestion, set_congestion};
use crate::control::{AppliedChange, Control};
use crate::datapath::frames::{Frames, Routing};
use crate::datapath::gateways::{Emulator, Gateway, Gateways};
use crate::mark::Marking;
use crate::observe::monitor::Monitor;
use crate::timing::{Timing, TimingMode, TimingSpec};
use catnip_base::Histogram;
use catnip_base::{Span, Time};
use catnip_cli::failure::{Failure, failed};
use catnip_linux::address::Block;
use catnip_linux::clock::{Clock, CpuUse, Stopwatch, WallClock};
use catnip_linux::dns::Resolver;
use catnip_linux::namespace::{bring_up_loopback, enter_netns_as_user, set_sysctl, tun_failure};
use catnip_linux::nat::{Nat, UserspaceNat};
use catnip_linux::netlink::{Drops, Netlink};
use catnip_linux::pid_namespace::PidNamespace;
use catnip_linux::sys::{self, Signals};
use catnip_linux::terminal::Terminal;
use catnip_linux::tun::{PacketIo, Tun};
use catnip_linux::user::User;
use catnip_net::{NodeId, PortId, Topology, WireSpec};
use catnip_sim::{Watch, World};
use catnip_wire::PriorityCodec;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};

/// Length of the largest super-packet with its `virtio_net_hdr`, bytes.
const MAX_SUPER_PACKET: usize = sys::VIRTUAL_HEADER + (1 << 16);
/// Name of the link's device in the namespace of the command.
const INSIDE_DEVICE: &str = "catnip0";
/// Length of the devices' transmission queues, packets. Further packets are dropped before the emulator reads them, and counted.
const DEVICE_QUEUE: u32 = 10_000;
/// Environment variable with the address of the outside end of the outermost link.
const BASE_VARIABLE: &str = "CATNIP_BASE";
/// Time limit for the end of a command after SIGTERM, and for packets in transit after the end of the command.
const GRACE: Span = Span::from_secs(5);
/// Index of the descriptor for change requests among the descriptors that the clock watches. The descriptors for signals and both devices
/// precede it.
pub(crate) const CONTROL_FD: usize = 3;
/// Upper bound on the time in which a kernel answers a packet.
const RESPONSE_TIME: Span = Span::from_millis(10);

/// Names of the directions in captures and certificates, indexed by the node at which packets enter: 0 inside, 1 outside.
pub const EDGES: [&str; 2] = ["up", "down"];

/// Network of an emulated link: an inside and an outside host, and the link between them.
#[derive(Debug)]
pub struct LinkTopology {
    /// Network that consists of the two hosts and the link.
    pub topology: Topology,
    /// Host at the inside end: the command's namespace, or the inside interface of a router.
    pub inside: NodeId,
    /// Host at the outside end: the namespace from which the link was started, or the outside interface of a router.
    pub outside: NodeId,
    /// Ports of the two directions: up, from inside to outside, and down.
    pub ports: [PortId; 2],
}

impl LinkTopology {
    /// Creates a network of one link with these two directions.
    pub fn new(up: &WireSpec, down: &WireSpec) -> Self {
        let mut topology = Topology::default();
        let (inside, outside) = (topology.host("inside"), topology.host("outside"));
        let link = topology.link(inside, outside, up.clone(), down.clone());
        Self { topology, inside, outside, ports: [link.forward(), link.back()] }
    }

    /// Returns a monitor of both directions of the link, up first.
    pub fn monitor(&self) -> Monitor {
        let watched = self.ports.map(|port| {
            let delay = self.topology.ports()[port.0 as usize].wire.delay.min();
            (port, delay, true)
        });
        Monitor::new(watched)
    }

    /// Creates the emulator of the link between two devices, for packets of up to `max_packet` bytes.
    pub(crate) fn emulator<I: PacketIo, W: Watch>(
        &self,
        spec: &LinkSpec,
        gateways: Gateways<WallClock, I>,
        routing: Routing,
        max_packet: usize,
        watch: W,
    ) -> Emulator<WallClock, I, (), W> {
        let frames = Frames::new(gateways, [self.inside, self.outside], routing, max_packet, 0)
            .with_codec(spec.codec)
            .with_marker(spec.marking.marker());
        let mut world = World::over(&self.topology, spec.seed, frames, watch);
        world.allow_changes(&self.topology, self.ports);
        Emulator::new(world)
    }

    /// Returns the outcome of the run so far. The caller adds the exit code, the changes and the counters of the devices.
    pub(crate) fn outcome<I: PacketIo, W: Watch>(
        &self,
        emulator: &Emulator<WallClock, I, (), W>,
        timing_mode: TimingMode,
    ) -> Outcome {
        let world = &emulator.world;
        Outcome {
            code: 0,
            duration: emulator.clock().now().since(Time::ZERO),
            cpu: emulator.clock().cpu_use(),
            wakeup_latency: emulator.clock().wakeup_latency(),
            timing_mode,
            missed: [0; 2],
            broken: [0; 2],
            held: self.ports.map(|port| u64::from(world.fabric().port(port).backlog().packets)),
            buffers_in_use: world.packets_out() as u64,
            ended_at: world.advanced_to(),
            early_end: None,
            changes: Vec::new(),
            congestion: None,
        }
    }
}

/// Emulator of a link between two TUN devices.
pub type RunningLink<W> = Emulator<WallClock, Tun, (), W>;

/// Specification of an emulated link, independent of the devices at its ends.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Wires of the two directions: up, from inside to outside, and down.
    pub wires: [WireSpec; 2],
    /// Encoding of loss priorities in packets.
    pub codec: PriorityCodec,
    /// Marking of the TCP packets that enter the link.
    pub marking: Marking,
    /// Seed of the random choices of queues and losses.
    pub seed: u64,
    /// Requested timing precision.
    pub timing: TimingSpec,
}

/// Configuration of a link behind which a command runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Specification of the link. The direction up leads from the command outwards.
    pub link: LinkSpec,
    /// MTU of both devices, bytes.
    pub mtu: u32,
    /// Initial congestion window of TCP connections through the link, segments; `None` for the kernel's default.
    pub initial_window: Option<u32>,
    /// Congestion control of the TCP connections of the command; `None` for the kernel's default.
    pub congestion: Option<String>,
    /// True if the devices accept super-packets, which contain many segments of a TCP connection.
    pub offload: bool,
    /// Name of the device in the namespace from which the link is started; `%d` becomes a free number.
    pub device: String,
    /// True if the output of the command goes to standard error.
    pub reserves_stdout: bool,
    /// True if the command reaches all networks that this machine reaches, DNS included (NAT).
    pub nat: bool,
    /// DNS server for the command; `None` for the usual one of this machine.
    pub resolver: Option<IpAddr>,
    /// User under which the command runs; `None` for the user of this program.
    pub user: Option<User>,
}

/// Outcome of the run of a link or router, apart from the data of its watch.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Exit code of the command, as in a shell: 128 plus the number of the signal if the command was killed.
    pub code: u8,
    /// Duration of the run.
    pub duration: Span,
    /// CPU time that the emulator used, and idle time of the cores.
    pub cpu: CpuUse,
    /// Scheduling and timing that the emulator actually used.
    pub timing_mode: TimingMode,
    /// Distribution of the times by which the emulator was woken late from its sleeps.
    pub wakeup_latency: Histogram,
    /// Number of packets that the kernel dropped before the emulator could read them, by device: inside, outside.
    pub missed: [u64; 2],
    /// Number of malformed frames that no wire could have carried, by device: inside, outside.
    pub broken: [u64; 2],
    /// Number of packets inside the network at the end of the run, by direction: up, down.
    pub held: [u64; 2],
    /// Number of packets inside the network at the end of the run, counted by the buffers in use.
    pub buffers_in_use: u64,
    /// Time at which the run ended, on the clock of the run.
    pub ended_at: Time,
    /// Failure that ended the run early; `None` if there was none.
    pub early_end: Option<Failure>,
    /// Changes of the link during the run.
    pub changes: Vec<AppliedChange>,
    /// Congestion controls at both ends; `None` for a router, which has none.
    pub congestion: Option<Congestion>,
}

/// Devices and addresses of a link's two ends, between which no packets are forwarded yet.
#[derive(Debug)]
struct LinkEnds {
    inside: Tun,
    outside: Tun,
    missed: [Drops; 2],
    block: Block,
    has_v6: bool,
    nat: Option<Nat>,
    congestion: Congestion,
    _claim: catnip_linux::address::Claim,
}

/// Runs `command` behind the link. `watch` creates the watch that receives every packet. It is called after this process has entered its
/// namespaces, and may start threads.
pub fn run<W: Watch>(
    setup: &Setup,
    command: &[String],
    control: &mut Control,
    watch: impl FnOnce(&LinkTopology, Stopwatch) -> Result<W, Failure>,
) -> Result<(Outcome, RunningLink<W>), Failure> {
    let [program, arguments @ ..] = command else {
        return Err(Failure::new("COMMAND", "missing; specify the command to run behind the link after --"));
    };
    let watched = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];
    let signals = Signals::new(&[&watched[..], &[libc::SIGCHLD]].concat())
        .map_err(failed("signals", "open a signalfd"))?;
    let stopwatch = Stopwatch::start();
    let base = std::env::var_os(BASE_VARIABLE);
    control.bind();
    let (outside, nat) = open_outside(setup)?;
    check_no_ecn(setup.link.codec)?;
    let caller_netns = sys::current_netns().map_err(failed("network namespace", "open the caller's"))?;
    let ends = connect(setup, outside, nat, stopwatch)?;
    let [up, down] = &setup.link.wires;
    let link = LinkTopology::new(up, down);
    let watch = watch(&link, stopwatch)?;
    // The thread is started before the PID namespace for children is created, because an ordinary user cannot start threads afterwards.
    control.listen()?;
    let mut command = Command::new(program);
    command.args(arguments);
    let [outside, inside] = [ends.block.outside(), ends.block.inside()];
    command.env("CATNIP_OUTSIDE", outside[0].addr().to_string());
    command.env("CATNIP_INSIDE", inside[0].addr().to_string());
    if ends.has_v6 {
        command.env("CATNIP_OUTSIDE6", outside[1].addr().to_string());
        command.env("CATNIP_INSIDE6", inside[1].addr().to_string());
    }
    // The outside end of the outermost link is reachable through all links inside it.
    let base = base.filter(|_| ends.block.is_nested());
    command.env(BASE_VARIABLE, base.unwrap_or_else(|| outside[0].addr().to_string().into()));
    if setup.reserves_stdout {
        command.stdout(sys::standard_error());
    }
    let server = setup.resolver.or(ends.nat.as_ref().map(|nat| nat.resolver));
    let resolver = server.map(Resolver::new).transpose()?;
    let mut pid_namespace = PidNamespace::enter();
    let files = resolver.as_ref().map(Resolver::files).unwrap_or_default();
    sys::with_own_mounts(&mut command, pid_namespace.is_entered(), &files)
        .map_err(failed("DNS", "mount the resolver configuration"))?;
    let cannot = failed("--user", "give the command a terminal");
    let mut terminal = None;
    if let Some(user) = &setup.user {
        terminal = Some(Terminal::give(&mut command, user.id(), setup.reserves_stdout).map_err(&cannot)?);
        user.apply_to(&mut command);
    }
    // This setting is last, because any change of privileges clears it.
    sys::tie_to_parent(&mut command);
    let child = command.spawn();
    // The command's end of its terminal is to be the only one.
    drop(command);
    // The command has mounted the resolver's files by now. Removing them here leaves no file behind if this process is killed.
    drop(resolver);
    pid_namespace.exit();
    let mut child = child.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure {
            message: format!("{program}: command not found; check its name or specify its path"),
            code: 127,
        },
        _ => Failure { message: format!("{program}: cannot be executed: {error}"), code: 126 },
    })?;
    sys::enter_netns(caller_netns.as_fd())
        .map_err(failed("network namespace", "return to the caller's"))
        .inspect_err(|_| {
            // The PID namespace exists until the child has been waited for.
            let _ = child.kill().and_then(|()| child.wait());
        })?;
    if let Some(Err(error)) = terminal.as_mut().map(|terminal| terminal.relay(setup.reserves_stdout)) {
        let _ = child.kill().and_then(|()| child.wait());
        return Err(cannot(error));
    }

    let devices = [signals.as_fd(), ends.inside.as_fd(), ends.outside.as_fd()];
    let watched = devices.into_iter().chain(control.as_fd());
    let Timing { clock, timing_mode } = Timing::new(stopwatch, setup.link.timing, watched);
    // The address of the outside end also lies in the block, so it gets a host route, which is more specific than the route of the block.
    let [v4, v6] = outside.map(|network| network.addr());
    let mut everything = vec![IpNet::from(v4), IpNet::from(v6)];
    everything.extend([IpNet::from(Ipv4Net::default()), Ipv6Net::default().into()]);
    let at = |node| move |network| (network, node);
    let networks =
        inside.into_iter().map(at(link.inside)).chain(everything.into_iter().map(at(link.outside)));
    let routing = Routing { networks: networks.collect(), ..Routing::default() };
    let gateways = Gateways::new(
        clock,
        vec![
            Gateway { io: ends.inside.clone(), node: link.inside },
            Gateway { io: ends.outside.clone(), node: link.outside },
        ],
    );
    let max_packet = if setup.offload { MAX_SUPER_PACKET } else { setup.mtu as usize };
    let mut emulator = link.emulator(&setup.link, gateways, routing, max_packet, watch);
    let code = emulate_until_exit(&mut emulator, &signals, &mut child, (control, link.ports));
    if code.is_err() {
        let _ = child.kill().and_then(|()| child.wait());
    }
    // Ends the processes that the command has left behind, so that their peers receive the end of the connections.
    pid_namespace.kill_all();
    let ended = code.and_then(|code| {
        drain(&mut emulator, &signals, round_trip(&setup.link.wires))?;
        emulator.finish().map_err(failed("link", "read its devices"))?;
        Ok(code)
    });
    let missed = ends.missed.map(|mut drops| drops.count());
    // After a failure, the measurements up to the failure are still reported.
    let (code, early_end) = ended.map_or_else(|failure| (failure.code, Some(failure)), |code| (code, None));
    let changes = control.changes();
    let congestion = Some(ends.congestion);
    let outcome =
        Outcome { code, missed, early_end, changes, congestion, ..link.outcome(&emulator, timing_mode) };
    Ok((outcome, emulator))
}

/// Emulates the link until the command has ended. Returns the exit code of the command.
fn emulate_until_exit<W: Watch>(
    emulator: &mut RunningLink<W>,
    signals: &Signals,
    child: &mut Child,
    (control, ports): (&mut Control, [PortId; 2]),
) -> Result<u8, Failure> {
    let mut kill_at = Time::NEVER;
    loop {
        control.apply_due(ports, emulator);
        let next = emulator.poll().map_err(failed("link", "read a device (was it taken down?)"))?;
        emulator.sleep_until(next.min(kill_at).min(control.next_at()));
        if control.as_fd().is_some() && emulator.clock().is_ready(CONTROL_FD) {
            control.apply_request(ports, emulator);
        }
        if emulator.clock().now() >= kill_at {
            // The command may have ended by itself in the meantime.
            let _ = child.kill();
            kill_at = Time::NEVER;
        }
        if !emulator.clock().is_ready(0) {
            continue;
        }
        while let Some(signal) = signals.next() {
            match signal.number {
                libc::SIGCHLD => {
                    if let Some(status) = child.try_wait().map_err(failed("COMMAND", "wait for it"))? {
                        let code = status.code().or(status.signal().map(|signal| 128 + signal));
                        return Ok(code.unwrap_or(1) as u8);
                    }
                }
                // The command has received the signal from the terminal, too.
                libc::SIGINT | libc::SIGQUIT if !signal.from_process => {}
                number => {
                    let _ = sys::kill(child.id(), number);
                    if number == libc::SIGTERM || number == libc::SIGINT {
                        kill_at = kill_at.min(emulator.clock().now() + GRACE);
                    }
                }
            }
        }
    }
}

/// Continues the emulation until the link is empty and no packet has entered for `quiet_time`, but at most for `GRACE`, and not after a
/// signal.
fn drain<W: Watch>(
    emulator: &mut RunningLink<W>,
    signals: &Signals,
    quiet_time: Span,
) -> Result<(), Failure> {
    let began = emulator.clock().now();
    let (mut entered, mut since) = (0, began);
    loop {
        let next = emulator.poll().map_err(failed("link", "read a device (was it taken down?)"))?;
        let now = emulator.clock().now();
        let world = &emulator.world;
        if (world.packets_out() > 0) | (std::mem::replace(&mut entered, world.medium().entered()) != entered)
        {
            since = now;
        }
        let ends = (since + quiet_time).min(began + GRACE);
        if now >= ends {
            return Ok(());
        }
        emulator.sleep_until(next.min(ends));
        if emulator.clock().is_ready(0) {
            while let Some(signal) = signals.next() {
                if signal.number != libc::SIGCHLD {
                    return Ok(());
                }
            }
        }
    }
}

/// Returns an upper bound on the time between the departure of a packet from the link and the arrival of its answer, if the receiver
/// answers at once.
fn round_trip(wires: &[WireSpec; 2]) -> Span {
    wires.iter().map(|wire| wire.delay.max()).fold(RESPONSE_TIME, |sum, delay| sum + delay)
}

/// Opens the device of the outside end in the current namespace. If a device is not permitted there, or if NAT is requested and not
/// available there, opens the device in a new namespace. Also returns the NAT of the new namespace, if NAT is requested.
fn open_outside(setup: &Setup) -> Result<((OwnedFd, String), Option<Nat>), Failure> {
    let name = setup.device.as_str();
    // A NAT in user space connects the command with the namespaces in which the NAT starts, so it starts before this thread leaves them.
    let mut userspace_nat = None;
    if !setup.nat || Nat::can_masquerade() {
        match sys::open_tun(name, setup.offload) {
            Ok(tun) => return Ok((tun, None)),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
            Err(error) => return Err(tun_failure(name, &error)),
        }
    }
    if setup.nat {
        userspace_nat = Some(UserspaceNat::launch()?);
    }
    // Without a user-space NAT, this process was not permitted to create a device and needs a user namespace. With one, this process may be
    // permitted to create a network namespace without a user namespace.
    if userspace_nat.is_none() || sys::enter_new_netns().is_err() {
        enter_netns_as_user("network devices")?;
    }
    let mut netlink = Netlink::open().map_err(failed("network", "open a netlink socket"))?;
    bring_up_loopback(&mut netlink)?;
    disable_ecn_for(setup.link.codec)?;
    let tun = sys::open_tun(name, setup.offload).map_err(|error| tun_failure(name, &error))?;
    Ok((tun, userspace_nat.map(UserspaceNat::attach).transpose()?))
}

/// Gives the outside end its addresses, then moves this thread to a new namespace and sets up the inside end there.
fn connect(
    setup: &Setup,
    (outside, outside_name): (OwnedFd, String),
    nat: Option<Nat>,
    stopwatch: Stopwatch,
) -> Result<LinkEnds, Failure> {
    let cannot = failed("network", "configure the outside end of the link");
    let mut netlink = Netlink::open().map_err(&cannot)?;
    let addresses = netlink.addresses().map_err(&cannot)?;
    let routes = netlink.routes().map_err(&cannot)?;
    let (block, claim) =
        Block::claim(&addresses, &routes).map_err(|problem| Failure::new("addresses", problem))?;
    let (outside_index, v6_outside) =
        configure_device(&mut netlink, &outside_name, setup, block.outside()).map_err(cannot)?;
    let nat = match nat {
        None if setup.nat => Some(Nat::masquerade(&outside_name, block.outside()[0])?),
        nat => nat,
    };

    let outside_congestion = default_congestion();
    let cannot = failed("network namespace", "create one");
    sys::enter_new_netns().map_err(cannot)?;
    let cannot = failed("network", "configure the inside end of the link");
    let (inside, inside_name) =
        sys::open_tun(INSIDE_DEVICE, setup.offload).map_err(|error| tun_failure(INSIDE_DEVICE, &error))?;
    let mut inside_netlink = Netlink::open().map_err(&cannot)?;
    bring_up_loopback(&mut inside_netlink)?;
    let (inside_index, v6_inside) =
        configure_device(&mut inside_netlink, &inside_name, setup, block.inside()).map_err(&cannot)?;
    if setup.user.is_some() {
        // The command can get no capabilities, which `ping` would take instead.
        let _ = set_sysctl("net/ipv4/ping_group_range", "0 2147483647");
    }
    if let Some(congestion) = &setup.congestion {
        set_congestion("--congestion", congestion)?;
    }
    let window = setup.initial_window;
    inside_netlink.add_route(inside_index, Ipv4Net::default().into(), window).map_err(&cannot)?;
    // NAT supports only IPv4. Without an IPv6 route, programs fail at once instead of waiting for a timeout.
    let has_v6 = v6_outside
        && v6_inside
        && (setup.nat || inside_netlink.add_route(inside_index, Ipv6Net::default().into(), window).is_ok());
    disable_ecn_for(setup.link.codec)?;
    // Forwarding lets links inside this one reach networks outside of it. Without forwarding, they reach only this namespace.
    let _ = set_sysctl("net/ipv4/ip_forward", "1");
    let _ = set_sysctl("net/ipv6/conf/all/forwarding", "1");
    let tun = |device| {
        let tun = Tun::new(device, stopwatch);
        if setup.offload { tun.with_virtual_header() } else { tun }
    };
    Ok(LinkEnds {
        inside: tun(inside),
        outside: tun(outside),
        missed: [inside_netlink.drops_from_now(inside_index), netlink.drops_from_now(outside_index)],
        block,
        has_v6,
        nat,
        congestion: Congestion { inside: default_congestion(), outside: outside_congestion },
        _claim: claim,
    })
}

/// Brings a device up with the addresses of one end of the link. Returns the index of the device, and true if the device has an IPv6
/// address.
fn configure_device(
    netlink: &mut Netlink,
    name: &str,
    setup: &Setup,
    [v4, v6]: [IpNet; 2],
) -> io::Result<(u32, bool)> {
    let index = netlink.index_of(name)?;
    // A link-local address would send router solicitations through the link.
    let _ = set_sysctl(&format!("net/ipv6/conf/{name}/addr_gen_mode"), "1");
    netlink.bring_up(index, Some(setup.mtu), Some(DEVICE_QUEUE))?;
    // The route that the kernel adds for an address has no initial window, so the route is added separately.
    let window = setup.initial_window;
    let mut add = |network| {
        if window.is_none() {
            return netlink.add_address(index, network);
        }
        netlink.add_address_without_route(index, network)?;
        netlink.add_route(index, network, window)
    };
    add(v4)?;
    let has_v6 = setup.mtu >= 1280 && add(v6).is_ok();
    Ok((index, has_v6))
}
