use super::*;
use crate::recovery::RecoveryKind;
use crate::testing::{ms, rfc};
use crate::{DelayedAck, RtoConfig};
use catnip_net::mark::PacketKind;
use proptest::prelude::*;

mod ecn;

/// Returns the parameters of current standards, with handshake, delayed ACKs and FIN.
fn config() -> TcpConfig {
    TcpConfig {
        handshake: true,
        fin: true,
        delayed_ack: crate::profile::rfc().delayed_ack,
        ..rfc(RecoveryKind::SackRfc6675, 10)
    }
}

/// One end of a connection with its configuration.
struct End {
    config: TcpConfig,
    endpoint: Endpoint,
}

impl End {
    fn new(role: Role, config: TcpConfig) -> Self {
        Self { endpoint: Endpoint::new(Time::ZERO, role, &config, Span::ZERO), config }
    }

    fn writes(&mut self, at: u64, bytes: u64) {
        self.endpoint.write(ms(at), bytes, None, true, &self.config);
    }

    fn receives(&mut self, at: u64, segment: Segment) {
        self.endpoint.on_segment(ms(at), &segment, &self.config);
    }

    /// Returns the segment that the end sends at `at`. Panics if it sends none or several.
    #[track_caller]
    fn sends(&mut self, at: u64) -> Segment {
        let sent = self.all(at);
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent[0]
    }

    fn all(&mut self, at: u64) -> Vec<Segment> {
        let sent = std::iter::from_fn(|| self.endpoint.transmit(ms(at), &self.config));
        sent.map(|out| out.segment).take(1000).collect()
    }

    fn expires(&mut self, at: u64) -> bool {
        self.endpoint.on_timer(ms(at), &self.config)
    }
}

fn pair(config: &TcpConfig) -> (End, End) {
    (End::new(Role::Active, config.clone()), End::new(Role::Passive, config.clone()))
}

/// Returns client and server after a handshake, with a one-way delay of 50 ms.
fn open(config: &TcpConfig) -> (End, End) {
    let (mut client, mut server) = pair(config);
    server.receives(50, client.sends(0));
    client.receives(100, server.sends(50));
    server.receives(150, client.sends(100));
    (client, server)
}

const SYN: Flags = Flags { syn: true, ack: false, fin: false };
const SYN_ACK: Flags = Flags { syn: true, ack: true, fin: false };
const ACK: Flags = Flags { syn: false, ack: true, fin: false };

#[test]
fn a_connection_opens_with_syn_syn_ack_and_ack() {
    let (mut client, mut server) = pair(&config());
    assert_eq!(server.all(0), [], "the passive side waits");
    assert_eq!(server.endpoint.deadline(), None);
    // RFC 9293, section 3.5, figure 6.
    let syn = client.sends(0);
    assert_eq!((syn.flags.syn, syn.flags.ack, syn.seq_len()), (true, false, 0));
    server.receives(50, syn);
    let answer = server.sends(50);
    assert_eq!(answer.flags, SYN_ACK);
    client.receives(100, answer);
    assert_eq!(client.endpoint.deadline(), None, "nothing is out");
    assert_eq!(client.sends(100).flags, ACK);
    server.receives(150, Segment { flags: ACK, ..Segment::default() });
    assert_eq!((server.all(150), server.endpoint.deadline()), (vec![], None));
}

#[test]
fn the_syn_says_which_side_it_comes_from() {
    let (mut client, mut server) = pair(&config());
    assert!(!client.sends(0).flags.ack);
    server.receives(50, Segment { flags: SYN, ..Segment::default() });
    assert!(server.sends(50).flags.ack);
}

#[test]
fn data_waits_for_the_handshake_and_rides_on_its_last_ack() {
    let (mut client, mut server) = pair(&config());
    client.writes(0, 500);
    let syn = client.sends(0);
    assert_eq!(syn.len, 0);
    server.receives(50, syn);
    client.receives(100, server.sends(50));
    let first = client.sends(100);
    assert_eq!((first.seq, first.len, first.flags), (0, 500, Flags { fin: true, ..ACK }));
    // Data completes the handshake of the passive side like a pure ACK.
    server.receives(150, first);
    assert_eq!(server.endpoint.received(), 500);
}

