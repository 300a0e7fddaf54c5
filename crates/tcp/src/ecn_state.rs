use crate::{EcnBits, EcnKind, Receiver, Segment};

/// ECN state of one end: the result of the negotiation, and the ECN-Echo of the next ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnState {
    /// True if both ends have agreed on ECN.
    pub(crate) is_negotiated: bool,
    /// True if ACKs carry ECN-Echo.
    ece: bool,
    /// Acknowledgement number of an ACK that must precede all other segments and has the previous ECN-Echo; `None` if no such ACK is due.
    early_ack: Option<u64>,
}

/// Number of segments, beginning with the first marked segment, that are acknowledged immediately.
const QUICK_ACKS: u32 = 2;

impl EcnState {
    /// Creates the state of an end that has no handshake in which to negotiate ECN.
    pub(crate) fn new(is_negotiated: bool) -> Self {
        Self { is_negotiated, ..Self::default() }
    }

    /// Returns the ECN bits of a SYN (RFC 3168, section 6.1.1): both bits in a SYN, only ECE in a SYN-ACK.
    pub(crate) fn syn_bits(&self, kind: EcnKind, is_syn_ack: bool) -> EcnBits {
        let ece = if is_syn_ack { self.is_negotiated } else { kind.is_enabled() };
        EcnBits::new(ece, ece && !is_syn_ack)
    }

    /// Handles the ECN bits of the peer's SYN or SYN-ACK.
    pub(crate) fn on_syn(&mut self, kind: EcnKind, syn: &Segment) {
        let is_requested = syn.ecn.ece() && (syn.flags.ack || syn.ecn.cwr());
        let is_broken = syn.flags.ack && syn.ecn.cwr();
        self.is_negotiated = kind.is_enabled() && is_requested && !is_broken;
    }

    /// Handles the ECN bits of data that arrives at `receiver`. May cause `receiver` to send an ACK immediately.
    pub(crate) fn on_data(&mut self, kind: EcnKind, bits: EcnBits, receiver: &mut Receiver) {
        if !self.is_negotiated {
            return;
        }
        if kind.is_exact() {
            // RFC 8257, section 3.2: if the CE state changes, earlier data is acknowledged with the old state.
            let has_ce_changed = std::mem::replace(&mut self.ece, bits.ce()) != bits.ce();
            if has_ce_changed {
                self.early_ack = receiver.deadline().map(|_| receiver.rcv_nxt());
                receiver.request_ack();
            }
            return;
        }
        // RFC 3168, section 6.1.3: "the TCP receiver continues to set the ECN-Echo flag until it receives a packet with the CWR flag set".
        // A packet with CWR that is itself marked starts ECN-Echo again.
        if bits.ce() && !self.ece {
            // Linux: "Better not delay acks, sender can have a very low cwnd". The reduction may leave a cwnd of one segment.
            receiver.enter_quick_acks(QUICK_ACKS);
        } else if bits.cwr() {
            receiver.request_ack();
        }
        self.ece = bits.ce() || self.ece && !bits.cwr();
    }

    /// Takes the acknowledgement number of the ACK that must precede all other segments; `None` if no such ACK is due.
    pub(crate) fn take_early_ack(&mut self) -> Option<u64> {
        self.early_ack.take()
    }

    /// Returns the ECN bits of the ACK that must precede all other segments: its ECN-Echo is the opposite of that of later ACKs.
    pub(crate) fn early_ack_bits(&self) -> EcnBits {
        EcnBits::new(!self.ece, false)
    }

    /// Returns the ECN bits of a segment. `cwr` is true if the segment reports a reduction of cwnd.
    pub(crate) fn segment_bits(&self, cwr: bool) -> EcnBits {
        EcnBits::new(self.ece, cwr && self.is_negotiated)
    }
}
