use crate::echo::Echo;
use crate::receive_window::TunedWindow;
use crate::recovery::RecoveryKind;
use crate::segment::earlier;
use crate::timestamps::Stamping;
use crate::transmission::Transmission;
use crate::{EcnBits, Flags, Receiver, Segment, Sender, Stamps, TcpConfig};
use catnip_base::{FlowContext, Span, Time};
use catnip_net::Ecn;
use catnip_net::mark::{PacketKind, Place, SenderState};

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
    /// True if the connection is open and its segments carry neither ECN bits nor timestamps.
    is_plain: bool,
    echo: Echo,
    stamping: Stamping,
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
struct Notes {
    ecn: EcnBits,
    codepoint: Ecn,
    stamps: Stamps,
}

impl Notes {
    const NONE: Self =
        Self { ecn: EcnBits::NONE, codepoint: Ecn::NOT_ECT, stamps: Stamps { value: 0, echo: 0 } };
}

/// Result of a handshake that the sender uses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Handshake {
    /// No result: there was no handshake, it is in progress, or it was not timed.
    Silent,
    /// Transmission time of the SYN or SYN-ACK, and arrival time of the answer.
    RoundTrip(Time, Time),
    /// Handshake that needed a retransmission.
    Repeated,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Listen,
    /// Handshake in progress: a SYN (or a SYN-ACK, on the passive side) is due or in flight.
    Opening {
        role: Role,
        tries: u32,
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
                .telling_duplicates(config.recovery.reports_duplicates())
                .tuning(
                    config
                        .tunes_window
                        .then(|| TunedWindow::new(now, config.segment_bytes.into(), config.receive_window)),
                ),
            state,
            phase,
            handshake: Handshake::Silent,
            fin_end: None,
            syn_timeouts: 0,
            is_plain: state == State::Open && Self::says_nothing_more(config),
            echo: Echo::new(!config.handshake && config.ecn.is_wanted()),
            stamping: Stamping::default(),
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
        let (phase, handshake) = (self.phase, self.handshake);
        let sender = self.sender.get_or_insert_with(|| {
            let mut sender = Sender::new(config, phase);
            handshake.tell(&mut sender, config, phase);
            sender
        });
        sender.write(now, bytes, context, last, config);
    }

    /// Handles an arriving segment.
    #[inline]
    pub fn on_segment(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if !self.is_plain || segment.flags.syn {
            return self.on_other_segment(now, segment, config);
        }
        self.on_open_segment::<false>(now, segment, config);
    }

    /// Handles an arriving segment outside of the fast path: during a handshake, or if segments carry ECN bits or timestamps.
    #[inline(never)]
    fn on_other_segment(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        self.stamping.on_segment(segment);
        if !self.is_open() || segment.flags.syn {
            self.on_handshake(now, segment, config);
        }
        if !segment.flags.syn && self.is_open() {
            if segment.span() > 0 {
                let waited = Stamps::since(now, segment.stamps.echo);
                self.receiver.on_echo(segment.stamps.echo, waited.unwrap_or(Span::ZERO));
            }
            self.on_open_segment::<true>(now, segment, config);
        }
    }

    #[inline(always)]
    fn on_open_segment<const NOTES: bool>(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if segment.flags.ack
            && let Some(sender) = &mut self.sender
        {
            sender.on_ack(now, segment, config);
        }
        if segment.span() > 0 {
            let end = segment.seq + segment.span();
            if NOTES {
                self.echo.on_data(config.ecn, segment.ecn, &mut self.receiver);
            }
            if segment.flags.fin {
                self.fin_end = Some(end);
                self.receiver.ask_for_ack();
            }
            self.receiver.on_data(now, segment.seq, end, config.delayed_ack.as_ref(), self.phase);
        }
    }

    /// Handles the timers that have expired by `now`. Returns true if a retransmission timer has expired.
    pub fn on_time(&mut self, now: Time, config: &TcpConfig) -> bool {
        if let State::Opening { tries, retry_at, send_now, .. } = &mut self.state
            && *retry_at <= now
        {
            *send_now = true;
            self.syn_timeouts += 1;
            let backoff = 1u64 << (*tries).min(16);
            *retry_at = now
                + Span::from_nanos((config.rto.first * backoff).as_nanos().min(config.rto.max.as_nanos()));
            return true;
        }
        self.state == State::Open && self.sender.as_mut().is_some_and(|sender| sender.on_time(now, config))
    }

    /// Returns the next segment to send at `now`; `None` if there is nothing to send.
    #[inline]
    pub fn transmit(&mut self, now: Time, config: &TcpConfig) -> Option<Outgoing> {
        if self.is_plain {
            self.transmit_open::<false>(now, config)
        } else {
            self.transmit_other(now, config)
        }
    }

    /// Returns the next segment to send outside of the fast path.
    #[inline(never)]
    fn transmit_other(&mut self, now: Time, config: &TcpConfig) -> Option<Outgoing> {
        if !self.is_open() {
            return self.transmit_handshake(now, config);
        }
        self.early_ack(now, config).or_else(|| self.transmit_open::<true>(now, config))
    }

    #[inline(always)]
    fn transmit_open<const NOTES: bool>(&mut self, now: Time, config: &TcpConfig) -> Option<Outgoing> {
        if let Some(sent) = self.sender.as_mut().and_then(|sender| sender.transmit(now, config)) {
            let notes = if NOTES { self.notes(now, Some(&sent), config) } else { Notes::NONE };
            let segment = Segment {
                seq: sent.seq,
                len: sent.len,
                flags: Flags { syn: false, ack: true, fin: sent.fin },
                ecn: notes.ecn,
                stamps: notes.stamps,
                ..self.acknowledgement(config)
            };
            self.receiver.on_ack_sent();
            return Some(Outgoing { segment, retransmission: sent.retransmission, ecn: notes.codepoint });
        }
        if self.receiver.wants_to_ack(now) {
            let notes = if NOTES { self.notes(now, None, config) } else { Notes::NONE };
            let segment = Segment { ecn: notes.ecn, stamps: notes.stamps, ..self.acknowledgement(config) };
            self.receiver.on_ack_sent();
            return Some(Outgoing { segment, retransmission: false, ecn: Ecn::NOT_ECT });
        }
        None
    }

    /// Returns the ACK that must precede all other segments because the CE state of the received data has changed.
    fn early_ack(&mut self, now: Time, config: &TcpConfig) -> Option<Outgoing> {
        let ack = self.echo.takes_early_ack()?;
        let Notes { stamps, .. } = self.notes(now, None, config);
        let segment = Segment { ack, ecn: self.echo.of_early_ack(), stamps, ..self.acknowledgement(config) };
        Some(Outgoing { segment, retransmission: false, ecn: Ecn::NOT_ECT })
    }

    /// Returns the ECN bits, the ECN codepoint and the timestamps of a segment. `sent` is its data; `None` for a pure ACK.
    fn notes(&mut self, now: Time, sent: Option<&Transmission>, config: &TcpConfig) -> Notes {
        // RFC 3168, section 6.1.5: "the TCP sender MUST NOT set either an ECT(0) or ECT(1) codepoint ... on retransmitted data packets";
        // section 6.1.4 requires the same for pure ACKs.
        let may_be_marked =
            self.echo.is_agreed && sent.is_some_and(|sent| !sent.retransmission && sent.len > 0);
        let ack = self.receiver.next();
        Notes {
            ecn: self.echo.of_segment(sent.is_some_and(|sent| sent.cwr)),
            codepoint: if may_be_marked { config.ecn.codepoint() } else { Ecn::NOT_ECT },
            stamps: if config.timestamps { self.stamping.of(now, ack) } else { Stamps::default() },
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
        self.receiver.next() - u64::from(self.peer_closed())
    }

    /// Returns true if the peer's FIN and all data before it have arrived.
    pub fn peer_closed(&self) -> bool {
        self.fin_end == Some(self.receiver.next())
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
    pub fn sending(&self, out: &Outgoing, config: &TcpConfig) -> SenderState {
        let segment = &out.segment;
        let carries = match segment.flags.syn {
            true => PacketKind::Syn,
            false if segment.span() == 0 => PacketKind::Ack(None),
            false => PacketKind::Data,
        };
        let own = SenderState {
            carries,
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
    pub fn place(&self, seq: u64) -> Place {
        let Some(sender) = self.sender() else { return Place { offset: seq, bytes: None, window: 0 } };
        let (start, context) = sender.message_at(seq);
        let bytes = context.map(|context| context.bytes_left);
        Place { offset: seq.saturating_sub(start), bytes, window: sender.control().cwnd }
    }

    /// Builds a pure ACK. The function is inlined so that the segment with its SACK blocks is built in place and not copied.
    #[inline(always)]
    fn acknowledgement(&self, config: &TcpConfig) -> Segment {
        Segment {
            seq: 0,
            ack: self.receiver.next(),
            len: 0,
            window: self.receiver.window(config.receive_window).min(u64::from(u32::MAX)) as u32,
            flags: Flags { syn: false, ack: true, fin: false },
            sack: if config.recovery.uses_sack() { self.receiver.sack() } else { Default::default() },
            ecn: EcnBits::default(),
            stamps: Stamps::default(),
        }
    }

    fn on_handshake(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if segment.flags.syn && self.state != State::Open {
            self.echo.on_syn(config.ecn, segment);
        }
        match (self.state, segment.flags.syn, segment.flags.ack) {
            (State::Listen, true, false) => self.state = State::opening(Role::Passive, now),
            (State::Opening { role: Role::Active, .. }, true, true) => {
                self.finish_handshake(now, config);
                self.receiver.ask_for_ack();
            }
            (State::Opening { role: Role::Passive, .. }, false, true) => self.finish_handshake(now, config),
            (State::Opening { role: Role::Passive, .. }, true, false) => {
                if let State::Opening { send_now, .. } = &mut self.state {
                    *send_now = true;
                }
            }
            // The peer has not received the last ACK of the handshake.
            (State::Open, true, true) => self.receiver.ask_for_ack(),
            _ => {}
        }
    }

    fn finish_handshake(&mut self, now: Time, config: &TcpConfig) {
        if let State::Opening { tries, last_sent, .. } = self.state {
            self.handshake = match tries {
                1 if config.times_handshake => Handshake::RoundTrip(last_sent, now),
                1 => Handshake::Silent,
                _ => Handshake::Repeated,
            };
            if let Some(sender) = &mut self.sender {
                self.handshake.tell(sender, config, self.phase);
            }
        }
        self.receiver.on_open(now, config);
        self.state = State::Open;
        self.is_plain = Self::says_nothing_more(config);
    }

    fn says_nothing_more(config: &TcpConfig) -> bool {
        !config.timestamps && !config.ecn.is_wanted()
    }

    fn transmit_handshake(&mut self, now: Time, config: &TcpConfig) -> Option<Outgoing> {
        let State::Opening { role, tries, last_sent, retry_at, send_now } = &mut self.state else {
            return None;
        };
        if !std::mem::take(send_now) {
            return None;
        }
        if *tries == 0 {
            *retry_at = now + config.rto.first;
        }
        *tries += 1;
        *last_sent = now;
        let flags = Flags { syn: true, ack: *role == Role::Passive, fin: false };
        let ecn = self.echo.of_syn(config.ecn, flags.ack);
        let stamps = if config.timestamps { self.stamping.of(now, 0) } else { Stamps::default() };
        let segment = Segment { flags, ecn, stamps, ..self.acknowledgement(config) };
        Some(Outgoing { segment, retransmission: false, ecn: Ecn::NOT_ECT })
    }
}

impl Handshake {
    fn tell(self, sender: &mut Sender, config: &TcpConfig, phase: Span) {
        match self {
            Self::Silent => {}
            Self::RoundTrip(sent, answered) => sender.on_handshake_rtt(sent, answered, config),
            Self::Repeated => sender.on_repeated_handshake(config, phase),
        }
    }
}

impl State {
    fn opening(role: Role, now: Time) -> Self {
        Self::Opening { role, tries: 0, last_sent: now, retry_at: Time::NEVER, send_now: true }
    }
}

#[cfg(test)]
mod tests;
