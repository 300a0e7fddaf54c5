/* Types of the laws. Laws use only numbers and call no other functions, so that they can be compiled both for the kernel and for a test
 * that compares them with their twins in crates/law. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;
#define true 1
#define false 0

#define LAW static inline __attribute__((always_inline, unused))
#define U32_MAX (~0U)
#define U64_MAX (~0ULL)

LAW u64 min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

LAW u64 max_u64(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* a - b, or 0 if b is larger. */
LAW u64 less_u64(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}
