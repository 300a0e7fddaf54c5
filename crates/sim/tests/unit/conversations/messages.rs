//! Tests of messages in both directions over persistent connections: the events of each end and their times.

use super::link::{
    ACK_US, DELAY_US, Link, Notified, REQUEST_US, SEGMENT_US, msg, polite, read, request, server, tcp, us,
};
use catnip_base::{Distribution, Span};
use catnip_net::Priority;
use catnip_sim::app::AppEvent;
use catnip_sim::{CLIENT, Conn, SERVER, ServiceOptions};
use catnip_tcp::TcpConfig;

#[test]
fn a_second_request_and_its_answer_take_no_handshake() {
    let mut link = Link::new(polite());
    link.serve(server(None, 1));
    link.requests_in_turn(&[1000, 1000], Span::ZERO);
    link.run();
    // SYN, SYN-ACK, request, response; the second request carries the ACK of the first response.
    let first = 2 * ACK_US + REQUEST_US + SEGMENT_US;
    let second = first + REQUEST_US + SEGMENT_US;
    // The client's FIN, as long as an ACK, and the ACK of the FIN.
    let over = second + 2 * ACK_US;
    let expected = [
        (2 * ACK_US, Notified::Opened),
        (first, Notified::ReceivedMessage(1)),
        (second, Notified::ReceivedMessage(2)),
        (over, Notified::Closed),
    ];
    assert_eq!(link.notifications(CLIENT), expected);
    let [(at, record)] = link.connections()[..] else { panic!("one connection") };
    assert_eq!((at, record.opened, record.received, record.acked), (over, us(0), us(second), us(over)));
    assert_eq!((record.bytes, record.sent, record.syn_timeouts), (2000, 2, 0));
    // No other packets were sent: SYN, two requests, FIN; SYN-ACK, two responses, ACK.
    assert_eq!([CLIENT, SERVER].map(|end| link.packets(end).len()), [4, 4]);
}

#[test]
fn a_server_hears_when_little_of_what_it_has_written_is_unsent_and_can_write_more_at_once() {
    let mut link = Link::new(tcp());
    let mut requested = 0;
    link.server_does(move |event, host| match event {
        AppEvent::Message { conn, .. } => {
            // No data is unsent.
            host.notify_drained(conn, 1);
        }
        AppEvent::Drained(conn) => {
            requested += 1;
            match requested {
                1 => {
                    host.send(conn, msg(1, 5000));
                    host.notify_drained(conn, 2500);
                }
                2 => host.notify_drained(conn, 1000),
                3 => {
                    host.send(conn, msg(2, 1000));
                    host.close(conn);
                }
                _ => panic!("it is told once for each time that it has asked"),
            }
        }
        _ => {}
    });
    link.client_sends([request(1, 0)]);
    link.run();
    let notifications: Vec<_> = link
        .notifications(SERVER)
        .into_iter()
        .filter(|(_, notified)| *notified == Notified::Drained)
        .collect();
    // The ACK of the request leaves before any data is written. Two segments follow, and two more after the ACK of the first segment. Then
    // 1000 of 5000 bytes are left. The last segment leaves after the second ACK, together with the data written at that time.
    let first_ack = REQUEST_US + 40 + SEGMENT_US + ACK_US;
    let expected = [REQUEST_US, first_ack, first_ack + 1000].map(|at| (at, Notified::Drained));
    assert_eq!(notifications, expected);
    let last: Vec<_> =
        link.packets(SERVER).iter().map(|&(at, ..)| at).filter(|at| *at == first_ack + 1000).collect();
    assert_eq!(last.len(), 2, "the fifth segment, and the sixth, which carries the FIN");
}

