/* Types that the programs and the agent share. The types of the agent are generated from this file. */
#pragma once
#include "../include/catnip.h"
#include "law/bucket.h"
#include "law/http.h"
#include "law/spm.h"
#include "law/tcp_state.h"

enum policy {
	POLICY_SPM = 0,         /* by the position in a document */
	POLICY_TCP_STATE = 1,   /* by the window */
	POLICY_APPLICATION = 2, /* one level for all packets of an application */
	POLICY_NONE = 3,        /* no marks: only the other programs are attached */
};

#define CLASSES 3
#define LEVELS 3
/* Index of the codepoint of a class (1 to 3) and a level. */
#define CODEPOINT(klass, level) (((klass) & 3) * 4 + ((level) & 3))

/* Configuration, written before the programs are loaded. Levels count from 0, HIGH, to 2, LOW. */
struct config {
	u64 high_rate, high_depth; /* token bucket of each user: bits per second, bytes; 0: no bucket */
	u64 med_rate, med_depth;
	u32 share_pct; /* share of each user's packets that may be HIGH beyond that rate, and as many MED, percent of bytes */
	u64 stranger_rate, stranger_depth; /* token bucket of SYN-ACKs, which strangers cause */
	u64 network; /* cookie of the agent's network namespace; sockets of others are ignored */
	struct spm_rules spm;
	enum policy policy;
	struct thresholds thresholds; /* of classes 2 and 3; of class 1 only if set explicitly, otherwise class 1 is always HIGH */
	u32 sets_thresholds;          /* 1: thresholds are set explicitly */
	u32 random;                   /* 1: windows above a threshold keep the level with probability threshold / window */
	u32 handshake;                /* level of SYN and SYN-ACK */
	u32 repairs;                  /* 1: retransmissions and packets sent during a recovery are HIGH */
	u32 acks;                     /* 1: ACKs have the level of the data that they acknowledge */
	u32 http;                     /* 1: documents that are not announced end where HTTP/1 headers specify */
	u32 removes_app_marks;        /* 1: marks set by local processes are removed */
	u32 fixed_level;              /* level of all packets for POLICY_APPLICATION; LEVELS: level by class */
	u32 default_class;            /* class of connections that request none */
	u32 best_class;               /* best class that processes without privileges may request */
	struct thresholds max_thresholds; /* largest thresholds that processes without privileges may request */
	u32 reports_windows;            /* 1: windows of newCWV senders are reported */
	u8 codepoints[16];            /* by CODEPOINT */
};

/* Reason for the level of a packet. The names are those of the agent's statistics. */
enum reason {
	REASON_HANDSHAKE = 0,
	REASON_END = 1,            /* FIN, RST */
	REASON_RETRANSMISSION = 2,
	REASON_RECOVERY = 3,
	REASON_LEADING = 4,
	REASON_TRAILING = 5,
	REASON_SMALL_WINDOW = 6,
	REASON_WINDOW = 7,         /* by the state of TCP */
	REASON_CLASS = 8,          /* by application */
	REASON_ACK = 9,            /* level of the data that it acknowledges */
	REASON_NONE = 10,          /* no rule makes the packet crucial */
	REASON_UNMARKED = 11,      /* not marked: an ACK without data, not TCP, or no local socket */
	REASON_WASHED = 12,        /* not marked, and a mark set by a process was removed */
	REASONS = 13,
};

/* Event at which windows are reported. The names are those of the agent's table. */
enum window_event_kind {
	EVENT_ACK = 0,        /* of new data, outside of a recovery */
	EVENT_START = 1,      /* a data packet with nothing in flight: the first one, and those after a silence */
	EVENT_CONGESTION = 2, /* a loss, an echo of CE or a timeout, before the window is reduced */
	EVENT_TIMEOUT = 3,    /* after EVENT_CONGESTION: ssthresh is that of the timeout, cwnd not yet */
	EVENT_RECOVERED = 4,  /* the end of a recovery */
};

/* Windows of a newCWV sender, bytes; UINT64_MAX: infinite, or not defined. The agent reads it by the offsets of its fields. */
struct window_event {
	u64 time; /* CLOCK_TAI, ns */
	u64 cwnd, ssthresh, pipe_ack;
	u32 number; /* of the event of its connection, from 0 */
	u32 kind;   /* enum window_event_kind */
	u32 is_validated;
	u16 local_port, remote_port;
	u32 family;
	u8 remote[16]; /* address; the first four bytes with IPv4 */
	u32 unused;
};

struct counter {
	u64 packets; /* counted as segments if several leave at once */
	u64 bytes;
	u64 together; /* segments that left together under one mark */
	u64 demoted;  /* packets that a user's limit has demoted to this level */
};

/* Announced document: stream offsets of its start and end. */
struct document {
	u64 begin, end;
};

/* Largest number of announced documents that have not begun. */
#define ANNOUNCED 4

/* State of a connection. Stream offsets count bytes without wrapping. */
struct flow {
	u64 begin;   /* start of the document */
	u64 end;     /* end of the document, or SPM_UNKNOWN */
	u64 sent;    /* end of the data sent so far */
	struct document announced[ANNOUNCED];
	struct http_head head;
	u32 first, last; /* range of announced documents that have not begun, indexed modulo ANNOUNCED */
	u32 rcv_nxt;     /* RCV.NXT when the document began */
	u32 has_sent;    /* 1: data has been sent */
	u32 announces;   /* 1: the application announces documents, and headers are not read */
	u32 klass;       /* 0: default of the policy */
	u32 has_thresholds;
	struct thresholds thresholds;
	u32 weight;
	u32 has_received; /* 1: data has been received */
	u32 received_level; /* level of the last received data */
	u32 uncounted;    /* bytes that have not yet brought the user tokens */
	u32 user;         /* user ID + 1 of the connection; 0: not known yet */
};

/* Token buckets of a user. */
struct user {
	struct bucket high, med;
};
