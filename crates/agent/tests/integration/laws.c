/* Wrappers of the laws of the kernel programs, called by laws.rs. */
#include "bucket.h"
#include "eca.h"
#include "http.h"
#include "last_window.h"
#include "newcwv.h"
#include "spm.h"
#include "tcp_state.h"

u32 c_spm_reason(const struct spm_rules *rules, const struct spm_position *position, u32 segment)
{
	return spm_reason(rules, position, segment);
}

u32 c_tcp_state_level(const struct thresholds *thresholds, u32 window, bool is_protected, u32 first, u32 second)
{
	return tcp_state_level(thresholds, window, is_protected, first, second);
}

void c_bucket_init(struct bucket *bucket, u64 rate, u64 depth)
{
	bucket_init(bucket, rate, depth);
}

bool c_bucket_admits(struct bucket *bucket, u64 now, u32 len)
{
	return bucket_admits(bucket, now, len);
}

void c_bucket_earn(struct bucket *bucket, u32 len, u32 share_pct)
{
	bucket_earn(bucket, len, share_pct);
}

bool c_eca_last_round(u64 window, u64 remaining)
{
	return eca_last_round(window, remaining);
}

bool c_eca_final_window(u64 window, u64 remaining)
{
	return eca_final_window(window, remaining);
}

u64 c_last_window_gap_ns(u64 unsent, u64 next, u64 srtt_ns)
{
	return last_window_gap_ns(unsent, next, srtt_ns);
}

void c_newcwv_init(struct newcwv *it, bool last_only, u64 initial_window, u64 segment)
{
	newcwv_init(it, last_only, initial_window, segment);
}

void c_newcwv_on_ack(struct newcwv *it, u64 now, u64 una, u64 acked, u64 next, u64 srtt)
{
	pipe_ack_on_ack(&it->pipe_ack, now, una, acked, next, srtt);
}

void c_newcwv_on_ack_while_reduced(struct newcwv *it, u64 una)
{
	newcwv_on_ack_while_reduced(it, una);
}

bool c_newcwv_check_nvp(struct newcwv *it, u64 now, struct windows *windows)
{
	return newcwv_check_nvp(it, now, windows);
}

bool c_newcwv_grows(const struct newcwv *it, u64 cwnd, bool cwnd_limited)
{
	return newcwv_grows(it, cwnd, cwnd_limited);
}

u64 c_newcwv_on_congestion(struct newcwv *it, u64 cwnd, u64 in_flight)
{
	return newcwv_on_congestion(it, cwnd, in_flight);
}

void c_newcwv_on_timeout(struct newcwv *it, u64 now)
{
	newcwv_reset(it, now);
}

u64 c_newcwv_on_recovered(struct newcwv *it, u64 now, u64 retransmitted)
{
	return newcwv_on_recovered(it, now, retransmitted);
}

/* Reads a header from its beginning, in pieces of at most `piece` bytes. Returns the length of the header, or 0 if the header continues
 * beyond the bytes. Stores the length of the body in *body. */
u64 c_http(const u8 *bytes, u64 len, u64 piece, u64 *body)
{
	struct http_head head;
	http_init(&head);
	bool is_over = false;
	for (u64 begin = 0; begin < len && !is_over; begin += piece) {
		u8 here[256 + HTTP_AHEAD];
		u64 until = len - begin < piece ? len - begin : piece;
		for (u64 i = 0; i < sizeof(here); i++)
			/* What a shorter piece leaves of a longer one. */
			here[i] = i < until ? bytes[begin + i] : '\n';
		for (u64 i = 0; i < until && !is_over;) {
			i += http_step(&head, here + i, until - i, &is_over, body);
			if (is_over)
				return begin + i;
		}
	}
	return 0;
}
