use crate::Scoreboard;
use catnip_base::Time;
use std::collections::VecDeque;

/// Segments in flight: one record per segment, numbered in the order of the first transmission, and the counts of SACKed, lost and
/// retransmitted segments.
#[derive(Debug, Default)]
pub(super) struct Flight {
    records: VecDeque<Record>,
    /// Number of the first record.
    first_number: u64,
    /// Start of the first record, which is the first unacknowledged byte.
    snd_una: u64,
    /// Data SACKed by the peer.
    scoreboard: Scoreboard,
    /// Transmissions in the order of their time. Some are outdated, the others are those of segments that may still be found lost.
    tsorted: VecDeque<(Time, u64)>,
    /// Segment number below which no lost segment waits for retransmission.
    retransmit_hint: u64,
    sacked_out: u32,
    lost_out: u32,
    /// Number of segments whose retransmission is in flight (retrans_out).
    retrans_out: u32,
}

/// Segment in flight or lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// End of the segment (exclusive). The last byte may be a FIN.
    pub(super) end_seq: u64,
    /// Time of the last transmission.
    pub(super) xmit_ts: Time,
    /// True if the peer has SACKed the segment.
    is_sacked: bool,
    is_lost: bool,
    /// True if a retransmission of the segment is in flight.
    is_retrans_out: bool,
    /// True if the segment was sent more than once.
    pub(super) ever_retrans: bool,
}

/// Segment whose arrival a cumulative or selective acknowledgement reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveredSegment {
    pub(super) number: u64,
    pub(super) start: u64,
    pub(super) record: Record,
    /// True if an earlier ACK has SACKed the segment.
    pub(super) was_sacked: bool,
}

impl Flight {
    /// Returns the number of unacknowledged segments, including SACKed ones (packets_out).
    pub(super) fn packets_out(&self) -> u32 {
        self.records.len() as u32
    }

    /// Returns the number of segments in the network (RFC 6675's pipe; tcp_packets_in_flight): the unacknowledged segments, minus those
    /// that are SACKed or lost, plus those whose retransmission is in flight.
    #[inline]
    pub(super) fn packets_in_flight(&self) -> u32 {
        (self.packets_out() + self.retrans_out).saturating_sub(self.sacked_out + self.lost_out)
    }

    pub(super) fn sacked_out(&self) -> u32 {
        self.sacked_out
    }

    pub(super) fn lost_out(&self) -> u32 {
        self.lost_out
    }

    pub(super) fn retrans_out(&self) -> u32 {
        self.retrans_out
    }

    /// Returns the first unacknowledged byte (snd_una).
    pub(super) fn snd_una(&self) -> u64 {
        self.snd_una
    }

    /// Returns the end of the highest data known to have arrived (RACK.fack).
    pub(super) fn fack(&self) -> u64 {
        self.scoreboard.ranges().last().map_or(self.snd_una, |range| range.1)
    }

    /// Returns the number of the first record and the time of its last transmission; `None` without records.
    pub(super) fn head(&self) -> Option<(u64, Time)> {
        self.records.front().map(|record| (self.first_number, record.xmit_ts))
    }

    /// Returns the number of the first record, or of the next segment if there are no records.
    pub(super) fn first_number(&self) -> u64 {
        self.first_number
    }

    /// Returns the number of the newest record; `None` without records.
    pub(super) fn newest(&self) -> Option<u64> {
        let count = self.records.len() as u64;
        (count > 0).then(|| self.first_number + count - 1)
    }

    /// Returns the start and the end of the record `number`.
    pub(super) fn range(&self, number: u64) -> (u64, u64) {
        let at = (number - self.first_number) as usize;
        let start = if at == 0 { self.snd_una } else { self.records[at - 1].end_seq };
        (start, self.records[at].end_seq)
    }

    /// Returns true if a retransmission is in flight, or if the first record was sent more than once (tcp_any_retrans_done).
    pub(super) fn any_retrans_done(&self) -> bool {
        self.retrans_out > 0 || self.records.front().is_some_and(|record| record.ever_retrans)
    }

