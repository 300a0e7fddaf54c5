use crate::EcnKind;
use crate::control::validated::{Validated, ValidationSpec};
use crate::control::{AnyControl, CongestionControl, ControlKind, ControlSpec, Halving, Phase, Start};
use crate::pacing::{PacingKind, RoundStart};
use crate::recovery::RecoveryKind;
use catnip_base::{Span, Time};

/// All parameters of a connection. See [`crate::profile`] for named sets of them.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// Data bytes in a full segment.
    pub segment_bytes: u32,
    /// Header bytes of a data segment on the wire.
    pub header_bytes: u32,
    /// The first segment is sent without its header (an oddity of ns-2 when the SYN is not simulated).
    pub first_without_header: bool,
    /// Every data segment has full size on the wire, however little data is left (ns-2 counts packets).
    pub pads_segments: bool,
    /// Wire size of a segment without data.
    pub ack_bytes: u32,
    /// Wire bytes that each SACK block adds.
    pub sack_block_bytes: u32,
    /// cwnd at the start, segments.
    pub initial_window: u32,
    /// What the other side can take in, bytes.
    pub receive_window: u64,
    /// That is where a window ends that tunes itself to what arrives, as Linux's does.
    pub tunes_window: bool,
    /// Segments carry times (RFC 7323).
    pub timestamps: bool,
    /// ssthresh at the start.
    pub initial_ssthresh: InitialSsthresh,
    /// What to resend.
    pub recovery: RecoveryKind,
    /// How fast to grow, how much to cut.
    pub control: ControlSpec,
    /// What half of the window means.
    pub halving: Halving,
    /// cwnd grows even while the application or the receive window keeps it unused.
    pub grow_unused: bool,
    /// The window grows by what an ACK acknowledges, however much (Linux; RFC 3465 with no limit), instead of by one segment at most.
    pub byte_counting: bool,
    /// The ACK that ends a fast recovery also opens the window.
    pub grow_on_exit: bool,
    /// When to put new data on the wire.
    pub pacing: PacingKind,
    /// A short segment waits while data is unacknowledged (RFC 896).
    pub nagle: bool,
    /// What becomes of a window that is not used. The classic senders know `none` and `restart`.
    pub validation: ValidationSpec,
    /// What is done about congestion marks. The classic senders know none.
    pub ecn: EcnKind,
    /// RFC 3042: the first two duplicate ACKs each release one new segment.
    pub limited_transmit: bool,
    /// Segments that must have been acknowledged before a fast retransmit is possible.
    pub earliest_fast_retransmit: u32,
    /// When only the first segment has been acknowledged, the second one may be retransmitted fast whatever else
    /// holds (ns-2's `bugFix_ss_`).
    pub second_always_fast: bool,
    /// Duplicate ACKs inflate the window even when they may not trigger a fast retransmit (ns-2 before 2003,
    /// `exitFastRetrans_` off).
    pub inflate_without_retransmit: bool,
    /// Tahoe goes on counting duplicate ACKs over a timeout, so that late ones may be the third (ns-2's base class; BSD
    /// and the other agents of ns-2 begin anew).
    pub tahoe_counts_on: bool,
    /// Data segments that one ACK may release while NewReno sees duplicates.
    pub recovery_burst: u32,
    /// The retransmission timer.
    pub rto: RtoConfig,
    /// Delayed acknowledgements, if any.
    pub delayed_ack: Option<DelayedAck>,
    /// Connections begin with a three-way handshake.
    pub handshake: bool,
    /// The round trip of a handshake is the first sample of the retransmission timer (RFC 6298, section 2).
    pub times_handshake: bool,
    /// Connections end with a FIN.
    pub fin: bool,
}

/// ssthresh at the start of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialSsthresh {
    /// The receive window (ns-2).
    ReceiveWindow,
    /// As high as possible (RFC 5681, section 3.1).
    Infinite,
}

