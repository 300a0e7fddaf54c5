//! What scenarios say of nodes and links.

use crate::error::Wrong;
use crate::kinds::Kinds;
use crate::real::{NodeFile, NodeKind, RealNode};
use crate::text::from_text;
use catnip_base::{ParseError, Span, notation};
use catnip_net::jitter::JitterSpec;
use catnip_net::queue::QueueSpec;
use catnip_net::shape::RateSpec;
use catnip_net::stage::StageSpec;
use catnip_net::{LinkSpec, NodeId, PortId, Topology};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkFile {
    from: String,
    to: String,
    rate: String,
    rate_back: Option<String>,
    #[serde(deserialize_with = "from_text")]
    delay: Span,
    queue: String,
    loss: Option<String>,
    loss_back: Option<String>,
    wire_loss: Option<String>,
    wire_loss_back: Option<String>,
    #[serde(default, deserialize_with = "jitter")]
    jitter: Option<JitterSpec>,
}

fn jitter<'de, D: Deserializer<'de>>(d: D) -> Result<Option<JitterSpec>, D::Error> {
    notation::optional(&String::deserialize(d)?).map_err(de::Error::custom)
}

/// What the nodes and links of a scenario make.
pub(crate) struct Network {
    pub(crate) topology: Topology,
    /// Nodes of one name.
    pub(crate) groups: BTreeMap<String, Vec<NodeId>>,
    pub(crate) ports: Vec<(String, PortId)>,
    pub(crate) real: Vec<RealNode>,
    pub(crate) addresses: Vec<(NodeId, Ipv4Addr)>,
}

impl Network {
    /// The rate of the port of a link which packets between all these pairs pass, bit/s.
    pub(crate) fn rate_of(&self, link: &str, pairs: &[(NodeId, NodeId)]) -> Result<f64, String> {
        let ports: Vec<PortId> = [link.to_string(), format!("{link}:back")]
            .iter()
            .filter_map(|name| self.ports.iter().find(|(port, _)| port == name).map(|(_, id)| *id))
            .collect();
        if ports.is_empty() {
            return Err(format!("{link:?}: there is no such link, or there are several of this name"));
        }
        let passes = |port: &PortId, &(from, to): &(NodeId, NodeId)| {
            self.topology.path(from, to).is_ok_and(|path| path.contains(port))
        };
        let port = ports.iter().find(|port| pairs.iter().all(|pair| passes(port, pair)));
        let port = port.ok_or_else(|| format!("{link:?}: the packets do not all pass it"))?;
        let rate = self.topology.ports()[port.0 as usize].wire.rate.mean();
        rate.map(|rate| rate.bits_per_second() as f64)
            .ok_or_else(|| format!("{link:?}: its rate is unlimited, and so is a share of it"))
    }
}

