use crate::Packet;
use crate::schedule::{Scheduled, between, data_lines, fields};
use crate::shape::Trace;
use catnip_base::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Recorded packet trains of a cellular link, as CellReplay (NSDI 2025) plays them.
///
/// A packet that comes when the link has been idle starts a train. Its delay is interpolated between those of the recorded trains, and the
/// packets that follow it have the delivery opportunities of the train, which was recorded with little load. Packets that need more
/// opportunities than the train has wait behind it for those that were recorded with a saturated link.
#[derive(Clone, Debug, PartialEq)]
pub struct CellTrains {
    /// Recorded trains in the order of their times; at least two.
    trains: Arc<[Train]>,
    /// Additional delay by packet length; empty without any.
    size_offsets: Arc<[(u32, Span)]>,
    /// Time without a packet after which the next one starts a train.
    idle: Span,
    /// Capacity of one opportunity, bytes.
    bytes: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Train {
    at: Time,
    delay: Span,
    /// Times of the opportunities since the first packet of the train came, in ascending order. The first packet uses the first one.
    opportunities: Box<[Span]>,
}

impl CellTrains {
    /// Capacity of an opportunity in the recordings of CellReplay, bytes.
    pub const OPPORTUNITY_BYTES: u32 = 1400;

    /// Reads trains: one per line, with its time, the delay of its first packet, and its opportunities since this packet came, all in
    /// milliseconds. The last time is the period with which the recording repeats. An error names the line.
    pub fn parse(lines: &str, idle: Span, bytes: u32) -> Result<Self, String> {
        let mut trains: Vec<Train> = Vec::new();
        for (number, line) in data_lines(lines) {
            let invalid = |problem: &str| format!("line {number}: {line:?}: {problem}");
            let times: Option<Vec<Span>> = line.split_whitespace().map(Span::parse_recorded).collect();
            let Some([at, delay, opportunities @ ..]) = times.as_deref() else {
                return Err(invalid("expected a time, a delay and opportunities in milliseconds"));
            };
            if !opportunities.is_sorted() {
                return Err(invalid("opportunities must not decrease"));
            }
            let at = Time::ZERO + *at;
            if trains.last().is_some_and(|before| before.at >= at) {
                return Err(invalid("the times of trains must increase"));
            }
            trains.push(Train { at, delay: *delay, opportunities: opportunities.into() });
        }
        match &trains[..] {
            [] | [_] => Err("expected at least two trains".into()),
            trains => Ok(Self { trains: trains.into(), size_offsets: Arc::new([]), idle, bytes }),
        }
    }

    /// Adds the delay of packets by their length: lines with a length in bytes and a delay in milliseconds, interpolated in between. An error
    /// names the line.
    pub fn with_size_offsets(self, lines: &str) -> Result<Self, String> {
        let mut size_offsets: Vec<(u32, Span)> = Vec::new();
        for (number, line) in data_lines(lines) {
            let [len, offset] = fields(line);
            let offset = len.parse().ok().zip(Span::parse_recorded(offset));
            let is_ascending =
                |(len, _): &(u32, Span)| size_offsets.last().is_none_or(|before| before.0 < *len);
            let offset = offset.filter(is_ascending).ok_or_else(|| {
                format!("line {number}: {line:?}: expected a length in bytes, which increases, and a delay in milliseconds")
            })?;
            size_offsets.push(offset);
        }
        if size_offsets.is_empty() {
            return Err("no lengths".into());
        }
        Ok(Self { size_offsets: size_offsets.into(), ..self })
    }