/// Parameters of the retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoConfig {
    /// Resolution of the clock that measures round trips; also, twice this is the least timeout.
    pub tick: Span,
    /// Timeout before the first sample.
    pub first: Span,
    /// Least timeout.
    pub min: Span,
    /// Greatest timeout.
    pub max: Span,
    /// The least timeout applies before back-off (RFC 6298) instead of after it.
    pub floor_before_backoff: bool,
}

/// RFC 1122, section 4.2.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// An ACK for at least every so many segments.
    pub every: u32,
    /// No ACK is later than this.
    pub max_delay: Span,
    /// The first segment of a connection is acknowledged at once (ns-2's `SYN_immediate_ack_`).
    pub first_at_once: bool,
    /// A repetition of the newest segment may wait, too, where nothing is missing (ns-2; by RFC 5681, section 4.2, what is
    /// out of order is acknowledged at once).
    pub repeats_wait: bool,
    /// One timer per host beats every `max_delay` and sends what waits (BSD's fast timer; Stevens, TCP/IP Illustrated 2,
    /// section 25.4), so that a lone segment waits for half of it on average. Otherwise each segment has its own timer.
    pub heartbeat: bool,
    /// Linux's quick ACKs (net/ipv4/tcp_input.c, `tcp_incr_quickack`): so many at the start of a connection, and after a silence
    /// longer than `quick_after`, are sent at once.
    pub quick: u32,
    /// Such a silence; the kernel takes its retransmission timeout.
    pub quick_after: Span,
    /// Linux's SACK compression (tcp_comp_sack_delay_ns): the fourth ACK that only reports, and those behind it, may wait for so
    /// long, or for a twentieth of the round trip, and go as one; zero: each is sent at once.
    pub sack_delay: Span,
}

impl DelayedAck {
    /// When a segment that arrives at `now` is acknowledged at the latest.
    pub(crate) fn due(&self, now: Time, phase: Span) -> Time {
        if !self.heartbeat {
            return now + self.max_delay;
        }
        let since_beat = (now + phase).as_nanos() % self.max_delay.as_nanos();
        now + Span::from_nanos(self.max_delay.as_nanos() - since_beat)
    }
}

/// RFC 7323, section 2.3.
pub const MAX_WINDOW_SCALE: u8 = 14;

impl TcpConfig {
    /// The receive window in whole segments.
    pub fn receive_window_segments(&self) -> u64 {
        self.receive_window / u64::from(self.segment_bytes)
    }

    /// The initial window in bytes.
    pub fn initial_window_bytes(&self) -> u64 {
        u64::from(self.initial_window) * u64::from(self.segment_bytes)
    }

    /// The controller of a new connection, with the rule around it.
    pub(crate) fn controller(&self) -> Validated<AnyControl> {
        let control = self.control.build(&self.start());
        Validated::new(control, self.validation, self.initial_window_bytes(), self.segment_bytes.into())
    }

    /// The round that begins now, with so many bytes never sent so far.
    pub(crate) fn round_start(
        &self,
        control: &impl CongestionControl,
        unsent: u64,
        srtt: Option<Span>,
    ) -> RoundStart {
        let segment = u64::from(self.segment_bytes);
        let window = control.cwnd() / segment;
        let next_window_segments = match control.phase(unsent) {
            Phase::SlowStart => (2 * window).min(self.receive_window_segments()),
            Phase::CongestionAvoidance => window,
        };
        RoundStart { unsent_segments: unsent.div_ceil(segment), next_window_segments, srtt }
    }

    /// The shift of windows on the wire: the least one with which the whole window fits into 16 bits (RFC 7323, section 2).
    pub fn window_scale(&self) -> u8 {
        let fits = |shift: &u8| self.receive_window.div_ceil(1 << shift) <= u64::from(u16::MAX);
        (0..MAX_WINDOW_SCALE).find(fits).unwrap_or(MAX_WINDOW_SCALE)
    }

