// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * CATNIP-Good and DropTail (CATNIP paper, section III-C) as queueing disciplines of the kernel, from Linux 6.16 on.
 *
 * CATNIP-Good is DropTail, except that an arriving HIGH packet takes the place of a LOW one that waits. Service stays FIFO and
 * all others keep their order: HIGH and LOW say who is lost, never who goes first.
 *
 * Differences from the queues of the simulator (crates/net/src/queue):
 *  1. HIGH is AF11, LOW is all else: AF12, ARP and whatever is not IP. The simulator has three colours.
 *  2. The limit counts packets, never bytes or time. As there, the packet in transmission is one of them.
 *  3. The victim is a random one, the newest or the oldest. The simulator also knows a probe.
 *  4. A packet is given to the device when its transmission begins. There it is delivered when that has ended.
 *  5. The timer may be late. The packet that should have gone keeps its place meanwhile, so an arrival may find the queue full
 *     that is not full there. Its transmission counts from when the wire was free, so that lateness does not add up.
 *  6. What the kernel has not cut into segments yet is one packet here, and one loss.
 *  7. Random numbers are the kernel's: no seed repeats a run.
 *
 * It shapes by itself, as the kernel refuses a BPF qdisc below one that could ("only supported on root or mq", in 7.2 still).
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The kernel lends its functions to what GPL code may use; MIT is. */
char _license[] SEC("license") = "Dual MIT/GPL";

/* vmlinux.h has the kernel's types alone. These are its functions, */
void bpf_qdisc_skb_drop(struct sk_buff *packet, struct bpf_sk_buff_ptr *to_free) __ksym;
void bpf_qdisc_watchdog_schedule(struct Qdisc *qdisc, __u64 at, __u64 slack) __ksym;
void bpf_qdisc_bstats_update(struct Qdisc *qdisc, const struct sk_buff *packet) __ksym;
void bpf_kfree_skb(struct sk_buff *packet) __ksym;
void *bpf_obj_new_impl(__u64 type, void *meta) __ksym;
void bpf_obj_drop_impl(void *object, void *meta) __ksym;
int bpf_list_push_back_impl(struct bpf_list_head *list, struct bpf_list_node *node, void *meta, __u64 offset) __ksym;
struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *list) __ksym;
int bpf_iter_num_new(struct bpf_iter_num *numbers, int from, int to) __ksym;
int *bpf_iter_num_next(struct bpf_iter_num *numbers) __ksym;
void bpf_iter_num_destroy(struct bpf_iter_num *numbers) __ksym;

/* its macros, */
enum { ETH_P_IP = 0x0800, ETH_P_IPV6 = 0x86dd };
enum { NET_XMIT_SUCCESS = 0, NET_XMIT_DROP = 1 };
enum { EINVAL = 22 };

/* and what its verifier wants to know of ours. */
#define __kptr __attribute__((btf_type_tag("kptr")))
#define __contains(type, member) __attribute__((btf_decl_tag("contains:" #type ":" #member)))

enum { AF11 = 10, SECOND = 1000000000 };
enum priority { LOW, HIGH, PRIORITIES };
enum victim { RANDOM, NEWEST, OLDEST, VICTIMS };

/* What the next queue will be made with. tc has no options for a qdisc that it does not know, so this is a map that is written
 * before; queues that exist keep what they have. */
