// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * CATNIP-Good and DropTail (CATNIP paper, section III-C) as queueing disciplines of the kernel, from Linux 6.16 on.
 *
 * CATNIP-Good is DropTail, except that an arriving HIGH packet pushes out a waiting LOW packet if the queue is full. Service is
 * FIFO and the other packets keep their order: HIGH and LOW determine which packet is dropped, not which one is sent first.
 *
 * Differences from the queues of the simulator (crates/net/src/queue):
 *  1. HIGH is AF11, and LOW is everything else: AF12, ARP and all packets that are not IP. The simulator has three levels.
 *  2. The limit is in packets, not in bytes or time. As in the simulator, it includes the packet in transmission.
 *  3. The packet to push out is a random LOW packet, the newest or the oldest. The simulator also has the rule "probe".
 *  4. A packet is passed to the device at the start of its transmission. The simulator delivers it at the end.
 *  5. The timer may be late. The packet to send then stays in the queue for longer, so an arriving packet may find the queue full
 *     although it would not be full in the simulator. The transmission of the packet to send counts from the time at which the link
 *     became free, so delays of the timer do not add up.
 *  6. A packet that the kernel has not split into segments yet counts as one packet, and as one loss.
 *  7. Random numbers are those of the kernel, so runs cannot be repeated with a seed.
 *
 * The qdisc also shapes, because the kernel rejects a BPF qdisc below a shaper ("only supported on root or mq", also in 7.2).
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The functions of the kernel require a license that is compatible with GPL, as MIT is. */
char _license[] SEC("license") = "Dual MIT/GPL";

/* Kernel functions. vmlinux.h contains only the types of the kernel. */
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

/* Macros of the kernel. */
enum { ETH_P_IP = 0x0800, ETH_P_IPV6 = 0x86dd };
enum { NET_XMIT_SUCCESS = 0, NET_XMIT_DROP = 1 };
enum { EINVAL = 22 };

/* Annotations of types for the verifier. */
#define __kptr __attribute__((btf_type_tag("kptr")))
#define __contains(type, member) __attribute__((btf_decl_tag("contains:" #type ":" #member)))

enum { AF11 = 10, SECOND = 1000000000 };
enum priority { LOW, HIGH, PRIORITIES };
enum victim { RANDOM, NEWEST, OLDEST, VICTIMS };

/* Settings of the next queue that is created. tc has no options for an unknown qdisc, so the settings are written to a map in advance.
 * Existing queues keep their settings. */
struct settings {
	__u64 rate;   /* bits per second of IP packets, including their headers */
	__u32 limit;  /* packets, including the one in transmission; at least 2, so that one packet can wait */
	__u32 victim; /* LOW packet to drop */
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
	__u32 len;     /* length of the IP packet, bytes */
	__u32 priority;
};

/* Arriving packets are dropped or enqueued. Enqueued packets are dequeued, evicted, flushed, or still waiting. */
struct counters {
	__u64 dropped;
	__u64 enqueued;
	__u64 dequeued;
	__u64 evicted; /* LOW packets that were pushed out */
	__u64 flushed; /* dropped when the device went down */
};

struct queue {
	struct bpf_spin_lock lock;
	__u32 interface; /* index of the device, for readers of the counters */
	struct bpf_list_head packets __contains(waiting, node);
	struct settings settings;
	struct counters of[PRIORITIES];
	__u32 waiting;
	__u32 low;       /* waiting LOW packets */
	__u32 spared;    /* LOW packets that the search for a victim has yet to skip */
	__u64 free_at;   /* end of the last transmission, in nanoseconds */
	__u64 remainder; /* remainder of the division for free_at, kept so that rounding errors do not add up */
};

/* Queues by the address of their struct Qdisc, so that one program serves the devices of all network namespaces. */
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

/* The kernel already holds the lock of the qdisc, but the verifier requires this lock for the list. */
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

/* Removes a waiting packet from the counts, frees its entry and returns the packet. */
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

/* Priority of a packet. network_header is the offset of the IP header, also without an Ethernet header. */
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

/* Number of waiting LOW packets in front of the victim. */
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

/* Drops a waiting LOW packet. False if no LOW packet waits. A list is accessible only at its ends, so all packets except the victim move
 * from the front to the back once. The counter is in the map, because the verifier would follow a local variable in each iteration. */
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
	/* The packet in transmission is no longer in the list. */
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
	if (packet) /* never: the entry was empty */
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
