//! External hosts (`real = true` in a scenario): network namespaces with one device each, and the programs that run in them.

use crate::external::documents::Documents;
use catnip_cli::failure::{Failure, failed};
use catnip_lab::{Plan, RealNode};
use catnip_linux::namespace::{bring_up_loopback, enter_network_as_user, no_tun, set};
use catnip_linux::netlink::{Drops, Netlink};
use catnip_linux::processes::Processes;
use catnip_linux::sys;
use catnip_linux::tun::Tun;
use catnip_net::NodeId;
use ipnet::Ipv4Net;
use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Name of the device of an external host in its namespace.
const DEVICE: &str = "catnip0";
/// Length of the device queue, packets: the kernel holds packets there until the emulator reads them. Further packets are lost before they
/// enter the network, and counted.
const DEVICE_QUEUE: u32 = 10_000;
/// Time within which a server must listen.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time within which a command must end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

/// External host: a network namespace with a device.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) node: NodeId,
    pub(crate) name: String,
    network: OwnedFd,
    device: OwnedFd,
    missed: Drops,
}

/// External hosts of a run, with devices that are ready to be read.
#[derive(Debug)]
pub(crate) struct RealHosts {
    pub(crate) hosts: Vec<Host>,
    pub(crate) commands: Commands,
    /// Documents of the hosts, removed at the end.
    _documents: Vec<Documents>,
}

/// Environment of the commands.
pub(crate) struct Environment<'a> {
    pub(crate) plan: &'a Plan,
    /// Addresses, by node.
    pub(crate) addresses: &'a [Ipv4Addr],
    /// Folder of the scenario file.
    pub(crate) folder: &'a Path,
    pub(crate) mtu: u32,
    /// True if the output of commands goes to standard error instead of standard output.
    pub(crate) keeps_stdout: bool,
}

impl RealHosts {
    /// Creates the namespaces, starts the servers, waits until they listen, and starts all other commands.
    pub(crate) fn start(environment: &Environment<'_>) -> Result<Self, Failure> {
        let nodes = environment.plan.real_nodes();
        let mut hosts = Vec::new();
        if nodes.is_empty() {
            return Ok(Self { hosts, commands: Commands::default(), _documents: Vec::new() });
        }
        let home = leave_home()?;
        for real in nodes {
            hosts.push(Host::new(real, environment)?);
        }
        let mut documents = Vec::new();
        for real in nodes {
            documents.push(Documents::make(environment.plan, real.node)?);
        }
        let mut commands = Commands { running: Vec::new(), processes: Processes::begin() };
        let started = (|| {
            let each = || nodes.iter().zip(&hosts).zip(&documents);
            each()
                .try_for_each(|((real, host), files)| commands.start(real, host, environment, files, true))?;
            nodes.iter().zip(&hosts).try_for_each(|(real, host)| commands.wait_for(real, host))?;
            each().try_for_each(|((real, host), files)| commands.start(real, host, environment, files, false))
        })();
        commands.processes.leave();
        started?;
        sys::enter_network(home.as_fd()).map_err(failed("network namespace", "return to the caller's"))?;
        Ok(Self { hosts, commands, _documents: documents })
    }
}

/// Enters a new network namespace, in a new user namespace if necessary, to check that this is permitted. Returns the network namespace to
/// which the thread must return: the caller's, or the one in the new user namespace.
fn leave_home() -> Result<OwnedFd, Failure> {
    let home = || sys::current_network().map_err(failed("network namespace", "open the caller's"));
    let first = home()?;
    match sys::enter_new_network() {
        Ok(()) => return Ok(first),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
        Err(error) => return Err(failed("network namespace", "create one")(error)),
    }
    enter_network_as_user("network namespaces")?;
    home()
}

