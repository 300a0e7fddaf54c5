use crate::{Route, WireSpec};
use catnip_base::Span;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Identifier of a host or a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl Route {
    /// Returns the node at the end of the route.
    #[inline]
    pub const fn destination(self) -> NodeId {
        NodeId(self.0)
    }
}

/// Identifier of a port, the sending side of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

/// Identifier of a link with both directions. The ports of link `n` are `2 n` (from → to) and `2 n + 1` (to → from).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkId(pub u32);

impl LinkId {
    /// Returns the port at `from`.
    pub const fn forward(self) -> PortId {
        PortId(2 * self.0)
    }
    /// Returns the port at `to`.
    pub const fn back(self) -> PortId {
        PortId(2 * self.0 + 1)
    }
}

/// Configuration of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSpec {
    /// Sending node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// Wire between the two nodes.
    pub wire: Arc<WireSpec>,
}

/// Reason why a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// Missing path between two hosts.
    NoRoute {
        /// Name of the sending host.
        from: String,
        /// Name of the receiving host.
        to: String,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute { from, to } => write!(f, "no route from {from} to {to}"),
        }
    }
}

impl std::error::Error for TopologyError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Router,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    kind: Kind,
    /// Longest processing time per packet.
    processing: Span,
}

/// Network as plain data, from which both the simulator and the emulator build their fabric.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    nodes: Vec<Node>,
    ports: Vec<PortSpec>,
}

impl Topology {
    /// Adds a host, an edge of the network that does not forward packets.
    pub fn host(&mut self, name: impl Into<String>) -> NodeId {
        self.node(name.into(), Kind::Host)
    }

    /// Adds a router.
    pub fn router(&mut self, name: impl Into<String>) -> NodeId {
        self.node(name.into(), Kind::Router)
    }

    /// Sets the longest time that a host takes for a packet that it receives; the times are uniform.
    pub fn set_processing(&mut self, host: NodeId, up_to: Span) {
        self.nodes[host.0 as usize].processing = up_to;
    }

    /// Returns the longest time that a node takes for a packet that it receives.
    pub fn processing(&self, node: NodeId) -> Span {
        self.nodes[node.0 as usize].processing
    }

    /// Adds a link between two nodes: the wire `forward` from the first to the second, and the wire `back` in the other direction.
    pub fn link(&mut self, from: NodeId, to: NodeId, forward: WireSpec, back: WireSpec) -> LinkId {
        self.links([(from, to)], forward, back)[0]
    }

    /// Adds a link for each pair of nodes. All links share the same configuration in memory, which matters in large networks.
    pub fn links(
        &mut self,
        ends: impl IntoIterator<Item = (NodeId, NodeId)>,
        forward: WireSpec,
        back: WireSpec,
    ) -> Vec<LinkId> {
        let (forward, back) = (Arc::new(forward), Arc::new(back));
        let add = |(from, to)| {
            let id = LinkId(self.ports.len() as u32 / 2);
            self.ports.push(PortSpec { from, to, wire: forward.clone() });
            self.ports.push(PortSpec { from: to, to: from, wire: back.clone() });
            id
        };
        ends.into_iter().map(add).collect()
    }

    /// Returns the ports, indexed by [`PortId`].
    pub fn ports(&self) -> &[PortSpec] {
        &self.ports
    }

    /// Returns the name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.0 as usize].name
    }

    /// Returns true if the node is a router, which forwards packets and is not an endpoint of connections.
    pub fn is_router(&self, node: NodeId) -> bool {
        self.nodes[node.0 as usize].kind == Kind::Router
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Checks that the network has a path from the first to the second host of each pair.
    pub fn check_routes(
        &self,
        pairs: impl IntoIterator<Item = (NodeId, NodeId)>,
    ) -> Result<(), TopologyError> {
        let routes = Routes::new(self);
        for (from, to) in pairs {
            self.path_by(&routes, from, to)?;
        }
        Ok(())
    }

    /// Returns the ports on the path from one host to another, in order.
    pub fn path(&self, from: NodeId, to: NodeId) -> Result<Vec<PortId>, TopologyError> {
        self.path_by(&Routes::new(self), from, to)
    }

    fn path_by(&self, routes: &Routes, from: NodeId, to: NodeId) -> Result<Vec<PortId>, TopologyError> {
        let arrives_at = |port: PortId| self.ports[port.0 as usize].to;
        let path = std::iter::successors(routes.next(from, to), |&port| {
            let node = arrives_at(port);
            // Hosts do not forward packets.
            routes.router_index(node).filter(|_| node != to).and_then(|_| routes.next(node, to))
        });
        let path: Vec<PortId> = path.take(self.ports.len() + 1).collect();
        if path.last().map(|&port| arrives_at(port)) == Some(to) {
            return Ok(path);
        }
        Err(TopologyError::NoRoute { from: self.name(from).into(), to: self.name(to).into() })
    }

    fn node(&mut self, name: String, kind: Kind) -> NodeId {
        self.nodes.push(Node { name, kind, processing: Span::ZERO });
        NodeId(self.nodes.len() as u32 - 1)
    }
}

/// Static shortest-path routes (fewest hops, then the lowest port number).
///
/// Every host is attached to a router. The routes therefore consist of the router of each host and of a table of routes between routers: a
/// network of 100 000 hosts and two routers has a table of four entries.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    /// Router to which each node is attached (the node itself, for a router), and the port from that router to the node.
    anchor: Vec<Option<(NodeId, PortId)>>,
    /// Port on which each host sends all its packets.
    uplink: Vec<Option<PortId>>,
    /// Index of each node among the routers; `u32::MAX` for hosts.
    router_index: Vec<u32>,
    /// Next port at each router on the path to every other router: `towards[at * routers + destination]`.
    towards: Vec<Option<PortId>>,
    /// Routers by index.
    routers: Vec<NodeId>,
}

