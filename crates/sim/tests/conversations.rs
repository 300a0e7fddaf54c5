//! Laws of conversations, each worked out by hand: messages both ways over connections that stay open, what each end hears of
//! them and when, and what markers, pacing, congestion control and timers make of the second message.

use catnip_base::{Distribution, Rate, Span, Time};
use catnip_net::{Colour, Packet, PortId, Topology, WireSpec};
use catnip_sim::app::{
    AnyApp, AppEvent, Application, Background, BackgroundConfig, Bulk, Files, FilesConfig, Http, Page,
    PageSource, Server, ServerConfig, Telnet, TelnetConfig, WebClient, WebConfig,
};
use catnip_sim::record::{ConnectionRecord, EchoRecord, PageRecord, SenderView};
use catnip_sim::watch::{Origin, Step};
use catnip_sim::{
    CLIENT, Conn, Event, Host, Message, Parties, SERVER, ServiceOptions, Sim, TcpId, TcpOptions, Watch,
};
use catnip_tcp::pacing::PacingKind;
use catnip_tcp::{TcpConfig, profile};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A kind as scenarios write it.
fn read<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// A byte takes a microsecond on every link, and ten milliseconds to the other end.
const DELAY_US: u64 = 10_000;
/// Without data.
const ACK_US: u64 = 40 + DELAY_US;
/// A full segment.
const SEGMENT_US: u64 = 1000 + DELAY_US;
/// A request of 200 bytes.
const REQUEST_US: u64 = 200 + DELAY_US;

/// Segments of 1000 bytes without headers, an ACK for each, two at first; a FIN, but no handshake.
fn tcp() -> TcpConfig {
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

/// The same with a handshake.
fn polite() -> TcpConfig {
    TcpConfig { handshake: true, ..tcp() }
}

fn wire() -> WireSpec {
    let rate = Rate::from_bits_per_second(8_000_000).unwrap();
    WireSpec::new(rate, Span::from_micros(DELAY_US), read("drop-tail:100"))
}

/// Packets with these numbers never get onto the wire.
fn without(packets: &str) -> WireSpec {
    WireSpec { before: vec![read(&format!("packets:{packets}"))], ..wire() }
}

/// What is recorded of a run: (microseconds, event), and packets as they enter the link: (microseconds, who sends, bytes, mark).
#[derive(Debug, Default)]
struct Record {
    events: Vec<(u64, Event)>,
    packets: Vec<(u64, usize, u32, Colour)>,
}

impl Watch for Record {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        self.events.push((micros(now), *event));
    }
    fn packet(&mut self, now: Time, packet: &Packet, _origin: Origin, step: Step<'_>) {
        if let Step::Entered(PortId(port)) = step {
            let from = if port == 0 { SERVER } else { CLIENT };
            self.packets.push((now.as_nanos() / 1000, from, packet.len, packet.dscp.colour()));
        }
    }
}

/// Something that a program hears.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Timer(u64),
    Opened,
    Accepted,
    /// The message with this tag.
    Heard(u64),
    /// A part of it.
    Reached(u64),
    PeerClosed,
    Closed,
}

/// What the program at an end has heard: (microseconds, end, what).
type Notes = Arc<Mutex<Vec<(u64, usize, Told)>>>;

/// A program at one end of its connections that does what a test says and notes what it hears.
struct Play<F> {
    end: usize,
    does: F,
    notes: Notes,
}

impl<F> std::fmt::Debug for Play<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Play").field("end", &self.end).finish_non_exhaustive()
    }
}

impl<F: FnMut(AppEvent, &mut Host<'_>) + Send> Application for Play<F> {
    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        let told = match event {
            AppEvent::Start => None,
            AppEvent::Timer(key) => Some(Told::Timer(key)),
            AppEvent::Opened(_) => Some(Told::Opened),
            AppEvent::Accepted(_) => Some(Told::Accepted),
            AppEvent::Message { message, whole, .. } => {
                assert!(whole, "nobody is outside");
                Some(Told::Heard(message.tag))
            }
            AppEvent::Progress { tag, .. } => Some(Told::Reached(tag)),
            AppEvent::PeerClosed(_) => Some(Told::PeerClosed),
            AppEvent::Closed(_) => Some(Told::Closed),
        };
        let now = host.now().as_nanos() / 1000;
        self.notes.lock().unwrap().extend(told.map(|told| (now, self.end, told)));
        (self.does)(event, host);
    }
}

/// A client and a server with one link between them.
struct Link {
    sim: Sim<Record>,
    notes: Notes,
    parties: Parties,
}

impl Link {
    fn new(tcp: impl Into<TcpOptions>) -> Self {
        Self::between(wire(), wire(), tcp)
    }

    /// `there` leads from the server to the client.
    fn between(there: WireSpec, back: WireSpec, tcp: impl Into<TcpOptions>) -> Self {
        let mut topology = Topology::default();
        let (client, server) = (topology.host("client"), topology.host("server"));
        topology.link(server, client, there, back);
        let mut sim = Sim::new(&topology, 1, Record::default());
        let tcp = sim.add_tcp(tcp.into());
        Self { sim, notes: Notes::default(), parties: Parties { client, server, opener: CLIENT, tcp } }
    }

