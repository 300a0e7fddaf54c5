//! Scenes for tests: a sender that is driven step by step, without a network.

use crate::control::validated::Validity;
use crate::recovery::RecoveryKind;
use crate::{Flags, Halving, RtoConfig, SackBlocks, Segment, Sender, TcpConfig, Timestamps, profile};
use catnip_base::{Span, Time};
use std::ops::RangeInclusive;

/// Size of a segment, bytes.
pub(crate) const SEGMENT: u64 = 1000;

/// Returns the parameters of current standards for a data transfer without handshake and FIN. ACKs arrive only when the scene delivers
/// them.
pub(crate) fn rfc(recovery: RecoveryKind, initial_window: u32) -> TcpConfig {
    TcpConfig {
        segment_bytes: SEGMENT as u32,
        initial_window,
        receive_window: 100 * SEGMENT,
        recovery,
        limited_transmit: false,
        handshake: false,
        fin: false,
        delayed_ack: None,
        ..profile::rfc()
    }
}

/// Returns the parameters of ns-2 of 2002. Fast retransmit is possible from the first segment on.
pub(crate) fn ns2(recovery: RecoveryKind, initial_window: u32) -> TcpConfig {
    TcpConfig {
        segment_bytes: SEGMENT as u32,
        initial_window,
        receive_window: 20 * SEGMENT,
        recovery,
        halving: Halving::WholeSegments,
        earliest_fast_retransmit: 0,
        ..profile::ns2_2002()
    }
}

/// Sets an initial timeout that differs from every timeout after an RTT sample. A test can then check that there was no sample.
pub(crate) fn unsampled(config: TcpConfig) -> TcpConfig {
    TcpConfig { rto: RtoConfig { first: Span::from_secs(3), ..config.rto }, ..config }
}

pub(crate) fn ms(n: u64) -> Time {
    Time::ZERO + Span::from_millis(n)
}

/// Sender with its clock, the ACKs that it receives and the segments that it sends. Segments are numbered from 1. Times are in
/// milliseconds.
///
/// Each step is like a line of packetdrill: time, arriving segment, sent segments. A scene fails if a segment is sent that no step expects,
/// or if the time advances beyond a timer.
pub(crate) struct Scene {
    config: TcpConfig,
    sender: Sender,
    now: Time,
    /// Last cumulative ACK, in segments.
    acked: u64,
    /// Window that all ACKs advertise, bytes.
    window: u64,
    /// TSecr of all ACKs; zero means no timestamp.
    tsecr: u32,
    sent: Vec<u64>,
}

impl Scene {
    /// Creates a scene in which the application writes `segments` segments at time zero and all permitted segments are sent.
    pub(crate) fn new(config: TcpConfig, segments: u64) -> Self {
        Self::of_bytes(config, segments * SEGMENT)
    }

    pub(crate) fn of_bytes(config: TcpConfig, bytes: u64) -> Self {
        let mut sender = Sender::new(&config, Span::ZERO);
        sender.write(Time::ZERO, bytes, None, config.fin, &config);
        let window = config.receive_window;
        let mut scene =
            Self { config, sender, now: Time::ZERO, acked: 0, window, tsecr: 0, sent: Vec::new() };
        scene.drain();
        scene
    }

    /// Writes another message of `bytes` bytes.
    pub(crate) fn writes(&mut self, bytes: u64) -> &mut Self {
        self.sender.write(self.now, bytes, None, false, &self.config);
        self.drain();
        self
    }

    /// Advances the time to `at`. Fails if a sent segment is unchecked or if a timer expires before `at`.
    #[track_caller]
    pub(crate) fn at(&mut self, at: u64) -> &mut Self {
        self.sends(&[]);
        assert!(self.now <= ms(at), "a scene does not go back");
        let missed = self.sender.deadline().filter(|&deadline| deadline < ms(at));
        assert_eq!(missed, None, "the sender wanted to be asked before {at} ms");
        self.now = ms(at);
        self
    }

    /// Advances the time by `millis` and handles the timers that expire in this time.
    pub(crate) fn advance(&mut self, millis: u64) -> &mut Self {
        let until = self.now + Span::from_millis(millis);
        while let Some(deadline) = self.sender.deadline().filter(|&deadline| deadline <= until) {
            self.now = deadline.max(self.now);
            self.sender.on_timer(self.now, &self.config);
            self.drain();
        }
        self.now = until;
        self
    }

    /// Advances the time until a segment is sent or no timer is running.
    pub(crate) fn until_sent(&mut self) -> &mut Self {
        while self.sent.is_empty() && self.sender.deadline().is_some() {
            self.advance(10);
        }
        self
    }

    /// Delivers an ACK of all segments up to number `segments`.
    pub(crate) fn ack(&mut self, segments: u64) -> &mut Self {
        self.sack(segments, &[])
    }