impl Routes {
    pub(crate) fn new(topology: &Topology) -> Self {
        let nodes = topology.nodes.len();
        let is_router = |node: NodeId| topology.nodes[node.0 as usize].kind == Kind::Router;
        let routers: Vec<NodeId> = (0..nodes as u32).map(NodeId).filter(|&n| is_router(n)).collect();
        let mut router_index = vec![u32::MAX; nodes];
        let mut anchor = vec![None; nodes];
        let mut uplink = vec![None; nodes];
        for (index, router) in routers.iter().enumerate() {
            router_index[router.0 as usize] = index as u32;
            anchor[router.0 as usize] = Some((*router, PortId(u32::MAX)));
        }
        for (id, port) in topology.ports.iter().enumerate() {
            if !is_router(port.from) {
                uplink[port.from.0 as usize].get_or_insert(PortId(id as u32));
            }
            if !is_router(port.to) {
                anchor[port.to.0 as usize].get_or_insert((port.from, PortId(id as u32)));
            }
        }
        let mut towards = vec![None; routers.len() * routers.len()];
        for (index, &destination) in routers.iter().enumerate() {
            for (at, port) in routes_to(topology, destination, is_router) {
                towards[router_index[at.0 as usize] as usize * routers.len() + index] = Some(port);
            }
        }
        Self { anchor, uplink, router_index, towards, routers }
    }

    /// Returns the port on which a packet at `at` leaves towards `destination`.
    #[inline]
    pub(crate) fn next(&self, at: NodeId, destination: NodeId) -> Option<PortId> {
        let Some(at_index) = self.router_index(at) else { return self.uplink(at) };
        let (anchor, last_port) = self.anchor[destination.0 as usize]?;
        if anchor == at {
            return Some(last_port);
        }
        let anchor_index = self.router_index(anchor)?;
        self.towards[at_index as usize * self.routers.len() + anchor_index as usize]
    }

    /// Returns the routers by index.
    pub(crate) fn routers(&self) -> &[NodeId] {
        &self.routers
    }

    /// Returns the index of a router, or `None` for a host.
    pub(crate) fn router_index(&self, node: NodeId) -> Option<u32> {
        Some(self.router_index[node.0 as usize]).filter(|&index| index != u32::MAX)
    }

    /// Returns the port on which a host sends all its packets.
    #[inline]
    pub(crate) fn uplink(&self, host: NodeId) -> Option<PortId> {
        self.uplink[host.0 as usize]
    }
}

/// Returns each router from which `destination` can be reached through routers, with the first port of the path.
fn routes_to(
    topology: &Topology,
    destination: NodeId,
    is_router: impl Fn(NodeId) -> bool,
) -> Vec<(NodeId, PortId)> {
    let mut into: Vec<Vec<(NodeId, PortId)>> = vec![Vec::new(); topology.nodes.len()];
    for (id, port) in topology.ports.iter().enumerate() {
        if is_router(port.from) && is_router(port.to) {
            into[port.to.0 as usize].push((port.from, PortId(id as u32)));
        }
    }
    let mut seen = vec![false; topology.nodes.len()];
    seen[destination.0 as usize] = true;
    let mut frontier = VecDeque::from([destination]);
    let mut found = Vec::new();
    while let Some(node) = frontier.pop_front() {
        for &(from, port) in &into[node.0 as usize] {
            if !std::mem::replace(&mut seen[from.0 as usize], true) {
                found.push((from, port));
                frontier.push_back(from);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::{Rate, Span};

    fn wire() -> WireSpec {
        let rate = Rate::from_bits_per_second(1_000_000).unwrap();
        WireSpec::new(rate, Span::ZERO, "drop-tail:10".parse().unwrap())
    }

    #[test]
    fn packets_take_the_fewest_hops_and_hosts_forward_nothing() {
        let mut t = Topology::default();
        let (a, b, shortcut) = (t.host("a"), t.host("b"), t.host("shortcut"));
        let (r, s, u) = (t.router("r"), t.router("s"), t.router("u"));
        let first = t.link(a, r, wire(), wire());
        t.link(r, shortcut, wire(), wire());
        t.link(shortcut, s, wire(), wire());
        let (ru, us) = (t.link(r, u, wire(), wire()), t.link(u, s, wire(), wire()));
        let last = t.link(s, b, wire(), wire());
        let routes = Routes::new(&t);
        assert_eq!(routes.next(a, b), Some(first.forward()));
        assert_eq!(routes.next(r, b), Some(ru.forward()));
        assert_eq!(routes.next(u, b), Some(us.forward()));
        assert_eq!(routes.next(s, b), Some(last.forward()));
        assert_eq!(routes.next(s, a), Some(us.back()));
        assert!(t.check_routes([(a, b), (b, a)]).is_ok());
    }

    #[test]
    fn a_missing_route_is_an_error_that_names_both_ends() {
        let mut t = Topology::default();
        let (a, b, r) = (t.host("a"), t.host("b"), t.router("r"));
        t.link(a, r, wire(), wire());
        assert_eq!(t.check_routes([(a, b)]).unwrap_err().to_string(), "no route from a to b");
    }
}