    fn play(&self, end: usize, does: impl FnMut(AppEvent, &mut Host<'_>) + Send + 'static) -> AnyApp {
        AnyApp::Custom(Box::new(Play { end, does, notes: self.notes.clone() }))
    }

    fn serve(&mut self, app: AnyApp) {
        self.sim.add_server(self.parties.server, self.parties.tcp, app);
    }

    fn server_does(&mut self, does: impl FnMut(AppEvent, &mut Host<'_>) + Send + 'static) {
        let app = self.play(SERVER, does);
        self.serve(app);
    }

    fn client_does(&mut self, does: impl FnMut(AppEvent, &mut Host<'_>) + Send + 'static) {
        let app = self.play(CLIENT, does);
        self.sim.add_app(app);
    }

    /// A client that asks for these documents, one `pause` after the other has come, and hangs up.
    fn asks_in_turn(&mut self, documents: &[u64], pause: Span) {
        let (parties, documents) = (self.parties, documents.to_vec());
        let (mut conn, mut next) = (None, 0);
        self.client_does(move |event, host| {
            match event {
                AppEvent::Start => conn = Some(host.open(parties)),
                AppEvent::Message { .. } if next < documents.len() && pause > Span::ZERO => {
                    return host.timer(host.now() + pause, 0);
                }
                AppEvent::Message { conn, .. } if next == documents.len() => return host.close(conn),
                AppEvent::Timer(_) | AppEvent::Message { .. } => {}
                _ => return,
            }
            next += 1;
            host.send(conn.unwrap(), ask(next as u64, documents[next - 1]));
        });
    }

    fn run(&mut self) {
        self.sim.run(us(600_000_000));
        assert_eq!(self.sim.packets_out(), 0);
        assert_eq!((self.sim.tally().open, self.sim.tally().waiting), (0, 0), "all is said and done");
    }

    /// What the program at an end has heard, without timers.
    fn heard(&self, end: usize) -> Vec<(u64, Told)> {
        let notes = self.notes.lock().unwrap();
        let heard = notes.iter().filter(|(_, at, told)| *at == end && !matches!(told, Told::Timer(_)));
        heard.map(|&(at, _, told)| (at, told)).collect()
    }

    /// The messages among it: when they came, and their tags.
    fn messages(&self, end: usize) -> Vec<(u64, u64)> {
        let message = |(at, told)| if let Told::Heard(tag) = told { Some((at, tag)) } else { None };
        self.heard(end).into_iter().filter_map(message).collect()
    }

    fn events<T>(&self, pick: impl Fn(&Event) -> Option<T>) -> Vec<(u64, T)> {
        self.sim.watch().events.iter().filter_map(|(at, event)| Some((*at, pick(event)?))).collect()
    }

    /// Data segments of one connection that left, of the client and of the server.
    fn sent(&self) -> Vec<(u64, SenderView)> {
        self.events(|event| if let Event::Sent(view) = event { Some(*view) } else { None })
    }

    /// Those of a document that the server sends from this byte on, by their place in it: who sends is told by colour or size.
    fn document(&self, start: u64, bytes: u64) -> Vec<(u64, SenderView)> {
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

    /// What an end has sent: (microseconds, bytes, mark).
    fn packets(&self, end: usize) -> Vec<(u64, u32, Colour)> {
        let packets = self.sim.watch().packets.iter().filter(|(_, from, ..)| *from == end);
        packets.map(|&(at, _, bytes, colour)| (at, bytes, colour)).collect()
    }

    fn connections(&self) -> Vec<(u64, ConnectionRecord)> {
        self.events(|event| if let Event::Connection(record) = event { Some(*record) } else { None })
    }

    /// How many keystrokes have come back.
    fn echoes(&self) -> Vec<(u64, EchoRecord)> {
        self.events(|event| if let Event::Echo(record) = event { Some(*record) } else { None })
    }

    fn pages(&self) -> Vec<(u64, PageRecord)> {
        self.events(|event| if let Event::Page(record) = event { Some(*record) } else { None })
    }
}

/// A request of 200 bytes.
fn ask(tag: u64, asks: u64) -> Message {
    Message { bytes: 200, tag, asks, context: None }
}

fn say(tag: u64, bytes: u64) -> Message {
    Message { bytes, tag, ..Message::default() }
}

/// Answers on connections that stay open until the client closes.
fn server(delay_s: Option<Distribution>, seed: u64) -> AnyApp {
    let config = ServerConfig { delay_s, tells_size: true, closes: false };
    AnyApp::Server(Box::new(Server::new(Arc::new(config), seed, 0)))
}

/// Closes behind its first answer.
fn closing_server() -> AnyApp {
    let config = ServerConfig { delay_s: None, tells_size: true, closes: true };
    AnyApp::Server(Box::new(Server::new(Arc::new(config), 1, 0)))
}

fn us(n: u64) -> Time {
    Time::from_nanos(n * 1000)
}

fn micros(at: Time) -> u64 {
    at.as_nanos() / 1000
}

#[test]
fn a_second_request_and_its_answer_take_no_handshake() {
    let mut link = Link::new(polite());
    link.serve(server(None, 1));
    link.asks_in_turn(&[1000, 1000], Span::ZERO);
    link.run();
    // SYN, SYN with ACK, request, answer; the second request leaves with the ACK of the first answer.
    let first = 2 * ACK_US + REQUEST_US + SEGMENT_US;
    let second = first + REQUEST_US + SEGMENT_US;
    // The client's FIN, which takes an ACK's bytes, and its ACK.
    let over = second + 2 * ACK_US;
    let expected =
        [(2 * ACK_US, Told::Opened), (first, Told::Heard(1)), (second, Told::Heard(2)), (over, Told::Closed)];
    assert_eq!(link.heard(CLIENT), expected);
    let [(at, record)] = link.connections()[..] else { panic!("one connection") };
    assert_eq!((at, record.opened, record.received, record.acked), (over, us(0), us(second), us(over)));
    assert_eq!((record.bytes, record.sent, record.syn_timeouts), (2000, 2, 0));
    // Nothing else was said: SYN, two requests, FIN; SYN with ACK, two answers, ACK.
    assert_eq!([CLIENT, SERVER].map(|end| link.packets(end).len()), [4, 4]);
}

#[test]
fn pipelined_requests_are_answered_in_their_order_however_long_each_takes() {
    for seed in 1..=30 {
        let mut link = Link::new(TcpConfig { initial_window: 50, ..tcp() });
        link.serve(server(Some(Distribution::Exponential { mean: 0.02 }), seed));
        let (parties, mut conn, mut asked) = (link.parties, None, 0);
        link.client_does(move |event, host| match event {
            AppEvent::Start => host.timer(us(0), 0),
            AppEvent::Timer(_) => {
                let conn = *conn.get_or_insert_with(|| host.open(parties));
                host.send(conn, ask(asked, 300));
                asked += 1;
                if asked < 40 {
                    host.timer(host.now() + Span::from_millis(1), 0);
                } else {
                    // Half of what it has asked for is still to come.
                    host.close(conn);
                }
            }
            _ => {}
        });
        link.run();
        let tags: Vec<u64> = link.messages(CLIENT).into_iter().map(|(_, tag)| tag).collect();
        assert_eq!(tags, (0..40).collect::<Vec<u64>>(), "seed {seed}");
    }
}

#[test]
fn an_answer_takes_its_time_and_that_of_those_before_it() {
    let mut link = Link::new(TcpConfig { initial_window: 10, ..tcp() });
    link.serve(server(Some(Distribution::Constant(0.005)), 1));
    let parties = link.parties;
    link.client_does(move |event, host| {
        if event == AppEvent::Start {
            let conn = host.open(parties);
            [1, 2].into_iter().for_each(|tag| host.send(conn, ask(tag, 1000)));
            host.close(conn);
        }
    });
    link.run();
    // Both requests are in one segment of 400 bytes, and both answers leave 5 ms later, one behind the other.
    let first = 400 + DELAY_US + 5000 + SEGMENT_US;
    assert_eq!(link.messages(CLIENT), [(first, 1), (first + 1000, 2)]);
}

#[test]
fn both_ends_may_speak_at_once() {
    let mut link = Link::new(tcp());
    link.server_does(|event, host| match event {
        AppEvent::Accepted(conn) => host.send(conn, say(2, 2500)),
        AppEvent::PeerClosed(conn) => host.close(conn),
        _ => {}
    });
    let parties = link.parties;
    link.client_does(move |event, host| match event {
        AppEvent::Opened(conn) => host.send(conn, say(1, 1500)),
        AppEvent::Message { conn, .. } => host.close(conn),
        AppEvent::Start => {
            host.open(parties);
        }
        _ => {}
    });
    link.run();
    // The client's 1000 and 500 bytes, and the server's first two segments, cross. Each is acknowledged by itself: who hears
    // them has nothing to send. The first ACK lets the server's last 500 bytes go.
    let said = 1000 + 500 + DELAY_US;
    let answered = SEGMENT_US + ACK_US + 500 + DELAY_US;
    assert_eq!(link.messages(SERVER), [(said, 1)]);
    assert_eq!(link.messages(CLIENT), [(answered, 2)]);
    assert_eq!(link.packets(CLIENT)[..4].iter().map(|p| p.1).collect::<Vec<_>>(), [1000, 500, 40, 40]);
}

#[test]
fn who_has_said_all_still_hears_the_answer() {
    let mut link = Link::new(tcp());
    link.server_does(|event, host| match event {
        AppEvent::Message { conn, .. } => host.send(conn, say(7, 1500)),
        AppEvent::PeerClosed(conn) => host.close(conn),
        _ => {}
    });
    let parties = link.parties;
    link.client_does(move |event, host| {
        if event == AppEvent::Start {
            let conn = host.open(parties);
            host.send(conn, ask(7, 1500));
            host.close(conn);
        }
    });
    link.run();
    // The FIN shares a segment with the request, and the answer carries its ACK.
    let asked = REQUEST_US;
    let received = asked + 500 + SEGMENT_US;
    let over = received + ACK_US;
    let server =
        [(0, Told::Accepted), (asked, Told::Heard(7)), (asked, Told::PeerClosed), (over, Told::Closed)];
    assert_eq!(link.heard(SERVER), server);
    assert_eq!(link.heard(CLIENT), [(0, Told::Opened), (received, Told::Heard(7)), (over, Told::Closed)]);
    let [(at, record)] = link.connections()[..] else { panic!("one connection") };
    assert_eq!((at, record.received, record.acked), (over, us(received), us(over)));
    assert_eq!((record.app, record.bytes, record.sent, record.retransmitted), (0, 1500, 2, 0));
}

#[test]
fn a_server_answers_all_it_was_asked_before_it_closes_behind_its_client() {
    // The client's FIN comes with the requests, the answers take longer.
    let mut link = Link::new(tcp());
    link.serve(server(Some(Distribution::Constant(0.05)), 1));
    let parties = link.parties;
    link.client_does(move |event, host| {
        if event == AppEvent::Start {
            let conn = host.open(parties);
            (0..3).for_each(|tag| host.send(conn, ask(tag, 100)));
            host.close(conn);
        }
    });
    link.run();
    assert_eq!(link.messages(CLIENT).iter().map(|m| m.1).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(link.connections()[0].1.bytes, 300);
}

#[test]
fn an_end_is_heard_without_a_fin_as_soon_as_all_before_it_has_come() {
    let mut link = Link::new(TcpConfig { fin: false, ..tcp() });
    link.server_does(|event, host| {
        if let AppEvent::PeerClosed(conn) = event {
            host.send(conn, say(9, 1000));
            host.close(conn);
        }
    });
    let parties = link.parties;
    link.client_does(move |event, host| {
        if event == AppEvent::Start {
            let conn = host.open(parties);
            host.send(conn, say(1, 1500));
            host.close(conn);
        }
    });
    link.run();
    let said = 1500 + DELAY_US;
    assert_eq!(link.heard(SERVER)[1..3], [(said, Told::Heard(1)), (said, Told::PeerClosed)]);
    assert_eq!(link.messages(CLIENT), [(said + SEGMENT_US, 9)]);
}

/// Two equal documents over one connection, the second one two seconds after the first one.
fn two_documents(bytes: u64, tcp: impl Into<TcpOptions>) -> (Link, [Vec<(u64, SenderView)>; 2]) {
    let mut link = Link::new(tcp);
    link.serve(server(None, 1));
    link.asks_in_turn(&[bytes, bytes], Span::from_secs(2));
    link.run();
    let documents = [0, bytes].map(|start| link.document(start, bytes));
    (link, documents)
}

/// Which segments leave at once, one by one, from the first one on: microseconds since it left.
fn since_first(document: &[(u64, SenderView)]) -> Vec<u64> {
    document.iter().map(|(at, _)| at - document[0].0).collect()
}

#[test]
fn the_second_document_is_marked_like_the_first() {
    // 11 segments of 1000 bytes and one of 500: those at 9000, 10000 and 11000 have at most 3000 bytes to go, so three and
    // three are HIGH; the window is never below 8.
    let expected: Vec<Colour> =
        (0..12).map(|n| if (3..9).contains(&n) { Colour::Red } else { Colour::Green }).collect();
    for restart_after_idle in [true, false] {
        let config = TcpConfig { initial_window: 8, restart_after_idle, ..tcp() };
        let options = TcpOptions { marker: Some(read("spm")), ..config.into() };
        let (link, documents) = two_documents(11_500, options);
        for document in &documents {
            let seqs: Vec<u64> = document.iter().map(|(_, view)| view.seq).collect();
            assert_eq!(seqs, (0..12).map(|n| 1000 * n).collect::<Vec<u64>>());
            assert_eq!(document.iter().map(|(_, view)| view.colour).collect::<Vec<_>>(), expected);
        }
        assert_eq!(link.connections()[0].1.sent_high, 2 * 6);
    }
}

#[test]
fn documents_that_share_a_segment_are_told_apart_by_its_first_byte() {
    // Asked for at once: the second one begins at byte 11500, in the segment at 11000, which ends the first one.
    let config = TcpConfig { initial_window: 30, ..tcp() };
    let mut link = Link::new(TcpOptions { marker: Some(read("spm")), ..config.into() });
    link.serve(server(None, 1));
    let parties = link.parties;
    link.client_does(move |event, host| {
        if event == AppEvent::Start {
            let conn = host.open(parties);
            (0..2).for_each(|tag| host.send(conn, ask(tag, 11_500)));
            host.close(conn);
        }
    });
    link.run();
    let low: Vec<u64> = link
        .document(0, 23_000)
        .iter()
        .filter(|(_, v)| v.colour == Colour::Red)
        .map(|(_, v)| v.seq)
        .collect();
    // From 500 bytes into the second one: leading are those before 3000, trailing those from 8500 on.
    assert_eq!(low, [3000, 4000, 5000, 6000, 7000, 8000, 15_000, 16_000, 17_000, 18_000, 19_000]);
}

#[test]
fn the_last_window_of_each_document_is_paced() {
    // Twelve segments from a window of four: 4, 8. The second round is the last one: eight segments over one round trip. Its
    // smoothed value moves by an eighth of a difference of at most four segments' times. The window grows though pacing leaves
    // some of it unused.
    let config = TcpConfig { initial_window: 4, grow_unused: true, pacing: PacingKind::Rbplw, ..tcp() };
    let (_, documents) = two_documents(12_000, config);
    for document in &documents {
        let times = since_first(document);
        assert_eq!(times[..4], [0, 0, 0, 0]);
        let gaps: Vec<u64> = times[4..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        let round_trip = SEGMENT_US + ACK_US;
        let (least, most) = (round_trip / 8, (round_trip + 500) / 8);
        assert!(gaps.iter().all(|gap| (least..=most).contains(gap)), "{gaps:?}");
    }
}

#[test]
fn early_congestion_avoidance_looks_at_each_document() {
    let windows = |control: &str| {
        let config = TcpConfig { initial_window: 2, control: read(control), ..tcp() };
        let (_, documents) = two_documents(20_000, config);
        documents.map(|document| document.iter().map(|(_, view)| view.cwnd).collect::<Vec<u64>>())
    };
    let [first, second] = windows("eca");
    assert_eq!(first, second);
    assert!(first.last() < windows("reno")[0].last(), "it has left slow start");
    // Many short documents at once are not a long one: each is its own last round.
    let last = |documents: &[u64]| {
        let mut link = Link::new(TcpConfig { control: read("eca"), ..tcp() });
        link.serve(server(None, 1));
        let (parties, all) = (link.parties, documents.to_vec());
        link.client_does(move |event, host| {
            if event == AppEvent::Start {
                let conn = host.open(parties);
                (0..).zip(&all).for_each(|(tag, &bytes)| host.send(conn, ask(tag, bytes)));
                host.close(conn);
            }
        });
        link.run();
        link.sent().last().unwrap().1.cwnd
    };
    assert!(last(&[2000; 10]) < last(&[20_000]));
}

#[test]
fn timers_come_in_the_order_of_their_times_and_then_of_asking() {
    let mut link = Link::new(tcp());
    link.client_does(|event, host| match event {
        AppEvent::Start => {
            for (at, key) in [(300, 3), (100, 1), (200, 2), (200, 4), (500, 5), (400, 6), (900, 9)] {
                host.timer(us(at), key);
            }
            // One later, one earlier, one to the time of others, one not at all.
            host.timer(us(350), 1);
            host.timer(us(50), 5);
            host.timer(us(200), 6);
            host.cancel(9);
            host.cancel(77);
        }
        // Asked for last, so it comes last.
        AppEvent::Timer(5) => host.timer(us(200), 7),
        // In the past: now.
        AppEvent::Timer(3) => host.timer(us(10), 8),
        // To the same time again.
        AppEvent::Timer(2) => host.timer(us(200), 4),
        _ => {}
    });
    link.run();
    let notes: Vec<(u64, Told)> = link.notes.lock().unwrap().iter().map(|n| (n.0, n.2)).collect();
    let expected = [(50, 5), (200, 2), (200, 6), (200, 7), (200, 4), (300, 3), (300, 8), (350, 1)]
        .map(|(at, key)| (at, Told::Timer(key)));
    assert_eq!(notes, expected);
    assert!(link.sim.is_idle());
}

#[test]
fn a_lost_syn_costs_its_timeout_and_is_counted() {
    // RFC 6298, section 2.1: the first timeout is 1 s, and after it the window is one segment (RFC 6928, section 2).
    let mut link = Link::between(wire(), without("1"), polite());
    link.serve(server(None, 1));
    link.asks_in_turn(&[2000], Span::ZERO);
    link.run();
    let first = 1_000_000 + 2 * ACK_US + REQUEST_US + 2 * SEGMENT_US;
    // The server's SYN is not repeated, so its window is two segments.
    assert_eq!(link.messages(CLIENT), [(first - DELAY_US, 1)]);
    let record = link.connections()[0].1;
    assert_eq!((record.syn_timeouts, record.timeouts, record.dropped), (1, 0, 0));
    // A SYN with ACK that is lost brings both ends to their timeouts, or the client's alone if its second SYN comes first.
    let mut link = Link::between(without("1"), wire(), polite());
    link.serve(server(None, 1));
    link.asks_in_turn(&[1000], Span::ZERO);
    link.run();
    let record = link.connections()[0].1;
    assert!((1..=2).contains(&record.syn_timeouts), "{record:?}");
    assert_eq!(link.messages(CLIENT).len(), 1);
}

#[test]
fn nagle_holds_the_second_small_message_until_the_first_is_acknowledged() {
    let heard = |nagle, closes: bool| {
        let mut link = Link::new(TcpConfig { nagle, ..tcp() });
        link.server_does(|event, host| {
            if let AppEvent::PeerClosed(conn) = event {
                host.close(conn);
            }
        });
        let (parties, mut conn) = (link.parties, None);
        link.client_does(move |event, host| match event {
            AppEvent::Start => {
                let open = *conn.insert(host.open(parties));
                host.send(open, say(1, 100));
                host.timer(us(1000), 0);
                host.timer(us(100_000), 1);
            }
            AppEvent::Timer(key) => {
                let conn = conn.unwrap();
                if key == 0 {
                    host.send(conn, say(2, 100));
                }
                if closes || key == 1 {
                    host.close(conn);
                }
            }
            _ => {}
        });
        link.run();
        link.messages(SERVER)
    };
    let first = 100 + DELAY_US;
    assert_eq!(heard(false, false), [(first, 1), (first + 1000, 2)]);
    assert_eq!(heard(true, false), [(first, 1), (first + ACK_US + first, 2)]);
    // No more will come, so there is nothing to wait for.
    assert_eq!(heard(true, true), [(first, 1), (first + 1000, 2)]);
}

#[test]
fn nagle_has_nothing_to_hold_behind_a_fin() {
    // The FIN leaves with the last of five segments; then the loss of the first one is repaired, and nothing new waits.
    let mut link = Link::between(wire(), without("1"), TcpConfig { nagle: true, initial_window: 6, ..tcp() });
    link.server_does(|event, host| {
        if let AppEvent::PeerClosed(conn) = event {
            host.close(conn);
        }
    });
    let parties = link.parties;
    link.client_does(move |event, host| {
        if event == AppEvent::Start {
            let conn = host.open(parties);
            host.send(conn, say(1, 4500));
            host.close(conn);
        }
    });
    link.run();
    // The lost segment took no time on the wire. The third duplicate ACK, which has a block of 8 bytes as all of them, answers
    // the fourth segment.
    let resent = 3 * 1000 + DELAY_US + ACK_US + 8;
    assert_eq!(link.messages(SERVER), [(resent + SEGMENT_US, 1)]);
}

#[test]
fn after_a_pause_a_sender_begins_anew() {
    for (restart_after_idle, at_once) in [(true, 2), (false, 8)] {
        let config = TcpConfig { restart_after_idle, ..tcp() };
        let (_, documents) = two_documents(20_000, config);
        let burst =
            |document: &[(u64, SenderView)]| since_first(document).iter().filter(|at| **at == 0).count();
        assert_eq!(burst(&documents[0]), 2);
        assert!(burst(&documents[1]) >= at_once, "{}", burst(&documents[1]));
        if restart_after_idle {
            assert_eq!(since_first(&documents[0]), since_first(&documents[1]));
        }
    }
}

#[test]
fn messages_that_share_a_segment_do_not_hide_where_the_next_one_begins() {
    // Two documents of 1500 bytes at once are three segments; the second one's first byte is inside of one. The third document,
    // after a pause, begins with the initial window all the same.
    for (at_once, later) in [(&[3000][..], 20_000), (&[1500, 1500], 20_000)] {
        let mut link = Link::new(tcp());
        link.serve(server(None, 1));
        let (parties, first, mut conn) = (link.parties, at_once.to_vec(), None);
        link.client_does(move |event, host| match event {
            AppEvent::Start => {
                let open = *conn.insert(host.open(parties));
                // Warms the window up.
                host.send(open, ask(0, 20_000));
                host.timer(us(500_000), 1);
                host.timer(us(5_000_000), 2);
            }
            AppEvent::Timer(1) => {
                (1..).zip(&first).for_each(|(tag, &bytes)| host.send(conn.unwrap(), ask(tag, bytes)));
            }
            AppEvent::Timer(_) => {
                host.send(conn.unwrap(), ask(9, later));
                host.close(conn.unwrap());
            }
            _ => {}
        });
        link.run();
        let document = link.document(23_000, later);
        let burst = since_first(&document).iter().filter(|at| **at == 0).count();
        assert_eq!(burst, 2, "{at_once:?}");
    }
}

#[test]
fn an_ack_has_the_mark_of_the_data_that_it_answers_and_a_syn_is_high() {
    let (high, med, low) = (Colour::Green, Colour::Yellow, Colour::Red);
    // Windows up to 4 are HIGH, up to 8 MED.
    for (window, colour) in [(3, high), (6, med), (12, low)] {
        let config = TcpConfig { initial_window: window, ..polite() };
        let service = catnip_net::mark::Service::Interactive;
        let options = TcpOptions { marker: Some(read("tcp-state")), service, ..config.into() };
        let mut link = Link::new(options);
        link.serve(server(None, 1));
        link.asks_in_turn(&[2000], Span::ZERO);
        link.run();
        // SYN; request; two ACKs of data; FIN. The client's window is as large as the server's.
        let client: Vec<Colour> = link.packets(CLIENT).iter().map(|packet| packet.2).collect();
        assert_eq!(client[..4], [high, colour, colour, colour], "a window of {window}");
        let server: Vec<Colour> = link.packets(SERVER).iter().map(|packet| packet.2).collect();
        assert_eq!(server[..3], [high, colour, colour], "a window of {window}");
    }
}

#[test]
fn a_program_chooses_how_its_later_packets_are_marked() {
    let (high, low) = (Colour::Green, Colour::Red);
    let service = catnip_net::mark::Service::Highly;
    let options = TcpOptions { marker: Some(read("app")), service, ..tcp().into() };
    let mut link = Link::new(options);
    link.server_does(|event, host| match event {
        AppEvent::Message { conn, message, .. } => {
            host.send(conn, say(message.tag, 1000));
            if message.tag == 2 {
                let marker = Some(read("app:low"));
                host.set_service(conn, ServiceOptions { marker, weight: None });
            }
        }
        AppEvent::PeerClosed(conn) => host.close(conn),
        _ => {}
    });
    link.asks_in_turn(&[1000, 1000, 1000], Span::from_millis(100));
    link.run();
    // From the second answer on the server's are LOW, and ACKs of them, too; requests stay HIGH.
    let marks =
        |end| link.packets(end).into_iter().map(|(_, bytes, colour)| (bytes, colour)).collect::<Vec<_>>();
    let [request, ack] = [200, 40];
    let client = [(request, high), (ack, high), (request, high), (ack, low), (request, high), (40, high)];
    assert_eq!(marks(CLIENT), client);
    // Its ACK of the FIN answers what was HIGH.
    assert_eq!(marks(SERVER), [(1000, high), (1000, low), (1000, low), (40, high)]);
}

#[test]
fn who_acts_on_a_connection_that_is_over_does_no_harm() {
    let mut link = Link::new(tcp());
    link.serve(server(None, 1));
    let parties = link.parties;
    let mut past: Vec<Conn> = Vec::new();
    link.client_does(move |event, host| match event {
        AppEvent::Start | AppEvent::Closed(_) if past.len() < 3 => {
            let conn = host.open(parties);
            host.send(conn, ask(past.len() as u64, 500));
            // The new one may have the number of an old one.
            for &old in &past {
                host.send(old, ask(99, 5000));
                host.notify(old, 1);
                host.set_service(old, ServiceOptions { marker: Some(read("app:high")), weight: Some(3) });
                host.close(old);
            }
            past.push(conn);
        }
        AppEvent::Message { conn, .. } => {
            host.close(conn);
            // What comes behind the end is not said.
            host.send(conn, ask(98, 5000));
            host.close(conn);
        }
        _ => {}
    });
    link.run();
    assert_eq!(link.messages(CLIENT).iter().map(|m| m.1).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(link.connections().iter().map(|(_, it)| it.bytes).collect::<Vec<_>>(), [500; 3]);
    assert_eq!((link.sim.tally().opened, link.sim.tally().completed), (3, 3));
    assert!(link.sent().iter().all(|(_, view)| view.colour == Colour::Red), "nobody is marked");
}

/// Types 100 bytes so many milliseconds after the last ones, unless their echo takes longer.
fn telnet(parties: Parties, pause_ms: u64, number: u32) -> AnyApp {
    let pause_s = Distribution::Constant(pause_ms as f64 / 1000.0);
    AnyApp::Telnet(Box::new(Telnet::new(Arc::new(TelnetConfig { bytes: 100, pause_s }), parties, 1, number)))
}

#[test]
fn a_typist_waits_for_the_echo_and_for_the_next_thought() {
    let echo = 2 * (100 + DELAY_US);
    // A thought takes longer than an echo, or not; the first one comes after a thought, too. Who types at once waits until the
    // ACK of the last echo is on the wire.
    for (pause, next) in [(50_000, 50_000), (5000, echo + 40)] {
        let mut link = Link::new(tcp());
        link.serve(server(None, 1));
        let typist = telnet(link.parties, pause / 1000, 0);
        link.sim.add_app(typist);
        link.sim.run(us(1_000_000));
        let echoes = link.echoes();
        let came = echoes.len() as u64;
        assert!(echoes.len() as u64 >= (1_000_000 - pause - echo) / next);
        for ((at, record), number) in echoes.into_iter().zip(0..) {
            // The first one waits for no ACK.
            let late = if next > pause && number > 0 { 40 } else { 0 };
            let typed = pause + number * next - late;
            assert_eq!((at, record), (typed + echo + late, EchoRecord { app: 0, number, start: us(typed) }));
        }
        // One packet is outstanding, and one connection is enough.
        assert_eq!(link.sim.tally().opened, 1);
        let typed = link.packets(CLIENT).iter().filter(|packet| packet.1 == 100).count() as u64;
        assert!((0..=1).contains(&(typed - came)));
    }
}

#[test]
fn a_typist_goes_on_over_another_connection_when_the_server_hangs_up() {
    let mut link = Link::new(polite());
    let mut heard = 0;
    link.server_does(move |event, host| {
        // Every third keystroke it does not answer, but hangs up.
        if let AppEvent::Message { conn, message, .. } = event {
            heard += 1;
            if heard % 3 == 0 { host.close(conn) } else { host.send(conn, say(message.tag, message.asks)) }
        }
    });
    let typist = telnet(link.parties, 100, 0);
    link.sim.add_app(typist);
    link.sim.run(us(1_000_000));
    // Keystrokes at 100, 200, 300 ms and so on; of nine before the end three are lost with their connections.
    let numbers: Vec<u64> = link.echoes().iter().map(|(_, echo)| echo.number).collect();
    assert_eq!(numbers, [0, 1, 3, 4, 6, 7]);
}

/// A person who looks at these pages without a pause.
fn web(parties: Parties, http: Http, pages: &[&[u64]], number: u32) -> AnyApp {
    let pages = pages.iter().map(|objects| Page { objects: objects.to_vec() }).collect();
    let config = WebConfig {
        pages: PageSource::Known { pages, endless: false },
        http,
        think_s: Distribution::Constant(0.0),
        images_after_bytes: u64::MAX,
        request_bytes: 200,
    };
    AnyApp::Web(Box::new(WebClient::new(Arc::new(config), parties, 1, number)))
}

/// What a page of an HTML and four images of a segment each takes.
fn page_of_five(http: Http, server: AnyApp) -> (u64, u32) {
    let mut link = Link::new(TcpConfig { initial_window: 10, ..polite() });
    link.serve(server);
    let client = web(link.parties, http, &[&[1000; 5]], 0);
    link.sim.add_app(client);
    link.run();
    let [(at, page)] = link.pages()[..] else { panic!("one page") };
    assert_eq!((page.bytes, page.start), (5000, us(0)));
    let objects =
        link.events(|event| if let Event::Object(record) = event { Some(record.object) } else { None });
    assert_eq!(objects.iter().map(|object| object.1).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(link.connections().len(), page.connections as usize);
    (at, page.connections)
}

/// Of the first object of a page: SYN, SYN with ACK, request, answer.
const HTML_US: u64 = 2 * ACK_US + REQUEST_US + SEGMENT_US;

#[test]
fn http_1_0_fetches_four_images_at_a_time_each_over_a_connection_of_its_own() {
    // The HTML's ACK is on the wire first, then four SYNs, so the first of these is there 80 us after their connections were
    // opened and the transmission began. The first request follows its SYN with ACK; the others wait for it, as they take longer
    // than SYNs, and the answers wait for each other, too.
    let last = HTML_US + 40 + 2 * ACK_US + REQUEST_US + 4 * 1000 + DELAY_US;
    let http = Http::V10 { max_connections: 4 };
    assert_eq!(page_of_five(http, closing_server()), (last, 5));
}

#[test]
fn http_1_1_asks_for_the_next_object_when_it_has_the_last_one() {
    let http = Http::V11 { max_connections: 1, pipelining: false, keep_alive: true };
    let last = HTML_US + 4 * (REQUEST_US + SEGMENT_US);
    assert_eq!(page_of_five(http, server(None, 1)), (last, 1));
}

#[test]
fn http_1_1_with_pipelining_asks_for_all_images_in_one_segment() {
    let http = Http::V11 { max_connections: 1, pipelining: true, keep_alive: true };
    let last = HTML_US + 4 * 200 + DELAY_US + 4 * 1000 + DELAY_US;
    assert_eq!(page_of_five(http, server(None, 1)), (last, 1));
}

#[test]
fn http_1_1_opens_more_connections_beside_the_one_that_stands() {
    let http = Http::V11 { max_connections: 4, pipelining: false, keep_alive: true };
    // The first image is asked for over the connection of the HTML; three SYNs follow the 200 bytes of its request. The first
    // of them comes to a server whose wire carries that image until 2 * DELAY_US + 1200 us, so its answer leaves then, and comes
    // back 40 us after the image, whose ACK takes these 40 us. Three requests later the answers follow each other.
    let image = HTML_US + REQUEST_US + SEGMENT_US;
    let request = image + 40;
    let last = request + REQUEST_US + 3 * 1000 + DELAY_US;
    assert_eq!(page_of_five(http, server(None, 1)), (last, 4));
}

#[test]
fn connections_outlive_a_page_only_if_they_are_kept_alive() {
    for (keep_alive, opened) in [(true, vec![2, 0, 0]), (false, vec![2, 2, 2])] {
        let mut link = Link::new(polite());
        link.serve(server(None, 1));
        let http = Http::V11 { max_connections: 2, pipelining: false, keep_alive };
        let client = web(link.parties, http, &[&[1000; 4][..]; 3], 0);
        link.sim.add_app(client);
        link.run();
        let pages = link.pages();
        assert_eq!(pages.iter().map(|(_, page)| page.connections).collect::<Vec<_>>(), opened);
        assert_eq!(link.sim.tally().opened, u64::from(opened.iter().sum::<u32>()));
    }
}

#[test]
fn what_a_server_does_not_answer_before_it_hangs_up_is_asked_for_again() {
    // Three answers per connection, as with a limit on requests.
    for pipelining in [false, true] {
        let mut link = Link::new(polite());
        let mut answered: BTreeMap<Conn, u32> = BTreeMap::new();
        link.server_does(move |event, host| match event {
            AppEvent::Message { conn, message, .. } => {
                let count = answered.entry(conn).or_default();
                *count += 1;
                if *count <= 3 {
                    host.send(conn, say(message.tag, message.asks));
                }
                if *count == 3 {
                    host.close(conn);
                }
            }
            AppEvent::PeerClosed(conn) => host.close(conn),
            _ => {}
        });
        let http = Http::V11 { max_connections: 2, pipelining, keep_alive: true };
        let client = web(link.parties, http, &[&[1000; 11]], 0);
        link.sim.add_app(client);
        link.run();
        let mut objects =
            link.events(|event| if let Event::Object(it) = event { Some(it.object) } else { None });
        objects.sort_by_key(|object| object.1);
        assert_eq!(objects.iter().map(|object| object.1).collect::<Vec<_>>(), (0..11).collect::<Vec<_>>());
        let [(_, page)] = link.pages()[..] else { panic!("one page") };
        assert!((4..=6).contains(&page.connections), "{page:?}, pipelining {pipelining}");
    }
}

#[test]
fn files_come_one_after_the_other_in_both_directions() {
    let mut link = Link::new(TcpConfig { initial_window: 2, ..polite() });
    let Parties { client, server, .. } = link.parties;
    let back = link.sim.add_tcp(polite().into());
    link.serve(closing_server());
    link.sim.add_server(client, back, closing_server());
    let config = Arc::new(FilesConfig {
        bytes: Distribution::Constant(3000.0),
        gap_s: Distribution::Constant(0.1),
        request_bytes: 0,
        count: Some(2),
    });
    for (parties, user) in
        [(link.parties, 0), (Parties { client: server, server: client, opener: CLIENT, tcp: back }, 1)]
    {
        link.sim.add_app(AnyApp::Files(Box::new(Files::new(config.clone(), parties, 1, user))));
    }
    link.run();
    // SYN, SYN with ACK, ACK, two segments, the ACK of the first, the third segment: neither direction is in the way of the
    // other one, and the request takes no time.
    let file = 3 * ACK_US + SEGMENT_US + ACK_US + SEGMENT_US;
    let records = link.connections();
    assert_eq!(records.len(), 4);
    for (_, record) in records {
        let nth = record.connection / 2;
        let opened = 100_000 + nth * (100_000 + file);
        assert_eq!((record.opened, record.received, record.bytes), (us(opened), us(opened + file), 3000));
        assert_eq!(record.app, (record.connection % 2) as u32);
    }
}

/// All programs there are, around a short, lossy queue.
fn busy() -> Sim<Record> {
    let mut topology = Topology::default();
    let clients = [0, 1, 2].map(|n| topology.host(format!("client {n}")));
    let servers = [0, 1, 2].map(|n| topology.host(format!("server {n}")));
    let (left, right) = (topology.router("left"), topology.router("right"));
    let loss = vec![read("bernoulli:0.03")];
    let back = WireSpec { queue: read("drop-tail:8"), before: loss.clone(), ..wire() };
    let there = WireSpec { behind: loss, ..back.clone() };
    topology.link(left, right, there, back);
    topology.links(servers.map(|server| (server, left)), wire(), wire());
    topology.links(clients.map(|client| (client, right)), wire(), wire());
    let mut sim = Sim::new(&topology, 5, Record::default());
    let markers = ["spm", "tcp-state", "app", "tcp-state-random"];
    let tcps: Vec<TcpId> = (0..6)
        .map(|n| {
            let config = TcpConfig {
                nagle: n % 2 == 1,
                fin: n != 4,
                pacing: if n == 2 { PacingKind::Rbplw } else { PacingKind::None },
                ..polite()
            };
            let marker = markers.get(n).map(|marker| read(marker));
            sim.add_tcp(TcpOptions { marker, ..config.into() })
        })
        .collect();
    let delay = Distribution::Exponential { mean: 0.01 };
    for node in servers {
        for (&tcp, seed) in tcps.iter().zip(1..) {
            sim.add_server(node, tcp, server((seed % 2 == 0).then(|| delay.clone()), seed));
        }
    }
    let persistent = |pipelining| Http::V11 { max_connections: 2, pipelining, keep_alive: true };
    for n in 0..12u32 {
        let (server, client) = (servers[n as usize % 3], clients[n as usize / 4]);
        let parties = |tcp: usize| Parties { client, server, opener: CLIENT, tcp: tcps[tcp] };
        let page: &[u64] = &[3000, 500, 12_000, 100, 7000, 2500];
        let pages = [page; 6];
        let app = match n % 6 {
            0 => web(parties(0), Http::V10 { max_connections: 3 }, &pages, n),
            1 => web(parties(1), persistent(true), &pages, n),
            2 => web(parties(2), persistent(false), &pages, n),
            3 => telnet(parties(3), 20, n),
            4 => {
                let (bytes, gap_s) =
                    (Distribution::Constant(20_000.0), Distribution::Exponential { mean: 0.1 });
                let config = FilesConfig { bytes, gap_s, request_bytes: 50, count: Some(10) };
                AnyApp::Files(Box::new(Files::new(Arc::new(config), parties(4), 1, n)))
            }
            _ => {
                let opener = if n > 6 { CLIENT } else { SERVER };
                let parties = Parties { opener, ..parties(5) };
                AnyApp::Bulk(Bulk::new(parties, say(0, 30_000), us(7000 * u64::from(n))))
            }
        };
        sim.add_app(app);
    }
    let flow = sim.add_flow(servers[0], clients[2]);
    let peak = Rate::from_bits_per_second(4_000_000).unwrap();
    let sizes = Distribution::Uniform { minimum: 40.0, maximum: 900.0 };
    let config = BackgroundConfig::new(5e5, peak, Span::from_millis(3), [1.5, 1.5], sizes);
    sim.add_app(AnyApp::Background(Box::new(Background::new(Arc::new(config), flow, 1, 99))));
    sim
}

const BUSY_US: u64 = 60_000_000;

#[test]
fn at_every_moment_of_a_busy_minute_the_packets_that_hosts_wait_for_are_inside_the_network() {
    let mut sim = busy();
    for now in (0..=BUSY_US).step_by(2000) {
        sim.run(us(now));
        assert_eq!(sim.packets_out() as u64, sim.fabric().packets_inside(), "after {now} us");
    }
    let tally = sim.tally();
    assert!(tally.data_dropped > 50 && tally.completed > 400, "{tally:?}");
    // All but the two typists and the source are done, and only their connections stand.
    assert_eq!((tally.open, tally.waiting <= 2), (2, true), "{tally:?}");
    let count = |what: fn(&Event) -> bool| sim.watch().events.iter().filter(|(_, event)| what(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Page(_))), 6 * 6);
    assert_eq!(count(|event| matches!(event, Event::Connection(it) if it.bytes == 20_000)), 2 * 10);
    assert!(count(|event| matches!(event, Event::Echo(_))) > 200);
}

#[test]
fn a_busy_run_in_steps_is_the_run_in_one_go() {
    let (mut once, mut steps) = (busy(), busy());
    once.run(us(BUSY_US));
    // Not in step with anything.
    (1..7500).for_each(|n| steps.run(Time::from_nanos(n * 7_777_777)));
    steps.run(us(BUSY_US));
    assert!(once.watch().events.len() > 10_000);
    assert_eq!(once.watch().events, steps.watch().events);
    assert_eq!(once.watch().packets, steps.watch().packets);
    assert_eq!(once.tally(), steps.tally());
}

/// One thing that an end says: when, which end, how many bytes.
type Line = (u64, usize, u64);

/// Both ends say their lines, and then they close.
fn speak(lines: &[Line], tcp: TcpConfig, loss: f64, seed: u64) -> (Link, Arc<Mutex<Vec<Spoken>>>) {
    let lossy = || WireSpec { before: vec![read(&format!("bernoulli:{loss}"))], ..wire() };
    let mut topology = Topology::default();
    let (client, server) = (topology.host("client"), topology.host("server"));
    topology.link(server, client, lossy(), lossy());
    let mut sim = Sim::new(&topology, seed, Record::default());
    let tcp = sim.add_tcp(tcp.into());
    let mut link =
        Link { sim, notes: Notes::default(), parties: Parties { client, server, opener: CLIENT, tcp } };
    let spoken = Arc::new(Mutex::new(Vec::new()));
    let speaker = |end: usize| {
        let lines: Vec<(u64, u64, u64)> = (0..)
            .zip(lines)
            .filter(|(_, line)| line.1 == end)
            .map(|(tag, &(at, _, bytes))| (at, tag, bytes))
            .collect();
        let (parties, spoken, mut conn, mut next) = (link.parties, spoken.clone(), None, 0);
        move |event: AppEvent, host: &mut Host<'_>| {
            match event {
                AppEvent::Start if end == CLIENT => conn = Some(host.open(parties)),
                AppEvent::Accepted(it) => conn = Some(it),
                AppEvent::Message { message, whole, .. } => {
                    spoken.lock().unwrap().push((end, message.tag, message.bytes, whole));
                }
                AppEvent::Timer(_) => {}
                _ => return,
            }
            let Some(conn) = conn else { return };
            while let Some(&(at, tag, bytes)) = lines.get(next) {
                if us(at) > host.now() {
                    return host.timer(us(at), 0);
                }
                host.send(conn, say(tag, bytes));
                next += 1;
            }
            host.close(conn);
        }
    };
    let [of_client, of_server] = [speaker(CLIENT), speaker(SERVER)];
    link.server_does(of_server);
    link.client_does(of_client);
    (link, spoken)
}

/// Who has heard it, its tag and bytes, and whether it was whole.
type Spoken = (usize, u64, u64, bool);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_message_is_heard_once_whole_and_in_order(
        mut lines in prop::collection::vec((0u64..300_000, 0usize..2, 0u64..5000), 1..25),
        loss in 0.0..0.1f64, seed: u64, handshake: bool, fin: bool, nagle: bool, rbplw: bool, delayed: bool,
    ) {
        lines.sort_by_key(|line| line.0);
        let config = TcpConfig {
            handshake, fin, nagle,
            pacing: if rbplw { PacingKind::Rbplw } else { PacingKind::None },
            delayed_ack: if delayed { profile::rfc().delayed_ack } else { None },
            ..tcp()
        };
        let (mut link, spoken) = speak(&lines, config, loss, seed);
        link.sim.run(us(3_600_000_000));
        prop_assert_eq!(link.sim.packets_out(), 0);
        let tally = link.sim.tally();
        prop_assert_eq!((tally.open, tally.waiting), (0, 0));
        let spoken = spoken.lock().unwrap();
        for end in [CLIENT, SERVER] {
            let heard: Vec<Spoken> = spoken.iter().filter(|it| it.0 == end).copied().collect();
            let said = (0..).zip(&lines).filter(|(_, line)| line.1 != end);
            let said: Vec<Spoken> = said.map(|(tag, line)| (end, tag, line.2, true)).collect();
            prop_assert_eq!(heard, said);
        }
        let of_server: u64 = lines.iter().filter(|line| line.1 == SERVER).map(|line| line.2).sum();
        let records = link.connections();
        // A connection over which the client has heard nothing brought no document.
        prop_assert_eq!(records.len(), usize::from(lines.iter().any(|line| line.1 == SERVER)));
        for (_, record) in records {
            prop_assert_eq!(record.bytes, of_server);
        }
    }
}
