use crate::terms::{any_loss, q_hat, slow_start_packets, slow_start_time, slow_start_window, timeout_run};
use crate::{ModelError, Path, Rate, check};

/// Latency by the Cardwell-00 model, with its intermediate quantities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cardwell00 {
    /// Packets sent in the first slow start.
    pub e_dss: f64,
    /// Window at the end of the first slow start if Wmax does not limit it.
    pub e_wss: f64,
    /// Duration of the first slow start, in seconds.
    pub t_ss_s: f64,
    /// Probability that the first slow start ends in a loss.
    pub l_ss: f64,
    /// Probability that this loss ends in a timeout.
    pub q: f64,
    /// Expected cost of this loss, in seconds.
    pub t_loss_s: f64,
    /// Packets left for congestion avoidance.
    pub e_dca: f64,
    /// Duration of congestion avoidance, in seconds.
    pub t_ca_s: f64,
    /// Latency in seconds.
    pub latency_s: f64,
}

/// Computes the latency of one slow start, one loss, and the remaining packets at the steady-state rate (Cardwell-00 Eq. 5-22, without the
/// connection set-up). Here the window at the loss is limited to Wmax. The paper uses [`Rate::Receive`] as `rate`.
pub fn cardwell00(n: u32, p: f64, path: &Path, rate: Rate) -> Result<Cardwell00, ModelError> {
    check::packets("N", n)?;
    check::probability("p", p)?;
    let path = path.check()?;
    let n = f64::from(n);
    let e_dss = slow_start_packets(n, p, true);
    let e_wss = slow_start_window(e_dss, path.w1, path.b);
    let t_ss_s = slow_start_time(e_dss, path.w1, path.w_max, path.b, path.rtt_s);
    let l_ss = any_loss(p, n);
    let q = q_hat(p, e_wss.min(path.w_max));
    let t_loss_s = l_ss * (q * timeout_run(p, path.t0_s) + (1.0 - q) * path.rtt_s);
    let e_dca = (n - e_dss).max(0.0);
    let t_ca_s = e_dca / rate.of(p, &path);
    let latency_s = t_ss_s + t_loss_s + t_ca_s + path.delack_s;
    Ok(Cardwell00 { e_dss, e_wss, t_ss_s, l_ss, q, t_loss_s, e_dca, t_ca_s, latency_s })
}
