//! Packet counts of one direction, for certificates and counters.

use crate::link::Outcome;
use crate::observe::monitor::{Direction, GateCounts};
use catnip_net::DropReason;
use catnip_sim::watch::Refusal;
use serde::Serialize;
use std::collections::BTreeMap;

/// Packet counts of one direction of a link. The identity packets in + duplicated = out + dropped + unwritable + held holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counts {
    /// Number of bytes of the packets that entered, without Ethernet headers.
    pub bytes_in: u64,
    /// Number of packets written to the device at the end of the direction.
    pub packets_out: u64,
    /// Number of bytes of the packets written to that device.
    pub bytes_out: u64,
    /// Copies of packets made by the link.
    pub duplicated: u64,
    /// Packets in which the link has inverted a bit.
    pub corrupted: u64,
    /// Packets dropped on the link, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets that left the link but were not accepted by the device.
    pub unwritable: u64,
    /// Number of packets on the link at present.
    pub held: u64,
    /// Packets refused at entry, by reason; not counted as entered.
    pub refused: BTreeMap<&'static str, u64>,
    /// Packets that the kernel dropped before the emulator could read them.
    pub missed: u64,
    /// Frames that a bridge forwarded at once, because they contain no IP packet that may be delayed; not counted as entered.
    pub passed: u64,
    /// Malformed frames that no wire could have carried.
    pub broken: u64,
}

impl Counts {
    /// Creates the counts of a direction. `edge` is the index of the node at which packets enter: 0 inside, 1 outside.
    pub(crate) fn new(direction: &Direction, gate: GateCounts, outcome: &Outcome, edge: usize) -> Self {
        Self {
            bytes_in: direction.entered_bytes,
            packets_out: direction.delivered,
            bytes_out: direction.delivered_bytes,
            duplicated: direction.duplicated,
            corrupted: direction.corrupted,
            dropped: nonzero(&DropReason::NAMES, direction.dropped),
            unwritable: direction.unwritable,
            held: outcome.held[edge],
            refused: nonzero(&Refusal::NAMES, gate.refused),
            missed: outcome.missed[edge],
            passed: gate.passed[0],
            broken: outcome.broken[edge],
        }
    }
}

fn nonzero<R, const N: usize>(
    reasons: &[(R, &'static str); N],
    counts: [u64; N],
) -> BTreeMap<&'static str, u64> {
    let named = reasons.iter().map(|(_, name)| *name).zip(counts);
    named.filter(|(_, count)| *count > 0).collect()
}
