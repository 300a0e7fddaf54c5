//! Tests of the marks in simulated transfers, observed as packets enter and leave links.

use super::drive::*;
use crate::kept::Check;
use catnip_base::{Distribution, Rate, Rng, Span, Time};
use catnip_net::mark::{ApplicationSpec, MarkerSpec, Service, TcpStateSpec, Threshold};
use catnip_net::{DropReason, Dscp, NodeId, Packet, PortId, Priority, Topology, WireSpec};
use catnip_sim::app::{
    AnyApp, AppEvent, Application, Files, FilesConfig, Http, Page, PageSource, Server, ServerConfig, Telnet,
    TelnetConfig, WebClient, WebConfig,
};
use catnip_sim::record::SenderView;
use catnip_sim::watch::{Origin, Step};
use catnip_sim::{
    CLIENT, Conn, ConnectionSpec, Event, Host, Message, SERVER, ServiceOptions, Sim, TcpId, TcpOptions, Watch,
};
use catnip_tcp::{TcpConfig, profile};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

pub(crate) fn checks(seed: u64) -> Vec<Check> {
    let shaped = ["110kbit", "250kbit"].map(|med| by_application(seed, med));
    let chosen = chosen(seed);
    let answered = answered(seed);
    let row = |id, claim, value: u32| Check { id, claim, value: value.into(), limit: 0.0 };
    vec![
        row(
            "IDS-S14",
            "marking by application: packets of Telnet, Web and FTP that are not HIGH, MED and LOW",
            shaped.iter().map(|shaped| shaped.otherwise).sum(),
        ),
        row(
            "IDS-S14",
            "marking by application: packets that the edge remarks or drops behind the shaper of their source",
            shaped.iter().map(|shaped| shaped.policed).sum(),
        ),
        row(
            "IDS-S16",
            "marking by TCP's state, simulated transfers with losses: fast retransmits and retransmissions in recovery that are not HIGH",
            answered.low_repairs,
        ),
        row(
            "IDS-S18",
            "connections with the defaults of their type of application: packets marked otherwise",
            chosen.by_default,
        ),
        row(
            "IDS-S18",
            "connections with thresholds, priorities and classes set by their application, again and again: packets marked otherwise than set",
            chosen.by_choice,
        ),
        row(
            "IDS-S19",
            "simulated transfers both ways with mixed marks: ACKs whose priority is not that of the data packet that triggered them",
            answered.otherwise,
        ),
    ]
}

const SERVICES: [Service; 3] = [Service::Highly, Service::Interactive, Service::Other];

/// Returns a configuration with segments of 1000 bytes and headers of 40 bytes, including SACK blocks, and without FIN and handshake.
fn tcp() -> TcpConfig {
    TcpConfig {
        segment_bytes: 1000,
        header_bytes: 40,
        ack_bytes: ACK_BYTES,
        sack_block_bytes: 0,
        initial_window: 2,
        receive_window: 64_000,
        handshake: false,
        fin: false,
        ..profile::rfc()
    }
}

/// Size of an ACK, bytes. All data packets are larger.
const ACK_BYTES: u32 = 40;

fn link(kbit: u64, delay_ms: u64, queue: &str) -> WireSpec {
    let rate = Rate::from_bits_per_second(1000 * kbit).unwrap();
    WireSpec::new(rate, Span::from_millis(delay_ms), queue.parse().unwrap())
}

fn marked_by(text: &str, service: Service, config: TcpConfig) -> TcpOptions {
    TcpOptions { marker: Some(text.parse().unwrap()), service, ..config.into() }
}

fn server(closes: bool) -> AnyApp {
    let config = ServerConfig { delay_s: None, tells_size: false, closes };
    AnyApp::Server(Box::new(Server::new(Arc::new(config), 1, 0)))
}

/// Watch that checks the marks of packets by the application that has sent them.
#[derive(Debug, Default)]
struct Shaped {
    /// Number of packets with another mark than that of their application, which the destination identifies.
    otherwise: u32,
    policed: u32,
    /// Number of packets that have arrived from each application.
    seen: [u32; 3],
    /// Clients, with the priority of their application.
    clients: Vec<(NodeId, Priority)>,
    /// Mark of each packet in the network when it left its source, by [`Packet::body`].
    inside: BTreeMap<u32, Dscp>,
}

/// Port through which the source sends.
const SOURCE: PortId = PortId(0);

