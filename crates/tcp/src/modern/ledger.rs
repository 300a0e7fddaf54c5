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
    /// When the last of them was heard of.
    delivered_at: Time,
    /// When the segment was sent that was delivered last.
    first_sent: Time,
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
    /// The ledger's state then: bytes delivered, when the last of them was heard of, and when that one was sent.
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    /// It was sent more than once, and so has no round trip that could be told (Karn's rule).
    is_resent: bool,
    /// It was lost, and resent since the current episode began.
    in_episode: bool,
    /// Bytes of it that are known to have arrived.
    arrived: u64,
}

/// What an ACK tells of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Bytes that are newly known to have arrived.
    pub delivered: u64,
    /// Round trip of the segment that was sent last of those that newly arrived and were sent once.
    pub rtt: Option<Span>,
    /// Bytes that arrived over an interval that a sender and a network both needed: a rate.
    pub rate: Option<(u64, Span)>,
}

/// Sums up an ACK.
#[derive(Debug)]
pub(super) struct Sampling {
    now: Time,
    before: u64,
    newest_sent_once: Option<Time>,
    newest: Option<Record>,
}

impl Ledger {
    /// New data up to `end` leaves; nothing before it if nothing is out.
    #[inline]
    pub(super) fn push(&mut self, now: Time, end: u64) {
        if self.records.is_empty() {
            self.first_sent = now;
            self.delivered_at = now;
        }
        let record = self.record(now, end, false);
        self.records.push_back(record);
    }

    /// Data that was sent before leaves again, in one segment, behind whose end there may be new data; does it count as lost?
    pub(super) fn resend(&mut self, now: Time, start: u64, end: u64, was_lost: bool) {
        let at = self.cut(start);
        let after = self.cut(end);
        let resent = Record { in_episode: was_lost, ..self.record(now, end, true) };
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
        Sampling { now, before: self.delivered, newest_sent_once: None, newest: None }
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
                self.deliver(at, from, sampling);
            }
        }
    }

    /// Everything before `una` is acknowledged.
    #[inline]
    pub(super) fn acknowledge(&mut self, una: u64, sampling: &mut Sampling) {
        while let Some(record) = self.records.front() {
            let end = record.end;
            if end > una {
                break;
            }
            self.deliver(0, self.una, sampling);
            self.records.pop_front();
            self.una = end;
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
    pub(super) fn sample(&mut self, sampling: Sampling) -> Sample {
        let Sampling { now, before, newest_sent_once, newest } = sampling;
        let rate = newest.and_then(|newest| {
            // The longer of the intervals in which these bytes were sent and heard of: neither a burst of ACKs nor one of
            // segments makes a path look faster.
            let (sending, hearing) = (newest.sent.since(newest.first_sent), now.since(newest.delivered_at));
            let interval = sending.max(hearing);
            (interval > Span::ZERO).then_some((self.delivered - newest.delivered, interval))
        });
        Sample { delivered: self.delivered - before, rtt: newest_sent_once.map(|sent| now - sent), rate }
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

    #[inline]
    fn record(&self, now: Time, end: u64, is_resent: bool) -> Record {
        let &Self { delivered, delivered_at, first_sent, .. } = self;
        Record {
            end,
            sent: now,
            delivered,
            delivered_at,
            first_sent,
            is_resent,
            in_episode: false,
            arrived: 0,
        }
    }

    #[inline]
    fn deliver(&mut self, at: usize, from: u64, sampling: &mut Sampling) {
        let record = &mut self.records[at];
        let bytes = record.end - from;
        let new = bytes - std::mem::replace(&mut record.arrived, bytes);
        if new == 0 {
            return;
        }
        let record = *record;
        self.delivered += new;
        self.delivered_at = sampling.now;
        if record.in_episode {
            self.retransmitted += new;
        }
        if sampling.newest.is_none_or(|newest| record.sent >= newest.sent) {
            sampling.newest = Some(record);
            self.first_sent = record.sent;
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
