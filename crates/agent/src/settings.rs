//! Access to settings of the kernel and of devices.

use catnip_cli::failure::Failure;
use catnip_linux::netlink::Netlink;
use std::fs;
use std::path::Path;

/// Limits the number of segments that leave TCP at once through a device.
pub fn limit_segments(device: &str, segments: u32) -> Result<(), Failure> {
    let limited = Netlink::open().and_then(|mut netlink| {
        let index = netlink.index_of(device)?;
        netlink.set_gso_max_segs(index, segments)
    });
    limited.map_err(|error| {
        Failure::new(device, format!("cannot limit segments sent at once to {segments}: {error}"))
    })
}

/// Returns the value of a kernel setting.
pub fn setting(path: impl AsRef<Path>) -> Result<String, Failure> {
    let path = path.as_ref();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::new(&path.display().to_string(), format!("cannot read it: {error}")))?;
    Ok(text.trim().into())
}
