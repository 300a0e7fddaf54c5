use crate::{EcnBits, EcnKind, Receiver, Segment};

/// One end's part in congestion notification: do both ends want it, and what does the next ACK say?
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Echo {
    /// Both ends want it.
    pub(crate) is_agreed: bool,
    /// ACKs say ECN-Echo.
    ece: bool,
    /// To be acknowledged before anything else, up to this byte, with the ECN-Echo of before.
    early_ack: Option<u64>,
}

/// Segments from the first marked one on that are acknowledged at once.
const MARKED: u32 = 2;

impl Echo {
    /// Of an end that has this from the start, because there is no handshake in which to ask for it.
    pub(crate) fn new(is_agreed: bool) -> Self {
        Self { is_agreed, ..Self::default() }
    }

    /// What a SYN says (RFC 3168, section 6.1.1): one that opens sets both bits, one that answers only ECE.
    pub(crate) fn of_syn(&self, kind: EcnKind, is_answer: bool) -> EcnBits {
        let says = if is_answer { self.is_agreed } else { kind.is_wanted() };
        EcnBits::new(says, says && !is_answer)
    }

    /// The other side has opened, or answered.
    pub(crate) fn on_syn(&mut self, kind: EcnKind, syn: &Segment) {
        let asks = syn.ecn.ece() && (syn.flags.ack || syn.ecn.cwr());
        let is_broken = syn.flags.ack && syn.ecn.cwr();
        self.is_agreed = kind.is_wanted() && asks && !is_broken;
    }

    /// Data arrives at this receiver, which may have to acknowledge it at once.
    pub(crate) fn on_data(&mut self, kind: EcnKind, bits: EcnBits, receiver: &mut Receiver) {
        if !self.is_agreed {
            return;
        }
        if kind.is_exact() {
            // RFC 8257, section 3.2: where the state changes, what came before is acknowledged with the old one.
            let changes = std::mem::replace(&mut self.ece, bits.ce()) != bits.ce();
            if changes {
                self.early_ack = receiver.deadline().map(|_| receiver.next());
                receiver.ask_for_ack();
            }
            return;
        }
        // RFC 3168, section 6.1.3: "the TCP receiver continues to set the ECN-Echo flag until it receives a packet with the CWR
        // flag set"; one that is itself marked begins anew.
        if bits.ce() && !self.ece {
            // Linux: "Better not delay acks, sender can have a very low cwnd", of which the reduction may have made a single segment.
            receiver.hurry(MARKED);
        } else if bits.cwr() {
            receiver.ask_for_ack();
        }
        self.ece = bits.ce() || self.ece && !bits.cwr();
    }

    /// Up to where to acknowledge before anything else, if so. Asked once.
    pub(crate) fn takes_early_ack(&mut self) -> Option<u64> {
        self.early_ack.take()
    }

    /// What that ACK says: the opposite of those after it.
    pub(crate) fn of_early_ack(&self) -> EcnBits {
        EcnBits::new(!self.ece, false)
    }

    /// What a segment says, and whether the window was reduced.
    pub(crate) fn of_segment(&self, cwr: bool) -> EcnBits {
        EcnBits::new(self.ece, cwr)
    }
}
