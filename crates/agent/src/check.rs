//! Requirements of the agent, and checks whether this machine meets them.

use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Result of the check of one requirement of the agent.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Description of the requirement.
    pub what: &'static str,
    /// True if the requirement is met.
    pub ok: bool,
    /// Value found on this machine, or a remedy for an unmet requirement.
    pub found: String,
    /// Features of the agent that depend on the requirement.
    pub needed_for: &'static str,
}

/// Oldest supported kernel, the first one in which programs can be attached to devices by links (TCX).
const MIN_KERNEL: (u32, u32) = (6, 6);

/// Checks all requirements of the agent on this machine.
pub fn findings() -> Vec<Finding> {
    vec![kernel(), types(), root(), cgroup(), settings(), controllers()]
}

/// Returns the first unmet requirement that prevents the start of an agent; `None` if an agent can start.
pub fn unmet_requirement() -> Option<Finding> {
    [kernel(), types(), root()].into_iter().find(|finding| !finding.ok)
}

/// Returns the mount point of control groups, version 2; `None` if they are not mounted.
pub fn cgroup2() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, folder, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| folder.into())
    })
}

fn kernel() -> Finding {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let ok = version >= MIN_KERNEL;
    let (major, minor) = MIN_KERNEL;
    let found = if ok { release } else { format!("{release} is older than {major}.{minor}") };
    Finding { what: "kernel", ok, found, needed_for: "everything" }
}

fn types() -> Finding {
    let path = "/sys/kernel/btf/vmlinux";
    let ok = Path::new(path).exists();
    let found = if ok {
        path.into()
    } else {
        format!("no {path}: the kernel was built without CONFIG_DEBUG_INFO_BTF")
    };
    Finding { what: "kernel types (BTF)", ok, found, needed_for: "everything" }
}

fn root() -> Finding {
    let sets = rustix::thread::capabilities(None)
        .map(|sets| sets.effective)
        .unwrap_or_else(|_| rustix::thread::CapabilitySet::empty());
    let needed = [
        ("CAP_BPF", rustix::thread::CapabilitySet::BPF),
        ("CAP_NET_ADMIN", rustix::thread::CapabilitySet::NET_ADMIN),
        ("CAP_PERFMON", rustix::thread::CapabilitySet::PERFMON),
    ];
    let missing: Vec<&str> =
        needed.into_iter().filter(|(_, one)| !sets.contains(*one)).map(|(name, _)| name).collect();
    let ok = missing.is_empty();
    let found =
        if ok { "all present".into() } else { format!("{} missing; run as root", missing.join(", ")) };
    Finding { what: "privileges", ok, found, needed_for: "everything" }
}

fn cgroup() -> Finding {
    let mounted = cgroup2();
    let ok = mounted.is_some();
    let found = mounted.map_or("not mounted; mount -t cgroup2 none /sys/fs/cgroup".into(), |path| {
        path.display().to_string()
    });
    Finding {
        what: "control groups v2",
        ok,
        found,
        needed_for: "documents announced by applications, marked ACKs",
    }
}

fn settings() -> Finding {
    let path = "/proc/sys/net/ipv4/tcp_min_tso_segs";
    let ok = fs::metadata(path).is_ok();
    let found = if ok { "net.ipv4.tcp_min_tso_segs" } else { "net.ipv4.tcp_min_tso_segs does not exist" };
    Finding { what: "single segments", ok, found: found.into(), needed_for: "one mark per packet" }
}

fn controllers() -> Finding {
    let registered =
        fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let ours: Vec<&str> = registered.split_whitespace().filter(|name| name.starts_with("catnip_")).collect();
    let found = match ours.as_slice() {
        [] => "none is registered yet".into(),
        some => format!("{} registered by a running agent", some.join(", ")),
    };
    Finding { what: "congestion controllers", ok: true, found, needed_for: "congestion control" }
}
