/* Congestion controllers. They increase and halve the window like Reno, with these differences:
 *
 *	catnip_newcwv    an unused window is kept for five minutes and does not grow (RFC 7661)
 *	catnip_newcwv_p  like catnip_newcwv, and windows are paced over a round trip
 *	catnip_eca       slow start ends before the burst that would end a document
 *	catnip_rbplw     the last window of a document is paced over a round trip
 *	catnip_eca_p     both catnip_eca and catnip_rbplw
 *
 * The kernel performs the tasks that it performs for every controller with cong_avoid: proportional rate reduction, the pacing rate, and
 * the undo of spurious recoveries. Differences from the controllers of simulated hosts:
 *
 *	1. Windows are whole segments.
 *	2. A retransmission timeout halves the flight size, and cwnd restarts from the packets that remain in flight (tcp_enter_loss).
 *	3. During a recovery, the kernel sends in proportion to the previous window, even if that window was not used (tcp_cwnd_reduction).
 *	4. Pacing starts with the eleventh segment of a connection (tcp_update_skb_after_send).
 *	5. A segment that is retransmitted twice in a recovery counts twice in the amount of retransmitted data.
 *
 * No controller defines min_tso_segs: Linux 6.18 skips calls of this function for milliseconds at a time and uses an arbitrary result
 * instead, so that a paced connection sends 30 segments at once. The setting net.ipv4.tcp_min_tso_segs also makes segments leave one by
 * one. */
#pragma once
#include "document.h"
#include "law/eca.h"
#include "law/last_window.h"
#include "law/newcwv.h"
#include "windows.h"

extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) __ksym;

enum features {
	NEWCWV = 1,
	PACED = 2, /* windows are paced over a round trip */
	ECA = 4,
	RBPLW = 8,
};

struct control {
	struct newcwv newcwv;
	u64 retransmitted; /* bytes_retrans when the recovery began */
	u64 document;      /* start of the document whose last window is paced */
	u32 features;
	u32 round_end; /* sequence number whose ACK ends the round */
	u32 saved_cwnd, saved_ssthresh; /* values before the kernel reduced an idle window; 0: no reduction */
	u32 max_rate;  /* SO_MAX_PACING_RATE, bytes per second; U32_MAX: none */
	u32 reported;  /* number of reported events */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, s32);
	__type(value, struct control);
} controls SEC(".maps");

static inline u64 mss_of(const struct tcp_sock *tp)
{
	return tp->mss_cache ? tp->mss_cache : 1;
}

static inline u64 srtt_ns(const struct tcp_sock *tp)
{
	return (u64)(tp->srtt_us >> 3) * 1000;
}

static inline struct windows windows_of(const struct tcp_sock *tp)
{
	u64 mss = mss_of(tp);
	return (struct windows){
		.cwnd = tp->snd_cwnd * mss,
		.ssthresh = tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH ? UNDEFINED : tp->snd_ssthresh * mss,
	};
}

static inline u32 segments_of(u64 bytes, u64 mss)
{
	u64 segments = bytes / mss;
	return segments < 1 ? 1 : segments >= TCP_INFINITE_SSTHRESH ? TCP_INFINITE_SSTHRESH : segments;
}

static inline void apply_windows(struct tcp_sock *tp, const struct windows *before, const struct windows *after)
{
	if (after->cwnd != before->cwnd)
		tp->snd_cwnd = segments_of(after->cwnd, mss_of(tp));
	if (after->ssthresh != before->ssthresh)
		tp->snd_ssthresh = segments_of(after->ssthresh, mss_of(tp));
}

static inline void report_windows(struct sock *sk, struct control *control, u64 now, u32 kind)
{
	struct windows windows = windows_of((struct tcp_sock *)sk);
	report(sk, &windows, &control->newcwv, now, &control->reported, kind);
}

/* Limits the pacing rate, bytes per second. The kernel uses the lower of this limit and its own rate. */
static inline void pace(struct sock *sk, struct control *control, u64 rate)
{
	u32 max_rate = rate >= U32_MAX ? U32_MAX : rate < 1 ? 1 : rate;
	if (max_rate == control->max_rate)
		return;
	control->max_rate = max_rate;
	bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &max_rate, sizeof(max_rate));
}

/* Paces the window, or the outstanding packets if these are more, over a round trip. */
static inline void pace_window(struct sock *sk, const struct tcp_sock *tp, struct control *control)
{
	u64 srtt = srtt_ns(tp);
	u32 segments = tp->snd_cwnd > tp->packets_out ? tp->snd_cwnd : tp->packets_out;
	if (srtt > 0)
		pace(sk, control, segments * mss_of(tp) * 1000000000ULL / srtt);
}