    /// What a controller starts from.
    pub fn start(&self) -> Start {
        Start {
            segment_bytes: self.segment_bytes,
            window: self.initial_window,
            ssthresh: match self.initial_ssthresh {
                InitialSsthresh::ReceiveWindow => Some(self.receive_window_segments()),
                InitialSsthresh::Infinite => None,
            },
            halving: self.halving,
            grow_unused: self.grow_unused,
            byte_counting: self.byte_counting,
        }
    }

    /// The period of the slowest clock that a host's phase belongs to: its tick, or its ACK timer if that beats.
    pub fn slowest_clock(&self) -> Span {
        match self.delayed_ack {
            Some(d) if d.heartbeat => self.rto.tick.max(d.max_delay),
            _ => self.rto.tick,
        }
    }

    /// Wire size of a segment with `len` data bytes at `seq` and so many SACK blocks.
    pub fn wire_bytes(&self, seq: u64, len: u32, sack_blocks: usize) -> u32 {
        let len = if self.pads_segments && len > 0 { self.segment_bytes } else { len };
        let base = match len {
            0 => self.ack_bytes,
            _ if seq == 0 && self.first_without_header => len,
            _ => len + self.header_bytes,
        };
        base + self.sack_block_bytes * sack_blocks as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    #[test]
    fn a_segment_has_its_header_and_its_blocks_on_the_wire() {
        // RFC 9293 and RFC 2018: 40 bytes of headers and 12 of timestamps, 8 for each block.
        let config = profile::rfc();
        assert_eq!(config.wire_bytes(0, 1448, 0), 1500);
        assert_eq!(config.wire_bytes(1448, 100, 0), 152);
        assert_eq!((config.wire_bytes(0, 0, 0), config.wire_bytes(0, 0, 3)), (52, 52 + 24));
        assert_eq!(config.wire_bytes(1448, 1448, 2), 1516);
    }

    #[test]
    fn ns_2_sends_whole_packets_and_the_first_one_without_a_header() {
        // docs/deviations.md, "What ns-2 does and the standards do not", 1.
        let config = profile::ns2_235();
        assert_eq!([0, 512, 1024].map(|seq| config.wire_bytes(seq, 512, 0)), [512, 552, 552]);
        assert_eq!((config.wire_bytes(512, 10, 0), config.wire_bytes(0, 10, 0)), (552, 512));
        assert_eq!((config.wire_bytes(0, 0, 0), config.wire_bytes(0, 0, 1)), (40, 48));
    }

    #[test]
    fn a_window_holds_whole_segments() {
        let config = TcpConfig { receive_window: 10_000, ..profile::rfc() };
        assert_eq!(config.receive_window_segments(), 6);
        assert_eq!(profile::ns2_2002().receive_window_segments(), 20);
    }

    #[test]
    fn the_slowest_clock_is_the_tick_or_an_ack_timer_that_beats() {
        let ms = Span::from_millis;
        assert_eq!(profile::ns2_2002().slowest_clock(), ms(100));
        assert_eq!(profile::bsd_reno().slowest_clock(), ms(200));
        // A timer that starts with its segment has no phase.
        assert_eq!(profile::rfc().slowest_clock(), Span::from_micros(1));
        let ticks = RtoConfig { tick: ms(500), ..profile::bsd_reno().rto };
        assert_eq!(TcpConfig { rto: ticks, ..profile::bsd_reno() }.slowest_clock(), ms(500));
    }

    #[test]
    fn an_ack_timer_that_beats_is_due_at_its_next_beat_and_another_one_after_its_delay() {
        let after = |heartbeat, now_ms: u64, phase_ms| {
            let timer = DelayedAck { heartbeat, ..profile::rfc().delayed_ack.unwrap() };
            let now = Time::ZERO + Span::from_millis(now_ms);
            (timer.due(now, Span::from_millis(phase_ms)) - now).as_nanos() / 1_000_000
        };
        assert_eq!([0, 30, 390].map(|now| after(false, now, 50)), [200; 3]);
        assert_eq!([0, 30, 390].map(|now| after(true, now, 50)), [150, 120, 160]);
        assert_eq!(after(true, 150, 50), 200, "a beat that is now has passed");
    }
}
