//! Warnings about valid scenarios: keys without an effect, and long flows among which nothing is random.

use crate::results::rows::Unit;
use crate::scenario::plan::{Plan, ScenarioFile};
use catnip_base::Span;
use catnip_net::queue::{QueueKind, QueueSpec};
use catnip_net::stage::{StageKind, StageSpec};
use catnip_net::{NodeId, WireSpec};
use catnip_tcp::control::ControlSpec;
use std::collections::BTreeSet;

/// Key of a scenario, and what is odd about it.
pub(crate) type Warning = (String, String);

/// Returns the warnings about one variant. `unused` are the names in `[define]` to which nothing refers.
pub(crate) fn of_variant(file: &ScenarioFile, plan: &Plan, unused: &[String]) -> Vec<Warning> {
    let defines = unused.iter().map(|name| (format!("define.{name}"), "nothing refers to it".to_string()));
    defines
        .chain(without_link(plan))
        .chain(without_reader(file, plan))
        .chain(without_marks(file, plan))
        .chain(without_response(file, plan))
        .chain(beside_link_layer(plan))
        .chain(beyond_limit(plan))
        .chain(without_chance(plan))
        .collect()
}

/// Returns a warning about a node to which no link leads.
fn without_link(plan: &Plan) -> Option<Warning> {
    let topology = plan.topology();
    let linked: BTreeSet<NodeId> = topology.ports().iter().map(|port| port.from).collect();
    let node = (0..topology.node_count() as u32).map(NodeId).find(|node| !linked.contains(node))?;
    let name = topology.name(node);
    let entry = name.split('[').next().unwrap_or(name);
    Some((format!("node.{entry}"), format!("no link leads to {name}")))
}

/// Returns a warning about marks of priority on which the fate of no packet depends.
fn without_reader(file: &ScenarioFile, plan: &Plan) -> Option<Warning> {
    let reads =
        |wire: &WireSpec| wire.queue.traits().reads_priority || stages(wire).any(StageKind::reads_priority);
    if wires(plan).any(reads) {
        return None;
    }
    let marked = plan.traffic().iter().find_map(|group| Some((&group.name, group.marker.as_ref()?)));
    let (group, marker) = marked?;
    let message = format!("\"{marker}\": no queue, loss or policer of the network depends on priorities");
    Some((file.tcp_key(group, "marker")?, message))
}

/// Returns a warning about ECN where no queue marks packets.
fn without_marks(file: &ScenarioFile, plan: &Plan) -> Option<Warning> {
    let marks = |wire: &WireSpec| wire.queue.traits().marks_ecn || stages(wire).any(StageKind::marks_ecn);
    if wires(plan).any(marks) {
        return None;
    }
    let group = plan.traffic().iter().find(|group| group.tcp.ecn.is_enabled())?;
    let message = format!("\"{}\": no queue of the network marks packets", group.tcp.ecn);
    Some((file.tcp_key(&group.name, "ecn")?, message))
}

/// Returns a warning about a congestion control that does not respond to ECN marks.
fn without_response(file: &ScenarioFile, plan: &Plan) -> Option<Warning> {
    let is_deaf = |control: &ControlSpec| matches!(control, ControlSpec::Bbr(_) | ControlSpec::Bbr3(_));
    let ignores = |tcp: &catnip_tcp::TcpConfig| tcp.ecn.is_enabled() && is_deaf(&tcp.control);
    let group = plan.traffic().iter().find(|group| ignores(&group.tcp))?;
    let message = format!("\"{}\": {} does not respond to marks", group.tcp.ecn, group.tcp.control);
    Some((file.tcp_key(&group.name, "ecn")?, message))
}

/// Returns the warnings about queues of RED whose upper threshold is out of reach.
fn beyond_limit(plan: &Plan) -> impl Iterator<Item = Warning> {
    named_wires(plan).filter_map(|(name, wire)| {
        let red = match &wire.queue {
            QueueSpec::Red(red) => red,
            QueueSpec::CatnipRed(catnip) => &catnip.red,
            _ => return None,
        };
        let message =
            format!("\"{}\": the average queue never reaches max, which is above the limit", wire.queue);
        (red.parameters.max_threshold > red.limit.amount()).then(|| (format!("link.{name}.queue"), message))
    })
}

/// Returns the warnings about losses that a link with retransmissions of its own does not repair.
fn beside_link_layer(plan: &Plan) -> impl Iterator<Item = Warning> {
    named_wires(plan).filter_map(|(name, wire)| {
        let arq = wire.link_layer.as_ref().filter(|_| !wire.after.is_empty())?;
        let message =
            format!("losses that link_layer = \"{arq}\" does not repair: it repairs its own, loss=");
        Some((format!("link.{name}.wire_loss"), message))
    })
}

/// Returns a warning about long flows in a network in which nothing but their start may be random (S. Floyd and V. Jacobson, "Traffic
/// phase effects in packet-switched gateways", 1991).
fn without_chance(plan: &Plan) -> Option<Warning> {
    let is_random = |wire: &WireSpec| {
        wire.queue.traits().is_random
            || stages(wire).next().is_some()
            || (wire.jitter.is_some() || wire.link_layer.is_some() || wire.outage.is_some())
    };
    let topology = plan.topology();
    let mut nodes = (0..topology.node_count() as u32).map(NodeId);
    let has_chance = wires(plan).any(is_random)
        || nodes.any(|node| topology.processing(node) > Span::ZERO)
        || !plan.external_nodes().is_empty();
    let flows = || plan.traffic().iter().filter(|group| group.workload.unit() == Unit::FLOW);
    let is_all = flows().count() == plan.traffic().len();
    let several = flows().map(|group| group.users.len()).sum::<usize>() > 1;
    (is_all && several && !has_chance).then(|| {
        let message = "nothing but starts is random, and long flows may meet a full queue in the same order for ever (phase effects): \
                       set processing, such as \"20us\", for the hosts";
        ("node".to_string(), message.to_string())
    })
}

/// Returns the wire of each direction of the entries of `[link]`, with its name in results.
fn named_wires(plan: &Plan) -> impl Iterator<Item = (&str, &WireSpec)> {
    plan.ports().iter().filter_map(|port| {
        let wire = &plan.topology().ports()[port.ids.first()?.0 as usize].wire;
        Some((port.name.as_str(), &**wire))
    })
}

fn stages(wire: &WireSpec) -> impl Iterator<Item = &StageSpec> {
    wire.before.iter().chain(&wire.after).chain(&wire.conditioner)
}

fn wires(plan: &Plan) -> impl Iterator<Item = &WireSpec> {
    plan.topology().ports().iter().map(|port| &*port.wire)
}