struct settings {
	__u64 rate;   /* bits per second, of IP packets with their headers */
	__u32 limit;  /* packets, the one in transmission included: at least 2, so that somebody can wait */
	__u32 victim; /* which LOW packet goes */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct waiting {
	struct bpf_list_node node;
	struct sk_buff __kptr *packet;
	__u64 arrived; /* nanoseconds */
	__u32 len;     /* of the IP packet */
	__u32 priority;
};

/* An arrival is dropped or enqueued. What was enqueued is dequeued, evicted, flushed, or waits. */
struct counters {
	__u64 dropped;
	__u64 enqueued;
	__u64 dequeued;
	__u64 evicted; /* LOW ones whose place was taken */
	__u64 flushed; /* when the device went down */
};

struct queue {
	struct bpf_spin_lock lock;
	__u32 interface; /* for who reads the counters: the number of the device */
	struct bpf_list_head packets __contains(waiting, node);
	struct settings settings;
	struct counters of[PRIORITIES];
	__u32 waiting;
	__u32 low;       /* of those that wait */
	__u32 spared;    /* LOW packets that the search for a victim has still to pass */
	__u64 free_at;   /* when the wire has sent all that it was given, in nanoseconds */
	__u64 remainder; /* of the division that told so, so that nothing is rounded away */
};

/* By the address of the kernel's own structure, so that one program serves devices of all network namespaces. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct queue);
} queues SEC(".maps");

static __always_inline struct queue *queue_of(struct Qdisc *qdisc)
{
	__u64 key = (__u64)qdisc;

	return bpf_map_lookup_elem(&queues, &key);
}

/* The kernel holds the qdisc's own lock already; the verifier insists on ours. */
static __always_inline void push(struct queue *queue, struct waiting *last)
{
	bpf_spin_lock(&queue->lock);
	bpf_list_push_back_impl(&queue->packets, &last->node, NULL, 0);
	bpf_spin_unlock(&queue->lock);
}

static __always_inline struct waiting *pop(struct queue *queue)
{
	struct bpf_list_node *first;

	bpf_spin_lock(&queue->lock);
	first = bpf_list_pop_front(&queue->packets);
	bpf_spin_unlock(&queue->lock);
	return first ? container_of(first, struct waiting, node) : NULL;
}

/* Its packet, which leaves the queue. */
static __always_inline struct sk_buff *unpack(struct Qdisc *qdisc, struct queue *queue, struct waiting *leaver)
{
	struct sk_buff *packet = bpf_kptr_xchg(&leaver->packet, NULL);

	queue->waiting--;
	queue->low -= leaver->priority == LOW;
	bpf_obj_drop_impl(leaver, NULL);
	if (packet) {
		qdisc->q.qlen--;
		qdisc->qstats.backlog -= packet->len;
	}
	return packet;
}

/* The kernel knows where the IP header begins, also where no Ethernet header is before it. */
static __always_inline enum priority priority_of(const struct sk_buff *packet)
{
	__be16 start = 0;
	__u8 traffic_class = 0;

	bpf_probe_read_kernel(&start, sizeof(start), packet->head + packet->network_header);
	if (packet->protocol == bpf_htons(ETH_P_IP))
		traffic_class = bpf_ntohs(start);
	else if (packet->protocol == bpf_htons(ETH_P_IPV6))
		traffic_class = bpf_ntohs(start) >> 4;
	return traffic_class >> 2 == AF11 ? HIGH : LOW;
}

static __always_inline __u32 ip_len(const struct sk_buff *packet)
{
	return packet->len - (packet->head + packet->network_header - packet->data);
}

/* How many LOW packets are before the one that goes. */
static __always_inline __u32 before_victim(const struct queue *queue)
{
	switch (queue->settings.victim) {
	case NEWEST:
		return queue->low - 1;
	case OLDEST:
		return 0;
	default:
		return bpf_get_prandom_u32() % queue->low;
	}
}

/* Drops a LOW packet, if one waits. A list can be taken only by its ends, so it is turned once round: each packet goes from the
 * front to the back, but for the victim. What counts them is in the map: a local number the verifier would follow turn by turn. */
static __always_inline bool evict(struct Qdisc *qdisc, struct queue *queue, struct bpf_sk_buff_ptr *to_free)
{
	struct bpf_iter_num turn;

	if (!queue->low)
		return false;
	queue->spared = before_victim(queue);
	bpf_iter_num_new(&turn, 0, queue->waiting);
	while (bpf_iter_num_next(&turn)) {
		struct waiting *one = pop(queue);

		if (!one)
			break;
		if (one->priority == LOW && queue->spared-- == 0) {
			struct sk_buff *victim = unpack(qdisc, queue, one);

			if (victim)
				bpf_qdisc_skb_drop(victim, to_free);
		} else {
			push(queue, one);
		}
	}
	bpf_iter_num_destroy(&turn);
	queue->of[LOW].evicted++;
	qdisc->qstats.drops++;
	return true;
}

static __always_inline int enqueue(struct sk_buff *packet, struct Qdisc *qdisc, struct bpf_sk_buff_ptr *to_free, bool good)
{
	enum priority priority = priority_of(packet);
	struct queue *queue = queue_of(qdisc);
	struct waiting *last;

	if (!queue)
		goto drop;
	/* The one in transmission has left already. */
	if (queue->waiting + 1 >= queue->settings.limit && !(good && priority == HIGH && evict(qdisc, queue, to_free)))
		goto drop;
	last = bpf_obj_new_impl(bpf_core_type_id_local(struct waiting), NULL);
	if (!last)
		goto drop;
	last->arrived = bpf_ktime_get_ns();
	last->len = ip_len(packet);
	last->priority = priority;
	queue->waiting++;
	queue->low += priority == LOW;
	queue->of[priority].enqueued++;
	qdisc->q.qlen++;
	qdisc->qstats.backlog += packet->len;
	packet = bpf_kptr_xchg(&last->packet, packet);
	push(queue, last);
	if (packet) /* never: there was none before */
		bpf_qdisc_skb_drop(packet, to_free);
	return NET_XMIT_SUCCESS;
drop:
	if (queue)
		queue->of[priority].dropped++;
	qdisc->qstats.drops++;
	bpf_qdisc_skb_drop(packet, to_free);
	return NET_XMIT_DROP;
}

SEC("struct_ops/enqueue")
int BPF_PROG(enqueue_good, struct sk_buff *packet, struct Qdisc *qdisc, struct bpf_sk_buff_ptr *to_free)
{
	return enqueue(packet, qdisc, to_free, true);
}

SEC("struct_ops/enqueue")
int BPF_PROG(enqueue_drop_tail, struct sk_buff *packet, struct Qdisc *qdisc, struct bpf_sk_buff_ptr *to_free)
{
	return enqueue(packet, qdisc, to_free, false);
}

SEC("struct_ops/dequeue")
struct sk_buff *BPF_PROG(dequeue, struct Qdisc *qdisc)
{
	struct queue *queue = queue_of(qdisc);
	struct waiting *first;
	struct sk_buff *packet;
	__u64 parts;

