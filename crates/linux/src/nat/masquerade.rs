//! Address translation in the kernel for the links of a network namespace, by nftables.
//!
//! All links share one table. It has the present links and their networks, and the devices for which a link has switched forwarding on. The
//! last link to end reverts all changes, including those of links that were killed. The table is part of the namespace, so that nothing is
//! left of it elsewhere.

use crate::file_lock::FileLock;
use crate::netlink::Netlink;
use crate::sys;
use catnip_cli::failure::{Failure, failed};
use ipnet::IpNet;
use rustix::process::geteuid;
use serde_json::Value;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Lock of the table. Other users can neither create nor open it.
const LOCK: &str = "/run/catnip-emu-nat.lock";
/// Time limit for other links, which hold the lock while they begin and end.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Folder with the IPv4 settings of all devices of this thread's namespace.
const SETTINGS: &str = "/proc/sys/net/ipv4/conf";

const TABLE: [&str; 3] = ["table", "ip", "catnip_emu"];
/// Table without elements. Sets of marks repeat the indices of devices as numbers, because `nft` prints devices by names, which it neither
/// quotes nor prints whole.
///
/// Packets that are forwarded only because a link needs it must come from a link or be an answer to it: other machines neither use this one as their
/// router nor reach what runs behind a link. Links do not reach each other. `enter` protects the relay of DNS queries.
const RULES: &str = "
table ip catnip_emu {
  set links { type iface_index; }
  set link_numbers { type mark; }
  set forwarding { type iface_index; }
  set forwarding_numbers { type mark; }
  set networks { type ipv4_addr; flags interval; }
  chain out { type nat hook postrouting priority srcnat; }
  chain pass { type filter hook forward priority filter - 5; }
  chain enter { type filter hook input priority filter - 5; }
}
flush chain ip catnip_emu out
flush chain ip catnip_emu pass
flush chain ip catnip_emu enter
add rule ip catnip_emu out ip saddr @networks oif != @links masquerade
add rule ip catnip_emu pass oif @links ct state established,related accept
add rule ip catnip_emu pass oif @links drop
add rule ip catnip_emu pass iif @links accept
add rule ip catnip_emu pass iif @forwarding drop
add rule ip catnip_emu enter iif != @links iif != \"lo\" ip daddr @networks drop
";

/// Translated network of a link. Its changes are reverted by [`Self::end`].
#[derive(Debug)]
pub(super) struct Translation {
    device: u32,
    network: IpNet,
}

impl Translation {
    /// Translates the source addresses of packets from `network`, which arrive from `device`, to addresses of this thread's namespace.
    pub(super) fn begin(device: &str, network: IpNet) -> Result<Self, Failure> {
        let _lock = lock()?;
        end_if_last()?;
        if let Some(chain) = blocking_chain(&list(&["ruleset"])?, device) {
            let problem = format!(
                "the firewall drops forwarded packets ({chain}); add rules there that accept iifname \"{device}\" and oifname \"{device}\""
            );
            return Err(Failure::new("--nat", problem));
        }
        let index = devices()?.into_iter().find(|(_, name)| name == device).map(|(index, _)| index);
        let device = index.ok_or_else(|| cannot_find(device))?;
        let translation = Self { device, network };
        let begun = translation.add_elements().and_then(|()| translation.switch_forwarding_on());
        match begun {
            Ok(()) => Ok(translation),
            Err(failure) => {
                let _ = translation.remove();
                Err(failure)
            }
        }
    }

    /// Ends the translation, and reverts all changes of this namespace if no other link is left.
    pub(super) fn end(self) -> Result<(), Failure> {
        // Another link that does not end must not keep this machine's settings.
        let _lock = lock();
        self.remove()
    }

    fn add_elements(&self) -> Result<(), Failure> {
        let Self { device, network } = self;
        change(&format!(
            "{RULES}
            add element ip catnip_emu links {{ {} }}
            add element ip catnip_emu link_numbers {{ {device} }}
            add element ip catnip_emu networks {{ {network} }}",
            of_index(*device)
        ))
    }

