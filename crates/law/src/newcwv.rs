//! New congestion window validation (RFC 7661): what the path was seen to carry, and what it means for a window.

/// RFC 7661, section 4.5.1: "divide the pipeACK Sampling Period into several (e.g., five) equal-length measurement periods".
pub const PERIODS: usize = 5;
/// The least sampling period: "This specification defines the pipeACK Sampling Period as Max(3*RTT, 1 second)."
pub const LEAST_PERIOD: u64 = 1_000_000_000;
/// Section 4.4: "The NVP SHOULD NOT exceed five minutes."
pub const NON_VALIDATED_PERIOD: u64 = 300_000_000_000;
/// Section 4.2: a pipeACK that is 'undefined'; no loss is being repaired; no ssthresh was set.
pub const UNDEFINED: u64 = u64::MAX;

/// What the path was seen to carry in a round trip (section 4.2).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeAck {
    /// The sampling period.
    period: u64,
    /// When the largest sample of each measurement period was taken, the oldest first.
    taken: [u64; PERIODS],
    /// That sample, bytes; [`UNDEFINED`]: there was none.
    best: [u64; PERIODS],
    /// When the newest measurement period began.
    newest_began: u64,
    /// A round trip is being measured: from this byte, below `round_until`.
    round_from: u64,
    /// It is over once everything before this is acknowledged.
    round_until: u64,
    /// Everything before this byte had arrived when it heard last.
    una: u64,
    /// 1: the last sample alone counts.
    last_only: u32,
    /// 1: there was a sample.
    is_defined: u32,
}

impl PipeAck {
    /// Undefined. It is the largest sample of the sampling period, or the last one, if it is no older than that.
    pub const fn new(last_only: bool) -> Self {
        Self {
            period: LEAST_PERIOD,
            taken: [0; PERIODS],
            best: [UNDEFINED; PERIODS],
            newest_began: 0,
            round_from: 0,
            round_until: 0,
            una: 0,
            last_only: last_only as u32,
            is_defined: 0,
        }
    }

    /// Forgets all samples, and the one that was being taken.
    pub fn reset(&mut self) {
        *self = Self { period: self.period, una: self.una, ..Self::new(self.last_only != 0) };
    }

    /// An ACK within a recovery says that everything before `una` has arrived.
    pub fn on_ack_while_reduced(&mut self, una: u64) {
        self.una = una;
    }

    /// An ACK outside of recovery says that everything before `una` has arrived, of which it newly acknowledges so many bytes;
    /// everything before `next` was sent. `srtt` is 0 without a measured round trip.
    pub fn on_ack(&mut self, now: u64, una: u64, acked: u64, next: u64, srtt: u64) {
        if srtt > 0 {
            self.period = (srtt * 3).max(LEAST_PERIOD);
        }
        // "caching the value of HighACK and, after one RTT, measuring the difference between the cached HighACK value and the
        // current HighACK value": a round trip is over when what was out at its start is acknowledged. The first one, and that
        // after a silence, begin with the first ACK of what is out.
        // With RACK an ACK counts what it reports, too, and a short segment as a full one: what it heard last is the better bound.
        let before = self.una.max(una.saturating_sub(acked));
        self.una = una;
        if self.round_from >= self.round_until {
            (self.round_from, self.round_until) = (before, next);
        }
        if una >= self.round_until {
            self.add(now, una.saturating_sub(self.round_from));
            (self.round_from, self.round_until) = (una, next);
        }
    }

    /// Bytes; [`UNDEFINED`]: no sample was ever taken.
    pub fn at(&self, now: u64) -> u64 {
        if self.is_defined == 0 {
            return UNDEFINED;
        }
        let mut most = 0;
        for i in 0..PERIODS {
            // "During this period, the pipeACK samples may be regarded as zero and hence do not contribute".
            let is_young = now.saturating_sub(self.taken[i]) <= self.period;
            if self.best[i] != UNDEFINED && is_young && self.best[i] > most {
                most = self.best[i];
            }
        }
        most
    }

    fn add(&mut self, now: u64, bytes: u64) {
        self.is_defined = 1;
        if self.last_only != 0 {
            self.best = [UNDEFINED; PERIODS];
        } else if now.saturating_sub(self.newest_began) >= self.period / PERIODS as u64 {
            for i in 1..PERIODS {
                self.taken[i - 1] = self.taken[i];
                self.best[i - 1] = self.best[i];
            }
            self.best[PERIODS - 1] = UNDEFINED;
            self.newest_began = now;
        }
        // "the highest measured pipeACK sample"
        if self.best[PERIODS - 1] == UNDEFINED || self.best[PERIODS - 1] <= bytes {
            self.taken[PERIODS - 1] = now;
            self.best[PERIODS - 1] = bytes;
        }
    }
}

/// The windows of a sender, bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// cwnd.
    pub cwnd: u64,
    /// ssthresh; [`UNDEFINED`]: as high as can be.
    pub ssthresh: u64,
}