    fn size_offset(&self, len: u32) -> Span {
        let above = self.size_offsets.partition_point(|(at, _)| *at <= len);
        match (above.checked_sub(1).map(|i| self.size_offsets[i]), self.size_offsets.get(above)) {
            (Some((low, from)), Some(&(high, to))) => {
                between(from, to, u64::from(len - low), u64::from(high - low))
            }
            (Some((_, last)), None) => last,
            (None, Some((_, first))) => *first,
            (None, None) => Span::ZERO,
        }
    }
}

/// Packets on the way to the queue of a port whose delays are those of recorded trains.
#[derive(Debug)]
pub struct Approach {
    cell: CellTrains,
    /// Index of the train that was recorded last before the current one began.
    index: usize,
    /// Time at which the current period of the recording began.
    cycle_starts: Time,
    /// Delay of the first packet of the current train; `None` before the first train.
    base_delay: Option<Span>,
    train_starts: Time,
    /// Index of the current opportunity of the train.
    opportunity: usize,
    unused_bytes: u32,
    /// Release of the previous packet by its train, and with the offset of its length, after which later packets come.
    last_of_train: Time,
    last: Time,
    /// Packets with the times of their releases, and true for those that pass the queue if it is empty.
    packets: VecDeque<(Packet, bool)>,
}

impl Approach {
    /// Creates the approach of one port.
    pub fn new(cell: CellTrains) -> Self {
        Self {
            cell,
            index: 0,
            cycle_starts: Time::ZERO,
            base_delay: None,
            train_starts: Time::ZERO,
            opportunity: 0,
            unused_bytes: 0,
            last_of_train: Time::ZERO,
            last: Time::ZERO,
            packets: VecDeque::new(),
        }
    }

    /// Adds a packet that arrives at `at`.
    pub(crate) fn push(&mut self, at: Time, mut packet: Packet) {
        let (by_train, in_train) = self.release(at, packet.len);
        self.last_of_train = by_train;
        let offset = self.cell.size_offset(packet.len);
        let own = if by_train + offset >= self.last { by_train + offset } else { by_train };
        packet.arrived = own.max(self.last);
        self.packets.push_back((packet, in_train && own >= self.last));
        self.last = packet.arrived;
    }

    /// Removes the first packet if it is released by `now`. The result is true for a packet that passes the queue if it is empty.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<(Packet, bool)> {
        self.next_at().filter(|&at| at <= now).and_then(|_| self.packets.pop_front())
    }

    /// Returns the time of the next release.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.packets.front().map(|(packet, _)| packet.arrived)
    }

    /// Returns the packets that have not been released.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().map(|(packet, _)| packet)
    }

    /// Returns the time at which the train releases a packet that arrives at `at`, and false if the packet comes after the train.
    fn release(&mut self, at: Time, len: u32) -> (Time, bool) {
        let bytes = self.cell.bytes;
        let base_delay = match self.base_delay {
            Some(base) if at + base <= self.last_of_train + self.cell.idle => base,
            _ => {
                let base = self.start_train(at);
                self.unused_bytes = bytes.saturating_sub(len);
                return (at + base, true);
            }
        };
        let since = at.since(self.train_starts);
        let opportunities = &self.cell.trains[self.index].opportunities;
        while opportunities.get(self.opportunity).is_some_and(|opportunity| *opportunity < since) {
            self.opportunity += 1;
            self.unused_bytes = bytes;
        }
        if self.unused_bytes < len {
            // A packet that is longer than an opportunity takes several.
            self.opportunity += len.div_ceil(bytes) as usize;
            self.unused_bytes = len.div_ceil(bytes) * bytes;
        }
        self.unused_bytes -= len;
        match opportunities.get(self.opportunity) {
            Some(&opportunity) => (at + base_delay + opportunity.saturating_sub(since), true),
            None => (at + opportunities.last().map_or(base_delay, |last| base_delay.max(*last)), false),
        }
    }

    /// Starts a train with a packet that arrives at `at`, and returns its delay.
    fn start_train(&mut self, at: Time) -> Span {
        let trains = &self.cell.trains;
        let period = trains[trains.len() - 1].at.since(Time::ZERO);
        let cycles = at.since(self.cycle_starts).in_units_of(period);
        if cycles > 0 {
            self.cycle_starts += period * cycles;
        }
        let phase = Time::ZERO + at.since(self.cycle_starts);
        self.index = trains.partition_point(|train| train.at <= phase).saturating_sub(1);
        let [from, to] = [&trains[self.index], &trains[self.index + 1]];
        let past = phase.since(from.at).as_nanos();
        let base = between(from.delay, to.delay, past, to.at.since(from.at).as_nanos());
        self.base_delay = Some(base);
        self.train_starts = at;
        self.opportunity = 0;
        base
    }
}

/// Opportunities and trains of a cellular link, with the names of their files.
#[derive(Clone, Debug, PartialEq)]
pub struct CellLink {
    /// Notation from which the link was read.
    pub(crate) text: Arc<str>,
    /// Trains, recorded with little load.
    pub(crate) trains: CellTrains,
    /// Opportunities, recorded with a saturated link.
    pub(crate) saturated: Arc<Trace>,
}
