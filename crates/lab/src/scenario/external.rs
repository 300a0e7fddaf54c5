//! External hosts of scenarios, which only the emulator supports.

use crate::error::KeyError;
use crate::scenario::text::{OrNone, Text, one};
use catnip_base::Span;
use catnip_net::NodeId;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::Ipv4Addr;

/// External host of a scenario: a network namespace of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalNode {
    /// Node of the host in the network.
    pub node: NodeId,
    /// Command that runs on the host: a program and its arguments.
    pub command: Option<Vec<String>>,
    /// TCP port on which a program of the host must listen before the run begins.
    pub ready_tcp: Option<u16>,
    /// True if the run ends when the command exits.
    pub ends_run: bool,
    /// Congestion control of TCP in the host's kernel; `None` for the default of the machine.
    pub congestion: Option<String>,
    /// Initial window of TCP in the host's kernel, segments; `None` for the default of the machine.
    pub initial_window: Option<u32>,
}

/// Service of a traffic group: its port, its protocol, and the names of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// TCP port.
    pub port: u16,
    /// Protocol of the service.
    pub protocol: Protocol,
    /// Pattern of the names of objects.
    pub paths: Paths,
}

/// Protocol of connections with external hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1 (RFC 9112).
    Http {
        /// True for HTTP/1.1, where a connection persists after a response. False for HTTP/1.0.
        persistent: bool,
    },
    /// Echo protocol (RFC 862).
    Echo,
}

/// Pattern of the names of objects: a path with `{page}` (from 1), `{object}` (from 0), `{bytes}` and `{user}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths(String);

/// Values of the placeholders in the path of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectName {
    /// Number of the page, from 0.
    pub page: u32,
    /// Number of the object in its page, from 0.
    pub object: u32,
    /// Size of the object, bytes.
    pub bytes: u64,
    /// Number of the client.
    pub user: u32,
}

impl Paths {
    const KEYS: [&str; 4] = ["page", "object", "bytes", "user"];

    fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected a path such as /{page}/{object}, with {page}, {object}, {bytes}, {user}";
        let invalid = || format!("{text:?}: {expected}");
        if !text.starts_with('/') || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid());
        }
        let mut rest = text;
        while let Some((_, tail)) = rest.split_once('{') {
            let (key, tail) = tail.split_once('}').ok_or_else(invalid)?;
            if !Self::KEYS.contains(&key) {
                return Err(invalid());
            }
            rest = tail;
        }
        Ok(Self(text.into()))
    }

    /// Returns the path of an object.
    pub fn of(&self, name: ObjectName) -> String {
        let values = [u64::from(name.page) + 1, u64::from(name.object), name.bytes, u64::from(name.user)];
        let named = Self::KEYS.iter().zip(values);
        named.fold(self.0.clone(), |path, (key, value)| {
            path.replace(&format!("{{{key}}}"), &value.to_string())
        })
    }
}

/// Default port of servers, the port of HTTP.
pub(crate) const PORT: u16 = 80;

impl Service {
    /// Reads a service from the keys of a scenario. An error gives the wrong key and the reason.
    pub(crate) fn read(
        port: Option<u16>,
        paths: &str,
        protocol: Protocol,
    ) -> Result<Self, (&'static str, String)> {
        let port = port.unwrap_or(PORT);
        if port == 0 {
            return Err(("port", "0: expected a port from 1 to 65535".into()));
        }
        Ok(Self { port, protocol, paths: Paths::parse(paths).map_err(|message| ("paths", message))? })
    }
}

/// Returns true if all `nodes` are external hosts, and false if all are simulated hosts. Returns an error that cites `text` if both occur.
pub(crate) fn all_external(external: &[ExternalNode], nodes: &[NodeId], text: &str) -> Result<bool, String> {
    let is_external = |node: &NodeId| external.iter().any(|external| external.node == *node);
    let first = nodes.first().is_some_and(is_external);
    if nodes.iter().any(|node| is_external(node) != first) {
        return Err(format!(
            "{text:?}: both external and simulated hosts; use a separate group of traffic for each"
        ));
    }
    Ok(first)
}

