//! External hosts (`external = true` in a scenario): network namespaces with one device each, and the programs that run in them.

use crate::congestion::set_congestion;
use crate::external::documents::Documents;
use catnip_cli::failure::{Failure, failed};
use catnip_lab::{ExternalNode, Plan};
use catnip_linux::namespace::{bring_up_loopback, enter_netns_as_user, set_sysctl, tun_failure};
use catnip_linux::netlink::{Drops, Netlink};
use catnip_linux::pid_namespace::PidNamespace;
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
/// Longest time to wait until a server listens on its port. Servers whose kernel marks wait for their agent, whose programs the kernel
/// verifies for seconds of a core; many emulations that begin at once share the cores.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time to wait for the end of a command after SIGTERM. Later, the command is killed.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// External host: a network namespace with a device.
#[derive(Debug)]
pub(crate) struct ExternalHost {
    pub(crate) node: NodeId,
    pub(crate) name: String,
    network: OwnedFd,
    device: OwnedFd,
    missed: Drops,
}

/// All external hosts of a run, with their open TUN devices, running commands and folders of documents.
#[derive(Debug)]
pub(crate) struct ExternalHostSet {
    pub(crate) hosts: Vec<ExternalHost>,
    pub(crate) commands: Commands,
    /// Folders of documents for the hosts, removed when this value is dropped.
    _documents: Vec<Documents>,
}

/// Properties of a run on which the commands of its external hosts depend.
pub(crate) struct Environment<'a> {
    pub(crate) plan: &'a Plan,
    /// IPv4 addresses of all nodes, by index of the node.
    pub(crate) addresses: &'a [Ipv4Addr],
    /// Folder of the scenario file.
    pub(crate) folder: &'a Path,
    pub(crate) mtu: u32,
    /// True if commands with `ends_run` write to standard error, as all other commands do, instead of standard output.
    pub(crate) reserves_stdout: bool,
}

impl ExternalHostSet {
    /// Creates the namespaces of all external hosts, starts the servers, waits until they listen, and then starts all other commands.
    pub(crate) fn start(environment: &Environment<'_>) -> Result<Self, Failure> {
        let nodes = environment.plan.external_nodes();
        let mut hosts = Vec::new();
        if nodes.is_empty() {
            return Ok(Self { hosts, commands: Commands::default(), _documents: Vec::new() });
        }
        let caller_netns = enter_trial_netns()?;
        for external in nodes {
            hosts.push(ExternalHost::new(external, environment)?);
        }
        let mut documents = Vec::new();
        for external in nodes {
            documents.push(Documents::create(environment.plan, external.node)?);
        }
        let mut commands = Commands { running: Vec::new(), pid_namespace: PidNamespace::enter() };
        let started = (|| {
            let each = || nodes.iter().zip(&hosts).zip(&documents);
            each().try_for_each(|((external, host), files)| {
                commands.start(external, host, environment, files, true)
            })?;
            nodes
                .iter()
                .zip(&hosts)
                .try_for_each(|(external, host)| commands.wait_until_ready(external, host))?;
            each().try_for_each(|((external, host), files)| {
                commands.start(external, host, environment, files, false)
            })
        })();
        commands.pid_namespace.exit();
        started?;
        sys::enter_netns(caller_netns.as_fd())
            .map_err(failed("network namespace", "return to the caller's"))?;
        Ok(Self { hosts, commands, _documents: documents })
    }
}

/// Enters a new network namespace to check that this is permitted, if necessary in a new user namespace. Returns the network namespace to
/// which the thread must return: the original one, or the first one in the new user namespace.
fn enter_trial_netns() -> Result<OwnedFd, Failure> {
    let current = || sys::current_netns().map_err(failed("network namespace", "open the caller's"));
    let first = current()?;
    match sys::enter_new_netns() {
        Ok(()) => return Ok(first),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
        Err(error) => return Err(failed("network namespace", "create one")(error)),
    }
    enter_netns_as_user("network namespaces")?;
    current()
}