/// A window that was borne out by what the path has carried stays for five minutes of silence or of little use, does not grow unused, and
/// answers to loss by what was in use.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCwv {
    pipe_ack: PipeAck,
    /// When the window was last borne out, or last adjusted because it was not.
    valid_at: u64,
    /// What the path has carried, as of the last event, bytes.
    measured: u64,
    /// A loss is being repaired that was noticed in the non-validated phase: the larger of pipeACK and LossFlightSize, bytes.
    lost_unvalidated: u64,
    initial_window: u64,
    segment: u64,
}

impl NewCwv {
    /// Section 4.1: "A sender starts a TCP connection in the validated phase and initialises the pipeACK variable to the
    /// 'undefined' value."
    pub const fn new(last_only: bool, initial_window: u64, segment: u64) -> Self {
        Self {
            pipe_ack: PipeAck::new(last_only),
            valid_at: 0,
            measured: UNDEFINED,
            lost_unvalidated: UNDEFINED,
            initial_window,
            segment,
        }
    }

    /// pipeACK as of the last event, bytes; [`UNDEFINED`] if it is that.
    pub fn pipe_ack(&self) -> u64 {
        self.measured
    }

    /// Section 4.3: "Validated phase: pipeACK >=(1/2)*cwnd, or pipeACK is undefined".
    pub fn is_validated(&self, cwnd: u64) -> bool {
        self.measured == UNDEFINED || self.measured.saturating_mul(2) >= cwnd
    }

    /// An ACK within a recovery.
    pub fn on_ack_while_reduced(&mut self, una: u64) {
        self.pipe_ack.on_ack_while_reduced(una);
    }

    /// An ACK outside of recovery, see [`PipeAck::on_ack`], behind which comes a [look](Self::look).
    pub fn on_ack(&mut self, now: u64, una: u64, acked: u64, next: u64, srtt: u64) {
        self.pipe_ack.on_ack(now, una, acked, next, srtt);
    }

    /// May an ACK open the window? Section 4.3: while validated "the standard methods are used to increase cwnd". Section 4.4: otherwise
    /// "a sender that is cwnd-limited MAY use the standard TCP method", and one that is not "MUST NOT increase the cwnd".
    pub fn grows(&self, cwnd: u64, cwnd_limited: bool) -> bool {
        self.is_validated(cwnd) || cwnd_limited
    }

    /// Duplicate ACKs or marks tell of congestion, with so much in flight. The window for the repair, or [`UNDEFINED`]: what the standard
    /// says.
    pub fn on_congestion(&mut self, cwnd: u64, in_flight: u64) -> u64 {
        self.lost_unvalidated = UNDEFINED;
        if self.is_validated(cwnd) {
            return UNDEFINED;
        }
        // Section 4.4.1: "cwnd = (Max(pipeACK,LossFlightSize))/2."
        let used = self.measured.max(in_flight);
        self.lost_unvalidated = used;
        (used / 2).max(self.segment)
    }

    /// Section 4.4: "If the Retransmission Timeout (RTO) expires while in the non-validated phase, the sender MUST exit the
    /// non-validated phase. It then resumes using the standard TCP RTO mechanism".
    pub fn on_timeout(&mut self, now: u64) {
        self.start_over(now);
    }

    /// A repair is complete, in which so much was retransmitted. The window and ssthresh from now on, or [`UNDEFINED`]: what the standard
    /// says.
    pub fn on_recovered(&mut self, now: u64, retransmitted: u64) -> u64 {
        // Section 4.4.1: "cwnd = (Max(pipeACK,LossFlightSize) - R)/2", "MUST NOT be reduced below 1 TCP Maximum Segment Size",
        // and "ssthresh [is] equal to cwnd at the end of the loss recovery".
        let window = match self.lost_unvalidated {
            UNDEFINED => UNDEFINED,
            used => (used.saturating_sub(retransmitted) / 2).max(self.segment),
        };
        self.start_over(now);
        window
    }

    /// Looks at what was measured, and gives up a part of a window that was not used for long. True if it did, and has to look once more.
    /// Section 4.5.2: "Each time a sender transmits a new segment, this timestamp can be used to determine if the NVP has expired."
    pub fn look(&mut self, now: u64, windows: &mut Windows) -> bool {
        self.measured = self.pipe_ack.at(now);
        if self.is_validated(windows.cwnd) {
            self.valid_at = now;
        }
        // Section 4.5.2: "take into account how many units of the NVP have passed and make one reduction ... for each NVP."
        if now.saturating_sub(self.valid_at) <= NON_VALIDATED_PERIOD {
            return false;
        }
        self.valid_at += NON_VALIDATED_PERIOD;
        // Section 4.4.3: "ssthresh = max(ssthresh, 3*cwnd/4)", then "cwnd = max((1/2)*cwnd, IW)", which is no increase: "not
        // greater than".
        windows.ssthresh = windows.ssthresh.max(windows.cwnd / 4 * 3 + windows.cwnd % 4 * 3 / 4);
        windows.cwnd = (windows.cwnd / 2).max(self.initial_window).min(windows.cwnd);
        true
    }

    /// Section 4.4.1: "After completing the loss recovery phase, the sender MUST re-initialise the pipeACK variable to the
    /// 'undefined' value."
    fn start_over(&mut self, now: u64) {
        self.pipe_ack.reset();
        self.measured = UNDEFINED;
        self.lost_unvalidated = UNDEFINED;
        self.valid_at = now;
    }
}