/* Number of unsent segments of the document; U64_MAX if the end of the document is unknown. */
static inline u64 unsent_segments(struct sock *sk, const struct tcp_sock *tp, struct flow **at)
{
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	*at = flow;
	if (!flow)
		return U64_MAX;
	u64 next = STREAM_OFFSET(tp, tp->snd_nxt);
	/* If no device has the marker, no other program starts announced documents. */
	if (flow->announces)
		begin_announced(flow, next, tp->rcv_nxt);
	if (flow->end == SPM_UNKNOWN || next < flow->begin)
		return U64_MAX;
	return (less_u64(flow->end, next) + mss_of(tp) - 1) / mss_of(tp);
}

/* Starts a round at the first ACK of data that was sent after the start of the previous round. Paces the round if it can be the last round
 * of the document. */
static inline void begin_round(struct sock *sk, const struct tcp_sock *tp, struct control *control, bool is_linear)
{
	struct flow *flow;
	u64 unsent = unsent_segments(sk, tp, &flow);
	if (!flow || unsent == U64_MAX) {
		pace(sk, control, U32_MAX);
		return;
	}
	if (control->max_rate != U32_MAX && control->document != flow->begin)
		pace(sk, control, U32_MAX);
	if ((s32)(tp->snd_una - control->round_end) < 0)
		return;
	control->round_end = tp->snd_nxt;
	u64 receive_window = tp->snd_wnd / mss_of(tp);
	u64 next = tp->snd_cwnd < tp->snd_ssthresh && !is_linear ? 2 * (u64)tp->snd_cwnd : tp->snd_cwnd;
	u64 gap = last_window_gap_ns(unsent, min_u64(next, receive_window), srtt_ns(tp));
	/* The first round that can be the last round determines the pacing rate. */
	if (gap == 0 || control->max_rate != U32_MAX)
		return;
	control->document = flow->begin;
	pace(sk, control, mss_of(tp) * 1000000000ULL / gap);
}

/* Reduces an unused window once for each period of five minutes, and for at most 16 periods per call. */
static inline void reduce_unused_window(struct tcp_sock *tp, struct control *control, u64 now)
{
	for (int i = 0; i < 16; i++) {
		struct windows before = windows_of(tp), after = before;
		if (!newcwv_check_nvp(&control->newcwv, now, &after))
			break;
		apply_windows(tp, &before, &after);
	}
}

