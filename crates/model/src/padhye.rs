use crate::{ModelError, Path, Rate, check};

/// Computes N / rate + Tdelack, the latency in seconds of a transfer at a steady-state rate (as in the comparison of the hysteresis paper,
/// without the connection set-up). The formula ignores slow start and is much too low for short flows.
pub fn padhye_latency(n: u32, p: f64, path: &Path, rate: Rate) -> Result<f64, ModelError> {
    check::packets("N", n)?;
    check::probability("p", p)?;
    let path = path.check()?;
    Ok(f64::from(n) / rate.of(p, &path) + path.delack_s)
}