#[test]
fn without_a_handshake_both_sides_are_open_at_once() {
    let (mut client, mut server) = pair(&TcpConfig { handshake: false, ..config() });
    client.writes(0, 500);
    server.writes(0, 700);
    assert_eq!((client.sends(0).len, server.sends(0).len), (500, 700));
}

#[test]
fn a_syn_goes_out_again_with_a_timeout_that_doubles_up_to_the_greatest_one() {
    let rto = RtoConfig { max: Span::from_secs(5), ..config().rto };
    let mut client = End::new(Role::Active, TcpConfig { rto, ..config() });
    client.sends(0);
    // RFC 6298, section 2.1: 1 second at first; section 5.5: doubled by back-off; section 2.5: limited to the maximum timeout.
    for (at, next) in [(1000, 3000), (3000, 7000), (7000, 12_000), (12_000, 17_000)] {
        assert!(!client.expires(at - 1), "not before {at} ms");
        assert_eq!(client.all(at - 1), []);
        assert!(client.expires(at));
        assert_eq!(client.sends(at).flags, SYN);
        assert_eq!(client.endpoint.deadline(), Some(ms(next)));
    }
}

#[test]
fn a_syn_ack_goes_out_again_by_its_timer_and_for_each_syn() {
    let (mut client, mut server) = pair(&config());
    let syn = client.sends(0);
    server.receives(50, syn);
    server.sends(50);
    assert!(server.expires(1050));
    assert_eq!(server.sends(1050).flags, SYN_ACK);
    server.receives(1100, syn);
    assert_eq!(server.sends(1100).flags, SYN_ACK);
}

#[test]
fn a_syn_ack_that_comes_again_is_acknowledged_again() {
    let (mut client, mut server) = pair(&config());
    server.receives(50, client.sends(0));
    let answer = server.sends(50);
    client.receives(100, answer);
    client.sends(100);
    // RFC 9293, section 3.10.7.4: the ACK of the client was lost.
    client.receives(1200, answer);
    assert_eq!(client.sends(1200).flags, ACK);
}

#[test]
fn a_waiting_side_answers_nothing_but_a_syn_and_an_opening_one_nothing_but_its_answer() {
    let (mut client, mut server) = pair(&config());
    for flags in [ACK, SYN_ACK, Flags { fin: true, ..ACK }] {
        server.receives(10, Segment { len: 100, flags, ..Segment::default() });
        assert_eq!((server.all(10), server.endpoint.received()), (vec![], 0), "{flags:?}");
    }
    client.sends(0);
    for flags in [ACK, SYN] {
        client.receives(10, Segment { len: 100, flags, ..Segment::default() });
        assert_eq!((client.all(10), client.endpoint.received()), (vec![], 0), "{flags:?}");
    }
    assert_eq!(client.endpoint.deadline(), Some(ms(1000)), "it still waits for its answer");
}

#[test]
fn a_handshake_at_the_first_try_is_the_first_round_trip() {
    let rto = RtoConfig { min: Span::from_millis(1), ..config().rto };
    let config = TcpConfig { rto, ..config() };
    // RFC 6298, section 2.2: R + 4 * R / 2. The sample counts regardless of whether the application writes before or after the handshake.
    let (mut client, mut server) = open(&config);
    client.writes(200, 100);
    client.all(200);
    assert_eq!(client.endpoint.deadline(), Some(ms(200 + 300)), "SYN at 0, answer at 100 ms");
    server.writes(200, 100);
    server.all(200);
    assert_eq!(server.endpoint.deadline(), Some(ms(200 + 300)), "SYN+ACK at 50, ACK at 150 ms");
    let (mut client, mut server) = pair(&config);
    client.writes(0, 100);
    server.receives(50, client.sends(0));
    client.receives(80, server.sends(50));
    client.all(80);
    assert_eq!(client.endpoint.deadline(), Some(ms(80 + 240)));
}