static inline bool is_window_limited(const struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static inline void grow(struct tcp_sock *tp, u32 acked, bool is_linear)
{
	if (tp->snd_cwnd < tp->snd_ssthresh && !is_linear) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

static inline void init(struct sock *sk, u32 features)
{
	struct tcp_sock *tp = (void *)sk;
	struct control *control = bpf_sk_storage_get(&controls, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!control)
		return;
	newcwv_init(&control->newcwv, false, tp->snd_cwnd * mss_of(tp), mss_of(tp));
	control->newcwv.valid_at = bpf_ktime_get_ns();
	control->features = features;
	control->round_end = tp->snd_nxt;
	control->saved_cwnd = 0;
	control->max_rate = U32_MAX;
	control->reported = 0;
}

SEC("struct_ops")
void BPF_PROG(init_newcwv, struct sock *sk)
{
	init(sk, NEWCWV);
}

SEC("struct_ops")
void BPF_PROG(init_newcwv_p, struct sock *sk)
{
	init(sk, NEWCWV | PACED);
}

SEC("struct_ops")
void BPF_PROG(init_eca, struct sock *sk)
{
	init(sk, ECA);
}

SEC("struct_ops")
void BPF_PROG(init_rbplw, struct sock *sk)
{
	init(sk, RBPLW);
}

SEC("struct_ops")
void BPF_PROG(init_eca_p, struct sock *sk)
{
	init(sk, ECA | RBPLW);
}

SEC("struct_ops")
void BPF_PROG(cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = (void *)sk;
	struct control *control = bpf_sk_storage_get(&controls, sk, 0, 0);
	bool is_limited = is_window_limited(tp), is_linear = false;
	if (control && control->features & NEWCWV) {
		u64 now = bpf_ktime_get_ns(), next = STREAM_OFFSET(tp, tp->snd_nxt);
		pipe_ack_on_ack(&control->newcwv.pipe_ack, now, tp->bytes_acked, acked * mss_of(tp), next, srtt_ns(tp));
		reduce_unused_window(tp, control, now);
		if (newcwv_grows(&control->newcwv, tp->snd_cwnd * mss_of(tp), is_limited))
			grow(tp, acked, false);
		if (control->features & PACED)
			pace_window(sk, tp, control);
		report_windows(sk, control, now, EVENT_ACK);
		return;
	}
	if (control && control->features & ECA) {
		struct flow *flow;
		u64 unsent = unsent_segments(sk, tp, &flow);
		is_linear = unsent != U64_MAX && eca_last_round(tp->snd_cwnd, unsent);
	}
	if (control && control->features & RBPLW)
		begin_round(sk, tp, control, is_linear);
	if (is_limited)
		grow(tp, acked, is_linear);
}

/* Called for every ACK, before cong_avoid. */
SEC("struct_ops")
void BPF_PROG(pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = (void *)sk;
	struct control *control = bpf_sk_storage_get(&controls, sk, 0, 0);
	u8 state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	if (control && control->features & NEWCWV && (state == TCP_CA_CWR || state == TCP_CA_Recovery))
		newcwv_on_ack_while_reduced(&control->newcwv, tp->bytes_acked);
}

/* RFC 5681, equation 4: "ssthresh = max (FlightSize / 2, 2*SMSS)". */
static inline u32 half_of_flight(const struct tcp_sock *tp)
{
	return tp->packets_out / 2 > 2 ? tp->packets_out / 2 : 2;
}

SEC("struct_ops")
u32 BPF_PROG(ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (void *)sk;
	struct control *control = bpf_sk_storage_get(&controls, sk, 0, 0);
	if (!control || !(control->features & NEWCWV))
		return tp->snd_cwnd / 2 > 2 ? tp->snd_cwnd / 2 : 2;
	u64 mss = mss_of(tp);
	report_windows(sk, control, bpf_ktime_get_ns(), EVENT_CONGESTION);
	u64 window = newcwv_on_congestion(&control->newcwv, tp->snd_cwnd * mss, tp->packets_out * mss);
	control->retransmitted = tp->bytes_retrans;
	return window == UNDEFINED ? half_of_flight(tp) : segments_of(window, mss);
}

SEC("struct_ops")
void BPF_PROG(cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = (void *)sk;
	struct control *control = bpf_sk_storage_get(&controls, sk, 0, 0);
	if (!control || !(control->features & NEWCWV))
		return;
	u64 now = bpf_ktime_get_ns();
	switch (event) {
	case CA_EVENT_CWND_RESTART:
		/* The kernel reduces the window after this event, and sends TX_START with the next transmitted packet. */
		control->saved_cwnd = tp->snd_cwnd;
		control->saved_ssthresh = tp->snd_ssthresh;
		break;
	case CA_EVENT_TX_START: {
		if (control->saved_cwnd > tp->snd_cwnd) {
			tp->snd_cwnd = control->saved_cwnd;
			tp->snd_ssthresh = control->saved_ssthresh;
		}
		control->saved_cwnd = 0;
		reduce_unused_window(tp, control, now);
		if (control->features & PACED)
			pace_window(sk, tp, control);
		report_windows(sk, control, now, EVENT_START);
		break;
	}
	case CA_EVENT_LOSS:
		/* The retransmission timer has expired. ssthresh() does not receive this information. */
		newcwv_reset(&control->newcwv, now);
		tp->snd_ssthresh = half_of_flight(tp);
		report_windows(sk, control, now, EVENT_TIMEOUT);
		break;
	case CA_EVENT_COMPLETE_CWR: {
		u64 window = newcwv_on_recovered(&control->newcwv, now, tp->bytes_retrans - control->retransmitted);
		if (window != UNDEFINED) {
			tp->snd_cwnd = segments_of(window, mss_of(tp));
			tp->snd_ssthresh = tp->snd_cwnd;
		}
		report_windows(sk, control, now, EVENT_RECOVERED);
		break;
	}
	}
}

SEC("struct_ops")
u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (void *)sk;
	struct control *control = bpf_sk_storage_get(&controls, sk, 0, 0);
	if (control)
		control->newcwv.lost_unvalidated = UNDEFINED;
	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

#define CONTROLLER(which, called)                                                                                                  \
	SEC(".struct_ops.link")                                                                                                    \
	struct tcp_congestion_ops which = {                                                                                        \
		.init = (void *)init_##which,                                                                                      \
		.cong_avoid = (void *)cong_avoid,                                                                                  \
		.pkts_acked = (void *)pkts_acked,                                                                                  \
		.ssthresh = (void *)ssthresh,                                                                                      \
		.cwnd_event = (void *)cwnd_event,                                                                                  \
		.undo_cwnd = (void *)undo_cwnd,                                                                                    \
		.name = called,                                                                                                    \
		.flags = TCP_CONG_NON_RESTRICTED,                                                                                  \
	}

CONTROLLER(newcwv, "catnip_newcwv");
CONTROLLER(newcwv_p, "catnip_newcwv_p");
CONTROLLER(eca, "catnip_eca");
CONTROLLER(rbplw, "catnip_rbplw");
CONTROLLER(eca_p, "catnip_eca_p");
