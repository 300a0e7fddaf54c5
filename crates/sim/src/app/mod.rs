//! Applications: they are told events and append actions.

mod background;
mod bulk;
mod pages;
mod web;

pub use background::{Background, BackgroundConfig};
pub use bulk::Bulk;
pub use pages::{Page, PageGenerator};
pub use web::{Http, WebClient, WebConfig};

use crate::record::{ObjectRecord, PageRecord};
use crate::{FlowId, Transfer};
use catnip_base::Time;
use std::fmt::Debug;

/// Something an application hears.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AppEvent {
    /// The run begins.
    Start,
    /// The time it asked for has come.
    Timer,
    /// As many bytes as it asked to hear of have arrived.
    Reached {
        /// The transfer's tag.
        tag: u32,
    },
    /// The whole document has arrived.
    Complete {
        /// The transfer's tag.
        tag: u32,
    },
}

/// Something an application does.
#[derive(Clone, Copy, Debug)]
pub enum AppAction {
    /// Opens a connection.
    Open(Transfer),
    /// Sends a packet without a connection.
    Send {
        /// From where to where.
        flow: FlowId,
        /// Bytes on the wire.
        bytes: u32,
    },
    /// Asks to be called at that time; one request at a time.
    TimerAt(Time),
    /// Says that an object is complete.
    Object(ObjectRecord),
    /// Says that a page is complete.
    Page(PageRecord),
}

/// A program at a host.
pub trait Application: Debug + Send {
    /// Hears an event and appends what it does. `id` is its number in the run.
    fn on_event(&mut self, now: Time, id: u32, event: AppEvent, actions: &mut Vec<AppAction>);
}

/// The built-in applications and one of your own.
#[derive(Debug)]
pub enum AnyApp {
    /// See [`Bulk`].
    Bulk(Bulk),
    /// See [`Background`].
    Background(Box<Background>),
    /// See [`WebClient`].
    Web(Box<WebClient>),
    /// Anything else.
    Custom(Box<dyn Application>),
}

impl Application for AnyApp {
    fn on_event(&mut self, now: Time, id: u32, event: AppEvent, actions: &mut Vec<AppAction>) {
        match self {
            Self::Bulk(app) => app.on_event(now, id, event, actions),
            Self::Background(app) => app.on_event(now, id, event, actions),
            Self::Web(app) => app.on_event(now, id, event, actions),
            Self::Custom(app) => app.on_event(now, id, event, actions),
        }
    }
}
