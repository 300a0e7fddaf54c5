//! Marking by the state of TCP (Noureddine and Tobagi, "Improving the performance of interactive TCP applications using service
//! differentiation", 2002, section VI-A, Algorithm 1).

/// Thresholds of the window, segments.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Largest window whose packets are all HIGH.
    pub high: u32,
    /// Largest window whose packets are all MED or HIGH.
    pub med: u32,
}

/// Drop precedence.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Packet that is dropped last.
    High = 0,
    /// Packet that is dropped before HIGH ones.
    Med = 1,
    /// Packet that is dropped first.
    Low = 2,
}

/// Value that [`level`] draws in the plain version: no packet above a threshold is protected by chance.
pub const NEVER: u32 = u32::MAX;

/// Returns the drop precedence of a packet sent under a window of `window` segments. `is_protected` holds for SYNs and for packets of a
/// loss recovery. The randomized version draws 32 random bits where needed, the plain version draws [`NEVER`].
///
/// The comparison sign of the paper is lost; here a threshold is the largest window that it protects.
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

/// Returns true with a probability of threshold / window.
fn keeps(threshold: u32, window: u32, draw: u32) -> bool {
    (draw as u64) * (window as u64) < (threshold as u64) << 32
}
