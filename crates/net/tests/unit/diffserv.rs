//! Markers, edges and queues of differentiated services beside a model, packet by packet.
//!
//! `tests/diffserv_model.py` is the model, which follows the words of the DiffServ paper and not our code. `data/diffserv-sent.csv` has
//! the packets that two hosts sent in the simulator (`crates/sim/tests/unit/diffserv.rs`), with the state of their senders, and
//! `data/diffserv.csv` what the model does with each: nine marks, nine fates in three-priority RED, one in drop tail, and the waits at
//! three kinds of source. Both sides draw the same random numbers.

use catnip_base::{Rng, Span, Stream, Time};
use catnip_net::mark::{AnyMarker, MarkerKind, MarkerSpec, PacketKind, PacketMarker, SenderState, Service};
use catnip_net::queue::{PortContext, QueueKind, QueueSpec};
use catnip_net::shape::RateSpec;
use catnip_net::stage::{AnyStage, Stage, StageKind, StageSpec};
use catnip_net::{DropReason, Dscp, Next, Packet, PacketEvents, Port, Priority, Route};
use std::collections::BTreeMap;

const SENT: &str = include_str!("data/diffserv-sent.csv");
const MODEL: &str = include_str!("data/diffserv.csv");
const SEED: u64 = 1;

/// Marker of the sources and stage of the edge of each scheme, in the order of the model's marks. Empty for none.
const SCHEMES: [(&str, &str); 9] = [
    ("app", ""),
    ("tcp-state", ""),
    ("tcp-state-random", ""),
    ("tcp-state:high=2,med=6", ""),
    ("", "tb-marker:high=250kbit/6000B,med=500kbit/6000B"),
    ("app", "policer:high=250kbit/6000B,med=110kbit/6000B"),
    ("app", "policer:high=250kbit/6000B,med=250kbit/6000B,action=drop"),
    ("tcp-state", "policer:high=250kbit/6000B,med=500kbit/6000B"),
    ("", ""),
];

/// Queues of a source, with the place of their scheme in [`SCHEMES`], in the order of the model's columns. The model lets 63 packets wait.
const SOURCES: [(&str, usize); 3] = [
    ("shaper:64,high=250kbit/6000B,med=110kbit/6000B", 0),
    ("scheduler:64,high=250kbit/6000B,med=500kbit/6000B", 1),
    ("scheduler:64,high=250kbit/6000B,med=250kbit/6000B", 2),
];
const LINE: &str = "1.6Mbit";
const ACCESS: &str = "2Mbit";

/// Packet of the record, with the state of its sender.
struct Sent {
    host: usize,
    connection: u32,
    end: u32,
    service: Service,
    sending: SenderState,
    /// Number of the data that a pure ACK answers.
    answers: Option<usize>,
    packet: Packet,
}

impl Sent {
    fn read(number: usize, line: &str) -> Self {
        let [ns, host, connection, end, service, kind, bytes, cwnd, rwnd, recovering, answers] =
            line.split(',').collect::<Vec<_>>()[..]
        else {
            panic!("eleven columns, not {line}")
        };
        let or_zero = |text: &str| if text.is_empty() { 0 } else { text.parse().expect("a window") };
        let connection = connection.parse().expect("a connection");
        let packet = Packet::new(
            Time::from_nanos(ns.parse().expect("a time")),
            Route::default(),
            bytes.parse().expect("a size"),
            number as u32,
        );
        Self {
            host: host.parse().expect("a host"),
            connection,
            end: u32::from(end == "server"),
            service: match service {
                "T" => Service::Highly,
                "W" => Service::Interactive,
                _ => Service::Other,
            },
            sending: SenderState {
                kind: match kind {
                    "S" => PacketKind::Syn,
                    "A" => PacketKind::Ack(None),
                    _ => PacketKind::Data,
                },
                segment: 1000,
                window: or_zero(cwnd),
                receive_window: or_zero(rwnd),
                recovering: recovering == "1",
                ..SenderState::default()
            },
            answers: answers.parse().ok(),
            packet: Packet { flow: connection as u16, ..packet },
        }
    }
}

fn record() -> Vec<Sent> {
    SENT.lines().skip(1).enumerate().map(|(number, line)| Sent::read(number, line)).collect()
}

/// Returns a column of the model.
fn column(place: usize) -> Vec<&'static str> {
    MODEL.lines().skip(1).map(|line| line.split(',').nth(place).expect("six columns")).collect()
}

/// Returns the model's letter for scheme `scheme` in a column.
fn letters(place: usize, scheme: usize) -> Vec<char> {
    column(place).iter().map(|letters| letters.chars().nth(scheme).expect("nine schemes")).collect()
}

/// Returns the packets as a scheme's sources and edges mark them; `None` for a packet that an edge drops.
fn marked(record: &[Sent], (marker, edge): (&str, &str)) -> Vec<Option<Packet>> {
    let marks = marks(record, marker);
    let spec: Option<StageSpec> = (!edge.is_empty()).then(|| edge.parse().expect("a stage"));
    let build = || spec.as_ref().map(|spec| spec.build(Rng::new(SEED, Stream::Before(0, 0))));
    let mut edges: [Option<AnyStage>; 2] = [build(), build()];
    let pairs = record.iter().zip(marks);
    pairs
        .map(|(sent, dscp)| {
            let mut packet = Packet { dscp, ..sent.packet };
            let edge = edges[sent.host].as_mut();
            edge.map_or(Ok(()), |edge| edge.pass(packet.arrived, &mut packet)).ok().map(|()| packet)
        })
        .collect()
}

