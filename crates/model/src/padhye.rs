use crate::{ModelError, Path, Rate, check};

/// N / rate + Tdelack: a steady-state rate taken for a latency, in seconds (as the hysteresis paper compares
/// it; the set-up is left out). It ignores slow start and is much too low for short flows.
pub fn padhye_latency(n: u32, p: f64, path: &Path, rate: Rate) -> Result<f64, ModelError> {
    check::packets("N", n)?;
    check::probability("p", p)?;
    let path = path.check()?;
    Ok(f64::from(n) / rate.of(p, &path) + path.delack_s)
}
