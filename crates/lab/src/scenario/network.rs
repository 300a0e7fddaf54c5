//! Nodes and links of scenarios.

use crate::error::KeyError;
use crate::formats::link_profile::LinkProfile;
use crate::formats::path_file::PathFile;
use crate::run::memory;
use crate::scenario::describe::{Nodes, Wire};
use crate::scenario::external::{ExternalNode, NodeFile, NodeKind};
use crate::scenario::files::Files;
use crate::scenario::kinds::Kinds;
use catnip_base::Span;
use catnip_base::notation::did_you_mean;
use catnip_net::{NodeId, PortId, References, Sla, Topology, WireSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

/// Link between two nodes, with a wire in each direction. The keys of a wire apply to both directions, unless `there` or `back` sets them
/// for one direction. Paths of files are relative to the scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "link", extend("additionalProperties" = false))]
pub(crate) struct LinkFile {
    /// One or several nodes at the start of the link. If `from` and `to` select equally many nodes, the nodes are linked in pairs. If one
    /// side has fewer nodes, each of these nodes is linked to a block of neighbouring nodes of the other side.
    #[schemars(with = "Nodes", example = &"server")]
    from: String,
    /// One or several nodes at the end of the link.
    #[schemars(with = "Nodes", example = &"router")]
    to: String,
    /// Keys that apply only to the direction from `from` to `to`.
    #[serde(default)]
    #[schemars(with = "Wire", example = json!({ "loss": "bernoulli:1%" }), extend("x-default" = "same as the other direction"))]
    there: RawKeys,
    /// Keys that apply only to the direction from `to` to `from`.
    #[serde(default)]
    #[schemars(with = "Wire", example = json!({ "rate": "2Mbit" }), extend("x-default" = "same as the other direction"))]
    back: RawKeys,
    /// File with a recorded path, or name of a profile such as `lte`, whose keys apply where the link does not set them. The client of a
    /// profile is at `from`.
    #[schemars(example = &"slow-4g", extend("x-default" = "no file"))]
    path: Option<String>,
    #[serde(flatten)]
    #[schemars(with = "Wire")]
    both: RawKeys,
}

type RawKeys = BTreeMap<String, toml::Value>;

impl LinkFile {
    /// Returns the wire from `from` to `to`, followed by the wire from `to` to `from`. An error gives the wrong key and the reason.
    fn wires(&self, files: &Files, kinds: &Kinds) -> Result<[WireSpec; 2], KeyError> {
        for (prefix, keys) in [("", &self.both), ("there.", &self.there), ("back.", &self.back)] {
            if let Some((key, value)) = keys.iter().find(|(_, value)| !value.is_str()) {
                return Err((format!("{prefix}{key}"), format!("{value}: expected a text")));
            }
            if let Some(key) = keys.keys().find(|key| WireSpec::KEYS.iter().all(|known| known.name != *key)) {
                return Err((format!("{prefix}{key}"), unknown(key)));
            }
        }
        let open = |file: &str| files.text(file);
        let with = References { queues: &kinds.queues, stages: &kinds.stages, open: &open };
        let path = self.path_file(files)?;
        let wire = |side: usize| {
            let own = self.own(side);
            let set = |key| own.get(key).or(self.both.get(key)).and_then(toml::Value::as_str);
            let recorded = &path.wires[side];
            let text_of = |key| set(key).or_else(|| recorded.get(key).map(String::as_str));
            WireSpec::read(text_of, &with).map_err(|(key, message)| match &self.path {
                Some(file) if set(key).is_none() && recorded.contains_key(key) => {
                    ("path".into(), format!("{file:?}: {key}: {message}"))
                }
                _ => (self.key_path(side, key), message),
            })
        };
        Ok([wire(0)?, wire(1)?])
    }

    /// Reads the file with the recorded path, if there is one.
    fn path_file(&self, files: &Files) -> Result<PathFile, KeyError> {
        let Some(file) = &self.path else { return Ok(PathFile::default()) };
        let read = || files.text(file).and_then(|text| PathFile::parse(&text, Path::new(file)));
        LinkProfile::or_file(file, read).map_err(|problem| ("path".into(), format!("{file:?}: {problem}")))
    }

    /// Returns the keys that apply only to one direction: `side` is 0 from `from` to `to`, and 1 back.
    fn own(&self, side: usize) -> &RawKeys {
        [&self.there, &self.back][side]
    }

    /// Returns the path within the link at which a key of one direction is set.
    fn key_path(&self, side: usize, key: &str) -> String {
        let prefix = if self.own(side).contains_key(key) { ["there.", "back."][side] } else { "" };
        format!("{prefix}{key}")
    }
}

/// Returns the error message for a key that links do not have.
fn unknown(key: &str) -> String {
    match key.strip_suffix("_back") {
        Some(key) => {
            format!(
                "a value for the reverse direction is given as back.{key}, or in a table [link.NAME.back]"
            )
        }
        None => {
            let known = WireSpec::KEYS.iter().map(|key| key.name);
            let known: Vec<&str> =
                ["from", "to"].into_iter().chain(known).chain(["there", "back", "path"]).collect();
            let hint = did_you_mean(key, known.iter().copied());
            format!("expected one of {}{hint}", known.join(", "))
        }
    }
}

/// Network built from the nodes and links of a scenario.
pub(crate) struct Network {
    pub(crate) topology: Topology,
    /// Nodes by name.
    pub(crate) groups: BTreeMap<String, Vec<NodeId>>,
    /// Both directions of each entry of `[link]`; the direction from `from` to `to` comes first.
    pub(crate) ports: Vec<NamedPorts>,
    pub(crate) external: Vec<ExternalNode>,
    pub(crate) addresses: Vec<(NodeId, Ipv4Addr)>,
    /// Contracts of links, each with the key of the scenario that sets the contract, and the value of this key.
    contracts: Vec<(String, String, Sla)>,
}

impl Network {
    /// Checks that every token bucket of a contract is at least `longest_bytes` deep, since a longer packet could never pass the bucket.
    pub(crate) fn check_contracts(&self, longest_bytes: u64) -> Result<(), KeyError> {
        let narrow = self.contracts.iter().find(|(.., sla)| sla.min_depth() < longest_bytes);
        narrow.map_or(Ok(()), |(key, value, sla)| {
            let depth = sla.min_depth();
            let message = format!(
                "{value:?}: a bucket of {depth} bytes, too small for packets of {longest_bytes} bytes"
            );
            Err((key.clone(), message))
        })
    }

    /// Returns the mean rate of `link`, bit/s, in the direction in which the packets of all `pairs` (source and destination) cross the
    /// link.
    pub(crate) fn rate_of(&self, link: &str, pairs: &[(NodeId, NodeId)]) -> Result<f64, String> {
        let names = [link.to_string(), format!("{link}:back")];
        let ports: Vec<PortId> = self
            .ports
            .iter()
            .filter(|port| names.contains(&port.name))
            .filter_map(NamedPorts::single)
            .collect();
        if ports.is_empty() {
            return Err(format!("{link:?}: no such link, or several links of this name"));
        }
        let passes = |port: &PortId, &(from, to): &(NodeId, NodeId)| {
            self.topology.path(from, to).is_ok_and(|path| path.contains(port))
        };
        let port = ports.iter().find(|port| pairs.iter().all(|pair| passes(port, pair)));
        let port = port.ok_or_else(|| format!("{link:?}: not all packets of the group pass this link"))?;
        let rate = self.topology.ports()[port.0 as usize].wire.rate.mean();
        rate.map(|rate| rate.bits_per_second() as f64)
            .ok_or_else(|| format!("{link:?}: a share of an unlimited rate is undefined"))
    }
}

/// Ports of an entry of `[link]` in one direction.
#[derive(Clone, Debug)]
pub struct NamedPorts {
    /// Name in results: the name of the entry, followed by `:back` for the direction from `to` to `from`.
    pub name: String,
    /// Ports, one for each link.
    pub ids: Vec<PortId>,
}

impl NamedPorts {
    /// Returns the port if the entry has only one link.
    pub fn single(&self) -> Option<PortId> {
        match self.ids[..] {
            [id] => Some(id),
            _ => None,
        }
    }
}

/// Builds a network from the nodes and links of a scenario. `processing` is the processing time of hosts without the key.
pub(crate) fn build(
    files: &Files,
    nodes: &BTreeMap<String, NodeFile>,
    links: &BTreeMap<String, LinkFile>,
    processing: Option<Span>,
    kinds: &Kinds,
) -> Result<Network, KeyError> {
    let count = nodes.values().map(|node| u64::from(node.count)).sum();
    if let Some((name, largest)) = nodes.iter().max_by_key(|(_, node)| node.count)
        && let Some(reason) = memory::shortage(memory::of_nodes(count))
    {
        return Err((format!("node.{name}.count"), format!("{}: {reason}", largest.count)));
    }
    let mut topology = Topology::default();
    let mut groups: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    let (mut external, mut addresses) = (Vec::new(), Vec::new());
    for (name, node) in nodes {
        if node.count == 0 {
            return Err((format!("node.{name}.count"), "0: at least one node is needed".into()));
        }
        let mut add = |name: String| match node.kind {
            NodeKind::Host => topology.host(name),
            NodeKind::Router => topology.router(name),
        };
        let is_simulated_host = node.kind == NodeKind::Host && !node.is_external();
        let is_set = node.processing.is_some_and(|up_to| up_to.0.0.is_some());
        if is_set && !is_simulated_host {
            let message = "only simulated hosts have a processing time of their own";
            return Err((format!("node.{name}.processing"), message.into()));
        }
        let ids = match node.count {
            1 => vec![add(name.clone())],
            count => (0..count).map(|i| add(format!("{name}[{i}]"))).collect(),
        };
        let up_to = node.processing.map_or(processing, |up_to| up_to.0.0).unwrap_or_default();
        if is_simulated_host && up_to > Span::ZERO {
            ids.iter().for_each(|&id| topology.set_processing(id, up_to));
        }
        node.add_external(name, &ids, &mut external, &mut addresses)?;
        groups.insert(name.clone(), ids);
    }
    let (mut ports, mut contracts) = (Vec::new(), Vec::new());
    let mut linked: BTreeMap<(NodeId, NodeId), &str> = BTreeMap::new();
    for (name, link) in links {
        let select_end = |key: &str, nodes: &String| {
            select(&groups, nodes).map_err(|message| (format!("link.{name}.{key}"), message))
        };
        let (from, to) = (select_end("from", &link.from)?, select_end("to", &link.to)?);
        let (fewer, count) = (from.len().min(to.len()), from.len().max(to.len()));
        if !count.is_multiple_of(fewer) {
            let message = format!("{:?}: {} nodes cannot be paired with {}", link.to, to.len(), from.len());
            return Err((format!("link.{name}.to"), message));
        }
        // Each node of the smaller side is linked to a block of neighbours on the other side.
        let ends = (0..count).map(|i| (from[i * from.len() / count], to[i * to.len() / count]));
        if let Some((node, _)) = ends.clone().find(|(from, to)| from == to) {
            let message = format!("{:?}: {} would be linked to itself", link.to, topology.name(node));
            return Err((format!("link.{name}.to"), message));
        }
        for (from, to) in ends.clone() {
            if let Some(other) = linked.insert((from.min(to), from.max(to)), name) {
                let ends = format!("{} and {}", topology.name(from), topology.name(to));
                let message =
                    format!("{:?}: link.{other} already links {ends}, and packets take one", link.to);
                return Err((format!("link.{name}.to"), message));
            }
        }
        let wires = link.wires(files, kinds);
        let wires = wires.map_err(|(key, message)| (format!("link.{name}.{key}"), message))?;
        for (side, wire) in wires.iter().enumerate() {
            let key_path = |key| format!("link.{name}.{}", link.key_path(side, key));
            contracts
                .extend(wire.contracts().into_iter().map(|(key, value, sla)| (key_path(key), value, sla)));
        }
        let [there, back] = wires;
        let ids = topology.links(ends, there, back);
        ports.push(NamedPorts { name: name.clone(), ids: ids.iter().map(|id| id.forward()).collect() });
        let back = ids.iter().map(|id| id.back()).collect();
        ports.push(NamedPorts { name: format!("{name}:back"), ids: back });
    }
    Ok(Network { topology, groups, ports, external, addresses, contracts })
}

/// Returns nodes given by name: `client`, `client[3]`, `client[0..50]`, `client[0..100:2]` (every second one), `client[1..:2]`, or
/// `client[0..50 except 0..:10]`.
pub(crate) fn select(groups: &BTreeMap<String, Vec<NodeId>>, text: &str) -> Result<Vec<NodeId>, String> {
    let expected = || {
        format!(
            "{text:?}: expected a node or nodes, such as client, client[3], client[0..50:2] or client[0.. except 3]"
        )
    };
    let (name, numbers) = match text.split_once('[') {
        None => (text, None),
        Some((name, rest)) => (name, Some(rest.strip_suffix(']').ok_or_else(expected)?)),
    };
    let nodes = groups.get(name).ok_or_else(|| format!("{text:?}: no such node"))?;
    let Some(numbers) = numbers else { return Ok(nodes.clone()) };
    let range = |range: &str| {
        let chosen = Range::read(range, nodes.len()).ok_or_else(expected)?;
        let is_in_range = chosen.first <= chosen.end && chosen.end <= nodes.len();
        if is_in_range {
            Ok(chosen)
        } else {
            Err(format!("{text:?}: only {} nodes of this name", nodes.len()))
        }
    };
    let (included, excluded) = numbers.split_once(" except ").unwrap_or((numbers, ""));
    let included = range(included)?;
    let excluded =
        excluded.split(',').filter(|range| !range.is_empty()).map(range).collect::<Result<Vec<_>, _>>()?;
    let is_chosen = |i: &usize| included.has(*i) && !excluded.iter().any(|excluded| excluded.has(*i));
    let chosen: Vec<_> = (0..nodes.len()).filter(is_chosen).map(|i| nodes[i]).collect();
    if chosen.is_empty() { Err(format!("{text:?}: selects no node")) } else { Ok(chosen) }
}

/// Node numbers from `first` up to, but not including, `end`, in steps of `step`.
struct Range {
    first: usize,
    end: usize,
    step: usize,
}

impl Range {
    /// Parses `3`, `0..50`, `2..` or `1..:2`. A range without an end ends at `count`.
    fn read(text: &str, count: usize) -> Option<Self> {
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let (range, step) = match text.split_once(':') {
            None => (text, 1),
            Some((range, step)) => (range, number(step).filter(|&step| step > 0)?),
        };
        let (first, end) = match range.split_once("..") {
            None => (number(range)?, number(range)?.saturating_add(1)),
            Some((first, "")) => (number(first)?, count),
            Some((first, end)) => (number(first)?, number(end)?),
        };
        Some(Self { first, end, step })
    }

    fn has(&self, number: usize) -> bool {
        (self.first..self.end).contains(&number) && (number - self.first).is_multiple_of(self.step)
    }
}