	if (!queue || !queue->waiting)
		return NULL;
	if (bpf_ktime_get_ns() < queue->free_at) {
		bpf_qdisc_watchdog_schedule(qdisc, queue->free_at, 0);
		return NULL;
	}
	first = pop(queue);
	if (!first)
		return NULL;
	if (first->arrived > queue->free_at) {
		queue->free_at = first->arrived;
		queue->remainder = 0;
	}
	parts = (__u64)first->len * 8 * SECOND + queue->remainder;
	queue->free_at += parts / queue->settings.rate;
	queue->remainder = parts % queue->settings.rate;
	queue->of[first->priority == HIGH].dequeued++;
	packet = unpack(qdisc, queue, first);
	if (packet)
		bpf_qdisc_bstats_update(qdisc, packet);
	return packet;
}

SEC("struct_ops/init")
int BPF_PROG(init, struct Qdisc *qdisc, struct nlattr *options, struct netlink_ext_ack *errors)
{
	__u32 only = 0;
	__u64 key = (__u64)qdisc;
	struct settings *given = bpf_map_lookup_elem(&settings, &only);
	struct queue empty = { .interface = qdisc->dev_queue->dev->ifindex };

	if (!given || !given->rate || given->limit < 2 || given->victim >= VICTIMS)
		return -EINVAL;
	empty.settings = *given;
	return bpf_map_update_elem(&queues, &key, &empty, BPF_ANY);
}

SEC("struct_ops/reset")
void BPF_PROG(reset, struct Qdisc *qdisc)
{
	struct queue *queue = queue_of(qdisc);
	struct bpf_iter_num each;

	if (!queue)
		return;
	bpf_iter_num_new(&each, 0, queue->waiting);
	while (bpf_iter_num_next(&each)) {
		struct waiting *first = pop(queue);
		struct sk_buff *packet;

		if (!first)
			break;
		queue->of[first->priority == HIGH].flushed++;
		packet = unpack(qdisc, queue, first);
		if (packet)
			bpf_kfree_skb(packet);
	}
	bpf_iter_num_destroy(&each);
}

SEC("struct_ops/destroy")
void BPF_PROG(destroy, struct Qdisc *qdisc)
{
	__u64 key = (__u64)qdisc;

	bpf_map_delete_elem(&queues, &key);
}

SEC(".struct_ops")
struct Qdisc_ops catnip_good = {
	.enqueue = (void *)enqueue_good,
	.dequeue = (void *)dequeue,
	.init = (void *)init,
	.reset = (void *)reset,
	.destroy = (void *)destroy,
	.id = "bpf_catnip_good",
};

SEC(".struct_ops")
struct Qdisc_ops drop_tail = {
	.enqueue = (void *)enqueue_drop_tail,
	.dequeue = (void *)dequeue,
	.init = (void *)init,
	.reset = (void *)reset,
	.destroy = (void *)destroy,
	.id = "bpf_drop_tail",
};
