//! Emulated link between the caller's network namespace and a new one in which a command runs.

use crate::codec::{switch_ecn_off_for, without_ecn};
use crate::control::{Changed, Control};
use crate::datapath::frames::{Frames, Routing};
use crate::datapath::gateways::{Emulator, Gateway, Gateways};
use crate::mark::Marking;
use crate::observe::monitor::Monitor;
use crate::timing::{Timing, TimingMode, TimingSpec};
use catnip_base::Histogram;
use catnip_base::{Span, Time};
use catnip_cli::failure::{Failure, failed};
use catnip_linux::address::Block;
use catnip_linux::clock::{Clock, Stopwatch, WallClock};
use catnip_linux::dns::Resolver;
use catnip_linux::namespace::{bring_up_loopback, enter_network_as_user, no_tun, set};
use catnip_linux::nat::{Nat, UserspaceNat};
use catnip_linux::netlink::{Drops, Netlink};
use catnip_linux::processes::Processes;
use catnip_linux::sys::{self, Signals};
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

/// Length of the largest super-packet with its header, bytes.
const LARGEST_SUPER_PACKET: usize = sys::VIRTUAL_HEADER + (1 << 16);
/// Name of the device in the command's namespace.
const INSIDE_DEVICE: &str = "catnip0";
/// Queue length of the devices, packets. Packets beyond it are dropped before the link receives them, and counted.
const DEVICE_QUEUE: u32 = 10_000;
/// Environment variable with the address of the outside end of the outermost link.
const BASE: &str = "CATNIP_BASE";
/// Time limit for a command to end after SIGTERM, and for packets in transit after the end of the command.
const GRACE: Span = Span::from_secs(5);
/// Index of the descriptor for change requests, after the descriptors for signals and both devices.
pub(crate) const CONTROL: usize = 3;
/// Upper bound on the time in which a kernel answers a packet.
const AT_ONCE: Span = Span::from_millis(10);

/// Names of the directions in captures and certificates, by the edge of entry: inside, outside.
pub const EDGES: [&str; 2] = ["up", "down"];

/// Network of one link between two hosts.
#[derive(Debug)]
pub struct LinkTopology {
    /// Network of the link.
    pub topology: Topology,
    /// Host that represents the command's namespace.
    pub inside: NodeId,
    /// Host that represents the caller's namespace.
    pub outside: NodeId,
    /// Ports from inside to outside, and back.
    pub ports: [PortId; 2],
}

impl LinkTopology {
    /// Creates a link with these two directions.
    pub fn new(up: &WireSpec, down: &WireSpec) -> Self {
        let mut topology = Topology::default();
        let (inside, outside) = (topology.host("inside"), topology.host("outside"));
        let link = topology.link(inside, outside, up.clone(), down.clone());
        Self { topology, inside, outside, ports: [link.forward(), link.back()] }
    }

    /// Returns a monitor of the two directions, up first.
    pub fn monitor(&self) -> Monitor {
        let watched = self.ports.map(|port| {
            let delay = self.topology.ports()[port.0 as usize].wire.delay;
            (port, delay, true)
        });
        Monitor::new(watched)
    }

    /// Creates the emulator of the link between these devices, for packets of up to `longest` bytes.
    pub(crate) fn emulator<I: PacketIo, W: Watch>(
        &self,
        spec: &LinkSpec,
        gateways: Gateways<WallClock, I>,
        routing: Routing,
        longest: usize,
        watch: W,
    ) -> Emulator<WallClock, I, (), W> {
        let frames = Frames::new(gateways, [self.inside, self.outside], routing, longest, 0)
            .with_codec(spec.codec)
            .with_marker(spec.marking.marker());
        let mut world = World::over(&self.topology, spec.seed, frames, watch);
        world.let_change(&self.topology, self.ports);
        Emulator::new(world)
    }

    /// Returns the outcome of the run so far, without the counters of the devices.
    pub(crate) fn outcome<I: PacketIo, W: Watch>(
        &self,
        emulator: &Emulator<WallClock, I, (), W>,
        manner: TimingMode,
    ) -> Outcome {
        let world = &emulator.world;
        Outcome {
            code: 0,
            duration: emulator.clock().now().since(Time::ZERO),
            cpu: emulator.clock().cpu(),
            woken_late: emulator.clock().woken_late(),
            manner,
            missed: [0; 2],
            broken: [0; 2],
            held: self.ports.map(|port| u64::from(world.fabric().port(port).backlog().packets)),
            buffers_in_use: world.packets_out() as u64,
            ended: world.advanced_to(),
            cut: None,
            changed: Vec::new(),
        }
    }
}

