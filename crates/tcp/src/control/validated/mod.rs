//! Congestion window validation: treatment of a window that is not used. A validation rule wraps a controller and observes transmissions
//! and ACKs. The controller computes everything else.

mod cwv;
mod linux;
mod newcwv;

pub use cwv::Cwv;
pub use linux::{Burst, LinuxRestart};
pub use newcwv::{Filter, NewCwv};

use super::{
    Ack, Cause, Congestion, CongestionControl, Control, Delivery, Idle, Phase, Recovered, Sent, TxStart,
};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{FlowContext, ParseError, Span, Time, as_text};

/// Congestion window validation rule of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationSpec {
    /// No rule: the window stays unchanged.
    None,
    /// Restart window: cwnd is at most the restart window after an idle period longer than the RTO (RFC 5681, section 4.1).
    Restart,
    /// See [`LinuxRestart`].
    Linux,
    /// See [`Cwv`].
    Cwv,
    /// See [`NewCwv`].
    NewCwv(Filter),
}

as_text!(ValidationSpec);

impl Kind for ValidationSpec {
    const USAGE: &'static [Usage] = &[
        ("none", "an unused window stays unchanged"),
        ("restart", "restart window after an idle period longer than the RTO (RFC 5681, section 4.1)"),
        (
            "linux",
            "halves the window per RTO of an idle period, and reduces an unused window halfway to the used one (Linux)",
        ),
        (
            "cwv",
            "halves the window per RTO of an idle period, and reduces an unused window halfway to the used one (RFC 2861)",
        ),
        (
            "newcwv[:filter=last]",
            "newCWV (RFC 7661): an unused window stays for five minutes, but does not grow",
        ),
    ];
    const EXAMPLES: &'static [&'static str] =
        &["none", "restart", "linux", "cwv", "newcwv", "newcwv:filter=last"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(match text.name() {
            "none" => Self::None,
            "restart" => Self::Restart,
            "linux" => Self::Linux,
            "cwv" => Self::Cwv,
            _ => Self::NewCwv(text.option("filter", Filter::Max)?),
        })
    }

    fn write(&self, to: &mut Written) {
        match self {
            Self::None => to.name("none"),
            Self::Restart => to.name("restart"),
            Self::Linux => to.name("linux"),
            Self::Cwv => to.name("cwv"),
            Self::NewCwv(filter) => to.name("newcwv").option("filter", *filter, Filter::Max),
        };
    }
}

/// Measurements of a validation rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// pipeACK, the data that the path has carried in a round trip, bytes; `None` if it is undefined.
    pub pipe_ack: Option<u64>,
    /// True if pipeACK validates the window.
    pub is_validated: bool,
}

/// Controller with a validation rule.
#[derive(Debug)]
pub struct Validated<C> {
    control: C,
    rule: Rule,
}

/// State of a validation rule.
#[derive(Debug)]
enum Rule {
    None,
    Restart,
    Linux(LinuxRestart),
    Cwv(Cwv),
    /// Boxed state, because it is larger than that of the other rules and few connections use it.
    NewCwv(Box<NewCwv>),
}

impl<C: CongestionControl> Validated<C> {
    /// Adds the rule of `spec` to the controller of a new connection with an initial window of `initial_window` bytes.
    pub fn new(control: C, spec: ValidationSpec, initial_window: u64, segment: u64) -> Self {
        let rule = match spec {
            // A controller that sets cwnd at every ACK needs no congestion window validation.
            _ if control.uses_cong_control() => Rule::None,
            ValidationSpec::None => Rule::None,
            ValidationSpec::Restart => Rule::Restart,
            ValidationSpec::Linux => Rule::Linux(LinuxRestart::new(initial_window, segment)),
            ValidationSpec::Cwv => Rule::Cwv(Cwv::new()),
            ValidationSpec::NewCwv(filter) => {
                Rule::NewCwv(Box::new(NewCwv::new(filter, initial_window, segment)))
            }
        };
        Self { control, rule }
    }

    /// Returns the measurements as of the last event; `None` if the rule has no measurements.
    pub fn validity(&self) -> Option<Validity> {
        match &self.rule {
            Rule::NewCwv(rule) => Some(rule.validity(self.control.control().cwnd)),
            _ => None,
        }
    }

    /// Returns true if the sender must call [`Self::on_burst`].
    #[inline]
    pub(crate) fn needs_on_burst(&self) -> bool {
        matches!(self.rule, Rule::Linux(_))
    }

    /// Handles the end of a burst of new segments, or that cwnd permits none.
    pub(crate) fn on_burst(&mut self, burst: &Burst) {
        if let Rule::Linux(rule) = &mut self.rule {
            rule.on_burst(burst, &mut self.control);
        }
    }

    /// Returns what an idle period leaves of the window `cwnd` of a reduction, bytes. Only Linux changes that window.
    pub(crate) fn restarted(&mut self, idle: &Idle, cwnd: u64) -> u64 {
        match &mut self.rule {
            Rule::Linux(rule) if idle.idle_time > idle.rto => rule.restart(idle, cwnd),
            _ => cwnd,
        }
    }

