//! What is kept of a run: users' pages, objects and connections, and what each named link did.

use super::audience::{Audience, Delivery, Reply};
use crate::buffers::Entry;
use crate::capture::Capture;
use crate::classify::Refusal;
use crate::clock::Stopwatch;
use crate::histogram::Histogram;
use crate::link;
use crate::monitor::Monitor;
use crate::pump::Observer;
use catnip_base::Time;
use catnip_lab::Plan;
use catnip_net::{DropReason, NodeId, Packet, PortId, WireSpec};
use catnip_sim::record::{ConnectionRecord, ObjectRecord, PageRecord};
use catnip_sim::{Event, Recorder};
use std::sync::Arc;

/// Keeps what results are made of.
#[derive(Debug)]
pub struct Watch {
    /// When each page was complete.
    pub pages: Vec<(Time, PageRecord)>,
    /// When each object was complete, and what a real server had answered.
    pub objects: Vec<(Time, ObjectRecord, Option<Reply>)>,
    /// The connections, with what went over those to real hosts.
    pub connections: Vec<(ConnectionRecord, Option<Reply>)>,
    /// Named links.
    pub links: Vec<LinkWatch>,
    /// Packets of real hosts that were not let in, by reason.
    pub refused: [u64; Refusal::COUNT],
    /// How much later than they should have simulated hosts have heard of packets.
    pub lateness: Histogram,
    /// Every packet.
    pub capture: Option<Capture>,
    /// By port: the link and the direction.
    by_port: Vec<Option<(usize, usize)>>,
    /// By port: does it lead to a real host?
    leads_out: Vec<bool>,
    replies: Vec<Reply>,
    /// When the packet in each buffer came to the port where it is.
    came: Vec<Time>,
    /// The port from which a packet goes to a real host next.
    last: Option<PortId>,
    /// Says how late things are; a run without one is never late.
    stopwatch: Option<Stopwatch>,
}

/// A named link that is watched as a link between two devices would be.
#[derive(Debug)]
pub struct LinkWatch {
    /// Its name in the scenario.
    pub name: String,
    /// Its two directions.
    pub ports: [PortId; 2],
    /// What they should be.
    pub wires: [Arc<WireSpec>; 2],
    /// What they were, `from` to `to` first.
    pub monitor: Monitor,
    /// Packets that came, and have neither come out nor been dropped, in either direction.
    pub inside: [u64; 2],
}

impl Watch {
    /// Watches a run of this plan.
    pub fn new(plan: &Plan, stopwatch: Option<Stopwatch>, capture: Option<Capture>) -> Self {
        let ports = plan.topology().ports();
        let mut by_port = vec![None; ports.len()];
        let links = plan.ports().chunks_exact(2).enumerate().map(|(index, both)| {
            let [(name, forward), (_, back)] = both else { unreachable!("a chunk has two") };
            by_port[forward.0 as usize] = Some((index, 0));
            by_port[back.0 as usize] = Some((index, 1));
            let wires = [forward, back].map(|port| ports[port.0 as usize].wire.clone());
            let monitor = link::monitor(&wires[0], &wires[1]);
            LinkWatch { name: name.clone(), ports: [*forward, *back], wires, monitor, inside: [0; 2] }
        });
        let links = links.collect();
        let is_real = |node| plan.real_nodes().iter().any(|real| real.node == node);
        let leads_out = ports.iter().map(|port| is_real(port.to)).collect();
        Self {
            pages: Vec::new(),
            objects: Vec::new(),
            connections: Vec::new(),
            links,
            refused: [0; Refusal::COUNT],
            lateness: Histogram::default(),
            capture,
            leads_out,
            last: None,
            by_port,
            replies: Vec::new(),
            came: Vec::new(),
            stopwatch,
        }
    }

    fn came_out(
        &mut self,
        ideal: Time,
        actual: Time,
        entry: &Entry,
        packet: &Packet,
        port: PortId,
        written: bool,
    ) {
        if let Some(OnLink { link, direction, entry, packet }) = self.link(entry, packet, port) {
            link.inside[direction] -= 1;
            link.monitor.delivered(ideal, actual, &entry, &packet, written);
        }
    }

