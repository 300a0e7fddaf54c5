use crate::ecn_state::EcnState;
use crate::linux_acks::LinuxAcks;
use crate::receive_window::TunedWindow;
use crate::recovery::RecoveryKind;
use crate::segment::earlier;
use crate::timestamps::TimestampState;
use crate::transmission::Transmission;
use crate::{EcnBits, Flags, Receiver, Segment, Sender, TcpConfig, Timestamps};
use catnip_base::{FlowContext, Span, Time};
use catnip_net::Ecn;
use catnip_net::mark::{PacketKind, Position, SenderState};

/// One end of a connection: a sender, a receiver and the handshake.
///
/// An endpoint has no I/O. Its inputs are segments, data to send and the time. [`Endpoint::transmit`] returns segments until there is
/// nothing to send.
#[derive(Debug)]
pub struct Endpoint {
    /// Sending half, created by the first write; `None` on an end that only receives.
    sender: Option<Sender>,
    /// Receiving half.
    pub receiver: Receiver,
    state: State,
    /// Time from the last tick of this host's clock before the start of the run to the start of the run. The heartbeat of delayed ACKs has
    /// the same phase.
    phase: Span,
    handshake: Handshake,
    /// End of the peer's FIN; `None` until the FIN is received.
    fin_end: Option<u64>,
    /// Number of timeouts of the handshake.
    syn_timeouts: u32,
    /// Receive window in the peer's last segment before this end has a sender, bytes; that of the configuration before the peer's SYN.
    first_window: u32,
    /// True if the connection is open, its segments carry neither ECN bits nor timestamps, and ACKs do not follow Linux's rules.
    is_fast_path: bool,
    ecn_state: EcnState,
    timestamp_state: TimestampState,
}

// Each connection has two endpoints, so their size determines memory use and cache misses in large networks. The size may shrink, but
// should not grow without a reason.
const _: () = assert!(size_of::<Endpoint>() <= 272);

/// Role of an end in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Active open: sends the SYN.
    Active,
    /// Passive open: waits for the SYN.
    Passive,
}

/// Segment to send, with the properties of its packet.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// Header fields and length of the segment.
    pub segment: Segment,
    /// True if the data was sent before.
    pub retransmission: bool,
    /// ECN codepoint of the packet.
    pub ecn: Ecn,
}

/// ECN bits, ECN codepoint and timestamps of a segment.
struct Extensions {
    ecn: EcnBits,
    codepoint: Ecn,
    timestamps: Timestamps,
}

impl Extensions {
    const NONE: Self =
        Self { ecn: EcnBits::NONE, codepoint: Ecn::NOT_ECT, timestamps: Timestamps { tsval: 0, tsecr: 0 } };
}

/// Result of a handshake that the sender uses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Handshake {
    /// No result: there was no handshake, it is in progress, or it was not timed.
    NoSample,
    /// Transmission time of the SYN or SYN-ACK, and arrival time of the answer.
    RttSample(Time, Time),
    /// Handshake that needed retransmissions.
    Retransmitted {
        /// Number of retransmissions; zero if they only answered repeated SYNs.
        count: u32,
        /// Round trip by the echoed timestamp; zero without timestamps.
        tsecr_rtt: Span,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Listen,
    /// Handshake in progress: a SYN (or a SYN-ACK, on the passive side) is due or in flight.
    Opening {
        role: Role,
        attempts: u32,
        last_sent: Time,
        retry_at: Time,
        send_now: bool,
    },
    Open,
}

