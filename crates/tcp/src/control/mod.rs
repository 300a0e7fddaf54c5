//! Congestion control: how fast to grow, how much to cut. A controller is told of each episode once; which losses
//! belong to the same episode is the sender's business. A controller is one file, and one line of [`ControlSpec`].

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
pub use delivery::{Delivery, LossSample, RateSample, Repair};
pub use eca::EcaSpec;
pub use linux_cubic::{LinuxCubic, LinuxCubicSpec};
pub use prague::{Prague, PragueSpec};
pub use reno::{Reno, RenoSpec};

use catnip_base::notation::{Custom, Registry};
use catnip_base::{FlowContext, Span, Time, kinds};
use std::fmt::Debug;

/// What a controller starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Data bytes in a full segment.
    pub segment_bytes: u32,
    /// cwnd, segments.
    pub window: u32,
    /// ssthresh, segments; `None`: as high as possible.
    pub ssthresh: Option<u64>,
    /// What half of the window means.
    pub halving: Halving,
    /// cwnd grows even while the application or the receive window keeps it unused.
    pub grow_unused: bool,
    /// cwnd grows by what an ACK acknowledges, however much, instead of by one segment at most.
    pub byte_counting: bool,
}

/// What is halved at a congestion event, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halving {
    /// min(cwnd, receive window) in whole segments; halves are rounded down (ns-2 with `precisionReduce_` off).
    WholeSegments,
    /// min(cwnd, receive window); ssthresh is rounded down to segments (ns-2 with `precisionReduce_` on).
    Window,
    /// The data in flight (RFC 5681, equation 4).
    Flight,
}

/// An ACK of new data.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now: Time,
    /// Bytes that it newly acknowledges.
    pub bytes: u64,
    /// Bytes sent and not acknowledged, before this ACK.
    pub in_flight: u64,
    /// First byte not acknowledged, after it.
    pub una: u64,
    /// Next byte of new data to send.
    pub next: u64,
    /// Bytes that the application has handed over and that were never sent.
    pub unsent: u64,
    /// Bytes that are newly known to have arrived, acknowledged or reported.
    pub delivered: u64,
    /// Of the bytes that it acknowledges, those whose packets were marked, as far as ECN-Echo says.
    pub marked: u64,
    /// The round trip that it measures, if it measures one.
    pub rtt: Option<Span>,
    /// Smoothed round trip by a fine clock, once there was a sample.
    pub srtt: Option<Span>,
    /// Was the window the reason why no more was sent?
    pub cwnd_limited: bool,
}

/// A congestion episode begins.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// When it was noticed.
    pub now: Time,
    /// How.
    pub cause: Cause,
    /// Bytes sent and not acknowledged.
    pub in_flight: u64,
    /// What the other side can take in, bytes.
    pub receive_window: u64,
    /// The timer expired again for the same data.
    pub repeated: bool,
}

/// How congestion is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Duplicate ACKs or SACK.
    Loss,
    /// ECN-Echo: nothing was lost, and nothing is to be repaired.
    Mark,
    /// The timer, or Tahoe's answer to duplicate ACKs: the window starts anew.
    Restart,
}

/// The repair of a loss is over.
#[derive(Clone, Copy, Debug)]
pub struct Recovered {
    /// When its end was noticed.
    pub now: Time,
    /// Bytes that partial ACKs took from the window (ns-2's NewReno); at least one segment stays.
    pub taken: u64,
    /// Bytes that were retransmitted and have arrived, each counted once.
    pub retransmitted: u64,
}

/// The first segment after a silence is about to leave; nothing is in flight.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Now.
    pub now: Time,
    /// Since the last segment was sent.
    pub silence: Span,
    /// The retransmission timeout.
    pub rto: Span,
    /// The restart window, bytes (RFC 5681, section 4.1).
    pub restart_window: u64,
}

