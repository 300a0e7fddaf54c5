//! Columns of tables of results: their values, their headings, and visitors of their declarations.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::Arc;

/// Column of a table of results.
#[derive(Clone, Debug)]
pub enum Column {
    /// Measured values; NaN means a missing value.
    Float(Vec<f64>),
    /// Counts, and numbers that identify a user, a page or another item.
    Integer(Vec<u64>),
    /// Names.
    Text(Texts),
}

/// Column of names, many of which repeat: each name is stored once, and each row stores the index of its name.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    names: Vec<Arc<str>>,
    numbers: BTreeMap<Arc<str>, u32>,
    rows: Vec<u32>,
}

impl Texts {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the name in each row, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|&number| &*self.names[number as usize])
    }

    /// Returns the distinct names and, for each row, the index of its name.
    pub fn into_parts(self) -> (Vec<Arc<str>>, Vec<u32>) {
        (self.names, self.rows)
    }

    pub(crate) fn push(&mut self, name: &str) {
        // Consecutive rows often have the same name.
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
        let mut texts = Self::default();
        names.into_iter().for_each(|name| texts.push(name.as_ref()));
        texts
    }
}

impl Index<usize> for Texts {
    type Output = str;
    fn index(&self, row: usize) -> &str {
        &self.names[self.rows[row] as usize]
    }
}

/// Compares measured values by their bits, so that a missing value, NaN, equals a missing value.
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
    /// Returns the name of the type of the values, for descriptions of tables.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Float(_) => "float",
            Self::Integer(_) => "integer",
            Self::Text(_) => "text",
        }
    }
}

/// Heading of a column: name, description and type.
#[derive(Clone, Debug, PartialEq)]
pub struct Heading {
    /// Name of the column. If the values have a unit, the name ends in the unit.
    pub name: &'static str,
    /// Description of a value, in one sentence.
    pub about: &'static str,
    /// Column without values, which gives the type of the column.
    pub empty: Column,
}

impl Heading {
    /// Returns the unit that the end of the column's name gives; empty for columns without a unit.
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

/// Visitor of the columns of a table whose rows are made from `R`.
pub trait Columns<R> {
    /// Visits a column of measured values; NaN means a missing value.
    fn float(&mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> f64);
    /// Visits a column of counts, or of numbers that identify items.
    fn integer(&mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> u64);
    /// Visits a column of names.
    fn text(&mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> Cow<'_, str>);
}

/// Visitor that collects the headings of columns.
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