impl Endpoint {
    /// Creates an end that begins its part of the handshake at `now`. Without a handshake in the configuration, the end is open
    /// immediately.
    pub fn new(now: Time, role: Role, config: &TcpConfig, phase: Span) -> Self {
        let state = match (config.handshake, role) {
            (false, _) => State::Open,
            (true, Role::Passive) => State::Listen,
            (true, Role::Active) => State::opening(role, now),
        };
        Self {
            sender: None,
            receiver: Receiver::new(config.recovery == RecoveryKind::Sack1)
                .with_dsack(config.recovery.uses_dsack())
                .with_linux_acks(config.delayed_ack.filter(|delayed| delayed.linux).map(|delayed| {
                    let wheel_phase = config.timer_wheel.then_some(phase);
                    let segment = config.segment_bytes.into();
                    LinuxAcks::new(
                        delayed.quick,
                        segment,
                        config.receive_window,
                        config.rto.first,
                        wheel_phase,
                    )
                }))
                .with_tuned_window(
                    config
                        .tunes_window
                        .then(|| TunedWindow::new(now, config.segment_bytes.into(), config.receive_window)),
                ),
            state,
            phase,
            handshake: Handshake::NoSample,
            fin_end: None,
            syn_timeouts: 0,
            first_window: config.receive_window.min(u64::from(u32::MAX)) as u32,
            is_fast_path: state == State::Open && Self::has_no_extensions(config),
            ecn_state: EcnState::new(!config.handshake && config.ecn.is_enabled()),
            timestamp_state: TimestampState::default(),
        }
    }

    /// Writes data to send; see [`Sender::write`].
    pub fn write(
        &mut self,
        now: Time,
        bytes: u64,
        context: Option<FlowContext>,
        last: bool,
        config: &TcpConfig,
    ) {
        let (phase, handshake, first_window) = (self.phase, self.handshake, self.first_window);
        let sender = self.sender.get_or_insert_with(|| {
            let mut sender = Sender::new(config, phase);
            handshake.notify(&mut sender, config, phase);
            sender.on_first_window(first_window.into());
            sender
        });
        sender.write(now, bytes, context, last, config);
    }

    /// Handles an arriving segment.
    #[inline]
    pub fn on_segment(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if !self.is_fast_path || segment.flags.syn || segment.ecn.ece() {
            return self.on_segment_slow_path(now, segment, config);
        }
        self.on_open_segment::<false>(now, segment, config);
    }

    /// Handles an arriving segment outside of the fast path: during a handshake, or if segments carry ECN bits or timestamps.
    #[inline(never)]
    fn on_segment_slow_path(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if let Some(age) = self.timestamp_state.age(segment)
            && self.is_discarded(age, segment, config)
        {
            return self.on_old_segment(now, segment);
        }
        self.timestamp_state.on_segment(segment);
        if !self.is_open() || segment.flags.syn {
            self.on_handshake(now, segment, config);
        }
        if !segment.flags.syn && self.is_open() {
            if segment.seq_len() > 0 {
                let elapsed = Timestamps::rtt(now, segment.timestamps.tsecr);
                self.receiver.on_tsecr(segment.timestamps.tsecr, elapsed.unwrap_or(Span::ZERO));
            }
            self.on_open_segment::<true>(now, segment, config);
        }
    }

    /// Returns true if a segment is discarded because its timestamp is `age` milliseconds too old (tcp_paws_discard). An ACK that says nothing new is not discarded
    /// (tcp_disordered_ack).
    #[cold]
    fn is_discarded(&self, age: u32, segment: &Segment, config: &TcpConfig) -> bool {
        if !self.is_open() || segment.flags.syn {
            return false;
        }
        let is_harmless = segment.seq_len() == 0
            && segment.seq == self.receiver.rcv_nxt()
            && self.sender.as_ref().is_some_and(|sender| {
                segment.ack == sender.snd_una() && u64::from(age) * 1_000_000 <= sender.rto(config).as_nanos()
            });
        !is_harmless
    }

    /// Answers a segment that is discarded because of its timestamp (RFC 7323, section 5.3, R1: "Send an acknowledgment in reply").
    #[inline(never)]
    fn on_old_segment(&mut self, now: Time, segment: &Segment) {
        if segment.seq_len() > 0 {
            self.receiver.on_unacceptable(segment.seq, segment.seq + segment.seq_len());
        } else if self.timestamp_state.may_answer(now) {
            self.receiver.request_ack();
        }
    }

