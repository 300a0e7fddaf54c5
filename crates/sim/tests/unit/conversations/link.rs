//! Client and server with one link between them, for the tests of this module.

use catnip_base::{Distribution, Rate, Span, Time};
use catnip_net::{Packet, PortId, Priority, Topology, WireSpec};
use catnip_sim::app::{
    AnyApp, AppEvent, Application, EchoRecord, ObjectRecord, PageRecord, Server, ServerConfig,
};
use catnip_sim::record::{Activity, ConnectionRecord, SenderView};
use catnip_sim::watch::{Origin, Step};
use catnip_sim::{CLIENT, ConnectionSpec, Event, Host, Message, SERVER, Sim, TcpOptions, Watch};
use catnip_tcp::{TcpConfig, profile};
use std::sync::{Arc, Mutex};

/// Parses a configuration in the notation of scenarios.
pub(crate) fn read<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// Propagation delay of every link, microseconds. The transmission of a byte takes one microsecond.
pub(crate) const DELAY_US: u64 = 10_000;
/// Delay of a packet without data, microseconds.
pub(crate) const ACK_US: u64 = 40 + DELAY_US;
/// Delay of a full segment, microseconds.
pub(crate) const SEGMENT_US: u64 = 1000 + DELAY_US;
/// Delay of a request of 200 bytes, microseconds.
pub(crate) const REQUEST_US: u64 = 200 + DELAY_US;

/// Returns a configuration with a FIN, but without handshake: segments of 1000 bytes without headers, an ACK for each segment, an initial
/// window of two segments.
pub(crate) fn tcp() -> TcpConfig {
    TcpConfig {
        segment_bytes: 1000,
        header_bytes: 0,
        ack_bytes: 40,
        initial_window: 2,
        receive_window: 100_000,
        handshake: false,
        delayed_ack: None,
        ..profile::rfc()
    }
}

/// Returns a configuration with a FIN and a handshake.
pub(crate) fn polite() -> TcpConfig {
    TcpConfig { handshake: true, ..tcp() }
}

pub(crate) fn wire() -> WireSpec {
    let rate = Rate::from_bits_per_second(8_000_000).unwrap();
    WireSpec::new(rate, Span::from_micros(DELAY_US), read("drop-tail:100"))
}

/// Returns a wire that loses the packets with these numbers before transmission.
pub(crate) fn without(packets: &str) -> WireSpec {
    WireSpec { before: vec![read(&format!("packets:{packets}"))], ..wire() }
}

/// Record of a run: events and activities (microseconds, record), and packets at their entry to the link (microseconds, sending end, bytes,
/// mark).
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) events: Vec<(u64, Event)>,
    pub(crate) packets: Vec<(u64, usize, u32, Priority)>,
    pub(crate) pages: Vec<(u64, PageRecord)>,
    pub(crate) objects: Vec<(u64, ObjectRecord)>,
    pub(crate) echoes: Vec<(u64, EchoRecord)>,
}

impl Watch for Record {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        self.events.push((micros(now), *event));
    }
    fn activity(&mut self, now: Time, activity: &dyn Activity) {
        self.pages.extend(activity.downcast().map(|page| (micros(now), page)));
        self.objects.extend(activity.downcast().map(|object| (micros(now), object)));
        self.echoes.extend(activity.downcast().map(|echo| (micros(now), echo)));
    }
    fn packet(&mut self, now: Time, packet: &Packet, _origin: Origin, step: Step<'_>) {
        if let Step::Entered(PortId(port)) = step {
            let from = if port == 0 { SERVER } else { CLIENT };
            self.packets.push((now.as_nanos() / 1000, from, packet.len, packet.dscp.priority()));
        }
    }
}

/// Event of an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Notified {
    Timer(u64),
    Opened,
    Accepted,
    /// Complete message with this tag.
    ReceivedMessage(u64),
    /// Requested part of the message with this tag.
    Reached(u64),
    Drained,
    PeerClosed,
    Closed,
}

/// Events of the applications: (microseconds, end, event).
pub(crate) type Notes = Arc<Mutex<Vec<(u64, usize, Notified)>>>;

