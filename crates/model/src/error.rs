use std::borrow::Cow;
use std::fmt;

/// Parameter outside the range of a model. The message is one line: the parameter, its value and the expected range.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelError {
    /// Name of the parameter in the registry.
    pub parameter: &'static str,
    /// Value of the parameter.
    pub value: f64,
    /// Expected range; completes the sentence "expected …".
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
