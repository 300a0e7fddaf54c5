/* Marking by the state of TCP (Noureddine and Tobagi 2002, Algorithm 1). Twin: crates/law/src/tcp_state.rs. */
#pragma once
#include "types.h"

struct thresholds {
	u32 high, med; /* largest windows at which packets are HIGH, and at least MED, segments */
};

enum level { HIGH = 0, MED = 1, LOW = 2 };

/* Draw of the deterministic version, with which no packet above a threshold is protected at random. */
#define DRAW_NEVER U32_MAX

LAW bool threshold_protects(u32 threshold, u32 window, u32 draw)
{
	return (u64)draw * window < (u64)threshold << 32;
}

/* Level of a packet. The second draw counts if the first draw does not make the packet HIGH. */
LAW enum level tcp_state_level(const struct thresholds *thresholds, u32 window, bool is_protected, u32 first, u32 second)
{
	if (window <= thresholds->high || is_protected || threshold_protects(thresholds->high, window, first))
		return HIGH;
	return window <= thresholds->med || threshold_protects(thresholds->med, window, second) ? MED : LOW;
}
