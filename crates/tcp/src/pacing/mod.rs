//! Pacing: transmission times of segments.

mod departure;
mod kernel;
mod rate;
mod rbplw;

pub use departure::DeparturePacing;
pub use kernel::KernelPacing;
pub use rate::RatePacing;
pub use rbplw::Rbplw;

use crate::control::CongestionControl;
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Span, Time, as_text};

/// Pacing of a connection, as configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacingKind {
    /// No pacing.
    None,
    /// See [`Rbplw`].
    Rbplw,
    /// See [`RatePacing`], with the windows per round trip and the burst size in segments.
    Rate(f64, u32),
    /// See [`KernelPacing`].
    Kernel,
}

as_text!(PacingKind);

impl Kind for PacingKind {
    const USAGE: &'static [Usage] = &[
        ("none", "segments are sent as soon as the window permits"),
        rbplw::USAGE,
        (
            "rate[:K,burst=1]",
            "paces at K windows per smoothed round-trip time, by default 1, in bursts of burst segments; needs recovery sack",
        ),
        (
            "linux",
            "paces at 2 windows per smoothed round-trip time in slow start and 1.2 after it (Linux); needs recovery sack or rack",
        ),
    ];
    const EXAMPLES: &'static [&'static str] =
        &["none", "rbplw", "rate", "rate:1.25", "rate:1.25,burst=2", "linux"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(match text.name() {
            "none" => Self::None,
            "rbplw" => Self::Rbplw,
            "linux" => Self::Kernel,
            _ => {
                let burst = text.option("burst", 1)?;
                if burst == 0 {
                    return Err(text.error("a burst of at least one segment"));
                }
                let windows = text.next().map_or(Ok(1.0), |k| k.parse().map_err(|_| text.error("rate:K")))?;
                if !(windows > 0.0 && f64::is_finite(windows)) {
                    return Err(text.error("rate:K with K above 0"));
                }
                Self::Rate(windows, burst)
            }
        })
    }

    fn write(&self, to: &mut Written) {
        match *self {
            Self::None => to.name("none"),
            Self::Rbplw => to.name("rbplw"),
            Self::Kernel => to.name("linux"),
            Self::Rate(windows, burst) => {
                let to = to.name("rate");
                let to = if windows == 1.0 { to } else { to.value(windows) };
                to.option("burst", burst, 1)
            }
        };
    }
}

/// State of the sender at the start of a round, before the window grows.
#[derive(Clone, Copy, Debug)]
pub struct RoundStart {
    /// Number of segments not sent yet.
    pub unsent_segments: u64,
    /// Number of segments that can be sent in the round.
    pub next_window_segments: u64,
    /// SRTT, measured with a fine-grained clock; `None` before the first RTT sample.
    pub srtt: Option<Span>,
}

/// Transmission of a segment.
#[derive(Clone, Copy, Debug)]
pub struct PacedSegment {
    /// Transmission time.
    pub now: Time,
    /// True if this is the first transmission of the segment.
    pub is_new: bool,
    /// Length of the data, bytes.
    pub bytes: u64,
    /// cwnd, bytes. With RACK, it is the data in flight if that is larger.
    pub cwnd: u64,
    /// True if cwnd is below half of ssthresh, or if ssthresh was never set.
    pub in_slow_start: bool,
    /// SRTT; `None` before the first RTT sample.
    pub srtt: Option<Span>,
    /// Pacing rate that the controller sets, bytes per second; `None` if it sets no rate.
    pub rate: Option<u64>,
}

/// Pacing state of a connection.
#[derive(Clone, Debug)]
pub enum Pacing {
    /// No pacing.
    None,
    /// See [`Rbplw`].
    Rbplw(Rbplw),
    /// See [`RatePacing`].
    Rate(RatePacing),
    /// See [`KernelPacing`].
    Kernel(KernelPacing),
    /// See [`DeparturePacing`].
    Departure(DeparturePacing),
}

impl Pacing {
    /// Creates the pacing state for the configuration `kind`.
    pub fn new(kind: PacingKind) -> Self {
        match kind {
            PacingKind::None => Self::None,
            PacingKind::Rbplw => Self::Rbplw(Rbplw::default()),
            PacingKind::Rate(windows, burst) => Self::Rate(RatePacing::new(windows, burst)),
            PacingKind::Kernel => Self::kernel(),
        }
    }

    /// Creates the pacing of Linux.
    pub fn kernel() -> Self {
        Self::Kernel(KernelPacing::default())
    }

    /// Creates the pacing for `control`, which applies in addition to the configured one.
    pub fn of_controller(control: &impl CongestionControl) -> Self {
        if !control.uses_cong_control() {
            Self::None
        } else if control.paces_first_segments() {
            Self::Departure(DeparturePacing::default())
        } else {
            Self::kernel()
        }
    }

    /// Handles the start of a message.
    #[inline]
    pub fn on_message(&mut self) {
        if let Self::Rbplw(pacing) = self {
            pacing.on_message();
        }
    }

    /// Returns true if the sender must call [`Self::on_round`].
    #[inline]
    pub fn needs_on_round(&self) -> bool {
        matches!(self, Self::Rbplw(_))
    }

    /// Handles the start of a round: the first ACK of data beyond that sent before the previous round began.
    #[inline]
    pub fn on_round(&mut self, round: &RoundStart) {
        if let Self::Rbplw(pacing) = self {
            pacing.on_round(round);
        }
    }

    /// Returns true if retransmissions are paced, too.
    #[inline]
    pub fn paces_retransmissions(&self) -> bool {
        matches!(self, Self::Rate(_) | Self::Kernel(_) | Self::Departure(_))
    }

    /// Returns the earliest time at which the next segment may be sent.
    #[inline]
    pub fn release_at(&self) -> Time {
        match self {
            Self::None => Time::ZERO,
            Self::Rbplw(pacing) => pacing.release_at(),
            Self::Rate(pacing) => pacing.release_at(),
            Self::Kernel(pacing) => pacing.release_at(),
            Self::Departure(pacing) => pacing.release_at(),
        }
    }

    /// Handles the transmission of a new or retransmitted segment.
    #[inline]
    pub fn on_sent(&mut self, paced: &PacedSegment) {
        match self {
            Self::None => {}
            Self::Rbplw(pacing) => {
                if paced.is_new {
                    pacing.on_sent(paced.now);
                }
            }
            Self::Rate(pacing) => pacing.on_sent(paced),
            Self::Kernel(pacing) => pacing.on_sent(paced),
            Self::Departure(pacing) => pacing.on_sent(paced),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacing_is_written_as_it_is_read_without_what_goes_without_saying() {
        for text in ["none", "rbplw", "rate", "rate:1.25", "rate:2,burst=4", "linux"] {
            assert_eq!(text.parse::<PacingKind>().unwrap().to_string(), text);
        }
        assert_eq!("rate:1".parse::<PacingKind>().unwrap().to_string(), "rate");
        for text in
            ["rate:0", "rate:-1", "rate:nan", "rate:inf", "rate:fast", "rate:burst=0", "rate:1,2", "none:1"]
        {
            assert!(text.parse::<PacingKind>().is_err(), "{text}");
        }
    }
}
