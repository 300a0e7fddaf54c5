//! Single flows: runs with a single transfer over a fast path with random loss, to which the analytical models apply.

use crate::Plan;
use crate::traffic::Traffic;
use catnip_base::Span;
use catnip_net::mark::{MarkerSpec, SpmParameters};
use catnip_net::queue::QueueKind;
use catnip_net::shape::RateSpec;
use catnip_net::stage;
use catnip_net::{PortId, Priority, WireSpec};
use catnip_tcp::control::{ControlSpec, RenoSpec};
use catnip_tcp::pacing::PacingKind;

/// Inputs of the latency models, derived from a run to which the models apply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingleFlow {
    /// Number of full segments to send.
    pub packets: u64,
    /// Probability that a LOW data packet is lost.
    pub p: f64,
    /// Probability that a HIGH data packet is lost.
    pub p_high: f64,
    /// Selection of the packets that are marked HIGH.
    pub marking: Marking,
    /// Round-trip time of a single full segment and its ACK, without the delay of a delayed ACK, seconds.
    pub rtt_s: f64,
    /// Timeout after the first RTT sample, seconds: three round-trip times (RFC 6298, section 2.2), but at least the minimum RTO.
    pub t0_s: f64,
    /// Timeout before the first RTT sample, seconds.
    pub first_timeout_s: f64,
    /// Receive window, segments.
    pub w_max: u64,
    /// Number of segments that an ACK acknowledges.
    pub b: u32,
    /// Initial window, segments.
    pub w1: u32,
    /// Mean time by which the receiver delays the ACK of a single segment, seconds.
    pub delack_s: f64,
    /// First timeout of the handshake, seconds; `None` if the transfer time includes no handshake.
    pub handshake_s: Option<f64>,
}

/// Selection of the packets of a document that are marked HIGH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// No packet.
    None,
    /// First three and last three packets: Partial CATNIP.
    Ends,
    /// Any other selection, which no model covers.
    Other,
}

impl Plan {
    /// Returns the inputs of the models for this run, or `None` if the models do not apply. The models need a single transfer by Reno
    /// without pacing, and a path with constant rate and delay. The path must drop data packets only, independently of each other, and its
    /// rate and buffers must not limit the window.
    pub fn single_flow(&self) -> Option<SingleFlow> {
        let [Traffic { tcp, marker, pairs, tells_size, workload, .. }] = self.traffic() else { return None };
        let bytes = workload.single_transfer()?;
        let &[(server, client)] = &pairs[..] else { return None };
        if tcp.control != ControlSpec::Reno(RenoSpec::default()) || tcp.pacing != PacingKind::None {
            return None;
        }
        let wires = |from, to| -> Vec<&WireSpec> {
            let path = self.topology().path(from, to).unwrap_or_default();
            path.into_iter().map(|PortId(n)| &*self.topology().ports()[n as usize].wire).collect()
        };
        let (forward, back) = (wires(server, client), wires(client, server));
        let steady = |wire: &&WireSpec| {
            let plain = wire.after.is_empty() && wire.conditioner.is_empty() && wire.is_steady();
            !matches!(wire.rate, RateSpec::Trace { .. } | RateSpec::Steps(_))
                && wire.jitter.is_none()
                && wire.delay.constant().is_some()
                && plain
        };
        if !forward.iter().chain(&back).all(steady) || back.iter().any(|wire| !wire.before.is_empty()) {
            return None;
        }
        let (data_bytes, w_max) = (tcp.segment_bytes + tcp.header_bytes, tcp.receive_window_segments());
        let rtt_s = delay_s(&forward, data_bytes) + delay_s(&back, tcp.ack_bytes);
        let fits = |wire: &&WireSpec| {
            w_max < u64::from(wire.queue.buffer_bounds().guaranteed)
                && (w_max * u64::from(data_bytes)) as f64 <= bytes_per_s(&wire.rate) * rtt_s
        };
        if !forward.iter().all(fits) {
            return None;
        }
        let (p_high, p) = forward.iter().try_fold((0.0, 0.0), |(high, low), wire| {
            let by_priority = stage::loss_of(&wire.before)?;
            let [h, l] = [Priority::High, Priority::Low].map(|priority| by_priority[priority as usize]);
            Some((either(high, h), either(low, l)))
        })?;
        let (b, delack) = match tcp.delayed_ack {
            None => (1, Span::ZERO),
            Some(d) if d.first_at_once => (d.every, Span::ZERO),
            Some(d) if d.heartbeat => (d.every, d.max_delay / 2),
            Some(d) => (d.every, d.max_delay),
        };
        Some(SingleFlow {
            packets: bytes.div_ceil(tcp.segment_bytes.into()),
            p,
            p_high: if marker.is_some() { p_high } else { p },
            marking: match marker {
                None => Marking::None,
                Some(MarkerSpec::Spm(SpmParameters {
                    leading: 3,
                    trailing: 3,
                    small_window: 0 | 1,
                    handshake: None | Some(Priority::Low),
                    repairs: false,
                })) if *tells_size => Marking::Ends,
                Some(_) => Marking::Other,
            },
            rtt_s,
            t0_s: (3.0 * rtt_s).max(tcp.rto.min.as_secs()),
            first_timeout_s: tcp.rto.first.as_secs(),
            w_max,
            b,
            w1: tcp.initial_window,
            delack_s: delack.as_secs(),
            handshake_s: tcp.handshake.then(|| tcp.rto.first.as_secs()),
        })
    }
}

/// Returns the sum of the propagation delays and transmission times along a path, seconds.
fn delay_s(path: &[&WireSpec], bytes: u32) -> f64 {
    path.iter().map(|wire| wire.delay.max().as_secs() + f64::from(bytes) / bytes_per_s(&wire.rate)).sum()
}

fn bytes_per_s(rate: &RateSpec) -> f64 {
    rate.mean().map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64 / 8.0)
}

/// Returns the probability that at least one of two independent events occurs, which have the probabilities `p` and `q`.
fn either(p: f64, q: f64) -> f64 {
    p + q - p * q
}
