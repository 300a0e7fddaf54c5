//! Tables of results, filled row by row.

use crate::results::column::{Column, Columns};
use crate::results::rows::{Row, Run, TableName};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::slice::IterMut;

/// Table of results, stored as columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<(&'static str, Column)>,
}

impl Table {
    /// Returns a table with all columns and no rows.
    pub fn new(name: TableName) -> Self {
        Self { columns: name.headings().into_iter().map(|heading| (heading.name, heading.empty)).collect() }
    }

    /// Returns a table with these columns, which must have equal length.
    pub fn of(columns: Vec<(&'static str, Column)>) -> Self {
        Self { columns }
    }

    /// Returns the column of this name.
    ///
    /// # Panics
    ///
    /// Panics if there is no such column.
    pub fn column(&self, name: &str) -> &Column {
        let found = self.columns.iter().find(|(other, _)| *other == name);
        &found.unwrap_or_else(|| panic!("there is no column {name}")).1
    }

    /// Returns the values of the column of this name, which must have integers.
    ///
    /// # Panics
    ///
    /// Panics if there is no such column.
    pub fn integers(&self, name: &str) -> &[u64] {
        let Column::Integer(values) = self.column(name) else { panic!("the column {name} has no integers") };
        values
    }

    /// Returns the values of the column of this name, which must have measured values.
    ///
    /// # Panics
    ///
    /// Panics if there is no such column.
    pub fn floats(&self, name: &str) -> &[f64] {
        let Column::Float(values) = self.column(name) else { panic!("the column {name} has no floats") };
        values
    }

    /// Returns the columns in order.
    pub fn columns(&self) -> &[(&'static str, Column)] {
        &self.columns
    }

    /// Consumes the table and returns the columns in order.
    pub fn into_columns(self) -> Vec<(&'static str, Column)> {
        self.columns
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        match &self.columns[0].1 {
            Column::Float(values) => values.len(),
            Column::Integer(values) => values.len(),
            Column::Text(values) => values.len(),
        }
    }

    fn push<R: Row>(&mut self, run: &Run, row: &R) {
        let mut columns = self.columns.iter_mut();
        Run::columns(&mut Cells { row: run, columns: &mut columns });
        R::columns(&mut Cells { row, columns: &mut columns });
    }

    /// Appends the rows of another table of the same name.
    ///
    /// # Panics
    ///
    /// Panics if the tables have other columns.
    pub fn append(&mut self, other: Self) {
        for ((_, mine), (_, theirs)) in self.columns.iter_mut().zip(other.columns) {
            match (mine, theirs) {
                (Column::Float(a), Column::Float(mut b)) => a.append(&mut b),
                (Column::Integer(a), Column::Integer(mut b)) => a.append(&mut b),
                (Column::Text(a), Column::Text(b)) => a.append(b),
                (mine, theirs) => unreachable!("columns differ: {mine:?}, {theirs:?}"),
            }
        }
    }
}

/// Tables of results that were requested, with the rows added so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables(BTreeMap<TableName, Table>);

impl Tables {
    /// Returns the requested tables without rows.
    pub fn new(requested: &[TableName]) -> Self {
        Self(requested.iter().map(|&name| (name, Table::new(name))).collect())
    }

    /// Adds rows of a run to their table. The rows are computed only if the table was requested.
    pub fn extend<R: Row>(&mut self, run: Run, rows: impl IntoIterator<Item = R>) {
        if let Some(table) = self.0.get_mut(&R::TABLE) {
            rows.into_iter().for_each(|row| table.push(&run, &row));
        }
    }

    /// Appends the rows of another set of the same tables.
    pub fn append(&mut self, other: Self) {
        for (mine, theirs) in self.0.values_mut().zip(other.0.into_values()) {
            mine.append(theirs);
        }
    }

    /// Returns the tables by name.
    pub fn into_map(self) -> BTreeMap<TableName, Table> {
        self.0
    }
}

/// Visitor that appends the values of one row to the columns of a table.
struct Cells<'a, 'b, R> {
    row: &'a R,
    columns: &'a mut IterMut<'b, (&'static str, Column)>,
}

impl<R> Columns<R> for Cells<'_, '_, R> {
    #[inline]
    fn float(&mut self, name: &'static str, _about: &'static str, of: impl Fn(&R) -> f64) {
        match self.columns.next() {
            Some((_, Column::Float(values))) => values.push(of(self.row)),
            other => unreachable!("{name} was declared as a float, not {other:?}"),
        }
    }
    #[inline]
    fn integer(&mut self, name: &'static str, _about: &'static str, of: impl Fn(&R) -> u64) {
        match self.columns.next() {
            Some((_, Column::Integer(values))) => values.push(of(self.row)),
            other => unreachable!("{name} was declared as an integer, not {other:?}"),
        }
    }
    #[inline]
    fn text(&mut self, name: &'static str, _about: &'static str, of: impl Fn(&R) -> Cow<'_, str>) {
        match self.columns.next() {
            Some((_, Column::Text(values))) => values.push(&of(self.row)),
            other => unreachable!("{name} was declared as text, not {other:?}"),
        }
    }
}
