/* Marking by the state of TCP (Noureddine and Tobagi 2002, Algorithm 1). Twin: crates/law/src/tcp_state.rs. */
#pragma once
#include "types.h"

struct thresholds {
	u32 high, med; /* the largest windows that they protect, segments */
};

enum level { HIGH = 0, MED = 1, LOW = 2 };

/* What the plain version draws: no share is ever kept. */
#define DRAW_NEVER U32_MAX

LAW bool threshold_keeps(u32 threshold, u32 window, u32 draw)
{
	return (u64)draw * window < (u64)threshold << 32;
}

/* The second draw counts where the first one has not kept the window's share. */
LAW enum level tcp_state_level(const struct thresholds *thresholds, u32 window, bool is_protected, u32 first, u32 second)
{
	if (window <= thresholds->high || is_protected || threshold_keeps(thresholds->high, window, first))
		return HIGH;
	return window <= thresholds->med || threshold_keeps(thresholds->med, window, second) ? MED : LOW;
}
