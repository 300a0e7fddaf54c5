/* Early congestion avoidance (CATNIP paper, section III-B), in whole segments. Twin: crates/law/src/eca.rs. Its third rule is omitted
 * here, because it needs an unbounded loop. */
#pragma once
#include "types.h"

/* True if at most two windows are unsent. */
LAW bool eca_last_round(u64 window, u64 remaining)
{
	return remaining <= (window > U64_MAX / 2 ? U64_MAX : 2 * window);
}

/* True if the next doubled window would finish the document. Windows below 4 cannot trigger a fast retransmit. */
LAW bool eca_final_window(u64 window, u64 remaining)
{
	return window >= 4 && remaining > 0 && eca_last_round(window, remaining);
}
