/// One column of results. Its name ends with its unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Measured values; NaN where there is none.
    Float(Vec<f64>),
    /// Counts and numbers.
    Integer(Vec<u64>),
    /// Names.
    Text(Vec<String>),
}

/// A table of results, by columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<(&'static str, Column)>,
}

impl Table {
    /// The columns in order.
    pub fn columns(&self) -> &[(&'static str, Column)] {
        &self.columns
    }

    /// The columns in order, given away.
    pub fn into_columns(self) -> Vec<(&'static str, Column)> {
        self.columns
    }

    /// Appends a value to an integer column, which is made if it is new.
    pub fn integer(&mut self, name: &'static str, value: u64) -> &mut Self {
        match self.column(name, || Column::Integer(Vec::new())) {
            Column::Integer(values) => values.push(value),
            other => unreachable!("{name} is not an integer column: {other:?}"),
        }
        self
    }

    /// Appends a value to a float column, which is made if it is new.
    pub fn float(&mut self, name: &'static str, value: f64) -> &mut Self {
        match self.column(name, || Column::Float(Vec::new())) {
            Column::Float(values) => values.push(value),
            other => unreachable!("{name} is not a float column: {other:?}"),
        }
        self
    }

    /// Appends a value to a text column, which is made if it is new.
    pub fn text(&mut self, name: &'static str, value: &str) -> &mut Self {
        match self.column(name, || Column::Text(Vec::new())) {
            Column::Text(values) => values.push(value.into()),
            other => unreachable!("{name} is not a text column: {other:?}"),
        }
        self
    }

    /// Appends the rows of another table with the same columns.
    pub fn append(&mut self, mut other: Self) {
        if self.columns.is_empty() {
            *self = other;
            return;
        }
        for ((_, mine), (_, theirs)) in self.columns.iter_mut().zip(&mut other.columns) {
            match (mine, theirs) {
                (Column::Float(a), Column::Float(b)) => a.append(b),
                (Column::Integer(a), Column::Integer(b)) => a.append(b),
                (Column::Text(a), Column::Text(b)) => a.append(b),
                (mine, theirs) => unreachable!("columns differ: {mine:?}, {theirs:?}"),
            }
        }
    }

    fn column(&mut self, name: &'static str, new: impl FnOnce() -> Column) -> &mut Column {
        let index = self.columns.iter().position(|(n, _)| *n == name).unwrap_or_else(|| {
            self.columns.push((name, new()));
            self.columns.len() - 1
        });
        &mut self.columns[index].1
    }
}
