//! Tests of the simulated world against values calculated by hand: arrival times of documents, the events of applications and their order,
//! the end of connections, and the accounting of all packets.

use catnip_base::{Rate, Span, Time};
use catnip_net::{NodeId, Topology, WireSpec};
use catnip_sim::app::{AnyApp, AppEvent, Application, Server, ServerConfig};
use catnip_sim::record::{ConnectionRecord, DatagramStep};
use catnip_sim::{CLIENT, ConnectionSpec, Event, FlowId, Host, Message, SERVER, Sim, TcpId, Watch};
use catnip_tcp::{RtoConfig, TcpConfig, profile};
use std::sync::{Arc, Mutex};

/// Parses a configuration in the notation of scenarios.
fn read<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// Propagation delay of every link, microseconds. The transmission of a byte takes one microsecond.
const DELAY_US: u64 = 10_000;
/// Delay of a packet without data, microseconds.
const ACK_US: u64 = 40 + DELAY_US;
/// Delay of a full segment, microseconds.
const SEGMENT_US: u64 = 1000 + DELAY_US;

/// Returns a configuration without handshake and FIN: segments of 1000 bytes without headers, an ACK for each segment, an initial window of
/// two segments.
fn tcp() -> TcpConfig {
    TcpConfig {
        segment_bytes: 1000,
        header_bytes: 0,
        ack_bytes: 40,
        initial_window: 2,
        receive_window: 100_000,
        handshake: false,
        fin: false,
        delayed_ack: None,
        ..profile::rfc()
    }
}

fn wire() -> WireSpec {
    let rate = Rate::from_bits_per_second(8_000_000).unwrap();
    WireSpec::new(rate, Span::from_micros(DELAY_US), read("drop-tail:100"))
}

/// Recorded events of a run: (microseconds, event).
#[derive(Debug, Default)]
struct Record(Vec<(u64, Event)>);

impl Watch for Record {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        self.0.push((micros(now), *event));
    }
}

/// Returns the number of data segments that servers have sent, and the number of these that were dropped.
fn data_segments(sim: &Sim<Record>) -> (u64, u64) {
    let tally = sim.tally();
    (tally.data_sent, tally.data_dropped)
}

/// Events of an application: (microseconds, event).
type NoteLog = Arc<Mutex<Vec<(u64, Notified)>>>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Notified {
    /// Start, or expiry of the timer.
    Timing,
    /// Arrival of the requested number of bytes of the message with this tag.
    Reached(u64),
    /// Arrival of the complete message with this tag.
    Complete(u64),
}

/// Document, and its transfer to the client.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    spec: ConnectionSpec,
    /// Size of the request, bytes, used if the client opens the connection.
    request_bytes: u64,
    bytes: u64,
    notify_at: Option<u64>,
    tag: u64,
}

/// Action of a script.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open(Transfer),
    Send { flow: FlowId, bytes: u32 },
}

/// Application that performs actions at their times, one after the other, and records its events. The receiver of a document closes the
/// connection.
#[derive(Debug)]
struct Script {
    steps: Vec<(u64, Step)>,
    notifications: NoteLog,
    /// Number of bytes after which the application requests a notification on accepted connections.
    notify_at: Option<u64>,
}

impl Script {
    fn act(step: Step, host: &mut Host<'_>) {
        match step {
            Step::Send { flow, bytes } => host.datagram(flow, bytes),
            Step::Open(Transfer { spec, bytes, tag, .. }) if spec.opener == SERVER => {
                let conn = host.open(spec);
                host.send(conn, Message { bytes, tag, ..Message::default() });
                host.close(conn);
            }
            Step::Open(Transfer { spec, request_bytes, bytes: response_bytes, notify_at, tag }) => {
                let conn = host.open(spec);
                notify_at.into_iter().for_each(|at| host.notify(conn, at));
                host.send(conn, Message { bytes: request_bytes, tag, response_bytes, context: None });
            }
        }
    }