/// Emulator of a link to a command.
pub type RunningLink<W> = Emulator<WallClock, Tun, (), W>;

/// Specification of a link, independent of the devices at its ends.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Wires from inside to outside, and back.
    pub wires: [WireSpec; 2],
    /// Encoding of loss priorities in packets.
    pub codec: PriorityCodec,
    /// Marking of TCP packets at entry.
    pub marking: Marking,
    /// Seed of the random choices of queues and losses.
    pub seed: u64,
    /// Requested timing precision.
    pub timing: TimingSpec,
}

/// Configuration of a link to a command.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Link; up is from the command outwards.
    pub link: LinkSpec,
    /// MTU, bytes.
    pub mtu: u32,
    /// Initial congestion window of TCP connections through the link, segments; `None` for the kernel's default.
    pub initial_window: Option<u32>,
    /// True if super-packets from the kernel are accepted.
    pub offload: bool,
    /// Name of the device in the caller's namespace; `%d` becomes a free number.
    pub device: String,
    /// True if the output of the command goes to standard error.
    pub keeps_stdout: bool,
    /// True if the command reaches all networks of the caller, DNS included (NAT).
    pub nat: bool,
    /// DNS server for the command; the caller's by default.
    pub resolver: Option<IpAddr>,
    /// User of the command; the caller by default.
    pub user: Option<User>,
}

/// Outcome of a run, apart from the data of its watch.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Exit code of the command, as in a shell: 128 plus the number of the signal if it was killed.
    pub code: u8,
    /// Duration of the run.
    pub duration: Span,
    /// CPU time of the emulator.
    pub cpu: Span,
    /// Timing precision that was permitted.
    pub manner: TimingMode,
    /// Wake-up latency of the emulator.
    pub woken_late: Histogram,
    /// Packets that the kernel dropped before the emulator could read them: inside, outside.
    pub missed: [u64; 2],
    /// Malformed frames that no wire could have carried: inside, outside.
    pub broken: [u64; 2],
    /// Packets inside the network at the end, by port: up, down.
    pub held: [u64; 2],
    /// Packets inside the network at the end, counted by their buffers.
    pub buffers_in_use: u64,
    /// Time of the end on the clock of the run.
    pub ended: Time,
    /// Reason for an early end, if any.
    pub cut: Option<Failure>,
    /// Changes during the run.
    pub changed: Vec<Changed>,
}

/// Two namespaces with a device each, not yet connected.
#[derive(Debug)]
struct Ends {
    inside: Tun,
    outside: Tun,
    missed: [Drops; 2],
    block: Block,
    with_v6: bool,
    nat: Option<Nat>,
    _claim: catnip_linux::address::Claim,
}

