//! Congestion control: growth of the window, and its reduction at congestion. A controller is notified once of each congestion episode; the
//! sender decides which losses belong to the same episode. Each controller has its own file, and one line in [`ControlSpec`].

mod bbr;
mod bbr3;
mod cubic;
mod dctcp;
mod delivery;
mod eca;
mod linux_cubic;
mod mark_share;
mod prague;
mod reno;
pub mod slow_start;
#[cfg(test)]
mod test_path;
pub mod validated;

pub use bbr::{Bbr, BbrSpec};
pub use bbr3::{Bbr3, Bbr3Spec};
pub use cubic::{Cubic, CubicSpec};
pub use dctcp::{Dctcp, DctcpSpec};
pub use delivery::{Delivery, LossSample, RateSample, RecoveryState};
pub use eca::EcaSpec;
pub use linux_cubic::{LinuxCubic, LinuxCubicSpec};
pub use prague::{Prague, PragueSpec};
pub use reno::{Reno, RenoSpec};

use catnip_base::notation::{Custom, Registry};
use catnip_base::{FlowContext, Span, Time, dispatch, kinds, variants};
use std::fmt::Debug;

/// Initial values of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Data bytes of a full segment.
    pub segment_bytes: u32,
    /// Initial cwnd, segments.
    pub window: u32,
    /// Initial ssthresh, segments; `None` means infinity.
    pub ssthresh: Option<u64>,
    /// Quantity that a congestion event halves.
    pub halving: Halving,
    /// True if cwnd grows even while the application or the receive window keeps it unused.
    pub grow_unused: bool,
    /// True if cwnd grows by all bytes that an ACK acknowledges. If false, it grows by at most one segment per ACK.
    pub byte_counting: bool,
}

/// Quantity that a congestion event halves, and the rounding of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halving {
    /// min(cwnd, receive window) in whole segments. Halves are rounded down (ns-2 with `precisionReduce_` off).
    WholeSegments,
    /// cwnd in whole segments, whatever the receive window is. Halves are rounded down, and cwnd grows by whole segments (Linux).
    Cwnd,
    /// min(cwnd, receive window). Only ssthresh is rounded down to whole segments (ns-2 with `precisionReduce_` on).
    Window,
    /// Data in flight (RFC 5681, equation 4).
    Flight,
}

/// ACK of new data.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Arrival time.
    pub now: Time,
    /// Bytes newly acknowledged. With RACK, this includes bytes newly reported by SACK and is a multiple of the segment size.
    pub bytes: u64,
    /// Bytes in flight before this ACK.
    pub in_flight: u64,
    /// SND.UNA after this ACK.
    pub snd_una: u64,
    /// Next byte of new data to send (SND.MAX).
    pub snd_max: u64,
    /// Bytes that the application has written and that have never been sent.
    pub unsent: u64,
    /// Newly delivered bytes, whether acknowledged or reported by SACK.
    pub delivered: u64,
    /// Acknowledged bytes whose packets were marked, as reported by ECN-Echo.
    pub marked: u64,
    /// RTT sample; `None` if the ACK yields no sample.
    pub rtt: Option<Span>,
    /// SRTT, measured with a fine-grained clock; `None` before the first RTT sample.
    pub srtt: Option<Span>,
    /// True if cwnd limited the sender.
    pub cwnd_limited: bool,
}

/// Start of a congestion episode.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// Detection time.
    pub now: Time,
    /// Congestion signal.
    pub cause: Cause,
    /// Bytes sent and not yet acknowledged.
    pub in_flight: u64,
    /// Peer's receive window, bytes.
    pub receive_window: u64,
    /// True if this is another expiry of the retransmission timer for the same data.
    pub repeated: bool,
}

/// Congestion signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Loss detected by duplicate ACKs or SACK.
    Loss,
    /// ECN-Echo. No data is lost, so no retransmission is necessary.
    Mark,
    /// Timeout, or Tahoe's response to duplicate ACKs. Slow start begins with the loss window.
    Restart,
}

/// End of a loss recovery, or of a window reduction without a loss.
#[derive(Clone, Copy, Debug)]
pub struct Recovered {
    /// Time at which the end was detected.
    pub now: Time,
    /// Deflation of the window by partial ACKs, bytes (ns-2's NewReno). The window always remains at least one segment.
    pub deflation: u64,
    /// Retransmitted bytes that have arrived, each counted once.
    pub retransmitted: u64,
}

/// End of an idle period, just before the next segment is sent. No data is in flight.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Current time.
    pub now: Time,
    /// Time since the last segment was sent.
    pub idle_time: Span,
    /// RTO.
    pub rto: Span,
    /// Restart window, bytes (RFC 5681, section 4.1).
    pub restart_window: u64,
}

/// Transmission of a segment while no other segment is in flight.
#[derive(Clone, Copy, Debug)]
pub struct TxStart {
    /// Transmission time.
    pub now: Time,
    /// Time since the last transmission of data.
    pub since_sent: Span,
    /// True if the application has left cwnd unused before.
    pub is_app_limited: bool,
}