    #[inline(always)]
    fn on_open_segment<const EXTENSIONS: bool>(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if segment.flags.ack
            && let Some(sender) = &mut self.sender
        {
            if EXTENSIONS && segment.ecn.ece() && !self.ecn_state.is_negotiated {
                // ECN-Echo means nothing without an agreement on ECN.
                sender.on_ack(now, &Segment { ecn: EcnBits::NONE, ..*segment }, config);
            } else {
                sender.on_ack(now, segment, config);
            }
        } else if EXTENSIONS {
            self.first_window = segment.window;
        }
        if segment.seq_len() > 0 {
            let end = segment.seq + segment.seq_len();
            if EXTENSIONS {
                self.ecn_state.on_data(config.ecn, segment.ecn, &mut self.receiver);
            }
            if segment.flags.fin {
                self.fin_end = Some(end);
                self.receiver.request_ack();
            }
            if EXTENSIONS && let Some(sender) = &self.sender {
                self.receiver.set_estimates(|| (sender.rto(config), sender.srtt()));
            }
            self.receiver.on_data(now, segment.seq, end, config.delayed_ack.as_ref(), self.phase);
        }
    }

    /// Handles the timers that have expired by `now`. Returns true if a retransmission timer has expired.
    pub fn on_timer(&mut self, now: Time, config: &TcpConfig) -> bool {
        if let State::Opening { role, attempts, retry_at, send_now, .. } = &mut self.state
            && *retry_at <= now
        {
            let linear_timeouts = if *role == Role::Active { config.syn_linear_timeouts } else { 0 };
            *send_now = true;
            self.syn_timeouts += 1;
            let backoff = 1u64 << attempts.saturating_sub(linear_timeouts).min(16);
            let timeout =
                Span::from_nanos((config.rto.first * backoff).as_nanos().min(config.rto.max.as_nanos()));
            *retry_at = config.expiry(now, timeout, self.phase);
            return true;
        }
        self.state == State::Open && self.sender.as_mut().is_some_and(|sender| sender.on_timer(now, config))
    }

    /// Returns the next segment to send at `now`; `None` if there is nothing to send.
    #[inline]
    pub fn transmit(&mut self, now: Time, config: &TcpConfig) -> Option<Outgoing> {
        if self.is_fast_path {
            self.transmit_open::<false>(now, config)
        } else {
            self.transmit_slow_path(now, config)
        }
    }

    /// Returns the next segment to send outside of the fast path.
    #[inline(never)]
    fn transmit_slow_path(&mut self, now: Time, config: &TcpConfig) -> Option<Outgoing> {
        if !self.is_open() {
            return self.transmit_handshake(now, config);
        }
        self.early_ack(now, config).or_else(|| self.transmit_open::<true>(now, config))
    }

    #[inline(always)]
    fn transmit_open<const EXTENSIONS: bool>(&mut self, now: Time, config: &TcpConfig) -> Option<Outgoing> {
        let sent = self.sender.as_mut().and_then(|sender| sender.transmit(now, config));
        if sent.is_none() {
            if !self.receiver.needs_ack(now) {
                return None;
            }
            if EXTENSIONS {
                self.receiver.on_ack_timer(now);
            }
        }
        let extensions =
            if EXTENSIONS { self.extensions(now, sent.as_ref(), config) } else { Extensions::NONE };
        let (seq, len, fin, retransmission) = match &sent {
            Some(sent) => (sent.seq, sent.len, sent.fin, sent.retransmission),
            None => (self.sender.as_ref().map_or(0, Sender::snd_max), 0, false, false),
        };
        let segment = Segment {
            seq,
            len,
            flags: Flags { syn: false, ack: true, fin },
            ecn: extensions.ecn,
            timestamps: extensions.timestamps,
            ..self.acknowledgement(config)
        };
        self.receiver.on_ack_sent();
        if EXTENSIONS {
            self.receiver.on_linux_ack_sent(now, sent.is_some());
        }
        Some(Outgoing { segment, retransmission, ecn: extensions.codepoint })
    }

    /// Returns the ACK that must precede all other segments because the CE state of the received data has changed.
    fn early_ack(&mut self, now: Time, config: &TcpConfig) -> Option<Outgoing> {
        let ack = self.ecn_state.take_early_ack()?;
        let Extensions { timestamps, .. } = self.extensions(now, None, config);
        let segment =
            Segment { ack, ecn: self.ecn_state.early_ack_bits(), timestamps, ..self.acknowledgement(config) };
        Some(Outgoing { segment, retransmission: false, ecn: Ecn::NOT_ECT })
    }