    /// The link of a port, if it has a name, and the packet as the link's own monitor knows it.
    fn link(&mut self, entry: &Entry, packet: &Packet, port: PortId) -> Option<OnLink<'_>> {
        let (link, direction) = self.by_port[port.0 as usize]?;
        let flow = crate::pump::flow(2, direction, 1 - direction);
        let entry = Entry { arrived: self.came[packet.body as usize], from: direction as u32, ..*entry };
        Some(OnLink { link: &mut self.links[link], direction, entry, packet: Packet { flow, ..*packet } })
    }
}

struct OnLink<'a> {
    link: &'a mut LinkWatch,
    direction: usize,
    entry: Entry,
    packet: Packet,
}

impl Recorder for Watch {
    const PACKETS: bool = false;
    fn record(&mut self, now: Time, event: &Event) {
        match event {
            Event::Page(page) => self.pages.push((now, *page)),
            Event::Object(object) => {
                let answers = |reply: &Reply| reply.app == object.app && reply.tag == object.object;
                let reply = self.replies.last().copied().filter(answers);
                self.objects.push((now, *object, reply));
            }
            Event::Connection(connection) => {
                let at = self.replies.iter().position(|reply| reply.connection == connection.connection);
                let reply = at.map(|at| self.replies.remove(at));
                self.connections.push((*connection, reply));
            }
            _ => {}
        }
    }
}

impl Audience for Watch {
    fn entered(&mut self, entry: &Entry, packet: &Packet, bytes: &[u8]) {
        if let Some(capture) = &mut self.capture {
            capture.seen(entry, packet, bytes);
        }
    }

    fn dropped(&mut self, at: Time, entry: &Entry, packet: &Packet, port: PortId, why: DropReason) {
        if let Some(capture) = &mut self.capture {
            capture.dropped(at, entry, packet, port, why);
        }
        if let Some(OnLink { link, direction, entry, packet }) = self.link(entry, packet, port) {
            link.inside[direction] -= 1;
            link.monitor.dropped(at, &entry, &packet, port, why);
        }
    }

    fn delivered(&mut self, ideal: Time, entry: &Entry, packet: &Packet, real: Option<Delivery>) {
        let last = self.last.take();
        let delivery = real.unwrap_or_else(|| {
            let actual = self.stopwatch.map_or(ideal, |stopwatch| stopwatch.now().max(ideal));
            self.lateness.record(actual.since(ideal));
            Delivery { actual, written: true }
        });
        let Delivery { actual, written } = delivery;
        if let Some(capture) = &mut self.capture {
            capture.delivered(ideal, actual, entry, packet, written);
        }
        if let Some(port) = last.filter(|_| real.is_some()) {
            self.came_out(ideal, actual, entry, packet, port, written);
        }
    }

    fn came_to(&mut self, at: Time, entry: &Entry, packet: &Packet, port: PortId) {
        let buffer = packet.body as usize;
        if self.came.len() <= buffer {
            self.came.resize(buffer + 1, at);
        }
        self.came[buffer] = at;
        if let Some(OnLink { link, direction, entry, packet }) = self.link(entry, packet, port) {
            link.inside[direction] += 1;
            link.monitor.arrived(&entry, &packet);
        }
    }

    fn passed(&mut self, at: Time, entry: &Entry, packet: &Packet, port: PortId) {
        if self.leads_out[port.0 as usize] {
            // It has come out when it is written to the device.
            self.last = Some(port);
        } else {
            // Between simulated nodes nothing is ever late: the next one acts at the ideal time.
            self.came_out(at, at, entry, packet, port, true);
        }
    }

    fn replied(&mut self, reply: &Reply) {
        self.replies.push(*reply);
    }

    fn refused(&mut self, _at: Time, _from: NodeId, why: Refusal) {
        self.refused[why as usize] += 1;
    }
}
