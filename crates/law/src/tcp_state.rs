//! Marking by the state of TCP (Noureddine and Tobagi, "Improving the performance of interactive TCP applications using service
//! differentiation", 2002, section VI-A, Algorithm 1).

/// Window thresholds of the drop precedences, segments.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Largest congestion window with which all packets are HIGH.
    pub high: u32,
    /// Largest congestion window with which all packets are MED or HIGH.
    pub med: u32,
}

/// Drop precedence.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Packet that is dropped last.
    High = 0,
    /// Packet that is dropped before HIGH ones.
    Medium = 1,
    /// Packet that is dropped first.
    Low = 2,
}

/// Return value of `draw` for the plain, non-randomized version of [`level`]. With this value, the drop precedence depends on the
/// thresholds alone.
pub const NEVER: u32 = u32::MAX;

/// Returns the drop precedence of a packet sent with a congestion window of `window` segments. `is_protected` is true for SYNs and for
/// packets of a loss recovery. `draw` returns 32 random bits in the randomized version of the algorithm, and [`NEVER`] in the plain
/// version.
///
/// The available text of the paper lacks the comparison operator. Here a threshold is the largest window that it protects.
#[inline]
pub fn level(
    thresholds: &Thresholds,
    window: u32,
    is_protected: bool,
    mut draw: impl FnMut() -> u32,
) -> Level {
    if window <= thresholds.high || is_protected || protects(thresholds.high, window, draw()) {
        Level::High
    } else if window <= thresholds.med || protects(thresholds.med, window, draw()) {
        Level::Medium
    } else {
        Level::Low
    }
}

/// Returns true with a probability of `threshold` / `window`.
fn protects(threshold: u32, window: u32, draw: u32) -> bool {
    (draw as u64) * (window as u64) < (threshold as u64) << 32
}
