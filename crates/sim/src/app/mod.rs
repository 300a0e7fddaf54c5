//! Applications at hosts, which react to events.

mod background;
mod bulk;
mod datagrams;
mod files;
mod http2;
mod loader;
mod names;
mod origin;
mod pages;
mod replay;
mod server;
mod site;
mod telnet;
mod tls;
mod vectors;
mod video;
mod web;

pub use background::{Background, BackgroundConfig};
pub use bulk::Bulk;
pub use datagrams::{Datagrams, RecordedDatagrams};
pub use files::{Files, FilesConfig};
pub use http2::{CLIENT_START_BYTES, FRAME_HEADER_BYTES, Framing, SERVER_START_BYTES};
pub use loader::{Coalescing, FetchRecord, LoadRecord, Loader, LoaderConfig};
pub use names::{LookUps, NameFlows};
pub use origin::{Origin, OriginConfig};
use pages::tag_of;
pub use pages::{ObjectRecord, Page, PageGenerator, PageRecord, PageSource, object_of};
pub use replay::{Acceptor, Initiator};
pub use server::{Server, ServerConfig};
pub use site::{FetchPriority, Milestone, Site, SiteObject, SiteOrigin, SitePage, Version};
pub use telnet::{EchoRecord, Telnet, TelnetConfig};
pub use tls::{Handshake, Tls};
pub use vectors::{Adu, After, ConnectionVector, Observed, Order, Side, VectorGenerator};
pub use video::{Fixed, RateRule, SegmentRecord, Video, VideoConfig, VideoRecord, segment_bytes};
pub use web::{Http, WebClient, WebConfig};

use crate::FlowId;
use crate::host::{Conn, Host};
use crate::message_stream::ReceivedMessage;
use crate::record::Activity;
use catnip_base::{dispatch, variants};
use std::fmt::Debug;

/// Event for an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AppEvent {
    /// Start of the application.
    Start,
    /// Expiry of the timer with this key.
    Timer(u64),
    /// Completed opening of a connection by this application.
    Opened(Conn),
    /// Completed opening of a connection to this application.
    Accepted(Conn),
    /// Arrival of a message.
    Message {
        /// Connection of the message.
        conn: Conn,
        /// Message received.
        message: ReceivedMessage,
        /// True if the message is complete. Only a message of an external host may end early.
        complete: bool,
    },
    /// Arrival of the number of bytes of a message that the application has set with [`Host::notify`].
    Progress {
        /// Connection of the message.
        conn: Conn,
        /// Tag of the message.
        tag: u64,
    },
    /// Arrival of a datagram of a flow that the application receives with [`Host::receive`].
    Datagram(FlowId),
    /// Decrease of the unsent data below the threshold that the application has set with [`Host::notify_drained`].
    Drained(Conn),
    /// Close of this connection by the peer, which sends no more data.
    PeerClosed(Conn),
    /// End of this connection.
    Closed(Conn),
}

/// Events of its connections that an application requests in addition to messages. Other events may not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Delivery of [`AppEvent::Opened`] and [`AppEvent::Accepted`].
    pub opened: bool,
    /// Delivery of [`AppEvent::PeerClosed`].
    pub peer_closed: bool,
    /// Delivery of [`AppEvent::Closed`].
    pub closed: bool,
}

impl Interest {
    /// All events.
    pub const ALL: Self = Self { opened: true, peer_closed: true, closed: true };
    /// No events other than messages.
    pub const MESSAGES: Self = Self { opened: false, peer_closed: false, closed: false };
}

/// Application at a host, at one end of its connections.
///
/// An application that counts the messages that it receives:
///
/// ```
/// use catnip_sim::Host;
/// use catnip_sim::app::{AnyApp, AppEvent, Application, Interest};
///
/// #[derive(Debug, Default)]
/// struct Counter(u64);
///
/// impl Application for Counter {
///     fn interest(&self) -> Interest {
///         Interest::MESSAGES
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
    /// Returns the events of connections that the application requests. Called once.
    fn interest(&self) -> Interest {
        Interest::ALL
    }

    /// Handles an event, using the host.
    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>);

    /// Reports unfinished activities of the application, whose number in records is `program`.
    fn unfinished(&self, _program: u32, _visitor: &mut Unfinished<'_>) {}
}

/// Visitor of the unfinished activities of an application.
pub struct Unfinished<'a> {
    /// Function that receives the record of an unfinished activity and the number of its bytes that have arrived.
    pub visit: &'a mut dyn FnMut(&dyn Activity, u64),
    /// Function that returns the number of bytes of the next message that have arrived at the application's end of a connection.
    pub arrived: &'a dyn Fn(Conn) -> u64,
}

/// Built-in application, or a custom one.
#[derive(Debug)]
pub enum AnyApp {
    /// Single transfer: see [`Bulk`].
    Bulk(Bulk),
    /// Source of background traffic: see [`Background`].
    Background(Box<Background>),
    /// Source of recorded datagrams: see [`Datagrams`].
    Datagrams(Box<Datagrams>),
    /// File transfers: see [`Files`].
    Files(Box<Files>),
    /// Telnet session: see [`Telnet`].
    Telnet(Box<Telnet>),
    /// User who watches videos: see [`Video`].
    Video(Box<Video>),
    /// Web client: see [`WebClient`].
    Web(Box<WebClient>),
    /// Server: see [`Server`].
    Server(Box<Server>),
    /// Initiator's side of the connections of a trace: see [`Initiator`].
    Initiator(Box<Initiator>),
    /// Acceptor's side of the connections of a trace: see [`Acceptor`].
    Acceptor(Box<Acceptor>),
    /// Browser of a recorded site: see [`Loader`].
    Loader(Box<Loader>),
    /// Server of a recorded site: see [`Origin`].
    Origin(Box<Origin>),
    /// Custom application.
    Custom(Box<dyn Application>),
    /// Placeholder while the application handles an event.
    Busy(Busy),
}

variants!($ each: AnyApp {
    Bulk, Background, Datagrams, Files, Telnet, Video, Web, Server, Initiator, Acceptor, Loader, Origin, Custom, Busy
});

impl Application for AnyApp {
    dispatch! { each:
        fn interest(&self) -> Interest;
        fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>);
        fn unfinished(&self, program: u32, visitor: &mut Unfinished<'_>);
    }
}

/// Placeholder of an application while it handles an event.
#[derive(Clone, Copy, Debug)]
pub struct Busy;

impl Application for Busy {
    fn on_event(&mut self, _event: AppEvent, _host: &mut Host<'_>) {
        unreachable!("events are handled one after the other")
    }
}
