//! NAT and DNS for a command behind a link, which can then reach all networks that this machine can reach (`--nat`).
//!
//! For root, the kernel translates addresses, which does not change TCP. Ordinary users are not permitted to use address translation. For
//! them, a program forwards connections out of their namespace over its own sockets (NAT in user space). TCP over the link is then between
//! the command and this program.

mod masquerade;

pub use masquerade::clean;

use crate::dns;
use crate::namespace::set_sysctl;
use crate::netlink::Netlink;
use crate::sys::{self, Signals};
use catnip_cli::failure::{Failure, failed};
use catnip_cli::out::print_stdout;
use ipnet::IpNet;
use masquerade::Translation;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Name of the emulator's command that calls [`serve`].
pub const MASQUERADE: &str = "masquerade";
/// Line by which [`serve`] reports that packets are translated.
const READY: &str = "ready";
/// Shell script that reads a process ID from standard input, and then executes a user-space NAT for the network namespace of this process.
const USERSPACE_NAT_SCRIPT: &str = "read -r process && case $0 in
  slirp4netns) exec slirp4netns --configure --mtu=65520 --disable-host-loopback --enable-seccomp \
    \"$process\" tap0 ;;
  *) exec pasta --quiet --foreground --config-net --ns-ifname tap0 --no-map-gw --address 10.0.2.100 --netmask 24 \
    --gateway 10.0.2.2 --dns-forward 10.0.2.3 -t none -u none -T none -U none \"$process\" ;;
esac";
/// Programs that implement NAT in user space, in order of preference.
const USERSPACE_NATS: [&str; 2] = ["slirp4netns", "pasta"];
/// Name of the device that a user-space NAT creates in the namespace.
const TAP_DEVICE: &str = "tap0";
/// IPv4 address of [`TAP_DEVICE`].
const TAP_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
/// Address at which a user-space NAT provides the DNS server of the namespace in which the NAT was started.
const TAP_RESOLVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
/// Time limit for the start of a user-space NAT.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Running NAT of a namespace. When this value is dropped or this process is killed, the NAT ends and its changes are reverted.
#[derive(Debug)]
pub struct Nat {
    _helper: Helper,
    /// DNS server that is reachable through the NAT.
    pub resolver: IpAddr,
}

/// User-space NAT that was started, but does not serve a namespace yet, see [`Self::attach`].
#[derive(Debug)]
pub struct UserspaceNat {
    name: &'static str,
    helper: Helper,
}

#[derive(Debug)]
struct Helper {
    child: Child,
    cleans_up: bool,
}

impl Nat {
    /// Returns true if the program `nft` is installed, with which root configures address translation in the kernel.
    pub fn can_masquerade() -> bool {
        sys::is_installed("nft")
    }

    /// Translates the source addresses of packets that arrive from `device` to addresses of this thread's namespace. `end` is the address
    /// of the device in this namespace. This process must be the emulator, which a second process of the same program survives.
    pub fn masquerade(device: &str, end: IpNet) -> Result<Self, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("catnip-emu").args([MASQUERADE, device, &end.trunc().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let cannot = failed("--nat", "start a second process");
        let mut child = command.process_group(0).spawn().map_err(&cannot)?;
        let stdout = child.stdout.take().map(BufReader::new);
        let helper = Helper { child, cleans_up: true };
        let mut line = String::new();
        stdout.map_or(Ok(0), |mut stdout| stdout.read_line(&mut line)).map_err(&cannot)?;
        match line.trim() {
            READY => Ok(Self { _helper: helper, resolver: dns::server(end.addr())? }),
            problem => Err(Failure::new("--nat", format!("cannot set up address translation: {problem}"))),
        }
    }
}

/// Translates the addresses of a link until standard input is closed or a signal arrives, and then reverts its changes. Prints one line on
/// standard output, `ready` or the reason of a failure. A process of its own does this, so that the changes are reverted even if the
/// emulator is killed.
pub fn serve(device: &str, network: IpNet) -> Result<(), Failure> {
    let stop = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];
    let signals = Signals::new(&stop).map_err(failed("signals", "open a signalfd"))?;
    let translation = match Translation::begin(device, network) {
        Ok(translation) => translation,
        Err(failure) => {
            let message = failure.to_string();
            print_stdout(format_args!("{}\n", message.strip_prefix("--nat: ").unwrap_or(&message)));
            return Ok(());
        }
    };
    print_stdout(format_args!("{READY}\n"));
    let stdin = std::io::stdin();
    let mut ready = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
    while poll(&mut ready, None) == Err(Errno::INTR) {}
    translation.end()
}

impl UserspaceNat {
    /// Starts the first installed program of `USERSPACE_NATS` in the current namespaces of this process. The program waits for
    /// [`Self::attach`].
    pub fn launch() -> Result<Self, Failure> {
        let name = USERSPACE_NATS.into_iter().find(|name| sys::is_installed(name)).ok_or_else(|| {
            let problem = "requires nft (nftables) for root, slirp4netns or pasta (passt) for ordinary users; install one";
            Failure::new("--nat", problem)
        })?;
        let mut command = Command::new("sh");
        command
            .args(["-c", USERSPACE_NAT_SCRIPT, name])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Terminal signals for the command must not reach the program.
        command.process_group(0);
        sys::tie_to_parent(&mut command);
        let child = command.spawn().map_err(failed("--nat", "start a shell"))?;
        Ok(Self { name, helper: Helper { child, cleans_up: false } })
    }

    /// Starts to forward connections out of the network namespace of this thread, to the namespaces in which the program was launched.
    pub fn attach(mut self) -> Result<Nat, Failure> {
        let cannot = failed("--nat", "start the program that forwards connections");
        if let Some(mut stdin) = self.helper.child.stdin.take() {
            writeln!(stdin, "{}", std::process::id()).map_err(&cannot)?;
        }
        let mut netlink = Netlink::open().map_err(&cannot)?;
        let mut waited = Duration::ZERO;
        while !netlink.addresses().map_err(&cannot)?.iter().any(|network| network.addr() == TAP_ADDRESS) {
            if waited > START_TIMEOUT || self.helper.child.try_wait().map_err(&cannot)?.is_some() {
                let problem =
                    format!("{} cannot connect a namespace to the outside here; try it by hand", self.name);
                return Err(Failure::new("--nat", problem));
            }
            std::thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
        // The user-space NAT resolves the addresses behind the link as if they were on its own network.
        let proxy_arp = set_sysctl(&format!("net/ipv4/conf/{TAP_DEVICE}/proxy_arp"), "1");
        let forwarding = set_sysctl("net/ipv4/ip_forward", "1");
        proxy_arp.and(forwarding).map_err(failed("--nat", "enable forwarding in the namespace"))?;
        Ok(Nat { _helper: self.helper, resolver: TAP_RESOLVER.into() })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if !self.cleans_up {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
