//! How many segments leave TCP under one mark. The kernel hands several at once to a device, which cuts them later; then the marker sees one
//! packet, and the mark of one is that of all.

use crate::state::Changes;
use catnip_cli::failure::{Failure, failed};
use catnip_linux::netlink::Netlink;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// What is done about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Segments {
    /// One by one wherever TCP paces below a segment per millisecond, as it does over the Internet; faster paths are left alone
    #[default]
    Paced,
    /// One by one always, which costs throughput on fast links
    Single,
    /// As the kernel has it, by two at least
    Kernel,
}

/// The least number of segments that leave TCP at once, if there are so many.
const LEAST: &str = "/proc/sys/net/ipv4/tcp_min_tso_segs";

impl Segments {
    /// What has to be changed for it at these devices, as it was before.
    pub fn changes(self, devices: &[String]) -> Result<Changes, Failure> {
        let mut changes = Changes::default();
        if self != Self::Kernel {
            changes.settings.push((LEAST.into(), setting(LEAST)?));
        }
        if self == Self::Single {
            let mut netlink = Netlink::open().map_err(failed("--segments", "look at devices"))?;
            for name in devices {
                let device = netlink
                    .device(name)
                    .map_err(|error| Failure::new("--device", format!("{name}: {error}")))?;
                changes.devices.extend(device.segments.map(|segments| (name.clone(), segments)));
            }
        }
        Ok(changes)
    }

    /// Changes it.
    pub fn apply(self, changes: &Changes) -> Result<(), Failure> {
        if self != Self::Kernel {
            fs::write(LEAST, "1").map_err(failed("--segments", "change net.ipv4.tcp_min_tso_segs"))?;
        }
        changes.devices.iter().try_for_each(|(device, _)| limit(device, 1))
    }
}

/// Lets so many segments leave TCP at once through a device.
pub fn limit(device: &str, segments: u32) -> Result<(), Failure> {
    let limited = Netlink::open().and_then(|mut netlink| {
        let index = netlink.index_of(device)?;
        netlink.limit_segments(index, segments)
    });
    limited.map_err(|error| {
        Failure::new(device, format!("cannot let {segments} segments leave at once: {error}"))
    })
}

/// What a setting of the kernel is.
pub fn setting(path: impl AsRef<Path>) -> Result<String, Failure> {
    let path = path.as_ref();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::new(&path.display().to_string(), format!("cannot read it: {error}")))?;
    Ok(text.trim().into())
}
