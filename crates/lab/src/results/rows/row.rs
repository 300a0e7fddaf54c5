//! Tables and their rows, and columns that several tables share.

use super::Unit;
use crate::results::column::{Columns, Heading, Headings};
use catnip_base::Time;
use catnip_sim::record::Reply;
use std::cmp::Ordering;

/// Identity and declaration of a table of results. Two values are equal if the tables' names are equal.
#[derive(Clone, Copy, Debug)]
pub struct TableName(&'static Declaration);

/// Declaration of a table, made from the type of its rows.
#[derive(Debug)]
struct Declaration {
    name: &'static str,
    about: &'static str,
    headings: fn() -> Vec<Heading>,
    unit: Option<Unit>,
}

impl TableName {
    /// Returns the table whose rows are made from `R`.
    const fn of<R: Row>() -> Self {
        Self(
            const { &Declaration { name: R::NAME, about: R::ABOUT, headings: headings::<R>, unit: R::UNIT } },
        )
    }

    /// Returns the name of the table.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the description of a row of the table.
    pub fn about(self) -> &'static str {
        self.0.about
    }

    /// Returns the headings of the columns, in order.
    pub fn headings(self) -> Vec<Heading> {
        (self.0.headings)()
    }

    /// Returns the kind of transfer that the rows describe, or `None` if the rows are not transfers.
    pub fn unit(self) -> Option<Unit> {
        self.0.unit
    }
}

fn headings<R: Row>() -> Vec<Heading> {
    let mut headings = Headings::default();
    Run::columns(&mut headings);
    R::columns(&mut headings);
    headings.0
}

impl PartialEq for TableName {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for TableName {}

impl PartialOrd for TableName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TableName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

/// Variant and seed of a row's run, which are the first columns of every table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index of the variant among the variants of the tables.
    pub variant: u64,
    /// Seed of the run.
    pub seed: u64,
}

impl Run {
    pub(crate) fn columns(to: &mut impl Columns<Self>) {
        to.integer("variant", "Variant of the scenario: its name in files, its number elsewhere.", |run| {
            run.variant
        });
        to.integer("seed", "Seed of all random choices.", |run| run.seed);
    }
}

/// Row of a table.
pub trait Row: Sized {
    /// Name of the table.
    const NAME: &'static str;
    /// Description of a row.
    const ABOUT: &'static str;
    /// Kind of transfer that a row describes; `None` if rows are not transfers.
    const UNIT: Option<Unit> = None;
    /// Table of the rows.
    const TABLE: TableName = TableName::of::<Self>();
    /// Declares the name, the description and the value of each column, in order.
    fn columns(to: &mut impl Columns<Self>);
}

/// Declares the columns that describe the response from an external host. A simulated server always sends the requested number of bytes,
/// without contents.
pub(super) fn reply<R>(
    to: &mut impl Columns<R>,
    delivered: impl Fn(&R) -> (u64, bool) + Copy,
    of: impl Fn(&R) -> Option<Reply>,
) {
    to.integer(
        "status",
        "HTTP status of the response; 0 without one, 200 if the server is simulated.",
        |row| of(row).map_or(if delivered(row).1 { 200 } else { 0 }, |reply| reply.status.into()),
    );
    to.integer("body_bytes", "Size of the body or bodies that arrived.", |row| {
        of(row).map_or(delivered(row).0, |reply| reply.body_bytes)
    });
    to.integer("whole", "1 if the response is complete, 0 if it ended early or did not arrive.", |row| {
        of(row).map_or(delivered(row).1, |reply| reply.complete && delivered(row).1).into()
    });
    to.text(
        "body_fnv1a",
        "FNV-1a hash of the (last) body, hexadecimal; empty if no host is external.",
        |row| of(row).map_or("".into(), |reply| format!("{:016x}", reply.digest).into()),
    );
}

/// Returns the time from `start` to `end`, seconds; NaN if `end` is [`Time::NEVER`].
pub(super) fn seconds_from(start: Time, end: Time) -> f64 {
    if end == Time::NEVER { f64::NAN } else { (end - start).as_secs() }
}

pub(crate) const GROUP: &str = "Traffic group of the client.";
pub(crate) const CLIENT: &str =
    "Number of the user, counted over all traffic groups; 4294967295 for an external client.";
pub(super) const PAGE: &str = "Number of the page in the file of pages, from 1.";