/// A data segment has left.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub now: Time,
    /// Bytes sent and not acknowledged, these included.
    pub in_flight: u64,
    /// Nothing more is there to be sent.
    pub drained: bool,
    /// A full segment, bytes.
    pub segment: u64,
    /// What the other side can take in, bytes.
    pub receive_window: u64,
    /// The retransmission timeout.
    pub rto: Span,
}

impl Sent {
    /// No further segment fits into this window, or that of the other side.
    pub fn fills(&self, cwnd: u64) -> bool {
        self.in_flight + self.segment > cwnd.min(self.receive_window)
    }
}

/// How the window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It doubles per round trip.
    SlowStart,
    /// It grows by one segment per round trip.
    CongestionAvoidance,
}

/// What a controller allows.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes, once one was set.
    pub ssthresh: Option<u64>,
}

/// The contract of every controller; it maps one to one onto Linux's `tcp_congestion_ops`.
///
/// A controller whose window never changes:
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
///     fn adopt(&mut self, cwnd: u64, _ssthresh: Option<u64>) {
///         self.0 = cwnd;
///     }
/// }
///
/// assert_eq!(Fixed(14_480).cwnd(), 14_480);
/// ```
pub trait CongestionControl: Debug + Send {
    /// What is allowed now.
    fn control(&self) -> Control;
    /// The window of it, bytes: what each packet asks for.
    #[inline]
    fn cwnd(&self) -> u64 {
        self.control().cwnd
    }
    /// How the next ACK would open the window while so many bytes wait to be sent.
    fn phase(&self, unsent: u64) -> Phase;
    /// New data was acknowledged outside of recovery.
    fn on_ack(&mut self, ack: &Ack);
    /// New data was acknowledged while the window is being reduced, which it does by itself.
    fn on_ack_while_reduced(&mut self, _ack: &Ack) {}
    /// Does it decide about window and rate by itself, at every ACK? Nothing else changes its window then.
    #[inline]
    fn steers(&self) -> bool {
        false
    }
    /// What an ACK says of the path, whatever is being repaired: for one that steers (Linux's cong_control).
    fn on_delivery(&mut self, _delivery: &Delivery) {}
    /// The rate at which segments leave, bytes per second: of one that steers.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    /// It keeps the window small for reasons of its own: how fast what is out now arrives says nothing of the path.
    fn holds_back(&self) -> bool {
        false
    }
    /// The handshake has measured a round trip.
    fn on_handshake(&mut self, _now: Time, _rtt: Span) {}
    /// A segment leaves while none is in the network, after the application had nothing to send.
    fn on_restart(&mut self, _now: Time) {}
    /// An episode begins.
    fn on_congestion(&mut self, event: &Congestion);
    /// The repair of a loss is over.
    fn on_recovered(&mut self, _end: &Recovered) {}
    /// The last episode was none: nothing was lost.
    fn on_spurious(&mut self, _now: Time) {}
    /// Does it want to hear of each segment that leaves?
    #[inline]
    fn hears_of_sent(&self) -> bool {
        false
    }
    /// A data segment has left.
    fn on_sent(&mut self, _sent: &Sent) {}
    /// The first segment after a silence is about to leave.
    fn on_idle(&mut self, _idle: &Idle) {}
    /// The application hands over a message and says what it knows about it.
    fn on_message(&mut self, _now: Time, _context: &FlowContext) {}
    /// Another party has decided: the window is this from here on, and so is the threshold if one is given; bytes.
    fn adopt(&mut self, cwnd: u64, ssthresh: Option<u64>);
    /// The window is no larger than this from here on, bytes.
    fn restrict(&mut self, cwnd: u64) {
        // A controller may keep fractions of a byte.
        if self.control().cwnd >= cwnd {
            self.adopt(cwnd, None);
        }
    }
}

/// A kind of controller: plain data from which a connection builds its own.
pub trait ControlKind: Send + Sync {
    /// What a connection has.
    type Control;
    /// The state of a new connection.
    fn build(&self, start: &Start) -> Self::Control;
}

