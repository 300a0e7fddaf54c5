//! Range checks of parameters. A comparison with NaN is false, so NaN fails every check.

use crate::ModelError;

pub(crate) fn ensure(
    is_valid: bool,
    parameter: &'static str,
    value: f64,
    expected: &'static str,
) -> Result<(), ModelError> {
    if is_valid { Ok(()) } else { Err(ModelError::new(parameter, value, expected)) }
}

pub(crate) fn probability(parameter: &'static str, p: f64) -> Result<(), ModelError> {
    let expected = match parameter {
        "pl" => "a probability, 0 <= pl < 1",
        "p_high" => "a probability, 0 <= p_high < 1",
        _ => "a probability, 0 <= p < 1",
    };
    ensure((0.0..1.0).contains(&p), parameter, p, expected)
}

/// Checks the loss probability for a formula whose rate is infinite without loss.
pub(crate) fn positive_probability(p: f64) -> Result<(), ModelError> {
    probability("p", p)?;
    ensure(
        p > 0.0,
        "p",
        p,
        "a positive probability: without loss and without a largest window the rate is unbounded",
    )
}

pub(crate) fn setup_loss(parameter: &'static str, p: f64) -> Result<(), ModelError> {
    let expected = "a probability below 0.5, from which on the expected set-up time diverges, because the timeout doubles";
    ensure((0.0..0.5).contains(&p), parameter, p, expected)
}

pub(crate) fn time(parameter: &'static str, seconds: f64) -> Result<(), ModelError> {
    ensure(seconds > 0.0 && seconds.is_finite(), parameter, seconds, "a positive, finite time in seconds")
}

pub(crate) fn nonnegative_time(parameter: &'static str, seconds: f64) -> Result<(), ModelError> {
    ensure(seconds >= 0.0 && seconds.is_finite(), parameter, seconds, "a finite time in seconds, at least 0")
}

pub(crate) fn at_least_one(parameter: &'static str, value: f64) -> Result<(), ModelError> {
    ensure(value >= 1.0 && value.is_finite(), parameter, value, "a finite number, at least 1")
}

pub(crate) fn packets(parameter: &'static str, n: u32) -> Result<(), ModelError> {
    ensure(n >= 1, parameter, f64::from(n), "a whole number of packets, at least 1")
}

/// Checks the number of packets for a model whose computation time grows with this number.
pub(crate) fn packets_up_to(parameter: &'static str, n: u32, max: u32) -> Result<(), ModelError> {
    packets(parameter, n)?;
    if n <= max {
        return Ok(());
    }
    Err(ModelError::new(
        parameter,
        f64::from(n),
        format!("at most {max} packets in this model of short flows"),
    ))
}

pub(crate) fn positive_integer(parameter: &'static str, value: f64) -> Result<u32, ModelError> {
    let is_valid = value >= 1.0 && value <= f64::from(u32::MAX) && value.fract() == 0.0;
    ensure(is_valid, parameter, value, "a whole number from 1 to 4294967295").map(|()| value as u32)
}

pub(crate) fn flag(parameter: &'static str, value: f64) -> Result<bool, ModelError> {
    ensure(value == 0.0 || value == 1.0, parameter, value, "0 or 1").map(|()| value == 1.0)
}