/// Application at one end of its connections that runs a closure of the test and records its events.
pub(crate) struct Play<F> {
    end: usize,
    does: F,
    pub(crate) notes: Notes,
}

impl<F> std::fmt::Debug for Play<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Play").field("end", &self.end).finish_non_exhaustive()
    }
}

impl<F: FnMut(AppEvent, &mut Host<'_>) + Send> Application for Play<F> {
    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        let notified = match event {
            AppEvent::Start | AppEvent::Datagram(_) => None,
            AppEvent::Timer(key) => Some(Notified::Timer(key)),
            AppEvent::Opened(_) => Some(Notified::Opened),
            AppEvent::Accepted(_) => Some(Notified::Accepted),
            AppEvent::Message { message, complete, .. } => {
                assert!(complete, "only an external sender can abort a message");
                Some(Notified::ReceivedMessage(message.tag))
            }
            AppEvent::Progress { tag, .. } => Some(Notified::Reached(tag)),
            AppEvent::Drained(_) => Some(Notified::Drained),
            AppEvent::PeerClosed(_) => Some(Notified::PeerClosed),
            AppEvent::Closed(_) => Some(Notified::Closed),
        };
        let now = host.now().as_nanos() / 1000;
        self.notes.lock().unwrap().extend(notified.map(|notified| (now, self.end, notified)));
        (self.does)(event, host);
    }
}

/// Client and server with one link between them.
pub(crate) struct Link {
    pub(crate) sim: Sim<Record>,
    pub(crate) notes: Notes,
    pub(crate) spec: ConnectionSpec,
}

impl Link {
    pub(crate) fn new(tcp: impl Into<TcpOptions>) -> Self {
        Self::between(wire(), wire(), tcp)
    }

    /// Creates a link where `forward` leads from the server to the client.
    pub(crate) fn between(forward: WireSpec, back: WireSpec, tcp: impl Into<TcpOptions>) -> Self {
        let mut topology = Topology::default();
        let (client, server) = (topology.host("client"), topology.host("server"));
        topology.link(server, client, forward, back);
        let mut sim = Sim::new(&topology, 1, Record::default());
        let tcp = sim.add_tcp(tcp.into());
        Self { sim, notes: Notes::default(), spec: ConnectionSpec { client, server, opener: CLIENT, tcp } }
    }