    fn wait(&self, host: &mut Host<'_>) {
        if let Some((at, _)) = self.steps.first() {
            host.timer(us(*at), 0);
        }
    }
}

impl Application for Script {
    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        let note = |notified| self.notifications.lock().unwrap().push((micros(host.now()), notified));
        match event {
            AppEvent::Start => {
                note(Notified::Timing);
                self.wait(host);
            }
            AppEvent::Timer(_) => {
                note(Notified::Timing);
                Self::act(self.steps.remove(0).1, host);
                self.wait(host);
            }
            AppEvent::Accepted(conn) => {
                self.notify_at.into_iter().for_each(|at| host.notify(conn, at));
            }
            AppEvent::Progress { tag, .. } => note(Notified::Reached(tag)),
            AppEvent::Message { conn, message, .. } => {
                note(Notified::Complete(message.tag));
                host.close(conn);
            }
            AppEvent::Opened(_)
            | AppEvent::Datagram(_)
            | AppEvent::Drained(_)
            | AppEvent::PeerClosed(_)
            | AppEvent::Closed(_) => {}
        }
    }
}

/// Returns a server that sends the requested response and closes.
fn server(number: u32) -> AnyApp {
    let config = ServerConfig { delay_s: None, tells_size: false, closes: true };
    AnyApp::Server(Box::new(Server::new(Arc::new(config), 1, number)))
}

/// Client and server with one link between them, and the events of an application at the client.
struct World {
    sim: Sim<Record>,
    notifications: NoteLog,
    client: NodeId,
    server: NodeId,
}

impl World {
    /// Creates a world where `forward` leads from the server to the client and the reverse direction loses no packets.
    fn new(forward: WireSpec, config: TcpConfig) -> Self {
        let back = WireSpec { before: Vec::new(), ..forward.clone() };
        Self::between(forward, back, config)
    }

    fn between(forward: WireSpec, back: WireSpec, config: TcpConfig) -> Self {
        let mut topology = Topology::default();
        let (client, server) = (topology.host("client"), topology.host("server"));
        topology.link(server, client, forward, back);
        let mut sim = Sim::new(&topology, 1, Record::default());
        assert_eq!(sim.add_tcp(config.into()), TcpId(0));
        sim.add_server(server, TcpId(0), self::server(0));
        Self { sim, notifications: NoteLog::default(), client, server }
    }

    /// Returns the transfer of a document of `bytes` bytes that the server pushes.
    fn document(&self, bytes: u64) -> Transfer {
        let spec = ConnectionSpec { client: self.client, server: self.server, opener: SERVER, tcp: TcpId(0) };
        Transfer { spec, request_bytes: 0, bytes, notify_at: None, tag: 7 }
    }

    /// Returns the transfer of a document that the client requests with `request_bytes` bytes.
    fn requested(&self, request_bytes: u64, bytes: u64) -> Transfer {
        let document = self.document(bytes);
        Transfer { request_bytes, spec: ConnectionSpec { opener: CLIENT, ..document.spec }, ..document }
    }

    fn plays(&mut self, steps: &[(u64, Step)]) -> u32 {
        let opens = |step: &Step| if let Step::Open(transfer) = step { Some(*transfer) } else { None };
        let notify_at = steps.iter().find_map(|(_, step)| opens(step)).and_then(|it| it.notify_at);
        let script = |steps| Script { steps, notifications: self.notifications.clone(), notify_at };
        // The listener at the client receives pushed documents.
        let listener = AnyApp::Custom(Box::new(script(Vec::new())));
        let player = AnyApp::Custom(Box::new(script(steps.to_vec())));
        self.sim.add_server(self.client, TcpId(0), listener);
        self.sim.add_app(player)
    }

    /// Opens a connection at time zero and runs until the transfer is complete.
    fn fetches(&mut self, transfer: Transfer) {
        self.plays(&[(0, Step::Open(transfer))]);
        self.sim.run(us(60_000_000));
    }

