use crate::Scoreboard;
use catnip_base::Time;
use std::collections::VecDeque;

/// Segments in flight: one record per segment, numbered in the order of the first transmission, and the counts of SACKed, lost and
/// retransmitted segments.
#[derive(Debug, Default)]
pub(super) struct Flight {
    records: VecDeque<Record>,
    /// Number of the first record.
    first: u64,
    /// Start of the first record, which is the first unacknowledged byte.
    snd_una: u64,
    /// Data SACKed by the peer.
    board: Scoreboard,
    /// Transmissions in the order of their time. Some are outdated, the others are those of segments that may still be found lost.
    by_time: VecDeque<(Time, u64)>,
    /// Segment number below which no lost segment waits for retransmission.
    hint: u64,
    sacked: u32,
    lost: u32,
    /// Number of segments whose retransmission is in flight (retrans_out).
    resent: u32,
}

/// Segment in flight or lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// End of the segment (exclusive). The last byte may be a FIN.
    pub(super) end: u64,
    /// Time of the last transmission.
    pub(super) sent: Time,
    /// True if the peer has SACKed the segment.
    is_sacked: bool,
    is_lost: bool,
    /// True if a retransmission of the segment is in flight.
    is_resent: bool,
    /// True if the segment was sent more than once.
    pub(super) was_resent: bool,
}

/// Segment whose arrival a cumulative or selective acknowledgement reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) number: u64,
    pub(super) start: u64,
    pub(super) record: Record,
    /// True if an earlier ACK has SACKed the segment.
    pub(super) is_old: bool,
}

impl Flight {
    /// Returns the number of unacknowledged segments, including SACKed ones (packets_out).
    pub(super) fn len(&self) -> u32 {
        self.records.len() as u32
    }

    /// Returns the number of segments in the network (RFC 6675's pipe; tcp_packets_in_flight): the unacknowledged segments, minus those
    /// that are SACKed or lost, plus those whose retransmission is in flight.
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

    /// Returns the first unacknowledged byte (snd_una).
    pub(super) fn snd_una(&self) -> u64 {
        self.snd_una
    }

    /// Returns the end of the highest data known to have arrived (RACK.fack).
    pub(super) fn fack(&self) -> u64 {
        self.board.ranges().last().map_or(self.snd_una, |range| range.1)
    }

    /// Returns the number of the first record and the time of its last transmission; `None` without records.
    pub(super) fn head(&self) -> Option<(u64, Time)> {
        self.records.front().map(|record| (self.first, record.sent))
    }

    /// Returns the number of the first record, or of the next segment if there are no records.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the newest record; `None` without records.
    pub(super) fn newest(&self) -> Option<u64> {
        let count = self.records.len() as u64;
        (count > 0).then(|| self.first + count - 1)
    }

    /// Returns the start and the end of the record `number`.
    pub(super) fn range(&self, number: u64) -> (u64, u64) {
        let at = (number - self.first) as usize;
        let start = if at == 0 { self.snd_una } else { self.records[at - 1].end };
        (start, self.records[at].end)
    }

    /// Returns true if a retransmission is in flight, or if the first record was sent more than once (tcp_any_retrans_done).
    pub(super) fn has_resent(&self) -> bool {
        self.resent > 0 || self.records.front().is_some_and(|record| record.was_resent)
    }

    /// Records the transmission of a new segment up to `end`.
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

    /// Records the retransmission of the segment `number`.
    pub(super) fn resend(&mut self, now: Time, number: u64) {
        let record = &mut self.records[(number - self.first) as usize];
        record.sent = now;
        record.was_resent = true;
        self.resent += u32::from(!record.is_resent);
        record.is_resent = true;
        self.by_time.push_back((now, number));
    }

    /// Returns the number of the lowest lost segment whose retransmission is not in flight.
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

    /// Handles a SACK block from `start` to `end`. Calls `tell` for each segment that lies completely in it and was not SACKed before.
    pub(super) fn report(&mut self, start: u64, end: u64, mut tell: impl FnMut(Arrived)) {
        let Self { records, first, board, snd_una, sacked, lost, resent, .. } = self;
        board.add_and_tell(start, end, |from, to| {
            let mut at = records.partition_point(|record| record.end <= from);
            while let Some(record) = records.get(at).copied().filter(|record| record.end <= to) {
                let begins = if at == 0 { *snd_una } else { records[at - 1].end };
                // A segment that is reported in two parts does not count as delivered until the cumulative ACK.
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

    /// Handles the cumulative acknowledgement of all data before `snd_una`. Calls `tell` for each newly acknowledged segment.
    pub(super) fn acknowledge(&mut self, snd_una: u64, mut tell: impl FnMut(Arrived)) {
        self.board.advance(snd_una);
        while self.records.front().is_some_and(|record| record.end <= snd_una) {
            let Some(record) = self.records.pop_front() else { break };
            self.sacked -= u32::from(record.is_sacked);
            self.lost -= u32::from(record.is_lost);
            self.resent -= u32::from(record.is_resent);
            tell(Arrived { number: self.first, start: self.snd_una, record, is_old: record.is_sacked });
            self.snd_una = record.end;
            self.first += 1;
        }
        // Only a part of the first remaining segment may be acknowledged.
        self.snd_una = snd_una;
    }

    /// Marks segments as lost, oldest transmission first, if a later transmission was delivered. `after` returns true if the latest
    /// delivered transmission was later than that of a segment with the given time and end. `waits` returns the time that remains until a
    /// segment with the given transmission time counts as lost, or `None` if no time remains. `tell` receives the number of each lost
    /// segment. Returns the longest remaining time of the segments that do not count as lost yet.
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
                // Usually no entry before this one remains, so the removal is cheap.
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

    /// Marks all segments as lost after a timeout. Exceptions are SACKed segments and those for which `spares` returns true, but the first
    /// segment is always lost. If the first segment was SACKed, the peer has discarded its data (RFC 2018, section 8), and no SACK counts.
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

    /// Clears all loss marks after a spurious recovery. As in Linux, the segments are not examined again; the timers detect any losses.
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

    /// Returns the numbers of SACKed, lost and retransmitted records, counted one by one.
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
                        let start = (flight.snd_una() + (1 + place) * SEGMENT).min(max);
                        flight.report(start, (start + size * SEGMENT).min(max), |_| arrived += 1);
                    }
                    3 => {
                        let snd_una = (flight.snd_una() + size * SEGMENT).min(max);
                        flight.acknowledge(snd_una, |it| arrived += u64::from(!it.is_old));
                        prop_assert_eq!(flight.snd_una(), snd_una);
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
        // The fourth segment, sent at 4, has arrived. The fifth segment cannot be lost yet, the first is lost, and 1 and 2 remain for the
        // others.
        let wait = flight.find_lost(
            |sent, _| sent < at(4),
            |sent| sent.as_nanos().checked_sub(1).filter(|&wait| wait > 0),
            |number| assert_eq!(number, 0),
        );
        assert_eq!((wait, flight.lost(), flight.in_network()), (Some(2), 1, 3));
        assert_eq!(flight.next_lost(), Some(0));
        flight.resend(at(9), 0);
        assert_eq!((flight.next_lost(), flight.in_network()), (None, 4));
        // The retransmission is lost, too.
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
