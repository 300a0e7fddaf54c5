//! A row per page, object and keystroke of users.

use super::row::{CLIENT, GROUP, PAGE, Row, TableName, reply, seconds_from};
use crate::results::column::Columns;
use catnip_base::Time;
use catnip_sim::record::{EchoRecord, ObjectRecord, PageRecord, Reply};

/// A page.
#[derive(Clone, Copy, Debug)]
pub struct PageRow<'a> {
    /// Traffic group of its user.
    pub group: &'a str,
    /// When it was complete; [`Time::NEVER`]: it is not.
    pub end: Time,
    /// What is to be said of it then.
    pub record: PageRecord,
    /// Bytes of it that have arrived.
    pub delivered: u64,
}

impl Row for PageRow<'_> {
    const TABLE: TableName = TableName::Pages;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |page| page.group.into());
        to.integer("client", CLIENT, |page| page.record.app.into());
        to.integer("page", PAGE, |page| u64::from(page.record.page) + 1);
        to.float("start_s", "When the user asked for its HTML.", |page| page.record.start.as_secs());
        to.float("time_s", "From then to its last byte; NaN if that has not come.", |page| {
            seconds_from(page.record.start, page.end)
        });
        to.integer("bytes", "Size of all its objects.", |page| page.record.bytes);
        to.integer("delivered_bytes", "Of these, how many have arrived.", |page| page.delivered);
        to.integer("connections", "Connections over which it came.", |page| page.record.connections.into());
    }
}

/// An object of a page.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRow<'a> {
    /// Traffic group of its user.
    pub group: &'a str,
    /// When it was complete; [`Time::NEVER`]: it is not.
    pub end: Time,
    /// What is to be said of it then.
    pub record: ObjectRecord,
    /// What a real server answered.
    pub reply: Option<Reply>,
    /// Bytes of it that have arrived.
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
        to.integer("bytes", "Its size, as the scenario says.", |object| object.record.bytes);
        to.float("start_s", "When the client asked for it.", |object| object.record.start.as_secs());
        to.float("time_s", "From then to its last byte; NaN if that has not come.", |object| {
            seconds_from(object.record.start, object.end)
        });
        to.integer("delivered_bytes", "Bytes of it that have arrived.", |object| object.delivered);
        reply(to, |object| (object.delivered, object.end < Time::NEVER), |object| object.reply);
    }
}

/// A keystroke and its echo.
#[derive(Clone, Copy, Debug)]
pub struct EchoRow<'a> {
    /// Traffic group of its user.
    pub group: &'a str,
    /// When the echo was there; [`Time::NEVER`]: it is not.
    pub end: Time,
    /// What is to be said of it then.
    pub record: EchoRecord,
}

impl Row for EchoRow<'_> {
    const TABLE: TableName = TableName::Echoes;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |echo| echo.group.into());
        to.integer("client", CLIENT, |echo| echo.record.app.into());
        to.integer("number", "Number of the keystroke of its user, from 0.", |echo| echo.record.number);
        to.float("start_s", "When it was typed.", |echo| echo.record.start.as_secs());
        to.float("time_s", "From then to the echo's last byte; NaN if that has not come.", |echo| {
            seconds_from(echo.record.start, echo.end)
        });
    }
}
