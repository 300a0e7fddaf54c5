//! Tests of invariants of connections, with all applications at the same time and with random messages.

use super::link::{Link, Notes, Record, msg, polite, read, server, tcp, us, wire};
use super::programs::{telnet, web};
use catnip_base::{Distribution, Rate, Span, Time};
use catnip_net::{Topology, WireSpec};
use catnip_sim::app::{AnyApp, AppEvent, Background, BackgroundConfig, Bulk, Files, FilesConfig, Http};
use catnip_sim::{CLIENT, ConnectionSpec, Event, Host, SERVER, Sim, TcpId, TcpOptions};
use catnip_tcp::pacing::PacingKind;
use catnip_tcp::{TcpConfig, profile};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// Returns a simulation with all applications around a short, lossy queue.
fn busy() -> Sim<Record> {
    let mut topology = Topology::default();
    let clients = [0, 1, 2].map(|n| topology.host(format!("client {n}")));
    let servers = [0, 1, 2].map(|n| topology.host(format!("server {n}")));
    let (left, right) = (topology.router("left"), topology.router("right"));
    let loss = vec![read("bernoulli:0.03")];
    let back = WireSpec { queue: read("drop-tail:8"), before: loss.clone(), ..wire() };
    let forward = WireSpec { after: loss, ..back.clone() };
    topology.link(left, right, forward, back);
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
        let spec = |tcp: usize| ConnectionSpec { client, server, opener: CLIENT, tcp: tcps[tcp] };
        let page: &[u64] = &[3000, 500, 12_000, 100, 7000, 2500];
        let pages = [page; 6];
        let app = match n % 6 {
            0 => web(spec(0), Http::V10 { max_connections: 3 }, &pages, n),
            1 => web(spec(1), persistent(true), &pages, n),
            2 => web(spec(2), persistent(false), &pages, n),
            3 => telnet(spec(3), 20, n),
            4 => {
                let (bytes, gap_s) =
                    (Distribution::Constant(20_000.0), Distribution::Exponential { mean: 0.1 });
                let config = FilesConfig { bytes, gap_s, request_bytes: 50, count: Some(10) };
                AnyApp::Files(Box::new(Files::new(Arc::new(config), spec(4), 1, n)))
            }
            _ => {
                let opener = if n > 6 { CLIENT } else { SERVER };
                let spec = ConnectionSpec { opener, ..spec(5) };
                AnyApp::Bulk(Bulk::new(spec, msg(0, 30_000), us(7000 * u64::from(n))))
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
    // All applications except the two Telnet sessions and the source of background traffic have finished, and only the connections of the
    // sessions are open.
    assert_eq!((tally.open, tally.waiting <= 2), (2, true), "{tally:?}");
    let count = |is_counted: fn(&Event) -> bool| {
        sim.watch().events.iter().filter(|(_, event)| is_counted(event)).count()
    };
    assert_eq!(sim.watch().pages.len(), 6 * 6);
    assert_eq!(count(|event| matches!(event, Event::Connection(it) if it.bytes == 20_000)), 2 * 10);
    assert!(sim.watch().echoes.len() > 200);
}

#[test]
fn a_busy_run_in_steps_is_the_run_in_one_go() {
    let (mut once, mut steps) = (busy(), busy());
    once.run(us(BUSY_US));
    // The length of a step is unrelated to the times in the run.
    (1..7500).for_each(|n| steps.run(Time::from_nanos(n * 7_777_777)));
    steps.run(us(BUSY_US));
    assert!(once.watch().events.len() > 10_000);
    assert_eq!(once.watch().events, steps.watch().events);
    assert_eq!(once.watch().packets, steps.watch().packets);
    assert_eq!(once.watch().pages, steps.watch().pages);
    assert_eq!(once.watch().objects, steps.watch().objects);
    assert_eq!(once.watch().echoes, steps.watch().echoes);
    assert_eq!(once.tally(), steps.tally());
}

/// Message of an end: time in microseconds, end, bytes.
type Line = (u64, usize, u64);

/// Creates a link whose ends send their messages and then close.
fn exchange(lines: &[Line], tcp: TcpConfig, loss: f64, seed: u64) -> (Link, Arc<Mutex<Vec<Delivery>>>) {
    let lossy = || WireSpec { before: vec![read(&format!("bernoulli:{loss}"))], ..wire() };
    let mut topology = Topology::default();
    let (client, server) = (topology.host("client"), topology.host("server"));
    topology.link(server, client, lossy(), lossy());
    let mut sim = Sim::new(&topology, seed, Record::default());
    let tcp = sim.add_tcp(tcp.into());
    let mut link =
        Link { sim, notes: Notes::default(), spec: ConnectionSpec { client, server, opener: CLIENT, tcp } };
    let deliveries = Arc::new(Mutex::new(Vec::new()));
    let speaker = |end: usize| {
        let lines: Vec<(u64, u64, u64)> = (0..)
            .zip(lines)
            .filter(|(_, line)| line.1 == end)
            .map(|(tag, &(at, _, bytes))| (at, tag, bytes))
            .collect();
        let (spec, deliveries, mut conn, mut next) = (link.spec, deliveries.clone(), None, 0);
        move |event: AppEvent, host: &mut Host<'_>| {
            match event {
                AppEvent::Start if end == CLIENT => conn = Some(host.open(spec)),
                AppEvent::Accepted(it) => conn = Some(it),
                AppEvent::Message { message, complete, .. } => {
                    deliveries.lock().unwrap().push((end, message.tag, message.bytes, complete));
                }
                AppEvent::Timer(_) => {}
                _ => return,
            }
            let Some(conn) = conn else { return };
            while let Some(&(at, tag, bytes)) = lines.get(next) {
                if us(at) > host.now() {
                    return host.timer(us(at), 0);
                }
                host.send(conn, msg(tag, bytes));
                next += 1;
            }
            host.close(conn);
        }
    };
    let [of_client, of_server] = [speaker(CLIENT), speaker(SERVER)];
    link.server_does(of_server);
    link.client_does(of_client);
    (link, deliveries)
}

/// Received message: receiving end, tag, bytes, and true if the message is complete.
type Delivery = (usize, u64, u64, bool);

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
        let (mut link, deliveries) = exchange(&lines, config, loss, seed);
        link.sim.run(us(3_600_000_000));
        prop_assert_eq!(link.sim.packets_out(), 0);
        let tally = link.sim.tally();
        prop_assert_eq!((tally.open, tally.waiting), (0, 0));
        let deliveries = deliveries.lock().unwrap();
        for end in [CLIENT, SERVER] {
            let received: Vec<Delivery> = deliveries.iter().filter(|it| it.0 == end).copied().collect();
            let expected = (0..).zip(&lines).filter(|(_, line)| line.1 != end);
            let expected: Vec<Delivery> = expected.map(|(tag, line)| (end, tag, line.2, true)).collect();
            prop_assert_eq!(received, expected);
        }
        let of_server: u64 = lines.iter().filter(|line| line.1 == SERVER).map(|line| line.2).sum();
        let records = link.connections();
        // A connection over which the client has received no message has no record.
        prop_assert_eq!(records.len(), usize::from(lines.iter().any(|line| line.1 == SERVER)));
        for (_, record) in records {
            prop_assert_eq!(record.bytes, of_server);
        }
    }
}
