//! Tests of Telnet, Web and file transfers against values calculated by hand.

use super::link::{
    ACK_US, DELAY_US, Link, REQUEST_US, SEGMENT_US, closing_server, msg, polite, server, tcp, us,
};
use catnip_base::Distribution;
use catnip_sim::app::{
    AnyApp, AppEvent, EchoRecord, Files, FilesConfig, Http, Page, PageSource, Telnet, TelnetConfig,
    WebClient, WebConfig,
};
use catnip_sim::{CLIENT, Conn, ConnectionSpec};
use catnip_tcp::TcpConfig;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns a Telnet session with keystrokes of 100 bytes, `pause_ms` milliseconds apart unless the echo takes longer.
pub(crate) fn telnet(spec: ConnectionSpec, pause_ms: u64, number: u32) -> AnyApp {
    let pause_s = Distribution::Constant(pause_ms as f64 / 1000.0);
    AnyApp::Telnet(Box::new(Telnet::new(Arc::new(TelnetConfig { bytes: 100, pause_s }), spec, 1, number)))
}

#[test]
fn a_typist_waits_for_the_echo_and_for_the_next_thought() {
    let echo = 2 * (100 + DELAY_US);
    // The pause is longer than an echo in the first case, and shorter in the second. A pause also precedes the first keystroke. A keystroke
    // that follows an echo at once waits for the transmission of the ACK of that echo.
    for (pause, next) in [(50_000, 50_000), (5000, echo + 40)] {
        let mut link = Link::new(tcp());
        link.serve(server(None, 1));
        let typist = telnet(link.spec, pause / 1000, 0);
        link.sim.add_app(typist);
        link.sim.run(us(1_000_000));
        let echoes = link.sim.watch().echoes.clone();
        let arrived = echoes.len() as u64;
        assert!(echoes.len() as u64 >= (1_000_000 - pause - echo) / next);
        for ((at, record), number) in echoes.into_iter().zip(0..) {
            // The first keystroke does not wait for an ACK.
            let lateness = if next > pause && number > 0 { 40 } else { 0 };
            let typed = pause + number * next - lateness;
            assert_eq!(
                (at, record),
                (typed + echo + lateness, EchoRecord { app: 0, number, start: us(typed) })
            );
        }
        // At most one packet is outstanding, and one connection suffices.
        assert_eq!(link.sim.tally().opened, 1);
        let typed = link.packets(CLIENT).iter().filter(|packet| packet.1 == 100).count() as u64;
        assert!((0..=1).contains(&(typed - arrived)));
    }
}

#[test]
fn a_typist_goes_on_over_another_connection_when_the_server_hangs_up() {
    let mut link = Link::new(polite());
    let mut requests = 0;
    link.server_does(move |event, host| {
        // At every third keystroke the server closes the connection without an echo.
        if let AppEvent::Message { conn, message, .. } = event {
            requests += 1;
            if requests % 3 == 0 {
                host.close(conn)
            } else {
                host.send(conn, msg(message.tag, message.response_bytes))
            }
        }
    });
    let typist = telnet(link.spec, 100, 0);
    link.sim.add_app(typist);
    link.sim.run(us(1_000_000));
    // Keystrokes are sent at 100, 200, 300 ms and so on. Of the nine keystrokes before the end, three are lost with their connections.
    let segments: Vec<u64> = link.sim.watch().echoes.clone().iter().map(|(_, echo)| echo.number).collect();
    assert_eq!(segments, [0, 1, 3, 4, 6, 7]);
}

/// Returns a Web client that fetches these pages without think times.
pub(crate) fn web(spec: ConnectionSpec, http: Http, pages: &[&[u64]], number: u32) -> AnyApp {
    let pages = pages.iter().map(|objects| Page { objects: objects.to_vec() }).collect();
    let config = WebConfig {
        pages: PageSource::Known { pages, endless: false },
        http,
        think_s: Distribution::Constant(0.0),
        images_after_bytes: u64::MAX,
        request_bytes: 200,
    };
    AnyApp::Web(Box::new(WebClient::new(Arc::new(config), spec, 1, number)))
}

