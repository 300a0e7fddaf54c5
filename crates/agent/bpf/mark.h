/* Marking of outgoing packets. The programs run while the socket transmits the packet, so they read the state of TCP at that time. New data
 * begins at SND.NXT. */
#pragma once
#include "document.h"

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym;

/* Parsed headers of a packet. */
struct headers {
	u32 l2;     /* bytes before the IP header */
	u32 offset; /* bytes before the payload */
	u32 payload;
	u32 seq;
	u8 dscp;
	u8 flags;
	bool is_tcp;
};

struct verdict {
	u32 level, reason;
	u32 klass;
	bool is_repair; /* sent because of a loss, or during a recovery: needs no tokens */
};

/* Masks a number with these bits, which gives the verifier an upper bound. */
#define BOUNDED(number, bits)                                                                                                      \
	({                                                                                                                         \
		u64 bounded = (number);                                                                                            \
		asm volatile("%0 &= " #bits : "+r"(bounded));                                                                      \
		bounded;                                                                                                           \
	})

static __always_inline bool parse_headers(struct __sk_buff *skb, struct headers *headers)
{
	struct sk_buff *kern_skb = bpf_cast_to_kern_ctx(skb);
	void *end = (void *)(long)skb->data_end;
	u32 protocol, l3;

	headers->l2 = BOUNDED(kern_skb->network_header - ((u64)kern_skb->data - (u64)kern_skb->head), 63);
	headers->is_tcp = false;
	/* Headers created by TCP are contiguous. */
	void *begin = (void *)(long)skb->data + headers->l2;
	struct iphdr *ip = begin;
	if ((void *)(ip + 1) > end)
		return false;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		l3 = BOUNDED((ip->version_ihl & 15) * 4, 60);
		headers->dscp = ip->tos >> 2;
		/* Fragments after the first one have no TCP header. */
		protocol = ip->frag_off & bpf_htons(0x1fff) ? 0 : ip->protocol;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip6 = begin;
		if ((void *)(ip6 + 1) > end)
			return false;
		l3 = sizeof(*ip6);
		headers->dscp = bpf_ntohs(ip6->version_class) >> 6 & 63;
		protocol = ip6->nexthdr;
	} else {
		return false;
	}
	struct tcphdr *tcp = begin + l3;
	if (protocol != IPPROTO_TCP || (void *)(tcp + 1) > end)
		return true;
	headers->is_tcp = true;
	headers->seq = bpf_ntohl(tcp->seq);
	headers->flags = tcp->flags;
	headers->offset = headers->l2 + l3 + (tcp->offset >> 4) * 4;
	headers->payload = less_u64(skb->len, headers->offset);
	return true;
}

static __always_inline void write_codepoint(struct __sk_buff *skb, u32 l2, u8 codepoint)
{
	void *end = (void *)(long)skb->data_end;
	struct iphdr *ip = (void *)(long)skb->data + BOUNDED(l2, 63);
	if ((void *)(ip + 1) > end)
		return;
	u8 old = ip->tos;
	if (ip->version_ihl >> 4 == 4) {
		u8 new = (codepoint << 2) | (old & 3);
		/* RFC 1624: HC' = ~(~HC + ~m + m'), where m is the word that contains this byte. */
		u32 sum = (u16)~ip->check + bpf_htons((u16)(0xffff ^ old)) + bpf_htons(new);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		ip->check = ~sum;
		ip->tos = new;
	} else {
		/* The traffic class is in the middle two of four nibbles. Its low two bits are those of ECN. */
		ip->version_ihl = (ip->version_ihl & 0xf0) | (codepoint >> 2);
		ip->tos = (codepoint << 6) | (old & 0x3f);
	}
}

/* Largest depth of user namespaces below that of the machine (the kernel's limit is 32). */
#define MAX_DEPTH 33

/* Set in the result of user_of if the user stays the same. */
#define IS_LASTING (1ULL << 32)

/* User whose limits a socket has, plus 1; 0 if it is not known, because no process has the socket: not yet, or no longer. It is the user who
 * made the file of the socket, whose owner may have been changed. The users of a user namespace count as the one who has made the namespace,
 * who may have many. Sockets of the kernel have no file, or not yet. */
__noinline u64 user_of(struct __sk_buff *skb)
{
	struct sk_buff *kern_skb = bpf_cast_to_kern_ctx(skb);
	u32 uid = bpf_get_socket_uid(skb);
	struct sock *sk = kern_skb->sk;
	struct socket *socket = sk ? sk->sk_socket : 0;
	if (!socket)
		return 0;
	struct file *file = socket->file;
	const struct cred *cred = file ? file->f_cred : 0;
	struct user_namespace *space = cred ? cred->user_ns : 0;

	/* The owner in the machine's namespace is that of the outermost namespace below it. */
	for (int i = 0; i < MAX_DEPTH && space && space->level > 1; i++)
		space = space->parent;
	if (!cred)
		return (u64)uid + 1;
	return ((u64)(space && space->level == 1 ? space->owner.val : cred->fsuid.val) + 1) | IS_LASTING;
}

