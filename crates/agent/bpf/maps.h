/* Where state is kept, all of it bounded: by the sockets that there are, or by what is said here. */
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

/* A user's buckets, and what keeps two processors from taking the same tokens. */
struct locked_user {
	struct bpf_spin_lock lock;
	struct user user;
};

/* Who is one more than that has no rights. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, USERS);
	__type(key, u32);
	__type(value, struct locked_user);
} users SEC(".maps");
