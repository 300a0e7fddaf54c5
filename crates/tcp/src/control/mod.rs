//! Congestion control: how fast to grow, how much to cut. A controller is told of each episode once; which losses
//! belong to the same episode is the sender's business.

mod eca;
mod reno;

pub use eca::{Eca, EcaRule};
pub use reno::Reno;

use crate::TcpConfig;
use catnip_base::{FlowContext, Span, Time};
use std::fmt::Debug;

/// An ACK of new data.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now: Time,
    /// Bytes that it newly acknowledges.
    pub bytes: u64,
    /// Bytes sent and not acknowledged, before this ACK.
    pub in_flight: u64,
    /// Bytes that the application has handed over and that were never sent.
    pub unsent: u64,
    /// The round trip that it measures, if it measures one.
    pub rtt: Option<Span>,
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
    /// The timer, or Tahoe's answer to duplicate ACKs: the window starts anew.
    Restart,
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
pub trait CongestionControl: Debug + Send {
    /// What is allowed now.
    fn control(&self) -> Control;
    /// How the next ACK would open the window while so many bytes wait to be sent.
    fn phase(&self, unsent: u64) -> Phase;
    /// New data was acknowledged outside of recovery.
    fn on_ack(&mut self, ack: &Ack);
    /// An episode begins.
    fn on_congestion(&mut self, event: &Congestion);
    /// Recovery is over; the window may not be above `limit` bytes now.
    fn on_recovered(&mut self, now: Time, limit: u64);
    /// The application says what it knows about its data.
    fn on_context(&mut self, _now: Time, _context: &FlowContext) {}
}

/// Which controller a connection uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlKind {
    /// Slow start and congestion avoidance.
    Reno,
    /// Early congestion avoidance.
    Eca(EcaRule),
}

/// The built-in controllers and one of your own.
#[derive(Debug)]
pub enum AnyControl {
    /// See [`Reno`].
    Reno(Reno),
    /// See [`Eca`].
    Eca(Eca),
    /// Anything else.
    Custom(Box<dyn CongestionControl>),
}

impl AnyControl {
    /// The controller that a configuration asks for.
    pub fn new(config: &TcpConfig) -> Self {
        match config.control {
            ControlKind::Reno => Self::Reno(Reno::new(config)),
            ControlKind::Eca(rule) => Self::Eca(Eca::new(Reno::new(config), rule)),
        }
    }
}

macro_rules! each_control {
    ($any:expr, $control:ident => $do:expr) => {
        match $any {
            AnyControl::Reno($control) => $do,
            AnyControl::Eca($control) => $do,
            AnyControl::Custom($control) => $do,
        }
    };
}

impl CongestionControl for AnyControl {
    #[inline]
    fn control(&self) -> Control {
        each_control!(self, c => c.control())
    }
    #[inline]
    fn phase(&self, unsent: u64) -> Phase {
        each_control!(self, c => c.phase(unsent))
    }
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        each_control!(self, c => c.on_ack(ack));
    }
    fn on_congestion(&mut self, event: &Congestion) {
        each_control!(self, c => c.on_congestion(event));
    }
    fn on_recovered(&mut self, now: Time, limit: u64) {
        each_control!(self, c => c.on_recovered(now, limit));
    }
    fn on_context(&mut self, now: Time, context: &FlowContext) {
        each_control!(self, c => c.on_context(now, context));
    }
}
