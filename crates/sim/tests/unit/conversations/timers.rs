//! Tests of timers of applications, timeouts of SYNs, and the Nagle algorithm (RFC 896).

use super::link::{
    ACK_US, DELAY_US, Link, Notified, REQUEST_US, SEGMENT_US, msg, polite, server, tcp, us, wire, without,
};
use catnip_base::Span;
use catnip_sim::app::AppEvent;
use catnip_sim::{CLIENT, SERVER};
use catnip_tcp::TcpConfig;

#[test]
fn timers_come_in_the_order_of_their_times_and_then_of_asking() {
    let mut link = Link::new(tcp());
    link.client_does(|event, host| match event {
        AppEvent::Start => {
            for (at, key) in [(300, 3), (100, 1), (200, 2), (200, 4), (500, 5), (400, 6), (900, 9)] {
                host.timer(us(at), key);
            }
            // One timer is moved to a later time, one to an earlier time, one to the time of other timers, and one is cancelled.
            host.timer(us(350), 1);
            host.timer(us(50), 5);
            host.timer(us(200), 6);
            host.cancel(9);
            host.cancel(77);
        }
        // A timer that was set last expires last.
        AppEvent::Timer(5) => host.timer(us(200), 7),
        // A timer set to a time in the past expires now.
        AppEvent::Timer(3) => host.timer(us(10), 8),
        // A timer set again to the same time moves behind the others.
        AppEvent::Timer(2) => host.timer(us(200), 4),
        _ => {}
    });
    link.run();
    let notes: Vec<(u64, Notified)> = link.notes.lock().unwrap().iter().map(|n| (n.0, n.2)).collect();
    let expected = [(50, 5), (200, 2), (200, 6), (200, 7), (200, 4), (300, 3), (300, 8), (350, 1)]
        .map(|(at, key)| (at, Notified::Timer(key)));
    assert_eq!(notes, expected);
    assert!(link.sim.is_idle());
}

#[test]
fn a_lost_syn_costs_its_timeout_and_is_counted() {
    // RFC 6298, section 2.1: the first RTO is 1 s. After this timeout, the window is one segment (RFC 6928, section 2).
    let mut link = Link::between(wire(), without("1"), polite());
    link.serve(server(None, 1));
    link.requests_in_turn(&[2000], Span::ZERO);
    link.run();
    let first = 1_000_000 + 2 * ACK_US + REQUEST_US + 2 * SEGMENT_US;
    // The server's SYN-ACK is not retransmitted, so its window is two segments.
    assert_eq!(link.messages(CLIENT), [(first - DELAY_US, 1)]);
    let record = link.connections()[0].1;
    assert_eq!((record.syn_timeouts, record.timeouts, record.dropped), (1, 0, 0));
    // The loss of a SYN-ACK causes timeouts at both ends, or at the client alone if its second SYN arrives first.
    let mut link = Link::between(without("1"), wire(), polite());
    link.serve(server(None, 1));
    link.requests_in_turn(&[1000], Span::ZERO);
    link.run();
    let record = link.connections()[0].1;
    assert!((1..=2).contains(&record.syn_timeouts), "{record:?}");
    assert_eq!(link.messages(CLIENT).len(), 1);
}

#[test]
fn nagle_holds_the_second_small_message_until_the_first_is_acknowledged() {
    let arrivals = |nagle, closes: bool| {
        let mut link = Link::new(TcpConfig { nagle, ..tcp() });
        link.server_does(|event, host| {
            if let AppEvent::PeerClosed(conn) = event {
                host.close(conn);
            }
        });
        let (spec, mut conn) = (link.spec, None);
        link.client_does(move |event, host| match event {
            AppEvent::Start => {
                let open = *conn.insert(host.open(spec));
                host.send(open, msg(1, 100));
                host.timer(us(1000), 0);
                host.timer(us(100_000), 1);
            }
            AppEvent::Timer(key) => {
                let conn = conn.unwrap();
                if key == 0 {
                    host.send(conn, msg(2, 100));
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
    assert_eq!(arrivals(false, false), [(first, 1), (first + 1000, 2)]);
    assert_eq!(arrivals(true, false), [(first, 1), (first + ACK_US + first, 2)]);
    // After the close, the small segment is the last one and does not wait.
    assert_eq!(arrivals(true, true), [(first, 1), (first + 1000, 2)]);
}

#[test]
fn nagle_has_nothing_to_hold_behind_a_fin() {
    // The FIN leaves with the last of five segments. Then the loss of the first segment is repaired, and no new data waits.
    let mut link = Link::between(wire(), without("1"), TcpConfig { nagle: true, initial_window: 6, ..tcp() });
    link.server_does(|event, host| {
        if let AppEvent::PeerClosed(conn) = event {
            host.close(conn);
        }
    });
    link.client_sends([msg(1, 4500)]);
    link.run();
    // The lost segment took no time on the wire. The third duplicate ACK responds to the fourth segment. Like the other duplicate ACKs, it
    // has a SACK block of 8 bytes.
    let resent = 3 * 1000 + DELAY_US + ACK_US + 8;
    assert_eq!(link.messages(SERVER), [(resent + SEGMENT_US, 1)]);
}
