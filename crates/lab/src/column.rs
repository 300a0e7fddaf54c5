//! What columns are: what they are called, what they hold, and who is told of them.

/// One column of results.
#[derive(Clone, Debug)]
pub enum Column {
    /// Measured values; NaN where there is none.
    Float(Vec<f64>),
    /// Counts and numbers.
    Integer(Vec<u64>),
    /// Names.
    Text(Vec<String>),
}

/// Columns are the same if every value is, to the bit; where there is none, there is none in the other.
impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(ours), Self::Float(theirs)) => {
                ours.iter().map(|value| value.to_bits()).eq(theirs.iter().map(|value| value.to_bits()))
            }
            (Self::Integer(ours), Self::Integer(theirs)) => ours == theirs,
            (Self::Text(ours), Self::Text(theirs)) => ours == theirs,
            _ => false,
        }
    }
}

impl Column {
    /// What its values are called where tables are described.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Float(_) => "float",
            Self::Integer(_) => "integer",
            Self::Text(_) => "text",
        }
    }
}

/// What a column is called, and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Heading {
    /// Its name, which ends in the unit of its values, if they have one.
    pub name: &'static str,
    /// What a value says, in one sentence.
    pub about: &'static str,
    /// A column of this kind without values.
    pub empty: Column,
}

impl Heading {
    /// The unit of its values; empty for names, numbers of things and counts.
    pub fn unit(&self) -> &'static str {
        match self.name.rsplit('_').next() {
            Some("s") => "s",
            Some("s2") => "s²",
            Some("bytes") => "byte",
            Some("packets") => "packet",
            _ => "",
        }
    }
}

/// Hears of the columns of a table with rows made of `R`.
pub trait Columns<R> {
    /// A column of measured values, NaN where there is none.
    fn float(&mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> f64);
    /// A column of counts or numbers.
    fn integer(&mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> u64);
    /// A column of names.
    fn text(&mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> String);
}

/// Notes what columns are called.
#[derive(Debug, Default)]
pub(crate) struct Headings(pub(crate) Vec<Heading>);

impl<R> Columns<R> for Headings {
    fn float(&mut self, name: &'static str, about: &'static str, _of: impl Fn(&R) -> f64) {
        self.0.push(Heading { name, about, empty: Column::Float(Vec::new()) });
    }
    fn integer(&mut self, name: &'static str, about: &'static str, _of: impl Fn(&R) -> u64) {
        self.0.push(Heading { name, about, empty: Column::Integer(Vec::new()) });
    }
    fn text(&mut self, name: &'static str, about: &'static str, _of: impl Fn(&R) -> String) {
        self.0.push(Heading { name, about, empty: Column::Text(Vec::new()) });
    }
}