impl Watch for Shaped {
    const PACKETS: bool = true;
    fn record(&mut self, _now: Time, _event: &Event) {}
    fn packet(&mut self, _now: Time, packet: &Packet, _origin: Origin, step: Step<'_>) {
        match step {
            Step::Entered(SOURCE) => _ = self.inside.insert(packet.body, packet.dscp),
            Step::Dropped(SOURCE, why) => {
                self.inside.remove(&packet.body);
                self.policed += u32::from(why == DropReason::Policed);
            }
            Step::Delivered(node) => {
                let Some(place) = self.clients.iter().position(|(client, _)| *client == node) else { return };
                let marked = self.inside.remove(&packet.body).expect("it comes from the source");
                self.seen[place] += 1;
                self.otherwise += u32::from(marked.priority() != self.clients[place].1);
                self.policed += u32::from(marked != packet.dscp);
            }
            _ => {}
        }
    }
}

/// Runs a source with three applications, Telnet, Web and FTP, each with one client.
fn by_application(seed: u64, med: &str) -> Shaped {
    let mut topology = Topology::default();
    let (source, edge) = (topology.host("source"), topology.router("edge"));
    let contract = format!("high=250kbit/6000B,med={med}/6000B");
    let up = WireSpec {
        conditioner: vec![format!("policer:{contract}").parse().unwrap()],
        ..link(1500, 5, &format!("shaper:64,{contract}"))
    };
    topology.link(source, edge, up, link(1500, 5, "drop-tail:64"));
    let wire = || link(10_000, 10, "drop-tail:64");
    let nodes = ["telnet", "web", "ftp"].map(|name| topology.host(name));
    nodes.iter().for_each(|&node| _ = topology.link(edge, node, wire(), wire()));
    let clients = nodes.into_iter().zip([HIGH, MED, LOW]).collect();
    let mut sim = Sim::new(&topology, seed, Shaped { clients, ..Shaped::default() });
    let config = TcpConfig { handshake: true, fin: true, ..tcp() };
    for (number, (client, service)) in (0..).zip(nodes.into_iter().zip(SERVICES)) {
        let tcp = sim.add_tcp(marked_by("app", service, config.clone()));
        let spec = ConnectionSpec { client, server: source, opener: CLIENT, tcp };
        sim.add_server(source, tcp, server(service != Service::Highly));
        let several = if service == Service::Highly { 10 } else { 2 };
        for user in 0..several {
            let user = 10 * number + user;
            sim.add_app(program(service, spec, seed, user));
        }
    }
    sim.run(Time::ZERO + Span::from_secs(400));
    let found = sim.into_watch();
    assert!(found.seen.iter().all(|&seen| seen > 1000), "{:?}", found.seen);
    found
}

fn program(service: Service, spec: ConnectionSpec, seed: u64, user: u32) -> AnyApp {
    let pause = Distribution::Constant;
    match service {
        Service::Highly => {
            let config = TelnetConfig { bytes: 100, pause_s: pause(0.07) };
            AnyApp::Telnet(Box::new(Telnet::new(Arc::new(config), spec, seed, user)))
        }
        Service::Interactive => {
            let pages = PageSource::Known {
                pages: vec![Page { objects: vec![1000, 10_000, 30_000, 500, 8000] }],
                endless: true,
            };
            let config = WebConfig {
                pages,
                http: Http::V10 { max_connections: 4 },
                think_s: pause(1.0),
                images_after_bytes: u64::MAX,
                request_bytes: 200,
            };
            AnyApp::Web(Box::new(WebClient::new(Arc::new(config), spec, seed, user)))
        }
        Service::Other => {
            let config =
                FilesConfig { bytes: pause(200_000.0), gap_s: pause(0.5), request_bytes: 100, count: None };
            AnyApp::Files(Box::new(Files::new(Arc::new(config), spec, seed, user)))
        }
    }
}

/// Way in which the packets of a connection must be marked.
#[derive(Clone, Copy, Debug)]
struct Setting {
    class: u8,
    how: How,
    /// True if the application has set the marking, false for the default.
    chosen: bool,
}

#[derive(Clone, Copy, Debug)]
enum How {
    All(Priority),
    /// Greatest windows of the sender at which packets are HIGH and MED, segments.
    ByWindow(u32, u32),
}

impl Setting {
    fn mark(&self, window: u64) -> Dscp {
        let priority = match self.how {
            How::All(priority) => priority,
            How::ByWindow(high, _) if window <= u64::from(high) => HIGH,
            How::ByWindow(_, med) if window <= u64::from(med) => MED,
            How::ByWindow(..) => LOW,
        };
        Dscp::assured(self.class, priority)
    }
}

/// Marking of each connection, in order of opening.
type Settings = Arc<Mutex<Vec<Setting>>>;

/// Watch that counts the packets whose mark differs from the setting of their connection, which is the default setting or a setting chosen
/// by the application.
#[derive(Debug, Default)]
struct Chosen {
    by_default: u32,
    by_choice: u32,
    settings: Settings,
    /// State of the sender that has just sent a segment, until the segment enters a port.
    leaving: Option<SenderView>,
    /// Number of packets by expected mark: true for a setting chosen by the application, and the codepoint.
    seen: BTreeMap<(bool, u8), u32>,
}