    /// Records the transmission of a new segment up to `end_seq`.
    #[inline]
    pub(super) fn push(&mut self, now: Time, end_seq: u64) {
        self.tsorted.push_back((now, self.first_number + self.records.len() as u64));
        self.records.push_back(Record {
            end_seq,
            xmit_ts: now,
            is_sacked: false,
            is_lost: false,
            is_retrans_out: false,
            ever_retrans: false,
        });
    }

    /// Records the retransmission of the segment `number`.
    pub(super) fn retransmit(&mut self, now: Time, number: u64) {
        let record = &mut self.records[(number - self.first_number) as usize];
        record.xmit_ts = now;
        record.ever_retrans = true;
        self.retrans_out += u32::from(!record.is_retrans_out);
        record.is_retrans_out = true;
        self.tsorted.push_back((now, number));
    }

    /// Returns the number of the lowest lost segment whose retransmission is not in flight.
    pub(super) fn next_lost(&mut self) -> Option<u64> {
        if self.lost_out == 0 {
            return None;
        }
        let from = self.retransmit_hint.max(self.first_number);
        let is_waiting = |record: &Record| record.is_lost && !record.is_retrans_out;
        let found = self.records.iter().skip((from - self.first_number) as usize).position(is_waiting);
        self.retransmit_hint =
            found.map_or(self.first_number + self.records.len() as u64, |at| from + at as u64);
        found.map(|_| self.retransmit_hint)
    }

    /// Handles a SACK block from `start` to `end`. Calls `on_delivered` for each segment that lies completely in it and was not SACKed
    /// before.
    pub(super) fn on_sack(&mut self, start: u64, end: u64, mut on_delivered: impl FnMut(DeliveredSegment)) {
        let Self { records, first_number, scoreboard, snd_una, sacked_out, lost_out, retrans_out, .. } = self;
        scoreboard.add_with(start, end, |from, to| {
            let mut at = records.partition_point(|record| record.end_seq <= from);
            while let Some(record) = records.get(at).copied().filter(|record| record.end_seq <= to) {
                let start_seq = if at == 0 { *snd_una } else { records[at - 1].end_seq };
                // A segment that is reported in two parts does not count as delivered until the cumulative ACK.
                if start_seq >= from {
                    *sacked_out += 1;
                    *lost_out -= u32::from(record.is_lost);
                    *retrans_out -= u32::from(record.is_retrans_out);
                    records[at] = Record { is_sacked: true, is_lost: false, is_retrans_out: false, ..record };
                    on_delivered(DeliveredSegment {
                        number: *first_number + at as u64,
                        start: start_seq,
                        record,
                        was_sacked: false,
                    });
                }
                at += 1;
            }
        });
    }

    /// Handles the cumulative acknowledgement of all data before `snd_una`. Calls `on_delivered` for each newly acknowledged segment.
    pub(super) fn on_cumulative_ack(&mut self, snd_una: u64, mut on_delivered: impl FnMut(DeliveredSegment)) {
        self.scoreboard.advance(snd_una);
        while self.records.front().is_some_and(|record| record.end_seq <= snd_una) {
            let Some(record) = self.records.pop_front() else { break };
            self.sacked_out -= u32::from(record.is_sacked);
            self.lost_out -= u32::from(record.is_lost);
            self.retrans_out -= u32::from(record.is_retrans_out);
            on_delivered(DeliveredSegment {
                number: self.first_number,
                start: self.snd_una,
                record,
                was_sacked: record.is_sacked,
            });
            self.snd_una = record.end_seq;
            self.first_number += 1;
        }
        // Only a part of the first remaining segment may be acknowledged.
        self.snd_una = snd_una;
    }

