//! New congestion window validation (RFC 7661): measures pipeACK, the data that the path carries in a round trip, and reduces a cwnd that
//! is too large for it.

/// Measurement periods per sampling period. RFC 7661, section 4.5.1: "divide the pipeACK Sampling Period into several (e.g., five)
/// equal-length measurement periods".
pub const PERIODS: usize = 5;
/// Minimum sampling period, nanoseconds: "This specification defines the pipeACK Sampling Period as Max(3*RTT, 1 second)."
pub const MIN_PERIOD: u64 = 1_000_000_000;
/// Non-validated period, nanoseconds. Section 4.4: "The NVP SHOULD NOT exceed five minutes."
pub const NON_VALIDATED_PERIOD: u64 = 300_000_000_000;
/// Undefined value: the 'undefined' pipeACK of section 4.2, the absence of a loss recovery, or an infinite ssthresh.
pub const UNDEFINED: u64 = u64::MAX;

/// pipeACK: measured data that the path carries in a round trip (section 4.2).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeAck {
    /// Sampling period, nanoseconds.
    period: u64,
    /// Times of the largest samples of the measurement periods, oldest first.
    sampled_at: [u64; PERIODS],
    /// Largest samples of the measurement periods, bytes; [`UNDEFINED`] for a period without a sample.
    max_sample: [u64; PERIODS],
    /// Start of the newest measurement period.
    newest_began: u64,
    /// First byte of the measured round trip. No round trip is being measured unless this is below `round_until`.
    round_from: u64,
    /// End of the measured round trip: it ends when all data before this byte is acknowledged.
    round_until: u64,
    /// SND.UNA at the last ACK.
    snd_una: u64,
    /// 1 if only the last sample counts.
    last_only: u32,
    /// 1 after the first sample, 0 before it.
    is_defined: u32,
}

impl PipeAck {
    /// Creates a pipeACK without samples. pipeACK is the largest sample of the sampling period; with `last_only`, it is the last sample, or
    /// 0 if that sample is older than the sampling period.
    pub const fn new(last_only: bool) -> Self {
        Self {
            period: MIN_PERIOD,
            sampled_at: [0; PERIODS],
            max_sample: [UNDEFINED; PERIODS],
            newest_began: 0,
            round_from: 0,
            round_until: 0,
            snd_una: 0,
            last_only: last_only as u32,
            is_defined: 0,
        }
    }

    /// Discards all samples, and the measurement in progress.
    pub fn reset(&mut self) {
        *self = Self { period: self.period, snd_una: self.snd_una, ..Self::new(self.last_only != 0) };
    }

    /// Handles an ACK of all data before `snd_una` during a loss recovery.
    pub fn on_ack_while_reduced(&mut self, snd_una: u64) {
        self.snd_una = snd_una;
    }

    /// Handles an ACK of all data before `snd_una` outside of loss recovery. The ACK newly acknowledges `acked` bytes, and all data before
    /// `snd_max` is sent. `srtt` is 0 before the first RTT sample.
    pub fn on_ack(&mut self, now: u64, snd_una: u64, acked: u64, snd_max: u64, srtt: u64) {
        if srtt > 0 {
            self.period = (srtt * 3).max(MIN_PERIOD);
        }
        // "caching the value of HighACK and, after one RTT, measuring the difference between the cached HighACK value and the current
        // HighACK value": a round trip is over when the data in flight at its start is acknowledged. The first round trip, and the first
        // after an idle period, begin with the first ACK of the data in flight.
        // With RACK `acked` includes data reported by SACK, and a short segment counts as a full one. The last `snd_una` is therefore the
        // better bound.
        let prior_snd_una = self.snd_una.max(snd_una.saturating_sub(acked));
        self.snd_una = snd_una;
        if self.round_from >= self.round_until {
            (self.round_from, self.round_until) = (prior_snd_una, snd_max);
        }
        if snd_una >= self.round_until {
            self.add(now, snd_una.saturating_sub(self.round_from));
            (self.round_from, self.round_until) = (snd_una, snd_max);
        }
    }

    /// Returns pipeACK in bytes; [`UNDEFINED`] before the first sample.
    pub fn at(&self, now: u64) -> u64 {
        if self.is_defined == 0 {
            return UNDEFINED;
        }
        let mut max = 0;
        for i in 0..PERIODS {
            // "During this period, the pipeACK samples may be regarded as zero and hence do not contribute".
            let is_young = now.saturating_sub(self.sampled_at[i]) <= self.period;
            if self.max_sample[i] != UNDEFINED && is_young && self.max_sample[i] > max {
                max = self.max_sample[i];
            }
        }
        max
    }

    fn add(&mut self, now: u64, bytes: u64) {
        self.is_defined = 1;
        if self.last_only != 0 {
            self.max_sample = [UNDEFINED; PERIODS];
        } else if now.saturating_sub(self.newest_began) >= self.period / PERIODS as u64 {
            for i in 1..PERIODS {
                self.sampled_at[i - 1] = self.sampled_at[i];
                self.max_sample[i - 1] = self.max_sample[i];
            }
            self.max_sample[PERIODS - 1] = UNDEFINED;
            self.newest_began = now;
        }
        // "the highest measured pipeACK sample"
        if self.max_sample[PERIODS - 1] == UNDEFINED || self.max_sample[PERIODS - 1] <= bytes {
            self.sampled_at[PERIODS - 1] = now;
            self.max_sample[PERIODS - 1] = bytes;
        }
    }
}

