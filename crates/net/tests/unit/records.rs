//! Comparison of Linux's queues with records of a kernel's queues, packet by packet.
//!
//! A record is a text. Its first line is `#` and the text of the queue, its second line names the columns, and every other line is a packet
//! in the order of arrival: `arrival_ns,flow,size_bytes,ecn,fate,marked`. `ecn` is 1 for ECT(0) and 0 for Not-ECT; `fate` is the time of the
//! `dequeue` that returned the packet, ns, or `drop`, or `drop@` and the time of the drop, ns; `marked` is 1 if the packet left with CE. The
//! queue gets the same arrivals, and a wire of 10 Mbit/s calls `dequeue`. Packets dropped and marked must be the same; times are for readers.

use catnip_base::{Rate, Time};
use catnip_net::queue::{AnyQueue, PortContext, QueueDiscipline, QueueKind, QueueSpec};
use catnip_net::shape::RateSpec;
use catnip_net::{DropReason, Ecn, Packet, PacketEvents, Route};
use std::fmt;

/// Records, each with a name for messages.
///
/// In the one by hand, ten packets of 1250 bytes arrive at once, and one leaves every millisecond. The target is 976 ticks of 1024 ns and the
/// interval 1953. The packet at 1 ms (tick 976) is late, so that signals begin after tick 2929: not with the packet at 3 ms (tick 2929), but
/// with that at 4 ms (3906), which is marked. The next signal is due 1953 · 65 535 / 65 536 ticks later, at 5858. The packet at 6 ms (5859) is
/// not ECN-capable and is dropped. The one behind it leaves at the same time and sets the next signal to 5858 + 1953 · 32 769 / 65 536 =
/// 6834; but at 7 ms (6835) only 1250 bytes wait, which ends dropping.
const RECORDS: &[(&str, &str)] = &[("worked out by hand", include_str!("data/linux-codel-by-hand.csv"))];

#[test]
fn linux_queues_drop_and_mark_what_the_records_say() {
    for (name, text) in RECORDS {
        let record = Record::read(text);
        let differs: Vec<String> = record.differences().map(|difference| difference.to_string()).collect();
        assert!(differs.is_empty(), "{name}, {}: {}", record.queue, differs.join("; "));
    }
}

#[test]
fn a_record_with_another_fate_is_told_from_ours() {
    let (_, by_hand) = RECORDS[0];
    for (row, other) in
        [("0,1,1250,1,4000000,1", "0,1,1250,1,4000000,0"), ("drop@6000000", "6000000"), ("2000000", "drop")]
    {
        assert!(by_hand.contains(row), "{row}");
        let changed = by_hand.replacen(row, other, 1);
        assert_eq!(Record::read(&changed).differences().count(), 1, "{other}");
    }
}

const WIRE: Rate = Rate::from_bits_per_second(10_000_000).unwrap();

/// Packet of a record, and its fate.
struct Row {
    arrival: Time,
    packet: Packet,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Left { marked: bool },
    Dropped,
}

struct Record {
    queue: QueueSpec,
    rows: Vec<Row>,
}

/// Packet whose fate differs, by its line in the record.
struct Difference {
    line: usize,
    theirs: Fate,
    ours: Option<Fate>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, theirs, ours } = self;
        match ours {
            Some(ours) => write!(f, "line {line}: {theirs:?} there, {ours:?} here"),
            None => write!(f, "line {line}: {theirs:?} there, no fate here"),
        }
    }
}

/// Number of lines before the first packet.
const HEADER: usize = 2;

impl Record {
    fn read(text: &str) -> Self {
        let mut lines = text.lines();
        let queue = lines.next().and_then(|line| line.strip_prefix("# ")).expect("a queue").parse().unwrap();
        let rows = (0..).zip(lines.skip(HEADER - 1)).map(|(number, line)| Row::read(number, line)).collect();
        Self { queue, rows }
    }

    /// Returns the packets that the queue drops or marks otherwise than the record.
    fn differences(&self) -> impl Iterator<Item = Difference> {
        let ours = self.drive();
        let pairs = (HEADER + 1..).zip(self.rows.iter().zip(ours));
        pairs.filter(|(_, (row, ours))| Some(row.fate) != *ours).map(|(line, (row, ours))| Difference {
            line,
            theirs: row.fate,
            ours,
        })
    }

    /// Returns the fates of the packets in a queue of the simulator.
    fn drive(&self) -> Vec<Option<Fate>> {
        let rate = RateSpec::Constant(WIRE);
        let mut line = Line {
            queue: self.queue.build(&PortContext::new(&rate, 1, 0)),
            free_at: Time::ZERO,
            fates: Fates(vec![None; self.rows.len()]),
        };
        for row in &self.rows {
            line.send_until(row.arrival);
            line.queue.enqueue(row.arrival, row.packet, &mut line.fates);
            line.free_at = line.free_at.max(row.arrival);
        }
        line.send_until(Time::NEVER);
        line.fates.0
    }
}

impl Row {
    fn read(number: u32, line: &str) -> Self {
        let [arrival, flow, len, ecn, fate, marked] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("six columns, not {line}")
        };
        let arrival = Time::from_nanos(arrival.parse().unwrap());
        let ecn = if ecn == "1" { Ecn::ECT_0 } else { Ecn::NOT_ECT };
        let fate =
            if fate.starts_with("drop") { Fate::Dropped } else { Fate::Left { marked: marked == "1" } };
        let packet = Packet::new(arrival, Route::default(), len.parse().unwrap(), number);
        Self { arrival, packet: Packet { flow: flow.parse().unwrap(), ecn, ..packet }, fate }
    }
}

/// Queue before a wire.
struct Line {
    queue: AnyQueue,
    free_at: Time,
    fates: Fates,
}

impl Line {
    /// Sends what the wire can begin to send before `until`. A packet that arrives as the wire becomes free is in the queue by then.
    fn send_until(&mut self, until: Time) {
        while self.free_at < until {
            let Some(packet) = self.queue.dequeue(self.free_at, &mut self.fates) else { return };
            self.fates.0[packet.body as usize] = Some(Fate::Left { marked: packet.ecn == Ecn::CE });
            self.free_at += WIRE.time_of(packet.len.into());
        }
    }
}

/// Fates of packets by number.
struct Fates(Vec<Option<Fate>>);

impl PacketEvents for Fates {
    fn dropped(&mut self, _now: Time, packet: Packet, _reason: DropReason) {
        self.0[packet.body as usize] = Some(Fate::Dropped);
    }
}