/* Bytes of a connection that bring tokens at once, so that most packets take no lock. */
#define COUNTED_AT_ONCE 16384

/* Adds the tokens that packets bring their user, and takes those that this one needs. Lowers the level of the packet until it conforms. True
 * if the level was lowered. */
static inline bool demote(struct __sk_buff *skb, struct flow *flow, u32 len, u32 *level)
{
	u32 counted = 0, before = *level;
	if (config.high_rate == 0)
		return false;
	u32 owner = flow ? flow->user : 0;
	if (flow && !owner) {
		u64 found = user_of(skb);
		owner = found;
		if (found & IS_LASTING)
			flow->user = owner;
	}
	if (flow && config.share_pct > 0) {
		flow->uncounted += len;
		if (*level != LOW || flow->uncounted >= COUNTED_AT_ONCE) {
			counted = flow->uncounted;
			flow->uncounted = 0;
		}
	}
	if (*level == LOW && counted == 0)
		return false;
	/* A connection outlives its socket's file, so its user is known from its first packets. */
	if (flow && !owner) {
		*level = LOW;
		return before != LOW;
	}
	struct user_key key = { .uid = flow ? owner - 1 : bpf_get_socket_uid(skb), .device = skb->ifindex };
	struct locked_user *user = bpf_map_lookup_elem(&users, &key);
	if (!user) {
		struct locked_user fresh = {};
		bucket_init(&fresh.user.high, config.high_rate, config.high_depth);
		bucket_init(&fresh.user.med, config.med_rate ? config.med_rate : 1, config.med_depth);
		bpf_map_update_elem(&users, &key, &fresh, BPF_NOEXIST);
		user = bpf_map_lookup_elem(&users, &key);
		if (!user) {
			/* Users without a map entry have no tokens. */
			*level = LOW;
			return before != LOW;
		}
	}
	u64 now = bpf_ktime_get_ns();
	bpf_spin_lock(&user->lock);
	bucket_earn(&user->user.high, counted, config.share_pct);
	bucket_earn(&user->user.med, counted, config.share_pct);
	if (*level == HIGH && !bucket_admits(&user->user.high, now, len))
		*level = MED;
	if (*level == MED && (config.med_rate == 0 || !bucket_admits(&user->user.med, now, len)))
		*level = LOW;
	bpf_spin_unlock(&user->lock);
	return *level != before;
}

/* Takes tokens for a SYN-ACK. Makes it LOW if there are too few. True if it is LOW now. */
static inline bool demote_stranger(u32 len, u32 *level)
{
	u32 zero = 0;
	struct locked_bucket *strangers_bucket = bpf_map_lookup_elem(&strangers, &zero);
	if (*level != HIGH || !strangers_bucket)
		return false;
	u64 now = bpf_ktime_get_ns();
	bpf_spin_lock(&strangers_bucket->lock);
	if (!strangers_bucket->is_set) {
		bucket_init(&strangers_bucket->bucket, config.stranger_rate, config.stranger_depth);
		strangers_bucket->is_set = 1;
	}
	bool admitted = bucket_admits(&strangers_bucket->bucket, now, len);
	bpf_spin_unlock(&strangers_bucket->lock);
	if (!admitted)
		*level = LOW;
	return !admitted;
}

static inline void count(const struct __sk_buff *skb, u32 reason, u32 level, u32 len, bool demoted)
{
	u32 key = reason * LEVELS + level;
	struct counter *counter = bpf_map_lookup_elem(&counters, &key);
	if (!counter)
		return;
	u32 packets = skb->gso_segs > 1 ? skb->gso_segs : 1;
	counter->packets += packets;
	counter->bytes += len;
	if (packets > 1)
		counter->together += packets;
	if (demoted)
		counter->demoted += packets;
}

static inline u32 class_of(const struct flow *flow)
{
	return flow->klass ? flow->klass : config.default_class;
}

static __always_inline struct thresholds thresholds_of(const struct flow *flow, u32 klass)
{
	if (flow->has_thresholds)
		return flow->thresholds;
	if (klass == 1 && !config.sets_thresholds)
		return (struct thresholds){ U32_MAX, U32_MAX };
	return (struct thresholds){ config.thresholds.high, config.thresholds.med };
}

/* Level of all packets of a class, for marking by application. */
static inline u32 level_of_class(u32 klass)
{
	return config.fixed_level < LEVELS ? config.fixed_level : klass - 1;
}

