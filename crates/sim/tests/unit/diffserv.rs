//! Marks of simulated connections, packet by packet, beside those that a model in Python reads from the words of the DiffServ paper
//! (`tests/diffserv_model.py`).
//!
//! Two hosts run Telnet, the Web and file transfers both ways over a link that loses packets. `diffserv-sent.csv` has what they send, and
//! `diffserv.csv` has the model's marks. Both are in the tests of `catnip-net`, whose markers and queues get the same packets. After a change
//! of the senders, `CATNIP_BLESS=1 cargo test -p catnip-sim --test unit diffserv` and `python tests/diffserv_model.py` write the files anew.

use catnip_base::{Distribution, Rate, Span, Time};
use catnip_net::mark::Service;
use catnip_net::{NodeId, Packet, Priority, Topology, WireSpec};
use catnip_sim::app::{
    AnyApp, Files, FilesConfig, Http, Page, PageSource, Server, ServerConfig, Telnet, TelnetConfig,
    WebClient, WebConfig,
};
use catnip_sim::watch::{Created, Origin, Step};
use catnip_sim::{CLIENT, ConnectionSpec, Event, SERVER, Sim, TcpOptions, Watch};
use catnip_tcp::{TcpConfig, profile};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

const SEED: u64 = 1;
const COLUMNS: &str = "ns,host,connection,end,service,kind,bytes,cwnd,rwnd,recovering,answers";
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../net/tests/unit/data");

/// Markers, and the places of their marks in the column `marks` of `diffserv.csv`.
const MARKERS: [(&str, usize); 3] = [("app", 0), ("tcp-state", 1), ("tcp-state-random", 2)];

/// Packet that a host has sent.
#[derive(Debug)]
struct Sent {
    at: Time,
    host: NodeId,
    connection: u64,
    end: usize,
    service: char,
    /// `S` for a SYN or SYN-ACK, `A` for a pure ACK, `D` for data or a FIN.
    kind: char,
    bytes: u32,
    /// Congestion window of a sender of data, bytes.
    cwnd: Option<u64>,
    /// Last receive window of the peer that has arrived, bytes.
    rwnd: Option<u32>,
    recovering: bool,
    /// Row of the last data that has arrived at this end.
    answers: Option<usize>,
    /// Receive window in the packet, bytes.
    window: u32,
    priority: Priority,
}

/// Watch that records the packets of two hosts.
#[derive(Debug, Default)]
struct Recorder {
    rows: Vec<Sent>,
    /// Rows of the packets in the network, by [`Packet::body`].
    inside: BTreeMap<u32, usize>,
    /// Last receive window of the peer, and row of the last data, that have arrived at an end of a connection.
    arrived: BTreeMap<(u64, usize), (u32, Option<usize>)>,
    services: Vec<char>,
}

impl Watch for Recorder {
    const PACKETS: bool = true;

    fn record(&mut self, _now: Time, event: &Event) {
        if let Event::Sent(view) = event {
            let row = self.rows.last_mut().expect("a packet is created before it is sent");
            (row.cwnd, row.recovering) = (Some(view.cwnd), view.in_recovery);
        }
    }

    fn created(&mut self, now: Time, packet: &Packet, contents: Created<'_>) {
        let Created::Segment { connection, end, spec, segment } = contents else { return };
        let arrived = self.arrived.get(&(connection, end));
        self.inside.insert(packet.body, self.rows.len());
        self.rows.push(Sent {
            at: now,
            host: spec.node(end),
            connection,
            end,
            service: self.services[spec.tcp.0 as usize],
            kind: match segment.flags.syn {
                true => 'S',
                false if segment.seq_len() > 0 => 'D',
                false => 'A',
            },
            bytes: packet.len,
            cwnd: None,
            rwnd: arrived.map(|(window, _)| *window),
            recovering: false,
            answers: arrived.and_then(|(_, row)| *row),
            window: segment.window,
            priority: packet.dscp.priority(),
        });
    }

    fn packet(&mut self, _now: Time, packet: &Packet, _origin: Origin, step: Step<'_>) {
        if !matches!(step, Step::Delivered(_) | Step::Dropped(..)) {
            return;
        }
        let number = self.inside.remove(&packet.body).expect("it was created");
        if matches!(step, Step::Delivered(_)) {
            let row = &self.rows[number];
            let (window, data) = self.arrived.entry((row.connection, 1 - row.end)).or_default();
            *window = row.window;
            if row.kind == 'D' {
                *data = Some(number);
            }
        }
    }
}

