//! Early congestion avoidance (CATNIP paper, section III-B): linear instead of exponential growth of the congestion window near the end of
//! a document. The paper gives no explicit rule, so this module has three: each returns true if a congestion window of `window` segments
//! grows linearly while `left` segments are unsent.

/// Smallest congestion window with which a loss can trigger a fast retransmit, segments.
const SMALLEST_USEFUL_WINDOW: u64 = 4;

/// Returns true if the unsent data is at most two congestion windows.
#[inline]
pub fn last_round(window: u64, left: u64) -> bool {
    left <= window.saturating_mul(2)
}

/// Returns true if the unsent data fits into the congestion window of the next round trip, which is twice as large.
#[inline]
pub fn final_window(window: u64, left: u64) -> bool {
    window >= SMALLEST_USEFUL_WINDOW && left > 0 && last_round(window, left)
}

/// Returns true if linear growth takes at most one round trip more than exponential growth to send the rest of the document.
pub fn one_more_round(window: u64, left: u64) -> bool {
    left > 0
        && rounds(left, window, |window| window + 1)
            <= 1 + rounds(left, window, |window| window.saturating_mul(2))
}

/// Returns the number of round trips that `left` segments take if `grow` computes each congestion window from the previous one. The first
/// of these round trips has the window `grow(window)`.
fn rounds(mut left: u64, mut window: u64, grow: impl Fn(u64) -> u64) -> u32 {
    let mut rounds = 0;
    while left > 0 {
        window = grow(window);
        left = left.saturating_sub(window);
        rounds += 1;
    }
    rounds
}