    /// Delivers a duplicate of the last ACK, without SACK blocks.
    pub(crate) fn dup(&mut self) -> &mut Self {
        self.sack(self.acked, &[])
    }

    /// Delivers an ACK of all segments up to number `segments`, with SACK blocks for ranges of segments, the most recent block first.
    pub(crate) fn sack(&mut self, segments: u64, blocks: &[RangeInclusive<u64>]) -> &mut Self {
        self.acked = segments;
        let ack = segments * SEGMENT;
        let range = |block: &RangeInclusive<u64>| ((block.start() - 1) * SEGMENT, block.end() * SEGMENT);
        self.receives(&Segment {
            ack,
            window: self.window as u32,
            flags: Flags { ack: true, ..Flags::default() },
            sack: SackBlocks::new(ack, blocks.iter().map(range)),
            timestamps: Timestamps { tsval: 1, tsecr: self.tsecr },
            ..Segment::default()
        })
    }

    /// Sets the time whose timestamp all later ACKs echo.
    pub(crate) fn echoes(&mut self, millis: u64) -> &mut Self {
        self.tsecr = Timestamps::tsval_at(ms(millis));
        self
    }

    /// Sets the window that all later ACKs advertise, bytes.
    pub(crate) fn advertises(&mut self, bytes: u64) -> &mut Self {
        self.window = bytes;
        self
    }

    pub(crate) fn receives(&mut self, segment: &Segment) -> &mut Self {
        self.sender.on_ack(self.now, segment, &self.config);
        self.drain();
        self
    }

    /// Checks that the retransmission timer expires at the current time and not earlier.
    #[track_caller]
    pub(crate) fn times_out(&mut self) -> &mut Self {
        let before = Time::from_nanos(self.now.as_nanos() - 1);
        assert!(!self.sender.on_timer(before, &self.config), "the timer expired too early");
        assert!(self.sender.on_timer(self.now, &self.config), "the timer did not expire");
        self.drain();
        self
    }

    /// Calls the sender at the current time, and checks that the retransmission timer does not expire.
    #[track_caller]
    pub(crate) fn wakes(&mut self) -> &mut Self {
        assert!(!self.sender.on_timer(self.now, &self.config), "the timer expired");
        self.drain();
        self
    }

    /// Checks that exactly the given segments were sent since the last check.
    #[track_caller]
    pub(crate) fn sends(&mut self, segments: &[u64]) -> &mut Self {
        assert_eq!(self.take(), segments, "segments sent at {}", self.now);
        self
    }

    /// Returns the segments sent since the last check.
    pub(crate) fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.sent)
    }

    /// Checks the cwnd of the controller, in segments.
    #[track_caller]
    pub(crate) fn cwnd(&mut self, segments: f64) -> &mut Self {
        assert_eq!(self.sender.control().cwnd, (segments * SEGMENT as f64) as u64, "cwnd at {}", self.now);
        self
    }

    /// Checks the window in use, in segments: cwnd with the changes that loss recovery makes.
    #[track_caller]
    pub(crate) fn window(&mut self, segments: u64) -> &mut Self {
        assert_eq!(self.sender.window(), segments * SEGMENT, "the window at {}", self.now);
        self
    }

    #[track_caller]
    pub(crate) fn ssthresh(&mut self, segments: f64) -> &mut Self {
        let bytes = (segments * SEGMENT as f64) as u64;
        assert_eq!(self.sender.control().ssthresh, Some(bytes), "ssthresh at {}", self.now);
        self
    }

    /// Checks the state of congestion window validation: pipeACK in segments, or `None` if pipeACK is undefined, and whether cwnd is
    /// validated.
    #[track_caller]
    pub(crate) fn validity(&mut self, pipe_ack: Option<u64>, is_validated: bool) -> &mut Self {
        let expected = Validity { pipe_ack: pipe_ack.map(|segments| segments * SEGMENT), is_validated };
        assert_eq!(self.sender.validity(), Some(expected), "the validity of cwnd at {}", self.now);
        self
    }

    /// Checks that the sender must be called next at `at` milliseconds.
    #[track_caller]
    pub(crate) fn timer(&mut self, at: u64) -> &mut Self {
        assert_eq!(self.sender.deadline(), Some(ms(at)), "the timer at {}", self.now);
        self
    }

    #[track_caller]
    pub(crate) fn no_timer(&mut self) -> &mut Self {
        assert_eq!(self.sender.deadline(), None, "the timer at {}", self.now);
        self
    }

    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    fn drain(&mut self) {
        while let Some(segment) = self.sender.transmit(self.now, &self.config) {
            self.sent.push(segment.seq / SEGMENT + 1);
            assert!(self.sent.len() < 1000, "it never stops: {:?}", &self.sent[..20]);
        }
    }
}
