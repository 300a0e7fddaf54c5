//! Congestion control of the connections of a network namespace.

use catnip_cli::failure::Failure;
use catnip_linux::namespace::set_sysctl;
use std::fs;

/// Makes a congestion control the default of the network namespace of this thread, which must be one that this program has created. `key`
/// names the value in the message of a failure.
pub(crate) fn set_congestion(key: &str, name: &str) -> Result<(), Failure> {
    set_sysctl("net/ipv4/tcp_congestion_control", name).map_err(|error| {
        let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let available = available.unwrap_or_default().trim().replace(' ', ", ");
        Failure::new(
            key,
            format!("{name:?}: not permitted or not available ({error}); available: {available}"),
        )
    })
}