/// Runs `command` behind the link. `watch` creates the watch that receives every packet; it is called when the process has entered its
/// namespaces and may still start threads.
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
    let base = std::env::var_os(BASE);
    control.bind();
    let (outside, nat) = open_outside(setup)?;
    without_ecn(setup.link.codec)?;
    let home = sys::current_network().map_err(failed("network namespace", "open the caller's"))?;
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
    if ends.with_v6 {
        command.env("CATNIP_OUTSIDE6", outside[1].addr().to_string());
        command.env("CATNIP_INSIDE6", inside[1].addr().to_string());
    }
    // The outside end of the outermost link is reachable through all links inside it.
    let base = base.filter(|_| ends.block.is_nested());
    command.env(BASE, base.unwrap_or_else(|| outside[0].addr().to_string().into()));
    if setup.keeps_stdout {
        command.stdout(sys::standard_error());
    }
    let server = setup.resolver.or(ends.nat.as_ref().map(|way| way.resolver));
    let resolver = server.map(Resolver::new).transpose()?;
    let mut processes = Processes::begin();
    let files = resolver.as_ref().map(Resolver::files).unwrap_or_default();
    sys::with_own_mounts(&mut command, processes.are_begun(), &files)
        .map_err(failed("DNS", "mount the resolver configuration"))?;
    if let Some(user) = &setup.user {
        user.takes(&mut command);
    }
    // This setting is last, because any change of privileges clears it.
    sys::tie_to_parent(&mut command);
    let child = command.spawn();
    // The command has mounted the resolver's files by now. Removing them here leaves no file behind if this process is killed.
    drop(resolver);
    processes.leave();
    let mut child = child.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure {
            message: format!("{program}: command not found; check its name or specify its path"),
            code: 127,
        },
        _ => Failure { message: format!("{program}: cannot be executed: {error}"), code: 126 },
    })?;
    sys::enter_network(home.as_fd())
        .map_err(failed("network namespace", "return to the caller's"))
        .inspect_err(|_| {
            // The PID namespace exists until the child has been waited for.
            let _ = child.kill().and_then(|()| child.wait());
        })?;

    let devices = [signals.as_fd(), ends.inside.as_fd(), ends.outside.as_fd()];
    let watched = devices.into_iter().chain(control.as_fd());
    let Timing { clock, manner } = Timing::new(stopwatch, setup.link.timing, watched);
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
    let longest = if setup.offload { LARGEST_SUPER_PACKET } else { setup.mtu as usize };
    let mut emulator = link.emulator(&setup.link, gateways, routing, longest, watch);
    let code = emulate_until_exit(&mut emulator, &signals, &mut child, (control, link.ports));
    if code.is_err() {
        let _ = child.kill().and_then(|()| child.wait());
    }
    // Ends the processes that the command has left behind, so that their peers receive the end of the connections.
    processes.end();
    let ended = code.and_then(|code| {
        drain(&mut emulator, &signals, round_trip(&setup.link.wires))?;
        emulator.finish().map_err(failed("link", "read its devices"))?;
        Ok(code)
    });
    let missed = ends.missed.map(|mut drops| drops.count());
    // After a failure, the measurements up to the failure are still reported.
    let (code, cut) = ended.map_or_else(|why| (why.code, Some(why)), |code| (code, None));
    let changed = control.changed();
    let outcome = Outcome { code, missed, cut, changed, ..link.outcome(&emulator, manner) };
    Ok((outcome, emulator))
}