/// Hosts or routers that share a name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "node")]
pub(crate) struct NodeFile {
    /// Kind of the node. Hosts send and receive traffic, routers forward packets.
    #[schemars(example = &"host")]
    pub(crate) kind: NodeKind,
    /// Number of nodes with this name. If there are several, they are numbered from 0, as in `NAME[0]`.
    #[serde(default = "one")]
    #[schemars(range(min = 1), example = 50)]
    pub(crate) count: u32,
    /// Random processing time of a simulated host: each packet that it receives takes up to this time, uniformly, and none overtakes
    /// another. Without it, packets of a few long flows meet full queues in the same order for ever, and one flow loses again and again
    /// (phase effects). The default is measured: Linux 6 acknowledges 95 to 99 % of packets within this time.
    #[schemars(
        example = &"100us",
        extend("x-default" = "20us if the profile of `[tcp]` is rfc or linux-6, otherwise none"),
    )]
    pub(crate) processing: Option<Text<OrNone<Span>>>,
    /// True if the host is external: a network namespace of this machine. Only `emulate` supports external hosts.
    #[serde(default, alias = "real")]
    #[schemars(example = true)]
    pub(crate) external: bool,
    /// Command that runs on the host: a program and its arguments. A host with a command is external.
    #[schemars(example = serde_json::json!(["nginx", "-c", "site.conf"]), extend("x-default" = "none"))]
    pub(crate) command: Option<Vec<String>>,
    /// IPv4 address of the host.
    #[schemars(example = &"172.16.5.2", extend("x-default" = "a free address of 10.0.0.0/8"))]
    pub(crate) address: Option<Ipv4Addr>,
    /// TCP port on which a program of the external host must listen before the run begins, as in `tcp:80`.
    #[schemars(pattern(r"^tcp:[0-9]+$|\{"), example = &"tcp:80", extend("x-default" = "no wait"))]
    pub(crate) ready: Option<String>,
    /// True if the run ends when the command of the host exits. If no other command can end the run, the exit code of this command becomes
    /// the exit code of the run.
    #[serde(default)]
    #[schemars(example = true)]
    pub(crate) ends_run: bool,
    /// Congestion control of TCP in the kernel of the external host.
    #[schemars(example = &"reno", extend("x-default" = "set by this machine"))]
    pub(crate) congestion: Option<String>,
    /// Initial window of TCP in the kernel of the external host, segments.
    #[schemars(range(min = 1), example = 10, extend("x-default" = "set by this machine"))]
    pub(crate) initial_window_segments: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(crate) enum NodeKind {
    Host,
    Router,
}

impl NodeFile {
    pub(crate) fn is_external(&self) -> bool {
        self.external || self.command.is_some()
    }

