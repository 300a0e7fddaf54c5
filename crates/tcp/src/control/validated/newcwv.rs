use super::pipe_ack::{Filter, PipeAck};
use super::{Validity, remember};
use crate::control::{Ack, Cause, Congestion, CongestionControl, Idle, Recovered, Sent};
use catnip_base::{Span, Time};

/// New congestion window validation (RFC 7661): a window that was borne out by what the path has carried stays for five minutes
/// of silence or of little use, does not grow unused, and answers to loss by what was in use.
#[derive(Debug)]
pub struct NewCwv {
    pipe_ack: PipeAck,
    /// When the window was last borne out, or last adjusted because it was not.
    valid_at: Time,
    /// What the path has carried, as of the last event.
    measured: Option<u64>,
    /// A loss is being repaired that was noticed in the non-validated phase: the larger of pipeACK and LossFlightSize, bytes.
    lost_unvalidated: Option<u64>,
    initial_window: u64,
    segment: u64,
}

/// RFC 7661, section 4.4: "The NVP SHOULD NOT exceed five minutes."
pub const NON_VALIDATED_PERIOD: Span = Span::from_secs(300);

impl NewCwv {
    /// Section 4.1: "A sender starts a TCP connection in the validated phase and initialises the pipeACK variable to the
    /// 'undefined' value."
    pub(super) fn new(filter: Filter, initial_window: u64, segment: u64) -> Self {
        Self {
            pipe_ack: PipeAck::new(filter),
            valid_at: Time::ZERO,
            measured: None,
            lost_unvalidated: None,
            initial_window,
            segment,
        }
    }

    /// Section 4.3: "Validated phase: pipeACK >=(1/2)*cwnd, or pipeACK is undefined".
    pub(super) fn validity(&self, cwnd: u64) -> Validity {
        Validity {
            pipe_ack: self.measured,
            is_validated: self.measured.is_none_or(|bytes| 2 * bytes >= cwnd),
        }
    }

    pub(super) fn on_ack_while_reduced(&mut self, ack: &Ack) {
        self.pipe_ack.on_ack_while_reduced(ack.una);
    }

    pub(super) fn on_ack(&mut self, ack: &Ack, control: &mut impl CongestionControl) {
        self.pipe_ack.on_ack(ack.now, ack.una, ack.bytes, ack.next, ack.srtt);
        self.look(ack.now, control);
        // Section 4.3: while validated "the standard methods are used to increase cwnd". Section 4.4: otherwise "a sender that is
        // cwnd-limited MAY use the standard TCP method", and one that is not "MUST NOT increase the cwnd".
        if self.validity(control.control().cwnd).is_validated || ack.cwnd_limited {
            control.on_ack(&Ack { cwnd_limited: true, ..*ack });
        }
    }

    pub(super) fn on_congestion(&mut self, event: &Congestion, control: &mut impl CongestionControl) {
        let validity = self.validity(control.control().cwnd);
        control.on_congestion(event);
        if event.cause == Cause::Restart {
            // Section 4.4: "If the Retransmission Timeout (RTO) expires while in the non-validated phase, the sender MUST exit the
            // non-validated phase. It then resumes using the standard TCP RTO mechanism".
            return self.start_over(event.now);
        }
        self.lost_unvalidated = None;
        if !validity.is_validated {
            // Section 4.4.1: "cwnd = (Max(pipeACK,LossFlightSize))/2."
            let used = validity.pipe_ack.unwrap_or(0).max(event.in_flight);
            control.adopt((used / 2).max(self.segment), None);
            self.lost_unvalidated = Some(used);
        }
    }

    pub(super) fn on_recovered(&mut self, end: &Recovered, control: &mut impl CongestionControl) {
        if let Some(used) = self.lost_unvalidated {
            // Section 4.4.1: "cwnd = (Max(pipeACK,LossFlightSize) - R)/2", "MUST NOT be reduced below 1 TCP Maximum Segment Size",
            // and "ssthresh [is] equal to cwnd at the end of the loss recovery".
            let cwnd = (used.saturating_sub(end.retransmitted) / 2).max(self.segment);
            control.adopt(cwnd, Some(cwnd));
        }
        self.start_over(end.now);
    }

    /// Section 4.5.2: "Each time a sender transmits a new segment, this timestamp can be used to determine if the NVP has expired."
    pub(super) fn on_sent(&mut self, sent: &Sent, control: &mut impl CongestionControl) {
        self.look(sent.now, control);
    }

    pub(super) fn on_idle(&mut self, idle: &Idle, control: &mut impl CongestionControl) {
        self.look(idle.now, control);
    }

    /// Looks at what was measured, and gives up a part of a window that was not used for long.
    fn look(&mut self, now: Time, control: &mut impl CongestionControl) {
        self.measured = self.pipe_ack.at(now);
        if self.validity(control.control().cwnd).is_validated {
            self.valid_at = now;
        }
        // Section 4.5.2: "take into account how many units of the NVP have passed and make one reduction ... for each NVP."
        while now.since(self.valid_at) > NON_VALIDATED_PERIOD {
            self.valid_at += NON_VALIDATED_PERIOD;
            // Section 4.4.3: "ssthresh = max(ssthresh, 3*cwnd/4)", then "cwnd = max((1/2)*cwnd, IW)", which is no increase: "not
            // greater than".
            let now = control.control();
            control.adopt((now.cwnd / 2).max(self.initial_window).min(now.cwnd), remember(&now));
        }
    }

    /// Section 4.4.1: "After completing the loss recovery phase, the sender MUST re-initialise the pipeACK variable to the
    /// 'undefined' value."
    fn start_over(&mut self, now: Time) {
        self.pipe_ack.reset();
        self.measured = None;
        self.lost_unvalidated = None;
        self.valid_at = now;
    }
}
