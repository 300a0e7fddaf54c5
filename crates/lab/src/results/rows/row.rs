//! Common parts of all tables of results.

use crate::results::column::Columns;
use catnip_base::{Time, words};
use catnip_sim::record::Reply;

words! {
    /// Tables that a run can fill, with descriptions of their rows.
    #[derive(PartialOrd, Ord)]
    pub enum TableName {
        /// One row per run.
        Runs = ("runs", "One row per run."),
        /// One row per traffic group.
        Groups = (
            "groups",
            "One row per traffic group: data received by its users, and packets and retransmissions of its connections, from the end of \
             the warm-up to the end of the run.",
        ),
        /// One row per page, keystroke or connection.
        Transfers = (
            "transfers",
            "One row per transfer started after the warm-up: a page, a keystroke or a connection, depending on the kind of the traffic \
             group.",
        ),
        /// One row per page.
        Pages = ("pages", "One row per page that a user has started to load: complete pages in order of completion, followed by \
                           incomplete ones."),
        /// One row per object of a page.
        Objects = ("objects", "One row per requested object of a page: complete objects in order of completion, followed by incomplete \
                               ones."),
        /// One row per TCP connection.
        Connections = ("connections", "One row per TCP connection: ended connections in the order in which they ended, followed by open \
                                       ones."),
        /// One row per keystroke.
        Echoes = ("echoes", "One row per keystroke of a Telnet user: echoed keystrokes in the order of their echoes, followed by those \
                             without an echo."),
        /// One row per direction of a link.
        Ports = (
            "ports",
            "One row per direction of each `[link]`; `:back` is the direction from `to` to `from`.",
        ),
        /// One row per direction of a link and interval.
        LinkSeries = ("link_series", "One row per direction of each `[link]` and interval of `--series`."),
        /// One row per open connection and interval.
        ConnectionSeries = (
            "connection_series",
            "One row per interval of `--series` and connection that was open in the interval.",
        ),
        /// One row per source of background traffic.
        Datagrams = ("datagrams", "One row per source of background traffic."),
        /// One row per burst of a server.
        Bursts = (
            "bursts",
            "One row per burst of a server, a maximal period during which data passed to TCP by the application is unacknowledged: ended \
             bursts in the order in which they ended, followed by the others.",
        ),
        /// One row per data packet sent, ACK received, drop and timeout of a connection.
        Events = ("events", "One row per data packet sent, ACK received, drop and timeout of a connection."),
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
    /// Table of the row.
    const TABLE: TableName;
    /// Declares the columns of the table in order: name, description and value in a row of each.
    fn columns(to: &mut impl Columns<Self>);
}

/// Declares the columns of a response from an external host. A simulated server always sends the requested number of bytes, without
/// contents.
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
        of(row).map_or(delivered(row).1, |reply| reply.whole && delivered(row).1).into()
    });
    to.text(
        "body_fnv1a",
        "FNV-1a hash of the (last) body, hexadecimal; empty if no host is external.",
        |row| of(row).map_or("".into(), |reply| format!("{:016x}", reply.digest).into()),
    );
}

/// Returns the seconds from one time to another; NaN if the end is [`Time::NEVER`].
pub(super) fn seconds_from(start: Time, end: Time) -> f64 {
    if end == Time::NEVER { f64::NAN } else { (end - start).as_secs() }
}

pub(super) const GROUP: &str = "Traffic group of the client.";
pub(super) const CLIENT: &str =
    "Number of the user, counted over all traffic groups; 4294967295 for an external client.";
pub(super) const PAGE: &str = "Number of the page in the file of pages, from 1.";
