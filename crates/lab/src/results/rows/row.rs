//! What all tables have in common.

use crate::results::column::Columns;
use catnip_base::{Time, words};
use catnip_sim::record::Reply;

words! {
    /// The tables that a run can fill, and what each has rows for.
    #[derive(PartialOrd, Ord)]
    pub enum TableName {
        /// One row per run.
        Runs = ("runs", "One row per run."),
        /// One per group of traffic.
        Groups = (
            "groups",
            "One row per group of traffic: what its users got and what it took, from the end of the warm-up to the end of the run.",
        ),
        /// One per page, keystroke or connection.
        Transfers = (
            "transfers",
            "One row per page, keystroke or else connection that the users of a group wait for, begun after the warm-up.",
        ),
        /// One per page fetched.
        Pages = ("pages", "One row per page that a user has begun to load, in order of completion; behind them those that are not complete."),
        /// One per object fetched.
        Objects = ("objects", "One row per object of a page that was asked for, in order of completion; behind them those that are not complete."),
        /// One per connection.
        Connections = ("connections", "One row per TCP connection, in the order in which they ended; behind them those that are open."),
        /// One per keystroke.
        Echoes = ("echoes", "One row per keystroke of a user of Telnet, in the order in which they came back; behind them those that have not."),
        /// One per port of a named link.
        Ports = (
            "ports",
            "One row per direction of each `[link]`; `:back` is from `to` to `from`.",
        ),
        /// One per port and sample.
        LinkSeries = ("link_series", "One row per direction of each `[link]` and interval of `--series`."),
        /// One per open connection and sample.
        ConnectionSeries = (
            "connection_series",
            "One row per connection that was open in an interval of `--series`, and interval.",
        ),
        /// One per source of background traffic.
        Datagrams = ("datagrams", "One row per source of background traffic."),
        /// One per burst of a server.
        Bursts = (
            "bursts",
            "One row per burst in which a server sends, in the order in which they ended, behind them those that have not: a maximal \
             time in which something that its program has handed over is not acknowledged.",
        ),
        /// One per packet sent, ACK received, drop and timeout of a connection.
        Events = ("events", "One row per data packet sent, ACK received, drop and timeout of a connection."),
    }
}

/// Which run a row is of: the first columns of every table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the variant among those of the tables.
    pub variant: u64,
    /// Its seed.
    pub seed: u64,
}

impl Run {
    pub(crate) fn columns(to: &mut impl Columns<Self>) {
        to.integer("variant", "The scenario's variant: its name in files, its number elsewhere.", |run| {
            run.variant
        });
        to.integer("seed", "The seed of all random choices.", |run| run.seed);
    }
}

/// What a table has a row for.
pub trait Row: Sized {
    /// The table.
    const TABLE: TableName;
    /// Declares the table's columns in order: each with its name, what it holds, and its value in a row.
    fn columns(to: &mut impl Columns<Self>);
}

/// What came from a real host. A simulated server answers with what it is asked for, and its data has no contents.
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
    to.integer("body_bytes", "Size of the body or bodies that came.", |row| {
        of(row).map_or(delivered(row).0, |reply| reply.body_bytes)
    });
    to.integer("whole", "1 if all of it came, 0 if it ended early or not at all.", |row| {
        of(row).map_or(delivered(row).1, |reply| reply.whole && delivered(row).1).into()
    });
    to.text("body_fnv1a", "FNV-1a hash of the (last) body, hexadecimal; empty if no host is real.", |row| {
        of(row).map_or("".into(), |reply| format!("{:016x}", reply.digest).into())
    });
}

/// Seconds from a time to another one, which may never come: NaN.
pub(super) fn seconds_from(start: Time, end: Time) -> f64 {
    if end == Time::NEVER { f64::NAN } else { (end - start).as_secs() }
}

pub(super) const GROUP: &str = "Traffic group of the client.";
pub(super) const CLIENT: &str =
    "Number of the user, counted over all traffic groups; 4294967295 for a real client.";
pub(super) const PAGE: &str = "Number of the page in the file of pages, from 1.";
