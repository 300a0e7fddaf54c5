//! Early congestion avoidance (CATNIP paper, section III-B): linear instead of exponential growth of the congestion window near the end of
//! a document. The paper gives no explicit rule, so this module has three: each returns true if a congestion window of `window` segments
//! grows linearly while `remaining` segments are unsent.

/// Smallest congestion window with which a loss can trigger a fast retransmit, segments.
const MIN_FAST_RETRANSMIT_WINDOW: u64 = 4;

/// Returns true if the unsent data is at most two congestion windows.
#[inline]
pub fn last_round(window: u64, remaining: u64) -> bool {
    remaining <= window.saturating_mul(2)
}

/// Returns true if the unsent data fits into the congestion window of the next round trip, which is twice as large.
#[inline]
pub fn final_window(window: u64, remaining: u64) -> bool {
    window >= MIN_FAST_RETRANSMIT_WINDOW && remaining > 0 && last_round(window, remaining)
}

/// Returns true if linear growth takes at most one round trip more than exponential growth to send the rest of the document.
pub fn one_more_round(window: u64, remaining: u64) -> bool {
    remaining > 0
        && rounds(remaining, window, |window| window + 1)
            <= 1 + rounds(remaining, window, |window| window.saturating_mul(2))
}

/// Returns the number of round trips that `remaining` segments take if `grow` computes each congestion window from the previous one. The
/// first of these round trips has the window `grow(window)`.
fn rounds(mut remaining: u64, mut window: u64, grow: impl Fn(u64) -> u64) -> u32 {
    let mut rounds = 0;
    while remaining > 0 {
        window = grow(window);
        remaining = remaining.saturating_sub(window);
        rounds += 1;
    }
    rounds
}
