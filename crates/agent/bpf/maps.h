/* Maps with the state of the programs. The size of a map is bounded by the number of sockets, or by a limit below. */
#pragma once
#include "shared.h"

#define USERS 16384

const volatile struct config config;

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, s32);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS *LEVELS);
	__type(key, u32);
	__type(value, struct counter);
} counters SEC(".maps");

/* Token buckets of a user on a device, with a lock against concurrent access by other processors. */
struct locked_user {
	struct bpf_spin_lock lock;
	struct user user;
};

/* Token bucket of all SYN-ACKs. A stranger can cause any number of them, and no user's tokens are to pay for them. */
struct locked_bucket {
	struct bpf_spin_lock lock;
	u32 is_set;
	struct bucket bucket;
};

/* User and device, whose token buckets are one pair: what a user earns on one network is worth nothing on another. */
struct user_key {
	u32 uid, device;
};

/* Interface indices of the devices whose packets are marked. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} marked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct locked_bucket);
} strangers SEC(".maps");

/* The agent removes users whose buckets are full again. Users beyond this limit have no tokens until then, so their packets are LOW. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, USERS);
	__type(key, struct user_key);
	__type(value, struct locked_user);
} users SEC(".maps");
