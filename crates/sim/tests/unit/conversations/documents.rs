//! Tests of markers, pacing and congestion control for the second document of a connection.

use super::link::{ACK_US, Link, SEGMENT_US, msg, polite, read, request, server, tcp, us};
use catnip_base::Span;
use catnip_net::Priority;
use catnip_sim::app::AppEvent;
use catnip_sim::record::SenderView;
use catnip_sim::{CLIENT, SERVER, ServiceOptions, TcpOptions};
use catnip_tcp::TcpConfig;
use catnip_tcp::control::validated::ValidationSpec;
use catnip_tcp::pacing::PacingKind;

/// Transfers two equal documents over one connection, the second document two seconds after the first.
fn two_documents(bytes: u64, tcp: impl Into<TcpOptions>) -> (Link, [Vec<(u64, SenderView)>; 2]) {
    let mut link = Link::new(tcp);
    link.serve(server(None, 1));
    link.requests_in_turn(&[bytes, bytes], Span::from_secs(2));
    link.run();
    let documents = [0, bytes].map(|start| link.document(start, bytes));
    (link, documents)
}

/// Returns the times of the segments of a document, microseconds since the first segment.
fn since_first(document: &[(u64, SenderView)]) -> Vec<u64> {
    document.iter().map(|(at, _)| at - document[0].0).collect()
}

#[test]
fn the_second_document_is_marked_like_the_first() {
    // The document has 11 segments of 1000 bytes and one of 500 bytes. The first three segments are HIGH. The segments at 9000, 10000 and
    // 11000 are also HIGH, since at most 3000 bytes are left there. The window is never below 8.
    let expected: Vec<Priority> =
        (0..12).map(|n| if (3..9).contains(&n) { Priority::Low } else { Priority::High }).collect();
    for validation in [ValidationSpec::Restart, ValidationSpec::None] {
        let config = TcpConfig { initial_window: 8, validation, ..tcp() };
        let options = TcpOptions { marker: Some(read("spm")), ..config.into() };
        let (link, documents) = two_documents(11_500, options);
        for document in &documents {
            let seqs: Vec<u64> = document.iter().map(|(_, view)| view.seq).collect();
            assert_eq!(seqs, (0..12).map(|n| 1000 * n).collect::<Vec<u64>>());
            assert_eq!(document.iter().map(|(_, view)| view.priority).collect::<Vec<_>>(), expected);
        }
        assert_eq!(link.connections()[0].1.sent_high, 2 * 6);
    }
}

#[test]
fn a_syn_ack_is_high_only_if_the_marker_says_so() {
    let sent_high = |marker: &str| {
        let mut link = Link::new(TcpOptions { marker: Some(read(marker)), ..polite().into() });
        link.serve(server(None, 1));
        link.requests_in_turn(&[11_500], Span::ZERO);
        link.run();
        link.connections()[0].1.sent_high
    };
    let unsaid = sent_high("spm");
    assert_eq!(["high", "low"].map(|mark| sent_high(&format!("spm:handshake={mark}"))), [unsaid + 1, unsaid]);
}

#[test]
fn documents_that_share_a_segment_are_told_apart_by_its_first_byte() {
    // Both documents are requested at once. The second document starts at byte 11500, within the segment at 11000, which contains the end
    // of the first document.
    let config = TcpConfig { initial_window: 30, ..tcp() };
    let mut link = Link::new(TcpOptions { marker: Some(read("spm")), ..config.into() });
    link.serve(server(None, 1));
    link.client_sends((0..2).map(|tag| request(tag, 11_500)));
    link.run();
    let low: Vec<u64> = link
        .document(0, 23_000)
        .iter()
        .filter(|(_, v)| v.priority == Priority::Low)
        .map(|(_, v)| v.seq)
        .collect();
    // In the second document, the first full segment starts at offset 500. Leading segments start before offset 3000, trailing segments at
    // offset 8500 or later.
    assert_eq!(low, [3000, 4000, 5000, 6000, 7000, 8000, 15_000, 16_000, 17_000, 18_000, 19_000]);
}