/* Level of a packet with data or a FIN, and its reason. */
static __always_inline struct verdict decide(struct __sk_buff *skb, const struct bpf_tcp_sock *tp, struct flow *flow, u32 klass,
					    const struct headers *headers)
{
	u32 mss = tp->mss_cache ? tp->mss_cache : 1;
	u64 from = STREAM_OFFSET(tp, headers->seq);
	bool is_retransmission = headers->payload > 0 && (s32)(headers->seq - tp->snd_nxt) < 0;
	/* Used only for fields that bpf_tcp_sock lacks, because reads of bpf_tcp_sock cost less. */
	const struct tcp_sock *sock = tcp_sock_of(tp);
	u8 state = BPF_CORE_READ_BITFIELD(&sock->inet_conn, icsk_ca_state);
	struct data data = { .from = from, .until = from + headers->payload, .rcv_nxt = tp->rcv_nxt, .offset = headers->offset };
	bool has_ended = headers->payload > 0 && !is_retransmission && track_new_data(skb, flow, &data);

	if (config.policy == POLICY_APPLICATION)
		return (struct verdict){ level_of_class(klass), REASON_CLASS, klass, false };
	bool is_repair = is_retransmission || state >= TCP_CA_Recovery;
	if (config.policy == POLICY_TCP_STATE) {
		struct thresholds thresholds = thresholds_of(flow, klass);
		u32 receive_window = sock->snd_wnd / mss, window = tp->snd_cwnd < receive_window ? tp->snd_cwnd : receive_window;
		u32 first = config.random ? bpf_get_prandom_u32() : DRAW_NEVER;
		u32 second = config.random ? bpf_get_prandom_u32() : DRAW_NEVER;
		u32 level = tcp_state_level(&thresholds, window, state == TCP_CA_Recovery, first, second);
		return (struct verdict){ level, REASON_WINDOW, klass, is_repair };
	}
	if (headers->flags & (TCP_FIN | TCP_RST))
		return (struct verdict){ HIGH, REASON_END, klass, false };
	if (config.repairs && is_repair)
		return (struct verdict){ HIGH, is_retransmission ? REASON_RETRANSMISSION : REASON_RECOVERY, klass, true };

	struct spm_rules rules = { config.spm.leading, config.spm.trailing, config.spm.small_window };
	bool is_inside = from >= flow->begin;
	struct spm_position position = {
		.offset = is_inside ? from - flow->begin : U64_MAX / 2,
		.bytes = is_inside && flow->end != SPM_UNKNOWN ? flow->end - flow->begin : SPM_UNKNOWN,
		.window = (u64)tp->snd_cwnd * mss,
	};
	enum spm_reason rule = spm_reason(&rules, &position, mss);
	if (rule == SPM_NONE && headers->payload > mss && position.bytes != SPM_UNKNOWN) {
		/* Several segments leave under one mark, so the rules apply to the last segment, too. */
		position.offset += (headers->payload - 1) / mss * mss;
		rule = spm_reason(&rules, &position, mss);
	}
	if (rule == SPM_NONE && has_ended && rules.trailing > 0)
		rule = SPM_TRAILING;
	u32 reason = rule == SPM_LEADING      ? REASON_LEADING
		     : rule == SPM_TRAILING     ? REASON_TRAILING
		     : rule == SPM_SMALL_WINDOW ? REASON_SMALL_WINDOW
					       : REASON_NONE;
	return (struct verdict){ rule == SPM_NONE ? LOW : HIGH, reason, klass, false };
}

/* Level of a codepoint. */
static inline u32 level_of(u32 codepoint)
{
	for (int klass = 1; klass <= CLASSES; klass++)
		for (u32 level = HIGH; level < LOW; level++)
			if (config.codepoints[CODEPOINT(klass, level)] == codepoint)
				return level;
	return LOW;
}

static inline bool is_ours(u32 codepoint)
{
	return level_of(codepoint) != LOW;
}

/* Leaves a packet unmarked. Removes a mark that a local process has set if the configuration requires this. */
__noinline int pass_unmarked(struct __sk_buff *skb, u32 l2, u8 dscp, bool is_local)
{
	bool is_removed = is_local && config.removes_app_marks && is_ours(dscp);
	if (is_removed)
		write_codepoint(skb, l2, 0);
	count(skb, is_removed ? REASON_WASHED : REASON_UNMARKED, LOW, skb->len - l2, false);
	return TCX_NEXT;
}

