/* Early congestion avoidance (CATNIP paper, section III-B), in whole segments. Twin: crates/law/src/eca.rs, whose third rule needs a loop
 * without a bound and stays there. */
#pragma once
#include "types.h"

/* At most two windows are unsent. */
LAW bool eca_last_round(u64 window, u64 left)
{
	return left <= (window > U64_MAX / 2 ? U64_MAX : 2 * window);
}

/* The next doubled window would finish the document; a smaller window cannot trigger a fast retransmit. */
LAW bool eca_final_window(u64 window, u64 left)
{
	return window >= 4 && left > 0 && eca_last_round(window, left);
}
