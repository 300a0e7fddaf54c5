use crate::EcnKind;
use crate::control::validated::{Validated, ValidationSpec};
use crate::control::{AnyControl, CongestionControl, ControlKind, ControlSpec, Halving, Phase, Start};
use crate::pacing::{PacingKind, RoundStart};
use crate::recovery::RecoveryKind;
use crate::timer_wheel;
use catnip_base::{Span, Time};

/// Parameters of a connection. [`crate::profile`] has named sets of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// Data bytes in a full segment.
    pub segment_bytes: u32,
    /// Header bytes of a data segment on the wire.
    pub header_bytes: u32,
    /// True if the first segment is sent without its header, as in ns-2 when the SYN is not simulated.
    pub first_without_header: bool,
    /// True if every data segment has full size on the wire, even if it has less data (ns-2 counts packets).
    pub pads_segments: bool,
    /// Wire size of a segment without data.
    pub ack_bytes: u32,
    /// Wire bytes per SACK block.
    pub sack_block_bytes: u32,
    /// Initial cwnd, segments.
    pub initial_window: u32,
    /// Receive window, bytes.
    pub receive_window: u64,
    /// True if the receive window grows with the received data up to `receive_window`, as in Linux.
    pub tunes_window: bool,
    /// True if segments carry timestamps (RFC 7323).
    pub timestamps: bool,
    /// Initial ssthresh.
    pub initial_ssthresh: InitialSsthresh,
    /// Loss recovery.
    pub recovery: RecoveryKind,
    /// Congestion control: the growth and reduction of cwnd.
    pub control: ControlSpec,
    /// Quantity that is halved after a loss to set ssthresh.
    pub halving: Halving,
    /// True if cwnd grows even while the application or the receive window leaves it unused.
    pub grow_unused: bool,
    /// True if cwnd grows by all bytes that an ACK acknowledges (Linux; RFC 3465 without a limit). If false, it grows by at most one
    /// segment per ACK.
    pub byte_counting: bool,
    /// True if the ACK that ends a fast recovery also increases cwnd.
    pub grow_on_exit: bool,
    /// Pacing of transmissions.
    pub pacing: PacingKind,
    /// Nagle's algorithm: a short segment waits while data is unacknowledged (RFC 896).
    pub nagle: bool,
    /// Congestion window validation: the treatment of a cwnd that is not used. The classic senders support `none` and `restart`.
    pub validation: ValidationSpec,
    /// Use of ECN. The classic senders do not support ECN.
    pub ecn: EcnKind,
    /// Limited transmit (RFC 3042): each of the first two duplicate ACKs releases one new segment.
    pub limited_transmit: bool,
    /// Number of segments that must be acknowledged before a fast retransmit is possible.
    pub earliest_fast_retransmit: u32,
    /// True if the second segment may be fast retransmitted while only the first segment is acknowledged, regardless of other conditions
    /// (ns-2's `bugFix_ss_`).
    pub second_always_fast: bool,
    /// True if duplicate ACKs inflate the window even when they may not trigger a fast retransmit (ns-2 before 2003, `exitFastRetrans_`
    /// off).
    pub inflate_without_retransmit: bool,
    /// True if Tahoe keeps its count of duplicate ACKs after a timeout, so that a later duplicate ACK may be the third one (ns-2's base
    /// class). BSD and the other agents of ns-2 reset the count.
    pub tahoe_keeps_dupacks: bool,
    /// Maximum number of data segments that one ACK may release while NewReno receives duplicate ACKs.
    pub recovery_burst: u32,
    /// Retransmission timer.
    pub rto: RtoConfig,
    /// True if segments leave in units of segmentation offload: a single segment may wait for a second one while the next ACK is near, and
    /// what leaves is cut at the end of the peer's window (Linux). Only the sender with RACK supports it.
    pub segmentation_offload: bool,
    /// True if timers expire at the ticks of Linux's timer wheel at 250 Hz.
    pub timer_wheel: bool,
    /// Delayed ACKs; `None` if every segment is acknowledged immediately.
    pub delayed_ack: Option<DelayedAck>,
    /// Number of timeouts of a SYN after which the RTO is not doubled (Linux's tcp_syn_linear_timeouts).
    pub syn_linear_timeouts: u32,
    /// True if connections begin with a three-way handshake.
    pub handshake: bool,
    /// True if the round trip of the handshake is the first RTT sample (RFC 6298, section 2).
    pub times_handshake: bool,
    /// True if connections end with a FIN.
    pub fin: bool,
}

/// Initial ssthresh of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialSsthresh {
    /// Receive window (ns-2).
    ReceiveWindow,
    /// No limit: ssthresh is arbitrarily high (RFC 5681, section 3.1).
    Infinite,
}

/// Parameters of the retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoConfig {
    /// Resolution of the clock that measures round trips. The timeout is at least two ticks.
    pub tick: Span,
    /// Timeout before the first RTT sample.
    pub first: Span,
    /// Minimum timeout.
    pub min: Span,
    /// Maximum timeout.
    pub max: Span,
    /// True if the minimum timeout applies before back-off (RFC 6298) instead of after it.
    pub floor_before_backoff: bool,
}

