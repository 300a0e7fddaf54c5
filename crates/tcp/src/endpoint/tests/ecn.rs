use super::*;
use crate::EcnKind;

fn with(ecn: EcnKind) -> TcpConfig {
    TcpConfig { ecn, ..config() }
}

/// Returns the segment as it arrives after a router has marked its packet.
fn marked(segment: Segment) -> Segment {
    Segment { ecn: segment.ecn.with_ce(true), ..segment }
}

/// Returns the segments that an end sends at `at`, with the ECN codepoints of their packets.
fn packets(end: &mut End, at: u64) -> Vec<Outgoing> {
    std::iter::from_fn(|| end.endpoint.transmit(ms(at), &end.config)).collect()
}

#[test]
fn a_syn_asks_with_both_bits_and_is_answered_with_one() {
    let (mut client, mut server) = pair(&with(EcnKind::Classic));
    let syn = client.sends(0);
    // RFC 3168, section 6.1.1: "an ECN-setup SYN packet" has ECE and CWR, "an ECN-setup SYN-ACK packet" has only ECE.
    assert_eq!(syn.ecn, EcnBits::new(true, true));
    server.receives(50, syn);
    let answer = server.sends(50);
    assert_eq!(answer.ecn, EcnBits::new(true, false));
    client.receives(100, answer);
    client.writes(100, 3000);
    let sent = packets(&mut client, 100);
    assert!(
        sent.iter().all(|out| out.ecn == Ecn::ECT_0 && out.segment.ecn == EcnBits::default()),
        "{sent:?}"
    );
}

#[test]
fn nobody_marks_what_one_side_has_not_asked_for() {
    for (ours, theirs) in [(EcnKind::Classic, EcnKind::None), (EcnKind::None, EcnKind::Classic)] {
        let (mut client, _) = pair(&with(ours));
        let (_, mut server) = pair(&with(theirs));
        server.receives(50, client.sends(0));
        let answer = server.sends(50);
        assert_eq!(answer.ecn, EcnBits::default());
        client.receives(100, answer);
        client.writes(100, 1000);
        assert!(packets(&mut client, 100).iter().all(|out| out.ecn == Ecn::NOT_ECT), "{ours} {theirs}");
    }
    // Some hosts reflect the bits that they receive. "both the ECE and CWR flags" in a SYN-ACK are therefore no agreement.
    let (mut client, _) = pair(&with(EcnKind::Classic));
    client.sends(0);
    let both = EcnBits::new(true, true);
    client.receives(100, Segment { flags: SYN_ACK, ecn: both, window: 1 << 20, ..Segment::default() });
    client.writes(100, 1000);
    assert!(packets(&mut client, 100).iter().all(|out| out.ecn == Ecn::NOT_ECT));
}

#[test]
fn acks_and_retransmissions_cannot_be_marked() {
    let (mut client, mut server) = open(&with(EcnKind::Classic));
    client.writes(150, 1000);
    server.receives(200, client.sends(150));
    assert!(packets(&mut server, 200).iter().all(|out| out.ecn == Ecn::NOT_ECT), "RFC 3168, section 6.1.4");
    let due = client.endpoint.deadline().unwrap();
    assert!(client.endpoint.on_timer(due, &client.config.clone()));
    let retransmitted: Vec<_> =
        std::iter::from_fn(|| client.endpoint.transmit(due, &client.config)).collect();
    assert!(
        retransmitted[0].retransmission && retransmitted[0].ecn == Ecn::NOT_ECT,
        "RFC 3168, section 6.1.5"
    );
}

#[test]
fn a_mark_is_echoed_until_the_sender_says_that_it_has_reacted() {
    let (mut client, mut server) = open(&with(EcnKind::Classic));
    client.writes(150, 20_000);
    let sent = client.all(150);
    assert_eq!(sent.len(), 10);
    let echoes = |server: &mut End, at, segment| {
        server.receives(at, segment);
        server.all(at).iter().map(|ack| ack.ecn.ece()).collect::<Vec<_>>()
    };
    // There is one ACK for two segments.
    assert_eq!(echoes(&mut server, 200, sent[0]), []);
    assert_eq!(echoes(&mut server, 200, sent[1]), [false]);
    // The first marks are reported immediately.
    assert_eq!(echoes(&mut server, 200, marked(sent[2])), [true]);
    assert_eq!(echoes(&mut server, 200, sent[3]), [true]);
    assert_eq!(echoes(&mut server, 200, sent[4]), []);
    assert_eq!(echoes(&mut server, 200, sent[5]), [true]);

    let cwnd = |end: &End| end.endpoint.sender().unwrap().control().cwnd;
    let ack = |end: &mut End, at, segments: u64, ece| {
        let ecn = EcnBits::new(ece, false);
        let window = 1 << 20;
        end.receives(at, Segment { flags: ACK, ack: segments * 1000, window, ecn, ..Segment::default() });
    };
    ack(&mut client, 250, 2, false);
    let (before, more) = (cwnd(&client), client.all(250));
    assert!(more.iter().all(|segment| !segment.ecn.cwr()));
    ack(&mut client, 250, 4, true);
    // RFC 3168, section 6.1.2: the response is the same as to a lost packet, half of the data in flight.
    let halved = cwnd(&client);
    assert!(halved < before && halved <= 13_000 / 2, "{before} {halved}");
    // "more than once every window of data": the data sent before the reduction is part of the same window.
    ack(&mut client, 250, 10, true);
    assert_eq!(cwnd(&client), halved, "neither again nor growing");
    let first = client.all(250);
    assert!(first[0].ecn.cwr() && first[1..].iter().all(|segment| !segment.ecn.cwr()), "{first:?}");
    // The receiver receives CWR and stops ECN-Echo.
    for segment in sent[6..].iter().chain(&more) {
        echoes(&mut server, 300, *segment);
    }
    server.receives(300, first[0]);
    let after = server.all(500);
    assert!(after.iter().all(|ack| !ack.ecn.ece()), "{after:?}");
    // A mark of data sent after the reduction causes another reduction.
    let snd_max = client.endpoint.sender().unwrap().snd_max();
    ack(&mut client, 350, snd_max / 1000, true);
    assert!(cwnd(&client) < halved);
}

#[test]
fn exact_echoes_tell_which_data_was_marked() {
    let (mut client, mut server) = open(&with(EcnKind::L4s));
    client.writes(150, 20_000);
    let sent = packets(&mut client, 150);
    assert!(sent.iter().all(|out| out.ecn == Ecn::ECT_1));
    let sent: Vec<Segment> = sent.iter().map(|out| out.segment).collect();
    let acks = |server: &mut End, segment| {
        server.receives(200, segment);
        server.all(200).iter().map(|ack| (ack.ack / 1000, ack.ecn.ece())).collect::<Vec<_>>()
    };
    assert_eq!(acks(&mut server, sent[0]), []);
    // RFC 8257, section 3.2: data whose ACK was delayed is acknowledged with the old state, and the change is reported immediately.
    assert_eq!(acks(&mut server, marked(sent[1])), [(1, false), (2, true)]);
    assert_eq!(acks(&mut server, marked(sent[2])), []);
    assert_eq!(acks(&mut server, marked(sent[3])), [(4, true)]);
    assert_eq!(acks(&mut server, sent[4]), [(5, false)], "nothing waited");
    assert_eq!(acks(&mut server, sent[5]), []);
    assert_eq!(acks(&mut server, sent[6]), [(7, false)]);
}