/// Transmission of a data segment.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Transmission time.
    pub now: Time,
    /// Bytes sent and not yet acknowledged, including this segment.
    pub in_flight: u64,
    /// True if no more data is waiting to be sent.
    pub drained: bool,
    /// Size of a full segment, bytes.
    pub segment: u64,
    /// Peer's receive window, bytes.
    pub receive_window: u64,
    /// RTO.
    pub rto: Span,
}

impl Sent {
    /// Returns true if no further segment fits into `cwnd` or the peer's receive window.
    pub fn fills(&self, cwnd: u64) -> bool {
        self.in_flight + self.segment > cwnd.min(self.receive_window)
    }
}

/// Growth phase of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Slow start: cwnd doubles per round trip.
    SlowStart,
    /// Congestion avoidance: cwnd grows by one segment per round trip.
    CongestionAvoidance,
}

/// Windows set by a controller.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `None` if it was never set.
    pub ssthresh: Option<u64>,
}

/// Interface of every congestion controller. It maps one to one onto Linux's `tcp_congestion_ops`.
///
/// A controller with a constant window:
///
/// ```
/// use catnip_tcp::control::{Ack, Congestion, CongestionControl, Control, Phase};
///
/// #[derive(Debug)]
/// struct Fixed(u64);
///
/// impl CongestionControl for Fixed {
///     fn control(&self) -> Control {
///         Control { cwnd: self.0, ssthresh: None }
///     }
///     fn phase(&self, _unsent: u64) -> Phase {
///         Phase::CongestionAvoidance
///     }
///     fn on_ack(&mut self, _ack: &Ack) {}
///     fn on_congestion(&mut self, _event: &Congestion) {}
///     fn set_cwnd(&mut self, cwnd: u64, _ssthresh: Option<u64>) {
///         self.0 = cwnd;
///     }
/// }
///
/// assert_eq!(Fixed(14_480).cwnd(), 14_480);
/// ```
pub trait CongestionControl: Debug + Send {
    /// Returns the current windows.
    fn control(&self) -> Control;
    /// Returns cwnd in bytes. The sender calls this function for each packet.
    #[inline]
    fn cwnd(&self) -> u64 {
        self.control().cwnd
    }
    /// Returns the growth phase that applies to the next ACK if `unsent` bytes are not yet sent.
    fn phase(&self, unsent: u64) -> Phase;
    /// Handles an ACK of new data outside of recovery.
    fn on_ack(&mut self, ack: &Ack);
    /// Handles an ACK during a window reduction that the sender carries out (RFC 6937).
    fn on_ack_while_reduced(&mut self, _ack: &Ack) {}
    /// Returns true if the controller sets cwnd and the pacing rate itself at every ACK. The sender then applies neither proportional rate
    /// reduction nor congestion window validation.
    #[inline]
    fn uses_cong_control(&self) -> bool {
        false
    }
    /// Handles the delivery information of an ACK in any recovery state (Linux's cong_control). The sender calls this function only if
    /// [`uses_cong_control`](Self::uses_cong_control) returns true.
    fn on_delivery(&mut self, _delivery: &Delivery) {}
    /// Handles the losses of a timeout, of which [`on_congestion`](Self::on_congestion) has told before (Linux's set_state with TCP_CA_Loss).
    /// They count in the total of `delivery`, which has no sample. The sender calls this function only if
    /// [`uses_cong_control`](Self::uses_cong_control) returns true.
    fn on_timeout(&mut self, _delivery: &Delivery) {}
    /// Returns the pacing rate in bytes per second, or `None` if the controller does not set it; see
    /// [`uses_cong_control`](Self::uses_cong_control).
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    /// Returns true if the pacing rate applies from the first segment on, as in draft-ietf-ccwg-bbr. Linux sends ten segments before it
    /// paces, and lets the segment after a late one leave earlier.
    fn paces_first_segments(&self) -> bool {
        false
    }
    /// Returns true while the controller keeps cwnd small on purpose. Delivery rate samples from such a time do not measure the bandwidth
    /// of the path.
    fn is_cwnd_reduced_for_probe(&self) -> bool {
        false
    }
    /// Handles the RTT sample of the handshake.
    fn on_handshake(&mut self, _now: Time, _rtt: Span) {}
    /// Handles the transmission of a segment while no other segment is in flight (Linux's CA_EVENT_TX_START).
    fn on_tx_start(&mut self, _start: &TxStart) {}
    /// Handles the start of a congestion episode.
    fn on_congestion(&mut self, event: &Congestion);
    /// Handles the end of a loss recovery, or of a window reduction without a loss.
    fn on_recovered(&mut self, _end: &Recovered) {}
    /// Undoes the response to the last congestion episode, which was spurious because no data was lost.
    fn on_spurious(&mut self, _now: Time) {}
    /// Returns true if the sender must call [`Self::on_sent`] for each segment.
    #[inline]
    fn needs_on_sent(&self) -> bool {
        false
    }
    /// Handles the transmission of a data segment.
    fn on_sent(&mut self, _sent: &Sent) {}
    /// Handles the end of an idle period, just before the next segment is sent.
    fn on_idle(&mut self, _idle: &Idle) {}
    /// Handles a message that the application writes. `context` describes the message.
    fn on_message(&mut self, _now: Time, _context: &FlowContext) {}
    /// Sets cwnd, and ssthresh if given, to values computed outside of the controller, bytes.
    fn set_cwnd(&mut self, cwnd: u64, ssthresh: Option<u64>);
    /// Limits cwnd to `cwnd` bytes.
    fn clamp_cwnd(&mut self, cwnd: u64) {
        // If both are equal, the controller may still store a larger cwnd, because `control` rounds down to whole bytes.
        if self.control().cwnd >= cwnd {
            self.set_cwnd(cwnd, None);
        }
    }
}

