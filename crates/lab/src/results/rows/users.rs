//! Rows of pages, objects and keystrokes of users.

use super::row::{CLIENT, GROUP, PAGE, Row, TableName, reply, seconds_from};
use crate::results::column::Columns;
use catnip_base::Time;
use catnip_sim::record::{EchoRecord, ObjectRecord, PageRecord, Reply};

/// Row of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageRow<'a> {
    /// Traffic group of the user.
    pub group: &'a str,
    /// Time at which the page was complete; [`Time::NEVER`] before.
    pub end: Time,
    /// Record of the page.
    pub record: PageRecord,
    /// Bytes of the page that have arrived.
    pub delivered: u64,
}

impl Row for PageRow<'_> {
    const TABLE: TableName = TableName::Pages;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |page| page.group.into());
        to.integer("client", CLIENT, |page| page.record.app.into());
        to.integer("page", PAGE, |page| u64::from(page.record.page) + 1);
        to.float("start_s", "Time at which the user requested its HTML.", |page| page.record.start.as_secs());
        to.float(
            "time_s",
            "Duration from the request to the last byte; NaN if that has not arrived.",
            |page| seconds_from(page.record.start, page.end),
        );
        to.integer("bytes", "Size of all objects of the page.", |page| page.record.bytes);
        to.integer("delivered_bytes", "Bytes of the page that have arrived.", |page| page.delivered);
        to.integer("connections", "Connections over which the page was fetched.", |page| {
            page.record.connections.into()
        });
    }
}

/// Row of an object of a page.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRow<'a> {
    /// Traffic group of the user.
    pub group: &'a str,
    /// Time at which the object was complete; [`Time::NEVER`] before.
    pub end: Time,
    /// Record of the object.
    pub record: ObjectRecord,
    /// Response, if the server is external.
    pub reply: Option<Reply>,
    /// Bytes of the object that have arrived.
    pub delivered: u64,
}

impl Row for ObjectRow<'_> {
    const TABLE: TableName = TableName::Objects;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |object| object.group.into());
        to.integer("client", CLIENT, |object| object.record.app.into());
        to.integer("page", PAGE, |object| u64::from(object.record.page) + 1);
        to.integer("object", "Number of the object in its page; 0 is the HTML.", |object| {
            object.record.object.into()
        });
        to.integer("bytes", "Size of the object, as given by the scenario.", |object| object.record.bytes);
        to.float("start_s", "Time at which the client requested the object.", |object| {
            object.record.start.as_secs()
        });
        to.float(
            "time_s",
            "Duration from the request to the last byte; NaN if that has not arrived.",
            |object| seconds_from(object.record.start, object.end),
        );
        to.integer("delivered_bytes", "Bytes of the object that have arrived.", |object| object.delivered);
        reply(to, |object| (object.delivered, object.end < Time::NEVER), |object| object.reply);
    }
}

/// Row of a keystroke and its echo.
#[derive(Clone, Copy, Debug)]
pub struct EchoRow<'a> {
    /// Traffic group of the user.
    pub group: &'a str,
    /// Time at which the echo arrived; [`Time::NEVER`] before.
    pub end: Time,
    /// Record of the keystroke.
    pub record: EchoRecord,
}

impl Row for EchoRow<'_> {
    const TABLE: TableName = TableName::Echoes;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |echo| echo.group.into());
        to.integer("client", CLIENT, |echo| echo.record.app.into());
        to.integer("number", "Number of the keystroke of its user, from 0.", |echo| echo.record.number);
        to.float("start_s", "Time of the keystroke.", |echo| echo.record.start.as_secs());
        to.float(
            "time_s",
            "Duration from the keystroke to the last byte of the echo; NaN if that has not arrived.",
            |echo| seconds_from(echo.record.start, echo.end),
        );
    }
}