    /// Replaces the controller by a new one.
    pub(crate) fn replace(&mut self, control: C) {
        self.control = control;
    }
}

impl<C: CongestionControl> CongestionControl for Validated<C> {
    #[inline]
    fn control(&self) -> Control {
        self.control.control()
    }

    #[inline]
    fn cwnd(&self) -> u64 {
        self.control.cwnd()
    }

    #[inline]
    fn phase(&self, unsent: u64) -> Phase {
        self.control.phase(unsent)
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        match &mut self.rule {
            Rule::NewCwv(rule) => rule.on_ack(ack, &mut self.control),
            // RFC 2861, section 3: "the sender should increase the congestion window only if the window was full when the
            // acknowledgment arrived."
            Rule::Cwv(_) if !ack.cwnd_limited => {}
            Rule::Linux(rule) => {
                rule.renew(ack.now);
                self.control.on_ack(ack);
            }
            _ => self.control.on_ack(ack),
        }
    }

    fn on_ack_while_reduced(&mut self, ack: &Ack) {
        if let Rule::NewCwv(rule) = &mut self.rule {
            rule.on_ack_while_reduced(ack);
        }
        self.control.on_ack_while_reduced(ack);
    }

    #[inline]
    fn uses_cong_control(&self) -> bool {
        self.control.uses_cong_control()
    }

    fn on_delivery(&mut self, delivery: &Delivery) {
        self.control.on_delivery(delivery);
    }

    fn on_timeout(&mut self, delivery: &Delivery) {
        self.control.on_timeout(delivery);
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.control.pacing_rate()
    }

    fn paces_first_segments(&self) -> bool {
        self.control.paces_first_segments()
    }

    fn is_cwnd_reduced_for_probe(&self) -> bool {
        self.control.is_cwnd_reduced_for_probe()
    }

    fn on_handshake(&mut self, now: Time, rtt: Span) {
        self.control.on_handshake(now, rtt);
    }

    fn on_tx_start(&mut self, start: &TxStart) {
        self.control.on_tx_start(start);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        match &mut self.rule {
            Rule::NewCwv(rule) => rule.on_congestion(event, &mut self.control),
            Rule::Linux(rule) => {
                if event.cause == Cause::Restart {
                    rule.renew(event.now);
                }
                self.control.on_congestion(event);
            }
            _ => self.control.on_congestion(event),
        }
    }

    fn on_recovered(&mut self, end: &Recovered) {
        self.control.on_recovered(end);
        match &mut self.rule {
            Rule::NewCwv(rule) => rule.on_recovered(end, &mut self.control),
            Rule::Linux(rule) => rule.renew(end.now),
            _ => {}
        }
    }

    fn on_spurious(&mut self, now: Time) {
        self.control.on_spurious(now);
        if let Rule::Linux(rule) = &mut self.rule {
            rule.renew(now);
        }
    }

    #[inline]
    fn needs_on_sent(&self) -> bool {
        matches!(self.rule, Rule::Cwv(_) | Rule::NewCwv(_)) || self.control.needs_on_sent()
    }

    fn on_sent(&mut self, sent: &Sent) {
        match &mut self.rule {
            Rule::None | Rule::Restart | Rule::Linux(_) => {}
            Rule::Cwv(rule) => rule.on_sent(sent, &mut self.control),
            Rule::NewCwv(rule) => rule.on_sent(sent, &mut self.control),
        }
        self.control.on_sent(sent);
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.control.on_idle(idle);
        match &mut self.rule {
            Rule::None | Rule::Cwv(_) => {}
            // RFC 5681, section 4.1: "a TCP SHOULD set cwnd to no more than RW before beginning transmission if the TCP has not
            // sent data in an interval exceeding the retransmission timeout."
            Rule::Restart => {
                if idle.idle_time > idle.rto {
                    self.control.clamp_cwnd(idle.restart_window);
                }
            }
            Rule::Linux(rule) => rule.on_idle(idle, &mut self.control),
            Rule::NewCwv(rule) => rule.on_idle(idle, &mut self.control),
        }
    }

    fn on_message(&mut self, now: Time, context: &FlowContext) {
        self.control.on_message(now, context);
    }

    fn set_cwnd(&mut self, cwnd: u64, ssthresh: Option<u64>) {
        self.control.set_cwnd(cwnd, ssthresh);
    }
}

/// Returns the ssthresh to set when an unused cwnd is reduced, at least three quarters of cwnd (RFC 2861, section 3.2; RFC 7661, section
/// 4.4.3): "ssthresh = max(ssthresh, 3*cwnd/4)". Returns `None` if ssthresh was never set, because it is higher already.
fn current_ssthresh(control: &Control) -> Option<u64> {
    control.ssthresh.map(|ssthresh| ssthresh.max(3 * control.cwnd / 4))
}

#[cfg(test)]
mod tests;