/// Returns the marks of the sources.
fn marks(record: &[Sent], marker: &str) -> Vec<Dscp> {
    let spec: Option<MarkerSpec> = (!marker.is_empty()).then(|| marker.parse().expect("a marker"));
    let mut markers: BTreeMap<(u32, u32), AnyMarker> = BTreeMap::new();
    let mut marks: Vec<Dscp> = Vec::with_capacity(record.len());
    for sent in record {
        let mut sending = sent.sending;
        if let PacketKind::Ack(priority) = &mut sending.kind {
            *priority = sent.answers.map(|number| marks[number].priority());
        }
        let marker = markers.entry((sent.connection, sent.end)).or_insert_with(|| {
            let rng = || Rng::new(SEED, Stream::Connection(sent.connection)).branch(sent.end);
            spec.as_ref().map_or(AnyMarker::default(), |spec| spec.build(sent.service, &rng))
        });
        // Without a marker all are in one class, as the model has it.
        let mut packet = sent.packet;
        marker.mark(packet.arrived, Some(&sending), &mut packet);
        marks.push(packet.dscp);
    }
    marks
}

/// Numbers of dropped packets.
#[derive(Default)]
struct Drops(Vec<u32>);

impl PacketEvents for Drops {
    fn dropped(&mut self, _now: Time, packet: Packet, _reason: DropReason) {
        self.0.push(packet.body);
    }
}

/// Sends packets through a port. Returns how long each waits for the start of its transmission, by number; `None` for dropped ones.
fn waits(queue: &str, rate: &str, packets: &[Packet]) -> BTreeMap<u32, Option<Span>> {
    let rate = rate.parse().expect("a rate");
    let wire = RateSpec::Constant(rate);
    let queue = queue.parse::<QueueSpec>().expect("a queue").build(&PortContext::new(&wire, SEED, 0));
    let mut port = Port::new(queue, wire.build(), Span::ZERO);
    let (mut drops, mut waits) = (Drops::default(), BTreeMap::new());
    let arrived: BTreeMap<u32, Time> = packets.iter().map(|packet| (packet.body, packet.arrived)).collect();
    let ends = packets.iter().map(|packet| (packet.arrived, Some(*packet))).chain([(Time::NEVER, None)]);
    for (now, packet) in ends {
        while let Next::Deliver(at, packet) = port.poll(now, &mut drops) {
            let wait = at.since(arrived[&packet.body] + rate.time_of(packet.len.into()));
            waits.insert(packet.body, Some(wait));
        }
        packet.into_iter().for_each(|packet| port.arrive(now, packet, &mut drops));
    }
    waits.extend(drops.0.iter().map(|&number| (number, None)));
    assert_eq!(waits.len(), packets.len(), "each packet leaves or is dropped");
    waits
}

fn letter(priority: Priority) -> char {
    match priority {
        Priority::High => 'H',
        Priority::Medium => 'M',
        Priority::Low => 'L',
    }
}

/// Packets of scheme `scheme` with the marks of the model, in the class of our marks, so that a queue is tested apart from the markers.
fn as_the_model_marks(record: &[Sent], scheme: usize) -> Vec<Option<Packet>> {
    let modelled = letters(0, scheme).into_iter().map(|letter| match letter {
        'H' => Some(Priority::High),
        'M' => Some(Priority::Medium),
        'L' => Some(Priority::Low),
        _ => None,
    });
    let pairs = record.iter().zip(modelled);
    pairs
        .map(|(sent, priority)| {
            let dscp = Dscp::assured(sent.service.class(), priority?);
            Some(Packet { dscp, ..sent.packet })
        })
        .collect()
}

#[test]
fn every_packet_is_marked_as_the_model_marks_it() {
    let record = record();
    assert!(record.len() > 2500 && record.len() == MODEL.lines().count() - 1);
    for (scheme, spec) in SCHEMES.into_iter().enumerate() {
        let (ours, theirs) = (marked(&record, spec), letters(0, scheme));
        for (sent, (ours, theirs)) in record.iter().zip(ours.into_iter().zip(theirs)) {
            let ours = ours.map_or('-', |packet| letter(packet.dscp.priority()));
            assert_eq!(ours, theirs, "{spec:?}, packet {}: {:?}", sent.packet.body, sent.sending);
        }
    }
}

#[test]
fn drop_tail_and_red_drop_the_packets_that_the_model_drops() {
    let record = record();
    for scheme in 0..SCHEMES.len() {
        let packets = as_the_model_marks(&record, scheme);
        let arriving: Vec<Packet> = packets.iter().flatten().copied().collect();
        let compare = |queue: &str, theirs: Vec<char>| {
            let waits = waits(queue, LINE, &arriving);
            for (number, theirs) in (0..).zip(theirs) {
                let ours = waits.get(&number).map_or('-', |wait| if wait.is_some() { 'o' } else { 'x' });
                assert_eq!(ours, theirs, "{queue}, scheme {scheme}, packet {number}");
            }
        };
        compare("rio:40", letters(2, scheme));
        if packets.iter().all(Option::is_some) {
            compare("drop-tail:41", letters(1, 0));
        }
    }
}

#[test]
fn packets_wait_at_their_source_as_long_as_in_the_model() {
    let record = record();
    for (place, (queue, scheme)) in SOURCES.into_iter().enumerate() {
        let (packets, theirs) = (as_the_model_marks(&record, scheme), column(3 + place));
        for host in [0, 1] {
            let of_host = packets.iter().zip(&record).filter(|(_, sent)| sent.host == host);
            let arriving: Vec<Packet> = of_host.filter_map(|(packet, _)| *packet).collect();
            for (number, wait) in waits(queue, ACCESS, &arriving) {
                let ours = wait.map_or("x".to_string(), |wait| (wait.as_nanos() / 1000).to_string());
                assert_eq!(ours, theirs[number as usize], "{queue}, packet {number} of host {host}");
            }
        }
    }
}
