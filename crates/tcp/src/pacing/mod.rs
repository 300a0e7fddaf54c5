//! Pacing: when may the next segment go on the wire?

mod rate;
mod rbplw;

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
    /// See [`RatePacing`], with its windows per round trip.
    Rate(f64),
}

as_text!(PacingKind);

impl Kind for PacingKind {
    const USAGE: &'static [Usage] = &[
        ("none", "segments leave as soon as the window has room"),
        rbplw::USAGE,
        ("rate[:K]", "at K windows per smoothed round trip, 1 unless said otherwise; needs recovery sack"),
    ];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(match text.name() {
            "none" => Self::None,
            "rbplw" => Self::Rbplw,
            _ => {
                let windows = text.next().map_or(Ok(1.0), |k| k.parse().map_err(|_| text.error("rate:K")))?;
                if !(windows > 0.0 && f64::is_finite(windows)) {
                    return Err(text.error("rate:K with K above 0"));
                }
                Self::Rate(windows)
            }
        })
    }

    fn write(&self, to: &mut Written) {
        match *self {
            Self::None => to.name("none"),
            Self::Rbplw => to.name("rbplw"),
            Self::Rate(1.0) => to.name("rate"),
            Self::Rate(windows) => to.name("rate").value(windows),
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

/// When may the next segment go?
#[derive(Clone, Debug)]
pub enum Pacing {
    /// At once.
    None,
    /// See [`Rbplw`].
    Rbplw(Rbplw),
    /// See [`RatePacing`].
    Rate(RatePacing),
}

impl Pacing {
    /// The pacing that a configuration asks for.
    pub fn new(kind: PacingKind) -> Self {
        match kind {
            PacingKind::None => Self::None,
            PacingKind::Rbplw => Self::Rbplw(Rbplw::default()),
            PacingKind::Rate(windows) => Self::Rate(RatePacing::new(windows)),
        }
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
        matches!(self, Self::Rate(_))
    }

    /// The earliest time for the next segment.
    #[inline]
    pub fn release_at(&self) -> Time {
        match self {
            Self::None => Time::ZERO,
            Self::Rbplw(pacing) => pacing.release_at(),
            Self::Rate(pacing) => pacing.release_at(),
        }
    }

    /// A segment of so many bytes was sent, new or again, with this window and this smoothed round trip.
    #[inline]
    pub fn on_sent(&mut self, now: Time, is_new: bool, bytes: u64, cwnd: u64, srtt: Option<Span>) {
        match self {
            Self::None => {}
            Self::Rbplw(pacing) => {
                if is_new {
                    pacing.on_sent(now);
                }
            }
            Self::Rate(pacing) => pacing.on_sent(now, bytes, cwnd, srtt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacing_is_written_as_it_is_read_without_what_goes_without_saying() {
        for text in ["none", "rbplw", "rate", "rate:1.25"] {
            assert_eq!(text.parse::<PacingKind>().unwrap().to_string(), text);
        }
        assert_eq!("rate:1".parse::<PacingKind>().unwrap().to_string(), "rate");
        for text in ["rate:0", "rate:-1", "rate:nan", "rate:inf", "rate:fast", "rate:1,2", "none:1"] {
            assert!(text.parse::<PacingKind>().is_err(), "{text}");
        }
    }
}
