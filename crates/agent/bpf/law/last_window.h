/* Rate-based pacing of the last window (CATNIP paper, section III-B). Twin: crates/law/src/last_window.rs. */
#pragma once
#include "types.h"

/* Gap between segments, nanoseconds, if the round that begins can be the last round of the document; otherwise 0. */
LAW u64 last_window_gap_ns(u64 unsent_segments, u64 next_window_segments, u64 srtt_ns)
{
	if (unsent_segments <= 1 || unsent_segments > next_window_segments)
		return 0;
	return srtt_ns / unsent_segments;
}
