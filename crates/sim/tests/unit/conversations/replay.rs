//! Tests of the replay of connection vectors.

use super::link::{ACK_US, DELAY_US, Link, polite, tcp, us};
use catnip_sim::app::{Acceptor, Adu, After, AnyApp, ConnectionVector, Initiator, Observed, Order, Side};
use catnip_sim::{CLIENT, SERVER, TcpOptions};
use std::sync::Arc;

use After::{Received, Sent};
use Side::{Acceptor as A, Initiator as I};

/// Data unit: sending end, event from which the waiting time counts, waiting time in microseconds, bytes.
type AduSpec = (Side, After, u64, u64);

fn vector(start_us: u64, order: Order, adus: &[AduSpec]) -> ConnectionVector {
    let adu = |&(by, after, wait_us, bytes): &AduSpec| Adu { by, after, wait_us, bytes };
    ConnectionVector { start_us, order, adus: adus.iter().map(adu).collect(), observed: Observed::default() }
}

fn replayed(vectors: Vec<ConnectionVector>, tcp: impl Into<TcpOptions>) -> Link {
    let vectors: Arc<[ConnectionVector]> = vectors.into();
    let mut link = Link::new(tcp);
    link.serve(AnyApp::Acceptor(Box::new(Acceptor::new(vectors.clone(), true))));
    let initiator = Initiator::new(vectors, link.spec, (0, 1));
    link.sim.add_app(AnyApp::Initiator(Box::new(initiator)));
    link.run();
    link
}

/// Returns the times and sizes of the packets of an end that have one of these sizes. ACKs and FINs have 40 bytes.
fn sent_adus(link: &Link, end: usize, bytes: &[u32]) -> Vec<(u64, u32)> {
    let packets = link.packets(end).into_iter().map(|(at, len, _)| (at, len));
    packets.filter(|(_, len)| bytes.contains(len)).collect()
}

/// Returns the delay of a packet of `bytes` bytes to the other end, microseconds.
fn one_way_us(bytes: u64) -> u64 {
    bytes + DELAY_US
}

#[test]
fn a_sequential_vector_waits_for_what_it_hears() {
    let exchange = [
        (I, Sent, 0, 200),
        (A, Received, 5000, 900),
        (I, Received, 70_000, 300),
        (A, Received, 1, 800),
        (A, Sent, 30_000, 700),
    ];
    let link = replayed(vec![vector(1000, Order::Sequential, &exchange)], tcp());
    let response = 1000 + one_way_us(200) + 5000;
    let second = response + one_way_us(900) + 70_000;
    let last = second + one_way_us(300) + 1;
    assert_eq!(sent_adus(&link, CLIENT, &[200, 300]), [(1000, 200), (second, 300)]);
    assert_eq!(
        sent_adus(&link, SERVER, &[900, 800, 700]),
        [(response, 900), (last, 800), (last + 30_000, 700)]
    );
    let [(_, record)] = link.connections()[..] else { panic!("one connection") };
    assert_eq!((record.opened, record.bytes), (us(1000), 2400));
    assert_eq!(record.received, us(last + 30_000 + one_way_us(700)), "both ends close without delay");
}

#[test]
fn a_concurrent_vector_is_timed_by_who_sends() {
    let exchange = [
        (I, Sent, 0, 200),
        (A, Sent, 0, 900),
        (I, Sent, 2000, 300),
        (A, Sent, 3000, 800),
        (I, Sent, 1000, 0),
        (A, Sent, 1000, 0),
    ];
    let link = replayed(vec![vector(1000, Order::Concurrent, &exchange)], tcp());
    assert_eq!(sent_adus(&link, CLIENT, &[200, 300]), [(1000, 200), (3000, 300)]);
    assert_eq!(sent_adus(&link, SERVER, &[900, 800]), [(1000, 900), (4000, 800)]);
}

#[test]
fn an_acceptor_may_speak_first_once_the_connection_stands() {
    let exchange = [(A, Sent, 0, 90), (I, Received, 7000, 50), (A, Received, 1, 80)];
    let link = replayed(vec![vector(0, Order::Sequential, &exchange)], polite());
    // SYN, SYN-ACK, ACK.
    let greeting = 3 * ACK_US;
    let answer = greeting + one_way_us(90) + 7000;
    assert_eq!(sent_adus(&link, SERVER, &[90, 80]), [(greeting, 90), (answer + one_way_us(50) + 1, 80)]);
    assert_eq!(sent_adus(&link, CLIENT, &[50]), [(answer, 50)]);
}

#[test]
fn who_has_a_fin_closes_at_its_time_and_the_other_end_follows() {
    let exchange = [(I, Sent, 0, 200), (A, Received, 100, 900), (A, Sent, 500_000, 0)];
    let link = replayed(vec![vector(0, Order::Sequential, &exchange)], tcp());
    let response = one_way_us(200) + 100;
    let [(_, record)] = link.connections()[..] else { panic!("one connection") };
    assert_eq!(record.received, us(response + one_way_us(900)));
    // The FIN, which is as long as an ACK, leaves at the time in the vector, and the ACK of the FIN returns.
    assert_eq!(record.acked, us(response + 500_000 + 2 * ACK_US));
}

#[test]
fn connections_are_opened_at_their_times_and_numbered_in_their_order() {
    let exchange = [(I, Sent, 0, 100), (A, Received, 1, 400)];
    let starts = [0, 2000, 2000, 90_000];
    let vectors = starts.map(|start| vector(start, Order::Sequential, &exchange)).to_vec();
    let link = replayed(vectors, tcp());
    let mut opened: Vec<_> = link.connections().iter().map(|(_, it)| (it.connection, it.opened)).collect();
    opened.sort_unstable();
    assert_eq!(opened, (0..).zip(starts.map(us)).collect::<Vec<_>>());
    assert_eq!(link.connections().len(), 4);
}

#[test]
fn initiators_take_turns() {
    let exchange = [(I, Sent, 0, 100), (A, Received, 1, 400)];
    let vectors: Arc<[ConnectionVector]> =
        (0..5).map(|n| vector(100_000 * n, Order::Sequential, &exchange)).collect();
    let mut link = Link::new(tcp());
    link.serve(AnyApp::Acceptor(Box::new(Acceptor::new(vectors.clone(), true))));
    for index in 0..2 {
        let initiator = Initiator::new(vectors.clone(), link.spec, (index, 2));
        link.sim.add_app(AnyApp::Initiator(Box::new(initiator)));
    }
    link.run();
    let apps: Vec<_> = link.connections().iter().map(|(_, it)| (it.connection, it.app)).collect();
    assert_eq!(apps, [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]);
}
