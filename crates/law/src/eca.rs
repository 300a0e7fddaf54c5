//! Early congestion avoidance (CATNIP paper, section III-B): three rules that decide whether a congestion window of `window` whole segments
//! grows linearly instead of exponentially while `left` segments are unsent. The paper gives no explicit rule.

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

/// Returns true if the rest of the document takes at most one round trip more with linear than with exponential growth.
pub fn one_more_round(window: u64, left: u64) -> bool {
    left > 0
        && rounds(left, window, |window| window + 1)
            <= 1 + rounds(left, window, |window| window.saturating_mul(2))
}

/// Returns the number of round trips that `left` segments take if `grow` gives each congestion window from the previous one, beginning with
/// the successor of `window`.
fn rounds(mut left: u64, mut window: u64, grow: impl Fn(u64) -> u64) -> u32 {
    let mut rounds = 0;
    while left > 0 {
        window = grow(window);
        left = left.saturating_sub(window);
        rounds += 1;
    }
    rounds
}
