//! Settings of a network namespace that a priority codec needs.

use catnip_cli::failure::{Failure, failed};
use catnip_linux::namespace::set;
use catnip_wire::PriorityCodec;
use std::fs;
use std::path::Path;

/// The historical flag bit is CWR today, so that it says nothing where ECN is used (RFC 3168).
pub(crate) fn without_ecn(codec: PriorityCodec) -> Result<(), Failure> {
    let key = Path::new("/proc/sys/net/ipv4/tcp_ecn");
    let off = || fs::read_to_string(key).is_ok_and(|value| value.trim() == "0");
    if codec != PriorityCodec::FlagBit || off() {
        return Ok(());
    }
    let what = "flag-bit needs a namespace without ECN, switch it off first (sysctl net.ipv4.tcp_ecn=0)";
    Err(Failure::new("--codec", what))
}

/// In a namespace that is ours.
pub(crate) fn switch_ecn_off_for(codec: PriorityCodec) -> Result<(), Failure> {
    match codec {
        PriorityCodec::FlagBit => {
            set("net/ipv4/tcp_ecn", "0").map_err(failed("--codec", "switch ECN off in the new namespace"))
        }
        PriorityCodec::Dscp(_) => Ok(()),
    }
}
