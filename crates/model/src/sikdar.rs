//! Two latency models based on Sikdar's. Both are reconstructions. The growth law of the window and the separation by the number of losses
//! are those of the authors. The costs of one and of several losses are derived here from the same structure. The position of two terms of
//! the fitted formula could not be confirmed. Do not present the results as the published values.

use crate::terms::{any_loss, q_hat, timeout_run, window};
use crate::{ModelError, Path, check};
use catnip_base::math;

/// Maximum size of a transfer in the three-case model, packets. The limit bounds the computation time, because the model computes one
/// latency per packet that can be lost.
const MAX_PACKETS: u32 = 100_000;

/// Returns the number of packets in round `n` (from 1) of slow start with delayed ACKs: floor(2^((n-1)/2) + 2^((n-2)/2)), at most `w_max`
/// (hysteresis paper, Eq. 1).
pub fn sikdar_packets(n: u32, w_max: u32) -> u32 {
    let n = f64::from(n);
    // The cast saturates, so late rounds are at the limit.
    ((math::exp2((n - 1.0) / 2.0) + math::exp2((n - 2.0) / 2.0)) as u32).min(w_max)
}

/// Returns the number of rounds in which slow start sends the first `m` packets.
pub fn sikdar_rounds(m: u32, w_max: u32) -> u32 {
    let (mut sent, mut round) = (0, 0);
    while sent < m {
        round += 1;
        let packets = sikdar_packets(round, w_max);
        if packets == w_max {
            return round + (m - sent).div_ceil(w_max) - 1;
        }
        sent = sent.saturating_add(packets);
    }
    round
}

/// Returns the number of rounds in which `m` packets are sent after a loss. The window grows linearly from `h`, by one packet every `b`
/// rounds. With `slow_start`, slow start precedes the linear growth until the window reaches `h`, and the last round of slow start counts
/// as one of the `b` rounds with window `h`.
pub fn sikdar_grow(m: i64, h: u32, slow_start: bool, b: u32, w_max: u32) -> u32 {
    let (mut remaining, mut rounds, mut at_window) = (m, 0, 0);
    let mut w = h.min(w_max);
    if slow_start {
        while remaining > 0 && at_window == 0 {
            rounds += 1;
            let packets = sikdar_packets(rounds, w_max);
            at_window = u32::from(packets >= w);
            remaining -= i64::from(packets.min(w));
        }
    }
    while remaining > 0 && w < w_max {
        if at_window == b {
            (w, at_window) = (w + 1, 0);
        } else {
            (rounds, at_window, remaining) = (rounds + 1, at_window + 1, remaining - i64::from(w));
        }
    }
    rounds + remaining.max(0).unsigned_abs().div_ceil(u64::from(w_max)) as u32
}

/// Latency of the three-case model (no loss, one loss, several losses) with its intermediate quantities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SikdarThreeCase {
    /// Latency without a loss, in seconds.
    pub t_nl_s: f64,
    /// Latency with one loss, in seconds.
    pub t_sl_s: f64,
    /// Latency with several losses, in seconds. A transfer of one packet cannot have several losses; the value is then the latency with one
    /// loss.
    pub t_ml_s: f64,
    /// Probability of no loss.
    pub p0: f64,
    /// Probability of one loss.
    pub p1: f64,
    /// Probability of several losses.
    pub p2: f64,
    /// Mean latency in seconds: the three latencies weighted by their probabilities.
    pub latency_s: f64,
}

