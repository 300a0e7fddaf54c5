//! Marking by the state of TCP (Noureddine and Tobagi, "Improving the performance of interactive TCP applications using service
//! differentiation", 2002, section VI-A, Algorithm 1).

/// Windows in segments.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The largest window whose packets are all HIGH.
    pub high: u32,
    /// The largest window whose packets are MED at least.
    pub med: u32,
}

/// Drop precedence.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Dropped last.
    High = 0,
    /// Dropped before those.
    Med = 1,
    /// Dropped first.
    Low = 2,
}

/// What [`level`] draws in the plain version: no share is ever kept.
pub const NEVER: u32 = u32::MAX;

/// The level of a packet that is sent under a window of so many segments; `is_protected` are SYNs and what repairs a loss. The randomized
/// version draws 32 random bits where it needs them; the plain one has [`NEVER`].
///
/// The paper's comparison sign is lost; a threshold is the largest window that it protects.
#[inline]
pub fn level(
    thresholds: &Thresholds,
    window: u32,
    is_protected: bool,
    mut draw: impl FnMut() -> u32,
) -> Level {
    if window <= thresholds.high || is_protected || keeps(thresholds.high, window, draw()) {
        Level::High
    } else if window <= thresholds.med || keeps(thresholds.med, window, draw()) {
        Level::Med
    } else {
        Level::Low
    }
}

/// With the probability of a threshold's share of the window.
fn keeps(threshold: u32, window: u32, draw: u32) -> bool {
    (draw as u64) * (window as u64) < (threshold as u64) << 32
}
