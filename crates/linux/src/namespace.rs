//! Entering network namespaces, and settings and devices of the entered namespace.

use crate::netlink::Netlink;
use crate::sys;
use catnip_cli::failure::{Failure, failed};
use std::fs;
use std::io;
use std::path::Path;

/// Moves this process to a new network namespace, in which it has all privileges without being root. `purpose` names the planned devices or
/// namespaces in the error message.
pub fn enter_netns_as_user(purpose: &str) -> Result<(), Failure> {
    sys::enter_new_user_namespace().and_then(|()| sys::enter_new_netns()).map_err(|error| {
        Failure::new(
            "permission",
            format!(
                "cannot create {purpose}, and no user namespace is available ({error}); run as root, or permit \
                 user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns)"
            ),
        )
    })
}

/// Returns the failure, with a remedy, for a TUN device named `name` that could not be opened because of `error`.
pub fn tun_failure(name: &str, error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Failure::new(
            "/dev/net/tun",
            "no TUN device; load the module (modprobe tun) or give the container access to the device",
        ),
        Some(libc::EACCES) => Failure::new(
            "/dev/net/tun",
            "no permission to open it; run as root or make it accessible (chmod 0666)",
        ),
        Some(libc::EPERM) => {
            Failure::new("/dev/net/tun", "no permission to create a device in this namespace; run as root")
        }
        // The error is EINVAL if the existing device is not a TUN device.
        Some(libc::EBUSY | libc::EINVAL) if Netlink::open().and_then(|mut it| it.index_of(name)).is_ok() => {
            Failure::new("--device", format!("{name} already exists; choose another name"))
        }
        Some(libc::EINVAL) | None => Failure::new(
            "--device",
            format!("{name:?} is not a valid device name; use up to 15 letters and digits"),
        ),
        _ => Failure::new("/dev/net/tun", format!("cannot create the device {name}: {error}")),
    }
}

/// Brings up the loopback device of the namespace of `netlink`.
pub fn bring_up_loopback(netlink: &mut Netlink) -> Result<(), Failure> {
    let up = netlink.index_of("lo").and_then(|index| netlink.bring_up(index, None, None));
    up.map_err(failed("lo", "bring it up"))
}

/// Sets a sysctl of this network namespace. `key` is a path such as `net/ipv4/ip_forward`.
pub fn set_sysctl(key: &str, value: &str) -> io::Result<()> {
    fs::write(Path::new("/proc/sys").join(key), value)
}
