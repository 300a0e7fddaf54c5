use crate::control::validated::Validity;
use crate::control::{Control, Phase};
use crate::recovery::RecoveryKind;
use crate::transmission::{SenderStats, Transmission};
use crate::{Segment, TcpConfig, classic, modern};
use catnip_base::{FlowContext, Span, Time};

/// The sending half of a connection.
///
/// It is told of data to send, of ACKs and of time; `Sender::transmit` then hands out segments until there is
/// nothing more to send for now.
#[derive(Debug)]
pub enum Sender {
    /// That of ns-2 and of the papers.
    Classic(Box<classic::Sender>),
    /// That of the standards, with SACK or without.
    Modern(Box<modern::Sender>),
    /// That of Linux, with RACK.
    Rack(Box<modern::rack::Sender>),
}

macro_rules! either {
    ($self:expr, $sender:ident => $does:expr) => {
        match $self {
            Self::Classic($sender) => $does,
            Self::Modern($sender) => $does,
            Self::Rack($sender) => $does,
        }
    };
}

impl Sender {
    /// A sender with nothing to send. `phase` is the phase of its host's clock tick.
    pub fn new(config: &TcpConfig, phase: Span) -> Self {
        match config.recovery {
            RecoveryKind::Rack => Self::Rack(Box::new(modern::rack::Sender::new(config))),
            kind if kind.is_modern() => Self::Modern(Box::new(modern::Sender::new(config, phase))),
            _ => Self::Classic(Box::new(classic::Sender::new(config, phase))),
        }
    }

    /// The application hands over a message of so many bytes and says what it knows about it; after the `last` one it closes.
    /// Controllers, pacing and markers look at each message by itself.
    pub fn write(
        &mut self,
        now: Time,
        bytes: u64,
        context: Option<FlowContext>,
        last: bool,
        config: &TcpConfig,
    ) {
        either!(self, sender => sender.write(now, bytes, context, last, config));
    }

    /// The other side acknowledges.
    #[inline]
    pub fn on_ack(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        either!(self, sender => sender.on_ack(now, segment, config));
    }

    /// Time has passed; if the retransmission timer expires by `now`, everything begins anew. True if it did.
    pub fn on_time(&mut self, now: Time, config: &TcpConfig) -> bool {
        either!(self, sender => sender.on_time(now, config))
    }

    /// The next segment to send at `now`, if any.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Time, config: &TcpConfig) -> Option<Transmission> {
        either!(self, sender => sender.transmit(now, config))
    }

    /// When to be asked again if nothing arrives: the retransmission timer, or the turn of a paced segment.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        either!(self, sender => sender.deadline())
    }

    /// The handshake needed more than one try: RFC 6298, rule 5.7, and RFC 6928, section 2. Before any data only.
    pub(crate) fn on_repeated_handshake(&mut self, config: &TcpConfig, phase: Span) {
        either!(self, sender => sender.on_repeated_handshake(config, phase));
    }

    /// A round trip that was measured outside of the data: the handshake.
    pub(crate) fn on_handshake_rtt(&mut self, sent: Time, now: Time, config: &TcpConfig) {
        either!(self, sender => sender.on_handshake_rtt(sent, now, config));
    }

    /// Everything handed over, and the FIN, is acknowledged.
    #[inline]
    pub fn is_done(&self) -> bool {
        either!(self, sender => sender.is_done())
    }

    /// What the controller allows, less what partial ACKs have taken from it.
    #[inline]
    pub fn control(&self) -> Control {
        either!(self, sender => sender.control())
    }

    /// What congestion window validation has found out, if the connection has a rule that looks for it.
    pub fn validity(&self) -> Option<Validity> {
        match self {
            Self::Classic(_) => None,
            Self::Modern(sender) => sender.validity(),
            Self::Rack(sender) => sender.validity(),
        }
    }

    /// The window in use: cwnd with what recovery adds or takes, bytes.
    pub fn window(&self) -> u64 {
        match self {
            Self::Classic(sender) => sender.window(),
            Self::Modern(sender) => sender.control().cwnd,
            Self::Rack(sender) => sender.window(),
        }
    }

    /// What the other side can take in, bytes.
    pub fn peer_window(&self) -> u64 {
        either!(self, sender => sender.peer_window())
    }

    /// Duplicate ACKs in a row.
    pub fn dupacks(&self) -> u32 {
        either!(self, sender => sender.dupacks())
    }

    /// End of everything sent so far.
    pub fn sent_to(&self) -> u64 {
        either!(self, sender => sender.sent_to())
    }

    /// First byte not acknowledged.
    #[inline]
    pub fn una(&self) -> u64 {
        either!(self, sender => sender.una())
    }

    /// Of the message to which a byte belongs: where it begins, and what the application said about it.
    pub fn message_at(&self, seq: u64) -> (u64, Option<FlowContext>) {
        either!(self, sender => sender.message_at(seq))
    }

    /// Does it repair a loss that duplicate ACKs or SACK have shown?
    pub fn in_recovery(&self) -> bool {
        either!(self, sender => sender.in_recovery())
    }

    /// What this sender has done.
    pub fn stats(&self) -> SenderStats {
        either!(self, sender => sender.stats())
    }

    /// How the next ACK would open the window.
    pub fn phase(&self) -> Phase {
        either!(self, sender => sender.phase())
    }
}

#[cfg(test)]
mod tests;