#[test]
fn where_the_handshake_is_not_timed_data_start_with_the_first_timeout_and_the_whole_window() {
    let rto = RtoConfig { first: Span::from_secs(3), ..config().rto };
    let config = TcpConfig { times_handshake: false, rto, initial_window: 2, ..config() };
    let (mut client, mut server) = open(&config);
    for end in [&mut client, &mut server] {
        end.writes(200, 20_000);
        // tbp08: 3 s for "SYN, SYN/ACK and first packet".
        assert_eq!(end.all(200).iter().map(|segment| segment.len).collect::<Vec<_>>(), [1000, 1000]);
        assert_eq!(end.endpoint.deadline(), Some(ms(200 + 3000)));
    }
}

#[test]
fn after_a_syn_that_was_sent_twice_one_segment_and_three_seconds_are_the_beginning() {
    for writes_first in [false, true] {
        let (mut client, mut server) = pair(&config());
        if writes_first {
            client.writes(0, 20_000);
        }
        client.sends(0);
        assert!(client.expires(1000));
        server.receives(1050, client.sends(1000));
        client.receives(1100, server.sends(1050));
        if !writes_first {
            client.sends(1100);
            client.writes(1100, 20_000);
        }
        // RFC 5681, section 3.1, and RFC 6298, section 5.7. The answer may be to the first or the second SYN (Karn's rule).
        assert_eq!(client.sends(1100).len, 1000);
        assert_eq!(client.endpoint.deadline(), Some(ms(1100 + 3000)));
    }
}

#[test]
fn data_carries_the_ack_that_was_delayed() {
    let (mut client, mut server) = open(&config());
    client.writes(200, 500);
    server.receives(250, Segment { flags: ACK, ..client.sends(200) });
    assert_eq!(
        (server.all(250), server.endpoint.deadline()),
        (vec![], Some(ms(450))),
        "RFC 5681, section 4.2"
    );
    server.endpoint.write(ms(260), 700, None, false, &server.config);
    let answer = server.sends(260);
    assert_eq!((answer.len, answer.ack), (700, 500));
    assert_eq!(server.all(460), []);
}

#[test]
fn a_delayed_ack_goes_out_when_it_is_due() {
    let (mut client, mut server) = open(&config());
    client.endpoint.write(ms(200), 500, None, false, &client.config);
    server.receives(250, client.sends(200));
    assert!(!server.expires(450), "a delayed ACK is no timeout");
    assert_eq!(server.all(449), []);
    let ack = server.sends(450);
    assert_eq!((ack.ack, ack.len, ack.flags, ack.window), (500, 0, ACK, 100_000));
    assert_eq!((server.all(450), server.endpoint.deadline()), (vec![], None));
}

#[test]
fn a_fin_is_acknowledged_at_once_and_is_no_data() {
    let (mut client, mut server) = open(&config());
    client.writes(200, 500);
    server.receives(250, client.sends(200));
    assert!(server.endpoint.peer_closed());
    // RFC 9293, section 3.4: the FIN has its own sequence number.
    assert_eq!((server.sends(250).ack, server.endpoint.received()), (501, 500));
}

#[test]
fn a_fin_out_of_order_closes_when_what_was_missing_has_arrived() {
    let (mut client, mut server) = open(&config());
    client.writes(200, 2500);
    let [first, second, third] = client.all(200)[..] else { panic!("three segments") };
    server.receives(250, third);
    assert!(!server.endpoint.peer_closed());
    let ack = server.sends(250);
    assert_eq!((ack.ack, ack.sack.ranges(0).collect::<Vec<_>>()), (0, vec![(2000, 2501)]));
    server.receives(260, first);
    assert_eq!(server.endpoint.received(), 1000);
    server.receives(270, second);
    assert!(server.endpoint.peer_closed());
    assert_eq!(server.endpoint.received(), 2500);
}

#[test]
fn blocks_are_reported_only_where_the_recovery_looks_at_them() {
    for (recovery, blocks) in
        [(RecoveryKind::NewReno, 0), (RecoveryKind::Sack1, 1), (RecoveryKind::SackRfc6675, 1)]
    {
        let (_, mut server) = open(&TcpConfig { recovery, ..config() });
        server.receives(250, Segment { seq: 1000, len: 1000, flags: ACK, ..Segment::default() });
        assert_eq!(server.sends(250).sack.len(), blocks, "{recovery:?}");
    }
}

