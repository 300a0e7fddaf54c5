use super::JitterKind;
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Span};
use std::sync::Arc;

/// Jitter drawn from the values in a file. All values are equally likely, and successive draws are independent.
#[derive(Clone, Debug, PartialEq)]
pub struct Empirical {
    form: Form,
    file: Arc<str>,
    /// Deviations from the configured delay, s. Empty until the file has been read.
    offsets_s: Arc<[f64]>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Measured delays, one per line.
    Samples,
    /// Distribution table of netem, scaled to the standard deviation `sigma`.
    Table { sigma: Span },
}

/// Standard deviation of netem's tables.
const TABLE_SCALE: f64 = 8192.0;

impl Kind for Empirical {
    const USAGE: &'static [Usage] = &[
        (
            "samples:FILE",
            "delay plus a random one of the times in FILE, one per line (12.5ms, or a number of milliseconds)",
        ),
        (
            "table:FILE,sigma=2ms",
            "delay plus a value from a distribution table of netem (/usr/lib/tc/*.dist), scaled to the standard deviation sigma",
        ),
    ];
    const EXAMPLES: &'static [&'static str] = &["samples:delays.txt", "table:normal.dist,sigma=2ms"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let samples = text.name() == "samples";
        let file: Arc<str> = text.next().unwrap_or_default().into();
        if file.is_empty() {
            return Err(text.error("a file name"));
        }
        let form = match text.optional("sigma")? {
            None if samples => Form::Samples,
            Some(sigma) if !samples && sigma > Span::ZERO => Form::Table { sigma },
            _ => return Err(text.error("samples:FILE, or table:FILE,sigma=TIME with a time above zero")),
        };
        Ok(Self { form, file, offsets_s: Arc::new([]) })
    }

    fn write(&self, to: &mut Written) {
        match self.form {
            Form::Samples => to.name("samples").value(&self.file),
            Form::Table { sigma } => to.name("table").value(&self.file).key("sigma", sigma),
        };
    }
}

impl Empirical {
    /// Returns the jitter with the values of its file, which `open` reads.
    pub(super) fn opened(
        self,
        open: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, ParseError> {
        let notation = Written::of(&self).to_string();
        let invalid = |problem: String| ParseError::new(&notation, problem);
        let text = open(&self.file).map_err(|problem| invalid(format!("a readable file: {problem}")))?;
        let mut offsets_s = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            for token in line.split_whitespace() {
                let value = match self.form {
                    Form::Samples => milliseconds(token),
                    Form::Table { sigma } => {
                        token.parse().ok().map(|value: i16| f64::from(value) / TABLE_SCALE * sigma.as_secs())
                    }
                };
                let expected = match self.form {
                    Form::Samples => "times such as 12.5ms",
                    Form::Table { .. } => "whole numbers from -32768 to 32767",
                };
                offsets_s.push(value.ok_or_else(|| {
                    invalid(format!("{expected} in the file, not {token:?} in line {number}"))
                })?);
            }
        }
        if offsets_s.is_empty() {
            return Err(invalid("a file with at least one delay".into()));
        }
        Ok(Self { offsets_s: offsets_s.into(), ..self })
    }
}

/// Parses a time and returns it in seconds. A number without a unit is in milliseconds.
fn milliseconds(token: &str) -> Option<f64> {
    let number =
        |token: &str| token.parse().ok().filter(|ms: &f64| ms.is_finite() && *ms >= 0.0).map(|ms| ms / 1e3);
    number(token).or_else(|| token.parse().ok().map(|time: Span| time.as_secs()))
}

impl JitterKind for Empirical {
    fn draw_s(&self, rng: &mut Rng) -> f64 {
        let count = self.offsets_s.len() as u32;
        if count == 0 { 0.0 } else { self.offsets_s[rng.below(count) as usize] }
    }

    /// Returns the magnitude of the most negative deviation. A normal distribution has no such bound, but a table has.
    fn min_delay(&self) -> Span {
        let earliest = self.offsets_s.iter().copied().fold(0.0, f64::min);
        Span::from_secs_f64(-earliest)
    }
}
