/* New congestion window validation (RFC 7661). Twin: crates/law/src/newcwv.rs, which quotes the RFC for each rule. */
#pragma once
#include "types.h"

#define PIPE_ACK_PERIODS 5
#define PIPE_ACK_MIN_PERIOD 1000000000ULL
#define NON_VALIDATED_PERIOD 300000000000ULL
#define UNDEFINED U64_MAX

struct pipe_ack {
	u64 period;
	u64 sampled_at[PIPE_ACK_PERIODS];
	u64 max_sample[PIPE_ACK_PERIODS];
	u64 newest_began;
	u64 round_from, round_until;
	u64 una;
	u32 last_only, is_defined;
};

LAW void pipe_ack_init(struct pipe_ack *it, bool last_only)
{
	it->period = PIPE_ACK_MIN_PERIOD;
	for (int i = 0; i < PIPE_ACK_PERIODS; i++) {
		it->sampled_at[i] = 0;
		it->max_sample[i] = UNDEFINED;
	}
	it->newest_began = 0;
	it->round_from = 0;
	it->round_until = 0;
	it->una = 0;
	it->last_only = last_only;
	it->is_defined = 0;
}

LAW void pipe_ack_reset(struct pipe_ack *it)
{
	u64 period = it->period, una = it->una;
	pipe_ack_init(it, it->last_only);
	it->period = period;
	it->una = una;
}

LAW void pipe_ack_add(struct pipe_ack *it, u64 now, u64 bytes)
{
	const int newest = PIPE_ACK_PERIODS - 1;
	it->is_defined = 1;
	if (it->last_only) {
		for (int i = 0; i < PIPE_ACK_PERIODS; i++)
			it->max_sample[i] = UNDEFINED;
	} else if (less_u64(now, it->newest_began) >= it->period / PIPE_ACK_PERIODS) {
		for (int i = 1; i < PIPE_ACK_PERIODS; i++) {
			it->sampled_at[i - 1] = it->sampled_at[i];
			it->max_sample[i - 1] = it->max_sample[i];
		}
		it->max_sample[newest] = UNDEFINED;
		it->newest_began = now;
	}
	if (it->max_sample[newest] == UNDEFINED || it->max_sample[newest] <= bytes) {
		it->sampled_at[newest] = now;
		it->max_sample[newest] = bytes;
	}
}

LAW void pipe_ack_on_ack(struct pipe_ack *it, u64 now, u64 una, u64 acked, u64 next, u64 srtt)
{
	if (srtt > 0)
		it->period = max_u64(3 * srtt, PIPE_ACK_MIN_PERIOD);
	u64 before = max_u64(it->una, less_u64(una, acked));
	it->una = una;
	if (it->round_from >= it->round_until) {
		it->round_from = before;
		it->round_until = next;
	}
	if (una >= it->round_until) {
		pipe_ack_add(it, now, less_u64(una, it->round_from));
		it->round_from = una;
		it->round_until = next;
	}
}

LAW u64 pipe_ack_at(const struct pipe_ack *it, u64 now)
{
	u64 max = 0;
	if (!it->is_defined)
		return UNDEFINED;
	for (int i = 0; i < PIPE_ACK_PERIODS; i++) {
		bool is_young = less_u64(now, it->sampled_at[i]) <= it->period;
		if (it->max_sample[i] != UNDEFINED && is_young && it->max_sample[i] > max)
			max = it->max_sample[i];
	}
	return max;
}

struct windows {
	u64 cwnd, ssthresh; /* bytes; UNDEFINED: infinite */
};

struct newcwv {
	struct pipe_ack pipe_ack;
	u64 valid_at;
	u64 measured;
	u64 lost_unvalidated;
	u64 initial_window, segment;
};

LAW void newcwv_init(struct newcwv *it, bool last_only, u64 initial_window, u64 segment)
{
	pipe_ack_init(&it->pipe_ack, last_only);
	it->valid_at = 0;
	it->measured = UNDEFINED;
	it->lost_unvalidated = UNDEFINED;
	it->initial_window = initial_window;
	it->segment = segment;
}

LAW bool newcwv_is_validated(const struct newcwv *it, u64 cwnd)
{
	return it->measured == UNDEFINED || it->measured >= U64_MAX / 2 || 2 * it->measured >= cwnd;
}

LAW void newcwv_reset(struct newcwv *it, u64 now)
{
	pipe_ack_reset(&it->pipe_ack);
	it->measured = UNDEFINED;
	it->lost_unvalidated = UNDEFINED;
	it->valid_at = now;
}

/* Reduces a window that was not validated for a period. True if the window was reduced; the caller then repeats the call. */
LAW bool newcwv_check_nvp(struct newcwv *it, u64 now, struct windows *windows)
{
	u64 cwnd = windows->cwnd;
	it->measured = pipe_ack_at(&it->pipe_ack, now);
	if (newcwv_is_validated(it, cwnd))
		it->valid_at = now;
	if (less_u64(now, it->valid_at) <= NON_VALIDATED_PERIOD)
		return false;
	it->valid_at += NON_VALIDATED_PERIOD;
	windows->ssthresh = max_u64(windows->ssthresh, cwnd / 4 * 3 + cwnd % 4 * 3 / 4);
	windows->cwnd = min_u64(max_u64(cwnd / 2, it->initial_window), cwnd);
	return true;
}

LAW void newcwv_on_ack_while_reduced(struct newcwv *it, u64 una)
{
	it->pipe_ack.una = una;
}

LAW bool newcwv_grows(const struct newcwv *it, u64 cwnd, bool cwnd_limited)
{
	return newcwv_is_validated(it, cwnd) || cwnd_limited;
}

/* Window during the recovery; UNDEFINED: window of standard TCP. */
LAW u64 newcwv_on_congestion(struct newcwv *it, u64 cwnd, u64 in_flight)
{
	it->lost_unvalidated = UNDEFINED;
	if (newcwv_is_validated(it, cwnd))
		return UNDEFINED;
	u64 used = max_u64(it->measured, in_flight);
	it->lost_unvalidated = used;
	return max_u64(used / 2, it->segment);
}

/* Window, also used as ssthresh, after the recovery; UNDEFINED: window and ssthresh of standard TCP. */
LAW u64 newcwv_on_recovered(struct newcwv *it, u64 now, u64 retransmitted)
{
	u64 used = it->lost_unvalidated;
	newcwv_reset(it, now);
	return used == UNDEFINED ? UNDEFINED : max_u64(less_u64(used, retransmitted) / 2, it->segment);
}
