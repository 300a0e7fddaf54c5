use crate::{ModelError, Path, Rate, check};

/// Returns N / rate + Tdelack, the latency in seconds of a transfer of `n` packets at the steady-state rate. The comparison of the
/// hysteresis paper uses it, without the connection set-up. The formula ignores slow start and gives a much too low latency for short
/// flows.
pub fn padhye_latency(n: u32, p: f64, path: &Path, rate: Rate) -> Result<f64, ModelError> {
    check::packets("N", n)?;
    check::probability("p", p)?;
    let path = path.check()?;
    Ok(f64::from(n) / rate.of(p, &path) + path.delack_s)
}
