//! What became of the packets of one direction, as certificates and counters tell it.

use crate::link::Outcome;
use crate::observe::monitor::{Direction, GateCounts};
use catnip_net::DropReason;
use catnip_sim::watch::Refusal;
use serde::Serialize;
use std::collections::BTreeMap;

/// Packets in + duplicated = out + dropped + unwritable + held.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counts {
    /// Bytes that entered, without Ethernet headers.
    pub bytes_in: u64,
    /// Packets written to the device at the other end.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Copies that the link has made of packets.
    pub duplicated: u64,
    /// Packets in which the link has turned a bit.
    pub corrupted: u64,
    /// Packets dropped inside, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets that came out and that the device did not take.
    pub unwritable: u64,
    /// Packets inside now.
    pub held: u64,
    /// Packets that were not let in, by reason; they have not entered.
    pub refused: BTreeMap<&'static str, u64>,
    /// Packets that the kernel dropped before the emulator could read them.
    pub missed: u64,
    /// Frames without an IP packet that may wait, which have crossed a bridge at once; they have not entered.
    pub passed: u64,
    /// Frames that no wire could have carried.
    pub broken: u64,
}

impl Counts {
    /// `edge` is the one where the direction begins: 0 inside, 1 outside.
    pub(crate) fn new(direction: &Direction, gate: GateCounts, outcome: &Outcome, edge: usize) -> Self {
        Self {
            bytes_in: direction.entered_bytes,
            packets_out: direction.delivered,
            bytes_out: direction.delivered_bytes,
            duplicated: direction.duplicated,
            corrupted: direction.corrupted,
            dropped: that_happened(&DropReason::NAMES, direction.dropped),
            unwritable: direction.unwritable,
            held: outcome.held[edge],
            refused: that_happened(&Refusal::NAMES, gate.refused),
            missed: outcome.missed[edge],
            passed: gate.passed[0],
            broken: outcome.broken[edge],
        }
    }
}

fn that_happened<R, const N: usize>(
    reasons: &[(R, &'static str); N],
    counts: [u64; N],
) -> BTreeMap<&'static str, u64> {
    let named = reasons.iter().map(|(_, name)| *name).zip(counts);
    named.filter(|(_, count)| *count > 0).collect()
}