impl Host {
    fn new(real: &RealNode, environment: &Environment<'_>) -> Result<Self, Failure> {
        sys::enter_new_network().map_err(failed("network namespace", "create one"))?;
        let (device, name) = sys::open_tun(DEVICE, false).map_err(|error| no_tun(DEVICE, &error))?;
        let cannot = failed("network", "configure a real host");
        let mut netlink = Netlink::open().map_err(&cannot)?;
        bring_up_loopback(&mut netlink)?;
        let index = netlink.index_of(&name).map_err(&cannot)?;
        // No link-local address: with one, the kernel would send router solicitations into the network.
        let _ = set(&format!("net/ipv6/conf/{name}/addr_gen_mode"), "1");
        // Path metrics that one connection has measured must not affect the next one.
        let _ = set("net/ipv4/tcp_no_metrics_save", "1");
        netlink.bring_up(index, Some(environment.mtu), Some(DEVICE_QUEUE)).map_err(&cannot)?;
        let address = environment.addresses[real.node.0 as usize];
        netlink.add_address(index, Ipv4Net::from(address).into()).map_err(&cannot)?;
        let everywhere = Ipv4Net::default().into();
        netlink.add_route(index, everywhere, real.initial_window).map_err(&cannot)?;
        if let Some(congestion) = &real.congestion {
            set("net/ipv4/tcp_congestion_control", congestion).map_err(|error| {
                let key = format!("node.{}.congestion", environment.plan.topology().name(real.node));
                let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
                let known = known.unwrap_or_default().trim().replace(' ', ", ");
                Failure::new(
                    &key,
                    format!("{congestion:?}: not permitted or not available ({error}); available: {known}"),
                )
            })?;
        }
        let network = sys::current_network().map_err(&cannot)?;
        let name = environment.plan.topology().name(real.node).to_string();
        Ok(Self { node: real.node, name, network, device, missed: netlink.drops_from_now(index) })
    }

    /// Opens the device with a clock that counts from the beginning of the run.
    pub(crate) fn tun(&self, stopwatch: catnip_linux::clock::Stopwatch) -> Result<Tun, Failure> {
        let device = self.device.try_clone().map_err(failed("/dev/net/tun", "duplicate its descriptor"))?;
        Ok(Tun::new(device, stopwatch))
    }

    /// Returns the number of packets that the kernel has dropped before they could be read.
    pub(crate) fn missed(&mut self) -> u64 {
        self.missed.count()
    }

    fn enter(&self) -> Result<(), Failure> {
        sys::enter_network(self.network.as_fd()).map_err(failed("network namespace", "enter one"))
    }

    /// Returns true if a program listens at this port in the namespace of the caller.
    fn listens(port: u16) -> bool {
        const LISTEN: &str = "0A";
        let found = |table: &str| {
            fs::read_to_string(format!("/proc/thread-self/net/{table}")).is_ok_and(|text| {
                text.lines().skip(1).any(|line| {
                    let mut words = line.split_whitespace().skip(1);
                    let local = words.next().and_then(|local| local.rsplit(':').next());
                    let at = local.and_then(|port| u16::from_str_radix(port, 16).ok());
                    at == Some(port) && words.nth(1) == Some(LISTEN)
                })
            })
        };
        found("tcp") || found("tcp6")
    }
}

/// Programs at external hosts.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    running: Vec<Running>,
    processes: Processes,
}

#[derive(Debug)]
struct Running {
    name: String,
    program: String,
    child: Child,
    ends_run: bool,
    /// Exit code; `None` while the command is running.
    code: Option<u8>,
}

