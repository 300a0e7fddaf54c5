//! What columns are: what they are called, what they hold, and who is told of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::Arc;

/// One column of results.
#[derive(Clone, Debug)]
pub enum Column {
    /// Measured values; NaN where there is none.
    Float(Vec<f64>),
    /// Counts and numbers.
    Integer(Vec<u64>),
    /// Names.
    Text(Texts),
}

/// Names of which many are the same: each is kept once, and of a row its number.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    names: Vec<Arc<str>>,
    numbers: BTreeMap<Arc<str>, u32>,
    rows: Vec<u32>,
}

impl Texts {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Is there no row?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The name in each row.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|&number| &*self.names[number as usize])
    }

    /// Names that are not the same, and of each row the number of its own among them.
    pub fn into_parts(self) -> (Vec<Arc<str>>, Vec<u32>) {
        (self.names, self.rows)
    }

    pub(crate) fn push(&mut self, name: &str) {
        // Rows of one name often follow each other.
        let last = self.rows.last().copied().filter(|&last| *self.names[last as usize] == *name);
        let number = last.unwrap_or_else(|| self.number(name));
        self.rows.push(number);
    }

    pub(crate) fn append(&mut self, other: Self) {
        let numbers: Vec<u32> = other.names.iter().map(|name| self.number(name)).collect();
        self.rows.extend(other.rows.into_iter().map(|theirs| numbers[theirs as usize]));
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let (name, number) = (Arc::<str>::from(name), self.names.len() as u32);
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        let mut made = Self::default();
        names.into_iter().for_each(|name| made.push(name.as_ref()));
        made
    }
}

impl Index<usize> for Texts {
    type Output = str;
    fn index(&self, row: usize) -> &str {
        &self.names[self.rows[row] as usize]
    }
}

/// Columns are the same if every value is, to the bit; where there is none, there is none in the other.
impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(ours), Self::Float(theirs)) => {
                ours.iter().map(|value| value.to_bits()).eq(theirs.iter().map(|value| value.to_bits()))
            }
            (Self::Integer(ours), Self::Integer(theirs)) => ours == theirs,
            (Self::Text(ours), Self::Text(theirs)) => ours.iter().eq(theirs.iter()),
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
            Some("mbps") => "Mbit/s",
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
    fn text(&mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> Cow<'_, str>);
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
    fn text(&mut self, name: &'static str, about: &'static str, _of: impl Fn(&R) -> Cow<'_, str>) {
        self.0.push(Heading { name, about, empty: Column::Text(Texts::default()) });
    }
}
