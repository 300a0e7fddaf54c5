use crate::control::validated::Validity;
use crate::control::{Control, Phase};
use crate::recovery::RecoveryKind;
use crate::transmission::{SenderStats, Transmission};
use crate::{Segment, TcpConfig, classic, modern};
use catnip_base::{FlowContext, Span, Time};

/// Sending half of a connection.
///
/// Its inputs are data to send, ACKs and the time. `Sender::transmit` returns segments until no further segment may be sent.
#[derive(Debug)]
pub enum Sender {
    /// Sender of ns-2 and of the papers.
    Classic(Box<classic::Sender>),
    /// Sender of current standards, with SACK (RFC 6675) or without SACK (RFC 6582).
    Modern(Box<modern::Sender>),
    /// Sender of Linux, with RACK-TLP.
    Rack(Box<modern::rack::Sender>),
}

macro_rules! match_sender {
    ($self:expr, $sender:ident => $body:expr) => {
        match $self {
            Self::Classic($sender) => $body,
            Self::Modern($sender) => $body,
            Self::Rack($sender) => $body,
        }
    };
}

impl Sender {
    /// Creates a sender without data to send. `phase` is the phase of the clock tick of the sender's host.
    pub fn new(config: &TcpConfig, phase: Span) -> Self {
        match config.recovery {
            RecoveryKind::Rack => Self::Rack(Box::new(modern::rack::Sender::new(config, phase))),
            kind if kind.is_modern() => Self::Modern(Box::new(modern::Sender::new(config, phase))),
            _ => Self::Classic(Box::new(classic::Sender::new(config, phase))),
        }
    }

    /// Appends a message of `bytes` bytes, described by `context`, to the stream. The `last` message ends the stream. Controllers, pacing
    /// and markers treat each message separately.
    pub fn write(
        &mut self,
        now: Time,
        bytes: u64,
        context: Option<FlowContext>,
        last: bool,
        config: &TcpConfig,
    ) {
        match_sender!(self, sender => sender.write(now, bytes, context, last, config));
    }

    /// Handles an acknowledgement from the peer.
    #[inline]
    pub fn on_ack(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        match_sender!(self, sender => sender.on_ack(now, segment, config));
    }

    /// Handles the timers that have expired by `now`. Returns true if the retransmission timer has expired.
    pub fn on_timer(&mut self, now: Time, config: &TcpConfig) -> bool {
        match_sender!(self, sender => sender.on_timer(now, config))
    }

    /// Returns the next segment to send at `now`; `None` if no segment may be sent.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Time, config: &TcpConfig) -> Option<Transmission> {
        match_sender!(self, sender => sender.transmit(now, config))
    }

    /// Returns the time at which the sender must be called if no ACK arrives before: the expiry of a timer or the release time of a paced
    /// segment, whichever is earlier.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        match_sender!(self, sender => sender.deadline())
    }

    /// Handles a handshake that needed retransmissions: RFC 6298, rule 5.7, and RFC 6928, section 2. `retransmissions` has their number and
    /// the round trip by the echoed timestamp, or zero without one, which only Linux uses. The function must be called before any data is
    /// sent.
    pub(crate) fn on_handshake_retransmitted(
        &mut self,
        config: &TcpConfig,
        phase: Span,
        retransmissions: (u32, Span),
    ) {
        match self {
            Self::Classic(sender) => sender.on_handshake_retransmitted(config, phase),
            Self::Modern(sender) => sender.on_handshake_retransmitted(config, phase),
            Self::Rack(sender) => sender.on_handshake_retransmitted(config, retransmissions),
        }
    }

    /// Sets the peer's receive window to that of its last segment, which arrived before this sender was created, bytes. Only Linux uses it.
    pub(crate) fn on_first_window(&mut self, window: u64) {
        if let Self::Rack(sender) = self {
            sender.on_first_window(window);
        }
    }

    /// Uses the round trip of the handshake as an RTT sample.
    pub(crate) fn on_handshake_rtt(&mut self, sent: Time, now: Time, config: &TcpConfig) {
        match_sender!(self, sender => sender.on_handshake_rtt(sent, now, config));
    }

    /// Returns true if all data and the FIN are acknowledged.
    #[inline]
    pub fn is_done(&self) -> bool {
        match_sender!(self, sender => sender.is_done())
    }

    /// Returns cwnd and ssthresh, with cwnd deflated by partial ACKs.
    #[inline]
    pub fn control(&self) -> Control {
        match_sender!(self, sender => sender.control())
    }

    /// Returns the state of congestion window validation; `None` if the connection has no rule with such a state.
    pub fn validity(&self) -> Option<Validity> {
        match self {
            Self::Classic(_) => None,
            Self::Modern(sender) => sender.validity(),
            Self::Rack(sender) => sender.validity(),
        }
    }

    /// Returns the window in use, bytes: cwnd with the changes that loss recovery makes.
    pub fn window(&self) -> u64 {
        match self {
            Self::Classic(sender) => sender.window(),
            Self::Modern(sender) => sender.control().cwnd,
            Self::Rack(sender) => sender.window(),
        }
    }

    /// Returns the peer's receive window, bytes.
    pub fn peer_window(&self) -> u64 {
        match_sender!(self, sender => sender.peer_window())
    }

    /// Returns the number of consecutive duplicate ACKs.
    pub fn dupacks(&self) -> u32 {
        match_sender!(self, sender => sender.dupacks())
    }

    /// Returns the end of the data sent so far (SND.MAX).
    pub fn snd_max(&self) -> u64 {
        match_sender!(self, sender => sender.snd_max())
    }

    /// Returns the first unacknowledged byte (SND.UNA).
    #[inline]
    pub fn snd_una(&self) -> u64 {
        match_sender!(self, sender => sender.snd_una())
    }

    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub fn srtt(&self) -> Option<Span> {
        match_sender!(self, sender => sender.srtt())
    }

    /// Returns the current RTO.
    pub fn rto(&self, config: &TcpConfig) -> Span {
        match_sender!(self, sender => sender.rto(config))
    }

    /// Returns the start and the context of the message to which byte `seq` belongs.
    pub fn message_at(&self, seq: u64) -> (u64, Option<FlowContext>) {
        match_sender!(self, sender => sender.message_at(seq))
    }

    /// Returns true during a loss recovery that duplicate ACKs or SACK have started.
    pub fn in_recovery(&self) -> bool {
        match_sender!(self, sender => sender.in_recovery())
    }

    /// Returns the counters of the sender.
    pub fn stats(&self) -> SenderStats {
        match_sender!(self, sender => sender.stats())
    }

    /// Returns the phase of congestion control that applies to the next ACK.
    pub fn phase(&self) -> Phase {
        match_sender!(self, sender => sender.phase())
    }
}

#[cfg(test)]
mod tests;