/// Runs the hosts with a marker, and returns what they send.
fn sent(marker: &str) -> Vec<Sent> {
    let mut topology = Topology::default();
    let (source, user) = (topology.host("source"), topology.host("user"));
    let wire = || WireSpec {
        before: vec!["bernoulli:1.5%".parse().unwrap()],
        ..WireSpec::new(
            "3Mbit".parse::<Rate>().unwrap(),
            Span::from_millis(20),
            "drop-tail:20".parse().unwrap(),
        )
    };
    topology.link(source, user, wire(), wire());
    let services = vec!['T', 'W', 'F', 'F'];
    let mut sim = Sim::new(&topology, SEED, Recorder { services, ..Recorder::default() });
    let (telnet, web, files) = (Service::Highly, Service::Interactive, Service::Other);
    // The small receive window of the last one limits what its senders may have in flight.
    for (number, (service, receive_window)) in
        (0..).zip([(telnet, 64_000), (web, 64_000), (files, 64_000), (files, 6_500)])
    {
        let config = TcpConfig {
            segment_bytes: 1000,
            header_bytes: 40,
            ack_bytes: 40,
            initial_window: 2,
            receive_window,
            handshake: true,
            fin: true,
            ..profile::rfc()
        };
        let tcp = sim.add_tcp(TcpOptions { marker: Some(marker.parse().unwrap()), service, ..config.into() });
        let (client, server) = if number == 3 { (source, user) } else { (user, source) };
        let spec = ConnectionSpec { client, server, opener: CLIENT, tcp };
        let config = ServerConfig { delay_s: None, tells_size: false, closes: service != telnet };
        sim.add_server(server, tcp, AnyApp::Server(Box::new(Server::new(Arc::new(config), SEED, number))));
        sim.add_app(program(service, spec, number));
    }
    sim.run(Time::ZERO + Span::from_secs(8));
    sim.into_watch().rows
}

fn program(service: Service, spec: ConnectionSpec, number: u32) -> AnyApp {
    let constant = Distribution::Constant;
    match service {
        Service::Highly => {
            let config = TelnetConfig { bytes: 60, pause_s: constant(0.1) };
            AnyApp::Telnet(Box::new(Telnet::new(Arc::new(config), spec, SEED, number)))
        }
        Service::Interactive => {
            let page = Page { objects: vec![1000, 10_000, 30_000, 500, 8000] };
            let config = WebConfig {
                pages: PageSource::Known { pages: vec![page], endless: true },
                http: Http::V10 { max_connections: 4 },
                think_s: constant(0.5),
                images_after_bytes: u64::MAX,
                request_bytes: 300,
            };
            AnyApp::Web(Box::new(WebClient::new(Arc::new(config), spec, SEED, number)))
        }
        Service::Other => {
            let bytes = constant(if number == 2 { 200_000.0 } else { 40_000.0 });
            let config = FilesConfig { bytes, gap_s: constant(0.2), request_bytes: 0, count: None };
            AnyApp::Files(Box::new(Files::new(Arc::new(config), spec, SEED, number)))
        }
    }
}

/// Returns the rows of `diffserv-sent.csv`.
fn written(rows: &[Sent]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for row in rows {
        let Sent { at, host, connection, end, service, kind, bytes, cwnd, rwnd, recovering, answers, .. } =
            row;
        let or_empty = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
        let (cwnd, rwnd) = (or_empty(*cwnd), or_empty(rwnd.map(u64::from)));
        let answers = or_empty(answers.map(|row| row as u64));
        let (ns, host, end) = (at.as_nanos(), host.0, if *end == SERVER { "server" } else { "client" });
        let recovering = u8::from(*recovering);
        writeln!(
            text,
            "{ns},{host},{connection},{end},{service},{kind},{bytes},{cwnd},{rwnd},{recovering},{answers}"
        )
        .unwrap();
    }
    text
}

#[test]
fn connections_are_marked_as_a_model_of_the_diffserv_paper_marks_what_they_send() {
    let file = Path::new(FOLDER).join("diffserv-sent.csv");
    if std::env::var_os("CATNIP_BLESS").is_some() {
        std::fs::write(&file, written(&sent("app"))).unwrap();
        return;
    }
    let recorded = std::fs::read_to_string(&file).unwrap();
    let model = std::fs::read_to_string(Path::new(FOLDER).join("diffserv.csv")).unwrap();
    for (marker, place) in MARKERS {
        let rows = sent(marker);
        assert!(written(&rows) == recorded, "{marker}: what hosts send is not what was recorded");
        for (number, (row, line)) in rows.iter().zip(model.lines().skip(1)).enumerate() {
            let name = match row.priority {
                Priority::High => 'H',
                Priority::Medium => 'M',
                Priority::Low => 'L',
            };
            let marks = line.split(',').next().unwrap();
            assert_eq!(Some(name), marks.chars().nth(place), "{marker}: packet {number}, {row:?}");
        }
    }
}