impl Watch for Chosen {
    const PACKETS: bool = true;
    fn record(&mut self, _now: Time, event: &Event) {
        if let Event::Sent(view) = event {
            self.leaving = Some(*view);
        }
    }
    fn packet(&mut self, _now: Time, packet: &Packet, _origin: Origin, step: Step<'_>) {
        let Step::Entered(port) = step else { return };
        // Packets of the other end, which only closes and acknowledges, do not count.
        let Some(view) = self.leaving.take().filter(|_| port == SOURCE) else { return };
        let setting = self.settings.lock().unwrap()[view.connection as usize];
        let right = setting.mark(view.cwnd.min(tcp().receive_window) / 1000);
        let count = if setting.chosen { &mut self.by_choice } else { &mut self.by_default };
        *count += u32::from(right != packet.dscp);
        *self.seen.entry((setting.chosen, right.codepoint())).or_default() += 1;
    }
}

/// Source that opens connections, sends data over them and changes their marking.
#[derive(Debug)]
struct Fickle {
    spec: Vec<(ConnectionSpec, Setting)>,
    settings: Settings,
    rng: Rng,
    /// Open connections, with their numbers.
    open: Vec<(Conn, usize)>,
    steps: u32,
}

impl Fickle {
    fn choose(&mut self, conn: Conn, number: usize, host: &mut Host<'_>) {
        let class = 1 + self.rng.below(4) as u8;
        let (how, marker) = if self.rng.chance(0.3) {
            let priority = any_priority(&mut self.rng);
            let spec = ApplicationSpec { priority: Some(priority), class: Some(class) };
            (How::All(priority), MarkerSpec::Application(spec))
        } else {
            let high = self.rng.below(30);
            let med = high + self.rng.below(30);
            let (h, m) = (Some(Threshold(high)), Some(Threshold(med)));
            let spec = TcpStateSpec { high: h, med: m, class: Some(class), random: false };
            (How::ByWindow(high, med), MarkerSpec::TcpState(spec))
        };
        self.settings.lock().unwrap()[number] = Setting { class, how, chosen: true };
        host.set_service(conn, ServiceOptions { marker: Some(marker), weight: None });
    }

    fn step(&mut self, host: &mut Host<'_>) {
        if self.open.len() < 12 {
            let (spec, setting) = one_of(&self.spec, &mut self.rng);
            let mut settings = self.settings.lock().unwrap();
            self.open.push((host.open(spec), settings.len()));
            settings.push(setting);
        }
        let index = self.rng.below(self.open.len() as u32) as usize;
        let (conn, number) = self.open[index];
        // Half of the connections keep the defaults.
        if number.is_multiple_of(2) {
            self.choose(conn, number, host);
        }
        host.send(conn, Message { bytes: 500 * (1 + u64::from(self.rng.below(200))), ..Message::default() });
        if self.rng.chance(0.1) {
            host.close(conn);
            self.open.swap_remove(index);
        }
    }
}

impl Application for Fickle {
    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        if !matches!(event, AppEvent::Start | AppEvent::Timer(_)) {
            return;
        }
        self.steps += 1;
        if self.steps < 2000 {
            self.step(host);
            host.timer(host.now() + Span::from_micros(1 + u64::from(self.rng.below(20_000))), 0);
        } else {
            self.open.drain(..).for_each(|(conn, _)| host.close(conn));
        }
    }
}

fn chosen(seed: u64) -> Chosen {
    let mut topology = Topology::default();
    let (source, client) = (topology.host("source"), topology.host("client"));
    let wire = || link(1_000_000, 10, "drop-tail:100000");
    topology.link(source, client, wire(), wire());
    let settings = Settings::default();
    let watch = Chosen { settings: settings.clone(), ..Chosen::default() };
    let mut sim = Sim::new(&topology, seed, watch);
    let mut spec = Vec::new();
    for (service, class) in SERVICES.into_iter().zip(1..) {
        let priority = [HIGH, MED, LOW][usize::from(class) - 1];
        let (high, med) = if service == Service::Highly { (u32::MAX, u32::MAX) } else { (4, 8) };
        for (text, how) in [("app", How::All(priority)), ("tcp-state", How::ByWindow(high, med))] {
            let config = TcpConfig { fin: true, ..tcp() };
            let tcp = sim.add_tcp(marked_by(text, service, config));
            let setting = Setting { class, how, chosen: false };
            spec.push((ConnectionSpec { client, server: source, opener: SERVER, tcp }, setting));
        }
    }
    let rng = random(seed, 500);
    let program = Fickle { spec, settings, rng, open: Vec::new(), steps: 0 };
    sim.add_app(AnyApp::Custom(Box::new(program)));
    sim.run(Time::ZERO + Span::from_secs(600));
    assert_eq!((sim.tally().open, sim.tally().waiting, sim.tally().data_dropped), (0, 0, 0));
    let found = sim.into_watch();
    // With default settings there are seven marks: HIGH in the first class, and each of the three priorities in the other two classes. With
    // chosen settings there are all 12 marks.
    let kinds = [false, true].map(|chosen| found.seen.keys().filter(|(it, _)| *it == chosen).count());
    assert_eq!(kinds, [7, 12], "{:?}", found.seen);
    found
}

