//! When is a run one that the analytical models speak of? They know a single transfer over a fast path with random loss.

use crate::Plan;
use crate::traffic::Traffic;
use catnip_base::Span;
use catnip_net::mark::{MarkerSpec, SpmParameters};
use catnip_net::queue::QueueKind;
use catnip_net::shape::RateSpec;
use catnip_net::stage;
use catnip_net::{Colour, PortId, WireSpec};
use catnip_tcp::control::{ControlSpec, RenoSpec};
use catnip_tcp::pacing::PacingKind;

/// The inputs of the latency models, read off a run of which they hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingleFlow {
    /// Full segments to send.
    pub packets: u64,
    /// Probability that a LOW data packet is lost.
    pub p: f64,
    /// Probability that a HIGH data packet is lost.
    pub p_high: f64,
    /// Which packets are HIGH.
    pub marking: Marking,
    /// Round trip of a lone full segment and its ACK, seconds, without the wait of a delayed ACK.
    pub rtt_s: f64,
    /// The timeout after the first sample: three round trips (RFC 6298, section 2.2), at least the floor, seconds.
    pub t0_s: f64,
    /// The timeout before the first sample, seconds.
    pub first_timeout_s: f64,
    /// The receive window, segments.
    pub w_max: u64,
    /// Segments per ACK.
    pub b: u32,
    /// The initial window, segments.
    pub w1: u32,
    /// How long the ACK of a lone segment waits on average, seconds.
    pub delack_s: f64,
    /// The transfer time includes a handshake, whose first timeout this is, seconds.
    pub handshake_s: Option<f64>,
}

/// Which packets of a document are HIGH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// None of them.
    None,
    /// The first and the last three: Partial CATNIP.
    Ends,
    /// Any other choice; no model knows it.
    Other,
}

impl Plan {
    /// What the models need to know of this run; `None` if its transfer competes with others, is limited by the rate or
    /// the buffers of its path, or is not one of Reno's family.
    pub fn single_flow(&self) -> Option<SingleFlow> {
        let [Traffic { tcp, marker, pairs, tells_size, workload, .. }] = self.traffic() else { return None };
        let bytes = workload.lone_transfer()?;
        let &[(server, client)] = &pairs[..] else { return None };
        if tcp.control != ControlSpec::Reno(RenoSpec::default()) || tcp.pacing != PacingKind::None {
            return None;
        }
        let wires = |from, to| -> Vec<&WireSpec> {
            let path = self.topology().path(from, to).unwrap_or_default();
            path.into_iter().map(|PortId(n)| &*self.topology().ports()[n as usize].wire).collect()
        };
        let (there, back) = (wires(server, client), wires(client, server));
        let steady = |wire: &&WireSpec| {
            let plain = wire.behind.is_empty() && wire.conditioner.is_empty() && wire.is_steady();
            !matches!(wire.rate, RateSpec::Trace { .. } | RateSpec::Steps(_))
                && wire.jitter.is_none()
                && plain
        };
        if !there.iter().chain(&back).all(steady) || back.iter().any(|wire| !wire.before.is_empty()) {
            return None;
        }
        let (data_bytes, w_max) = (tcp.segment_bytes + tcp.header_bytes, tcp.receive_window_segments());
        let rtt_s = delay_s(&there, data_bytes) + delay_s(&back, tcp.ack_bytes);
        let fits = |wire: &&WireSpec| {
            w_max < u64::from(wire.queue.holds().surely)
                && (w_max * u64::from(data_bytes)) as f64 <= bytes_per_s(&wire.rate) * rtt_s
        };
        if !there.iter().all(fits) {
            return None;
        }
        let (p_high, p) = there.iter().try_fold((0.0, 0.0), |(high, low), wire| {
            let by_colour = stage::loss_of(&wire.before)?;
            let [h, l] = [Colour::Green, Colour::Red].map(|colour| by_colour[colour as usize]);
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
                    handshake: None | Some(Colour::Red),
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

/// Propagation and transmission along a path.
fn delay_s(path: &[&WireSpec], bytes: u32) -> f64 {
    path.iter().map(|wire| wire.delay.as_secs() + f64::from(bytes) / bytes_per_s(&wire.rate)).sum()
}

fn bytes_per_s(rate: &RateSpec) -> f64 {
    rate.mean().map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64 / 8.0)
}

/// The probability of at least one of two independent events.
fn either(p: f64, q: f64) -> f64 {
    p + q - p * q
}
