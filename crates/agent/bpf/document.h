/* Start and end of documents in the byte stream of a connection. */
#pragma once
#include "maps.h"

extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym;

/* Read-only view of the kernel's own structure of a TCP socket. The type of the socket is not checked. */
static __always_inline struct tcp_sock *tcp_sock_of(const void *sk)
{
	return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
}

/* Stream offset of a sequence number, for both views of a socket. bytes_acked has 64 bits, and `seq` is less than 2 GiB from snd_una. */
#define STREAM_OFFSET(tp, seq) ((tp)->bytes_acked + (s64)(s32)((seq) - (tp)->snd_una))

static inline void begin_document(struct flow *flow, u64 at, u64 end, u32 rcv_nxt)
{
	flow->begin = at;
	flow->end = end;
	flow->rcv_nxt = rcv_nxt;
	http_init(&flow->head);
}

/* Starts the announced documents whose first byte is reached. */
static inline void begin_announced(struct flow *flow, u64 at, u32 rcv_nxt)
{
	for (int i = 0; i < ANNOUNCED && flow->first != flow->last; i++) {
		struct document *next = &flow->announced[flow->first % ANNOUNCED];
		if (next->begin > at)
			break;
		begin_document(flow, next->begin, next->end, rcv_nxt);
		flow->first++;
	}
}

/* Bytes per read of a header, and largest number of reads per packet. Longer headers are not parsed. */
#define PIECE 256
#define PIECES 24
/* Largest number of responses per packet whose ends are found. */
#define RESPONSES 4

/* Part of a header. The numbers are here because the verifier would follow each of their values on the stack. */
struct piece {
	u32 read, len; /* bytes that have been read, and all of them */
	u8 bytes[PIECE + HTTP_AHEAD];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct piece);
} pieces SEC(".maps");

/* Result of a step of the parser. */
struct step {
	u64 body;
	u32 read;
	u32 is_over;
};

struct reading {
	struct __sk_buff *skb;
	struct flow *flow;
	struct piece *piece;
	u64 at, from, until; /* stream offsets of the next byte, the first byte in the packet, and the end of the packet */
	u32 offset;          /* position of the first byte in the packet */
	u32 pieces;          /* remaining reads */
	struct step step;
};

/* Reads some bytes of a header. The verifier checks functions like this one, which are not static, once, and not for each way that leads to
 * them. */
__noinline int read_some_of(struct http_head *head, struct piece *piece, struct step *step)
{
	if (!head || !piece || !step)
		return 0;
	u32 from = piece->read;
	if (from >= PIECE || from >= piece->len)
		return 0;
	bool is_over = false;
	step->read = http_step(head, piece->bytes + from, piece->len - from, &is_over, &step->body);
	step->is_over = is_over;
	return 0;
}

static long read_some(u32 index, struct reading *reading)
{
	struct step *step = &reading->step;
	step->read = 0;
	read_some_of(&reading->flow->head, reading->piece, step);
	reading->piece->read += step->read;
	reading->at += step->read;
	return step->is_over != 0 || step->read == 0;
}

static long read_piece(u32 index, struct reading *reading)
{
	u64 len = min_u64(less_u64(reading->until, reading->at), PIECE);
	u32 offset = reading->offset + (u32)(reading->at - reading->from);
	/* Hides the bound from the compiler, which would otherwise remove the check that the verifier requires. */
	asm volatile("" : "+r"(len));
	if (len == 0 || len > PIECE)
		return 1;
	if (reading->pieces == 0 || bpf_skb_load_bytes(reading->skb, offset, reading->piece->bytes, len) < 0) {
		http_lose(&reading->flow->head);
		reading->step.is_over = true;
		reading->step.body = HTTP_NONE;
		return 1;
	}
	reading->pieces--;
	reading->piece->read = 0;
	reading->piece->len = len;
	bpf_loop(len, read_some, reading, 0);
	return reading->step.is_over != 0;
}

/* Reads the header of a response. Starts the next document if the response ends in the packet; otherwise returns 1 to end the loop. */
static long read_response(u32 index, struct reading *reading)
{
	struct flow *flow = reading->flow;
	if (!flow->head.is_over) {
		reading->step.is_over = false;
		bpf_loop(PIECES, read_piece, reading, 0);
		if (!reading->step.is_over)
			return 1;
		u64 body = reading->step.body;
		flow->end = body > U64_MAX / 2 ? SPM_UNKNOWN : reading->at + body;
	}
	if (flow->end >= reading->until)
		return 1;
	begin_document(flow, flow->end, SPM_UNKNOWN, flow->rcv_nxt);
	reading->at = flow->begin;
	return 0;
}

static inline bool begins_response(struct __sk_buff *skb, u32 offset)
{
	char begin[HTTP_PREFIX_LEN];
	if (bpf_skb_load_bytes(skb, offset, begin, sizeof(begin)) < 0)
		return false;
	for (int i = 0; i < HTTP_PREFIX_LEN; i++)
		if (begin[i] != HTTP_PREFIX[i])
			return false;
	return true;
}

/* Newly sent data: stream offsets of its start and end, and RCV.NXT at its transmission. */
struct data {
	u64 from, until;
	u32 rcv_nxt;
	u32 offset; /* bytes of the packet before the data */
};

/* Slow path of track_new_data, for packets in which a document may begin or end. */
__noinline bool track_boundary(struct __sk_buff *skb, struct flow *flow, const struct data *data)
{
	if (!flow || !data)
		return false;
	u64 from = data->from, until = data->until;
	u32 rcv_nxt = data->rcv_nxt;
	bool is_after_request = !flow->has_sent || rcv_nxt != flow->rcv_nxt;
	bool is_in_order = !flow->has_sent || from == flow->sent;
	flow->has_sent = 1;
	flow->sent = until;
	if (flow->announces) {
		bool ended = from < flow->end && flow->end < until;
		if (from >= flow->end)
			begin_document(flow, from, SPM_UNKNOWN, rcv_nxt);
		begin_announced(flow, from, rcv_nxt);
		return ended;
	}
	bool is_between = flow->head.is_over || flow->head.len == 0;
	bool is_over = flow->end != SPM_UNKNOWN ? from >= flow->end : is_after_request && is_between;
	if (!is_over && is_after_request && config.http)
		is_over = begins_response(skb, data->offset);
	if (is_over)
		begin_document(flow, from, SPM_UNKNOWN, rcv_nxt);
	else if (!is_in_order)
		http_lose(&flow->head);
	if (!config.http || (flow->head.is_over && flow->end >= until))
		return false;
	u32 zero = 0;
	struct piece *piece = bpf_map_lookup_elem(&pieces, &zero);
	if (!piece)
		return false;
	struct reading reading = {
		.skb = skb, .flow = flow, .piece = piece, .at = from, .from = from, .until = until, .offset = data->offset, .pieces = PIECES,
	};
	u64 begin = flow->begin;
	bpf_loop(RESPONSES, read_response, &reading, 0);
	return flow->begin != begin;
}

/* Handles newly sent data. True if a document ends before the last byte of the data, so that the packet is certain to contain the end of a
 * document. */
static __always_inline bool track_new_data(struct __sk_buff *skb, struct flow *flow, const struct data *data)
{
	bool follows = flow->has_sent && data->from == flow->sent && data->rcv_nxt == flow->rcv_nxt;
	bool is_inside = follows && !flow->announces && data->until <= flow->end && (flow->head.is_over || !config.http);
	if (!is_inside)
		return track_boundary(skb, flow, data);
	flow->sent = data->until;
	return false;
}