/* Interface index of the device to which the packet is routed: this one, or one above it, such as a VLAN of it. 0 if it is not known. */
__noinline u32 routed_to(struct __sk_buff *skb)
{
	struct sk_buff *kern_skb = bpf_cast_to_kern_ctx(skb);
	u64 address = kern_skb->_skb_refdst & ~1ULL;
	if (!address)
		return 0;
	const struct dst_entry *route = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct dst_entry));
	const struct net_device *device = route->dev;
	return device ? device->ifindex : 0;
}

SEC("tcx/egress")
int catnip_mark(struct __sk_buff *skb)
{
	struct headers headers = {};
	if (!parse_headers(skb, &headers))
		return TCX_NEXT;
	struct bpf_sock *sk = skb->sk;
	/* A container may send through a device of this namespace: its packets are as those that are forwarded. */
	struct sk_buff *kern_skb = bpf_cast_to_kern_ctx(skb);
	struct sock *kern_sk = kern_skb->sk;
	if (sk && kern_sk && kern_sk->__sk_common.skc_net.net->net_cookie != config.network)
		return pass_unmarked(skb, headers.l2, headers.dscp, false);
	if (!sk || !headers.is_tcp)
		return pass_unmarked(skb, headers.l2, headers.dscp, sk != 0);
	/* A reset of no connection belongs to a socket of the kernel, which is none of TCP. */
	struct bpf_tcp_sock *tp = kern_sk && kern_sk->sk_type == SOCK_STREAM ? bpf_tcp_sock(sk) : 0;
	u32 upper = routed_to(skb);
	/* The marked device above this one has decided about the mark. */
	if (tp && upper && upper != skb->ifindex && bpf_map_lookup_elem(&marked, &upper))
		return TCX_NEXT;
	struct flow *flow = tp ? bpf_sk_storage_get(&flows, tp, 0, BPF_SK_STORAGE_GET_F_CREATE) : 0;
	struct verdict verdict = { .klass = flow ? class_of(flow) : config.default_class };
	bool by_application = config.policy == POLICY_APPLICATION;
	if (headers.flags & TCP_SYN) {
		verdict.level = by_application ? level_of_class(verdict.klass) : config.handshake;
		verdict.reason = by_application ? REASON_CLASS : REASON_HANDSHAKE;
	} else if (headers.flags & TCP_RST) {
		/* The answer to a packet of no connection is as unimportant as that packet. */
		verdict.level = !flow ? LOW : by_application ? level_of_class(verdict.klass) : HIGH;
		verdict.reason = flow && by_application ? REASON_CLASS : REASON_END;
	} else if (flow && (headers.payload > 0 || headers.flags & TCP_FIN)) {
		verdict = decide(skb, tp, flow, verdict.klass, &headers);
	} else if (flow && config.acks && headers.payload == 0) {
		/* Before the first received data, ACKs are LOW, or have the level of their class if packets are marked by application. */
		u32 default_level = by_application ? level_of_class(verdict.klass) : LOW;
		verdict.level = flow->has_received ? flow->received_level : default_level;
		verdict.reason = REASON_ACK;
	} else {
		return pass_unmarked(skb, headers.l2, headers.dscp, true);
	}
	u32 len = skb->len - headers.l2;
	/* A SYN-ACK leaves before there is a connection. */
	bool is_for_stranger = (headers.flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK);
	bool demoted = is_for_stranger     ? demote_stranger(len, &verdict.level)
		       /* Below a device with a queue, new data may look as if it were sent again. */
		       : verdict.is_repair && routed_to(skb) == skb->ifindex ? false
					   : demote(skb, flow, len, &verdict.level);
	u64 at = CODEPOINT(verdict.klass, verdict.level);
	asm volatile("%0 &= 15" : "+r"(at));
	if (headers.dscp != config.codepoints[at])
		write_codepoint(skb, headers.l2, config.codepoints[at]);
	count(skb, verdict.reason, verdict.level, len, demoted);
	if (flow && flow->weight)
		skb->priority = flow->weight;
	return TCX_NEXT;
}

/* Records the level of received data for the ACKs of the connection. */
SEC("cgroup_skb/ingress")
int catnip_ingress(struct __sk_buff *skb)
{
	struct bpf_sock *full = skb->sk ? bpf_sk_fullsock(skb->sk) : 0;
	if (!config.acks || !full || full->protocol != IPPROTO_TCP)
		return 1;
	struct headers headers = {};
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(full);
	/* Packets without data do not change the level. */
	if (!tp || !parse_headers(skb, &headers) || !headers.is_tcp || headers.payload == 0)
		return 1;
	/* The control group may have sockets in other network namespaces. */
	if (tp->inet_conn.icsk_inet.sk.__sk_common.skc_net.net->net_cookie != config.network)
		return 1;
	struct flow *flow = bpf_sk_storage_get(&flows, full, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return 1;
	flow->received_level = level_of(headers.dscp);
	flow->has_received = 1;
	return 1;
}