    /// Returns the events of the applications except starts and timers.
    fn notifications(&self) -> Vec<(u64, Notified)> {
        let notifications = self.notifications.lock().unwrap();
        notifications.iter().filter(|(_, notified)| *notified != Notified::Timing).copied().collect()
    }

    /// Returns the time of each data segment sent: (microseconds, first byte).
    fn sent(&self) -> Vec<(u64, u64)> {
        self.events(|event| if let Event::Sent(view) = event { Some(view.seq) } else { None })
    }

    fn timeouts(&self) -> Vec<(u64, ())> {
        self.events(|event| matches!(event, Event::Timeout(_)).then_some(()))
    }

    fn connections(&self) -> Vec<(u64, ConnectionRecord)> {
        self.events(|event| if let Event::Connection(record) = event { Some(*record) } else { None })
    }

    fn events<T>(&self, pick: impl Fn(&Event) -> Option<T>) -> Vec<(u64, T)> {
        self.sim.watch().0.iter().filter_map(|(at, event)| Some((*at, pick(event)?))).collect()
    }
}

fn us(n: u64) -> Time {
    Time::from_nanos(n * 1000)
}

fn micros(at: Time) -> u64 {
    assert_eq!(at.as_nanos() % 1000, 0, "{at} is no whole microsecond");
    at.as_nanos() / 1000
}

const COMPLETE: Notified = Notified::Complete(7);
const REACHED: Notified = Notified::Reached(7);

#[test]
fn a_document_arrives_after_its_rounds_of_slow_start() {
    let mut world = World::new(wire(), tcp());
    world.fetches(world.document(4000));
    // Two segments leave at once. The ACK of the first segment permits two more.
    let second_round = SEGMENT_US + ACK_US;
    assert_eq!(world.sent(), [(0, 0), (0, 1000), (second_round, 2000), (second_round, 3000)]);
    // The last segment waits for the transmission of the previous segment.
    assert_eq!(world.notifications(), [(second_round + 1000 + SEGMENT_US, COMPLETE)]);
}

#[test]
fn a_short_document_takes_the_time_of_its_bytes() {
    let mut world = World::new(wire(), tcp());
    world.fetches(world.document(300));
    assert_eq!(world.notifications(), [(300 + DELAY_US, COMPLETE)]);
}

#[test]
fn documents_share_the_wire_in_the_order_in_which_they_were_asked_for() {
    let mut world = World::new(wire(), tcp());
    let document = |tag| Transfer { tag, ..world.document(1000) };
    let open = |tag| (5000, Step::Open(document(tag)));
    world.plays(&[open(1), open(2), open(3)]);
    world.sim.run(us(1_000_000));
    let first = 5000 + SEGMENT_US;
    let complete = |n: u64| (first + 1000 * n, Notified::Complete(n + 1));
    assert_eq!(world.notifications(), [complete(0), complete(1), complete(2)]);
}

#[test]
fn the_server_answers_when_the_whole_request_has_arrived() {
    let mut world = World::new(wire(), tcp());
    world.fetches(world.requested(1500, 1000));
    // The request consists of segments of 1000 and 500 bytes. The document carries the ACK of the second segment.
    let requested = 1500 + DELAY_US;
    assert_eq!(world.sent(), [(0, 0), (0, 1000), (requested, 0)]);
    // The ACK of the first segment left at 11 ms and does not delay the document.
    assert_eq!(world.notifications(), [(requested + SEGMENT_US, COMPLETE)]);
}

#[test]
fn a_handshake_by_the_client_carries_its_request_and_one_by_the_server_its_document() {
    let config = TcpConfig { handshake: true, ..tcp() };
    let mut world = World::new(wire(), config.clone());
    world.fetches(world.requested(200, 1000));
    // SYN, SYN-ACK, request, document.
    assert_eq!(world.notifications(), [(2 * ACK_US + 200 + DELAY_US + SEGMENT_US, COMPLETE)]);
    let mut world = World::new(wire(), config);
    world.fetches(world.document(1000));
    assert_eq!(world.notifications(), [(2 * ACK_US + SEGMENT_US, COMPLETE)]);
}

