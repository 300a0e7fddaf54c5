//! Tables of the activities of applications, such as pages and keystrokes. The type of a record declares the table of its activities. This
//! declaration also defines the lists of records, the rows of the table, and whether the activities are transfers.

use crate::Tables;
use crate::results::column::Columns;
use crate::results::rows::{CLIENT, GROUP, Row, Run, TableName, TransferRow, Unit};
use catnip_base::Time;
use catnip_sim::record::{Activity, Reply};
use std::fmt::Debug;

/// Record of an activity that declares a table, with a row per activity.
pub trait ActivityTable: Activity + Copy + Send {
    /// Name of the table.
    const NAME: &'static str;
    /// Description of a row.
    const ABOUT: &'static str;
    /// Kind of transfer that these activities are; `None` if users do not wait for the ends of the activities.
    const UNIT: Option<Unit> = None;

    /// Returns the number of the activity among the activities of its application.
    fn number(&self) -> u64;
    /// Returns the time at which the activity started.
    fn start(&self) -> Time;
    /// Declares the name, description and value of each column, in order. The columns of traffic group and client come first in every table
    /// and are not declared.
    fn columns<'a>(to: &mut impl Columns<ActivityRow<'a, Self>>);
}

/// Row of an activity in the table that its record declares.
#[derive(Clone, Copy, Debug)]
pub struct ActivityRow<'a, R> {
    /// Traffic group of the application.
    pub group: &'a str,
    /// Time at which the activity ended; [`Time::NEVER`] if it has not ended.
    pub end: Time,
    /// Record of the activity.
    pub record: R,
    /// Response that completes the activity; `None` if the server is simulated.
    pub reply: Option<Reply>,
    /// Number of requested bytes that have arrived.
    pub delivered: u64,
}

impl<R: ActivityTable> Row for ActivityRow<'_, R> {
    const NAME: &'static str = R::NAME;
    const ABOUT: &'static str = R::ABOUT;
    const UNIT: Option<Unit> = R::UNIT;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |row| row.group.into());
        to.integer("client", CLIENT, |row| row.record.app().into());
        R::columns(to);
    }
}

/// Kind of activities: the table of their rows, and the lists in which a run keeps them.
#[derive(Clone, Copy, Debug)]
pub struct ActivityKind {
    table: TableName,
    new_list: fn() -> Box<dyn Activities>,
}

impl ActivityKind {
    /// Returns the kind of activities whose records have the type `R`.
    pub fn of<R: ActivityTable>() -> Self {
        Self { table: ActivityRow::<R>::TABLE, new_list: || Box::new(Vec::<Entry<R>>::new()) }
    }

    /// Returns the table that has a row for each activity of this kind.
    pub fn table(self) -> TableName {
        self.table
    }

    /// Returns an empty list for activities of this kind.
    pub(crate) fn new_list(self) -> Box<dyn Activities> {
        (self.new_list)()
    }
}

/// List of the activities of one kind in a run.
pub(crate) trait Activities: Debug + Send {
    /// Returns an empty list for activities of the same table.
    fn new_list(&self) -> Box<dyn Activities>;

    /// Adds an activity that ended at `end`, if the activity belongs to the table. `delivered` is the number of its bytes that have
    /// arrived, or `None` if all have; `reply` is the last response from an external server.
    fn push(&mut self, activity: &dyn Activity, end: Time, delivered: Option<u64>, reply: Option<Reply>);

    /// Adds a row for each measured activity to the table and, if the activities are transfers, also to `transfers`.
    fn fill<'a>(
        &self,
        tables: &mut Tables,
        run: Run,
        context: &RunContext<'a, '_>,
        transfers: &mut Vec<TransferRow<'a>>,
    );
}

/// Properties of a run that are needed to write its activities to tables.
pub(crate) struct RunContext<'a, 'b> {
    /// Function that returns the traffic group of an application; `None` if the results have no rows for its activities.
    pub(crate) group_of: &'b dyn Fn(u32) -> Option<&'a str>,
    /// Time at which the run ended.
    pub(crate) end: Time,
}

/// Record of an activity, its end time, its response, and the number of its bytes that have arrived.
#[derive(Debug)]
pub(crate) struct Entry<R>(R, Time, Option<Reply>, u64);

impl<R: ActivityTable> Activities for Vec<Entry<R>> {
    fn new_list(&self) -> Box<dyn Activities> {
        Box::new(Self::new())
    }

    fn push(&mut self, activity: &dyn Activity, end: Time, delivered: Option<u64>, reply: Option<Reply>) {
        if let Some(record) = activity.downcast::<R>() {
            let is_reply_to = |reply: &Reply| reply.app == record.app() && record.tag() == Some(reply.tag);
            let reply = reply.filter(is_reply_to);
            // All requested bytes have arrived, unless an external server closed the connection early.
            let complete_bytes = || reply.map_or(record.bytes(), |reply| reply.body_bytes);
            Vec::push(self, Entry(record, end, reply, delivered.unwrap_or_else(complete_bytes)));
        }
    }

    fn fill<'a>(
        &self,
        tables: &mut Tables,
        run: Run,
        context: &RunContext<'a, '_>,
        transfers: &mut Vec<TransferRow<'a>>,
    ) {
        let measured = || self.iter().filter_map(|entry| Some(((context.group_of)(entry.0.app())?, entry)));
        let row = |(group, &Entry(record, end, reply, delivered)): (_, &_)| ActivityRow {
            group,
            end,
            record,
            reply,
            delivered,
        };
        tables.extend(run, measured().map(row));
        transfers.extend(R::UNIT.iter().flat_map(|&unit| {
            measured().map(move |(group, &Entry(record, end, ..))| {
                TransferRow::new(unit, group, record.app(), record.number(), record.start()..end, context.end)
            })
        }));
    }
}