#[test]
fn the_last_window_of_each_document_is_paced() {
    // Twelve segments with an initial window of four take a round of 4 and a round of 8 segments. The second round is the last round, so
    // its eight segments are paced over one round-trip time. SRTT moves by an eighth of a difference of at most four transmission times of
    // a segment. The window grows although pacing leaves part of it unused.
    let config = TcpConfig { initial_window: 4, grow_unused: true, pacing: PacingKind::Rbplw, ..tcp() };
    let (_, documents) = two_documents(12_000, config);
    for document in &documents {
        let times = since_first(document);
        assert_eq!(times[..4], [0, 0, 0, 0]);
        let gaps: Vec<u64> = times[4..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        let round_trip = SEGMENT_US + ACK_US;
        let (min_gap, max_gap) = (round_trip / 8, (round_trip + 500) / 8);
        assert!(gaps.iter().all(|gap| (min_gap..=max_gap).contains(gap)), "{gaps:?}");
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
    // Many short documents at once differ from a long document, because each short document is in its last round.
    let last = |documents: &[u64]| {
        let mut link = Link::new(TcpConfig { control: read("eca"), ..tcp() });
        link.serve(server(None, 1));
        link.client_sends((0..).zip(documents).map(|(tag, &bytes)| request(tag, bytes)));
        link.run();
        link.sent().last().unwrap().1.cwnd
    };
    assert!(last(&[2000; 10]) < last(&[20_000]));
}

#[test]
fn after_a_pause_a_sender_begins_anew() {
    for (validation, at_once) in [(ValidationSpec::Restart, 2), (ValidationSpec::None, 8)] {
        let config = TcpConfig { validation, ..tcp() };
        let (_, documents) = two_documents(20_000, config);
        let burst =
            |document: &[(u64, SenderView)]| since_first(document).iter().filter(|at| **at == 0).count();
        assert_eq!(burst(&documents[0]), 2);
        assert!(burst(&documents[1]) >= at_once, "{}", burst(&documents[1]));
        if validation == ValidationSpec::Restart {
            assert_eq!(since_first(&documents[0]), since_first(&documents[1]));
        }
    }
}

#[test]
fn messages_that_share_a_segment_do_not_hide_where_the_next_one_begins() {
    // Two documents of 1500 bytes at once form three segments, one of which contains the boundary. The third document, after a pause, still
    // starts with the initial window.
    for (at_once, later) in [(&[3000][..], 20_000), (&[1500, 1500], 20_000)] {
        let mut link = Link::new(tcp());
        link.serve(server(None, 1));
        let (spec, first, mut conn) = (link.spec, at_once.to_vec(), None);
        link.client_does(move |event, host| match event {
            AppEvent::Start => {
                let open = *conn.insert(host.open(spec));
                // The first document opens the window.
                host.send(open, request(0, 20_000));
                host.timer(us(500_000), 1);
                host.timer(us(5_000_000), 2);
            }
            AppEvent::Timer(1) => {
                (1..).zip(&first).for_each(|(tag, &bytes)| host.send(conn.unwrap(), request(tag, bytes)));
            }
            AppEvent::Timer(_) => {
                host.send(conn.unwrap(), request(9, later));
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
    let (high, med, low) = (Priority::High, Priority::Medium, Priority::Low);
    // Segments are HIGH at windows up to 4, and MED up to 8.
    for (window, priority) in [(3, high), (6, med), (12, low)] {
        let config = TcpConfig { initial_window: window, ..polite() };
        let service = catnip_net::mark::Service::Interactive;
        let options = TcpOptions { marker: Some(read("tcp-state")), service, ..config.into() };
        let mut link = Link::new(options);
        link.serve(server(None, 1));
        link.requests_in_turn(&[2000], Span::ZERO);
        link.run();
        // SYN, request, two ACKs of data, FIN. The client's window is as large as the server's.
        let client: Vec<Priority> = link.packets(CLIENT).iter().map(|packet| packet.2).collect();
        assert_eq!(client[..4], [high, priority, priority, priority], "a window of {window}");
        let server: Vec<Priority> = link.packets(SERVER).iter().map(|packet| packet.2).collect();
        assert_eq!(server[..3], [high, priority, priority], "a window of {window}");
    }
}

#[test]
fn a_program_chooses_how_its_later_packets_are_marked() {
    let (high, low) = (Priority::High, Priority::Low);
    let service = catnip_net::mark::Service::Highly;
    let options = TcpOptions { marker: Some(read("app")), service, ..tcp().into() };
    let mut link = Link::new(options);
    link.server_does(|event, host| match event {
        AppEvent::Message { conn, message, .. } => {
            host.send(conn, msg(message.tag, 1000));
            if message.tag == 2 {
                let marker = Some(read("app:low"));
                host.set_service(conn, ServiceOptions { marker, weight: None });
            }
        }
        AppEvent::PeerClosed(conn) => host.close(conn),
        _ => {}
    });
    link.requests_in_turn(&[1000, 1000, 1000], Span::from_millis(100));
    link.run();
    // From the second response on, the server's packets are LOW, and so are the ACKs of these packets. Requests remain HIGH.
    let marks =
        |end| link.packets(end).into_iter().map(|(_, bytes, priority)| (bytes, priority)).collect::<Vec<_>>();
    let [request, ack] = [200, 40];
    let client = [(request, high), (ack, high), (request, high), (ack, low), (request, high), (40, high)];
    assert_eq!(marks(CLIENT), client);
    // The server's ACK of the FIN is HIGH like the FIN.
    assert_eq!(marks(SERVER), [(1000, high), (1000, low), (1000, low), (40, high)]);
}