/// Parameters of delayed ACKs (RFC 1122, section 4.2.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// Number of unacknowledged segments at which an ACK is sent immediately.
    pub every: u32,
    /// Maximum delay of an ACK.
    pub max_delay: Span,
    /// True if the first segment of a connection is acknowledged immediately (ns-2's `SYN_immediate_ack_`).
    pub first_at_once: bool,
    /// True if the ACK of a repetition of the newest segment may be delayed when no data is missing (ns-2). RFC 5681, section 4.2, requires
    /// an immediate ACK for out-of-order segments.
    pub delays_duplicates: bool,
    /// True if one timer per host fires every `max_delay` and sends the pending ACKs (BSD's fast timer; Stevens, TCP/IP Illustrated 2,
    /// section 25.4). A single segment then waits for half of `max_delay` on average. If false, each segment has its own timer.
    pub heartbeat: bool,
    /// Number of quick ACKs. These ACKs are sent immediately, at the start of a connection and after an idle period longer than
    /// `quick_after` (Linux, net/ipv4/tcp_input.c, `tcp_incr_quickack`).
    pub quick: u32,
    /// Idle period after which quick ACKs are sent.
    pub quick_after: Span,
    /// True if all of Linux's rules apply: the delay follows the time between arrivals, answers end quick ACKs, the RTO is the idle period
    /// after which ACKs are quick again, and ACKs that only report out-of-order data are compressed. `every` is two then.
    pub linux: bool,
    /// Maximum delay of SACK compression with `linux` (tcp_comp_sack_delay_ns), without the slack of its timer. From the fourth on, ACKs that
    /// only report out-of-order data may wait for this time, or for a twentieth of the round trip if that is shorter, and are sent as one
    /// ACK. With zero, each ACK is sent immediately.
    pub sack_delay: Span,
}

impl DelayedAck {
    /// Returns the latest time at which the ACK of a segment that arrives at `now` is sent. `phase` is the phase of the host's clock.
    pub(crate) fn due(&self, now: Time, phase: Span) -> Time {
        if !self.heartbeat {
            return now + self.max_delay;
        }
        let since_beat = (now + phase).as_nanos() % self.max_delay.as_nanos();
        now + Span::from_nanos(self.max_delay.as_nanos() - since_beat)
    }
}

/// Maximum window scale (RFC 7323, section 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

impl TcpConfig {
    /// Returns the receive window in whole segments.
    pub fn receive_window_segments(&self) -> u64 {
        self.receive_window / u64::from(self.segment_bytes)
    }

    /// Returns the initial window in bytes.
    pub fn initial_window_bytes(&self) -> u64 {
        u64::from(self.initial_window) * u64::from(self.segment_bytes)
    }

    /// Creates the controller of a new connection, including congestion window validation.
    pub(crate) fn controller(&self) -> Validated<AnyControl> {
        let control = self.control.build(&self.start());
        Validated::new(control, self.validation, self.initial_window_bytes(), self.segment_bytes.into())
    }

    /// Returns the description of a round that begins now. `unsent` is the number of bytes not yet sent.
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

    /// Returns the window scale: the smallest shift for which the shifted receive window fits into 16 bits (RFC 7323, section 2).
    pub fn window_scale(&self) -> u8 {
        let fits = |shift: &u8| self.receive_window.div_ceil(1 << shift) <= u64::from(u16::MAX);
        (0..MAX_WINDOW_SCALE).find(fits).unwrap_or(MAX_WINDOW_SCALE)
    }

    /// Returns the initial state of a controller.
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

    /// Returns the expiry of a timer that is started at `now` for `delay`, on a host whose clock has the given phase.
    pub(crate) fn expiry(&self, now: Time, delay: Span, phase: Span) -> Time {
        if self.timer_wheel { timer_wheel::expiry(now, delay, phase) } else { now + delay }
    }

    /// Returns the period of the slowest clock to which the phase of a host applies: the tick, the timer wheel, or the heartbeat
    /// timer of delayed ACKs.
    pub fn slowest_clock(&self) -> Span {
        match self.delayed_ack {
            _ if self.timer_wheel => self.rto.tick.max(timer_wheel::PERIOD),
            Some(d) if d.heartbeat => self.rto.tick.max(d.max_delay),
            _ => self.rto.tick,
        }
    }

    /// Returns the wire size of a segment with `len` data bytes from byte `seq` of the stream and with `sack_blocks` SACK blocks.
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
        // RFC 9293 and RFC 2018: 40 bytes of headers, 12 bytes of timestamps and 8 bytes per SACK block.
        let config = profile::rfc();
        assert_eq!(config.wire_bytes(0, 1448, 0), 1500);
        assert_eq!(config.wire_bytes(1448, 100, 0), 152);
        assert_eq!((config.wire_bytes(0, 0, 0), config.wire_bytes(0, 0, 3)), (52, 52 + 24));
        assert_eq!(config.wire_bytes(1448, 1448, 2), 1516);
    }

    #[test]
    fn ns_2_sends_whole_packets_and_the_first_one_without_a_header() {
        // docs/deviations.md, "ns-2 behaviour that deviates from the RFCs", 1.
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
        // A timer that is started by each segment has no phase.
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
