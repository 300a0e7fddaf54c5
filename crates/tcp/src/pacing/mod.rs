//! Pacing: when may the next new segment go on the wire? Retransmissions are not paced.

mod rbplw;

pub use rbplw::Rbplw;

use catnip_base::{Span, Time, words};

words! {
    /// How a connection paces.
    pub enum PacingKind {
        /// Not at all.
        None = ("none", "segments leave as soon as the window has room"),
        /// See [`Rbplw`].
        Rbplw = rbplw::USAGE,
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
}

impl Pacing {
    /// The pacing that a configuration asks for.
    pub fn new(kind: PacingKind) -> Self {
        match kind {
            PacingKind::None => Self::None,
            PacingKind::Rbplw => Self::Rbplw(Rbplw::default()),
        }
    }

    /// Another message begins.
    #[inline]
    pub fn on_message(&mut self) {
        if let Self::Rbplw(pacing) = self {
            pacing.on_message();
        }
    }

    /// A round begins: the first ACK beyond what was sent when the previous one began.
    #[inline]
    pub fn on_round(&mut self, round: &RoundStart) {
        if let Self::Rbplw(pacing) = self {
            pacing.on_round(round);
        }
    }

    /// The earliest time for the next new segment.
    #[inline]
    pub fn release_at(&self) -> Time {
        match self {
            Self::None => Time::ZERO,
            Self::Rbplw(pacing) => pacing.release_at(),
        }
    }

    /// A new segment was sent.
    #[inline]
    pub fn on_sent(&mut self, now: Time) {
        if let Self::Rbplw(pacing) = self {
            pacing.on_sent(now);
        }
    }
}
