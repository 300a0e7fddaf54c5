/* A token bucket, in billionths of a bit. Twin: crates/law/src/bucket.rs. */
#pragma once
#include "types.h"

#define BUCKET_BYTE 8000000000ULL
#define BUCKET_DEEPEST (U64_MAX / BUCKET_BYTE)

struct bucket {
	u64 rate; /* bits per second, above zero */
	u64 depth, tokens;
	u64 since;
};

/* Full at time zero; holds so many bytes. */
LAW void bucket_init(struct bucket *bucket, u64 rate, u64 depth)
{
	bucket->rate = rate;
	bucket->depth = min_u64(depth, BUCKET_DEEPEST) * BUCKET_BYTE;
	bucket->tokens = bucket->depth;
	bucket->since = 0;
}

LAW u64 bucket_cost(u32 len)
{
	return len > BUCKET_DEEPEST ? U64_MAX : len * BUCKET_BYTE;
}

LAW u64 bucket_level(const struct bucket *bucket, u64 now)
{
	u64 elapsed = less_u64(now, bucket->since), missing = bucket->depth - bucket->tokens;
	/* What comes in so many nanoseconds is no more than what is missing, so that nothing overflows. */
	return elapsed > missing / bucket->rate ? bucket->depth : bucket->tokens + elapsed * bucket->rate;
}

/* A packet of so many bytes takes its tokens, if they are there. */
LAW bool bucket_admits(struct bucket *bucket, u64 now, u32 len)
{
	u64 level = bucket_level(bucket, now), cost = bucket_cost(len);
	if (level < cost)
		return false;
	bucket->tokens = level - cost;
	bucket->since = max_u64(bucket->since, now);
	return true;
}