macro_rules! controls {
    ($($Kind:ident($Spec:ty) => $Control:ty),+ $(,)?) => {
        kinds! {
            /// Which controller a connection uses.
            pub enum ControlSpec { $($Kind($Spec)),+ }
        }

        /// The controller of a connection: those that are built in are known to the compiler, one from outside is behind a
        /// pointer.
        #[derive(Debug)]
        pub enum AnyControl {
            $(#[doc = concat!("See [`", stringify!($Spec), "`].")] $Kind($Control)),+
        }

        impl ControlKind for ControlSpec {
            type Control = AnyControl;
            fn build(&self, start: &Start) -> AnyControl {
                match self { $(Self::$Kind(kind) => AnyControl::$Kind(kind.build(start))),+ }
            }
        }

        impl CongestionControl for AnyControl {
            #[inline]
            fn control(&self) -> Control {
                match self { $(Self::$Kind(it) => it.control()),+ }
            }
            #[inline]
            fn cwnd(&self) -> u64 {
                match self { $(Self::$Kind(it) => it.cwnd()),+ }
            }
            #[inline]
            fn phase(&self, unsent: u64) -> Phase {
                match self { $(Self::$Kind(it) => it.phase(unsent)),+ }
            }
            #[inline]
            fn on_ack(&mut self, ack: &Ack) {
                match self { $(Self::$Kind(it) => it.on_ack(ack)),+ }
            }
            fn on_ack_while_reduced(&mut self, ack: &Ack) {
                match self { $(Self::$Kind(it) => it.on_ack_while_reduced(ack)),+ }
            }
            #[inline]
            fn steers(&self) -> bool {
                match self { $(Self::$Kind(it) => it.steers()),+ }
            }
            fn on_delivery(&mut self, delivery: &Delivery) {
                match self { $(Self::$Kind(it) => it.on_delivery(delivery)),+ }
            }
            fn pacing_rate(&self) -> Option<u64> {
                match self { $(Self::$Kind(it) => it.pacing_rate()),+ }
            }
            fn holds_back(&self) -> bool {
                match self { $(Self::$Kind(it) => it.holds_back()),+ }
            }
            fn on_handshake(&mut self, now: Time, rtt: Span) {
                match self { $(Self::$Kind(it) => it.on_handshake(now, rtt)),+ }
            }
            fn on_restart(&mut self, now: Time) {
                match self { $(Self::$Kind(it) => it.on_restart(now)),+ }
            }
            fn on_congestion(&mut self, event: &Congestion) {
                match self { $(Self::$Kind(it) => it.on_congestion(event)),+ }
            }
            fn on_recovered(&mut self, end: &Recovered) {
                match self { $(Self::$Kind(it) => it.on_recovered(end)),+ }
            }
            fn on_spurious(&mut self, now: Time) {
                match self { $(Self::$Kind(it) => it.on_spurious(now)),+ }
            }
            #[inline]
            fn hears_of_sent(&self) -> bool {
                match self { $(Self::$Kind(it) => it.hears_of_sent()),+ }
            }
            fn on_sent(&mut self, sent: &Sent) {
                match self { $(Self::$Kind(it) => it.on_sent(sent)),+ }
            }
            fn on_idle(&mut self, idle: &Idle) {
                match self { $(Self::$Kind(it) => it.on_idle(idle)),+ }
            }
            fn on_message(&mut self, now: Time, context: &FlowContext) {
                match self { $(Self::$Kind(it) => it.on_message(now, context)),+ }
            }
            fn adopt(&mut self, cwnd: u64, ssthresh: Option<u64>) {
                match self { $(Self::$Kind(it) => it.adopt(cwnd, ssthresh)),+ }
            }
        }
    };
}

controls! {
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

/// Controllers from outside, by name: `controls.add(|control: MyControl| Arc::new(control))`, and then
/// `controls.read(text, ControlSpec::Custom)`.
pub type CustomControls = Registry<CustomControl>;

/// A kind from outside, of which only the trait is known.
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
