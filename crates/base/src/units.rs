//! Quantities with units in text, such as `1.5Mbit`, `9.2ms` or `32KB`.

use crate::{Rate, Span};
use std::fmt;
use std::str::FromStr;

/// Error of parsing a text. The message contains the text and the expected form, or the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    value: String,
    reason: String,
    is_too_large: bool,
}

impl ParseError {
    /// Creates the error for an invalid `value`; `expected` completes the sentence "expected …".
    pub fn new(value: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::because(value, format!("expected {}", expected.into()))
    }

    /// Creates the error for an invalid `value` with a reason instead of the expected form.
    pub(crate) fn because(value: impl Into<String>, reason: String) -> Self {
        Self { value: value.into(), reason, is_too_large: false }
    }

    /// Creates the error for a `value` above `max`, the largest value that a number can hold.
    pub fn too_large(value: impl Into<String>, max: impl fmt::Display) -> Self {
        Self { is_too_large: true, ..Self::new(value, format!("at most {max}")) }
    }

    /// Replaces the value in the error by `text`, which contains the value.
    pub fn with_value(self, text: impl Into<String>) -> Self {
        Self { value: text.into(), ..self }
    }

    /// Returns true if the value is too large.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.value, self.reason)
    }
}

impl std::error::Error for ParseError {}

/// Amount of data in bytes; `KB`, `MB` and `GB` are the 1024-based units of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Share of a whole, or probability, written `5%` or `0.05`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(pub f64);

/// Quantity that is written as a number with a unit.
pub trait Quantity: FromStr<Err = ParseError> + fmt::Display {
    /// Name of the quantity, such as `time`.
    const NAME: &'static str;
    /// Range, resolution or units of the quantity, for the documentation of scenarios.
    const ABOUT: &'static str;
    /// Units in ascending order. An empty unit stands for a number without a unit.
    const UNITS: &'static [&'static str];
}

/// Units with their sizes in ascending order.
type Units = [(&'static str, u64)];

const SPANS: &Units = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const RATES: &Units = &[("bit", 1), ("kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000)];

/// Parses a text such as `9.2ms`. The result is rounded to a whole number of the smallest unit, from all digits of the text.
fn parse(text: &str, units: &Units, expected: &str) -> Result<u64, ParseError> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), &text[split..]);
    let size = units.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size);
    let Some((size, decimal)) = size.zip(Decimal::of(number)) else {
        return Err(ParseError::new(text, expected));
    };
    decimal.times(size).ok_or_else(|| ParseError::too_large(text, format!("{}{unit}", u64::MAX / size)))
}

/// Unsigned decimal number: the digits before and the digits after the decimal point.
struct Decimal<'a>(&'a str, &'a str);

impl<'a> Decimal<'a> {
    fn of(number: &'a str) -> Option<Self> {
        let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        (digits(integer) && digits(fraction) && integer.len() + fraction.len() > 0)
            .then_some(Self(integer, fraction))
    }

    /// Multiplies the number by `size` and rounds it; `None` on overflow.
    fn times(&self, size: u64) -> Option<u64> {
        let digits = |text: &str| match text {
            "" => Some(0),
            text => text.parse::<u64>().ok().map(u128::from),
        };
        // Digits beyond the 18th are below half of the smallest unit.
        let fraction = &self.1[..self.1.len().min(18)];
        let tens = 10u128.pow(fraction.len() as u32);
        let parts = digits(self.0)? * tens + digits(fraction)?;
        u64::try_from((parts.checked_mul(u128::from(size))? + tens / 2) / tens).ok()
    }
}

/// Writes a value exactly, in the largest unit that does not exceed the value.
fn write(f: &mut fmt::Formatter<'_>, value: u64, units: &Units) -> fmt::Result {
    let fits = |(_, size): &&(&str, u64)| value == 0 || value >= *size;
    let (unit, size) = units.iter().rev().find(fits).expect("the smallest unit is 1");
    write!(f, "{}", value / size)?;
    let fraction = format!("{:0width$}", value % size, width = size.ilog10() as usize);
    match fraction.trim_end_matches('0') {
        "" => f.write_str(unit),
        digits => write!(f, ".{digits}{unit}"),
    }
}

impl Quantity for Span {
    const NAME: &'static str = "time";
    const ABOUT: &'static str = "non-negative, with a resolution of 1 ns";
    const UNITS: &'static [&'static str] = &["ns", "us", "ms", "s", "min"];
}

impl FromStr for Span {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let expected = "a time such as 200ms (ns, us, ms, s, min; not negative)";
        let with_minutes = [SPANS, &[("min", 60_000_000_000)]].concat();
        parse(text, &with_minutes, expected).map(Span::from_nanos)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.as_nanos(), SPANS)
    }
}

impl Quantity for Rate {
    const NAME: &'static str = "rate";
    const ABOUT: &'static str = "bits per second, positive; k, M and G are powers of 1000";
    const UNITS: &'static [&'static str] = &["bit", "kbit", "Mbit", "Gbit"];
}