    /// Returns the ECN bits, the ECN codepoint and the timestamps of a segment. `sent` is its data; `None` for a pure ACK.
    fn extensions(&mut self, now: Time, sent: Option<&Transmission>, config: &TcpConfig) -> Extensions {
        // RFC 3168, section 6.1.5: "the TCP sender MUST NOT set either an ECT(0) or ECT(1) codepoint ... on retransmitted data packets";
        // section 6.1.4 requires the same for pure ACKs.
        let is_ect =
            self.ecn_state.is_negotiated && sent.is_some_and(|sent| !sent.retransmission && sent.len > 0);
        let ack = self.receiver.rcv_nxt();
        Extensions {
            ecn: self.ecn_state.segment_bits(sent.is_some_and(|sent| sent.cwr)),
            codepoint: if is_ect { config.ecn.codepoint() } else { Ecn::NOT_ECT },
            timestamps: if config.timestamps {
                self.timestamp_state.for_segment(now, ack)
            } else {
                Timestamps::default()
            },
        }
    }

    /// Returns the time at which the endpoint must be called if no segment arrives before; `None` if no timer is running.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Open => {
                earlier(self.sender.as_ref().and_then(|sender| sender.deadline()), self.receiver.deadline())
            }
            State::Opening { retry_at, .. } => Some(retry_at),
            State::Listen => None,
        }
    }

    /// Returns the number of data bytes received in order.
    #[inline]
    pub fn received(&self) -> u64 {
        self.receiver.rcv_nxt() - u64::from(self.peer_closed())
    }

    /// Returns true if the peer's FIN and all data before it have arrived.
    pub fn peer_closed(&self) -> bool {
        self.fin_end == Some(self.receiver.rcv_nxt())
    }

    /// Returns true if the handshake is complete, or if the configuration has no handshake.
    #[inline]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Returns the number of timeouts of the handshake.
    pub fn syn_timeouts(&self) -> u32 {
        self.syn_timeouts
    }

    /// Returns the sending half; `None` if the application has not written yet.
    #[inline]
    pub fn sender(&self) -> Option<&Sender> {
        self.sender.as_ref()
    }

    /// Returns the properties of the segment `out` that a marker may use. They do not include the priority of the data that an ACK
    /// acknowledges, because the endpoint does not have this priority.
    pub fn sender_state(&self, out: &Outgoing, config: &TcpConfig) -> SenderState {
        let segment = &out.segment;
        let kind = match segment.flags.syn {
            true => PacketKind::Syn,
            false if segment.seq_len() == 0 => PacketKind::Ack(None),
            false => PacketKind::Data,
        };
        let own = SenderState {
            kind,
            segment: config.segment_bytes,
            receive_window: config.receive_window,
            retransmission: out.retransmission,
            ..SenderState::default()
        };
        let Some(sender) = self.sender() else { return own };
        let (start, context) = sender.message_at(segment.seq);
        SenderState {
            context,
            offset: segment.seq.saturating_sub(start),
            window: sender.control().cwnd,
            receive_window: sender.peer_window(),
            recovering: sender.in_recovery(),
            ..own
        }
    }

    /// Returns the properties of the data at `seq` that selective packet marking may use. This end must have sent the data.
    #[inline]
    pub fn position(&self, seq: u64) -> Position {
        let Some(sender) = self.sender() else { return Position { offset: seq, bytes: None, window: 0 } };
        let (start, context) = sender.message_at(seq);
        let bytes = context.map(|context| context.bytes_left);
        Position { offset: seq.saturating_sub(start), bytes, window: sender.control().cwnd }
    }

    /// Builds a pure ACK. The function is inlined so that the segment with its SACK blocks is built in place and not copied.
    #[inline(always)]
    fn acknowledgement(&self, config: &TcpConfig) -> Segment {
        Segment {
            seq: self.sender.as_ref().map_or(0, Sender::snd_max),
            ack: self.receiver.rcv_nxt(),
            len: 0,
            window: self.receiver.window(config.receive_window).min(u64::from(u32::MAX)) as u32,
            flags: Flags { syn: false, ack: true, fin: false },
            sack: if config.recovery.uses_sack() { self.receiver.sack() } else { Default::default() },
            ecn: EcnBits::default(),
            timestamps: Timestamps::default(),
        }
    }

    fn on_handshake(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if segment.flags.syn && self.state != State::Open {
            self.first_window = segment.window;
            self.ecn_state.on_syn(config.ecn, segment);
        }
        match (self.state, segment.flags.syn, segment.flags.ack) {
            (State::Listen, true, false) => self.state = State::opening(Role::Passive, now),
            (State::Opening { role: Role::Active, .. }, true, true) => {
                self.finish_handshake(now, segment, config);
                self.receiver.request_ack();
            }
            (State::Opening { role: Role::Passive, .. }, false, true) => {
                self.finish_handshake(now, segment, config);
            }
            (State::Opening { role: Role::Passive, .. }, true, false) => {
                if let State::Opening { send_now, .. } = &mut self.state {
                    *send_now = true;
                }
            }
            // The peer has not received the last ACK of the handshake.
            (State::Open, true, true) => self.receiver.request_ack(),
            _ => {}
        }
    }

    fn finish_handshake(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if let State::Opening { attempts, last_sent, .. } = self.state {
            self.handshake = match attempts {
                1 if config.times_handshake => Handshake::RttSample(last_sent, now),
                1 => Handshake::NoSample,
                _ => Handshake::Retransmitted {
                    count: if self.syn_timeouts > 0 { attempts - 1 } else { 0 },
                    tsecr_rtt: Timestamps::rtt(now, segment.timestamps.tsecr)
                        .filter(|_| config.timestamps)
                        .unwrap_or(Span::ZERO),
                },
            };
            if let Some(sender) = &mut self.sender {
                self.handshake.notify(sender, config, self.phase);
                sender.on_first_window(self.first_window.into());
            }
        }
        let (handshake, phase) = (self.handshake, self.phase);
        self.receiver.set_estimates(|| handshake.estimates(config, phase));
        self.receiver.on_open(now, config);
        self.state = State::Open;
        self.is_fast_path = Self::has_no_extensions(config);
    }

    fn has_no_extensions(config: &TcpConfig) -> bool {
        !config.timestamps
            && !config.ecn.is_enabled()
            && !config.delayed_ack.is_some_and(|delayed| delayed.linux)
    }

    fn transmit_handshake(&mut self, now: Time, config: &TcpConfig) -> Option<Outgoing> {
        let State::Opening { role, attempts, last_sent, retry_at, send_now } = &mut self.state else {
            return None;
        };
        if !std::mem::take(send_now) {
            return None;
        }
        if *attempts == 0 {
            *retry_at = config.expiry(now, config.rto.first, self.phase);
        }
        *attempts += 1;
        *last_sent = now;
        let flags = Flags { syn: true, ack: *role == Role::Passive, fin: false };
        let ecn = self.ecn_state.syn_bits(config.ecn, flags.ack);
        let timestamps =
            if config.timestamps { self.timestamp_state.for_segment(now, 0) } else { Timestamps::default() };
        let segment = Segment { flags, ecn, timestamps, ..self.acknowledgement(config) };
        Some(Outgoing { segment, retransmission: false, ecn: Ecn::NOT_ECT })
    }
}

impl Handshake {
    fn notify(self, sender: &mut Sender, config: &TcpConfig, phase: Span) {
        match self {
            Self::NoSample => {}
            Self::RttSample(sent, received) => sender.on_handshake_rtt(sent, received, config),
            Self::Retransmitted { count, tsecr_rtt } => {
                sender.on_handshake_retransmitted(config, phase, (count, tsecr_rtt));
            }
        }
    }

    /// Returns the RTO and the SRTT of an end that has not sent data; SRTT is `None` without a sample.
    fn estimates(self, config: &TcpConfig, phase: Span) -> (Span, Option<Span>) {
        let mut sender = Sender::new(config, phase);
        self.notify(&mut sender, config, phase);
        (sender.rto(config), sender.srtt())
    }
}

impl State {
    fn opening(role: Role, now: Time) -> Self {
        Self::Opening { role, attempts: 0, last_sent: now, retry_at: Time::NEVER, send_now: true }
    }
}

#[cfg(test)]
mod tests;
