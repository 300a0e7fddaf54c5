//! Early congestion avoidance (CATNIP paper, section III-B): rules that decide whether a window of `window` whole segments opens linearly
//! while `left` segments are unsent. The paper prints no rule; these are three.

/// Smallest window that can trigger a fast retransmit, segments.
const SMALLEST_USEFUL_WINDOW: u64 = 4;

/// Returns true if at most two windows are unsent.
#[inline]
pub fn last_round(window: u64, left: u64) -> bool {
    left <= window.saturating_mul(2)
}

/// Returns true if the next doubled window would finish the document.
#[inline]
pub fn final_window(window: u64, left: u64) -> bool {
    window >= SMALLEST_USEFUL_WINDOW && left > 0 && last_round(window, left)
}

/// Returns true if linear growth to the end takes at most one round more than doubling.
pub fn one_more_round(window: u64, left: u64) -> bool {
    left > 0
        && rounds(left, window, |window| window + 1)
            <= 1 + rounds(left, window, |window| window.saturating_mul(2))
}

/// Returns the number of rounds in which windows, beginning with the successor of `window`, send `left` segments.
fn rounds(mut left: u64, mut window: u64, grow: impl Fn(u64) -> u64) -> u32 {
    let mut rounds = 0;
    while left > 0 {
        window = grow(window);
        left = left.saturating_sub(window);
        rounds += 1;
    }
    rounds
}