/// Returns the time and the number of connections for a page of an HTML and four images, each of one segment.
fn page_of_five(http: Http, server: AnyApp) -> (u64, u32) {
    let mut link = Link::new(TcpConfig { initial_window: 10, ..polite() });
    link.serve(server);
    let client = web(link.spec, http, &[&[1000; 5]], 0);
    link.sim.add_app(client);
    link.run();
    let [(at, page)] = link.sim.watch().pages[..] else { panic!("one page") };
    assert_eq!((page.bytes, page.start), (5000, us(0)));
    let objects = link.sim.watch().objects.iter();
    assert_eq!(objects.map(|(_, object)| object.object).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(link.connections().len(), page.connections as usize);
    (at, page.connections)
}

/// Time of the first object of a page, microseconds: SYN, SYN-ACK, request, response.
const HTML_US: u64 = 2 * ACK_US + REQUEST_US + SEGMENT_US;

#[test]
fn http_1_0_fetches_four_images_at_a_time_each_over_a_connection_of_its_own() {
    // The ACK of the HTML is transmitted first, then four SYNs, so the transmission of the first SYN ends 80 us after the connections were
    // opened. The first request follows its SYN-ACK. Each other request waits for the transmission of the previous request, since a request
    // takes longer than a SYN. The responses wait for each other, too.
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
    // The first image is requested over the connection of the HTML; three SYNs follow the 200 bytes of the request. The first SYN reaches
    // the server during the transmission of that image. The SYN-ACK therefore arrives 40 us after the image, while the client transmits the
    // ACK of the image. After three requests, the responses follow each other.
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
        let client = web(link.spec, http, &[&[1000; 4][..]; 3], 0);
        link.sim.add_app(client);
        link.run();
        let pages = link.sim.watch().pages.clone();
        assert_eq!(pages.iter().map(|(_, page)| page.connections).collect::<Vec<_>>(), opened);
        assert_eq!(link.sim.tally().opened, u64::from(opened.iter().sum::<u32>()));
    }
}

#[test]
fn what_a_server_does_not_answer_before_it_hangs_up_is_asked_for_again() {
    // The server sends three responses per connection, as with a limit on requests.
    for pipelining in [false, true] {
        let mut link = Link::new(polite());
        let mut answered: BTreeMap<Conn, u32> = BTreeMap::new();
        link.server_does(move |event, host| match event {
            AppEvent::Message { conn, message, .. } => {
                let count = answered.entry(conn).or_default();
                *count += 1;
                if *count <= 3 {
                    host.send(conn, msg(message.tag, message.response_bytes));
                }
                if *count == 3 {
                    host.close(conn);
                }
            }
            AppEvent::PeerClosed(conn) => host.close(conn),
            _ => {}
        });
        let http = Http::V11 { max_connections: 2, pipelining, keep_alive: true };
        let client = web(link.spec, http, &[&[1000; 11]], 0);
        link.sim.add_app(client);
        link.run();
        let mut objects: Vec<u32> = link.sim.watch().objects.iter().map(|(_, it)| it.object).collect();
        objects.sort_unstable();
        assert_eq!(objects, (0..11).collect::<Vec<_>>());
        let [(_, page)] = link.sim.watch().pages[..] else { panic!("one page") };
        assert!((4..=6).contains(&page.connections), "{page:?}, pipelining {pipelining}");
    }
}

#[test]
fn files_come_one_after_the_other_in_both_directions() {
    let mut link = Link::new(TcpConfig { initial_window: 2, ..polite() });
    let ConnectionSpec { client, server, .. } = link.spec;
    let back = link.sim.add_tcp(polite().into());
    link.serve(closing_server());
    link.sim.add_server(client, back, closing_server());
    let config = Arc::new(FilesConfig {
        bytes: Distribution::Constant(3000.0),
        gap_s: Distribution::Constant(0.1),
        request_bytes: 0,
        count: Some(2),
    });
    for (spec, user) in
        [(link.spec, 0), (ConnectionSpec { client: server, server: client, opener: CLIENT, tcp: back }, 1)]
    {
        link.sim.add_app(AnyApp::Files(Box::new(Files::new(config.clone(), spec, 1, user))));
    }
    link.run();
    // SYN, SYN-ACK, ACK, two segments, the ACK of the first segment, the third segment. The two directions do not delay each other, and the
    // request takes no time.
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