impl ExternalHost {
    fn new(external: &ExternalNode, environment: &Environment<'_>) -> Result<Self, Failure> {
        sys::enter_new_netns().map_err(failed("network namespace", "create one"))?;
        let (device, name) = sys::open_tun(DEVICE, false).map_err(|error| tun_failure(DEVICE, &error))?;
        let cannot = failed("network", "configure an external host");
        let mut netlink = Netlink::open().map_err(&cannot)?;
        bring_up_loopback(&mut netlink)?;
        let index = netlink.index_of(&name).map_err(&cannot)?;
        // No link-local address: with one, the kernel would send router solicitations into the network.
        let _ = set_sysctl(&format!("net/ipv6/conf/{name}/addr_gen_mode"), "1");
        // Path metrics that one connection has measured must not affect the next one.
        let _ = set_sysctl("net/ipv4/tcp_no_metrics_save", "1");
        netlink.bring_up(index, Some(environment.mtu), Some(DEVICE_QUEUE)).map_err(&cannot)?;
        let address = environment.addresses[external.node.0 as usize];
        netlink.add_address(index, Ipv4Net::from(address).into()).map_err(&cannot)?;
        let default_route = Ipv4Net::default().into();
        netlink.add_route(index, default_route, external.initial_window).map_err(&cannot)?;
        if let Some(congestion) = &external.congestion {
            let key = format!("node.{}.congestion", environment.plan.topology().name(external.node));
            set_congestion(&key, congestion)?;
        }
        let network = sys::current_netns().map_err(&cannot)?;
        let name = environment.plan.topology().name(external.node).to_string();
        Ok(Self { node: external.node, name, network, device, missed: netlink.drops_from_now(index) })
    }

    /// Returns the open device of the host. The times of its packets are read from `stopwatch`.
    pub(crate) fn tun(&self, stopwatch: catnip_linux::clock::Stopwatch) -> Result<Tun, Failure> {
        let device = self.device.try_clone().map_err(failed("/dev/net/tun", "duplicate its descriptor"))?;
        Ok(Tun::new(device, stopwatch))
    }

    /// Returns the number of packets from this host that the kernel has dropped before the emulator could read them.
    pub(crate) fn missed(&mut self) -> u64 {
        self.missed.count()
    }

    fn enter(&self) -> Result<(), Failure> {
        sys::enter_netns(self.network.as_fd()).map_err(failed("network namespace", "enter one"))
    }

    /// Returns true if a program listens on this TCP port in the network namespace of this thread.
    fn has_listener(port: u16) -> bool {
        const LISTEN: &str = "0A";
        let found = |table: &str| {
            fs::read_to_string(format!("/proc/thread-self/net/{table}")).is_ok_and(|text| {
                text.lines().skip(1).any(|line| {
                    let mut fields = line.split_whitespace().skip(1);
                    let local = fields.next().and_then(|local| local.rsplit(':').next());
                    let at = local.and_then(|port| u16::from_str_radix(port, 16).ok());
                    at == Some(port) && fields.nth(1) == Some(LISTEN)
                })
            })
        };
        found("tcp") || found("tcp6")
    }
}

/// Commands that run on the external hosts, in a PID namespace of their own.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    running: Vec<RunningCommand>,
    pid_namespace: PidNamespace,
}

#[derive(Debug)]
struct RunningCommand {
    name: String,
    program: String,
    child: Child,
    ends_run: bool,
    /// Exit code; `None` while the command is running.
    code: Option<u8>,
}

