/* Parts of the kernel's types that the programs read. The loader relocates their fields for the running kernel (CO-RE), so that unused
 * fields are omitted. Types of the kernel's interface to user space have their full layout. */
#pragma once
#include "law/types.h"

typedef u8 __u8;
typedef u16 __u16;
typedef s32 __s32;
typedef u32 __u32;
typedef s64 __s64;
typedef u64 __u64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

#define BPF_F_NO_PREALLOC 1
#define BPF_NOEXIST 1
#define BPF_SK_STORAGE_GET_F_CREATE 1

/* linux/if_ether.h, in.h, socket.h, errno.h */
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6
#define AF_INET 2
#define AF_INET6 10
#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define EPERM 1
#define EINVAL 22

/* Programs attached to a device, linux/bpf.h */
#define TCX_NEXT -1

struct bpf_sock {
	u32 bound_dev_if, family, type, protocol, mark, priority;
};

struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority, ingress_ifindex, ifindex, tc_index;
	u32 cb[5];
	u32 hash, tc_classid, data, data_end, napi_id, family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port;
	u32 data_meta;
	u64 flow_keys;
	u64 tstamp;
	u32 wire_len, gso_segs;
	union {
		struct bpf_sock *sk;
		u64 : 64;
	} __attribute__((aligned(8)));
	u32 gso_size;
};

/* View of a TCP socket for programs attached to a device. */
struct bpf_tcp_sock {
	u32 snd_cwnd, srtt_us, rtt_min, snd_ssthresh, rcv_nxt, snd_nxt, snd_una, mss_cache, ecn_flags, rate_delivered, rate_interval_us;
	u32 packets_out, retrans_out, total_retrans, segs_in, data_segs_in, segs_out, data_segs_out, lost_out, sacked_out;
	u64 bytes_received, bytes_acked;
	u32 dsack_dups, delivered, delivered_ce, icsk_retransmits;
};

struct bpf_sockopt {
	union {
		struct bpf_sock *sk;
		u64 : 64;
	} __attribute__((aligned(8)));
	union {
		void *optval;
		u64 : 64;
	} __attribute__((aligned(8)));
	union {
		void *optval_end;
		u64 : 64;
	} __attribute__((aligned(8)));
	s32 level, optname, optlen, retval;
};

struct bpf_spin_lock {
	u32 val;
};

struct iphdr {
	u8 version_ihl, tos;
	__be16 tot_len, id, frag_off;
	u8 ttl, protocol;
	u16 check;
	__be32 saddr, daddr;
};

struct ipv6hdr {
	__be16 version_class; /* version, traffic class and first part of the flow label */
	__be16 flow;
	__be16 payload_len;
	u8 nexthdr, hop_limit;
	u8 saddr[16], daddr[16];
};

struct tcphdr {
	__be16 source, dest;
	__be32 seq, ack_seq;
	u8 offset; /* header length in the high four bits, in words of four bytes */
	u8 flags;
	__be16 window;
	u16 check, urg_ptr;
};

#define SOCK_STREAM 1

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	u32 val;
} kuid_t;

struct user_namespace {
	int level; /* 0: that of the machine */
	struct user_namespace *parent;
	kuid_t owner;
};

struct cred {
	kuid_t fsuid;
	struct user_namespace *user_ns;
};

struct file {
	const struct cred *f_cred;
};

struct socket {
	struct file *file;
};

struct net {
	u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	u8 bytes[16];
};

struct sock_common {
	__be32 skc_daddr;
	__be16 skc_dport;
	u16 skc_num, skc_family;
	struct in6_addr skc_v6_daddr;
	possible_net_t skc_net;
};

struct net_device {
	int ifindex;
};

struct dst_entry {
	struct net_device *dev;
};

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	u16 sk_type;
};

struct sk_buff {
	unsigned char *head, *data;
	struct sock *sk;
	unsigned long _skb_refdst; /* address of the route; the lowest bit is a flag */
	u16 network_header;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u8 icsk_ca_state : 5;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 rcv_nxt, snd_nxt, snd_una, write_seq;
	u32 snd_wnd, mss_cache;
	u32 snd_cwnd, snd_ssthresh, prior_cwnd, max_packets_out;
	u32 packets_out, srtt_us;
	u8 is_cwnd_limited : 1;
	u64 bytes_acked, bytes_retrans;
};

enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
};

struct ack_sample;

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *);
	void (*cong_avoid)(struct sock *, u32, u32);
	void (*cwnd_event)(struct sock *, enum tcp_ca_event);
	void (*pkts_acked)(struct sock *, const struct ack_sample *);
	u32 (*undo_cwnd)(struct sock *);
	char name[16];
	u32 flags;
	void (*init)(struct sock *);
};

#pragma clang attribute pop

/* net/tcp.h */
enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_CONG_NON_RESTRICTED 1
