use catnip_base::{Span, Time, words};

words! {
    /// What pipeACK is made of.
    pub enum Filter {
        /// The largest sample of the sampling period.
        Max = ("max", "the largest sample of the sampling period"),
        /// The last one, if it is no older than that.
        Last = ("last", "the last sample"),
    }
}

/// What the path was seen to carry in a round trip (RFC 7661, section 4.2).
#[derive(Clone, Debug)]
pub struct PipeAck {
    filter: Filter,
    /// The sampling period.
    period: Span,
    /// The largest sample of each measurement period, the oldest first, and when it was taken.
    best: [Option<Sample>; PERIODS],
    /// When the newest measurement period began.
    newest_began: Time,
    /// A round trip is being measured: from this byte until everything before the second one is acknowledged.
    round: Option<(u64, u64)>,
    /// There was a sample.
    is_defined: bool,
    /// Everything before this byte had arrived when it heard last.
    una: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    taken: Time,
    bytes: u64,
}

/// RFC 7661, section 4.5.1: "divide the pipeACK Sampling Period into several (e.g., five) equal-length measurement periods".
const PERIODS: usize = 5;

impl PipeAck {
    /// Undefined.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            period: Span::from_secs(1),
            best: [None; PERIODS],
            newest_began: Time::ZERO,
            round: None,
            is_defined: false,
            una: 0,
        }
    }

    /// Forgets all samples, and the one that was being taken.
    pub fn reset(&mut self) {
        *self = Self { period: self.period, una: self.una, ..Self::new(self.filter) };
    }

    /// An ACK within a recovery says that everything before `una` has arrived.
    pub fn on_ack_while_reduced(&mut self, una: u64) {
        self.una = una;
    }

    /// An ACK outside of recovery says that everything before `una` has arrived, of which it newly acknowledges so many bytes;
    /// everything before `next` was sent.
    pub fn on_ack(&mut self, now: Time, una: u64, acked: u64, next: u64, srtt: Option<Span>) {
        if let Some(srtt) = srtt {
            // "This specification defines the pipeACK Sampling Period as Max(3*RTT, 1 second)."
            self.period = (srtt * 3).max(Span::from_secs(1));
        }
        // "caching the value of HighACK and, after one RTT, measuring the difference between the cached HighACK value and the
        // current HighACK value": a round trip is over when what was out at its start is acknowledged. The first one, and that
        // after a silence, begin with the first ACK of what is out.
        // With RACK an ACK counts what it reports, too, and a short segment as a full one: what it heard last is the better bound.
        let before = std::mem::replace(&mut self.una, una).max(una.saturating_sub(acked));
        let (from, until) = self.round.filter(|(from, until)| from < until).unwrap_or((before, next));
        if una >= until {
            self.add(Sample { taken: now, bytes: una - from });
            self.round = Some((una, next));
        } else {
            self.round = Some((from, until));
        }
    }

    /// Bytes; `None`: undefined, no sample was ever taken.
    pub fn at(&self, now: Time) -> Option<u64> {
        // "During this period, the pipeACK samples may be regarded as zero and hence do not contribute".
        let young = |sample: &&Sample| now.since(sample.taken) <= self.period;
        let bytes = self.best.iter().flatten().filter(young).map(|sample| sample.bytes).max();
        self.is_defined.then(|| bytes.unwrap_or(0))
    }

    fn add(&mut self, sample: Sample) {
        self.is_defined = true;
        if self.filter == Filter::Last {
            self.best = [None; PERIODS];
        } else if sample.taken.since(self.newest_began) >= self.period / PERIODS as u64 {
            self.best.rotate_left(1);
            self.best[PERIODS - 1] = None;
            self.newest_began = sample.taken;
        }
        let newest = &mut self.best[PERIODS - 1];
        // "the highest measured pipeACK sample"
        if newest.is_none_or(|other| other.bytes <= sample.bytes) {
            *newest = Some(sample);
        }
    }
}
