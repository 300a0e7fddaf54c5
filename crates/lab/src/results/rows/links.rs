//! A row per direction of a link, and per interval of one.

use super::row::{Row, TableName};
use crate::results::column::Columns;
use catnip_base::{Span, Time};
use catnip_net::{Backlog, Colour, DropReason, PortCounters};

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct PortRow<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many links it stands for.
    pub links: u64,
    /// What they counted after the warm-up.
    pub counters: PortCounters,
    /// What it could have carried from then to the end of the run, bits; infinite without a rate.
    pub capacity_bits: f64,
    /// So long that was.
    pub measured: Span,
}

impl Row for PortRow<'_> {
    const TABLE: TableName = TableName::Ports;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("port", "Name of the link in the scenario, and its direction.", |port| port.name.into());
        to.integer("links", "How many links of this name there are; all are counted together.", |port| {
            port.links
        });
        let arrived = |port: &Self, colour| port.counters.arrived[colour as usize];
        let dropped = |port: &Self, colour| port.counters.dropped_of(colour);
        to.integer("arrived_high", "Packets marked HIGH that came to its queue.", |port| {
            arrived(port, Colour::Green)
        });
        to.integer("arrived_med", "Packets marked MED that came.", |port| arrived(port, Colour::Yellow));
        to.integer("arrived_low", "All others that came.", |port| arrived(port, Colour::Red));
        to.integer("dropped_high", "Packets marked HIGH that were dropped.", |port| {
            dropped(port, Colour::Green)
        });
        to.integer("dropped_med", "Packets marked MED that were dropped.", |port| {
            dropped(port, Colour::Yellow)
        });
        to.integer("dropped_low", "All others that were dropped.", |port| dropped(port, Colour::Red));
        to.integer("delivered", "Packets that came to the other end, copies included.", |port| {
            port.counters.delivered
        });
        to.integer("delivered_bytes", "Their size, headers included.", |port| port.counters.delivered_bytes);
        to.integer("duplicated", "Copies of packets that were made behind the wire.", |port| {
            port.counters.duplicated
        });
        to.integer("marked", "Packets that its queue has marked: congestion experienced.", |port| {
            port.counters.marked
        });
        to.float("utilization", "Bits delivered over bits that the rate allows, from 0 to 1.", |port| {
            port.counters.delivered_bytes as f64 * 8.0 / port.capacity_bits
        });
        to.float(
            "queue_mean_packets",
            "Packets that wait for transmission, on average over the run without its warm-up; of a link that is several, in all of them.",
            |port| port.counters.waited.as_secs() / port.measured.as_secs(),
        );
        to.float(
            "queue_delay_mean_s",
            "How long a packet waits for its transmission to begin, on average; NaN if there was none.",
            |port| port.counters.waited.as_secs() / port.counters.started as f64,
        );
        for (why, name) in DropReason::NAMES {
            let about = match why {
                DropReason::Overflow => "Dropped on arrival at a full buffer.",
                DropReason::PushedOut => "Dropped from the queue to make room for an arrival.",
                DropReason::Early => "Dropped at random before the buffer is full, by RED or PIE.",
                DropReason::Forced => "Dropped by RED, the average at or above its upper threshold.",
                DropReason::Loss => "Taken by a loss model.",
                DropReason::Policed => "Dropped by a policer: beyond its profile.",
                DropReason::Delay => {
                    "Dropped at the head of the queue by CoDel or DualPI2, because packets wait too long."
                }
            };
            to.integer(name, about, |port| port.counters.dropped.iter().map(|of| of[why as usize]).sum());
        }
    }
}

/// What one direction of a link did in an interval.
#[derive(Clone, Debug)]
pub struct LinkSample<'a> {
    /// Its name.
    pub name: &'a str,
    /// The end of the interval.
    pub at: Time,
    /// What it counted in it.
    pub counters: PortCounters,
    /// What it could have carried, bits; infinite without a rate.
    pub capacity_bits: f64,
    /// What waited at the end.
    pub waiting: Backlog,
}

impl Row for LinkSample<'_> {
    const TABLE: TableName = TableName::LinkSeries;
    fn columns(to: &mut impl Columns<Self>) {
        to.float("time_s", "When the interval ended.", |it| it.at.as_secs());
        to.text("port", "Name of the link in the scenario, and its direction.", |it| it.name.into());
        to.integer("arrived", "Packets that came to its queue in the interval.", |it| {
            it.counters.arrived.iter().sum()
        });
        to.integer("dropped", "Packets that were dropped.", |it| it.counters.dropped.iter().flatten().sum());
        to.integer("delivered_bytes", "What came to the other end, headers included.", |it| {
            it.counters.delivered_bytes
        });
        to.float("utilization", "Bits delivered over bits that the rate allows, from 0 to 1.", |it| {
            it.counters.delivered_bytes as f64 * 8.0 / it.capacity_bits
        });
        to.integer(
            "waiting_packets",
            "Packets that waited for transmission at the end of the interval.",
            |it| it.waiting.packets.into(),
        );
        to.integer("waiting_bytes", "Their size.", |it| it.waiting.bytes);
        to.float(
            "queue_delay_mean_s",
            "How long packets had waited whose transmission began in the interval; NaN if there was none.",
            |it| it.counters.waited.as_secs() / it.counters.started as f64,
        );
    }
}