    /// Switches forwarding on where it is off, for all present devices: any of them may lead to a network that the command reaches.
    fn switch_forwarding_on(&self) -> Result<(), Failure> {
        for (index, name) in devices()? {
            let file = Path::new(SETTINGS).join(&name).join("forwarding");
            if name == "lo" || fs::read_to_string(&file).is_ok_and(|value| value.trim() != "0") {
                continue;
            }
            // The rules that guard the device come first.
            change(&format!(
                "add element ip catnip_emu forwarding {{ {} }}
                add element ip catnip_emu forwarding_numbers {{ {index} }}",
                of_index(index)
            ))?;
            match fs::write(&file, "1") {
                // The device has been removed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                written => written.map_err(failed("--nat", "switch forwarding on"))?,
            }
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), Failure> {
        let Self { device, network } = self;
        let removed = change(&format!(
            "delete element ip catnip_emu links {{ {} }}
            delete element ip catnip_emu link_numbers {{ {device} }}
            delete element ip catnip_emu networks {{ {network} }}",
            of_index(*device)
        ));
        end_if_last().and(removed)
    }
}

/// Reverts what links of this namespace have left that were killed. Does nothing for ordinary users, and while links are present.
pub fn clean() -> Result<(), Failure> {
    if !geteuid().is_root() || !sys::is_installed("nft") || list(&TABLE).is_err() {
        return Ok(());
    }
    let _lock = lock()?;
    end_if_last()
}

fn end_if_last() -> Result<(), Failure> {
    // Without the table there is nothing to revert.
    let Ok(table) = list(&TABLE) else { return Ok(()) };
    let present = devices()?;
    let named = |index: &u32| present.iter().find(|(other, _)| other == index).map(|(_, name)| name);
    if elements(&table, "link_numbers").iter().any(|index| named(index).is_some()) {
        return Ok(());
    }
    let mut reverted = Ok(());
    for name in elements(&table, "forwarding_numbers").iter().filter_map(named) {
        let file = Path::new(SETTINGS).join(name).join("forwarding");
        reverted = fs::write(file, "0").and(reverted);
    }
    change("delete table ip catnip_emu")?;
    reverted.map_err(failed("--nat", "switch forwarding off"))
}

/// Returns the first chain with the policy `drop` for forwarded IPv4 packets in whose table no rule names `device`, as `nft` names it.
fn blocking_chain(ruleset: &Value, device: &str) -> Option<String> {
    let of =
        |kind: &'static str| ruleset["nftables"].as_array().into_iter().flatten().map(move |one| &one[kind]);
    let is_of_ipv4 = |chain: &&Value| matches!(chain["family"].as_str(), Some("ip" | "inet"));
    let is_blocking = |chain: &&Value| chain["hook"] == "forward" && chain["policy"] == "drop";
    let names_device = |chain: &Value| {
        of("rule").any(|rule| {
            rule["family"] == chain["family"]
                && rule["table"] == chain["table"]
                && mentions(&rule["expr"], device)
        })
    };
    let blocking = of("chain").filter(is_of_ipv4).filter(is_blocking).find(|chain| !names_device(chain))?;
    let text = |key: &str| blocking[key].as_str().unwrap_or_default().to_string();
    Some(format!("table {} {}, chain {}, policy drop", text("family"), text("table"), text("name")))
}

/// Returns true if an expression has the name of the device or a pattern that it matches, such as `catnip*`.
fn mentions(expression: &Value, device: &str) -> bool {
    match expression {
        Value::String(text) => {
            text == device || text.strip_suffix('*').is_some_and(|start| device.starts_with(start))
        }
        Value::Array(items) => items.iter().any(|item| mentions(item, device)),
        Value::Object(members) => members.values().any(|member| mentions(member, device)),
        _ => false,
    }
}

/// Returns a device's index as `nft` reads it: longer than any name, because `nft` first looks for a device with this name.
fn of_index(index: u32) -> String {
    format!("\"{index:016}\"")
}

/// Returns the elements of a set of numbers.
fn elements(table: &Value, set: &str) -> Vec<u32> {
    let sets = table["nftables"].as_array().into_iter().flatten().map(|one| &one["set"]);
    let elements = sets.filter(|one| one["name"] == set).flat_map(|one| one["elem"].as_array()).flatten();
    elements.filter_map(|element| u32::try_from(element.as_u64()?).ok()).collect()
}

/// Returns the indices and names of all devices of this thread's namespace.
fn devices() -> Result<Vec<(u32, String)>, Failure> {
    let listed = Netlink::open().and_then(|mut netlink| netlink.devices());
    let listed = listed.map_err(failed("--nat", "list the network devices"))?;
    Ok(listed.into_iter().map(|(name, device)| (device.index, name)).collect())
}

fn lock() -> Result<FileLock, Failure> {
    let mut waited = Duration::ZERO;
    loop {
        match FileLock::take(Path::new(LOCK)).map_err(failed(LOCK, "lock it"))? {
            Some(lock) => return Ok(lock),
            None if waited < LOCK_TIMEOUT => {
                thread::sleep(POLL_INTERVAL);
                waited += POLL_INTERVAL;
            }
            None => {
                let holder = FileLock::holder(Path::new(LOCK));
                return Err(Failure::new("--nat", format!("{holder} has held {LOCK} for {LOCK_TIMEOUT:?}")));
            }
        }
    }
}

fn list(what: &[&str]) -> Result<Value, Failure> {
    let output = nft(Command::new("nft").args(["--json", "list"]).args(what), "")?;
    serde_json::from_slice(&output).map_err(|error| Failure::new("--nat", format!("nft: {error}")))
}

fn change(commands: &str) -> Result<(), Failure> {
    nft(Command::new("nft").args(["-f", "-"]), commands).map(drop)
}

/// Runs `nft` with an input, and returns its output. The first line of its errors becomes the failure.
fn nft(command: &mut Command, input: &str) -> Result<Vec<u8>, Failure> {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = || -> io::Result<_> {
        let mut child = command.spawn()?;
        child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()))?;
        child.wait_with_output()
    };
    let output = run().map_err(failed("--nat", "run nft"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let first = errors.lines().next().unwrap_or("nft failed");
    Err(Failure::new("--nat", first.to_string()))
}

fn cannot_find(device: &str) -> Failure {
    Failure::new("--nat", format!("there is no device {device}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chain(family: &str, policy: &str) -> Value {
        let fields = ["filter", "FORWARD", "forward"];
        json!({"chain": {"family": family, "table": fields[0], "name": fields[1], "hook": fields[2], "policy": policy}})
    }

    fn rule(family: &str, right: &Value) -> Value {
        let accepts = json!([{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": right}}, {"accept": null}]);
        json!({"rule": {"family": family, "table": "filter", "chain": "other", "expr": accepts}})
    }

    fn blocking(objects: &[Value]) -> Option<String> {
        blocking_chain(&json!({ "nftables": objects }), "catnip0")
    }

    #[test]
    fn a_chain_that_drops_forwarded_ipv4_packets_is_named_unless_a_rule_of_its_table_names_the_device() {
        let inet = Some("table inet filter, chain FORWARD, policy drop".to_string());
        assert_eq!(blocking(&[chain("inet", "drop")]), inet);
        assert_eq!(blocking(&[chain("ip", "drop")]), inet.clone().map(|text| text.replace("inet", "ip")));
        assert_eq!(blocking(&[chain("ip6", "drop"), chain("bridge", "drop"), chain("inet", "accept")]), None);
        for (right, expected) in [
            (json!("catnip0"), None),
            (json!("catnip*"), None),
            (json!({"set": ["eth0", "catnip0"]}), None),
            (json!("catnip1"), inet.clone()),
            (json!("eth*"), inet.clone()),
        ] {
            assert_eq!(blocking(&[chain("inet", "drop"), rule("inet", &right)]), expected, "{right}");
        }
        assert_eq!(blocking(&[chain("inet", "drop"), rule("ip", &json!("catnip0"))]), inet, "another table");
    }

    #[test]
    fn the_indices_in_a_set_are_read_as_nft_prints_them() {
        let table = json!({"nftables": [
            {"metainfo": {"version": "1.0.6"}},
            {"set": {"name": "link_numbers", "type": "mark", "elem": [4, 17]}},
            {"set": {"name": "forwarding_numbers", "type": "mark"}},
        ]});
        assert_eq!(elements(&table, "link_numbers"), [4, 17]);
        assert!(elements(&table, "forwarding_numbers").is_empty());
    }
}
