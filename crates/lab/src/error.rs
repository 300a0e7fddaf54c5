use std::fmt;

/// Bad input: one line that names the file, the key and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError(String);

impl InputError {
    /// What is wrong, where. `what` names the offending value.
    pub fn new(file: &str, key: &str, what: impl fmt::Display) -> Self {
        let what = what.to_string().replace('\n', " ");
        let parts = [file, key, &what];
        Self(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": "))
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InputError {}

/// The same before the file is known: the key, and what is wrong with its value.
pub(crate) type Wrong = (String, String);
