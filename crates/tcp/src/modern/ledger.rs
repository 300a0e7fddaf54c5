use catnip_base::{Span, Time};
use std::collections::VecDeque;

/// What was sent and is not acknowledged: one record per segment, in order, and what its delivery tells.
///
/// Records cover every byte of data from the first one that is not acknowledged to the last one sent.
#[derive(Debug, Default)]
pub struct Ledger {
    records: VecDeque<Record>,
    /// First byte not acknowledged.
    una: u64,
    /// Bytes that have arrived, acknowledged or reported, since the connection began.
    delivered: u64,
    /// Bytes that were lost, were retransmitted and have arrived since [`Ledger::begin_episode`], each counted once.
    retransmitted: u64,
}

/// A segment that is out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Record {
    /// Behind its last byte; it begins where the one before it ends.
    end: u64,
    /// When it was sent last.
    sent: Time,
    /// It was sent more than once, and so has no round trip that could be told (Karn's rule).
    is_resent: bool,
    /// It was lost, and resent since the current episode began.
    in_episode: bool,
    /// Bytes of it that are known to have arrived.
    arrived: u64,
}

impl Record {
    fn new(sent: Time, end: u64) -> Self {
        Self { end, sent, is_resent: false, in_episode: false, arrived: 0 }
    }
}

/// What an ACK tells of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Bytes that are newly known to have arrived.
    pub delivered: u64,
    /// Round trip of the segment that was sent last of those that newly arrived and were sent once.
    pub rtt: Option<Span>,
}

/// Sums up an ACK.
#[derive(Debug)]
pub(super) struct Sampling {
    now: Time,
    /// Bytes delivered before it.
    before: u64,
    /// Of the segments that newly arrived and were sent once, when the newest left.
    newest_sent_once: Option<Time>,
}

impl Ledger {
    /// New data up to `end` leaves.
    #[inline]
    pub(super) fn push(&mut self, now: Time, end: u64) {
        self.records.push_back(Record::new(now, end));
    }

    /// Data that was sent before leaves again, in one segment, behind whose end there may be new data; does it count as lost?
    pub(super) fn resend(&mut self, now: Time, start: u64, end: u64, was_lost: bool) {
        let at = self.cut(start);
        let after = self.cut(end);
        let resent = Record { is_resent: true, in_episode: was_lost, ..Record::new(now, end) };
        if after == at + 1 {
            let arrived = self.records[at].arrived;
            self.records[at] = Record { arrived, ..resent };
        } else {
            let arrived = self.records.drain(at..after).map(|record| record.arrived).sum();
            self.records.insert(at, Record { arrived, ..resent });
        }
    }

    /// Begins to hear an ACK.
    #[inline]
    pub(super) fn sampling(&self, now: Time) -> Sampling {
        Sampling { now, before: self.delivered, newest_sent_once: None }
    }

    /// Data in this range was reported, for the first time.
    pub(super) fn report(&mut self, start: u64, end: u64, sampling: &mut Sampling) {
        let first = self.records.partition_point(|record| record.end <= start);
        for at in first..self.records.len() {
            let from = if at == 0 { self.una } else { self.records[at - 1].end };
            if self.records[at].end > end {
                break;
            }
            if from >= start {
                let record = self.records[at];
                self.records[at].arrived = record.end - from;
                self.deliver(&record, from, sampling);
            }
        }
    }

    /// Everything before `una` is acknowledged.
    #[inline]
    pub(super) fn acknowledge(&mut self, una: u64, sampling: &mut Sampling) {
        while self.records.front().is_some_and(|record| record.end <= una) {
            let Some(record) = self.records.pop_front() else { break };
            self.deliver(&record, self.una, sampling);
            self.una = record.end;
        }
        if let Some(record) = self.records.front_mut()
            && self.una < una
        {
            // A part of a segment.
            let before = std::mem::replace(&mut record.arrived, 0);
            self.delivered += (una - self.una).saturating_sub(before);
            record.arrived = before.saturating_sub(una - self.una);
        }
        self.una = una;
    }

    /// What the ACK has told.
    #[inline]
    pub(super) fn sample(&self, sampling: Sampling) -> Sample {
        let Sampling { now, before, newest_sent_once } = sampling;
        Sample { delivered: self.delivered - before, rtt: newest_sent_once.map(|sent| now - sent) }
    }

    /// A repair begins.
    pub(super) fn begin_episode(&mut self) {
        self.retransmitted = 0;
        self.records.iter_mut().for_each(|record| record.in_episode = false);
    }

    /// Bytes that were retransmitted and have arrived since then, each counted once.
    pub(super) fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// A segment that begins at this byte has arrived, if that was not known.
    #[inline]
    fn deliver(&mut self, record: &Record, from: u64, sampling: &mut Sampling) {
        let new = record.end - from - record.arrived;
        if new == 0 {
            return;
        }
        self.delivered += new;
        if record.in_episode {
            self.retransmitted += new;
        }
        if !record.is_resent {
            sampling.newest_sent_once = sampling.newest_sent_once.max(Some(record.sent));
        }
    }

    /// Sees to it that a record begins at this byte, and gives its place.
    fn cut(&mut self, start: u64) -> usize {
        let at = self.records.partition_point(|record| record.end <= start);
        let from = if at == 0 { self.una } else { self.records[at - 1].end };
        if from >= start || at == self.records.len() {
            return at;
        }
        let lower = &mut self.records[at];
        let upper = Record { arrived: lower.arrived.saturating_sub(start - from), ..*lower };
        lower.arrived -= upper.arrived;
        lower.end = start;
        self.records.insert(at + 1, upper);
        at + 1
    }
}

#[cfg(test)]
mod tests;