#[test]
fn an_application_hears_once_that_so_much_has_arrived() {
    for (notify_at, segments) in [(1, 1), (1000, 1), (1001, 2), (2000, 2)] {
        let mut world = World::new(wire(), TcpConfig { initial_window: 4, ..tcp() });
        world.fetches(Transfer { notify_at: Some(notify_at), ..world.document(4000) });
        let at = |segments: u64| DELAY_US + 1000 * segments;
        assert_eq!(world.notifications(), [(at(segments), REACHED), (at(4), COMPLETE)], "{notify_at} bytes");
    }
    // The end of the message is not reported as progress, too.
    let mut world = World::new(wire(), tcp());
    world.fetches(Transfer { notify_at: Some(1500), ..world.document(2000) });
    assert_eq!(world.notifications(), [(SEGMENT_US + 1000, COMPLETE)]);
}

#[test]
fn what_arrives_out_of_order_counts_when_the_gap_is_filled() {
    let lossy = WireSpec { before: vec![read("packets:1")], ..wire() };
    let mut world = World::new(lossy, TcpConfig { initial_window: 4, limited_transmit: false, ..tcp() });
    world.fetches(Transfer { notify_at: Some(1000), ..world.document(5000) });
    // Segments 2 to 4 arrive. After three duplicate ACKs the first segment is retransmitted and fills the gap: 4000 bytes at once. The
    // first transmission took no time, since it was lost before the wire. Each ACK carries one SACK block of 8 bytes.
    let resent = 3 * 1000 + DELAY_US + ACK_US + 8;
    assert_eq!(world.sent()[4], (resent, 0));
    assert_eq!(world.notifications()[0], (resent + SEGMENT_US, REACHED));
    assert_eq!(world.notifications().len(), 2);
}

#[test]
fn a_connection_is_over_when_the_server_has_heard_that_all_has_arrived() {
    let mut world = World::new(wire(), tcp());
    world.plays(&[(500, Step::Open(world.document(2000)))]);
    world.sim.run(us(1_000_000));
    let received = 500 + 1000 + SEGMENT_US;
    let acked = received + ACK_US;
    let record = ConnectionRecord {
        connection: 0,
        app: 0,
        bytes: 2000,
        opened: us(500),
        received: us(received),
        acked: us(acked),
        sent: 2,
        sent_high: 0,
        retransmitted: 0,
        timeouts: 0,
        fast_retransmits: 0,
        probes: 0,
        dropped: 0,
        syn_timeouts: 0,
        rtt_samples: 1,
        rtt_sum: us(SEGMENT_US + ACK_US) - us(0),
    };
    assert_eq!(world.connections(), [(acked, record)]);
    assert_eq!((world.sim.now(), world.sim.packets_out()), (us(acked), 0));
    assert_eq!((world.sim.tally().opened, world.sim.tally().completed), (1, 1));
    assert_eq!(data_segments(&world.sim), (2, 0));
}

#[test]
fn of_a_connection_that_is_not_over_what_has_arrived_is_told() {
    let mut world = World::new(wire(), tcp());
    world.plays(&[(500, Step::Open(world.document(2000)))]);
    let first = 500 + SEGMENT_US;
    for (until, delivered) in [(first - 1, 0), (first, 1000), (first + 1000, 2000)] {
        world.sim.advance(us(until));
        let mut notified = Vec::new();
        world.sim.unfinished_connections(&mut |event, delivered| notified.push((event, delivered)));
        let [(Event::Connection(record), arrived)] = notified[..] else { panic!("{notified:?}") };
        assert_eq!((record.bytes, arrived), (2000, delivered));
        let received = if delivered == 2000 { us(first + 1000) } else { Time::NEVER };
        assert_eq!((record.received, record.acked), (received, Time::NEVER));
    }
    world.sim.advance(us(first + 1000 + ACK_US));
    world.sim.unfinished_connections(&mut |event, _| panic!("{event:?} is over"));
}

