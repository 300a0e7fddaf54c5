//! Access to settings of the kernel and of devices.

use catnip_cli::failure::Failure;
use catnip_linux::netlink::Netlink;
use std::fs;
use std::io;
use std::path::Path;

/// Limits the number of segments that leave TCP at once through the device with this interface index.
pub fn limit_segments_of(index: u32, segments: u32) -> io::Result<()> {
    Netlink::open()?.set_gso_max_segs(index, segments)
}

/// Returns the value of a kernel setting.
pub fn setting(path: impl AsRef<Path>) -> Result<String, Failure> {
    let path = path.as_ref();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::new(&path.display().to_string(), format!("cannot read it: {error}")))?;
    Ok(text.trim().into())
}
