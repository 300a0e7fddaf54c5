//! Kernel programs (BPF) of the agent, and their attachment. All programs are detached when this process ends, even if it is killed.

use crate::check;
use crate::policy::Policy;
use crate::skeleton::{AgentSkel, AgentSkelBuilder};
use crate::statistics::{self, Count};
use crate::users;
use catnip_cli::failure::Failure;
use catnip_cli::out::print_stderr;
use catnip_linux::netlink::{Device, Netlink};
use catnip_linux::sys;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, OpenObject};
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

/// Congestion controllers of the machine, by name.
const AVAILABLE_CONTROLLERS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Configuration of the kernel programs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Marking policy.
    pub policy: Policy,
    /// Devices whose outgoing packets are marked.
    pub devices: Vec<String>,
    /// Folder of the control group (version 2) whose processes may announce documents.
    pub cgroup: PathBuf,
    /// Congestion controllers to register.
    pub controllers: Controllers,
    /// True if the windows of newCWV senders are reported.
    pub reports_windows: bool,
}

/// Congestion controllers to register. They are registered for the whole machine, not for a network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Controllers {
    /// All, unless another agent has registered them
    #[default]
    Auto,
    /// All
    All,
    /// None
    None,
}

/// Names of the congestion controllers in the kernel programs, and their descriptions.
pub const CONTROLLERS: [(&str, &str); 5] = [
    ("catnip_newcwv", "newCWV (RFC 7661)"),
    ("catnip_newcwv_p", "newCWV with windows paced over a round trip"),
    ("catnip_eca", "early congestion avoidance"),
    ("catnip_rbplw", "rate-based pacing of the last window"),
    ("catnip_eca_p", "catnip_eca and catnip_rbplw"),
];

/// Kernel programs that are loaded and attached. They are detached when this value is dropped.
pub struct Attached<'a> {
    skeleton: AgentSkel<'a>,
    links: Vec<Link>,
    /// Devices with the marker; none if nothing is marked.
    devices: Vec<MarkedDevice>,
    controllers: Vec<String>,
}

/// Device whose outgoing packets are marked, if it exists.
#[derive(Debug)]
struct MarkedDevice {
    /// Name by which the device is found: the one that was asked for.
    asked: String,
    /// Present name.
    name: String,
    /// Interface index, and the link between the program and the device. The program is detached when the descriptor of the link is closed.
    attached: Option<(u32, OwnedFd)>,
}

/// Storage for the loaded kernel programs. It must exist as long as the programs are attached.
pub type ObjectMemory = MaybeUninit<OpenObject>;