/// Watch that compares the priority of ACKs with the priority of the acknowledged data.
#[derive(Debug, Default)]
struct Answered {
    otherwise: u32,
    low_repairs: u32,
    /// Priority of the data that arrived last, by flow and by the port through which the receiving end sends.
    last: BTreeMap<(u16, u32), Priority>,
    nodes: Vec<NodeId>,
    /// Connections whose retransmission timer has expired.
    timed_out: BTreeSet<u64>,
    /// Number of ACKs of data of each priority.
    answers: [u32; Priority::COUNT],
    /// Number of retransmissions with a large congestion window.
    repairs: u32,
}

impl Watch for Answered {
    const PACKETS: bool = true;
    fn record(&mut self, _now: Time, event: &Event) {
        match event {
            Event::Timeout(view) => _ = self.timed_out.insert(view.connection),
            Event::Sent(view) if view.retransmission && !self.timed_out.contains(&view.connection) => {
                self.repairs += u32::from(view.cwnd > 8000);
                self.low_repairs += u32::from(view.priority != HIGH);
            }
            _ => {}
        }
    }
    fn packet(&mut self, _now: Time, packet: &Packet, _origin: Origin, step: Step<'_>) {
        let is_ack = packet.len == ACK_BYTES;
        match step {
            Step::Delivered(node) if !is_ack => {
                let end = self.nodes.iter().position(|other| *other == node).expect("there are two");
                self.last.insert((packet.flow, end as u32), packet.dscp.priority());
            }
            Step::Entered(PortId(end)) if is_ack => {
                let answers = self.last[&(packet.flow, end)];
                self.otherwise += u32::from(answers != packet.dscp.priority());
                self.answers[answers as usize] += 1;
            }
            _ => {}
        }
    }
}

/// Application that sends a request after each response, and opens another connection now and then.
#[derive(Debug)]
struct Talker {
    spec: ConnectionSpec,
    rng: Rng,
}

impl Talker {
    fn ask(&mut self, conn: Conn, host: &mut Host<'_>) {
        let mut bytes = || 500 * (1 + u64::from(self.rng.below(120)));
        let (bytes, response_bytes) = (bytes(), bytes());
        host.send(conn, Message { bytes, response_bytes, ..Message::default() });
    }
}

impl Application for Talker {
    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start | AppEvent::Closed(_) => {
                let conn = host.open(self.spec);
                self.ask(conn, host);
            }
            AppEvent::Message { conn, .. } if self.rng.chance(0.2) => host.close(conn),
            AppEvent::Message { conn, .. } => self.ask(conn, host),
            _ => {}
        }
    }
}

fn answered(seed: u64) -> Answered {
    let mut topology = Topology::default();
    let (source, client) = (topology.host("source"), topology.host("client"));
    // In one direction, the edge marks the packets again at the end of the link; an ACK must have the priority with which the data arrived.
    let edge = "tb-marker:high=1Mbit/6000B,med=1Mbit/6000B".parse().unwrap();
    let forward = WireSpec { conditioner: vec![edge], ..link(4000, 20, "drop-tail:40") };
    topology.link(source, client, forward, link(4000, 20, "drop-tail:40"));
    let watch = Answered { nodes: vec![source, client], ..Answered::default() };
    let mut sim = Sim::new(&topology, seed, watch);
    let kinds =
        SERVICES.into_iter().flat_map(|service| [("tcp-state", service), ("tcp-state-random", service)]);
    for (number, (text, service)) in (0..).zip(kinds) {
        let tcp: TcpId = sim.add_tcp(marked_by(text, service, tcp()));
        sim.add_server(source, tcp, server(false));
        let spec = ConnectionSpec { client, server: source, opener: CLIENT, tcp };
        let rng = random(seed, 510 + number);
        sim.add_app(AnyApp::Custom(Box::new(Talker { spec, rng })));
    }
    sim.run(Time::ZERO + Span::from_secs(300));
    let found = sim.into_watch();
    assert!(found.answers.iter().all(|&acks| acks > 1000) && found.repairs > 100, "{found:?}");
    found
}