impl Commands {
    /// Starts the command of a host if it is a server and `server` is true, or if it is no server and `server` is false. A server is a
    /// command with a port (`ready_tcp`) for which the other commands wait.
    fn start(
        &mut self,
        external: &ExternalNode,
        host: &ExternalHost,
        environment: &Environment<'_>,
        documents: &Documents,
        server: bool,
    ) -> Result<(), Failure> {
        let Some([program, arguments @ ..]) = external.command.as_deref() else { return Ok(()) };
        if external.ready_tcp.is_some() != server {
            return Ok(());
        }
        host.enter()?;
        let mut command = Command::new(program);
        command.args(arguments);
        set_environment(&mut command, external.node, environment);
        command.env("CATNIP_DOCUMENTS", documents.folder());
        if !external.ends_run {
            // Standard output is reserved for results.
            command.stdin(Stdio::null()).stdout(sys::standard_error());
            // Signals of the terminal go to the emulator only.
            command.process_group(0);
        }
        if environment.reserves_stdout {
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
        self.running.push(RunningCommand { name, program, child, ends_run: external.ends_run, code: None });
        Ok(())
    }

    /// Waits until a program on a host listens on the port `ready_tcp`. Returns at once if the host has no such port.
    fn wait_until_ready(&mut self, external: &ExternalNode, host: &ExternalHost) -> Result<(), Failure> {
        let Some(port) = external.ready_tcp else { return Ok(()) };
        host.enter()?;
        let key = format!("node.{}.ready", host.name);
        let mut waited = Duration::ZERO;
        while !ExternalHost::has_listener(port) {
            self.reap();
            if let Some(code) = self.running.iter().find(|c| c.name == host.name).and_then(|c| c.code) {
                let problem =
                    format!("the command exited with code {code}, and no program listens on port {port}");
                return Err(Failure::new(&key, problem));
            }
            if waited > READY_TIMEOUT {
                return Err(Failure::new(
                    &key,
                    format!("no program listens on port {port} after {READY_TIMEOUT:?}"),
                ));
            }
            // The kernel searches all connections of the machine for each look: many emulators that wait for slow servers would need both
            // cores for it.
            let pause = (waited / 8).max(POLL_INTERVAL);
            std::thread::sleep(pause);
            waited += pause;
        }
        Ok(())
    }

    /// Returns the commands that have ended since the last call.
    pub(crate) fn reap(&mut self) -> Vec<EndedCommand> {
        let mut ended = Vec::new();
        for running in self.running.iter_mut().filter(|running| running.code.is_none()) {
            if let Ok(Some(status)) = running.child.try_wait() {
                let code = exit_code(status);
                running.code = Some(code);
                let (host, program) = (running.name.clone(), running.program.clone());
                ended.push(EndedCommand { host, program, code, ends_run: running.ends_run });
            }
        }
        ended
    }

    /// Returns true if there was at least one command and all commands have ended.
    pub(crate) fn all_ended(&self) -> bool {
        !self.running.is_empty() && self.running.iter().all(|running| running.code.is_some())
    }

    /// Returns the number of commands whose end is also the end of the run (`ends_run`).
    pub(crate) fn run_ending_count(&self) -> usize {
        self.running.iter().filter(|running| running.ends_run).count()
    }

    /// Stops all commands, and kills all processes that they have started.
    pub(crate) fn stop(&mut self) {
        let is_running = |commands: &Self| commands.running.iter().any(|running| running.code.is_none());
        for running in self.running.iter().filter(|running| running.code.is_none()) {
            let _ = sys::kill(running.child.id(), libc::SIGTERM);
        }
        let mut waited = Duration::ZERO;
        while is_running(self) && waited < TERM_TIMEOUT {
            self.reap();
            std::thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
        for running in self.running.iter_mut().filter(|running| running.code.is_none()) {
            let _ = running.child.kill();
        }
        for mut running in self.running.drain(..) {
            let _ = running.child.wait();
        }
        self.pid_namespace.kill_all();
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Command that has ended, with its host and its exit code.
#[derive(Debug)]
pub(crate) struct EndedCommand {
    pub(crate) host: String,
    pub(crate) program: String,
    pub(crate) code: u8,
    pub(crate) ends_run: bool,
}

fn exit_code(status: ExitStatus) -> u8 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1) as u8
}

/// Sets the environment variables of a command, among them the addresses of the nodes.
fn set_environment(command: &mut Command, node: NodeId, environment: &Environment<'_>) {
    let Environment { plan, addresses, folder, .. } = environment;
    let address = |node: NodeId| addresses[node.0 as usize].to_string();
    let nodes = plan.external_nodes().iter().map(|external| external.node);
    let servers = plan.groups().flat_map(|group| group.pairs.iter().map(|pair| pair.0));
    for node in nodes.chain(servers) {
        let name = plan.topology().name(node).trim_end_matches(']').to_uppercase();
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        command.env(format!("CATNIP_{name}"), address(node));
    }
    command.env("CATNIP_HERE", address(node));
    command.env("CATNIP_SCENARIO", folder);
}
