//! How much memory runs may take: they are refused, or end with a sentence, before the machine ends them.

use std::fs;
use std::path::Path;

/// What a host takes with its link, its user and a connection of it (measured: 200 000 clients in 589 MB).
const HOST_BYTES: u64 = 3000;
/// Less than this is left for nobody else: a run ends.
const RESERVE: u64 = 64 << 20;

/// About what one run of a network of so many nodes takes, at least.
pub(crate) fn of_nodes(nodes: u64) -> u64 {
    nodes.saturating_mul(HOST_BYTES)
}

/// Why so many bytes cannot be had, if they cannot.
pub(crate) fn refusal(needed: u64) -> Option<String> {
    let free = free()?;
    (needed > free).then(|| format!("needs about {} of memory, and {} are free", shown(needed), shown(free)))
}

/// Is there next to nothing left?
pub(crate) fn is_short() -> bool {
    free().is_some_and(|free| free < RESERVE)
}

/// Bytes that this process can still have; `None` if nobody says so.
pub fn free() -> Option<u64> {
    [of_machine(), of_group(), of_limit()].into_iter().flatten().min()
}

fn of_machine() -> Option<u64> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = after(&told, "MemAvailable:")?;
    Some(kilobytes * 1024)
}

/// What the control group allows, in either version of them. What files have left in memory is given back when it is needed.
fn of_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let left = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let (root, most, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            _ if controllers.split(',').any(|it| it == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => return None,
        };
        let folder = Path::new(root).join(path);
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let told = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let of_files = ["inactive_file ", "active_file "].map(|label| after(&told, label).unwrap_or(0));
        let used = number(used)?.saturating_sub(of_files.iter().sum());
        Some(number(most)?.saturating_sub(used))
    };
    groups.lines().filter_map(left).min()
}

/// What `ulimit -v` allows.
fn of_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let most = after(&limits, "Max address space")?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(most.saturating_sub(after(&status, "VmSize:")? * 1024))
}

/// The number behind a label.
fn after(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}

fn shown(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 30 { (1 << 20, "MB") } else { (1 << 30, "GB") };
    format!("{} {name}", bytes.div_ceil(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_behind_their_labels() {
        let told = "MemTotal:       1000 kB\nMemAvailable:     24 kB\n";
        assert_eq!(after(told, "MemAvailable:"), Some(24));
        assert_eq!(
            after(
                "Max address space         unlimited            unlimited            bytes\n",
                "Max address space"
            ),
            None
        );
        assert_eq!(
            after(
                "Max address space         4096                 unlimited            bytes\n",
                "Max address space"
            ),
            Some(4096)
        );
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_both_numbers() {
        let free = free().expect("this machine tells");
        assert_eq!(refusal(free / 2), None);
        let told = refusal(free.saturating_mul(3)).unwrap();
        assert!(told.starts_with("needs about ") && told.ends_with(" are free"), "{told}");
        assert!(!is_short());
    }
}