    /// Marks segments as lost, oldest transmission first, if a later transmission was delivered. `rack_sent_after` returns true if the
    /// latest delivered transmission was later than that of a segment with the given time and end. `remaining_time` returns the time that
    /// remains until a segment with the given transmission time counts as lost, or `None` if no time remains. `on_lost` receives the number
    /// of each lost segment. Returns the longest remaining time of the segments that do not count as lost yet.
    pub(super) fn detect_loss<T: Ord>(
        &mut self,
        rack_sent_after: impl Fn(Time, u64) -> bool,
        remaining_time: impl Fn(Time) -> Option<T>,
        mut on_lost: impl FnMut(u64),
    ) -> Option<T> {
        let mut max_remaining = None;
        let mut at = 0;
        while let Some(&(xmit_ts, number)) = self.tsorted.get(at) {
            let index = number.checked_sub(self.first_number).map(|index| index as usize);
            let record = index.and_then(|index| self.records.get(index)).copied();
            let candidate = record
                .filter(|it| it.xmit_ts == xmit_ts && !it.is_sacked && (!it.is_lost || it.is_retrans_out));
            let Some(record) = candidate else {
                // Usually no entry before this one remains, so the removal is cheap.
                self.tsorted.remove(at);
                continue;
            };
            if !rack_sent_after(record.xmit_ts, record.end_seq) {
                break;
            }
            match remaining_time(record.xmit_ts) {
                None => {
                    self.mark_lost(number);
                    on_lost(number);
                    self.tsorted.remove(at);
                }
                wait => {
                    max_remaining = max_remaining.max(wait);
                    at += 1;
                }
            }
        }
        max_remaining
    }

    /// Marks all segments as lost after a timeout. Exceptions are SACKed segments and those for which `is_recent` returns true, but the
    /// first segment is always lost. If the first segment was SACKed, the peer has discarded its data (RFC 2018, section 8), and no SACK
    /// counts.
    pub(super) fn mark_all_lost(&mut self, is_recent: impl Fn(Time) -> bool, mut on_lost: impl FnMut(u64)) {
        if self.records.front().is_some_and(|record| record.is_sacked) {
            self.records.iter_mut().for_each(|record| record.is_sacked = false);
            self.sacked_out = 0;
            self.scoreboard.clear();
        }
        for at in 0..self.records.len() {
            let record = self.records[at];
            if !record.is_sacked && (at == 0 || !is_recent(record.xmit_ts)) {
                if !record.is_lost || record.is_retrans_out {
                    on_lost(self.first_number + at as u64);
                }
                self.mark_lost(self.first_number + at as u64);
            }
        }
    }

    /// Clears all loss marks after a spurious recovery. As in Linux, the segments are not examined again; the timers detect any losses.
    pub(super) fn clear_lost_marks(&mut self) {
        self.records.iter_mut().for_each(|record| record.is_lost = false);
        self.lost_out = 0;
    }

