use crate::Scoreboard;
use catnip_base::Time;
use std::collections::VecDeque;

/// What was sent and is not acknowledged: one record per segment, numbered in the order of their first transmission, and what of
/// them is thought to be in the network.
#[derive(Debug, Default)]
pub(super) struct Flight {
    records: VecDeque<Record>,
    /// The number of the first record.
    first: u64,
    /// Where the first record begins: the first byte not acknowledged.
    una: u64,
    /// What the other side has reported.
    board: Scoreboard,
    /// By the time of their last transmission: those that may still be found lost, and some that no longer may.
    by_time: VecDeque<(Time, u64)>,
    /// No record below this number waits to be sent again.
    hint: u64,
    sacked: u32,
    lost: u32,
    /// Lost segments whose retransmission is out.
    resent: u32,
}

/// A segment that is out, or thought to be lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Behind its last byte, which may be a FIN.
    pub(super) end: u64,
    /// When it was sent last.
    pub(super) sent: Time,
    /// The other side has it.
    is_sacked: bool,
    is_lost: bool,
    /// Its retransmission is out.
    is_resent: bool,
    /// It was sent more than once.
    pub(super) was_resent: bool,
}

/// A segment that has arrived, by a cumulative or a selective acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) number: u64,
    pub(super) start: u64,
    pub(super) record: Record,
    /// It was reported before.
    pub(super) is_old: bool,
}

impl Flight {
    /// Segments that are not acknowledged, reported or not.
    pub(super) fn len(&self) -> u32 {
        self.records.len() as u32
    }

    /// Segments in the network (RFC 6675's pipe): those that were sent, less those that were reported or count as lost, and again those
    /// of the lost that were sent again.
    #[inline]
    pub(super) fn in_network(&self) -> u32 {
        (self.len() + self.resent).saturating_sub(self.sacked + self.lost)
    }

    pub(super) fn sacked(&self) -> u32 {
        self.sacked
    }

    pub(super) fn lost(&self) -> u32 {
        self.lost
    }

    pub(super) fn resent(&self) -> u32 {
        self.resent
    }

    /// The first byte not acknowledged.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Behind the highest byte that is known to have arrived (RACK.fack).
    pub(super) fn fack(&self) -> u64 {
        self.board.ranges().last().map_or(self.una, |range| range.1)
    }

    /// The number of the first record and when it was sent last.
    pub(super) fn head(&self) -> Option<(u64, Time)> {
        self.records.front().map(|record| (self.first, record.sent))
    }

    /// The number of the first record, or of the next one.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the newest record.
    pub(super) fn newest(&self) -> Option<u64> {
        let count = self.records.len() as u64;
        (count > 0).then(|| self.first + count - 1)
    }

    /// Where the record of this number begins and ends.
    pub(super) fn range(&self, number: u64) -> (u64, u64) {
        let at = (number - self.first) as usize;
        let start = if at == 0 { self.una } else { self.records[at - 1].end };
        (start, self.records[at].end)
    }

    /// Does any record remain that was sent more than once?
    pub(super) fn has_resent(&self) -> bool {
        self.resent > 0 || self.records.front().is_some_and(|record| record.was_resent)
    }

    /// A new segment leaves.
    #[inline]
    pub(super) fn push(&mut self, now: Time, end: u64) {
        self.by_time.push_back((now, self.first + self.records.len() as u64));
        self.records.push_back(Record {
            end,
            sent: now,
            is_sacked: false,
            is_lost: false,
            is_resent: false,
            was_resent: false,
        });
    }

    /// A segment that was sent before leaves again.
    pub(super) fn resend(&mut self, now: Time, number: u64) {
        let record = &mut self.records[(number - self.first) as usize];
        record.sent = now;
        record.was_resent = true;
        self.resent += u32::from(!record.is_resent);
        record.is_resent = true;
        self.by_time.push_back((now, number));
    }

    /// The lowest segment that is lost and not out again.
    pub(super) fn next_lost(&mut self) -> Option<u64> {
        if self.lost == 0 {
            return None;
        }
        let from = self.hint.max(self.first);
        let waits = |record: &Record| record.is_lost && !record.is_resent;
        let found = self.records.iter().skip((from - self.first) as usize).position(waits);
        self.hint = found.map_or(self.first + self.records.len() as u64, |at| from + at as u64);
        found.map(|_| self.hint)
    }