/// Type of a controller. It is plain data from which each connection builds its own controller.
pub trait ControlKind: Send + Sync {
    /// Controller of a connection.
    type Control;
    /// Builds the controller of a new connection.
    fn build(&self, start: &Start) -> Self::Control;
}

macro_rules! controls {
    ($d:tt $($Kind:ident($Spec:ty) => $Control:ty),+ $(,)?) => {
        kinds! {
            /// Congestion controller of a connection, as configuration.
            pub enum ControlSpec { $($Kind($Spec)),+ }
        }

        /// Controller of a connection: an enum of the built-in controllers, whose calls are dispatched statically, and of a pointer to an
        /// external controller.
        #[derive(Debug)]
        pub enum AnyControl {
            $(#[doc = concat!("See [`", stringify!($Spec), "`].")] $Kind($Control)),+
        }

        variants!($d each: AnyControl { $($Kind),+ });

        impl ControlKind for ControlSpec {
            type Control = AnyControl;
            fn build(&self, start: &Start) -> AnyControl {
                match self { $(Self::$Kind(kind) => AnyControl::$Kind(kind.build(start))),+ }
            }
        }
    };
}

controls! { $
    Reno(RenoSpec) => Reno,
    Eca(EcaSpec) => Reno,
    Cubic(CubicSpec) => Box<Cubic>,
    LinuxCubic(LinuxCubicSpec) => Box<LinuxCubic>,
    Dctcp(DctcpSpec) => Box<Dctcp>,
    Prague(PragueSpec) => Box<Prague>,
    Bbr(BbrSpec) => Box<Bbr>,
    Bbr3(Bbr3Spec) => Box<Bbr3>,
    Custom(Custom<CustomControl>) => Box<dyn CongestionControl>,
}

impl CongestionControl for AnyControl {
    dispatch! { each:
        #[inline]
        fn control(&self) -> Control;
        #[inline]
        fn cwnd(&self) -> u64;
        #[inline]
        fn phase(&self, unsent: u64) -> Phase;
        #[inline]
        fn on_ack(&mut self, ack: &Ack);
        fn on_ack_while_reduced(&mut self, ack: &Ack);
        #[inline]
        fn uses_cong_control(&self) -> bool;
        fn on_delivery(&mut self, delivery: &Delivery);
        fn on_timeout(&mut self, delivery: &Delivery);
        fn pacing_rate(&self) -> Option<u64>;
        fn paces_first_segments(&self) -> bool;
        fn is_cwnd_reduced_for_probe(&self) -> bool;
        fn on_handshake(&mut self, now: Time, rtt: Span);
        fn on_tx_start(&mut self, start: &TxStart);
        fn on_congestion(&mut self, event: &Congestion);
        fn on_recovered(&mut self, end: &Recovered);
        fn on_spurious(&mut self, now: Time);
        #[inline]
        fn needs_on_sent(&self) -> bool;
        fn on_sent(&mut self, sent: &Sent);
        fn on_idle(&mut self, idle: &Idle);
        fn on_message(&mut self, now: Time, context: &FlowContext);
        fn set_cwnd(&mut self, cwnd: u64, ssthresh: Option<u64>);
    }
}

/// Registry of external controllers by name. `controls.add(|control: MyControl| Arc::new(control))` adds a controller; `controls.read(text,
/// ControlSpec::Custom)` reads a configuration.
pub type CustomControls = Registry<CustomControl>;

/// Type of an external controller, accessed through its trait.
pub type CustomControl = dyn ControlKind<Control = Box<dyn CongestionControl>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_written_as_it_is_read_without_what_goes_without_saying() {
        for text in ["reno", "eca", "eca:final-window", "eca:one-more-round"] {
            assert_eq!(text.parse::<ControlSpec>().unwrap().to_string(), text);
        }
        assert_eq!("eca:last-round".parse::<ControlSpec>().unwrap().to_string(), "eca");
    }
}