#[test]
fn a_record_waits_for_the_last_packet_of_its_connection() {
    // The timer expires before the ACK arrives, so that the segment is sent twice. The first ACK closes the connection while the second
    // copy is still on its way to the client.
    let early = RtoConfig { first: Span::from_micros(15_000), min: Span::ZERO, ..tcp().rto };
    let mut world = World::new(wire(), TcpConfig { rto: early, ..tcp() });
    world.fetches(world.document(1000));
    let [(at, record)] = world.connections()[..] else { panic!("one connection") };
    assert_eq!((record.sent, record.retransmitted, record.timeouts), (2, 1, 1));
    assert_eq!((record.received, record.acked), (us(SEGMENT_US), us(SEGMENT_US + ACK_US)));
    // The second copy arrives at a closed connection and is not acknowledged.
    assert_eq!(at, 15_000 + SEGMENT_US);
    assert_eq!((world.sim.packets_out(), world.notifications().len()), (0, 1));
}

#[test]
fn an_ack_that_arrives_as_its_timer_expires_stops_it() {
    let rtt = SEGMENT_US + ACK_US;
    for (first, timeouts) in [(rtt, 0), (rtt - 1, 1)] {
        let rto = RtoConfig { first: Span::from_micros(first), min: Span::ZERO, ..tcp().rto };
        let mut world = World::new(wire(), TcpConfig { rto, ..tcp() });
        world.fetches(world.document(1000));
        assert_eq!(world.timeouts().len(), timeouts, "a timeout of {first} microseconds");
    }
}

#[test]
fn a_lost_segment_goes_out_again_when_its_timer_expires() {
    let lossy = WireSpec { before: vec![read("packets:1,2")], ..wire() };
    let mut world = World::new(lossy, tcp());
    world.fetches(world.document(1000));
    // RFC 6298: 1 s, then 2 s.
    assert_eq!(world.sent(), [(0, 0), (1_000_000, 0), (3_000_000, 0)]);
    assert_eq!(world.timeouts().iter().map(|t| t.0).collect::<Vec<_>>(), [1_000_000, 3_000_000]);
    assert_eq!(world.notifications(), [(3_000_000 + SEGMENT_US, COMPLETE)]);
    let (_, record) = world.connections()[0];
    assert_eq!((record.dropped, record.sent, record.timeouts), (2, 3, 2));
    assert_eq!(data_segments(&world.sim), (3, 2));
}

#[test]
fn a_lost_ack_is_repaired_by_the_next_one() {
    let lossy = WireSpec { before: vec![read("packets:1")], ..wire() };
    let mut world = World::between(wire(), lossy, tcp());
    world.fetches(world.document(2000));
    let (at, record) = world.connections()[0];
    assert_eq!((at, record.sent), (SEGMENT_US + 1000 + ACK_US, 2));
    assert_eq!((record.dropped, data_segments(&world.sim)), (0, (2, 0)), "an ACK is no data segment");
}

#[test]
fn the_phase_of_a_clock_decides_how_many_ticks_a_round_trip_takes() {
    // A round trip of 150 ms covers one or two ticks of 100 ms, and the RTO is three times the measured round-trip time (RFC 6298, section
    // 2.2). The second segment is lost.
    let slow =
        WireSpec { delay: Span::from_micros(74_480).into(), before: vec![read("packets:2")], ..wire() };
    let rto = RtoConfig { tick: Span::from_millis(100), min: Span::ZERO, ..tcp().rto };
    for (phase_ms, timeout) in [(0, 300_000), (49, 300_000), (50, 600_000), (99, 600_000)] {
        let mut world = World::new(slow.clone(), TcpConfig { rto, initial_window: 1, ..tcp() });
        world.sim.set_tick_phase(Some(Span::from_millis(phase_ms)));
        world.fetches(world.document(2000));
        assert_eq!(world.sent()[1], (150_000, 1000));
        assert_eq!(world.timeouts(), [(150_000 + timeout, ())], "phase {phase_ms} ms");
    }
}

