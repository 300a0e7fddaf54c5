//! Memory limits of runs. A run for which memory is lacking is refused, or ends with an error message before the system kills the process.

use std::fs;
use std::path::Path;

/// Memory for a host with its link, its user and one connection, bytes (measured: 200 000 clients in 589 MB).
const HOST_BYTES: u64 = 3000;
/// Memory that must stay free, bytes. A run ends if less memory is free.
const RESERVE: u64 = 64 << 20;

/// Returns the approximate minimum memory of a run of a network with this number of nodes, bytes.
pub(crate) fn of_nodes(nodes: u64) -> u64 {
    nodes.saturating_mul(HOST_BYTES)
}

/// Memory that is not asked about, bytes: to ask takes longer than to read a small variant, and is_short() sees the sum of many.
const LITTLE: u64 = 1 << 20;

/// Returns an error message if `needed` bytes of memory are not available.
pub(crate) fn shortage(needed: u64) -> Option<String> {
    if needed <= LITTLE {
        return None;
    }
    let free = free()?;
    (needed > free).then(|| {
        format!("needs about {} of memory, only {} are free", format_bytes(needed), format_bytes(free))
    })
}

/// Returns true if the free memory is below the minimum.
pub(crate) fn is_short() -> bool {
    free().is_some_and(|free| free < RESERVE)
}

/// Returns the number of bytes that this process can still allocate; `None` if it is unknown.
pub fn free() -> Option<u64> {
    [free_in_machine(), free_in_cgroup(), free_address_space()].into_iter().flatten().min()
}

fn free_in_machine() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = number_after(&meminfo, "MemAvailable:")?;
    Some(kilobytes * 1024)
}

/// Returns the free memory of the control group, version 1 or 2. Cached pages of files count as free, since the kernel releases them on
/// demand.
fn free_in_cgroup() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let free_in = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let (root, limit, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            _ if controllers.split(',').any(|it| it == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => return None,
        };
        let folder = Path::new(root).join(path);
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let cached = ["inactive_file ", "active_file "].map(|label| number_after(&stat, label).unwrap_or(0));
        let used = number(used)?.saturating_sub(cached.iter().sum());
        Some(number(limit)?.saturating_sub(used))
    };
    groups.lines().filter_map(free_in).min()
}

/// Returns how many bytes this process can still allocate within the limit of `ulimit -v`; `None` if there is no limit.
fn free_address_space() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let limit = number_after(&limits, "Max address space")?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(limit.saturating_sub(number_after(&status, "VmSize:")? * 1024))
}

/// Returns the number that follows `label` at the start of a line of `text`.
fn number_after(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}

fn format_bytes(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 30 { (1 << 20, "MB") } else { (1 << 30, "GB") };
    format!("{} {name}", bytes.div_ceil(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_behind_their_labels() {
        let meminfo = "MemTotal:       1000 kB\nMemAvailable:     24 kB\n";
        assert_eq!(number_after(meminfo, "MemAvailable:"), Some(24));
        assert_eq!(
            number_after(
                "Max address space         unlimited            unlimited            bytes\n",
                "Max address space"
            ),
            None
        );
        assert_eq!(
            number_after(
                "Max address space         4096                 unlimited            bytes\n",
                "Max address space"
            ),
            Some(4096)
        );
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_both_numbers() {
        let free = free().expect("this machine tells");
        assert_eq!(shortage(free / 2), None);
        let message = shortage(free.saturating_mul(3)).unwrap();
        assert!(message.starts_with("needs about ") && message.ends_with(" are free"), "{message}");
        assert!(!is_short());
    }
}