/// Makes a network of the nodes and links of a scenario, which stands at `path`.
pub(crate) fn build(
    path: &Path,
    nodes: &BTreeMap<String, NodeFile>,
    links: &BTreeMap<String, LinkFile>,
    kinds: &Kinds,
) -> Result<Network, Wrong> {
    let mut topology = Topology::default();
    let mut groups: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    let (mut real, mut addresses) = (Vec::new(), Vec::new());
    for (name, node) in nodes {
        if node.count == 0 {
            return Err((format!("node.{name}.count"), "0: at least one node is needed".into()));
        }
        let mut add = |name: String| match node.kind {
            NodeKind::Host => topology.host(name),
            NodeKind::Router => topology.router(name),
        };
        let ids = match node.count {
            1 => vec![add(name.clone())],
            count => (0..count).map(|i| add(format!("{name}[{i}]"))).collect(),
        };
        node.note_real(name, &ids, &mut real, &mut addresses)?;
        groups.insert(name.clone(), ids);
    }
    let mut ports = Vec::new();
    for (name, link) in links {
        let end = |key: &str, group: &String| {
            let nodes = groups.get(group).cloned();
            nodes.ok_or_else(|| (format!("link.{name}.{key}"), format!("{group:?}: there is no such node")))
        };
        let (from, to) = (end("from", &link.from)?, end("to", &link.to)?);
        if from.len() != to.len() && from.len() != 1 && to.len() != 1 {
            let what = format!("{:?}: {} nodes cannot be paired with {}", link.to, to.len(), from.len());
            return Err((format!("link.{name}.to"), what));
        }
        let count = from.len().max(to.len());
        let ends = (0..count).map(|i| (from[i % from.len()], to[i % to.len()]));
        let wrong = |key| move |error: ParseError| (format!("link.{name}.{key}"), error.to_string());
        let rate = |key, text: &str| RateSpec::read(text, |file| open(path, file)).map_err(wrong(key));
        let stage = |key, text: &Option<String>| match text.as_deref() {
            None | Some("none") => Ok(None),
            Some(text) => StageSpec::read_with(text, &kinds.stages).map(Some).map_err(wrong(key)),
        };
        if let Some(least) =
            link.jitter.map(|jitter| jitter.least_delay()).filter(|&least| link.delay < least)
        {
            let what =
                format!("the delay of {} is below {least}, so that packets would arrive early", link.delay);
            return Err((format!("link.{name}.jitter"), what));
        }
        let ids = topology.links(
            ends,
            LinkSpec {
                rate: rate("rate", &link.rate)?,
                rate_back: link.rate_back.as_deref().map(|text| rate("rate_back", text)).transpose()?,
                delay: link.delay,
                queue: QueueSpec::read_with(&link.queue, &kinds.queues).map_err(wrong("queue"))?,
                loss: stage("loss", &link.loss)?,
                loss_back: stage("loss_back", &link.loss_back)?,
                wire_loss: stage("wire_loss", &link.wire_loss)?,
                wire_loss_back: stage("wire_loss_back", &link.wire_loss_back)?,
                jitter: link.jitter,
            },
        );
        if let [id] = ids[..] {
            ports.push((name.clone(), id.forward()));
            ports.push((format!("{name}:back"), id.back()));
        }
    }
    Ok(Network { topology, groups, ports, real, addresses })
}

/// The text of a file that a scenario names.
fn open(scenario: &Path, file: &str) -> Result<String, String> {
    let path = beside(scenario, Path::new(file));
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Files that a scenario names are relative to it.
pub(crate) fn beside(scenario: &Path, file: &Path) -> PathBuf {
    scenario.parent().unwrap_or(Path::new("")).join(file)
}

/// Nodes by name: `client`, `client[3]`, `client[0..50]` or `client[0..100:2]` (every second one).
pub(crate) fn select(groups: &BTreeMap<String, Vec<NodeId>>, text: &str) -> Result<Vec<NodeId>, String> {
    let expected =
        || format!("{text:?}: expected a node or nodes, such as client, client[3] or client[0..50:2]");
    let (name, range) = match text.split_once('[') {
        None => (text, None),
        Some((name, rest)) => (name, Some(rest.strip_suffix(']').ok_or_else(expected)?)),
    };
    let nodes = groups.get(name).ok_or_else(|| format!("{text:?}: there is no such node"))?;
    let Some(range) = range else { return Ok(nodes.clone()) };
    let number = |text: &str| text.parse::<usize>().map_err(|_| expected());
    let (range, step) = match range.split_once(':') {
        None => (range, 1),
        Some((range, step)) => (range, number(step).ok().filter(|&step| step > 0).ok_or_else(expected)?),
    };
    let (first, end) = match range.split_once("..") {
        None => (number(range)?, number(range)?.saturating_add(1)),
        Some((first, end)) => (number(first)?, number(end)?),
    };
    let chosen =
        nodes.get(first..end).ok_or_else(|| format!("{text:?}: there are {} of them", nodes.len()))?;
    let chosen: Vec<_> = chosen.iter().copied().step_by(step).collect();
    if chosen.is_empty() { Err(format!("{text:?}: selects nobody")) } else { Ok(chosen) }
}