#[test]
fn an_ack_timer_beats_in_the_phase_of_its_host() {
    let beats = profile::bsd_reno().delayed_ack.unwrap();
    let mut world = World::new(wire(), TcpConfig { delayed_ack: Some(beats), ..tcp() });
    world.sim.set_tick_phase(Some(Span::from_millis(50)));
    world.fetches(world.document(1000));
    // The last tick of the ACK timer was 50 ms before the start of the run, so the next one is at 150 ms.
    assert_eq!(world.connections()[0].0, 150_000 + ACK_US);
}

#[test]
fn datagrams_take_their_time_and_are_counted() {
    let lossy = WireSpec { before: vec![read("packets:2")], ..wire() };
    let mut world = World::new(lossy, tcp());
    let flow = world.sim.add_flow(world.server, world.client);
    let back = world.sim.add_flow(world.client, world.server);
    let send = |at, bytes| (at, Step::Send { flow, bytes });
    world.plays(&[send(0, 500), send(100, 500), send(200, 700)]);
    world.sim.run(us(600));
    assert_eq!((world.sim.packets_out(), world.sim.fabric().packets_inside()), (2, 2));
    world.sim.run(us(1_000_000));
    let counters = world.sim.datagrams(flow);
    assert_eq!((counters.sent, counters.sent_bytes, counters.received, counters.dropped), (3, 1700, 2, 1));
    // The third datagram waits for 300 us, until the transmission of the first one ends.
    let delays = [500 + DELAY_US, 300 + 700 + DELAY_US];
    assert!((counters.delay_s.mean() - (delays[0] + delays[1]) as f64 / 2e6).abs() < 1e-12);
    assert_eq!(world.sim.datagrams(back), Default::default());
    let steps =
        world.events(|event| if let Event::Datagram { step, .. } = event { Some(*step) } else { None });
    let times: Vec<u64> = steps.iter().map(|step| step.0).collect();
    assert_eq!(times, [0, 100, 100, 200, delays[0], 200 + delays[1]]);
    assert_eq!(steps[4].1, DatagramStep::Received(Span::from_micros(delays[0])));
    assert!(matches!(steps[2].1, DatagramStep::Dropped(..)));
    assert!(world.notifications().is_empty() && world.sent().is_empty());
}

#[test]
fn a_timer_in_the_past_comes_at_once_and_an_event_of_now_in_its_order() {
    let mut world = World::new(wire(), tcp());
    let open = |tag| Step::Open(Transfer { tag, ..world.document(1000) });
    // The time of the second action is before the time of the first action.
    world.plays(&[(3000, open(1)), (1000, open(2))]);
    world.sim.run(us(1_000_000));
    let times: Vec<u64> =
        world.notifications.lock().unwrap().iter().map(|notifications| notifications.0).collect();
    // The listener and the player start at 0.
    assert_eq!(times, [0, 0, 3000, 3000, 3000 + SEGMENT_US, 3000 + SEGMENT_US + 1000]);
}

