//! Steady-state rates in packets per second.

use crate::terms::{q_approx, q_hat, timeout_run, window, window_times_p};
use crate::{ModelError, Path, check};
use catnip_base::math;

/// Steady-state rate that a latency model uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Receive rate: [`pftk_throughput`].
    Receive,
    /// Send rate, retransmissions included: [`pftk_full`].
    Send,
    /// Approximation in closed form: [`pftk_approx`].
    Approximate,
}

impl Rate {
    pub(crate) fn of(self, p: f64, path: &Path) -> f64 {
        match self {
            Self::Receive => receive_rate(p, path),
            Self::Send => send_rate(p, path),
            Self::Approximate => approximate_rate(p, path),
        }
    }
}

/// Returns C / (RTT sqrt(p)), the rate of Mathis without timeouts. C is sqrt(3/2) with an ACK for each packet, sqrt(3/4) with delayed ACKs.
/// The rate is at most `w_max` / RTT. Without `w_max`, p = 0 is an error.
pub fn mathis(p: f64, rtt_s: f64, c: f64, w_max: Option<f64>) -> Result<f64, ModelError> {
    check::time("RTT_s", rtt_s)?;
    check::ensure(c > 0.0 && c.is_finite(), "C", c, "a positive, finite number")?;
    check_limit(p, w_max)?;
    Ok((c / p.sqrt()).min(w_max.unwrap_or(f64::INFINITY)) / rtt_s)
}

/// Computes the PFTK send rate without timeouts and without a largest window. Requires p > 0.
pub fn pftk_td_only(p: f64, rtt_s: f64, b: f64) -> Result<f64, ModelError> {
    check::positive_probability(p)?;
    check::time("RTT_s", rtt_s)?;
    check::at_least_one("b", b)?;
    // Numerator and denominator are multiplied by p, so that a small p causes no overflow.
    let pw = window_times_p(p, b);
    Ok((1.0 - p + pw) / (rtt_s * (b * pw / 2.0 + p)))
}

/// Computes the send rate B(p) with timeouts and a largest window (PFTK 1998 Eq. 31). The rate is discontinuous at W(p) = Wmax, because its
/// two branches do not meet there.
pub fn pftk_full(p: f64, path: &Path) -> Result<f64, ModelError> {
    check::probability("p", p)?;
    Ok(send_rate(p, &path.check()?))
}

/// Computes the receive rate T(p) (PFTK 2000; R of Cardwell-00 Eq. 22), which is comparable with goodput. The "+2" rounds of the branch for
/// W(p) >= Wmax are taken from [`pftk_full`]. This rate is discontinuous at W(p) = Wmax, too.
pub fn pftk_throughput(p: f64, path: &Path) -> Result<f64, ModelError> {
    check::probability("p", p)?;
    Ok(receive_rate(p, &path.check()?))
}

/// Computes the approximate send rate of PFTK in closed form, at most Wmax/RTT.
pub fn pftk_approx(p: f64, path: &Path) -> Result<f64, ModelError> {
    check::probability("p", p)?;
    Ok(approximate_rate(p, &path.check()?))
}

/// Computes the rate of the TFRC equation (RFC 5348 section 3.1), which is [`pftk_approx`] without the limit of the window and without the
/// limit of 1 on the probability of a timeout. Requires p > 0.
pub fn tfrc_rfc5348(p: f64, rtt_s: f64, t_rto_s: f64, b: f64) -> Result<f64, ModelError> {
    check::positive_probability(p)?;
    check::time("RTT_s", rtt_s)?;
    check::time("t_RTO_s", t_rto_s)?;
    check::at_least_one("b", b)?;
    Ok(1.0 / short_form_time(p, rtt_s, t_rto_s, b, 3.0 * (3.0 * b * p / 8.0).sqrt()))
}

/// Returns the mean time between packets by the approximation of PFTK. `q` is the probability of a timeout.
fn short_form_time(p: f64, rtt_s: f64, t0_s: f64, b: f64, q: f64) -> f64 {
    rtt_s * (2.0 * b * p / 3.0).sqrt() + t0_s * q * p * (1.0 + 32.0 * p * p)
}

fn approximate_rate(p: f64, path: &Path) -> f64 {
    let unlimited = 1.0 / short_form_time(p, path.rtt_s, path.t0_s, path.b, q_approx(p, path.b));
    unlimited.min(path.w_max / path.rtt_s)
}

/// Returns p times the time between two loss indications, the window, and the probability of a timeout. The window and this probability
/// determine the time, which is multiplied by p because the product is finite for p = 0.
fn period(p: f64, path: &Path) -> (f64, f64, f64) {
    let unlimited = window(p, path.b);
    let w = unlimited.min(path.w_max);
    let q = q_hat(p, w);
    let rounds = if unlimited < path.w_max {
        p * (path.b * w / 2.0 + 1.0)
    } else {
        p * (path.b * w / 8.0 + 2.0) + (1.0 - p) / w
    };
    (path.rtt_s * rounds + p * q * timeout_run(p, path.t0_s), w, q)
}

fn send_rate(p: f64, path: &Path) -> f64 {
    let (time, w, q) = period(p, path);
    (1.0 - p + p * (w + q / (1.0 - p))) / time
}

fn receive_rate(p: f64, path: &Path) -> f64 {
    let (time, w, q) = period(p, path);
    (1.0 - p + p * (w / 2.0 + q)) / time
}

/// Rate of CUBIC, with the two windows from which it is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cubic {
    /// Rate in packets per second.
    pub rate_pps: f64,
    /// Average window of the cubic function, packets.
    pub w_cubic: f64,
    /// Average window of the Reno-friendly region, packets.
    pub w_reno_friendly: f64,
}

/// Computes the average rate of CUBIC with one loss per 1/p packets and without timeouts (RFC 9438 section 5). The larger of the two
/// windows determines the rate, as in section 4.3. The limit `w_max` is an addition. The formula is not valid for p above about 2 %.
pub fn cubic(p: f64, rtt_s: f64, c: f64, beta: f64, w_max: Option<f64>) -> Result<Cubic, ModelError> {
    check::time("RTT_s", rtt_s)?;
    check::ensure(c > 0.0 && c.is_finite(), "C", c, "a positive, finite number")?;
    check::ensure(beta > 0.0 && beta < 1.0, "beta", beta, "a factor between 0 and 1")?;
    check_limit(p, w_max)?;
    let w_cubic = math::pow(c * (3.0 + beta) / (4.0 * (1.0 - beta)), 0.25) * math::pow(rtt_s / p, 0.75);
    let alpha = 3.0 * (1.0 - beta) / (1.0 + beta);
    let w_reno_friendly = (alpha * (1.0 + beta) / (2.0 * (1.0 - beta) * p)).sqrt();
    let w = w_cubic.max(w_reno_friendly).min(w_max.unwrap_or(f64::INFINITY));
    Ok(Cubic { rate_pps: w / rtt_s, w_cubic, w_reno_friendly })
}

fn check_limit(p: f64, w_max: Option<f64>) -> Result<(), ModelError> {
    match w_max {
        Some(w_max) => check::probability("p", p).and_then(|()| check::at_least_one("Wmax", w_max)),
        None => check::positive_probability(p),
    }
}
