//! Numbers with units, as people write them: `1.5Mbit`, `9.2ms`, `32KB`.

use crate::{Rate, Span};
use std::fmt;
use std::str::FromStr;

/// A text that is not what it should be. The message names the text and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    value: String,
    expected: String,
}

impl ParseError {
    /// `value` cannot be read; `expected` completes the sentence "expected …".
    pub fn new(value: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { value: value.into(), expected: expected.into() }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: expected {}", self.value, self.expected)
    }
}

impl std::error::Error for ParseError {}

/// An amount of data in bytes; `KB` and `MB` are the 1024-based units of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Splits `9.2ms` into 9.2 and `ms`; the number must be finite and not negative.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..split].trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number, &text[split..]))
}

fn parse(text: &str, units: &[(&str, f64)], expected: &str) -> Result<f64, ParseError> {
    number_and_unit(text)
        .and_then(|(number, unit)| {
            units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| number * scale)
        })
        .filter(|value| *value < u64::MAX as f64)
        .ok_or_else(|| ParseError::new(text, expected))
}

impl FromStr for Span {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)];
        let expected = "a time such as 200ms (ns, us, ms, s, min; not negative)";
        parse(text, &units, expected).map(|nanos| Span::from_nanos(nanos.round() as u64))
    }
}

impl FromStr for Rate {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let units = [("bit", 1.0), ("kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9)];
        let expected = "a rate such as 1.5Mbit (bit, kbit, Mbit, Gbit per second; positive)";
        let bits = parse(text, &units, expected)?.round() as u64;
        Rate::from_bits_per_second(bits).ok_or_else(|| ParseError::new(text, expected))
    }
}

impl FromStr for Bytes {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let units = [("", 1.0), ("B", 1.0), ("KB", 1024.0), ("MB", 1024.0 * 1024.0)];
        let expected = "a size such as 512, 512B, 32KB or 1MB (not negative)";
        parse(text, &units, expected).map(|bytes| Bytes(bytes.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_as_written() {
        assert_eq!("9.2ms".parse::<Span>().unwrap(), Span::from_micros(9200));
        assert_eq!("1.5Mbit".parse::<Rate>().unwrap().bits_per_second(), 1_500_000);
        assert_eq!("32KB".parse::<Bytes>().unwrap(), Bytes(32 * 1024));
    }

    #[test]
    fn wrong_units_and_signs_are_refused_with_the_value_named() {
        for bad in ["-3Mbit", "1.5Mb", "0bit", "fast", "", "1e400Mbit", "nanMbit"] {
            let error = bad.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
        assert!("5".parse::<Span>().is_err(), "a time without a unit is ambiguous");
    }
}
