/* Selective packet marking (CATNIP paper, section III-B). Twin: crates/law/src/spm.rs. */
#pragma once
#include "types.h"

struct spm_rules {
	u32 leading, trailing; /* packets of a document */
	u32 small_window;      /* segments */
};

struct spm_position {
	u64 offset; /* offset of the packet's data in its document */
	u64 bytes;  /* length of the document, or SPM_UNKNOWN */
	u64 window; /* cwnd, bytes */
};

#define SPM_UNKNOWN U64_MAX

enum spm_reason { SPM_NONE = 0, SPM_LEADING = 1, SPM_TRAILING = 2, SPM_SMALL_WINDOW = 3 };

LAW enum spm_reason spm_reason(const struct spm_rules *rules, const struct spm_position *position, u32 segment)
{
	if (position->offset < (u64)rules->leading * segment)
		return SPM_LEADING;
	u64 remaining = less_u64(position->bytes, position->offset);
	if (rules->trailing > 0 && position->bytes != SPM_UNKNOWN && remaining <= (u64)rules->trailing * segment)
		return SPM_TRAILING;
	return position->window < (u64)rules->small_window * segment ? SPM_SMALL_WINDOW : SPM_NONE;
}
