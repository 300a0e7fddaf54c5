use catnip_base::{Span, Time};
use std::collections::VecDeque;

/// Records of the segments in flight, in sequence order, from which delivery and RTT samples are computed.
///
/// The records cover every byte of data from SND.UNA to the last byte sent.
#[derive(Debug, Default)]
pub struct SentSegments {
    records: VecDeque<Record>,
    /// First unacknowledged byte, SND.UNA.
    snd_una: u64,
    /// Number of bytes delivered since the start of the connection, whether acknowledged or SACKed.
    delivered: u64,
    /// Number of bytes that were lost, retransmitted and delivered since [`SentSegments::begin_episode`], each counted once.
    retransmitted: u64,
}

/// Record of a segment in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Record {
    /// End of the segment (exclusive). The segment begins at the end of the previous one.
    end_seq: u64,
    /// Time of the last transmission.
    xmit_ts: Time,
    /// True if the segment was sent more than once. Such a segment yields no RTT sample (Karn's rule).
    ever_retrans: bool,
    /// True if the segment was lost and retransmitted in the current episode.
    in_episode: bool,
    /// Number of bytes of the segment that are known to have arrived.
    delivered_bytes: u64,
}

impl Record {
    fn new(xmit_ts: Time, end_seq: u64) -> Self {
        Self { end_seq, xmit_ts, ever_retrans: false, in_episode: false, delivered_bytes: 0 }
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
pub(super) struct SampleBuilder {
    now: Time,
    /// Number of bytes delivered before the ACK.
    prior_delivered: u64,
    /// Latest transmission time among the newly delivered segments that were sent once.
    last_xmit_ts: Option<Time>,
}

impl SentSegments {
    /// Records the transmission of new data up to `end`.
    #[inline]
    pub(super) fn push(&mut self, now: Time, end: u64) {
        self.records.push_back(Record::new(now, end));
    }

    /// Records the retransmission of the data from `start` to `end` in one segment, which may also contain new data at its end. `was_lost`
    /// is true if the data counts as lost.
    pub(super) fn retransmit(&mut self, now: Time, start: u64, end: u64, was_lost: bool) {
        let at = self.split_at(start);
        let after = self.split_at(end);
        let resent = Record { ever_retrans: true, in_episode: was_lost, ..Record::new(now, end) };
        if after == at + 1 {
            let delivered_bytes = self.records[at].delivered_bytes;
            self.records[at] = Record { delivered_bytes, ..resent };
        } else {
            let delivered_bytes = self.records.drain(at..after).map(|record| record.delivered_bytes).sum();
            self.records.insert(at, Record { delivered_bytes, ..resent });
        }
    }

    /// Starts the computation of the sample of an ACK.
    #[inline]
    pub(super) fn begin_sample(&self, now: Time) -> SampleBuilder {
        SampleBuilder { now, prior_delivered: self.delivered, last_xmit_ts: None }
    }

    /// Records the first SACK of the data from `start` to `end`.
    pub(super) fn on_sack(&mut self, start: u64, end: u64, sample: &mut SampleBuilder) {
        let first = self.records.partition_point(|record| record.end_seq <= start);
        for at in first..self.records.len() {
            let from = if at == 0 { self.snd_una } else { self.records[at - 1].end_seq };
            if self.records[at].end_seq > end {
                break;
            }
            if from >= start {
                let record = self.records[at];
                self.records[at].delivered_bytes = record.end_seq - from;
                self.mark_delivered(&record, from, sample);
            }
        }
    }

    /// Records the cumulative acknowledgement of all data before `snd_una`.
    #[inline]
    pub(super) fn on_cumulative_ack(&mut self, snd_una: u64, sample: &mut SampleBuilder) {
        while self.records.front().is_some_and(|record| record.end_seq <= snd_una) {
            let Some(record) = self.records.pop_front() else { break };
            self.mark_delivered(&record, self.snd_una, sample);
            self.snd_una = record.end_seq;
        }
        if let Some(record) = self.records.front_mut()
            && self.snd_una < snd_una
        {
            // Only a part of this segment is acknowledged.
            let prior_bytes = std::mem::replace(&mut record.delivered_bytes, 0);
            self.delivered += (snd_una - self.snd_una).saturating_sub(prior_bytes);
            record.delivered_bytes = prior_bytes.saturating_sub(snd_una - self.snd_una);
        }
        self.snd_una = snd_una;
    }

    /// Returns the sample of an ACK.
    #[inline]
    pub(super) fn finish_sample(&self, sample: SampleBuilder) -> Sample {
        let SampleBuilder { now, prior_delivered, last_xmit_ts } = sample;
        Sample { delivered: self.delivered - prior_delivered, rtt: last_xmit_ts.map(|xmit_ts| now - xmit_ts) }
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
    fn mark_delivered(&mut self, record: &Record, from: u64, sample: &mut SampleBuilder) {
        let new = record.end_seq - from - record.delivered_bytes;
        if new == 0 {
            return;
        }
        self.delivered += new;
        if record.in_episode {
            self.retransmitted += new;
        }
        if !record.ever_retrans {
            sample.last_xmit_ts = sample.last_xmit_ts.max(Some(record.xmit_ts));
        }
    }

    /// Returns the index of the record that begins at `start`, after splitting a record if necessary.
    fn split_at(&mut self, start: u64) -> usize {
        let at = self.records.partition_point(|record| record.end_seq <= start);
        let from = if at == 0 { self.snd_una } else { self.records[at - 1].end_seq };
        if from >= start || at == self.records.len() {
            return at;
        }
        let lower = &mut self.records[at];
        let upper = Record { delivered_bytes: lower.delivered_bytes.saturating_sub(start - from), ..*lower };
        lower.delivered_bytes -= upper.delivered_bytes;
        lower.end_seq = start;
        self.records.insert(at + 1, upper);
        at + 1
    }
}

#[cfg(test)]
mod tests;
