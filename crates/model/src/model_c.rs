use crate::cardwell98::{Cardwell98, phases};
use crate::terms::setup_timeouts;
use crate::{ModelError, Path, check};

/// Latency by Model C, with its intermediate quantities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelC {
    /// Loss probability in the slow-start phases.
    pub p: f64,
    /// Slow-start phases. Their latency excludes the connection set-up and the wait for a delayed ACK.
    pub phases: Cardwell98,
    /// Duration of the connection set-up and the request, in seconds.
    pub t_handshk_s: f64,
    /// Duration of the whole download, in seconds.
    pub latency_s: f64,
}

/// Computes Model C of WZK section C.1. `loss` converts the loss probability `pl` of one direction into the loss probability of the
/// slow-start phases. `pl` itself is too low for these phases; [`round_trip_loss`](crate::round_trip_loss) is too high.
///
/// Model C is the model of Cardwell-98 with a connection set-up; WZK cite Cardwell-00 but describe Cardwell-98. `delay_s` is the one-way
/// delay, `t0_s` the mean duration of the first timeout of a run, and `ts_s` the first timeout of the set-up. The formula of the set-up is
/// a reconstruction: 1.5 round trips for set-up and request, and loss `pl` in both directions. It makes the result comparable with the new
/// model of WZK.
#[expect(clippy::too_many_arguments, reason = "the parameters are those of the model")]
pub fn model_c(
    data: u32,
    pl: f64,
    delay_s: f64,
    t0_s: f64,
    b: f64,
    w1: f64,
    ts_s: f64,
    loss: fn(f64) -> f64,
) -> Result<ModelC, ModelError> {
    check::packets("data", data)?;
    check::setup_loss("pl", pl)?;
    check::time("delay_s", delay_s)?;
    check::time("Ts_s", ts_s)?;
    let path = Path { rtt_s: 2.0 * delay_s, t0_s, w_max: f64::MAX, b, w1, delack_s: 0.0 }.check()?;
    let p = loss(pl);
    let phases = phases(data, p, &path, path.w1, true);
    let t_handshk_s = 1.5 * path.rtt_s + ts_s * 2.0 * setup_timeouts(pl);
    Ok(ModelC { p, phases, t_handshk_s, latency_s: t_handshk_s + phases.latency_s })
}
