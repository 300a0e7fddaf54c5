//! Parser of the log of a link, and replay of the recorded arrivals in the same network without an emulator.

#![allow(dead_code, reason = "each test file uses what it needs")]

use catnip_base::Time;
use catnip_net::{DropReason, Ecn, Fabric, NetworkEvents, NodeId, Out, Packet, PortId, Priority};
use catnip_sim::watch::{Origin, Step};
use catnip_sim::{Event, Watch};

/// Columns of a log.
const HEADER: &str = "event,time_ns,number,edge,flow,len_bytes,priority,ecn,reason,lateness_ns";

/// Packet that entered a network, from its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Time of entry.
    pub(crate) at: Time,
    /// Number in order of arrival at any edge, from 0.
    pub(crate) number: u64,
    /// Index of the node at which the packet entered.
    pub(crate) edge: u32,
    /// Flow hash for fair queueing.
    pub(crate) flow: u16,
    /// Length, bytes.
    pub(crate) len: u32,
    /// Priority.
    pub(crate) priority: Priority,
    /// ECN codepoint.
    pub(crate) ecn: Ecn,
}

/// Departure or drop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    /// Time of a departure in the model, or time of a drop.
    pub(crate) at: Time,
    /// Number of the packet.
    pub(crate) number: u64,
    /// Name of the reason of a drop; `None` for a departure.
    pub(crate) dropped: Option<&'static str>,
}

fn reason(cause: DropReason) -> &'static str {
    DropReason::NAMES[cause as usize].1
}

/// Watch that keeps all arrivals, departures and drops of packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// Packets that entered.
    pub(crate) arrivals: Vec<Arrival>,
    /// Departures and drops, in order of the events.
    pub(crate) ends: Vec<End>,
}

impl Memory {
    /// Returns the departures and drops, in order of time and number.
    pub(crate) fn sorted_ends(mut self) -> Vec<End> {
        self.ends.sort_unstable();
        self.ends
    }
}

impl Watch for Memory {
    const PACKETS: bool = false;
    fn record(&mut self, _now: Time, _event: &Event) {}
    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        let number = origin.number;
        match step {
            Step::Sent(_) => self.arrivals.push(arrival(&origin, packet)),
            Step::Dropped(_, cause) => self.ends.push(End { at: now, number, dropped: Some(reason(cause)) }),
            Step::Egress { .. } => self.ends.push(End { at: now, number, dropped: None }),
            Step::Entered(_)
            | Step::Passed(_)
            | Step::Copied(..)
            | Step::Corrupted(_)
            | Step::Delivered(_) => {}
        }
    }
}

fn arrival(origin: &Origin, packet: &Packet) -> Arrival {
    Arrival {
        at: origin.at,
        number: origin.number,
        edge: origin.from.0,
        flow: packet.flow,
        len: packet.len,
        priority: packet.dscp.priority(),
        ecn: packet.ecn,
    }
}

/// Replays recorded arrivals in a network up to the time `until`, as the simulator does. A packet that arrived at edge `n` is sent from the
/// first to the second node of `paths[n]`, between which there must be a route. Returns the departures and drops, in order of time and
/// number.
pub(crate) fn replay(
    mut fabric: Fabric,
    paths: &[[NodeId; 2]],
    arrivals: &[Arrival],
    until: Time,
) -> Vec<End> {
    struct Fates<'a>(&'a [Arrival], Vec<End>);
    impl NetworkEvents for Fates<'_> {
        fn dropped(&mut self, now: Time, _at: PortId, packet: Packet, cause: DropReason) {
            let number = self.0[packet.body as usize].number;
            self.1.push(End { at: now, number, dropped: Some(reason(cause)) });
        }
    }
    let mut fates = Fates(arrivals, Vec::new());
    let deliver = |fabric: &mut Fabric, fates: &mut Fates<'_>, until| {
        while let Out::Deliver(packet) = fabric.poll(until, fates) {
            fates.1.push(End {
                at: packet.arrived,
                number: arrivals[packet.body as usize].number,
                dropped: None,
            });
        }
    };
    for (body, arrival) in arrivals.iter().enumerate() {
        let &Arrival { at, edge, flow, len, priority, ecn, .. } = arrival;
        deliver(&mut fabric, &mut fates, at);
        let [from, to] = paths[edge as usize];
        let route = fabric.checked_route(from, to);
        let packet = Packet { flow, dscp: priority.into(), ecn, ..Packet::new(at, route, len, body as u32) };
        fabric.arrive(at, from, packet, &mut fates);
    }
    deliver(&mut fabric, &mut fates, until);
    fates.1.sort_unstable();
    fates.1
}

/// Parses a log. Returns the arrivals, departures and drops, and the end time of the run.
pub(crate) fn read_log(text: &str) -> Result<(Memory, Time), String> {
    let mut memory = Memory::default();
    let mut end = Time::ZERO;
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, line)| line) != Some(HEADER) {
        return Err(format!("line 1: expected {}", HEADER));
    }
    for (index, line) in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let error = |problem: &str| format!("line {}: {problem}: {line:?}", index + 1);
        if fields.len() != 10 {
            return Err(error("expected 10 fields"));
        }
        let number = |field: usize| fields[field].parse::<u64>().map_err(|_| error("expected a number"));
        let at = Time::from_nanos(number(1)?);
        match fields[0] {
            "arrive" => memory.arrivals.push(Arrival {
                at,
                number: number(2)?,
                edge: number(3)? as u32,
                flow: number(4)? as u16,
                len: number(5)? as u32,
                priority: {
                    let known = Priority::NAMES.iter().find(|(_, name)| *name == fields[6]);
                    known.ok_or_else(|| error("expected high, med or low"))?.0
                },
                ecn: match fields[7] {
                    "0" => Ecn::NOT_ECT,
                    "1" => Ecn::ECT_1,
                    "2" => Ecn::ECT_0,
                    "3" => Ecn::CE,
                    _ => return Err(error("expected an ECN codepoint from 0 to 3")),
                },
            }),
            "depart" => memory.ends.push(End { at, number: number(2)?, dropped: None }),
            "drop" => {
                let known = DropReason::NAMES.iter().find(|(_, name)| *name == fields[8]);
                let (_, name) = known.ok_or_else(|| error("unknown reason"))?;
                memory.ends.push(End { at, number: number(2)?, dropped: Some(name) });
            }
            "refuse" => {}
            "end" => end = at,
            _ => return Err(error("unknown event")),
        }
    }
    Ok((memory, end))
}