#[test]
fn an_ack_behind_lost_data_has_the_number_of_the_next_byte_and_is_not_echoed() {
    let (mut client, mut server) = open(&TcpConfig { timestamps: true, ..config() });
    // The client's request is lost, but not the ACK after it.
    client.writes(200, 500);
    assert_eq!(client.sends(200).seq_len(), 501);
    server.writes(210, 1000);
    let data = server.sends(210);
    client.receives(260, data);
    let ack = client.sends(700);
    assert_eq!((ack.seq, ack.seq_len(), ack.timestamps.tsval), (501, 0, Timestamps::tsval_at(ms(700))));
    // RFC 7323, section 4.3: TS.Recent follows only segments with "SEG.SEQ <= Last.ACK.sent".
    server.receives(750, ack);
    server.writes(800, 1000);
    assert_eq!(server.sends(800).timestamps.tsecr, data.timestamps.tsecr);
}

#[test]
fn an_end_that_never_wrote_has_no_sender_and_expects_no_acks() {
    let (client, mut server) = open(&config());
    assert!(client.endpoint.sender().is_none());
    server.receives(200, Segment { ack: 700, flags: ACK, ..Segment::default() });
    assert_eq!((server.all(200), server.endpoint.deadline()), (vec![], None));
    assert!(!server.expires(10_000));
}

#[test]
fn a_timer_that_expires_says_so_and_sends_again() {
    let (mut client, _) = open(&config());
    client.writes(200, 500);
    client.sends(200);
    assert!(!client.expires(1199));
    assert!(client.expires(1200));
    let retransmitted = client.endpoint.transmit(ms(1200), &client.config).expect("the segment");
    assert!(
        retransmitted.retransmission && retransmitted.segment.seq == 0 && retransmitted.segment.flags.fin
    );
}

#[test]
fn a_marker_hears_where_in_its_document_a_segment_is() {
    let (mut client, _) = open(&config());
    let config = client.config.clone();
    let ack = Outgoing {
        segment: Segment { flags: ACK, ..Segment::default() },
        retransmission: false,
        ecn: Ecn::NOT_ECT,
    };
    assert_eq!(client.endpoint.sender_state(&ack, &config).kind, PacketKind::Ack(None));
    client.endpoint.write(ms(200), 2000, Some(FlowContext::document(2000)), true, &config);
    client.all(200);
    let segment = Segment { seq: 1000, len: 1000, flags: ACK, ..Segment::default() };
    let sending =
        client.endpoint.sender_state(&Outgoing { segment, retransmission: true, ecn: Ecn::NOT_ECT }, &config);
    assert_eq!((sending.offset, sending.segment, sending.window), (1000, 1000, 10_000));
    assert_eq!(sending.context, Some(FlowContext::document(2000)));
    assert!(sending.retransmission && !sending.recovering);
    assert_eq!(sending.kind, PacketKind::Data);
    let syn = Flags { syn: true, ..Flags::default() };
    let opening = Outgoing {
        segment: Segment { flags: syn, ..Segment::default() },
        retransmission: false,
        ecn: Ecn::NOT_ECT,
    };
    assert_eq!(client.endpoint.sender_state(&opening, &config).kind, PacketKind::Syn);
}

/// Delivers segments in both directions after 50 ms each, except the segments with an index in `lost`; see [`transfer_over`].
fn transfer(config: &TcpConfig, bytes: u64, lost: &[usize]) -> (u64, u64, Time) {
    transfer_over(config, bytes, &|number| if lost.contains(&number) { vec![] } else { vec![50] })
}

