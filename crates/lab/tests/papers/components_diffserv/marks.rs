//! Tests of markers with windows of a sender that the test generates.

use super::drive::*;
use crate::kept::Check;
use catnip_base::{Rng, Time};
use catnip_net::mark::{AnyMarker, MarkerKind, MarkerSpec, PacketKind, PacketMarker, SenderState, Service};
use catnip_net::{Dscp, Priority};

pub(crate) fn checks(seed: u64) -> Vec<Check> {
    let random = randomized(seed);
    let total = |priority: Priority| random.totals[priority as usize].sigmas();
    vec![
        Check {
            id: "IDS-S16",
            claim: "marking by TCP's state: marks that differ from the algorithm, for windows of 1 to 20 with a SYN, a fast retransmit, a fast recovery or none of them",
            value: table(seed),
            limit: 0.0,
        },
        Check {
            id: "IDS-S16",
            claim: "randomized: shares of HIGH, MED and LOW for windows of 5 to 20 against their probabilities, standard deviations, the worst one (1 % level of the worst of 40: 3.66)",
            value: worst(&random.shares),
            limit: 3.6622,
        },
        Check {
            id: "IDS-S16",
            claim: "randomized: HIGH and MED packets of all windows of 1 to 20 together, standard deviations, the worse one",
            value: total(HIGH).max(total(MED)),
            limit: 3.0,
        },
        Check {
            id: "IDS-S16",
            claim: "randomized: packets marked otherwise where chance has no say",
            value: random.certain,
            limit: 0.0,
        },
    ]
}

/// Occasion on which a sender sends a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Occasion {
    Ordinary,
    Syn,
    FastRetransmit,
    FastRecovery,
}

const OCCASIONS: [Occasion; 4] =
    [Occasion::Ordinary, Occasion::Syn, Occasion::FastRetransmit, Occasion::FastRecovery];

/// Returns the priority of a packet according to the algorithm printed in the DiffServ study, for a window in segments.
fn printed(window: u32, occasion: Occasion) -> Priority {
    if window <= 4 || occasion != Occasion::Ordinary {
        HIGH
    } else if window <= 8 {
        MED
    } else {
        LOW
    }
}

/// Returns the state of a sender whose window is `window` segments and a random part of a segment. The window is the smaller of the
/// congestion window and the receive window.
fn sending(window: u32, occasion: Occasion, rng: &mut Rng) -> SenderState {
    let segment = one_of(&[536, 1000, 1448, 1460], rng);
    let smaller = u64::from(window * segment + rng.below(segment));
    let larger = smaller + u64::from(rng.below(40 * segment));
    let (window, receive_window) = one_of(&[(smaller, larger), (larger, smaller)], rng);
    SenderState {
        kind: if occasion == Occasion::Syn { PacketKind::Syn } else { PacketKind::Data },
        offset: rng.below(1_000_000).into(),
        segment,
        window,
        receive_window,
        // A retransmission is not special by itself: after a timeout, the window is small.
        retransmission: occasion == Occasion::FastRetransmit
            || occasion == Occasion::Ordinary && rng.chance(0.2),
        recovering: matches!(occasion, Occasion::FastRetransmit | Occasion::FastRecovery),
        ..SenderState::default()
    }
}

fn marker(text: &str, service: Service, rng: &Rng) -> AnyMarker {
    text.parse::<MarkerSpec>().unwrap().build(service, &|| rng.clone())
}

fn marked(marker: &mut AnyMarker, sending: &SenderState) -> Dscp {
    let mut packet = packet(0, sending.segment, Dscp::DEFAULT);
    marker.mark(Time::ZERO, Some(sending), &mut packet);
    packet.dscp
}

fn table(seed: u64) -> f64 {
    let mut rng = random(seed, 400);
    let mut mismatches = 0;
    for service in [Service::Interactive, Service::Other] {
        let mut marker = marker("tcp-state", service, &rng);
        for (window, occasion) in (1..=20).flat_map(|window| OCCASIONS.map(|occasion| (window, occasion))) {
            for _ in 0..100 {
                let mark = marked(&mut marker, &sending(window, occasion, &mut rng));
                let expected = Dscp::assured(service.class(), printed(window, occasion));
                mismatches += u32::from(mark != expected);
            }
        }
    }
    f64::from(mismatches)
}

/// Measurements of the randomized marker, `tcp-state-random`.
struct Randomized {
    /// Deviation of the number of packets of each priority from its expectation, for each window. Shares that are 0 or 1, or follow from
    /// the other shares, are left out.
    shares: Vec<Deviation>,
    /// Deviation of the number of packets of each priority from its expectation, over all windows.
    totals: [Deviation; Priority::COUNT],
    certain: f64,
}

fn randomized(seed: u64) -> Randomized {
    let (mut rng, draws) = (random(seed, 410), random(seed, 411));
    let mut marker = marker("tcp-state-random", Service::Other, &draws);
    let mut found = Randomized { shares: Vec::new(), totals: Default::default(), certain: 0.0 };
    for window in 1..=20u32 {
        let of_window = f64::from(window);
        // HIGH with probability HIGHthresh / w, else MED with MEDthresh / w, else LOW.
        let (high, med) = ((4.0 / of_window).min(1.0), (8.0 / of_window).min(1.0));
        let law = [(HIGH, high), (MED, (1.0 - high) * med), (LOW, (1.0 - high) * (1.0 - med))];
        let mut shares = [Deviation::default(); 3];
        for _ in 0..20_000 {
            let mark = marked(&mut marker, &sending(window, Occasion::Ordinary, &mut rng)).priority();
            for (share, (priority, p)) in shares.iter_mut().zip(law) {
                found.certain += f64::from(u8::from(p == 0.0 && mark == priority));
                share.add(p, mark == priority);
                found.totals[priority as usize].add(p, mark == priority);
            }
        }
        match window {
            ..=4 => {}
            // MED is the remainder.
            5..=8 => found.shares.push(shares[0]),
            _ => found.shares.extend(shares),
        }
    }
    assert_eq!(found.shares.len(), 40);
    for (window, occasion) in (1..=20).flat_map(|window| OCCASIONS.map(|occasion| (window, occasion))) {
        if printed(window, occasion) == HIGH {
            let mark = marked(&mut marker, &sending(window, occasion, &mut rng)).priority();
            found.certain += f64::from(u8::from(mark != HIGH));
        }
    }
    found
}
