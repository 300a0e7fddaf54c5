/* Windows of newCWV senders at each event, for a table of the agent (CWV-S13). */
#pragma once
#include "maps.h"

/* Created only if windows are reported. A reader that is a megabyte behind misses events, which are numbered for each connection. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} window_events SEC(".maps");

/* Reports the windows of a connection at an event. Connections of other network namespaces are left out. */
static inline void report(struct sock *sk, const struct windows *windows, struct newcwv *newcwv, u64 now, u32 *number, u32 kind)
{
	if (!config.reports_windows || sk->__sk_common.skc_net.net->net_cookie != config.network)
		return;
	struct window_event event = {
		.time = bpf_ktime_get_tai_ns(),
		.cwnd = windows->cwnd,
		.ssthresh = windows->ssthresh,
		.pipe_ack = pipe_ack_at(&newcwv->pipe_ack, now),
		.number = (*number)++,
		.kind = kind,
		.is_validated = newcwv_is_validated(newcwv, windows->cwnd),
		.local_port = sk->__sk_common.skc_num,
		.remote_port = bpf_ntohs(sk->__sk_common.skc_dport),
		.family = sk->__sk_common.skc_family,
	};
	if (event.family == AF_INET6)
		bpf_core_read(event.remote, sizeof(event.remote), &sk->__sk_common.skc_v6_daddr);
	else
		bpf_core_read(event.remote, sizeof(u32), &sk->__sk_common.skc_daddr);
	bpf_ringbuf_output(&window_events, &event, sizeof(event), 0);
}