#[test]
fn pipelined_requests_are_answered_in_their_order_however_long_each_takes() {
    for seed in 1..=30 {
        let mut link = Link::new(TcpConfig { initial_window: 50, ..tcp() });
        link.serve(server(Some(Distribution::Exponential { mean: 0.02 }), seed));
        let (spec, mut conn, mut requested) = (link.spec, None, 0);
        link.client_does(move |event, host| match event {
            AppEvent::Start => host.timer(us(0), 0),
            AppEvent::Timer(_) => {
                let conn = *conn.get_or_insert_with(|| host.open(spec));
                host.send(conn, request(requested, 300));
                requested += 1;
                if requested < 40 {
                    host.timer(host.now() + Span::from_millis(1), 0);
                } else {
                    // Half of the responses are still outstanding.
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
    link.client_sends([1, 2].map(|tag| request(tag, 1000)));
    link.run();
    // Both requests are in one segment of 400 bytes, and both responses leave 5 ms later, one after the other.
    let first = 400 + DELAY_US + 5000 + SEGMENT_US;
    assert_eq!(link.messages(CLIENT), [(first, 1), (first + 1000, 2)]);
}

#[test]
fn both_ends_may_speak_at_once() {
    let mut link = Link::new(tcp());
    link.server_does(|event, host| match event {
        AppEvent::Accepted(conn) => host.send(conn, msg(2, 2500)),
        AppEvent::PeerClosed(conn) => host.close(conn),
        _ => {}
    });
    let spec = link.spec;
    link.client_does(move |event, host| match event {
        AppEvent::Opened(conn) => host.send(conn, msg(1, 1500)),
        AppEvent::Message { conn, .. } => host.close(conn),
        AppEvent::Start => {
            host.open(spec);
        }
        _ => {}
    });
    link.run();
    // The client's segments of 1000 and 500 bytes and the server's first two segments cross. Each segment gets a separate ACK, since its
    // receiver has no data to send. The first ACK permits the server's last 500 bytes.
    let sent_at = 1000 + 500 + DELAY_US;
    let answered = SEGMENT_US + ACK_US + 500 + DELAY_US;
    assert_eq!(link.messages(SERVER), [(sent_at, 1)]);
    assert_eq!(link.messages(CLIENT), [(answered, 2)]);
    assert_eq!(link.packets(CLIENT)[..4].iter().map(|p| p.1).collect::<Vec<_>>(), [1000, 500, 40, 40]);
}

#[test]
fn who_has_said_all_still_hears_the_answer() {
    let mut link = Link::new(tcp());
    link.server_does(|event, host| match event {
        AppEvent::Message { conn, .. } => host.send(conn, msg(7, 1500)),
        AppEvent::PeerClosed(conn) => host.close(conn),
        _ => {}
    });
    link.client_sends([request(7, 1500)]);
    link.run();
    // The request carries the FIN, and the response carries the ACK of both.
    let requested = REQUEST_US;
    let received = requested + 500 + SEGMENT_US;
    let over = received + ACK_US;
    let server = [
        (0, Notified::Accepted),
        (requested, Notified::ReceivedMessage(7)),
        (requested, Notified::PeerClosed),
        (over, Notified::Closed),
    ];
    assert_eq!(link.notifications(SERVER), server);
    assert_eq!(
        link.notifications(CLIENT),
        [(0, Notified::Opened), (received, Notified::ReceivedMessage(7)), (over, Notified::Closed)]
    );
    let [(at, record)] = link.connections()[..] else { panic!("one connection") };
    assert_eq!((at, record.received, record.acked), (over, us(received), us(over)));
    assert_eq!((record.app, record.bytes, record.sent, record.retransmitted), (0, 1500, 2, 0));
}

#[test]
fn a_server_answers_all_it_was_asked_before_it_closes_behind_its_client() {
    // The client's FIN arrives with the requests, before the responses are ready.
    let mut link = Link::new(tcp());
    link.serve(server(Some(Distribution::Constant(0.05)), 1));
    link.client_sends((0..3).map(|tag| request(tag, 100)));
    link.run();
    assert_eq!(link.messages(CLIENT).iter().map(|m| m.1).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(link.connections()[0].1.bytes, 300);
}

#[test]
fn an_end_is_heard_without_a_fin_as_soon_as_all_before_it_has_come() {
    let mut link = Link::new(TcpConfig { fin: false, ..tcp() });
    link.server_does(|event, host| {
        if let AppEvent::PeerClosed(conn) = event {
            host.send(conn, msg(9, 1000));
            host.close(conn);
        }
    });
    link.client_sends([msg(1, 1500)]);
    link.run();
    let sent_at = 1500 + DELAY_US;
    assert_eq!(
        link.notifications(SERVER)[1..3],
        [(sent_at, Notified::ReceivedMessage(1)), (sent_at, Notified::PeerClosed)]
    );
    assert_eq!(link.messages(CLIENT), [(sent_at + SEGMENT_US, 9)]);
}

#[test]
fn who_acts_on_a_connection_that_is_over_does_no_harm() {
    let mut link = Link::new(tcp());
    link.serve(server(None, 1));
    let spec = link.spec;
    let mut past: Vec<Conn> = Vec::new();
    link.client_does(move |event, host| match event {
        AppEvent::Start | AppEvent::Closed(_) if past.len() < 3 => {
            let conn = host.open(spec);
            host.send(conn, request(past.len() as u64, 500));
            // The new connection may have the slot of an old one.
            for &old in &past {
                host.send(old, request(99, 5000));
                host.notify(old, 1);
                host.set_service(old, ServiceOptions { marker: Some(read("app:high")), weight: Some(3) });
                host.close(old);
            }
            past.push(conn);
        }
        AppEvent::Message { conn, .. } => {
            host.close(conn);
            // Messages after the close are not sent.
            host.send(conn, request(98, 5000));
            host.close(conn);
        }
        _ => {}
    });
    link.run();
    assert_eq!(link.messages(CLIENT).iter().map(|m| m.1).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(link.connections().iter().map(|(_, it)| it.bytes).collect::<Vec<_>>(), [500; 3]);
    assert_eq!((link.sim.tally().opened, link.sim.tally().completed), (3, 3));
    assert!(link.sent().iter().all(|(_, view)| view.priority == Priority::Low), "no packet is marked");
}
