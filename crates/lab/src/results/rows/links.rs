//! Rows of links, by direction, and of intervals of links.

use super::row::Row;
use crate::results::column::Columns;
use catnip_base::{Span, Time};
use catnip_net::{Backlog, DropReason, PortCounters, Priority};

/// Row of one direction of a link.
#[derive(Clone, Debug)]
pub struct PortRow<'a> {
    /// Name of the link and direction in results.
    pub name: &'a str,
    /// Number of links with this name.
    pub links: u64,
    /// Sum of the counts of these links since the end of the warm-up.
    pub counters: PortCounters,
    /// Capacity from the end of the warm-up to the end of the run, bits; infinite if the rate is unlimited.
    pub capacity_bits: f64,
    /// Time from the end of the warm-up to the end of the run.
    pub measured: Span,
}

impl Row for PortRow<'_> {
    const NAME: &'static str = "ports";
    const ABOUT: &'static str =
        "One row per direction of each `[link]`; `:back` is the direction from `to` to `from`.";
    fn columns(to: &mut impl Columns<Self>) {
        to.text("port", "Name of the link in the scenario, and its direction.", |port| port.name.into());
        to.integer("links", "Number of links of this name, all counted together.", |port| port.links);
        let arrived = |port: &Self, priority| port.counters.arrived[priority as usize];
        let dropped = |port: &Self, priority| port.counters.dropped_of(priority);
        to.integer("arrived_high", "Packets marked HIGH that arrived at the queue.", |port| {
            arrived(port, Priority::High)
        });
        to.integer("arrived_med", "Packets marked MED that arrived.", |port| arrived(port, Priority::Medium));
        to.integer("arrived_low", "All other packets that arrived.", |port| arrived(port, Priority::Low));
        to.integer("dropped_high", "Packets marked HIGH that were dropped.", |port| {
            dropped(port, Priority::High)
        });
        to.integer("dropped_med", "Packets marked MED that were dropped.", |port| {
            dropped(port, Priority::Medium)
        });
        to.integer("dropped_low", "All other packets that were dropped.", |port| {
            dropped(port, Priority::Low)
        });
        to.integer("delivered", "Packets that reached the other end, copies included.", |port| {
            port.counters.delivered
        });
        to.integer("delivered_bytes", "Size of the delivered packets, headers included.", |port| {
            port.counters.delivered_bytes
        });
        to.integer("duplicated", "Copies of packets made at the end of the link.", |port| {
            port.counters.duplicated
        });
        to.integer(
            "marked",
            "Packets in which the queue has set the CE codepoint (congestion experienced).",
            |port| port.counters.marked,
        );
        to.float(
            "utilization",
            "Bits delivered divided by the bits that the rate permits, from 0 to 1.",
            |port| port.counters.delivered_bytes as f64 * 8.0 / port.capacity_bits,
        );
        to.float(
            "queue_mean_packets",
            "Mean number of packets that wait for transmission, over the run without its warm-up; for several links, their sum.",
            |port| port.counters.waited.as_secs() / port.measured.as_secs(),
        );
        to.float(
            "queue_delay_mean_s",
            "Mean queueing delay until the transmission of a packet begins; NaN if there was none.",
            |port| port.counters.waited.as_secs() / port.counters.started as f64,
        );
        for (reason, name) in DropReason::NAMES {
            let about = match reason {
                DropReason::Overflow => "Packets dropped on arrival at a full buffer.",
                DropReason::PushedOut => "Packets dropped from the queue to make space for an arrival.",
                DropReason::Early => "Packets dropped at random before the buffer is full, by RED or PIE.",
                DropReason::Forced => {
                    "Packets dropped by RED, with the average at or above its upper threshold."
                }
                DropReason::Loss => "Packets lost by a loss model.",
                DropReason::Policed => "Packets dropped by a policer, beyond its profile.",
                DropReason::Delay => {
                    "Packets dropped at the head of the queue by CoDel or DualPI2, because of a long queueing delay."
                }
            };
            to.integer(name, about, |port| port.counters.dropped.iter().map(|of| of[reason as usize]).sum());
        }
    }
}

/// Row of an interval of one direction of a link.
#[derive(Clone, Debug)]
pub struct LinkSample<'a> {
    /// Name of the link and direction in results.
    pub name: &'a str,
    /// End of the interval.
    pub at: Time,
    /// Counts of packets and bytes in the interval.
    pub counters: PortCounters,
    /// Capacity in the interval, bits; infinite if the rate is unlimited.
    pub capacity_bits: f64,
    /// Packets and bytes in the queue at the end of the interval.
    pub waiting: Backlog,
}

impl Row for LinkSample<'_> {
    const NAME: &'static str = "link_series";
    const ABOUT: &'static str = "One row per direction of each `[link]` and interval of `--series`.";
    fn columns(to: &mut impl Columns<Self>) {
        to.float("time_s", "Time at which the interval ended.", |it| it.at.as_secs());
        to.text("port", "Name of the link in the scenario, and its direction.", |it| it.name.into());
        to.integer("arrived", "Packets that arrived at the queue in the interval.", |it| {
            it.counters.arrived.iter().sum()
        });
        to.integer("dropped", "Packets dropped in the interval.", |it| {
            it.counters.dropped.iter().flatten().sum()
        });
        to.integer(
            "delivered_bytes",
            "Bytes that reached the other end in the interval, headers included.",
            |it| it.counters.delivered_bytes,
        );
        to.float(
            "utilization",
            "Bits delivered divided by the bits that the rate permits, from 0 to 1.",
            |it| it.counters.delivered_bytes as f64 * 8.0 / it.capacity_bits,
        );
        to.integer(
            "waiting_packets",
            "Packets that waited for transmission at the end of the interval.",
            |it| it.waiting.packets.into(),
        );
        to.integer("waiting_bytes", "Size of the waiting packets.", |it| it.waiting.bytes);
        to.float(
            "queue_delay_mean_s",
            "Mean queueing delay of the packets whose transmission began in the interval; NaN if there was none.",
            |it| it.counters.waited.as_secs() / it.counters.started as f64,
        );
    }
}