    pub(crate) fn play(
        &self,
        end: usize,
        does: impl FnMut(AppEvent, &mut Host<'_>) + Send + 'static,
    ) -> AnyApp {
        AnyApp::Custom(Box::new(Play { end, does, notes: self.notes.clone() }))
    }

    pub(crate) fn serve(&mut self, app: AnyApp) {
        self.sim.add_server(self.spec.server, self.spec.tcp, app);
    }

    pub(crate) fn server_does(&mut self, does: impl FnMut(AppEvent, &mut Host<'_>) + Send + 'static) {
        let app = self.play(SERVER, does);
        self.serve(app);
    }

    pub(crate) fn client_does(&mut self, does: impl FnMut(AppEvent, &mut Host<'_>) + Send + 'static) {
        let app = self.play(CLIENT, does);
        self.sim.add_app(app);
    }

    /// Adds a client that opens a connection, sends all messages at once, and closes.
    pub(crate) fn client_sends(&mut self, messages: impl IntoIterator<Item = Message>) {
        let (spec, messages) = (self.spec, Vec::from_iter(messages));
        self.client_does(move |event, host| {
            if event == AppEvent::Start {
                let conn = host.open(spec);
                messages.iter().for_each(|&message| host.send(conn, message));
                host.close(conn);
            }
        });
    }

    /// Adds a client that requests these documents, each `pause` after the end of the previous document, and closes.
    pub(crate) fn requests_in_turn(&mut self, documents: &[u64], pause: Span) {
        let (spec, documents) = (self.spec, documents.to_vec());
        let (mut conn, mut next) = (None, 0);
        self.client_does(move |event, host| {
            match event {
                AppEvent::Start => conn = Some(host.open(spec)),
                AppEvent::Message { .. } if next < documents.len() && pause > Span::ZERO => {
                    return host.timer(host.now() + pause, 0);
                }
                AppEvent::Message { conn, .. } if next == documents.len() => return host.close(conn),
                AppEvent::Timer(_) | AppEvent::Message { .. } => {}
                _ => return,
            }
            next += 1;
            host.send(conn.unwrap(), request(next as u64, documents[next - 1]));
        });
    }

    pub(crate) fn run(&mut self) {
        self.sim.run(us(600_000_000));
        assert_eq!(self.sim.packets_out(), 0);
        assert_eq!((self.sim.tally().open, self.sim.tally().waiting), (0, 0), "all is said and done");
    }

    /// Returns the events of the application at an end, except timers.
    pub(crate) fn notifications(&self, end: usize) -> Vec<(u64, Notified)> {
        let notes = self.notes.lock().unwrap();
        let notifications =
            notes.iter().filter(|(_, at, notified)| *at == end && !matches!(notified, Notified::Timer(_)));
        notifications.map(|&(at, _, notified)| (at, notified)).collect()
    }

    /// Returns the messages received by the application at an end: (microseconds, tag).
    pub(crate) fn messages(&self, end: usize) -> Vec<(u64, u64)> {
        let message = |(at, notified)| {
            if let Notified::ReceivedMessage(tag) = notified { Some((at, tag)) } else { None }
        };
        self.notifications(end).into_iter().filter_map(message).collect()
    }

    pub(crate) fn events<T>(&self, pick: impl Fn(&Event) -> Option<T>) -> Vec<(u64, T)> {
        self.sim.watch().events.iter().filter_map(|(at, event)| Some((*at, pick(event)?))).collect()
    }

    /// Returns the data segments sent by both ends.
    pub(crate) fn sent(&self) -> Vec<(u64, SenderView)> {
        self.events(|event| if let Event::Sent(view) = event { Some(*view) } else { None })
    }

    /// Returns the segments of a document of the server that starts at byte `start`, with sequence numbers relative to `start`. Time and
    /// size identify the server's segments.
    pub(crate) fn document(&self, start: u64, bytes: u64) -> Vec<(u64, SenderView)> {
        let from_server = self.packets(SERVER);
        let of_server = |at: u64, view: &SenderView| {
            from_server.iter().any(|&(time, len, _)| time == at && len == view.wire_bytes)
        };
        let sent = self.sent().into_iter().filter(|(at, view)| view.wire_bytes > 200 && of_server(*at, view));
        let range = start..start + bytes;
        sent.filter(|(_, view)| range.contains(&view.seq))
            .map(|(at, view)| (at, SenderView { seq: view.seq - start, ..view }))
            .collect()
    }

    /// Returns the packets sent by an end: (microseconds, bytes, mark).
    pub(crate) fn packets(&self, end: usize) -> Vec<(u64, u32, Priority)> {
        let packets = self.sim.watch().packets.iter().filter(|(_, from, ..)| *from == end);
        packets.map(|&(at, _, bytes, priority)| (at, bytes, priority)).collect()
    }

    pub(crate) fn connections(&self) -> Vec<(u64, ConnectionRecord)> {
        self.events(|event| if let Event::Connection(record) = event { Some(*record) } else { None })
    }
}

/// Returns a request of 200 bytes.
pub(crate) fn request(tag: u64, response_bytes: u64) -> Message {
    Message { bytes: 200, tag, response_bytes, context: None }
}

pub(crate) fn msg(tag: u64, bytes: u64) -> Message {
    Message { bytes, tag, ..Message::default() }
}

/// Returns a server with connections that stay open until the client closes.
pub(crate) fn server(delay_s: Option<Distribution>, seed: u64) -> AnyApp {
    let config = ServerConfig { delay_s, tells_size: true, closes: false };
    AnyApp::Server(Box::new(Server::new(Arc::new(config), seed, 0)))
}

/// Returns a server that closes a connection after the first response.
pub(crate) fn closing_server() -> AnyApp {
    let config = ServerConfig { delay_s: None, tells_size: true, closes: true };
    AnyApp::Server(Box::new(Server::new(Arc::new(config), 1, 0)))
}

pub(crate) fn us(n: u64) -> Time {
    Time::from_nanos(n * 1000)
}

pub(crate) fn micros(at: Time) -> u64 {
    at.as_nanos() / 1000
}