    /// The other side reports this range: tells of each segment that lies in it and was not reported before.
    pub(super) fn report(&mut self, start: u64, end: u64, mut tell: impl FnMut(Arrived)) {
        let Self { records, first, board, una, sacked, lost, resent, .. } = self;
        board.add_and_tell(start, end, |from, to| {
            let mut at = records.partition_point(|record| record.end <= from);
            while let Some(record) = records.get(at).copied().filter(|record| record.end <= to) {
                let begins = if at == 0 { *una } else { records[at - 1].end };
                // What is reported of a segment in two parts is told of with neither, and with the cumulative one.
                if begins >= from {
                    *sacked += 1;
                    *lost -= u32::from(record.is_lost);
                    *resent -= u32::from(record.is_resent);
                    records[at] = Record { is_sacked: true, is_lost: false, is_resent: false, ..record };
                    tell(Arrived { number: *first + at as u64, start: begins, record, is_old: false });
                }
                at += 1;
            }
        });
    }

    /// Everything before `una` is acknowledged: tells of each segment of it.
    pub(super) fn acknowledge(&mut self, una: u64, mut tell: impl FnMut(Arrived)) {
        self.board.advance(una);
        while self.records.front().is_some_and(|record| record.end <= una) {
            let Some(record) = self.records.pop_front() else { break };
            self.sacked -= u32::from(record.is_sacked);
            self.lost -= u32::from(record.is_lost);
            self.resent -= u32::from(record.is_resent);
            tell(Arrived { number: self.first, start: self.una, record, is_old: record.is_sacked });
            self.una = record.end;
            self.first += 1;
        }
        // A part of a segment.
        self.una = una;
    }

    /// Goes through those that were sent last no later than what has arrived of all the latest, oldest first; `waits` says how long
    /// each has yet until it counts as lost, if it has. Those that have none are lost; `Some`: the longest of the others. `after`
    /// says whether what has arrived left after a segment that was sent then and ends there. Tells the number of each that is lost.
    pub(super) fn find_lost<T: Ord>(
        &mut self,
        after: impl Fn(Time, u64) -> bool,
        waits: impl Fn(Time) -> Option<T>,
        mut tell: impl FnMut(u64),
    ) -> Option<T> {
        let mut longest = None;
        let mut at = 0;
        while let Some(&(sent, number)) = self.by_time.get(at) {
            let index = number.checked_sub(self.first).map(|index| index as usize);
            let record = index.and_then(|index| self.records.get(index)).copied();
            let candidate =
                record.filter(|it| it.sent == sent && !it.is_sacked && (!it.is_lost || it.is_resent));
            let Some(record) = candidate else {
                // Nothing before it stays, most of the time.
                self.by_time.remove(at);
                continue;
            };
            if !after(record.sent, record.end) {
                break;
            }
            match waits(record.sent) {
                None => {
                    self.mark_lost(number);
                    tell(number);
                    self.by_time.remove(at);
                }
                wait => {
                    longest = longest.max(wait);
                    at += 1;
                }
            }
        }
        longest
    }

    /// The timer has expired: all that was not reported is lost, but for what `spares` tells to leave. If the first one was reported,
    /// the other side has taken it back (RFC 2018, section 8), and no report counts.
    pub(super) fn lose_all(&mut self, spares: impl Fn(Time) -> bool, mut tell: impl FnMut(u64)) {
        if self.records.front().is_some_and(|record| record.is_sacked) {
            self.records.iter_mut().for_each(|record| record.is_sacked = false);
            self.sacked = 0;
            self.board.clear();
        }
        for at in 0..self.records.len() {
            let record = self.records[at];
            if !record.is_sacked && (at == 0 || !spares(record.sent)) {
                if !record.is_lost || record.is_resent {
                    tell(self.first + at as u64);
                }
                self.mark_lost(self.first + at as u64);
            }
        }
    }

    /// Nothing was lost after all. What was thought to be is not looked at again, as in Linux: the timers answer for it.
    pub(super) fn unmark(&mut self) {
        self.records.iter_mut().for_each(|record| record.is_lost = false);
        self.lost = 0;
    }