/// Computes the latencies without a loss, with one loss and with several losses, and their mean weighted by the probabilities of the three
/// cases. The model is a reconstruction; see the module. The growth law assumes delayed ACKs (b = 2) and an initial window of 1. `w1` is
/// therefore not used, and `b`, a whole number, slows only the linear growth.
pub fn sikdar_threecase(n: u32, p: f64, path: &Path) -> Result<SikdarThreeCase, ModelError> {
    check::packets_up_to("N", n, MAX_PACKETS)?;
    check::probability("p", p)?;
    let path = path.check()?;
    let (w_max, b) = path.integer_limits()?;
    let Path { rtt_s, t0_s, delack_s, .. } = path;
    let grow = |m: i64, h, slow_start| rtt_s * f64::from(sikdar_grow(m, h, slow_start, b, w_max));

    let t_nl_s = rtt_s * f64::from(sikdar_rounds(n, w_max)) + delack_s;
    let one_loss = |i: u32| {
        let r = sikdar_rounds(i, w_max);
        let w = sikdar_packets(r, w_max);
        let h = (w / 2).max(2);
        let k = (n - i).min(w - 1);
        let remaining = i64::from(n - i - k);
        let cost =
            if k >= 3 { rtt_s + grow(remaining, h, false) } else { t0_s + grow(remaining + 1, h, true) };
        rtt_s * f64::from(r) + delack_s + cost
    };
    let t_sl_s = (1..=n).map(one_loss).sum::<f64>() / f64::from(n);

    let packets = f64::from(n);
    let p0 = 1.0 - any_loss(p, packets);
    let p1 = packets * p * (1.0 - any_loss(p, packets - 1.0));
    let p2 = several_losses(n, p, p0, p1);
    let t_ml_s = if n == 1 {
        t_sl_s
    } else {
        // As p approaches 0, "several losses" means two losses.
        let losses = if p2 > 0.0 { packets * p * any_loss(p, packets - 1.0) / p2 } else { 2.0 };
        let between = (packets / (losses + 1.0)).ceil().max(1.0) as u32;
        let w = window(p, path.b).min(f64::from(w_max));
        let q = q_hat(p, w);
        let h = (w as u32 / 2).max(2);
        let m = i64::from(between);
        let timeout = timeout_run(p, t0_s) + grow(m, h, true);
        let fast = rtt_s + grow(m, h, false);
        rtt_s * f64::from(sikdar_rounds(between, w_max))
            + delack_s
            + losses * (q * timeout + (1.0 - q) * fast)
    };
    let latency_s = p0 * t_nl_s + p1 * t_sl_s + p2 * t_ml_s;
    Ok(SikdarThreeCase { t_nl_s, t_sl_s, t_ml_s, p0, p1, p2, latency_s })
}

/// Returns the probability of two or more losses among `n` packets. Uses a series if 1 - P0 - P1 would suffer from cancellation.
fn several_losses(n: u32, p: f64, p0: f64, p1: f64) -> f64 {
    if f64::from(n) * p > 0.1 {
        return (1.0 - p0 - p1).max(0.0);
    }
    let (mut term, mut sum, odds) = (p1, 0.0, p / (1.0 - p));
    for k in 1..n {
        term *= f64::from(n - k) / f64::from(k + 1) * odds;
        sum += term;
        if term <= sum * 1e-17 {
            break;
        }
    }
    sum
}

/// Returns the latency of a transfer of `n` packets, in seconds, by Sikdar's fitted closed formula as quoted in later literature. The
/// formula is a reconstruction; see the module. It fits short flows; for long flows with loss (p >= 3 %, N >= 65) the latency is far too
/// low.
pub fn sikdar_empirical(n: u32, p: f64, rtt_s: f64, w_max: f64) -> Result<f64, ModelError> {
    check::packets("N", n)?;
    check::probability("p", p)?;
    check::time("RTT_s", rtt_s)?;
    check::at_least_one("Wmax", w_max)?;
    let n = f64::from(n);
    let log_n = math::ln(n) / math::ln(1.57);
    let q = p * (2.0 + p * (4.0 + p * 16.0));
    let f = 2.32 * q * n / (1.0 + rtt_s).powi(3) + (1.0 + p) / (1000.0 * rtt_s);
    let linear = (10.0 + 3.0 * rtt_s) * n / (4.0 * (1.0 - p) * w_max * w_max.sqrt());
    Ok(rtt_s * (log_n + f + 4.0 * p * log_n + 20.0 * p + linear))
}
