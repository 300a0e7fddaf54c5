//! Pacing: when may the next segment go on the wire?

mod kernel;
mod rate;
mod rbplw;

pub use kernel::KernelPacing;
pub use rate::RatePacing;
pub use rbplw::Rbplw;

use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Span, Time, as_text};

/// How a connection paces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacingKind {
    /// Not at all.
    None,
    /// See [`Rbplw`].
    Rbplw,
    /// See [`RatePacing`], with its windows per round trip, and the segments that may leave at once.
    Rate(f64, u32),
    /// See [`KernelPacing`].
    Kernel,
}

as_text!(PacingKind);

impl Kind for PacingKind {
    const USAGE: &'static [Usage] = &[
        ("none", "segments leave as soon as the window has room"),
        rbplw::USAGE,
        (
            "rate[:K,burst=1]",
            "at K windows per smoothed round trip, 1 unless said otherwise, so many segments at once; needs recovery sack",
        ),
        (
            "linux",
            "at 2 windows per smoothed round trip in slow start and 1.2 after it (Linux); needs recovery sack or rack",
        ),
    ];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(match text.name() {
            "none" => Self::None,
            "rbplw" => Self::Rbplw,
            "linux" => Self::Kernel,
            _ => {
                let burst = text.option("burst", 1)?;
                if burst == 0 {
                    return Err(text.error("a burst of a segment or more"));
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

/// What the sender knows when a round begins, before the window grows.
#[derive(Clone, Copy, Debug)]
pub struct RoundStart {
    /// Segments never sent so far.
    pub unsent_segments: u64,
    /// Segments that the round can send.
    pub next_window_segments: u64,
    /// Smoothed round trip by a fine clock, if there was a sample.
    pub srtt: Option<Span>,
}

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// When.
    pub now: Time,
    /// For the first time.
    pub is_new: bool,
    /// Its data.
    pub bytes: u64,
    /// The window, or what is out if that is more, bytes.
    pub cwnd: u64,
    /// The window is below half of its threshold.
    pub in_slow_start: bool,
    /// Smoothed round trip, if there was a sample.
    pub srtt: Option<Span>,
    /// The rate that the controller decides on, bytes per second, if it does.
    pub rate: Option<u64>,
}

/// When may the next segment go?
#[derive(Clone, Debug)]
pub enum Pacing {
    /// At once.
    None,
    /// See [`Rbplw`].
    Rbplw(Rbplw),
    /// See [`RatePacing`].
    Rate(RatePacing),
    /// See [`KernelPacing`].
    Kernel(KernelPacing),
}

impl Pacing {
    /// The pacing that a configuration asks for.
    pub fn new(kind: PacingKind) -> Self {
        match kind {
            PacingKind::None => Self::None,
            PacingKind::Rbplw => Self::Rbplw(Rbplw::default()),
            PacingKind::Rate(windows, burst) => Self::Rate(RatePacing::new(windows, burst)),
            PacingKind::Kernel => Self::kernel(),
        }
    }

    /// The pacing of Linux, which controllers with a rate of their own have.
    pub fn kernel() -> Self {
        Self::Kernel(KernelPacing::default())
    }

    /// Another message begins.
    #[inline]
    pub fn on_message(&mut self) {
        if let Self::Rbplw(pacing) = self {
            pacing.on_message();
        }
    }

    /// Does it want to hear of rounds?
    #[inline]
    pub fn counts_rounds(&self) -> bool {
        matches!(self, Self::Rbplw(_))
    }

    /// A round begins: the first ACK beyond what was sent when the previous one began.
    #[inline]
    pub fn on_round(&mut self, round: &RoundStart) {
        if let Self::Rbplw(pacing) = self {
            pacing.on_round(round);
        }
    }

    /// Do retransmissions wait for their turn, too?
    #[inline]
    pub fn paces_retransmissions(&self) -> bool {
        matches!(self, Self::Rate(_) | Self::Kernel(_))
    }

    /// The earliest time for the next segment.
    #[inline]
    pub fn release_at(&self) -> Time {
        match self {
            Self::None => Time::ZERO,
            Self::Rbplw(pacing) => pacing.release_at(),
            Self::Rate(pacing) => pacing.release_at(),
            Self::Kernel(pacing) => pacing.release_at(),
        }
    }

    /// A segment was sent, new or again.
    #[inline]
    pub fn on_sent(&mut self, leaving: &Leaving) {
        match self {
            Self::None => {}
            Self::Rbplw(pacing) => {
                if leaving.is_new {
                    pacing.on_sent(leaving.now);
                }
            }
            Self::Rate(pacing) => pacing.on_sent(leaving),
            Self::Kernel(pacing) => pacing.on_sent(leaving),
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