impl<'a> Attached<'a> {
    /// Loads and attaches the kernel programs. If one of them fails, no program stays attached.
    pub fn new(setup: &Setup, memory: &'a mut ObjectMemory) -> Result<Self, Failure> {
        // Messages of libbpf are printed on request only.
        let verbose = std::env::var_os("CATNIP_BPF_LOG").is_some();
        libbpf_rs::set_print(verbose.then_some((libbpf_rs::PrintLevel::Debug, |_, text| print_stderr(text))));
        let load = |action: &'static str| {
            move |error: libbpf_rs::Error| {
                let hint = "`catnip agent check` lists missing features, CATNIP_BPF_LOG=1 prints messages";
                Failure::new("bpf", format!("cannot {action}: {error}; {hint}"))
            }
        };
        let mut open = AgentSkelBuilder::default().open(memory).map_err(load("read the programs"))?;
        let rodata = open.maps.rodata_data.as_deref_mut();
        let rodata =
            rodata.ok_or_else(|| Failure::new("bpf", "the programs have no configuration section"))?;
        let network = sys::netns_cookie();
        let network = network
            .map_err(|error| Failure::new("network", format!("cannot determine the namespace: {error}")))?;
        rodata.config = setup.policy.config(network);
        rodata.config.reports_windows = setup.reports_windows.into();
        open.maps
            .window_events
            .set_autocreate(setup.reports_windows)
            .map_err(load("disable the windows of newCWV"))?;
        if setup.controllers == Controllers::None {
            let maps = &mut open.maps;
            for map in [&mut maps.newcwv, &mut maps.newcwv_p, &mut maps.eca, &mut maps.rbplw, &mut maps.eca_p]
            {
                map.set_autocreate(false).map_err(load("disable the controllers"))?;
            }
        }
        let skeleton = open.load().map_err(load("load the programs"))?;
        debug_assert_eq!(skeleton.maps.counters.max_entries() as usize, statistics::REASONS.len() * 3);
        let mut attached = Self { skeleton, links: Vec::new(), devices: Vec::new(), controllers: Vec::new() };
        attached.attach(setup)?;
        Ok(attached)
    }

    fn attach(&mut self, setup: &Setup) -> Result<(), Failure> {
        let Self { skeleton, links, devices, controllers } = self;
        let programs = &mut skeleton.progs;
        let cgroup = File::open(&setup.cgroup);
        let name = setup.cgroup.display().to_string();
        let cgroup =
            cgroup.map_err(|error| Failure::new("--cgroup", format!("{name}: cannot open it: {error}")))?;
        // The program is attached only if it is needed, because it costs a call for each packet.
        let ack_program = setup.policy.marks_acks.then_some(&mut programs.catnip_ingress);
        for program in
            [&mut programs.catnip_setopt, &mut programs.catnip_getopt].into_iter().chain(ack_program)
        {
            let link = program.attach_cgroup(cgroup.as_raw_fd());
            let problem = "cannot attach to it; expected a folder of cgroup2:";
            links.push(link.map_err(|error| Failure::new("--cgroup", format!("{name}: {problem} {error}")))?);
        }
        let mut netlink = Netlink::open().map_err(|error| Failure::new("--device", error))?;
        for device in &setup.devices {
            let failure = |problem: String| Failure::new("--device", format!("{device}: {problem}"));
            let index = netlink.index_of(device).map_err(|error| failure(error.to_string()))?;
            if setup.policy.mark.is_some() {
                let link = sys::attach_tcx_egress(programs.catnip_mark.as_fd(), index);
                let link = link.map_err(|error| failure(format!("cannot attach to its egress: {error}")))?;
                note(&skeleton.maps.marked, index);
                let (asked, name) = (device.clone(), device.clone());
                devices.push(MarkedDevice { asked, name, attached: Some((index, link)) });
            }
        }
        if setup.controllers != Controllers::None {
            let maps = &mut skeleton.maps;
            // The kernel complains in its log about a controller that is registered twice.
            let registered = fs::read_to_string(AVAILABLE_CONTROLLERS).unwrap_or_default();
            for map in [&mut maps.newcwv, &mut maps.newcwv_p, &mut maps.eca, &mut maps.rbplw, &mut maps.eca_p]
            {
                let name = format!("catnip_{}", map.name().to_string_lossy());
                let is_registered = registered.split_whitespace().any(|one| one == name);
                let failure = |problem: &str| Failure::new("--controllers", format!("{name}: {problem}"));
                match (!is_registered).then(|| map.attach_struct_ops()) {
                    Some(Ok(link)) => {
                        links.push(link);
                        controllers.push(name);
                    }
                    Some(Err(error)) if error.kind() != ErrorKind::AlreadyExists => {
                        return Err(failure(&format!("cannot register it: {error}")));
                    }
                    _ if setup.controllers == Controllers::Auto => {}
                    _ => return Err(failure("another agent on this machine has registered it")),
                }
            }
        }
        Ok(())
    }

    /// Attaches the marker again to devices that have gone and come back, whose names are added to `returned`, and follows those that have
    /// got another name.
    pub fn follow_devices(&mut self, returned: &mut Vec<String>) -> Result<(), Failure> {
        let present = Netlink::open().and_then(|mut netlink| netlink.devices());
        let present =
            present.map_err(|error| Failure::new("--device", format!("cannot list devices: {error}")))?;
        let mut result = Ok(());
        for device in &mut self.devices {
            let is_it = |other: &(String, Device)| {
                device.attached.as_ref().is_some_and(|(index, _)| *index == other.1.index)
            };
            if let Some((name, _)) = present.iter().find(|other| is_it(other)) {
                device.name.clone_from(name);
                continue;
            }
            if let Some((index, _)) = device.attached.take() {
                let _ = self.skeleton.maps.marked.delete(&index.to_ne_bytes());
            }
            if let Some((name, found)) = present.iter().find(|(name, _)| *name == device.asked) {
                match sys::attach_tcx_egress(self.skeleton.progs.catnip_mark.as_fd(), found.index) {
                    Ok(link) => {
                        device.attached = Some((found.index, link));
                        device.name.clone_from(name);
                        note(&self.skeleton.maps.marked, found.index);
                        returned.push(name.clone());
                    }
                    // A device may go again in the meantime.
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                    Err(error) => {
                        let problem = format!("{name}: cannot attach to its egress: {error}");
                        result = Err(Failure::new("--device", problem));
                    }
                }
            }
        }
        result
    }

    /// Returns the names of the devices whose packets are marked at present.
    pub fn marked_devices(&self) -> Vec<String> {
        self.devices
            .iter()
            .filter(|device| device.attached.is_some())
            .map(|device| device.name.clone())
            .collect()
    }

    /// Returns the names of the congestion controllers that this agent has registered.
    pub fn controllers(&self) -> &[String] {
        &self.controllers
    }

    /// Returns the events of newCWV senders, which must be reported.
    pub fn window_events(&self) -> Result<MapHandle, Failure> {
        MapHandle::try_from(&self.skeleton.maps.window_events)
            .map_err(|error| Failure::new("--windows", format!("cannot open the map of the events: {error}")))
    }

    /// Removes users without recent packets from the limits by user.
    pub fn forget_idle_users(&self) -> Result<(), Failure> {
        users::forget_idle(&self.skeleton.maps.users, sys::monotonic_nanos())
            .map_err(|error| Failure::new("--user-limit", format!("cannot read the users: {error}")))
    }

    /// Returns the packet counters of the marker, by reason and level.
    pub fn counts(&self) -> Result<Vec<Count>, Failure> {
        statistics::read(&self.skeleton.maps.counters)
            .map_err(|error| Failure::new("statistics", format!("cannot read them: {error}")))
    }
}

/// Notes a marked device for the programs at the devices below it, which must not decide about its packets again.
fn note(marked: &impl MapCore, index: u32) {
    // Packets of devices beyond the size of the map are decided about at each device.
    let _ = marked.update(&index.to_ne_bytes(), &[1], MapFlags::ANY);
}

/// Returns the devices whose packets are marked by default: all devices that are up, except the loopback.
pub fn default_devices() -> Result<Vec<String>, Failure> {
    let devices = Netlink::open().and_then(|mut netlink| netlink.devices());
    let devices =
        devices.map_err(|error| Failure::new("--device", format!("cannot list devices: {error}")))?;
    let names: Vec<String> = devices
        .into_iter()
        .filter(|(_, device)| !device.loopback && device.up)
        .map(|(name, _)| name)
        .collect();
    if names.is_empty() {
        return Err(Failure::new("--device", "none is up except the loopback; specify one"));
    }
    Ok(names)
}

/// Returns the root control group, which contains all processes.
pub fn default_cgroup() -> Result<PathBuf, Failure> {
    check::cgroup2().ok_or_else(|| {
        Failure::new(
            "--cgroup",
            "control groups v2 are not mounted; mount them: mount -t cgroup2 none /sys/fs/cgroup",
        )
    })
}
