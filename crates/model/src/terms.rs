//! Terms shared by several models. Arguments are not checked: outside the stated ranges the results are meaningless.

use catnip_base::math;

/// Returns 1 - (1-p)^d, the probability of at least one loss among `d` packets. The computation is exact for small `p`, too.
pub fn any_loss(p: f64, d: f64) -> f64 {
    -math::exp_m1(d * math::ln_1p(-p))
}

/// Returns f(p) = 1 + p + 2p² + 4p³ + 8p⁴ + 16p⁵ + 32p⁶, the back-off factor of a run of timeouts. The timer doubles six times and then
/// stays constant (PFTK; G(p) of Cardwell-00; hysteresis paper, Eq. 10).
pub fn backoff(p: f64) -> f64 {
    let twice = 2.0 * p;
    1.0 + p * (1.0 + twice * (1.0 + twice * (1.0 + twice * (1.0 + twice * (1.0 + twice)))))
}

/// Returns E\[Z^TO\] = T0 f(p) / (1-p), the mean duration in seconds of a run of timeouts (hysteresis paper, Eq. 9).
pub fn timeout_run(p: f64, t0_s: f64) -> f64 {
    t0_s * backoff(p) / (1.0 - p)
}

/// Returns Q(p,w), the probability that a loss in a window of `w` packets ends in a timeout (PFTK; Cardwell-00 Eq. 17; hysteresis paper,
/// Eq. 8). `w` is a real number. For w <= 3 there cannot be three duplicate ACKs, so Q = 1. The limit for p = 0 is 3/w.
pub fn q_hat(p: f64, w: f64) -> f64 {
    if w <= 3.0 {
        return 1.0;
    }
    if p == 0.0 {
        return 3.0 / w;
    }
    let three = any_loss(p, 3.0);
    (three * (1.0 + (1.0 - three) * any_loss(p, w - 3.0)) / any_loss(p, w)).min(1.0)
}

/// Returns min(1, 3 sqrt(3bp/8)), the approximation of Q at the mean window sqrt(8/(3bp)) (PFTK).
pub fn q_approx(p: f64, b: f64) -> f64 {
    (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0)
}

/// Returns W(p), the expected window at a loss in congestion avoidance without a largest window (PFTK); infinite for p = 0.
pub fn window(p: f64, b: f64) -> f64 {
    if p == 0.0 { f64::INFINITY } else { window_times_p(p, b) / p }
}

/// Returns p W(p), without overflow for small `p`.
pub(crate) fn window_times_p(p: f64, b: f64) -> f64 {
    let pk = p * (2.0 + b) / (3.0 * b);
    pk + (8.0 * (1.0 - p) * p / (3.0 * b) + pk * pk).sqrt()
}

/// Returns E\[dss\](d,p), the expected number of packets sent in slow start up to the first loss, given `d` > 0 packets to send.
///
/// (1-(1-p)^d)(1-p)/p packets arrive before the first loss (hysteresis paper, Eq. 3). With `plus_one`, the lost packet counts as well, as
/// in Cardwell-00 Eq. 5. In the available text of the hysteresis paper this term is not legible, but without it the remaining data of its
/// cycles never reaches zero. The limit to `d` and the value d for p = 0 are defined here; without them, p -> 0 would give d + 1.
pub fn slow_start_packets(d: f64, p: f64, plus_one: bool) -> f64 {
    if p == 0.0 {
        return d;
    }
    let arrived = any_loss(p, d) * (1.0 - p) / p;
    if plus_one { d.min(arrived + 1.0) } else { arrived }
}

/// Returns E\[Wss\] = e (γ-1)/γ + w1/γ with γ = 1 + 1/b, the window after `e` packets of a slow start with initial window `w1` and no
/// largest window (Cardwell-00 Eq. 11; hysteresis paper, Eq. 5).
pub fn slow_start_window(e: f64, w1: f64, b: f64) -> f64 {
    let growth = 1.0 / b;
    (e * growth + w1) / (1.0 + growth)
}

/// Returns E\[Tss\], the duration in seconds of a slow start of `e` packets with initial window `w1` (Cardwell-00 Eq. 15; hysteresis paper,
/// Eq. 6). The number of rounds is a real number. Once the window would exceed `w_max`, the remaining packets are sent at `w_max` per
/// round. Both branches give the same duration for E\[Wss\] = w_max.
pub fn slow_start_time(e: f64, w1: f64, w_max: f64, b: f64, rtt_s: f64) -> f64 {
    let growth = 1.0 / b;
    let ln_gamma = math::ln_1p(growth);
    if slow_start_window(e, w1, b) > w_max {
        let until_limit = ((1.0 + growth) * w_max - w1) / growth;
        rtt_s * (math::ln(w_max / w1) / ln_gamma + 1.0 + (e - until_limit) / w_max)
    } else {
        rtt_s * math::ln_1p(e * growth / w1) / ln_gamma
    }
}

/// Returns (1-p)/(1-2p) - 1 = p/(1-2p), the expected delay of a connection set-up packet due to timeouts, in units of the first timeout.
/// The timeout doubles without a limit. Requires p < 0.5.
pub(crate) fn setup_timeouts(p: f64) -> f64 {
    p / (1.0 - 2.0 * p)
}

/// Returns E\[Lh\], the expected duration of the connection set-up in seconds (Cardwell-00 Eq. 4). `pf` is the loss probability towards the
/// server and `pr` the loss probability towards the client, both below 0.5. `ts_s` is the first timeout of a SYN.
pub fn handshake(pf: f64, pr: f64, rtt_s: f64, ts_s: f64) -> f64 {
    rtt_s + ts_s * (setup_timeouts(pr) + setup_timeouts(pf))
}
