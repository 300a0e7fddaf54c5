use super::{Ack, Cause, Congestion, CongestionControl, Control, ControlKind, Phase};
use crate::{Halving, InitialSsthresh, TcpConfig};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Time};

/// Slow start and congestion avoidance, as configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenoSpec;

impl Kind for RenoSpec {
    const USAGE: &'static [Usage] = &[("reno", "slow start and congestion avoidance (RFC 5681)")];
    fn read(_text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self)
    }
    fn write(&self, to: &mut Written) {
        to.name("reno");
    }
}

impl ControlKind for RenoSpec {
    type Control = Reno;
    fn build(&self, config: &TcpConfig) -> Reno {
        Reno::new(config)
    }
}

/// Slow start and congestion avoidance (RFC 5681, section 3.1), counted in segments with fractions as ns-2 does.
#[derive(Clone, Debug)]
pub struct Reno {
    /// Segments.
    cwnd: f64,
    /// Segments.
    ssthresh: f64,
    ssthresh_was_set: bool,
    segment: f64,
    halving: Halving,
    grow_unused: bool,
}

/// Least ssthresh, segments (RFC 5681, equation 4).
const MIN_SSTHRESH: f64 = 2.0;

impl Reno {
    /// The state of a new connection.
    pub fn new(config: &TcpConfig) -> Self {
        let ssthresh = match config.initial_ssthresh {
            InitialSsthresh::ReceiveWindow => config.receive_window_segments() as f64,
            InitialSsthresh::Infinite => f64::INFINITY,
        };
        Self {
            cwnd: f64::from(config.initial_window),
            ssthresh,
            ssthresh_was_set: false,
            segment: f64::from(config.segment_bytes),
            halving: config.halving,
            grow_unused: config.grow_unused,
        }
    }

    /// Whole segments of cwnd.
    pub(super) fn whole_cwnd(&self) -> f64 {
        self.cwnd.floor()
    }

    /// Opens the window by one ACK's worth as if in this phase.
    #[inline]
    pub(super) fn grow(&mut self, phase: Phase, ack: &Ack) {
        if !self.grow_unused && !ack.cwnd_limited {
            return;
        }
        self.cwnd += match phase {
            Phase::SlowStart => (ack.bytes as f64 / self.segment).min(1.0),
            Phase::CongestionAvoidance => 1.0 / self.cwnd,
        };
    }

    /// Leaves slow start where it stands.
    pub(super) fn end_slow_start(&mut self) {
        self.ssthresh = self.whole_cwnd();
        self.ssthresh_was_set = true;
    }

    pub(super) fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment
    }
}

impl CongestionControl for Reno {
    #[inline]
    fn control(&self) -> Control {
        let bytes = |segments: f64| (segments * self.segment) as u64;
        Control { cwnd: bytes(self.cwnd), ssthresh: self.ssthresh_was_set.then(|| bytes(self.ssthresh)) }
    }

    #[inline]
    fn phase(&self, _unsent: u64) -> Phase {
        if self.cwnd < self.ssthresh { Phase::SlowStart } else { Phase::CongestionAvoidance }
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        self.grow(self.phase(ack.unsent), ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let limit = self.segments(event.receive_window);
        let half = match self.halving {
            Halving::WholeSegments => (self.cwnd.floor().min(limit) / 2.0).floor(),
            Halving::Window => self.cwnd.min(limit) / 2.0,
            // RFC 5681, section 3.2: what limited transmit, or a recovery, sent beyond cwnd does not count.
            Halving::Flight => (self.segments(event.in_flight).min(self.cwnd) / 2.0).max(MIN_SSTHRESH),
        };
        // RFC 5681, section 3.1: a second timeout for the same segment leaves ssthresh alone.
        if event.repeated && self.halving == Halving::Flight {
            self.cwnd = 1.0;
            return;
        }
        let whole = if self.halving == Halving::Flight { half } else { half.floor() };
        self.ssthresh = whole.max(MIN_SSTHRESH);
        self.ssthresh_was_set = true;
        self.cwnd = match event.cause {
            Cause::Restart => 1.0,
            Cause::Loss => half,
        };
    }

    fn on_recovered(&mut self, _now: Time, limit: u64) {
        self.cwnd = self.cwnd.min(self.segments(limit)).max(1.0);
    }
}
