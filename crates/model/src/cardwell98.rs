use crate::terms::{q_approx, timeout_run};
use crate::{ModelError, Path, check};
use catnip_base::math;

/// Latency by the Cardwell-98 model, with its intermediate quantities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cardwell98 {
    /// Expected number of losses.
    pub l: f64,
    /// Probability that a loss ends in a timeout.
    pub q: f64,
    /// Expected number of timeouts.
    pub n: f64,
    /// Expected number of runs of consecutive timeouts.
    pub u: f64,
    /// Expected number of slow-start phases.
    pub v: f64,
    /// Packets per slow-start phase.
    pub e: f64,
    /// Time in slow start, in seconds.
    pub t_xfer_s: f64,
    /// Time in timeouts, in seconds.
    pub t_rto_s: f64,
    /// Latency in seconds.
    pub latency_s: f64,
}

/// Computes the latency of slow start alternating with runs of timeouts (Cardwell-98, as restated in WZK section C.1).
///
/// With `use_q`, a loss ends in a timeout with the probability [`q_approx`], as in WZK. Without `use_q`, every loss ends in a timeout, as
/// in the hysteresis paper's description of the model. WZK prints both n/(1-p) and n(1-p) as the number of runs of timeouts; only n(1-p)
/// agrees with runs of 1/(1-p) timeouts. The model has no largest window and no congestion avoidance.
pub fn cardwell98(n: u32, p: f64, path: &Path, use_q: bool) -> Result<Cardwell98, ModelError> {
    check::packets("N", n)?;
    check::probability("p", p)?;
    let path = path.check()?;
    let phases = phases(n, p, &path, path.w1, use_q);
    Ok(Cardwell98 { latency_s: phases.latency_s + path.delack_s, ..phases })
}

/// Computes the slow-start phases, each starting with window `w`. Their latency excludes the wait for a delayed ACK.
pub(crate) fn phases(packets: u32, p: f64, path: &Path, w: f64, use_q: bool) -> Cardwell98 {
    let packets = f64::from(packets);
    let q = if use_q { q_approx(p, path.b) } else { 1.0 };
    let l = p * packets / (1.0 - p);
    let n = l * q;
    let u = n * (1.0 - p);
    let v = u + 1.0;
    let e = (packets + 1.0) / v;
    let growth = 1.0 / path.b;
    let t_xfer_s = v * math::ln_1p(e * growth / w) / math::ln_1p(growth) * path.rtt_s;
    let t_rto_s = u * timeout_run(p, path.t0_s);
    Cardwell98 { l, q, n, u, v, e, t_xfer_s, t_rto_s, latency_s: t_xfer_s + t_rto_s }
}
