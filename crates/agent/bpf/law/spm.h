/* Selective packet marking (CATNIP paper, section III-B). Twin: crates/law/src/spm.rs. */
#pragma once
#include "types.h"

struct spm_rules {
	u32 leading, trailing; /* packets of a document */
	u32 small_window;      /* segments */
};

struct spm_place {
	u64 offset; /* offset of the packet's data in its document */
	u64 bytes;  /* length of the document, or SPM_UNKNOWN */
	u64 window; /* cwnd, bytes */
};

#define SPM_UNKNOWN U64_MAX

enum spm_reason { SPM_NONE = 0, SPM_LEADING = 1, SPM_TRAILING = 2, SPM_SMALL_WINDOW = 3 };

LAW enum spm_reason spm_reason(const struct spm_rules *rules, const struct spm_place *place, u32 segment)
{
	if (place->offset < (u64)rules->leading * segment)
		return SPM_LEADING;
	u64 left = less_u64(place->bytes, place->offset);
	if (rules->trailing > 0 && place->bytes != SPM_UNKNOWN && left <= (u64)rules->trailing * segment)
		return SPM_TRAILING;
	return place->window < (u64)rules->small_window * segment ? SPM_SMALL_WINDOW : SPM_NONE;
}
