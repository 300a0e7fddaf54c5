//! Counters of marked packets, by assigned priority and by the reason for it.

use crate::policy::LEVELS;
use libbpf_rs::{MapCore, MapFlags};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Write;

/// Names and descriptions of the reasons for a packet's level, indexed by their numbers in the kernel programs.
pub const REASONS: [(&str, &str); 13] = [
    ("handshake", "SYN and SYN-ACK"),
    ("end", "FIN and RST"),
    ("retransmission", "retransmitted data"),
    ("recovery", "sent during a loss recovery"),
    ("leading", "among the first packets of a document"),
    ("trailing", "among the last packets of a document"),
    ("small-window", "sent with a small window"),
    ("window", "by the state of TCP"),
    ("class", "by application"),
    ("ack", "an ACK, by the level of the data that it acknowledges"),
    ("other", "data that no rule makes crucial"),
    ("unmarked", "not marked: ACKs without data, other protocols, forwarded packets"),
    ("washed", "not marked, and an unauthorized mark was removed"),
];

/// Counters of the packets that got one level for one reason.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Count {
    /// Reason for the level.
    pub reason: Cow<'static, str>,
    /// Level: high, med or low.
    pub level: Cow<'static, str>,
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes of the IP packets.
    pub bytes: u64,
    /// Number of segments that were marked together with other segments, as one packet that the kernel splits later.
    pub together: u64,
    /// Number of packets that were demoted to this level because their user exceeded a limit.
    pub demoted: u64,
}

/// Reads the counters of all pairs of a reason and a level that have occurred.
pub fn read(counters: &impl MapCore) -> libbpf_rs::Result<Vec<Count>> {
    let mut counts = Vec::new();
    for (at, (reason, _)) in REASONS.into_iter().enumerate() {
        for (level, priority) in LEVELS.into_iter().enumerate() {
            let key = (at * LEVELS.len() + level) as u32;
            let per_cpu = counters.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
            let [packets, bytes, together, demoted] = sums(&per_cpu);
            if packets > 0 {
                let (reason, level) = (reason.into(), priority.name().into());
                counts.push(Count { reason, level, packets, bytes, together, demoted });
            }
        }
    }
    Ok(counts)
}

/// Returns the sums of the four fields of a counter over all processors.
fn sums(per_cpu: &[Vec<u8>]) -> [u64; 4] {
    let mut sums = [0; 4];
    for value in per_cpu {
        for (sum, field) in sums.iter_mut().zip(value.chunks_exact(8)) {
            *sum += field.try_into().map_or(0, u64::from_ne_bytes);
        }
    }
    sums
}

/// Returns the counters in the format of Prometheus.
pub fn prometheus(counts: &[Count]) -> String {
    let mut text = String::new();
    for (name, help, value) in METRICS {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "# HELP catnip_{name}_total {help}.\n# TYPE catnip_{name}_total counter");
        for count in counts {
            let Count { reason, level, .. } = count;
            let _ = writeln!(
                text,
                "catnip_{name}_total{{reason=\"{reason}\",level=\"{level}\"}} {}",
                value(count)
            );
        }
    }
    text
}

type Metric = (&'static str, &'static str, fn(&Count) -> u64);

const METRICS: [Metric; 4] = [
    ("packets", "Packets that left this host, by reason for their level", |count| count.packets),
    ("bytes", "Bytes of IP packets that left this host, by reason for their level", |count| count.bytes),
    ("together_packets", "Packets that left with others under one mark", |count| count.together),
    ("demoted_packets", "Packets demoted to their level by a user's limit", |count| count.demoted),
];
