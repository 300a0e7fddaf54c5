use std::borrow::Cow;
use std::fmt;

/// A parameter outside the range of a model. The message is one line: the parameter, its value, what is
/// expected.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelError {
    /// The parameter as the registry spells it.
    pub parameter: &'static str,
    /// Its value.
    pub value: f64,
    /// Completes the sentence "expected …".
    pub expected: Cow<'static, str>,
}

impl ModelError {
    pub(crate) fn new(parameter: &'static str, value: f64, expected: impl Into<Cow<'static, str>>) -> Self {
        Self { parameter, value, expected: expected.into() }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: expected {}", self.parameter, self.value, self.expected)
    }
}

impl std::error::Error for ModelError {}