    fn mark_lost(&mut self, number: u64) {
        let record = &mut self.records[(number - self.first_number) as usize];
        self.retrans_out -= u32::from(std::mem::take(&mut record.is_retrans_out));
        self.lost_out += u32::from(!std::mem::replace(&mut record.is_lost, true));
        self.retransmit_hint = self.retransmit_hint.min(number);
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
        [count(|it| it.is_sacked), count(|it| it.is_lost), count(|it| it.is_retrans_out)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn counts_are_those_of_the_records_whatever_happens(
            steps in prop::collection::vec((0u8..7, 0u64..40, 0u64..8), 1..200)
        ) {
            let (mut flight, mut max, mut arrived) = (Flight::default(), 0, 0);
            for (now, (step, offset, size)) in steps.into_iter().enumerate() {
                let now = now as u64;
                match step {
                    0 | 1 => {
                        max += SEGMENT;
                        flight.push(at(now), max);
                    }
                    2 => {
                        let start = (flight.snd_una() + (1 + offset) * SEGMENT).min(max);
                        flight.on_sack(start, (start + size * SEGMENT).min(max), |_| arrived += 1);
                    }
                    3 => {
                        let snd_una = (flight.snd_una() + size * SEGMENT).min(max);
                        flight.on_cumulative_ack(snd_una, |it| arrived += u64::from(!it.was_sacked));
                        prop_assert_eq!(flight.snd_una(), snd_una);
                    }
                    4 => {
                        let sent_before = now.saturating_sub(offset);
                        let remaining_time = |xmit_ts: Time| (xmit_ts > at(sent_before)).then_some(xmit_ts);
                        let max_remaining = flight.detect_loss(|xmit_ts, _| xmit_ts < at(now), remaining_time, |_| ());
                        prop_assert!(max_remaining.is_none_or(|xmit_ts| xmit_ts > at(sent_before)));
                    }
                    5 => match flight.next_lost() {
                        Some(number) => flight.retransmit(at(now), number),
                        None => prop_assert!(flight.records.iter().all(|it| !it.is_lost || it.is_retrans_out)),
                    },
                    _ if offset == 0 => flight.mark_all_lost(|_| size == 0, |_| ()),
                    _ if offset == 1 => flight.clear_lost_marks(),
                    _ => {}
                }
                let [sacked_out, lost_out, retrans_out] = counted(&flight);
                prop_assert_eq!([flight.sacked_out(), flight.lost_out(), flight.retrans_out()], [sacked_out, lost_out, retrans_out]);
                prop_assert!(flight.fack() <= max);
                prop_assert!(flight.packets_in_flight() <= flight.packets_out() + flight.retrans_out());
            }
            flight.on_cumulative_ack(max, |it| arrived += u64::from(!it.was_sacked));
            prop_assert_eq!((flight.packets_out(), flight.sacked_out(), flight.lost_out(), flight.retrans_out()), (0, 0, 0, 0));
            prop_assert!(arrived >= max / SEGMENT, "each arrives once, or again after it was taken back");
        }
    }

    #[test]
    fn what_was_sent_before_the_latest_arrival_is_lost_once_its_time_is_over_and_the_rest_waits() {
        let mut flight = Flight::default();
        (1..=5).for_each(|n| flight.push(at(n), n * SEGMENT));
        flight.on_sack(3 * SEGMENT, 4 * SEGMENT, |_| {});
        // The fourth segment, sent at 4, has arrived. The fifth segment cannot be lost yet, the first is lost, and 1 and 2 remain for the
        // others.
        let wait = flight.detect_loss(
            |xmit_ts, _| xmit_ts < at(4),
            |xmit_ts| xmit_ts.as_nanos().checked_sub(1).filter(|&wait| wait > 0),
            |number| assert_eq!(number, 0),
        );
        assert_eq!((wait, flight.lost_out(), flight.packets_in_flight()), (Some(2), 1, 3));
        assert_eq!(flight.next_lost(), Some(0));
        flight.retransmit(at(9), 0);
        assert_eq!((flight.next_lost(), flight.packets_in_flight()), (None, 4));
        // The retransmission is lost, too.
        flight.detect_loss(|_, _| true, |xmit_ts| (xmit_ts < at(9)).then_some(0), |_| ());
        assert_eq!((flight.next_lost(), flight.packets_in_flight()), (Some(0), 3));
    }

    #[test]
    fn a_timeout_forgets_the_reports_of_a_peer_that_has_discarded_the_first_segment() {
        // RFC 2018, section 8: "After a retransmit timeout the data sender SHOULD turn off all of the SACKed bits". tcp_timeout_mark_lost
        // does so if the first segment is SACKed, which the cumulative ACK contradicts.
        let mark_all = |first_sacked: u64| {
            let mut flight = Flight::default();
            (1..=3).for_each(|n| flight.push(at(n), n * SEGMENT));
            flight.on_sack(first_sacked * SEGMENT, (first_sacked + 1) * SEGMENT, |_| ());
            flight.on_sack(2 * SEGMENT, 3 * SEGMENT, |_| ());
            flight.mark_all_lost(|_| false, |_| ());
            (flight.sacked_out(), flight.lost_out(), flight.fack() / SEGMENT)
        };
        assert_eq!(mark_all(0), (0, 3, 0));
        assert_eq!(mark_all(1), (2, 1, 3), "the first segment is only missing");
    }

    #[test]
    fn a_segment_of_which_two_reports_tell_a_half_each_has_not_arrived_yet() {
        let mut flight = Flight::default();
        (1..=3).for_each(|n| flight.push(at(n), n * SEGMENT));
        let mut reported = 0;
        flight.on_sack(SEGMENT, SEGMENT + 50, |_| reported += 1);
        flight.on_sack(SEGMENT + 50, 2 * SEGMENT, |_| reported += 1);
        assert_eq!((reported, flight.sacked_out()), (0, 0));
        flight.on_cumulative_ack(2 * SEGMENT, |_| reported += 1);
        assert_eq!((reported, flight.packets_out()), (2, 1));
    }
}