impl Commands {
    /// Starts the command of a host if it is a server and `server` is true, or if it is not a server and `server` is false. A server is a
    /// command for which the other commands wait.
    fn start(
        &mut self,
        real: &RealNode,
        host: &Host,
        environment: &Environment<'_>,
        documents: &Documents,
        server: bool,
    ) -> Result<(), Failure> {
        let Some([program, arguments @ ..]) = real.command.as_deref() else { return Ok(()) };
        if real.ready_tcp.is_some() != server {
            return Ok(());
        }
        host.enter()?;
        let mut command = Command::new(program);
        command.args(arguments);
        tell(&mut command, real.node, environment);
        command.env("CATNIP_DOCUMENTS", documents.folder());
        if !real.ends_run {
            // Standard output is reserved for results.
            command.stdin(Stdio::null()).stdout(sys::standard_error());
            // Signals of the terminal go to the emulator only.
            command.process_group(0);
        }
        if environment.keeps_stdout {
            command.stdout(sys::standard_error());
        }
        sys::tie_to_parent(&mut command);
        let key = format!("node.{}.command", host.name);
        let child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure {
                message: format!("{key}: {program}: command not found; check its name or specify its path"),
                code: 127,
            },
            _ => Failure { message: format!("{key}: {program}: cannot be executed: {error}"), code: 126 },
        })?;
        let (name, program) = (host.name.clone(), program.clone());
        self.running.push(Running { name, program, child, ends_run: real.ends_run, code: None });
        Ok(())
    }

    /// Waits until the program of a host listens at its port.
    fn wait_for(&mut self, real: &RealNode, host: &Host) -> Result<(), Failure> {
        let Some(port) = real.ready_tcp else { return Ok(()) };
        host.enter()?;
        let key = format!("node.{}.ready", host.name);
        let mut waited = Duration::ZERO;
        while !Host::listens(port) {
            self.reap();
            if let Some(code) = self.running.iter().find(|c| c.name == host.name).and_then(|c| c.code) {
                let what =
                    format!("the command exited with code {code}, and no program listens on port {port}");
                return Err(Failure::new(&key, what));
            }
            if waited > PATIENCE {
                return Err(Failure::new(
                    &key,
                    format!("no program listens on port {port} after {PATIENCE:?}"),
                ));
            }
            std::thread::sleep(POLL);
            waited += POLL;
        }
        Ok(())
    }

    /// Returns the commands that have ended since the last call.
    pub(crate) fn reap(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        for running in self.running.iter_mut().filter(|running| running.code.is_none()) {
            if let Ok(Some(status)) = running.child.try_wait() {
                let code = exit_code(status);
                running.code = Some(code);
                let (host, program) = (running.name.clone(), running.program.clone());
                ended.push(Ended { host, program, code, ends_run: running.ends_run });
            }
        }
        ended
    }

    /// Returns true if all commands have ended and there was at least one.
    pub(crate) fn all_ended(&self) -> bool {
        !self.running.is_empty() && self.running.iter().all(|running| running.code.is_some())
    }

    /// Returns the number of commands that end the run.
    pub(crate) fn that_end_the_run(&self) -> usize {
        self.running.iter().filter(|running| running.ends_run).count()
    }

    /// Ends all commands and all processes that they have started.
    pub(crate) fn stop(&mut self) {
        let alive = |commands: &Self| commands.running.iter().any(|running| running.code.is_none());
        for running in self.running.iter().filter(|running| running.code.is_none()) {
            let _ = sys::kill(running.child.id(), libc::SIGTERM);
        }
        let mut waited = Duration::ZERO;
        while alive(self) && waited < GRACE {
            self.reap();
            std::thread::sleep(POLL);
            waited += POLL;
        }
        for running in self.running.iter_mut().filter(|running| running.code.is_none()) {
            let _ = running.child.kill();
        }
        for mut running in self.running.drain(..) {
            let _ = running.child.wait();
        }
        self.processes.end();
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) host: String,
    pub(crate) program: String,
    pub(crate) code: u8,
    pub(crate) ends_run: bool,
}

fn exit_code(status: ExitStatus) -> u8 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1) as u8
}

/// Sets the environment variables of a command, among them the addresses of the nodes.
fn tell(command: &mut Command, here: NodeId, environment: &Environment<'_>) {
    let Environment { plan, addresses, folder, .. } = environment;
    let address = |node: NodeId| addresses[node.0 as usize].to_string();
    let nodes = plan.real_nodes().iter().map(|real| real.node);
    let servers = plan.groups().flat_map(|group| group.pairs.iter().map(|pair| pair.0));
    for node in nodes.chain(servers) {
        let name = plan.topology().name(node).trim_end_matches(']').to_uppercase();
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        command.env(format!("CATNIP_{name}"), address(node));
    }
    command.env("CATNIP_HERE", address(here));
    command.env("CATNIP_SCENARIO", folder);
}
