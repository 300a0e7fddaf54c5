//! How many segments leave TCP under one mark. The kernel hands several at once to a device, which cuts them later; then the marker sees one
//! packet, and the mark of one is that of all.

use crate::settings::{limit_segments, setting};
use crate::state::Changes;
use catnip_cli::failure::{Failure, failed};
use catnip_linux::netlink::Netlink;
use serde::Serialize;
use std::fs;

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
        changes.devices.iter().try_for_each(|(device, _)| limit_segments(device, 1))
    }
}
