/* Token bucket, in billionths of a bit. Twin: crates/law/src/bucket.rs. */
#pragma once
#include "types.h"

#define BUCKET_BYTE 8000000000ULL
#define BUCKET_PERCENT (BUCKET_BYTE / 100)
#define BUCKET_MAX_DEPTH (U64_MAX / BUCKET_BYTE)

struct bucket {
	u64 rate; /* bits per second, above zero */
	u64 depth, tokens;
	u64 since;
};

/* Initializes a bucket of this depth, bytes, which is full at time zero. */
LAW void bucket_init(struct bucket *bucket, u64 rate, u64 depth)
{
	bucket->rate = rate;
	bucket->depth = min_u64(depth, BUCKET_MAX_DEPTH) * BUCKET_BYTE;
	bucket->tokens = bucket->depth;
	bucket->since = 0;
}

LAW u64 bucket_cost(u32 len)
{
	return len > BUCKET_MAX_DEPTH ? U64_MAX : len * BUCKET_BYTE;
}

LAW u64 bucket_level(const struct bucket *bucket, u64 now)
{
	u64 elapsed = less_u64(now, bucket->since), missing = bucket->depth - bucket->tokens;
	/* The new tokens are at most the missing ones, so the product does not overflow. */
	return elapsed > missing / bucket->rate ? bucket->depth : bucket->tokens + elapsed * bucket->rate;
}

/* Adds tokens for a share of a packet of `len` bytes, percent. */
LAW void bucket_earn(struct bucket *bucket, u32 len, u32 share_pct)
{
	u64 bytes = (u64)len * share_pct, missing = bucket->depth - bucket->tokens;
	/* What is earned is at most what is missing, so the product does not overflow. */
	bucket->tokens = bytes > missing / BUCKET_PERCENT ? bucket->depth : bucket->tokens + bytes * BUCKET_PERCENT;
}

/* Takes the tokens of a packet of `len` bytes if the bucket has enough tokens. True if it has. */
LAW bool bucket_admits(struct bucket *bucket, u64 now, u32 len)
{
	u64 level = bucket_level(bucket, now), cost = bucket_cost(len);
	if (level < cost)
		return false;
	bucket->tokens = level - cost;
	bucket->since = max_u64(bucket->since, now);
	return true;
}