/// Returns three clients and three servers around a short, lossy queue, with documents, requests and datagrams.
fn busy() -> Sim<Record> {
    let mut topology = Topology::default();
    let clients = [0, 1, 2].map(|n| topology.host(format!("client {n}")));
    let servers = [0, 1, 2].map(|n| topology.host(format!("server {n}")));
    let (left, right) = (topology.router("left"), topology.router("right"));
    let loss = vec![read("bernoulli:0.05")];
    let back = WireSpec { queue: read("drop-tail:8"), before: loss.clone(), ..wire() };
    let forward = WireSpec { after: loss, ..back.clone() };
    topology.link(left, right, forward, back);
    topology.links(servers.map(|server| (server, left)), wire(), wire());
    topology.links(clients.map(|client| (client, right)), wire(), wire());
    let mut sim = Sim::new(&topology, 5, Record::default());
    let config = TcpConfig { handshake: true, fin: true, ..tcp() };
    let tcp = sim.add_tcp(config.into());
    (0..).zip(servers).for_each(|(n, node)| {
        sim.add_server(node, tcp, server(n));
    });
    let flow = sim.add_flow(servers[0], clients[2]);
    for n in 0..12u64 {
        let (server, client) = (servers[n as usize % 3], clients[n as usize / 4]);
        let opener = if n % 2 == 1 { CLIENT } else { SERVER };
        let spec = ConnectionSpec { client, server, opener, tcp };
        let (request_bytes, bytes) = (300 * (n % 2), 3000 * (n + 1));
        let transfer = Transfer { spec, request_bytes, bytes, notify_at: Some(2000), tag: n };
        let steps = vec![
            (n * 7000, Step::Open(transfer)),
            (n * 7000, Step::Send { flow, bytes: 700 }),
            (n * 7000 + 300_000, Step::Open(transfer)),
        ];
        sim.add_app(AnyApp::Custom(Box::new(Script {
            steps,
            notifications: NoteLog::default(),
            notify_at: None,
        })));
    }
    sim
}

#[test]
fn at_every_moment_the_packets_that_hosts_wait_for_are_inside_the_network() {
    let mut sim = busy();
    let mut steps = 0;
    while sim.tally().completed < 24 || sim.packets_out() > 0 {
        steps += 1;
        assert!(steps < 1_000_000, "the transfers end");
        sim.run(us(steps * 100));
        assert_eq!(sim.packets_out() as u64, sim.fabric().packets_inside(), "after {} us", steps * 100);
    }
    let (sent, dropped) = data_segments(&sim);
    assert!(dropped > 0 && sent > dropped);
    assert_eq!(sim.tally().opened, 24);
}

#[test]
fn a_run_in_steps_is_the_run_in_one_go() {
    let (mut once, mut steps) = (busy(), busy());
    once.run(us(100_000_000));
    // The length of a step is unrelated to the times in the run.
    (1..10_000).for_each(|n| steps.run(Time::from_nanos(n * 7_777_777)));
    steps.run(us(100_000_000));
    assert!(once.watch().0.len() > 1000);
    assert_eq!(once.watch().0, steps.watch().0);
    assert_eq!(once.now(), steps.now());
}

#[test]
fn a_run_in_the_memory_of_another_one_is_the_same_run() {
    let mut world = World::new(wire(), tcp());
    world.fetches(world.document(30_000));
    let expected = world.notifications();
    let mut used = busy();
    used.run(us(150_000));
    assert!(used.packets_out() > 0, "it ends in the middle");
    let mut topology = Topology::default();
    let (client, server) = (topology.host("client"), topology.host("server"));
    topology.link(server, client, wire(), wire());
    let mut reused = World::new(wire(), tcp());
    reused.sim = Sim::with_memory(&topology, 1, Record::default(), used.into_memory());
    reused.sim.add_tcp(tcp().into());
    reused.sim.add_server(server, TcpId(0), self::server(0));
    reused.fetches(reused.document(30_000));
    assert_eq!(reused.notifications(), expected);
    assert_eq!(reused.sim.watch().0, world.sim.watch().0);
}

#[test]
fn a_run_ends_with_its_time_and_goes_on_from_there() {
    let mut world = World::new(wire(), tcp());
    world.plays(&[(0, Step::Open(world.document(1000)))]);
    world.sim.run(us(SEGMENT_US - 1));
    assert_eq!((world.notifications().len(), world.sim.tally().completed), (0, 0));
    world.sim.run(us(SEGMENT_US));
    assert_eq!(
        (world.notifications().len(), world.sim.tally().completed),
        (1, 1),
        "what is due at the end happens"
    );
    assert!(world.connections().is_empty());
    world.sim.run(us(1_000_000));
    assert_eq!(world.connections().len(), 1);
}