impl FromStr for Rate {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let expected = "a rate such as 1.5Mbit (bit, kbit, Mbit, Gbit per second; positive)";
        let bits = parse(text, RATES, expected)?;
        Rate::from_bits_per_second(bits).ok_or_else(|| ParseError::new(text, expected))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.bits_per_second(), RATES)
    }
}

impl Quantity for Bytes {
    const NAME: &'static str = "size";
    const ABOUT: &'static str = "bytes, non-negative; KB, MB and GB are 1024, 1024² and 1024³ bytes";
    const UNITS: &'static [&'static str] = &["", "B", "KB", "MB", "GB"];
}

impl FromStr for Bytes {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let expected = "a size such as 512, 512B, 32KB, 1MB or 1GB (not negative)";
        let units = &[("", 1), ("B", 1), ("KB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30)];
        let is_in_bytes = !text.trim_end_matches('B').ends_with(['K', 'M', 'G']);
        if is_in_bytes && text.contains('.') {
            return Err(ParseError::new(text, "a whole number of bytes"));
        }
        parse(text, units, expected).map(Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => write!(f, "{}MB", bytes >> 20),
            bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => write!(f, "{}KB", bytes >> 10),
            bytes => write!(f, "{bytes}B"),
        }
    }
}

impl Quantity for Share {
    const NAME: &'static str = "share";
    const ABOUT: &'static str = "share of a whole, or a probability; 5% is 0.05";
    const UNITS: &'static [&'static str] = &["", "%"];
}

impl FromStr for Share {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let read = match text.trim().strip_suffix('%') {
            None => text.trim().parse().ok(),
            // Parsing with an exponent yields the nearest number; a division does not always do so.
            Some(percent) if !percent.contains(['e', 'E']) => format!("{}e-2", percent.trim()).parse().ok(),
            Some(_) => None,
        };
        let read = read.filter(|share: &f64| share.is_finite());
        read.map(Self).ok_or_else(|| ParseError::new(text, "a share such as 0.05 or 5%"))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn percent_are_hundredths_to_the_last_bit() {
        for (text, share) in [("5%", 0.05), ("0.1%", 0.001), ("33.3 %", 0.333), ("0.07", 0.07), ("7%", 0.07)]
        {
            assert_eq!(text.parse(), Ok(Share(share)), "{text}");
        }
        for bad in ["%", "five%", "1e3%", "5 percent", "nan", "inf", ""] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_unit_that_is_told_is_read() {
        fn reads<Q: Quantity>() {
            for unit in Q::UNITS {
                assert!(format!("2{unit}").parse::<Q>().is_ok(), "{unit}");
            }
        }
        reads::<Span>();
        reads::<Rate>();
        reads::<Bytes>();
        reads::<Share>();
        assert_eq!("1GB".parse(), Ok(Bytes(1 << 30)));
    }

    #[test]
    fn what_is_more_than_a_number_can_hold_is_said_to_be() {
        for (text, max) in [
            ("18446744074s", "18446744073s"),
            ("99999999999999999999999999ms", "18446744073709ms"),
            ("307445735min", "307445734min"),
        ] {
            let error = text.parse::<Span>().unwrap_err();
            assert!(error.is_too_large());
            assert_eq!(error.to_string(), format!("{text:?}: expected at most {max}"));
        }
        assert!("18446744073s".parse::<Span>().is_ok());
        assert!("1e400Mbit".parse::<Rate>().is_err_and(|error| !error.is_too_large()));
        assert!("99999999999999999999KB".parse::<Bytes>().is_err_and(|error| error.is_too_large()));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_to_the_last_digit(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(Span::from_nanos(value).to_string().parse(), Ok(Span::from_nanos(value)));
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            let share = f64::from_bits(value);
            if share.is_finite() {
                prop_assert_eq!(Share(share).to_string().parse(), Ok(Share(share)));
            }
            if let Some(rate) = Rate::from_bits_per_second(value) {
                prop_assert_eq!(rate.to_string().parse(), Ok(rate));
            }
        }
    }

    #[test]
    fn units_are_written_as_people_write_them() {
        let shown = |text: &str| text.parse::<Span>().unwrap().to_string();
        assert_eq!(["0ms", "9200us", "1.5min", "0.25ms"].map(shown), ["0s", "9.2ms", "90s", "250us"]);
        let shown = |text: &str| text.parse::<Rate>().unwrap().to_string();
        assert_eq!(["1500kbit", "0.064Mbit", "10Gbit"].map(shown), ["1.5Mbit", "64kbit", "10Gbit"]);
        assert_eq!(
            [Bytes(15 << 10), Bytes(1 << 22), Bytes(1000)].map(|b| b.to_string()),
            ["15KB", "4MB", "1000B"]
        );
    }
}
