//! The programs in the kernel, and where they are attached. Everything that is attached ends with this process, however it ends.

use crate::check;
use crate::policy::Policy;
use crate::skeleton::{AgentSkel, AgentSkelBuilder};
use crate::statistics::{self, Count};
use crate::sys;
use catnip_cli::failure::Failure;
use catnip_linux::netlink::Netlink;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, Link, MapCore, OpenObject};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// What is attached where.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How to mark.
    pub policy: Policy,
    /// Whose leaving packets are marked.
    pub devices: Vec<String>,
    /// Whose processes may tell of their documents: a folder of the second version of control groups.
    pub cgroup: PathBuf,
    /// Are the controllers registered?
    pub controllers: Controllers,
}

/// Which controllers are registered. They are the whole machine's, whatever the namespace.
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

/// The controllers, and what they are.
pub const CONTROLLERS: [(&str, &str); 5] = [
    ("catnip_newcwv", "newCWV (RFC 7661)"),
    ("catnip_newcwv_p", "newCWV, and a window takes a round trip"),
    ("catnip_eca", "early congestion avoidance"),
    ("catnip_rbplw", "rate-based pacing of the last window"),
    ("catnip_eca_p", "both"),
];

/// Programs that run in the kernel.
pub struct Attached<'a> {
    skeleton: AgentSkel<'a>,
    links: Vec<Link>,
    controllers: Vec<String>,
}

/// Memory that the programs need for as long as they are attached.
pub type Room = MaybeUninit<OpenObject>;

impl<'a> Attached<'a> {
    /// Loads the programs and attaches them; if one cannot be, none stays.
    pub fn new(setup: &Setup, room: &'a mut Room) -> Result<Self, Failure> {
        // What libbpf has to say goes to those who ask for it.
        let verbose = std::env::var_os("CATNIP_BPF_LOG").is_some();
        libbpf_rs::set_print(verbose.then_some((libbpf_rs::PrintLevel::Debug, |_, text| eprint!("{text}"))));
        let load = |what: &'static str| {
            move |error: libbpf_rs::Error| {
                let see = "`catnip agent check` says what this kernel lacks, CATNIP_BPF_LOG=1 what it says";
                Failure::new("bpf", format!("cannot {what}: {error}; {see}"))
            }
        };
        let mut open = AgentSkelBuilder::default().open(room).map_err(load("read the programs"))?;
        let rodata = open.maps.rodata_data.as_deref_mut();
        let rodata =
            rodata.ok_or_else(|| Failure::new("bpf", "the programs have no room for their configuration"))?;
        let network = sys::network_cookie();
        let network = network
            .map_err(|error| Failure::new("network", format!("cannot tell which one this is: {error}")))?;
        rodata.config = setup.policy.config(network);
        if setup.controllers == Controllers::None {
            let maps = &mut open.maps;
            for map in [&mut maps.newcwv, &mut maps.newcwv_p, &mut maps.eca, &mut maps.rbplw, &mut maps.eca_p]
            {
                map.set_autocreate(false).map_err(load("leave the controllers out"))?;
            }
        }
        let skeleton = open.load().map_err(load("load the programs"))?;
        debug_assert_eq!(skeleton.maps.counters.max_entries() as usize, statistics::REASONS.len() * 3);
        let mut attached = Self { skeleton, links: Vec::new(), controllers: Vec::new() };
        attached.attach(setup)?;
        Ok(attached)
    }

    fn attach(&mut self, setup: &Setup) -> Result<(), Failure> {
        let Self { skeleton, links, controllers } = self;
        let programs = &mut skeleton.progs;
        let cgroup = File::open(&setup.cgroup);
        let name = setup.cgroup.display().to_string();
        let cgroup =
            cgroup.map_err(|error| Failure::new("--cgroup", format!("{name}: cannot open it: {error}")))?;
        // What nobody needs would still cost each packet its call.
        let hear = setup.policy.marks_acks.then_some(&mut programs.catnip_hear);
        for program in [&mut programs.catnip_tell, &mut programs.catnip_ask].into_iter().chain(hear) {
            let link = program.attach_cgroup(cgroup.as_raw_fd());
            let what = "cannot attach to it, is it a folder of cgroup2?";
            links.push(link.map_err(|error| Failure::new("--cgroup", format!("{name}: {what} {error}")))?);
        }
        let mut netlink = Netlink::open().map_err(|error| Failure::new("--device", error))?;
        for device in &setup.devices {
            let wrong = |what: String| Failure::new("--device", format!("{device}: {what}"));
            let index = netlink.index_of(device).map_err(|error| wrong(error.to_string()))?;
            if setup.policy.mark.is_some() {
                let link = sys::attach_tcx(&programs.catnip_mark, index);
                links.push(link.map_err(|error| wrong(format!("cannot attach to what leaves it: {error}")))?);
            }
        }
        if setup.controllers != Controllers::None {
            let maps = &mut skeleton.maps;
            for map in [&mut maps.newcwv, &mut maps.newcwv_p, &mut maps.eca, &mut maps.rbplw, &mut maps.eca_p]
            {
                let name = format!("catnip_{}", map.name().to_string_lossy());
                match map.attach_struct_ops() {
                    Ok(link) => {
                        links.push(link);
                        controllers.push(name);
                    }
                    Err(error)
                        if error.kind() == ErrorKind::AlreadyExists
                            && setup.controllers == Controllers::Auto => {}
                    Err(error) => {
                        let why = match error.kind() {
                            ErrorKind::AlreadyExists => {
                                "another agent of this machine has registered it".into()
                            }
                            _ => format!("cannot register it: {error}"),
                        };
                        return Err(Failure::new("--controllers", format!("{name}: {why}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// The controllers that it has registered.
    pub fn controllers(&self) -> &[String] {
        &self.controllers
    }

    /// What the marker has counted so far.
    pub fn counts(&self) -> Result<Vec<Count>, Failure> {
        statistics::read(&self.skeleton.maps.counters)
            .map_err(|error| Failure::new("statistics", format!("cannot read them: {error}")))
    }
}

/// The devices that are marked if nothing else is said: all but the loopback.
pub fn usual_devices() -> Result<Vec<String>, Failure> {
    let devices = Netlink::open().and_then(|mut netlink| netlink.devices());
    let devices =
        devices.map_err(|error| Failure::new("--device", format!("cannot list devices: {error}")))?;
    let names: Vec<String> = devices
        .into_iter()
        .filter(|(_, device)| !device.loopback && device.up)
        .map(|(name, _)| name)
        .collect();
    if names.is_empty() {
        return Err(Failure::new("--device", "there is none but the loopback; say which one"));
    }
    Ok(names)
}

/// The control group of all processes.
pub fn usual_cgroup() -> Result<PathBuf, Failure> {
    check::cgroup2().ok_or_else(|| {
        Failure::new(
            "--cgroup",
            "no second version of control groups is mounted; mount it: mount -t cgroup2 none /sys/fs/cgroup",
        )
    })
}