/// Moves packets until the command has ended, and returns its exit code.
fn emulate_until_exit<W: Watch>(
    emulator: &mut RunningLink<W>,
    signals: &Signals,
    child: &mut Child,
    (control, ports): (&mut Control, [PortId; 2]),
) -> Result<u8, Failure> {
    let mut kill_at = Time::NEVER;
    loop {
        control.change_due(ports, emulator);
        let next = emulator.turn().map_err(failed("link", "read a device (was it taken down?)"))?;
        emulator.sleep_until(next.min(kill_at).min(control.next_at()));
        if control.as_fd().is_some() && emulator.clock().is_ready(CONTROL) {
            control.change_asked(ports, emulator);
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

/// Continues until the link is empty and no packet has entered for `quiet`, at most for `GRACE`, or until a signal.
fn drain<W: Watch>(emulator: &mut RunningLink<W>, signals: &Signals, quiet: Span) -> Result<(), Failure> {
    let began = emulator.clock().now();
    let (mut entered, mut since) = (0, began);
    loop {
        let next = emulator.turn().map_err(failed("link", "read a device (was it taken down?)"))?;
        let now = emulator.clock().now();
        let world = &emulator.world;
        if (world.packets_out() > 0) | (std::mem::replace(&mut entered, world.medium().entered()) != entered)
        {
            since = now;
        }
        let ends = (since + quiet).min(began + GRACE);
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
    wires.iter().map(|wire| wire.delay).fold(AT_ONCE, |sum, delay| sum + delay)
}

/// Opens the device of the outside end in the caller's namespace. If a device is not permitted there, or NAT is requested and not available
/// there, opens the device in a new namespace. Also returns the NAT of the new namespace, if NAT is requested.
fn open_outside(setup: &Setup) -> Result<((OwnedFd, String), Option<Nat>), Failure> {
    let name = setup.device.as_str();
    // A carrier is a NAT in user space. It connects the command with the namespaces in which it starts, so it starts before this thread
    // leaves them.
    let mut carrier = None;
    if !setup.nat || Nat::can_masquerade() {
        match sys::open_tun(name, setup.offload) {
            Ok(tun) => return Ok((tun, None)),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
            Err(error) => return Err(no_tun(name, &error)),
        }
    }
    if setup.nat {
        carrier = Some(UserspaceNat::find()?);
    }
    // Without a carrier, this process was not permitted to create a device and needs a user namespace. With a carrier, this process may be
    // permitted to create a network namespace without a user namespace.
    if carrier.is_none() || sys::enter_new_network().is_err() {
        enter_network_as_user("network devices")?;
    }
    let mut netlink = Netlink::open().map_err(failed("network", "open a netlink socket"))?;
    bring_up_loopback(&mut netlink)?;
    switch_ecn_off_for(setup.link.codec)?;
    let tun = sys::open_tun(name, setup.offload).map_err(|error| no_tun(name, &error))?;
    Ok((tun, carrier.map(UserspaceNat::carry).transpose()?))
}

/// Gives the outside end its addresses, then moves to a new namespace and sets up the inside end there.
fn connect(
    setup: &Setup,
    (outside, outside_name): (OwnedFd, String),
    nat: Option<Nat>,
    stopwatch: Stopwatch,
) -> Result<Ends, Failure> {
    let cannot = failed("network", "configure the outside end of the link");
    let mut netlink = Netlink::open().map_err(&cannot)?;
    let addresses = netlink.addresses().map_err(&cannot)?;
    let routes = netlink.routes().map_err(&cannot)?;
    let (block, claim) = Block::claim(&addresses, &routes).map_err(|what| Failure::new("addresses", what))?;
    let (outside_index, v6_outside) =
        set_up(&mut netlink, &outside_name, setup, block.outside()).map_err(cannot)?;
    let nat = match nat {
        None if setup.nat => Some(Nat::masquerade(&outside_name, block.outside()[0])?),
        nat => nat,
    };

    let cannot = failed("network namespace", "create one");
    sys::enter_new_network().map_err(cannot)?;
    let cannot = failed("network", "configure the inside end of the link");
    let (inside, inside_name) =
        sys::open_tun(INSIDE_DEVICE, setup.offload).map_err(|error| no_tun(INSIDE_DEVICE, &error))?;
    let mut inner = Netlink::open().map_err(&cannot)?;
    bring_up_loopback(&mut inner)?;
    let (inside_index, v6_inside) =
        set_up(&mut inner, &inside_name, setup, block.inside()).map_err(&cannot)?;
    let window = setup.initial_window;
    inner.add_route(inside_index, Ipv4Net::default().into(), window).map_err(&cannot)?;
    // NAT supports only IPv4. Without an IPv6 route, programs fail at once instead of waiting for a timeout.
    let with_v6 = v6_outside
        && v6_inside
        && (setup.nat || inner.add_route(inside_index, Ipv6Net::default().into(), window).is_ok());
    switch_ecn_off_for(setup.link.codec)?;
    // Forwarding lets links inside this one reach networks outside of it. Without forwarding, they reach only this namespace.
    let _ = set("net/ipv4/ip_forward", "1");
    let _ = set("net/ipv6/conf/all/forwarding", "1");
    let tun = |device| {
        let tun = Tun::new(device, stopwatch);
        if setup.offload { tun.with_virtual_header() } else { tun }
    };
    Ok(Ends {
        inside: tun(inside),
        outside: tun(outside),
        missed: [inner.drops_from_now(inside_index), netlink.drops_from_now(outside_index)],
        block,
        with_v6,
        nat,
        _claim: claim,
    })
}

/// Brings a device up with its addresses. Returns the index of the device, and true if the device has an IPv6 address.
fn set_up(netlink: &mut Netlink, name: &str, setup: &Setup, [v4, v6]: [IpNet; 2]) -> io::Result<(u32, bool)> {
    let index = netlink.index_of(name)?;
    // A link-local address would send router solicitations through the link.
    let _ = set(&format!("net/ipv6/conf/{name}/addr_gen_mode"), "1");
    netlink.bring_up(index, Some(setup.mtu), Some(DEVICE_QUEUE))?;
    // The route that the kernel adds for an address has no initial window, so the route is added separately.
    let window = setup.initial_window;
    let mut add = |network| {
        if window.is_none() {
            return netlink.add_address(index, network);
        }
        netlink.add_lone_address(index, network)?;
        netlink.add_route(index, network, window)
    };
    add(v4)?;
    let with_v6 = setup.mtu >= 1280 && add(v6).is_ok();
    Ok((index, with_v6))
}