/// Congestion window and slow-start threshold of a sender, bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold; [`UNDEFINED`] means infinity.
    pub ssthresh: u64,
}

/// State of newCWV. A cwnd that pipeACK has validated is kept for five minutes while the sender is idle or application-limited. A cwnd that
/// is not used does not grow, and a loss reduces it to a value that depends on the data that was in use.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCwv {
    pipe_ack: PipeAck,
    /// Time at which cwnd was last validated, or last reduced for lack of validation.
    valid_at: u64,
    /// pipeACK as of the last event, bytes.
    measured: u64,
    /// Larger of pipeACK and LossFlightSize, bytes, during a recovery that began in the non-validated phase; otherwise [`UNDEFINED`].
    lost_unvalidated: u64,
    initial_window: u64,
    segment: u64,
}

impl NewCwv {
    /// Creates the state of a new connection. Section 4.1: "A sender starts a TCP connection in the validated phase and initialises the
    /// pipeACK variable to the 'undefined' value."
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

    /// Returns pipeACK as of the last event, bytes, or [`UNDEFINED`].
    pub fn pipe_ack(&self) -> u64 {
        self.measured
    }

    /// Returns true in the validated phase. Section 4.3: "Validated phase: pipeACK >=(1/2)*cwnd, or pipeACK is undefined".
    pub fn is_validated(&self, cwnd: u64) -> bool {
        self.measured == UNDEFINED || self.measured.saturating_mul(2) >= cwnd
    }

    /// Handles an ACK during a loss recovery.
    pub fn on_ack_while_reduced(&mut self, snd_una: u64) {
        self.pipe_ack.on_ack_while_reduced(snd_una);
    }

    /// Handles an ACK outside of loss recovery, see [`PipeAck::on_ack`]. The caller must call [`check_nvp`](Self::check_nvp) afterwards.
    pub fn on_ack(&mut self, now: u64, snd_una: u64, acked: u64, snd_max: u64, srtt: u64) {
        self.pipe_ack.on_ack(now, snd_una, acked, snd_max, srtt);
    }

    /// Returns true if an ACK may increase cwnd. Section 4.3: while validated "the standard methods are used to increase cwnd". Section
    /// 4.4: otherwise "a sender that is cwnd-limited MAY use the standard TCP method", and one that is not "MUST NOT increase the cwnd".
    pub fn grows(&self, cwnd: u64, cwnd_limited: bool) -> bool {
        self.is_validated(cwnd) || cwnd_limited
    }

    /// Handles congestion that duplicate ACKs or marks indicate, with `in_flight` bytes in flight. Returns cwnd for the recovery, or
    /// [`UNDEFINED`] if the standard response applies.
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

    /// Handles a timeout. Section 4.4: "If the Retransmission Timeout (RTO) expires while in the non-validated phase, the sender MUST exit
    /// the non-validated phase. It then resumes using the standard TCP RTO mechanism".
    pub fn on_timeout(&mut self, now: u64) {
        self.reset(now);
    }

    /// Handles the end of a recovery in which `retransmitted` bytes were retransmitted. Returns the new value of both cwnd and ssthresh, or
    /// [`UNDEFINED`] if the standard response applies.
    pub fn on_recovered(&mut self, now: u64, retransmitted: u64) -> u64 {
        // Section 4.4.1: "cwnd = (Max(pipeACK,LossFlightSize) - R)/2", "MUST NOT be reduced below 1 TCP Maximum Segment Size",
        // and "ssthresh [is] equal to cwnd at the end of the loss recovery".
        let window = match self.lost_unvalidated {
            UNDEFINED => UNDEFINED,
            used => (used.saturating_sub(retransmitted) / 2).max(self.segment),
        };
        self.reset(now);
        window
    }

    /// Updates pipeACK, and reduces cwnd if it was not validated for longer than the non-validated period (NVP). Returns true after a
    /// reduction; the caller must then call the function again. Section 4.5.2: "Each time a sender transmits a new segment, this timestamp
    /// can be used to determine if the NVP has expired."
    pub fn check_nvp(&mut self, now: u64, windows: &mut Windows) -> bool {
        self.measured = self.pipe_ack.at(now);
        if self.is_validated(windows.cwnd) {
            self.valid_at = now;
        }
        // Section 4.5.2: "take into account how many units of the NVP have passed and make one reduction ... for each NVP."
        if now.saturating_sub(self.valid_at) <= NON_VALIDATED_PERIOD {
            return false;
        }
        self.valid_at += NON_VALIDATED_PERIOD;
        // Section 4.4.3: "ssthresh = max(ssthresh, 3*cwnd/4)", then "cwnd = max((1/2)*cwnd, IW)", which must not increase cwnd: "not
        // greater than".
        windows.ssthresh = windows.ssthresh.max(windows.cwnd / 4 * 3 + windows.cwnd % 4 * 3 / 4);
        windows.cwnd = (windows.cwnd / 2).max(self.initial_window).min(windows.cwnd);
        true
    }

    /// Resets the state. Section 4.4.1: "After completing the loss recovery phase, the sender MUST re-initialise the pipeACK variable to
    /// the 'undefined' value."
    fn reset(&mut self, now: u64) {
        self.pipe_ack.reset();
        self.measured = UNDEFINED;
        self.lost_unvalidated = UNDEFINED;
        self.valid_at = now;
    }
}
