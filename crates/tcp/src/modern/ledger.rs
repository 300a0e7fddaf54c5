use catnip_base::{Span, Time};
use std::collections::VecDeque;

/// Records of the segments in flight, in sequence order, from which delivery and RTT samples are computed.
///
/// The records cover every byte of data from SND.UNA to the last byte sent.
#[derive(Debug, Default)]
pub struct Ledger {
    records: VecDeque<Record>,
    /// First unacknowledged byte, SND.UNA.
    snd_una: u64,
    /// Number of bytes delivered since the start of the connection, whether acknowledged or SACKed.
    delivered: u64,
    /// Number of bytes that were lost, retransmitted and delivered since [`Ledger::begin_episode`], each counted once.
    retransmitted: u64,
}

/// Record of a segment in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Record {
    /// End of the segment (exclusive). The segment begins at the end of the previous one.
    end: u64,
    /// Time of the last transmission.
    sent: Time,
    /// True if the segment was sent more than once. Such a segment yields no RTT sample (Karn's rule).
    is_resent: bool,
    /// True if the segment was lost and retransmitted in the current episode.
    in_episode: bool,
    /// Number of bytes of the segment that are known to have arrived.
    arrived: u64,
}

impl Record {
    fn new(sent: Time, end: u64) -> Self {
        Self { end, sent, is_resent: false, in_episode: false, arrived: 0 }
    }
}

/// Delivery and RTT sample of an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Bytes newly delivered.
    pub delivered: u64,
    /// RTT of the most recently sent one of the newly delivered segments that were sent once; `None` without such a segment.
    pub rtt: Option<Span>,
}

/// Sample of an ACK whose data is still being processed.
#[derive(Debug)]
pub(super) struct Sampling {
    now: Time,
    /// Number of bytes delivered before the ACK.
    before: u64,
    /// Latest transmission time among the newly delivered segments that were sent once.
    newest_sent_once: Option<Time>,
}

impl Ledger {
    /// Records the transmission of new data up to `end`.
    #[inline]
    pub(super) fn push(&mut self, now: Time, end: u64) {
        self.records.push_back(Record::new(now, end));
    }

    /// Records the retransmission of the data from `start` to `end` in one segment, which may also contain new data at its end. `was_lost`
    /// is true if the data counts as lost.
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

    /// Starts the computation of the sample of an ACK.
    #[inline]
    pub(super) fn sampling(&self, now: Time) -> Sampling {
        Sampling { now, before: self.delivered, newest_sent_once: None }
    }

    /// Records the first SACK of the data from `start` to `end`.
    pub(super) fn report(&mut self, start: u64, end: u64, sampling: &mut Sampling) {
        let first = self.records.partition_point(|record| record.end <= start);
        for at in first..self.records.len() {
            let from = if at == 0 { self.snd_una } else { self.records[at - 1].end };
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

    /// Records the cumulative acknowledgement of all data before `snd_una`.
    #[inline]
    pub(super) fn acknowledge(&mut self, snd_una: u64, sampling: &mut Sampling) {
        while self.records.front().is_some_and(|record| record.end <= snd_una) {
            let Some(record) = self.records.pop_front() else { break };
            self.deliver(&record, self.snd_una, sampling);
            self.snd_una = record.end;
        }
        if let Some(record) = self.records.front_mut()
            && self.snd_una < snd_una
        {
            // Only a part of this segment is acknowledged.
            let before = std::mem::replace(&mut record.arrived, 0);
            self.delivered += (snd_una - self.snd_una).saturating_sub(before);
            record.arrived = before.saturating_sub(snd_una - self.snd_una);
        }
        self.snd_una = snd_una;
    }

    /// Returns the sample of an ACK.
    #[inline]
    pub(super) fn sample(&self, sampling: Sampling) -> Sample {
        let Sampling { now, before, newest_sent_once } = sampling;
        Sample { delivered: self.delivered - before, rtt: newest_sent_once.map(|sent| now - sent) }
    }

    /// Begins a recovery episode.
    pub(super) fn begin_episode(&mut self) {
        self.retransmitted = 0;
        self.records.iter_mut().for_each(|record| record.in_episode = false);
    }

    /// Returns the number of bytes that were retransmitted and delivered in the current episode, each counted once.
    pub(super) fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Records the delivery of the segment that begins at `from`, except the bytes that were delivered before.
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

    /// Returns the index of the record that begins at `start`, after splitting a record if necessary.
    fn cut(&mut self, start: u64) -> usize {
        let at = self.records.partition_point(|record| record.end <= start);
        let from = if at == 0 { self.snd_una } else { self.records[at - 1].end };
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
