//! Tests of token buckets in shapers, policers and markers, and of combinations of them.

use super::drive::*;
use crate::kept::Check;
use catnip_base::{Rng, Span, Time};
use catnip_net::stage::Stage;
use catnip_net::{DropReason, Packet, Priority};

pub(crate) fn checks(seed: u64) -> Vec<Check> {
    vec![
        Check {
            id: "IDS-S12",
            claim: "shaper: HIGH or MED bytes that leave its wire beyond rate x time + depth, in the worst of all intervals",
            value: shaper_excess(seed, "shaper"),
            limit: 0.0,
        },
        Check {
            id: "IDS-S12",
            claim: "source scheduler: HIGH or MED bytes that leave its wire beyond rate x time + depth, in the worst of all intervals",
            value: shaper_excess(seed, "scheduler"),
            limit: 0.0,
        },
        Check {
            id: "IDS-S12",
            claim: "policer that remarks or drops: bytes that stay or become HIGH or MED beyond rate x time + depth, in the worst of all intervals",
            value: ["policer:CONTRACT", "policer:CONTRACT,action=drop"]
                .map(|text| stage_excess(seed, text))
                .into_iter()
                .fold(0.0, f64::max),
            limit: 0.0,
        },
        Check {
            id: "IDS-S12",
            claim: "token bucket marker: HIGH or MED bytes beyond rate x time + depth, in the worst of all intervals",
            value: stage_excess(seed, "tb-marker:CONTRACT"),
            limit: 0.0,
        },
        Check {
            id: "IDS-S13",
            claim: "30 users with contracts of their own: packets that a policer remarks or drops behind a shaper with the same contract",
            value: (0..30).map(|user| policed(seed, user)).sum(),
            limit: 0.0,
        },
        Check {
            id: "IDS-S15",
            claim: "token bucket marker at the edge, a backlogged user for 600 s: distance of HIGH from 250 and of MED from 500 kbit/s, percent, the worse one",
            value: marked_rates(seed),
            // The depth of the bucket and one packet, 7500 bytes in total, are 0.04 % of what 250 kbit/s permit in 600 s.
            limit: 0.05,
        },
    ]
}

/// Contract of 250 kbit/s HIGH and 500 kbit/s MED.
const CONTRACT: &str = "high=250kbit/6000B,med=500kbit/6000B";
/// Rates of [`CONTRACT`], bit/s.
const PROFILES: [(Priority, u32); 2] = [(HIGH, 250_000), (MED, 500_000)];
/// Depth of the token buckets of [`CONTRACT`], bytes.
const DEPTH: u32 = 6000;

/// Size of a byte in billionths of a bit.
const BYTE: i128 = 8_000_000_000;

/// Returns the largest excess over a token bucket, bytes: the maximum of bytes passed - rate x time - depth over all intervals that begin
/// and end with a packet.
fn excess(passed: impl IntoIterator<Item = (Time, u32)>, bits_per_second: u32) -> f64 {
    let (mut worst, mut before, mut until_here) = (i128::MIN, Time::ZERO, 0);
    for (at, len) in passed {
        // The worst interval that ends with this packet begins with this packet, or extends the worst interval that ends with the previous
        // packet.
        let arrived = i128::from((at - before).as_nanos()) * i128::from(bits_per_second);
        until_here = (until_here - arrived).max(0) + i128::from(len) * BYTE;
        (worst, before) = (worst.max(until_here), at);
    }
    (worst - i128::from(DEPTH) * BYTE) as f64 / BYTE as f64
}

/// Returns the excess of HIGH or of MED packets over [`CONTRACT`], whichever is greater, bytes.
fn worst_excess(passed: &[(Time, Packet)]) -> f64 {
    let of = |(priority, rate)| {
        let of_priority = passed.iter().filter(|(_, packet)| packet.dscp.priority() == priority);
        let excess = excess(of_priority.map(|(at, packet)| (*at, packet.len)), rate);
        assert!(excess > -1500.0, "{priority:?}: all tokens are used at times, {excess}");
        excess
    };
    PROFILES.map(of).into_iter().fold(0.0, f64::max)
}

/// Returns arrivals of packets of all priorities. Their mean rate is above [`CONTRACT`], but their rate is below it at times.
fn load(rng: &mut Rng, count: u32) -> Vec<(Time, Packet)> {
    arrivals(rng, count, Span::from_micros(4000), |rng| Packet {
        flow: rng.below(9) as u16,
        ..packet(0, any_size(rng), any_priority(rng))
    })
}

fn shaper_excess(seed: u64, kind: &str) -> f64 {
    let of_wire = |(n, wire)| {
        let load = load(&mut random(seed, 200 + n), 100_000);
        let crossed = cross(&mut port(&format!("{kind}:100,{CONTRACT}"), wire, seed), &load);
        worst_excess(&crossed.out)
    };
    [(0u32, "unlimited"), (1, "1.5Mbit"), (2, "10Mbit")].map(of_wire).into_iter().fold(0.0, f64::max)
}

fn stage_excess(seed: u64, text: &str) -> f64 {
    let mut stage = stage(&text.replace("CONTRACT", CONTRACT));
    let mut passed = load(&mut random(seed, 210), 200_000);
    passed.retain_mut(|(at, packet)| stage.pass(*at, packet).is_ok());
    worst_excess(&passed)
}

/// Returns the number of packets that a policer remarks or drops behind a shaper with the same contract.
fn policed(seed: u64, user: u32) -> f64 {
    let mut rng = random(seed, 220 + user);
    let mut profile = || {
        let (rate, depth) = (50_000 + rng.below(2_000_000), 1500 + rng.below(9000));
        format!("{rate}bit/{depth}B")
    };
    let contract = format!("high={},med={}", profile(), profile());
    let wire = ["unlimited", "3000001bit", "10Mbit"][user as usize % 3];
    let action = ["remark", "drop"][user as usize % 2];
    let load = load(&mut rng, 10_000);
    let crossed = cross(&mut port(&format!("shaper:60,{contract}"), wire, seed), &load);
    let refused = crossed.dropped.iter().flatten().filter(|why| **why != DropReason::Overflow).count();
    let mut policer = stage(&format!("policer:{contract},action={action}"));
    let changed = |&(at, before): &(Time, Packet)| {
        let mut packet = before;
        policer.pass(at, &mut packet).is_err() || packet.dscp != before.dscp
    };
    (crossed.out.iter().copied().filter(changed).count() + refused) as f64
}

fn marked_rates(seed: u64) -> f64 {
    const SECONDS: u64 = 600;
    let (mut rng, mut marker) = (random(seed, 230), stage(&format!("tb-marker:{CONTRACT}")));
    let (mut now, mut bytes) = (Time::ZERO, [0u64; Priority::COUNT]);
    while now < Time::ZERO + Span::from_secs(SECONDS) {
        // Packets back to back on a link of 1.5 Mbit/s.
        let mut packet = packet(0, any_size(&mut rng), any_priority(&mut rng));
        now += Span::from_nanos(u64::from(packet.len) * 8_000_000 / 1500);
        marker.pass(now, &mut packet).expect("it drops nothing");
        bytes[packet.dscp.priority() as usize] += u64::from(packet.len);
    }
    let off = |(priority, rate)| {
        let measured = 8.0 * bytes[priority as usize] as f64 / SECONDS as f64;
        100.0 * (measured / f64::from(rate) - 1.0).abs()
    };
    PROFILES.map(off).into_iter().fold(0.0, f64::max)
}