    /// Checks the keys that only external hosts have, and adds the nodes `ids` to `external` if they are external, and to `addresses` if
    /// they have an address.
    pub(crate) fn add_external(
        &self,
        name: &str,
        ids: &[NodeId],
        external: &mut Vec<ExternalNode>,
        addresses: &mut Vec<(NodeId, Ipv4Addr)>,
    ) -> Result<(), KeyError> {
        let invalid = |key: &str, message: String| Err((format!("node.{name}.{key}"), message));
        if self.kind == NodeKind::Router && (self.is_external() || self.address.is_some()) {
            return invalid("kind", "a router can be neither external nor have an address".into());
        }
        if let Some(address) = self.address {
            if ids.len() > 1 {
                return invalid(
                    "address",
                    format!("{address}: expected a single node, not {} nodes", ids.len()),
                );
            }
            if addresses.iter().any(|(_, other)| *other == address) {
                return invalid("address", format!("{address}: already the address of another node"));
            }
            let unusable = address.is_loopback()
                || address.is_multicast()
                || address.is_broadcast()
                || address.is_link_local()
                || address.is_unspecified();
            if unusable {
                return invalid("address", format!("{address}: not a usable host address"));
            }
            addresses.extend(ids.iter().map(|&id| (id, address)));
        }
        if !self.is_external() {
            let specified = [
                ("ready", self.ready.is_some()),
                ("ends_run", self.ends_run),
                ("congestion", self.congestion.is_some()),
                ("initial_window_segments", self.initial_window_segments.is_some()),
            ];
            return match specified.iter().find(|(_, specified)| *specified) {
                Some((key, _)) => {
                    invalid(key, "only for an external host, with a command or external = true".into())
                }
                None => Ok(()),
            };
        }
        if self.command.as_ref().is_some_and(Vec::is_empty) {
            return invalid("command", "[]: expected a program and its arguments".into());
        }
        if self.command.is_none() && self.ends_run {
            return invalid("ends_run", "needs a command".into());
        }
        if self.initial_window_segments == Some(0) {
            return invalid("initial_window_segments", "0: at least one segment is needed".into());
        }
        let ready_tcp = match self.ready.as_deref().map(|text| (text, text.strip_prefix("tcp:"))) {
            None => None,
            Some((text, port)) => match port.and_then(|port| port.parse().ok()).filter(|&port| port > 0) {
                Some(port) => Some(port),
                None => return invalid("ready", format!("{text:?}: expected a port such as tcp:80")),
            },
        };
        external.extend(ids.iter().map(|&node| ExternalNode {
            node,
            command: self.command.clone(),
            ready_tcp,
            ends_run: self.ends_run,
            congestion: self.congestion.clone(),
            initial_window: self.initial_window_segments,
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;
    use std::path::Path;

    const HEAD: &str = "id = 'X'\ntitle = 'x'\n";
    const TAIL: &str = "
        [link.l]\nfrom = 'a'\nto = 'b'\nrate = '1Mbit'\ndelay = '1ms'\nqueue = 'drop-tail:10'
        [traffic.t]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '10KB'\n";

    fn parse(nodes: &str, more: &str) -> Result<Scenario, String> {
        let text = format!("{HEAD}[node]\n{nodes}\n{TAIL}{more}");
        Scenario::parse(Path::new("x.toml"), &text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_real_node_is_for_the_emulator_only() {
        let scenario = parse(
            "a = { kind = 'host', command = ['nginx'], ready = 'tcp:8080', address = '172.16.5.2' }
             b = { kind = 'host' }",
            "port = 8080\npaths = '/files/{bytes}'",
        )
        .unwrap();
        let error = scenario.plan("default").unwrap_err().to_string();
        assert_eq!(
            error,
            "x.toml: node.a: an external host, which only the emulator supports: use catnip-emu emulate"
        );
        let plan = scenario.emulation("default").unwrap();
        assert_eq!(plan.external_nodes()[0].ready_tcp, Some(8080));
        let address = plan.addresses()[plan.external_nodes()[0].node.0 as usize];
        assert_eq!(address, Ipv4Addr::new(172, 16, 5, 2));
        assert_eq!(plan.documents(plan.external_nodes()[0].node), [("/files/10240".to_string(), 10240)]);
        assert_eq!(plan.groups().next().unwrap().service.port, 8080);
    }

    #[test]
    fn mistakes_are_named() {
        let host = "b = { kind = 'host' }";
        for (a, more, message) in [
            ("a = { kind = 'router', command = ['x'] }", "", "node.a.kind: a router can be neither external"),
            ("a = { kind = 'host', ready = 'tcp:80' }", "", "node.a.ready: only for an external host"),
            ("a = { kind = 'host', command = [] }", "", "node.a.command: []: expected a program"),
            (
                "a = { kind = 'host', command = ['x'], ready = '80' }",
                "",
                "node.a.ready: \"80\": expected a port",
            ),
            (
                "a = { kind = 'host', address = '127.0.0.1' }",
                "",
                "node.a.address: 127.0.0.1: not a usable host address",
            ),
            (
                "a = { kind = 'host', address = '10.0.0.1', count = 2 }",
                "",
                "node.a.address: 10.0.0.1: expected a single node",
            ),
            ("a = { kind = 'host' }", "port = 0", "traffic.t.port: 0: expected a port"),
            ("a = { kind = 'host' }", "paths = 'x'", "traffic.t.paths: \"x\": expected a path"),
            ("a = { kind = 'host' }", "paths = '/{size}'", "traffic.t.paths: \"/{size}\": expected a path"),
        ] {
            let error = parse(&format!("{a}\n{host}"), more).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        let both = "a = { kind = 'host', external = true }\nb = { kind = 'host', external = true }";
        let error = parse(both, "").unwrap_err();
        assert!(error.contains("traffic.t.to: \"b\": both ends are external"), "{error}");
    }

    #[test]
    fn paths_name_objects() {
        let paths = Paths::parse("/{page}/{object}.bin?user={user}&size={bytes}").unwrap();
        let name = ObjectName { page: 2, object: 0, bytes: 99, user: 7 };
        assert_eq!(paths.of(name), "/3/0.bin?user=7&size=99");
    }
}
