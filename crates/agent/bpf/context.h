/* Socket options of include/catnip.h, by which applications describe their data. */
#pragma once
#include "document.h"

/* Checked cast to a TCP socket. Programs of this type have no helper for this cast. Sockets of other families have protocols with the same
 * number. */
static inline struct tcp_sock *tcp_of(struct bpf_sock *sk)
{
	if (!sk || sk->protocol != IPPROTO_TCP || sk->type != SOCK_STREAM || (sk->family != AF_INET && sk->family != AF_INET6))
		return 0;
	return tcp_sock_of(sk);
}

static inline int reject_option(int error)
{
	bpf_set_retval(-error);
	return 0;
}

/* Accepts an option. The kernel does not process the option further. */
static inline int accept_option(struct bpf_sockopt *option)
{
	option->optlen = -1;
	return 1;
}

static inline bool is_root(void)
{
	return (u32)bpf_get_current_uid_gid() == 0;
}

/* True for options of this agent. A control group may have processes in several network namespaces, each with its own agent. */
static inline bool is_for_us(struct bpf_sockopt *option)
{
	return option->level == SOL_CATNIP && bpf_get_netns_cookie(option) == config.network;
}

static inline bool announce(const struct tcp_sock *tp, struct flow *flow, u64 bytes)
{
	/* The array is full: the new document replaces the last one, whose end is then not marked. */
	if (flow->last - flow->first >= ANNOUNCED)
		flow->last = flow->first + ANNOUNCED - 1;
	u64 begin = STREAM_OFFSET(tp, tp->write_seq);
	if (begin + bytes < begin)
		return false;
	struct document *next = &flow->announced[flow->last % ANNOUNCED];
	next->begin = begin;
	next->end = begin + bytes;
	flow->last++;
	flow->announces = 1;
	return true;
}

SEC("cgroup/setsockopt")
int catnip_setopt(struct bpf_sockopt *option)
{
	if (!is_for_us(option))
		return 1;
	void *value = option->optval, *end = option->optval_end;
	struct tcp_sock *tp = tcp_of(option->sk);
	struct flow *flow = tp ? bpf_sk_storage_get(&flows, option->sk, 0, BPF_SK_STORAGE_GET_F_CREATE) : 0;
	if (!flow || value + 4 > end)
		return reject_option(EINVAL);
	u32 first = *(u32 *)value;
	switch (option->optname) {
	case CATNIP_DOCUMENT: {
		u64 bytes = value + 8 <= end && option->optlen >= 8 ? *(u64 *)value : first;
		return bytes > 0 && announce(tp, flow, bytes) ? accept_option(option) : reject_option(EINVAL);
	}
	case CATNIP_CLASS:
		if (first > CLASSES)
			return reject_option(EINVAL);
		if (first != 0 && first < config.best_class && !is_root())
			return reject_option(EPERM);
		flow->klass = first;
		return accept_option(option);
	case CATNIP_THRESHOLDS: {
		if (value + sizeof(struct catnip_thresholds) > end)
			return reject_option(EINVAL);
		struct catnip_thresholds *thresholds = value;
		if (thresholds->high > thresholds->med)
			return reject_option(EINVAL);
		if ((thresholds->high > config.max_thresholds.high || thresholds->med > config.max_thresholds.med) && !is_root())
			return reject_option(EPERM);
		flow->thresholds.high = thresholds->high;
		flow->thresholds.med = thresholds->med;
		flow->has_thresholds = 1;
		return accept_option(option);
	}
	case CATNIP_WEIGHT:
		/* Same limit as for SO_PRIORITY. */
		if (first > 6 && !is_root())
			return reject_option(EPERM);
		flow->weight = first;
		return accept_option(option);
	default:
		return reject_option(EINVAL);
	}
}

SEC("cgroup/getsockopt")
int catnip_getopt(struct bpf_sockopt *option)
{
	if (!is_for_us(option))
		return 1;
	void *value = option->optval, *end = option->optval_end;
	struct tcp_sock *tp = tcp_of(option->sk);
	struct flow *flow = tp ? bpf_sk_storage_get(&flows, option->sk, 0, 0) : 0;
	if (!tp || value + 4 > end)
		return reject_option(EINVAL);
	switch (option->optname) {
	case CATNIP_DOCUMENT: {
		/* Length of the last announced document, or of the current one. */
		u64 bytes = 0;
		if (flow && flow->first != flow->last) {
			struct document *last = &flow->announced[(flow->last - 1) % ANNOUNCED];
			bytes = last->end - last->begin;
		} else if (flow && flow->end != SPM_UNKNOWN) {
			bytes = flow->end - flow->begin;
		}
		if (value + 8 <= end && option->optlen >= 8) {
			*(u64 *)value = bytes;
			option->optlen = 8;
		} else {
			*(u32 *)value = bytes > U32_MAX ? U32_MAX : bytes;
			option->optlen = 4;
		}
		break;
	}
	case CATNIP_CLASS:
		*(u32 *)value = flow && flow->klass ? flow->klass : config.default_class;
		option->optlen = 4;
		break;
	case CATNIP_THRESHOLDS: {
		if (value + sizeof(struct catnip_thresholds) > end)
			return reject_option(EINVAL);
		struct catnip_thresholds *thresholds = value;
		bool is_set = flow && flow->has_thresholds;
		thresholds->high = is_set ? flow->thresholds.high : config.thresholds.high;
		thresholds->med = is_set ? flow->thresholds.med : config.thresholds.med;
		option->optlen = sizeof(*thresholds);
		break;
	}
	case CATNIP_WEIGHT:
		*(u32 *)value = flow ? flow->weight : 0;
		option->optlen = 4;
		break;
	default:
		return reject_option(EINVAL);
	}
	option->retval = 0;
	return 1;
}