    fn mark_lost(&mut self, number: u64) {
        let record = &mut self.records[(number - self.first) as usize];
        self.resent -= u32::from(std::mem::take(&mut record.is_resent));
        self.lost += u32::from(!std::mem::replace(&mut record.is_lost, true));
        self.hint = self.hint.min(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGMENT: u64 = 100;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    /// What the counters stand for, counted.
    fn counted(flight: &Flight) -> [u32; 3] {
        let count = |of: fn(&Record) -> bool| flight.records.iter().filter(|it| of(it)).count() as u32;
        [count(|it| it.is_sacked), count(|it| it.is_lost), count(|it| it.is_resent)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn counts_are_those_of_the_records_whatever_happens(
            steps in prop::collection::vec((0u8..7, 0u64..40, 0u64..8), 1..200)
        ) {
            let (mut flight, mut max, mut arrived) = (Flight::default(), 0, 0);
            for (now, (step, place, size)) in steps.into_iter().enumerate() {
                let now = now as u64;
                match step {
                    0 | 1 => {
                        max += SEGMENT;
                        flight.push(at(now), max);
                    }
                    2 => {
                        let start = (flight.una() + (1 + place) * SEGMENT).min(max);
                        flight.report(start, (start + size * SEGMENT).min(max), |_| arrived += 1);
                    }
                    3 => {
                        let una = (flight.una() + size * SEGMENT).min(max);
                        flight.acknowledge(una, |it| arrived += u64::from(!it.is_old));
                        prop_assert_eq!(flight.una(), una);
                    }
                    4 => {
                        let sent_before = now.saturating_sub(place);
                        let waits = |sent: Time| (sent > at(sent_before)).then_some(sent);
                        let longest = flight.find_lost(|sent, _| sent < at(now), waits, |_| ());
                        prop_assert!(longest.is_none_or(|sent| sent > at(sent_before)));
                    }
                    5 => match flight.next_lost() {
                        Some(number) => flight.resend(at(now), number),
                        None => prop_assert!(flight.records.iter().all(|it| !it.is_lost || it.is_resent)),
                    },
                    _ if place == 0 => flight.lose_all(|_| size == 0, |_| ()),
                    _ if place == 1 => flight.unmark(),
                    _ => {}
                }
                let [sacked, lost, resent] = counted(&flight);
                prop_assert_eq!([flight.sacked(), flight.lost(), flight.resent()], [sacked, lost, resent]);
                prop_assert!(flight.fack() <= max);
                prop_assert!(flight.in_network() <= flight.len() + flight.resent());
            }
            flight.acknowledge(max, |it| arrived += u64::from(!it.is_old));
            prop_assert_eq!((flight.len(), flight.sacked(), flight.lost(), flight.resent()), (0, 0, 0, 0));
            prop_assert!(arrived >= max / SEGMENT, "each arrives once, or again after it was taken back");
        }
    }

    #[test]
    fn what_was_sent_before_the_latest_arrival_is_lost_once_its_time_is_over_and_the_rest_waits() {
        let mut flight = Flight::default();
        (1..=5).for_each(|n| flight.push(at(n), n * SEGMENT));
        flight.report(3 * SEGMENT, 4 * SEGMENT, |_| {});
        // The fourth has arrived, which left at 4: the fifth may not be lost, the first is, the others have yet 1 and 2.
        let wait = flight.find_lost(
            |sent, _| sent < at(4),
            |sent| sent.as_nanos().checked_sub(1).filter(|&wait| wait > 0),
            |number| assert_eq!(number, 0),
        );
        assert_eq!((wait, flight.lost(), flight.in_network()), (Some(2), 1, 3));
        assert_eq!(flight.next_lost(), Some(0));
        flight.resend(at(9), 0);
        assert_eq!((flight.next_lost(), flight.in_network()), (None, 4));
        // Its retransmission is lost in its turn.
        flight.find_lost(|_, _| true, |sent| (sent < at(9)).then_some(0), |_| ());
        assert_eq!((flight.next_lost(), flight.in_network()), (Some(0), 3));
    }

    #[test]
    fn a_segment_of_which_two_reports_tell_a_half_each_has_not_arrived_yet() {
        let mut flight = Flight::default();
        (1..=3).for_each(|n| flight.push(at(n), n * SEGMENT));
        let mut told = 0;
        flight.report(SEGMENT, SEGMENT + 50, |_| told += 1);
        flight.report(SEGMENT + 50, 2 * SEGMENT, |_| told += 1);
        assert_eq!((told, flight.sacked()), (0, 0));
        flight.acknowledge(2 * SEGMENT, |_| told += 1);
        assert_eq!((told, flight.len()), (2, 1));
    }
}
