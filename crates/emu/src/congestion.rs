//! Congestion control of the connections of a network namespace.

use catnip_cli::failure::Failure;
use catnip_linux::namespace::set_sysctl;
use serde::Serialize;
use std::fs;

/// Congestion controls that TCP connections at the two ends of a link have unless their programs choose another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Congestion {
    /// In the namespace of the command; empty if the kernel does not tell.
    pub inside: String,
    /// In the namespace from which the link was started.
    pub outside: String,
}

/// File with the default congestion control of the network namespace of this thread.
const DEFAULT: &str = "net/ipv4/tcp_congestion_control";

/// Returns the default congestion control of the network namespace of this thread; empty if the kernel does not tell.
pub(crate) fn default_congestion() -> String {
    fs::read_to_string(format!("/proc/sys/{DEFAULT}")).unwrap_or_default().trim().into()
}

/// Makes a congestion control the default of the network namespace of this thread, which must be one that this program has created. `key`
/// names the value in the message of a failure.
pub(crate) fn set_congestion(key: &str, name: &str) -> Result<(), Failure> {
    set_sysctl(DEFAULT, name).map_err(|error| {
        let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let available = available.unwrap_or_default().trim().replace(' ', ", ");
        Failure::new(
            key,
            format!("{name:?}: not permitted or not available ({error}); available: {available}"),
        )
    })
}
