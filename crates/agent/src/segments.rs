//! Number of segments that leave TCP under one mark. The kernel may pass several segments as one packet to a device, which splits the
//! packet later. The marker then processes only one packet, whose mark applies to all of its segments.

use crate::settings::{limit_segments_of, setting};
use crate::state::{ChangedDevice, Changes};
use catnip_cli::failure::{Failure, failed};
use catnip_linux::netlink::Netlink;
use serde::Serialize;
use std::fs;

/// Handling of packets with several segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Segments {
    /// One by one wherever TCP paces below a segment per millisecond, as over the Internet; faster paths are unchanged
    #[default]
    Paced,
    /// Always one by one, which costs throughput on fast links
    Single,
    /// Unchanged default of the kernel, two or more at once
    Kernel,
}

/// Kernel setting of the minimum number of segments that leave TCP at once, if enough segments are ready.
const MIN_TSO_SEGS: &str = "/proc/sys/net/ipv4/tcp_min_tso_segs";

impl Segments {
    /// Returns the settings that [`Self::apply`] will change for these devices, with their present values.
    pub fn changes(self, devices: &[String]) -> Result<Changes, Failure> {
        let mut changes = Changes::default();
        if self != Self::Kernel {
            changes.settings.push((MIN_TSO_SEGS.into(), setting(MIN_TSO_SEGS)?));
        }
        if self == Self::Single {
            let mut netlink = Netlink::open().map_err(failed("--segments", "list devices"))?;
            for name in devices {
                let device = netlink
                    .device(name)
                    .map_err(|error| Failure::new("--device", format!("{name}: {error}")))?;
                let limit = device.gso_max_segs.map(|gso_max_segs| ChangedDevice {
                    name: name.clone(),
                    index: device.index,
                    gso_max_segs,
                });
                changes.devices.extend(limit);
            }
        }
        Ok(changes)
    }

    /// Applies the changes that [`Self::changes`] has returned.
    pub fn apply(self, changes: &Changes) -> Result<(), Failure> {
        if self != Self::Kernel {
            fs::write(MIN_TSO_SEGS, "1").map_err(failed("--segments", "change net.ipv4.tcp_min_tso_segs"))?;
        }
        changes.devices.iter().try_for_each(limit_to_one)
    }
}

/// Makes segments leave a device one by one.
pub fn limit_to_one(device: &ChangedDevice) -> Result<(), Failure> {
    limit_segments_of(device.index, 1).map_err(|error| {
        Failure::new(&device.name, format!("cannot limit segments sent at once to 1: {error}"))
    })
}
