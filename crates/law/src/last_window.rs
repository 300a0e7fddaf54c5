//! Rate-based pacing of the last window (CATNIP paper, section III-B). The paper spreads the last few packets "over a short interval",
//! which is one SRTT here.

/// Returns the gap between segments if the next round trip can be the last one of the document, and 0 otherwise. The decision depends on
/// the whole congestion window, because a single ACK permits only one or two packets.
#[inline]
pub fn gap_ns(unsent_segments: u64, next_window_segments: u64, srtt_ns: u64) -> u64 {
    let is_last = 1 < unsent_segments && unsent_segments <= next_window_segments;
    if is_last { srtt_ns / unsent_segments } else { 0 }
}