/// Delivers segments in both directions. `arrives_ms` receives the index of a segment and returns the delays of its copies. Returns the
/// number of bytes received, the maximum number of bytes in flight, and the end time.
fn transfer_over(config: &TcpConfig, bytes: u64, arrives_ms: &dyn Fn(usize) -> Vec<u64>) -> (u64, u64, Time) {
    let mut ends = [End::new(Role::Active, config.clone()), End::new(Role::Passive, config.clone())];
    ends[0].writes(0, bytes);
    let mut flying: Vec<(Time, usize, Segment)> = Vec::new();
    let (mut now, mut sent, mut most_out) = (Time::ZERO, 0, 0);
    for step in 0.. {
        assert!(step < 20_000, "it never ends");
        for (side, end) in ends.iter_mut().enumerate() {
            while let Some(out) = end.endpoint.transmit(now, config) {
                let arrivals = arrives_ms(sent).into_iter().map(|ms| now + Span::from_millis(ms));
                flying.extend(arrivals.map(|at| (at, 1 - side, out.segment)));
                let snd_una = end.endpoint.sender().map_or(0, |sender| sender.snd_una());
                most_out = most_out.max((out.segment.seq + out.segment.seq_len()).saturating_sub(snd_una));
                sent += 1;
                assert!(sent < 10_000, "it never stops");
            }
        }
        let timers = ends.iter().filter_map(|end| end.endpoint.deadline());
        let Some(next) = flying.iter().map(|f| f.0).chain(timers).min() else { break };
        assert!(next >= now, "time goes on");
        now = next;
        if let Some(first) = flying.iter().position(|f| f.0 == now) {
            let (_, side, segment) = flying.remove(first);
            ends[side].endpoint.on_segment(now, &segment, config);
        } else {
            ends.iter_mut().for_each(|end| _ = end.endpoint.on_timer(now, config));
        }
    }
    assert!(ends[0].endpoint.sender().is_some_and(|sender| sender.is_done()));
    (ends[1].endpoint.received(), most_out, now)
}

const RECOVERIES: [RecoveryKind; 7] = [
    RecoveryKind::Tahoe,
    RecoveryKind::Reno,
    RecoveryKind::NewReno,
    RecoveryKind::Sack1,
    RecoveryKind::SackRfc6675,
    RecoveryKind::NewRenoRfc6582,
    RecoveryKind::Rack,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_lost_everything_arrives_and_no_more_is_out_than_was_allowed(
        segments in 1u64..60, short in 0u64..1000, lost in prop::collection::vec(0usize..120, 0..30), window in 4u64..40
    ) {
        let bytes = segments * 1000 - short;
        let heartbeat = DelayedAck { heartbeat: true, ..config().delayed_ack.unwrap() };
        for recovery in RECOVERIES {
            for (limited_transmit, delayed_ack) in [(false, None), (true, config().delayed_ack), (true, Some(heartbeat))] {
                let receive_window = window * 1000;
                let config = TcpConfig { recovery, receive_window, limited_transmit, delayed_ack, ..config() };
                let (received, most_out, _) = transfer(&config, bytes, &lost);
                prop_assert_eq!(received, bytes, "{:?}", recovery);
                prop_assert!(most_out <= receive_window + 1, "{:?}: {} bytes out", recovery, most_out);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_late_or_twice_everything_arrives_once(
        segments in 1u64..60, short in 0u64..1000,
        odd in prop::collection::btree_map(0usize..120, prop::collection::vec(1u64..400, 0..4), 0..60)
    ) {
        let bytes = segments * 1000 - short;
        for recovery in RECOVERIES {
            for delayed_ack in [None, config().delayed_ack] {
                let config = TcpConfig { recovery, delayed_ack, ..config() };
                let arrives_ms = |number| odd.get(&number).cloned().unwrap_or_else(|| vec![50]);
                let (received, ..) = transfer_over(&config, bytes, &arrives_ms);
                prop_assert_eq!(received, bytes, "{:?}", recovery);
            }
        }
    }
}

#[test]
fn a_connection_of_which_every_segment_comes_twice_carries_every_byte_once() {
    // SYN, SYN-ACK, data, ACKs and FIN: each copy arrives with its original, shortly after it, or after later segments.
    for second in [50, 57, 240] {
        for recovery in RECOVERIES {
            let config = TcpConfig { recovery, ..config() };
            let (received, ..) = transfer_over(&config, 30_000, &|_| vec![50, second]);
            assert_eq!(received, 30_000, "{recovery:?}");
        }
    }
}

#[test]
fn without_loss_a_transfer_takes_the_round_trips_of_slow_start() {
    // The handshake takes one round trip of 100 ms, then 10, 20 and 40 of 70 segments take one round trip each, and the last data half of
    // one.
    let config = TcpConfig { delayed_ack: None, ..config() };
    for recovery in RECOVERIES {
        let (received, most_out, end) = transfer(&TcpConfig { recovery, ..config.clone() }, 70_000, &[]);
        assert_eq!((received, most_out, end), (70_000, 40_001, ms(400)), "{recovery:?}");
    }
}
