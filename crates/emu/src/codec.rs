//! ECN settings of a network namespace, which a codec of priorities that uses the ECN bits requires to be off.

use catnip_cli::failure::{Failure, failed};
use catnip_linux::namespace::set_sysctl;
use catnip_wire::PriorityCodec;
use std::fs;
use std::path::Path;

/// Returns an error if the codec is the historical flag bit and ECN is on. This bit is CWR today, so it cannot encode a priority in packets
/// of connections with ECN (RFC 3168).
pub(crate) fn check_no_ecn(codec: PriorityCodec) -> Result<(), Failure> {
    let key = Path::new("/proc/sys/net/ipv4/tcp_ecn");
    let is_off = || fs::read_to_string(key).is_ok_and(|value| value.trim() == "0");
    if codec != PriorityCodec::FlagBit || is_off() {
        return Ok(());
    }
    let problem =
        "flag-bit requires a namespace without ECN; switch ECN off first (sysctl net.ipv4.tcp_ecn=0)";
    Err(Failure::new("--codec", problem))
}

/// Switches ECN off in the network namespace of this thread if the codec requires it. The namespace must be one that this program has
/// created.
pub(crate) fn disable_ecn_for(codec: PriorityCodec) -> Result<(), Failure> {
    match codec {
        PriorityCodec::FlagBit => set_sysctl("net/ipv4/tcp_ecn", "0")
            .map_err(failed("--codec", "switch ECN off in the new namespace")),
        PriorityCodec::Dscp(_) => Ok(()),
    }
}
