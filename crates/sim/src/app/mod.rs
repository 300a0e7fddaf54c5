//! Programs at hosts: they hear of what happens and do something about it.

mod background;
mod bulk;
mod files;
mod loader;
mod origin;
mod pages;
mod replay;
mod server;
mod site;
mod telnet;
mod vectors;
mod web;

pub use background::{Background, BackgroundConfig};
pub use bulk::Bulk;
pub use files::{Files, FilesConfig};
pub use loader::{Loader, LoaderConfig};
pub use origin::{Origin, OriginConfig};
pub use pages::{Page, PageGenerator, PageSource};
pub use replay::{Acceptor, Initiator};
pub use server::{Server, ServerConfig};
pub use site::{FRAME_HEADER_BYTES, Framing, Multiplexing, Site, SiteObject, SitePage};
pub use telnet::{Telnet, TelnetConfig};
pub use vectors::{Adu, After, ConnectionVector, Observed, Order, Side, VectorGenerator};
pub use web::{Http, WebClient, WebConfig, object_of};

use crate::dialogue::Heard;
use crate::host::{Conn, Host};
use crate::record::Event;
use std::fmt::Debug;

/// Something a program hears.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AppEvent {
    /// The run begins.
    Start,
    /// The time has come that it asked for under this key.
    Timer(u64),
    /// A connection that it has opened stands.
    Opened(Conn),
    /// A connection stands that another program has opened to it.
    Accepted(Conn),
    /// Nothing more will come of a message.
    Message {
        /// Over this connection.
        conn: Conn,
        /// The message.
        message: Heard,
        /// All of it has arrived. Only what comes from outside may end early.
        whole: bool,
    },
    /// As many bytes of a message have arrived as it asked to hear of.
    Progress {
        /// Over this connection.
        conn: Conn,
        /// The message's tag.
        tag: u64,
    },
    /// So little of what it has written has yet to be sent as it asked to hear of.
    Drained(Conn),
    /// The other end will send no more over this connection.
    PeerClosed(Conn),
    /// The connection is over.
    Closed(Conn),
}

/// Which news of its connections a program wants, besides messages. Of what it does not want it may hear nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// [`AppEvent::Opened`] and [`AppEvent::Accepted`].
    pub opened: bool,
    /// [`AppEvent::PeerClosed`].
    pub peer_closed: bool,
    /// [`AppEvent::Closed`].
    pub closed: bool,
}

impl Wants {
    /// All there is to hear.
    pub const ALL: Self = Self { opened: true, peer_closed: true, closed: true };
    /// Nothing but messages.
    pub const MESSAGES: Self = Self { opened: false, peer_closed: false, closed: false };
}

/// A program at a host, at one end of its connections.
///
/// A program that counts the messages that it receives:
///
/// ```
/// use catnip_sim::Host;
/// use catnip_sim::app::{AnyApp, AppEvent, Application, Wants};
///
/// #[derive(Debug, Default)]
/// struct Counter(u64);
///
/// impl Application for Counter {
///     fn wants(&self) -> Wants {
///         Wants::MESSAGES
///     }
///     fn on_event(&mut self, event: AppEvent, _host: &mut Host<'_>) {
///         self.0 += matches!(event, AppEvent::Message { .. }) as u64;
///     }
/// }
///
/// // `Sim::add_app` has it take part in a run.
/// let app = AnyApp::Custom(Box::new(Counter::default()));
/// ```
pub trait Application: Debug + Send {
    /// What it wants to hear of its connections. It is asked once.
    fn wants(&self) -> Wants {
        Wants::ALL
    }

    /// Hears an event and does something at its host.
    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>);

    /// Tells of what it has begun and not ended; records call it `program`.
    fn unfinished(&self, _program: u32, _tell: &mut Unfinished<'_>) {}
}

/// Who hears of what has been begun and not ended.
pub struct Unfinished<'a> {
    /// Takes what would be said at its end, and the bytes of it that have arrived.
    pub tell: &'a mut dyn FnMut(Event, u64),
    /// How many bytes of the next message have arrived at the program's end of a connection.
    pub arrived: &'a dyn Fn(Conn) -> u64,
}

/// The built-in programs and one of your own.
#[derive(Debug)]
pub enum AnyApp {
    /// See [`Bulk`].
    Bulk(Bulk),
    /// See [`Background`].
    Background(Box<Background>),
    /// See [`Files`].
    Files(Box<Files>),
    /// See [`Telnet`].
    Telnet(Box<Telnet>),
    /// See [`WebClient`].
    Web(Box<WebClient>),
    /// See [`Server`].
    Server(Box<Server>),
    /// See [`Initiator`].
    Initiator(Box<Initiator>),
    /// See [`Acceptor`].
    Acceptor(Box<Acceptor>),
    /// See [`Loader`].
    Loader(Box<Loader>),
    /// See [`Origin`].
    Origin(Box<Origin>),
    /// Anything else.
    Custom(Box<dyn Application>),
    /// It is busy with an event.
    Busy,
}

impl Application for AnyApp {
    fn wants(&self) -> Wants {
        match self {
            Self::Bulk(app) => app.wants(),
            Self::Background(app) => app.wants(),
            Self::Files(app) => app.wants(),
            Self::Telnet(app) => app.wants(),
            Self::Web(app) => app.wants(),
            Self::Server(app) => app.wants(),
            Self::Initiator(app) => app.wants(),
            Self::Acceptor(app) => app.wants(),
            Self::Loader(app) => app.wants(),
            Self::Origin(app) => app.wants(),
            Self::Custom(app) => app.wants(),
            Self::Busy => Wants::ALL,
        }
    }

    fn unfinished(&self, program: u32, tell: &mut Unfinished<'_>) {
        match self {
            Self::Telnet(app) => app.unfinished(program, tell),
            Self::Web(app) => app.unfinished(program, tell),
            Self::Loader(app) => app.unfinished(program, tell),
            Self::Custom(app) => app.unfinished(program, tell),
            // Connections are all that they have.
            Self::Bulk(_) | Self::Background(_) | Self::Files(_) | Self::Server(_) => {}
            Self::Initiator(_) | Self::Acceptor(_) | Self::Origin(_) | Self::Busy => {}
        }
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match self {
            Self::Bulk(app) => app.on_event(event, host),
            Self::Background(app) => app.on_event(event, host),
            Self::Files(app) => app.on_event(event, host),
            Self::Telnet(app) => app.on_event(event, host),
            Self::Web(app) => app.on_event(event, host),
            Self::Server(app) => app.on_event(event, host),
            Self::Initiator(app) => app.on_event(event, host),
            Self::Acceptor(app) => app.on_event(event, host),
            Self::Loader(app) => app.on_event(event, host),
            Self::Origin(app) => app.on_event(event, host),
            Self::Custom(app) => app.on_event(event, host),
            Self::Busy => unreachable!("events are told one after the other"),
        }
    }
}
